// SPDX-License-Identifier: Apache-2.0
// core/base: errors, memory, clock, text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/blob.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/str.h"

// ------------------------------------------------------------------- errors

static void test_err_names(void **state)
{
    (void)state;
    assert_string_equal(pod_code_name(POD_OK), "OK");
    assert_string_equal(pod_code_name(POD_UNAUTHENTICATED), "UNAUTHENTICATED");
    assert_string_equal(pod_code_name((enum pod_code)99), "UNKNOWN");
    assert_int_equal(POD_DATA_LOSS, 15);
    assert_string_equal(pod_reason_name(POD_REASON_HANDLE_FREED),
                        "HANDLE_FREED");
    assert_int_equal(pod_reason_code(POD_REASON_HANDLE_FREED),
                     POD_FAILED_PRECONDITION);
    assert_int_equal(pod_reason_status(POD_REASON_HANDLE_FREED), 409);
    assert_false(pod_reason_retryable(POD_REASON_HANDLE_FREED));
    assert_true(pod_reason_retryable(POD_REASON_DRAINING));
    assert_string_equal(pod_reason_name((enum pod_reason)9999), "INTERNAL");
}

// Every reason but NONE names an error and a status that says so.
static void test_err_table(void **state)
{
    (void)state;
    for (int i = POD_REASON_NONE + 1; i < POD_REASON_COUNT; i++) {
        enum pod_reason reason = (enum pod_reason)i;
        assert_int_not_equal(pod_reason_code(reason), POD_OK);
        assert_in_range(pod_reason_status(reason), 400, 599);
    }
    assert_int_equal(pod_reason_code(POD_REASON_NONE), POD_OK);
}

static void test_err_set(void **state)
{
    struct pod_err err = {.line = 7, .column = 8};

    (void)state;
    assert_int_equal(
        pod_err_set(&err, POD_REASON_BAD_SHAPE, "shape \"%s\": %d", "f32[", 4),
        POD_INVALID_ARGUMENT);
    assert_int_equal(err.code, POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_BAD_SHAPE);
    assert_int_equal(err.line, 0);
    assert_int_equal(err.column, 0);
    assert_string_equal(err.text, "shape \"f32[\": 4");
    // The arguments may point into the error itself.
    (void)pod_err_set(&err, POD_REASON_INTERNAL, "was %s", err.text);
    assert_string_equal(err.text, "was shape \"f32[\": 4");
    pod_err_wrap(&err, "host %d", 3);
    assert_string_equal(err.text, "host 3: was shape \"f32[\": 4");
    assert_int_equal(err.reason, POD_REASON_INTERNAL);
    assert_int_equal(pod_err_set(NULL, POD_REASON_NOT_FOUND, "x"),
                     POD_NOT_FOUND);
    pod_err_wrap(NULL, "x");
    // A limit has its numbers, and the next error has not.
    assert_int_equal(
        pod_err_limit(&err, POD_REASON_TOO_MANY_WAITS, "waits", 7, 8),
        POD_RESOURCE_EXHAUSTED);
    assert_string_equal(err.text,
                        "the limit waits is reached: 7 of 8 are used");
    assert_string_equal(err.limit, "waits");
    assert_int_equal(err.used, 7);
    assert_int_equal(err.max, 8);
    assert_int_equal(
        pod_err_limit(NULL, POD_REASON_TOO_MANY_WAITS, "waits", 7, 8),
        POD_RESOURCE_EXHAUSTED);
    (void)pod_err_set(&err, POD_REASON_INTERNAL, "x");
    assert_null(err.limit);
    // An error is never OK, whatever it was called.
    assert_int_equal(pod_err_set(&err, POD_REASON_NONE, "x"), POD_UNKNOWN);
    assert_int_equal(
        pod_err_set_code(&err, POD_ABORTED, POD_REASON_WORKER_ERROR, "x"),
        POD_ABORTED);
    assert_int_equal(err.code, POD_ABORTED);
    assert_int_equal(err.reason, POD_REASON_WORKER_ERROR);
}

// Text of just the limit stays whole; a character that crosses it goes.
static void test_err_limit(void **state)
{
    enum { ROOM = POD_ERR_TEXT_BYTES - 1 };
    char text[ROOM + 4];
    struct pod_err err;

    (void)state;
    memset(text, 'a', sizeof text);
    text[ROOM] = '\0';
    (void)pod_err_set(&err, POD_REASON_INTERNAL, "%s", text);
    assert_int_equal(strlen(err.text), ROOM);
    for (size_t before = ROOM - 3; before <= ROOM; before++) {
        // A euro sign (3 bytes) behind `before` bytes.
        memset(text, 'a', before);
        memcpy(text + before, "\xE2\x82\xAC", 4);
        (void)pod_err_set(&err, POD_REASON_INTERNAL, "%s", text);
        assert_int_equal(strlen(err.text), before + 3 <= ROOM ? ROOM : before);
    }
}

