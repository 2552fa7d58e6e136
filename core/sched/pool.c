// SPDX-License-Identifier: Apache-2.0
#include "core/sched/pool.h"

#include <assert.h>
#include <sys/mman.h>

#include "core/base/mem.h"

enum {
    POOL_FIRST_CAPACITY = 4, // of the table of chunks
    POOL_CHUNKS_MAX = 1 << 13,
    POOL_HUGE_PAGE = 2 << 20,
};

void pod_sched_pool_init(struct pod_sched_pool *pool, size_t item_bytes,
                         size_t places)
{
    assert(item_bytes >= sizeof(struct pod_sched_chunk) &&
           places * item_bytes <= POD_SCHED_CHUNK_BYTES);
    *pool = (struct pod_sched_pool){
        .item_bytes = item_bytes,
        .places = places,
        .per_chunk = places - 1,
    };
}

void pod_sched_pool_fini(struct pod_sched_pool *pool)
{
    for (size_t i = 0; i < pool->chunk_count; i++)
        pod_free(pool->chunks[i]->block);
    pod_free(pool->chunks);
    pool->chunks = NULL;
    pool->chunk_count = 0;
}

// Chunks are made of whole huge pages: with many operations in flight nearly
// each access is to another page, and small pages would miss the TLB each time.
// But the first items of a pool are in small ones, with all of their parts: a
// process may have a thousand pools of a few items each.
static void pool_use_huge_pages(const struct pod_sched_pool *pool, char *chunk)
{
    size_t step = pool->places * pool->item_bytes;
    size_t small = pool->chunk_count == 0 ? POOL_HUGE_PAGE : 0;

    // Only a hint: without it all works, more slowly.
    for (size_t at = 0; at + step <= POD_SCHED_CHUNK_BYTES; at += step) {
        if (step > small)
            (void)madvise(chunk + at + small, step - small, MADV_HUGEPAGE);
    }
}

// What alignment leaves unused is never touched, so it is no memory.
static struct pod_sched_chunk *pool_chunk_new(const struct pod_sched_pool *pool)
{
    uint32_t number = (uint32_t)pool->chunk_count;
    char *block = pod_malloc(2 * POD_SCHED_CHUNK_BYTES);

    if (block == NULL)
        return NULL;
    size_t over = (uintptr_t)block & (POD_SCHED_CHUNK_BYTES - 1);
    char *start = block + (POD_SCHED_CHUNK_BYTES - over);
    pool_use_huge_pages(pool, start);
    struct pod_sched_chunk *chunk = (struct pod_sched_chunk *)(void *)start;
    *chunk = (struct pod_sched_chunk){.block = block, .number = number};
    return chunk;
}

// Room for another chunk in the table.
static bool pool_table_grow(struct pod_sched_pool *pool)
{
    size_t capacity = pool->chunk_capacity * 2;

    if (pool->chunk_count < pool->chunk_capacity)
        return true;
    if (capacity == 0)
        capacity = POOL_FIRST_CAPACITY;
    if (capacity > POOL_CHUNKS_MAX)
        return false;
    struct pod_sched_chunk **chunks =
        pod_realloc(pool->chunks, capacity, sizeof(chunks[0]));
    if (chunks == NULL)
        return false;
    pool->chunks = chunks;
    pool->chunk_capacity = capacity;
    return true;
}

bool pod_sched_pool_grow(struct pod_sched_pool *pool, size_t count)
{
    while (pool->spare < count) {
        if (!pool_table_grow(pool))
            return false;
        struct pod_sched_chunk *chunk = pool_chunk_new(pool);
        if (chunk == NULL)
            return false;
        pool->chunks[pool->chunk_count++] = chunk;
        pool->spare += pool->per_chunk;
    }
    return true;
}

void pod_sched_pool_begin(struct pod_sched_pool *pool)
{
    assert(pool->fresh_chunk < pool->chunk_count);
    pool->fresh = (char *)pool->chunks[pool->fresh_chunk++] + pool->item_bytes;
    pool->fresh_count = pool->per_chunk;
}
