// SPDX-License-Identifier: Apache-2.0
// Batched matrix multiplication of dense arrays.
#ifndef POD_DEVICE_REFERENCE_GEMM_H
#define POD_DEVICE_REFERENCE_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/hlo/shape.h"

// out[b] = left[b] * right[b], all dense row-major. left[b] is rows x inner, or
// its transpose is if `left_flipped`; right[b] is inner x columns, likewise.
struct pod_ref_gemm {
    enum pod_type type; // PRED, S32, S64, U8, U32, F32 or F64
    int64_t batch;
    int64_t rows;
    int64_t inner;
    int64_t columns;
    bool left_flipped;
    bool right_flipped;
};

// Floats go to BLAS. Integers wrap; PRED is OR of ANDs.
void pod_ref_gemm_run(const struct pod_ref_gemm *gemm, const void *left,
                      const void *right, void *out);

#endif
