// SPDX-License-Identifier: Apache-2.0
// Operations that are sent to hosts before those they wait for are answered,
// and copies that go from host to host, on fake hosts answered by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/pod/changes.h"
#include "tests/lib/pod_fixture.h"

static int setup(void **state)
{
    return fixture_setup(state, POD_DRIVER_WAITS | POD_DRIVER_ORDERS);
}

static int setup_peers(void **state)
{
    return fixture_setup(state, POD_DRIVER_PEER_COPY);
}

static void assert_waits(struct fixture *fix, size_t index, uint64_t op,
                         const uint64_t *waits, size_t count)
{
    struct fake_call call;

    assert_true(fake_peek(fix->host[0], index, &call));
    assert_int_equal(call.op, op);
    assert_int_equal(call.wait_count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(call.waits[i], waits[i]);
}

// ---------------------------------------------------------------------- ahead

static void test_a_chain_is_sent_at_once(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    uint64_t read = fixture_read(fix, buffer);

    assert_int_equal(fake_open(fix->host[0]), 3);
    assert_waits(fix, 0, buffer, NULL, 0);
    assert_waits(fix, 1, write, &buffer, 1);
    assert_waits(fix, 2, read, (uint64_t[]){buffer, write}, 2);
    // For users nothing has changed: it waits for what is not done.
    assert_state(fix, buffer, "READY");
    assert_state(fix, write, "WAITING");
    assert_state(fix, read, "WAITING");
    fixture_run(fix);
    assert_state(fix, read, "SUCCEEDED");
}

// Two streams may bring answers in another order than that of the work.
static void test_answers_may_come_in_any_order(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    uint64_t write = fixture_write(fix, buffer, 0, 8);

    fake_start(fix->host[0], write);
    assert_state(fix, write, "RUNNING");
    fake_done(fix->host[0], write);
    assert_state(fix, write, "SUCCEEDED");
    assert_state(fix, buffer, "READY");
    fake_done(fix->host[0], buffer);
    assert_state(fix, buffer, "SUCCEEDED");
}

// That what those who watch see next of an operation are these states.
static void assert_next_states(const struct pod_change *changes, size_t count,
                               uint64_t op, size_t *in_out_at,
                               const enum pod_sched_state *states, size_t most)
{
    size_t found = 0;

    for (; *in_out_at < count && found < most; ++*in_out_at) {
        const struct pod_change *change = &changes[*in_out_at];
        if (change->kind != POD_CHANGE_EVENT || change->number != op)
            continue;
        assert_int_equal(change->state, states[found]);
        found++;
    }
    assert_int_equal(found, most);
}

// One message may say of an operation that it is done, and of one that was sent
// ahead that it has begun and is done.
static void test_answers_together_show_each_state(void **state)
{
    enum { CHANGES = 32 };
    static const enum pod_sched_state done[] = {
        POD_SCHED_READY, POD_SCHED_RUNNING, POD_SCHED_SUCCEEDED};
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    uint64_t again = fixture_write(fix, buffer, 0, 8);
    uint64_t start = pod_last_change(fix->pod, false);
    struct pod_change changes[CHANGES];
    struct pod_err err;
    size_t count, at = 0;

    assert_state(fix, write, "WAITING");
    assert_state(fix, again, "WAITING");
    fake_start_done_together(fix->host[0], (uint64_t[]){buffer, write, again},
                             3);
    assert_int_equal(
        pod_read_changes(fix->pod, start, CHANGES, changes, &count, &err),
        POD_OK);
    assert_next_states(changes, count, buffer, &at, done + 1, 2);
    assert_next_states(changes, count, write, &at, done, 3);
    assert_next_states(changes, count, again, &at, done, 3);
}

static void test_a_failure_skips_what_was_sent_ahead(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    uint64_t read = fixture_read(fix, buffer);
    struct fake_call call;

    fake_fail(fix->host[0], buffer, POD_REASON_RESOURCE_EXHAUSTED, "full");
    assert_state(fix, write, "SKIPPED");
    assert_state(fix, read, "SKIPPED");
    assert_int_equal(fixture_root(fix, read), buffer);
    // The host has both still, and was asked to let go.
    assert_true(fake_peek(fix->host[0], 0, &call));
    assert_int_equal(call.op, write);
    assert_true(call.cancelled);
    // It fails them as well; that tells nothing new.
    fake_fail(fix->host[0], write, POD_REASON_WORKER_ERROR, "echo");
    fake_fail(fix->host[0], read, POD_REASON_WORKER_ERROR, "echo");
    assert_state(fix, write, "SKIPPED");
    assert_int_equal(fake_open(fix->host[0]), 0);
}

static void test_a_loss_ends_what_was_sent_ahead(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    uint64_t write = fixture_write(fix, buffer, 0, 8);

    fake_lose(fix->host[0], "gone");
    assert_state(fix, buffer, "LOST");
    assert_state(fix, write, "SKIPPED");
    assert_int_equal(fixture_root(fix, write), buffer);
}

// A writer after readers, a free after users: they must end, not go well.
static void test_order_alone_is_sent_too(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    uint64_t read = fixture_read(fix, buffer);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    uint64_t gone = fixture_free(fix, buffer);
    struct fake_call call;

    assert_int_equal(fake_open(fix->host[0]), 3);
    assert_true(fake_find(fix->host[0], FAKE_WRITE, &call));
    assert_int_equal(call.wait_count, 0);
    assert_int_equal(call.order_count, 1);
    assert_int_equal(call.orders[0], read);
    assert_true(fake_find(fix->host[0], FAKE_DEALLOCATE, &call));
    assert_int_equal(call.wait_count, 0);
    assert_int_equal(call.order_count, 1);
    assert_int_equal(call.orders[0], write);
    fake_fail(fix->host[0], read, POD_REASON_WORKER_ERROR, "broken");
    fixture_run(fix);
    assert_state(fix, write, "SUCCEEDED");
    assert_state(fix, gone, "SUCCEEDED");
}

// If the making fails there is nothing to free.
static void test_a_free_waits_for_the_making_here(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    uint64_t gone = fixture_free(fix, buffer);

    assert_int_equal(fake_open(fix->host[0]), 1);
    fake_fail(fix->host[0], buffer, POD_REASON_RESOURCE_EXHAUSTED, "full");
    assert_int_equal(fake_open(fix->host[0]), 0);
    assert_state(fix, gone, "SUCCEEDED");
}

// The host knows a transfer by its first piece alone, so others wait here.
static void test_several_pieces_go_ahead_but_none_ahead_of_them(void **state)
{
    struct fixture *fix = *state; // pieces have 16 bytes
    uint64_t buffer = fixture_allocate(fix, 0, 17);
    uint64_t write = fixture_write(fix, buffer, 0, 17);
    uint64_t part = fixture_write(fix, buffer, 0, 16);
    struct fake_call call;

    assert_int_equal(fake_open(fix->host[0]), 3);
    assert_waits(fix, 1, write, &buffer, 1);
    // The second piece waits there for the first, and so for all that does.
    assert_true(fake_peek(fix->host[0], 2, &call));
    assert_int_equal(call.wait_count, 1);
    assert_int_equal(call.waits[0], write);
    fake_done(fix->host[0], buffer);
    assert_int_equal(fake_open(fix->host[0]), 2);
    fake_done(fix->host[0], write);
    assert_int_equal(fake_open(fix->host[0]), 1);
    assert_true(fake_find(fix->host[0], FAKE_WRITE, &call));
    assert_int_equal(call.offset, 16);
    assert_int_equal(call.count, 1);
    fake_done(fix->host[0], call.op);
    assert_state(fix, write, "SUCCEEDED");
    assert_true(fake_find(fix->host[0], FAKE_WRITE, &call));
    assert_int_equal(call.op, part);
    fixture_run(fix);
    assert_state(fix, write, "SUCCEEDED");
    assert_state(fix, part, "SUCCEEDED");
}

// At most as many pieces as a transfer has slots, whatever there is to write.
static void test_pieces_of_a_write_are_few(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 100); // seven pieces
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 0, 100);

    assert_int_equal(fake_open(fix->host[0]), 4);
    fake_done(fix->host[0], write);
    assert_int_equal(fake_open(fix->host[0]), 4);
    fixture_run(fix);
    assert_state(fix, write, "SUCCEEDED");
}

