// SPDX-License-Identifier: Apache-2.0
// The pod engine on fake hosts: programs, executions, gangs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/pod_fixture.h"

static uint64_t only_output(struct fixture *fix, uint64_t execution)
{
    struct pod_event_view view;
    struct pod_err err;

    assert_int_equal(pod_get_event(fix->pod, execution, &view, &err), POD_OK);
    assert_int_equal(view.output_count, 1);
    uint64_t output = view.outputs[0];
    pod_event_view_fini(&view);
    return output;
}

// -------------------------------------------------------------------- programs

static void test_equal_programs_are_compiled_once(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = fixture_compile(fix, "sha-256:same");
    uint64_t second = fixture_compile(fix, "sha-256:same");
    uint64_t other = fixture_compile(fix, "sha-256:other");
    struct pod_request request = fixture_request(POD_KIND_FREE);

    assert_int_equal(fake_count(fix->host[0], FAKE_COMPILE), 2);
    fixture_run(fix);
    uint64_t third = fixture_compile(fix, "sha-256:same");
    assert_state(fix, third, "SUCCEEDED");
    assert_int_equal(fake_count(fix->host[0], FAKE_COMPILE), 2);
    assert_state(fix, second, "SUCCEEDED");
    request.free.handle = fixture_program(first);
    fixture_submit(fix, &request);
    request.free.handle = fixture_program(second);
    fixture_submit(fix, &request);
    assert_int_equal(fake_count(fix->host[0], FAKE_FREE_PROGRAM), 0);
    uint64_t load = fixture_load_on(fix, third, 1);
    fixture_run(fix);
    request.free.handle = fixture_program(third);
    fixture_refused(fix, &request, POD_REASON_IN_USE);
    struct pod_request unload = fixture_request(POD_KIND_UNLOAD);
    unload.unload.load = fixture_load(load);
    fixture_submit(fix, &unload);
    uint64_t last = fixture_submit(fix, &request);
    assert_state(fix, last, "WAITING");
    fixture_run(fix);
    assert_state(fix, last, "SUCCEEDED");
    assert_int_equal(fake_count(fix->host[0], FAKE_FREE_PROGRAM), 1);
    assert_int_equal(fake_count(fix->host[1], FAKE_FREE_PROGRAM), 1);
    assert_state(fix, other, "SUCCEEDED");
}

static void test_first_failure_of_a_compile(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:bad");
    uint64_t same = fixture_compile(fix, "sha-256:bad");
    uint64_t load = fixture_load_on(fix, program, 0);
    struct pod_event_view view;
    struct pod_err err;

    fake_fail(fix->host[1], program, POD_REASON_INVALID_PROGRAM, "bad line");
    assert_state(fix, program, "READY");
    fixture_run(fix);
    assert_state(fix, program, "FAILED");
    assert_state(fix, same, "FAILED");
    assert_state(fix, load, "SKIPPED");
    assert_int_equal(pod_get_event(fix->pod, program, &view, &err), POD_OK);
    assert_string_equal(view.error.reason, "INVALID_PROGRAM");
    assert_true(view.error.from_worker);
    assert_int_equal(view.host_count, 2);
    assert_int_equal(view.hosts[0].state, POD_SCHED_SUCCEEDED);
    assert_int_equal(view.hosts[1].state, POD_SCHED_FAILED);
    pod_event_view_fini(&view);
    // What a host could compile is freed again, and a new try is made anew.
    assert_int_equal(fake_count(fix->host[0], FAKE_FREE_PROGRAM), 1);
    fixture_compile(fix, "sha-256:bad");
    assert_int_equal(fake_count(fix->host[0], FAKE_COMPILE), 2);
    fixture_run(fix);
}

// ------------------------------------------------------------------ executions

