// SPDX-License-Identifier: Apache-2.0
// Both sides of gRPC in one process, over real sockets: a server that echoes,
// refuses and streams, and a channel to it.
#ifndef TESTS_WIRE_RPC_FIXTURE_H
#define TESTS_WIRE_RPC_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "proto/rpc_client.h"
#include "proto/rpc_internal.h"
#include "proto/rpc_server.h"

// Seconds for anything that should come soon, on a machine that is busy.
enum { MAX_TEXT = 256, WAIT_S = 60, BATCH = 100 };

// What a side has seen, for a test that waits for it.
struct seen {
    struct pod_mutex lock;
    struct pod_cond changed;
    size_t messages;
    size_t bytes;
    size_t most; // bytes of the largest message
    size_t last_size;
    unsigned char last[MAX_TEXT];
    size_t drained;
    size_t half_closed;
    size_t ended;
    enum pod_code code;
    char text[MAX_TEXT];
    struct rpc_stream *stream;
    struct rpc_request *held; // the first
    bool let_go;              // of it, and of all that come
    bool opened;
    void (*on_message)(void *arg, const void *data, size_t size);
    struct pod_blob *kept;
    struct pod_blob *kept_end;
    bool uncopied;
    bool end_uncopied;
};

struct fixture {
    struct rpc_loop *loop;
    struct rpc_server *server;
    struct rpc_channel *channel;
    struct seen client;
    struct seen served;
};

static inline void seen_init(struct seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    pod_mutex_init(&seen->lock, 1, "seen");
    pod_cond_init(&seen->changed);
}

static inline void seen_fini(struct seen *seen)
{
    pod_cond_fini(&seen->changed);
    pod_mutex_fini(&seen->lock);
}

static inline void seen_done_locked(struct seen *seen)
{
    pod_cond_broadcast(&seen->changed);
    pod_mutex_unlock(&seen->lock);
}

// Waits until the counter is at least `count`.
static inline void await(struct seen *seen, const size_t *counter, size_t count)
{
    int64_t until = pod_clock_mono(&pod_clock_system) + WAIT_S * POD_NS_PER_S;
    pod_mutex_lock(&seen->lock);
    bool came = true;
    while (*counter < count && came)
        came = pod_cond_wait_until(&seen->changed, &seen->lock, until);
    pod_mutex_unlock(&seen->lock);
    assert_true(came);
}

static inline void on_message(void *arg, const void *data, size_t size)
{
    struct seen *seen = arg;
    pod_mutex_lock(&seen->lock);
    seen->messages++;
    seen->bytes += size;
    seen->most = size > seen->most ? size : seen->most;
    seen->last_size = size;
    memcpy(seen->last, data, size < MAX_TEXT ? size : MAX_TEXT);
    seen_done_locked(seen);
}

static inline void on_half_closed(void *arg)
{
    struct seen *seen = arg;
    pod_mutex_lock(&seen->lock);
    seen->half_closed++;
    seen_done_locked(seen);
}

static inline void on_drained(void *arg)
{
    struct seen *seen = arg;
    pod_mutex_lock(&seen->lock);
    seen->drained++;
    seen_done_locked(seen);
}

static inline void on_ended(void *arg, enum pod_code code, const char *text)
{
    struct seen *seen = arg;
    pod_mutex_lock(&seen->lock);
    seen->ended++;
    seen->code = code;
    (void)snprintf(seen->text, sizeof(seen->text), "%s", text);
    seen_done_locked(seen);
}

static inline void on_reply(void *arg, const struct rpc_reply *reply)
{
    if (reply->code == POD_OK)
        on_message(arg, reply->data, reply->size);
    on_ended(arg, reply->code, reply->text);
}

static inline struct pod_wire_out *bytes_out(const void *data, size_t size)
{
    struct pod_wire_out *out = pod_wire_out_new(size);
    assert_non_null(out);
    memcpy(out->head, data, size);
    return out;
}

static inline void serve_echo(void *arg, struct rpc_request *request,
                              const void *data, size_t size)
{
    on_message(arg, data, size);
    rpc_request_reply(request, bytes_out(data, size));
}

