// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/http_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/body.h"
#include "api/http.h"
#include "api/park.h"
#include "api/problem.h"
#include "api/query.h"
#include "core/base/clock.h"
#include "tests/lib/patience.h"

enum {
    FIXTURE_EXACT_BYTES = 1000,
    FIXTURE_MAX_PARKED = 4096,
    FIXTURE_PERIOD = 251, // of the bytes that are sent
};

// Requests that sit in /park; the loop's thread alone touches it.
static struct api_request *fixture_parked[FIXTURE_MAX_PARKED];
static size_t fixture_parked_count;

static void fixture_hello(struct api_request *req)
{
    api_header(req, "Vary", "Accept");
    api_reply_json(req, 200, json_pack("{s:s}", "hello", "world"));
}

static void fixture_echo(struct api_request *req)
{
    json_t *body = api_body_json(req);

    api_reply_json(req, 200, json_incref(body));
}

static void fixture_poke(struct api_request *req)
{
    api_reply_empty(req, 204);
}

static void fixture_thing(struct api_request *req)
{
    struct pod_err err;
    uint64_t n = 0;

    if (api_query_uint(req, "n", 1, 10, &n, &err) != POD_OK ||
        api_query_end(req, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_header(req, "ETag", "\"%u\"", (unsigned)n);
    api_reply_json(req, 200, json_pack("{s:s}", "id", api_param(req, 0)));
}

static void fixture_thing_poke(struct api_request *req)
{
    api_reply_json(req, 200, json_pack("{s:s}", "poked", api_param(req, 0)));
}

static void fixture_accept(struct api_request *req)
{
    static const char *const types[] = {
        "application/octet-stream", "application/x-npy", "application/json"};
    struct pod_err err;
    int index = api_accept(req, types, 3);

    if (index >= 0) {
        api_reply_text(req, 200, "text/plain; charset=utf-8", types[index],
                       strlen(types[index]));
        return;
    }
    (void)pod_err_set(&err, POD_REASON_NOT_ACCEPTABLE, "none of these");
    api_problem(req, &err);
}

static void fixture_rest(struct api_request *req)
{
    const char *rest = api_param(req, 0);

    api_reply_text(req, 200, "text/plain; charset=utf-8", rest, strlen(rest));
}

static void fixture_data(struct api_request *req)
{
    struct fixture *fixture = api_app(req);
    const struct pod_blob *blob = api_body_blob(req);
    json_int_t sum = 0;

    for (size_t i = 0; i < blob->size; i++)
        sum += blob->data[i];
    atomic_fetch_add(&fixture->handled, 1);
    api_reply_json(
        req, 200,
        json_pack("{s:I, s:I}", "bytes", (json_int_t)blob->size, "sum", sum));
}

static void fixture_exact_headers(struct api_request *req)
{
    api_body_exactly(req, FIXTURE_EXACT_BYTES);
}

static uint64_t fixture_number(struct api_request *req, const char *name)
{
    struct pod_err err;
    uint64_t n = 0;

    return api_query_uint(req, name, 0, UINT64_C(1) << 40, &n, &err) == POD_OK
               ? n
               : 0;
}

// A byte is its place modulo FIXTURE_PERIOD. After the first ones it is copied:
// to write each takes race detectors long.
static struct pod_blob *fixture_blob(uint64_t start, size_t size)
{
    struct pod_blob *blob = pod_blob_new(size);
    size_t done = size < FIXTURE_PERIOD ? size : FIXTURE_PERIOD;

    if (blob == NULL)
        return NULL;
    for (size_t i = 0; i < done; i++)
        blob->data[i] = (unsigned char)((start + i) % FIXTURE_PERIOD);
    while (done < size) {
        size_t more = done < size - done ? done : size - done;
        memcpy(blob->data + done, blob->data, more);
        done += more;
    }
    return blob;
}

// Two chunks of unequal size.
static void fixture_bytes(struct api_request *req)
{
    uint64_t size = fixture_number(req, "n");
    uint64_t offset = 0;
    uint64_t length = size;
    struct pod_blob *chunks[2] = {
        fixture_blob(0, (size_t)(size / 3)),
        fixture_blob(size / 3, (size_t)(size - size / 3))};
    int status = api_range_parse(api_request_header(req, "Range"), size,
                                 &offset, &length) == API_RANGE_PART
                     ? 206
                     : 200;

    if (chunks[0] != NULL && chunks[1] != NULL)
        api_reply_blobs(req, status, "application/octet-stream", NULL, chunks,
                        2, offset, length);
    else
        api_reply_json(req, 500, NULL);
    pod_blob_unref(chunks[0]);
    pod_blob_unref(chunks[1]);
}

// ------------------------------------------------------------------ streams

struct fixture_pump {
    struct pod_stream *stream;
    uint64_t size;
    uint64_t pause_ms;
    pthread_mutex_t lock;
    pthread_cond_t room;
    bool has_room;
    bool closed;
};

static void fixture_pump_resume(void *arg, bool closed)
{
    struct fixture_pump *pump = arg;

    pthread_mutex_lock(&pump->lock);
    pump->has_room = true;
    pump->closed |= closed;
    pthread_cond_signal(&pump->room);
    pthread_mutex_unlock(&pump->lock);
}

// Waits until the stream has room; false: its consumer has gone.
static bool fixture_pump_wait(struct fixture_pump *pump, bool room)
{
    pthread_mutex_lock(&pump->lock);
    while (!room && !pump->has_room && !pump->closed)
        pthread_cond_wait(&pump->room, &pump->lock);
    pump->has_room = false;
    bool open = !pump->closed;
    pthread_mutex_unlock(&pump->lock);
    return open;
}

static void *fixture_pump_run(void *arg)
{
    struct fixture_pump *pump = arg;
    uint64_t at = 0;
    bool open = true;
    struct timespec pause = {.tv_nsec = (long)pump->pause_ms * 1000000};

    (void)nanosleep(&pause, NULL);
    while (at < pump->size && open) {
        size_t part = pump->size - at < 100000 ? (size_t)(pump->size - at)
                                               : (size_t)100000;
        bool room = pod_stream_push(pump->stream, fixture_blob(at, part));
        at += part;
        if (at < pump->size)
            open = fixture_pump_wait(pump, room);
    }
    pod_stream_finish(pump->stream, NULL);
    return NULL;
}

static void fixture_stream(struct api_request *req)
{
    struct fixture_pump *pump = calloc(1, sizeof(*pump));
    pthread_t thread;

    if (pump == NULL)
        abort();
    uint64_t size = fixture_number(req, "n");
    pump->size = size - fixture_number(req, "missing");
    pump->pause_ms = fixture_number(req, "pause");
    pump->stream = api_stream_open(req, 1 << 20);
    pthread_mutex_init(&pump->lock, NULL);
    pthread_cond_init(&pump->room, NULL);
    pod_stream_on_resume(pump->stream, fixture_pump_resume, pump);
    pod_stream_on_release(pump->stream, free);
    struct pod_blob *prefix = fixture_blob(0, 0);
    api_reply_stream(req, 200, "application/octet-stream", prefix, size);
    pod_blob_unref(prefix);
    if (pthread_create(&thread, NULL, fixture_pump_run, pump) != 0)
        abort();
    pthread_detach(thread);
}

// ------------------------------------------------------------------- parking

static void fixture_parked_gone(void *arg)
{
    struct api_request *req = arg;
    struct fixture *fixture = api_app(req);

    for (size_t i = 0; i < fixture_parked_count; i++) {
        if (fixture_parked[i] == req)
            fixture_parked[i--] = fixture_parked[--fixture_parked_count];
    }
    atomic_fetch_add(&fixture->released, 1);
}

static void fixture_resumed(struct api_request *req, enum api_wake why)
{
    static const char *const names[] = {"EVENT", "TIMEOUT", "DRAIN"};

    api_reply_json(req, 200, json_pack("{s:s}", "why", names[why]));
}

static void fixture_park(struct api_request *req)
{
    struct pod_err err;
    int64_t wait = 30 * POD_NS_PER_S;

    if (api_wait_time(req, &wait, NULL, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    if (fixture_parked_count == FIXTURE_MAX_PARKED)
        abort();
    fixture_parked[fixture_parked_count++] = req;
    if (!api_defer(req, fixture_parked_gone, req) ||
        api_park(req, api_now(req) + wait, fixture_resumed, &err) != POD_OK)
        api_problem(req, &err);
}

static void fixture_wake(struct api_request *req)
{
    for (size_t i = 0; i < fixture_parked_count; i++)
        api_wake(fixture_parked[i]);
    api_reply_empty(req, 204);
}

static void fixture_spun(struct api_request *req, enum api_wake why)
{
    struct pod_err err;

    (void)why;
    if (api_park(req, 0, fixture_spun, &err) != POD_OK)
        api_problem(req, &err);
}

static void fixture_spin(struct api_request *req)
{
    fixture_spun(req, API_WAKE_EVENT);
}

static void fixture_silent(struct api_request *req)
{
    (void)req;
}

static const struct api_route fixture_routes[] = {
    {.method = API_GET, .pattern = "/hello", .handle = fixture_hello},
    {.method = API_POST,
     .pattern = "/echo",
     .handle = fixture_echo,
     .body = API_BODY_JSON},
    {.method = API_POST,
     .pattern = "/poke",
     .handle = fixture_poke,
     .body = API_BODY_OPTIONAL_JSON},
    {.method = API_GET, .pattern = "/things/{id}", .handle = fixture_thing},
    {.method = API_DELETE, .pattern = "/things/{id}", .handle = fixture_poke},
    {.method = API_POST,
     .pattern = "/things/{id}:poke",
     .handle = fixture_thing_poke},
    {.method = API_GET, .pattern = "/rest/{path*}", .handle = fixture_rest},
    {.method = API_PUT,
     .pattern = "/data",
     .handle = fixture_data,
     .body = API_BODY_DATA},
    {.method = API_PUT,
     .pattern = "/exact",
     .handle = fixture_data,
     .on_headers = fixture_exact_headers,
     .body = API_BODY_DATA},
    {.method = API_GET, .pattern = "/accept", .handle = fixture_accept},
    {.method = API_GET, .pattern = "/bytes", .handle = fixture_bytes},
    {.method = API_GET, .pattern = "/stream", .handle = fixture_stream},
    {.method = API_GET, .pattern = "/park", .handle = fixture_park},
    {.method = API_POST, .pattern = "/wake", .handle = fixture_wake},
    {.method = API_GET, .pattern = "/spin", .handle = fixture_spin},
    {.method = API_GET, .pattern = "/silent", .handle = fixture_silent},
};

// -------------------------------------------------------------------- server

static bool fixture_take(void *arg, size_t bytes)
{
    struct fixture *fixture = arg;

    if (atomic_fetch_add(&fixture->staging_used, bytes) + bytes <=
        fixture->staging_max)
        return true;
    atomic_fetch_sub(&fixture->staging_used, bytes);
    return false;
}

static void fixture_give(void *arg, size_t bytes)
{
    struct fixture *fixture = arg;

    atomic_fetch_sub(&fixture->staging_used, bytes);
}

static void fixture_usage(void *arg, uint64_t *out_used, uint64_t *out_max)
{
    const struct fixture *fixture = arg;

    *out_used = atomic_load(&fixture->staging_used);
    *out_max = fixture->staging_max;
}

struct fixture *fixture_start(const struct api_limits *limits,
                              uint64_t staging_max)
{
    static const char *const hosts[] = {"pod.example"};
    static const char *const origins[] = {"https://friend.example"};
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct pod_err err;

    if (fixture == NULL)
        abort();
    fixture->staging_max = staging_max;
    struct api_server_options options = {
        .listen = "127.0.0.1:0",
        .allowed_hosts = hosts,
        .allowed_host_count = 1,
        .allowed_origins = origins,
        .allowed_origin_count = 1,
        .routes = fixture_routes,
        .route_count = sizeof(fixture_routes) / sizeof(fixture_routes[0]),
        .staging = {.take = fixture_take,
                    .give = fixture_give,
                    .usage = fixture_usage,
                    .arg = fixture},
        .app = fixture,
    };
    if (limits != NULL)
        options.limits = *limits;
    patient_limits(&options.limits);
    if (api_server_new(&options, &fixture->server, &err) != POD_OK ||
        api_server_start(fixture->server, &err) != POD_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        abort();
    }
    fixture->port = api_server_port(fixture->server);
    return fixture;
}

void fixture_stop(struct fixture *fixture)
{
    api_server_stop(fixture->server, POD_NS_PER_S);
    api_server_free(fixture->server);
    free(fixture);
}

enum fixture_count { FIXTURE_PARKED, FIXTURE_CONNECTIONS, FIXTURE_REFUSED };

static uint64_t fixture_count_of(const struct fixture *fixture,
                                 enum fixture_count which)
{
    struct api_server_counts counts;

    api_server_counts(fixture->server, &counts);
    switch (which) {
    case FIXTURE_PARKED:
        return counts.parked;
    case FIXTURE_REFUSED:
        return counts.refused;
    case FIXTURE_CONNECTIONS:
        break;
    }
    return counts.connections;
}

// The server tells nobody when its counters change: look now and then.
static bool fixture_await(const struct fixture *fixture,
                          enum fixture_count which, uint64_t wanted)
{
    struct timespec pause = {.tv_nsec = 1000000};
    int64_t until_ns =
        pod_clock_mono(&pod_clock_system) + PATIENCE_S * POD_NS_PER_S;

    while (pod_clock_mono(&pod_clock_system) < until_ns) {
        if (fixture_count_of(fixture, which) == wanted)
            return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

bool fixture_await_parked(const struct fixture *fixture, uint64_t parked)
{
    return fixture_await(fixture, FIXTURE_PARKED, parked);
}

bool fixture_await_connections(const struct fixture *fixture, uint64_t count)
{
    return fixture_await(fixture, FIXTURE_CONNECTIONS, count);
}

bool fixture_await_refused(const struct fixture *fixture, uint64_t count)
{
    return fixture_await(fixture, FIXTURE_REFUSED, count);
}
