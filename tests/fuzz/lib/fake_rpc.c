// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/lib/fake_rpc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/list.h"
#include "core/base/lock.h"

// Its memory is not the project's: nothing of it may fail, or count.
static void *fake_new(size_t bytes)
{
    void *block = calloc(1, bytes);

    if (block == NULL)
        abort();
    return block;
}

// Something to be done by a loop's thread.
struct fake_event {
    struct pod_list link;
    void (*run)(struct fake_event *event);
    void *target;
    enum pod_code code;
    size_t size;
    unsigned char data[];
};

struct rpc_loop {
    struct pod_mutex lock;
    struct pod_cond wake;
    struct pod_list events;
    bool stopping;
    pthread_t thread;
};

struct rpc_channel {
    struct rpc_loop *loop;
};

struct rpc_stream {
    atomic_int refs;
    struct rpc_loop *loop;
    const struct rpc_method *method; // of a server's
    struct rpc_stream_events events;
    void *arg;
    struct pod_mutex lock; // guards the rest
    struct pod_cond changed;
    struct pod_list inbox; // struct fake_event; the end is the last
    bool turn;             // an event for its inbox is under way
    bool ending;           // nothing more may be put in
    bool paused;
    bool ended;
};

struct rpc_call {
    atomic_int refs;
    atomic_bool answered;
    struct rpc_loop *loop;
    struct rpc_unary unary;
};

struct rpc_request {
    struct pod_mutex lock;
    struct pod_cond changed;
    bool answered;
    struct pod_wire_out *reply;
    const struct rpc_method *method;
};

static struct fake_rpc_peer fake_peer;

void fake_rpc_set_peer(const struct fake_rpc_peer *peer)
{
    fake_peer = *peer;
}

// ------------------------------------------------------------------------ loop

static struct fake_event *event_new(void (*run)(struct fake_event *event),
                                    void *target, const void *data, size_t size)
{
    struct fake_event *event = fake_new(sizeof(*event) + size);

    pod_list_init(&event->link);
    event->run = run;
    event->target = target;
    event->size = size;
    if (size > 0)
        memcpy(event->data, data, size);
    return event;
}

static void loop_post(struct rpc_loop *loop, struct fake_event *event)
{
    pod_mutex_lock(&loop->lock);
    pod_list_push_back(&loop->events, &event->link);
    pod_cond_signal(&loop->wake);
    pod_mutex_unlock(&loop->lock);
}

static void *loop_run(void *arg)
{
    struct rpc_loop *loop = arg;

    pod_mutex_lock(&loop->lock);
    for (;;) {
        struct pod_list *item = pod_list_pop_front(&loop->events);
        if (item == NULL && loop->stopping)
            break;
        if (item == NULL) {
            pod_cond_wait(&loop->wake, &loop->lock);
            continue;
        }
        struct fake_event *event = POD_CONTAINER(item, struct fake_event, link);
        pod_mutex_unlock(&loop->lock);
        event->run(event);
        free(event);
        pod_mutex_lock(&loop->lock);
    }
    pod_mutex_unlock(&loop->lock);
    return NULL;
}

enum pod_code rpc_loop_new(struct rpc_loop **out_loop, struct pod_err *err)
{
    struct rpc_loop *loop = fake_new(sizeof(*loop));

    (void)err;
    pod_mutex_init(&loop->lock, POD_RANK_STAGING, "fake loop");
    pod_cond_init(&loop->wake);
    pod_list_init(&loop->events);
    if (pthread_create(&loop->thread, NULL, loop_run, loop) != 0)
        abort();
    *out_loop = loop;
    return POD_OK;
}

void rpc_loop_free(struct rpc_loop *loop)
{
    if (loop == NULL)
        return;
    pod_mutex_lock(&loop->lock);
    loop->stopping = true;
    pod_cond_signal(&loop->wake);
    pod_mutex_unlock(&loop->lock);
    pthread_join(loop->thread, NULL);
    pod_cond_fini(&loop->wake);
    pod_mutex_fini(&loop->lock);
    free(loop);
}

