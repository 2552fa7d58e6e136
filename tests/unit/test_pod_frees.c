// SPDX-License-Identifier: Apache-2.0
// What a free was accepted for is given back by its host, whatever becomes of
// the operation that was to do it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/pod/internal.h"
#include "tests/lib/pod_fixture.h"

static int setup_ahead(void **state)
{
    return fixture_setup(state, POD_DRIVER_WAITS | POD_DRIVER_ORDERS);
}

static uint64_t core_used(struct fixture *fix, uint32_t core)
{
    struct pod_topology_view view;
    struct pod_err err;

    assert_int_equal(pod_get_topology(fix->pod, &view, &err), POD_OK);
    uint64_t used = pod_topology_core(&view, core)->memory_used;
    pod_topology_view_fini(&view);
    return used;
}

static void cancel(struct fixture *fix, uint64_t number)
{
    struct pod_err err;
    bool again;

    assert_int_equal(
        pod_cancel(fix->pod, number, POD_CASCADE_NONE, NULL, &again, &err),
        POD_OK);
}

// Frees a handle once an operation has gone well.
static uint64_t free_after(struct fixture *fix, enum pod_kind kind,
                           struct pod_ref handle, uint64_t number)
{
    struct pod_request request = fixture_request(kind);
    struct pod_ref after = fixture_op(number);

    if (kind == POD_KIND_FREE)
        request.free.handle = handle;
    else
        request.unload.load = handle;
    request.after = &after;
    request.after_count = 1;
    return fixture_submit(fix, &request);
}

static struct fake_call the_call(struct fixture *fix, enum fake_kind kind)
{
    struct fake_call call = {.op = 0};

    assert_true(fake_find(fix->host[0], kind, &call));
    return call;
}

static void test_skipped(void **state)
{
    struct fixture *fix = *state;
    struct fake_call call;
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t bad = fixture_allocate(fix, 0, 8);
    uint64_t read = fixture_read(fix, buffer);
    uint64_t gone = free_after(fix, POD_KIND_FREE, fixture_buffer(buffer), bad);
    uint64_t next = fixture_allocate(fix, 0, 900);

    fake_fail(fix->host[0], bad, POD_REASON_RESOURCE_EXHAUSTED, "full");
    assert_state(fix, gone, "SKIPPED");
    // Somebody still reads it.
    assert_false(fake_find(fix->host[0], FAKE_DEALLOCATE, &call));
    fake_done(fix->host[0], read);
    assert_int_equal(the_call(fix, FAKE_DEALLOCATE).handle, buffer);
    assert_int_equal(core_used(fix, 0), 600);
    // Who needs its memory waits for the host, not for the operation.
    assert_state(fix, next, "WAITING");
    fake_done(fix->host[0], gone);
    assert_int_equal(core_used(fix, 0), 0);
    fake_done(fix->host[0], next);
    assert_state(fix, next, "SUCCEEDED");
    assert_state(fix, gone, "SKIPPED");
    assert_int_equal(fixture_root(fix, gone), bad);
}

static void test_skipped_when_submitted(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    uint64_t bad = fixture_allocate(fix, 0, 8);
    fake_done(fix->host[0], buffer);
    fake_fail(fix->host[0], bad, POD_REASON_RESOURCE_EXHAUSTED, "full");
    uint64_t gone = free_after(fix, POD_KIND_FREE, fixture_buffer(buffer), bad);

    assert_state(fix, gone, "SKIPPED");
    fake_done(fix->host[0], gone);
    assert_int_equal(core_used(fix, 0), 0);
    assert_int_equal(fake_count(fix->host[0], FAKE_DEALLOCATE), 1);
}

static void test_cancelled_before_it_was_sent(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t read = fixture_read(fix, buffer);
    uint64_t gone = fixture_free(fix, buffer);

    cancel(fix, gone);
    assert_state(fix, gone, "CANCELLED");
    assert_int_equal(fake_open(fix->host[0]), 1);
    fake_done(fix->host[0], read);
    fake_done(fix->host[0], gone);
    assert_int_equal(core_used(fix, 0), 0);
    assert_state(fix, gone, "CANCELLED");
}

// The host is not asked to stop.
static void test_cancelled_when_it_was_sent(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t gone = fixture_free(fix, buffer);

    cancel(fix, gone);
    assert_state(fix, gone, "CANCELLED");
    assert_false(the_call(fix, FAKE_DEALLOCATE).cancelled);
    assert_int_equal(core_used(fix, 0), 600);
    fake_done(fix->host[0], gone);
    assert_int_equal(core_used(fix, 0), 0);
}

