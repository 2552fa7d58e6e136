// SPDX-License-Identifier: Apache-2.0
// Items of one size, taken from chunks of a fixed size that are kept until
// the pool goes or all of it is trimmed. Items may have more parts, elsewhere
// in their chunk: of them the pool knows nothing (node.h). Internal to the
// scheduler; not thread-safe.
#ifndef POD_SCHED_POOL_H
#define POD_SCHED_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Chunks are aligned to their size, so an item's address tells its chunk.
#define POD_SCHED_CHUNK_BYTES ((size_t)8 << 20)

// At the start of a chunk, in place of its first item.
struct pod_sched_chunk {
    void *block; // what is allocated, with the chunk in it
    uint32_t number;
};

struct pod_sched_pool_free {
    struct pod_sched_pool_free *next;
};

struct pod_sched_pool {
    size_t item_bytes;
    size_t places;    // for items at the start of a chunk
    size_t per_chunk; // items in a chunk
    size_t spare;     // items that can be taken without more memory
    struct pod_sched_pool_free *free; // items given back, newest first
    // Items never taken: from `fresh` to the end of the current chunk, and in
    // the chunks after it.
    char *fresh;
    size_t fresh_count;
    size_t fresh_chunk; // the next one to be begun
    struct pod_sched_chunk **chunks;
    size_t chunk_count;
    size_t chunk_capacity;
};

// Items are aligned to the greatest power of two that divides item_bytes, which
// is at least the size of struct pod_sched_chunk. A chunk begins with `places`
// for them, the first of which it needs itself; behind these their other parts
// may stand.
void pod_sched_pool_init(struct pod_sched_pool *pool, size_t item_bytes,
                         size_t places);
// Frees the chunks, and with them all items.
void pod_sched_pool_fini(struct pod_sched_pool *pool);
// Makes room for more items; false: no memory. `count` more than are spare.
bool pod_sched_pool_grow(struct pod_sched_pool *pool, size_t count)
    __attribute__((warn_unused_result));
// Begins the next chunk.
void pod_sched_pool_begin(struct pod_sched_pool *pool);

// Makes sure that `count` items can be taken; false: no memory.
static inline bool pod_sched_pool_reserve(struct pod_sched_pool *pool,
                                          size_t count)
{
    return count <= pool->spare || pod_sched_pool_grow(pool, count);
}

// How many items are taken and not given back.
static inline size_t pod_sched_pool_taken(const struct pod_sched_pool *pool)
{
    return pool->chunk_count * pool->per_chunk - pool->spare;
}

// An item, uninitialised. It must have been reserved.
static inline void *pod_sched_pool_take(struct pod_sched_pool *pool)
{
    struct pod_sched_pool_free *item = pool->free;

    pool->spare--;
    if (item != NULL) {
        pool->free = item->next;
        return item;
    }
    if (pool->fresh_count == 0)
        pod_sched_pool_begin(pool);
    void *fresh = pool->fresh;
    pool->fresh += pool->item_bytes;
    pool->fresh_count--;
    return fresh;
}

// Gives one back. Its first bytes are written, as many as a pointer has.
static inline void pod_sched_pool_give(struct pod_sched_pool *pool, void *item)
{
    struct pod_sched_pool_free *freed = item;

    freed->next = pool->free;
    pool->free = freed;
    pool->spare++;
}

// A list of items to be given back together.
struct pod_sched_pool_list {
    struct pod_sched_pool_free *newest;
    struct pod_sched_pool_free *oldest;
};

// Begins a list, or adds to it.
static inline void pod_sched_pool_collect(struct pod_sched_pool_list *list,
                                          void *item)
{
    struct pod_sched_pool_free *freed = item;

    if (list->newest == NULL)
        list->oldest = freed;
    freed->next = list->newest;
    list->newest = freed;
}

// Gives back the `count` items of a list.
static inline void pod_sched_pool_give_list(struct pod_sched_pool *pool,
                                            struct pod_sched_pool_list *list,
                                            size_t count)
{
    if (count == 0)
        return;
    list->oldest->next = pool->free;
    pool->free = list->newest;
    pool->spare += count;
}

// Numbers of items whose size is a power of two: from 1 on, and the same as
// long as the pool lives. Size and places are those of the pool, known to the
// compiler.
static inline uint32_t pod_sched_pool_number(const void *item,
                                             size_t item_bytes, uint32_t places)
{
    uintptr_t offset = (uintptr_t)item & (POD_SCHED_CHUNK_BYTES - 1);
    const struct pod_sched_chunk *chunk =
        (const struct pod_sched_chunk *)((uintptr_t)item - offset);

    return chunk->number * places + (uint32_t)(offset / item_bytes);
}

static inline void *pod_sched_pool_at(const struct pod_sched_pool *pool,
                                      uint32_t number, size_t item_bytes,
                                      uint32_t places)
{
    return (char *)pool->chunks[number / places] +
           (size_t)(number % places) * item_bytes;
}

#endif
