// SPDX-License-Identifier: Apache-2.0
#include "core/sched/pool.h"

#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>

#include "core/base/mem.h"

// Some huge pages long: with many operations in flight nearly each access is
// to another page, and small pages would miss the TLB each time.
#define POOL_CHUNK_BYTES ((size_t)8 << 20)
#define POOL_PAGE_BYTES  ((size_t)4096)

struct pod_sched_pool_chunk {
    struct pod_sched_pool_chunk *next;
    char *items;
};

struct pod_sched_pool_free {
    struct pod_sched_pool_free *next;
};

void pod_sched_pool_init(struct pod_sched_pool *pool, size_t item_bytes,
                         size_t align)
{
    assert(item_bytes >= sizeof(struct pod_sched_pool_free));
    assert(item_bytes % align == 0);
    *pool = (struct pod_sched_pool){
        .item_bytes = item_bytes,
        .align = align,
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

static char *pool_align(char *address, size_t align)
{
    size_t over = (uintptr_t)address & (align - 1);

    return over > 0 ? address + (align - over) : address;
}

static struct pod_sched_pool_chunk *pool_chunk_new(size_t align)
{
    size_t bytes =
        POOL_CHUNK_BYTES + sizeof(struct pod_sched_pool_chunk) + align;
    struct pod_sched_pool_chunk *chunk = pod_malloc(bytes);

    if (chunk == NULL)
        return NULL;
    chunk->next = NULL;
    chunk->items = pool_align((char *)(chunk + 1), align);
    // Only a hint: without it all works, more slowly.
    char *page = pool_align((char *)chunk, POOL_PAGE_BYTES);
    (void)madvise(page, POOL_CHUNK_BYTES - POOL_PAGE_BYTES, MADV_HUGEPAGE);
    return chunk;
}

bool pod_sched_pool_reserve(struct pod_sched_pool *pool, size_t count)
{
    while (pool->spare < count) {
        struct pod_sched_pool_chunk *chunk = pool_chunk_new(pool->align);
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

void pod_sched_pool_give(struct pod_sched_pool *pool, void *item)
{
    struct pod_sched_pool_free *freed = item;

    freed->next = pool->free;
    pool->free = freed;
    pool->spare++;
}