// --------------------------------------------------------------------- streams

static struct rpc_stream *stream_new(struct rpc_loop *loop)
{
    struct rpc_stream *stream = fake_new(sizeof(*stream));

    atomic_init(&stream->refs, 1);
    stream->loop = loop;
    pod_mutex_init(&stream->lock, POD_RANK_RPC, "fake stream");
    pod_cond_init(&stream->changed);
    pod_list_init(&stream->inbox);
    return stream;
}

struct rpc_stream *rpc_stream_ref(struct rpc_stream *stream)
{
    atomic_fetch_add(&stream->refs, 1);
    return stream;
}

void rpc_stream_unref(struct rpc_stream *stream)
{
    struct pod_list *item;

    if (stream == NULL || atomic_fetch_sub(&stream->refs, 1) != 1)
        return;
    while ((item = pod_list_pop_front(&stream->inbox)) != NULL)
        free(POD_CONTAINER(item, struct fake_event, link));
    pod_cond_fini(&stream->changed);
    pod_mutex_fini(&stream->lock);
    free(stream);
}

static void stream_turn(struct fake_event *event);

// An event of the loop for the inbox, if there is none yet and one is needed.
static void stream_wake_locked(struct rpc_stream *stream)
{
    if (stream->turn || pod_list_empty(&stream->inbox) ||
        (stream->paused && !stream->ending))
        return;
    stream->turn = true;
    loop_post(stream->loop,
              event_new(stream_turn, rpc_stream_ref(stream), NULL, 0));
}

static void stream_turn(struct fake_event *event)
{
    struct rpc_stream *stream = event->target;

    pod_mutex_lock(&stream->lock);
    struct pod_list *item = pod_list_pop_front(&stream->inbox);
    pod_mutex_unlock(&stream->lock);
    if (item != NULL) {
        struct fake_event *next = POD_CONTAINER(item, struct fake_event, link);
        next->run(next);
        free(next);
    }
    pod_mutex_lock(&stream->lock);
    stream->turn = false;
    stream_wake_locked(stream);
    pod_mutex_unlock(&stream->lock);
    rpc_stream_unref(stream);
}

static void stream_put(struct rpc_stream *stream, struct fake_event *owned)
{
    pod_mutex_lock(&stream->lock);
    if (stream->ending) {
        free(owned);
    } else {
        pod_list_push_back(&stream->inbox, &owned->link);
        stream_wake_locked(stream);
    }
    pod_mutex_unlock(&stream->lock);
}

static void stream_open(struct fake_event *event)
{
    struct rpc_stream *stream = event->target;

    stream->method->opened(stream->method->arg, rpc_stream_ref(stream),
                           &stream->events, &stream->arg);
}

static void stream_message(struct fake_event *event)
{
    struct rpc_stream *stream = event->target;

    stream->events.message(stream->arg, event->data, event->size);
}

static void stream_half_closed(struct fake_event *event)
{
    struct rpc_stream *stream = event->target;

    if (stream->events.half_closed != NULL)
        stream->events.half_closed(stream->arg);
}

static void stream_ended(struct fake_event *event)
{
    struct rpc_stream *stream = event->target;

    stream->events.ended(stream->arg, event->code,
                         event->code == POD_OK ? "" : "it was ended");
    pod_mutex_lock(&stream->lock);
    stream->ended = true;
    pod_cond_broadcast(&stream->changed);
    pod_mutex_unlock(&stream->lock);
}

// `at_once`: what is in the inbox is dropped, but for its beginning.
static void stream_end(struct rpc_stream *stream, enum pod_code code,
                       bool at_once)
{
    struct fake_event *end = event_new(stream_ended, stream, NULL, 0);

    end->code = code;
    pod_mutex_lock(&stream->lock);
    if (stream->ending) {
        free(end);
    } else {
        struct pod_list *next;
        for (struct pod_list *item = stream->inbox.next;
             at_once && item != &stream->inbox; item = next) {
            struct fake_event *event =
                POD_CONTAINER(item, struct fake_event, link);
            next = item->next;
            if (event->run == stream_open)
                continue;
            pod_list_remove(item);
            free(event);
        }
        stream->ending = true;
        pod_list_push_back(&stream->inbox, &end->link);
        stream_wake_locked(stream);
    }
    pod_mutex_unlock(&stream->lock);
}

