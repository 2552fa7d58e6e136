// SPDX-License-Identifier: Apache-2.0
// Ids in the texts of drivers become those of whoever reads them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/driver/text_ids.h"

// Even numbers are known, by ten times as much.
static uint64_t ten_times(void *arg, uint64_t number)
{
    ++*(int *)arg;
    return number % 2 == 0 ? number * 10 : 0;
}

static void expect(const char *text, const char *expected, int asked)
{
    struct pod_err err = POD_ERR_NONE;
    int count = 0;

    (void)snprintf(err.text, sizeof(err.text), "%s", text);
    pod_text_ids_replace(&err, ten_times, &count);
    assert_string_equal(err.text, expected);
    assert_int_equal(count, asked);
}

static void test_known_ids_are_replaced(void **state)
{
    (void)state;
    expect("buf-2 has 4 bytes, buf-4 has 8", "buf-20 has 4 bytes, buf-40 has 8",
           2);
    expect("op-8 was cancelled", "op-80 was cancelled", 1);
    expect("(load-2, prog-6)", "(load-20, prog-60)", 2);
}

static void test_others_become_words(void **state)
{
    (void)state;
    expect("buf-3 (1 MiB), op-1, prog-5, load-7",
           "another buffer (1 MiB), another operation, another program, "
           "another loaded program",
           4);
}

static void test_what_is_no_id_stays(void **state)
{
    (void)state;
    expect("", "", 0);
    expect("op- buf-x load-02 op-99999999999999999999",
           "op- buf-x load-02 "
           "op-99999999999999999999",
           0);
    expect("my-op-2 stop-2 Xbuf-2 7op-2", "my-op-2 stop-2 Xbuf-2 7op-2", 0);
    expect("h\xc3\xa9 op-2 \xe2\x82\xac", "h\xc3\xa9 op-20 \xe2\x82\xac", 1);
}

static void test_a_few_are_looked_at(void **state)
{
    (void)state;
    expect("op-2 op-2 op-2 op-2 op-2 op-2 op-2 op-2 op-2",
           "op-20 op-20 op-20 op-20 op-20 op-20 op-20 op-20 another operation",
           POD_TEXT_IDS_MAX);
}

// What grows beyond the room is cut, and no character in two.
static void test_the_room_is_kept(void **state)
{
    struct pod_err err = POD_ERR_NONE;
    int count = 0;

    (void)state;
    memcpy(err.text, "op-3", 4);
    for (size_t i = 4; i + 3 < sizeof(err.text); i += 3)
        memcpy(err.text + i, "\xe2\x82\xac", 3);
    size_t before = strlen(err.text);
    pod_text_ids_replace(&err, ten_times, &count);
    size_t after = strlen(err.text);
    assert_true(before > sizeof(err.text) - 5 && after < sizeof(err.text));
    assert_int_equal((after - strlen("another operation")) % 3, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_ids_are_replaced),
        cmocka_unit_test(test_others_become_words),
        cmocka_unit_test(test_what_is_no_id_stays),
        cmocka_unit_test(test_a_few_are_looked_at),
        cmocka_unit_test(test_the_room_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
