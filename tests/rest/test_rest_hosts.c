// SPDX-License-Identifier: Apache-2.0
// Hosts over HTTP: added, drained, taken away, watched.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

static long long number_of(const json_t *object, const char *member)
{
    const json_t *value = json_object_get(object, member);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static long long add(struct rest *rest)
{
    struct rest_answer answer =
        rest_send(rest, "POST", "/v1/hosts", "{\"address\":\"local\"}");
    char location[64];
    assert_int_equal(answer.status, 201);
    long long id = number_of(answer.json, "id");
    (void)snprintf(location, sizeof(location), "/v1/hosts/%lld", id);
    assert_string_equal(rest_header(&answer, "Location"), location);
    rest_answer_free(&answer);
    return id;
}

// The number of the core of a host of one core, once it is READY.
static long long core_of(struct rest *rest, long long host)
{
    long long found = -1;
    while (found < 0) {
        json_t *page = rest_json(rest_get(rest, "/v1/cores"), 200);
        const json_t *core = NULL;
        size_t i = 0;
        json_array_foreach(json_object_get(page, "cores"), i, core)
        {
            if (number_of(core, "host") == host)
                found = number_of(core, "id");
        }
        json_decref(page);
    }
    return found;
}

static struct rest_answer take_away(struct rest *rest, long long host,
                                    const char *query)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/hosts/%lld%s", host, query);
    return rest_ask(rest, "DELETE", path, NULL, NULL, 0);
}

static void assert_condition(const json_t *object, const char *type,
                             const char *status, const char *reason)
{
    const json_t *item = NULL;
    size_t i = 0;
    json_array_foreach(json_object_get(object, "conditions"), i, item)
    {
        if (strcmp(rest_text(item, "type"), type) != 0)
            continue;
        assert_string_equal(rest_text(item, "status"), status);
        assert_string_equal(rest_text(item, "reason"), reason);
        (void)rest_text(item, "last_transition_time");
        return;
    }
    fail_msg("there is no condition %s", type);
}

static void lists_leave_out_what_is_gone(void **state)
{
    struct rest *rest = *state;
    long long gone = add(rest);
    long long stays = add(rest);
    long long core = core_of(rest, gone);
    (void)core_of(rest, stays);
    char path[64];
    rest_is_problem(take_away(rest, gone, "?force=1x"), 400, "BAD_PARAMETER");
    struct rest_answer answer = take_away(rest, gone, "");
    assert_int_equal(answer.status, 204);
    rest_answer_free(&answer);
    rest_is_problem(take_away(rest, gone, ""), 410, "EXPIRED");
    (void)snprintf(path, sizeof(path), "/v1/cores/%lld", core);
    rest_is_problem(rest_get(rest, path), 410, "EXPIRED");
    // Pages go over the gap.
    json_t *first = rest_json(rest_get(rest, "/v1/hosts?page_size=2"), 200);
    (void)snprintf(path, sizeof(path), "/v1/hosts?page_size=2&page_token=%s",
                   rest_text(first, "next_page_token"));
    json_decref(first);
    json_t *second = rest_json(rest_get(rest, path), 200);
    const json_t *hosts = json_object_get(second, "hosts");
    assert_int_equal(json_array_size(hosts), 1);
    assert_int_equal(number_of(json_array_get(hosts, 0), "id"), stays);
    assert_null(json_object_get(second, "next_page_token"));
    json_decref(second);
    json_t *pod = rest_json(rest_get(rest, "/v1/pod"), 200);
    assert_int_equal(number_of(json_object_get(pod, "totals"), "hosts"), 3);
    assert_int_equal(json_array_size(json_object_get(pod, "chips")), 3);
    assert_condition(pod, "READY", "TRUE", "ALL_HOSTS_READY");
    json_decref(pod);
    answer = take_away(rest, stays, "");
    assert_int_equal(answer.status, 204);
    rest_answer_free(&answer);
}

static void is_refused(struct rest *rest, const char *method, const char *path,
                       int status, const char *reason)
{
    rest_is_problem(rest_ask(rest, method, path, NULL, NULL, 0), status,
                    reason);
}

static void a_host_that_is_not_there(void **state)
{
    static const char *const verbs[] = {":cordon", ":uncordon", ":drain",
                                        ":reconnect"};
    static const char *const never[] = {"4294967295", "4294967294", "77",
                                        "01",         "x",          "-1"};
    struct rest *rest = *state;
    long long gone = add(rest);
    char path[64];
    struct rest_answer answer = take_away(rest, gone, "");
    assert_int_equal(answer.status, 204);
    rest_answer_free(&answer);
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        (void)snprintf(path, sizeof(path), "/v1/hosts/%s", never[i]);
        is_refused(rest, "GET", path, 404, "NOT_FOUND");
        is_refused(rest, "DELETE", path, 404, "NOT_FOUND");
        (void)snprintf(path, sizeof(path), "/v1/cores/%s", never[i]);
        is_refused(rest, "GET", path, 404, "NOT_FOUND");
    }
    (void)snprintf(path, sizeof(path), "/v1/hosts/%lld", gone);
    is_refused(rest, "GET", path, 410, "EXPIRED");
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        (void)snprintf(path, sizeof(path), "/v1/hosts/%lld%s", gone, verbs[i]);
        is_refused(rest, "POST", path, 410, "EXPIRED");
        (void)snprintf(path, sizeof(path), "/v1/hosts/77%s", verbs[i]);
        is_refused(rest, "POST", path, 404, "NOT_FOUND");
        (void)snprintf(path, sizeof(path), "/v1/hosts/x%s", verbs[i]);
        is_refused(rest, "POST", path, 404, "NOT_FOUND");
    }
}