void fake_rpc_deliver(struct rpc_stream *stream, const void *data, size_t size)
{
    stream_put(stream, event_new(stream_message, stream, data, size));
}

void fake_rpc_half_close(struct rpc_stream *stream)
{
    stream_put(stream, event_new(stream_half_closed, stream, NULL, 0));
}

void fake_rpc_end(struct rpc_stream *stream, enum pod_code code)
{
    stream_end(stream, code, false);
}

void fake_rpc_await_end(struct rpc_stream *stream)
{
    pod_mutex_lock(&stream->lock);
    while (!stream->ended)
        pod_cond_wait(&stream->changed, &stream->lock);
    pod_mutex_unlock(&stream->lock);
}

struct rpc_stream *fake_rpc_accept(struct rpc_loop *loop,
                                   const struct rpc_method *method)
{
    struct rpc_stream *stream = stream_new(loop);

    stream->method = method;
    stream_put(stream, event_new(stream_open, stream, NULL, 0));
    return stream;
}

void rpc_stream_send(struct rpc_stream *stream, struct pod_wire_out *owned_out)
{
    if (owned_out == NULL)
        stream_end(stream, POD_RESOURCE_EXHAUSTED, true);
    pod_wire_out_free(owned_out);
}

// Messages come in one piece here.
struct pod_blob *rpc_stream_bulk(struct rpc_stream *stream, const void *data,
                                 size_t size)
{
    (void)stream;
    (void)data;
    (void)size;
    return NULL;
}

struct pod_blob *rpc_stream_keep(struct rpc_stream *stream, const void *data,
                                 size_t size)
{
    struct pod_blob *blob = pod_blob_new(size);

    (void)stream;
    if (blob != NULL && size > 0)
        memcpy(blob->data, data, size);
    return blob;
}

void rpc_stream_send_soon(struct rpc_stream *stream,
                          struct pod_wire_out *owned_out)
{
    rpc_stream_send(stream, owned_out);
}

size_t rpc_stream_queued(struct rpc_stream *stream)
{
    (void)stream;
    return 0;
}

static void stream_set_paused(struct rpc_stream *stream, bool paused)
{
    pod_mutex_lock(&stream->lock);
    stream->paused = paused;
    stream_wake_locked(stream);
    pod_mutex_unlock(&stream->lock);
}

void rpc_stream_pause(struct rpc_stream *stream)
{
    stream_set_paused(stream, true);
}

void rpc_stream_resume(struct rpc_stream *stream)
{
    stream_set_paused(stream, false);
}

void rpc_stream_half_close(struct rpc_stream *stream)
{
    (void)stream;
}

void rpc_stream_finish(struct rpc_stream *stream, enum pod_code code,
                       const char *text)
{
    (void)code;
    (void)text;
    stream_end(stream, POD_OK, true);
}

void rpc_stream_cancel(struct rpc_stream *stream)
{
    stream_end(stream, POD_CANCELLED, true);
}

// ----------------------------------------------------------- the calling side

enum pod_code rpc_channel_new(struct rpc_loop *loop,
                              const struct rpc_channel_options *options,
                              struct rpc_channel **out_channel,
                              struct pod_err *err)
{
    (void)options;
    (void)err;
    *out_channel = fake_new(sizeof(**out_channel));
    (*out_channel)->loop = loop;
    return POD_OK;
}

void rpc_channel_free(struct rpc_channel *channel)
{
    free(channel);
}

enum rpc_state rpc_channel_state(struct rpc_channel *channel, bool connect)
{
    (void)channel;
    (void)connect;
    return RPC_READY;
}

enum pod_code rpc_stream_open(struct rpc_channel *channel, const char *method,
                              const struct rpc_stream_settings *settings,
                              const struct rpc_stream_events *events, void *arg,
                              struct rpc_stream **out_stream,
                              struct pod_err *err)
{
    struct rpc_stream *stream = stream_new(channel->loop);

