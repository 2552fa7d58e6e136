// SPDX-License-Identifier: Apache-2.0
// Items of one size, taken from chunks of a fixed size that are kept until
// the pool goes. Internal to the scheduler; not thread-safe.
#ifndef POD_SCHED_POOL_H
#define POD_SCHED_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pod_sched_pool_chunk;

struct pod_sched_pool_free {
    struct pod_sched_pool_free *next;
};

struct pod_sched_pool {
    size_t item_bytes;
    size_t per_chunk; // items in a chunk
    size_t spare;     // items that can be taken without more memory
    size_t used;      // items ever taken from the current chunk
    struct pod_sched_pool_free *free; // items given back, newest first
    struct pod_sched_pool_chunk *current;
    struct pod_sched_pool_chunk *first;
    struct pod_sched_pool_chunk *last;
};

// Items are aligned to the greatest power of two that divides item_bytes.
void pod_sched_pool_init(struct pod_sched_pool *pool, size_t item_bytes);
// Frees the chunks, and with them all items.
void pod_sched_pool_fini(struct pod_sched_pool *pool);
// Makes sure that `count` items can be taken; false: no memory.
bool pod_sched_pool_reserve(struct pod_sched_pool *pool, size_t count)
    __attribute__((warn_unused_result));
// An item, uninitialised. It must have been reserved.
void *pod_sched_pool_take(struct pod_sched_pool *pool);
// Gives one back.
static inline void pod_sched_pool_give(struct pod_sched_pool *pool, void *item)
{
    struct pod_sched_pool_free *freed = item;

    freed->next = pool->free;
    pool->free = freed;
    pool->spare++;
}

#endif
