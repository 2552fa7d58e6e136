// SPDX-License-Identifier: Apache-2.0
// The pod as a whole over HTTP: overview, service document, topology, hosts,
// cores, readiness, and what all paths have in common.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

static int setup(void **state)
{
    const struct rest_options options = {.pod = "local:2x2x1,hosts=2,cores=2"};
    *state = rest_start(&options);
    return 0;
}

static void root_is_text_for_curl(void **state)
{
    struct rest_answer answer = rest_get(*state, "/");
    assert_int_equal(answer.status, 200);
    assert_string_equal(rest_header(&answer, "Content-Type"),
                        "text/plain; charset=utf-8");
    assert_non_null(strstr(answer.body, "2 hosts, 4 chips, 8 cores"));
    assert_non_null(strstr(answer.body, "curl http://127.0.0.1:"));
    rest_answer_free(&answer);
}

static void root_of_a_pod_of_one(void **unused)
{
    (void)unused;
    const struct rest_options options = {.pod = "local:1x1x1,hosts=1"};
    struct rest *rest = rest_start(&options);
    struct rest_answer answer = rest_get(rest, "/");
    assert_non_null(strstr(answer.body, ": a pod of 1 host, 1 chip, 1 core ("));
    rest_answer_free(&answer);
    rest_stop(rest);
}

static void root_is_a_redirect_for_browsers(void **state)
{
    static const char *const headers[] = {
        "Accept: text/html,application/xhtml+xml,*/*;q=0.8", NULL};
    struct rest_answer answer = rest_ask(*state, "GET", "/", headers, NULL, 0);
    assert_int_equal(answer.status, 302);
    assert_string_equal(rest_header(&answer, "Location"), "/ui/");
    rest_answer_free(&answer);
}

static void ui_is_a_page(void **state)
{
    json_t *event = rest_submit(*state, "/v1/buffers",
                                "{\"core\":0,\"bytes\":\"8\","
                                "\"name\":\"<b>&\\\"\"}");
    char path[64];
    (void)snprintf(path, sizeof(path), "/ui/events/%s", rest_text(event, "id"));
    json_decref(event);
    struct rest_answer answer = rest_get(*state, path);
    assert_int_equal(answer.status, 200);
    assert_string_equal(rest_header(&answer, "Content-Type"),
                        "text/html; charset=utf-8");
    assert_non_null(strstr(rest_header(&answer, "Content-Security-Policy"),
                           "frame-ancestors 'none'"));
    assert_non_null(strstr(answer.body, "&lt;b&gt;&amp;"));
    assert_null(strstr(answer.body, "<b>"));
    rest_answer_free(&answer);
    answer = rest_get(*state, "/ui");
    assert_int_equal(answer.status, 308);
    assert_string_equal(rest_header(&answer, "Location"), "/ui/");
    rest_answer_free(&answer);
    answer = rest_get(*state, "/ui/");
    assert_int_equal(answer.status, 200);
    assert_null(strstr(answer.body, "<script"));
    rest_answer_free(&answer);
    rest_is_problem(rest_get(*state, "/ui/events/op-999999"), 404, "NOT_FOUND");
    rest_is_problem(rest_get(*state, "/ui/events/nonsense"), 404, "NOT_FOUND");
}

static void service_document(void **state)
{
    json_t *json = rest_json(rest_get(*state, "/v1"), 200);
    assert_string_equal(rest_text(json, "api"), "v1");
    assert_string_equal(rest_text(json, "instance"), "test");
    const json_t *limits = json_object_get(json, "limits");
    assert_string_equal(rest_text(limits, "wait"), "55s");
    const json_t *history = json_object_get(limits, "history");
    assert_string_equal(rest_text(history, "age"), "24h");
    const json_t *devices = json_object_get(json, "devices");
    assert_int_equal(json_array_size(devices), 1);
    const json_t *device = json_array_get(devices, 0);
    assert_string_equal(rest_text(device, "platform"), "reference");
    const json_t *accepts = json_object_get(device, "accepts");
    assert_string_equal(json_string_value(json_array_get(accepts, 0)),
                        "text/x-hlo");
    const char *key = NULL;
    json_t *link = NULL;
    json_t *links = json_object_get(json, "links");
    assert_string_equal(rest_text(links, "openapi"), "/openapi.json");
    assert_string_equal(rest_text(links, "metrics"), "/metrics");
    json_object_foreach(links, key, link)
    {
        const char *path = json_string_value(link);
        if (strcmp(path, "/v1/watch") == 0) // has no end
            continue;
        struct rest_answer answer = rest_get(*state, path);
        assert_true(answer.status == 200 || answer.status == 405);
        rest_answer_free(&answer);
    }
    json_decref(json);
}