static void test_cancelled_when_it_had_begun(void **state)
{
    struct fixture *fix = *state;
    struct pod_event_view view;
    struct pod_err err;
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t gone = fixture_free(fix, buffer);

    fake_start(fix->host[0], gone);
    cancel(fix, gone);
    assert_state(fix, gone, "RUNNING");
    assert_false(the_call(fix, FAKE_DEALLOCATE).cancelled);
    fake_done(fix->host[0], gone);
    assert_state(fix, gone, "SUCCEEDED");
    assert_int_equal(pod_get_event(fix->pod, gone, &view, &err), POD_OK);
    assert_int_equal(view.cancel, POD_CANCEL_NOT_INTERRUPTIBLE);
    pod_event_view_fini(&view);
}

static void test_too_late(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_FREE);
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t read = fixture_read(fix, buffer);
    request.free.handle = fixture_buffer(buffer);
    request.deadline_ns = 5;
    uint64_t gone = fixture_submit(fix, &request);

    fix->now_ns += 10;
    pod_tick(fix->pod);
    assert_state(fix, gone, "FAILED");
    fixture_assert_reason(fix, gone, "DEADLINE_EXCEEDED");
    fake_done(fix->host[0], read);
    fake_done(fix->host[0], gone);
    assert_int_equal(core_used(fix, 0), 0);
}

static void test_program_and_load(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:a");
    uint64_t load = fixture_load_on(fix, program, 0);
    fixture_run(fix);
    uint64_t bad = fixture_allocate(fix, 0, 8);
    uint64_t unload = free_after(fix, POD_KIND_UNLOAD, fixture_load(load), bad);
    uint64_t gone =
        free_after(fix, POD_KIND_FREE, fixture_program(program), bad);

    fake_fail(fix->host[0], bad, POD_REASON_RESOURCE_EXHAUSTED, "full");
    assert_state(fix, unload, "SKIPPED");
    assert_state(fix, gone, "SKIPPED");
    assert_int_equal(the_call(fix, FAKE_UNLOAD).handle, load);
    assert_int_equal(fake_count(fix->host[0], FAKE_FREE_PROGRAM), 0);
    fixture_run(fix);
    assert_int_equal(fake_count(fix->host[0], FAKE_FREE_PROGRAM), 1);
    assert_int_equal(fake_count(fix->host[1], FAKE_FREE_PROGRAM), 1);
}

// It would fail on the host with what it must follow, and free nothing.
static void test_not_sent_ahead_of_what_must_go_well(void **state)
{
    struct fixture *fix = *state;
    struct fake_call call;
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    uint64_t gone =
        free_after(fix, POD_KIND_FREE, fixture_buffer(buffer), write);

    assert_false(fake_find(fix->host[0], FAKE_DEALLOCATE, &call));
    fake_fail(fix->host[0], write, POD_REASON_WORKER_ERROR, "no");
    assert_state(fix, gone, "SKIPPED");
    assert_int_equal(the_call(fix, FAKE_DEALLOCATE).wait_count, 0);
    fixture_run(fix);
    assert_int_equal(core_used(fix, 0), 0);
}

static void test_reset_while_it_waits(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_RESET);
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    (void)fixture_read(fix, buffer);
    uint64_t gone = fixture_free(fix, buffer);
    uint64_t reset = fixture_submit(fix, &request);

    assert_state(fix, gone, "CANCELLED");
    assert_int_equal(core_used(fix, 0), 0);
    fixture_run(fix);
    assert_state(fix, reset, "SUCCEEDED");
    assert_int_equal(core_used(fix, 0), 0);
}

static void test_host_lost_while_it_is_done(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t gone = fixture_free(fix, buffer);

    cancel(fix, gone);
    fake_lose(fix->host[0], "gone");
    assert_state(fix, gone, "CANCELLED");
    assert_int_equal(core_used(fix, 0), 0);
}

// ------------------------------------------------------- refused by the host

// The host says no to the open call of a kind.
static void refuse(struct fixture *fix, enum fake_kind kind)
{
    fake_fail(fix->host[0], the_call(fix, kind).op, POD_REASON_OUT_OF_MEMORY,
              "no memory");
}

// A sign of life, a long time after the last one.
static void beat(struct fixture *fix, size_t host)
{
    fix->now_ns += 64 * POD_NS_PER_S;
    fake_beat(fix->host[host]);
}

// A buffer of 600 bytes whose free was refused.
static uint64_t refused_buffer(struct fixture *fix)
{
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t gone = fixture_free(fix, buffer);

    refuse(fix, FAKE_DEALLOCATE);
    assert_state(fix, gone, "FAILED");
    fixture_assert_reason(fix, gone, "OUT_OF_MEMORY");
    return buffer;
}