static void test_executions_queue_on_their_core(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:q");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t in = fixture_allocate(fix, 0, 8);
    uint64_t out[3];
    uint64_t run[3];

    for (int i = 0; i < 3; i++)
        out[i] = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    for (int i = 0; i < 3; i++)
        run[i] = fixture_execute(fix, load, in, out[i]);
    assert_int_equal(fake_count(fix->host[0], FAKE_EXECUTE), 1);
    assert_state(fix, run[2], "READY");
    struct pod_event_view view;
    struct pod_err err;
    bool again;
    assert_int_equal(pod_get_event(fix->pod, run[2], &view, &err), POD_OK);
    assert_int_equal(view.pending, POD_PENDING_CORE_BUSY);
    pod_event_view_fini(&view);
    assert_int_equal(
        pod_cancel(fix->pod, run[1], POD_CASCADE_NONE, NULL, &again, &err),
        POD_OK);
    assert_state(fix, run[1], "CANCELLED");
    fake_done(fix->host[0], run[0]);
    assert_int_equal(fake_count(fix->host[0], FAKE_EXECUTE), 2);
    fixture_run(fix);
    assert_state(fix, run[2], "SUCCEEDED");
}

static void test_shapes_are_checked_at_submission_or_launch(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:s");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t in = fixture_allocate(fix, 0, 12); // the program wants 8
    uint64_t out = fixture_allocate(fix, 0, 8);
    uint64_t early = fixture_execute(fix, load, in, out);
    uint64_t far = fixture_allocate(fix, 1, 8);

    fixture_run(fix);
    assert_state(fix, early, "FAILED");
    fixture_assert_reason(fix, early, "SHAPE_MISMATCH");
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_ref ins[2] = {fixture_buffer(in), fixture_buffer(in)};
    struct pod_ref outs[2] = {fixture_buffer(out), fixture_buffer(out)};
    struct pod_launch launch = {.load = fixture_load(load),
                                .inputs = ins,
                                .input_count = 1,
                                .outputs = outs,
                                .output_count = 1};
    request.execute.launches = &launch;
    request.execute.launch_count = 1;
    fixture_refused(fix, &request, POD_REASON_SHAPE_MISMATCH);
    launch.input_count = 2;
    fixture_refused(fix, &request, POD_REASON_COUNT_MISMATCH);
    launch.input_count = 1;
    launch.output_count = 2;
    fixture_refused(fix, &request, POD_REASON_DUPLICATE_OUTPUT);
    launch.output_count = 1;
    ins[0] = fixture_buffer(far);
    fixture_refused(fix, &request, POD_REASON_CORE_MISMATCH);
    request.execute.launch_count = 0;
    fixture_refused(fix, &request, POD_REASON_COUNT_MISMATCH);
}

// A tuple of tuples of ... holds 2^16 - 1 buffers, and may be named often.
static void test_tuples_hold_a_bounded_number_of_buffers(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:d");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t tuple = fixture_allocate(fix, 0, 8);

    for (int i = 0; i < 15; i++)
        tuple = fixture_tuple(fix, tuple, tuple);
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_ref ins[5];
    struct pod_launch launch = {
        .load = fixture_load(load), .inputs = ins, .auto_outputs = true};
    for (int i = 0; i < 5; i++)
        ins[i] = fixture_buffer(tuple);
    request.execute.launches = &launch;
    request.execute.launch_count = 1;
    launch.input_count = 5;
    fixture_refused(fix, &request, POD_REASON_OUT_OF_RANGE);
    launch.input_count = 4;
    (void)fixture_submit(fix, &request);
}

static void test_automatic_output_of_a_known_program(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:k");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t in = fixture_allocate(fix, 0, 8);

    fixture_run(fix);
    uint64_t run = fixture_execute(fix, load, in, 0);
    uint64_t output = only_output(fix, run);
    assert_int_equal(output, run - 1);
    uint64_t read = fixture_read(fix, output);
    fixture_run(fix);
    assert_state(fix, read, "SUCCEEDED");
}

static void test_automatic_output_that_becomes_a_tuple(void **state)
{
    struct fixture *fix = *state;
    struct pod_buffer_view view;
    struct pod_err err;

    fake_set_shape(fix->host[0], "f32[2]", "(f32[2], (s32[], f32[3]))");
    fake_set_shape(fix->host[1], "f32[2]", "(f32[2], (s32[], f32[3]))");
    uint64_t program = fixture_compile(fix, "sha-256:t");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t in = fixture_allocate(fix, 0, 8);
    uint64_t run = fixture_execute(fix, load, in, 0);
    uint64_t output = only_output(fix, run);
    fixture_run(fix);
    assert_state(fix, run, "SUCCEEDED");
    assert_int_equal(pod_get_buffer(fix->pod, output, &view, &err), POD_OK);
    assert_true(view.is_tuple);
    assert_int_equal(view.child_count, 3);
    assert_int_equal(view.bytes, 8 + 4 + 12);
    uint64_t leaf = view.children[2];
    pod_buffer_view_fini(&view);
    assert_int_equal(leaf, run + 3);
    assert_int_equal(pod_get_buffer(fix->pod, leaf, &view, &err), POD_OK);
    assert_int_equal(view.last_writer, run);
    assert_int_equal(view.bytes, 12);
    pod_buffer_view_fini(&view);
    uint64_t read = fixture_read(fix, leaf);
    fixture_free(fix, output);
    fixture_free(fix, leaf);
    fixture_run(fix);
    assert_state(fix, read, "SUCCEEDED");
}

