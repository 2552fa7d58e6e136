// SPDX-License-Identifier: Apache-2.0
// Graphs in the pod engine, on fake hosts whose answers come by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tests/lib/pod_fixture.h"
#include "tests/unit/request_list.h"

static struct pod_graph_view graph_view(struct fixture *fix, uint64_t number)
{
    struct pod_graph_view view;
    struct pod_err err;

    if (pod_get_graph(fix->pod, number, &view, &err) != POD_OK)
        fail_msg("no graph: %s", err.text);
    return view;
}

static uint64_t graph_count(struct fixture *fix, enum pod_sched_state state)
{
    struct pod_graph_view view = graph_view(fix, list.number);
    uint64_t count = view.counts[state];

    pod_graph_view_fini(&view);
    return count;
}

// --------------------------------------------------------------------- numbers

static void test_numbers_follow_the_list(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:a");
    uint64_t load = fixture_load_on(fix, program, 0);

    fixture_run(fix);
    fake_set_shape(fix->host[0], "f32[2]", "f32[2]");
    list_allocate(0, 8);
    list_execute(fixture_load(load), request_ref(0));
    list_free(request_ref(0));
    list_accepted(fix);
    assert_int_equal(list.number, load + 1);
    assert_int_equal(list.numbers[0], load + 2);
    // The automatic output takes the number before its execution's.
    assert_int_equal(list.numbers[1], load + 4);
    assert_int_equal(list.numbers[2], load + 5);
    assert_int_equal(pod_last_number(fix->pod), load + 5);
    assert_state(fix, list.number, "RUNNING");
    assert_int_equal(graph_count(fix, POD_SCHED_SUCCEEDED), 0);
    fixture_run(fix);
    assert_state(fix, list.number, "SUCCEEDED");
    assert_int_equal(graph_count(fix, POD_SCHED_SUCCEEDED), 4);
}

static void test_members_know_their_graph(void **state)
{
    struct fixture *fix = *state;
    struct pod_event_view view;
    struct pod_err err;

    list_allocate(0, 8);
    list_accepted(fix);
    assert_int_equal(pod_get_event(fix->pod, list.numbers[0], &view, &err),
                     POD_OK);
    assert_int_equal(view.graph, list.number);
    pod_event_view_fini(&view);
    assert_int_equal(pod_get_event(fix->pod, list.number, &view, &err), POD_OK);
    assert_int_equal(view.kind, POD_KIND_GRAPH);
    pod_event_view_fini(&view);
    assert_int_equal(pod_get_graph(fix->pod, list.numbers[0], NULL, &err),
                     POD_NOT_FOUND);
    assert_int_equal(pod_get_graph(fix->pod, 99, NULL, &err), POD_NOT_FOUND);
}

static void times_follow(struct fixture *fix, uint64_t number)
{
    struct pod_event_view view;
    struct pod_err err;

    assert_int_equal(pod_get_event(fix->pod, number, &view, &err), POD_OK);
    assert_true(view.ready_ns >= 0);
    assert_true(view.running_ns >= view.ready_ns);
    assert_true(view.finished_ns >= view.running_ns);
    pod_event_view_fini(&view);
}

static void test_times_follow_each_other(void **state)
{
    struct fixture *fix = *state;

    fix->look_ns = 1;
    list_allocate(0, 8);
    list_free(request_ref(0));
    list_accepted(fix);
    fake_start(fix->host[0], list.numbers[0]);
    fixture_run(fix);
    assert_state(fix, list.number, "SUCCEEDED");
    times_follow(fix, list.number);
    times_follow(fix, list.numbers[0]);
}

// ----------------------------------------------------------------------- order

// Answers the oldest call of the host, which must be of this operation.
static void answer_next(struct fixture *fix, size_t host, uint64_t number)
{
    struct fake_call call;

    assert_true(fake_peek(fix->host[host], 0, &call));
    assert_int_equal(call.op, number);
    assert_int_equal(fake_open(fix->host[host]), 1);
    fake_done(fix->host[host], number);
}

static void test_uses_follow_the_list(void **state)
{
    struct fixture *fix = *state;
    struct pod_ref from = fixture_buffer(fixture_allocate(fix, 0, 8));
    struct pod_ref to = fixture_buffer(fixture_allocate(fix, 0, 8));

    fixture_run(fix);
    list_copy(from, to);
    list_copy(from, to);
    list_free(to);
    list_accepted(fix);
    answer_next(fix, 0, list.numbers[0]);
    answer_next(fix, 0, list.numbers[1]);
    answer_next(fix, 0, list.numbers[2]);
    assert_state(fix, list.number, "SUCCEEDED");
}

