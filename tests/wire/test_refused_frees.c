// SPDX-License-Identifier: Apache-2.0
// Workers that refuse to free: the engine, gRPC and the core of a worker, over
// a device that refuses. What was to be freed counts as used until the worker
// has let go of it, and it is asked again until it does.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "proto/grpc_driver.h"
#include "tests/lib/near_worker.h"
#include "tests/lib/pod_fixture.h"
#include "tests/lib/reference_driver.h"

enum {
    CORES = 2,
    MEMORY = 1 << 20,
    BYTES = 600000,   // more than half
    WAIT_MS = 100000, // for what comes, on a busy machine
};

struct refusing {
    struct fixture fix; // the pod alone
    struct pod_grpc_hub *hub;
    struct near_worker *worker;
};

// ------------------------------------------------------------------ the device

// A driver that refuses to deallocate for a while: the call goes to the driver
// below with a handle that it does not have, and what it answers is turned into
// a refusal.
static atomic_bool refuses;
static atomic_int refusals;
static const struct pod_driver_ops *willing;

struct refusal {
    void (*done)(void *arg, const struct pod_driver_result *result);
    void *arg;
};

static void refused(void *arg, const struct pod_driver_result *result)
{
    struct refusal refusal = *(struct refusal *)arg;
    struct pod_driver_result answer = *result;

    pod_free(arg);
    assert_int_equal(result->err.code, POD_NOT_FOUND);
    atomic_fetch_add(&refusals, 1);
    (void)pod_err_set(&answer.err, POD_REASON_OUT_OF_MEMORY, "not now");
    refusal.done(refusal.arg, &answer);
}

static void deallocate(struct pod_driver *driver,
                       const struct pod_driver_call *call, uint64_t buffer)
{
    struct pod_driver_call wrong = *call;
    struct refusal *refusal;

    if (!atomic_load(&refuses)) {
        willing->deallocate(driver, call, buffer);
        return;
    }
    refusal = pod_malloc(sizeof(*refusal));
    assert_non_null(refusal);
    *refusal = (struct refusal){.done = call->done, .arg = call->arg};
    wrong.started = NULL;
    wrong.done = refused;
    wrong.arg = refusal;
    willing->deallocate(driver, &wrong, UINT32_MAX);
}

static struct pod_driver *driver_new(struct pod_gang_hub *gangs)
{
    static struct pod_driver_ops ops;
    struct pod_driver *driver = reference_driver_new(CORES, MEMORY, gangs);

    atomic_store(&refuses, true);
    atomic_store(&refusals, 0);
    willing = driver->ops;
    ops = *willing;
    ops.deallocate = deallocate;
    driver->ops = &ops;
    return driver;
}

// --------------------------------------------------------------------- the pod

static struct near_worker *start_worker(bool plain)
{
    static const struct worker_slice slice = {.x = CORES,
                                              .y = 1,
                                              .z = 1,
                                              .cores_per_chip = 1,
                                              .hosts = 1,
                                              .hbm_bytes = MEMORY};
    struct pod_gang_hub *gangs = pod_gang_hub_new(1);

    assert_non_null(gangs);
    struct pod_driver *driver = driver_new(gangs);
    struct near_worker *worker = plain
                                     ? near_worker_start_plain(driver, &slice)
                                     : near_worker_start(driver, gangs, CORES);
    pod_gang_hub_unref(gangs);
    return worker;
}

