// SPDX-License-Identifier: Apache-2.0
// How the gRPC driver tells of what one message answers: with gRPC replaced, so
// that the test says which outcomes come in which message.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/base/mem.h"
#include "pod_worker.pb-c.h"
#include "proto/grpc_driver.h"
#include "tests/fuzz/lib/fake_host.h"
#include "tpu_service.pb-c.h"

enum {
    CALLS_MAX = 80,
    OUTCOMES_MAX = 80,
    BYTES_MAX = 1 << 14,
    LOG_BYTES = 1024,
    LOG_RANK = 85,
    WIRE_BITS = 44, // the plain protocol has the client above the number
    YIELDS = 2000,
};

struct peer {
    bool plain;
    struct pod_mutex lock; // guards the rest
    struct pod_cond changed;
    struct rpc_stream *streams[2];
    int stream_count;
    bool ready;
    int told;            // calls
    char log[LOG_BYTES]; // what was told, in that order
    bool holds;          // done_well waits until it does not
    bool held;
    struct pod_grpc_hub *hub;
    struct pod_driver *driver;
};

struct record {
    struct peer *peer;
    int number;
};

static struct record records[CALLS_MAX + 1];

// ------------------------------------------------------------------ the worker

static void on_opened(void *arg, const char *method,
                      struct rpc_stream *owned_stream)
{
    struct peer *peer = arg;

    (void)method;
    pod_mutex_lock(&peer->lock);
    if (peer->stream_count < 2)
        peer->streams[peer->stream_count++] = owned_stream;
    else
        rpc_stream_unref(owned_stream); // of a later connection
    pod_mutex_unlock(&peer->lock);
}

static void on_called(void *arg, const char *method,
                      struct rpc_call *owned_call)
{
    const struct peer *peer = arg;

    fake_host_called(peer->plain, method, owned_call);
}

// -------------------------------------------------------------- the observer

__attribute__((format(printf, 2, 3))) static void
log_locked(struct peer *peer, const char *format, ...)
{
    size_t used = strlen(peer->log);
    va_list list;

    va_start(list, format);
    int more =
        vsnprintf(peer->log + used, sizeof(peer->log) - used, format, list);
    va_end(list);
    assert_true(more > 0 && (size_t)more < sizeof(peer->log) - used);
    pod_cond_broadcast(&peer->changed);
}

static void on_ready(void *arg, const struct pod_driver_info *info)
{
    struct peer *peer = arg;

    (void)info;
    pod_mutex_lock(&peer->lock);
    peer->ready = true;
    pod_cond_broadcast(&peer->changed);
    pod_mutex_unlock(&peer->lock);
}

static void on_lost(void *arg, const struct pod_err *err)
{
    struct peer *peer = arg;

    (void)err;
    pod_mutex_lock(&peer->lock);
    log_locked(peer, "lost ");
    pod_mutex_unlock(&peer->lock);
}

static void on_beat(void *arg, const struct pod_driver_load *load)
{
    (void)arg;
    (void)load;
}

// "[1 2+ 3] ": together; + : and it had begun.
static void on_done_well(void *arg, const struct pod_driver_well *calls,
                         size_t count)
{
    struct peer *peer = arg;

    pod_mutex_lock(&peer->lock);
    log_locked(peer, "[");
    for (size_t i = 0; i < count; i++) {
        const struct record *record = calls[i].arg;
        log_locked(peer, "%s%d%s", i == 0 ? "" : " ", record->number,
                   calls[i].begun ? "+" : "");
    }
    peer->held = true;
    pod_cond_broadcast(&peer->changed);
    while (peer->holds)
        pod_cond_wait(&peer->changed, &peer->lock);
    log_locked(peer, "] ");
    peer->told += (int)count;
    pod_mutex_unlock(&peer->lock);
}

static void on_started(void *arg)
{
    const struct record *record = arg;

    pod_mutex_lock(&record->peer->lock);
    log_locked(record->peer, "begun:%d ", record->number);
    pod_mutex_unlock(&record->peer->lock);
}

