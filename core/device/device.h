// SPDX-License-Identifier: Apache-2.0
// The device interface: the cores of one host, their memory, and programs.
//
// Calls are synchronous and may block (a transfer, a compile, an execution);
// the driver calls them from its own threads. Different cores may be used at
// the same time, and one buffer may be read by several threads; the driver
// keeps a writer of a buffer apart from its other users. Buffers hold dense
// row-major bytes as far as a caller can see, whatever order a device keeps.
#ifndef POD_DEVICE_DEVICE_H
#define POD_DEVICE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/err.h"
#include "core/hlo/shape.h"

struct pod_device;
struct pod_device_buffer;
struct pod_device_program;

// The formats a program can come in.
enum pod_program_format {
    POD_FORMAT_HLO_TEXT,  // text/x-hlo
    POD_FORMAT_HLO_PROTO, // application/x-hlo-proto: HloProto or HloModuleProto
    POD_FORMAT_MLIR_TEXT, // text/x-mlir: StableHLO
    POD_FORMAT_MLIR_BYTECODE, // application/x-mlir
    POD_FORMAT_COUNT
};

// "text/x-hlo".
const char *pod_program_format_type(enum pod_program_format format);

struct pod_device_info {
    const char *platform; // "reference"; lives as long as the device
    const char *version;
    unsigned accepts; // bit 1 << format for each format it can compile
    uint32_t core_count;
    uint64_t memory_bytes; // of each core
};

// A flag that asks a running execution or transfer to stop. Any thread may set
// it.
struct pod_interrupt {
    atomic_bool asked;
};

// How the replicas of a gang meet. Given by the driver, used by a device for
// collectives.
struct pod_exchange {
    // Every member of `group` (replica numbers, distinct, in an order that all
    // members agree on) calls it with the same `sequence` and `bytes`; each
    // gives `part` (`bytes` long) and gets all parts in group order in `out`
    // (group_size * bytes). Blocks until all have come. Fails with
    // GANG_ABORTED when another member failed or its host was lost, CANCELLED
    // when `interrupt` was set. `replica` is the caller's number. `sequence`
    // counts the collectives this replica has run in this launch.
    enum pod_code (*all_gather)(struct pod_exchange *exchange, uint32_t replica,
                                const uint32_t *group, size_t group_size,
                                uint64_t sequence, const void *part,
                                size_t bytes, void *out,
                                struct pod_interrupt *interrupt,
                                struct pod_err *err);
};

struct pod_device_launch {
    struct pod_device_program *program;
    uint32_t core;
    // One for each parameter: an array buffer, or a tuple buffer for a tuple
    // parameter. A buffer made by bytes fits any parameter of its size.
    struct pod_device_buffer *const *inputs;
    size_t input_count;
    // One array buffer for an array result; for a tuple result one tuple
    // buffer, or one buffer for each leaf, depth first. An output may also be
    // an input: it is read first.
    struct pod_device_buffer *const *outputs;
    size_t output_count;
    uint32_t replica; // 0 when alone
    uint32_t replica_count;
    struct pod_exchange *exchange; // NULL when alone
    struct pod_interrupt *interrupt;
};

struct pod_device_memory {
    uint64_t total;
    uint64_t used;
};

struct pod_device_ops {
    void (*free)(struct pod_device *device);
    void (*info)(const struct pod_device *device,
                 struct pod_device_info *out_info);
    void (*memory)(struct pod_device *device, uint32_t core,
                   struct pod_device_memory *out_memory);

    // Takes memory of a core: for an array shape, or `bytes` raw when `shape`
    // is NULL. The buffer reads as zeros. RESOURCE_EXHAUSTED says how much was
    // asked for and how much is free.
    enum pod_code (*allocate)(struct pod_device *device, uint32_t core,
                              const struct pod_shape *shape, uint64_t bytes,
                              struct pod_device_buffer **out_buffer,
                              struct pod_err *err);
    // A tuple of buffers of one core. It does not own them, and they outlive
    // it; a child may occur in it twice.
    enum pod_code (*allocate_tuple)(struct pod_device *device, uint32_t core,
                                    struct pod_device_buffer *const *children,
                                    size_t child_count,
                                    struct pod_device_buffer **out_buffer,
                                    struct pod_err *err);
    // Gives the memory back. Nobody may use the buffer any more. NULL is
    // allowed.
    void (*release)(struct pod_device *device,
                    struct pod_device_buffer *buffer);

    // Bytes at an offset of the dense form; in range (the driver checks).
    // These and copies fail with CANCELLED when they stopped because of
    // `interrupt` (NULL: they do not); what was to be filled is then undefined.
    enum pod_code (*write)(struct pod_device *device,
                           struct pod_device_buffer *buffer, uint64_t offset,
                           const void *bytes, size_t count,
                           const struct pod_interrupt *interrupt,
                           struct pod_err *err);
    // A write of the whole buffer that takes over the blob's memory
    // (pod_blob_claim) in place of the buffer's own, instead of copying it. The
    // device holds a reference until the buffer is released or adopts another
    // blob. What the core has in use does not change. *out_taken false: the
    // device cannot use that memory, a copy is as cheap, or the blob was not
    // given up; nothing has happened, and the caller writes instead. NULL: the
    // device never adopts.
    enum pod_code (*adopt)(struct pod_device *device,
                           struct pod_device_buffer *buffer,
                           struct pod_blob *blob,
                           const struct pod_interrupt *interrupt,
                           bool *out_taken, struct pod_err *err);
    enum pod_code (*read)(struct pod_device *device,
                          struct pod_device_buffer *buffer, uint64_t offset,
                          void *out_bytes, size_t count,
                          const struct pod_interrupt *interrupt,
                          struct pod_err *err);
    // The bytes that read would give, but as the buffer's own memory instead of
    // a copy. Nobody may change *out_blob; it stays as it is, whatever becomes
    // of the buffer and of the device. A buffer that is written while its
    // memory is lent gets other memory first; what the core has in use does not
    // change. So a loan may keep as much memory as the whole buffer beside
    // that; the device bounds the sum of it. *out_blob NULL: it does not lend
    // this; the caller reads instead. NULL: the device never lends.
    enum pod_code (*lend)(struct pod_device *device,
                          struct pod_device_buffer *buffer, uint64_t offset,
                          size_t count, const struct pod_interrupt *interrupt,
                          struct pod_blob **out_blob, struct pod_err *err);
    // The whole of one buffer to another of the same size, any cores.
    enum pod_code (*copy)(struct pod_device *device,
                          struct pod_device_buffer *from,
                          struct pod_device_buffer *to,
                          const struct pod_interrupt *interrupt,
                          struct pod_err *err);

    // A fault in the program is INVALID_PROGRAM, with line and column if known.
    // What the device cannot do is UNIMPLEMENTED, which names the instruction
    // and the device. `replicas` >= 1.
    enum pod_code (*compile)(struct pod_device *device,
                             enum pod_program_format format, const void *bytes,
                             size_t count, uint32_t replicas,
                             struct pod_device_program **out_program,
                             struct pod_err *err);
    // Borrowed; lives as long as the program.
    const struct pod_program_shape *(*program_shape)(
        const struct pod_device_program *program);
    void (*program_free)(struct pod_device *device,
                         struct pod_device_program *program);

    // Runs to its end. Shapes have been checked by pod_check_launch.
    // CANCELLED when it stopped because of the interrupt; the outputs are then
    // undefined.
    enum pod_code (*execute)(struct pod_device *device,
                             const struct pod_device_launch *launch,
                             struct pod_err *err);
};

struct pod_device {
    const struct pod_device_ops *ops;
};

#endif