// The others end with it, and say nothing new.
static void test_a_piece_that_fails_stops_the_write(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 100);
    struct fake_call call;
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 0, 100);

    fake_fail(fix->host[0], write, POD_REASON_WORKER_ERROR, "worn out");
    assert_int_equal(fake_open(fix->host[0]), 3);
    while (fake_peek(fix->host[0], 0, &call)) {
        assert_true(call.cancelled);
        assert_state(fix, write, "READY");
        fake_fail(fix->host[0], call.op, POD_REASON_HOST_UNAVAILABLE, "echo");
    }
    assert_state(fix, write, "FAILED");
    fixture_assert_reason(fix, write, "WORKER_ERROR");
}

static void test_a_cancel_stops_pieces_that_were_sent_ahead(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 40);
    uint64_t read = fixture_read(fix, buffer);
    bool again;
    struct pod_err err;

    assert_int_equal(fake_open(fix->host[0]), 4); // three pieces
    assert_int_equal(
        pod_cancel(fix->pod, read, POD_CASCADE_NONE, "no more", &again, &err),
        POD_OK);
    for (size_t i = 1; i < 4; i++) {
        struct fake_call call;
        assert_true(fake_peek(fix->host[0], i, &call));
        assert_true(call.cancelled);
    }
    fake_done(fix->host[0], buffer);
    for (size_t i = 0; i < 3; i++) {
        struct fake_call call;
        assert_true(fake_peek(fix->host[0], 0, &call));
        fake_fail(fix->host[0], call.op, POD_REASON_CANCEL_REQUESTED, "so");
    }
    assert_state(fix, read, "CANCELLED");
    assert_state(fix, buffer, "SUCCEEDED");
    assert_int_equal(fake_open(fix->host[0]), 0);
}