static void test_a_list_need_not_be_sorted(void **state)
{
    struct fixture *fix = *state;

    list_free(request_ref(2));
    list_after(request_ref(1));
    list_copy(request_ref(3), request_ref(2));
    list_allocate(0, 8);
    list_allocate(0, 8);
    list_accepted(fix);
    assert_int_equal(list.numbers[0], list.number + 1);
    assert_int_equal(fake_open(fix->host[0]), 2);
    fake_done(fix->host[0], list.numbers[2]);
    answer_next(fix, 0, list.numbers[3]);
    answer_next(fix, 0, list.numbers[1]);
    answer_next(fix, 0, list.numbers[0]);
    assert_state(fix, list.number, "SUCCEEDED");
}

static void test_a_pushed_back_write_comes_last(void **state)
{
    struct fixture *fix = *state;
    struct pod_ref from = fixture_buffer(fixture_allocate(fix, 0, 8));
    struct pod_ref to = fixture_buffer(fixture_allocate(fix, 0, 8));

    fixture_run(fix);
    list_copy(from, to);
    list_after(request_ref(2));
    list_copy(from, to);
    list_allocate(0, 8);
    list_accepted(fix);
    // Of the two the one that waits for the allocation is the later one.
    fake_done(fix->host[0], list.numbers[2]);
    answer_next(fix, 0, list.numbers[1]);
    answer_next(fix, 0, list.numbers[0]);
    assert_state(fix, list.number, "SUCCEEDED");
}

static void test_outputs_that_were_given_are_outputs(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:a");
    struct pod_ref load = fixture_load(fixture_load_on(fix, program, 0));
    struct pod_ref out = fixture_buffer(fixture_allocate(fix, 0, 8));
    struct pod_ref output = {
        .kind = POD_REF_REQUEST, .number = 1, .has_output = true};
    struct pod_event_view view;

    fixture_run(fix);
    list_allocate(0, 8);
    list_execute(load, request_ref(0));
    list.launches[1].auto_outputs = false;
    list.launches[1].outputs = &out;
    list.launches[1].output_count = 1;
    list_copy(output, request_ref(0));
    list_accepted(fix);
    assert_int_equal(pod_get_event(fix->pod, list.numbers[2], &view, &list.err),
                     POD_OK);
    assert_int_equal(view.inputs[0], out.number);
    pod_event_view_fini(&view);
    fixture_run(fix);
    assert_state(fix, list.number, "SUCCEEDED");
    output.output = 1;
    list.requests[2].copy.from = output;
    assert_int_not_equal(list_submit(fix), POD_OK);
    assert_string_equal(list.items[0].pointer, "/ops/2/from");
}

static void test_all_wait_for_what_the_graph_waits_for(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = fixture_allocate(fix, 1, 8);
    struct pod_ref after = fixture_op(first);

    list.self.after = &after;
    list.self.after_count = 1;
    list_allocate(0, 8);
    list_free(request_ref(0));
    list_accepted(fix);
    assert_state(fix, list.numbers[0], "WAITING");
    assert_int_equal(fake_open(fix->host[0]), 1);
    fake_fail(fix->host[0], first, POD_REASON_WORKER_ERROR, "broken");
    assert_state(fix, list.numbers[0], "SKIPPED");
    assert_state(fix, list.numbers[1], "SKIPPED");
    assert_state(fix, list.number, "FAILED");
    assert_int_equal(fixture_root(fix, list.number), first);
}

// -------------------------------------------------------------------- failures

static void test_a_failure_skips_dependents_alone(void **state)
{
    struct fixture *fix = *state;

    list_allocate(0, 8);
    list_allocate(1, 8);
    list_after(request_ref(0));
    list_allocate(2, 8);
    list_accepted(fix);
    fake_fail(fix->host[0], list.numbers[0], POD_REASON_WORKER_ERROR, "no");
    assert_state(fix, list.numbers[1], "SKIPPED");
    assert_state(fix, list.number, "RUNNING");
    fixture_run(fix);
    assert_state(fix, list.numbers[2], "SUCCEEDED");
    assert_state(fix, list.number, "FAILED");
    assert_int_equal(fixture_root(fix, list.number), list.numbers[0]);
    struct pod_graph_view view = graph_view(fix, list.number);
    assert_int_equal(view.failed, list.numbers[0]);
    assert_int_equal(view.failed_state, POD_SCHED_FAILED);
    assert_string_equal(view.failed_error.reason, "WORKER_ERROR");
    assert_int_equal(view.counts[POD_SCHED_FAILED], 1);
    assert_int_equal(view.counts[POD_SCHED_SKIPPED], 1);
    assert_int_equal(view.counts[POD_SCHED_SUCCEEDED], 1);
    assert_int_equal(view.counts[POD_SCHED_WAITING], 0);
    pod_graph_view_fini(&view);
}

