// SPDX-License-Identifier: Apache-2.0
// The stream of changes: its forms, cursors, filters, snapshots, what a slow
// reader gets, limits, and its end.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/pod/changes.h"
#include "tests/lib/rest_pod.h"
#include "tests/lib/watch_client.h"

#define SSE  "Accept: text/event-stream\r\n"
#define PAGE "Accept: application/json"

static struct rest *start(const struct rest_options *options)
{
    struct rest *rest = rest_start(options);

    assert_non_null(rest);
    return rest;
}

static int setup(void **state)
{
    *state = start(&(struct rest_options){.history_count = 0});
    return 0;
}

static struct watch_client *open_watch(struct rest *rest, const char *query,
                                       const char *headers)
{
    char target[256];
    (void)snprintf(target, sizeof(target), "/v1/watch%s", query);
    return watch_open(api_server_port(rest_server(rest)), target, headers, 0);
}

// The next message, which must be of a type.
static json_t *next_of(struct watch_client *client, const char *type)
{
    json_t *message = watch_next(client);
    assert_non_null(message);
    assert_string_equal(rest_text(message, "type"), type);
    return message;
}

// The next message other than a bookmark; NULL: the end.
static json_t *next_news(struct watch_client *client)
{
    json_t *message = watch_next(client);
    while (message != NULL &&
           strcmp(rest_text(message, "type"), "bookmark") == 0) {
        json_decref(message);
        message = watch_next(client);
    }
    return message;
}

// The sequence in a cursor outside of a snapshot.
static uint64_t sequence_of(const json_t *message)
{
    const char *cursor = rest_text(message, "cursor");
    char *end = NULL;
    assert_int_equal(strncmp(cursor, "test-", 5), 0);
    uint64_t sequence = strtoull(cursor + 5, &end, 10);
    assert_string_equal(end, "");
    return sequence;
}

static json_t *get_page(struct rest *rest, const char *query, long status)
{
    static const char *const headers[] = {PAGE, NULL};
    char target[256];
    (void)snprintf(target, sizeof(target), "/v1/watch%s", query);
    return rest_json(rest_ask(rest, "GET", target, headers, NULL, 0), status);
}

// ---------------------------------------------------------------- the forms

// WAITING, READY, RUNNING and SUCCEEDED of one operation, whose revisions
// follow each other.
static void read_life(struct watch_client *client, uint64_t number)
{
    static const char *const states[] = {"WAITING", "READY", "RUNNING",
                                         "SUCCEEDED"};
    char id[32];
    uint64_t before = 0;
    (void)snprintf(id, sizeof(id), "op-%llu", (unsigned long long)number);
    for (size_t i = 0; i < 4; i++) {
        json_t *message = next_of(client, "event");
        const json_t *event = json_object_get(message, "object");
        assert_string_equal(rest_text(event, "id"), id);
        assert_string_equal(rest_text(event, "state"), states[i]);
        assert_int_equal(json_is_true(json_object_get(event, "done")), i == 3);
        assert_int_equal(json_object_get(event, "finished") != NULL, i == 3);
        uint64_t revision = strtoull(rest_text(event, "revision"), NULL, 10);
        assert_true(i == 0 || revision == before + 1);
        before = revision;
        json_decref(message);
    }
}

static void every_state_in_both_streams(void **state)
{
    static const char *const headers[] = {"", SSE};
    static const char *const types[] = {"application/x-ndjson",
                                        "text/event-stream"};
    for (size_t i = 0; i < 2; i++) {
        struct watch_client *client =
            open_watch(*state, "?topics=events", headers[i]);
        assert_int_equal(watch_status(client), 200);
        assert_non_null(strstr(watch_head(client), types[i]));
        json_t *hello = next_of(client, "bookmark");
        assert_int_equal(strlen(rest_text(hello, "now")), 27);
        json_decref(hello);
        read_life(client, rest_allocate(*state, NULL));
        watch_close(client);
    }
}

// JSON comes whatever is asked for; of its forms, lines.
static void other_forms_there_are_not(void **state)
{
    struct watch_client *client =
        open_watch(*state, "", "Accept: image/png\r\n");
    assert_int_equal(watch_status(client), 200);
    assert_non_null(strstr(watch_head(client), "application/x-ndjson"));
    json_decref(next_of(client, "bookmark"));
    watch_close(client);
}