static void test_refused(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = refused_buffer(fix);
    struct pod_buffer_view view;
    struct pod_err err;

    assert_int_equal(core_used(fix, 0), 600);
    assert_int_equal(pod_get_buffer(fix->pod, buffer, &view, &err), POD_OK);
    assert_int_equal(view.state, POD_HANDLE_FREED);
    pod_buffer_view_fini(&view);
    assert_int_equal(fake_open(fix->host[0]), 0);
    beat(fix, 1); // another host's
    assert_int_equal(fake_open(fix->host[0]), 0);
    beat(fix, 0);
    beat(fix, 0);
    assert_int_equal(fake_open(fix->host[0]), 1);
    assert_int_equal(the_call(fix, FAKE_DEALLOCATE).handle, buffer);
    refuse(fix, FAKE_DEALLOCATE);
    assert_int_equal(core_used(fix, 0), 600);
    beat(fix, 0);
    fake_done(fix->host[0], the_call(fix, FAKE_DEALLOCATE).op);
    assert_int_equal(core_used(fix, 0), 0);
    beat(fix, 0);
    assert_int_equal(fake_open(fix->host[0]), 0);
}

// A host that goes on refusing is asked less often.
static void test_refused_again_and_again(void **state)
{
    static const int64_t wait_s[] = {1, 2, 4, 8, 16, 32, 64, 64};
    struct fixture *fix = *state;

    (void)refused_buffer(fix);
    fake_beat(fix->host[0]); // at once
    for (size_t i = 0; i < sizeof(wait_s) / sizeof(wait_s[0]); i++) {
        refuse(fix, FAKE_DEALLOCATE);
        fix->now_ns += wait_s[i] * POD_NS_PER_S - 1;
        fake_beat(fix->host[0]);
        assert_int_equal(fake_open(fix->host[0]), 0);
        fix->now_ns++;
        fake_beat(fix->host[0]);
        assert_int_equal(fake_open(fix->host[0]), 1);
    }
    fixture_run(fix);
    assert_int_equal(core_used(fix, 0), 0);
}

// A host that does not know it has nothing to let go of.
static void test_refused_as_unknown(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t gone = fixture_free(fix, buffer);

    fake_fail(fix->host[0], gone, POD_REASON_UNKNOWN_HANDLE, "what?");
    assert_state(fix, gone, "FAILED");
    assert_int_equal(core_used(fix, 0), 0);
    beat(fix, 0);
    assert_int_equal(fake_open(fix->host[0]), 0);
}

static void test_refused_after_a_cancel(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t gone = fixture_free(fix, buffer);

    cancel(fix, gone);
    refuse(fix, FAKE_DEALLOCATE);
    assert_state(fix, gone, "CANCELLED");
    assert_int_equal(core_used(fix, 0), 600);
    beat(fix, 0);
    fixture_run(fix);
    assert_int_equal(core_used(fix, 0), 0);
}

static void test_refused_program_and_load(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:a");
    uint64_t load = fixture_load_on(fix, program, 0);
    struct pod_request request = fixture_request(POD_KIND_UNLOAD);
    fixture_run(fix);
    request.unload.load = fixture_load(load);
    uint64_t unload = fixture_submit(fix, &request);
    request = fixture_request(POD_KIND_FREE);
    request.free.handle = fixture_program(program);
    uint64_t gone = fixture_submit(fix, &request);

    refuse(fix, FAKE_UNLOAD);
    assert_state(fix, unload, "FAILED");
    refuse(fix, FAKE_FREE_PROGRAM);
    // What the event waits for is another host, and not asked for again yet.
    beat(fix, 0);
    assert_int_equal(fake_open(fix->host[0]), 1);
    assert_int_equal(the_call(fix, FAKE_UNLOAD).handle, load);
    fixture_run(fix);
    assert_state(fix, gone, "FAILED");
    fixture_assert_reason(fix, gone, "OUT_OF_MEMORY");
    beat(fix, 0);
    beat(fix, 1);
    assert_int_equal(the_call(fix, FAKE_FREE_PROGRAM).handle, program);
    refuse(fix, FAKE_FREE_PROGRAM);
    beat(fix, 0);
    fixture_run(fix);
    beat(fix, 0);
    assert_int_equal(fake_open(fix->host[0]), 0);
    assert_int_equal(fake_count(fix->host[0], FAKE_FREE_PROGRAM), 3);
    assert_int_equal(fake_count(fix->host[1], FAKE_FREE_PROGRAM), 1);
}

// It came too late to be used, and the host does not take it back.
static void test_made_in_vain(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    request.allocate.bytes = 600;
    request.deadline_ns = 5;
    uint64_t late = fixture_submit(fix, &request);

    fix->now_ns += 10;
    pod_tick(fix->pod);
    fake_done(fix->host[0], late);
    assert_state(fix, late, "FAILED");
    refuse(fix, FAKE_DEALLOCATE);
    assert_int_equal(core_used(fix, 0), 600);
    beat(fix, 0);
    assert_int_equal(the_call(fix, FAKE_DEALLOCATE).handle, late);
    fixture_run(fix);
    assert_int_equal(core_used(fix, 0), 0);
}

