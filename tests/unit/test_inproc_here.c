// SPDX-License-Identifier: Apache-2.0
// Calls that the in-process driver carries out in the thread of their caller.
#include "tests/unit/fake_host.h"

enum { BRIEF = POD_INPROC_BRIEF_BYTES };

// Open, with two buffers of so many bytes, 1 and 2.
static void here_open(struct host *host, uint64_t bytes)
{
    host_open(host, 1, NULL, 0);
    calls_allocate(&host->watch, host->driver, 1, 0, bytes);
    calls_allocate(&host->watch, host->driver, 2, 0, bytes);
    assert_int_equal(host->watch.inlined, 0);
}

static struct pod_driver_call
here_call(struct host *host, struct calls_record *record, uint64_t op)
{
    struct pod_driver_call call = calls_make(&host->watch, record, op);

    call.here = true;
    return call;
}

// The completion has come already: whether so many of this thread have.
static void here_close(struct host *host, int inlined)
{
    assert_int_equal(host->watch.inlined, inlined);
    host->watch.inlined = 0;
    host_close(host);
}

static void here_write(struct host *host, const struct pod_driver_call *call,
                       size_t bytes, unsigned char value)
{
    struct pod_blob *blob = pod_blob_new(bytes);

    memset(blob->data, value, bytes);
    host->driver->ops->write(host->driver, call, 1, 0, blob, 0, bytes);
    pod_blob_unref(blob);
}

static void test_small_ones_are_done_at_once(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    here_open(&host, BRIEF);
    struct pod_driver_call call = here_call(&host, &record, 3);
    here_write(&host, &call, BRIEF, 7);
    assert_int_equal(record.done, 1);
    assert_int_equal(record.started, 1);
    call = here_call(&host, &record, 4);
    host.driver->ops->copy(host.driver, &call, 1, 2);
    assert_int_equal(record.done, 1);
    call = here_call(&host, &record, 5);
    host.driver->ops->read(host.driver, &call, 2, 0, BRIEF);
    assert_int_equal(record.done, 1);
    assert_int_equal(record.err.code, POD_OK);
    assert_int_equal(record.data_size, BRIEF);
    assert_int_equal(record.data[0], 7);
    assert_int_equal(record.data[CALLS_DATA_BYTES - 1], 7);
    call = here_call(&host, &record, 6);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, BRIEF);
    assert_int_equal(record.done, 1);
    here_close(&host, 4);
}

static void test_failures_are_told_at_once(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    here_open(&host, 8);
    struct pod_driver_call call = here_call(&host, &record, 3);
    host.driver->ops->read(host.driver, &call, 1, 4, 8);
    assert_int_equal(record.done, 1);
    assert_int_equal(record.err.reason, POD_REASON_OUT_OF_RANGE);
    here_close(&host, 1);
}

static void test_big_ones_are_not(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    here_open(&host, BRIEF + 1);
    struct pod_driver_call call = here_call(&host, &record, 3);
    here_write(&host, &call, BRIEF + 1, 7);
    assert_int_equal(calls_end(&record), POD_OK);
    call = here_call(&host, &record, 4);
    host.driver->ops->copy(host.driver, &call, 1, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    call = here_call(&host, &record, 5);
    host.driver->ops->read(host.driver, &call, 2, 0, BRIEF + 1);
    assert_int_equal(calls_end(&record), POD_OK);
    call = here_call(&host, &record, 6);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, BRIEF + 1);
    assert_int_equal(calls_end(&record), POD_OK);
    here_close(&host, 0);
}

// Nor small writes of what has been lent since it was written last, which the
// device may have to copy as a whole.
static void test_lent_ones_are_not_written(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    here_open(&host, BRIEF + 1);
    struct pod_driver_call call = here_call(&host, &record, 3);
    host.driver->ops->lend(host.driver, &call, 1, 0, BRIEF + 1);
    assert_int_equal(calls_end(&record), POD_OK);
    call = here_call(&host, &record, 4);
    here_write(&host, &call, 1, 7);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(host.watch.inlined, 0);
    call = here_call(&host, &record, 5);
    here_write(&host, &call, 1, 7);
    assert_int_equal(record.done, 1);
    here_close(&host, 1);
}

// Nor what has no bytes to judge by.
static void test_others_are_not(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    here_open(&host, 8);
    struct pod_driver_call call = here_call(&host, &record, 3);
    host.driver->ops->copy(host.driver, &call, 9, 2); // there is none
    assert_int_equal(calls_end(&record), POD_NOT_FOUND);
    call = here_call(&host, &record, 4);
    host.driver->ops->deallocate(host.driver, &call, 1);
    assert_int_equal(calls_end(&record), POD_OK);
    here_close(&host, 0);
}

static void test_a_lost_host_does_nothing(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    here_open(&host, 8);
    pod_inproc_kill(host.driver, "it burns");
    struct pod_driver_call call = here_call(&host, &record, 3);
    host.driver->ops->copy(host.driver, &call, 1, 2);
    (void)calls_end(&record);
    assert_true(record.lost);
    assert_int_equal(record.started, 0);
    here_close(&host, 0);
}

// Its own thread tells of what it has below it.
static void test_not_below_the_fault_driver(void **state)
{
    struct host host;
    struct calls_record record;
    struct pod_fault_script script = {.count = 0};
    struct pod_err err;

    (void)state;
    host_make(&host, 1, NULL, 0);
    assert_int_equal(
        pod_fault_new(host.driver, NULL, 0, &script, &host.driver, &err),
        POD_OK);
    struct pod_driver_observer observer = calls_observer(&host.watch);
    host.driver->ops->open(host.driver, &observer);
    calls_await(&host.watch, &host.watch.ready, 1);
    calls_allocate(&host.watch, host.driver, 1, 0, 8);
    struct pod_driver_call call = here_call(&host, &record, 2);
    host.driver->ops->copy(host.driver, &call, 1, 1);
    assert_int_equal(calls_end(&record), POD_OK);
    here_close(&host, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_ones_are_done_at_once),
        cmocka_unit_test(test_failures_are_told_at_once),
        cmocka_unit_test(test_big_ones_are_not),
        cmocka_unit_test(test_lent_ones_are_not_written),
        cmocka_unit_test(test_others_are_not),
        cmocka_unit_test(test_a_lost_host_does_nothing),
        cmocka_unit_test(test_not_below_the_fault_driver),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
