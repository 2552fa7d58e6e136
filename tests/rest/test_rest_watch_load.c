// SPDX-License-Identifier: Apache-2.0
// The stream of changes while much changes: connections that drop, snapshots
// of what moves, readers that are slow.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/pod/changes.h"
#include "tests/lib/rest_pod.h"
#include "tests/lib/watch_client.h"

#define SSE "Accept: text/event-stream\r\n"

enum {
    LOAD_OPS = 1500, // of the test with drops
    LOAD_CHANGES_PER_OP = 4,
    LOAD_RATE = 2000, // changes of events a second
    LOAD_DROPS = 20,
};

static struct rest *start(void)
{
    return rest_start(&(struct rest_options){.history_count = 100000});
}

static unsigned port_of(const struct rest *rest)
{
    return api_server_port(rest_server(rest));
}

static uint64_t number_of(const json_t *object)
{
    const char *id = rest_text(object, "id");
    return strtoull(strchr(id, '-') + 1, NULL, 10);
}

// ------------------------------------------------------------------ producer

struct producer {
    struct rest *rest;
    pthread_t thread;
    int64_t pause_ns; // between two operations
    size_t count;
};

static void *produce(void *arg)
{
    struct producer *producer = arg;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    for (size_t i = 0; i < producer->count; i++) {
        (void)rest_allocate(producer->rest, NULL);
        at.tv_nsec += producer->pause_ns;
        at.tv_sec += at.tv_nsec / POD_NS_PER_S;
        at.tv_nsec %= POD_NS_PER_S;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
    return NULL;
}

static void produce_start(struct producer *producer)
{
    assert_int_equal(pthread_create(&producer->thread, NULL, produce, producer),
                     0);
}

static void produce_join(struct producer *producer)
{
    assert_int_equal(pthread_join(producer->thread, NULL), 0);
}

// ---------------------------------------------------------------- with drops

// What was read of the lives of operations. Each must be given WAITING, READY,
// RUNNING, SUCCEEDED, in this order, each once.
struct lives {
    unsigned char next[LOAD_OPS + 1];
    size_t messages;
    uint64_t sequence;
    char cursor[64];
};

static uint64_t sequence_of(const json_t *message)
{
    return strtoull(rest_text(message, "cursor") + strlen("test-"), NULL, 10);
}

static void lives_add(struct lives *lives, const json_t *message)
{
    static const char *const states[] = {"WAITING", "READY", "RUNNING",
                                         "SUCCEEDED"};
    const char *cursor = rest_text(message, "cursor");
    uint64_t sequence = sequence_of(message);
    (void)snprintf(lives->cursor, sizeof(lives->cursor), "%s", cursor);
    if (strcmp(rest_text(message, "type"), "bookmark") == 0) {
        assert_true(sequence >= lives->sequence);
        return;
    }
    assert_string_equal(rest_text(message, "type"), "event");
    assert_true(sequence > lives->sequence);
    lives->sequence = sequence;
    const json_t *event = json_object_get(message, "object");
    uint64_t number = number_of(event);
    assert_in_range(number, 1, LOAD_OPS);
    assert_true(lives->next[number] < LOAD_CHANGES_PER_OP);
    assert_string_equal(rest_text(event, "state"),
                        states[lives->next[number]++]);
    lives->messages++;
}

static struct watch_client *reopen(struct rest *rest, const char *cursor,
                                   bool sse)
{
    char target[256];
    char headers[256] = "";
    (void)snprintf(target, sizeof(target), "/v1/watch?topics=events&since=%s",
                   sse ? "snapshot" : cursor);
    if (sse)
        (void)snprintf(headers, sizeof(headers), SSE "Last-Event-ID: %s\r\n",
                       cursor);
    struct watch_client *client = watch_open(port_of(rest), target, headers, 0);
    assert_int_equal(watch_status(client), 200);
    return client;
}

static void drops_lose_and_repeat_nothing(void **state)
{
    struct rest *rest = start();
    struct lives *lives = calloc(1, sizeof(*lives));
    struct producer producer = {
        .rest = rest,
        .count = LOAD_OPS,
        .pause_ns = POD_NS_PER_S * LOAD_CHANGES_PER_OP / LOAD_RATE,
    };
    const size_t all = (size_t)LOAD_OPS * LOAD_CHANGES_PER_OP;
    size_t drops = 0;
    (void)state;
    assert_non_null(lives);
    struct watch_client *client =
        watch_open(port_of(rest), "/v1/watch?topics=events", "", 0);
    produce_start(&producer);
    while (lives->messages < all) {
        json_t *message = watch_next(client);
        assert_non_null(message);
        lives_add(lives, message);
        json_decref(message);
        if (lives->messages < (drops + 1) * all / (LOAD_DROPS + 1) ||
            drops == LOAD_DROPS)
            continue;
        drops++;
        watch_close(client);
        client = reopen(rest, lives->cursor, drops % 2 == 0);
    }
    assert_int_equal(drops, LOAD_DROPS);
    produce_join(&producer);
    for (size_t i = 1; i <= LOAD_OPS; i++)
        assert_int_equal(lives->next[i], LOAD_CHANGES_PER_OP);
    watch_close(client);
    free(lives);
    rest_stop(rest);
}

// ------------------------------------------------------------------ snapshots

enum { SNAPSHOT_OLD = 300, SNAPSHOT_NEW = 300 };
enum { SNAPSHOT_ALL = SNAPSHOT_OLD + SNAPSHOT_NEW };

// The picture that a client makes itself of the events.
struct picture {
    uint64_t revisions[SNAPSHOT_ALL + 1];
    bool done[SNAPSHOT_ALL + 1];
    size_t done_count;
    bool synced;
    char cursor[64];
};

static void picture_add(struct picture *picture, const json_t *message)
{
    const char *type = rest_text(message, "type");
    (void)snprintf(picture->cursor, sizeof(picture->cursor), "%s",
                   rest_text(message, "cursor"));
    if (strcmp(type, "synced") == 0)
        picture->synced = true;
    if (strcmp(type, "event") != 0)
        return;
    const json_t *event = json_object_get(message, "object");
    uint64_t number = number_of(event);
    assert_in_range(number, 1, SNAPSHOT_ALL);
    uint64_t revision = strtoull(rest_text(event, "revision"), NULL, 10);
    // States never go back, and once it is in step nothing comes twice.
    assert_true(picture->synced ? revision > picture->revisions[number]
                                : revision >= picture->revisions[number]);
    picture->revisions[number] = revision;
    if (!json_is_true(json_object_get(event, "done")))
        return;
    picture->done_count += !picture->done[number];
    picture->done[number] = true;
}

// Reads a snapshot and on from it until all operations are done, and drops the
// connection `drops` times inside the snapshot.
static void take_picture(struct rest *rest, size_t drops)
{
    struct picture *picture = calloc(1, sizeof(*picture));
    size_t messages = 0;
    assert_non_null(picture);
    struct watch_client *client = watch_open(
        port_of(rest), "/v1/watch?topics=events&since=snapshot", SSE, 0);
    while (picture->done_count < SNAPSHOT_ALL || !picture->synced) {
        json_t *message = watch_next(client);
        assert_non_null(message);
        picture_add(picture, message);
        json_decref(message);
        if (++messages % 40 != 0 || messages / 40 > drops)
            continue;
        assert_false(picture->synced);
        watch_close(client);
        client = reopen(rest, picture->cursor, true);
    }
    watch_close(client);
    free(picture);
}

static void a_snapshot_of_what_moves(void **state)
{
    static const size_t drops[] = {0, 5};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rest *rest = start();
        struct producer producer = {.rest = rest,
                                    .count = SNAPSHOT_NEW,
                                    .pause_ns = POD_NS_PER_S / 10000};
        for (int k = 0; k < SNAPSHOT_OLD; k++)
            (void)rest_allocate(rest, NULL);
        produce_start(&producer);
        take_picture(rest, drops[i]);
        produce_join(&producer);
        rest_stop(rest);
    }
}