static void head_has_no_stream(void **state)
{
    struct rest_answer answer =
        rest_ask(*state, "HEAD", "/v1/watch", NULL, NULL, 0);
    assert_int_equal(answer.status, 200);
    assert_string_equal(rest_header(&answer, "Content-Type"),
                        "application/x-ndjson");
    rest_answer_free(&answer);
}

static void pages_follow_each_other(void **state)
{
    char query[128];
    json_t *page = get_page(*state, "?topics=buffers", 200);
    assert_int_equal(json_array_size(json_object_get(page, "changes")), 0);
    uint64_t number = rest_allocate(*state, NULL);
    rest_await_number(*state, number);
    (void)snprintf(query, sizeof(query), "?topics=buffers&since=%s",
                   rest_text(page, "cursor"));
    json_decref(page);
    page = get_page(*state, query, 200);
    const json_t *changes = json_object_get(page, "changes");
    // What is shown is the present state, so once is enough.
    assert_int_equal(json_array_size(changes), 1);
    const json_t *buffer =
        json_object_get(json_array_get(changes, 0), "object");
    assert_string_equal(rest_text(buffer, "state"), "READY");
    (void)snprintf(query, sizeof(query), "?since=%s&wait=50ms",
                   rest_text(page, "cursor"));
    json_decref(page);
    page = get_page(*state, query, 200);
    assert_int_equal(json_array_size(json_object_get(page, "changes")), 0);
    json_decref(page);
}

struct later {
    struct rest *rest;
    pthread_t thread;
};

// Allocates as soon as somebody is parked.
static void *allocate_when_parked(void *arg)
{
    struct later *later = arg;
    struct api_server_counts counts;
    do {
        api_server_counts(rest_server(later->rest), &counts);
        sched_yield();
    } while (counts.parked == 0);
    (void)rest_allocate(later->rest, NULL);
    return NULL;
}

static void a_page_waits_for_what_fits(void **state)
{
    struct later later = {.rest = *state};
    assert_int_equal(
        pthread_create(&later.thread, NULL, allocate_when_parked, &later), 0);
    json_t *page = get_page(*state, "?topics=buffers&wait=50s", 200);
    const json_t *changes = json_object_get(page, "changes");
    assert_true(json_array_size(changes) >= 1);
    assert_string_equal(rest_text(json_array_get(changes, 0), "type"),
                        "buffer");
    json_decref(page);
    assert_int_equal(pthread_join(later.thread, NULL), 0);
}

// ------------------------------------------------------------------ cursors

static void what_since_takes(void **state)
{
    static const char *const bad[] = {
        "?since=",
        "?since=yesterday",
        "?since=other-1",
        "?since=test-",
        "?since=test-1x",
        "?since=test-0-6-0",
        "?since=test-0-90-999999",
        "?since=test-99999999",
        "?since=now&since=now",
        "?topics=ev",
        "?topics=",
        "?label=x",
        "?wait=-1s",
        "?colour=red",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char target[128];
        char reason[64];
        (void)snprintf(target, sizeof(target), "/v1/watch%s", bad[i]);
        long status = rest_status(rest_get(*state, target), reason);
        assert_int_equal(status, 400);
        assert_non_null(strstr(reason, "PARAMETER"));
    }
}

static void last_event_id_wins(void **state)
{
    char headers[256];
    json_t *page = get_page(*state, "", 200);
    rest_await_number(*state, rest_allocate(*state, NULL));
    (void)snprintf(headers, sizeof(headers), SSE "Last-Event-ID: %s\r\n",
                   rest_text(page, "cursor"));
    struct watch_client *client =
        open_watch(*state, "?since=now&topics=events", headers);
    json_t *hello = next_of(client, "bookmark");
    assert_string_equal(rest_text(hello, "cursor"), rest_text(page, "cursor"));
    json_decref(hello);
    json_t *message = next_of(client, "event");
    assert_string_equal(rest_text(json_object_get(message, "object"), "state"),
                        "WAITING");
    json_decref(message);
    watch_close(client);
    json_decref(page);
    client = open_watch(*state, "", SSE "Last-Event-ID: what\r\n");
    assert_int_equal(watch_status(client), 400);
    watch_close(client);
}

// Waits until nothing is left to be told.
static void settle(struct rest *rest)
{
    for (uint64_t i = pod_last_number(rest_engine(rest)); i > 0; i--)
        rest_await_number(rest, i);
}