// A host that came back compiles again; what it is to load and run goes to it
// meanwhile.
static uint64_t load_anew(struct fixture *fix, uint64_t *out_compile)
{
    uint64_t program = fixture_compile(fix, "sha-256:a");
    struct fake_call call;

    fixture_run(fix);
    fake_lose(fix->host[0], "gone");
    fake_ready(fix->host[0]);
    uint64_t load = fixture_load_on(fix, program, 0);
    assert_int_equal(fake_open(fix->host[0]), 2);
    assert_true(fake_peek(fix->host[0], 0, &call));
    assert_int_equal(call.kind, FAKE_COMPILE);
    *out_compile = call.op;
    assert_true(fake_peek(fix->host[0], 1, &call));
    assert_int_equal(call.kind, FAKE_LOAD);
    assert_int_equal(call.op, load);
    assert_int_equal(call.handle, *out_compile);
    return load;
}

static void test_a_load_is_sent_behind_its_compile(void **state)
{
    struct fixture *fix = *state;
    uint64_t compile;
    uint64_t load = load_anew(fix, &compile);
    uint64_t in = fixture_allocate(fix, 0, 8);
    uint64_t out = fixture_allocate(fix, 0, 8);
    uint64_t run = fixture_execute(fix, load, in, out);

    assert_int_equal(fake_open(fix->host[0]), 5);
    assert_waits(fix, 4, run, (uint64_t[]){load, in, out}, 3);
    fixture_run(fix);
    assert_state(fix, load, "SUCCEEDED");
    assert_state(fix, run, "SUCCEEDED");
}

static void test_a_load_fails_with_its_compile(void **state)
{
    struct fixture *fix = *state;
    uint64_t compile;
    uint64_t load = load_anew(fix, &compile);
    uint64_t in = fixture_allocate(fix, 0, 8);
    uint64_t run = fixture_execute(fix, load, in, in);

    fake_fail(fix->host[0], compile, POD_REASON_INVALID_PROGRAM, "bad");
    fake_fail(fix->host[0], load, POD_REASON_INVALID_PROGRAM, "bad");
    assert_state(fix, load, "FAILED");
    assert_state(fix, run, "SKIPPED");
    assert_int_equal(fixture_root(fix, run), load);
    fixture_run(fix);
    assert_state(fix, in, "SUCCEEDED");
}

static void test_other_hosts_are_waited_for_here(void **state)
{
    struct fixture *fix = *state;
    uint64_t far = fixture_allocate(fix, 2, 8);
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_ref after = fixture_op(far);

    request.allocate.core = 0;
    request.allocate.bytes = 8;
    request.after = &after;
    request.after_count = 1;
    uint64_t near = fixture_submit(fix, &request);
    assert_int_equal(fake_open(fix->host[0]), 0);
    fake_done(fix->host[1], far);
    assert_waits(fix, 0, near, NULL, 0);
    fixture_run(fix);
}

// One that runs in spite of failures must not fail with what it waits for.
static void test_run_on_failure_waits_here(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = fixture_allocate(fix, 0, 8);
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_ref after = fixture_op(first);

    request.allocate.core = 0;
    request.allocate.bytes = 8;
    request.after = &after;
    request.after_count = 1;
    request.run_on_failure = true;
    uint64_t second = fixture_submit(fix, &request);
    assert_int_equal(fake_open(fix->host[0]), 1);
    fake_fail(fix->host[0], first, POD_REASON_WORKER_ERROR, "broken");
    assert_waits(fix, 0, second, NULL, 0);
    fixture_run(fix);
    assert_state(fix, second, "SUCCEEDED");
}

static void test_copies_on_one_host_are_sent_at_once(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffers[4];
    uint64_t copies[3];

    for (int i = 0; i < 4; i++)
        buffers[i] = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    for (int i = 0; i < 3; i++)
        copies[i] = fixture_copy(fix, buffers[i], buffers[i + 1]);
    assert_int_equal(fake_open(fix->host[0]), 3);
    assert_waits(fix, 1, copies[1], &copies[0], 1);
    assert_waits(fix, 2, copies[2], &copies[1], 1);
    fixture_run(fix);
    assert_state(fix, copies[2], "SUCCEEDED");
}

