// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference/pool.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/mem.h"

enum { POOL_ALIGN = 16, POOL_CHUNK = 32 << 10 };

struct pod_ref_chunk {
    struct pod_ref_chunk *next;
    size_t size;
    alignas(POOL_ALIGN) unsigned char data[];
};

static struct pod_ref_chunk *pool_chunk(size_t size)
{
    struct pod_ref_chunk *chunk = pod_malloc(sizeof(*chunk) + size);

    if (chunk != NULL) {
        chunk->size = size;
        memset(chunk->data, 0, size);
    }
    return chunk;
}

void *pod_ref_pool_alloc(struct pod_ref_pool *pool, size_t count, size_t bytes)
{
    size_t need;
    struct pod_ref_chunk *chunk;

    if (__builtin_mul_overflow(count, bytes, &need) || need > SIZE_MAX / 2)
        return NULL;
    need = (need + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
    if (need > pool->left) {
        // What is big gets a chunk of its own, behind the one in use.
        bool own = need > POOL_CHUNK / 4 && pool->chunks != NULL;
        chunk = pool_chunk(own || need > POOL_CHUNK ? need : POOL_CHUNK);
        if (chunk == NULL)
            return NULL;
        if (own) {
            chunk->next = pool->chunks->next;
            pool->chunks->next = chunk;
            return chunk->data;
        }
        chunk->next = pool->chunks;
        pool->chunks = chunk;
        pool->left = chunk->size;
    }
    chunk = pool->chunks;
    pool->left -= need;
    return chunk->data + (chunk->size - pool->left - need);
}

void pod_ref_pool_fini(struct pod_ref_pool *pool)
{
    while (pool->chunks != NULL) {
        struct pod_ref_chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        pod_free(chunk);
    }
    pool->left = 0;
}
