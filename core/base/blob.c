// SPDX-License-Identifier: Apache-2.0
#include "core/base/blob.h"

#include <assert.h>
#include <stdalign.h>

#include "core/base/mem.h"

// The bytes follow the struct, aligned for any element type.
#define BLOB_HEAD                                                              \
    ((sizeof(struct pod_blob) + alignof(max_align_t) - 1) /                    \
     alignof(max_align_t) * alignof(max_align_t))

struct pod_blob *pod_blob_new(size_t size)
{
    size_t total;

    if (__builtin_add_overflow(size, BLOB_HEAD, &total))
        return NULL;
    struct pod_blob *blob = pod_malloc(total);
    if (blob == NULL)
        return NULL;
    atomic_init(&blob->refs, 1);
    blob->size = size;
    blob->data = (unsigned char *)blob + BLOB_HEAD;
    blob->on_free = NULL;
    blob->arg = NULL;
    return blob;
}

struct pod_blob *pod_blob_ref(struct pod_blob *blob)
{
    long before =
        atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return blob;
}

void pod_blob_unref(struct pod_blob *blob)
{
    if (blob == NULL)
        return;
    // Release: our use of the bytes comes before the free; acquire: the
    // thread that frees sees the others' use as done.
    long before =
        atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before != 1)
        return;
    if (blob->on_free != NULL)
        blob->on_free(blob->arg, blob->size);
    pod_free(blob);
}
