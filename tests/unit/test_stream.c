// SPDX-License-Identifier: Apache-2.0
// Streams: order, window, wakes, both ends leaving, failures.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/lock.h"
#include "core/base/mem.h"
#include "core/pod/stream.h"

struct calls {
    int notified;
    int resumed;
    int closed;
    int released;
};

static void on_notify(void *arg)
{
    ((struct calls *)arg)->notified++;
}

static void on_resume(void *arg, bool closed)
{
    struct calls *calls = arg;
    calls->resumed += !closed;
    calls->closed += closed;
}

static void on_release(void *arg)
{
    ((struct calls *)arg)->released++;
}

static struct pod_stream *new_stream(uint64_t window, struct calls *calls)
{
    struct pod_stream *stream = pod_stream_new(window, on_notify, calls);

    assert_non_null(stream);
    pod_stream_on_resume(stream, on_resume, calls);
    pod_stream_on_release(stream, on_release);
    return stream;
}

static struct pod_blob *new_chunk(size_t size, int value)
{
    struct pod_blob *blob = pod_blob_new(size);

    assert_non_null(blob);
    memset(blob->data, value, size);
    return blob;
}

static void pop_chunk(struct pod_stream *stream, size_t size, int value)
{
    struct pod_blob *chunk = NULL;

    assert_int_equal(pod_stream_pop(stream, &chunk, NULL), POD_STREAM_CHUNK);
    assert_int_equal(chunk->size, size);
    if (size > 0)
        assert_int_equal(chunk->data[size - 1], value);
    pod_blob_unref(chunk);
}

