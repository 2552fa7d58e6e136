// SPDX-License-Identifier: Apache-2.0
// The pod engine on fake hosts whose answers come by hand: order by use,
// failures, handles, memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tests/lib/pod_fixture.h"

static void test_thread_of_one_program(void **state)
{
    struct fixture *fix = *state;
    uint64_t in = fixture_allocate(fix, 0, 8);
    uint64_t write = fixture_write(fix, in, 0, 8);
    uint64_t program = fixture_compile(fix, "sha-256:a");
    uint64_t load = fixture_load_on(fix, program, 0);
    uint64_t out = fixture_allocate(fix, 0, 8);
    uint64_t run = fixture_execute(fix, load, in, out);
    uint64_t read = fixture_read(fix, out);
    uint64_t gone = fixture_free(fix, out);
    struct pod_data data;
    struct pod_err err;

    assert_int_equal(in, 1);
    assert_int_equal(gone, 8);
    assert_state(fix, write, "WAITING");
    fixture_run(fix);
    for (uint64_t number = in; number <= gone; number++)
        assert_state(fix, number, "SUCCEEDED");
    assert_int_equal(pod_take_data(fix->pod, read, &data, &err), POD_OK);
    assert_int_equal(data.bytes, 8);
    assert_int_equal(data.chunks[0]->data[0], out);
    pod_data_fini(&data);
    assert_int_equal(fake_count(fix->host[1], FAKE_COMPILE), 1);
    assert_int_equal(fake_count(fix->host[1], FAKE_EXECUTE), 0);
    assert_state(fix, run, "SUCCEEDED");
}

static void test_readers_run_together_and_hold_a_writer(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    uint64_t first = fixture_read(fix, buffer);
    uint64_t second = fixture_read(fix, buffer);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    struct fake_call call;

    assert_int_equal(fake_open(fix->host[0]), 2);
    assert_false(fake_find(fix->host[0], FAKE_WRITE, &call));
    fake_done(fix->host[0], first);
    assert_false(fake_find(fix->host[0], FAKE_WRITE, &call));
    fake_fail(fix->host[0], second, POD_REASON_WORKER_ERROR, "broken");
    // A failed reader spoils nothing: it only orders.
    assert_true(fake_find(fix->host[0], FAKE_WRITE, &call));
    fixture_run(fix);
    assert_state(fix, second, "FAILED");
    assert_state(fix, write, "SUCCEEDED");
}

static void test_failed_write_skips_readers_until_a_whole_write(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 0, 8);
    uint64_t part = fixture_write(fix, buffer, 4, 4);
    uint64_t read = fixture_read(fix, buffer);
    struct pod_buffer_view view;
    struct pod_err err;

    fake_fail(fix->host[0], write, POD_REASON_WORKER_ERROR, "no");
    assert_state(fix, write, "FAILED");
    assert_state(fix, part, "SKIPPED");
    assert_state(fix, read, "SKIPPED");
    assert_int_equal(fixture_root(fix, read), write);
    fixture_assert_reason(fix, read, "WORKER_ERROR");
    assert_int_equal(pod_get_buffer(fix->pod, buffer, &view, &err), POD_OK);
    assert_int_equal(view.state, POD_HANDLE_FAILED);
    pod_buffer_view_fini(&view);
    // Long after the fact too.
    assert_state(fix, fixture_read(fix, buffer), "SKIPPED");
    fixture_write(fix, buffer, 0, 8);
    uint64_t good = fixture_read(fix, buffer);
    fixture_run(fix);
    assert_state(fix, good, "SUCCEEDED");
}

