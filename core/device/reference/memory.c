// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference/memory.h"

#include <stdalign.h>
#include <string.h>

#include "core/base/mem.h"

// From here on it costs less to hand memory over than to copy it.
enum { MEMORY_HAND_OVER_BYTES = 64 * 1024 };
enum { MEMORY_SLICE_BYTES = 4 << 20 }; // copied in one go

static enum pod_code memory_exhausted(uint32_t core, uint64_t bytes,
                                      uint64_t left, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                       "core %u: %llu bytes were asked for, %llu are free",
                       core, (unsigned long long)bytes,
                       (unsigned long long)left);
}

// Enters bytes in the account, or says how much is left.
static bool memory_take(struct pod_ref_memory *memory, uint64_t bytes,
                        uint64_t *out_left)
{
    uint64_t used = atomic_load(&memory->used);

    do {
        *out_left = memory->total - used;
        if (bytes > *out_left)
            return false;
    } while (!atomic_compare_exchange_weak(&memory->used, &used, used + bytes));
    return true;
}

enum pod_code pod_ref_buffer_new(struct pod_ref_memory *memory, uint32_t core,
                                 uint64_t bytes,
                                 struct pod_device_buffer **out_buffer,
                                 struct pod_err *err)
{
    struct pod_device_buffer *buffer;
    uint64_t left;

    if (!memory_take(memory, bytes, &left))
        return memory_exhausted(core, bytes, left, err);
    buffer = pod_calloc(1, sizeof(*buffer));
    if (buffer != NULL) {
        buffer->core = core;
        buffer->bytes = bytes;
        buffer->block = pod_blob_new_zeroed(bytes);
    }
    if (buffer == NULL || buffer->block == NULL) {
        // The core has room, the machine has not.
        pod_free(buffer);
        atomic_fetch_sub(&memory->used, bytes);
        return pod_err_set(
            err, POD_REASON_RESOURCE_EXHAUSTED,
            "core %u: %llu bytes were asked for, %llu are free, but the "
            "machine has no memory",
            core, (unsigned long long)bytes, (unsigned long long)left);
    }
    buffer->data = buffer->block->data;
    buffer->loans = memory->loans;
    *out_buffer = buffer;
    return POD_OK;
}

enum pod_code pod_ref_tuple_new(uint32_t core,
                                struct pod_device_buffer *const *children,
                                size_t child_count,
                                struct pod_device_buffer **out_buffer,
                                struct pod_err *err)
{
    struct pod_device_buffer *buffer;
    size_t bytes;

    if (__builtin_mul_overflow(child_count, sizeof(*children), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(*buffer), &bytes))
        return memory_exhausted(core, UINT64_MAX, 0, err);
    buffer = pod_calloc(1, bytes);
    if (buffer == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for a tuple of %zu", child_count);
    buffer->core = core;
    buffer->is_tuple = true;
    buffer->child_count = child_count;
    if (child_count > 0)
        memcpy(buffer->children, children, child_count * sizeof(*children));
    *out_buffer = buffer;
    return POD_OK;
}

// ------------------------------------------------------- memory changes hands

struct pod_ref_loans *pod_ref_loans_new(void)
{
    struct pod_ref_loans *loans = pod_calloc(1, sizeof(*loans));

