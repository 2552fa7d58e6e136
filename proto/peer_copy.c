// SPDX-License-Identifier: Apache-2.0
// CopyFromPeer: a buffer of another worker's session is fetched and written
// piece by piece, while at most PEER_COPY_WINDOW pieces wait to be written.
//
// It is a task of the worker core: started when the operation may run, asked to
// stop when it is cancelled, and done exactly once, when the stream has ended
// and no write is under way.
#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/pod_internal.h"

enum {
    PEER_COPY_WINDOW = 4,
    PEER_COPY_DATA = 1, // field of FetchResponse
};

struct peer_copy {
    struct worker_task task; // first: the worker's reference
    struct pod_service *service;
    uint64_t session; // the peer's
    uint64_t from;
    struct pod_mutex lock; // guards the rest
    struct worker_op *op;  // while it runs
    struct rpc_stream *stream;
    uint64_t buffer; // the driver's
    uint64_t bytes;
    uint64_t received;
    size_t writing;
    bool ended;
    bool stopped;
    struct pod_err err;
    char address[];
};

static void copy_free(struct worker_task *task)
{
    struct peer_copy *copy = POD_CONTAINER(task, struct peer_copy, task);
    rpc_stream_unref(copy->stream);
    pod_mutex_fini(&copy->lock);
    pod_free(copy);
}

static void copy_fail_locked(struct peer_copy *copy, const struct pod_err *err)
{
    if (copy->err.code == POD_OK)
        copy->err = *err;
}

// Unlocks. The last thing that ends, ends the operation.
static void copy_settle_unlock(struct peer_copy *copy)
{
    bool done = copy->ended && copy->writing == 0 && copy->op != NULL;
    struct worker_op *op = copy->op;
    if (done && copy->err.code == POD_OK && copy->received != copy->bytes)
        (void)pod_err_set_code(
            &copy->err, POD_DATA_LOSS, POD_REASON_BUFFER_LOST,
            "the copy from %s gave %" PRIu64 " of %" PRIu64 " bytes",
            copy->address, copy->received, copy->bytes);
    if (done)
        copy->op = NULL;
    struct pod_err err = copy->err;
    pod_mutex_unlock(&copy->lock);
    if (done)
        worker_task_done(op, &err);
}

static void copy_written(void *arg, const struct pod_driver_result *result)
{
    struct peer_copy *copy = arg;
    pod_mutex_lock(&copy->lock);
    copy->writing--;
    if (result->err.code != POD_OK)
        copy_fail_locked(copy, &result->err);
    bool go_on = copy->writing == PEER_COPY_WINDOW / 2 && !copy->ended;
    struct rpc_stream *stream = go_on ? rpc_stream_ref(copy->stream) : NULL;
    copy_settle_unlock(copy);
    if (stream != NULL)
        rpc_stream_resume(stream);
    rpc_stream_unref(stream);
}

// Whether the piece fits and may be written.
static bool copy_accept(struct peer_copy *copy, size_t size,
                        uint64_t *out_offset)
{
    struct pod_err err = POD_ERR_NONE;
    pod_mutex_lock(&copy->lock);
    bool fits = size <= copy->bytes - copy->received;
    if (!fits)
        (void)pod_err_set_code(&err, POD_DATA_LOSS, POD_REASON_BUFFER_LOST,
                               "the copy from %s gave more than %" PRIu64
                               " bytes",
                               copy->address, copy->bytes);
    if (!fits)
        copy_fail_locked(copy, &err);
    bool write = fits && copy->err.code == POD_OK && !copy->stopped;
    *out_offset = copy->received;
    if (fits)
        copy->received += size;
    if (write && ++copy->writing >= PEER_COPY_WINDOW)
        rpc_stream_pause(copy->stream);
    pod_mutex_unlock(&copy->lock);
    if (!write)
        rpc_stream_cancel(copy->stream);
    return write;
}

// The bytes of a FetchResponse; NULL: *err says why.
static struct pod_blob *copy_piece(struct rpc_stream *stream, const void *data,
                                   size_t size, struct pod_err *err)
{
    struct pod_wire_field field;
    struct pod_wire_field piece = {.data = data};
    size_t at = 0;
    while (pod_wire_next(data, size, &at, &field)) {
        if (field.number == PEER_COPY_DATA && field.wire_type == POD_WIRE_BYTES)
            piece = field;
    }
    if (at != size) {
        (void)pod_err_set(err, POD_REASON_BAD_VALUE,
                          "a piece is malformed at byte %zu", at);
        return NULL;
    }
    struct pod_blob *blob = rpc_stream_bulk(stream, data, size);
    if (blob == NULL)
        blob = rpc_stream_keep(stream, piece.data, piece.size);
    if (blob == NULL)
        (void)pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    return blob;
}

