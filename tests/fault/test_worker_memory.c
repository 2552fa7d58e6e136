// SPDX-License-Identifier: Apache-2.0
// podd's driver and a worker, connected by gRPC in one process, when there is
// no memory: each allocation of a scenario fails once. Every call ends once,
// with an error or the right result; the next scenario works; nothing is left.
#include "tests/unit/driver_calls.h"

#include <stdbool.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/grpc_driver.h"
#include "tests/lib/near_worker.h"
#include "tests/lib/reference_driver.h"

enum { CORES = 2, STEPS = 12, MOST_ALLOCATIONS = 2000, TRIES = 20 };

static const char doubling[] = "HloModule m\n"
                               "ENTRY e {\n"
                               "  a = s32[] parameter(0)\n"
                               "  ROOT c = s32[] add(a, a)\n"
                               "}\n";

struct pair {
    struct near_worker *worker;
    struct pod_grpc_hub *hub;
    struct pod_driver *driver;
    struct calls_watch watch;
    bool is_open; // guarded by the watch's lock
    struct pod_blob *program;
    struct pod_blob *value;
    struct pod_shape shape;
    uint64_t last; // number that was used
};

static void set_open(struct pair *pair, bool is_open)
{
    pod_mutex_lock(&pair->watch.lock);
    pair->is_open = is_open;
    pod_cond_broadcast(&pair->watch.changed);
    pod_mutex_unlock(&pair->watch.lock);
}

static void on_ready(void *arg, const struct pod_driver_info *info)
{
    calls_on_ready(arg, info);
    set_open(POD_CONTAINER(arg, struct pair, watch), true);
}

static void on_lost(void *arg, const struct pod_err *err)
{
    set_open(POD_CONTAINER(arg, struct pair, watch), false);
    calls_on_lost(arg, err);
}

static void open_pair(struct pair *pair, bool plain)
{
    struct pod_gang_hub *gangs = pod_gang_hub_new(2);
    const int32_t seven = 7;
    static const struct worker_slice slice = {.x = CORES,
                                              .y = 1,
                                              .z = 1,
                                              .cores_per_chip = 1,
                                              .hosts = 1,
                                              .hbm_bytes = 1 << 20};
    struct pod_grpc_options options = {
        .connect_ns = 20 * POD_NS_PER_S,
        // Nothing but the scenario shall allocate.
        .heartbeat_ns = 1000 * POD_NS_PER_S,
        .silence_ns = 1000 * POD_NS_PER_S,
        .backoff_min_ns = POD_NS_PER_S / 1000,
        .backoff_max_ns = POD_NS_PER_S / 1000,
    };

    memset(pair, 0, sizeof(*pair));
    assert_non_null(gangs);
    pair->worker =
        plain ? near_worker_start_plain(
                    reference_driver_new(CORES, 1 << 20, gangs), &slice)
              : near_worker_start(reference_driver_new(CORES, 1 << 20, gangs),
                                  gangs, CORES);
    pod_gang_hub_unref(gangs);
    options.address = near_worker_address(pair->worker);
    assert_int_equal(pod_grpc_hub_new(NULL, &pair->hub, NULL), POD_OK);
    options.hub = pair->hub;
    assert_int_equal(pod_grpc_driver_new(&options, &pair->driver, NULL),
                     POD_OK);
    assert_int_equal(pod_shape_parse("s32[]", 5, &pair->shape, NULL), POD_OK);
    pair->program = calls_blob(doubling, sizeof(doubling) - 1);
    pair->value = calls_blob(&seven, sizeof(seven));
    calls_watch_init(&pair->watch);
    struct pod_driver_observer observer = calls_observer(&pair->watch);
    observer.ready = on_ready;
    observer.lost = on_lost;
    pair->driver->ops->open(pair->driver, &observer);
}

static void close_pair(struct pair *pair)
{
    pair->driver->ops->close(pair->driver);
    pair->driver->ops->free(pair->driver);
    pod_grpc_hub_free(pair->hub);
    near_worker_stop(pair->worker);
    pod_blob_unref(pair->program);
    pod_blob_unref(pair->value);
    pod_shape_fini(&pair->shape);
    assert_int_equal(pair->watch.inlined, 0);
    calls_watch_fini(&pair->watch);
    assert_int_equal(pod_mem_live(), 0);
}

