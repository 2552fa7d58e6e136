// SPDX-License-Identifier: Apache-2.0
// The gRPC driver and pod.worker.v1, with workers good and bad.
#include "tests/wire/driver_fixture.h"

// ----------------------------------------------------------------------- good

static void test_tells_what_the_worker_is(void **state)
{
    struct fixture fixture;

    (void)state;
    start_ready(&fixture, "good");
    assert_int_equal(fixture.watch.info.core_count, 2);
    assert_int_equal(fixture.watch.info.chip_count, 1);
    assert_int_equal(fixture.watch.info.accepts, 15);
    assert_int_equal(fixture.watch.info.features,
                     POD_DRIVER_WAITS | POD_DRIVER_ORDERS | POD_DRIVER_CANCEL |
                         POD_DRIVER_FREE_PROGRAM | POD_DRIVER_PEER_COPY);
    finish(&fixture);
}

static void test_moves_bytes(void **state)
{
    struct fixture fixture;

    (void)state;
    start_ready(&fixture, "good");
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    calls_write_s32(&fixture.watch, fixture.driver, 2, 1, -77);
    assert_int_equal(calls_read_s32(&fixture.watch, fixture.driver, 3, 1), -77);
    finish(&fixture);
}

static void test_moves_pieces_beside_small_operations(void **state)
{
    enum { PIECE = 1 << 20 };
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start_ready(&fixture, "good");
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 2 * PIECE);
    struct pod_blob *blob = pod_blob_new(PIECE + 1);
    assert_non_null(blob);
    for (int i = 0; i <= PIECE; i++)
        blob->data[i] = (unsigned char)(i * 7);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 2);
    fixture.driver->ops->write(fixture.driver, &call, 1, PIECE, blob, 1, PIECE);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&fixture.watch, &record, 3);
    fixture.driver->ops->read(fixture.driver, &call, 1, PIECE - 2, PIECE);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.data_size, PIECE);
    // Two zeros, then the blob from its second byte on.
    assert_int_equal(record.data[0], 0);
    assert_int_equal(record.data[1], 0);
    for (int i = 2; i < CALLS_DATA_BYTES; i++)
        assert_int_equal(record.data[i], (unsigned char)((i - 1) * 7));
    finish(&fixture);
}

static void test_runs_a_program(void **state)
{
    struct fixture fixture;
    struct calls_record record;
    struct pod_shape shape;
    struct pod_err err;

    (void)state;
    start_ready(&fixture, "good");
    assert_int_equal(pod_shape_parse("f32[2]", 6, &shape, &err), POD_OK);
    for (uint64_t op = 1; op <= 2; op++) {
        struct pod_driver_call call = calls_make(&fixture.watch, &record, op);
        fixture.driver->ops->allocate(fixture.driver, &call, 1, &shape, 0);
        assert_int_equal(calls_end(&record), POD_OK);
    }
    calls_write_s32(&fixture.watch, fixture.driver, 3, 1, 41);
    calls_program(&fixture.watch, fixture.driver, 4, 1, "any");
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 6);
    calls_execute(fixture.driver, &call, 5, 1, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.started, 1);
    assert_int_equal(record.started_late, 0);
    assert_int_equal(calls_read_s32(&fixture.watch, fixture.driver, 7, 2), 41);
    finish(&fixture);
}

static void test_hands_waits_on(void **state)
{
    struct fixture fixture;
    struct calls_record failed;
    struct calls_record waits;
    uint64_t on[] = {5, 1};

    (void)state;
    start_ready(&fixture, "good");
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    // The worker knows no such handle, and the driver does not know that yet.
    struct pod_driver_call call = calls_make(&fixture.watch, &failed, 5);
    struct calls_record record;
    struct pod_driver_call made = calls_make(&fixture.watch, &record, 4);
    fake_worker_signal(&fixture.worker, SIGSTOP);
    fixture.driver->ops->deallocate(fixture.driver, &made, 1);
    fixture.driver->ops->read(fixture.driver, &call, 1, 0, 4);
    fake_worker_signal(&fixture.worker, SIGCONT);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(calls_end(&failed), POD_NOT_FOUND);
    // What waits for a failure fails too, even if it comes after it.
    call = calls_make(&fixture.watch, &waits, 6);
    call.waits = on;
    call.wait_count = 2;
    fixture.driver->ops->allocate(fixture.driver, &call, 0, NULL, 4);
    assert_int_equal(calls_end(&waits), POD_FAILED_PRECONDITION);
    finish(&fixture);
}

