// SPDX-License-Identifier: Apache-2.0
// Events over HTTP: reading, waiting, cancelling, dependencies. What
// must stay open while it is looked at is held by a program that loops until
// it is cancelled, so nothing here depends on how fast the machine is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

static struct rest_spin spin;

static int setup(void **state)
{
    const struct rest_options options = {.pod = NULL};
    *state = rest_start(&options);
    spin = rest_spin_make(*state, 0);
    return 0;
}

// An allocation on core 1 after an operation; its event.
static json_t *alloc_after(struct rest *rest, const char *op)
{
    char body[128];
    (void)snprintf(body, sizeof(body),
                   "{\"core\":1,\"bytes\":\"8\",\"after\":[\"%s\"]}", op);
    return rest_submit(rest, "/v1/buffers", body);
}

static json_t *alloc(struct rest *rest)
{
    return rest_submit(rest, "/v1/buffers", "{\"core\":1,\"bytes\":\"8\"}");
}

static struct rest_answer get_event(struct rest *rest, const char *op,
                                    const char *query, const char *header)
{
    char path[128];
    const char *headers[] = {header, NULL};
    (void)snprintf(path, sizeof(path), "/v1/events/%s%s", op, query);
    return rest_ask(rest, "GET", path, headers, NULL, 0);
}

static void a_finished_event(void **state)
{
    struct rest *rest = *state;
    json_t *made = rest_submit(
        rest, "/v1/buffers",
        "{\"core\":1,\"bytes\":\"4096\",\"labels\":{\"who\":\"me\"},"
        "\"name\":\"first\"}");
    json_t *event = rest_await(rest, rest_text(made, "id"));
    assert_string_equal(rest_text(event, "kind"), "ALLOCATE");
    assert_string_equal(rest_text(event, "state"), "SUCCEEDED");
    assert_string_equal(rest_text(event, "name"), "first");
    assert_string_equal(rest_text(json_object_get(event, "labels"), "who"),
                        "me");
    const json_t *target = json_object_get(event, "target");
    assert_int_equal(json_integer_value(json_object_get(target, "host")), 1);
    assert_int_equal(json_integer_value(json_object_get(target, "core")), 1);
    assert_int_equal(strlen(rest_text(event, "created")), 27);
    assert_true(
        strcmp(rest_text(event, "created"), rest_text(event, "finished")) <= 0);
    assert_int_equal(json_object_size(json_object_get(event, "durations")), 3);
    assert_null(json_object_get(event, "error"));
    char self[64];
    (void)snprintf(self, sizeof(self), "/v1/events/%s", rest_text(made, "id"));
    assert_string_equal(rest_text(json_object_get(event, "links"), "self"),
                        self);
    json_decref(event);
    json_decref(made);
}

static void tags_of_a_finished_event(void **state)
{
    struct rest *rest = *state;
    json_t *made = alloc(rest);
    const char *op = rest_text(made, "id");
    json_t *event = rest_await(rest, op);
    char tag[64];
    char header[128];
    (void)snprintf(tag, sizeof(tag), "\"test-r%s\"",
                   rest_text(event, "revision"));
    static const char *const before[] = {"", "W/", "\"x\", "};
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        (void)snprintf(header, sizeof(header), "If-None-Match: %s%s", before[i],
                       tag);
        struct rest_answer answer = get_event(rest, op, "?wait=50s", header);
        assert_int_equal(answer.status, 304);
        assert_int_equal(answer.size, 0);
        assert_string_equal(rest_header(&answer, "ETag"), tag);
        rest_answer_free(&answer);
    }
    struct rest_answer answer =
        get_event(rest, op, "?wait=50s", "If-None-Match: *");
    assert_int_equal(answer.status, 304);
    rest_answer_free(&answer);
    json_decref(rest_json(
        get_event(rest, op, "?wait=50s", "If-None-Match: \"test-r0\""), 200));
    answer = rest_ask(rest, "HEAD", "/v1/events/op-1", NULL, NULL, 0);
    assert_int_equal(answer.status, 200);
    assert_non_null(rest_header(&answer, "ETag"));
    rest_answer_free(&answer);
    json_decref(event);
    json_decref(made);
}