static int check_no_leak(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

static void test_chunks_come_in_order_then_the_end(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_stream *stream = new_stream(100, &calls);

    assert_true(pod_stream_push(stream, new_chunk(3, 'a')));
    assert_true(pod_stream_push(stream, new_chunk(0, 0)));
    assert_true(pod_stream_push(stream, new_chunk(5, 'b')));
    pod_stream_finish(stream, NULL);
    assert_int_equal(pod_stream_peek(stream), POD_STREAM_CHUNK);
    pop_chunk(stream, 3, 'a');
    pop_chunk(stream, 0, 0);
    pop_chunk(stream, 5, 'b');
    assert_int_equal(pod_stream_pop(stream, NULL, NULL), POD_STREAM_END);
    assert_int_equal(pod_stream_pop(stream, NULL, NULL), POD_STREAM_END);
    assert_int_equal(calls.released, 0);
    pod_stream_close(stream);
    assert_int_equal(calls.notified, 0);
    assert_int_equal(calls.resumed, 0);
    assert_int_equal(calls.closed, 0);
    assert_int_equal(calls.released, 1);
}

static void test_window_bounds_what_is_held(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_stream *stream = new_stream(10, &calls);

    assert_true(pod_stream_push(stream, new_chunk(4, 1)));
    // 8 are held: another 4 would make 12.
    assert_false(pod_stream_push(stream, new_chunk(4, 2)));
    assert_int_equal(calls.resumed, 0);
    pop_chunk(stream, 4, 1);
    assert_int_equal(calls.resumed, 1);
    // Resumed once, not with each pop.
    pop_chunk(stream, 4, 2);
    assert_int_equal(calls.resumed, 1);
    pod_stream_finish(stream, NULL);
    pod_stream_close(stream);
}

static void test_few_chunks_are_held_however_small(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_stream *stream = new_stream(1000, &calls);

    for (int i = 1; i < POD_STREAM_CHUNKS; i++)
        assert_true(pod_stream_push(stream, new_chunk(1, (unsigned char)i)));
    assert_false(pod_stream_push(stream, new_chunk(1, POD_STREAM_CHUNKS)));
    assert_int_equal(calls.resumed, 0);
    pop_chunk(stream, 1, 1);
    assert_int_equal(calls.resumed, 1);
    assert_false(pod_stream_push(stream, new_chunk(1, POD_STREAM_CHUNKS + 1)));
    pod_stream_finish(stream, NULL);
    pod_stream_close(stream);
}

static void test_chunk_above_window_waits_until_empty(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_stream *stream = new_stream(10, &calls);

    assert_true(pod_stream_push(stream, new_chunk(1, 1)));
    assert_false(pod_stream_push(stream, new_chunk(50, 2)));
    pop_chunk(stream, 1, 1);
    assert_int_equal(calls.resumed, 0);
    pop_chunk(stream, 50, 2);
    assert_int_equal(calls.resumed, 1);
    pod_stream_finish(stream, NULL);
    pod_stream_close(stream);
}

static void test_notify_only_after_empty(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_stream *stream = new_stream(100, &calls);

    assert_true(pod_stream_push(stream, new_chunk(1, 1)));
    assert_int_equal(calls.notified, 0);
    pop_chunk(stream, 1, 1);
    assert_int_equal(pod_stream_pop(stream, NULL, NULL), POD_STREAM_EMPTY);
    assert_true(pod_stream_push(stream, new_chunk(1, 2)));
    assert_true(pod_stream_push(stream, new_chunk(1, 3)));
    assert_int_equal(calls.notified, 1);
    pop_chunk(stream, 1, 2);
    pop_chunk(stream, 1, 3);
    assert_int_equal(pod_stream_peek(stream), POD_STREAM_EMPTY);
    pod_stream_finish(stream, NULL);
    assert_int_equal(calls.notified, 2);
    assert_int_equal(pod_stream_peek(stream), POD_STREAM_END);
    pod_stream_close(stream);
}

static void test_failure_is_told_at_once(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_stream *stream = new_stream(100, &calls);
    struct pod_err err, got = POD_ERR_NONE;

    assert_true(pod_stream_push(stream, new_chunk(8, 1)));
    (void)pod_err_set(&err, POD_REASON_BUFFER_LOST, "host 3 went away");
    pod_stream_finish(stream, &err);
    assert_int_equal(pod_stream_peek(stream), POD_STREAM_FAILED);
    assert_int_equal(pod_stream_pop(stream, NULL, &got), POD_STREAM_FAILED);
    assert_int_equal(got.reason, POD_REASON_BUFFER_LOST);
    assert_string_equal(got.text, "host 3 went away");
    assert_int_equal(pod_stream_pop(stream, NULL, NULL), POD_STREAM_FAILED);
    pod_stream_close(stream);
}

static void test_close_tells_the_engine_once(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_stream *stream = new_stream(4, &calls);

    assert_false(pod_stream_push(stream, new_chunk(4, 1)));
    pod_stream_close(stream);
    assert_int_equal(calls.closed, 1);
    // The read may take a while to stop: what it still brings is dropped.
    assert_true(pod_stream_push(stream, new_chunk(4, 2)));
    assert_int_equal(calls.closed, 1);
    assert_int_equal(calls.resumed, 0);
    assert_int_equal(calls.notified, 0);
    assert_int_equal(calls.released, 0);
    pod_stream_finish(stream, NULL);
    assert_int_equal(calls.released, 1);
}

static void test_an_abandoned_read_goes_on(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_stream *stream = new_stream(4, &calls);

    assert_false(pod_stream_push(stream, new_chunk(4, 1)));
    pod_stream_abandon(stream);
    assert_int_equal(calls.resumed, 1);
    assert_true(pod_stream_push(stream, new_chunk(4, 2)));
    assert_int_equal(pod_stream_peek(stream), POD_STREAM_EMPTY);
    pod_stream_close(stream);
    assert_true(pod_stream_push(stream, new_chunk(4, 3)));
    pod_stream_finish(stream, NULL);
    assert_int_equal(calls.closed, 0);
    assert_int_equal(calls.resumed, 1);
    assert_int_equal(calls.released, 1);
}

static void test_close_before_the_engine_listens(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_stream *stream = pod_stream_new(4, on_notify, &calls);

    assert_non_null(stream);
    pod_stream_close(stream);
    pod_stream_on_resume(stream, on_resume, &calls);
    assert_int_equal(calls.closed, 0);
    assert_true(pod_stream_push(stream, new_chunk(1, 1)));
    assert_int_equal(calls.closed, 1);
    pod_stream_finish(stream, NULL);
    assert_int_equal(calls.closed, 1);
}

static void test_no_close_call_after_the_end(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_stream *stream = new_stream(4, &calls);

    assert_false(pod_stream_push(stream, new_chunk(4, 1)));
    pod_stream_finish(stream, NULL);
    // Unread bytes of an ended stream: dropped, nothing to resume or cancel.
    pod_stream_close(stream);
    assert_int_equal(calls.closed, 0);
    assert_int_equal(calls.resumed, 0);
    assert_int_equal(calls.released, 1);
    pod_stream_close(NULL);
    pod_stream_finish(NULL, NULL);
}

static void test_no_memory_fails_the_stream(void **state)
{
    (void)state;
    struct calls calls = {0};
    struct pod_err err = POD_ERR_NONE;

    pod_mem_fail_after(0, 1);
    assert_null(pod_stream_new(4, on_notify, &calls));
    pod_mem_fail_after(-1, 0);

    struct pod_stream *stream = new_stream(100, &calls);
    struct pod_blob *second = new_chunk(7, 2);
    assert_true(pod_stream_push(stream, new_chunk(7, 1)));
    pod_mem_fail_after(0, 1);
    assert_true(pod_stream_push(stream, second));
    pod_mem_fail_after(-1, 0);
    assert_true(pod_stream_push(stream, new_chunk(7, 3)));
    assert_int_equal(pod_stream_pop(stream, NULL, &err), POD_STREAM_FAILED);
    assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
    // The first error wins.
    struct pod_err late;
    (void)pod_err_set(&late, POD_REASON_INTERNAL, "late");
    pod_stream_finish(stream, &late);
    assert_int_equal(pod_stream_pop(stream, NULL, &err), POD_STREAM_FAILED);
    assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
    pod_stream_close(stream);
}

// Two threads: bytes arrive complete and in order through a small window, and
// no wake is lost (else the test would hang).
struct meeting {
    struct pod_mutex lock;
    struct pod_cond cond;
    struct pod_stream *stream;
    bool readable; // notify came
    bool room;     // resume came
    bool closed;   // resume(closed) came
};

static void meeting_notify(void *arg)
{
    struct meeting *meeting = arg;

    pod_mutex_lock(&meeting->lock);
    meeting->readable = true;
    pod_cond_broadcast(&meeting->cond);
    pod_mutex_unlock(&meeting->lock);
}

static void meeting_resume(void *arg, bool closed)
{
    struct meeting *meeting = arg;

    pod_mutex_lock(&meeting->lock);
    meeting->room = true;
    meeting->closed |= closed;
    pod_cond_broadcast(&meeting->cond);
    pod_mutex_unlock(&meeting->lock);
}

enum { MEETING_CHUNKS = 5000 };

static void *meeting_produce(void *arg)
{
    struct meeting *meeting = arg;
    bool closed = false;

    for (unsigned i = 0; i < MEETING_CHUNKS && !closed; i++) {
        struct pod_blob *blob = pod_blob_new(4);
        memcpy(blob->data, &i, 4);
        bool room = pod_stream_push(meeting->stream, blob);
        pod_mutex_lock(&meeting->lock);
        while (!room && !meeting->room)
            pod_cond_wait(&meeting->cond, &meeting->lock);
        if (!room)
            meeting->room = false;
        closed = meeting->closed;
        pod_mutex_unlock(&meeting->lock);
    }
    pod_stream_finish(meeting->stream, NULL);
    return NULL;
}

// Pops until the end, or until `limit` chunks have come. Returns how many did.
static unsigned meeting_consume(struct meeting *meeting, unsigned limit)
{
    unsigned count = 0;

    while (count < limit) {
        struct pod_blob *chunk = NULL;
        unsigned value;
        enum pod_stream_state got =
            pod_stream_pop(meeting->stream, &chunk, NULL);
        if (got == POD_STREAM_END)
            break;
        if (got == POD_STREAM_EMPTY) {
            pod_mutex_lock(&meeting->lock);
            while (!meeting->readable)
                pod_cond_wait(&meeting->cond, &meeting->lock);
            meeting->readable = false;
            pod_mutex_unlock(&meeting->lock);
            continue;
        }
        assert_int_equal(got, POD_STREAM_CHUNK);
        memcpy(&value, chunk->data, 4);
        pod_blob_unref(chunk);
        assert_int_equal(value, count);
        count++;
    }
    return count;
}

static unsigned run_meeting(unsigned limit)
{
    struct meeting meeting = {.readable = false};
    pthread_t producer;

    pod_mutex_init(&meeting.lock, POD_RANK_PARKED, "meeting");
    pod_cond_init(&meeting.cond);
    meeting.stream = pod_stream_new(10, meeting_notify, &meeting);
    assert_non_null(meeting.stream);
    pod_stream_on_resume(meeting.stream, meeting_resume, &meeting);
    assert_int_equal(pthread_create(&producer, NULL, meeting_produce, &meeting),
                     0);
    unsigned count = meeting_consume(&meeting, limit);
    pod_stream_close(meeting.stream);
    pthread_join(producer, NULL);
    pod_cond_fini(&meeting.cond);
    pod_mutex_fini(&meeting.lock);
    return count;
}

static void test_two_threads(void **state)
{
    (void)state;
    assert_int_equal(run_meeting(UINT32_MAX), MEETING_CHUNKS);
}

static void test_two_threads_early_close(void **state)
{
    (void)state;
    for (unsigned limit = 0; limit < 60; limit++)
        assert_int_equal(run_meeting(limit), limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_chunks_come_in_order_then_the_end,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_window_bounds_what_is_held,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_few_chunks_are_held_however_small,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_chunk_above_window_waits_until_empty,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_notify_only_after_empty, check_no_leak),
        cmocka_unit_test_teardown(test_failure_is_told_at_once, check_no_leak),
        cmocka_unit_test_teardown(test_close_tells_the_engine_once,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_an_abandoned_read_goes_on,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_close_before_the_engine_listens,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_no_close_call_after_the_end,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_no_memory_fails_the_stream,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_two_threads, check_no_leak),
        cmocka_unit_test_teardown(test_two_threads_early_close, check_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
