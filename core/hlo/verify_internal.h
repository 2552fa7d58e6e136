// SPDX-License-Identifier: Apache-2.0
// What the files of the verifier share.
#ifndef POD_HLO_VERIFY_INTERNAL_H
#define POD_HLO_VERIFY_INTERNAL_H

#include "core/hlo/arena.h"
#include "core/hlo/module.h"

// Where the verifier is.
struct verify {
    struct pod_hlo_module *module;
    struct pod_hlo_comp *comp;
    struct pod_hlo_instr *instr;
    struct pod_err *err;
};

// Each checks v->instr if its opcode is one of the file's own, and puts what it
// found into *out; false: it is not. Operands and called computations are
// verified and their number is right.
bool pod_verify_elementwise(const struct verify *v, enum pod_code *out);
bool pod_verify_array_op(const struct verify *v, enum pod_code *out);
bool pod_verify_call(const struct verify *v, enum pod_code *out);
bool pod_verify_collective(const struct verify *v, enum pod_code *out);

// ------------------------------------------------------------ verify_common.c

// INVALID_PROGRAM at v->instr: its place, its name, then the text.
enum pod_code pod_verify_fail(const struct verify *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// The same for what is sound but left out.
enum pod_code pod_verify_unsupported(const struct verify *v, const char *format,
                                     ...) __attribute__((format(printf, 2, 3)));
// Puts place and name of v->instr in front of an error from elsewhere and makes
// its reason one of a program.
enum pod_code pod_verify_wrap(const struct verify *v);

const struct pod_shape *pod_verify_operand(const struct verify *v,
                                           uint32_t index);
// The result must be `want`, layouts aside.
enum pod_code pod_verify_result(const struct verify *v,
                                const struct pod_shape *want);
// The result must be an array of this type and these dimensions.
enum pod_code pod_verify_result_array(const struct verify *v,
                                      enum pod_type type, size_t rank,
                                      const int64_t *dims);
// Operand `index` must be an array.
enum pod_code pod_verify_array(const struct verify *v, uint32_t index);
// At least `least` operands, all of them arrays.
enum pod_code pod_verify_arrays(const struct verify *v, uint32_t least);
// Each of the dimensions is in 0 .. rank-1 and none occurs twice.
enum pod_code pod_verify_dimensions(const struct verify *v, const char *what,
                                    size_t count, const int64_t *dims,
                                    size_t rank);
// ------------------------------------------------------------- verify_calls.c

// The computation takes `repeat` scalars of each of the operands' types and
// gives one of each of the first `results` (a tuple if more than one). With
// `paired`, the repeats of one type stand side by side, else the list of types
// is repeated.
enum pod_code pod_verify_scalar_computation(const struct verify *v,
                                            uint32_t types, uint32_t repeat,
                                            bool paired);

#endif
