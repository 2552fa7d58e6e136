// SPDX-License-Identifier: Apache-2.0
// Operations that run in spite of a failure before them: they come to their
// turn although what they work on is not there, and say so then.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/pod_fixture.h"

static uint64_t submit_in_spite(struct fixture *fix, struct pod_request request)
{
    request.run_on_failure = true;
    return fixture_submit(fix, &request);
}

static uint64_t load_in_spite(struct fixture *fix, uint64_t program,
                              uint32_t core)
{
    struct pod_request request = fixture_request(POD_KIND_LOAD);

    request.load.program = fixture_program(program);
    request.load.core = core;
    return submit_in_spite(fix, request);
}

static uint64_t execute_in_spite(struct fixture *fix, uint64_t load,
                                 uint64_t input, uint64_t output)
{
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_ref in = fixture_buffer(input);
    struct pod_ref out = fixture_buffer(output);
    struct pod_launch launch = {.load = fixture_load(load),
                                .inputs = &in,
                                .input_count = 1,
                                .outputs = &out,
                                .output_count = 1};

    request.execute.launches = &launch;
    request.execute.launch_count = 1;
    return submit_in_spite(fix, request);
}

// It has failed without a call to its host, because of `root`.
static void assert_failed(struct fixture *fix, uint64_t number, uint64_t root,
                          const char *reason)
{
    assert_state(fix, number, "FAILED");
    fixture_assert_reason(fix, number, reason);
    assert_int_equal(fixture_root(fix, number), root);
}

static void test_an_execution(void **state)
{
    struct fixture *fix = *state;
    uint64_t good = fixture_allocate(fix, 0, 8);
    uint64_t bad = fixture_allocate(fix, 0, 8);
    uint64_t program = fixture_compile(fix, "sha-256:a");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t bad_load = fixture_load_on(fix, program, 1);
    uint64_t runs[] = {execute_in_spite(fix, load, bad, good),
                       execute_in_spite(fix, load, good, bad)};

    fake_fail(fix->host[0], bad, POD_REASON_RESOURCE_EXHAUSTED, "full");
    fake_done(fix->host[0], program);
    fake_done(fix->host[1], program);
    fake_fail(fix->host[0], bad_load, POD_REASON_WORKER_ERROR, "no");
    fixture_run(fix);
    for (size_t i = 0; i < 2; i++)
        assert_failed(fix, runs[i], bad, "RESOURCE_EXHAUSTED");
    // A load that is not there, of a program and buffers that are.
    uint64_t other = fixture_allocate(fix, 1, 8);
    uint64_t run = execute_in_spite(fix, bad_load, other, other);
    fixture_run(fix);
    assert_failed(fix, run, bad_load, "WORKER_ERROR");
    assert_int_equal(fake_count(fix->host[0], FAKE_EXECUTE), 0);
}

static void test_a_load(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:bad");
    uint64_t load = load_in_spite(fix, program, 0);

    fake_fail(fix->host[0], program, POD_REASON_INVALID_PROGRAM, "bad line");
    fixture_run(fix);
    assert_state(fix, program, "FAILED");
    assert_failed(fix, load, load, "INVALID_PROGRAM");
    assert_int_equal(fake_count(fix->host[0], FAKE_LOAD), 0);
}

// When the compile's turn comes there is no host any more.
static void test_a_compile(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_COMPILE);
    struct pod_ref before = fixture_op(fixture_allocate(fix, 0, 8));
    struct pod_blob *blob = pod_blob_new_zeroed(8);

    assert_non_null(blob);
    request.after = &before;
    request.after_count = 1;
    request.compile.program = blob;
    request.compile.replicas = 1;
    request.compile.digest = "sha-256:a";
    uint64_t program = submit_in_spite(fix, request);
    fake_lose(fix->host[1], "gone");
    fake_lose(fix->host[0], "gone");
    assert_failed(fix, program, program, "HOST_UNAVAILABLE");
    // That says nothing of the program: it is compiled when there are hosts.
    for (size_t i = 0; i < fix->host_count; i++)
        fake_ready(fix->host[i]);
    request.after_count = 0;
    program = fixture_submit(fix, &request);
    assert_int_equal(fake_count(fix->host[0], FAKE_COMPILE), 1);
    fixture_run(fix);
    assert_state(fix, program, "SUCCEEDED");
    pod_blob_unref(blob);
}

static void test_transfers(void **state)
{
    struct fixture *fix = *state;
    uint64_t near = fixture_allocate(fix, 0, 8);
    uint64_t bad = fixture_allocate(fix, 0, 8);
    uint64_t far = fixture_allocate(fix, 2, 8);
    struct pod_request read = fixture_request(POD_KIND_READ);
    struct pod_request write = fixture_request(POD_KIND_WRITE);
    struct pod_request copy = fixture_request(POD_KIND_COPY);
    struct pod_blob *blob = pod_blob_new_zeroed(8);

    assert_non_null(blob);
    read.read.buffer = fixture_buffer(bad);
    read.read.length = UINT64_MAX;
    write.write.buffer = fixture_buffer(bad);
    write.write.data = blob;
    copy.copy.from = fixture_buffer(bad);
    copy.copy.to = fixture_buffer(near);
    uint64_t ops[5] = {submit_in_spite(fix, read), submit_in_spite(fix, write),
                       submit_in_spite(fix, copy)};
    copy.copy.to = fixture_buffer(far);
    ops[3] = submit_in_spite(fix, copy);
    copy.copy.from = fixture_buffer(far);
    copy.copy.to = fixture_buffer(bad);
    ops[4] = submit_in_spite(fix, copy);
    pod_blob_unref(blob);
    fake_fail(fix->host[0], bad, POD_REASON_RESOURCE_EXHAUSTED, "full");
    fixture_run(fix);
    for (size_t i = 0; i < 5; i++)
        assert_failed(fix, ops[i], bad, "RESOURCE_EXHAUSTED");
    for (size_t i = 0; i < fix->host_count; i++) {
        assert_int_equal(fake_count(fix->host[i], FAKE_READ), 0);
        assert_int_equal(fake_count(fix->host[i], FAKE_WRITE), 0);
        assert_int_equal(fake_count(fix->host[i], FAKE_COPY), 0);
    }
}

int main(void)
{
#define T(name)                                                                \
    cmocka_unit_test_setup_teardown(name, fixture_setup_two, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(test_an_execution),
        T(test_a_load),
        T(test_a_compile),
        T(test_transfers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
