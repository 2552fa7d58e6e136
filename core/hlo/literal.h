// SPDX-License-Identifier: Apache-2.0
// Constant data of a program.
#ifndef POD_HLO_LITERAL_H
#define POD_HLO_LITERAL_H

#include "core/hlo/shape.h"

#include "xla.pb-c.h"

// Checks that a literal has as many elements as `shape` wants, in the field of
// its type, and so for the members of a tuple. INVALID_PROGRAM; UNIMPLEMENTED
// for types whose literals podd does not read (f8e4m3fn and narrower kinds
// other than s4 and u4).
enum pod_code pod_literal_check(const Xla__LiteralProto *literal,
                                const struct pod_shape *shape,
                                struct pod_err *err)
    __attribute__((warn_unused_result));

// Writes the data of a checked array literal as dense row-major bytes:
// pod_shape_bytes(shape) of them, with `shape` the constant's shape. Its layout
// does not matter; the one in the literal does. OUT_OF_MEMORY.
enum pod_code pod_literal_read(const Xla__LiteralProto *literal,
                               const struct pod_shape *shape, void *out,
                               struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
