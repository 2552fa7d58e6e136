// SPDX-License-Identifier: Apache-2.0
// Shared bytes with a reference count: what a client sent or a device gave.
#ifndef POD_BASE_BLOB_H
#define POD_BASE_BLOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

// Bytes of a blob that lie together, from `begin` of it on.
struct pod_blob_piece {
    const unsigned char *data;
    size_t begin;
    size_t size; // at least 1
};

struct pod_blob {
    atomic_long refs;
    atomic_bool given_up;
    size_t size;         // may be made less, by a blob's only holder
    size_t room;         // bytes behind the struct
    unsigned char *data; // right behind the struct, or owned elsewhere
    // Of a blob in pieces, whose `data` is NULL; owned elsewhere. Only what is
    // to be written to a device comes so.
    const struct pod_blob_piece *pieces;
    size_t piece_count;
    struct pod_blob *whole; // a slice: the blob it is of, a reference
    // Called once when the last reference goes, before the memory is freed;
    // gives the bytes back to the budget they were taken from. May be NULL.
    void (*on_free)(void *arg, size_t size);
    void *arg;
};

// Uninitialised bytes with one reference, or NULL. Counts start at 1.
struct pod_blob *pod_blob_new(size_t size);
// The same with zeros, whose pages come into being when they are written.
struct pod_blob *pod_blob_new_zeroed(size_t size);
struct pod_blob *pod_blob_ref(struct pod_blob *blob);
// NULL is allowed. Thread-safe.
void pod_blob_unref(struct pod_blob *blob);
// `size` bytes of `whole`, which is in one piece, from `offset` on. Takes a
// reference of it. NULL: no memory.
struct pod_blob *pod_blob_slice(struct pod_blob *whole, size_t offset,
                                size_t size);
// The bytes that lie together from `offset` on, which is less than the size;
// how many they are.
size_t pod_blob_run(const struct pod_blob *blob, size_t offset,
                    const unsigned char **out_data);
// Whether the caller's reference is the only one: what others did with the
// bytes before they let go has been done. Stays so until the caller gives out
// another.
bool pod_blob_is_sole(const struct pod_blob *blob);

// Taking bytes over, where they would be copied otherwise. The one who made a
// blob gives it up when nobody will look at its bytes but whoever is handed it
// next, nor, of a slice, at any of the whole's. Others may go on holding
// references, as long as they do nothing but let go of them. What is given up
// has an `on_free` that counts and nothing else, or none. Comes before the blob
// is handed on: it is not to be called when another thread may claim.
void pod_blob_give_up(struct pod_blob *blob);
// Whether the caller may treat the bytes as its own for as long as it holds a
// reference: change them, or keep them. True once at most, of a blob that was
// given up. Then its bytes (the whole's, of a slice) are back in the budget
// they were taken from: on_free has been called, and will not be again. False,
// and nothing has happened, if much more memory would be kept than the bytes
// need. Thread-safe.
bool pod_blob_claim(struct pod_blob *blob);

#endif