static void test_executions_queue_on_the_host(void **state)
{
    enum { RUNS = 20, WINDOW = 16 };
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:a");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t buffers[2] = {fixture_allocate(fix, 0, 8),
                           fixture_allocate(fix, 0, 8)};
    uint64_t runs[RUNS];

    fixture_run(fix);
    for (int i = 0; i < RUNS; i++)
        runs[i] =
            fixture_execute(fix, load, buffers[i % 2], buffers[(i + 1) % 2]);
    // Each reads what the one before wrote, and that is all it waits for.
    assert_int_equal(fake_open(fix->host[0]), WINDOW);
    assert_waits(fix, 0, runs[0], NULL, 0);
    for (size_t i = 1; i < WINDOW; i++)
        assert_waits(fix, i, runs[i], &runs[i - 1], 1);
    fake_done(fix->host[0], runs[0]);
    assert_int_equal(fake_open(fix->host[0]), WINDOW);
    fixture_run(fix);
    assert_state(fix, runs[RUNS - 1], "SUCCEEDED");
}

// ----------------------------------------------------------------------- peers

static void test_a_copy_goes_from_host_to_host(void **state)
{
    struct fixture *fix = *state;
    uint64_t from = fixture_allocate(fix, 0, 100);
    uint64_t to = fixture_allocate(fix, 2, 100);
    fixture_run(fix);
    uint64_t copy = fixture_copy(fix, from, to);
    struct fake_call call;

    assert_int_equal(fake_open(fix->host[0]), 0);
    assert_true(fake_find(fix->host[1], FAKE_PEER_COPY, &call));
    assert_int_equal(call.op, copy);
    assert_int_equal(call.peer, 0);
    assert_int_equal(call.from, from);
    assert_int_equal(call.handle, to);
    fake_done(fix->host[1], copy);
    assert_state(fix, copy, "SUCCEEDED");
}

static void test_a_copy_that_finds_no_way_goes_through_here(void **state)
{
    struct fixture *fix = *state;
    uint64_t from = fixture_allocate(fix, 0, 40);
    uint64_t to = fixture_allocate(fix, 2, 40);
    fixture_run(fix);
    uint64_t copy = fixture_copy(fix, from, to);

    fake_fail(fix->host[1], copy, POD_REASON_HOST_UNAVAILABLE, "no way");
    assert_state(fix, copy, "READY");
    assert_int_equal(fake_open(fix->host[0]), 3); // pieces of 16, 16 and 8
    for (int i = 0; i < 4; i++)
        fixture_run(fix);
    assert_state(fix, copy, "SUCCEEDED");
    assert_int_equal(fake_count(fix->host[1], FAKE_WRITE), 3);
}

static void test_a_copy_that_fails_otherwise_has_failed(void **state)
{
    struct fixture *fix = *state;
    uint64_t from = fixture_allocate(fix, 0, 40);
    uint64_t to = fixture_allocate(fix, 2, 40);
    fixture_run(fix);
    uint64_t copy = fixture_copy(fix, from, to);

    fake_fail(fix->host[1], copy, POD_REASON_WORKER_ERROR, "bad");
    assert_state(fix, copy, "FAILED");
    assert_int_equal(fake_open(fix->host[0]), 0);
}

int main(void)
{
#define AHEAD(test)                                                            \
    cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)
#define PEERS(test)                                                            \
    cmocka_unit_test_setup_teardown(test, setup_peers, fixture_teardown)
    const struct CMUnitTest tests[] = {
        AHEAD(test_a_chain_is_sent_at_once),
        AHEAD(test_answers_may_come_in_any_order),
        AHEAD(test_answers_together_show_each_state),
        AHEAD(test_a_failure_skips_what_was_sent_ahead),
        AHEAD(test_a_loss_ends_what_was_sent_ahead),
        AHEAD(test_order_alone_is_sent_too),
        AHEAD(test_a_free_waits_for_the_making_here),
        AHEAD(test_several_pieces_go_ahead_but_none_ahead_of_them),
        AHEAD(test_pieces_of_a_write_are_few),
        AHEAD(test_a_piece_that_fails_stops_the_write),
        AHEAD(test_a_cancel_stops_pieces_that_were_sent_ahead),
        AHEAD(test_a_load_is_sent_behind_its_compile),
        AHEAD(test_a_load_fails_with_its_compile),
        AHEAD(test_other_hosts_are_waited_for_here),
        AHEAD(test_run_on_failure_waits_here),
        AHEAD(test_copies_on_one_host_are_sent_at_once),
        AHEAD(test_executions_queue_on_the_host),
        PEERS(test_a_copy_goes_from_host_to_host),
        PEERS(test_a_copy_that_finds_no_way_goes_through_here),
        PEERS(test_a_copy_that_fails_otherwise_has_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