// The snapshot of a pod at rest is what its lists say.
static void a_snapshot_has_all_collections(void **state)
{
    static const char *const order[] = {"host",  "host",  "buffer", "buffer",
                                        "event", "event", "synced"};
    struct rest *rest = start();
    (void)state;
    rest_await_number(rest, rest_allocate(rest, NULL));
    rest_await_number(rest, rest_allocate(rest, NULL));
    struct watch_client *client =
        watch_open(port_of(rest), "/v1/watch?since=snapshot", "", 0);
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        json_t *message = watch_next(client);
        assert_non_null(message);
        assert_string_equal(rest_text(message, "type"), order[i]);
        json_decref(message);
    }
    watch_close(client);
    rest_stop(rest);
}

// --------------------------------------------------------------- slow readers

enum { SLOW_OPS = 12000, SLOW_BUFFER = 4096 };

// Does not read while all of it happens.
static struct watch_client *read_nothing(struct rest *rest, const char *target)
{
    struct watch_client *client =
        watch_open(port_of(rest), target, "", SLOW_BUFFER);
    uint64_t last = 0;
    for (int i = 0; i < SLOW_OPS; i++)
        last = rest_allocate(rest, NULL);
    rest_await_number(rest, last);
    return client;
}

// A reader far behind is given the last state of each operation, and not all
// that were before.
static void a_slow_reader_gets_the_latest(void **state)
{
    struct rest *rest = start();
    struct watch_client *client = read_nothing(rest, "/v1/watch?topics=events");
    unsigned char *done = calloc(SLOW_OPS + 1, 1);
    size_t done_count = 0;
    size_t events = 0;
    (void)state;
    assert_non_null(done);
    while (done_count < SLOW_OPS) {
        json_t *message = watch_next(client);
        assert_non_null(message);
        assert_string_not_equal(rest_text(message, "type"), "resync");
        const json_t *event = json_object_get(message, "object");
        events += event != NULL;
        if (json_is_true(json_object_get(event, "done"))) {
            assert_int_equal(done[number_of(event)]++, 0);
            done_count++;
        }
        json_decref(message);
    }
    assert_true(events < 4 * (size_t)SLOW_OPS);
    watch_close(client);
    free(done);
    rest_stop(rest);
}

