// SPDX-License-Identifier: Apache-2.0
// Lists of events over HTTP, their filters and pages, and the summary.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

static int setup(void **state)
{
    const struct rest_options options = {.pod = NULL};
    *state = rest_start(&options);
    return 0;
}

static size_t count_listed(struct rest *rest, const char *query)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "/v1/events?page_size=1000&%s", query);
    json_t *answer = rest_json(rest_get(rest, path), 200);
    size_t count = json_array_size(json_object_get(answer, "events"));
    json_decref(answer);
    return count;
}

static void lists_are_filtered(void **state)
{
    struct rest *rest = *state;
    char query[160];
    char last[32] = "";
    for (int i = 0; i < 4; i++) {
        char body[128];
        (void)snprintf(body, sizeof(body),
                       "{\"core\":%d,\"bytes\":\"8\",\"labels\":{\"run\":\"f\","
                       "\"i\":\"%d\"}}",
                       i % 2, i);
        json_t *event = rest_submit(rest, "/v1/buffers", body);
        (void)snprintf(last, sizeof(last), "%s", rest_text(event, "id"));
        json_decref(rest_await(rest, last));
        json_decref(event);
    }
    assert_int_equal(count_listed(rest, "label=run%3Df"), 4);
    assert_int_equal(count_listed(rest, "label=run%3Df&label=i%3D3"), 1);
    assert_int_equal(count_listed(rest, "label=run%3Dnone"), 0);
    assert_int_equal(count_listed(rest, "label=run%3Df&core=1"), 2);
    assert_int_equal(count_listed(rest, "label=run%3Df&host=0"), 2);
    assert_int_equal(count_listed(rest, "label=run%3Df&state=SUCCEEDED,FAILED"
                                        "&kind=ALLOCATE,COPY"),
                     4);
    assert_int_equal(count_listed(rest, "label=run%3Df&state=FAILED"), 0);
    (void)snprintf(query, sizeof(query), "label=run%%3Df&since=%s", last);
    assert_int_equal(count_listed(rest, query), 1);
    assert_int_equal(
        count_listed(rest, "label=run%3Df&since=2020-01-01T00:00:00Z"), 4);
    assert_int_equal(
        count_listed(rest, "label=run%3Df&since=2120-01-01T00:00:00.5%2B01:00"),
        0);
}

static void bad_filters_are_named(void **state)
{
    static const char *const bad[] = {
        "state=BORED", "state=FAILED,BORED",
        "state=",      "kind=BORED",
        "core=abc",    "host=-1",
        "since=abc",   "label=nonsense",
        "graph=op-1",  "since=2020-13-01T00:00:00Z",
    };
    char path[128];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char name[16];
        (void)snprintf(path, sizeof(path), "/v1/events?%s", bad[i]);
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(bad[i], "="),
                       bad[i]);
        struct rest_answer answer = rest_get(*state, path);
        assert_non_null(strstr(rest_text(answer.json, "detail"), name));
        rest_is_problem(answer, 400, "BAD_PARAMETER");
    }
}

static void a_bad_name_is_answered_with_the_good_ones(void **state)
{
    struct rest_answer answer = rest_get(*state, "/v1/events?state=running");
    assert_string_equal(
        rest_text(answer.json, "detail"),
        "state: 'running' is not one of WAITING, READY, RUNNING, "
        "SUCCEEDED, FAILED, CANCELLED, SKIPPED, LOST");
    rest_is_problem(answer, 400, "BAD_PARAMETER");
    answer = rest_get(*state, "/v1/events?kind=read");
    assert_string_equal(rest_text(answer.json, "detail"),
                        "kind: 'read' is not one of ALLOCATE, ALLOCATE_TUPLE, "
                        "FREE, WRITE, READ, COPY, COMPILE, LOAD, UNLOAD, "
                        "EXECUTE, GRAPH, RESET");
    rest_is_problem(answer, 400, "BAD_PARAMETER");
}

static void a_token_belongs_to_its_filters(void **state)
{
    struct rest *rest = *state;
    char path[160];
    json_t *page =
        rest_json(rest_get(rest, "/v1/events?page_size=1&core=0"), 200);
    const char *token = rest_text(page, "next_page_token");
    (void)snprintf(path, sizeof(path),
                   "/v1/events?page_size=1&core=0&page_token=%s", token);
    json_decref(rest_json(rest_get(rest, path), 200));
    (void)snprintf(path, sizeof(path),
                   "/v1/events?page_size=1&core=1&page_token=%s", token);
    rest_is_problem(rest_get(rest, path), 400, "BAD_PAGE_TOKEN");
    (void)snprintf(path, sizeof(path), "/v1/buffers?page_size=1&page_token=%s",
                   token);
    rest_is_problem(rest_get(rest, path), 400, "BAD_PAGE_TOKEN");
    json_decref(page);
}

// Counts what has one host, and that one. (The filter host=1 also finds what
// ran on several.)
static int count_of_host(struct rest *rest, int host)
{
    int count = 0;
    json_t *page = rest_json(
        rest_get(rest, "/v1/events?page_size=1000&fields=target"), 200);
    const json_t *events = json_object_get(page, "events");
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *target =
            json_object_get(json_array_get(events, i), "target");
        const json_t *found = json_object_get(target, "host");
        count += json_is_integer(found) && json_integer_value(found) == host;
    }
    json_decref(page);
    return count;
}

static void summary_equals_a_recount(void **state)
{
    struct rest *rest = *state;
    json_t *summary = rest_json(rest_get(rest, "/v1/events:summary"), 200);
    const json_t *by_kind = json_object_get(summary, "by_kind");
    assert_int_equal(atoi(rest_text(by_kind, "ALLOCATE")),
                     count_listed(rest, "kind=ALLOCATE"));
    const json_t *by_host = json_object_get(summary, "by_host");
    assert_int_equal(json_object_size(by_host), 2);
    assert_int_equal(atoi(rest_text(by_host, "1")), count_of_host(rest, 1));
    json_decref(summary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_filtered),
        cmocka_unit_test(bad_filters_are_named),
        cmocka_unit_test(a_bad_name_is_answered_with_the_good_ones),
        cmocka_unit_test(a_token_belongs_to_its_filters),
        cmocka_unit_test(summary_equals_a_recount),
    };

    return cmocka_run_group_tests(tests, setup, rest_teardown);
}
