// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference/reducer.h"

#include <math.h>

#include "core/device/reference/half.h"
#include "core/device/reference/minmax.h"

#define PLAIN(x)   (x)
#define OF_F16(x)  ((double)pod_ref_from_f16(x))
#define OF_BF16(x) ((double)pod_ref_from_bf16(x))
#define TO_F16(x)  (pod_ref_to_f16(pod_ref_to_odd(x)))
#define TO_BF16(x) (pod_ref_to_bf16(pod_ref_to_odd(x)))
#define TO_F32(x)  ((float)(x))
#define OF_F32(x)  ((double)(x))

// Columns: type, storage, accumulator, how an element is widened and an
// accumulator narrowed.
#define NARROW(X)                                                              \
    X(F16, uint16_t, double, OF_F16, TO_F16)                                   \
    X(BF16, uint16_t, double, OF_BF16, TO_BF16)                                \
    X(F32, float, double, OF_F32, TO_F32)
#define WIDE(X) X(F64, double, double, PLAIN, PLAIN)
// Sums and products are taken in uint64_t and cut: that is how they wrap.
#define INTS(X)                                                                \
    X(PRED, uint8_t, uint8_t, PLAIN, PLAIN)                                    \
    X(U8, uint8_t, uint8_t, PLAIN, PLAIN)                                      \
    X(S32, int32_t, int32_t, PLAIN, PLAIN)                                     \
    X(U32, uint32_t, uint32_t, PLAIN, PLAIN)                                   \
    X(S64, int64_t, int64_t, PLAIN, PLAIN)

// Columns: opcode, new value of accumulator x after element y.
#define SUM(X, type, store) X(ADD, x + y, type, store, double)
#define FLOAT_OPS(X, type, store)                                              \
    X(MULTIPLY, x *y, type, store, double)                                     \
    X(MINIMUM, pod_ref_min(x, y), type, store, double)                         \
    X(MAXIMUM, pod_ref_max(x, y), type, store, double)
#define INT_OPS(X, type, store, num)                                           \
    X(ADD, (uint64_t)x + (uint64_t)y, type, store, num)                        \
    X(MULTIPLY, (uint64_t)x *(uint64_t)y, type, store, num)                    \
    X(MINIMUM, x < y ? x : y, type, store, num)                                \
    X(MAXIMUM, x > y ? x : y, type, store, num)                                \
    X(AND, x &y, type, store, num)                                             \
    X(OR, x | y, type, store, num)                                             \
    X(XOR, x ^ y, type, store, num)
// One bit: a sum is an or.
#define PRED_OPS(X)                                                            \
    X(ADD, x | y, PRED, uint8_t, uint8_t)                                      \
    X(MULTIPLY, x &y, PRED, uint8_t, uint8_t)                                  \
    X(MINIMUM, x &y, PRED, uint8_t, uint8_t)                                   \
    X(MAXIMUM, x | y, PRED, uint8_t, uint8_t)                                  \
    X(AND, x &y, PRED, uint8_t, uint8_t)                                       \
    X(OR, x | y, PRED, uint8_t, uint8_t)                                       \
    X(XOR, x ^ y, PRED, uint8_t, uint8_t)

#define ENDS(type, store, num, widen, narrow)                                  \
    static inline num reducer_widen_##type(store x)                            \
    {                                                                          \
        return widen(x);                                                       \
    }                                                                          \
    static void reducer_begin_##type(void *accs, const void *init,             \
                                     int64_t step, int64_t count)              \
    {                                                                          \
        const store *a = init;                                                 \
        num *o = accs;                                                         \
        for (int64_t i = 0; i < count; i++)                                    \
            o[i] = reducer_widen_##type(a[i * step]);                          \
    }                                                                          \
    static void reducer_end_##type(void *out, const void *accs, int64_t count) \
    {                                                                          \
        const num *a = accs;                                                   \
        store *o = out;                                                        \
        for (int64_t i = 0; i < count; i++)                                    \
            o[i] = narrow(a[i]);                                               \
    }
NARROW(ENDS)
WIDE(ENDS)
INTS(ENDS)

// Lines are reduced in so many interleaved parts, because each step of one
// chain would wait for the one before.
enum { REDUCER_PARTS = 4 };

#define LOOPS(op, value, type, store, num)                                     \
    static void reducer_line_##op##_##type(void *acc, const void *in,          \
                                           int64_t count)                      \
    {                                                                          \
        const store *a = in;                                                   \
        num *o = acc;                                                          \
        num part[REDUCER_PARTS] = {0};                                         \
        const int64_t whole = count - count % REDUCER_PARTS;                   \
        num x = *o;                                                            \
        for (int64_t i = whole; i < count; i++) {                              \
            const num y = reducer_widen_##type(a[i]);                          \
            x = (num)(value);                                                  \
        }                                                                      \
        *o = x;                                                                \
        for (int j = 0; j < REDUCER_PARTS && whole > 0; j++)                   \
            part[j] = reducer_widen_##type(a[j]);                              \
        for (int64_t i = REDUCER_PARTS; i < whole; i += REDUCER_PARTS) {       \
            for (int j = 0; j < REDUCER_PARTS; j++) {                          \
                const num y = reducer_widen_##type(a[i + j]);                  \
                x = part[j];                                                   \
                part[j] = (num)(value);                                        \
            }                                                                  \
        }                                                                      \
        x = *o;                                                                \
        for (int j = 0; j < REDUCER_PARTS && whole > 0; j++) {                 \
            const num y = part[j];                                             \
            x = (num)(value);                                                  \
        }                                                                      \
        *o = x;                                                                \
    }                                                                          \
    static void reducer_rows_##op##_##type(void *accs, const void *in,         \
                                           int64_t count)                      \
    {                                                                          \
        const store *a = in;                                                   \
        num *o = accs;                                                         \
        for (int64_t i = 0; i < count; i++) {                                  \
            const num x = o[i];                                                \
            const num y = reducer_widen_##type(a[i]);                          \
            o[i] = (num)(value);                                               \
        }                                                                      \
    }                                                                          \
    static const struct pod_ref_reducer reducer_##op##_##type = {              \
        reducer_begin_##type, reducer_line_##op##_##type,                      \
        reducer_rows_##op##_##type, reducer_end_##type};

