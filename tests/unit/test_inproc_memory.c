// SPDX-License-Identifier: Apache-2.0
// The in-process driver when there is no memory: clean errors, one completion
// for each call, nothing left.
#include "tests/unit/fake_host.h"

#include "core/base/mem.h"

// A short life: each kind of call once, on numbers of its own. Says whether all
// went well; what fails for lack of memory takes what needs it along.
static bool short_life(struct host *host, uint64_t base, struct pod_blob *four,
                       struct pod_blob *word)
{
    enum { STEPS = 9 };
    struct pod_driver *driver = host->driver;
    const struct pod_driver_ops *ops = driver->ops;
    bool well = true;

    for (uint64_t step = 0; step < STEPS; step++) {
        struct calls_record record;
        struct pod_driver_call call =
            calls_make(&host->watch, &record, base + step);
        if (step < 2)
            ops->allocate(driver, &call, 0, NULL, 4);
        else if (step == 2)
            ops->allocate_tuple(driver, &call, 0, &base, 1);
        else if (step == 3)
            ops->write(driver, &call, base, 0, four, 0, 4);
        else if (step == 4)
            ops->copy(driver, &call, base, base + 1);
        else if (step == 5)
            ops->read(driver, &call, base + 1, 0, 4);
        else if (step == 6)
            ops->compile(driver, &call, POD_FORMAT_HLO_TEXT, word, 1);
        else if (step == 7)
            ops->load(driver, &call, 0, base + 6);
        else
            calls_execute(driver, &call, base + 7, base, base + 1);
        enum pod_code code = calls_end(&record);
        assert_true(code == POD_OK || code == POD_RESOURCE_EXHAUSTED ||
                    code == POD_NOT_FOUND);
        assert_int_equal(record.done, 1);
        well = well && code == POD_OK;
    }
    return well;
}

// Fails each allocation of such a life in turn, until one life needs none.
static void fail_each_allocation(struct host *host)
{
    struct pod_blob *four = calls_blob("1234", 4);
    struct pod_blob *word = calls_blob("increment", 9);
    long nth = 0;

    for (bool well = false; !well; nth++) {
        pod_mem_fail_after(nth, 1);
        well = short_life(host, 1000 * ((uint64_t)nth + 1), four, word);
        pod_mem_fail_after(-1, 0);
    }
    // At least the task of each of the nine calls.
    assert_true(nth > 9);
    pod_blob_unref(four);
    pod_blob_unref(word);
}

static void test_no_memory(void **state)
{
    struct host host;

    (void)state;
    host_open(&host, 1, NULL, 0);
    fail_each_allocation(&host);
    host_close(&host);
    assert_int_equal(pod_mem_live(), 0);
}

// The call that another was to wait for finds no memory: the other goes on.
static void test_no_memory_for_what_follows(void **state)
{
    enum { CHILDREN = 1000 };
    uint64_t children[CHILDREN] = {1};
    struct host host;
    struct calls_record first, next;

    (void)state;
    host_open(&host, 1, NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    calls_allocate(&host.watch, host.driver, 2, 0, 4);
    struct pod_driver_call call = calls_make(&host.watch, &first, 3);
    call.more = true;
    host.driver->ops->copy(host.driver, &call, 1, 2);
    call = calls_make(&host.watch, &next, 4);
    pod_mem_fail_after(0, 1);
    host.driver->ops->allocate_tuple(host.driver, &call, 0, children, CHILDREN);
    pod_mem_fail_after(-1, 0);
    assert_int_equal(calls_end(&next), POD_RESOURCE_EXHAUSTED);
    assert_int_equal(calls_end(&first), POD_OK);
    host_close(&host);
}

static void test_no_memory_for_a_host(void **state)
{
    struct fake_device *fake = fake_new(1, 8);
    uint32_t core_chip = 0;
    struct pod_driver_chip chip = {.x = 0};
    struct pod_inproc_options options = {
        .device = &fake->base,
        .chips = &chip,
        .chip_count = 1,
        .core_chips = &core_chip,
    };
    struct pod_driver *driver;
    struct pod_err err;
    long nth = 0;

    (void)state;
    for (enum pod_code code = POD_UNKNOWN; code != POD_OK; nth++) {
        pod_mem_fail_after(nth, 1);
        code = pod_inproc_new(&options, &driver, &err);
        pod_mem_fail_after(-1, 0);
        if (code == POD_OK)
            break;
        assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
        assert_int_equal(pod_mem_live(), 0);
    }
    assert_true(nth > POD_INPROC_SPARE_CALLS);
    driver->ops->free(driver);
}

// More refusals than there are spare tasks: all are completed.
static void test_many_refusals(void **state)
{
    enum { CALLS = 3 * POD_INPROC_SPARE_CALLS };
    static struct calls_record records[CALLS];
    struct host host;

    (void)state;
    host_open(&host, 1, NULL, 0);
    pod_mem_fail_after(0, CALLS);
    for (uint64_t i = 0; i < CALLS; i++) {
        struct pod_driver_call call =
            calls_make(&host.watch, &records[i], 1 + i);
        host.driver->ops->allocate(host.driver, &call, 0, NULL, 4);
    }
    pod_mem_fail_after(-1, 0);
    for (uint64_t i = 0; i < CALLS; i++)
        assert_int_equal(calls_end(&records[i]), POD_RESOURCE_EXHAUSTED);
    host.watch.inlined = 0; // what inproc.h allows beyond the spare ones
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    host_close(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_for_what_follows),
        cmocka_unit_test(test_no_memory_for_a_host),
        cmocka_unit_test(test_many_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