static void on_done(void *arg, const struct pod_driver_result *result)
{
    const struct record *record = arg;
    const char *how = "done";

    if (result->err.code != POD_OK)
        how = result->lost ? "lost" : "bad";
    pod_mutex_lock(&record->peer->lock);
    log_locked(record->peer, "%s:%d%s ", how, record->number,
               result->begun ? "+" : "");
    record->peer->told++;
    pod_mutex_unlock(&record->peer->lock);
}

// ------------------------------------------------------------------- a driver

static void start(struct peer *peer, bool plain, bool together)
{
    const struct fake_rpc_peer other = {
        .opened = on_opened, .called = on_called, .arg = peer};
    struct pod_driver_observer observer = {
        .ready = on_ready,
        .lost = on_lost,
        .heartbeat = on_beat,
        .done_well = together ? on_done_well : NULL,
        .arg = peer,
    };
    struct pod_grpc_options options = {.address = "fake:1",
                                       .heartbeat_ns = 600 * POD_NS_PER_S,
                                       .backoff_min_ns = 600 * POD_NS_PER_S,
                                       .backoff_max_ns = 600 * POD_NS_PER_S};

    memset(peer, 0, sizeof(*peer));
    peer->plain = plain;
    pod_mutex_init(&peer->lock, LOG_RANK, "peer");
    pod_cond_init(&peer->changed);
    fake_rpc_set_peer(&other);
    assert_int_equal(pod_grpc_hub_new(NULL, &peer->hub, NULL), POD_OK);
    options.hub = peer->hub;
    assert_int_equal(pod_grpc_driver_new(&options, &peer->driver, NULL),
                     POD_OK);
    peer->driver->ops->open(peer->driver, &observer);
    pod_mutex_lock(&peer->lock);
    while (!peer->ready)
        pod_cond_wait(&peer->changed, &peer->lock);
    pod_mutex_unlock(&peer->lock);
}

static void finish(struct peer *peer)
{
    peer->driver->ops->close(peer->driver);
    peer->driver->ops->free(peer->driver);
    pod_grpc_hub_free(peer->hub);
    rpc_stream_unref(peer->streams[0]);
    rpc_stream_unref(peer->streams[1]);
    pod_cond_fini(&peer->changed);
    pod_mutex_fini(&peer->lock);
    assert_int_equal(pod_mem_live(), 0);
}

// The call with that number, which is also its number on the wire: numbers are
// given in the order of the calls, from 1.
static struct pod_driver_call call_of(struct peer *peer, int number)
{
    records[number] = (struct record){.peer = peer, .number = number};
    return (struct pod_driver_call){
        .op = (uint64_t)number,
        .started = on_started,
        .done = on_done,
        .arg = &records[number],
    };
}

static void allocate(struct peer *peer, int first, int last)
{
    for (int i = first; i <= last; i++) {
        const struct pod_driver_call call = call_of(peer, i);
        peer->driver->ops->allocate(peer->driver, &call, 0, NULL, 8);
    }
}

// ------------------------------------------------------------------- messages

struct said {
    uint64_t number;
    bool started; // has begun, and
    bool only;    // no more than that
    bool bad;
};

static size_t pack_pod(const struct said *said, size_t count,
                       uint8_t bytes[BYTES_MAX])
{
    static Pod__Worker__V1__Outcome outcomes[OUTCOMES_MAX];
    Pod__Worker__V1__Outcome *pointers[OUTCOMES_MAX];
    Pod__Worker__V1__SessionResponse message =
        POD__WORKER__V1__SESSION_RESPONSE__INIT;
    Pod__Worker__V1__Status good, bad;
    static char text[] = "bad";

    pod__worker__v1__status__init(&good);
    pod__worker__v1__status__init(&bad);
    bad.code = POD_INTERNAL;
    bad.message = bad.reason = text;
    for (size_t i = 0; i < count; i++) {
        pod__worker__v1__outcome__init(&outcomes[i]);
        outcomes[i].op = said[i].number;
        outcomes[i].started = said[i].started || said[i].only;
        if (!said[i].only)
            outcomes[i].status = said[i].bad ? &bad : &good;
        pointers[i] = &outcomes[i];
    }
    message.n_outcomes = count;
    message.outcomes = pointers;
    assert_true(protobuf_c_message_get_packed_size(&message.base) < BYTES_MAX);
    return protobuf_c_message_pack(&message.base, bytes);
}

