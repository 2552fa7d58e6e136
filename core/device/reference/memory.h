// SPDX-License-Identifier: Apache-2.0
// The buffers of the reference device and the account of each core's memory.
#ifndef POD_DEVICE_REFERENCE_MEMORY_H
#define POD_DEVICE_REFERENCE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/err.h"

struct pod_device_buffer {
    uint32_t core;
    bool is_tuple;
    uint64_t bytes; // 0 for a tuple
    unsigned char *data;
    struct pod_blob *blob; // owns `data`, a reference; NULL: the buffer does
    size_t child_count;
    struct pod_device_buffer *children[]; // not owned
};

// The account of one core. Threads may share it.
struct pod_ref_memory {
    uint64_t total;
    _Atomic uint64_t used;
};

// A zeroed buffer, entered in the account. Its pages come into being when they
// are written. RESOURCE_EXHAUSTED.
enum pod_code
pod_ref_buffer_new(struct pod_ref_memory *memory, uint32_t core, uint64_t bytes,
                   struct pod_device_buffer **out_buffer, struct pod_err *err)
    __attribute__((warn_unused_result));
// A tuple, which costs the core nothing. OUT_OF_MEMORY.
enum pod_code
pod_ref_tuple_new(uint32_t core, struct pod_device_buffer *const *children,
                  size_t child_count, struct pod_device_buffer **out_buffer,
                  struct pod_err *err) __attribute__((warn_unused_result));
// Lets an array's buffer have a blob's bytes in place of its own; what was in
// it is gone. False, and nothing has happened: the blob is not of its size, or
// not aligned for every type, or so small that it may as well be copied, or
// cannot be claimed.
bool pod_ref_buffer_adopt(struct pod_device_buffer *buffer,
                          struct pod_blob *blob)
    __attribute__((warn_unused_result));
// NULL is allowed.
void pod_ref_buffer_free(struct pod_ref_memory *memory,
                         struct pod_device_buffer *buffer);

#endif
