// SPDX-License-Identifier: Apache-2.0
// The pod engine on fake hosts: how operations end otherwise than well, and
// what is kept of them: cancel, deadline, loss, reset, history, waiting.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/pod/internal.h"
#include "tests/lib/pod_fixture.h"

static bool cancel(struct fixture *fix, uint64_t number,
                   enum pod_cancel_cascade cascade)
{
    struct pod_err err;
    bool again = false;

    assert_int_equal(
        pod_cancel(fix->pod, number, cascade, "not needed", &again, &err),
        POD_OK);
    return again;
}

static enum pod_cancel_outcome outcome(struct fixture *fix, uint64_t number)
{
    struct pod_event_view view;
    struct pod_err err;

    assert_int_equal(pod_get_event(fix->pod, number, &view, &err), POD_OK);
    enum pod_cancel_outcome found = view.cancel;
    pod_event_view_fini(&view);
    return found;
}

// Times of one event are that of its making plus what passed since.
static void test_a_clock_that_is_set_back(void **state)
{
    struct fixture *fix = *state;
    struct pod_event_view view;
    struct pod_err err;
    int64_t made_ns = fix->now_ns;
    uint64_t number = fixture_allocate(fix, 0, 8);

    fix->now_ns += 3000;
    fix->wall_step_ns = -3600 * POD_NS_PER_S;
    fixture_run(fix);
    assert_int_equal(pod_get_event(fix->pod, number, &view, &err), POD_OK);
    assert_int_equal(view.created_wall_ns, 1000000 + made_ns);
    assert_int_equal(view.finished_ns, 3000);
    pod_event_view_fini(&view);
}

static enum pod_handle_state buffer_state(struct fixture *fix, uint64_t number)
{
    struct pod_buffer_view view;
    struct pod_err err;

    assert_int_equal(pod_get_buffer(fix->pod, number, &view, &err), POD_OK);
    enum pod_handle_state found = view.state;
    pod_buffer_view_fini(&view);
    return found;
}

// -------------------------------------------------------------------- cancels

static void test_cancel_of_what_waits(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    uint64_t read = fixture_read(fix, buffer);
    struct pod_err err;
    bool again;

    assert_false(cancel(fix, write, POD_CASCADE_NONE));
    assert_state(fix, write, "CANCELLED");
    assert_state(fix, read, "SKIPPED");
    assert_int_equal(fixture_root(fix, read), write);
    fixture_assert_reason(fix, read, "CANCEL_REQUESTED");
    assert_true(cancel(fix, write, POD_CASCADE_NONE));
    fixture_run(fix);
    assert_int_equal(fake_count(fix->host[0], FAKE_WRITE), 0);
    assert_int_not_equal(
        pod_cancel(fix->pod, buffer, POD_CASCADE_NONE, NULL, &again, &err),
        POD_OK);
    assert_int_equal(err.reason, POD_REASON_ALREADY_FINISHED);
    assert_int_not_equal(
        pod_cancel(fix->pod, 99, POD_CASCADE_NONE, NULL, &again, &err), POD_OK);
    assert_int_equal(err.reason, POD_REASON_NOT_FOUND);
}

static void test_cancel_of_what_runs(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    uint64_t read = fixture_read(fix, buffer);
    struct fake_call call;

    fake_start(fix->host[0], write);
    assert_state(fix, write, "RUNNING");
    cancel(fix, write, POD_CASCADE_DEPENDENTS);
    assert_state(fix, write, "RUNNING");
    assert_state(fix, read, "CANCELLED");
    assert_int_equal(outcome(fix, write), POD_CANCEL_PENDING);
    assert_true(fake_find(fix->host[0], FAKE_WRITE, &call));
    assert_true(call.cancelled);
    fake_fail(fix->host[0], write, POD_REASON_CANCEL_REQUESTED, "stopped");
    assert_state(fix, write, "CANCELLED");
    assert_int_equal(outcome(fix, write), POD_CANCEL_INTERRUPTED);
    fixture_assert_reason(fix, write, "CANCEL_REQUESTED");
}

static void test_cancel_that_comes_too_late(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    uint64_t other = fixture_allocate(fix, 0, 8);
    struct pod_event_view view;
    struct pod_err err;

    fake_start(fix->host[0], write);
    cancel(fix, write, POD_CASCADE_NONE);
    fake_done(fix->host[0], write);
    assert_state(fix, write, "SUCCEEDED");
    assert_int_equal(outcome(fix, write), POD_CANCEL_COMPLETED_ANYWAY);
    assert_int_equal(pod_get_event(fix->pod, write, &view, &err), POD_OK);
    assert_false(view.has_error);
    assert_string_equal(view.cancel_reason, "not needed");
    pod_event_view_fini(&view);
    cancel(fix, other, POD_CASCADE_NONE);
    fake_done(fix->host[0], other);
    assert_state(fix, other, "SUCCEEDED");
    assert_int_equal(outcome(fix, other), POD_CANCEL_NOT_INTERRUPTIBLE);
}

