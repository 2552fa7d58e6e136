// SPDX-License-Identifier: Apache-2.0
// Streams of both sides.
//
// Sending: things wait in `queue`; one send is under way at a time
// (`writing`), and whoever ends one starts the next with all that has queued
// meanwhile. Once the queue is empty and `closing` is set, the half-close or
// the status is sent as the last thing. A call that gRPC may make again
// (`retried`) sends nothing before it is known that gRPC will not: gRPC 1.51
// loses what is sent while it sends earlier messages again, or crashes.
// Reading: one receive is under way, or the reader waits for a resume, or the
// other side has ended.
// The end: `status_tag` says how (client: the status; server: whether the
// client went away). When it and all other tags have come, `ended` is called
// and the stream's own reference goes.
#include <grpc/support/alloc.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "proto/rpc_internal.h"

enum {
    STREAM_SMALL_BYTES = 256,
    STREAM_BIG_BYTES = 64 << 10,
    STREAM_APART_NS = 50 * 1000
};

#define STREAM_OF(tag, member) POD_CONTAINER(tag, struct rpc_stream, member)

// -------------------------------------------------------------------- the end

static void stream_drop_queue(struct pod_list *queue)
{
    struct pod_list *item;
    while ((item = pod_list_pop_front(queue)) != NULL)
        pod_wire_out_free(POD_CONTAINER(item, struct pod_wire_out, link));
}

static void stream_free(struct rpc_stream *stream)
{
    stream_drop_queue(&stream->queue);
    grpc_metadata_array_destroy(&stream->initial);
    grpc_metadata_array_destroy(&stream->trailing);
    grpc_slice_unref(stream->details);
    grpc_call_unref(stream->call);
    pod_free(stream->finish_text);
    pod_mutex_fini(&stream->lock);
    pod_free(stream);
}

struct rpc_stream *rpc_stream_ref(struct rpc_stream *stream)
{
    atomic_fetch_add(&stream->refs, 1);
    return stream;
}

void rpc_stream_unref(struct rpc_stream *stream)
{
    if (stream != NULL && atomic_fetch_sub(&stream->refs, 1) == 1)
        stream_free(stream);
}

static void stream_tell_end(struct rpc_stream *stream)
{
    if (stream->server) {
        enum pod_code code = stream->cancelled ? POD_CANCELLED : POD_OK;
        stream->events.ended(stream->arg, code,
                             stream->cancelled ? "the client is gone" : "");
    } else {
        char *text = rpc_text_copy(stream->details);
        stream->events.ended(stream->arg, rpc_code(stream->status),
                             text != NULL ? text : "");
        pod_free(text);
    }
    if (stream->gone != NULL)
        stream->gone(stream->gone_arg);
    rpc_loop_remove(stream->loop, stream);
    rpc_stream_unref(stream);
}

// A tag has come. Calls back when it was the last.
static void stream_settle(struct rpc_stream *stream)
{
    pod_mutex_lock(&stream->lock);
    bool last = --stream->pending == 0 && stream->over;
    pod_mutex_unlock(&stream->lock);
    if (last)
        stream_tell_end(stream);
}

// -------------------------------------------------------------- holding back

// What it takes, but for bytes that are shared with others.
static size_t stream_head_bytes(const struct pod_wire_out *out)
{
    return sizeof(*out) + out->size;
}

static bool stream_holds_back_locked(const struct rpc_stream *stream)
{
    size_t hold_bytes = stream->settings.hold_bytes;
    return stream->paused || (hold_bytes != 0 && stream->heads > hold_bytes);
}

// A read that was held back begins, if nothing holds it back any more.
static bool stream_goes_on_locked(struct rpc_stream *stream)
{
    if (!stream->read_waiting || stream_holds_back_locked(stream))
        return false;
    stream->read_waiting = false;
    if (stream->over)
        return false;
    stream->pending++;
    return true;
}

static void stream_start_read(struct rpc_stream *stream)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &stream->reading;
    rpc_start(stream->call, &op, 1, &stream->read_tag);
}

// -------------------------------------------------------------------- sending

// What a turn of the sender starts, decided under the lock.
struct stream_turn {
    struct pod_list batch;
    bool send;  // the batch
    bool close; // nothing more: half-close or status
};

// Takes things for one message: at least one, more while they fit.
static void stream_take_locked(struct rpc_stream *stream,
                               struct pod_list *batch)
{
    struct pod_list *item = pod_list_pop_front(&stream->queue);
    const struct rpc_stream_settings *settings = &stream->settings;
    size_t bytes = 0;
    size_t count = 0;
    while (item != NULL) {
        struct pod_wire_out *out =
            POD_CONTAINER(item, struct pod_wire_out, link);
        bytes += out->size + out->tail_size;
        stream->heads -= stream_head_bytes(out);
        pod_list_push_back(batch, item);
        bool full =
            bytes >= settings->batch_bytes || ++count == settings->batch_count;
        item = full ? NULL : pod_list_pop_front(&stream->queue);
    }
    stream->queued_bytes -= bytes;
}