static void waits_that_run_out(void **state)
{
    struct rest *rest = *state;
    char op[32];
    rest_spin_start(rest, &spin, op);
    struct rest_answer answer = get_event(rest, op, "", NULL);
    char header[128];
    (void)snprintf(header, sizeof(header), "If-None-Match: %s",
                   rest_header(&answer, "ETag"));
    rest_answer_free(&answer);
    json_t *event = rest_json(get_event(rest, op, "?wait=10ms", NULL), 200);
    assert_true(json_is_false(json_object_get(event, "done")));
    json_decref(event);
    answer = get_event(rest, op, "?wait=10ms", header);
    assert_int_equal(answer.status, 304);
    rest_answer_free(&answer);
    answer = get_event(rest, op, "", header);
    assert_int_equal(answer.status, 304);
    rest_answer_free(&answer);
    rest_spin_stop(rest, op);
    // The change is news at once.
    json_decref(rest_json(get_event(rest, op, "?wait=50s", header), 200));
}

static void bad_waits_are_refused(void **state)
{
    static const char *const bad[] = {
        "wait=abc", "wait=-1", "wait=-1s",  "wait=1y",
        "wait=NaN", "wait=",   "wait=1s2s", "wait=1s&wait=2s",
    };
    char query[64];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(query, sizeof(query), "?%s", bad[i]);
        struct rest_answer answer = get_event(*state, "op-1", query, NULL);
        assert_non_null(strstr(rest_text(answer.json, "detail"), "wait"));
        rest_is_problem(answer, 400, "BAD_PARAMETER");
    }
}

static void unknown_ids(void **state)
{
    static const char *const unknown[] = {
        "/v1/events/op-999999",
        "/v1/events/buf-1",
        "/v1/events/op-01",
        "/v1/events/op-0",
        "/v1/events/1",
        "/v1/buffers/buf-999999",
        "/v1/buffers/op-1",
        "/v1/programs/prog-999999",
        "/v1/loads/load-999999",
        "/v1/loads/buf-1",
        "/v1/events/op-999999/data",
        "/v1/events/op-999999/dependencies",
    };
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        rest_is_problem(rest_get(*state, unknown[i]), 404, "NOT_FOUND");
}

static void submitting_and_waiting(void **state)
{
    struct rest *rest = *state;
    const char *body = "{\"core\":1,\"bytes\":\"8\"}";
    struct rest_answer answer = rest_send(rest, "POST", "/v1/buffers", body);
    char place[64];
    (void)snprintf(place, sizeof(place), "/v1/events/%s",
                   rest_text(answer.json, "id"));
    assert_string_equal(rest_header(&answer, "Operation-Location"), place);
    (void)snprintf(place, sizeof(place), "/v1/buffers/%s",
                   rest_text(answer.json, "buffer"));
    assert_string_equal(rest_header(&answer, "Location"), place);
    json_decref(rest_json(answer, 202));
    json_t *event =
        rest_json(rest_send(rest, "POST", "/v1/buffers?wait=50s", body), 201);
    assert_true(json_is_true(json_object_get(event, "done")));
    json_decref(event);
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Prefer: wait=20", NULL};
    answer = rest_ask(rest, "POST", "/v1/buffers", headers, body, strlen(body));
    assert_string_equal(rest_header(&answer, "Preference-Applied"), "wait=20");
    json_decref(rest_json(answer, 201));
}

static void a_submission_whose_wait_runs_out(void **state)
{
    struct rest *rest = *state;
    char op[32];
    char body[128];
    rest_spin_start(rest, &spin, op);
    (void)snprintf(body, sizeof(body),
                   "{\"core\":1,\"bytes\":\"8\",\"after\":[\"%s\"]}", op);
    json_t *event =
        rest_json(rest_send(rest, "POST", "/v1/buffers?wait=10ms", body), 202);
    assert_string_equal(rest_text(event, "state"), "WAITING");
    assert_string_equal(rest_text(event, "pending_reason"), "DEPENDENCY");
    assert_string_equal(json_string_value(json_array_get(
                            json_object_get(event, "waits_for"), 0)),
                        op);
    json_decref(event);
    rest_spin_stop(rest, op);
}