    if (loans != NULL)
        atomic_init(&loans->refs, 1);
    return loans;
}

void pod_ref_loans_unref(struct pod_ref_loans *loans)
{
    if (loans != NULL && atomic_fetch_sub(&loans->refs, 1) == 1)
        pod_free(loans);
}

// A block's on_free.
static void memory_loan_over(void *arg, size_t size)
{
    struct pod_ref_loans *loans = arg;

    atomic_fetch_sub(&loans->bytes, size);
    pod_ref_loans_unref(loans);
}

// The buffer's hold on its block ends; others may still have it on loan.
static void memory_let_go(struct pod_device_buffer *buffer)
{
    struct pod_blob *block = buffer->block;

    if (pod_ref_buffer_is_lent(buffer)) {
        atomic_fetch_add(&buffer->loans->refs, 1);
        atomic_fetch_add(&buffer->loans->bytes, block->size);
        block->on_free = memory_loan_over;
        block->arg = buffer->loans;
    }
    pod_blob_unref(block);
}

static void memory_swap(struct pod_device_buffer *buffer,
                        struct pod_blob *owned_block)
{
    memory_let_go(buffer);
    buffer->block = owned_block;
    buffer->data = owned_block->data;
}

bool pod_ref_buffer_adopt(struct pod_device_buffer *buffer,
                          struct pod_blob *blob)
{
    struct pod_blob *block;

    if (buffer->is_tuple || blob->size != buffer->bytes ||
        blob->size < MEMORY_HAND_OVER_BYTES ||
        (uintptr_t)blob->data % alignof(max_align_t) != 0)
        return false;
    // Of its own: others may still hold the blob, who do not count as
    // borrowers.
    block = pod_blob_slice(blob, 0, blob->size);
    if (block == NULL || !pod_blob_claim(blob)) {
        pod_blob_unref(block);
        return false;
    }
    memory_swap(buffer, block);
    return true;
}

enum pod_code pod_ref_buffer_lend(const struct pod_device_buffer *buffer,
                                  uint64_t offset, size_t count,
                                  struct pod_blob **out_blob,
                                  struct pod_err *err)
{
    struct pod_blob *loan = NULL;

    if (count >= MEMORY_HAND_OVER_BYTES &&
        atomic_load(&buffer->loans->bytes) <= POD_REF_LOANS_BYTES) {
        loan = pod_blob_slice(buffer->block, (size_t)offset, count);
        if (loan == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory to lend %zu bytes", count);
    }
    *out_blob = loan;
    return POD_OK;
}

bool pod_ref_buffer_is_lent(const struct pod_device_buffer *buffer)
{
    return buffer->block != NULL && !pod_blob_is_sole(buffer->block);
}

bool pod_ref_move(unsigned char *to, const unsigned char *from, uint64_t bytes,
                  const struct pod_interrupt *interrupt)
{
    uint64_t moved = 0;

    while (moved < bytes) {
        uint64_t left = bytes - moved;
        uint64_t slice = left < MEMORY_SLICE_BYTES ? left : MEMORY_SLICE_BYTES;
        if (interrupt != NULL && atomic_load(&interrupt->asked))
            return false;
        memcpy(to + moved, from + moved, (size_t)slice);
        moved += slice;
    }
    return true;
}

enum pod_code pod_ref_buffer_own(struct pod_device_buffer *buffer, bool keep,
                                 const struct pod_interrupt *interrupt,
                                 struct pod_err *err)
{
    if (!pod_ref_buffer_is_lent(buffer))
        return POD_OK;
    // Zeros: a write may break off, and nobody may see what the memory held
    // before.
    struct pod_blob *block =
        keep ? pod_blob_new(buffer->bytes) : pod_blob_new_zeroed(buffer->bytes);
    if (block == NULL)
        return pod_err_set(
            err, POD_REASON_RESOURCE_EXHAUSTED,
            "core %u: a buffer of %llu bytes is still being sent, and there is "
            "no memory for another copy of it",
            buffer->core, (unsigned long long)buffer->bytes);
    if (keep &&
        !pod_ref_move(block->data, buffer->data, buffer->bytes, interrupt)) {
        pod_blob_unref(block);
        return pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                           "the transfer was interrupted");
    }
    memory_swap(buffer, block);
    return POD_OK;
}

void pod_ref_buffer_free(struct pod_ref_memory *memory,
                         struct pod_device_buffer *buffer)
{
    if (buffer == NULL)
        return;
    atomic_fetch_sub(&memory->used, buffer->bytes);
    memory_let_go(buffer);
    pod_free(buffer);
}
