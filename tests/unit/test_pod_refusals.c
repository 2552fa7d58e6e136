// SPDX-License-Identifier: Apache-2.0
// What the engine refuses whoever asks: each limit and each thing that does not
// fit, with its reason and its place; and what a refused submission leaves
// behind, which is nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/pod/submit.h"
#include "tests/lib/pod_fixture.h"

// More than any list may have; what they name does not matter.
static struct pod_ref many[POD_MAX_REFS + 1];
static struct pod_launch launches[POD_MAX_REPLICAS + 1];

static void refused(struct fixture *fix, const struct pod_request *request,
                    enum pod_reason reason, const char *pointer)
{
    uint64_t last = pod_last_number(fix->pod);
    struct pod_err err = POD_ERR_NONE;
    uint64_t number;

    assert_int_not_equal(pod_submit(fix->pod, request, 1, &number, NULL, &err),
                         POD_OK);
    assert_string_equal(pod_reason_name(err.reason), pod_reason_name(reason));
    assert_string_equal(err.pointer, pointer);
    assert_int_equal(pod_last_number(fix->pod), last);
}

// --------------------------------------------------------------------- limits

static void test_limits_of_any_request(void **state)
{
    struct fixture *fix = *state;
    struct pod_label labels[POD_MAX_LABELS + 1];
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);

    for (size_t i = 0; i <= POD_MAX_LABELS; i++)
        labels[i] = (struct pod_label){.key = "key", .value = ""};
    request.allocate.bytes = 1;
    request.labels = labels;
    request.label_count = POD_MAX_LABELS;
    (void)fixture_submit(fix, &request);
    request.label_count++;
    refused(fix, &request, POD_REASON_OUT_OF_RANGE, "/labels");
    request.label_count = 0;
    request.after = many;
    request.after_count = POD_MAX_REFS + 1;
    refused(fix, &request, POD_REASON_OUT_OF_RANGE, "/after");
    request.after_count = 0;
    request.priority = POD_MAX_PRIORITY;
    (void)fixture_submit(fix, &request);
    request.priority++;
    refused(fix, &request, POD_REASON_OUT_OF_RANGE, "/priority");
    request.priority = -POD_MAX_PRIORITY;
    (void)fixture_submit(fix, &request);
    request.priority--;
    refused(fix, &request, POD_REASON_OUT_OF_RANGE, "/priority");
    fixture_run(fix);
}

static void test_limits_of_lists(void **state)
{
    struct fixture *fix = *state;
    struct pod_request tuple = fixture_request(POD_KIND_ALLOCATE_TUPLE);
    struct pod_request execute = fixture_request(POD_KIND_EXECUTE);
    struct pod_launch launch = {.inputs = many, .outputs = many};

    tuple.tuple.children = many;
    tuple.tuple.child_count = POD_MAX_REFS + 1;
    refused(fix, &tuple, POD_REASON_OUT_OF_RANGE, "/tuple");
    tuple.tuple.child_count = 0;
    refused(fix, &tuple, POD_REASON_COUNT_MISMATCH, "/tuple");
    execute.execute.launches = launches;
    execute.execute.launch_count = POD_MAX_REPLICAS + 1;
    refused(fix, &execute, POD_REASON_OUT_OF_RANGE, "/launches");
    execute.execute.launch_count = 0;
    refused(fix, &execute, POD_REASON_COUNT_MISMATCH, "/launches");
    execute.execute.launches = &launch;
    execute.execute.launch_count = 1;
    launch.input_count = POD_MAX_REFS + 1;
    refused(fix, &execute, POD_REASON_OUT_OF_RANGE, "/inputs");
    launch.input_count = 0;
    launch.output_count = POD_MAX_REFS + 1;
    refused(fix, &execute, POD_REASON_OUT_OF_RANGE, "/outputs");
}

static void test_limits_of_programs(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_COMPILE);
    struct pod_blob *blob = pod_blob_new_zeroed(8);

    assert_non_null(blob);
    request.compile.program = blob;
    request.compile.digest = "a";
    refused(fix, &request, POD_REASON_OUT_OF_RANGE, "/replicas");
    request.compile.replicas = POD_MAX_REPLICAS + 1;
    refused(fix, &request, POD_REASON_OUT_OF_RANGE, "/replicas");
    request.compile.replicas = POD_MAX_REPLICAS;
    (void)fixture_submit(fix, &request);
    fixture_run(fix);
    for (size_t i = 0; i < fix->host_count; i++)
        fake_lose(fix->host[i], "gone");
    refused(fix, &request, POD_REASON_HOST_NOT_READY, "");
    pod_blob_unref(blob);
}

