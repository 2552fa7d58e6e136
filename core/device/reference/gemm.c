// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference/gemm.h"

#include <cblas.h>
#include <limits.h>
#include <string.h>

// Row by row, adding multiples of rows of `right`: the innermost loop runs
// along memory unless `right` is flipped.
#define GEMM_LOOP(name, num, sum, product)                                     \
    static void gemm_##name(const struct pod_ref_gemm *gemm, const num *left,  \
                            const num *right, num *out)                        \
    {                                                                          \
        const int64_t row = gemm->left_flipped ? 1 : gemm->inner;              \
        const int64_t left_step = gemm->left_flipped ? gemm->rows : 1;         \
        const int64_t right_row = gemm->right_flipped ? 1 : gemm->columns;     \
        const int64_t right_step = gemm->right_flipped ? gemm->inner : 1;      \
        for (int64_t i = 0; i < gemm->rows; i++) {                             \
            num *o = out + i * gemm->columns;                                  \
            for (int64_t k = 0; k < gemm->inner; k++) {                        \
                const num x = left[i * row + k * left_step];                   \
                const num *b = right + k * right_row;                          \
                for (int64_t j = 0; j < gemm->columns; j++)                    \
                    o[j] = (num)(o[j] sum(x product b[j * right_step]));       \
            }                                                                  \
        }                                                                      \
    }

GEMM_LOOP(pred, uint8_t, |, &)
GEMM_LOOP(u8, uint8_t, +, *)
GEMM_LOOP(u32, uint32_t, +, *)
GEMM_LOOP(u64, uint64_t, +, *)
GEMM_LOOP(f32, float, +, *)
GEMM_LOOP(f64, double, +, *)

enum { GEMM_PARTS = 8 };

// In double and in interleaved parts, as each sum waits for the one before.
// (BLAS's own takes blocks of floats together in float.)
static float gemm_sum_products(const float *a, const float *b, int64_t count)
{
    double sum[GEMM_PARTS] = {0};
    const int64_t whole = count - count % GEMM_PARTS;

    for (int64_t k = 0; k < whole; k += GEMM_PARTS) {
        for (int j = 0; j < GEMM_PARTS; j++)
            sum[j] += (double)a[k + j] * (double)b[k + j];
    }
    for (int64_t k = whole; k < count; k++)
        sum[0] += (double)a[k] * (double)b[k];
    for (int j = 1; j < GEMM_PARTS; j++)
        sum[0] += sum[j];
    return (float)sum[0];
}

// BLAS counts in int.
static bool gemm_fits_blas(const struct pod_ref_gemm *gemm)
{
    return gemm->rows <= INT_MAX && gemm->inner <= INT_MAX &&
           gemm->columns <= INT_MAX;
}

// `count` of the inner dimension from `from` on.
static void gemm_blas_f32(const struct pod_ref_gemm *gemm, const float *left,
                          const float *right, float *out, int64_t from,
                          int64_t count)
{
    const int m = (int)gemm->rows;
    const int n = (int)gemm->columns;
    const int inner = (int)gemm->inner;

    cblas_sgemm(CblasRowMajor, gemm->left_flipped ? CblasTrans : CblasNoTrans,
                gemm->right_flipped ? CblasTrans : CblasNoTrans, m, n,
                (int)count, 1, left + from * (gemm->left_flipped ? m : 1),
                gemm->left_flipped ? m : inner,
                right + from * (gemm->right_flipped ? 1 : n),
                gemm->right_flipped ? inner : n, 0, out, n);
}

static void gemm_blas_f64(const struct pod_ref_gemm *gemm, const double *left,
                          const double *right, double *out)
{
    const int m = (int)gemm->rows;
    const int n = (int)gemm->columns;
    const int inner = (int)gemm->inner;

    cblas_dgemm(CblasRowMajor, gemm->left_flipped ? CblasTrans : CblasNoTrans,
                gemm->right_flipped ? CblasTrans : CblasNoTrans, m, n, inner, 1,
                left, gemm->left_flipped ? m : inner, right,
                gemm->right_flipped ? inner : n, 0, out, n);
}

