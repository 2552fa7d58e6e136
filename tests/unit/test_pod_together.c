// SPDX-License-Identifier: Apache-2.0
// Calls that hosts answer together, on fake hosts: the engine completes them
// under one hold of its lock. What is seen afterwards, and in what order, is
// the same as if each had been answered by itself.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/pod/changes.h"
#include "core/pod/internal.h"
#include "tests/lib/pod_fixture.h"
#include "tests/unit/request_list.h"

enum { MANY = 200, CHANGES = 8 * MANY };

_Static_assert((int)MANY > 3 * POD_DONE_MAX, "the scheduler is told in parts");

static int setup_ahead(void **state)
{
    return fixture_setup(state, POD_DRIVER_WAITS | POD_DRIVER_ORDERS);
}

static int setup_peers(void **state)
{
    return fixture_setup(state, POD_DRIVER_WAITS | POD_DRIVER_ORDERS |
                                    POD_DRIVER_PEER_COPY);
}

// ------------------------------------------------------------------- requests

// A byte on core 0, once others are done.
static uint64_t allocate_after(struct fixture *fix, const uint64_t *deps,
                               size_t count)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_ref after[MANY];

    assert_true(count <= MANY);
    for (size_t i = 0; i < count; i++)
        after[i] = fixture_op(deps[i]);
    request.allocate.bytes = 1;
    request.after = after;
    request.after_count = count;
    return fixture_submit(fix, &request);
}

static void allocate_many(struct fixture *fix, uint64_t *out_ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out_ops[i] = allocate_after(fix, NULL, 0);
}

// With a time by which it is to be done.
static uint64_t allocate_until(struct fixture *fix, int64_t deadline_ns)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);

    request.allocate.bytes = 1;
    request.deadline_ns = deadline_ns;
    return fixture_submit(fix, &request);
}

static void cancel(struct fixture *fix, uint64_t number)
{
    struct pod_err err;
    bool again;

    assert_int_equal(
        pod_cancel(fix->pod, number, POD_CASCADE_NONE, NULL, &again, &err),
        POD_OK);
}

// A program on core 0 whose result is that, loaded.
static uint64_t loaded(struct fixture *fix, const char *result)
{
    for (size_t i = 0; i < fix->host_count; i++)
        fake_set_shape(fix->host[i], "f32[2]", result);
    uint64_t program = fixture_compile(fix, "sha-256:a");
    uint64_t load = fixture_load_on(fix, program, 0);
    fixture_run(fix);
    assert_state(fix, load, "SUCCEEDED");
    return load;
}

static void assert_all(struct fixture *fix, const uint64_t *ops, size_t count,
                       const char *state)
{
    for (size_t i = 0; i < count; i++)
        assert_state(fix, ops[i], state);
}

static void assert_times(struct fixture *fix, uint64_t number, int64_t ready,
                         int64_t running, int64_t finished)
{
    struct pod_event_view view;
    struct pod_err err;

    assert_int_equal(pod_get_event(fix->pod, number, &view, &err), POD_OK);
    assert_int_equal(view.ready_ns, ready);
    assert_int_equal(view.running_ns, running);
    assert_int_equal(view.finished_ns, finished);
    pod_event_view_fini(&view);
}

// -------------------------------------------------------------------- changes

struct log {
    struct pod_change items[CHANGES];
    size_t count;
};

static struct log log_after(struct fixture *fix, uint64_t start)
{
    static struct log log;
    struct pod_err err;

    assert_int_equal(
        pod_read_changes(fix->pod, start, CHANGES, log.items, &log.count, &err),
        POD_OK);
    assert_true(log.count < CHANGES);
    return log;
}

// Where an operation comes to a state; it does so once.
static size_t place(const struct log *log, uint64_t op,
                    enum pod_sched_state state)
{
    size_t found = SIZE_MAX;

    for (size_t i = 0; i < log->count; i++) {
        const struct pod_change *change = &log->items[i];
        if (change->kind != POD_CHANGE_EVENT || change->number != op ||
            change->state != state)
            continue;
        assert_true(found == SIZE_MAX);
        found = i;
    }
    if (found == SIZE_MAX)
        fail_msg("op-%llu is not seen to be %s", (unsigned long long)op,
                 pod_sched_state_name(state));
    return found;
}

