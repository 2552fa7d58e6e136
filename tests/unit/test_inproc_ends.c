// SPDX-License-Identifier: Apache-2.0
// How calls of the in-process driver end early: cancelled, by a reset, with
// their host, by a close.
#include "tests/unit/fake_host.h"

static void test_cancel(void **state)
{
    struct host host;
    struct calls_record spin, queued, write;

    (void)state;
    host_with_gate(&host);
    calls_program(&host.watch, host.driver, 14, 0, "spin");
    struct pod_driver_call call = calls_make(&host.watch, &spin, 20);
    calls_execute(host.driver, &call, 15, 1, 2);
    calls_await(&host.watch, &spin.started, 1);
    call = calls_make(&host.watch, &queued, 21);
    calls_execute(host.driver, &call, 13, 1, 2);
    host.driver->ops->cancel(host.driver, 21);
    assert_int_equal(calls_end(&queued), POD_CANCELLED);
    assert_int_equal(queued.started, 0);
    host.driver->ops->cancel(host.driver, 20);
    assert_int_equal(calls_end(&spin), POD_CANCELLED);
    host.driver->ops->cancel(host.driver, 20);
    host.driver->ops->cancel(host.driver, 12345);
    // What runs and cannot be stopped ends as it would have.
    call = calls_make(&host.watch, &write, 22);
    calls_execute(host.driver, &call, 11, 1, 2);
    fake_await_waiting(host.fake, 1);
    host.driver->ops->cancel(host.driver, 22);
    fake_gate(host.fake, true);
    assert_int_equal(calls_end(&write), POD_OK);
    host_close(&host);
}

// With a compilation and an execution that run, and an execution behind it.
static void host_at_work(struct host *host, struct calls_record *compile,
                         struct calls_record *spin, struct calls_record *queued)
{
    struct pod_blob *gated = calls_blob("gated", 5);

    host_with_gate(host);
    calls_program(&host->watch, host->driver, 14, 0, "spin");
    struct pod_driver_call call = calls_make(&host->watch, compile, 19);
    host->driver->ops->compile(host->driver, &call, POD_FORMAT_HLO_TEXT, gated,
                               1);
    pod_blob_unref(gated);
    fake_await_waiting(host->fake, 1);
    call = calls_make(&host->watch, spin, 20);
    calls_execute(host->driver, &call, 15, 1, 2);
    calls_await(&host->watch, &spin->started, 1);
    call = calls_make(&host->watch, queued, 21);
    calls_execute(host->driver, &call, 13, 1, 2);
}

static void test_reset(void **state)
{
    struct host host;
    struct calls_record spin, queued, reset, after, compile;

    (void)state;
    host_at_work(&host, &compile, &spin, &queued);
    struct pod_driver_call call = calls_make(&host.watch, &reset, 22);
    host.driver->ops->reset(host.driver, &call);
    call = calls_make(&host.watch, &after, 23);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, 4);
    // The compilation still runs, so the reset cannot be done.
    assert_int_equal(reset.done, 0);
    fake_gate(host.fake, true);
    assert_int_equal(calls_end(&reset), POD_OK);
    assert_int_equal(spin.done + queued.done + compile.done, 3);
    assert_string_equal(pod_reason_name(spin.err.reason), "POD_RESET");
    assert_string_equal(pod_reason_name(queued.err.reason), "POD_RESET");
    assert_string_equal(pod_reason_name(compile.err.reason), "POD_RESET");
    assert_int_equal(calls_end(&after), POD_OK);
    assert_int_equal(host.fake->programs, 0);
    assert_int_equal(host.fake->buffers, 1);
    host_close(&host);
}

static void test_kill_and_revive(void **state)
{
    struct host host;
    struct calls_record spin, queued, refused, compile;

    (void)state;
    host_at_work(&host, &compile, &spin, &queued);
    pod_inproc_kill(host.driver, "power");
    struct pod_driver_call call = calls_make(&host.watch, &refused, 22);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, 4);
    (void)calls_end(&spin);
    (void)calls_end(&queued);
    (void)calls_end(&refused);
    (void)calls_end(&compile);
    assert_true(spin.lost && queued.lost && refused.lost && compile.lost);
    assert_non_null(strstr(spin.err.text, "power"));
    assert_int_equal(host.watch.lost, 1);
    assert_int_equal(host.watch.ready, 1);
    pod_inproc_revive(host.driver);
    // The compilation still runs; what it makes must not come to the new host.
    assert_int_equal(host.watch.ready, 1);
    fake_gate(host.fake, true);
    calls_await(&host.watch, &host.watch.ready, 2);
    assert_int_equal(host.fake->buffers, 0);
    assert_int_equal(host.fake->programs, 0);
    calls_allocate(&host.watch, host.driver, 23, 0, 4);
    host.driver->ops->reconnect(host.driver);
    calls_await(&host.watch, &host.watch.ready, 3);
    assert_int_equal(host.watch.lost, 2);
    assert_int_equal(host.fake->buffers, 0);
    host_close(&host);
}

// Kills the host from within a completion, and says in the record's `started`
// whether the observer heard of it before that completion had returned.
static void kill_when_done(void *arg, const struct pod_driver_result *result)
{
    struct calls_record *record = arg;
    struct host *host = POD_CONTAINER(record->watch, struct host, watch);

    assert_false(result->lost);
    pod_inproc_kill(host->driver, "from within");
    for (int i = 0; i < 1000; i++) {
        sched_yield();
        pod_mutex_lock(&host->watch.lock);
        record->started += host->watch.lost;
        pod_mutex_unlock(&host->watch.lock);
    }
    calls_on_done(arg, result);
}

static void test_loss_waits_for_completions(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    host_with_gate(&host);
    struct pod_driver_call call = calls_make(&host.watch, &record, 20);
    call.started = NULL;
    call.done = kill_when_done;
    calls_execute(host.driver, &call, 13, 1, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    calls_await(&host.watch, &host.watch.lost, 1);
    assert_int_equal(record.started, 0);
    host_close(&host);
}

static void test_close_ends_open_calls(void **state)
{
    struct host host;
    struct calls_record spin, queued;

    (void)state;
    host_with_gate(&host);
    calls_program(&host.watch, host.driver, 14, 0, "spin");
    struct pod_driver_call call = calls_make(&host.watch, &spin, 20);
    calls_execute(host.driver, &call, 15, 1, 2);
    call = calls_make(&host.watch, &queued, 21);
    calls_execute(host.driver, &call, 13, 1, 2);
    host_close(&host);
    assert_int_equal(spin.done, 1);
    assert_int_equal(queued.done, 1);
    assert_int_equal(spin.err.code, POD_CANCELLED);
    assert_int_equal(queued.err.code, POD_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_kill_and_revive),
        cmocka_unit_test(test_loss_waits_for_completions),
        cmocka_unit_test(test_close_ends_open_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