// ------------------------------------------------------------------- deadlines

static void test_deadline(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct fake_call call;

    request.allocate.bytes = 8;
    request.deadline_ns = 50;
    uint64_t slow = fixture_submit(fix, &request);
    uint64_t read = fixture_read(fix, slow);
    fix->now_ns += 49;
    pod_tick(fix->pod);
    assert_state(fix, slow, "READY");
    fix->now_ns += 1;
    pod_tick(fix->pod);
    assert_state(fix, slow, "FAILED");
    fixture_assert_reason(fix, slow, "DEADLINE_EXCEEDED");
    assert_state(fix, read, "SKIPPED");
    // The host made it all the same: it is given back.
    fake_done(fix->host[0], slow);
    assert_true(fake_find(fix->host[0], FAKE_DEALLOCATE, &call));
    assert_int_equal(call.handle, slow);
    fixture_run(fix);
    assert_state(fix, slow, "FAILED");
    struct pod_topology_view topology;
    struct pod_err err;
    assert_int_equal(pod_get_topology(fix->pod, &topology, &err), POD_OK);
    assert_int_equal(topology.cores[0].memory_used, 0);
    pod_topology_view_fini(&topology);
}

// ------------------------------------------------------------------------ loss

static void test_loss_of_a_host(void **state)
{
    struct fixture *fix = *state;
    uint64_t kept = fixture_allocate(fix, 0, 8);
    uint64_t buffer = fixture_allocate(fix, 2, 8);
    fixture_run(fix);
    uint64_t running = fixture_read(fix, buffer);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    struct pod_ref after = fixture_op(write);
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);

    after = fixture_op(running);
    request.allocate.core = 2;
    request.allocate.bytes = 8;
    request.after = &after;
    request.after_count = 1;
    request.run_on_failure = true;
    uint64_t place = fixture_submit(fix, &request);
    fake_start(fix->host[1], running);
    fake_lose(fix->host[1], "cable cut");
    assert_state(fix, running, "LOST");
    assert_state(fix, write, "SKIPPED");
    fixture_assert_reason(fix, write, "BUFFER_LOST");
    char begin[64];
    (void)snprintf(begin, sizeof(begin), "buf-%llu was lost with host 1 at ",
                   (unsigned long long)buffer);
    fixture_assert_detail(fix, write, begin, "Z: cable cut");
    fixture_assert_detail(fix, running, "host 1 was lost: cable cut", "");
    assert_int_equal(fixture_root(fix, write), buffer);
    assert_state(fix, place, "FAILED");
    fixture_assert_reason(fix, place, "HOST_UNAVAILABLE");
    fixture_assert_detail(fix, place, "host 1 was lost: cable cut", "");
    assert_int_equal(buffer_state(fix, buffer), POD_HANDLE_LOST);
    assert_int_equal(buffer_state(fix, kept), POD_HANDLE_READY);
    assert_state(fix, fixture_read(fix, buffer), "SKIPPED");
    // Frees of what is lost go well at once.
    assert_state(fix, fixture_free(fix, buffer), "SUCCEEDED");
    request.after_count = 0;
    fixture_refused(fix, &request, POD_REASON_HOST_LOST);
    fake_ready(fix->host[1]);
    uint64_t again = fixture_allocate(fix, 2, FIXTURE_MEMORY);
    fixture_run(fix);
    assert_state(fix, again, "SUCCEEDED");
}

static void test_returned_host_compiles_again(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:b");
    uint64_t load = fixture_load_on(fix, program, 2);

    fixture_run(fix);
    assert_state(fix, load, "SUCCEEDED");
    fake_lose(fix->host[1], "gone");
    fake_ready(fix->host[1]);
    uint64_t first = fixture_load_on(fix, program, 2);
    uint64_t second = fixture_load_on(fix, program, 3);
    assert_int_equal(fake_count(fix->host[1], FAKE_COMPILE), 2);
    fixture_run(fix);
    assert_int_equal(fake_count(fix->host[1], FAKE_COMPILE), 2);
    assert_state(fix, first, "SUCCEEDED");
    assert_state(fix, second, "SUCCEEDED");
}

// ----------------------------------------------------------------------- reset