static size_t pack_plain(const struct said *said, size_t count,
                         uint8_t bytes[BYTES_MAX])
{
    static TpuDriver__StreamResponse__Entry entries[OUTCOMES_MAX];
    TpuDriver__StreamResponse__Entry *pointers[OUTCOMES_MAX];
    TpuDriver__StreamResponse message = TPU_DRIVER__STREAM_RESPONSE__INIT;
    TpuDriver__StatusMessage good = TPU_DRIVER__STATUS_MESSAGE__INIT;
    TpuDriver__StatusMessage bad = TPU_DRIVER__STATUS_MESSAGE__INIT;

    bad.code = POD_INTERNAL;
    for (size_t i = 0; i < count; i++) {
        assert_false(said[i].started || said[i].only);
        tpu_driver__stream_response__entry__init(&entries[i]);
        entries[i].operation_id =
            (int64_t)((uint64_t)FAKE_HOST_CLIENT << WIRE_BITS | said[i].number);
        entries[i].status = said[i].bad ? &bad : &good;
        pointers[i] = &entries[i];
    }
    message.n_entry = count;
    message.entry = pointers;
    assert_true(protobuf_c_message_get_packed_size(&message.base) < BYTES_MAX);
    return protobuf_c_message_pack(&message.base, bytes);
}

// One message, and bytes behind that.
static void deliver(struct peer *peer, const struct said *said, size_t count,
                    const char *rest)
{
    uint8_t bytes[BYTES_MAX + 8];
    size_t size = peer->plain ? pack_plain(said, count, bytes)
                              : pack_pod(said, count, bytes);

    memcpy(bytes + size, rest, strlen(rest));
    fake_rpc_deliver(peer->streams[0], bytes, size + strlen(rest));
}

// Waits until so many calls were told of in all; then that is what was told.
static void expect(struct peer *peer, int told, const char *log)
{
    pod_mutex_lock(&peer->lock);
    while (peer->told < told)
        pod_cond_wait(&peer->changed, &peer->lock);
    assert_string_equal(peer->log, log);
    pod_mutex_unlock(&peer->lock);
}

// ---------------------------------------------------------------------- tests

// state: NULL, or that the worker speaks the plain protocol.
static void test_good_outcomes_are_told_at_once(void **state)
{
    static const struct said said[] = {
        {.number = 2}, {.number = 1}, {.number = 3}};
    struct peer peer;

    start(&peer, *state != NULL, true);
    allocate(&peer, 1, 4);
    deliver(&peer, said, 3, "");
    expect(&peer, 3, "[2 1 3] ");
    deliver(&peer, &(struct said){.number = 4}, 1, "");
    expect(&peer, 4, "[2 1 3] [4] ");
    finish(&peer);
}

static void test_each_alone_for_who_does_not_want_them(void **state)
{
    static const struct said said[] = {
        {.number = 2}, {.number = 1}, {.number = 3, .bad = true}};
    struct peer peer;

    start(&peer, *state != NULL, false);
    allocate(&peer, 1, 3);
    deliver(&peer, said, 3, "");
    expect(&peer, 3, "done:2 done:1 bad:3 ");
    finish(&peer);
}

static void read_of(struct peer *peer, int number)
{
    const struct pod_driver_call call = call_of(peer, number);

    peer->driver->ops->read(peer->driver, &call, 1, 0, 8);
}

static void compile(struct peer *peer, int number)
{
    static const char text[] = "HloModule m\n"
                               "ENTRY e {\n"
                               "  ROOT p = f32[2] parameter(0)\n"
                               "}\n";
    const struct pod_driver_call call = call_of(peer, number);
    struct pod_blob *blob = pod_blob_new(strlen(text));

    assert_non_null(blob);
    memcpy(blob->data, text, blob->size);
    peer->driver->ops->compile(peer->driver, &call, POD_FORMAT_HLO_TEXT, blob,
                               1);
    pod_blob_unref(blob);
}

