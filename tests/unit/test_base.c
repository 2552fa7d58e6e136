// SPDX-License-Identifier: Apache-2.0
// core/base: errors, memory, clock, text, containers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/blob.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/heap.h"
#include "core/base/list.h"
#include "core/base/map.h"
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

// --------------------------------------------------------------- containers

static uint64_t next_random(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *random >> 33;
}

// Random puts and removes beside a plain array.
static void test_map(void **state)
{
    enum { KEYS = 512, STEPS = 50000 };
    void *model[KEYS] = {NULL};
    struct pod_map map = {.slots = NULL};
    uint64_t random = 1;
    size_t count = 0;

    (void)state;
    assert_null(pod_map_get(&map, 1));
    assert_null(pod_map_remove(&map, 1));
    for (int step = 0; step < STEPS; step++) {
        size_t i = next_random(&random) % KEYS;
        // Neighbours, and keys that differ only in their upper half.
        uint64_t key = i % 2 == 0 ? i + 1 : (uint64_t)i << 40;
        if (next_random(&random) % 2 == 0) {
            void *value = &model[next_random(&random) % KEYS];
            assert_true(pod_map_put(&map, key, value));
            count += model[i] == NULL;
            model[i] = value;
        } else {
            assert_ptr_equal(pod_map_remove(&map, key), model[i]);
            count -= model[i] != NULL;
            model[i] = NULL;
        }
        assert_int_equal(map.count, count);
        assert_true(map.count <= map.capacity / 4 * 3);
        size_t other = next_random(&random) % KEYS;
        key = other % 2 == 0 ? other + 1 : (uint64_t)other << 40;
        assert_ptr_equal(pod_map_get(&map, key), model[other]);
    }
    pod_map_fini(&map);
    assert_int_equal(map.count, 0);
    pod_map_fini(NULL);
}

static void test_map_walk(void **state)
{
    struct pod_map map = {.slots = NULL};
    bool seen[101] = {false};
    size_t cursor = 0;
    size_t count = 0;
    uint64_t key;
    void *value;

    (void)state;
    assert_false(pod_map_next(&map, &cursor, &key, &value));
    for (uint64_t i = 1; i <= 100; i++)
        assert_true(pod_map_put(&map, i, &seen[i]));
    assert_null(pod_map_get(&map, 0));
    for (cursor = 0; pod_map_next(&map, &cursor, &key, &value); count++) {
        assert_ptr_equal(value, &seen[key]);
        assert_false(seen[key]);
        seen[key] = true;
    }
    assert_int_equal(count, 100);
    pod_map_fini(&map);
}

// A place is made for a key once, and kept through what comes later.
static void test_map_at(void **state)
{
    struct pod_map map = {.slots = NULL};
    int values[200];

    (void)state;
    pod_mem_fail_after(0, 1);
    assert_null(pod_map_at(&map, 1));
    pod_mem_fail_after(-1, 0);
    for (uint64_t i = 1; i < 200; i++) {
        void **place = pod_map_at(&map, i << 32);
        assert_non_null(place);
        assert_null(*place);
        assert_int_equal(map.count, i);
        *place = &values[i];
    }
    for (uint64_t i = 1; i < 200; i++) {
        assert_ptr_equal(*pod_map_at(&map, i << 32), &values[i]);
        assert_ptr_equal(pod_map_get(&map, i << 32), &values[i]);
    }
    assert_int_equal(map.count, 199);
    pod_map_fini(&map);
}

static void test_map_failure(void **state)
{
    struct pod_map map = {.slots = NULL};
    int value;

    (void)state;
    pod_mem_fail_after(0, 1);
    assert_false(pod_map_put(&map, 1, &value));
    pod_mem_fail_after(-1, 0);
    uint64_t last = 0;
    pod_mem_fail_after(1, 1);
    while (pod_map_put(&map, last + 1, &value))
        last++;
    pod_mem_fail_after(-1, 0);
    assert_true(last > 0);
    assert_int_equal(map.count, last);
    assert_null(pod_map_get(&map, last + 1));
    for (uint64_t key = 1; key <= last; key++)
        assert_ptr_equal(pod_map_get(&map, key), &value);
    // Replacing needs no memory, even when the map is full.
    pod_mem_fail_after(0, 1);
    assert_true(pod_map_put(&map, 1, &last));
    pod_mem_fail_after(-1, 0);
    assert_ptr_equal(pod_map_get(&map, 1), &last);
    pod_map_fini(&map);
}

struct heap_item {
    uint64_t key;
    uint64_t order;
    uint32_t slot;
};