// An allocation that waits for another operation: its code.
static enum pod_code allocate_after(struct fixture *fixture, uint64_t op,
                                    uint64_t on)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(&fixture->watch, &record, op);

    call.waits = &on;
    call.wait_count = 1;
    fixture->driver->ops->allocate(fixture->driver, &call, 0, NULL, 4);
    enum pod_code code = calls_end(&record);
    if (code != POD_OK)
        assert_int_equal(record.err.reason, POD_REASON_DEPENDENCY_EXPIRED);
    return code;
}

// The worker never heard of it.
static void test_fails_what_waits_for_what_it_refused(void **state)
{
    struct fixture fixture;
    struct calls_record refused;
    struct calls_record record;

    (void)state;
    start_ready(&fixture, "good");
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    struct pod_driver_call call = calls_make(&fixture.watch, &refused, 2);
    fixture.driver->ops->read(fixture.driver, &call, 99, 0, 4);
    assert_int_equal(allocate_after(&fixture, 3, 2), POD_FAILED_PRECONDITION);
    assert_int_equal(calls_end(&refused), POD_NOT_FOUND);
    // And what waits for that in turn.
    assert_int_equal(allocate_after(&fixture, 4, 3), POD_FAILED_PRECONDITION);
    assert_int_equal(allocate_after(&fixture, 5, 1), POD_OK);
    // After a reset all that is over.
    call = calls_make(&fixture.watch, &record, 6);
    fixture.driver->ops->reset(fixture.driver, &call);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(allocate_after(&fixture, 7, 4), POD_OK);
    finish(&fixture);
}

// The worker has been told to forget it.
static void test_fails_what_waits_for_an_old_failure(void **state)
{
    enum { FIRST = 10, FAILURES = 3000 };
    struct fixture fixture;
    struct calls_record *records = test_calloc(FAILURES, sizeof(*records));

    (void)state;
    start_ready(&fixture, "good");
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    for (int i = 0; i < FAILURES; i++) {
        // Every other one, so that they are as many stretches of numbers.
        struct pod_driver_call call =
            calls_make(&fixture.watch, &records[i], FIRST + 2 * (uint64_t)i);
        fixture.driver->ops->read(fixture.driver, &call, 1, 100, 4);
    }
    for (int i = 0; i < FAILURES; i++)
        assert_int_not_equal(calls_end(&records[i]), POD_OK);
    assert_int_equal(allocate_after(&fixture, 9001, FIRST),
                     POD_FAILED_PRECONDITION);
    assert_int_equal(allocate_after(&fixture, 9002, FIRST + 1), POD_OK);
    finish(&fixture);
    test_free(records);
}

static void test_refuses_unknown_handles_itself(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start_ready(&fixture, "good");
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 1);
    fixture.driver->ops->read(fixture.driver, &call, 99, 0, 4);
    assert_int_equal(calls_end(&record), POD_NOT_FOUND);
    assert_int_equal(record.err.reason, POD_REASON_UNKNOWN_HANDLE);
    assert_false(record.lost);
    finish(&fixture);
}

static void test_reset_drops_handles(void **state)
{
    (void)state;
    expect_reset("good");
}

// ------------------------------------------------------------------ no worker

static void test_says_that_nothing_listens(void **state)
{
    struct fixture fixture = {.worker = {.pid = -1}};
    struct calls_record record;

    (void)state;
    open_at(&fixture, "127.0.0.1:1");
    await_lost(&fixture, 1);
    assert_true(says(&fixture, "refused"));
    begin(&fixture, &record, 1);
    (void)calls_end(&record);
    assert_true(record.lost);
    finish(&fixture);
}

