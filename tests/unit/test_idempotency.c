// SPDX-License-Identifier: Apache-2.0
#include "api/idempotency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"

static void fill(uint8_t digest[API_KEY_DIGEST_BYTES], unsigned number)
{
    memset(digest, 0, API_KEY_DIGEST_BYTES);
    memcpy(digest, &number, sizeof(number));
}

static struct api_answer *begin(struct api_answers *answers, unsigned number)
{
    uint8_t name[API_KEY_DIGEST_BYTES];
    uint8_t head[API_KEY_DIGEST_BYTES];
    uint8_t body[API_KEY_DIGEST_BYTES];

    fill(name, number);
    fill(head, number + 1000);
    fill(body, number + 2000);
    return api_answers_begin(answers, name, head, body);
}

static struct api_answer *find(struct api_answers *answers, unsigned number,
                               int64_t now_ns)
{
    uint8_t name[API_KEY_DIGEST_BYTES];

    fill(name, number);
    return api_answers_find(answers, name, now_ns);
}

// Begins and ends a record whose answer has `size` bytes.
static void keep(struct api_answers *answers, unsigned number, size_t size,
                 int64_t now_ns)
{
    struct api_answer *answer = begin(answers, number);
    struct pod_blob *content = pod_blob_new(size);

    assert_non_null(answer);
    assert_non_null(content);
    memset(content->data, 'x', size);
    assert_true(api_answer_set(answer, 202, NULL, 0, content));
    pod_blob_unref(content);
    api_answers_end(answers, answer, now_ns);
}

static void test_gives_the_answer_back(void **state)
{
    struct api_answers *answers = api_answers_new(NULL);
    struct api_answer_header headers[] = {{"Location", "/v1/buffers/buf-1"},
                                          {"Content-Type", "text/plain"}};
    struct pod_blob *content = pod_blob_new(3);
    struct api_answer *answer = begin(answers, 1);

    (void)state;
    memcpy(content->data, "abc", 3);
    assert_ptr_equal(find(answers, 1, 0), answer);
    assert_false(answer->done);
    assert_true(api_answer_set(answer, 201, headers, 2, content));
    headers[0].value = "changed";
    pod_blob_unref(content);
    api_answers_end(answers, answer, 5);
    const struct api_answer *found = find(answers, 1, 6);
    assert_ptr_equal(found, answer);
    assert_true(found->done);
    assert_int_equal(found->status, 201);
    assert_int_equal(found->header_count, 2);
    assert_string_equal(found->headers[0].value, "/v1/buffers/buf-1");
    assert_string_equal(found->headers[1].name, "Content-Type");
    assert_memory_equal(found->content->data, "abc", 3);
    assert_null(find(answers, 2, 6));
    api_answers_free(answers);
}

// An answer that is set again replaces the first; one that was never set leaves
// no record.
static void test_sets_again_and_forgets(void **state)
{
    struct api_answers *answers = api_answers_new(NULL);
    struct api_answer *answer = begin(answers, 1);

    (void)state;
    assert_true(api_answer_set(answer, 202, NULL, 0, NULL));
    assert_true(api_answer_set(answer, 201, NULL, 0, NULL));
    api_answers_end(answers, answer, 0);
    assert_int_equal(find(answers, 1, 0)->status, 201);
    api_answers_end(answers, begin(answers, 2), 0);
    assert_null(find(answers, 2, 0));
    assert_int_equal(api_answers_count(answers), 1);
    api_answers_free(answers);
}

static void test_count_is_bounded(void **state)
{
    const struct api_answers_limits limits = {.count = 3};
    struct api_answers *answers = api_answers_new(&limits);

    (void)state;
    struct api_answer *flying = begin(answers, 100);
    for (unsigned i = 0; i < 5; i++)
        keep(answers, i, 1, 0);
    assert_int_equal(api_answers_count(answers), 3);
    assert_null(find(answers, 1, 0));
    assert_non_null(find(answers, 2, 0));
    assert_non_null(find(answers, 4, 0));
    // What is in flight does not count and is never forgotten.
    assert_ptr_equal(find(answers, 100, 0), flying);
    api_answers_free(answers);
}

static void test_age_is_bounded(void **state)
{
    const struct api_answers_limits limits = {.age_ns = 100};
    struct api_answers *answers = api_answers_new(&limits);

    (void)state;
    keep(answers, 1, 1, 1000);
    keep(answers, 2, 1, 1050);
    assert_non_null(find(answers, 1, 1099));
    assert_null(find(answers, 1, 1100));
    assert_non_null(find(answers, 2, 1149));
    assert_null(find(answers, 2, 1150));
    assert_int_equal(api_answers_count(answers), 0);
    api_answers_free(answers);
}

static void test_bytes_are_bounded(void **state)
{
    const struct api_answers_limits limits = {.bytes = 10000};
    struct api_answers *answers = api_answers_new(&limits);

    (void)state;
    keep(answers, 1, 4000, 0);
    keep(answers, 2, 4000, 0);
    assert_non_null(find(answers, 1, 0));
    keep(answers, 3, 4000, 0);
    assert_null(find(answers, 1, 0));
    assert_non_null(find(answers, 3, 0));
    // One that is larger than all there is room for is not kept.
    keep(answers, 4, 20000, 0);
    assert_int_equal(api_answers_count(answers), 0);
    api_answers_free(answers);
}

static void test_no_memory(void **state)
{
    struct api_answers *answers = api_answers_new(NULL);
    struct api_answer_header header = {"A", "b"};

    (void)state;
    pod_mem_fail_after(0, 1);
    assert_null(begin(answers, 1));
    pod_mem_fail_after(1, 1); // the map
    assert_null(begin(answers, 1));
    pod_mem_fail_after(-1, 0);
    struct api_answer *answer = begin(answers, 1);
    assert_true(api_answer_set(answer, 202, &header, 1, NULL));
    pod_mem_fail_after(0, 1);
    assert_false(api_answer_set(answer, 201, &header, 1, NULL));
    pod_mem_fail_after(-1, 0);
    assert_int_equal(answer->status, 202);
    assert_string_equal(answer->headers[0].value, "b");
    api_answers_free(answers);
    assert_int_equal(pod_mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_the_answer_back),
        cmocka_unit_test(test_sets_again_and_forgets),
        cmocka_unit_test(test_count_is_bounded),
        cmocka_unit_test(test_age_is_bounded),
        cmocka_unit_test(test_bytes_are_bounded),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