static bool answer_but(struct pod_driver *host, uint64_t op)
{
    struct fake_call call;

    for (size_t i = 0; fake_peek(host, i, &call); i++) {
        if (call.op == op)
            continue;
        fake_done(host, call.op);
        return true;
    }
    return false;
}

// Answers everything on all hosts but the call with that number.
static void run_but(struct fixture *fix, uint64_t op)
{
    bool more = true;

    while (more) {
        more = false;
        for (size_t i = 0; i < fix->host_count; i++)
            more |= answer_but(fix->host[i], op);
    }
}

// Readers that named the tuple when it was none yet are readers of its leaves.
static void test_leaves_know_readers_of_their_tuple(void **state)
{
    struct fixture *fix = *state;
    struct pod_buffer_view view;
    struct pod_err err;

    fake_set_shape(fix->host[0], "f32[2]", "(f32[2], s32[])");
    fake_set_shape(fix->host[1], "f32[2]", "(f32[2], s32[])");
    uint64_t program = fixture_compile(fix, "sha-256:r");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t in = fixture_allocate(fix, 0, 8);
    uint64_t run = fixture_execute(fix, load, in, 0);
    uint64_t output = only_output(fix, run);
    // It reads the tuple, and waits for something that never ends by itself.
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    uint64_t blocker = fixture_allocate(fix, 1, 8);
    struct pod_ref ins[2] = {fixture_buffer(output), fixture_buffer(output)};
    struct pod_ref after = fixture_op(blocker);
    struct pod_launch launch = {.load = fixture_load(load),
                                .inputs = ins,
                                .input_count = 2,
                                .auto_outputs = true};
    request.execute.launches = &launch;
    request.execute.launch_count = 1;
    request.after = &after;
    request.after_count = 1;
    uint64_t reader = fixture_submit(fix, &request);
    run_but(fix, blocker);
    assert_state(fix, run, "SUCCEEDED");
    assert_state(fix, reader, "WAITING");
    assert_int_equal(pod_get_buffer(fix->pod, output, &view, &err), POD_OK);
    assert_int_equal(view.child_count, 2);
    uint64_t leaf = view.children[0];
    pod_buffer_view_fini(&view);
    uint64_t write = fixture_write(fix, leaf, 0, 8);
    run_but(fix, blocker);
    assert_state(fix, write, "WAITING");
    fixture_run(fix);
    assert_state(fix, write, "SUCCEEDED");
}

static void test_automatic_output_of_a_bad_program(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:n");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t in = fixture_allocate(fix, 0, 8);
    uint64_t run = fixture_execute(fix, load, in, 0);
    uint64_t output = only_output(fix, run);

    fake_fail(fix->host[0], program, POD_REASON_INVALID_PROGRAM, "no");
    fixture_run(fix);
    assert_state(fix, output, "SKIPPED");
    assert_state(fix, run, "SKIPPED");
    assert_int_equal(fixture_root(fix, output), program);
}

// ----------------------------------------------------------------------- gangs

struct gang {
    struct pod_request request;
    struct pod_launch launches[2];
    struct pod_ref inputs[2];
    struct pod_ref outputs[2];
    uint32_t assignment[2];
};