static void test_says_why_it_is_not_open(void **state)
{
    (void)state;
    expect_refusal("no-pod", "wrong service");
    expect_refusal("version", "wrong version");
    expect_refusal("not-ready", "not ready");
    expect_refusal("garbage-hello", "greeting");
    expect_refusal("empty-hello", "wrong version");
    expect_refusal("small-chunks", "1024 bytes");
}

// ----------------------------------------------------------------- bad workers

// The host is lost for a reason, and what it had ends LOST.
static void expect_loss(const char *mode, const char *word)
{
    struct fixture fixture;
    struct calls_record records[3];

    start_so(&fixture, mode, strcmp(mode, "frozen") == 0);
    await_ready(&fixture, 1);
    for (uint64_t i = 0; i < 3; i++)
        begin(&fixture, &records[i], i + 1);
    await_loss(&fixture, mode, word);
    for (int i = 0; i < 3; i++) {
        (void)calls_end(&records[i]);
        assert_true(records[i].lost);
    }
    finish(&fixture);
}

static void test_gives_up_workers_that_talk_nonsense(void **state)
{
    (void)state;
    expect_loss("garbage", "not a message");
    expect_loss("garbage-inside", "");
    expect_loss("huge", "larger than max");
    expect_loss("early-end", "ended the session");
}

static void test_gives_up_workers_that_are_silent(void **state)
{
    (void)state;
    expect_loss("frozen", "frozen, or cut off");
}

static void test_sees_that_a_worker_was_started_anew(void **state)
{
    struct fixture fixture;

    (void)state;
    start_ready(&fixture, "restarted");
    await_lost(&fixture, 1);
    assert_true(says(&fixture, "started anew"));
    finish(&fixture);
}

static void test_uses_an_answer_once(void **state)
{
    struct fixture fixture;
    struct calls_record records[8];

    (void)state;
    start_ready(&fixture, "duplicates");
    for (uint64_t i = 0; i < 8; i++)
        begin(&fixture, &records[i], i + 1);
    for (int i = 0; i < 8; i++)
        assert_int_equal(calls_end(&records[i]), POD_OK);
    finish(&fixture); // by now all that the worker sent has come or never will
    for (int i = 0; i < 8; i++) {
        assert_int_equal(records[i].done, 1);
        assert_int_equal(records[i].started, 1);
        assert_int_equal(records[i].started_late, 0);
    }
}

static void test_hears_at_once_of_begin_and_end(void **state)
{
    struct fixture fixture;
    struct calls_record records[2];

    (void)state;
    start_ready(&fixture, "joins");
    begin(&fixture, &records[0], 1);
    assert_int_equal(calls_end(&records[0]), POD_OK);
    struct pod_driver_call call = calls_make(&fixture.watch, &records[1], 2);
    fixture.driver->ops->deallocate(fixture.driver, &call, 9);
    assert_int_equal(calls_end(&records[1]), POD_NOT_FOUND);
    finish(&fixture);
    // Of the second the worker never heard.
    assert_int_equal(records[0].begun, 1);
    assert_int_equal(records[0].started, 1);
    assert_int_equal(records[1].begun, 0);
}

static void test_ignores_unknown_numbers(void **state)
{
    struct fixture fixture;

    (void)state;
    start_ready(&fixture, "unknown-ids");
    for (uint64_t op = 1; op < 20; op++)
        calls_allocate(&fixture.watch, fixture.driver, op, 0, 4);
    assert_int_equal(fixture.watch.lost, 0);
    finish(&fixture);
}

static void test_counts_the_bytes_it_gets(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start_ready(&fixture, "wrong-length");
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 16);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 2);
    fixture.driver->ops->read(fixture.driver, &call, 1, 0, 16);
    assert_int_equal(calls_end(&record), POD_UNKNOWN);
    assert_int_equal(record.err.reason, POD_REASON_WORKER_ERROR);
    assert_non_null(strstr(record.err.text, "15 bytes"));
    finish(&fixture);
}

