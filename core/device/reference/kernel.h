// SPDX-License-Identifier: Apache-2.0
// Loops over arrays, one for each opcode and element type.
//
// The nine types are PRED, S32, S64, U8, U32, F16, BF16, F32 and F64. Halves
// are computed in float and rounded after each operation. An output may be the
// very array of an operand whose elements have the same size, never one that
// overlaps it otherwise. Each finder gives NULL for what is not implemented.
#ifndef POD_DEVICE_REFERENCE_KERNEL_H
#define POD_DEVICE_REFERENCE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/hlo/opcode.h"
#include "core/hlo/shape.h"

typedef void pod_ref_unary_fn(void *out, const void *in, int64_t count);
typedef void pod_ref_binary_fn(void *out, const void *left, const void *right,
                               int64_t count);
// Bounds step by 0 (scalars) or 1 element.
typedef void pod_ref_clamp_fn(void *out, const void *low, int64_t low_step,
                              const void *in, const void *high,
                              int64_t high_step, int64_t count);
// `choice` (pred) steps by 0 or 1.
typedef void pod_ref_select_fn(void *out, const unsigned char *choice,
                               int64_t choice_step, const void *yes,
                               const void *no, int64_t count);

// Whether the type is one of the nine.
bool pod_ref_type_known(enum pod_type type);

pod_ref_unary_fn *pod_ref_unary_find(enum pod_opcode opcode,
                                     enum pod_type type);
pod_ref_binary_fn *pod_ref_binary_find(enum pod_opcode opcode,
                                       enum pod_type type);
pod_ref_clamp_fn *pod_ref_clamp_find(enum pod_type type);
pod_ref_select_fn *pod_ref_select_find(enum pod_type type);
pod_ref_unary_fn *pod_ref_convert_find(enum pod_type from, enum pod_type to);
// `direction` is "EQ", "NE", "LT", "LE", "GT" or "GE". `total` asks for the
// total order of floats: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
pod_ref_binary_fn *pod_ref_compare_find(const char *direction, bool total,
                                        enum pod_type type);

// The parts of the finders, by kind of type.
pod_ref_unary_fn *pod_ref_float_unary(enum pod_opcode opcode,
                                      enum pod_type type);
pod_ref_binary_fn *pod_ref_float_binary(enum pod_opcode opcode,
                                        enum pod_type type);
pod_ref_unary_fn *pod_ref_int_unary(enum pod_opcode opcode, enum pod_type type);
pod_ref_binary_fn *pod_ref_int_binary(enum pod_opcode opcode,
                                      enum pod_type type);

#endif