static void await_open(struct pair *pair)
{
    pod_mutex_lock(&pair->watch.lock);
    while (!pair->is_open)
        pod_cond_wait(&pair->watch.changed, &pair->watch.lock);
    pod_mutex_unlock(&pair->watch.lock);
}

static void begin_step(struct pair *pair, const struct pod_driver_call *call,
                       int step, uint64_t base)
{
    struct pod_driver *driver = pair->driver;
    const struct pod_driver_ops *ops = driver->ops;
    const uint64_t parts[] = {base, base + 1};

    if (step < 2)
        ops->allocate(driver, call, 0, &pair->shape, 0);
    else if (step == 2)
        ops->write(driver, call, base, 0, pair->value, 0, sizeof(int32_t));
    else if (step == 3)
        ops->compile(driver, call, POD_FORMAT_HLO_TEXT, pair->program, 1);
    else if (step == 4)
        ops->load(driver, call, 0, base + 3);
    else if (step == 5)
        calls_execute(driver, call, base + 4, base, base + 1);
    else if (step == 6)
        ops->copy(driver, call, base + 1, base);
    else if (step == 7)
        ops->read(driver, call, base, 0, sizeof(int32_t));
    else if (step == 8)
        ops->allocate_tuple(driver, call, 0, parts, 2);
    else if (step == 9)
        ops->deallocate(driver, call, base + 8);
    else if (step == 10)
        ops->unload(driver, call, base + 4);
    else
        ops->deallocate(driver, call, base);
}

// One call of each kind, on numbers of its own. Says whether all went well.
static bool live(struct pair *pair)
{
    uint64_t base = pair->last + 1;
    bool well = true;

    pair->last += STEPS;
    for (int step = 0; step < STEPS; step++) {
        struct calls_record record;
        struct pod_driver_call call =
            calls_make(&pair->watch, &record, base + (uint64_t)step);
        int32_t value = 0;
        begin_step(pair, &call, step, base);
        enum pod_code code = calls_end(&record);
        assert_int_equal(record.done, 1);
        if (code == POD_INTERNAL || code == POD_UNKNOWN)
            fail_msg("step %d: %s", step, record.err.text);
        well = well && code == POD_OK;
        if (step != 7 || code != POD_OK)
            continue;
        assert_int_equal(record.data_size, sizeof(value));
        memcpy(&value, record.data, sizeof(value));
        assert_true(!well || value == 14);
    }
    return well;
}

// The host may just be about to be lost by what failed.
static void await_well(struct pair *pair)
{
    int tries = 0;

    do {
        assert_true(tries++ < TRIES);
        await_open(pair);
    } while (!live(pair));
}

static void every_allocation_fails(bool plain)
{
    struct pair pair;
    int failed = 0, well = 0;

    open_pair(&pair, plain);
    await_open(&pair);
    assert_true(live(&pair));
    // Failures that the loop's or the worker's own threads met shift the rest,
    // so a scenario that goes well is no end yet.
    for (long nth = 0; well < 10; nth++) {
        assert_true(nth < MOST_ALLOCATIONS);
        pod_mem_fail_after(nth, 1);
        bool good = live(&pair);
        pod_mem_fail_after(-1, 0);
        failed += !good;
        well = good ? well + 1 : 0;
        if (!good)
            await_well(&pair);
    }
    printf("%d scenarios failed\n", failed);
    assert_true(failed > 3 * STEPS);
    close_pair(&pair);
}

static void test_no_memory(void **state)
{
    (void)state;
    every_allocation_fails(false);
}

static void test_no_memory_plain(void **state)
{
    (void)state;
    every_allocation_fails(true);
}

// As it connects: some attempts fail, then one succeeds.
static void test_no_memory_to_connect(void **state)
{
    (void)state;
    for (long nth = 0; nth < 60; nth++) {
        struct pair pair;

        open_pair(&pair, false);
        await_open(&pair);
        int ready = pair.watch.ready;
        pod_mem_fail_after(nth, 1);
        pair.driver->ops->reconnect(pair.driver);
        calls_await(&pair.watch, &pair.watch.ready, ready + 1);
        pod_mem_fail_after(-1, 0);
        await_well(&pair);
        close_pair(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_plain),
        cmocka_unit_test(test_no_memory_to_connect),
    };

    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
