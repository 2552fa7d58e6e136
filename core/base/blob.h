// SPDX-License-Identifier: Apache-2.0
// Shared bytes with a reference count: what a client sent or a device gave.
#ifndef POD_BASE_BLOB_H
#define POD_BASE_BLOB_H

#include <stdatomic.h>
#include <stddef.h>

struct pod_blob {
    atomic_long refs;
    size_t size;
    unsigned char *data; // right behind the struct, or owned elsewhere
    // Called once when the last reference goes, before the memory is freed;
    // gives the bytes back to the budget they were taken from. May be NULL.
    void (*on_free)(void *arg, size_t size);
    void *arg;
};

// Uninitialised bytes with one reference, or NULL. Counts start at 1.
struct pod_blob *pod_blob_new(size_t size);
struct pod_blob *pod_blob_ref(struct pod_blob *blob);
// NULL is allowed. Thread-safe.
void pod_blob_unref(struct pod_blob *blob);

#endif
