// SPDX-License-Identifier: Apache-2.0
// Tuples as what executions read and write: who uses a tuple uses its parts,
// and what happens to a part happens to it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tests/lib/pod_fixture.h"
#include "tests/unit/request_list.h"

static void set_result(struct fixture *fix, const char *result)
{
    for (size_t i = 0; i < fix->host_count; i++)
        fake_set_shape(fix->host[i], "f32[2]", result);
}

// A load of a program with that result, on core 0; it is there.
static uint64_t load_with_result(struct fixture *fix, const char *result)
{
    set_result(fix, result);
    uint64_t load = fixture_load_on(fix, fixture_compile(fix, "sha-256:a"), 0);
    fixture_run(fix);
    return load;
}

// The execution is at its host, and `other` is not; then both end well.
static void assert_waits(struct fixture *fix, uint64_t run, uint64_t other)
{
    assert_state(fix, other, "WAITING");
    fake_start_done(fix->host[0], run);
    assert_state(fix, run, "SUCCEEDED");
    assert_string_not_equal(pod_sched_state_name(fixture_state(fix, other)),
                            "WAITING");
    fixture_run(fix);
    assert_state(fix, other, "SUCCEEDED");
}

static void test_parts_are_written(void **state)
{
    struct fixture *fix = *state;
    uint64_t load = load_with_result(fix, "(f32[2], (f32[2], f32[2]))");
    uint64_t input = fixture_allocate(fix, 0, 8);
    uint64_t parts[] = {fixture_allocate(fix, 0, 8),
                        fixture_allocate(fix, 0, 8),
                        fixture_allocate(fix, 0, 8)};
    uint64_t inner = fixture_tuple(fix, parts[1], parts[2]);
    uint64_t tuple = fixture_tuple(fix, parts[0], inner);

    fixture_run(fix);
    for (size_t i = 0; i < 3; i++) {
        uint64_t run = fixture_execute(fix, load, input, tuple);
        assert_waits(fix, run, fixture_read(fix, parts[i]));
    }
    // A part that is read must not be written meanwhile.
    uint64_t read = fixture_read(fix, parts[2]);
    uint64_t run = fixture_execute(fix, load, input, tuple);
    assert_state(fix, run, "WAITING");
    fixture_run(fix);
    assert_state(fix, read, "SUCCEEDED");
    assert_state(fix, run, "SUCCEEDED");
}

static void test_parts_are_read(void **state)
{
    struct fixture *fix = *state;
    uint64_t load;
    uint64_t output = fixture_allocate(fix, 0, 8);
    uint64_t parts[] = {fixture_allocate(fix, 0, 8),
                        fixture_allocate(fix, 0, 8)};
    uint64_t tuple = fixture_tuple(fix, parts[0], parts[1]);

    for (size_t i = 0; i < fix->host_count; i++)
        fake_set_shape(fix->host[i], "(f32[2], f32[2])", "f32[2]");
    load = fixture_load_on(fix, fixture_compile(fix, "sha-256:a"), 0);
    fixture_run(fix);
    uint64_t run = fixture_execute(fix, load, tuple, output);
    assert_waits(fix, run, fixture_write(fix, parts[1], 0, 8));
}

static void test_an_output_is_written_once(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    uint64_t load = load_with_result(fix, "(f32[2], f32[2])");
    uint64_t part = fixture_allocate(fix, 0, 8);
    struct pod_ref input = fixture_buffer(fixture_allocate(fix, 0, 8));
    struct pod_ref output = fixture_buffer(fixture_tuple(fix, part, part));
    struct pod_launch launch = {.load = fixture_load(load),
                                .inputs = &input,
                                .input_count = 1,
                                .outputs = &output,
                                .output_count = 1};

    request.execute.launches = &launch;
    request.execute.launch_count = 1;
    fixture_refused(fix, &request, POD_REASON_DUPLICATE_OUTPUT);
    fixture_run(fix);
}

// An execution that fails leaves all it was to write without contents.
static void test_parts_fail_together(void **state)
{
    struct fixture *fix = *state;
    uint64_t load = load_with_result(fix, "(f32[2], f32[2])");
    uint64_t input = fixture_allocate(fix, 0, 8);
    uint64_t parts[] = {fixture_allocate(fix, 0, 8),
                        fixture_allocate(fix, 0, 8)};
    uint64_t tuple = fixture_tuple(fix, parts[0], parts[1]);

    fixture_run(fix);
    uint64_t run = fixture_execute(fix, load, input, tuple);
    uint64_t read = fixture_read(fix, parts[1]);
    fake_fail(fix->host[0], run, POD_REASON_WORKER_ERROR, "no");
    assert_state(fix, run, "FAILED");
    assert_state(fix, read, "SKIPPED");
    assert_int_equal(fixture_root(fix, read), run);
    assert_state(fix, fixture_read(fix, parts[0]), "SKIPPED");
}

