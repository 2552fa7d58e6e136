// SPDX-License-Identifier: Apache-2.0
// Hosts that are added to a running pod, drained, and taken away.
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

#include "api/feed_message.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/pod/changes.h"
#include "core/pod/engine.h"
#include "server/pod_spec.h"
#include "tests/lib/pod_fixture.h"

// ------------------------------------------------------------------ fake hosts

static enum pod_code make_fake(void *arg, uint32_t host,
                               struct pod_driver **out_driver,
                               struct pod_err *err)
{
    struct fixture *fix = arg;

    (void)err;
    assert_true(host < FIXTURE_MAX_HOSTS);
    fix->host[host] = fake_driver_new(2, FIXTURE_MEMORY, 0);
    *out_driver = fix->host[host];
    return POD_OK;
}

static enum pod_code join(struct fixture *fix, const char *address,
                          uint32_t *out_id, struct pod_err *err)
{
    const struct pod_driver_maker maker = {.make = make_fake, .arg = fix};

    return pod_join_host(fix->pod, address, &maker, out_id, err);
}

static uint32_t must_join(struct fixture *fix, const char *address)
{
    struct pod_err err;
    uint32_t id = POD_NO_ID;

    assert_int_equal(join(fix, address, &id, &err), POD_OK);
    fix->host_count = id + 1;
    return id;
}

// Its driver is freed by a thread of its own: the test lets go of it.
static void must_remove(struct fixture *fix, uint32_t id, bool force)
{
    struct pod_err err;

    assert_int_equal(pod_remove_host(fix->pod, id, force, &err), POD_OK);
}

static void set_up_hosts(struct fixture *fix, size_t hosts)
{
    fixture_init(fix, hosts);
}

static enum pod_host_state state_of(struct fixture *fix, uint32_t id)
{
    struct pod_topology_view view;
    struct pod_err err;

    assert_int_equal(pod_get_topology(fix->pod, &view, &err), POD_OK);
    const struct pod_host_view *host = pod_topology_host(&view, id);
    assert_non_null(host);
    enum pod_host_state state = host->state;
    pod_topology_view_fini(&view);
    return state;
}

static void await_end(struct fixture *fix, uint64_t number)
{
    while (fixture_state(fix, number) <= POD_SCHED_RUNNING)
        sched_yield();
}

// A thread of its own ends a host that was removed; then nothing knows it.
static void await_forgotten(struct fixture *fix, uint32_t id)
{
    bool there = true;

    while (there) {
        sched_yield();
        pod_mutex_lock(&fix->pod->lock);
        there = fix->pod->hosts[id] != NULL;
        pod_mutex_unlock(&fix->pod->lock);
    }
}

