// SPDX-License-Identifier: Apache-2.0
// The two ends call each other back (notify wakes the consumer, resume the
// engine), always after the lock is given up: what is to be called is decided
// under the lock and called behind it. The consumer's close waits for a notify
// that is on its way; the engine's finish does not wait for a resume, because
// two threads that finish each other's streams from within a resume would then
// wait for ever.
#include "core/pod/stream.h"

#include <assert.h>

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/mem.h"

struct stream_chunk {
    struct pod_list link;
    struct pod_blob *blob;
};

struct pod_stream {
    struct pod_mutex lock;
    struct pod_cond notified; // `notifying` went down to 0
    struct pod_list chunks;   // pushed and not popped
    uint64_t window;
    uint64_t held;      // bytes in `chunks`
    unsigned count;     // of `chunks`
    uint64_t last;      // bytes of the newest chunk: what the next will need
    unsigned refs;      // 2: both ends, 1: one has gone
    bool armed;         // the consumer found nothing: notify it
    bool starved;       // the engine found no room: resume it
    bool finished;      // no more chunks will come
    bool closed;        // the consumer has gone
    bool abandoned;     // it wants no more, but the read is to go on
    bool closed_told;   // and the engine knows
    unsigned notifying; // calls of notify under way
    void (*notify)(void *arg);
    void *notify_arg;
    void (*resume)(void *arg, bool closed);
    void *resume_arg;
    void (*release)(void *arg);
    struct pod_err err; // of a finished stream
};

struct pod_stream *pod_stream_new(uint64_t window, void (*notify)(void *arg),
                                  void *arg)
{
    struct pod_stream *stream = pod_calloc(1, sizeof(*stream));

    if (stream == NULL)
        return NULL;
    pod_mutex_init(&stream->lock, POD_RANK_STREAM, "stream");
    pod_cond_init(&stream->notified);
    pod_list_init(&stream->chunks);
    stream->window = window;
    stream->refs = 2;
    stream->notify = notify;
    stream->notify_arg = arg;
    return stream;
}

static void stream_free_chunks(struct pod_list *chunks)
{
    struct pod_list *link;

    while ((link = pod_list_pop_front(chunks)) != NULL) {
        struct stream_chunk *chunk =
            POD_CONTAINER(link, struct stream_chunk, link);
        pod_blob_unref(chunk->blob);
        pod_free(chunk);
    }
}

static void stream_free(struct pod_stream *stream)
{
    assert(pod_list_empty(&stream->chunks));
    if (stream->release != NULL)
        stream->release(stream->resume_arg);
    pod_cond_fini(&stream->notified);
    pod_mutex_fini(&stream->lock);
    pod_free(stream);
}

// Moves the chunks that nobody will take to `out_chunks`.
static void stream_drop_locked(struct pod_stream *stream,
                               struct pod_list *out_chunks)
{
    pod_list_splice(out_chunks, &stream->chunks);
    stream->held = 0;
    stream->count = 0;
}

static bool stream_room_locked(const struct pod_stream *stream)
{
    uint64_t next;

    if (stream->held == 0)
        return true;
    return stream->count < POD_STREAM_CHUNKS &&
           !__builtin_add_overflow(stream->held, stream->last, &next) &&
           next <= stream->window;
}

// Whether the consumer is to be notified; then stream_notify must follow.
static bool stream_disarm_locked(struct pod_stream *stream)
{
    if (!stream->armed || stream->closed || stream->notify == NULL)
        return false;
    stream->armed = false;
    stream->notifying++;
    return true;
}

static void stream_notify(struct pod_stream *stream)
{
    stream->notify(stream->notify_arg);
    pod_mutex_lock(&stream->lock);
    if (--stream->notifying == 0)
        pod_cond_broadcast(&stream->notified);
    pod_mutex_unlock(&stream->lock);
}

static enum pod_stream_state
stream_state_locked(const struct pod_stream *stream)
{
    if (stream->err.code != POD_OK)
        return POD_STREAM_FAILED;
    if (!pod_list_empty(&stream->chunks))
        return POD_STREAM_CHUNK;
    return stream->finished ? POD_STREAM_END : POD_STREAM_EMPTY;
}

// Takes the first chunk out. *out_resume: the engine waited for this room.
static struct stream_chunk *stream_take_locked(struct pod_stream *stream,
                                               bool *out_resume)
{
    struct stream_chunk *chunk =
        POD_CONTAINER(stream->chunks.next, struct stream_chunk, link);

    pod_list_remove(&chunk->link);
    stream->held -= chunk->blob->size;
    stream->count--;
    *out_resume = stream->starved && !stream->finished &&
                  stream->resume != NULL && stream_room_locked(stream);
    if (*out_resume)
        stream->starved = false;
    return chunk;
}

enum pod_stream_state pod_stream_pop(struct pod_stream *stream,
                                     struct pod_blob **out_chunk,
                                     struct pod_err *out_err)
{
    struct stream_chunk *chunk = NULL;
    bool resume = false;

    pod_mutex_lock(&stream->lock);
    enum pod_stream_state state = stream_state_locked(stream);
    if (state == POD_STREAM_CHUNK)
        chunk = stream_take_locked(stream, &resume);
    else if (state == POD_STREAM_EMPTY)
        stream->armed = true;
    else if (state == POD_STREAM_FAILED && out_err != NULL)
        *out_err = stream->err;
    pod_mutex_unlock(&stream->lock);

