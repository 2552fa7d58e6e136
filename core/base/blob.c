// SPDX-License-Identifier: Apache-2.0
#include "core/base/blob.h"

#include <assert.h>
#include <stdalign.h>

#include "core/base/mem.h"

// The bytes follow the struct, aligned for any element type.
#define BLOB_HEAD                                                              \
    ((sizeof(struct pod_blob) + alignof(max_align_t) - 1) /                    \
     alignof(max_align_t) * alignof(max_align_t))

// A blob that wastes more than this part of its size is not taken over.
enum { BLOB_WASTE_PART = 8 };

static struct pod_blob *blob_new(size_t size, bool zeroed)
{
    struct pod_blob *blob;
    size_t total;

    if (__builtin_add_overflow(size, BLOB_HEAD, &total))
        return NULL;
    blob = zeroed ? pod_calloc(total, 1) : pod_malloc(total);
    if (blob == NULL)
        return NULL;
    atomic_init(&blob->refs, 1);
    atomic_init(&blob->given_up, false);
    blob->size = size;
    blob->room = size;
    blob->data = (unsigned char *)blob + BLOB_HEAD;
    blob->pieces = NULL;
    blob->piece_count = 0;
    blob->whole = NULL;
    blob->on_free = NULL;
    blob->arg = NULL;
    return blob;
}

struct pod_blob *pod_blob_new(size_t size)
{
    return blob_new(size, false);
}

struct pod_blob *pod_blob_new_zeroed(size_t size)
{
    return blob_new(size, true);
}

struct pod_blob *pod_blob_ref(struct pod_blob *blob)
{
    long before =
        atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return blob;
}

// Whether that was the last reference.
static bool blob_let_go(struct pod_blob *blob)
{
    // Release: our use of the bytes comes before the free; acquire: the
    // thread that frees sees the others' use as done.
    long before =
        atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel);

    assert(before > 0);
    return before == 1;
}

void pod_blob_unref(struct pod_blob *blob)
{
    while (blob != NULL && blob_let_go(blob)) {
        struct pod_blob *whole = blob->whole;
        if (blob->on_free != NULL)
            blob->on_free(blob->arg, blob->size);
        pod_free(blob);
        blob = whole;
    }
}

bool pod_blob_is_sole(const struct pod_blob *blob)
{
    return atomic_load_explicit(&blob->refs, memory_order_acquire) == 1;
}

struct pod_blob *pod_blob_slice(struct pod_blob *whole, size_t offset,
                                size_t size)
{
    assert(whole->pieces == NULL);
    assert(offset <= whole->size && size <= whole->size - offset);
    struct pod_blob *slice = pod_blob_new(0);
    if (slice == NULL)
        return NULL;
    slice->data = whole->data + offset;
    slice->size = size;
    slice->whole = pod_blob_ref(whole);
    return slice;
}

size_t pod_blob_run(const struct pod_blob *blob, size_t offset,
                    const unsigned char **out_data)
{
    size_t low = 0;
    size_t high = blob->piece_count;

    assert(offset < blob->size);
    if (blob->pieces == NULL) {
        *out_data = blob->data + offset;
        return blob->size - offset;
    }
    // The last one that does not begin behind the offset.
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (blob->pieces[middle].begin <= offset)
            low = middle;
        else
            high = middle;
    }
    const struct pod_blob_piece *piece = &blob->pieces[low];
    *out_data = piece->data + (offset - piece->begin);
    return piece->size - (offset - piece->begin);
}

// ------------------------------------------------------------- taking it over

void pod_blob_give_up(struct pod_blob *blob)
{
    atomic_store(&blob->given_up, true);
}

bool pod_blob_claim(struct pod_blob *blob)
{
    struct pod_blob *owner = blob;

    while (owner->whole != NULL)
        owner = owner->whole;
    if (owner->room < blob->size ||
        owner->room - blob->size > blob->size / BLOB_WASTE_PART)
        return false;
    if (!atomic_exchange(&blob->given_up, false))
        return false;
    // Whoever lets go of the last reference does so after the caller has of
    // its own, and sees this.
    if (owner->on_free != NULL)
        owner->on_free(owner->arg, owner->size);
    owner->on_free = NULL;
    return true;
}