// A read without its bytes and a program without its signature are not well,
// whatever the worker says.
static void test_others_are_told_alone_and_in_order(void **state)
{
    static const struct said said[] = {
        {.number = 1}, {.number = 2}, {.number = 3, .bad = true},
        {.number = 4}, {.number = 5}, {.number = 6},
        {.number = 7}, {.number = 8}, {.number = 9},
    };
    struct peer peer;

    start(&peer, *state != NULL, true);
    allocate(&peer, 1, 4);
    read_of(&peer, 5);
    allocate(&peer, 6, 6);
    compile(&peer, 7);
    allocate(&peer, 8, 9);
    deliver(&peer, said, 9, "");
    expect(&peer, 9, "[1 2] bad:3 [4] bad:5 [6] bad:7 [8 9] ");
    finish(&peer);
}

static void test_more_than_are_told_at_once(void **state)
{
    enum { MANY = 70, AT_ONCE = 64 };
    struct said said[MANY];
    char expected[LOG_BYTES] = "[";
    struct peer peer;

    start(&peer, *state != NULL, true);
    allocate(&peer, 1, MANY);
    for (int i = 0; i < MANY; i++) {
        size_t used = strlen(expected);
        said[i] = (struct said){.number = (uint64_t)i + 1};
        snprintf(expected + used, sizeof(expected) - used, "%d%s", i + 1,
                 i == MANY - 1      ? "] "
                 : i == AT_ONCE - 1 ? "] ["
                                    : " ");
    }
    deliver(&peer, said, MANY, "");
    expect(&peer, MANY, expected);
    finish(&peer);
}

static void test_unknown_and_repeated_numbers(void **state)
{
    static const struct said said[] = {{.number = 1}, {.number = 999},
                                       {.number = 1}, {.number = 2},
                                       {.number = 0}, {.number = 2}};
    struct peer peer;

    start(&peer, *state != NULL, true);
    allocate(&peer, 1, 3);
    deliver(&peer, said, 6, "");
    deliver(&peer, &(struct said){.number = 3}, 1, "");
    expect(&peer, 3, "[1] [2] [3] ");
    finish(&peer);
}

// What came before the words that are none was said all the same.
static void test_a_message_that_turns_bad(void **state)
{
    static const struct said said[] = {{.number = 1}, {.number = 2}};
    struct peer peer;

    start(&peer, *state != NULL, true);
    allocate(&peer, 1, 3);
    deliver(&peer, said, 2, "\xff");
    expect(&peer, 3, "[1 2] lost lost:3 ");
    finish(&peer);
}

static void *close_it(void *arg)
{
    struct peer *peer = arg;

    peer->driver->ops->close(peer->driver);
    pod_mutex_lock(&peer->lock);
    log_locked(peer, "closed ");
    pod_mutex_unlock(&peer->lock);
    return NULL;
}

static void *lose_it(void *arg)
{
    struct peer *peer = arg;

    peer->driver->ops->reconnect(peer->driver);
    return NULL;
}

// Does something while the observer is being told of the first of two calls.
// That takes long enough here for a driver that does not wait until it has been
// to be caught, as a rule.
static void meanwhile(struct peer *peer, void *(*what)(void *arg))
{
    pthread_t thread;

    allocate(peer, 1, 2);
    peer->holds = true;
    deliver(peer, &(struct said){.number = 1}, 1, "");
    pod_mutex_lock(&peer->lock);
    while (!peer->held)
        pod_cond_wait(&peer->changed, &peer->lock);
    pod_mutex_unlock(&peer->lock);
    assert_int_equal(pthread_create(&thread, NULL, what, peer), 0);
    for (int i = 0; i < YIELDS; i++)
        sched_yield();
    pod_mutex_lock(&peer->lock);
    peer->holds = false;
    pod_cond_broadcast(&peer->changed);
    pod_mutex_unlock(&peer->lock);
    pthread_join(thread, NULL);
}