static void test_a_failure_can_cancel_the_graph(void **state)
{
    struct fixture *fix = *state;
    uint64_t gate = fixture_allocate(fix, 2, 8);
    struct fake_call call;

    list.graph.cancel_on_error = true;
    list_allocate(0, 8); // fails
    list_allocate(2, 8); // runs
    list_allocate(1, 8); // waits
    list_after(fixture_op(gate));
    list_free(request_ref(2)); // and one behind that
    list_accepted(fix);
    fake_start(fix->host[1], list.numbers[1]);
    fake_fail(fix->host[0], list.numbers[0], POD_REASON_WORKER_ERROR, "no");
    assert_state(fix, list.numbers[2], "CANCELLED");
    assert_state(fix, list.numbers[3], "CANCELLED");
    assert_int_equal(fixture_root(fix, list.numbers[3]), list.numbers[0]);
    assert_state(fix, gate, "READY");
    assert_state(fix, list.numbers[1], "RUNNING");
    assert_true(fake_peek(fix->host[1], 1, &call));
    assert_true(call.cancelled);
    assert_state(fix, list.number, "RUNNING");
    fixture_run(fix);
    assert_state(fix, list.numbers[1], "SUCCEEDED");
    assert_state(fix, list.number, "FAILED");
    assert_int_equal(fixture_root(fix, list.number), list.numbers[0]);
}

static void test_cancel_ends_what_waits(void **state)
{
    struct fixture *fix = *state;
    uint64_t gate = fixture_allocate(fix, 0, 8);
    struct pod_err err;
    bool again;

    // Turns: 1, 0, 2. Were 1 cancelled first, 0 would end SKIPPED.
    list_allocate(0, 8);
    list_after(request_ref(1));
    list_allocate(0, 8);
    list_after(fixture_op(gate));
    list_allocate(0, 8);
    list_after(request_ref(0));
    list_accepted(fix);
    struct pod_request next = fixture_request(POD_KIND_ALLOCATE);
    struct pod_ref after = {.kind = POD_REF_GRAPH, .number = list.number};
    next.after = &after;
    next.after_count = 1;
    uint64_t outside = fixture_submit(fix, &next);
    assert_int_equal(pod_cancel(fix->pod, list.number, POD_CASCADE_NONE,
                                "enough", &again, &err),
                     POD_OK);
    assert_false(again);
    for (size_t i = 0; i < 3; i++) {
        assert_state(fix, list.numbers[i], "CANCELLED");
        fixture_assert_reason(fix, list.numbers[i], "CANCEL_REQUESTED");
        assert_int_equal(fixture_root(fix, list.numbers[i]), list.number);
    }
    assert_state(fix, list.number, "CANCELLED");
    assert_state(fix, outside, "SKIPPED");
    assert_state(fix, gate, "READY");
    assert_int_equal(
        pod_cancel(fix->pod, list.number, POD_CASCADE_NONE, NULL, &again, &err),
        POD_OK);
    assert_true(again);
    fixture_run(fix);
}

// What it has made and was to free, nobody can name any more.
static void test_a_cancelled_graph_frees_what_it_made(void **state)
{
    struct fixture *fix = *state;
    struct fake_call call;
    struct pod_err err;
    bool again;

    list_allocate(0, 8);
    list_free(request_ref(0));
    list_accepted(fix);
    fake_start(fix->host[0], list.numbers[0]);
    assert_int_equal(
        pod_cancel(fix->pod, list.number, POD_CASCADE_NONE, NULL, &again, &err),
        POD_OK);
    fake_done(fix->host[0], list.numbers[0]);
    assert_state(fix, list.numbers[0], "SUCCEEDED");
    assert_state(fix, list.numbers[1], "CANCELLED");
    assert_true(fake_find(fix->host[0], FAKE_DEALLOCATE, &call));
    assert_int_equal(call.handle, list.numbers[0]);
    fixture_run(fix);
}

static void test_a_finished_graph_is_not_cancelled(void **state)
{
    struct fixture *fix = *state;
    struct pod_err err;
    bool again;

    list_allocate(0, 8);
    list_accepted(fix);
    fixture_run(fix);
    assert_int_equal(
        pod_cancel(fix->pod, list.number, POD_CASCADE_NONE, NULL, &again, &err),
        POD_FAILED_PRECONDITION);
}

