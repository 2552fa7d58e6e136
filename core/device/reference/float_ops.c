// SPDX-License-Identifier: Apache-2.0
// Arithmetic of floats. Columns of the type list: type, storage, widening,
// narrowing, suffix of the C library's functions; FLOAT_type computes it.
#include <math.h>

#include "core/device/reference/half.h"
#include "core/device/reference/kernel.h"
#include "core/device/reference/minmax.h"

#define SAME(x) (x)
#define FLOATS(X)                                                              \
    X(F16, uint16_t, pod_ref_from_f16, pod_ref_to_f16, f)                      \
    X(BF16, uint16_t, pod_ref_from_bf16, pod_ref_to_bf16, f)                   \
    X(F32, float, SAME, SAME, f)                                               \
    X(F64, double, SAME, SAME, )

#define FLOAT_F16  float
#define FLOAT_BF16 float
#define FLOAT_F32  float
#define FLOAT_F64  double

// What C has no function for, in float ("f") and double ("").
#define HELPERS(real, f)                                                       \
    static inline real float_sign##f(real x)                                   \
    {                                                                          \
        return x > 0 ? (real)1 : x < 0 ? (real)-1 : x;                         \
    }                                                                          \
    /* Below -40 adding 1 would change nothing, and e^-x may overflow. */      \
    static inline real float_logistic##f(real x)                               \
    {                                                                          \
        return x < -40 ? exp##f(x) : 1 / (1 + exp##f(-x));                     \
    }                                                                          \
    /* The C library's power of a signalling NaN is always NaN. */             \
    static inline real float_power##f(real x, real y)                          \
    {                                                                          \
        return x == 1 || y == 0 ? 1 : pow##f(x, y);                            \
    }                                                                          \
    static inline real float_rsqrt##f(real x)                                  \
    {                                                                          \
        return 1 / sqrt##f(x);                                                 \
    }

HELPERS(float, f)
HELPERS(double, )

// The operations. Columns: opcode, value for x (and y), then those of the type.
#define UNARY(X, type, store, widen, narrow, f)                                \
    X(ABS, fabs##f(x), type, store, widen, narrow)                             \
    X(NEGATE, -x, type, store, widen, narrow)                                  \
    X(SIGN, float_sign##f(x), type, store, widen, narrow)                      \
    X(EXPONENTIAL, exp##f(x), type, store, widen, narrow)                      \
    X(LOG, log##f(x), type, store, widen, narrow)                              \
    X(LOGISTIC, float_logistic##f(x), type, store, widen, narrow)              \
    X(TANH, tanh##f(x), type, store, widen, narrow)                            \
    X(SQRT, sqrt##f(x), type, store, widen, narrow)                            \
    X(RSQRT, float_rsqrt##f(x), type, store, widen, narrow)                    \
    X(FLOOR, floor##f(x), type, store, widen, narrow)                          \
    X(CEIL, ceil##f(x), type, store, widen, narrow)                            \
    X(ROUND_NEAREST_AFZ, round##f(x), type, store, widen, narrow)              \
    X(ROUND_NEAREST_EVEN, rint##f(x), type, store, widen, narrow)

#define BINARY(X, type, store, widen, narrow, f)                               \
    X(ADD, x + y, type, store, widen, narrow)                                  \
    X(SUBTRACT, x - y, type, store, widen, narrow)                             \
    X(MULTIPLY, x *y, type, store, widen, narrow)                              \
    X(DIVIDE, x / y, type, store, widen, narrow)                               \
    X(REMAINDER, fmod##f(x, y), type, store, widen, narrow)                    \
    X(POWER, float_power##f(x, y), type, store, widen, narrow)                 \
    X(MINIMUM, pod_ref_min##f(x, y), type, store, widen, narrow)               \
    X(MAXIMUM, pod_ref_max##f(x, y), type, store, widen, narrow)

#define UNARY_LOOP(op, value, type, store, widen, narrow)                      \
    static void float_##op##_##type(void *out, const void *in, int64_t count)  \
    {                                                                          \
        const store *a = in;                                                   \
        store *o = out;                                                        \
        for (int64_t i = 0; i < count; i++) {                                  \
            const FLOAT_##type x = widen(a[i]);                                \
            o[i] = narrow(value);                                              \
        }                                                                      \
    }

#define BINARY_LOOP(op, value, type, store, widen, narrow)                     \
    static void float_##op##_##type(void *out, const void *left,               \
                                    const void *right, int64_t count)          \
    {                                                                          \
        const store *a = left;                                                 \
        const store *b = right;                                                \
        store *o = out;                                                        \
        for (int64_t i = 0; i < count; i++) {                                  \
            const FLOAT_##type x = widen(a[i]);                                \
            const FLOAT_##type y = widen(b[i]);                                \
            o[i] = narrow(value);                                              \
        }                                                                      \
    }

#define LOOPS(type, store, widen, narrow, f)                                   \
    UNARY(UNARY_LOOP, type, store, widen, narrow, f)                           \
    BINARY(BINARY_LOOP, type, store, widen, narrow, f)

FLOATS(LOOPS)

#define ENTRY(op, value, type, store, widen, narrow)                           \
    [POD_TYPE_##type][POD_OP_##op] = float_##op##_##type,
#define UNARY_ENTRIES(type, store, widen, narrow, f)                           \
    UNARY(ENTRY, type, store, widen, narrow, f)
#define BINARY_ENTRIES(type, store, widen, narrow, f)                          \
    BINARY(ENTRY, type, store, widen, narrow, f)

static pod_ref_unary_fn *const float_unary[POD_TYPE_COUNT][POD_OP_COUNT] = {
    FLOATS(UNARY_ENTRIES)};

static pod_ref_binary_fn *const float_binary[POD_TYPE_COUNT][POD_OP_COUNT] = {
    FLOATS(BINARY_ENTRIES)};

pod_ref_unary_fn *pod_ref_float_unary(enum pod_opcode opcode,
                                      enum pod_type type)
{
    return float_unary[type][opcode];
}

pod_ref_binary_fn *pod_ref_float_binary(enum pod_opcode opcode,
                                        enum pod_type type)
{
    return float_binary[type][opcode];
}
