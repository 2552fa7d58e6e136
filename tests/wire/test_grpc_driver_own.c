// SPDX-License-Identifier: Apache-2.0
// The gRPC driver and the core of our own worker, around a fake device whose
// programs can be held.
#include "tests/wire/driver_fixture.h"

#include "core/driver/inproc.h"
#include "tests/lib/near_worker.h"
#include "tests/unit/fake_device.h"

enum { MEMORY = 1 << 20 };

struct own {
    struct fixture fixture;
    struct fake_device *device;
    struct near_worker *worker;
};

static void start_own(struct own *own)
{
    static const struct pod_driver_chip chips[] = {{.x = 0}, {.x = 1}};
    static const uint32_t core_chips[] = {0, 1};
    struct pod_driver *driver;

    memset(own, 0, sizeof(*own));
    own->device = fake_new(2, MEMORY);
    struct pod_inproc_options options = {
        .device = &own->device->base,
        .host_count = 1,
        .chips = chips,
        .chip_count = 2,
        .core_chips = core_chips,
    };
    assert_int_equal(pod_inproc_new(&options, &driver, NULL), POD_OK);
    own->worker = near_worker_start(driver, NULL, 2);
    own->fixture.worker.pid = -1;
    open_at(&own->fixture, near_worker_address(own->worker));
    await_ready(&own->fixture, 1);
}

static void finish_own(struct own *own)
{
    finish(&own->fixture);
    near_worker_stop(own->worker);
}

// Waits for a sign of life that was not on its way yet, and tells of so many
// open operations: of how many cores, and the load of the first.
static struct pod_driver_core_load
await_open(struct own *own, uint64_t operations, size_t *out_cores)
{
    struct calls_watch *watch = &own->fixture.watch;

    pod_mutex_lock(&watch->lock);
    int enough = watch->beats + 2;
    while (watch->beats < enough || watch->open_operations != operations)
        pod_cond_wait(&watch->changed, &watch->lock);
    struct pod_driver_core_load load = watch->load;
    *out_cores = watch->load_cores;
    pod_mutex_unlock(&watch->lock);
    return load;
}

static void test_signs_of_life_tell_the_load(void **state)
{
    struct own own;
    struct calls_record first, second;

    (void)state;
    start_own(&own);
    struct pod_driver *driver = own.fixture.driver;
    // The worker's own numbers lag behind ours from here on.
    calls_allocate(&own.fixture.watch, driver, 101, 0, 4);
    calls_allocate(&own.fixture.watch, driver, 102, 0, 4);
    calls_allocate(&own.fixture.watch, driver, 103, 0, 56);
    calls_program(&own.fixture.watch, driver, 104, 0, "gate");
    struct pod_driver_call call = calls_make(&own.fixture.watch, &first, 110);
    calls_execute(driver, &call, 105, 101, 102);
    call = calls_make(&own.fixture.watch, &second, 111);
    calls_execute(driver, &call, 105, 101, 102);
    fake_await_waiting(own.device, 1);
    size_t cores = 0;
    struct pod_driver_core_load load = await_open(&own, 2, &cores);
    assert_int_equal(cores, 2);
    assert_int_equal(load.memory_used, 64);
    assert_true(load.busy);
    assert_int_equal(load.running, 110);
    fake_gate(own.device, true);
    assert_int_equal(calls_end(&first), POD_OK);
    assert_int_equal(calls_end(&second), POD_OK);
    load = await_open(&own, 0, &cores);
    assert_false(load.busy);
    assert_int_equal(load.running, 0);
    assert_int_equal(load.queued, 0);
    finish_own(&own);
}

// What a device says of buffers names them by our numbers.
static void test_errors_name_things_by_our_numbers(void **state)
{
    struct own own;
    struct calls_record record;

    (void)state;
    start_own(&own);
    struct pod_driver *driver = own.fixture.driver;
    calls_allocate(&own.fixture.watch, driver, 300, 0, 512 << 10);
    calls_allocate(&own.fixture.watch, driver, 200, 0, 256 << 10);
    struct pod_driver_call call = calls_make(&own.fixture.watch, &record, 400);
    driver->ops->allocate(driver, &call, 0, NULL, MEMORY);
    assert_int_equal(calls_end(&record), POD_RESOURCE_EXHAUSTED);
    assert_string_equal(record.err.text,
                        "the core has no room for 1 MiB: 256 KiB of 1 MiB are "
                        "free; largest: buf-300 (512 KiB), buf-200 (256 KiB)");
    call = calls_make(&own.fixture.watch, &record, 401);
    driver->ops->read(driver, &call, 200, 0, 512 << 10);
    assert_int_equal(calls_end(&record), POD_OUT_OF_RANGE);
    assert_string_equal(record.err.text,
                        "524288 bytes at 0 of buf-200 of 262144 bytes");
    finish_own(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signs_of_life_tell_the_load),
        cmocka_unit_test(test_errors_name_things_by_our_numbers),
    };

    return run_driver_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
