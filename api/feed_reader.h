// SPDX-License-Identifier: Apache-2.0
// One reader of a feed: its position, its filters, and what it is sent next.
//
//   SNAPSHOT   the present state, collection by collection
//   CATCH_UP   the last change of each thing that changed meanwhile, then
//              "synced"
//   LIVE       every change, in order
//
// A snapshot begins at a place in the log. Each thing in it is at least as new
// as that place, and each change of CATCH_UP is at least as new as what the
// snapshot showed. So states never go back, and after "synced" nothing is sent
// twice. A cursor given out during these two phases continues them.
#ifndef POD_API_FEED_READER_H
#define POD_API_FEED_READER_H

#include "api/feed.h"

enum feed_stage { FEED_SNAPSHOT, FEED_CATCH_UP, FEED_LIVE };

enum {
    FEED_COLLECTIONS = 6, // of a snapshot
    // The stage in cursors of CATCH_UP; their place is its horizon.
    FEED_CURSOR_CATCH_UP = 90,
    FEED_QUEUE = 16,       // messages of a snapshot that are made at once
    FEED_CONFLATE = 16384, // changes behind: from there on only the latest
    FEED_SCAN = 2048,      // entries looked at before others have their turn
    FEED_ENCODE = 128,     // and those whose labels are looked at
};

enum feed_next {
    FEED_NEXT_MESSAGE,
    FEED_NEXT_NOTHING, // all is read
    FEED_NEXT_LATER,   // there is more to look at; others should have a turn
    FEED_NEXT_EXPIRED, // the log does not reach back to its place
    FEED_NEXT_NO_MEMORY,
};

struct feed_reader {
    struct pod_list link; // in the feed's asleep
    struct api_feed *feed;
    struct api_request *req;
    unsigned topics; // bit 1 << enum pod_change_kind
    const struct pod_label *labels;
    size_t label_count;
    enum feed_stage stage;
    struct api_cursor at; // what has been given
    uint32_t walk_stage;  // SNAPSHOT: the collection that is read, and how far
    uint64_t walk_place;
    bool walk_over;   // of this collection
    uint64_t horizon; // up to here only the last change of each thing; 0: all
    struct feed_message *queue[FEED_QUEUE]; // of one collection
    uint64_t queue_places[FEED_QUEUE];      // where each of them stands
    size_t queue_count;
    size_t queue_next;
    struct feed_message *ready; // found while it was asleep; owned
};

// Joins the feed at *place. `topics`, labels and `at` are set; the labels must
// live as long as the reader. False: no memory.
bool feed_reader_init(struct feed_reader *reader, struct api_feed **place,
                      struct api_request *req);
void feed_reader_fini(struct feed_reader *reader);

// The next message, for the caller to unref.
enum feed_next feed_reader_next(struct feed_reader *reader,
                                struct feed_message **out_message);
// Begins at the present end of the log.
void feed_reader_skip_to_end(struct feed_reader *reader);
// Has read all: its request is woken when there is more.
void feed_reader_sleep(struct feed_reader *reader);
// Not asleep any more, whatever there is.
void feed_reader_stay(struct feed_reader *reader);
// The feed: something has changed. Wakes the request if that fits the reader.
void feed_reader_rouse(struct feed_reader *reader);
// What its cursor is now.
struct api_cursor feed_reader_cursor(const struct feed_reader *reader);
// bookmark, synced, resync or goodbye at the reader's place. NULL: no memory.
struct feed_message *feed_reader_word(const struct feed_reader *reader,
                                      const char *type, unsigned retry_ms);

// The next messages of a snapshot into the queue (feed_snapshot.c).
// NOTHING: it is over. LATER: nothing was found yet.
enum feed_next feed_snapshot_step(struct feed_reader *reader);

#endif
