// SPDX-License-Identifier: Apache-2.0
// When no thread can be had: what needs one is refused as the server's fault
// for now, and works as soon as there are threads again.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/no_threads.h"
#include "tests/lib/rest_pod.h"
#include "tests/rest/graph_body.h"

static void is_refused(struct rest_answer answer, const char *thread)
{
    assert_non_null(rest_header(&answer, "Retry-After"));
    assert_non_null(answer.json);
    assert_true(json_is_true(json_object_get(answer.json, "retryable")));
    assert_null(json_object_get(answer.json, "metadata"));
    assert_non_null(strstr(rest_text(answer.json, "detail"), thread));
    rest_is_problem(answer, 503, "OUT_OF_MEMORY");
}

static struct rest_answer large_graph(struct rest *rest, bool lines)
{
    char *body = large_body(3000, lines);
    struct rest_answer answer =
        rest_ask(rest, "POST", "/v1/graphs", lines ? ndjson : json_headers,
                 body, strlen(body));

    free(body);
    return answer;
}

static void test_a_large_graph(void **state)
{
    for (int lines = 0; lines < 2; lines++) {
        no_threads_begin();
        struct rest_answer answer = large_graph(*state, lines == 1);
        no_threads_end();
        is_refused(answer, "no thread for work beside requests");
        json_t *event = rest_json(large_graph(*state, lines == 1), 202);
        json_t *end = rest_await(*state, rest_text(event, "id"));
        assert_string_equal(rest_text(end, "state"), "SUCCEEDED");
        json_decref(end);
        json_decref(event);
        assert_int_equal(rest_teardown(state), 0);
        assert_int_equal(rest_setup(state), 0);
    }
}

static struct rest_answer add_host(struct rest *rest)
{
    return rest_send(rest, "POST", "/v1/hosts", "{\"address\":\"local\"}");
}

static void add_no_host(struct rest *rest, const char *thread)
{
    no_threads_begin();
    struct rest_answer answer = add_host(rest);
    no_threads_end();
    is_refused(answer, thread);
}

static void test_a_host(void **state)
{
    // The thread that would make it, then those of the host itself.
    add_no_host(*state, "no thread for work beside requests");
    json_decref(rest_json(add_host(*state), 201));
    add_no_host(*state, "thread 0 of host 3");
    json_t *host = rest_json(add_host(*state), 201);
    assert_int_equal(json_integer_value(json_object_get(host, "id")), 3);
    json_decref(host);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rest_setup, rest_teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_large_graph),
        T(test_a_host),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