static bool heap_item_before(const struct heap_item *a,
                             const struct heap_item *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

// Random pushes and removals beside a search of the least.
static void test_heap(void **state)
{
    enum { ITEMS = 200, STEPS = 20000 };
    struct heap_item items[ITEMS];
    struct pod_heap heap = {.entries = NULL};
    uint64_t random = 2;

    (void)state;
    assert_null(pod_heap_top(&heap));
    assert_true(pod_heap_reserve(&heap, ITEMS));
    for (size_t i = 0; i < ITEMS; i++)
        items[i].slot = POD_HEAP_NONE;
    for (int step = 0; step < STEPS; step++) {
        struct heap_item *item = &items[next_random(&random) % ITEMS];
        if (item->slot != POD_HEAP_NONE) {
            pod_heap_remove(&heap, &item->slot);
            assert_int_equal(item->slot, POD_HEAP_NONE);
        } else {
            item->key = next_random(&random) % 50;
            item->order = (uint64_t)step;
            pod_heap_push(&heap, (struct pod_heap_entry){item->key, item->order,
                                                         &item->slot});
        }
        const struct heap_item *least = NULL;
        for (size_t i = 0; i < ITEMS; i++) {
            const struct heap_item *each = &items[i];
            if (each->slot == POD_HEAP_NONE)
                continue;
            if (least == NULL || heap_item_before(each, least))
                least = each;
        }
        const struct pod_heap_entry *top = pod_heap_top(&heap);
        assert_ptr_equal(top != NULL ? top->slot : NULL,
                         least != NULL ? &least->slot : NULL);
    }
    pod_heap_fini(&heap);
    pod_heap_fini(NULL);
}

static void test_heap_limits(void **state)
{
    struct pod_heap heap = {.entries = NULL};

    (void)state;
    pod_mem_fail_after(0, 1);
    assert_false(pod_heap_reserve(&heap, 1));
    pod_mem_fail_after(-1, 0);
    assert_int_equal(heap.capacity, 0);
    assert_false(pod_heap_reserve(&heap, POD_HEAP_NONE));
    assert_true(pod_heap_reserve(&heap, 17));
    assert_true(heap.capacity >= 17);
    pod_heap_fini(&heap);
}

static void test_list(void **state)
{
    struct pod_list a;
    struct pod_list b;
    struct pod_list items[4];

    (void)state;
    pod_list_init(&a);
    pod_list_init(&b);
    assert_null(pod_list_pop_front(&a));
    pod_list_push_back(&a, &items[0]);
    pod_list_push_back(&a, &items[1]);
    pod_list_push_back(&b, &items[2]);
    pod_list_push_back(&b, &items[3]);
    pod_list_remove(&items[1]);
    pod_list_remove(&items[1]);
    pod_list_splice(&a, &b);
    assert_true(pod_list_empty(&b));
    pod_list_splice(&a, &b);
    assert_ptr_equal(pod_list_pop_front(&a), &items[0]);
    assert_ptr_equal(pod_list_pop_front(&a), &items[2]);
    assert_ptr_equal(pod_list_pop_front(&a), &items[3]);
    assert_null(pod_list_pop_front(&a));
}

// -------------------------------------------------------------------- blobs

static void count_freed(void *arg, size_t size)
{
    *(size_t *)arg += size;
}

static void test_blob(void **state)
{
    volatile size_t most = SIZE_MAX;
    long live = pod_mem_live();
    struct pod_blob *blob = pod_blob_new(100);
    size_t freed = 0;

    (void)state;
    assert_non_null(blob);
    assert_int_equal(blob->size, 100);
    assert_int_equal((uintptr_t)blob->data % 16, 0);
    memset(blob->data, 1, blob->size);
    blob->on_free = count_freed;
    blob->arg = &freed;
    assert_ptr_equal(pod_blob_ref(blob), blob);
    pod_blob_unref(blob);
    assert_int_equal(freed, 0);
    pod_blob_unref(blob);
    assert_int_equal(freed, 100);
    pod_blob_unref(NULL);
    blob = pod_blob_new(0);
    assert_non_null(blob);
    pod_blob_unref(blob);
    assert_null(pod_blob_new(most));
    assert_int_equal(pod_mem_live(), live);
}

static void test_blob_slice(void **state)
{
    long live = pod_mem_live();
    struct pod_blob *whole = pod_blob_new(100);
    size_t freed = 0;

    (void)state;
    whole->on_free = count_freed;
    whole->arg = &freed;
    struct pod_blob *slice = pod_blob_slice(whole, 16, 84);
    assert_non_null(slice);
    assert_ptr_equal(slice->data, whole->data + 16);
    assert_int_equal(slice->size, 84);
    pod_mem_fail_after(0, 1);
    assert_null(pod_blob_slice(whole, 0, 1));
    pod_mem_fail_after(-1, 0);
    pod_blob_unref(whole);
    assert_int_equal(freed, 0);
    memset(slice->data, 1, slice->size);
    pod_blob_unref(slice);
    assert_int_equal(freed, 100);
    assert_int_equal(pod_mem_live(), live);
}

// A slice of a slice keeps both, and what is taken over is the outermost.
static void test_blob_slice_of_slice(void **state)
{
    long live = pod_mem_live();
    struct pod_blob *whole = pod_blob_new(100);
    struct pod_blob *middle = pod_blob_slice(whole, 2, 96);
    struct pod_blob *inner = pod_blob_slice(middle, 2, 92);
    size_t freed = 0;
    size_t middle_freed = 0;

    (void)state;
    assert_ptr_equal(inner->data, whole->data + 4);
    assert_int_equal(inner->size, 92);
    whole->on_free = count_freed;
    whole->arg = &freed;
    middle->on_free = count_freed;
    middle->arg = &middle_freed;
    pod_blob_unref(whole);
    pod_blob_unref(middle);
    memset(inner->data, 1, inner->size);
    assert_int_equal(middle_freed, 0);
    pod_blob_give_up(inner);
    assert_true(pod_blob_claim(inner));
    assert_int_equal(freed, 100);
    pod_blob_unref(inner);
    assert_int_equal(middle_freed, 96);
    assert_int_equal(freed, 100);
    assert_int_equal(pod_mem_live(), live);
}

static void test_blob_is_sole(void **state)
{
    struct pod_blob *blob = pod_blob_new_zeroed(3);

    (void)state;
    assert_memory_equal(blob->data, "\0\0\0", 3);
    assert_true(pod_blob_is_sole(blob));
    struct pod_blob *slice = pod_blob_slice(blob, 1, 1);
    assert_false(pod_blob_is_sole(blob));
    assert_true(pod_blob_is_sole(slice));
    pod_blob_unref(slice);
    assert_true(pod_blob_is_sole(blob));
    pod_blob_ref(blob);
    assert_false(pod_blob_is_sole(blob));
    pod_blob_unref(blob);
    pod_blob_unref(blob);
}

static void test_blob_claim(void **state)
{
    struct pod_blob *blob = pod_blob_new(100);
    size_t freed = 0;

    (void)state;
    blob->on_free = count_freed;
    blob->arg = &freed;
    assert_false(pod_blob_claim(blob));
    assert_int_equal(freed, 0);
    pod_blob_give_up(blob);
    // Others may hold references; the budget has its bytes back at once.
    pod_blob_ref(blob);
    assert_true(pod_blob_claim(blob));
    assert_int_equal(freed, 100);
    assert_false(pod_blob_claim(blob));
    pod_blob_unref(blob);
    pod_blob_unref(blob);
    assert_int_equal(freed, 100);
}

// The bytes are the whole's, so that is what the budget gets back.
static void test_blob_claim_slice(void **state)
{
    long live = pod_mem_live();
    struct pod_blob *whole = pod_blob_new(100);
    struct pod_blob *slice = pod_blob_slice(whole, 8, 92);
    size_t freed = 0;

    (void)state;
    whole->on_free = count_freed;
    whole->arg = &freed;
    pod_blob_unref(whole);
    assert_false(pod_blob_claim(slice));
    pod_blob_give_up(slice);
    assert_true(pod_blob_claim(slice));
    assert_int_equal(freed, 100);
    pod_blob_unref(slice);
    assert_int_equal(freed, 100);
    assert_int_equal(pod_mem_live(), live);
}

// One byte in eight may be kept in vain, and no more.
static void test_blob_claim_waste(void **state)
{
    struct pod_blob *blob = pod_blob_new(90);

    (void)state;
    pod_blob_give_up(blob);
    blob->size = 79;
    assert_false(pod_blob_claim(blob));
    blob->size = 80;
    assert_true(pod_blob_claim(blob));
    pod_blob_unref(blob);
    // Bytes that are owned elsewhere.
    static unsigned char elsewhere[16];
    blob = pod_blob_new(0);
    blob->data = elsewhere;
    blob->size = sizeof(elsewhere);
    pod_blob_give_up(blob);
    assert_false(pod_blob_claim(blob));
    pod_blob_unref(blob);
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
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_walk),
        cmocka_unit_test(test_map_at),
        cmocka_unit_test(test_map_failure),
        cmocka_unit_test(test_heap),
        cmocka_unit_test(test_heap_limits),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_blob),
        cmocka_unit_test(test_blob_slice),
        cmocka_unit_test(test_blob_slice_of_slice),
        cmocka_unit_test(test_blob_is_sole),
        cmocka_unit_test(test_blob_claim),
        cmocka_unit_test(test_blob_claim_slice),
        cmocka_unit_test(test_blob_claim_waste),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
