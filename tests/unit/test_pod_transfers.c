// SPDX-License-Identifier: Apache-2.0
// The pod engine on fake hosts: bytes that move in pieces, or at once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/pod/transfer.h"
#include "tests/lib/pod_fixture.h"

static void transfers_init(struct fixture *fix, uint64_t staging)
{
    fixture_init_options(fix, 2, 1000, POD_NEVER, 10, staging);
    fake_ready(fix->host[0]);
    fake_ready(fix->host[1]);
}

static void test_pieces_of_a_write_and_a_read(void **state)
{
    struct fixture fix;
    struct pod_data data;
    struct pod_err err;

    (void)state;
    transfers_init(&fix, 100);
    uint64_t buffer = fixture_allocate(&fix, 0, 25);
    fixture_write(&fix, buffer, 0, 25);
    uint64_t read = fixture_read(&fix, buffer);
    fixture_run(&fix);
    assert_int_equal(fake_count(fix.host[0], FAKE_WRITE), 3);
    assert_int_equal(fake_count(fix.host[0], FAKE_READ), 3);
    assert_int_equal(pod_take_data(fix.pod, read, &data, &err), POD_OK);
    assert_int_equal(data.bytes, 25);
    assert_int_equal(data.chunk_count, 3);
    assert_int_equal(data.chunks[2]->size, 5);
    assert_int_equal(data.chunks[2]->data[0], 20 + buffer);
    pod_data_fini(&data);
    // Kept bytes count until they are dropped.
    uint64_t used, max;
    pod_staging_usage(fix.pod, &used, &max);
    assert_int_equal(used, 25);
    assert_int_equal(pod_drop_data(fix.pod, read, &err), POD_OK);
    pod_staging_usage(fix.pod, &used, &max);
    assert_int_equal(used, 0);
    uint64_t big = fixture_allocate(&fix, 0, 101);
    struct pod_request request = fixture_request(POD_KIND_READ);
    request.read.buffer = fixture_buffer(big);
    request.read.length = UINT64_MAX;
    fixture_refused(&fix, &request, POD_REASON_RESOURCE_EXHAUSTED);
    // What would fit but for others may be asked for again.
    assert_true(pod_staging_take(fix.pod, 1));
    request.read.length = 100;
    fixture_refused(&fix, &request, POD_REASON_STAGING_FULL);
    pod_staging_give(fix.pod, 1);
    request.read.offset = 50;
    request.read.length = 52;
    fixture_refused(&fix, &request, POD_REASON_OUT_OF_RANGE);
    fixture_fini(&fix);
}

// A host in this process is handed what was given as it is, and may keep it;
// what is made or read comes in pieces.
static void test_a_near_host_is_given_all(void **state)
{
    struct fixture fix;
    struct fake_call call;

    (void)state;
    fixture_init_options(&fix, 2, 1000, POD_NEVER, 10, 100);
    fake_set_features(fix.host[0], POD_DRIVER_NEAR);
    fake_ready(fix.host[0]);
    fake_ready(fix.host[1]);
    uint64_t buffer = fixture_allocate(&fix, 0, 25);
    uint64_t far = fixture_allocate(&fix, 2, 25);
    fixture_run(&fix);
    uint64_t write = fixture_write(&fix, buffer, 0, 25);
    assert_int_equal(fake_open(fix.host[0]), 1);
    assert_true(fake_find(fix.host[0], FAKE_WRITE, &call));
    assert_int_equal(call.op, write);
    assert_int_equal(call.offset, 0);
    assert_int_equal(call.count, 25);
    fixture_run(&fix);
    assert_state(&fix, write, "SUCCEEDED");
    write = fixture_write(&fix, buffer, 3, 22);
    assert_true(fake_find(fix.host[0], FAKE_WRITE, &call));
    assert_int_equal(call.offset, 3);
    assert_int_equal(call.count, 22);
    fixture_run(&fix);
    assert_int_equal(fake_count(fix.host[0], FAKE_WRITE), 2);
    fixture_copy(&fix, far, buffer);
    fixture_run(&fix);
    assert_int_equal(fake_count(fix.host[0], FAKE_WRITE), 5);
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    request.allocate.bytes = 24;
    request.allocate.fill_size = 4;
    fixture_submit(&fix, &request);
    fixture_run(&fix);
    assert_int_equal(fake_count(fix.host[0], FAKE_WRITE), 8);
    fixture_fini(&fix);
}

