// SPDX-License-Identifier: Apache-2.0
// The stream of changes as SSE and NDJSON. A client that does not read is the
// socket's to hold up: nothing is queued for it here.
#include <string.h>

#include "api/common.h"
#include "api/feed_get.h"
#include "api/http_internal.h"
#include "core/base/clock.h"

enum { STREAM_RETRY_MS = 2000 };

static enum feed_next stream_word(struct feed_watch *watch, const char *type,
                                  unsigned retry_ms)
{
    watch->message = feed_reader_word(&watch->reader, type, retry_ms);
    return watch->message != NULL ? FEED_NEXT_MESSAGE : FEED_NEXT_NO_MEMORY;
}

static enum feed_next stream_bookmark(struct api_request *req,
                                      struct feed_watch *watch, int64_t now)
{
    watch->greeted = true;
    watch->bookmark_ns = pod_time_add(now, req->server->limits.bookmark_ns);
    return stream_word(watch, "bookmark", 0);
}

// The next message to write. NOTHING with `over` set: the stream has ended.
static enum feed_next stream_next(struct api_request *req,
                                  struct feed_watch *watch)
{
    struct feed_reader *reader = &watch->reader;
    int64_t now = pod_clock_mono(&pod_clock_system);

    if (watch->over)
        return FEED_NEXT_NOTHING;
    // What was taken out of the log stands before its cursor is shown.
    if (reader->ready == NULL && api_server_draining(req->server)) {
        watch->over = true;
        return stream_word(watch, "goodbye", STREAM_RETRY_MS);
    }
    if (reader->ready == NULL && reader->stage == FEED_LIVE &&
        (!watch->greeted || now >= watch->bookmark_ns))
        return stream_bookmark(req, watch, now);
    enum feed_next next = feed_reader_next(reader, &watch->message);
    if (next != FEED_NEXT_EXPIRED)
        return next;
    feed_reader_skip_to_end(reader);
    return stream_word(watch, "resync", 0);
}

// The part of a message that this form writes.
static const char *stream_bytes(const struct feed_watch *watch,
                                size_t *out_length)
{
    const struct feed_message *message = watch->message;

    if (watch->form == FEED_SSE) {
        *out_length = message->frame_length;
        return message->text;
    }
    *out_length = message->json_length + 1; // with its line feed
    return message->text + message->json_start;
}

// Writes what fits of the present message.
static size_t stream_write(struct feed_watch *watch, char *out, size_t max)
{
    size_t length = 0;
    const char *bytes = stream_bytes(watch, &length);
    size_t size = length - watch->written < max ? length - watch->written : max;

    memcpy(out, bytes + watch->written, size);
    watch->written += size;
    if (watch->written == length) {
        feed_message_unref(watch->message);
        watch->message = NULL;
        watch->written = 0;
    }
    return size;
}

// Nothing was written: what now?
static ptrdiff_t stream_pause(struct api_request *req, struct feed_watch *watch,
                              enum feed_next next)
{
    if (watch->over)
        return API_LIVE_END;
    if (next == FEED_NEXT_NO_MEMORY)
        return API_LIVE_CUT; // the client comes back with its cursor
    if (next == FEED_NEXT_LATER) {
        api_live_until(req, 0);
        return 0;
    }
    feed_reader_sleep(&watch->reader);
    api_live_until(req, watch->bookmark_ns);
    return 0;
}

static ptrdiff_t stream_fill(struct api_request *req, char *out, size_t max)
{
    struct feed_watch *watch = api_state(req);
    enum feed_next next = FEED_NEXT_MESSAGE;
    size_t used = 0;

    feed_reader_stay(&watch->reader);
    while (used < max && next == FEED_NEXT_MESSAGE) {
        if (watch->message == NULL)
            next = stream_next(req, watch);
        if (watch->message != NULL)
            used += stream_write(watch, out + used, max - used);
    }
    return used > 0 ? (ptrdiff_t)used : stream_pause(req, watch, next);
}

// Whether the log still has what follows the reader's place.
static bool stream_can_begin(const struct feed_reader *reader)
{
    return reader->at.sequence >= reader->feed->head ||
           api_feed_entry(reader->feed, reader->at.sequence + 1) != NULL;
}

void feed_stream_start(struct api_request *req, struct feed_watch *watch,
                       const char *type)
{
    struct pod_err err;

    api_feed_look(watch->reader.feed);
    if (watch->form == FEED_LINES && !stream_can_begin(&watch->reader)) {
        (void)pod_err_set(&err, POD_REASON_EXPIRED,
                          "since: the changes after this cursor are no longer "
                          "kept; start again with since=snapshot");
        api_problem(req, &err);
        return;
    }
    // "synced" greets who gets a snapshot.
    watch->greeted = watch->reader.stage == FEED_SNAPSHOT;
    watch->bookmark_ns =
        pod_time_add(api_now(req), req->server->limits.bookmark_ns);
    api_header(req, "X-Accel-Buffering", "no");
    api_reply_live(req, 200, type, stream_fill);
}