static void a_key_adds_one_host(void **state)
{
    static const char *const headers[] = {
        "Idempotency-Key: one-host", "Content-Type: application/json", NULL};
    struct rest *rest = *state;
    long long ids[2];
    for (size_t i = 0; i < 2; i++) {
        struct rest_answer answer =
            rest_ask(rest, "POST", "/v1/hosts", headers, "{}", 2);
        assert_int_equal(answer.status, 201);
        ids[i] = number_of(answer.json, "id");
        rest_answer_free(&answer);
    }
    assert_int_equal(ids[0], ids[1]);
    struct rest_answer answer = take_away(rest, ids[0], "?force=true");
    assert_int_equal(answer.status, 204);
    rest_answer_free(&answer);
}

static void a_drain_tells_what_it_came_to(void **state)
{
    struct rest *rest = *state;
    long long host = add(rest);
    char path[64];
    char op[32];
    struct rest_spin spin = rest_spin_make(rest, (unsigned)core_of(rest, host));
    rest_spin_start(rest, &spin, op);
    (void)snprintf(path, sizeof(path), "/v1/hosts/%lld:drain?wait=50ms", host);
    json_t *busy = rest_json(rest_send(rest, "POST", path, "{}"), 200);
    assert_string_equal(rest_text(busy, "state"), "CORDONED");
    assert_condition(busy, "DRAINED", "FALSE", "OPERATIONS_OPEN");
    assert_condition(busy, "SCHEDULABLE", "FALSE", "CORDONED");
    assert_condition(busy, "READY", "TRUE", "HEARTBEATS");
    json_decref(busy);
    rest_is_problem(take_away(rest, host, ""), 409, "IN_USE");
    rest_spin_stop(rest, op);
    (void)snprintf(path, sizeof(path), "/v1/hosts/%lld:drain?wait=50s", host);
    json_t *idle = rest_json(rest_send(rest, "POST", path, "{}"), 200);
    assert_condition(idle, "DRAINED", "TRUE", "IDLE");
    json_decref(idle);
    // Its buffers keep it.
    rest_is_problem(take_away(rest, host, ""), 409, "IN_USE");
    struct rest_answer answer = take_away(rest, host, "?force=true");
    assert_int_equal(answer.status, 204);
    rest_answer_free(&answer);
}

static void what_runs_there_is_lost(void **state)
{
    struct rest *rest = *state;
    long long host = add(rest);
    char op[32];
    struct rest_spin spin = rest_spin_make(rest, (unsigned)core_of(rest, host));
    rest_spin_start(rest, &spin, op);
    struct rest_answer answer = take_away(rest, host, "?force=true");
    assert_int_equal(answer.status, 204);
    rest_answer_free(&answer);
    json_t *event = rest_await(rest, op);
    assert_string_equal(rest_text(event, "state"), "LOST");
    json_decref(event);
}

static void the_last_message_says_removed(void **state)
{
    struct rest *rest = *state;
    long long host = add(rest);
    static const char *const headers[] = {"Accept: application/json", NULL};
    struct rest_answer page =
        rest_ask(rest, "GET", "/v1/watch?since=now&topics=hosts&wait=0",
                 headers, NULL, 0);
    char path[256];
    (void)snprintf(path, sizeof(path),
                   "/v1/watch?since=%s&topics=hosts&wait=50s",
                   rest_text(page.json, "cursor"));
    rest_answer_free(&page);
    struct rest_answer answer = take_away(rest, host, "?force=true");
    assert_int_equal(answer.status, 204);
    rest_answer_free(&answer);
    json_t *told =
        rest_json(rest_ask(rest, "GET", path, headers, NULL, 0), 200);
    const json_t *changes = json_object_get(told, "changes");
    const json_t *last = json_object_get(
        json_array_get(changes, json_array_size(changes) - 1), "object");
    assert_int_equal(number_of(last, "id"), host);
    assert_true(json_is_true(json_object_get(last, "removed")));
    assert_string_equal(rest_text(last, "state"), "LOST");
    json_decref(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_leave_out_what_is_gone),
        cmocka_unit_test(a_host_that_is_not_there),
        cmocka_unit_test(a_key_adds_one_host),
        cmocka_unit_test(a_drain_tells_what_it_came_to),
        cmocka_unit_test(what_runs_there_is_lost),
        cmocka_unit_test(the_last_message_says_removed),
    };
    return cmocka_run_group_tests(tests, rest_setup, rest_teardown);
}