// READY, RUNNING and SUCCEEDED, in this order, the first of them after `from`.
// Returns the place of the last.
static size_t place_of_end(const struct log *log, uint64_t op, size_t from)
{
    size_t ready = place(log, op, POD_SCHED_READY);
    size_t running = place(log, op, POD_SCHED_RUNNING);
    size_t end = place(log, op, POD_SCHED_SUCCEEDED);

    assert_true(from <= ready && ready < running && running < end);
    return end;
}

// ---------------------------------------------------------------------- edges

static void test_a_join(void **state)
{
    struct fixture *fix = *state;
    uint64_t ops[5];

    allocate_many(fix, ops, 5);
    uint64_t join = allocate_after(fix, ops, 5);
    uint64_t start = pod_last_change(fix->pod, false);
    fake_start_done_together(fix->host[0], ops, 4);
    assert_all(fix, ops, 4, "SUCCEEDED");
    assert_state(fix, ops[4], "READY");
    assert_state(fix, join, "WAITING");
    fake_start_done_together(fix->host[0], ops + 4, 1);
    assert_state(fix, join, "READY");
    assert_int_equal(fake_open(fix->host[0]), 1);
    fake_start_done_together(fix->host[0], &join, 1);
    assert_state(fix, join, "SUCCEEDED");
    const struct log log = log_after(fix, start);
    for (size_t i = 0; i < 5; i++)
        assert_true(place(&log, ops[i], POD_SCHED_SUCCEEDED) <
                    place(&log, join, POD_SCHED_READY));
}

// More than are launched at once, and more than are told at once.
static void test_a_wide_fan_and_its_join(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = allocate_after(fix, NULL, 0);
    uint64_t ops[MANY];

    for (size_t i = 0; i < MANY; i++)
        ops[i] = allocate_after(fix, &first, 1);
    uint64_t join = allocate_after(fix, ops, MANY);
    assert_int_equal(fake_open(fix->host[0]), 1);
    fake_start_done_together(fix->host[0], &first, 1);
    fake_await_open(fix->host[0], MANY);
    assert_all(fix, ops, MANY, "READY");
    fake_start_done_together(fix->host[0], ops, MANY - 1);
    assert_all(fix, ops, MANY - 1, "SUCCEEDED");
    assert_state(fix, join, "WAITING");
    fake_start_done_together(fix->host[0], ops + MANY - 1, 1);
    // The host's thread may still be at the end of the many.
    fake_await_open(fix->host[0], 1);
    fixture_run(fix);
    assert_state(fix, join, "SUCCEEDED");
}

// Each of many has a dependent of its own.
static void test_many_pairs(void **state)
{
    struct fixture *fix = *state;
    uint64_t ops[MANY];
    uint64_t next[MANY];

    allocate_many(fix, ops, MANY);
    for (size_t i = 0; i < MANY; i++)
        next[i] = allocate_after(fix, &ops[i], 1);
    uint64_t start = pod_last_change(fix->pod, false);
    fake_start_done_together(fix->host[0], ops, MANY);
    assert_all(fix, ops, MANY, "SUCCEEDED");
    assert_all(fix, next, MANY, "READY");
    fake_await_open(fix->host[0], MANY);
    const struct log log = log_after(fix, start);
    for (size_t i = 0; i < MANY; i++)
        assert_true(place(&log, ops[i], POD_SCHED_SUCCEEDED) <
                    place(&log, next[i], POD_SCHED_READY));
}

// Two streams may bring answers in another order than that of the work.
static void answer_a_chain(struct fixture *fix, const size_t order[3])
{
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    const uint64_t chain[] = {buffer, fixture_write(fix, buffer, 0, 8),
                              fixture_write(fix, buffer, 0, 8)};
    const uint64_t answers[] = {chain[order[0]], chain[order[1]],
                                chain[order[2]]};
    uint64_t start = pod_last_change(fix->pod, false);

    assert_int_equal(fake_open(fix->host[0]), 3);
    fake_start_done_together(fix->host[0], answers, 3);
    assert_all(fix, chain, 3, "SUCCEEDED");
    const struct log log = log_after(fix, start);
    size_t end = place(&log, buffer, POD_SCHED_SUCCEEDED);
    if (order[0] > order[1] || order[1] > order[2])
        return; // what comes later is seen to be done before
    end = place_of_end(&log, chain[1], end);
    (void)place_of_end(&log, chain[2], end);
}