static void test_cleans_the_words_of_a_worker(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start_ready(&fixture, "bad-text");
    begin(&fixture, &record, 1);
    assert_int_equal(calls_end(&record), POD_INVALID_ARGUMENT);
    assert_int_equal(record.err.reason, POD_REASON_WORKER_ERROR);
    assert_null(strchr(record.err.text, '\a'));
    assert_non_null(strstr(record.err.text, "bell"));
    finish(&fixture);
}

// A worker that answers nothing but its signs of life is not lost, and what is
// open ends when the driver is closed.
static void test_close_ends_what_is_open(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start_ready(&fixture, "silence");
    begin(&fixture, &record, 1);
    calls_await(&fixture.watch, &fixture.watch.beats, 3);
    assert_int_equal(record.done, 0);
    finish(&fixture);
    assert_int_equal(record.done, 1);
    assert_int_equal(record.err.code, POD_CANCELLED);
    assert_false(record.lost);
}

// ------------------------------------------------------------ death and return

static void test_a_killed_worker_comes_back_as_a_new_one(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start_ready(&fixture, "good");
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    int port = fixture.worker.port;
    fake_worker_signal(&fixture.worker, SIGKILL);
    await_lost(&fixture, 1);
    assert_true(fake_worker_start(&fixture.worker, "good", port));
    await_ready(&fixture, 2);
    // Its first handle would have the number that ours had there.
    calls_allocate(&fixture.watch, fixture.driver, 2, 0, 4);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 3);
    fixture.driver->ops->read(fixture.driver, &call, 1, 0, 4);
    assert_int_equal(calls_end(&record), POD_NOT_FOUND);
    finish(&fixture);
}

static int count_ready(struct fixture *fixture)
{
    pod_mutex_lock(&fixture->watch.lock);
    int ready = fixture->watch.ready;
    pod_mutex_unlock(&fixture->watch.lock);
    return ready;
}

static void test_a_frozen_worker_is_given_up(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start_so(&fixture, "good", true);
    await_ready(&fixture, 1);
    fake_worker_signal(&fixture.worker, SIGSTOP);
    begin(&fixture, &record, 1);
    await_lost(&fixture, 1);
    (void)calls_end(&record);
    assert_true(record.lost);
    int ready = count_ready(&fixture);
    fake_worker_signal(&fixture.worker, SIGCONT);
    await_ready(&fixture, ready + 1);
    finish(&fixture);
}

static void test_reconnect_makes_a_new_incarnation(void **state)
{
    struct fixture fixture;

    (void)state;
    start_ready(&fixture, "good");
    fixture.driver->ops->reconnect(fixture.driver);
    await_lost(&fixture, 1);
    await_ready(&fixture, 2);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    finish(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tells_what_the_worker_is),
        cmocka_unit_test(test_moves_bytes),
        cmocka_unit_test(test_moves_pieces_beside_small_operations),
        cmocka_unit_test(test_runs_a_program),
        cmocka_unit_test(test_hands_waits_on),
        cmocka_unit_test(test_fails_what_waits_for_what_it_refused),
        cmocka_unit_test(test_fails_what_waits_for_an_old_failure),
        cmocka_unit_test(test_refuses_unknown_handles_itself),
        cmocka_unit_test(test_reset_drops_handles),
        cmocka_unit_test(test_says_that_nothing_listens),
        cmocka_unit_test(test_says_why_it_is_not_open),
        cmocka_unit_test(test_gives_up_workers_that_talk_nonsense),
        cmocka_unit_test(test_gives_up_workers_that_are_silent),
        cmocka_unit_test(test_sees_that_a_worker_was_started_anew),
        cmocka_unit_test(test_uses_an_answer_once),
        cmocka_unit_test(test_hears_at_once_of_begin_and_end),
        cmocka_unit_test(test_ignores_unknown_numbers),
        cmocka_unit_test(test_counts_the_bytes_it_gets),
        cmocka_unit_test(test_cleans_the_words_of_a_worker),
        cmocka_unit_test(test_close_ends_what_is_open),
        cmocka_unit_test(test_a_killed_worker_comes_back_as_a_new_one),
        cmocka_unit_test(test_a_frozen_worker_is_given_up),
        cmocka_unit_test(test_reconnect_makes_a_new_incarnation),
    };

    return run_driver_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
