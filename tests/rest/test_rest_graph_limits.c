// SPDX-License-Identifier: Apache-2.0
// Limits of graphs over HTTP: sizes of both types of bodies, the staging
// budget.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/graph_read.h"
#include "core/base/str.h"
#include "tests/lib/patience.h"
#include "tests/lib/rest_pod.h"
#include "tests/rest/graph_body.h"

// `start`, a run of one character, `end`.
static char *run_body(const char *start, char c, size_t run, const char *end,
                      size_t *out_size)
{
    size_t before = strlen(start);
    size_t after = strlen(end);
    char *body = malloc(before + run + after + 1);

    memcpy(body, start, before);
    memset(body + before, c, run);
    memcpy(body + before + run, end, after + 1);
    *out_size = before + run + after;
    return body;
}

static long ask_status(struct rest *rest, const char *const *headers,
                       char *owned_body, size_t size, char *out_reason)
{
    long status = rest_status(
        rest_ask(rest, "POST", "/v1/graphs", headers, owned_body, size),
        out_reason);

    free(owned_body);
    return status;
}

// A graph whose operations are so many zeros.
static char *zeros_body(size_t count, size_t *out_size)
{
    char *body = malloc(2 * count + 16);
    size_t size = (size_t)sprintf(body, "{\"ops\":[");

    for (size_t i = 0; i < count; i++) {
        body[size++] = '0';
        body[size++] = i + 1 < count ? ',' : ']';
    }
    body[size++] = '}';
    *out_size = size;
    return body;
}

static void test_limits_of_json(void **state)
{
    enum { LIMIT = 8 * 1024 * 1024 };
    char reason[64];
    size_t size;
    char *body = run_body("{\"ops\":[]", ' ', LIMIT - 10, "}", &size);

    assert_int_equal(size, LIMIT);
    assert_int_equal(ask_status(*state, json_headers, body, size, reason), 422);
    body = run_body("{\"ops\":[]", ' ', LIMIT - 9, "}", &size);
    assert_int_equal(ask_status(*state, json_headers, body, size, reason), 413);
    assert_string_equal(reason, "BODY_TOO_LARGE");
    // Of the 2,000,000 values one is the object and one is the list.
    body = zeros_body(1999998, &size);
    assert_int_equal(ask_status(*state, json_headers, body, size, reason), 422);
    body = zeros_body(1999999, &size);
    assert_int_equal(ask_status(*state, json_headers, body, size, reason), 413);
    assert_string_equal(reason, "BODY_TOO_LARGE");
}

static void test_limits_of_lines(void **state)
{
    char reason[64];
    size_t size;
    // Blank to the limit, then one byte longer.
    char *body = run_body("", ' ', API_GRAPH_LINE_BYTES, "\n7", &size);

    assert_int_equal(ask_status(*state, ndjson, body, size, reason), 422);
    assert_string_equal(reason, "INVALID_GRAPH");
    body = run_body("", ' ', API_GRAPH_LINE_BYTES + 1, "\n7", &size);
    assert_int_equal(ask_status(*state, ndjson, body, size, reason), 413);
    assert_string_equal(reason, "BODY_TOO_LARGE");
    // Deeper than 32.
    body = run_body("", '[', 33, "\n", &size);
    assert_int_equal(ask_status(*state, ndjson, body, size, reason), 413);
}

// It is given back when the server is done with a broken-off request.
static void await_staging(struct rest *rest, uint64_t wanted)
{
    uint64_t used = wanted + 1;
    uint64_t max;
    time_t end = time(NULL) + PATIENCE_S;

    while (used != wanted && time(NULL) < end) {
        json_decref(rest_json(rest_get(rest, "/v1/events:summary"), 200));
        pod_staging_usage(rest_engine(rest), &used, &max);
    }
    assert_int_equal(used, wanted);
}

static void test_the_staging_budget_bounds_lines(void **state)
{
    struct rest_options options = {.staging_bytes = 64 * 1024};
    struct rest *rest = rest_start(&options);
    char reason[64];

    (void)state;
    // Alone it is too large, which no other try will change.
    char *body = large_body(2000, true);
    assert_int_equal(ask_status(rest, ndjson, body, strlen(body), reason), 413);
    assert_string_equal(reason, "BODY_TOO_LARGE");
    await_staging(rest, 0);
    // Less is not, but when others hold the rest.
    body = large_body(20, true);
    assert_true(pod_staging_take(rest_engine(rest), 60 * 1024));
    json_t *problem = rest_json(
        rest_ask(rest, "POST", "/v1/graphs", ndjson, body, strlen(body)), 429);
    free(body);
    assert_string_equal(rest_text(problem, "reason"), "STAGING_FULL");
    const json_t *metadata = json_object_get(problem, "metadata");
    assert_string_equal(rest_text(metadata, "limit"), "staging-bytes");
    assert_string_equal(rest_text(metadata, "max"), "65536");
    assert_true(atoi(rest_text(metadata, "used")) >= 60 * 1024);
    json_decref(problem);
    await_staging(rest, 60 * 1024);
    pod_staging_give(rest_engine(rest), 60 * 1024);
    body = large_body(20, true);
    assert_int_equal(ask_status(rest, ndjson, body, strlen(body), reason), 202);
    rest_stop(rest);
}

