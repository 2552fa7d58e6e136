// SPDX-License-Identifier: Apache-2.0
// Random programs of operations on workers behind gRPC, against a model that
// runs them one after the other: what is sent ahead, on two streams and to
// several hosts, must come to the same. Run with POD_SEEDS=n for another number
// of programs, POD_SEED=n for just that one.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/driver/inproc.h"
#include "proto/grpc_driver.h"
#include "tests/lib/near_worker.h"
#include "tests/lib/op_model.h"
#include "tests/lib/pod_fixture.h"
#include "tests/unit/fake_device.h"

enum { HOSTS_MAX = 3, CORES_OF_HOST = 2, STEPS = 60 };

struct remote {
    struct near_worker *workers[HOSTS_MAX];
    uint32_t hosts;
    struct pod_grpc_hub *hub;
    struct pod *pod;
};

// ------------------------------------------------------------------------ pods

static struct near_worker *start_worker(bool plain)
{
    static const struct worker_slice slice = {.x = 2,
                                              .y = 1,
                                              .z = 1,
                                              .cores_per_chip = 1,
                                              .hosts = 1,
                                              .hbm_bytes = 1 << 20};

    static const struct pod_driver_chip chips[] = {{.x = 0}, {.x = 1}};
    static const uint32_t core_chips[CORES_OF_HOST] = {0, 1};
    struct fake_device *fake = fake_new(CORES_OF_HOST, 1 << 20);
    struct pod_gang_hub *hub = pod_gang_hub_new(2);
    struct pod_inproc_options options = {
        .device = &fake->base,
        .hub = hub,
        .host_count = 1,
        .chips = chips,
        .chip_count = 2,
        .core_chips = core_chips,
    };
    struct pod_driver *driver;

    assert_non_null(hub);
    assert_int_equal(pod_inproc_new(&options, &driver, NULL), POD_OK);
    struct near_worker *worker = plain ? near_worker_start_plain(driver, &slice)
                                       : near_worker_start(driver, hub, 2);
    pod_gang_hub_unref(hub);
    return worker;
}

static void add_host(struct remote *remote, uint32_t host)
{
    struct pod_grpc_options options = {
        .hub = remote->hub,
        .host = host,
        .address = near_worker_address(remote->workers[host]),
        // A busy machine is no reason to give a worker up here.
        .connect_ns = 60 * POD_NS_PER_S,
        .silence_ns = 60 * POD_NS_PER_S,
    };
    struct pod_driver *driver;
    struct pod_err err;

    assert_int_equal(pod_grpc_driver_new(&options, &driver, &err), POD_OK);
    assert_int_equal(pod_add_host(remote->pod, driver, options.address, &err),
                     POD_OK);
}

// Bit n of `plain`: host n speaks the original protocol alone.
static void start(struct remote *remote, uint32_t hosts, size_t chunk_bytes,
                  unsigned plain, bool trusts_order)
{
    struct pod_options options = {
        .clock = pod_clock_system,
        .instance = "test",
        .history_count = 100000,
        .history_age_ns = 3600 * POD_NS_PER_S,
        .first_number = 1,
        .staging_bytes = 1 << 20,
        .chunk_bytes = chunk_bytes,
    };
    struct pod_err err;

    *remote = (struct remote){.hosts = hosts};
    remote->pod = pod_new(&options);
    assert_non_null(remote->pod);
    assert_int_equal(pod_grpc_hub_new(NULL, &remote->hub, &err), POD_OK);
    if (trusts_order)
        pod_grpc_hub_trust_order(remote->hub);
    for (uint32_t i = 0; i < hosts; i++) {
        remote->workers[i] = start_worker((plain >> i & 1) != 0);
        add_host(remote, i);
    }
    assert_int_equal(pod_start(remote->pod, &err), POD_OK);
    pod_await_hosts(remote->pod, 60 * POD_NS_PER_S);
}

static void stop(struct remote *remote)
{
    uint64_t used, max;

    pod_stop(remote->pod);
    pod_staging_usage(remote->pod, &used, &max);
    assert_int_equal(used, 0);
    pod_destroy(remote->pod);
    pod_grpc_hub_free(remote->hub);
    for (uint32_t i = 0; i < remote->hosts; i++)
        near_worker_stop(remote->workers[i]);
    assert_int_equal(pod_mem_live(), 0);
}

// -------------------------------------------------------------------- checking