static void start(struct refusing *pod, bool plain)
{
    const struct pod_options options = {
        .clock = pod_clock_system,
        .instance = "test",
        .history_count = 1,
        .history_age_ns = 3600 * POD_NS_PER_S,
        .first_number = 1,
        .staging_bytes = MEMORY,
        .chunk_bytes = MEMORY,
    };
    struct pod_grpc_options host = {
        .connect_ns = 60 * POD_NS_PER_S,
        .heartbeat_ns = POD_NS_PER_S / 20,
        // A busy machine is no reason to give a worker up here.
        .silence_ns = 60 * POD_NS_PER_S,
    };
    struct pod_driver *driver;
    struct pod_err err;

    memset(pod, 0, sizeof(*pod));
    pod->worker = start_worker(plain);
    pod->fix.pod = pod_new(&options);
    assert_non_null(pod->fix.pod);
    assert_int_equal(pod_grpc_hub_new(NULL, &pod->hub, &err), POD_OK);
    host.hub = pod->hub;
    host.address = near_worker_address(pod->worker);
    assert_int_equal(pod_grpc_driver_new(&host, &driver, &err), POD_OK);
    assert_int_equal(pod_add_host(pod->fix.pod, driver, host.address, &err),
                     POD_OK);
    assert_int_equal(pod_start(pod->fix.pod, &err), POD_OK);
    pod_await_hosts(pod->fix.pod, 60 * POD_NS_PER_S);
}

static void stop(struct refusing *pod)
{
    pod_stop(pod->fix.pod);
    pod_destroy(pod->fix.pod);
    pod_grpc_hub_free(pod->hub);
    near_worker_stop(pod->worker);
    assert_int_equal(pod_mem_live(), 0);
}

static enum pod_sched_state await_end(struct refusing *pod, uint64_t number)
{
    enum pod_sched_state state = POD_SCHED_WAITING;

    while (!pod_sched_terminal(state)) {
        (void)usleep(1000);
        state = fixture_state(&pod->fix, number);
    }
    return state;
}

static uint64_t core_used(struct refusing *pod)
{
    struct pod_topology_view view;
    struct pod_err err;

    assert_int_equal(pod_get_topology(pod->fix.pod, &view, &err), POD_OK);
    uint64_t used = pod_topology_core(&view, 0)->memory_used;
    pod_topology_view_fini(&view);
    return used;
}

static uint64_t allocate(struct refusing *pod)
{
    uint64_t buffer = fixture_allocate(&pod->fix, 0, BYTES);

    assert_int_equal(await_end(pod, buffer), POD_SCHED_SUCCEEDED);
    return buffer;
}

// Until it was refused so often in all.
static void await_refusals(int count)
{
    for (int i = 0; atomic_load(&refusals) < count; i++) {
        if (i == WAIT_MS)
            fail_msg("it was not asked again");
        (void)usleep(1000);
    }
}

static void await_unused(struct refusing *pod)
{
    for (int i = 0; core_used(pod) > 0; i++) {
        if (i == WAIT_MS)
            fail_msg("it still counts as used");
        (void)usleep(1000);
    }
}

static void check_buffer(bool plain)
{
    struct refusing pod;
    struct pod_err err;
    struct pod_buffer_view view;

    start(&pod, plain);
    uint64_t buffer = allocate(&pod);
    uint64_t gone = fixture_free(&pod.fix, buffer);
    assert_int_equal(await_end(&pod, gone), POD_SCHED_FAILED);
    assert_int_equal(core_used(&pod), BYTES);
    assert_int_equal(pod_get_buffer(pod.fix.pod, buffer, &view, &err), POD_OK);
    assert_int_equal(view.state, POD_HANDLE_FREED);
    pod_buffer_view_fini(&view);
    // The worker has no room for another, and says so.
    uint64_t second = fixture_allocate(&pod.fix, 0, BYTES);
    assert_int_equal(await_end(&pod, second), POD_SCHED_FAILED);
    await_refusals(2);
    assert_int_equal(core_used(&pod), BYTES);
    atomic_store(&refuses, false);
    await_unused(&pod);
    // Now it has.
    gone = fixture_free(&pod.fix, allocate(&pod));
    assert_int_equal(await_end(&pod, gone), POD_SCHED_SUCCEEDED);
    assert_int_equal(core_used(&pod), 0);
    stop(&pod);
}

static void test_a_buffer(void **state)
{
    (void)state;
    check_buffer(false);
}

static void test_a_buffer_by_the_original_protocol(void **state)
{
    (void)state;
    check_buffer(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_buffer),
        cmocka_unit_test(test_a_buffer_by_the_original_protocol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