// ------------------------------------------------------------------ automatic

static void test_a_part_that_cannot_be_made(void **state)
{
    struct fixture *fix = *state;
    struct fake_call call;

    set_result(fix, "(f32[2], f32[2])");
    uint64_t input = fixture_allocate(fix, 0, 8);
    uint64_t load = fixture_load_on(fix, fixture_compile(fix, "sha-256:a"), 0);
    uint64_t run = fixture_execute(fix, load, input, 0);
    uint64_t tuple = run - 1;

    for (uint64_t number = 1; number < tuple; number++) {
        for (size_t i = 0; i < fix->host_count; i++) {
            while (fake_peek(fix->host[i], 0, &call) && call.op < tuple)
                fake_done(fix->host[i], call.op);
        }
    }
    assert_int_equal(fake_open(fix->host[0]), 2);
    assert_true(fake_peek(fix->host[0], 1, &call));
    assert_int_equal(call.kind, FAKE_ALLOCATE);
    fake_fail(fix->host[0], call.op, POD_REASON_RESOURCE_EXHAUSTED, "full");
    fixture_run(fix);
    assert_state(fix, call.op, "FAILED");
    assert_state(fix, tuple, "FAILED"); // it had begun
    assert_state(fix, run, "SKIPPED");
    assert_int_equal(fixture_root(fix, tuple), call.op);
    assert_int_equal(fixture_root(fix, run), call.op);
}

// Parts of a member's result are members; an empty tuple has none.
static void test_parts_in_a_graph(void **state)
{
    static const char *const results[] = {"(f32[2], f32[2])", "()"};
    struct fixture *fix = *state;

    for (size_t i = 0; i < 2; i++) {
        struct pod_graph_view view;
        struct pod_err err;
        set_result(fix, results[i]);
        uint64_t input = fixture_allocate(fix, 0, 8);
        uint64_t load = fixture_load_on(
            fix, fixture_compile(fix, i == 0 ? "sha-256:a" : "sha-256:b"), 0);
        list.graph.count = 0;
        (void)list_execute(fixture_load(load), fixture_buffer(input));
        list_accepted(fix);
        fixture_run(fix);
        assert_state(fix, list.number, "SUCCEEDED");
        assert_int_equal(pod_get_graph(fix->pod, list.number, &view, &err),
                         POD_OK);
        // The output, the execution, and the parts.
        assert_int_equal(view.counts[POD_SCHED_SUCCEEDED], i == 0 ? 4 : 2);
        pod_graph_view_fini(&view);
    }
}

// A list may name the parts of a tuple after the tuple.
static void test_parts_come_before_the_tuple(void **state)
{
    struct fixture *fix = *state;
    struct pod_ref children[] = {request_ref(1), request_ref(2)};
    struct pod_request *tuple = list_add(POD_KIND_ALLOCATE_TUPLE);

    tuple->tuple.children = children;
    tuple->tuple.child_count = 2;
    (void)list_allocate(1, 8);
    (void)list_allocate(1, 8);
    list_accepted(fix);
    fixture_run(fix);
    assert_state(fix, list.number, "SUCCEEDED");
    struct pod_buffer_view view;
    struct pod_err err;
    assert_int_equal(pod_get_buffer(fix->pod, list.numbers[0], &view, &err),
                     POD_OK);
    assert_int_equal(view.child_count, 2);
    assert_int_equal(view.children[0], list.numbers[1]);
    assert_int_equal(view.children[1], list.numbers[2]);
    assert_int_equal(view.core, 1);
    pod_buffer_view_fini(&view);
}

int main(void)
{
#define T(name)                                                                \
    cmocka_unit_test_setup_teardown(name, list_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(test_parts_are_written),           T(test_parts_are_read),
        T(test_an_output_is_written_once),   T(test_parts_fail_together),
        T(test_a_part_that_cannot_be_made),  T(test_parts_in_a_graph),
        T(test_parts_come_before_the_tuple),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