static inline void serve_refuse(void *arg, struct rpc_request *request,
                                const void *data, size_t size)
{
    (void)arg;
    (void)data;
    (void)size;
    rpc_request_fail(request, POD_FAILED_PRECONDITION, "not today");
}

static inline void serve_hold(void *arg, struct rpc_request *request,
                              const void *data, size_t size)
{
    struct seen *seen = arg;
    (void)data;
    (void)size;
    pod_mutex_lock(&seen->lock);
    bool hold = seen->held == NULL && !seen->let_go;
    if (hold)
        seen->held = request;
    seen->messages++;
    seen_done_locked(seen);
    if (!hold)
        rpc_request_fail(request, POD_OK, "");
}

static inline void let_go(struct seen *seen)
{
    pod_mutex_lock(&seen->lock);
    struct rpc_request *held = seen->held;
    seen->held = NULL;
    seen->let_go = true;
    pod_mutex_unlock(&seen->lock);
    assert_non_null(held);
    rpc_request_fail(held, POD_OK, "");
}

static inline void serve_stream(void *arg, struct rpc_stream *stream,
                                struct rpc_stream_events *events,
                                void **out_arg)
{
    struct seen *seen = arg;
    *events = (struct rpc_stream_events){
        .message = seen->on_message != NULL ? seen->on_message : on_message,
        .half_closed = on_half_closed,
        .drained = on_drained,
        .ended = on_ended};
    *out_arg = seen;
    pod_mutex_lock(&seen->lock);
    seen->stream = stream;
    seen->opened = true;
    seen_done_locked(seen);
}

static const struct rpc_stream_settings settings = {.batch_bytes = 1 << 20,
                                                    .batch_count = BATCH,
                                                    .high_water = 1 << 20,
                                                    .low_water = 1 << 18};

static inline void serve_at(struct fixture *f, const char *listen,
                            const struct rpc_tls *tls)
{
    struct pod_err err = POD_ERR_NONE;
    const struct rpc_method methods[] = {
        {.path = "/t.S/Echo", .arg = &f->served, .unary = serve_echo},
        {.path = "/t.S/Refuse", .arg = &f->served, .unary = serve_refuse},
        {.path = "/t.S/Hold", .arg = &f->served, .unary = serve_hold},
        {.path = "/t.S/Stream",
         .arg = &f->served,
         .opened = serve_stream,
         .settings = settings},
    };
    struct rpc_server_options options = {
        .listen = listen, .tls = tls, .methods = methods, .method_count = 4};
    if (rpc_server_new(f->loop, &options, &f->server, &err) != POD_OK)
        fail_msg("%s", err.text);
}

static inline int setup_at(struct fixture *f, const char *listen,
                           const char *target, const struct rpc_tls *tls,
                           const struct rpc_tls *client_tls)
{
    struct pod_err err = POD_ERR_NONE;
    seen_init(&f->client);
    seen_init(&f->served);
    assert_int_equal(rpc_loop_new(&f->loop, &err), POD_OK);
    serve_at(f, listen, tls);
    struct rpc_channel_options to = {
        .target = target != NULL ? target : rpc_server_address(f->server),
        .tls = client_tls};
    assert_int_equal(rpc_channel_new(f->loop, &to, &f->channel, &err), POD_OK);
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    rpc_channel_free(f->channel);
    rpc_server_stop(f->server, 0);
    rpc_stream_unref(f->client.stream);
    rpc_stream_unref(f->served.stream);
    rpc_server_free(f->server);
    rpc_loop_free(f->loop);
    seen_fini(&f->client);
    seen_fini(&f->served);
    free(f);
    return 0;
}

static inline void call_text(struct fixture *f, const char *method,
                             const char *text, int64_t timeout_ns,
                             struct rpc_call **out_call)
{
    struct pod_err err = POD_ERR_NONE;
    struct rpc_unary unary = {.method = method,
                              .timeout_ns = timeout_ns,
                              .done = on_reply,
                              .arg = &f->client};
    assert_int_equal(rpc_unary_start(f->channel, &unary,
                                     bytes_out(text, strlen(text)), out_call,
                                     &err),
                     POD_OK);
}

#endif