static void what_is_too_old(void **state)
{
    struct rest *rest = start(&(struct rest_options){.change_count = 16});
    (void)state;
    for (int i = 0; i < 8; i++)
        (void)rest_allocate(rest, NULL);
    settle(rest);
    struct watch_client *client = open_watch(rest, "?since=test-1", SSE);
    assert_int_equal(watch_status(client), 200);
    json_decref(next_of(client, "bookmark"));
    json_t *resync = next_of(client, "resync");
    assert_int_equal(sequence_of(resync),
                     pod_last_change(rest_engine(rest), false));
    json_decref(resync);
    uint64_t number = rest_allocate(rest, NULL);
    json_t *message = next_of(client, "event");
    char id[32];
    (void)snprintf(id, sizeof(id), "op-%llu", (unsigned long long)number);
    assert_string_equal(rest_text(json_object_get(message, "object"), "id"),
                        id);
    json_decref(message);
    watch_close(client);
    rest_is_problem(rest_get(rest, "/v1/watch?since=test-1"), 410, "EXPIRED");
    json_decref(get_page(rest, "?since=test-1", 410));
    rest_stop(rest);
}

// A snapshot in pages: all of it, then "synced", once.
static void a_snapshot_in_pages(void **state)
{
    char query[128] = "?since=snapshot&topics=buffers";
    size_t buffers = 0;
    size_t synced = 0;
    for (int i = 0; i < 1500; i++)
        (void)rest_allocate(*state, NULL);
    settle(*state);
    while (synced == 0) {
        json_t *page = get_page(*state, query, 200);
        const json_t *changes = json_object_get(page, "changes");
        assert_true(json_array_size(changes) <= 1000);
        for (size_t i = 0; i < json_array_size(changes); i++) {
            const char *type = rest_text(json_array_get(changes, i), "type");
            assert_int_equal(synced, 0);
            synced += strcmp(type, "synced") == 0;
            buffers += strcmp(type, "buffer") == 0;
        }
        (void)snprintf(query, sizeof(query), "?topics=buffers&since=%s",
                       rest_text(page, "cursor"));
        json_decref(page);
    }
    assert_int_equal(buffers, 1500);
}

// ------------------------------------------------------------------ filters

static void labels_and_cursors_of_a_filter(void **state)
{
    const struct pod_label mine = {.key = "who", .value = "me"};
    json_t *page = get_page(*state, "?label=who=me&topics=buffers", 200);
    char query[128];
    (void)snprintf(query, sizeof(query),
                   "?label=who=me&topics=buffers&since=%s",
                   rest_text(page, "cursor"));
    json_decref(page);
    rest_await_number(*state, rest_allocate(*state, NULL));
    page = get_page(*state, query, 200);
    assert_int_equal(json_array_size(json_object_get(page, "changes")), 0);
    // It has advanced with what it left out.
    assert_int_equal(sequence_of(page),
                     pod_last_change(rest_engine(*state), false));
    uint64_t number = rest_allocate(*state, &mine);
    rest_await_number(*state, number);
    json_decref(page);
    page = get_page(*state, query, 200);
    const json_t *changes = json_object_get(page, "changes");
    assert_int_equal(json_array_size(changes), 1);
    char id[32];
    (void)snprintf(id, sizeof(id), "buf-%llu", (unsigned long long)number);
    assert_string_equal(
        rest_text(json_object_get(json_array_get(changes, 0), "object"), "id"),
        id);
    json_decref(page);
}

// A graph is told of as it goes on; its operations are events as any others.
static void a_graph_and_its_counts(void **state)
{
    struct watch_client *client = open_watch(*state, "?topics=graphs", SSE);
    bool done = false;
    json_decref(next_of(client, "bookmark"));
    json_decref(rest_submit(
        *state, "/v1/graphs",
        "{\"ops\":[{\"ref\":\"a\",\"op\":\"allocate\",\"core\":0,"
        "\"bytes\":\"8\"},{\"ref\":\"b\",\"op\":\"allocate\",\"core\":0,"
        "\"bytes\":\"8\"}]}"));
    while (!done) {
        json_t *message = next_of(client, "graph");
        const json_t *graph = json_object_get(message, "object");
        const json_t *counts = json_object_get(graph, "counts");
        assert_string_equal(rest_text(graph, "id"), "graph-1");
        done = json_is_true(json_object_get(graph, "done"));
        if (done)
            assert_string_equal(rest_text(counts, "SUCCEEDED"), "2");
        json_decref(message);
    }
    watch_close(client);
}

// ---------------------------------------------------------------- bookmarks