static void test_reset(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    uint64_t program = fixture_compile(fix, "sha-256:c");
    fixture_run(fix);
    uint64_t read = fixture_read(fix, buffer);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    struct pod_request request = fixture_request(POD_KIND_RESET);
    uint64_t reset = fixture_submit(fix, &request);
    struct fake_call call;

    assert_state(fix, read, "CANCELLED");
    assert_state(fix, write, "CANCELLED");
    fixture_assert_reason(fix, write, "POD_RESET");
    assert_int_equal(buffer_state(fix, buffer), POD_HANDLE_FREED);
    // What is new waits for it.
    uint64_t next = fixture_allocate(fix, 0, FIXTURE_MEMORY);
    assert_state(fix, next, "WAITING");
    assert_true(fake_find(fix->host[0], FAKE_RESET, &call));
    fake_fail(fix->host[0], read, POD_REASON_POD_RESET, "reset");
    fixture_run(fix);
    assert_state(fix, reset, "SUCCEEDED");
    assert_state(fix, next, "SUCCEEDED");
    request = fixture_request(POD_KIND_LOAD);
    request.load.program = fixture_program(program);
    fixture_refused(fix, &request, POD_REASON_HANDLE_FREED);
}

// --------------------------------------------------------------------- history

static void test_history_by_count(void **state)
{
    struct fixture fix;
    struct pod_event_view view;
    struct pod_err err;

    (void)state;
    fixture_init_options(&fix, 1, 2, POD_NEVER, 0, 1000);
    fake_ready(fix.host[0]);
    uint64_t live = fixture_allocate(&fix, 0, 8);
    uint64_t reads[4];
    for (int i = 0; i < 4; i++) {
        reads[i] = fixture_write(&fix, live, 0, 8);
        fixture_run(&fix);
    }
    // The last writer and the maker are held by the buffer, the rest is history
    // of which two are kept.
    assert_int_not_equal(pod_get_event(fix.pod, reads[0], &view, &err), POD_OK);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    assert_state(&fix, reads[1], "SUCCEEDED");
    assert_state(&fix, reads[3], "SUCCEEDED");
    assert_state(&fix, live, "SUCCEEDED");
    struct pod_ref after = fixture_op(reads[0]);
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    request.allocate.bytes = 8;
    request.after = &after;
    request.after_count = 1;
    fixture_refused(&fix, &request, POD_REASON_DEPENDENCY_EXPIRED);
    fixture_free(&fix, live);
    fixture_run(&fix);
    struct pod_summary summary;
    assert_int_equal(pod_get_summary(fix.pod, &summary, &err), POD_OK);
    assert_int_equal(summary.by_state[POD_SCHED_SUCCEEDED], 2);
    pod_summary_fini(&summary);
    fixture_fini(&fix);
}

static void test_history_by_age(void **state)
{
    struct fixture fix;
    struct pod_event_view view;
    struct pod_err err;

    (void)state;
    fixture_init_options(&fix, 1, 100, 500, 0, 1000);
    fake_ready(fix.host[0]);
    uint64_t buffer = fixture_allocate(&fix, 0, 8);
    fixture_free(&fix, buffer);
    fixture_run(&fix);
    fix.now_ns += 499;
    pod_tick(fix.pod);
    assert_state(&fix, buffer, "SUCCEEDED");
    fix.now_ns += 1;
    pod_tick(fix.pod);
    assert_int_not_equal(pod_get_event(fix.pod, buffer, &view, &err), POD_OK);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    fixture_fini(&fix);
}

// A program that failed is named nowhere once its record has expired.
static void test_history_of_a_failed_program(void **state)
{
    struct fixture fix;
    struct pod_event_view view;
    struct pod_err err;

    (void)state;
    fixture_init_options(&fix, 1, 1, POD_NEVER, 0, 1000);
    fake_ready(fix.host[0]);
    uint64_t failed = fixture_compile(&fix, "sha-256:bad");
    fake_fail(fix.host[0], failed, POD_REASON_INVALID_PROGRAM, "bad line");
    assert_state(&fix, failed, "FAILED");
    uint64_t buffer = fixture_allocate(&fix, 0, 8);
    fixture_free(&fix, buffer);
    fixture_run(&fix);
    assert_int_not_equal(pod_get_event(fix.pod, failed, &view, &err), POD_OK);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    assert_true(pod_list_empty(&fix.pod->programs));
    uint64_t good = fixture_compile(&fix, "sha-256:good");
    fixture_run(&fix);
    const struct pod_request request = fixture_request(POD_KIND_RESET);
    uint64_t reset = fixture_submit(&fix, &request);
    fixture_run(&fix);
    assert_state(&fix, reset, "SUCCEEDED");
    assert_true(pod_list_empty(&fix.pod->programs));
    assert_int_not_equal(pod_get_event(fix.pod, good, &view, &err), POD_OK);
    fixture_fini(&fix);
}

