// SPDX-License-Identifier: Apache-2.0
// Tuples and signs of life between podd's driver and a worker, by our own
// protocol and by the plain one.
#include "tests/unit/driver_calls.h"

#include <stdbool.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "proto/grpc_driver.h"
#include "tests/lib/near_worker.h"
#include "tests/lib/reference_driver.h"

static const char swap[] = "HloModule m\n"
                           "ENTRY e {\n"
                           "  t = (s32[], s32[]) parameter(0)\n"
                           "  a = s32[] get-tuple-element(t), index=0\n"
                           "  b = s32[] get-tuple-element(t), index=1\n"
                           "  d = s32[] add(a, a)\n"
                           "  ROOT r = (s32[], s32[]) tuple(b, d)\n"
                           "}\n";

struct pair {
    struct near_worker *worker;
    struct pod_grpc_hub *hub;
    struct pod_driver *driver;
    struct calls_watch watch;
};

static void open_pair(struct pair *pair, bool plain)
{
    struct pod_gang_hub *gangs = pod_gang_hub_new(1);
    static const struct worker_slice slice = {.x = 1,
                                              .y = 1,
                                              .z = 1,
                                              .cores_per_chip = 1,
                                              .hosts = 1,
                                              .hbm_bytes = 1 << 20};
    struct pod_grpc_options options = {
        .connect_ns = 30 * POD_NS_PER_S,
        .heartbeat_ns = POD_NS_PER_S / 100,
        .silence_ns = 30 * POD_NS_PER_S,
        .backoff_min_ns = POD_NS_PER_S / 100,
        .backoff_max_ns = POD_NS_PER_S / 10,
    };

    assert_non_null(gangs);
    struct pod_driver *device = reference_driver_new(1, 1 << 20, gangs);
    pair->worker = plain ? near_worker_start_plain(device, &slice)
                         : near_worker_start(device, gangs, 1);
    pod_gang_hub_unref(gangs);
    options.address = near_worker_address(pair->worker);
    assert_int_equal(pod_grpc_hub_new(NULL, &pair->hub, NULL), POD_OK);
    options.hub = pair->hub;
    assert_int_equal(pod_grpc_driver_new(&options, &pair->driver, NULL),
                     POD_OK);
    calls_watch_init(&pair->watch);
    struct pod_driver_observer observer = calls_observer(&pair->watch);
    pair->driver->ops->open(pair->driver, &observer);
    calls_await(&pair->watch, &pair->watch.ready, 1);
}

static void close_pair(struct pair *pair)
{
    pair->driver->ops->close(pair->driver);
    pair->driver->ops->free(pair->driver);
    pod_grpc_hub_free(pair->hub);
    near_worker_stop(pair->worker);
    calls_watch_fini(&pair->watch);
    assert_int_equal(pod_mem_live(), 0);
}

static enum pod_code make_tuple(struct pair *pair, uint64_t op,
                                const uint64_t *parts, size_t count)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(&pair->watch, &record, op);

    pair->driver->ops->allocate_tuple(pair->driver, &call, 0, parts, count);
    return calls_end(&record);
}

static enum pod_code deallocate(struct pair *pair, uint64_t op, uint64_t buffer)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(&pair->watch, &record, op);

    pair->driver->ops->deallocate(pair->driver, &call, buffer);
    return calls_end(&record);
}

static void array(struct pair *pair, uint64_t op)
{
    struct pod_shape scalar = {.type = POD_TYPE_S32};
    struct calls_record record;
    struct pod_driver_call call = calls_make(&pair->watch, &record, op);

    pair->driver->ops->allocate(pair->driver, &call, 0, &scalar, 0);
    assert_int_equal(calls_end(&record), POD_OK);
}

// (3, 4) becomes (4, 6) in two other buffers.
static void tuples_go_in_and_out(bool plain)
{
    static const uint64_t in[] = {1, 2};
    static const uint64_t out[] = {3, 4};
    static const uint64_t unknown[] = {1, 99};
    struct pair pair;
    struct calls_record record;

    open_pair(&pair, plain);
    for (uint64_t op = 1; op <= 4; op++)
        array(&pair, op);
    calls_write_s32(&pair.watch, pair.driver, 5, 1, 3);
    calls_write_s32(&pair.watch, pair.driver, 6, 2, 4);
    assert_int_equal(make_tuple(&pair, 7, in, 2), POD_OK);
    assert_int_equal(make_tuple(&pair, 8, out, 2), POD_OK);
    assert_int_not_equal(make_tuple(&pair, 9, unknown, 2), POD_OK);
    calls_program(&pair.watch, pair.driver, 10, 0, swap);
    struct pod_driver_call call = calls_make(&pair.watch, &record, 12);
    calls_execute(pair.driver, &call, 11, 7, 8);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(calls_read_s32(&pair.watch, pair.driver, 13, 3), 4);
    assert_int_equal(calls_read_s32(&pair.watch, pair.driver, 14, 4), 6);
    // A tuple in a tuple is no argument of this program.
    assert_int_equal(make_tuple(&pair, 15, (const uint64_t[]){7, 2}, 2),
                     POD_OK);
    call = calls_make(&pair.watch, &record, 16);
    calls_execute(pair.driver, &call, 11, 15, 8);
    assert_int_not_equal(calls_end(&record), POD_OK);
    // What a tuple is gone from can be freed.
    assert_int_equal(deallocate(&pair, 17, 15), POD_OK);
    assert_int_equal(deallocate(&pair, 18, 7), POD_OK);
    assert_int_equal(deallocate(&pair, 19, 1), POD_OK);
    close_pair(&pair);
}

static void test_tuples(void **state)
{
    (void)state;
    tuples_go_in_and_out(false);
}

static void test_tuples_by_the_plain_protocol(void **state)
{
    (void)state;
    tuples_go_in_and_out(true);
}

static void signs_of_life_come(bool plain)
{
    struct pair pair;

    open_pair(&pair, plain);
    calls_await(&pair.watch, &pair.watch.beats, 3);
    assert_int_equal(pair.watch.lost, 0);
    close_pair(&pair);
}

static void test_signs_of_life(void **state)
{
    (void)state;
    signs_of_life_come(false);
    signs_of_life_come(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tuples),
        cmocka_unit_test(test_tuples_by_the_plain_protocol),
        cmocka_unit_test(test_signs_of_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
