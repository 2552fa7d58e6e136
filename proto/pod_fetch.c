// SPDX-License-Identifier: Apache-2.0
// Fetch: the bytes of a buffer for another worker. Read piece by piece, as
// operations of the session, each when the one before has been read and less
// than the high-water mark waits to be sent.
#include <inttypes.h>

#include "core/base/mem.h"
#include "proto/pod_internal.h"
#include "proto/worker_internal.h"

struct pod_fetch {
    struct worker_sink sink;
    atomic_int refs;
    struct pod_service *service;
    struct rpc_stream *stream;
    struct pod_mutex lock; // guards the next five
    struct worker_session *session;
    uint64_t buffer;
    uint64_t offset;
    uint64_t end;
    bool reading; // or over: nothing more is to be begun
    bool asked;   // the loop's thread: the request has come
};

static void fetch_free(struct pod_fetch *fetch)
{
    rpc_stream_unref(fetch->stream);
    pod_mutex_fini(&fetch->lock);
    pod_free(fetch);
}

static void fetch_unref(struct pod_fetch *fetch)
{
    if (atomic_fetch_sub(&fetch->refs, 1) != 1)
        return;
    worker_session_unref(fetch->session);
    fetch_free(fetch);
}

static struct pod_fetch *fetch_of(struct worker_sink *sink)
{
    return POD_CONTAINER(sink, struct pod_fetch, sink);
}

static void fetch_sink_ref(struct worker_sink *sink)
{
    atomic_fetch_add(&fetch_of(sink)->refs, 1);
}

// The operation that was its last user is freed with the worker's lock held.
static void fetch_sink_unref(struct worker_sink *sink)
{
    struct pod_fetch *fetch = fetch_of(sink);

    if (atomic_fetch_sub(&fetch->refs, 1) != 1)
        return;
    worker_session_unref_locked(fetch->session);
    fetch_free(fetch);
}

// Begins the next read, if there is one and none is under way.
static void fetch_read_on(struct pod_fetch *fetch)
{
    struct worker_request request = {.kind = WORKER_READ};
    bool full = rpc_stream_queued(fetch->stream) > POD_FETCH_HIGH_WATER;
    pod_mutex_lock(&fetch->lock);
    bool read = !fetch->reading && !full && fetch->offset < fetch->end;
    if (read) {
        uint64_t left = fetch->end - fetch->offset;
        fetch->reading = true;
        request.target = fetch->buffer;
        request.offset = fetch->offset;
        request.count =
            left < POD_FETCH_PIECE_BYTES ? left : POD_FETCH_PIECE_BYTES;
        fetch->offset += request.count;
    }
    bool end = !fetch->reading && fetch->offset == fetch->end;
    pod_mutex_unlock(&fetch->lock);
    if (end)
        rpc_stream_finish(fetch->stream, POD_OK, "");
    if (!read)
        return;
    request.number = worker_own_number(fetch->session);
    worker_submit(fetch->session, &request, &fetch->sink);
}

static void fetch_answer(struct worker_sink *sink,
                         const struct worker_answer *answer)
{
    struct pod_fetch *fetch = fetch_of(sink);
    if (answer->err->code != POD_OK || answer->data == NULL) {
        rpc_stream_finish(fetch->stream, answer->err->code, answer->err->text);
        return;
    }
    rpc_stream_send(
        fetch->stream,
        pod_wire_pack_levels(NULL, 0, 1, answer->data, 0, answer->data->size));
    pod_mutex_lock(&fetch->lock);
    fetch->reading = false;
    pod_mutex_unlock(&fetch->lock);
    fetch_read_on(fetch);
}

static enum pod_code fetch_begin(struct pod_fetch *fetch, const void *data,
                                 size_t size, struct pod_err *err)
{
    ProtobufCMessage *message = NULL;
    enum pod_code code =
        pod_wire_unpack(&pod__worker__v1__fetch_request__descriptor, data, size,
                        0, &message, err);
    if (code != POD_OK)
        return code;
    const Pod__Worker__V1__FetchRequest *request =
        (const Pod__Worker__V1__FetchRequest *)message;
    fetch->buffer = request->buffer;
    fetch->offset = request->offset;
    uint64_t id = request->session;
    bool fits =
        !__builtin_add_overflow(request->offset, request->count, &fetch->end);
    pod_wire_free(message);
    if (!fits)
        return pod_err_set(err, POD_REASON_OUT_OF_RANGE,
                           "the range ends beyond all bytes");
    if ((id & POD_SESSION_BIT) != 0)
        fetch->session = worker_find(fetch->service->worker, id);
    if (fetch->session == NULL)
        return pod_err_set(err, POD_REASON_NOT_FOUND, "no session %016" PRIx64,
                           id);
    return POD_OK;
}

static void fetch_message(void *arg, const void *data, size_t size)
{
    struct pod_fetch *fetch = arg;
    struct pod_err err = POD_ERR_NONE;
    enum pod_code code = fetch->asked ? pod_err_set(&err, POD_REASON_BAD_VALUE,
                                                    "one request is expected")
                                      : fetch_begin(fetch, data, size, &err);
    fetch->asked = true;
    if (code == POD_OK)
        fetch_read_on(fetch);
    else
        rpc_stream_finish(fetch->stream, code, err.text);
}

static void fetch_drained(void *arg)
{
    struct pod_fetch *fetch = arg;
    if (fetch->session != NULL)
        fetch_read_on(fetch);
}

static void fetch_ended(void *arg, enum pod_code code, const char *text)
{
    struct pod_fetch *fetch = arg;
    (void)code;
    (void)text;
    pod_mutex_lock(&fetch->lock);
    fetch->reading = true; // nothing more is read
    pod_mutex_unlock(&fetch->lock);
    fetch_unref(fetch);
}

void pod_fetch_opened(void *arg, struct rpc_stream *owned_stream,
                      struct rpc_stream_events *out_events, void **out_arg)
{
    struct pod_fetch *fetch = pod_calloc(1, sizeof(*fetch));
    if (fetch == NULL) {
        answers_refuse(owned_stream, out_events, out_arg);
        return;
    }
    fetch->sink = (struct worker_sink){.answer = fetch_answer,
                                       .ref = fetch_sink_ref,
                                       .unref = fetch_sink_unref};
    atomic_init(&fetch->refs, 1);
    fetch->service = arg;
    fetch->stream = owned_stream;
    pod_mutex_init(&fetch->lock, POD_RANK_STREAM, "fetch");
    *out_events = (struct rpc_stream_events){.message = fetch_message,
                                             .drained = fetch_drained,
                                             .ended = fetch_ended};
    *out_arg = fetch;
}