static void topology(void **state)
{
    json_t *pod = rest_json(rest_get(*state, "/v1/pod"), 200);
    assert_string_equal(rest_text(pod, "state"), "READY");
    assert_int_equal(json_array_size(json_object_get(pod, "hosts")), 2);
    assert_int_equal(json_array_size(json_object_get(pod, "chips")), 4);
    assert_int_equal(json_array_size(json_object_get(pod, "cores")), 8);
    const json_t *core = json_array_get(json_object_get(pod, "cores"), 5);
    assert_int_equal(json_integer_value(json_object_get(core, "host")), 1);
    assert_int_equal(json_integer_value(json_object_get(core, "chip")), 2);
    assert_int_equal(json_integer_value(json_object_get(core, "worker_core")),
                     1);
    json_decref(pod);
    pod = rest_json(rest_get(*state, "/v1/pod?view=flat"), 200);
    assert_int_equal(json_array_size(json_object_get(pod, "hosts")), 1);
    core = json_array_get(json_object_get(pod, "cores"), 5);
    assert_int_equal(json_integer_value(json_object_get(core, "host")), 0);
    assert_int_equal(json_integer_value(json_object_get(core, "worker_core")),
                     5);
    json_decref(pod);
    rest_is_problem(rest_get(*state, "/v1/pod?view=round"), 400,
                    "BAD_PARAMETER");
}

static void cores_and_hosts_by_number(void **state)
{
    static const char *const unknown[] = {
        "/v1/cores/8",  "/v1/cores/-1",
        "/v1/cores/01", "/v1/cores/x",
        "/v1/hosts/2",  "/v1/hosts/00",
        "/v1/hosts/1x", "/v1/cores/99999999999999999999",
    };
    json_t *core = rest_json(rest_get(*state, "/v1/cores/7"), 200);
    assert_int_equal(json_integer_value(json_object_get(core, "id")), 7);
    assert_string_equal(rest_text(json_object_get(core, "memory"), "total"),
                        "1073741824");
    json_decref(core);
    json_t *host = rest_json(rest_get(*state, "/v1/hosts/1"), 200);
    assert_string_equal(rest_text(host, "state"), "READY");
    json_decref(host);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        rest_is_problem(rest_get(*state, unknown[i]), 404, "NOT_FOUND");
}

static void cores_are_paged_in_order(void **state)
{
    char path[128] = "/v1/cores?page_size=3&fields=id";
    int64_t next = 0;
    for (int pages = 0; pages < 3; pages++) {
        json_t *page = rest_json(rest_get(*state, path), 200);
        const json_t *cores = json_object_get(page, "cores");
        for (size_t i = 0; i < json_array_size(cores); i++) {
            const json_t *core = json_array_get(cores, i);
            assert_int_equal(json_object_size(core), 1);
            assert_int_equal(json_integer_value(json_object_get(core, "id")),
                             next++);
        }
        const char *token =
            json_string_value(json_object_get(page, "next_page_token"));
        assert_int_equal(token == NULL, pages == 2);
        if (token != NULL)
            (void)snprintf(path, sizeof(path),
                           "/v1/cores?page_size=3&fields=id&page_token=%s",
                           token);
        json_decref(page);
    }
    assert_int_equal(next, 8);
}

static void cordon_keeps_new_work_away(void **state)
{
    const char *body = "{\"core\":7,\"bytes\":\"8\"}";
    json_t *host =
        rest_json(rest_send(*state, "POST", "/v1/hosts/1:cordon", "{}"), 200);
    assert_string_equal(rest_text(host, "state"), "CORDONED");
    json_decref(host);
    rest_is_problem(rest_send(*state, "POST", "/v1/buffers", body), 409,
                    "HOST_CORDONED");
    json_t *ready = rest_json(rest_get(*state, "/readyz"), 200);
    assert_true(json_is_true(json_object_get(ready, "degraded")));
    json_decref(ready);
    // Verbs need no body.
    host = rest_json(
        rest_ask(*state, "POST", "/v1/hosts/1:uncordon", NULL, NULL, 0), 200);
    assert_string_equal(rest_text(host, "state"), "READY");
    json_decref(host);
    json_decref(rest_submit(*state, "/v1/buffers", body));
    rest_is_problem(rest_send(*state, "POST", "/v1/hosts/9:cordon", "{}"), 404,
                    "NOT_FOUND");
    rest_is_problem(
        rest_send(*state, "POST", "/v1/hosts/1:cordon", "{\"x\":1}"), 400,
        "UNKNOWN_MEMBER");
}