static void common_members_are_checked(void **state)
{
    static const struct {
        const char *members;
        long status;
        const char *reason;
    } cases[] = {
        {"\"name\":\"\"", 422, "BAD_TEXT"},
        {"\"name\":\"a\\tb\"", 422, "BAD_TEXT"},
        {"\"name\":1", 400, "WRONG_TYPE"},
        {"\"priority\":11", 422, "OUT_OF_RANGE"},
        {"\"priority\":\"1\"", 400, "WRONG_TYPE"},
        {"\"deadline\":\"soon\"", 400, "BAD_VALUE"},
        {"\"on_dependency_failure\":\"MAYBE\"", 400, "BAD_VALUE"},
        {"\"after\":\"op-1\"", 400, "WRONG_TYPE"},
        {"\"after\":[1]", 400, "WRONG_TYPE"},
        {"\"after\":[\"nonsense\"]", 422, "UNKNOWN_HANDLE"},
        {"\"after\":[\"op-999999\"]", 422, "UNKNOWN_HANDLE"},
        {"\"labels\":[]", 400, "WRONG_TYPE"},
        {"\"labels\":{\"k\":1}", 400, "WRONG_TYPE"},
        {"\"labels\":{\"\":\"v\"}", 422, "BAD_TEXT"},
        {"\"labels\":{\"\xc3\xbc\":\"v\"}", 422, "BAD_TEXT"},
        {"\"labels\":{\"k\":\"a\\nb\"}", 422, "BAD_TEXT"},
        {"\"nonsense\":1", 400, "UNKNOWN_MEMBER"},
    };
    char body[256];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(body, sizeof(body), "{\"core\":1,\"bytes\":\"8\",%s}",
                       cases[i].members);
        rest_is_problem(rest_send(*state, "POST", "/v1/buffers", body),
                        cases[i].status, cases[i].reason);
    }
}

static void labels_have_limits(void **state)
{
    char body[2048] = "{\"core\":1,\"bytes\":\"8\",\"labels\":{\"k0\":\"v\"";
    for (int i = 1; i <= 16; i++) {
        char label[32];
        (void)snprintf(label, sizeof(label), ",\"k%d\":\"v\"", i);
        strcat(body, label);
    }
    strcat(body, "}}");
    rest_is_problem(rest_send(*state, "POST", "/v1/buffers", body), 422,
                    "BAD_TEXT");
    char value[300];
    memset(value, 'v', 257);
    value[257] = '\0';
    (void)snprintf(body, sizeof(body),
                   "{\"core\":1,\"bytes\":\"8\",\"labels\":{\"k\":\"%s\"}}",
                   value);
    rest_is_problem(rest_send(*state, "POST", "/v1/buffers", body), 422,
                    "BAD_TEXT");
    (void)snprintf(body, sizeof(body),
                   "{\"core\":1,\"bytes\":\"8\",\"labels\":{\"%.64s\":\"v\"}}",
                   value);
    rest_is_problem(rest_send(*state, "POST", "/v1/buffers", body), 422,
                    "BAD_TEXT");
    (void)snprintf(body, sizeof(body),
                   "{\"core\":1,\"bytes\":\"8\",\"labels\":{\"%.63s\":\"%.256s"
                   "\"}}",
                   value, value);
    json_decref(rest_submit(*state, "/v1/buffers", body));
}

static void events_wait_any_and_all(void **state)
{
    struct rest *rest = *state;
    char op[32];
    char body[256];
    rest_spin_start(rest, &spin, op);
    json_t *quick = alloc(rest);
    const char *quick_id = rest_text(quick, "id");
    (void)snprintf(body, sizeof(body),
                   "{\"ids\":[\"%s\",\"%s\",\"%s\"],\"mode\":\"ANY\","
                   "\"wait\":\"50s\"}",
                   op, quick_id, op);
    json_t *answer =
        rest_json(rest_send(rest, "POST", "/v1/events:wait", body), 200);
    assert_true(json_is_true(json_object_get(answer, "done")));
    const json_t *events = json_object_get(answer, "events");
    assert_int_equal(json_array_size(events), 2);
    assert_string_equal(rest_text(json_array_get(events, 0), "id"), op);
    const json_t *pending = json_object_get(answer, "pending");
    assert_int_equal(json_array_size(pending), 1);
    assert_string_equal(json_string_value(json_array_get(pending, 0)), op);
    json_decref(answer);
    (void)snprintf(body, sizeof(body),
                   "{\"ids\":[\"%s\",\"%s\"],\"wait\":\"10ms\"}", op,
                   rest_text(quick, "buffer"));
    answer = rest_json(rest_send(rest, "POST", "/v1/events:wait", body), 200);
    assert_true(json_is_false(json_object_get(answer, "done")));
    json_decref(answer);
    rest_spin_stop(rest, op);
    (void)snprintf(body, sizeof(body),
                   "{\"ids\":[\"%s\",\"%s\"],\"mode\":\"ALL\","
                   "\"wait\":\"50s\"}",
                   op, quick_id);
    answer = rest_json(rest_send(rest, "POST", "/v1/events:wait", body), 200);
    assert_true(json_is_true(json_object_get(answer, "done")));
    assert_int_equal(json_array_size(json_object_get(answer, "pending")), 0);
    json_decref(answer);
    json_decref(quick);
}