static void test_a_host_is_added(void **unused)
{
    struct fixture fix;
    struct pod_topology_view view;
    struct pod_err err;

    (void)unused;
    set_up_hosts(&fix, 1);
    assert_int_equal(must_join(&fix, "far:1"), 1);
    assert_int_equal(state_of(&fix, 1), POD_HOST_CONNECTING);
    fake_ready(fix.host[1]);
    assert_int_equal(state_of(&fix, 1), POD_HOST_READY);
    assert_int_equal(pod_get_topology(fix.pod, &view, &err), POD_OK);
    assert_int_equal(view.host_count, 2);
    assert_int_equal(view.core_count, 4);
    assert_int_equal(view.cores[2].id, 2);
    assert_int_equal(view.cores[2].host, 1);
    assert_int_equal(view.ready.reason, POD_CONDITION_REASON_ALL_HOSTS_READY);
    pod_topology_view_fini(&view);
    uint64_t buffer = fixture_allocate(&fix, 3, 8);
    fake_run(fix.host[1]);
    assert_state(&fix, buffer, "SUCCEEDED");
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

static void test_an_address_is_there_once(void **unused)
{
    struct fixture fix;
    struct pod_err err;
    uint32_t id;

    (void)unused;
    set_up_hosts(&fix, 1);
    must_join(&fix, "far:1");
    assert_int_equal(join(&fix, "far:1", &id, &err), POD_ALREADY_EXISTS);
    assert_int_equal(err.reason, POD_REASON_HOST_EXISTS);
    must_remove(&fix, 1, false);
    fix.host_count = 1;
    assert_int_equal(must_join(&fix, "far:1"), 2);
    pod_drain(fix.pod);
    assert_int_equal(join(&fix, "far:2", &id, &err), POD_UNAVAILABLE);
    assert_int_equal(err.reason, POD_REASON_DRAINING);
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

static enum pod_code make_none(void *arg, uint32_t host,
                               struct pod_driver **out_driver,
                               struct pod_err *err)
{
    (void)arg;
    (void)host;
    (void)out_driver;
    return pod_err_set(err, POD_REASON_BAD_TEXT, "there is none");
}

static void test_what_cannot_be_made_takes_no_id(void **unused)
{
    const struct pod_driver_maker maker = {.make = make_none};
    struct fixture fix;
    struct pod_err err;
    uint32_t id;

    (void)unused;
    set_up_hosts(&fix, 1);
    assert_int_equal(pod_join_host(fix.pod, "x", &maker, &id, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(must_join(&fix, "x"), 1);
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

static enum pod_code make_plain(void *arg, uint32_t host,
                                struct pod_driver **out_driver,
                                struct pod_err *err)
{
    (void)arg;
    (void)host;
    (void)err;
    *out_driver = fake_driver_new(1, FIXTURE_MEMORY, 0);
    return POD_OK;
}

static void test_there_are_only_so_many(void **unused)
{
    const struct pod_driver_maker maker = {.make = make_plain};
    struct fixture fix;
    struct pod_err err;
    uint32_t id;

    (void)unused;
    set_up_hosts(&fix, 1);
    for (uint32_t i = 1; i < POD_MAX_HOSTS; i++)
        assert_int_equal(pod_join_host(fix.pod, NULL, &maker, &id, &err),
                         POD_OK);
    assert_int_equal(id, POD_MAX_HOSTS - 1);
    assert_int_equal(pod_join_host(fix.pod, NULL, &maker, &id, &err),
                     POD_RESOURCE_EXHAUSTED);
    assert_int_equal(err.reason, POD_REASON_TOO_MANY_HOSTS);
    assert_string_equal(err.limit, "hosts");
    assert_int_equal(err.used, POD_MAX_HOSTS);
    assert_int_equal(err.max, POD_MAX_HOSTS);
    assert_non_null(strstr(err.text, "1024"));
    // One that was removed makes room, and its id is not used again.
    must_remove(&fix, 7, false);
    assert_int_equal(pod_join_host(fix.pod, NULL, &maker, &id, &err), POD_OK);
    assert_int_equal(id, POD_MAX_HOSTS);
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

static void test_a_host_in_use_stays(void **unused)
{
    struct fixture fix;
    struct pod_err err;

    (void)unused;
    set_up_hosts(&fix, 2);
    uint64_t buffer = fixture_allocate(&fix, 2, 8);
    assert_int_equal(pod_remove_host(fix.pod, 1, false, &err),
                     POD_FAILED_PRECONDITION);
    assert_int_equal(err.reason, POD_REASON_IN_USE);
    assert_non_null(strstr(err.text, "open operations: 1"));
    fake_run(fix.host[1]);
    assert_int_equal(pod_remove_host(fix.pod, 1, false, &err),
                     POD_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "live buffers: 1"));
    fixture_free(&fix, buffer);
    fake_run(fix.host[1]);
    must_remove(&fix, 1, false);
    fix.host_count = 1;
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

static void test_ids_are_used_once(void **unused)
{
    struct fixture fix;
    struct pod_topology_view view;
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_err err;

    (void)unused;
    set_up_hosts(&fix, 2);
    must_remove(&fix, 1, false);
    assert_int_equal(pod_cordon(fix.pod, 1, true, &err), POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    assert_int_equal(pod_remove_host(fix.pod, 1, true, &err), POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    assert_int_equal(pod_reconnect(fix.pod, 7, &err), POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_NOT_FOUND);
    assert_int_equal(must_join(&fix, "new"), 2);
    fake_ready(fix.host[2]);
    assert_int_equal(pod_get_topology(fix.pod, &view, &err), POD_OK);
    assert_int_equal(view.host_count, 2);
    assert_int_equal(view.hosts[1].id, 2);
    assert_int_equal(view.host_ids, 3);
    assert_int_equal(view.core_count, 4);
    assert_int_equal(view.cores[2].id, 4);
    assert_int_equal(view.chips[1].id, 2);
    assert_null(pod_topology_core(&view, 3));
    pod_topology_view_fini(&view);
    request.allocate.core = 3;
    request.allocate.bytes = 8;
    fixture_refused(&fix, &request, POD_REASON_UNKNOWN_CORE);
    must_remove(&fix, 0, false);
    must_remove(&fix, 2, false);
    assert_int_equal(pod_get_topology(fix.pod, &view, &err), POD_OK);
    assert_int_equal(view.host_count, 0);
    assert_int_equal(view.ready.reason, POD_CONDITION_REASON_NO_HOSTS);
    pod_topology_view_fini(&view);
    fix.host_count = 0;
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

static void test_force_loses_what_is_there(void **unused)
{
    struct fixture fix;
    struct pod_buffer_view view;
    struct pod_err err;

    (void)unused;
    set_up_hosts(&fix, 2);
    uint64_t here = fixture_allocate(&fix, 0, 8);
    uint64_t there = fixture_allocate(&fix, 2, 8);
    fixture_run(&fix);
    uint64_t writing = fixture_write(&fix, there, 0, 8);
    uint64_t copying = fixture_copy(&fix, there, here);
    uint64_t placing = fixture_allocate(&fix, 3, 8);
    must_remove(&fix, 1, true);
    fix.host_count = 1;
    await_end(&fix, writing);
    await_end(&fix, placing);
    fixture_run(&fix);
    assert_state(&fix, writing, "LOST");
    assert_state(&fix, copying, "SKIPPED");
    assert_state(&fix, placing, "LOST");
    assert_int_equal(fixture_root(&fix, copying), there);
    assert_int_equal(pod_get_buffer(fix.pod, there, &view, &err), POD_OK);
    assert_int_equal(view.state, POD_HANDLE_LOST);
    pod_buffer_view_fini(&view);
    // Its own handle can still be freed, and its neighbours live.
    uint64_t freeing = fixture_free(&fix, there);
    assert_state(&fix, freeing, "SUCCEEDED");
    uint64_t again = fixture_write(&fix, here, 0, 8);
    fixture_run(&fix);
    assert_state(&fix, again, "SUCCEEDED");
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

static void test_programs_are_compiled_where_they_are_loaded(void **unused)
{
    struct fixture fix;
    struct pod_program_view view;
    struct pod_err err;

    (void)unused;
    set_up_hosts(&fix, 1);
    uint64_t program = fixture_compile(&fix, "sha-256:1");
    fixture_run(&fix);
    assert_int_equal(fake_count(fix.host[0], FAKE_COMPILE), 1);
    must_join(&fix, "new");
    fake_ready(fix.host[1]);
    uint64_t load = fixture_load_on(&fix, program, 2);
    assert_int_equal(fake_count(fix.host[1], FAKE_COMPILE), 1);
    fixture_run(&fix);
    assert_state(&fix, load, "SUCCEEDED");
    assert_int_equal(fake_count(fix.host[1], FAKE_LOAD), 1);
    assert_int_equal(fake_count(fix.host[0], FAKE_COMPILE), 1);
    // The same content again has been compiled there, too.
    uint64_t same = fixture_compile(&fix, "sha-256:1");
    fixture_run(&fix);
    assert_int_equal(fake_count(fix.host[1], FAKE_COMPILE), 1);
    assert_int_equal(pod_get_program(fix.pod, same, &view, &err), POD_OK);
    assert_int_equal(view.host_count, 2);
    pod_program_view_fini(&view);
    must_remove(&fix, 1, true);
    fix.host_count = 1;
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

// Hosts that come later need a program in any order.
static void test_compiled_hosts_stay_in_order(void **unused)
{
    static const uint32_t cores[] = {4, 2, 4, 0};
    struct fixture fix;
    struct pod_program_view view;
    struct pod_err err;

    (void)unused;
    set_up_hosts(&fix, 1);
    uint64_t program = fixture_compile(&fix, "sha-256:1");
    for (int i = 1; i <= 2; i++) {
        must_join(&fix, i == 1 ? "one" : "two");
        fake_ready(fix.host[i]);
    }
    for (size_t i = 0; i < sizeof(cores) / sizeof(cores[0]); i++) {
        uint64_t load = fixture_load_on(&fix, program, cores[i]);
        fixture_run(&fix);
        assert_state(&fix, load, "SUCCEEDED");
    }
    uint64_t same = fixture_compile(&fix, "sha-256:1");
    fixture_run(&fix);
    assert_int_equal(pod_get_program(fix.pod, same, &view, &err), POD_OK);
    assert_int_equal(view.host_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(view.hosts[i].host, i);
        assert_int_equal(fake_count(fix.host[i], FAKE_COMPILE), 1);
    }
    pod_program_view_fini(&view);
    for (uint32_t i = 0; i < 3; i++)
        must_remove(&fix, i, true);
    fix.host_count = 0;
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

// A host that is forgotten leaves the others what they have, and room for the
// next.
static void test_compiled_hosts_are_forgotten(void **unused)
{
    struct fixture fix;

    (void)unused;
    set_up_hosts(&fix, 2);
    uint64_t program = fixture_compile(&fix, "sha-256:1");
    fixture_run(&fix);
    must_remove(&fix, 0, false);
    await_forgotten(&fix, 0);
    assert_int_equal(must_join(&fix, "new"), 2);
    fake_ready(fix.host[2]);
    uint64_t stays = fixture_load_on(&fix, program, 2);
    uint64_t comes = fixture_load_on(&fix, program, 4);
    for (uint32_t i = 1; i <= 2; i++)
        fake_run(fix.host[i]);
    assert_state(&fix, stays, "SUCCEEDED");
    assert_state(&fix, comes, "SUCCEEDED");
    for (uint32_t i = 1; i <= 2; i++) {
        assert_int_equal(fake_count(fix.host[i], FAKE_COMPILE), 1);
        must_remove(&fix, i, true);
    }
    fix.host_count = 0;
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

static void test_a_drain_ends_with_the_last_operation(void **unused)
{
    struct fixture fix;
    struct pod_waiter waiter = {.owner = NULL};
    struct pod_waiter other = {.owner = NULL};
    struct pod_topology_view view;
    struct pod_list woken;
    struct pod_err err;

    (void)unused;
    set_up_hosts(&fix, 2);
    uint64_t buffer = fixture_allocate(&fix, 2, 8);
    assert_int_equal(pod_cordon(fix.pod, 1, true, &err), POD_OK);
    assert_true(pod_wait_drained(fix.pod, &waiter, 1));
    assert_int_equal(pod_get_topology(fix.pod, &view, &err), POD_OK);
    assert_int_equal(view.hosts[1].conditions[POD_CONDITION_DRAINED].reason,
                     POD_CONDITION_REASON_OPERATIONS_OPEN);
    pod_topology_view_fini(&view);
    pod_list_init(&woken);
    pod_take_woken(fix.pod, &woken);
    assert_true(pod_list_empty(&woken));
    fixture_run(&fix);
    assert_state(&fix, buffer, "SUCCEEDED");
    pod_take_woken(fix.pod, &woken);
    assert_ptr_equal(pod_list_pop_front(&woken), &waiter.link);
    assert_false(pod_wait_drained(fix.pod, &waiter, 1));
    assert_int_equal(pod_get_topology(fix.pod, &view, &err), POD_OK);
    assert_int_equal(view.hosts[1].conditions[POD_CONDITION_DRAINED].status,
                     POD_CONDITION_TRUE);
    pod_topology_view_fini(&view);
    // Who calls it off, and who takes the host away, ends the waiting, too.
    fixture_free(&fix, buffer);
    assert_true(pod_wait_drained(fix.pod, &waiter, 1));
    assert_int_equal(pod_cordon(fix.pod, 1, false, &err), POD_OK);
    pod_take_woken(fix.pod, &woken);
    assert_ptr_equal(pod_list_pop_front(&woken), &waiter.link);
    assert_true(pod_wait_drained(fix.pod, &other, 1));
    must_remove(&fix, 1, true);
    pod_take_woken(fix.pod, &woken);
    assert_ptr_equal(pod_list_pop_front(&woken), &other.link);
    fix.host_count = 1;
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

// ------------------------------------------------------------------ real hosts

#define ROUNDS 100

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

// Two hosts that stay have work all the time.
static void *rounds_load(void *arg)
{
    struct rounds *rounds = arg;

    while (!atomic_load(&rounds->stop)) {
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
    assert_int_equal(pod_get_summary(rounds.pod, &summary, &err), POD_OK);
    for (int i = POD_SCHED_WAITING; i <= POD_SCHED_RUNNING; i++)
        assert_int_equal(summary.by_state[i], 0);
    assert_int_equal(summary.host_count, 2);
    pod_summary_fini(&summary);
    pod_stop(rounds.pod);
    pod_destroy(rounds.pod);
    pod_spec_shared_free(rounds.shared);
    assert_int_equal(pod_mem_live(), 0);
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
    pod_stop(rounds.pod);
    pod_destroy(rounds.pod);
    pod_spec_shared_free(rounds.shared);
    assert_int_equal(pod_mem_live(), 0);
}

// Whether a reader of the change is told now that the host was removed.
static bool tells_of_removal(struct fixture *fix, uint64_t sequence,
                             const struct pod_change *change)
{
    const struct api_cursor cursor = {.sequence = sequence};
    struct feed_message *message =
        feed_message_of_change(fix->pod, &cursor, change);

    assert_non_null(message);
    bool tells =
        !message->needless && strstr(message->text, "\"removed\":true") != NULL;
    feed_message_unref(message);
    return tells;
}

// A reader that knows of no later change encodes one after the host has gone.
static void test_one_change_tells_of_a_removal(void **unused)
{
    enum { CHANGES = 8 };
    struct fixture fix;
    struct pod_change items[CHANGES];
    struct pod_err err;
    size_t count = 0;
    size_t told = 0;

    (void)unused;
    set_up_hosts(&fix, 2);
    uint64_t start = pod_last_change(fix.pod, false);
    assert_int_equal(pod_cordon(fix.pod, 1, true, &err), POD_OK);
    assert_int_equal(pod_last_change(fix.pod, false), start + 1);
    must_remove(&fix, 1, false);
    assert_int_equal(
        pod_read_changes(fix.pod, start, CHANGES, items, &count, &err), POD_OK);
    assert_true(count >= 2);
    assert_int_equal(items[0].number, 1);
    for (size_t i = 0; i < count; i++)
        told += tells_of_removal(&fix, start + 1 + i, &items[i]);
    assert_int_equal(told, 1);
    assert_true(tells_of_removal(&fix, start + count, &items[count - 1]));
    fixture_fini(&fix);
    assert_int_equal(pod_mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_host_is_added),
        cmocka_unit_test(test_an_address_is_there_once),
        cmocka_unit_test(test_what_cannot_be_made_takes_no_id),
        cmocka_unit_test(test_there_are_only_so_many),
        cmocka_unit_test(test_a_host_in_use_stays),
        cmocka_unit_test(test_ids_are_used_once),
        cmocka_unit_test(test_force_loses_what_is_there),
        cmocka_unit_test(test_programs_are_compiled_where_they_are_loaded),
        cmocka_unit_test(test_compiled_hosts_stay_in_order),
        cmocka_unit_test(test_compiled_hosts_are_forgotten),
        cmocka_unit_test(test_a_drain_ends_with_the_last_operation),
        cmocka_unit_test(test_rounds_under_load),
        cmocka_unit_test(test_removed_before_it_answers),
        cmocka_unit_test(test_one_change_tells_of_a_removal),
    };

    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT); // losses are meant here
    return cmocka_run_group_tests(tests, NULL, NULL);
}