static void test_members_that_end_at_once(void **state)
{
    struct fixture *fix = *state;
    uint64_t bad = fixture_allocate(fix, 0, 8);

    fake_fail(fix->host[0], bad, POD_REASON_WORKER_ERROR, "no");
    list_allocate(0, 8);
    list_after(fixture_op(bad));
    list_copy(request_ref(0), request_ref(0));
    list_accepted(fix);
    assert_state(fix, list.numbers[1], "SKIPPED");
    assert_state(fix, list.number, "FAILED");
    assert_int_equal(fixture_root(fix, list.number), bad);
    assert_int_equal(graph_count(fix, POD_SCHED_SKIPPED), 2);
}

static void test_a_reset_ends_a_graph(void **state)
{
    struct fixture *fix = *state;
    struct pod_request reset = fixture_request(POD_KIND_RESET);

    list_allocate(0, 8);
    list_allocate(0, 8);
    list_after(request_ref(0));
    list_accepted(fix);
    uint64_t number = fixture_submit(fix, &reset);
    assert_state(fix, list.number, "CANCELLED");
    assert_state(fix, list.numbers[1], "CANCELLED");
    fixture_run(fix);
    assert_state(fix, number, "SUCCEEDED");
}

static void test_a_graph_outlives_its_history(void **state)
{
    struct fixture *fix = *state;

    fixture_fini(fix);
    fixture_init_options(fix, 1, 1, POD_NEVER, 0, 1 << 20);
    fake_ready(fix->host[0]);
    for (size_t i = 0; i < 20; i++) {
        list_allocate(0, 8);
        list_free(request_ref(list.graph.count - 1));
    }
    list_accepted(fix);
    fixture_run(fix);
    assert_int_equal(graph_count(fix, POD_SCHED_SUCCEEDED), 40);
    assert_state(fix, list.number, "SUCCEEDED");
}

// --------------------------------------------------------------- critical path

static void test_critical_path_is_the_chain_that_ended_last(void **state)
{
    struct fixture *fix = *state;

    list_allocate(0, 8);
    list_allocate(1, 8);
    list_copy(request_ref(0), request_ref(1));
    list_allocate(2, 8);
    list_accepted(fix);
    fix->now_ns += 10;
    fake_done(fix->host[1], list.numbers[3]);
    fix->now_ns += 10;
    fake_done(fix->host[0], list.numbers[1]);
    fix->now_ns += 10;
    fake_done(fix->host[0], list.numbers[0]);
    fix->now_ns += 10;
    fake_done(fix->host[0], list.numbers[2]);
    struct pod_graph_view view = graph_view(fix, list.number);
    assert_int_equal(view.critical_path_count, 2);
    assert_int_equal(view.critical_path[0], list.numbers[0]);
    assert_int_equal(view.critical_path[1], list.numbers[2]);
    assert_int_equal(view.critical_path_omitted, 0);
    assert_int_equal(view.finished_ns, 40);
    pod_graph_view_fini(&view);
}

static void test_lists_of_graphs(void **state)
{
    struct fixture *fix = *state;
    struct pod_graph_view views[2];
    struct pod_err err;
    uint64_t next;
    size_t count;

    list_allocate(0, 8);
    list_accepted(fix);
    uint64_t first = list.number;
    list_accepted(fix);
    assert_int_equal(
        pod_list_graphs(fix->pod, UINT64_MAX, 2, views, &count, &next, &err),
        POD_OK);
    assert_int_equal(count, 2);
    assert_int_equal(next, 0);
    assert_int_equal(views[0].number, list.number);
    assert_int_equal(views[1].number, first);
    assert_null(views[0].critical_path);
    pod_graph_view_fini(&views[0]);
    pod_graph_view_fini(&views[1]);
    fixture_run(fix);
}

// ------------------------------------------------------------------------ size

enum { MANY = 100000 };