// The same with a load.
static void test_loaded_in_vain(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_LOAD);
    request.load.program = fixture_program(fixture_compile(fix, "sha-256:a"));
    request.deadline_ns = 5;
    fixture_run(fix);
    uint64_t late = fixture_submit(fix, &request);

    fix->now_ns += 10;
    pod_tick(fix->pod);
    fake_done(fix->host[0], late);
    assert_state(fix, late, "FAILED");
    refuse(fix, FAKE_UNLOAD);
    beat(fix, 0);
    assert_int_equal(the_call(fix, FAKE_UNLOAD).handle, late);
    fixture_run(fix);
    beat(fix, 0);
    assert_int_equal(fake_open(fix->host[0]), 0);
}

// What a host owes of programs goes with it, but not what others owe.
static void test_refused_program_and_lost(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:a");
    struct pod_request request = fixture_request(POD_KIND_FREE);
    struct fake_call call;
    fixture_run(fix);
    request.free.handle = fixture_program(program);
    (void)fixture_submit(fix, &request);

    refuse(fix, FAKE_FREE_PROGRAM);
    assert_true(fake_find(fix->host[1], FAKE_FREE_PROGRAM, &call));
    fake_fail(fix->host[1], call.op, POD_REASON_OUT_OF_MEMORY, "no memory");
    fake_lose(fix->host[0], "gone");
    fake_ready(fix->host[0]);
    beat(fix, 0);
    assert_int_equal(fake_open(fix->host[0]), 0);
    beat(fix, 1);
    assert_true(fake_find(fix->host[1], FAKE_FREE_PROGRAM, &call));
    assert_int_equal(call.handle, program);
    assert_false(pod_list_empty(&fix->pod->compiled_old));
    fixture_run(fix);
    beat(fix, 1);
    assert_int_equal(fake_open(fix->host[1]), 0);
    assert_true(pod_list_empty(&fix->pod->compiled_old));
}

static void test_refused_and_lost(void **state)
{
    struct fixture *fix = *state;

    (void)refused_buffer(fix);
    fake_lose(fix->host[0], "gone");
    assert_int_equal(core_used(fix, 0), 0);
    fake_ready(fix->host[0]);
    beat(fix, 0);
    assert_int_equal(fake_open(fix->host[0]), 0);
    (void)refused_buffer(fix);
    beat(fix, 0);
    fake_lose(fix->host[0], "gone again");
    assert_int_equal(core_used(fix, 0), 0);
    fake_ready(fix->host[0]);
    beat(fix, 0);
    assert_int_equal(fake_open(fix->host[0]), 0);
}

static void test_refused_and_reset(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_RESET);

    (void)refused_buffer(fix);
    (void)fixture_submit(fix, &request);
    assert_int_equal(core_used(fix, 0), 0);
    fixture_run(fix);
    beat(fix, 0);
    assert_int_equal(fake_open(fix->host[0]), 0);
}

// The records of what is over expire, as all do.
static void test_refused_is_kept_until_it_is_over(void **state)
{
    struct fixture fix;
    struct pod_event_view view;
    struct pod_err err;

    (void)state;
    fixture_init_options(&fix, 1, 1, POD_NEVER, 16, 1 << 20);
    fake_ready(fix.host[0]);
    uint64_t buffer = refused_buffer(&fix);
    for (int i = 0; i < 8; i++)
        (void)fixture_free(&fix, fixture_allocate(&fix, 1, 8));
    fixture_run(&fix);
    assert_int_equal(pod_get_event(fix.pod, buffer, &view, &err), POD_OK);
    pod_event_view_fini(&view);
    beat(&fix, 0);
    fixture_run(&fix);
    (void)fixture_free(&fix, fixture_allocate(&fix, 1, 8));
    fixture_run(&fix);
    assert_int_equal(pod_get_event(fix.pod, buffer, &view, &err),
                     POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    fixture_fini(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_skipped, fixture_setup_two,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_skipped_when_submitted,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_before_it_was_sent,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_when_it_was_sent,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_when_it_had_begun,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_too_late, fixture_setup_two,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_program_and_load,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_not_sent_ahead_of_what_must_go_well, setup_ahead,
            fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reset_while_it_waits,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_host_lost_while_it_is_done,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused, fixture_setup_two,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_again_and_again,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_as_unknown,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_after_a_cancel,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_program_and_load,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_made_in_vain, fixture_setup_two,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_loaded_in_vain, fixture_setup_two,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_program_and_lost,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_and_lost,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_and_reset,
                                        fixture_setup_two, fixture_teardown),
        cmocka_unit_test(test_refused_is_kept_until_it_is_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