static void test_err_wrap_limit(void **state)
{
    enum { ROOM = POD_ERR_TEXT_BYTES - 1 };
    char long_text[2 * POD_ERR_TEXT_BYTES];
    struct pod_err err;

    (void)state;
    memset(long_text, 'b', sizeof long_text);
    long_text[ROOM] = '\0';
    (void)pod_err_set(&err, POD_REASON_INTERNAL, "%s", long_text);
    pod_err_wrap(&err, "prefix");
    assert_int_equal(strlen(err.text), ROOM);
    assert_memory_equal(err.text, "prefix: bbb", 11);
    long_text[ROOM] = 'b';
    long_text[sizeof long_text - 1] = '\0';
    pod_err_wrap(&err, "%s", long_text);
    assert_int_equal(strlen(err.text), ROOM);
    assert_null(strchr(err.text, ':'));
}

// ------------------------------------------------------------------- memory

static void test_mem(void **state)
{
    long live = pod_mem_live();
    void *block = pod_malloc(0);
    unsigned char *zeroes = pod_calloc(3, 5);

    (void)state;
    assert_non_null(block);
    assert_non_null(zeroes);
    for (size_t i = 0; i < 15; i++)
        assert_int_equal(zeroes[i], 0);
    assert_int_equal(pod_mem_live(), live + 2);
    void *grown = pod_realloc(block, 100, 8);
    assert_non_null(grown);
    assert_int_equal(pod_mem_live(), live + 2);
    void *fresh = pod_realloc(NULL, 1, 1);
    assert_int_equal(pod_mem_live(), live + 3);
    pod_free(fresh);
    pod_free(grown);
    pod_free(zeroes);
    pod_free(NULL);
    char *copy = pod_strndup("abc", 2);
    assert_string_equal(copy, "ab");
    pod_free(copy);
    copy = pod_strdup("");
    assert_string_equal(copy, "");
    pod_free(copy);
    assert_int_equal(pod_mem_live(), live);
}

static void test_mem_limits(void **state)
{
    // Not known to the compiler, which would warn of what we want to see.
    volatile size_t most = SIZE_MAX;
    long live = pod_mem_live();

    (void)state;
    assert_null(pod_calloc(most, 2));
    assert_null(pod_realloc(NULL, most / 2, 3));
    assert_null(pod_strndup("x", most));
    assert_int_equal(pod_mem_live(), live);
}

static void test_mem_failures(void **state)
{
    void *blocks[5];
    static const bool fails[5] = {false, false, true, true, false};

    (void)state;
    pod_mem_fail_after(2, 2);
    for (size_t i = 0; i < 5; i++)
        blocks[i] = pod_malloc(1);
    pod_mem_fail_after(-1, 0);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(blocks[i] == NULL, fails[i]);
        pod_free(blocks[i]);
    }
    // What could not grow stays.
    char *text = pod_strdup("kept");
    pod_mem_fail_after(0, 1);
    assert_null(pod_realloc(text, 100, 1));
    pod_mem_fail_after(-1, 0);
    assert_string_equal(text, "kept");
    pod_free(text);
}

// -------------------------------------------------------------------- clock

static void test_clock(void **state)
{
    int64_t before = pod_clock_mono(&pod_clock_system);

    (void)state;
    assert_true(pod_clock_mono(&pod_clock_system) >= before);
    // 2020-01-01: a wall clock that counts in another unit fails this.
    assert_true(pod_clock_wall(&pod_clock_system) >
                INT64_C(1577836800) * POD_NS_PER_S);
    assert_int_equal(pod_time_add(5, 7), 12);
    assert_int_equal(pod_time_add(5, -7), -2);
    assert_true(pod_time_add(POD_NEVER, -1) == POD_NEVER);
    assert_true(pod_time_add(-1, POD_NEVER) == POD_NEVER);
    assert_true(pod_time_add(POD_NEVER - 1, 2) == POD_NEVER);
    assert_true(pod_time_add(POD_NEVER - 2, 1) == POD_NEVER - 1);
    assert_true(pod_time_add(INT64_MIN, -1) == INT64_MIN);
}

// --------------------------------------------------------------------- text