    (void)settings;
    (void)err;
    stream->events = *events;
    stream->arg = arg;
    *out_stream = stream;
    if (fake_peer.opened != NULL)
        fake_peer.opened(fake_peer.arg, method, rpc_stream_ref(stream));
    else
        fake_rpc_end(stream, POD_UNAVAILABLE);
    return POD_OK;
}

static void call_done(struct fake_event *event)
{
    struct rpc_call *call = event->target;
    struct rpc_reply reply = {.code = event->code,
                              .text = "",
                              .data =
                                  event->code == POD_OK ? event->data : NULL,
                              .size = event->size};

    call->unary.done(call->unary.arg, &reply);
    rpc_call_unref(call);
}

static void call_answer(struct rpc_call *call, enum pod_code code,
                        const void *data, size_t size)
{
    if (atomic_exchange(&call->answered, true))
        return;
    atomic_fetch_add(&call->refs, 1);
    struct fake_event *event = event_new(call_done, call, data, size);
    event->code = code;
    loop_post(call->loop, event);
}

void fake_rpc_answer(struct rpc_call *owned_call, enum pod_code code,
                     const void *data, size_t size)
{
    call_answer(owned_call, code, data, size);
    rpc_call_unref(owned_call);
}

enum pod_code rpc_unary_start(struct rpc_channel *channel,
                              const struct rpc_unary *unary,
                              struct pod_wire_out *owned_request,
                              struct rpc_call **out_call, struct pod_err *err)
{
    (void)err;
    struct rpc_call *call = fake_new(sizeof(*call));

    pod_wire_out_free(owned_request);
    atomic_init(&call->refs, 1);
    call->loop = channel->loop;
    call->unary = *unary;
    if (out_call != NULL) {
        atomic_fetch_add(&call->refs, 1);
        *out_call = call;
    }
    if (fake_peer.called != NULL)
        fake_peer.called(fake_peer.arg, unary->method, call);
    else
        fake_rpc_answer(call, POD_UNAVAILABLE, NULL, 0);
    return POD_OK;
}

void rpc_call_cancel(struct rpc_call *call)
{
    call_answer(call, POD_CANCELLED, NULL, 0);
}

void rpc_call_unref(struct rpc_call *call)
{
    if (call != NULL && atomic_fetch_sub(&call->refs, 1) == 1)
        free(call);
}

// ----------------------------------------------------------- the serving side

static void request_run(struct fake_event *event)
{
    struct rpc_request *request = event->target;

    request->method->unary(request->method->arg, request, event->data,
                           event->size);
}

struct pod_wire_out *fake_rpc_request(struct rpc_loop *loop,
                                      const struct rpc_method *method,
                                      const void *data, size_t size)
{
    struct rpc_request request = {.method = method};

    pod_mutex_init(&request.lock, POD_RANK_RPC, "fake request");
    pod_cond_init(&request.changed);
    loop_post(loop, event_new(request_run, &request, data, size));
    pod_mutex_lock(&request.lock);
    while (!request.answered)
        pod_cond_wait(&request.changed, &request.lock);
    pod_mutex_unlock(&request.lock);
    pod_cond_fini(&request.changed);
    pod_mutex_fini(&request.lock);
    return request.reply;
}

void rpc_request_reply(struct rpc_request *owned_request,
                       struct pod_wire_out *owned_reply)
{
    pod_mutex_lock(&owned_request->lock);
    owned_request->reply = owned_reply;
    owned_request->answered = true;
    pod_cond_broadcast(&owned_request->changed);
    pod_mutex_unlock(&owned_request->lock);
}

void rpc_request_fail(struct rpc_request *owned_request, enum pod_code code,
                      const char *text)
{
    (void)code;
    (void)text;
    rpc_request_reply(owned_request, NULL);
}

const char *rpc_request_peer(struct rpc_request *request)
{
    (void)request;
    return "a fuzzer";
}