static void test_a_near_write_is_cancelled(void **state)
{
    struct fixture fix;
    struct fake_call call;
    struct pod_err err;
    bool again;

    (void)state;
    fixture_init_options(&fix, 1, 1000, POD_NEVER, 10, 100);
    fake_set_features(fix.host[0], POD_DRIVER_NEAR);
    fake_ready(fix.host[0]);
    uint64_t buffer = fixture_allocate(&fix, 0, 25);
    fixture_run(&fix);
    uint64_t write = fixture_write(&fix, buffer, 0, 25);
    assert_int_equal(
        pod_cancel(fix.pod, write, POD_CASCADE_NONE, NULL, &again, &err),
        POD_OK);
    assert_true(fake_find(fix.host[0], FAKE_WRITE, &call));
    assert_true(call.cancelled);
    fake_fail(fix.host[0], call.op, POD_REASON_CANCEL_REQUESTED, "no");
    assert_state(&fix, write, "CANCELLED");
    assert_int_equal(fake_open(fix.host[0]), 0);
    fixture_fini(&fix);
}

// A worker may say anything: what it sends must be what was asked for.
static void test_answers_of_a_wrong_size(void **state)
{
    struct fixture fix;
    uint64_t used;
    uint64_t max;

    (void)state;
    transfers_init(&fix, 300);
    uint64_t from = fixture_allocate(&fix, 0, 95);
    uint64_t to = fixture_allocate(&fix, 2, 95);
    fixture_run(&fix);
    for (int surplus = -1; surplus <= 1; surplus++) {
        const char *end = surplus == 0 ? "SUCCEEDED" : "FAILED";
        fake_set_surplus(fix.host[0], surplus);
        uint64_t read = fixture_read(&fix, from);
        uint64_t copy = fixture_copy(&fix, from, to);
        fixture_run(&fix);
        assert_state(&fix, read, end);
        assert_state(&fix, copy, end);
        if (surplus != 0) {
            fixture_assert_reason(&fix, read, "WORKER_ERROR");
            fixture_assert_reason(&fix, copy, "WORKER_ERROR");
        }
    }
    pod_staging_usage(fix.pod, &used, &max);
    assert_int_equal(used, 95); // of the read that is kept
    fixture_fini(&fix);
}

static void test_copy_between_hosts(void **state)
{
    struct fixture fix;
    struct fake_call call;

    (void)state;
    transfers_init(&fix, 100);
    uint64_t from = fixture_allocate(&fix, 0, 95);
    uint64_t to = fixture_allocate(&fix, 2, 95);
    uint64_t other = fixture_allocate(&fix, 2, 94);
    fixture_run(&fix);
    uint64_t copy = fixture_copy(&fix, from, to);
    // A bounded number of pieces is under way.
    assert_int_equal(fake_open(fix.host[0]), POD_TRANSFER_SLOTS);
    assert_true(fake_peek(fix.host[0], 1, &call));
    fake_done(fix.host[0], call.op);
    assert_true(fake_find(fix.host[1], FAKE_WRITE, &call));
    assert_int_equal(call.offset, 10);
    assert_int_equal(call.first, 10 + from);
    fixture_run(&fix);
    assert_int_equal(fake_count(fix.host[1], FAKE_WRITE), 10);
    assert_state(&fix, copy, "SUCCEEDED");
    struct pod_request request = fixture_request(POD_KIND_COPY);
    request.copy.from = fixture_buffer(from);
    request.copy.to = fixture_buffer(other);
    fixture_refused(&fix, &request, POD_REASON_SHAPE_MISMATCH);
    fixture_fini(&fix);
}