static void test_a_close_waits(void **state)
{
    struct peer peer;

    start(&peer, *state != NULL, true);
    meanwhile(&peer, close_it);
    expect(&peer, 2, "[1] bad:2 closed ");
    finish(&peer);
}

static void test_a_loss_waits(void **state)
{
    struct peer peer;

    start(&peer, *state != NULL, true);
    meanwhile(&peer, lose_it);
    expect(&peer, 2, "[1] lost lost:2 ");
    finish(&peer);
}

// ------------------------------------------------------- one protocol alone

// One that has begun is told so alone; one that is told to have begun and to be
// done begins once.
static void test_beginnings(void **state)
{
    static const struct said said[] = {
        {.number = 1, .started = true},
        {.number = 2, .only = true},
        {.number = 2, .started = true},
        {.number = 3, .started = true},
        {.number = 4},
    };
    struct peer peer;

    (void)state;
    start(&peer, false, true);
    allocate(&peer, 1, 4);
    deliver(&peer, said, 5, "");
    expect(&peer, 4, "[1+] begun:2 [2 3+ 4] ");
    finish(&peer);
}

// A reset ends what came before it, but for what was answered before.
static void test_a_reset(void **state)
{
    static const struct said said[] = {
        {.number = 1}, {.number = 3}, {.number = 2}, {.number = 4}};
    struct peer peer;

    (void)state;
    start(&peer, false, true);
    allocate(&peer, 1, 2);
    const struct pod_driver_call call = call_of(&peer, 3);
    peer.driver->ops->reset(peer.driver, &call);
    allocate(&peer, 4, 4);
    deliver(&peer, said, 4, "");
    expect(&peer, 4, "[1] bad:2 done:3 [4] ");
    finish(&peer);
}

// A gang has a number for each of its replicas here, and is done with the last.
static void test_an_execution_of_two_parts(void **state)
{
    static const struct said said[] = {
        {.number = 1}, {.number = 2}, {.number = 4}, {.number = 3}};
    const uint64_t buffer = 1;
    const uint32_t zeros[] = {0, 0};
    const struct pod_driver_launch launch = {.load = 1,
                                             .inputs = &buffer,
                                             .input_count = 1,
                                             .outputs = &buffer,
                                             .output_count = 1};
    const struct pod_driver_launch launches[] = {launch, launch};
    const struct pod_driver_execute execute = {.launches = launches,
                                               .launch_count = 2,
                                               .replica_count = 2,
                                               .replica_hosts = zeros,
                                               .replica_cores = zeros,
                                               .replica_worker_cores = zeros};
    struct peer peer;

    (void)state;
    start(&peer, true, true);
    allocate(&peer, 1, 1);
    const struct pod_driver_call call = call_of(&peer, 2);
    peer.driver->ops->execute(peer.driver, &call, &execute);
    const struct pod_driver_call last = call_of(&peer, 3);
    peer.driver->ops->allocate(peer.driver, &last, 0, NULL, 8);
    // Its parts are 2 and 3, so the last call is 4 for the worker.
    deliver(&peer, said, 4, "");
    expect(&peer, 3, "[1] [3] done:2 ");
    finish(&peer);
}

int main(void)
{
    static char plain[] = "plain";
#define BOTH(name)                                                             \
    {#name, name, NULL, NULL, NULL},                                           \
    {                                                                          \
#name ", plain", name, NULL, NULL, plain                               \
    }
    const struct CMUnitTest tests[] = {
        BOTH(test_good_outcomes_are_told_at_once),
        BOTH(test_each_alone_for_who_does_not_want_them),
        BOTH(test_others_are_told_alone_and_in_order),
        BOTH(test_more_than_are_told_at_once),
        BOTH(test_unknown_and_repeated_numbers),
        BOTH(test_a_message_that_turns_bad),
        BOTH(test_a_close_waits),
        BOTH(test_a_loss_waits),
        cmocka_unit_test(test_beginnings),
        cmocka_unit_test(test_a_reset),
        cmocka_unit_test(test_an_execution_of_two_parts),
    };

    (void)setenv("CMOCKA_TEST_ABORT", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
