// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference/memory.h"

#include <stdalign.h>
#include <string.h>

#include "core/base/mem.h"

// From here on it costs less to hand memory over than to copy it.
enum { MEMORY_ADOPT_BYTES = 64 * 1024 };

static enum pod_code memory_exhausted(uint32_t core, uint64_t bytes,
                                      uint64_t left, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                       "core %u: %llu bytes asked, %llu free", core,
                       (unsigned long long)bytes, (unsigned long long)left);
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
        buffer->data = pod_calloc(bytes, 1);
    }
    if (buffer == NULL || buffer->data == NULL) {
        // The core has room, the machine has not.
        pod_free(buffer);
        atomic_fetch_sub(&memory->used, bytes);
        return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                           "core %u: %llu bytes asked, %llu free, but the "
                           "machine has no memory",
                           core, (unsigned long long)bytes,
                           (unsigned long long)left);
    }
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

// Gives back what holds the bytes.
static void memory_drop_data(struct pod_device_buffer *buffer)
{
    if (buffer->blob != NULL)
        pod_blob_unref(buffer->blob);
    else
        pod_free(buffer->data);
    buffer->blob = NULL;
    buffer->data = NULL;
}

bool pod_ref_buffer_adopt(struct pod_device_buffer *buffer,
                          struct pod_blob *blob)
{
    if (buffer->is_tuple || blob->size != buffer->bytes ||
        blob->size < MEMORY_ADOPT_BYTES ||
        (uintptr_t)blob->data % alignof(max_align_t) != 0 ||
        !pod_blob_claim(blob))
        return false;
    memory_drop_data(buffer);
    buffer->blob = pod_blob_ref(blob);
    buffer->data = blob->data;
    return true;
}

void pod_ref_buffer_free(struct pod_ref_memory *memory,
                         struct pod_device_buffer *buffer)
{
    if (buffer == NULL)
        return;
    atomic_fetch_sub(&memory->used, buffer->bytes);
    memory_drop_data(buffer);
    pod_free(buffer);
}