    if (chunk != NULL) {
        if (out_chunk != NULL)
            *out_chunk = chunk->blob;
        else
            pod_blob_unref(chunk->blob);
        pod_free(chunk);
    }
    if (resume)
        stream->resume(stream->resume_arg, false);
    return state;
}

enum pod_stream_state pod_stream_peek(struct pod_stream *stream)
{
    pod_mutex_lock(&stream->lock);
    enum pod_stream_state state = stream_state_locked(stream);
    if (state == POD_STREAM_EMPTY)
        stream->armed = true;
    pod_mutex_unlock(&stream->lock);
    return state;
}

// Whether the engine must still be told that the consumer has gone.
static bool stream_tell_closed_locked(struct pod_stream *stream)
{
    if (!stream->closed || stream->abandoned || stream->closed_told ||
        stream->finished || stream->resume == NULL)
        return false;
    stream->closed_told = true;
    stream->starved = false;
    return true;
}

void pod_stream_abandon(struct pod_stream *stream)
{
    struct pod_list dropped;

    pod_list_init(&dropped);
    pod_mutex_lock(&stream->lock);
    stream->abandoned = true;
    stream_drop_locked(stream, &dropped);
    bool resume =
        stream->starved && !stream->finished && stream->resume != NULL;
    if (resume)
        stream->starved = false;
    pod_mutex_unlock(&stream->lock);

    stream_free_chunks(&dropped);
    if (resume)
        stream->resume(stream->resume_arg, false);
}

// Gives one end's reference up.
static void stream_unref(struct pod_stream *stream)
{
    pod_mutex_lock(&stream->lock);
    bool last = --stream->refs == 0;
    pod_mutex_unlock(&stream->lock);
    if (last)
        stream_free(stream);
}

void pod_stream_close(struct pod_stream *stream)
{
    struct pod_list dropped;

    if (stream == NULL)
        return;
    pod_list_init(&dropped);
    pod_mutex_lock(&stream->lock);
    stream->closed = true;
    while (stream->notifying > 0)
        pod_cond_wait(&stream->notified, &stream->lock);
    stream_drop_locked(stream, &dropped);
    bool tell = stream_tell_closed_locked(stream);
    pod_mutex_unlock(&stream->lock);

    stream_free_chunks(&dropped);
    if (tell)
        stream->resume(stream->resume_arg, true);
    stream_unref(stream);
}

// Appends the chunk, or spoils the stream when there is no memory for it.
// Whatever is not kept goes to `out_dropped` or back to the caller.
static struct pod_blob *stream_append_locked(struct pod_stream *stream,
                                             struct stream_chunk *chunk,
                                             struct pod_blob *blob,
                                             struct pod_list *out_dropped)
{
    assert(!stream->finished);
    if (stream->closed || stream->abandoned || stream->err.code != POD_OK)
        return blob;
    if (chunk == NULL) {
        (void)pod_err_set(&stream->err, POD_REASON_OUT_OF_MEMORY,
                          "no memory for a piece of %zu bytes", blob->size);
        stream_drop_locked(stream, out_dropped);
        return blob;
    }
    chunk->blob = blob;
    pod_list_push_back(&stream->chunks, &chunk->link);
    stream->held += blob->size;
    stream->count++;
    stream->last = blob->size;
    return NULL;
}

bool pod_stream_push(struct pod_stream *stream, struct pod_blob *owned_chunk)
{
    struct stream_chunk *chunk = pod_malloc(sizeof(*chunk));
    struct pod_list dropped;

    pod_list_init(&dropped);
    pod_mutex_lock(&stream->lock);
    struct pod_blob *refused =
        stream_append_locked(stream, chunk, owned_chunk, &dropped);
    bool notify = stream_disarm_locked(stream);
    bool tell = stream_tell_closed_locked(stream);
    bool room = stream_room_locked(stream);
    stream->starved = !room;
    pod_mutex_unlock(&stream->lock);

    stream_free_chunks(&dropped);
    if (refused != NULL) {
        pod_blob_unref(refused);
        pod_free(chunk);
    }
    if (notify)
        stream_notify(stream);
    if (tell)
        stream->resume(stream->resume_arg, true);
    return room;
}

void pod_stream_on_resume(struct pod_stream *stream,
                          void (*resume)(void *arg, bool closed), void *arg)
{
    pod_mutex_lock(&stream->lock);
    stream->resume = resume;
    stream->resume_arg = arg;
    pod_mutex_unlock(&stream->lock);
}

void pod_stream_on_release(struct pod_stream *stream,
                           void (*release)(void *arg))
{
    pod_mutex_lock(&stream->lock);
    stream->release = release;
    pod_mutex_unlock(&stream->lock);
}

void pod_stream_finish(struct pod_stream *stream, const struct pod_err *err)
{
    struct pod_list dropped;

    if (stream == NULL)
        return;
    pod_list_init(&dropped);
    pod_mutex_lock(&stream->lock);
    assert(!stream->finished);
    stream->finished = true;
    stream->starved = false;
    if (err != NULL && err->code != POD_OK && stream->err.code == POD_OK) {
        stream->err = *err;
        stream_drop_locked(stream, &dropped);
    }
    bool notify = stream_disarm_locked(stream);
    pod_mutex_unlock(&stream->lock);

    stream_free_chunks(&dropped);
    if (notify)
        stream_notify(stream);
    stream_unref(stream);
}
