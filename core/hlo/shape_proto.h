// SPDX-License-Identifier: Apache-2.0
// Shapes to and from XLA's ShapeProto, LayoutProto and ProgramShapeProto.
#ifndef POD_HLO_SHAPE_PROTO_H
#define POD_HLO_SHAPE_PROTO_H

#include "core/hlo/shape.h"

#include "xla.pb-c.h"

// Checks and converts. BAD_SHAPE: an unknown type, a broken limit, a negative
// or unbounded dimension, a layout that is no permutation, a memory space other
// than the default; OUT_OF_MEMORY. Recursion is bounded by
// POD_SHAPE_MAX_DEPTH, whatever the message holds.
enum pod_code pod_shape_from_proto(const Xla__ShapeProto *proto,
                                   struct pod_shape *out, struct pod_err *err)
    __attribute__((warn_unused_result));

// The heap of core/base/mem.h, for messages.
extern ProtobufCAllocator pod_shape_heap;

// A new message in memory of `allocator` (NULL: pod_shape_heap), to be freed
// with xla__shape_proto__free_unpacked and the same allocator. Layouts get the
// field `format` = 1 that readers of 2020 to 2022 demand. NULL: no memory.
Xla__ShapeProto *pod_shape_to_proto(const struct pod_shape *shape,
                                    ProtobufCAllocator *allocator);

// The same for signatures. Parameter names are not kept.
enum pod_code pod_program_shape_from_proto(const Xla__ProgramShapeProto *proto,
                                           struct pod_program_shape *out,
                                           struct pod_err *err)
    __attribute__((warn_unused_result));
Xla__ProgramShapeProto *
pod_program_shape_to_proto(const struct pod_program_shape *shape,
                           ProtobufCAllocator *allocator);

#endif
