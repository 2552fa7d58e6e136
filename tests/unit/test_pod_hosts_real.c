// SPDX-License-Identifier: Apache-2.0
// Hosts in this process that come and go while others work.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/pod_spec.h"
#include "tests/lib/pod_fixture.h"

enum { ROUNDS = 100, MOST_OPEN = 100 };

struct rounds {
    struct pod *pod;
    struct pod_spec_shared *shared;
    uint64_t program;
    uint64_t load; // on core 0
    atomic_bool stop;
    atomic_ulong copies;
};

static const char sum[] =
    "HloModule sum\n"
    "add { a = s32[] parameter(0) b = s32[] parameter(1)\n"
    "  ROOT c = s32[] add(a, b) }\n"
    "ENTRY main { p = s32[4] parameter(0)\n"
    "  ROOT r = s32[4] all-reduce(p), replica_groups={{0,1}}, to_apply=add }\n";

static void rounds_start(struct rounds *rounds)
{
    struct pod_options options = {
        .clock = pod_clock_system,
        .instance = "rounds",
        .history_count = 50,
        .history_age_ns = POD_NEVER,
        .first_number = 1,
        .staging_bytes = 1 << 20,
    };
    struct pod_spec spec;
    struct pod_err err;

    rounds->pod = pod_new(&options);
    assert_non_null(rounds->pod);
    assert_int_equal(pod_spec_parse("local:2x1x1,hosts=2", &spec, &err),
                     POD_OK);
    assert_int_equal(
        pod_spec_add_hosts(&spec, rounds->pod, &rounds->shared, &err), POD_OK);
    assert_int_equal(pod_start(rounds->pod, &err), POD_OK);
    pod_await_hosts(rounds->pod, POD_NEVER);
}

static void rounds_end(struct rounds *rounds)
{
    pod_stop(rounds->pod);
    pod_destroy(rounds->pod);
    pod_spec_shared_free(rounds->shared);
    assert_int_equal(pod_mem_live(), 0);
}

// 0: refused.
static uint64_t rounds_submit(struct rounds *rounds,
                              const struct pod_request *request)
{
    uint64_t number = 0;
    struct pod_err err;

    return pod_submit(rounds->pod, request, 1, &number, NULL, &err) == POD_OK
               ? number
               : 0;
}

static uint64_t rounds_allocate(struct rounds *rounds, uint32_t core)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_shape shape;

    assert_int_equal(pod_shape_parse("s32[4]", 6, &shape, NULL), POD_OK);
    request.allocate.core = core;
    request.allocate.shape = &shape;
    uint64_t number = rounds_submit(rounds, &request);
    pod_shape_fini(&shape);
    return number;
}

static void rounds_copy_free(struct rounds *rounds, uint64_t from, uint64_t to)
{
    struct pod_request request = fixture_request(POD_KIND_COPY);

    if (from == 0 || to == 0)
        return;
    request.copy.from = fixture_buffer(from);
    request.copy.to = fixture_buffer(to);
    rounds_submit(rounds, &request);
    request = fixture_request(POD_KIND_FREE);
    request.free.handle = fixture_buffer(from);
    rounds_submit(rounds, &request);
    request.free.handle = fixture_buffer(to);
    rounds_submit(rounds, &request);
}

static uint64_t rounds_open(struct rounds *rounds)
{
    struct pod_summary summary;
    struct pod_err err;
    uint64_t open = 0;

    assert_int_equal(pod_get_summary(rounds->pod, &summary, &err), POD_OK);
    for (int i = POD_SCHED_WAITING; i <= POD_SCHED_RUNNING; i++)
        open += summary.by_state[i];
    pod_summary_fini(&summary);
    return open;
}

// Two hosts that stay have work all the time, and not ever more of it.
static void *rounds_load(void *arg)
{
    struct rounds *rounds = arg;

    while (!atomic_load(&rounds->stop)) {
        if (rounds_open(rounds) >= MOST_OPEN) {
            sched_yield();
            continue;
        }
        rounds_copy_free(rounds, rounds_allocate(rounds, 0),
                         rounds_allocate(rounds, 1));
        atomic_fetch_add(&rounds->copies, 1);
        sched_yield();
    }
    return NULL;
}

static void rounds_compile(struct rounds *rounds)
{
    struct pod_blob *blob = pod_blob_new(sizeof(sum) - 1);
    struct pod_request request = fixture_request(POD_KIND_COMPILE);

    assert_non_null(blob);
    memcpy(blob->data, sum, sizeof(sum) - 1);
    request.compile.format = POD_FORMAT_HLO_TEXT;
    request.compile.program = blob;
    request.compile.replicas = 2;
    request.compile.digest = "sha-256:sum";
    rounds->program = rounds_submit(rounds, &request);
    pod_blob_unref(blob);
    assert_int_not_equal(rounds->program, 0);
}

static uint64_t rounds_load_on(struct rounds *rounds, uint32_t core)
{
    struct pod_request request = fixture_request(POD_KIND_LOAD);

    request.load.program = fixture_program(rounds->program);
    request.load.core = core;
    return rounds_submit(rounds, &request);
}