static void test_failed_allocation_skips_with_its_chain(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    uint64_t write = fixture_write(fix, buffer, 0, 4);
    uint64_t read = fixture_read(fix, buffer);
    uint64_t gone = fixture_free(fix, buffer);
    struct pod_event_view view;
    struct pod_err err;

    fake_fail(fix->host[0], buffer, POD_REASON_RESOURCE_EXHAUSTED, "full");
    assert_state(fix, write, "SKIPPED");
    assert_state(fix, read, "SKIPPED");
    assert_state(fix, gone, "SUCCEEDED");
    assert_int_equal(fake_open(fix->host[0]), 0);
    assert_int_equal(pod_get_event(fix->pod, read, &view, &err), POD_OK);
    assert_int_equal(view.root, buffer);
    assert_true(view.cause_count >= 1);
    assert_true(view.causes[view.cause_count - 1].number == buffer);
    pod_event_view_fini(&view);
}

static void test_freed_handles_are_refused(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    uint64_t gone = fixture_free(fix, buffer);
    struct pod_request request = fixture_request(POD_KIND_READ);
    struct pod_err err;
    uint64_t number, existing = 0;

    request.read.buffer = fixture_buffer(buffer);
    request.read.length = UINT64_MAX;
    fixture_refused(fix, &request, POD_REASON_HANDLE_FREED);
    request = fixture_request(POD_KIND_FREE);
    request.free.handle = fixture_buffer(buffer);
    assert_int_not_equal(
        pod_submit(fix->pod, &request, 1, &number, &existing, &err), POD_OK);
    assert_int_equal(err.reason, POD_REASON_HANDLE_FREED);
    assert_int_equal(existing, gone);
    request.free.handle = fixture_program(buffer);
    fixture_refused(fix, &request, POD_REASON_UNKNOWN_HANDLE);
    request.free.handle = fixture_buffer(99);
    fixture_refused(fix, &request, POD_REASON_UNKNOWN_HANDLE);
}

static void test_a_write_over_what_was_read(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    struct pod_blob *blob = pod_blob_new(8);
    struct pod_request request = fixture_request(POD_KIND_WRITE);

    assert_non_null(blob);
    request.write.buffer = fixture_buffer(buffer);
    request.write.data = blob;
    request.write.if_writer = buffer; // zeros, as the allocation left it
    uint64_t first = fixture_submit(fix, &request);
    fixture_refused(fix, &request, POD_REASON_PRECONDITION_FAILED);
    request.write.if_writer = first; // which need not be done
    uint64_t second = fixture_submit(fix, &request);
    assert_int_equal(second, first + 1);
    request.write.if_writer = 0;
    (void)fixture_submit(fix, &request);
    fixture_run(fix);
    assert_state(fix, second, "SUCCEEDED");
    pod_blob_unref(blob);
}

static void test_a_batch_is_all_or_nothing(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    struct pod_request requests[3];
    struct pod_blob *blob = pod_blob_new(8);
    uint64_t numbers[3];
    struct pod_err err;

    requests[0] = fixture_request(POD_KIND_WRITE);
    requests[0].write.buffer = fixture_buffer(buffer);
    requests[0].write.data = blob;
    requests[1] = fixture_request(POD_KIND_FREE);
    requests[1].free.handle = fixture_buffer(buffer);
    requests[2] = fixture_request(POD_KIND_READ);
    requests[2].read.buffer = fixture_buffer(buffer);
    requests[2].read.length = UINT64_MAX;
    requests[2].pointer = "/ops/2";
    assert_int_not_equal(pod_submit(fix->pod, requests, 3, numbers, NULL, &err),
                         POD_OK);
    assert_int_equal(err.reason, POD_REASON_HANDLE_FREED);
    assert_string_equal(err.pointer, "/ops/2/buffer");
    assert_int_equal(pod_last_number(fix->pod), buffer);
    // Nothing of it is left: the buffer lives and has no new writer.
    uint64_t read = fixture_read(fix, buffer);
    assert_int_equal(read, buffer + 1);
    assert_int_equal(fake_open(fix->host[0]), 1);
    fixture_run(fix);
    assert_state(fix, read, "SUCCEEDED");
    pod_blob_unref(blob);
}

