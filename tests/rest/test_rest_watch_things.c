// SPDX-License-Identifier: Apache-2.0
// What the stream of changes shows of programs, loads and graphs, in a snapshot
// too, and of things whose records have expired when they are to be shown.
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

static json_t *page_of(struct rest *rest, const char *topics, const char *since)
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    char target[256];

    (void)snprintf(target, sizeof(target), "/v1/watch?topics=%s&since=%s",
                   topics, since);
    return rest_json(rest_ask(rest, "GET", target, headers, NULL, 0), 200);
}

// All pages of a snapshot as one.
static json_t *snapshot_of(struct rest *rest, const char *topics)
{
    json_t *all = page_of(rest, topics, "snapshot");
    json_t *changes = json_object_get(all, "changes");
    char cursor[64];
    json_t *page = json_incref(all);

    while (
        json_array_size(changes) == 0 ||
        strcmp(rest_text(json_array_get(changes, json_array_size(changes) - 1),
                         "type"),
               "synced") != 0) {
        (void)snprintf(cursor, sizeof(cursor), "%s", rest_text(page, "cursor"));
        json_decref(page);
        page = page_of(rest, topics, cursor);
        assert_int_equal(
            json_array_extend(changes, json_object_get(page, "changes")), 0);
    }
    json_decref(page);
    return all;
}

static void cursor_now(struct rest *rest, char cursor[64])
{
    json_t *page = page_of(rest, "events", "now");

    (void)snprintf(cursor, 64, "%s", rest_text(page, "cursor"));
    json_decref(page);
}

// The object of the message of that type about that thing; the last, if there
// are several. Borrowed; NULL: there is none.
static const json_t *shown(const json_t *page, const char *type, const char *id)
{
    const json_t *changes = json_object_get(page, "changes");
    const json_t *found = NULL;
    const json_t *message;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)changes, i, message)
    {
        const json_t *object = json_object_get(message, "object");
        if (strcmp(rest_text(message, "type"), type) == 0 && object != NULL &&
            strcmp(rest_text(object, "id"), id) == 0)
            found = object;
    }
    return found;
}

static void assert_shown(const json_t *page, const char *type, const char *id,
                         const char *state)
{
    const json_t *object = shown(page, type, id);

    if (object == NULL)
        fail_msg("no %s %s", type, id);
    assert_string_equal(rest_text(object, "state"), state);
}

// That it is only told that there is no more of it.
static const json_t *assert_expired(const json_t *page, const char *type,
                                    const char *id)
{
    const json_t *object = shown(page, type, id);

    if (object == NULL)
        fail_msg("no %s %s", type, id);
    assert_true(json_is_true(json_object_get(object, "expired")));
    assert_null(json_object_get(object, "created"));
    return object;
}

struct things {
    char program[32];
    char load[32];
    char graph[32];
    char buffer[32]; // of the graph
};

// All have ended; they may have expired since.
static void await_all(struct rest *rest)
{
    struct pod_summary summary;
    struct pod_err err;
    bool open = true;

    while (open) {
        sched_yield();
        assert_int_equal(pod_get_summary(rest_engine(rest), &summary, &err),
                         POD_OK);
        open = summary.by_state[POD_SCHED_WAITING] +
                   summary.by_state[POD_SCHED_READY] +
                   summary.by_state[POD_SCHED_RUNNING] >
               0;
        pod_summary_fini(&summary);
    }
}

static struct things make_things(struct rest *rest)
{
    struct things things;
    struct rest_spin spin = rest_spin_make(rest, 0);
    char path[64];

