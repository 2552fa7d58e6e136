// SPDX-License-Identifier: Apache-2.0
#include "api/feed.h"

#include "api/feed_reader.h"
#include "api/park.h"
#include "api/server.h"
#include "core/base/clock.h"
#include "core/base/mem.h"

// How long changes are gathered before they are sent.
#define FEED_TURN_NS (20 * INT64_C(1000000))

struct api_feed *api_feed_join(struct api_feed **place, struct pod *pod,
                               struct api_server *server)
{
    struct api_feed *feed = *place;

    if (feed == NULL) {
        feed = pod_calloc(1, sizeof(*feed));
        if (feed == NULL)
            return NULL;
        feed->pod = pod;
        feed->server = server;
        feed->place = place;
        pod_list_init(&feed->asleep);
        pod_list_init(&feed->messages);
        *place = feed;
        api_feed_look(feed);
        feed->told = feed->head;
    }
    feed->readers++;
    return feed;
}

static void feed_evict(struct api_feed *feed, struct feed_message *message)
{
    pod_list_remove(&message->link);
    feed->slots[message->sequence % FEED_SLOTS] = NULL;
    feed->bytes -= message->bytes;
    feed_message_unref(message);
}

static void feed_evict_oldest(struct api_feed *feed)
{
    feed_evict(feed,
               POD_CONTAINER(feed->messages.next, struct feed_message, link));
}

void api_feed_leave(struct api_feed *feed)
{
    if (--feed->readers > 0)
        return;
    while (!pod_list_empty(&feed->messages))
        feed_evict_oldest(feed);
    *feed->place = NULL;
    pod_free(feed);
}

// -------------------------------------------------------------------- looking

void api_feed_look(struct api_feed *feed)
{
    feed->head = pod_last_change(feed->pod, true);
    // The engine notifies only about later changes.
    if (feed->head != feed->told)
        api_server_notify_at(feed->server, feed->next_turn_ns);
}

void api_feed_turn(struct api_feed *feed)
{
    struct pod_list asleep;
    struct pod_list *item;

    if (feed == NULL)
        return;
    int64_t now = pod_clock_mono(&pod_clock_system);
    if (now < feed->next_turn_ns) {
        api_server_notify_at(feed->server, feed->next_turn_ns);
        return;
    }
    feed->next_turn_ns = pod_time_add(now, FEED_TURN_NS);
    feed->head = pod_last_change(feed->pod, true);
    if (feed->head == feed->told)
        return;
    feed->told = feed->head;
    pod_list_init(&asleep);
    pod_list_splice(&asleep, &feed->asleep);
    while ((item = pod_list_pop_front(&asleep)) != NULL)
        feed_reader_rouse(POD_CONTAINER(item, struct feed_reader, link));
}

// ------------------------------------------------------------------ the log

const struct pod_change *api_feed_entry(struct api_feed *feed,
                                        uint64_t sequence)
{
    if (sequence < feed->first_entry ||
        sequence - feed->first_entry >= feed->entry_count) {
        feed->first_entry = sequence;
        if (pod_read_changes(feed->pod, sequence - 1, FEED_BATCH, feed->entries,
                             &feed->entry_count, NULL) != POD_OK)
            feed->entry_count = 0;
        if (feed->entry_count == 0)
            return NULL;
    }
    return &feed->entries[sequence - feed->first_entry];
}

// ---------------------------------------------------------------- the cache

struct feed_message *api_feed_message(struct api_feed *feed, uint64_t sequence,
                                      const struct pod_change *entry)
{
    struct feed_message **slot = &feed->slots[sequence % FEED_SLOTS];
    struct feed_message *message = *slot;

    if (message != NULL && message->sequence == sequence)
        return message;
    if (message != NULL)
        feed_evict(feed, message);
    const struct api_cursor cursor = {.sequence = sequence};
    message = feed_message_of_change(feed->pod, &cursor, entry);
    if (message == NULL)
        return NULL;
    *slot = message;
    pod_list_push_back(&feed->messages, &message->link);
    feed->bytes += message->bytes;
    // The one just made stays, however large it is.
    while (feed->bytes > FEED_BYTES && feed->messages.next != &message->link)
        feed_evict_oldest(feed);
    return message;
}