static void test_str(void **state)
{
    struct pod_str str = {.data = NULL};
    long live = pod_mem_live();

    (void)state;
    pod_str_puts(&str, "a");
    pod_str_append(&str, "b\0c", 3);
    pod_str_append(&str, "", 0);
    assert_int_equal(str.length, 4);
    assert_memory_equal(str.data, "ab\0c", 5);
    pod_str_fini(&str);
    for (int i = 0; i < 100; i++)
        pod_str_printf(&str, "%02d,", i);
    assert_int_equal(str.length, 300);
    assert_memory_equal(str.data, "00,01,02,", 9);
    assert_string_equal(str.data + 297, "99,");
    char *text = pod_str_take(&str);
    assert_int_equal(strlen(text), 300);
    assert_null(str.data);
    assert_int_equal(str.length, 0);
    pod_free(text);
    text = pod_str_take(&str);
    assert_string_equal(text, "");
    pod_free(text);
    pod_str_fini(&str);
    pod_str_fini(NULL);
    assert_int_equal(pod_mem_live(), live);
}

static void test_str_failure(void **state)
{
    volatile size_t most = SIZE_MAX;
    struct pod_str str = {.data = NULL};
    long live = pod_mem_live();

    (void)state;
    pod_str_puts(&str, "first");
    pod_mem_fail_after(0, 1);
    for (int i = 0; i < 20 && !str.failed; i++)
        pod_str_puts(&str, "0123456789");
    pod_mem_fail_after(-1, 0);
    assert_true(str.failed);
    size_t length = str.length;
    pod_str_puts(&str, "x");
    pod_str_printf(&str, "%d", 1);
    assert_int_equal(str.length, length);
    assert_null(pod_str_take(&str));
    assert_false(str.failed);
    pod_str_append(&str, "x", most);
    assert_true(str.failed);
    pod_str_fini(&str);
    assert_int_equal(pod_mem_live(), live);
}

static void test_utf8_valid(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        bool valid;
    } cases[] = {
        {"", 0, true},
        {"a\0b", 3, true},
        {"\x7F", 1, true},
        {"\x80", 1, false},
        {"\xC1\xBF", 2, false}, // overlong
        {"\xC2\x80", 2, true},
        {"\xC2", 1, false},
        {"\xDF\xBF", 2, true},
        {"\xE0\x9F\xBF", 3, false}, // overlong
        {"\xE0\xA0\x80", 3, true},
        {"\xE2\x82\xAC", 3, true},
        {"\xE2\x82", 2, false},
        {"\xE2\x28\xAC", 3, false},
        {"\xE2\x82\x28", 3, false},
        {"\xED\x9F\xBF", 3, true},      // U+D7FF
        {"\xED\xA0\x80", 3, false},     // a surrogate
        {"\xEF\xBF\xBF", 3, true},      // U+FFFF
        {"\xF0\x8F\xBF\xBF", 4, false}, // overlong
        {"\xF0\x90\x80\x80", 4, true},  // U+10000
        {"\xF4\x8F\xBF\xBF", 4, true},  // U+10FFFF
        {"\xF4\x90\x80\x80", 4, false}, // above
        {"\xF0\x90\x80\xC0", 4, false},
        {"\xF5\x80\x80\x80", 4, false},
        {"\xFF", 1, false},
        {"ok\xE2\x82\xAC\xE2\x82", 7, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(pod_utf8_valid(cases[i].bytes, cases[i].length),
                         cases[i].valid);
}

static void test_utf8_clip(void **state)
{
    static const char text[] = "a\xE2\x82\xAC\xF0\x90\x80\x80z";
    static const size_t clipped[] = {0, 1, 1, 1, 4, 4, 4, 4, 8, 9, 9};

    (void)state;
    for (size_t limit = 0; limit < sizeof clipped / sizeof clipped[0]; limit++)
        assert_int_equal(pod_utf8_clip(text, 9, limit), clipped[limit]);
    // Bytes that are no characters are cut where the limit is.
    assert_int_equal(pod_utf8_clip("\x80\x80\x80\x80\x80\x80", 6, 5), 5);
    assert_int_equal(pod_utf8_clip("", 0, 0), 0);
}

static void test_text_has_control(void **state)
{
    (void)state;
    assert_false(pod_text_has_control("plain \xC3\xA9 \xC2\xA0", 11));
    assert_true(pod_text_has_control("a\nb", 3));
    assert_true(pod_text_has_control("\0", 1));
    assert_true(pod_text_has_control("\x7F", 1));
    assert_true(pod_text_has_control("x\xC2\x80", 3));
    assert_true(pod_text_has_control("x\xC2\x9F", 3));
    assert_false(pod_text_has_control("x\xC2", 2));
    assert_false(pod_text_has_control("", 0));
}

struct parse_case {
    const char *text;
    bool valid;
    uint64_t value;
};

static void test_parse_number(void **state)
{
    static const struct parse_case cases[] = {
        {"1", true, 1},
        {"42", true, 42},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"18446744073709551617", false, 0},
        {"99999999999999999999999", false, 0},
        {"0", false, 0},
        {"01", false, 0},
        {"", false, 0},
        {"+1", false, 0},
        {"-1", false, 0},
        {"1 ", false, 0},
        {" 1", false, 0},
        {"1x", false, 0},
        {"0x1", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].text;
        uint64_t value = 77;
        assert_int_equal(pod_parse_number(text, strlen(text), &value),
                         cases[i].valid);
        assert_true(value == (cases[i].valid ? cases[i].value : 77));
    }
}

