// SPDX-License-Identifier: Apache-2.0
#include "api/feed_reader.h"

#include "api/common.h"
#include "api/park.h"
#include "core/base/clock.h"

bool feed_reader_init(struct feed_reader *reader, struct api_feed **place,
                      struct api_request *req)
{
    pod_list_init(&reader->link);
    reader->req = req;
    reader->feed = api_feed_join(place, api_pod(req), api_server_of(req));
    reader->stage = reader->at.snapshot ? FEED_SNAPSHOT : FEED_LIVE;
    if (reader->at.snapshot && reader->at.stage == FEED_CURSOR_CATCH_UP) {
        reader->stage = FEED_CATCH_UP;
        reader->horizon = reader->at.place;
        reader->at = (struct api_cursor){.sequence = reader->at.sequence};
    }
    reader->walk_stage = reader->at.stage;
    reader->walk_place = reader->at.place;
    return reader->feed != NULL;
}

void feed_reader_fini(struct feed_reader *reader)
{
    if (reader->feed == NULL)
        return;
    pod_list_remove(&reader->link);
    feed_message_unref(reader->ready);
    while (reader->queue_next < reader->queue_count)
        feed_message_unref(reader->queue[reader->queue_next++]);
    api_feed_leave(reader->feed);
    reader->feed = NULL;
}

struct api_cursor feed_reader_cursor(const struct feed_reader *reader)
{
    struct api_cursor cursor = reader->at;

    if (reader->stage == FEED_CATCH_UP) {
        cursor.snapshot = true;
        cursor.stage = FEED_CURSOR_CATCH_UP;
        cursor.place = reader->horizon;
    }
    return cursor;
}

struct feed_message *feed_reader_word(const struct feed_reader *reader,
                                      const char *type, unsigned retry_ms)
{
    const struct api_cursor cursor = feed_reader_cursor(reader);

    return feed_message_of_word(reader->feed->pod, type, &cursor,
                                pod_clock_wall(&pod_clock_system), retry_ms);
}

void feed_reader_skip_to_end(struct feed_reader *reader)
{
    api_feed_look(reader->feed);
    reader->at = (struct api_cursor){.sequence = reader->feed->head};
    reader->stage = FEED_LIVE;
    reader->horizon = 0;
}

// -------------------------------------------------------------------- the log

// Whether a later change of the same thing makes this one needless: always if
// it shows things as they are now, else up to the horizon.
static bool reader_is_overtaken(const struct feed_reader *reader,
                                const struct pod_change *entry)
{
    uint64_t limit =
        entry->kind == POD_CHANGE_EVENT ? reader->horizon : reader->feed->head;

    return entry->next != 0 && entry->next <= limit;
}

// The message of the change that the reader stands at, for the caller to unref.
// In CATCH_UP it is the reader's own, for its cursor. NULL: no memory.
static struct feed_message *reader_message(struct feed_reader *reader,
                                           const struct pod_change *entry)
{
    if (reader->stage == FEED_CATCH_UP) {
        const struct api_cursor cursor = feed_reader_cursor(reader);
        return feed_message_of_change(reader->feed->pod, &cursor, entry);
    }
    struct feed_message *message =
        api_feed_message(reader->feed, reader->at.sequence, entry);
    return message != NULL ? feed_message_ref(message) : NULL;
}

// Looks for the next message up to `end`.
static enum feed_next reader_scan(struct feed_reader *reader, uint64_t end,
                                  struct feed_message **out_message)
{
    int encoded = 0;

    for (int looked = 0; reader->at.sequence < end; looked++) {
        uint64_t sequence = reader->at.sequence + 1;
        const struct pod_change *entry = api_feed_entry(reader->feed, sequence);
        if (entry == NULL)
            return FEED_NEXT_EXPIRED;
        if (looked == FEED_SCAN || encoded == FEED_ENCODE)
            return FEED_NEXT_LATER;
        reader->at.sequence = sequence;
        if ((reader->topics >> entry->kind & 1) == 0 ||
            reader_is_overtaken(reader, entry))
            continue;
        struct feed_message *message = reader_message(reader, entry);
        if (message == NULL) {
            reader->at.sequence = sequence - 1;
            return FEED_NEXT_NO_MEMORY;
        }
        encoded++;
        if (!message->needless &&
            feed_message_has(message, reader->labels, reader->label_count)) {
            *out_message = message;
            return FEED_NEXT_MESSAGE;
        }
        feed_message_unref(message);
    }
    return FEED_NEXT_NOTHING;
}

static enum feed_next reader_next_live(struct feed_reader *reader,
                                       struct feed_message **out_message)
{
    uint64_t head = reader->feed->head;

    if (head - reader->at.sequence > FEED_CONFLATE &&
        reader->horizon <= reader->at.sequence)
        reader->horizon = head;
    return reader_scan(reader, head, out_message);
}

// ------------------------------------------------------------------- snapshots

static enum feed_next reader_next_queued(struct feed_reader *reader,
                                         struct feed_message **out_message)
{
    if (reader->queue_next == reader->queue_count) {
        reader->queue_next = 0;
        reader->queue_count = 0;
        enum feed_next next = feed_snapshot_step(reader);
        if (next != FEED_NEXT_MESSAGE)
            return next;
    }
    reader->at.stage = reader->walk_stage;
    reader->at.place = reader->queue_places[reader->queue_next];
    *out_message = reader->queue[reader->queue_next++];
    return FEED_NEXT_MESSAGE;
}

static enum feed_next reader_next_snapshot(struct feed_reader *reader,
                                           struct feed_message **out_message)
{
    enum feed_next next = reader_next_queued(reader, out_message);

    if (next != FEED_NEXT_NOTHING)
        return next;
    api_feed_look(reader->feed);
    reader->at = (struct api_cursor){.sequence = reader->at.sequence};
    reader->horizon = reader->feed->head;
    reader->stage = FEED_CATCH_UP;
    return FEED_NEXT_LATER;
}

static enum feed_next reader_next_catch_up(struct feed_reader *reader,
                                           struct feed_message **out_message)
{
    enum feed_next next = reader_scan(reader, reader->horizon, out_message);

    if (next != FEED_NEXT_NOTHING)
        return next;
    reader->stage = FEED_LIVE;
    *out_message = feed_reader_word(reader, "synced", 0);
    if (*out_message == NULL) {
        reader->stage = FEED_CATCH_UP;
        return FEED_NEXT_NO_MEMORY;
    }
    reader->horizon = 0;
    return FEED_NEXT_MESSAGE;
}

enum feed_next feed_reader_next(struct feed_reader *reader,
                                struct feed_message **out_message)
{
    if (reader->ready != NULL) {
        *out_message = reader->ready;
        reader->ready = NULL;
        return FEED_NEXT_MESSAGE;
    }
    switch (reader->stage) {
    case FEED_SNAPSHOT:
        return reader_next_snapshot(reader, out_message);
    case FEED_CATCH_UP:
        return reader_next_catch_up(reader, out_message);
    case FEED_LIVE:
        break;
    }
    return reader_next_live(reader, out_message);
}

// ----------------------------------------------------------------------- sleep

void feed_reader_sleep(struct feed_reader *reader)
{
    pod_list_remove(&reader->link);
    pod_list_push_back(&reader->feed->asleep, &reader->link);
}

void feed_reader_stay(struct feed_reader *reader)
{
    pod_list_remove(&reader->link);
}

void feed_reader_rouse(struct feed_reader *reader)
{
    if (feed_reader_next(reader, &reader->ready) == FEED_NEXT_NOTHING)
        feed_reader_sleep(reader);
    else
        api_wake(reader->req);
}