// --------------------------------------------------------------------- waiting

// Who was woken can read what became of the operation, however many others have
// ended since.
static void test_waiter_holds(void **state)
{
    struct fixture fix;
    struct pod_waiter woken, gone;
    struct pod_event_view view;
    struct pod_err err;
    struct pod_list list;

    (void)state;
    pod_list_init(&list);
    fixture_init_options(&fix, 1, 1, POD_NEVER, 0, 1000);
    fake_ready(fix.host[0]);
    uint64_t failed = fixture_compile(&fix, "sha-256:bad");
    assert_true(pod_wait_add(fix.pod, &woken, failed, 0));
    assert_true(pod_wait_add(fix.pod, &gone, failed, 0));
    pod_wait_remove(fix.pod, &gone);
    fake_fail(fix.host[0], failed, POD_REASON_INVALID_PROGRAM, "bad line");
    pod_take_woken(fix.pod, &list);
    assert_ptr_equal(pod_list_pop_front(&list), &woken.link);
    for (int i = 0; i < 3; i++) {
        uint64_t buffer = fixture_allocate(&fix, 0, 8);
        fixture_free(&fix, buffer);
        fixture_run(&fix);
    }
    assert_state(&fix, failed, "FAILED");
    pod_wait_remove(fix.pod, &woken);
    pod_wait_remove(fix.pod, &woken);     // once more: nothing
    assert_state(&fix, failed, "FAILED"); // the last that is history
    uint64_t buffer = fixture_allocate(&fix, 0, 8);
    fixture_free(&fix, buffer);
    fixture_run(&fix);
    assert_int_not_equal(pod_get_event(fix.pod, failed, &view, &err), POD_OK);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    fixture_fini(&fix);
}

static void test_waiters(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    struct pod_waiter end, change, late;
    struct pod_event_view view;
    struct pod_err err;
    struct pod_list woken;

    pod_list_init(&woken);
    assert_int_equal(pod_get_event(fix->pod, buffer, &view, &err), POD_OK);
    assert_true(pod_wait_add(fix->pod, &end, buffer, 0));
    assert_true(pod_wait_add(fix->pod, &change, buffer, view.revision));
    fake_start(fix->host[0], buffer);
    assert_int_equal(fix->notified, 1);
    pod_take_woken(fix->pod, &woken);
    assert_ptr_equal(pod_list_pop_front(&woken), &change.link);
    assert_true(pod_list_empty(&woken));
    // It has changed since: no parking on the old revision.
    assert_false(pod_wait_add(fix->pod, &late, buffer, view.revision));
    pod_event_view_fini(&view);
    fixture_run(fix);
    pod_take_woken(fix->pod, &woken);
    assert_ptr_equal(pod_list_pop_front(&woken), &end.link);
    assert_false(pod_wait_add(fix->pod, &late, buffer, 0));
    assert_false(pod_wait_add(fix->pod, &late, 99, 0));
    uint64_t other = fixture_allocate(fix, 0, 8);
    assert_true(pod_wait_add(fix->pod, &end, other, 0));
    pod_wait_remove(fix->pod, &end);
    assert_true(pod_wait_add(fix->pod, &end, other, 0));
    pod_drain(fix->pod);
    pod_take_woken(fix->pod, &woken);
    assert_ptr_equal(pod_list_pop_front(&woken), &end.link);
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    request.allocate.bytes = 8;
    fixture_refused(fix, &request, POD_REASON_DRAINING);
    pod_await_idle(fix->pod, 0);
    assert_state(fix, other, "CANCELLED");
    fixture_assert_reason(fix, other, "DRAIN_TIMEOUT");
}

int main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, fixture_setup_two, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_clock_that_is_set_back),
        TEST(test_cancel_of_what_waits),
        TEST(test_cancel_of_what_runs),
        TEST(test_cancel_that_comes_too_late),
        TEST(test_deadline),
        TEST(test_loss_of_a_host),
        TEST(test_returned_host_compiles_again),
        TEST(test_reset),
        cmocka_unit_test(test_history_by_count),
        cmocka_unit_test(test_history_by_age),
        cmocka_unit_test(test_history_of_a_failed_program),
        cmocka_unit_test(test_waiter_holds),
        TEST(test_waiters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