static void bookmarks_carry_the_place(void **state)
{
    struct rest *rest = start(
        &(struct rest_options){.limits = {.bookmark_ns = POD_NS_PER_S / 50}});
    (void)state;
    struct watch_client *client = open_watch(rest, "?topics=hosts", SSE);
    json_t *first = next_of(client, "bookmark");
    rest_await_number(rest, rest_allocate(rest, NULL));
    uint64_t last = pod_last_change(rest_engine(rest), false);
    assert_true(sequence_of(first) < last);
    json_decref(first);
    uint64_t at = 0;
    while (at < last) {
        json_t *bookmark = next_of(client, "bookmark");
        assert_true(sequence_of(bookmark) >= at);
        at = sequence_of(bookmark);
        json_decref(bookmark);
    }
    assert_int_equal(at, last);
    watch_close(client);
    rest_stop(rest);
}

// ------------------------------------------------------------------- limits

static void wait_for_streams(struct rest *rest, uint64_t streams)
{
    struct api_server_counts counts;
    do {
        api_server_counts(rest_server(rest), &counts);
        sched_yield();
    } while (counts.streams != streams);
}

static void streams_are_capped(void **state)
{
    const struct api_limits limits[] = {{.streams = 2},
                                        {.streams_per_address = 2}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rest *rest = start(&(struct rest_options){.limits = limits[i]});
        struct watch_client *one = open_watch(rest, "", "");
        struct watch_client *two = open_watch(rest, "", SSE);
        json_t *problem = rest_json(rest_get(rest, "/v1/watch"), 429);
        assert_string_equal(rest_text(problem, "reason"), "TOO_MANY_STREAMS");
        const json_t *metadata = json_object_get(problem, "metadata");
        assert_non_null(strstr(rest_text(metadata, "limit"), "streams"));
        assert_string_equal(rest_text(metadata, "used"),
                            rest_text(metadata, "max"));
        json_decref(problem);
        json_decref(get_page(rest, "", 200));
        // Who hangs up is noticed without anything to say to it.
        watch_close(one);
        wait_for_streams(rest, 1);
        one = open_watch(rest, "", "");
        assert_int_equal(watch_status(one), 200);
        watch_close(one);
        watch_close(two);
        wait_for_streams(rest, 0);
        rest_stop(rest);
    }
}

// --------------------------------------------------------------------- drain

static void a_drain_says_goodbye(void **state)
{
    struct rest *rest = start(&(struct rest_options){.history_count = 0});
    struct watch_client *sse = open_watch(rest, "", SSE);
    struct watch_client *lines = open_watch(rest, "", "");
    (void)state;
    json_decref(next_of(sse, "bookmark"));
    json_decref(next_of(lines, "bookmark"));
    rest_await_number(rest, rest_allocate(rest, NULL));
    uint64_t last = pod_last_change(rest_engine(rest), false);
    rest_drain(rest);
    json_t *message = next_news(sse);
    while (message != NULL &&
           strcmp(rest_text(message, "type"), "goodbye") != 0) {
        json_decref(message);
        message = next_news(sse);
    }
    assert_non_null(message);
    assert_true(sequence_of(message) <= last);
    assert_true(watch_retry(sse) > 0);
    json_decref(message);
    assert_null(watch_next(sse));
    assert_true(watch_ended_well(sse));
    while ((message = watch_next(lines)) != NULL)
        json_decref(message);
    assert_true(watch_ended_well(lines));
    watch_close(sse);
    watch_close(lines);
    // Those who come now are sent away in the same way.
    lines = open_watch(rest, "", "");
    json_decref(next_of(lines, "goodbye"));
    assert_null(watch_next(lines));
    watch_close(lines);
    json_decref(get_page(rest, "?wait=50s", 200));
    rest_stop(rest);
}

#define REST_TEST(test)                                                        \
    cmocka_unit_test_setup_teardown(test, setup, rest_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REST_TEST(every_state_in_both_streams),
        REST_TEST(other_forms_there_are_not),
        REST_TEST(head_has_no_stream),
        REST_TEST(pages_follow_each_other),
        REST_TEST(a_page_waits_for_what_fits),
        REST_TEST(what_since_takes),
        REST_TEST(last_event_id_wins),
        cmocka_unit_test(what_is_too_old),
        REST_TEST(a_snapshot_in_pages),
        REST_TEST(labels_and_cursors_of_a_filter),
        REST_TEST(a_graph_and_its_counts),
        cmocka_unit_test(bookmarks_carry_the_place),
        cmocka_unit_test(streams_are_capped),
        cmocka_unit_test(a_drain_says_goodbye),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
