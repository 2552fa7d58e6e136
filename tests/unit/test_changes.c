// SPDX-License-Identifier: Apache-2.0
// The log of changes: the ring by itself, what the engine writes into it, and
// cursors.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/cursor.h"
#include "core/base/mem.h"
#include "core/pod/changes.h"
#include "tests/lib/pod_fixture.h"

// ------------------------------------------------------------------ the ring

static void append(struct pod_changes *changes, uint64_t number,
                   uint64_t *chain)
{
    const struct pod_change change = {.number = number,
                                      .kind = POD_CHANGE_BUFFER};

    pod_changes_append(changes, &change, chain);
}

static void ring_keeps_the_newest(void **state)
{
    struct pod_changes changes;
    struct pod_change items[8];
    size_t count = 99;
    uint64_t chain[7] = {0};

    (void)state;
    assert_true(pod_changes_init(&changes, 4));
    assert_true(pod_changes_copy(&changes, 0, 8, items, &count));
    assert_int_equal(count, 0);
    for (uint64_t i = 1; i <= 6; i++)
        append(&changes, 10 * i, &chain[i]);
    assert_int_equal(chain[6], 6);
    assert_int_equal(changes.last, 6);
    // 1 and 2 are overwritten: what follows 2 is kept, what follows 1 is not.
    assert_int_equal(pod_changes_oldest(&changes), 2);
    assert_false(pod_changes_copy(&changes, 1, 8, items, &count));
    assert_true(pod_changes_copy(&changes, 2, 8, items, &count));
    assert_int_equal(count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(items[i].number, 10 * (i + 3));
    assert_true(pod_changes_copy(&changes, 3, 2, items, &count));
    assert_int_equal(count, 2);
    assert_int_equal(items[1].number, 50);
    assert_true(pod_changes_copy(&changes, 6, 8, items, &count));
    assert_int_equal(count, 0);
    pod_changes_fini(&changes);
}

static void ring_chains_changes_of_a_thing(void **state)
{
    struct pod_changes changes;
    struct pod_change items[4];
    size_t count = 0;
    uint64_t one = 0;
    uint64_t other = 0;

    (void)state;
    assert_true(pod_changes_init(&changes, 4));
    append(&changes, 1, &one);
    append(&changes, 2, &other);
    append(&changes, 1, &one);
    assert_true(pod_changes_copy(&changes, 0, 4, items, &count));
    assert_int_equal(items[0].next, 3);
    assert_int_equal(items[1].next, 0);
    assert_int_equal(items[2].next, 0);
    // The place of a change that has left the ring is another's by now.
    append(&changes, 1, &one);
    append(&changes, 1, &one);
    append(&changes, 1, &one);
    append(&changes, 2, &other);
    assert_true(pod_changes_copy(&changes, 3, 4, items, &count));
    assert_int_equal(items[0].next, 5);
    assert_int_equal(items[1].next, 6);
    assert_int_equal(items[2].next, 0);
    assert_int_equal(items[3].next, 0);
    pod_changes_fini(&changes);
}

static void ring_tells_once(void **state)
{
    struct pod_changes changes;
    uint64_t chain = 0;

    (void)state;
    assert_true(pod_changes_init(&changes, 4));
    append(&changes, 1, &chain);
    assert_false(pod_changes_disarm(&changes));
    changes.armed = changes.last;
    assert_false(pod_changes_disarm(&changes));
    append(&changes, 1, &chain);
    assert_true(pod_changes_disarm(&changes));
    append(&changes, 1, &chain);
    assert_false(pod_changes_disarm(&changes));
    pod_changes_fini(&changes);
}

static void ring_without_memory(void **state)
{
    struct pod_changes changes;

    (void)state;
    pod_mem_fail_after(0, 1);
    assert_false(pod_changes_init(&changes, 4));
    pod_mem_fail_after(-1, 0);
    pod_changes_fini(&changes);
    assert_false(pod_changes_init(&changes, SIZE_MAX / 2));
    pod_changes_fini(&changes);
}

// ---------------------------------------------------------------- the engine

enum { ITEMS = 32 };

static size_t read_after(struct fixture *fix, uint64_t after,
                         struct pod_change items[ITEMS])
{
    struct pod_err err;
    size_t count = 0;

    assert_int_equal(
        pod_read_changes(fix->pod, after, ITEMS, items, &count, &err), POD_OK);
    return count;
}

static void assert_change(const struct pod_change *change,
                          enum pod_change_kind kind, uint64_t number,
                          int sched_state)
{
    assert_int_equal(change->kind, kind);
    assert_int_equal(change->number, number);
    if (kind == POD_CHANGE_EVENT)
        assert_int_equal(change->state, sched_state);
}

// `joined`: its host says in one that it has begun and that it is done.
static void expect_an_allocation(struct fixture *fix, bool joined)
{
    struct pod_change items[ITEMS];
    uint64_t start = pod_last_change(fix->pod, false);
    uint64_t op = fixture_allocate(fix, 0, 16);

    if (joined)
        fake_start_done(fix->host[0], op);
    else
        fake_start(fix->host[0], op);
    fixture_run(fix);
    size_t count = read_after(fix, start, items);
    assert_int_equal(count, 6);
    assert_change(&items[0], POD_CHANGE_EVENT, op, POD_SCHED_WAITING);
    assert_change(&items[1], POD_CHANGE_BUFFER, op, 0);
    assert_change(&items[2], POD_CHANGE_EVENT, op, POD_SCHED_READY);
    assert_change(&items[3], POD_CHANGE_EVENT, op, POD_SCHED_RUNNING);
    assert_change(&items[4], POD_CHANGE_EVENT, op, POD_SCHED_SUCCEEDED);
    assert_change(&items[5], POD_CHANGE_BUFFER, op, 0);
    for (size_t i = 3; i < 5; i++)
        assert_int_equal(items[i].revision, items[i - 1].revision + 1);
    assert_int_equal(items[0].next, start + 3);
    assert_int_equal(items[1].next, start + 6);
    assert_int_equal(items[4].next, 0);
}

static void an_allocation_and_its_end(void **state)
{
    expect_an_allocation(*state, false);
}

static void what_is_done_at_once_ran_all_the_same(void **state)
{
    expect_an_allocation(*state, true);
}

static void writes_and_frees_change_the_buffer(void **state)
{
    struct fixture *fix = *state;
    struct pod_change items[ITEMS];
    uint64_t buffer = fixture_allocate(fix, 0, 16);

    fixture_run(fix);
    uint64_t start = pod_last_change(fix->pod, false);
    uint64_t op = fixture_free(fix, buffer);
    size_t count = read_after(fix, start, items);
    assert_true(count >= 2);
    assert_change(&items[0], POD_CHANGE_EVENT, op, POD_SCHED_WAITING);
    assert_change(&items[1], POD_CHANGE_BUFFER, buffer, 0);
}

static void a_lost_host_takes_its_buffers(void **state)
{
    struct fixture *fix = *state;
    struct pod_change items[ITEMS];
    struct pod_err err;
    uint64_t buffer = fixture_allocate(fix, 0, 16);

    fixture_run(fix);
    uint64_t start = pod_last_change(fix->pod, false);
    assert_int_equal(pod_cordon(fix->pod, 1, true, &err), POD_OK);
    fake_lose(fix->host[0], "gone");
    size_t count = read_after(fix, start, items);
    assert_int_equal(count, 3);
    assert_change(&items[0], POD_CHANGE_HOST, 1, 0);
    assert_change(&items[1], POD_CHANGE_BUFFER, buffer, 0);
    assert_change(&items[2], POD_CHANGE_HOST, 0, 0);
}

static void who_asks_is_told_once(void **state)
{
    struct fixture *fix = *state;

    fix->notified = 0;
    (void)fixture_allocate(fix, 0, 16);
    assert_int_equal(fix->notified, 0);
    (void)pod_last_change(fix->pod, true);
    assert_int_equal(fix->notified, 0);
    (void)fixture_allocate(fix, 0, 16);
    (void)fixture_allocate(fix, 0, 16);
    assert_int_equal(fix->notified, 1);
}

static void places_that_cannot_be_read(void **state)
{
    struct fixture *fix = *state;
    struct pod_change items[ITEMS];
    struct pod_err err;
    size_t count = 0;
    uint64_t last = pod_last_change(fix->pod, false);

    assert_int_equal(
        pod_read_changes(fix->pod, last + 1, ITEMS, items, &count, &err),
        POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_BAD_VALUE);
}

// ------------------------------------------------------------------- cursors

static void cursors_read_back(void **state)
{
    static const struct {
        struct api_cursor cursor;
        const char *text;
    } cases[] = {
        {{.sequence = 0}, "abc-0"},
        {{.sequence = UINT64_MAX}, "abc-18446744073709551615"},
        {{.sequence = 7, .snapshot = true, .stage = 5, .place = 12},
         "abc-7-5-12"},
    };
    char buffer[API_CURSOR_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct api_cursor back = {.stage = 77};
        assert_string_equal(api_cursor_print("abc", &cases[i].cursor, buffer),
                            cases[i].text);
        assert_true(api_cursor_parse("abc", cases[i].text, &back));
        assert_int_equal(back.sequence, cases[i].cursor.sequence);
        assert_int_equal(back.snapshot, cases[i].cursor.snapshot);
        assert_int_equal(back.stage, cases[i].cursor.stage);
        assert_int_equal(back.place, cases[i].cursor.place);
    }
}

static void what_is_no_cursor(void **state)
{
    static const char *const texts[] = {"",
                                        "abc",
                                        "abc-",
                                        "ab-1",
                                        "abcd-1",
                                        "abc-01",
                                        "abc--1",
                                        "abc-1 ",
                                        "abc-1-",
                                        "abc-1-2",
                                        "abc-1-2-",
                                        "abc-1-2-3-",
                                        "abc-1-200-1",
                                        "abc-1-2-03",
                                        "abc-18446744073709551616"};
    struct api_cursor cursor = {.sequence = 5};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(api_cursor_parse("abc", texts[i], &cursor));
    assert_int_equal(cursor.sequence, 5);
}

#define POD_TEST(test)                                                         \
    cmocka_unit_test_setup_teardown(test, fixture_setup_two, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_keeps_the_newest),
        cmocka_unit_test(ring_chains_changes_of_a_thing),
        cmocka_unit_test(ring_tells_once),
        cmocka_unit_test(ring_without_memory),
        POD_TEST(an_allocation_and_its_end),
        POD_TEST(what_is_done_at_once_ran_all_the_same),
        POD_TEST(writes_and_frees_change_the_buffer),
        POD_TEST(a_lost_host_takes_its_buffers),
        POD_TEST(who_asks_is_told_once),
        POD_TEST(places_that_cannot_be_read),
        cmocka_unit_test(cursors_read_back),
        cmocka_unit_test(what_is_no_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
