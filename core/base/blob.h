// SPDX-License-Identifier: Apache-2.0
// Shared bytes with a reference count: what a client sent or a device gave.
#ifndef POD_BASE_BLOB_H
#define POD_BASE_BLOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

// A contiguous part of a blob, which starts at byte `begin` of it.
struct pod_blob_piece {
    const unsigned char *data;
    size_t begin;
    size_t size; // at least 1
};

struct pod_blob {
    atomic_long refs;
    atomic_bool given_up;
    size_t size;         // a blob's only holder may reduce it
    size_t room;         // bytes behind the struct
    unsigned char *data; // right behind the struct, or owned elsewhere
    // Only of a blob in pieces, whose `data` is NULL; owned elsewhere. Only
    // data to be written to a device comes in pieces.
    const struct pod_blob_piece *pieces;
    size_t piece_count;
    struct pod_blob *whole; // of a slice: the blob it is part of, a reference
    // Called once when the last reference goes, before the memory is freed;
    // gives the bytes back to the budget they were taken from. May be NULL.
    void (*on_free)(void *arg, size_t size);
    void *arg;
};

// Uninitialised bytes with one reference, or NULL. Counts start at 1.
struct pod_blob *pod_blob_new(size_t size);
// The same with zeros; a page takes memory only once it is written.
struct pod_blob *pod_blob_new_zeroed(size_t size);
struct pod_blob *pod_blob_ref(struct pod_blob *blob);
// NULL is allowed. Thread-safe.
void pod_blob_unref(struct pod_blob *blob);
// A blob of `size` bytes of `whole`, from `offset` on, which shares its memory
// and holds a reference to it. `whole` is in one piece. NULL: no memory.
struct pod_blob *pod_blob_slice(struct pod_blob *whole, size_t offset,
                                size_t size);
// The longest contiguous run of bytes from `offset` on; returns its length.
// `offset` is less than the size.
size_t pod_blob_run(const struct pod_blob *blob, size_t offset,
                    const unsigned char **out_data);
// Whether the caller's reference is the only one. If so, all that others did
// with the bytes has happened before, and it stays so until the caller gives
// out another reference.
bool pod_blob_is_sole(const struct pod_blob *blob);

// To give a blob up lets the next holder take its memory over instead of
// copying it. Its maker does so before handing it on, when nobody but the next
// holder will look at the bytes (of a slice: at any byte of the whole). Others
// may keep references, but may do nothing with them except let go. A blob that
// is given up has no `on_free`, or one that only counts. Not to be called when
// another thread may already claim.
void pod_blob_give_up(struct pod_blob *blob);
// Whether the caller may change or keep the bytes for as long as it holds a
// reference. True at most once, and only of a blob that was given up. Then its
// bytes (of a slice: the whole's) have been given back to their budget: on_free
// has been called and will not be called again. False, with nothing changed,
// also if this would keep much more memory than the bytes need. Thread-safe.
bool pod_blob_claim(struct pod_blob *blob);

#endif
