// SPDX-License-Identifier: Apache-2.0
// Memory that is freed all at once: what a compiled program consists of.
#ifndef POD_DEVICE_REFERENCE_POOL_H
#define POD_DEVICE_REFERENCE_POOL_H

#include <stddef.h>

struct pod_ref_chunk;

// Zero-initialise it. Not thread-safe.
struct pod_ref_pool {
    struct pod_ref_chunk *chunks;
    size_t left; // bytes free at the end of the first chunk
};

// Zeroed, aligned to 16; NULL when there is no memory or the size overflows.
void *pod_ref_pool_alloc(struct pod_ref_pool *pool, size_t count, size_t bytes)
    __attribute__((warn_unused_result));
void pod_ref_pool_fini(struct pod_ref_pool *pool);

#endif
