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
#include "core/device/device.h"

struct pod_device_buffer {
    uint32_t core;
    bool is_tuple;
    uint64_t bytes;         // 0 for a tuple
    unsigned char *data;    // the block's
    struct pod_blob *block; // NULL for a tuple; lent if others hold it too
    struct pod_ref_loans *loans;
    size_t child_count;
    struct pod_device_buffer *children[]; // not owned
};

// The account of a device's lent memory that is no buffer's any more, because
// the buffer was written or freed. Threads may share it; it lives as long as
// the device or such memory.
struct pod_ref_loans {
    atomic_long refs;
    _Atomic uint64_t bytes;
};

// With one reference, or NULL.
struct pod_ref_loans *pod_ref_loans_new(void);
void pod_ref_loans_unref(struct pod_ref_loans *loans); // NULL is allowed

// While there is more of such memory nothing is lent. So no more is ever held
// than this and what the cores have together.
enum { POD_REF_LOANS_BYTES = 256 << 20 };

// The account of one core. Threads may share it.
struct pod_ref_memory {
    uint64_t total;
    _Atomic uint64_t used;
    struct pod_ref_loans *loans; // the device's
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
// A part of an array's memory, which nobody may change any more: see
// pod_ref_buffer_own. *out_blob NULL: it is to be copied, because it is small
// or too much is lent. OUT_OF_MEMORY.
enum pod_code pod_ref_buffer_lend(const struct pod_device_buffer *buffer,
                                  uint64_t offset, size_t count,
                                  struct pod_blob **out_blob,
                                  struct pod_err *err)
    __attribute__((warn_unused_result));
bool pod_ref_buffer_is_lent(const struct pod_device_buffer *buffer);
// Comes before an array's buffer is written: if its memory is lent it gets
// other memory, with the same bytes in it if `keep`, else with zeros. The
// account stays as it is. RESOURCE_EXHAUSTED: the machine has no memory;
// CANCELLED: interrupted; nothing has happened then.
enum pod_code pod_ref_buffer_own(struct pod_device_buffer *buffer, bool keep,
                                 const struct pod_interrupt *interrupt,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));
// Copies bytes in slices, so that a long copy can be stopped. False: it was
// interrupted.
bool pod_ref_move(unsigned char *to, const unsigned char *from, uint64_t bytes,
                  const struct pod_interrupt *interrupt)
    __attribute__((warn_unused_result));
// NULL is allowed.
void pod_ref_buffer_free(struct pod_ref_memory *memory,
                         struct pod_device_buffer *buffer);

#endif