static bool is_root(const struct model *model, const struct model_op *op,
                    uint64_t number)
{
    for (size_t i = 0; i < model->op_count; i++) {
        if (op->roots[i] && model->ops[i].number == number)
            return true;
    }
    return false;
}

static void check_data(const struct model *model, const struct model_op *op)
{
    struct pod_data data;
    struct pod_err err = POD_ERR_NONE;
    size_t size = 0;

    assert_int_equal(pod_take_data(model->pod, op->number, &data, &err),
                     POD_OK);
    assert_int_equal(data.bytes, op->data_size);
    for (size_t i = 0; i < data.chunk_count; i++) {
        size_t count = data.chunks[i]->size;
        assert_true(size + count <= op->data_size);
        assert_memory_equal(data.chunks[i]->data, op->data + size, count);
        size += count;
    }
    assert_int_equal(size, op->data_size);
    pod_data_fini(&data);
    assert_int_equal(pod_drop_data(model->pod, op->number, NULL), POD_OK);
}

static void check_op(const struct model *model, const struct model_op *op)
{
    struct pod_event_view view;
    const char *expected = !op->bad      ? "SUCCEEDED"
                           : op->skipped ? "SKIPPED"
                                         : "FAILED";

    assert_int_equal(pod_get_event(model->pod, op->number, &view, NULL),
                     POD_OK);
    if (strcmp(pod_sched_state_name(view.state), expected) != 0)
        fail_msg("seed %llu, operation %llu (%s): %s where %s was expected: %s",
                 (unsigned long long)model->seed,
                 (unsigned long long)op->number, pod_kind_name(op->kind),
                 pod_sched_state_name(view.state), expected,
                 view.has_error ? view.error.detail : "no error");
    if (op->bad)
        assert_true(is_root(model, op, view.root));
    pod_event_view_fini(&view);
    if (op->kind == POD_KIND_READ && !op->bad)
        check_data(model, op);
}

// ----------------------------------------------------------------------- tests

static void run_program(uint64_t seed, bool with_plain)
{
    bool trusts_order = false;
    unsigned plain = 0;

    static struct model model;
    struct remote remote;

    memset(&model, 0, sizeof(model));
    model.seed = seed;
    uint32_t hosts = 1 + (uint32_t)model_pick(&model, HOSTS_MAX);
    // Some pieces are smaller than a buffer.
    size_t chunk_bytes = model_pick(&model, 2) == 0 ? 3 : 0;
    if (with_plain) {
        plain = 1 + (unsigned)model_pick(&model, (1U << hosts) - 1);
        trusts_order = model_pick(&model, 2) == 0;
        model.no_programs = true; // the fake device's are words
        model.compiled = true;
    }
    start(&remote, hosts, chunk_bytes, plain, trusts_order);
    model.pod = remote.pod;
    model.cores = hosts * CORES_OF_HOST;
    model_run(&model, STEPS);
    pod_await_idle(model.pod, 60 * POD_NS_PER_S);
    for (size_t i = 0; i < model.op_count; i++)
        check_op(&model, &model.ops[i]);
    stop(&remote);
}

static void run_programs(uint64_t seeds, bool with_plain)
{
    const char *one = getenv("POD_SEED");
    const char *text = getenv("POD_SEEDS");

    if (text != NULL)
        seeds = strtoull(text, NULL, 10) / (with_plain ? 4 : 1);
    if (one != NULL) {
        run_program(strtoull(one, NULL, 10), with_plain);
        return;
    }
    for (uint64_t seed = 1; seed <= seeds; seed++)
        run_program(seed, with_plain);
}

static void test_random_programs(void **state)
{
    (void)state;
    run_programs(100, false);
}

// Parts of buffers, and copies between workers that move whole buffers only and
// others; what is sent ahead to those whose order is trusted.
static void test_random_moves_with_plain_workers(void **state)
{
    (void)state;
    run_programs(50, true);
}

// -------------------------------------------------------------- gangs that end

enum { GANG_CORES = HOSTS_MAX * CORES_OF_HOST, GANG_STEPS = 60, GANG_MAX = 3 };

struct gangs {
    struct fixture fix; // the pod alone
    struct model random;
    uint64_t loads[GANG_CORES][GANG_MAX + 1]; // by replicas
    uint64_t buffers[GANG_CORES][4];          // an input, and outputs
    uint64_t ops[GANG_STEPS];
    size_t op_count;
    size_t succeeded;
};