// Lines that hold much more than their operations: `head`, then `count` times
// the word, then `tail`, in each of `lines` lines after the first.
static char *thick_body(const char *first, const char *head, const char *word,
                        int count, const char *tail, int lines)
{
    struct pod_str body = {0};

    pod_str_puts(&body, first);
    for (int line = 0; line < lines; line++) {
        pod_str_puts(&body, head);
        for (int i = 0; i < count; i++)
            pod_str_puts(&body, word);
        pod_str_puts(&body, tail);
    }
    assert_false(body.failed);
    return body.data;
}

static long ask_thick(struct rest *rest, char *owned_body, char *out_reason)
{
    return ask_status(rest, ndjson, owned_body, strlen(owned_body), out_reason);
}

// What lines bring is counted, whatever of it is kept.
static void test_the_staging_budget_bounds_what_lines_hold(void **state)
{
    static const char made[] = "{\"ref\":\"b\",\"op\":\"allocate\","
                               "\"core\":0,\"shape\":\"s32[1001]\"}\n";
    static const char write[] = "{\"op\":\"write\",\"buffer\":\"$b\","
                                "\"values\":[";
    struct rest_options options = {.staging_bytes = 1024 * 1024};
    struct rest *rest = rest_start(&options);
    char reason[64];

    (void)state;
    // Values that are read when the shape is known: 40 KB of them a line.
    assert_int_equal(ask_thick(rest,
                               thick_body(made, write, "1,", 1000, "1]}\n", 1),
                               reason),
                     202);
    await_staging(rest, 0);
    assert_int_equal(ask_thick(rest,
                               thick_body(made, write, "1,", 1000, "1]}\n", 40),
                               reason),
                     413);
    assert_string_equal(reason, "BODY_TOO_LARGE");
    // Programs.
    assert_int_equal(ask_thick(rest,
                               thick_body("", "{\"op\":\"compile\",\"hlo\":\"",
                                          "text", 10000, "\"}\n", 40),
                               reason),
                     413);
    await_staging(rest, 0);
    rest_stop(rest);
}

struct hurry {
    pthread_t thread;
    struct rest *rest;
    long others; // answers that should not be
};

// Graphs that end one after the other.
static void *hurry_run(void *arg)
{
    enum { GRAPHS = 60 };
    static const char graph[] = "{\"ops\":[{\"ref\":\"a\",\"op\":"
                                "\"allocate\",\"core\":0,\"bytes\":16},"
                                "{\"op\":\"free\",\"buffer\":\"$a\"}]}";
    struct hurry *hurry = arg;

    for (int i = 0; i < GRAPHS; i++) {
        struct rest_answer answer =
            rest_send(hurry->rest, "POST", "/v1/graphs?wait=50", graph);
        hurry->others += answer.status != 201 && answer.status != 410;
        rest_answer_free(&answer);
    }
    return NULL;
}

// A graph that is over may be forgotten before its answer is written, when
// others end as well. That is said; it is no fault that passes, for the graph
// was admitted.
static void test_a_history_of_one(void **state)
{
    enum { HURRIES = 6 };
    struct rest_options options = {.history_count = 1};
    struct rest *rest = rest_start(&options);
    struct hurry hurries[HURRIES];

    (void)state;
    for (int i = 0; i < HURRIES; i++) {
        hurries[i] = (struct hurry){.rest = rest};
        assert_int_equal(
            pthread_create(&hurries[i].thread, NULL, hurry_run, &hurries[i]),
            0);
    }
    for (int i = 0; i < HURRIES; i++) {
        (void)pthread_join(hurries[i].thread, NULL);
        assert_int_equal(hurries[i].others, 0);
    }
    rest_stop(rest);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rest_setup, rest_teardown)
    const struct CMUnitTest tests[] = {
        T(test_limits_of_json),
        T(test_limits_of_lines),
        cmocka_unit_test(test_the_staging_budget_bounds_lines),
        cmocka_unit_test(test_the_staging_budget_bounds_what_lines_hold),
        cmocka_unit_test(test_a_history_of_one),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