    (void)snprintf(things.load, sizeof(things.load), "%s", spin.load);
    (void)snprintf(path, sizeof(path), "/v1/loads/%s", spin.load);
    json_t *json = rest_json(rest_get(rest, path), 200);
    (void)snprintf(things.program, sizeof(things.program), "%s",
                   rest_text(json, "program"));
    json_decref(json);
    json = rest_json(
        rest_send(rest, "POST", "/v1/graphs",
                  "{\"labels\":{\"of\":\"us\"},\"ops\":[{\"op\":\"allocate\","
                  "\"ref\":\"a\",\"core\":1,\"bytes\":8}]}"),
        202);
    (void)snprintf(things.graph, sizeof(things.graph), "graph%s",
                   strchr(rest_text(json, "id"), '-'));
    json_decref(json);
    await_all(rest);
    (void)snprintf(things.buffer, sizeof(things.buffer), "buf-%llu",
                   (unsigned long long)pod_last_number(rest_engine(rest)));
    return things;
}

static void drop(struct rest *rest, const char *kind, const char *id)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/v1/%s/%s", kind, id);
    json_decref(rest_json(rest_ask(rest, "DELETE", path, NULL, NULL, 0), 202));
}

static void drop_things(struct rest *rest, const struct things *things)
{
    drop(rest, "loads", things->load);
    drop(rest, "programs", things->program);
    drop(rest, "buffers", things->buffer);
    await_all(rest);
}

static void changes_of_things(void **state)
{
    struct rest *rest = *state;
    char cursor[64];

    cursor_now(rest, cursor);
    struct things things = make_things(rest);
    json_t *page = page_of(rest, "programs,loads,graphs", cursor);
    assert_shown(page, "program", things.program, "READY");
    assert_shown(page, "load", things.load, "READY");
    assert_shown(page, "graph", things.graph, "SUCCEEDED");
    assert_null(shown(page, "buffer", things.buffer));
    (void)snprintf(cursor, sizeof(cursor), "%s", rest_text(page, "cursor"));
    json_decref(page);
    drop_things(rest, &things);
    page = page_of(rest, "programs,loads", cursor);
    assert_shown(page, "program", things.program, "FREED");
    assert_shown(page, "load", things.load, "FREED");
    assert_null(shown(page, "graph", things.graph));
    json_decref(page);
}

static void a_snapshot_of_things(void **state)
{
    struct rest *rest = *state;
    struct things things = make_things(rest);
    json_t *page = snapshot_of(rest, "programs,loads,graphs");

    assert_shown(page, "program", things.program, "READY");
    assert_shown(page, "load", things.load, "READY");
    assert_shown(page, "graph", things.graph, "SUCCEEDED");
    assert_null(shown(page, "buffer", things.buffer));
    json_decref(page);
    // Labels of a graph are its own.
    page = snapshot_of(rest, "graphs&label=of=us");
    assert_shown(page, "graph", things.graph, "SUCCEEDED");
    json_decref(page);
    page = snapshot_of(rest, "graphs&label=of=them");
    assert_null(shown(page, "graph", things.graph));
    json_decref(page);
}

static void things_that_have_expired(void **state)
{
    const struct rest_options options = {.history_count = 1};
    struct rest *rest = rest_start(&options);
    char cursor[64];

    (void)state;
    assert_non_null(rest);
    cursor_now(rest, cursor);
    struct things things = make_things(rest);
    drop_things(rest, &things);
    rest_await_number(rest, rest_allocate(rest, NULL));
    json_t *page =
        page_of(rest, "events,graphs,buffers,programs,loads", cursor);
    (void)assert_expired(page, "program", things.program);
    (void)assert_expired(page, "load", things.load);
    (void)assert_expired(page, "graph", things.graph);
    (void)assert_expired(page, "buffer", things.buffer);
    // Of an operation the log knows how it ended.
    char op[32];
    (void)snprintf(op, sizeof(op), "op%s", strchr(things.buffer, '-'));
    const json_t *event = assert_expired(page, "event", op);
    assert_string_equal(rest_text(event, "state"), "SUCCEEDED");
    assert_true(json_is_true(json_object_get(event, "done")));
    assert_true(strtoull(rest_text(event, "revision"), NULL, 10) > 1);
    json_decref(page);
    rest_stop(rest);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, rest_setup, rest_teardown)
    const struct CMUnitTest tests[] = {
        T(changes_of_things),
        T(a_snapshot_of_things),
        cmocka_unit_test(things_that_have_expired),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
