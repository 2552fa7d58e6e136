// SPDX-License-Identifier: Apache-2.0
// Memory that is given back all at once, and JSON that lives in it.
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/json.h"
#include "api/json_memory.h"
#include "api/memory.h"
#include "core/base/mem.h"

static const struct api_json_limits limits = {.depth = 4, .values = 1000};

// Fills a block, so that a sanitizer sees where it ends, and is seen to have
// what the block before it had.
static void take_and_fill(struct api_memory *memory, size_t bytes, int value)
{
    unsigned char *block = api_memory_take(memory, bytes);

    assert_non_null(block);
    assert_int_equal((uintptr_t)block % _Alignof(max_align_t), 0);
    memset(block, value, bytes);
}

static void test_blocks(void **state)
{
    struct api_memory memory = {.budget = NULL};
    long live = pod_mem_live();

    (void)state;
    unsigned char *first = api_memory_take(&memory, 100);
    memset(first, 1, 100);
    for (size_t bytes = 0; bytes < 3000; bytes += 7)
        take_and_fill(&memory, bytes, 2);
    const unsigned char *zeroed = api_memory_alloc(&memory, 3000);
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal(zeroed[i], 0);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(first[i], 1);
    assert_null(api_memory_take(&memory, SIZE_MAX));
    assert_null(api_memory_take(&memory, SIZE_MAX - 16));
    api_memory_fini(&memory);
    assert_int_equal(memory.bytes, 0);
    assert_int_equal(pod_mem_live(), live);
}

static void count_call(void *calls)
{
    ++*(int *)calls;
}

static void test_reset(void **state)
{
    struct api_memory memory = {.budget = NULL};
    long live = pod_mem_live();
    int calls = 0;

    (void)state;
    for (int i = 0; i < 100; i++)
        take_and_fill(&memory, 1000, 3);
    take_and_fill(&memory, 1 << 20, 4);
    assert_true(api_memory_defer(&memory, count_call, &calls));
    api_memory_reset(&memory);
    assert_int_equal(calls, 1);
    // One chunk at most is kept, and none that is large.
    assert_true(pod_mem_live() <= live + 1);
    assert_true(memory.bytes <= 256 * 1024);
    const unsigned char *zeroed = api_memory_alloc(&memory, 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(zeroed[i], 0);
    api_memory_fini(&memory);
    assert_int_equal(calls, 1);
    assert_int_equal(pod_mem_live(), live);
}

static json_t *parse(struct api_memory *memory, const char *text,
                     struct pod_err *err)
{
    json_t *json = NULL;

    *err = POD_ERR_NONE;
    if (api_json_parse(text, strlen(text), &limits, memory, &json, err) !=
        POD_OK)
        assert_null(json);
    return json;
}

// What is parsed is as it was whether its references are dropped or not.
static void test_json_lasts(void **state)
{
    struct api_memory memory = {.budget = NULL};
    struct pod_err err;
    long live = pod_mem_live();

    (void)state;
    json_t *first = parse(&memory, "{\"a\":[1,\"two\",{\"b\":null}]}", &err);
    json_decref(first);
    json_t *second = parse(&memory, "[\"other\"]", &err);
    assert_ptr_not_equal(first, second);
    char *text = json_dumps(first, JSON_COMPACT);
    assert_string_equal(text, "{\"a\":[1,\"two\",{\"b\":null}]}");
    free(text);
    assert_null(parse(&memory, "{\"a\":[1,", &err));
    assert_int_equal(err.reason, POD_REASON_BAD_JSON);
    assert_true(pod_mem_live() > live);
    api_memory_fini(&memory);
    assert_int_equal(pod_mem_live(), live);
}

// Each allocation fails once.
static void test_no_memory(void **state)
{
    char text[4096];
    struct pod_err err;
    long live = pod_mem_live();
    int failures = 0;
    json_t *json = NULL;

    (void)state;
    // Longer than the first chunks.
    (void)snprintf(text, sizeof(text), "{\"a\":[\"%03000d\",[],{}]}", 7);
    for (int n = 0; json == NULL; n++) {
        struct api_memory memory = {.budget = NULL};
        pod_mem_fail_after(n, 1);
        json = parse(&memory, text, &err);
        pod_mem_fail_after(-1, 0);
        failures += json == NULL;
        if (json == NULL)
            assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
        api_memory_fini(&memory);
        assert_int_equal(pod_mem_live(), live);
    }
    assert_true(failures >= 2);
}

// Another thread's jansson is not concerned.
static void *make_on_the_heap(void *out)
{
    *(json_t **)out = json_string("heap");
    return NULL;
}

static void test_pairs(void **state)
{
    struct api_memory outer = {.budget = NULL};
    struct api_memory inner = {.budget = NULL};
    json_t *made = NULL;
    pthread_t thread;

    (void)state;
    struct api_memory *before = api_json_memory_begin(&outer);
    assert_null(before);
    json_t *a = json_string("outer");
    struct api_memory *between = api_json_memory_begin(&inner);
    assert_ptr_equal(between, &outer);
    json_t *b = json_string("inner");
    assert_int_equal(pthread_create(&thread, NULL, make_on_the_heap, &made), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    api_json_memory_end(between);
    const unsigned char *outer_next = outer.next;
    const unsigned char *inner_next = inner.next;
    json_t *c = json_string("outer again");
    assert_ptr_not_equal(outer.next, outer_next);
    api_json_memory_end(before);
    outer_next = outer.next;
    json_decref(json_string("heap"));
    json_decref(made);
    assert_ptr_equal(outer.next, outer_next);
    assert_ptr_equal(inner.next, inner_next);
    assert_string_equal(json_string_value(a), "outer");
    assert_string_equal(json_string_value(b), "inner");
    assert_string_equal(json_string_value(c), "outer again");
    api_memory_fini(&outer);
    api_memory_fini(&inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),     cmocka_unit_test(test_reset),
        cmocka_unit_test(test_json_lasts), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
