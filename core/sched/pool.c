// SPDX-License-Identifier: Apache-2.0
#include "core/sched/pool.h"

#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>

#include "core/base/mem.h"

// Chunks are made of whole huge pages: with many operations in flight nearly
// each access is to another page, and small pages would miss the TLB each time.
// What alignment leaves unused is never touched, so it is no memory.
#define POOL_CHUNK_BYTES ((size_t)8 << 20)
#define POOL_HUGE_BYTES  ((size_t)2 << 20)

struct pod_sched_pool_chunk {
    struct pod_sched_pool_chunk *next;
    char *items;
};

void pod_sched_pool_init(struct pod_sched_pool *pool, size_t item_bytes)
{
    assert(item_bytes >= sizeof(struct pod_sched_pool_free));
    *pool = (struct pod_sched_pool){
        .item_bytes = item_bytes,
        .per_chunk = POOL_CHUNK_BYTES / item_bytes,
    };
}

void pod_sched_pool_fini(struct pod_sched_pool *pool)
{
    struct pod_sched_pool_chunk *chunk = pool->first;

    while (chunk != NULL) {
        struct pod_sched_pool_chunk *next = chunk->next;
        pod_free(chunk);
        chunk = next;
    }
    pool->first = NULL;
}

// The next address that the power of two divides.
static char *pool_align(char *address, size_t align)
{
    size_t over = (uintptr_t)address & (align - 1);

    return over > 0 ? address + (align - over) : address;
}

static struct pod_sched_pool_chunk *pool_chunk_new(void)
{
    size_t bytes = sizeof(struct pod_sched_pool_chunk) + POOL_HUGE_BYTES +
                   POOL_CHUNK_BYTES;
    struct pod_sched_pool_chunk *chunk = pod_malloc(bytes);

    if (chunk == NULL)
        return NULL;
    chunk->next = NULL;
    chunk->items = pool_align((char *)(chunk + 1), POOL_HUGE_BYTES);
    // Only a hint: without it all works, more slowly.
    (void)madvise(chunk->items, POOL_CHUNK_BYTES, MADV_HUGEPAGE);
    return chunk;
}

bool pod_sched_pool_reserve(struct pod_sched_pool *pool, size_t count)
{
    while (pool->spare < count) {
        struct pod_sched_pool_chunk *chunk = pool_chunk_new();
        if (chunk == NULL)
            return false;
        if (pool->last != NULL)
            pool->last->next = chunk;
        else
            pool->first = chunk;
        pool->last = chunk;
        if (pool->current == NULL)
            pool->current = chunk;
        pool->spare += pool->per_chunk;
    }
    return true;
}

void *pod_sched_pool_take(struct pod_sched_pool *pool)
{
    struct pod_sched_pool_free *item = pool->free;

    assert(pool->spare > 0);
    pool->spare--;
    if (item != NULL) {
        pool->free = item->next;
        return item;
    }
    if (pool->used == pool->per_chunk) {
        pool->current = pool->current->next;
        pool->used = 0;
    }
    return pool->current->items + pool->used++ * pool->item_bytes;
}
