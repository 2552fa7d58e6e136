// SPDX-License-Identifier: Apache-2.0
// The queue of a lane. Internal to the scheduler; not thread-safe.
//
// Whoever joins a queue gets the next position in it and keeps it until it
// leaves; those that may go are marked, at the level of their priority. So the
// order of a level is that of joining, whenever the marks are set, and who goes
// first is found in trees of bits, without a look at anybody else.
#ifndef POD_SCHED_QUEUE_H
#define POD_SCHED_QUEUE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    POD_SCHED_LEVELS = 21, // of priority
    POD_SCHED_QUEUE_DEPTH = 5,
    POD_SCHED_QUEUE_WORD = 64, // bits
};

// Where one stands, in one of its lanes.
struct pod_sched_place {
    uint32_t lane;
    uint32_t at; // position in the lane's queue, until it leaves
};

// Zero-initialise it.
struct pod_sched_queue {
    // By position: who has it, see queue.c, or 0.
    uintptr_t *items;
    // For each level a tree: a bit for each position, then a bit for each word
    // of those that is not 0, and so on up to a single word.
    uint64_t *bits;
    uint32_t base[POD_SCHED_QUEUE_DEPTH]; // where a row of a tree begins
    uint32_t depth;                       // rows
    uint32_t words;                       // of a tree
    uint32_t capacity;                    // positions
    uint32_t end;                         // the next position
    uint32_t waiting;                     // those that have one
    uint32_t levels;                      // bits: of levels that have marks
    // A mark that comes when there is no other is not in a tree, which has
    // none then, but here: its position and 1 more, or 0; and its level.
    uint32_t alone;
    uint32_t alone_level;
    // The first mark of the trees in the same way; 0: to be looked for.
    uint32_t first;
    uint32_t first_level;
};

struct pod_sched_gang;
struct pod_sched_node;

void pod_sched_queue_fini(struct pod_sched_queue *queue);
// Makes room for `count` more to join; false: no memory. Positions may change
// (they are kept where they are kept: in the places).
bool pod_sched_queue_reserve(struct pod_sched_queue *queue, size_t count)
    __attribute__((warn_unused_result));

// Joining sets `at` of the place that the node, or the gang's member, has.
// Room must have been reserved.
void pod_sched_queue_join(struct pod_sched_queue *queue,
                          struct pod_sched_node *node);
void pod_sched_queue_join_gang(struct pod_sched_queue *queue,
                               struct pod_sched_gang *member);
// Gives up a position, without a mark.
static inline void pod_sched_queue_leave(struct pod_sched_queue *queue,
                                         uint32_t at)
{
    assert(at < queue->end && queue->items[at] != 0);
    queue->items[at] = 0;
    queue->waiting--;
    if (queue->waiting == 0)
        queue->end = 0;
}

// In the trees: for what is not alone.
void pod_sched_queue_mark_more(struct pod_sched_queue *queue, uint32_t level,
                               uint32_t at);
void pod_sched_queue_unmark_more(struct pod_sched_queue *queue, uint32_t level,
                                 uint32_t at);

static inline void pod_sched_queue_mark(struct pod_sched_queue *queue,
                                        uint32_t level, uint32_t at)
{
    if (queue->levels != 0 || queue->alone != 0) {
        pod_sched_queue_mark_more(queue, level, at);
        return;
    }
    queue->alone = at + 1;
    queue->alone_level = level;
}

static inline void pod_sched_queue_unmark(struct pod_sched_queue *queue,
                                          uint32_t level, uint32_t at)
{
    if (queue->alone == 0)
        pod_sched_queue_unmark_more(queue, level, at);
    queue->alone = 0;
}

// The first node with a mark, or NULL.
struct pod_sched_node *pod_sched_queue_first(struct pod_sched_queue *queue);
// How many marks come before one, counted to `limit`.
size_t pod_sched_queue_rank(const struct pod_sched_queue *queue, uint32_t level,
                            uint32_t at, size_t limit);

#endif