static void test_a_chain_sent_ahead(void **state)
{
    static const size_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                       {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
        answer_a_chain(*state, orders[i]);
}

// A write of one piece is over as soon as it is answered, and what the last
// answer launches was to be sent behind it: that is not broken.
static void test_behind_a_write_of_one_piece(void **state)
{
    struct fixture *fix = *state;
    uint64_t near = fixture_allocate(fix, 0, 8);
    uint64_t copied = fixture_allocate(fix, 0, 8);
    uint64_t far = fixture_allocate(fix, 2, 8);
    fixture_run(fix);
    uint64_t write = fixture_write(fix, near, 0, 8);
    uint64_t copy = fixture_copy(fix, far, copied);
    uint64_t timed = allocate_until(fix, 1000000);
    struct pod_request request = fixture_request(POD_KIND_READ);
    struct pod_ref after = fixture_op(copy);

    request.read.buffer = fixture_buffer(near);
    request.read.length = UINT64_MAX;
    request.after = &after;
    request.after_count = 1;
    uint64_t read = fixture_submit(fix, &request);
    assert_int_equal(fake_open(fix->host[0]), 3);
    fake_start_done_together(fix->host[0], (uint64_t[]){write, copy, timed}, 3);
    assert_state(fix, write, "SUCCEEDED");
    assert_state(fix, copy, "SUCCEEDED");
    assert_state(fix, timed, "SUCCEEDED");
    assert_state(fix, read, "READY");
    fixture_run(fix);
    assert_state(fix, read, "SUCCEEDED");
}

// What is launched may be over at once, and launch more.
static void test_a_free_of_nothing_behind_the_batch(void **state)
{
    struct fixture *fix = *state;
    uint64_t bad = fixture_allocate(fix, 0, 8);
    uint64_t first = allocate_after(fix, NULL, 0);
    struct pod_request request = fixture_request(POD_KIND_FREE);
    struct pod_ref after = fixture_op(first);

    request.free.handle = fixture_buffer(bad);
    request.after = &after;
    request.after_count = 1;
    uint64_t gone = fixture_submit(fix, &request);
    uint64_t next = allocate_after(fix, &gone, 1);
    fake_fail(fix->host[0], bad, POD_REASON_RESOURCE_EXHAUSTED, "full");
    assert_state(fix, gone, "WAITING");
    fake_start_done_together(fix->host[0], &first, 1);
    assert_state(fix, gone, "SUCCEEDED");
    assert_state(fix, next, "READY");
    assert_int_equal(fake_open(fix->host[0]), 1);
}

// ----------------------------------------------------------- states and times

static void test_times(void **state)
{
    struct fixture *fix = *state;
    uint64_t ops[3];

    allocate_many(fix, ops, 3);
    uint64_t next = allocate_after(fix, ops, 3);
    fix->now_ns += 5;
    fake_start(fix->host[0], ops[1]);
    fix->now_ns += 5;
    fake_start_done_together(fix->host[0], ops, 2);
    fake_done_together(fix->host[0], ops + 2, 1);
    assert_times(fix, ops[0], 0, 10, 10);
    assert_times(fix, ops[1], 0, 5, 10); // it had begun before
    assert_times(fix, ops[2], 0, -1, 10);
    assert_times(fix, next, 10, -1, -1);
}

static void test_running_executions_are_counted(void **state)
{
    struct fixture *fix = *state;
    struct pod_topology_view view;
    struct pod_err err;
    uint64_t load = loaded(fix, "f32[2]");
    uint64_t in = fixture_allocate(fix, 0, 8);
    uint64_t out = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    uint64_t run = fixture_execute(fix, load, in, out);
    uint64_t plain = allocate_after(fix, NULL, 0);
    uint64_t again = fixture_execute(fix, load, in, out);
    uint64_t last = allocate_after(fix, &again, 1);

    fake_start(fix->host[0], run);
    fake_start_done_together(fix->host[0], (uint64_t[]){plain, run}, 2);
    assert_state(fix, run, "SUCCEEDED");
    assert_state(fix, again, "READY");
    fake_start_done_together(fix->host[0], &again, 1);
    fixture_run(fix);
    assert_state(fix, last, "SUCCEEDED");
    assert_int_equal(pod_get_topology(fix->pod, &view, &err), POD_OK);
    assert_int_equal(view.cores[0].running_count, 0);
    assert_int_equal(view.cores[0].queue_depth, 0);
    pod_topology_view_fini(&view);
}

// One whose time was over, and one that was to be cancelled, among others.
static void test_those_that_were_to_end(void **state)
{
    struct fixture *fix = *state;
    uint64_t ops[4] = {allocate_until(fix, 5)};
    struct pod_event_view view;
    struct fake_call call;
    struct pod_err err;

    allocate_many(fix, ops + 1, 3);
    cancel(fix, ops[2]);
    fix->now_ns += 10;
    pod_tick(fix->pod);
    assert_state(fix, ops[0], "FAILED");
    fake_start_done_together(fix->host[0], ops, 4);
    assert_state(fix, ops[0], "FAILED");
    assert_all(fix, ops + 1, 3, "SUCCEEDED");
    assert_int_equal(pod_get_event(fix->pod, ops[2], &view, &err), POD_OK);
    assert_int_equal(view.cancel, POD_CANCEL_NOT_INTERRUPTIBLE);
    assert_false(view.has_error);
    pod_event_view_fini(&view);
    // The host gives back what nobody can use.
    assert_int_equal(fake_open(fix->host[0]), 1);
    assert_true(fake_find(fix->host[0], FAKE_DEALLOCATE, &call));
    assert_int_equal(call.handle, ops[0]);
    fake_done_together(fix->host[0], &call.op, 1);
    assert_int_equal(fake_open(fix->host[0]), 0);
}

// Its driver is closed by a thread of its own, and then says that all went
// well.
static void test_a_removed_host(void **state)
{
    struct fixture *fix = *state;
    struct pod_err err;
    uint64_t near = fixture_allocate(fix, 0, 8);
    uint64_t far[3];
    for (size_t i = 0; i < 3; i++)
        far[i] = fixture_allocate(fix, 2, 8);
    uint64_t next = allocate_after(fix, far, 3);

    fake_set_ends_well(fix->host[1]);
    fix->host_count = 1;
    assert_int_equal(pod_remove_host(fix->pod, 1, true, &err), POD_OK);
    fake_start_done_together(fix->host[0], &near, 1);
    pod_await_idle(fix->pod, POD_NEVER);
    assert_all(fix, far, 3, "LOST");
    assert_state(fix, next, "SKIPPED");
    assert_state(fix, near, "SUCCEEDED");
}

// ------------------------------------------------------ graphs, outputs, frees

static void test_the_last_of_a_graph(void **state)
{
    struct fixture *fix = *state;
    struct pod_graph_view view;
    struct pod_err err;

    memset(&list, 0, sizeof(list));
    list.self = fixture_request(POD_KIND_GRAPH);
    list.graph.self = &list.self;
    list.graph.ops = list.ops;
    for (int i = 0; i < 100; i++)
        (void)list_allocate(0, 1);
    list_accepted(fix);
    uint64_t next = allocate_after(fix, &list.number, 1);
    fake_await_open(fix->host[0], 100);
    fix->now_ns += 7;
    fake_start_done_together(fix->host[0], list.numbers, 99);
    assert_int_not_equal(fixture_state(fix, list.number), POD_SCHED_SUCCEEDED);
    fake_start_done_together(fix->host[0], list.numbers + 99, 1);
    assert_int_equal(pod_get_graph(fix->pod, list.number, &view, &err), POD_OK);
    assert_int_equal(view.state, POD_SCHED_SUCCEEDED);
    assert_int_equal(view.finished_ns, 7);
    assert_int_equal(view.counts[POD_SCHED_SUCCEEDED], 100);
    pod_graph_view_fini(&view);
    assert_state(fix, next, "READY");
}

// A graph ends within the batch, and more is answered behind that.
static void test_a_graph_ends_in_the_middle(void **state)
{
    struct fixture *fix = *state;
    uint64_t ops[3];

    memset(&list, 0, sizeof(list));
    list.self = fixture_request(POD_KIND_GRAPH);
    list.graph.self = &list.self;
    list.graph.ops = list.ops;
    (void)list_allocate(0, 1);
    list_accepted(fix);
    allocate_many(fix, ops + 1, 2);
    uint64_t next = allocate_after(fix, &list.number, 1);
    ops[0] = list.numbers[0];
    uint64_t start = pod_last_change(fix->pod, false);
    fake_start_done_together(fix->host[0], ops, 3);
    assert_state(fix, list.number, "SUCCEEDED");
    assert_all(fix, ops, 3, "SUCCEEDED");
    assert_state(fix, next, "READY");
    const struct log log = log_after(fix, start);
    assert_true(place(&log, ops[0], POD_SCHED_SUCCEEDED) <
                place(&log, list.number, POD_SCHED_SUCCEEDED));
    assert_true(place(&log, list.number, POD_SCHED_SUCCEEDED) <
                place(&log, next, POD_SCHED_READY));
}

// What an execution puts out is allocated, and the execution itself done, among
// others.
static void test_parts_of_an_output(void **state)
{
    struct fixture *fix = *state;
    struct pod_event_view view;
    struct pod_err err;
    uint64_t load = loaded(fix, "(f32[2], (s32[], f32[3]))");
    uint64_t in = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    uint64_t runs[2];

    for (size_t i = 0; i < 2; i++)
        runs[i] = fixture_execute(fix, load, in, 0);
    uint64_t next = allocate_after(fix, runs, 2);
    fake_run_together(fix->host[0]);
    assert_all(fix, runs, 2, "SUCCEEDED");
    assert_state(fix, next, "SUCCEEDED");
    assert_int_equal(fake_count(fix->host[0], FAKE_EXECUTE), 2);
    assert_int_equal(fake_count(fix->host[0], FAKE_ALLOCATE), 1 + 2 * 3 + 1);
    assert_int_equal(pod_get_event(fix->pod, runs[1], &view, &err), POD_OK);
    assert_int_equal(view.output_count, 3);
    assert_all(fix, view.outputs, 3, "SUCCEEDED");
    pod_event_view_fini(&view);
}

// Where the program is compiled only when the execution waits for it the output
// is one buffer, which turns out to be a tuple.
static void test_parts_of_a_late_output(void **state)
{
    struct fixture *fix = *state;

    for (size_t i = 0; i < fix->host_count; i++)
        fake_set_shape(fix->host[i], "f32[2]", "(f32[2], f32[2])");
    uint64_t program = fixture_compile(fix, "sha-256:late");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t in = fixture_allocate(fix, 0, 8);
    uint64_t run = fixture_execute(fix, load, in, 0);
    for (int i = 0; i < 10; i++) {
        fake_run_together(fix->host[1]);
        fake_run_together(fix->host[0]);
    }
    assert_state(fix, run, "SUCCEEDED");
    assert_int_equal(fake_count(fix->host[0], FAKE_ALLOCATE), 3);
    assert_int_equal(fake_count(fix->host[0], FAKE_TUPLE), 1);
}

// What a host would not let go of it is asked for again: that, too, may be
// answered with others.
static void test_frees_that_were_refused(void **state)
{
    struct fixture *fix = *state;
    struct pod_topology_view view;
    struct pod_err err;
    struct fake_call call;
    uint64_t load = loaded(fix, "f32[2]");
    uint64_t buffer = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t gone = fixture_free(fix, buffer);
    struct pod_request request = fixture_request(POD_KIND_UNLOAD);

    request.unload.load = fixture_load(load);
    uint64_t unload = fixture_submit(fix, &request);
    fake_fail(fix->host[0], gone, POD_REASON_RESOURCE_EXHAUSTED, "busy");
    fake_fail(fix->host[0], unload, POD_REASON_RESOURCE_EXHAUSTED, "busy");
    uint64_t plain = allocate_after(fix, NULL, 0);
    fix->now_ns += 64 * POD_NS_PER_S;
    fake_beat(fix->host[0]);
    uint64_t ops[3] = {plain};
    size_t count = 1;
    for (size_t i = 0; fake_peek(fix->host[0], i, &call); i++) {
        assert_true(count < 3 || call.op == plain);
        if (call.op != plain)
            ops[count++] = call.op;
    }
    assert_int_equal(count, 3);
    fake_done_together(fix->host[0], ops, count);
    assert_int_equal(fake_open(fix->host[0]), 0);
    assert_int_equal(pod_get_topology(fix->pod, &view, &err), POD_OK);
    assert_int_equal(view.cores[0].memory_used, 1); // `plain`
    assert_int_equal(view.open_operations, 0);
    pod_topology_view_fini(&view);
}

// Calls that belong to no operation, but to a program that several share.
static void test_programs_that_are_freed(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = fixture_compile(fix, "sha-256:1");
    uint64_t second = fixture_compile(fix, "sha-256:2");
    struct pod_request request = fixture_request(POD_KIND_FREE);
    uint64_t frees[2];

    fixture_run(fix);
    request.free.handle = fixture_program(first);
    frees[0] = fixture_submit(fix, &request);
    request.free.handle = fixture_program(second);
    frees[1] = fixture_submit(fix, &request);
    uint64_t next = allocate_after(fix, frees, 2);
    for (int i = 0; i < 3; i++) {
        fake_run_together(fix->host[0]);
        fake_run_together(fix->host[1]);
    }
    assert_all(fix, frees, 2, "SUCCEEDED");
    assert_state(fix, next, "SUCCEEDED");
    assert_int_equal(fake_count(fix->host[0], FAKE_FREE_PROGRAM), 2);
    assert_int_equal(fake_count(fix->host[1], FAKE_FREE_PROGRAM), 2);
}

// ------------------------------------------------------------- who looks on

static void test_who_waits_is_woken_once(void **state)
{
    enum { WAITERS = 5 };
    struct fixture *fix = *state;
    struct pod_waiter waiters[WAITERS] = {{.owner = NULL}};
    struct pod_list woken;
    uint64_t ops[WAITERS];

    allocate_many(fix, ops, 3);
    ops[3] = allocate_after(fix, ops, 3); // becomes READY
    ops[4] = allocate_after(fix, ops + 3, 1);
    for (size_t i = 0; i < 3; i++)
        assert_true(pod_wait_add(fix->pod, &waiters[i], ops[i], 0));
    for (size_t i = 3; i < 5; i++) {
        struct pod_event_view view;
        assert_int_equal(pod_get_event(fix->pod, ops[i], &view, NULL), POD_OK);
        assert_true(pod_wait_add(fix->pod, &waiters[i], ops[i], view.revision));
        pod_event_view_fini(&view);
    }
    fix->notified = 0;
    fake_start_done_together(fix->host[0], ops, 3);
    assert_int_equal(fix->notified, 1);
    pod_list_init(&woken);
    pod_take_woken(fix->pod, &woken);
    for (size_t i = 0; i < 4; i++)
        assert_ptr_equal(pod_list_pop_front(&woken), &waiters[i].link);
    assert_true(pod_list_empty(&woken));
    pod_wait_remove(fix->pod, &waiters[4]);
}

// As many as a driver tells of at once, of which each frees something.
static void test_history_keeps_its_bound(void **state)
{
    enum { FEW = 10 };
    struct fixture fix;
    struct pod_summary summary;
    struct pod_err err;
    uint64_t ops[POD_DONE_MAX];
    uint64_t frees[POD_DONE_MAX];

    (void)state;
    fixture_init_options(&fix, 1, FEW, POD_NEVER, 0, 1000);
    fake_ready(fix.host[0]);
    allocate_many(&fix, ops, POD_DONE_MAX);
    fake_start_done_together(fix.host[0], ops, POD_DONE_MAX);
    for (size_t i = 0; i < POD_DONE_MAX; i++)
        frees[i] = fixture_free(&fix, ops[i]);
    fake_start_done_together(fix.host[0], frees, POD_DONE_MAX);
    assert_int_equal(pod_get_summary(fix.pod, &summary, &err), POD_OK);
    assert_int_equal(summary.by_state[POD_SCHED_SUCCEEDED], FEW);
    pod_summary_fini(&summary);
    fixture_fini(&fix);
}

int main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, fixture_setup_two, fixture_teardown)
#define AHEAD(name)                                                            \
    cmocka_unit_test_setup_teardown(name, setup_ahead, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_join),
        TEST(test_a_wide_fan_and_its_join),
        TEST(test_many_pairs),
        AHEAD(test_a_chain_sent_ahead),
        cmocka_unit_test_setup_teardown(test_behind_a_write_of_one_piece,
                                        setup_peers, fixture_teardown),
        TEST(test_a_free_of_nothing_behind_the_batch),
        TEST(test_times),
        TEST(test_running_executions_are_counted),
        TEST(test_those_that_were_to_end),
        TEST(test_a_removed_host),
        TEST(test_the_last_of_a_graph),
        TEST(test_a_graph_ends_in_the_middle),
        TEST(test_parts_of_an_output),
        TEST(test_parts_of_a_late_output),
        TEST(test_frees_that_were_refused),
        TEST(test_programs_that_are_freed),
        TEST(test_who_waits_is_woken_once),
        cmocka_unit_test(test_history_keeps_its_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