// So many allocations that wait for one operation; `freed` frees each as well.
static void submit_many(struct fixture *fix, uint64_t gate, uint64_t bytes,
                        bool freed)
{
    size_t count = freed ? (size_t)MANY * 2 : MANY;
    struct pod_request *requests = calloc(count, sizeof(*requests));
    const struct pod_request **ops = calloc(count, sizeof(*ops));
    uint64_t *numbers = calloc(count, sizeof(*numbers));
    struct pod_ref after = fixture_op(gate);

    for (size_t i = 0; i < count; i++) {
        bool frees = freed && i % 2 == 1;
        requests[i] =
            fixture_request(frees ? POD_KIND_FREE : POD_KIND_ALLOCATE);
        if (frees)
            requests[i].free.handle = request_ref(i - 1);
        else
            requests[i].allocate.bytes = bytes;
        requests[i].after = &after;
        requests[i].after_count = 1;
        ops[i] = &requests[i];
    }
    list.graph.ops = ops;
    list.graph.count = count;
    list.faults =
        (struct pod_faults){.items = list.items, .capacity = FAULTS_MAX};
    assert_int_equal(pod_submit_graph(fix->pod, &list.graph, &list.number,
                                      numbers, &list.faults, &list.err),
                     POD_OK);
    assert_int_equal(numbers[count - 1], list.number + count);
    free(numbers);
    free(ops);
    free(requests);
}

static void cancel_graph(struct fixture *fix)
{
    struct pod_err err;
    bool again;

    assert_int_equal(
        pod_cancel(fix->pod, list.number, POD_CASCADE_NONE, NULL, &again, &err),
        POD_OK);
    assert_state(fix, list.number, "CANCELLED");
}

static void test_a_hundred_thousand_operations(void **state)
{
    struct fixture *fix = *state;
    uint64_t gate = fixture_allocate(fix, 0, 8);

    submit_many(fix, gate, 0, false);
    assert_int_equal(graph_count(fix, POD_SCHED_WAITING), MANY);
    cancel_graph(fix);
    assert_int_equal(graph_count(fix, POD_SCHED_CANCELLED), MANY);
    fixture_run(fix);
}

// One buffer fills the core, so each allocation waits for the free before it,
// and for that one alone (and for the gate): were it for all frees before it,
// there would be no memory for the edges.
static void test_a_long_row_through_little_memory(void **state)
{
    struct fixture *fix = *state;
    uint64_t gate = fixture_allocate(fix, 1, 8);
    struct pod_event_view view;
    struct pod_err err;

    submit_many(fix, gate, FIXTURE_MEMORY, true);
    assert_int_equal(
        pod_get_event(fix->pod, list.number + 2 * (MANY - 1) + 1, &view, &err),
        POD_OK);
    assert_int_equal(view.kind, POD_KIND_ALLOCATE);
    assert_int_equal(view.waits_for_count, 3);
    pod_event_view_fini(&view);
    cancel_graph(fix);
    fixture_run(fix);
}

// ---------------------------------------------------------------------- memory

// Every allocation on the way may fail: then nothing was admitted.
static void test_no_memory_for_a_graph(void **state)
{
    struct fixture *fix = *state;
    struct pod_ref to = fixture_buffer(fixture_allocate(fix, 0, 8));
    enum pod_code code = POD_RESOURCE_EXHAUSTED;
    int tries = 0;

    fixture_run(fix);
    list_copy(request_ref(1), to);
    list_allocate(0, 8);
    list_free(request_ref(1));
    while (code != POD_OK) {
        uint64_t last = pod_last_number(fix->pod);
        pod_mem_fail_after(tries, 1);
        code = list_submit(fix);
        pod_mem_fail_after(-1, 0);
        if (code != POD_OK) {
            assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
            assert_string_equal(pod_reason_name(list.err.reason),
                                "OUT_OF_MEMORY");
            assert_int_equal(pod_last_number(fix->pod), last);
        }
        assert_true(++tries < 1000);
    }
    assert_true(tries > 10);
    fixture_run(fix);
    assert_state(fix, list.number, "SUCCEEDED");
}

int main(void)
{
#define T(name)                                                                \
    cmocka_unit_test_setup_teardown(name, list_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(test_numbers_follow_the_list),
        T(test_members_know_their_graph),
        T(test_times_follow_each_other),
        T(test_uses_follow_the_list),
        T(test_a_list_need_not_be_sorted),
        T(test_a_pushed_back_write_comes_last),
        T(test_outputs_that_were_given_are_outputs),
        T(test_all_wait_for_what_the_graph_waits_for),
        T(test_a_failure_skips_dependents_alone),
        T(test_a_failure_can_cancel_the_graph),
        T(test_cancel_ends_what_waits),
        T(test_a_cancelled_graph_frees_what_it_made),
        T(test_a_finished_graph_is_not_cancelled),
        T(test_members_that_end_at_once),
        T(test_a_reset_ends_a_graph),
        T(test_a_graph_outlives_its_history),
        T(test_critical_path_is_the_chain_that_ended_last),
        T(test_lists_of_graphs),
        T(test_a_hundred_thousand_operations),
        T(test_a_long_row_through_little_memory),
        T(test_no_memory_for_a_graph),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
