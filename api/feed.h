// SPDX-License-Identifier: Apache-2.0
// The stream of changes of a pod, as one or many read it.
//
// The engine's log (core/pod/changes.h) says what changed, in order. A feed
// holds what is encoded of it: messages by their sequence, in a cache of
// bounded size. The first reader of a change encodes it, the others share the
// bytes. A reader holds a position and nothing that grows. One that is far
// behind gets only the latest change of each thing (conflation), and one whose
// position has left the log must read everything again (resync).
//
// There is a feed while there are readers. All of it is the loop thread's.
#ifndef POD_API_FEED_H
#define POD_API_FEED_H

#include "api/cursor.h"
#include "api/feed_message.h"
#include "api/http.h"
#include "core/pod/changes.h"
#include "core/pod/pod.h"

enum {
    FEED_SLOTS = 16 * 1024,        // messages in the cache
    FEED_BYTES = 32 * 1024 * 1024, // and their bytes
    FEED_BATCH = 256,              // entries of the log taken at once
};

struct api_feed {
    struct pod *pod;
    struct api_server *server;
    struct api_feed **place; // where its owner keeps it
    size_t readers;
    struct pod_list asleep; // feed_reader.link: have read all that fits them
    uint64_t head;          // the last change that is known of
    uint64_t told;          // and that the readers were woken for
    int64_t next_turn_ns;
    // A piece of the log: changes first_entry ...
    uint64_t first_entry;
    size_t entry_count;
    struct pod_change entries[FEED_BATCH];
    struct pod_list messages; // feed_message.link: the cache, oldest first
    size_t bytes;
    struct feed_message *slots[FEED_SLOTS]; // by sequence
};

// The feed at *place, made if there is none yet; each join needs a leave. NULL:
// no memory.
struct api_feed *api_feed_join(struct api_feed **place, struct pod *pod,
                               struct api_server *server);
void api_feed_leave(struct api_feed *feed);

// From options.on_notify: looks whether something has changed, at most every
// 20 ms, and wakes the readers it concerns. `feed` may be NULL.
void api_feed_turn(struct api_feed *feed);
// Looks at once.
void api_feed_look(struct api_feed *feed);

// The entry of a change (0 < sequence <= head), valid until the next call.
// NULL: it has left the log.
const struct pod_change *api_feed_entry(struct api_feed *feed,
                                        uint64_t sequence);
// Its message, borrowed from the cache until the next call. NULL: no memory.
struct feed_message *api_feed_message(struct api_feed *feed, uint64_t sequence,
                                      const struct pod_change *entry);

#endif