enum {
    GEMM_TILE = 256,   // results that are added up in slices
    GEMM_SLICE = 1024, // of the inner dimension
};

// Few sums of many floats: those of slices, in double.
static void gemm_slices(const struct pod_ref_gemm *gemm, const float *left,
                        const float *right, float *out)
{
    const int64_t count = gemm->rows * gemm->columns;
    double sums[GEMM_TILE] = {0};
    float part[GEMM_TILE];

    for (int64_t k = 0; k < gemm->inner; k += GEMM_SLICE) {
        const int64_t rest = gemm->inner - k;
        gemm_blas_f32(gemm, left, right, part, k,
                      rest < GEMM_SLICE ? rest : GEMM_SLICE);
        for (int64_t i = 0; i < count; i++)
            sums[i] += (double)part[i];
    }
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)sums[i];
}

static void gemm_blas(const struct pod_ref_gemm *gemm, const void *left,
                      const void *right, void *out)
{
    if (gemm->type == POD_TYPE_F64)
        gemm_blas_f64(gemm, left, right, out);
    else if (gemm->rows * gemm->columns <= GEMM_TILE &&
             gemm->inner > GEMM_SLICE)
        gemm_slices(gemm, left, right, out);
    else
        gemm_blas_f32(gemm, left, right, out, 0, gemm->inner);
}

// The product of two vectors: faster than as a product of matrices and nearer
// to the true value.
static void gemm_vectors(const struct pod_ref_gemm *gemm, const void *left,
                         const void *right, void *out)
{
    if (gemm->type == POD_TYPE_F32)
        *(float *)out = gemm_sum_products(left, right, gemm->inner);
    else
        *(double *)out = cblas_ddot((int)gemm->inner, left, 1, right, 1);
}

static void gemm_one(const struct pod_ref_gemm *gemm, const void *left,
                     const void *right, void *out)
{
    bool is_float = pod_type_is_float(gemm->type);
    // Below this a call costs more than the work.
    bool is_small = gemm->rows * gemm->columns < 16 && gemm->inner < 16;
    bool is_vectors = gemm->rows * gemm->columns == 1;

    if (is_float && is_vectors && gemm_fits_blas(gemm)) {
        gemm_vectors(gemm, left, right, out);
        return;
    }
    if (is_float && !is_small && gemm_fits_blas(gemm)) {
        gemm_blas(gemm, left, right, out);
        return;
    }
    memset(out, 0,
           (size_t)(gemm->rows * gemm->columns) * pod_type_bytes(gemm->type));
    if (gemm->type == POD_TYPE_F32)
        gemm_f32(gemm, left, right, out);
    else if (gemm->type == POD_TYPE_F64)
        gemm_f64(gemm, left, right, out);
    else if (gemm->type == POD_TYPE_PRED)
        gemm_pred(gemm, left, right, out);
    else if (gemm->type == POD_TYPE_U8)
        gemm_u8(gemm, left, right, out);
    else if (gemm->type == POD_TYPE_S64)
        gemm_u64(gemm, left, right, out);
    else
        gemm_u32(gemm, left, right, out);
}

void pod_ref_gemm_run(const struct pod_ref_gemm *gemm, const void *left,
                      const void *right, void *out)
{
    size_t size = pod_type_bytes(gemm->type);
    size_t left_bytes = (size_t)(gemm->rows * gemm->inner) * size;
    size_t right_bytes = (size_t)(gemm->inner * gemm->columns) * size;
    size_t out_bytes = (size_t)(gemm->rows * gemm->columns) * size;

    if (out_bytes == 0 || gemm->batch == 0)
        return;
    if (gemm->inner == 0) {
        memset(out, 0, out_bytes * (size_t)gemm->batch);
        return;
    }
    for (int64_t i = 0; i < gemm->batch; i++)
        gemm_one(gemm, (const char *)left + (size_t)i * left_bytes,
                 (const char *)right + (size_t)i * right_bytes,
                 (char *)out + (size_t)i * out_bytes);
}