static void test_allocate_with_contents_that_fail(void **state)
{
    struct fixture fix;
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct fake_call call;

    (void)state;
    transfers_init(&fix, 100);
    request.allocate.bytes = 24;
    request.allocate.fill_size = 4;
    memcpy(request.allocate.fill, "abcd", 4);
    uint64_t good = fixture_submit(&fix, &request);
    fake_done(fix.host[0], good);
    assert_true(fake_find(fix.host[0], FAKE_WRITE, &call));
    assert_int_equal(call.first, 'a');
    fake_done(fix.host[0], call.op);
    assert_true(fake_find(fix.host[0], FAKE_WRITE, &call));
    assert_int_equal(call.offset, 10);
    assert_int_equal(call.first, 'c');
    fixture_run(&fix);
    assert_state(&fix, good, "SUCCEEDED");
    uint64_t bad = fixture_submit(&fix, &request);
    fake_done(fix.host[0], bad);
    assert_true(fake_find(fix.host[0], FAKE_WRITE, &call));
    fake_fail(fix.host[0], call.op, POD_REASON_WORKER_ERROR, "no");
    assert_state(&fix, bad, "READY");
    assert_true(fake_find(fix.host[0], FAKE_DEALLOCATE, &call));
    assert_int_equal(call.handle, bad);
    fixture_run(&fix);
    assert_state(&fix, bad, "FAILED");
    request.allocate.bytes = 25;
    fixture_refused(&fix, &request, POD_REASON_SHAPE_MISMATCH);
    fixture_fini(&fix);
}

static void count_notify(void *arg)
{
    ++*(int *)arg;
}

// Reads all of a buffer, as far as the stream takes it.
static uint64_t read_into(struct fixture *fix, uint64_t buffer,
                          struct pod_stream *stream)
{
    struct pod_request request = fixture_request(POD_KIND_READ);

    request.read.buffer = fixture_buffer(buffer);
    request.read.length = UINT64_MAX;
    request.read.stream = stream;
    uint64_t read = fixture_submit(fix, &request);
    fixture_run(fix);
    return read;
}

static void test_stream_stops_a_read_that_is_too_fast(void **state)
{
    struct fixture fix;
    struct pod_blob *chunk;
    struct pod_err err;
    int notified = 0;
    size_t got = 0;

    (void)state;
    transfers_init(&fix, 0);
    uint64_t buffer = fixture_allocate(&fix, 0, 200);
    fixture_run(&fix);
    struct pod_stream *stream = pod_stream_new(20, count_notify, &notified);
    uint64_t read = read_into(&fix, buffer, stream);
    // Two chunks fill it, and four wait in the slots.
    assert_true(fake_count(fix.host[0], FAKE_READ) <= 2 + POD_TRANSFER_SLOTS);
    while (pod_stream_pop(stream, &chunk, &err) == POD_STREAM_CHUNK) {
        assert_int_equal(chunk->data[0], (unsigned char)(got + buffer));
        got += chunk->size;
        pod_blob_unref(chunk);
        fixture_run(&fix);
    }
    assert_int_equal(got, 200);
    assert_int_equal(pod_stream_peek(stream), POD_STREAM_END);
    assert_state(&fix, read, "SUCCEEDED");
    pod_stream_close(stream);
    fixture_fini(&fix);
}

static void test_closed_stream_cancels_its_read(void **state)
{
    struct fixture fix;
    int notified = 0;

    (void)state;
    transfers_init(&fix, 0);
    uint64_t buffer = fixture_allocate(&fix, 0, 200);
    fixture_run(&fix);
    struct pod_stream *stream = pod_stream_new(20, count_notify, &notified);
    uint64_t read = read_into(&fix, buffer, stream);
    pod_stream_close(stream);
    fixture_run(&fix);
    assert_state(&fix, read, "CANCELLED");
    fixture_free(&fix, buffer);
    fixture_run(&fix);
    assert_state(&fix, read + 1, "SUCCEEDED");
    fixture_fini(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_of_a_write_and_a_read),
        cmocka_unit_test(test_a_near_host_is_given_all),
        cmocka_unit_test(test_a_near_write_is_cancelled),
        cmocka_unit_test(test_answers_of_a_wrong_size),
        cmocka_unit_test(test_copy_between_hosts),
        cmocka_unit_test(test_allocate_with_contents_that_fail),
        cmocka_unit_test(test_stream_stops_a_read_that_is_too_fast),
        cmocka_unit_test(test_closed_stream_cancels_its_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
