// SPDX-License-Identifier: Apache-2.0
// A pod of which a host hangs, as an operator sees it: the event, the list of
// what is stalled, the overview, the metrics, the stream; and how it ends.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"
#include "tests/lib/watch_client.h"

static int setup(void **state)
{
    *state = rest_start(&(struct rest_options){
        .pod = "local:2x1x1,hosts=2,fault=host1:write=drop",
        .stall_after_ns = POD_NS_PER_S / 5,
    });
    return 0;
}

// Waits for changes until the event has a member.
static json_t *await_member(struct rest *rest, const char *op,
                            const char *member)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/events/%.31s", op);
    json_t *event = rest_json(rest_get(rest, path), 200);
    while (json_object_get(event, member) == NULL) {
        assert_false(json_is_true(json_object_get(event, "done")));
        event = rest_await_change(rest, event);
    }
    return event;
}

// Reads a stream of changes until an event of the operation has a member.
static void watch_for_member(struct watch_client *client, const char *op,
                             const char *member)
{
    bool found = false;
    while (!found) {
        json_t *message = watch_next(client);
        assert_non_null(message);
        const json_t *object = json_object_get(message, "object");
        const char *id = json_string_value(json_object_get(object, "id"));
        found = id != NULL && strcmp(id, op) == 0 &&
                json_object_get(object, member) != NULL;
        json_decref(message);
    }
}

static bool text_has(struct rest *rest, const char *path, const char *text)
{
    struct rest_answer answer = rest_get(rest, path);
    assert_int_equal(answer.status, 200);
    bool has = strstr(answer.body, text) != NULL;
    rest_answer_free(&answer);
    return has;
}

// The condition STALLED of a host or of the pod.
static void assert_condition(struct rest *rest, const char *path,
                             const char *status, const char *reason,
                             const char *message)
{
    json_t *object = rest_json(rest_get(rest, path), 200);
    const json_t *conditions = json_object_get(object, "conditions");
    bool found = false;
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *each = json_array_get(conditions, i);
        if (strcmp(rest_text(each, "type"), "STALLED") != 0)
            continue;
        found = true;
        assert_string_equal(rest_text(each, "status"), status);
        assert_string_equal(rest_text(each, "reason"), reason);
        assert_string_equal(rest_text(each, "message"), message);
    }
    assert_true(found);
    json_decref(object);
}

// The ids in a list of events.
static void assert_listed(struct rest *rest, const char *path, const char *only)
{
    json_t *list = rest_json(rest_get(rest, path), 200);
    json_t *events = json_object_get(list, "events");
    assert_int_equal(json_array_size(events), only != NULL ? 1 : 0);
    if (only != NULL)
        assert_string_equal(rest_text(json_array_get(events, 0), "id"), only);
    json_decref(list);
}

static void what_hangs_is_named(void **state)
{
    struct rest *rest = *state;
    char op[32];
    char text[128];
    json_t *buffer =
        rest_submit(rest, "/v1/buffers", "{\"core\":1,\"shape\":\"f32[2]\"}");
    json_decref(rest_await(rest, rest_text(buffer, "id")));
    struct watch_client *stream =
        watch_open(api_server_port(rest_server(rest)),
                   "/v1/watch?since=now&topics=events", "", 0);
    (void)snprintf(text, sizeof(text), "/v1/buffers/%s/data",
                   rest_text(buffer, "buffer"));
    json_t *event =
        rest_json(rest_send(rest, "PUT", text, "{\"values\":[1,2]}"), 202);
    (void)snprintf(op, sizeof(op), "%s", rest_text(event, "id"));
    json_decref(event);
    event = await_member(rest, op, "stalled");
    watch_for_member(stream, op, "stalled");
    watch_close(stream);
    const json_t *stalled = json_object_get(event, "stalled");
    json_t *awaited =
        json_array_get(json_object_get(stalled, "waiting_for"), 0);
    assert_true(
        strcmp(rest_text(stalled, "since"), rest_text(event, "created")) >= 0);
    assert_int_equal(json_integer_value(json_object_get(awaited, "host")), 1);
    assert_int_equal(json_integer_value(
                         json_array_get(json_object_get(awaited, "cores"), 0)),
                     1);
    assert_string_equal(rest_text(awaited, "state"), "SENT");
    json_decref(event);

    assert_listed(rest, "/v1/events?stalled=true", op);
    assert_listed(rest, "/v1/events?stalled=true&host=1&kind=WRITE", op);
    assert_listed(rest, "/v1/events?stalled=true&host=0", NULL);
    assert_listed(rest, "/v1/events?stalled=false&kind=WRITE", NULL);
    (void)snprintf(text, sizeof(text), "\n%s WRITE: nothing heard for ", op);
    assert_true(text_has(rest, "/", text));
    assert_true(text_has(rest, "/", " s of host 1 core 1 (not begun)\n"));
    assert_true(text_has(rest, "/ui/", text));
    assert_true(text_has(rest, "/metrics", "\npodd_stalled_operations 1\n"));

    (void)snprintf(text, sizeof(text),
                   "nothing is heard of %s (WRITE) from host 1", op);
    assert_condition(rest, "/v1/hosts/1", "TRUE", "OPERATION_STALLED", text);
    assert_condition(rest, "/v1/pod", "TRUE", "OPERATION_STALLED", text);
    assert_condition(rest, "/v1/hosts/0", "FALSE", "NOTHING_STALLED",
                     "all that has its turn gets on");
    (void)snprintf(text, sizeof(text), "/v1/events/%s:cancel", op);
    // 200 if it was over by the time of the answer.
    struct rest_answer answer = rest_send(rest, "POST", text, "{}");
    assert_true(answer.status == 202 || answer.status == 200);
    rest_answer_free(&answer);
    event = rest_await(rest, op);
    assert_string_equal(rest_text(event, "state"), "CANCELLED");
    assert_null(json_object_get(event, "stalled"));
    json_decref(event);
    assert_listed(rest, "/v1/events?stalled=true", NULL);
    assert_false(text_has(rest, "/", "stalled:"));
    assert_condition(rest, "/v1/pod", "FALSE", "NOTHING_STALLED",
                     "all that has its turn gets on");
    assert_true(text_has(rest, "/metrics", "\npodd_stalled_operations 0\n"));
    json_decref(buffer);
}

static void the_filter_takes_truth_values(void **state)
{
    struct rest *rest = *state;
    char token[200];
    rest_is_problem(rest_get(rest, "/v1/events?stalled=maybe"), 400,
                    "BAD_PARAMETER");
    for (int i = 0; i < 2; i++)
        json_decref(
            rest_submit(rest, "/v1/buffers", "{\"core\":0,\"bytes\":\"8\"}"));
    json_t *page =
        rest_json(rest_get(rest, "/v1/events?stalled=false&page_size=1"), 200);
    (void)snprintf(token, sizeof(token), "/v1/events?page_token=%.150s",
                   rest_text(page, "next_page_token"));
    rest_is_problem(rest_get(rest, token), 400, "BAD_PAGE_TOKEN");
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_hangs_is_named),
        cmocka_unit_test(the_filter_takes_truth_values),
    };
    return cmocka_run_group_tests(tests, setup, rest_teardown);
}