static uint64_t submit_later(struct fixture *fix, uint32_t core)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_err err;
    uint64_t number = 0;

    request.allocate.core = core;
    request.allocate.bytes = 8;
    assert_int_equal(
        pod_submit_later(fix->pod, &request, 1, &number, NULL, &err), POD_OK);
    return number;
}

static void test_what_is_submitted_later_waits_for_send(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = submit_later(fix, 0);
    uint64_t other = submit_later(fix, 3); // of the second host

    assert_int_equal(other, first + 1);
    assert_state(fix, first, "READY");
    assert_int_equal(fake_open(fix->host[0]), 0);
    assert_int_equal(fake_open(fix->host[1]), 0);
    pod_send(fix->pod);
    assert_int_equal(fake_open(fix->host[0]), 1);
    assert_int_equal(fake_open(fix->host[1]), 1);
    // What is not submitted later takes along what waits for its host.
    submit_later(fix, 1);
    submit_later(fix, 3);
    fixture_allocate(fix, 0, 8);
    assert_int_equal(fake_open(fix->host[0]), 3);
    assert_int_equal(fake_open(fix->host[1]), 1);
    // Only of what is made together does a host know that more follows.
    for (size_t i = 0; i < 3; i++) {
        struct fake_call call;
        assert_true(fake_peek(fix->host[0], i, &call));
        assert_int_equal(call.more, i == 1);
    }
    pod_send(fix->pod);
    assert_int_equal(fake_open(fix->host[1]), 2);
    fixture_run(fix);
    assert_state(fix, first, "SUCCEEDED");
    assert_state(fix, other, "SUCCEEDED");
}

static void test_requests_name_each_other(void **state)
{
    struct fixture *fix = *state;
    struct pod_request requests[2];
    struct pod_blob *blob = pod_blob_new(8);
    uint64_t numbers[2];
    struct pod_err err;

    requests[0] = fixture_request(POD_KIND_ALLOCATE);
    requests[0].allocate.core = 3;
    requests[0].allocate.bytes = 8;
    requests[1] = fixture_request(POD_KIND_WRITE);
    requests[1].write.buffer =
        (struct pod_ref){.kind = POD_REF_REQUEST, .number = 0};
    requests[1].write.data = blob;
    assert_int_equal(pod_submit(fix->pod, requests, 2, numbers, NULL, &err),
                     POD_OK);
    pod_blob_unref(blob);
    assert_state(fix, numbers[1], "WAITING");
    fixture_run(fix);
    assert_state(fix, numbers[1], "SUCCEEDED");
    assert_int_equal(fake_count(fix->host[1], FAKE_WRITE), 1);
}

static void test_memory_waits_for_frees_before_it(void **state)
{
    struct fixture *fix = *state;
    uint64_t big = fixture_allocate(fix, 0, 600);
    fixture_run(fix);
    uint64_t gone = fixture_free(fix, big);
    uint64_t next = fixture_allocate(fix, 0, 900);
    struct fake_call call;

    // It fits only when the free is done.
    assert_state(fix, next, "WAITING");
    assert_false(fake_find(fix->host[0], FAKE_ALLOCATE, &call));
    fake_done(fix->host[0], gone);
    assert_true(fake_find(fix->host[0], FAKE_ALLOCATE, &call));
    assert_int_equal(call.op, next);
    fixture_run(fix);
    assert_state(fix, next, "SUCCEEDED");
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    request.allocate.bytes = FIXTURE_MEMORY + 1;
    fixture_refused(fix, &request, POD_REASON_RESOURCE_EXHAUSTED);
    request.allocate.bytes = 1;
    request.allocate.core = 4;
    fixture_refused(fix, &request, POD_REASON_UNKNOWN_CORE);
}