static void test_what_is_no_request(void **state)
{
    struct fixture *fix = *state;
    struct pod_request graph = fixture_request(POD_KIND_GRAPH);
    struct pod_request resets[2] = {fixture_request(POD_KIND_RESET),
                                    fixture_request(POD_KIND_RESET)};
    uint64_t numbers[2];
    struct pod_err err;

    refused(fix, &graph, POD_REASON_UNIMPLEMENTED, "");
    assert_int_equal(pod_submit(fix->pod, resets, 2, numbers, NULL, &err),
                     POD_OUT_OF_RANGE);
    assert_int_equal(err.reason, POD_REASON_OUT_OF_RANGE);
    assert_int_equal(pod_last_number(fix->pod), 0);
}

// -------------------------------------------------------------------- buffers

static void test_contents_that_do_not_fit(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    const struct pod_shape tuple = {.type = POD_TYPE_TUPLE};
    struct pod_blob *blob = pod_blob_new_zeroed(7);

    assert_non_null(blob);
    request.allocate.bytes = 8;
    request.allocate.data = blob;
    refused(fix, &request, POD_REASON_BAD_LENGTH, "/values");
    request.allocate.data = NULL;
    request.allocate.fill_size = 3;
    refused(fix, &request, POD_REASON_SHAPE_MISMATCH, "/fill");
    request.allocate.fill_size = 4;
    request.allocate.shape = &tuple;
    refused(fix, &request, POD_REASON_BAD_SHAPE, "/shape");
    request.allocate.shape = NULL;
    (void)fixture_submit(fix, &request);
    pod_blob_unref(blob);
    fixture_run(fix);
}

static uint64_t tuple_of_one(struct fixture *fix, uint64_t child)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE_TUPLE);
    struct pod_ref ref = fixture_buffer(child);

    request.tuple.children = &ref;
    request.tuple.child_count = 1;
    return fixture_submit(fix, &request);
}

static void test_tuples_that_cannot_be(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE_TUPLE);
    struct pod_ref children[] = {fixture_buffer(fixture_allocate(fix, 0, 8)),
                                 fixture_buffer(fixture_allocate(fix, 1, 8))};
    struct pod_err err;

    request.tuple.children = children;
    request.tuple.child_count = 2;
    refused(fix, &request, POD_REASON_CORE_MISMATCH, "/tuple/1");
    // As deep as may be; one more is too deep.
    for (int depth = 1; depth <= POD_SHAPE_MAX_DEPTH; depth++)
        children[0].number = tuple_of_one(fix, children[0].number);
    request.tuple.child_count = 1;
    refused(fix, &request, POD_REASON_BAD_SHAPE, "/tuple/0");
    assert_int_equal(pod_cordon(fix->pod, 0, true, &err), POD_OK);
    request.tuple.children = &children[1];
    refused(fix, &request, POD_REASON_HOST_CORDONED, "/tuple");
    fixture_run(fix);
}

// Twice as many buffers at each depth.
static void test_tuples_of_too_many(void **state)
{
    struct fixture *fix = *state;
    uint64_t tuple = fixture_allocate(fix, 0, 8);
    uint64_t nodes = 1;

    while (2 * nodes + 1 <= POD_SHAPE_MAX_NODES) {
        tuple = fixture_tuple(fix, tuple, tuple);
        nodes = 2 * nodes + 1;
    }
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE_TUPLE);
    struct pod_ref children[] = {fixture_buffer(tuple), fixture_buffer(tuple)};
    request.tuple.children = children;
    request.tuple.child_count = 2;
    refused(fix, &request, POD_REASON_BAD_SHAPE, "/tuple/1");
    fixture_run(fix);
}

// ----------------------------------------------------------------- executions