static void events_wait_checks_ids_first(void **state)
{
    struct rest_answer answer =
        rest_send(*state, "POST", "/v1/events:wait",
                  "{\"ids\":[\"op-1\",\"op-999999\",\"op-01\",\"load-3\"]}");
    const json_t *errors = json_object_get(answer.json, "errors");
    assert_int_equal(json_array_size(errors), 3);
    assert_string_equal(rest_text(json_array_get(errors, 0), "pointer"),
                        "/ids/1");
    assert_string_equal(rest_text(json_array_get(errors, 1), "pointer"),
                        "/ids/2");
    // op-3 made a buffer, not a load.
    assert_string_equal(rest_text(json_array_get(errors, 2), "pointer"),
                        "/ids/3");
    rest_is_problem(answer, 422, "UNKNOWN_HANDLE");
    static const struct {
        const char *body;
        long status;
        const char *reason;
    } cases[] = {
        {"{}", 400, "MISSING_MEMBER"},
        {"{\"ids\":[]}", 422, "OUT_OF_RANGE"},
        {"{\"ids\":\"op-1\"}", 400, "WRONG_TYPE"},
        {"{\"ids\":[1]}", 400, "WRONG_TYPE"},
        {"{\"ids\":[\"op-1\"],\"mode\":\"SOME\"}", 400, "BAD_VALUE"},
        {"{\"ids\":[\"op-1\"],\"wait\":\"x\"}", 400, "BAD_VALUE"},
        {"{\"ids\":[\"op-1\"],\"x\":1}", 400, "UNKNOWN_MEMBER"},
        {"[]", 400, "WRONG_TYPE"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        rest_is_problem(
            rest_send(*state, "POST", "/v1/events:wait", cases[i].body),
            cases[i].status, cases[i].reason);
}

static void events_wait_takes_1000_ids(void **state)
{
    char *body = malloc(16384);
    assert_non_null(body);
    for (int count = 1000; count <= 1001; count++) {
        strcpy(body, "{\"ids\":[");
        for (int i = 0; i < count; i++)
            strcat(body, i == 0 ? "\"op-1\"" : ",\"op-1\"");
        strcat(body, "]}");
        struct rest_answer answer =
            rest_send(*state, "POST", "/v1/events:wait", body);
        if (count == 1001) {
            rest_is_problem(answer, 422, "OUT_OF_RANGE");
        } else {
            json_t *json = rest_json(answer, 200);
            assert_int_equal(json_array_size(json_object_get(json, "events")),
                             1);
            json_decref(json);
        }
    }
    free(body);
}

static void cancel_and_its_dependents(void **state)
{
    struct rest *rest = *state;
    char op[32];
    char path[128];
    rest_spin_start(rest, &spin, op);
    json_t *waiting = alloc_after(rest, op);
    json_t *behind = alloc_after(rest, rest_text(waiting, "id"));
    (void)snprintf(path, sizeof(path), "/v1/events/%s:cancel",
                   rest_text(waiting, "id"));
    rest_is_problem(rest_send(rest, "POST", path, "{\"cascade\":\"ALL\"}"), 400,
                    "BAD_VALUE");
    rest_is_problem(rest_send(rest, "POST", path, "{\"x\":1}"), 400,
                    "UNKNOWN_MEMBER");
    json_t *event = rest_json(
        rest_send(rest, "POST", path, "{\"reason\":\"changed my mind\"}"), 200);
    assert_string_equal(rest_text(event, "state"), "CANCELLED");
    assert_string_equal(rest_text(json_object_get(event, "cancel"), "reason"),
                        "changed my mind");
    json_decref(event);
    // Again, without a body.
    event = rest_json(rest_ask(rest, "POST", path, NULL, NULL, 0), 200);
    json_decref(event);
    event = rest_await(rest, rest_text(behind, "id"));
    assert_string_equal(rest_text(event, "state"), "SKIPPED");
    const json_t *root =
        json_object_get(json_object_get(event, "error"), "root_cause");
    assert_string_equal(rest_text(root, "operation"), rest_text(waiting, "id"));
    assert_string_equal(rest_text(root, "reason"), "CANCEL_REQUESTED");
    json_decref(event);
    rest_spin_stop(rest, op);
    event = rest_await(rest, op);
    assert_string_equal(rest_text(json_object_get(event, "cancel"), "outcome"),
                        "INTERRUPTED");
    json_decref(event);
    json_decref(behind);
    json_decref(waiting);
    json_t *done = alloc(rest);
    json_decref(rest_await(rest, rest_text(done, "id")));
    (void)snprintf(path, sizeof(path), "/v1/events/%s:cancel",
                   rest_text(done, "id"));
    rest_is_problem(rest_send(rest, "POST", path, "{}"), 409,
                    "ALREADY_FINISHED");
    json_decref(done);
}

static void dependencies_both_ways(void **state)
{
    struct rest *rest = *state;
    static const char *const bad[] = {
        "direction=sideways", "depth=0", "depth=-1",
        "depth=abc",          "limit=0", "limit=-1"};
    // More than there may be is as much as there may be, of a token too.
    static const char *const large[] = {"depth=1000", "depth=1001",
                                        "depth=99999999999999999999"};
    char op[32];
    char path[160];
    char place[512];
    rest_spin_start(rest, &spin, op);
    json_t *first = alloc_after(rest, op);
    json_t *second = alloc_after(rest, rest_text(first, "id"));
    (void)snprintf(path, sizeof(path),
                   "/v1/events/%s/dependencies?direction=down&depth=2", op);
    json_t *answer = rest_json(rest_get(rest, path), 200);
    const json_t *events = json_object_get(answer, "events");
    assert_int_equal(json_array_size(events), 2);
    const json_t *event = json_array_get(events, 1);
    assert_string_equal(rest_text(event, "id"), rest_text(second, "id"));
    assert_int_equal(json_integer_value(json_object_get(event, "depth")), 2);
    json_decref(answer);
    (void)snprintf(path, sizeof(path),
                   "/v1/events/%s/dependencies?direction=down&depth=2&limit=1",
                   op);
    answer = rest_json(rest_get(rest, path), 200);
    assert_int_equal(json_array_size(json_object_get(answer, "events")), 1);
    char next[256];
    (void)snprintf(next, sizeof(next), "%s&page_token=%s", path,
                   rest_text(answer, "next_page_token"));
    json_decref(answer);
    answer = rest_json(rest_get(rest, next), 200);
    event = json_array_get(json_object_get(answer, "events"), 0);
    assert_string_equal(rest_text(event, "id"), rest_text(second, "id"));
    assert_null(json_object_get(answer, "next_page_token"));
    json_decref(answer);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(path, sizeof(path), "/v1/events/%s/dependencies?%s", op,
                       bad[i]);
        rest_is_problem(rest_get(rest, path), 400, "BAD_PARAMETER");
    }
    next[0] = '\0';
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        (void)snprintf(place, sizeof(place),
                       "/v1/events/%s/dependencies?direction=down&%s%s%s", op,
                       large[i], i == 0 ? "&limit=1" : "&limit=1001", next);
        answer = rest_json(rest_get(rest, place), 200);
        events = json_object_get(answer, "events");
        assert_int_equal(json_array_size(events), 1);
        assert_string_equal(rest_text(json_array_get(events, 0), "id"),
                            rest_text(i == 0 ? first : second, "id"));
        if (i == 0)
            (void)snprintf(next, sizeof(next), "&page_token=%s",
                           rest_text(answer, "next_page_token"));
        json_decref(answer);
    }
    json_decref(second);
    json_decref(first);
    rest_spin_stop(rest, op);
}