static void test_tuples_hold_their_children(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = fixture_allocate(fix, 1, 8);
    uint64_t second = fixture_allocate(fix, 1, 8);
    uint64_t tuple = fixture_tuple(fix, first, second);
    struct pod_request request = fixture_request(POD_KIND_FREE);

    fixture_run(fix);
    request.free.handle = fixture_buffer(first);
    fixture_refused(fix, &request, POD_REASON_IN_USE);
    request = fixture_request(POD_KIND_READ);
    request.read.buffer = fixture_buffer(tuple);
    fixture_refused(fix, &request, POD_REASON_IS_A_TUPLE);
    fixture_free(fix, tuple);
    fixture_free(fix, first);
    fixture_free(fix, second);
    fixture_run(fix);
    assert_state(fix, second + 4, "SUCCEEDED");
}

static void test_after_and_run_on_failure(void **state)
{
    struct fixture *fix = *state;
    uint64_t bad = fixture_allocate(fix, 0, 8);
    struct pod_ref after = fixture_op(bad);
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);

    request.allocate.bytes = 8;
    request.after = &after;
    request.after_count = 1;
    uint64_t skipped = fixture_submit(fix, &request);
    request.run_on_failure = true;
    uint64_t runs = fixture_submit(fix, &request);
    fake_fail(fix->host[0], bad, POD_REASON_RESOURCE_EXHAUSTED, "full");
    fixture_run(fix);
    assert_state(fix, skipped, "SKIPPED");
    assert_state(fix, runs, "SUCCEEDED");
    request.run_on_failure = false;
    assert_state(fix, fixture_submit(fix, &request), "SKIPPED");
    after = fixture_op(bad + 100);
    fixture_refused(fix, &request, POD_REASON_UNKNOWN_HANDLE);
}

static void test_no_memory_changes_nothing(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 8);
    struct pod_request request = fixture_request(POD_KIND_READ);
    enum pod_code code = POD_RESOURCE_EXHAUSTED;
    struct pod_err err;
    uint64_t number = 0;

    fixture_run(fix);
    request.read.buffer = fixture_buffer(buffer);
    request.read.length = UINT64_MAX;
    for (long i = 0; code != POD_OK; i++) {
        long live = pod_mem_live();
        pod_mem_fail_after(i, 1);
        code = pod_submit(fix->pod, &request, 1, &number, NULL, &err);
        pod_mem_fail_after(-1, 0);
        if (code == POD_OK)
            break;
        assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
        assert_int_equal(pod_last_number(fix->pod), buffer);
        // Room that the pod keeps for later may have grown, records not.
        assert_true(pod_mem_live() <= live + 3);
    }
    assert_int_equal(number, buffer + 1);
    fixture_run(fix);
}

static void test_memory_is_given_back_between_operations(void **state)
{
    struct fixture *fix = *state;

    for (int round = 0; round < 2; round++) {
        uint64_t buffer = fixture_allocate(fix, 0, 8);
        uint64_t write = fixture_write(fix, buffer, 0, 8);
        assert_false(pod_trim(fix->pod));
        fixture_run(fix);
        assert_state(fix, write, "SUCCEEDED");
        long most = pod_mem_live();
        assert_true(pod_trim(fix->pod));
        assert_true(pod_mem_live() < most);
        assert_state(fix, write, "SUCCEEDED");
    }
}

int main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, fixture_setup_two, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_thread_of_one_program),
        TEST(test_readers_run_together_and_hold_a_writer),
        TEST(test_failed_write_skips_readers_until_a_whole_write),
        TEST(test_failed_allocation_skips_with_its_chain),
        TEST(test_freed_handles_are_refused),
        TEST(test_a_write_over_what_was_read),
        TEST(test_a_batch_is_all_or_nothing),
        TEST(test_what_is_submitted_later_waits_for_send),
        TEST(test_requests_name_each_other),
        TEST(test_memory_waits_for_frees_before_it),
        TEST(test_tuples_hold_their_children),
        TEST(test_after_and_run_on_failure),
        TEST(test_no_memory_changes_nothing),
        TEST(test_memory_is_given_back_between_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