static void test_parse_bytes(void **state)
{
    static const struct parse_case cases[] = {
        {"0", true, 0},
        {"123", true, 123},
        {"1KiB", true, 1024},
        {"3MiB", true, 3145728},
        {"16GiB", true, UINT64_C(17179869184)},
        {"2TiB", true, UINT64_C(2199023255552)},
        {"1KB", true, 1000},
        {"1MB", true, 1000000},
        {"10GB", true, UINT64_C(10000000000)},
        {"1TB", true, UINT64_C(1000000000000)},
        {"8388607TiB", true, UINT64_C(9223370937343148032)},
        {"8388608TiB", false, 0},  // 2^63
        {"16777217TiB", false, 0}, // wraps to 2^40 in 64 bits
        {"9223372036854775808", false, 0},
        {"99999999999999999999999", false, 0},
        {"", false, 0},
        {"KiB", false, 0},
        {"1kib", false, 0},
        {"1 KiB", false, 0},
        {"1KiBx", false, 0},
        {"1.5GiB", false, 0},
        {"-1", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].text;
        uint64_t value = 77;
        assert_int_equal(pod_parse_bytes(text, strlen(text), &value),
                         cases[i].valid);
        assert_true(value == (cases[i].valid ? cases[i].value : 77));
    }
}

static void test_parse_duration(void **state)
{
    static const struct {
        const char *text;
        bool valid;
        int64_t ns;
    } cases[] = {
        {"30s", true, INT64_C(30000000000)},
        {"250ms", true, 250000000},
        {"1.5", true, 1500000000},
        {"10us", true, 10000},
        {"1.5us", true, 1500},
        {"5m", true, INT64_C(300000000000)},
        {"24h", true, INT64_C(86400000000000)},
        {"0.5h", true, INT64_C(1800000000000)},
        {"0", true, 0},
        {"0.000000001", true, 1},
        {"0.0000000019", true, 1},
        {"0.123456789s", true, 123456789},
        {"2562047h", true, INT64_C(9223369200000000000)},
        {"2562048h", true, INT64_MAX},
        {"9223372036.854775807", true, INT64_MAX},
        {"9223372036.854775808", true, INT64_MAX},
        {"99999999999999999999999h", true, INT64_MAX},
        {"18446744073709551617", true, INT64_MAX},
        {"", false, 0},
        {"s", false, 0},
        {"1s2s", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {"NaN", false, 0},
        {"inf", false, 0},
        {"1e3", false, 0},
        {".5", false, 0},
        {"5.", false, 0},
        {"5.s", false, 0},
        {"1.2.3", false, 0},
        {"1 s", false, 0},
        {"1S", false, 0},
        {"0x10", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].text;
        int64_t ns = 77;
        assert_int_equal(pod_parse_duration(text, strlen(text), &ns),
                         cases[i].valid);
        assert_true(ns == (cases[i].valid ? cases[i].ns : 77));
    }
    // Only the bytes given count.
    int64_t ns;
    assert_true(pod_parse_duration("12345", 2, &ns));
    assert_true(ns == 12 * POD_NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_err_names),
        cmocka_unit_test(test_err_table),
        cmocka_unit_test(test_err_set),
        cmocka_unit_test(test_err_limit),
        cmocka_unit_test(test_err_wrap_limit),
        cmocka_unit_test(test_mem),
        cmocka_unit_test(test_mem_limits),
        cmocka_unit_test(test_mem_failures),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_str),
        cmocka_unit_test(test_str_failure),
        cmocka_unit_test(test_utf8_valid),
        cmocka_unit_test(test_utf8_clip),
        cmocka_unit_test(test_text_has_control),
        cmocka_unit_test(test_parse_number),
        cmocka_unit_test(test_parse_bytes),
        cmocka_unit_test(test_parse_duration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