static void gangs_make(struct gangs *gangs)
{
    for (uint32_t replicas = 2; replicas <= GANG_MAX; replicas++) {
        struct pod_request request = fixture_request(POD_KIND_COMPILE);
        struct pod_blob *word = pod_blob_new(3);
        assert_non_null(word);
        memcpy(word->data, "sum", 3);
        request.compile.format = POD_FORMAT_HLO_TEXT;
        request.compile.program = word;
        request.compile.replicas = replicas;
        request.compile.digest = "sum";
        uint64_t program = fixture_submit(&gangs->fix, &request);
        pod_blob_unref(word);
        for (uint32_t core = 0; core < GANG_CORES; core++)
            gangs->loads[core][replicas] =
                fixture_load_on(&gangs->fix, program, core);
    }
    for (uint32_t core = 0; core < GANG_CORES; core++) {
        for (int i = 0; i < 4; i++)
            gangs->buffers[core][i] = fixture_allocate(&gangs->fix, core, 4);
    }
}

// Of some cores from a random one on. What was lost is refused.
static void gangs_submit(struct gangs *gangs)
{
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_launch launches[GANG_MAX];
    struct pod_ref refs[GANG_MAX][2];
    size_t replicas = 2 + (size_t)model_pick(&gangs->random, GANG_MAX - 1);
    size_t core = (size_t)model_pick(&gangs->random, GANG_CORES);
    struct pod_err err;

    memset(launches, 0, sizeof(launches));
    for (size_t i = 0; i < replicas; i++) {
        size_t output = 1 + (size_t)model_pick(&gangs->random, 3);
        launches[i].load = fixture_load(gangs->loads[core][replicas]);
        refs[i][0] = fixture_buffer(gangs->buffers[core][0]);
        refs[i][1] = fixture_buffer(gangs->buffers[core][output]);
        launches[i].inputs = &refs[i][0];
        launches[i].input_count = 1;
        launches[i].outputs = &refs[i][1];
        launches[i].output_count = 1;
        core = (core + 1 + (size_t)model_pick(&gangs->random, 2)) % GANG_CORES;
    }
    request.execute.launches = launches;
    request.execute.launch_count = replicas;
    request.execute.is_gang = true;
    request.priority = (int)model_pick(&gangs->random, 21) - 10;
    if (pod_submit(gangs->fix.pod, &request, 1, &gangs->ops[gangs->op_count],
                   NULL, &err) == POD_OK)
        gangs->op_count++;
}

static void gangs_step(struct gangs *gangs)
{
    uint64_t which = model_pick(&gangs->random, 100);
    struct pod_err err;
    bool again;

    gangs_submit(gangs);
    if (which < 25 && gangs->op_count > 0)
        (void)!pod_cancel(
            gangs->fix.pod,
            gangs->ops[model_pick(&gangs->random, gangs->op_count)],
            POD_CASCADE_NONE, NULL, &again, &err);
    if (which == 99)
        (void)!pod_reconnect(gangs->fix.pod,
                             (uint32_t)model_pick(&gangs->random, HOSTS_MAX),
                             &err);
}

static size_t run_gangs(uint64_t seed)
{
    static struct gangs gangs;
    struct remote remote;

    memset(&gangs, 0, sizeof(gangs));
    gangs.random.seed = seed;
    start(&remote, HOSTS_MAX, 0, 0, false);
    gangs.fix.pod = remote.pod;
    gangs_make(&gangs);
    for (int i = 0; i < GANG_STEPS; i++)
        gangs_step(&gangs);
    pod_await_idle(remote.pod, 60 * POD_NS_PER_S);
    for (size_t i = 0; i < gangs.op_count; i++) {
        enum pod_sched_state state = fixture_state(&gangs.fix, gangs.ops[i]);
        if (!pod_sched_terminal(state))
            fail_msg("seed %llu: op-%llu has not ended",
                     (unsigned long long)seed,
                     (unsigned long long)gangs.ops[i]);
        gangs.succeeded += state == POD_SCHED_SUCCEEDED;
    }
    stop(&remote);
    return gangs.succeeded;
}

// Gangs of several workers share cores, with priorities of their own; some are
// cancelled, or lose a host. None waits for another for ever.
static void test_gangs_end(void **state)
{
    size_t succeeded = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 15; seed++)
        succeeded += run_gangs(seed);
    assert_true(succeeded > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_random_moves_with_plain_workers),
        cmocka_unit_test(test_gangs_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