// Two replicas, on cores 0 and 2: one on each host.
static void gang_init(struct fixture *fix, struct gang *gang)
{
    struct pod_request request = fixture_request(POD_KIND_COMPILE);
    struct pod_blob *blob = pod_blob_new(4);

    request.compile.program = blob;
    request.compile.replicas = 2;
    request.compile.digest = "sha-256:gang";
    uint64_t program = fixture_submit(fix, &request);
    pod_blob_unref(blob);
    gang->request = fixture_request(POD_KIND_EXECUTE);
    for (uint32_t i = 0; i < 2; i++) {
        gang->inputs[i] = fixture_buffer(fixture_allocate(fix, 2 * i, 8));
        gang->outputs[i] = fixture_buffer(fixture_allocate(fix, 2 * i, 8));
        gang->launches[i] = (struct pod_launch){
            .load = fixture_load(fixture_load_on(fix, program, 2 * i)),
            .inputs = &gang->inputs[i],
            .input_count = 1,
            .outputs = &gang->outputs[i],
            .output_count = 1,
        };
    }
    gang->request.execute.launches = gang->launches;
    gang->request.execute.launch_count = 2;
    gang->request.execute.is_gang = true;
    fixture_run(fix);
}

static void test_gang_fails_as_its_first_replica(void **state)
{
    struct fixture *fix = *state;
    struct gang gang;
    struct fake_call call;

    gang_init(fix, &gang);
    uint64_t good = fixture_submit(fix, &gang.request);
    uint64_t bad = fixture_submit(fix, &gang.request);
    fake_done(fix->host[1], good);
    assert_state(fix, good, "READY");
    assert_int_equal(fake_count(fix->host[1], FAKE_EXECUTE), 1);
    fake_done(fix->host[0], good);
    assert_state(fix, good, "SUCCEEDED");
    assert_int_equal(fake_count(fix->host[1], FAKE_EXECUTE), 2);
    fake_fail(fix->host[1], bad, POD_REASON_GANG_ABORTED, "another failed");
    assert_true(fake_find(fix->host[0], FAKE_EXECUTE, &call));
    assert_true(call.cancelled);
    fake_fail(fix->host[0], bad, POD_REASON_PROGRAM_FAULT, "overflow");
    assert_state(fix, bad, "FAILED");
    // The cause, not its echo.
    fixture_assert_reason(fix, bad, "PROGRAM_FAULT");
}

static void test_gang_requests_that_are_refused(void **state)
{
    struct fixture *fix = *state;
    struct gang gang;

    gang_init(fix, &gang);
    gang.request.execute.launch_count = 1;
    fixture_refused(fix, &gang.request, POD_REASON_COUNT_MISMATCH);
    gang.request.execute.launch_count = 2;
    gang.assignment[0] = 2;
    gang.assignment[1] = 1;
    gang.request.execute.assignment = gang.assignment;
    gang.request.execute.assignment_count = 2;
    fixture_refused(fix, &gang.request, POD_REASON_BAD_ASSIGNMENT);
    gang.assignment[1] = 0;
    uint64_t run = fixture_submit(fix, &gang.request);
    fixture_run(fix);
    assert_state(fix, run, "SUCCEEDED");
    gang.launches[1].load = gang.launches[0].load;
    gang.inputs[1] = gang.inputs[0];
    gang.outputs[1] = gang.outputs[0];
    fixture_refused(fix, &gang.request, POD_REASON_BAD_ASSIGNMENT);
}

static void test_gang_loses_a_host(void **state)
{
    struct fixture *fix = *state;
    struct gang gang;

    gang_init(fix, &gang);
    uint64_t run = fixture_submit(fix, &gang.request);
    uint64_t next = fixture_submit(fix, &gang.request);
    fake_start(fix->host[0], run);
    fake_lose(fix->host[1], "power");
    assert_state(fix, run, "RUNNING");
    assert_state(fix, next, "SKIPPED");
    fake_fail(fix->host[0], run, POD_REASON_GANG_ABORTED, "host 1 is lost");
    assert_state(fix, run, "LOST");
    fixture_assert_reason(fix, run, "OPERATION_LOST");
}

int main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, fixture_setup_two, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_equal_programs_are_compiled_once),
        TEST(test_first_failure_of_a_compile),
        TEST(test_executions_queue_on_their_core),
        TEST(test_shapes_are_checked_at_submission_or_launch),
        TEST(test_tuples_hold_a_bounded_number_of_buffers),
        TEST(test_automatic_output_of_a_known_program),
        TEST(test_automatic_output_that_becomes_a_tuple),
        TEST(test_leaves_know_readers_of_their_tuple),
        TEST(test_automatic_output_of_a_bad_program),
        TEST(test_gang_fails_as_its_first_replica),
        TEST(test_gang_requests_that_are_refused),
        TEST(test_gang_loses_a_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
