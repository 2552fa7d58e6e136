// SPDX-License-Identifier: Apache-2.0
// Where the parts of a node stand. A chunk of nodes holds, one after the other,
// what nearly each event looks at, the user pointers, and what is looked at
// more rarely: the less of a node is touched, the more nodes the cache holds.
// Internal to the scheduler.
#ifndef POD_SCHED_NODE_H
#define POD_SCHED_NODE_H

#include <stddef.h>
#include <stdint.h>

#include "core/sched/pool.h"

enum {
    POD_SCHED_NODE_BYTES = 16,
    POD_SCHED_COLD_BYTES = 32,
    POD_SCHED_NODE_PLACES = 1 << 17, // in a chunk
};

// From the start of a chunk; nodes stand at its start.
#define POD_SCHED_USERS_AT                                                     \
    ((size_t)POD_SCHED_NODE_PLACES * POD_SCHED_NODE_BYTES)
#define POD_SCHED_COLD_AT (2 * POD_SCHED_USERS_AT)

_Static_assert(POD_SCHED_USERS_AT + sizeof(void *) * POD_SCHED_NODE_PLACES <=
                   POD_SCHED_COLD_AT,
               "the user pointers end before the cold parts");
_Static_assert(POD_SCHED_COLD_AT +
                       (size_t)POD_SCHED_COLD_BYTES * POD_SCHED_NODE_PLACES <=
                   POD_SCHED_CHUNK_BYTES,
               "a chunk holds all parts");

// The part of a node that begins at `at` in its chunk.
static inline void *pod_sched_node_part(const void *node, size_t at,
                                        size_t part_bytes)
{
    uintptr_t offset = (uintptr_t)node & (POD_SCHED_CHUNK_BYTES - 1);

    return (void *)((uintptr_t)node - offset + at +
                    offset / POD_SCHED_NODE_BYTES * part_bytes);
}

static inline void *pod_sched_node_cold(const void *node)
{
    return pod_sched_node_part(node, POD_SCHED_COLD_AT, POD_SCHED_COLD_BYTES);
}

static inline void *pod_sched_node_of_cold(const void *cold)
{
    uintptr_t offset = (uintptr_t)cold & (POD_SCHED_CHUNK_BYTES - 1);

    return (void *)((uintptr_t)cold - offset +
                    (offset - POD_SCHED_COLD_AT) / POD_SCHED_COLD_BYTES *
                        POD_SCHED_NODE_BYTES);
}

// Where its user pointer stands.
static inline void **pod_sched_node_user_at(const void *node)
{
    return pod_sched_node_part(node, POD_SCHED_USERS_AT, sizeof(void *));
}

#endif