static void stream_turn_locked(struct rpc_stream *stream,
                               struct stream_turn *turn)
{
    pod_list_init(&turn->batch);
    turn->send = false;
    turn->close = false;
    if (stream->writing || stream->over)
        return;
    if (!pod_list_empty(&stream->queue)) {
        stream_take_locked(stream, &turn->batch);
        turn->send = true;
        stream->writing = true;
        stream->pending++;
    } else if (stream->closing && !stream->close_sent) {
        stream->close_sent = true;
        turn->close = true;
        stream->pending++;
    }
}

static void stream_break(struct rpc_stream *stream)
{
    (void)grpc_call_cancel_with_status(
        stream->call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory", NULL);
}

// The send is done already. If that is all there is to do, whatever thread this
// is does it. Else the loop's thread goes on, so that no caller is kept; also
// when sends follow each other closely, so that more come together for the
// next.
static void stream_written_here(struct rpc_stream *stream)
{
    grpc_byte_buffer *sent = stream->sending;
    int64_t now_ns = pod_clock_mono(&pod_clock_system);
    pod_mutex_lock(&stream->lock);
    bool apart = now_ns - stream->sent_ns >= STREAM_APART_NS;
    stream->sent_ns = now_ns;
    bool all = apart && !stream->over && !stream->closing && !stream->above &&
               !stream->read_waiting && pod_list_empty(&stream->queue);
    if (all) {
        stream->writing = false;
        stream->pending--;
    }
    pod_mutex_unlock(&stream->lock);
    if (all)
        grpc_byte_buffer_destroy(sent);
    else
        rpc_post(stream->call, &stream->write_tag, true);
}

static void stream_start_send(struct rpc_stream *stream, struct pod_list *batch)
{
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    stream->sending = rpc_bytes_join(batch);
    if (stream->sending == NULL) {
        stream_break(stream);
        // An empty message takes its place, so that the tag comes.
        stream->sending = grpc_raw_byte_buffer_create(NULL, 0);
    }
    op.data.send_message.send_message = stream->sending;
    if (rpc_start_here(stream->loop, stream->call, &op, &stream->write_tag))
        stream_written_here(stream);
}

static void stream_start_close(struct rpc_stream *stream)
{
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    grpc_slice text;
    if (stream->server) {
        op.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        op.data.send_status_from_server.status =
            (grpc_status_code)stream->finish_code;
        text = grpc_slice_from_copied_string(
            stream->finish_text != NULL ? stream->finish_text : "");
        op.data.send_status_from_server.status_details = &text;
    }
    rpc_start(stream->call, &op, 1, &stream->close_tag);
    if (stream->server)
        grpc_slice_unref(text);
}

static void stream_do(struct rpc_stream *stream, struct stream_turn *turn)
{
    if (turn->send)
        stream_start_send(stream, &turn->batch);
    else if (turn->close)
        stream_start_close(stream);
}

// Queues it, or drops it and says so. *turn is what is to be done next; NULL:
// somebody else will see to that.
static bool stream_queue(struct rpc_stream *stream,
                         struct pod_wire_out *owned_out,
                         struct stream_turn *turn)
{
    if (owned_out == NULL) {
        stream_break(stream);
        return false;
    }
    pod_mutex_lock(&stream->lock);
    bool keep = !stream->closing && !stream->over;
    if (keep) {
        pod_list_push_back(&stream->queue, &owned_out->link);
        stream->queued_bytes += owned_out->size + owned_out->tail_size;
        stream->heads += stream_head_bytes(owned_out);
        if (stream->settings.high_water != 0 &&
            stream->queued_bytes > stream->settings.high_water)
            stream->above = true;
        if (turn != NULL)
            stream_turn_locked(stream, turn);
    }
    pod_mutex_unlock(&stream->lock);
    if (!keep)
        pod_wire_out_free(owned_out);
    return keep;
}

void rpc_stream_flush(struct rpc_stream *stream)
{
    struct stream_turn turn;
    pod_mutex_lock(&stream->lock);
    stream_turn_locked(stream, &turn);
    pod_mutex_unlock(&stream->lock);
    stream_do(stream, &turn);
}

void rpc_stream_send(struct rpc_stream *stream, struct pod_wire_out *owned_out)
{
    struct stream_turn turn;
    if (stream_queue(stream, owned_out, &turn))
        stream_do(stream, &turn);
}

void rpc_stream_send_soon(struct rpc_stream *stream,
                          struct pod_wire_out *owned_out)
{
    if (stream_queue(stream, owned_out, NULL) &&
        !rpc_loop_flush_soon(stream->loop, stream))
        rpc_stream_flush(stream);
}

static void stream_close(struct rpc_stream *stream)
{
    struct stream_turn turn;
    pod_mutex_lock(&stream->lock);
    stream->closing = true;
    stream_turn_locked(stream, &turn);
    pod_mutex_unlock(&stream->lock);
    stream_do(stream, &turn);
}

void rpc_stream_half_close(struct rpc_stream *stream)
{
    stream_close(stream);
}

void rpc_stream_finish(struct rpc_stream *stream, enum pod_code code,
                       const char *text)
{
    char *copy = pod_strdup(text);
    pod_mutex_lock(&stream->lock);
    bool first = !stream->closing;
    if (first) {
        stream->finish_code = code;
        stream->finish_text = copy;
    }
    pod_mutex_unlock(&stream->lock);
    if (!first)
        pod_free(copy);
    stream_close(stream);
}

static void stream_written(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *stream = STREAM_OF(tag, write_tag);
    struct stream_turn turn;
    (void)ok; // when it failed the status follows
    grpc_byte_buffer_destroy(stream->sending);
    pod_mutex_lock(&stream->lock);
    stream->writing = false;
    stream_turn_locked(stream, &turn);
    bool drained = stream->above && !stream->over &&
                   stream->queued_bytes < stream->settings.low_water;
    if (drained)
        stream->above = false;
    bool read = stream_goes_on_locked(stream);
    pod_mutex_unlock(&stream->lock);
    stream_do(stream, &turn);
    if (read)
        stream_start_read(stream);
    if (drained && stream->events.drained != NULL)
        stream->events.drained(stream->arg);
    stream_settle(stream);
}

static void stream_closed(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *stream = STREAM_OF(tag, close_tag);
    (void)ok;
    stream_settle(stream);
}

// -------------------------------------------------------------------- reading

// Reads on unless paused, or too much is queued; the tag of the last read
// counts until then.
static void stream_read_on(struct rpc_stream *stream)
{
    pod_mutex_lock(&stream->lock);
    bool wait = stream_holds_back_locked(stream) && !stream->over;
    bool read = !wait && !stream->over;
    stream->read_waiting = wait;
    if (read)
        stream->pending++;
    pod_mutex_unlock(&stream->lock);
    if (read)
        stream_start_read(stream);
}

// Takes the buffer over, or returns false.
static bool stream_handle_lean(struct rpc_stream *stream,
                               grpc_byte_buffer *buffer)
{
    const struct wire_lean_path *path = &stream->settings.bulk;
    if (path->depth == 0 ||
        grpc_byte_buffer_length(buffer) < WIRE_LEAN_BULK_BYTES)
        return false;
    stream->lean = rpc_lean_new(buffer, path);
    if (stream->lean == NULL)
        return false;
    stream->events.message(stream->arg, stream->lean->wire.bytes,
                           stream->lean->wire.size);
    rpc_lean_free(stream->lean);
    stream->lean = NULL;
    return true;
}

static void stream_handle(struct rpc_stream *stream,
                          grpc_byte_buffer *owned_buffer)
{
    struct rpc_flat flat;
    if (stream_handle_lean(stream, owned_buffer))
        return;
    if (!rpc_bytes_flatten(owned_buffer, &flat)) {
        stream_break(stream);
        return;
    }
    stream->message = &flat;
    stream->events.message(stream->arg, flat.data, flat.size);
    stream->message = NULL;
    rpc_flat_fini(&flat);
}

static void stream_received(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *stream = STREAM_OF(tag, read_tag);
    grpc_byte_buffer *buffer = stream->reading;
    stream->reading = NULL;
    if (buffer == NULL || !ok) {
        grpc_byte_buffer_destroy(buffer);
        if (ok && stream->events.half_closed != NULL && stream->server)
            stream->events.half_closed(stream->arg);
        stream_settle(stream);
        return;
    }
    // While a big one is handled, the other side can go on.
    size_t bytes = grpc_byte_buffer_length(buffer);
    bool big = bytes >= STREAM_BIG_BYTES;
    if (bytes <= STREAM_SMALL_BYTES)
        rpc_loop_small_came(stream->loop);
    if (big)
        stream_read_on(stream);
    stream_handle(stream, buffer);
    if (!big)
        stream_read_on(stream);
    stream_settle(stream);
}

struct pod_blob *rpc_stream_keep(struct rpc_stream *stream, const void *data,
                                 size_t size)
{
    const struct rpc_flat *flat = stream->message;
    struct pod_blob *blob = NULL;
    if (flat != NULL && size >= flat->size / 2)
        blob = rpc_flat_keep(flat, data, size);
    if (blob != NULL)
        return blob;
    blob = pod_blob_new(size);
    if (blob != NULL && size > 0)
        memcpy(blob->data, data, size);
    return blob;
}

struct pod_blob *rpc_stream_bulk(struct rpc_stream *stream, const void *data,
                                 size_t size)
{
    return stream->lean == NULL || stream->lean->bulk == NULL
               ? NULL
               : rpc_lean_take(stream->lean, data, size);
}

void rpc_stream_pause(struct rpc_stream *stream)
{
    pod_mutex_lock(&stream->lock);
    stream->paused = true;
    pod_mutex_unlock(&stream->lock);
}

void rpc_stream_resume(struct rpc_stream *stream)
{
    pod_mutex_lock(&stream->lock);
    stream->paused = false;
    bool read = stream_goes_on_locked(stream);
    pod_mutex_unlock(&stream->lock);
    if (read)
        stream_start_read(stream);
}

// ------------------------------------------------------------------ beginning

// Sends what has queued until now.
static void stream_may_send(struct rpc_stream *stream)
{
    struct stream_turn turn;
    pod_mutex_lock(&stream->lock);
    stream->writing = false;
    stream_turn_locked(stream, &turn);
    pod_mutex_unlock(&stream->lock);
    stream_do(stream, &turn);
}

// Client: the server's headers have come, or never will.
static void stream_started(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *stream = STREAM_OF(tag, start_tag);
    (void)ok;
    if (stream->retried)
        stream_may_send(stream);
    stream_settle(stream);
}

static void stream_status(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *stream = STREAM_OF(tag, status_tag);
    struct pod_list dropped;
    (void)ok; // always true
    pod_list_init(&dropped);
    pod_mutex_lock(&stream->lock);
    stream->over = true;
    pod_list_splice(&dropped, &stream->queue);
    stream->queued_bytes = 0;
    stream->heads = 0;
    pod_mutex_unlock(&stream->lock);
    stream_drop_queue(&dropped);
    stream_settle(stream);
}

struct rpc_stream *rpc_stream_new(struct rpc_loop *loop, grpc_call *call,
                                  bool server,
                                  const struct rpc_stream_settings *settings)
{
    struct rpc_stream *stream = pod_calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    pod_mutex_init(&stream->lock, POD_RANK_RPC, "rpc stream");
    pod_list_init(&stream->queue);
    pod_list_init(&stream->soon);
    stream->loop = loop;
    stream->call = call;
    stream->server = server;
    stream->writing = true; // until it begins
    stream->settings = *settings;
    stream->details = grpc_empty_slice();
    stream->start_tag.run = stream_started;
    stream->read_tag.run = stream_received;
    stream->write_tag.run = stream_written;
    stream->close_tag.run = stream_closed;
    stream->status_tag.run = stream_status;
    grpc_metadata_array_init(&stream->initial);
    grpc_metadata_array_init(&stream->trailing);
    atomic_init(&stream->refs, 2);
    rpc_loop_add(loop, stream);
    return stream;
}

static void stream_start_first(struct rpc_stream *stream)
{
    grpc_op ops[2];
    size_t count = 1;
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (!stream->server) {
        ops[1].op = GRPC_OP_RECV_INITIAL_METADATA;
        ops[1].data.recv_initial_metadata.recv_initial_metadata =
            &stream->initial;
        count = 2;
    }
    rpc_start(stream->call, ops, count, &stream->start_tag);
}

static void stream_start_status(struct rpc_stream *stream)
{
    grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    if (stream->server) {
        op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
        op.data.recv_close_on_server.cancelled = &stream->cancelled;
    } else {
        op.data.recv_status_on_client.trailing_metadata = &stream->trailing;
        op.data.recv_status_on_client.status = &stream->status;
        op.data.recv_status_on_client.status_details = &stream->details;
    }
    rpc_start(stream->call, &op, 1, &stream->status_tag);
}

void rpc_stream_begin(struct rpc_stream *stream)
{
    pod_mutex_lock(&stream->lock);
    stream->pending += 3;
    pod_mutex_unlock(&stream->lock);
    stream_start_first(stream);
    stream_start_status(stream);
    stream_start_read(stream);
    if (!stream->retried)
        stream_may_send(stream);
}

size_t rpc_stream_queued(struct rpc_stream *stream)
{
    pod_mutex_lock(&stream->lock);
    size_t bytes = stream->queued_bytes;
    pod_mutex_unlock(&stream->lock);
    return bytes;
}

void rpc_stream_cancel(struct rpc_stream *stream)
{
    (void)grpc_call_cancel(stream->call, NULL);
}