// One whose place has left the log is told so, and goes on from the present.
static void a_reader_too_slow_is_told(void **state)
{
    // Of changes that it does not watch it hears by bookmarks.
    struct rest *rest =
        rest_start(&(struct rest_options){.history_count = 100000,
                                          .change_count = 4096,
                                          .limits = {.bookmark_ns = 50000000}});
    struct watch_client *client = read_nothing(rest, "/v1/watch?topics=events");
    uint64_t last = pod_last_change(rest_engine(rest), false);
    uint64_t at = 0;
    bool told = false;
    (void)state;
    // Perhaps several times: until it has caught up.
    while (at < last) {
        json_t *message = watch_next(client);
        assert_non_null(message);
        at = sequence_of(message);
        told = told || strcmp(rest_text(message, "type"), "resync") == 0;
        json_decref(message);
    }
    assert_true(told);
    uint64_t number = rest_allocate(rest, NULL);
    uint64_t seen = 0;
    while (seen != number) {
        json_t *message = watch_next(client);
        assert_non_null(message);
        const json_t *event = json_object_get(message, "object");
        seen = event != NULL ? number_of(event) : 0;
        json_decref(message);
    }
    watch_close(client);
    rest_stop(rest);
}

// --------------------------------------------------------------- many readers

enum { CROWD = 50, CROWD_OPS = 20 };

static void all_read_the_same_bytes(void **state)
{
    struct rest *rest = start();
    struct watch_client *crowd[CROWD];
    (void)state;
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = watch_open(port_of(rest), "/v1/watch?topics=events", "", 0);
        json_decref(watch_next(crowd[i]));
    }
    for (size_t i = 0; i < CROWD_OPS; i++)
        (void)rest_allocate(rest, NULL);
    for (size_t k = 0; k < 4 * (size_t)CROWD_OPS; k++) {
        json_t *first = watch_next(crowd[0]);
        assert_non_null(first);
        for (size_t i = 1; i < CROWD; i++) {
            json_t *message = watch_next(crowd[i]);
            assert_true(json_equal(first, message));
            json_decref(message);
        }
        json_decref(first);
    }
    for (size_t i = 0; i < CROWD; i++)
        watch_close(crowd[i]);
    rest_stop(rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drops_lose_and_repeat_nothing),
        cmocka_unit_test(a_snapshot_of_what_moves),
        cmocka_unit_test(a_snapshot_has_all_collections),
        cmocka_unit_test(a_slow_reader_gets_the_latest),
        cmocka_unit_test(a_reader_too_slow_is_told),
        cmocka_unit_test(all_read_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