static void test_gangs_that_cannot_be(void **state)
{
    struct fixture *fix = *state;
    struct pod_request compile = fixture_request(POD_KIND_COMPILE);
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_blob *blob = pod_blob_new_zeroed(8);
    struct pod_ref inputs[] = {fixture_buffer(fixture_allocate(fix, 0, 8)),
                               fixture_buffer(99)};
    struct pod_launch gang[2] = {
        {.inputs = &inputs[0], .input_count = 1, .auto_outputs = true},
        {.inputs = &inputs[1], .input_count = 1, .auto_outputs = true}};

    assert_non_null(blob);
    compile.compile.program = blob;
    compile.compile.replicas = 2;
    compile.compile.digest = "a";
    uint64_t first = fixture_submit(fix, &compile);
    compile.compile.digest = "b";
    uint64_t second = fixture_submit(fix, &compile);
    pod_blob_unref(blob);
    gang[0].load = fixture_load(fixture_load_on(fix, first, 0));
    gang[1].load = fixture_load(fixture_load_on(fix, second, 2));
    request.execute.launches = gang;
    request.execute.launch_count = 2;
    request.execute.is_gang = true;
    refused(fix, &request, POD_REASON_UNKNOWN_HANDLE, "/launches/1/inputs/0");
    inputs[1] = inputs[0];
    refused(fix, &request, POD_REASON_CORE_MISMATCH, "/launches/1/inputs/0");
    inputs[1] = fixture_buffer(fixture_allocate(fix, 2, 8));
    refused(fix, &request, POD_REASON_BAD_ASSIGNMENT, "/launches/1/load");
    gang[1].load = gang[0].load;
    inputs[1] = inputs[0];
    refused(fix, &request, POD_REASON_BAD_ASSIGNMENT, "/launches/1/load");
    request.execute.launch_count = 1;
    refused(fix, &request, POD_REASON_COUNT_MISMATCH, "/launches");
    fixture_run(fix);
}

// ---------------------------------------------------------------- taken back

// The last of a batch is refused: what those before it had marked is unmarked.
static void test_marks_are_taken_back(void **state)
{
    enum { COUNT = 5 };
    struct fixture *fix = *state;
    struct pod_ref child = fixture_buffer(fixture_allocate(fix, 0, 8));
    uint64_t program = fixture_compile(fix, "sha-256:a");
    uint64_t load = fixture_load_on(fix, program, 0);
    struct pod_request requests[COUNT];
    uint64_t numbers[COUNT];
    struct pod_err err;

    fixture_run(fix);
    const struct pod_core *core = fix->pod->cores[0];
    assert_int_equal(core->reserved, 8);
    requests[0] = fixture_request(POD_KIND_ALLOCATE_TUPLE);
    requests[0].tuple.children = &child;
    requests[0].tuple.child_count = 1;
    requests[1] = fixture_request(POD_KIND_ALLOCATE);
    requests[1].allocate.bytes = FIXTURE_MEMORY;
    requests[2] = fixture_request(POD_KIND_UNLOAD);
    requests[2].unload.load = fixture_load(load);
    requests[3] = fixture_request(POD_KIND_FREE);
    requests[3].free.handle = fixture_program(program);
    requests[4] = requests[3];
    assert_int_not_equal(
        pod_submit(fix->pod, requests, COUNT, numbers, NULL, &err), POD_OK);
    assert_int_equal(err.reason, POD_REASON_HANDLE_FREED);
    assert_int_equal(pod_last_number(fix->pod), load);
    // The buffer is in no tuple, the load is there, and so is the memory.
    assert_int_equal(core->reserved, 8);
    (void)fixture_execute(fix, load, child.number, child.number);
    uint64_t gone = fixture_free(fix, child.number);
    fixture_refused(fix, &requests[3], POD_REASON_IN_USE);
    uint64_t unload = fixture_submit(fix, &requests[2]);
    uint64_t freed = fixture_submit(fix, &requests[3]);
    fixture_run(fix);
    assert_state(fix, gone, "SUCCEEDED");
    assert_state(fix, unload, "SUCCEEDED");
    assert_state(fix, freed, "SUCCEEDED");
}

int main(void)
{
#define T(name)                                                                \
    cmocka_unit_test_setup_teardown(name, fixture_setup_two, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(test_limits_of_any_request),    T(test_limits_of_lists),
        T(test_limits_of_programs),       T(test_what_is_no_request),
        T(test_contents_that_do_not_fit), T(test_tuples_that_cannot_be),
        T(test_tuples_of_too_many),       T(test_gangs_that_cannot_be),
        T(test_marks_are_taken_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