static void unknown_parameters_are_refused(void **state)
{
    static const char *const paths[] = {
        "/?x=1",           "/ui/?x=1",
        "/v1?x=1",         "/v1/pod?x=1",
        "/v1/hosts?x=1",   "/v1/hosts/0?x=1",
        "/v1/cores?x=1",   "/v1/cores/0?x=1",
        "/v1/buffers?x=1", "/v1/programs?x=1",
        "/v1/loads?x=1",   "/v1/graphs?x=1",
        "/v1/events?x=1",  "/v1/events:summary?x=1",
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        rest_is_problem(rest_get(*state, paths[i]), 400, "UNKNOWN_PARAMETER");
}

static void methods_are_told(void **state)
{
    static const char *const cases[][3] = {
        {"DELETE", "/v1", "GET, HEAD, OPTIONS"},
        {"PUT", "/v1/events", "GET, HEAD, OPTIONS"},
        {"GET", "/v1/executions", "POST, OPTIONS"},
        {"DELETE", "/v1/cores/0", "GET, HEAD, OPTIONS"},
        {"GET", "/v1/events:wait", "POST, OPTIONS"},
        {"GET", "/v1/pod:reset", "POST, OPTIONS"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rest_answer answer =
            rest_ask(*state, cases[i][0], cases[i][1], NULL, NULL, 0);
        assert_string_equal(rest_header(&answer, "Allow"), cases[i][2]);
        rest_is_problem(answer, 405, "METHOD_NOT_ALLOWED");
    }
    rest_is_problem(rest_get(*state, "/v1/nope"), 404, "NOT_FOUND");
    rest_is_problem(rest_get(*state, "/v2"), 404, "NOT_FOUND");
}

static void page_parameters_are_checked(void **state)
{
    static const char *const bad[] = {
        "page_size=0",    "page_size=-1", "page_size=abc",
        "page_size=1.5",  "page_size=",   "fields=nope",
        "fields=id,nope", "fields=",      "page_size=1&page_size=2",
    };
    char path[128];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(path, sizeof(path), "/v1/buffers?%s", bad[i]);
        rest_is_problem(rest_get(*state, path), 400, "BAD_PARAMETER");
    }
    rest_is_problem(rest_get(*state, "/v1/buffers?page_token=abc"), 400,
                    "BAD_PAGE_TOKEN");
    json_decref(
        rest_json(rest_get(*state, "/v1/buffers?page_size=99999999"), 200));
}

static void reset_ends_everything(void **state)
{
    struct rest *rest = *state;
    json_t *made =
        rest_submit(rest, "/v1/buffers", "{\"core\":0,\"bytes\":\"8\"}");
    json_t *reset =
        rest_json(rest_send(rest, "POST", "/v1/pod:reset?wait=50s", "{}"), 200);
    assert_string_equal(rest_text(reset, "kind"), "RESET");
    assert_string_equal(rest_text(reset, "state"), "SUCCEEDED");
    char path[128];
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s",
                   rest_text(made, "buffer"));
    json_t *buffer = rest_json(rest_get(rest, path), 200);
    assert_string_equal(rest_text(buffer, "state"), "FREED");
    assert_string_equal(rest_text(buffer, "freed_by"), rest_text(reset, "id"));
    json_decref(buffer);
    json_decref(reset);
    json_decref(made);
}

static void readiness_names_the_part(void **state)
{
    struct rest *rest = *state;
    struct rest_answer answer = rest_get(rest, "/healthz");
    assert_int_equal(answer.status, 200);
    rest_answer_free(&answer);
    json_t *ready = rest_json(rest_get(rest, "/readyz"), 200);
    assert_true(json_is_false(json_object_get(ready, "degraded")));
    json_decref(ready);
    // Last of the group: nothing works after it.
    rest_drain(rest);
    rest_is_problem(rest_get(rest, "/readyz"), 503, "DRAINING");
    answer =
        rest_send(rest, "POST", "/v1/buffers", "{\"core\":0,\"bytes\":\"8\"}");
    assert_non_null(rest_header(&answer, "Retry-After"));
    rest_is_problem(answer, 503, "DRAINING");
    json_t *pod = rest_json(rest_get(rest, "/v1/pod"), 200);
    assert_string_equal(rest_text(pod, "state"), "DRAINING");
    json_decref(pod);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_is_text_for_curl),
        cmocka_unit_test(root_of_a_pod_of_one),
        cmocka_unit_test(root_is_a_redirect_for_browsers),
        cmocka_unit_test(ui_is_a_page),
        cmocka_unit_test(service_document),
        cmocka_unit_test(topology),
        cmocka_unit_test(cores_and_hosts_by_number),
        cmocka_unit_test(cores_are_paged_in_order),
        cmocka_unit_test(cordon_keeps_new_work_away),
        cmocka_unit_test(unknown_parameters_are_refused),
        cmocka_unit_test(methods_are_told),
        cmocka_unit_test(page_parameters_are_checked),
        cmocka_unit_test(reset_ends_everything),
        cmocka_unit_test(readiness_names_the_part),
    };
    return cmocka_run_group_tests(tests, setup, rest_teardown);
}