static void deadlines_end_what_waits(void **state)
{
    struct rest *rest = *state;
    char op[32];
    char body[160];
    rest_spin_start(rest, &spin, op);
    (void)snprintf(body, sizeof(body),
                   "{\"core\":1,\"bytes\":\"8\",\"after\":[\"%s\"],"
                   "\"deadline\":\"20ms\"}",
                   op);
    json_t *made = rest_submit(rest, "/v1/buffers", body);
    json_t *event = rest_await(rest, rest_text(made, "id"));
    assert_string_equal(rest_text(event, "state"), "FAILED");
    assert_string_equal(rest_text(json_object_get(event, "error"), "code"),
                        "DEADLINE_EXCEEDED");
    json_decref(event);
    json_decref(made);
    rest_spin_stop(rest, op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finished_event),
        cmocka_unit_test(tags_of_a_finished_event),
        cmocka_unit_test(waits_that_run_out),
        cmocka_unit_test(bad_waits_are_refused),
        cmocka_unit_test(unknown_ids),
        cmocka_unit_test(submitting_and_waiting),
        cmocka_unit_test(a_submission_whose_wait_runs_out),
        cmocka_unit_test(common_members_are_checked),
        cmocka_unit_test(labels_have_limits),
        cmocka_unit_test(events_wait_any_and_all),
        cmocka_unit_test(events_wait_checks_ids_first),
        cmocka_unit_test(events_wait_takes_1000_ids),
        cmocka_unit_test(cancel_and_its_dependents),
        cmocka_unit_test(dependencies_both_ways),
        cmocka_unit_test(deadlines_end_what_waits),
    };
    return cmocka_run_group_tests(tests, setup, rest_teardown);
}
