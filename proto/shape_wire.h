// SPDX-License-Identifier: Apache-2.0
// Shapes as serialized messages of package xla, which both worker protocols
// carry.
#ifndef POD_PROTO_SHAPE_WIRE_H
#define POD_PROTO_SHAPE_WIRE_H

#include "core/base/err.h"
#include "core/hlo/shape.h"

enum { POD_ARRAY_WIRE_BYTES = 8 << 10 }; // at most

// Read a serialized xla.ShapeProto, of an array, or an xla.ProgramShapeProto.
// How deep shapes are nested is checked on the bytes before anything is
// unpacked. BAD_SHAPE, OUT_OF_MEMORY. On success the caller owns the shape.
enum pod_code pod_array_wire_parse(const void *data, size_t size,
                                   struct pod_shape *out, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_program_shape_wire_parse(const void *data, size_t size,
                                           struct pod_program_shape *out,
                                           struct pod_err *err)
    __attribute__((warn_unused_result));

// The shape serialized, to be freed with pod_free; NULL: no memory.
unsigned char *pod_shape_wire_pack(const struct pod_shape *shape,
                                   size_t *out_size);

#endif