static void copy_message(void *arg, const void *data, size_t size)
{
    struct peer_copy *copy = arg;
    struct pod_err err = POD_ERR_NONE;
    uint64_t offset = 0;
    struct pod_blob *blob = copy_piece(copy->stream, data, size, &err);
    if (blob == NULL) {
        pod_mutex_lock(&copy->lock);
        copy_fail_locked(copy, &err);
        pod_mutex_unlock(&copy->lock);
        rpc_stream_cancel(copy->stream);
        return;
    }
    if (copy_accept(copy, blob->size, &offset))
        worker_driver_write(copy->service->worker, copy->buffer, offset, blob,
                            copy_written, copy);
    pod_blob_unref(blob);
}

static void copy_ended(void *arg, enum pod_code code, const char *text)
{
    struct peer_copy *copy = arg;
    struct pod_err err = POD_ERR_NONE;
    pod_mutex_lock(&copy->lock);
    copy->ended = true;
    if (copy->stopped)
        (void)pod_err_set(&err, POD_REASON_CANCEL_REQUESTED,
                          "the copy was cancelled");
    else if (code != POD_OK)
        (void)pod_err_set_code(&err, code, POD_REASON_HOST_UNAVAILABLE,
                               "copy from %s: %s", copy->address, text);
    if (err.code != POD_OK)
        copy_fail_locked(copy, &err);
    copy_settle_unlock(copy);
}

static enum pod_code copy_open(struct peer_copy *copy, struct pod_err *err)
{
    static const struct rpc_stream_events events = {.message = copy_message,
                                                    .ended = copy_ended};
    static const struct rpc_stream_settings settings = {
        .bulk = {.numbers = {PEER_COPY_DATA}, .depth = 1}};
    if (copy->service->peers == NULL)
        return pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                           "this worker reaches no others");
    return peers_open(copy->service->peers, copy->address,
                      "/pod.worker.v1.PodWorker/Fetch", &settings, &events,
                      copy, &copy->stream, err);
}

static void copy_start(struct worker_task *task, struct worker_op *op,
                       uint64_t driver_buffer, uint64_t bytes)
{
    struct peer_copy *copy = POD_CONTAINER(task, struct peer_copy, task);
    struct pod_err err = POD_ERR_NONE;
    Pod__Worker__V1__FetchRequest request =
        POD__WORKER__V1__FETCH_REQUEST__INIT;
    copy->op = op;
    copy->buffer = driver_buffer;
    copy->bytes = bytes;
    if (copy_open(copy, &err) != POD_OK) {
        worker_task_done(op, &err);
        return;
    }
    request.session = copy->session;
    request.buffer = copy->from;
    request.count = bytes;
    // It may be over already, and freed once it is done: hold the stream.
    struct rpc_stream *stream = rpc_stream_ref(copy->stream);
    rpc_stream_send(stream, pod_wire_pack(&request.base));
    rpc_stream_half_close(stream);
    rpc_stream_unref(stream);
}

static void copy_stop(struct worker_task *task)
{
    struct peer_copy *copy = POD_CONTAINER(task, struct peer_copy, task);
    pod_mutex_lock(&copy->lock);
    copy->stopped = true;
    struct rpc_stream *stream =
        copy->stream != NULL ? rpc_stream_ref(copy->stream) : NULL;
    pod_mutex_unlock(&copy->lock);
    if (stream != NULL)
        rpc_stream_cancel(stream);
    rpc_stream_unref(stream);
}

struct worker_task *pod_peer_copy(struct pod_service *service,
                                  const Pod__Worker__V1__CopyFromPeer *request)
{
    size_t length = strlen(request->address);
    struct peer_copy *copy = pod_calloc(1, sizeof(*copy) + length + 1);
    if (copy == NULL)
        return NULL;
    copy->task = (struct worker_task){
        .start = copy_start, .stop = copy_stop, .free = copy_free};
    pod_mutex_init(&copy->lock, POD_RANK_STREAM, "peer copy");
    copy->service = service;
    copy->session = request->peer_session;
    copy->from = request->from;
    memcpy(copy->address, request->address, length + 1);
    return &copy->task;
}