// A gang of a core that stays and one that goes.
static uint64_t rounds_gang(struct rounds *rounds, uint64_t load, uint64_t here,
                            uint64_t there)
{
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    const struct pod_ref inputs[] = {fixture_buffer(here),
                                     fixture_buffer(there)};
    const struct pod_launch launches[] = {
        {.load = fixture_load(rounds->load),
         .inputs = &inputs[0],
         .input_count = 1,
         .outputs = &inputs[0],
         .output_count = 1},
        {.load = fixture_load(load),
         .inputs = &inputs[1],
         .input_count = 1,
         .outputs = &inputs[1],
         .output_count = 1},
    };

    request.execute.launches = launches;
    request.execute.launch_count = 2;
    request.execute.is_gang = true;
    return rounds_submit(rounds, &request);
}

static uint32_t rounds_core(struct rounds *rounds, uint32_t host)
{
    uint32_t core = POD_NO_ID;

    while (core == POD_NO_ID) {
        struct pod_topology_view view;
        struct pod_err err;
        assert_int_equal(pod_get_topology(rounds->pod, &view, &err), POD_OK);
        const struct pod_host_view *found = pod_topology_host(&view, host);
        assert_non_null(found);
        for (size_t i = 0; i < view.core_count; i++) {
            if (view.cores[i].host == host && found->state == POD_HOST_READY)
                core = view.cores[i].id;
        }
        pod_topology_view_fini(&view);
        sched_yield();
    }
    return core;
}

// It is kept as the last writer of buffers that live.
static void rounds_await(struct rounds *rounds, uint64_t number)
{
    enum pod_sched_state state = POD_SCHED_WAITING;

    while (state <= POD_SCHED_RUNNING) {
        struct pod_event_view view;
        struct pod_err err;
        assert_int_equal(pod_get_event(rounds->pod, number, &view, &err),
                         POD_OK);
        state = view.state;
        pod_event_view_fini(&view);
        sched_yield();
    }
    assert_int_equal(state, POD_SCHED_SUCCEEDED);
}

static void rounds_one(struct rounds *rounds, unsigned round)
{
    struct pod_err err;
    uint32_t host = POD_NO_ID;

    assert_int_equal(pod_spec_join(rounds->shared, NULL, &host, &err), POD_OK);
    assert_int_equal(host, 2 + round);
    uint32_t core = rounds_core(rounds, host);
    assert_int_equal(core, 2 + round);
    uint64_t here = rounds_allocate(rounds, 0);
    uint64_t there = rounds_allocate(rounds, core);
    uint64_t load = rounds_load_on(rounds, core);
    assert_int_not_equal(there, 0);
    assert_int_not_equal(load, 0);
    uint64_t gang = rounds_gang(rounds, load, here, there);
    assert_int_not_equal(gang, 0);
    // Mostly it has not ended by then.
    if (round % 10 == 9)
        rounds_await(rounds, gang);
    rounds_copy_free(rounds, there, here);
    assert_int_equal(pod_remove_host(rounds->pod, host, true, &err), POD_OK);
}

static unsigned threads_now(void)
{
    unsigned threads = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "re");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        (void)sscanf(line, "Threads: %u", &threads);
    fclose(file);
    return threads;
}

static void test_rounds_under_load(void **unused)
{
    struct rounds rounds = {.pod = NULL};
    struct pod_summary summary;
    struct pod_err err;
    pthread_t loader;

    (void)unused;
    rounds_start(&rounds);
    rounds_compile(&rounds);
    rounds.load = rounds_load_on(&rounds, 0);
    unsigned before = threads_now();
    assert_int_equal(pthread_create(&loader, NULL, rounds_load, &rounds), 0);
    for (unsigned i = 0; i < ROUNDS; i++)
        rounds_one(&rounds, i);
    atomic_store(&rounds.stop, true);
    pthread_join(loader, NULL);
    assert_int_not_equal(atomic_load(&rounds.copies), 0);
    // Every host's threads end by themselves.
    while (threads_now() > before)
        sched_yield();
    pod_await_idle(rounds.pod, POD_NEVER);
    assert_int_equal(rounds_open(&rounds), 0);
    assert_int_equal(pod_get_summary(rounds.pod, &summary, &err), POD_OK);
    assert_int_equal(summary.host_count, 2);
    pod_summary_fini(&summary);
    rounds_end(&rounds);
}

// Removed as soon as it was added, and while the pod ends.
static void test_removed_before_it_answers(void **unused)
{
    struct rounds rounds = {.pod = NULL};
    struct pod_err err;
    uint32_t host;

    (void)unused;
    rounds_start(&rounds);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(pod_spec_join(rounds.shared, "local", &host, &err),
                         POD_OK);
        assert_int_equal(pod_remove_host(rounds.pod, host, false, &err),
                         POD_OK);
    }
    assert_int_equal(pod_spec_join(rounds.shared, "h:1", &host, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_BAD_TEXT);
    assert_string_equal(err.pointer, "/address");
    rounds_end(&rounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds_under_load),
        cmocka_unit_test(test_removed_before_it_answers),
    };

    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT); // losses are meant here
    return cmocka_run_group_tests(tests, NULL, NULL);
}