#define FLOAT_LOOPS(type, store, num, widen, narrow)                           \
    FLOAT_OPS(LOOPS, type, store)
#define SUM_LOOPS(type, store, num, widen, narrow) SUM(LOOPS, type, store)
NARROW(SUM_LOOPS)
NARROW(FLOAT_LOOPS)
WIDE(FLOAT_LOOPS)
INT_OPS(LOOPS, U8, uint8_t, uint8_t)
INT_OPS(LOOPS, S32, int32_t, int32_t)
INT_OPS(LOOPS, U32, uint32_t, uint32_t)
INT_OPS(LOOPS, S64, int64_t, int64_t)
PRED_OPS(LOOPS)

// Sums of f64. So many accumulators are so many sums and, behind them, what
// rounding has taken from each so far.
static inline void reducer_take(double *sum, double *lost, double y)
{
    const double x = *sum;
    const double both = x + y;
    const double taken = both - x; // the part of y that is in it

    *sum = both;
    *lost += (x - (both - taken)) + (y - taken);
}

static void reducer_begin_sum(void *accs, const void *init, int64_t step,
                              int64_t count)
{
    const double *a = init;
    double *sum = accs;

    for (int64_t i = 0; i < count; i++) {
        sum[i] = a[i * step];
        sum[count + i] = 0;
    }
}

static void reducer_line_sum(void *acc, const void *in, int64_t count)
{
    const double *a = in;
    double *o = acc;
    double sum[REDUCER_PARTS] = {0};
    double lost[REDUCER_PARTS] = {0};
    const int64_t whole = count - count % REDUCER_PARTS;

    for (int64_t i = whole; i < count; i++)
        reducer_take(&o[0], &o[1], a[i]);
    for (int j = 0; j < REDUCER_PARTS && whole > 0; j++)
        sum[j] = a[j];
    for (int64_t i = REDUCER_PARTS; i < whole; i += REDUCER_PARTS) {
        for (int j = 0; j < REDUCER_PARTS; j++)
            reducer_take(&sum[j], &lost[j], a[i + j]);
    }
    for (int j = 0; j < REDUCER_PARTS && whole > 0; j++) {
        reducer_take(&o[0], &o[1], sum[j]);
        o[1] += lost[j];
    }
}

static void reducer_rows_sum(void *accs, const void *in, int64_t count)
{
    const double *a = in;
    double *sum = accs;
    double *lost = sum + count;

    for (int64_t i = 0; i < count; i++)
        reducer_take(&sum[i], &lost[i], a[i]);
}

// What is lost near infinity is no number; adding 0 would make +0 of -0.
static void reducer_end_sum(void *out, const void *accs, int64_t count)
{
    const double *sum = accs;
    const double *lost = sum + count;
    double *o = out;

    for (int64_t i = 0; i < count; i++)
        o[i] = isfinite(lost[i]) && lost[i] != 0 ? sum[i] + lost[i] : sum[i];
}

static const struct pod_ref_reducer reducer_sum = {
    reducer_begin_sum, reducer_line_sum, reducer_rows_sum, reducer_end_sum};

#define ENTRY(op, value, type, store, num)                                     \
    [POD_TYPE_##type][POD_OP_##op] = &reducer_##op##_##type,
#define FLOAT_ENTRIES(type, store, num, widen, narrow)                         \
    FLOAT_OPS(ENTRY, type, store)
#define SUM_ENTRIES(type, store, num, widen, narrow) SUM(ENTRY, type, store)

static const struct pod_ref_reducer
    *const reducer_table[POD_TYPE_COUNT][POD_OP_COUNT] = {
        [POD_TYPE_F64][POD_OP_ADD] = &reducer_sum,
        NARROW(SUM_ENTRIES) NARROW(FLOAT_ENTRIES) WIDE(FLOAT_ENTRIES)
            PRED_OPS(ENTRY) INT_OPS(ENTRY, U8, uint8_t, uint8_t)
                INT_OPS(ENTRY, S32, int32_t, int32_t)
                    INT_OPS(ENTRY, U32, uint32_t, uint32_t)
                        INT_OPS(ENTRY, S64, int64_t, int64_t)};

const struct pod_ref_reducer *pod_ref_reducer_find(enum pod_opcode opcode,
                                                   enum pod_type type)
{
    return reducer_table[type][opcode];
}
