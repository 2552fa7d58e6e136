// SPDX-License-Identifier: Apache-2.0
// Arithmetic of integers and of pred, which counts as a one-bit number.
//
// Overflow wraps. x / 0 is all ones and x % 0 is x; the least number divided by
// -1 is itself, remainder 0. A shift by the width or more, or by a negative
// amount, shifts everything out.
#include "core/device/reference/kernel.h"

// Columns: type, C type, its unsigned twin.
#define SIGNED(X)                                                              \
    X(S32, int32_t, uint32_t)                                                  \
    X(S64, int64_t, uint64_t)
#define UNSIGNED(X)                                                            \
    X(U8, uint8_t, uint8_t)                                                    \
    X(U32, uint32_t, uint32_t)

#define HELPERS_BOTH(type, num, bits)                                          \
    static inline bool int_out_##type(num shift)                               \
    {                                                                          \
        return (bits)shift >= sizeof(num) * 8;                                 \
    }                                                                          \
    static inline num int_shl_##type(num x, num y)                             \
    {                                                                          \
        return (num)(int_out_##type(y) ? 0 : (bits)x << (bits)y);              \
    }                                                                          \
    static inline num int_shr_##type(num x, num y)                             \
    {                                                                          \
        return (num)(int_out_##type(y) ? 0 : (bits)x >> (bits)y);              \
    }                                                                          \
    static inline num int_popcnt_##type(num x)                                 \
    {                                                                          \
        return (num)__builtin_popcountll((bits)x);                             \
    }                                                                          \
    static inline num int_clz_##type(num x)                                    \
    {                                                                          \
        int width = (int)sizeof(num) * 8;                                      \
        return (num)(x == 0 ? width                                            \
                            : __builtin_clzll((bits)x) - (64 - width));        \
    }                                                                          \
    /* By squaring, for an exponent that is not negative. */                   \
    static inline num int_raise_##type(num x, num y)                           \
    {                                                                          \
        uint64_t result = 1;                                                   \
        uint64_t base = (bits)x;                                               \
        for (bits e = (bits)y; e != 0; e = (bits)(e >> 1)) {                   \
            if ((e & 1) != 0)                                                  \
                result *= base;                                                \
            base *= base;                                                      \
        }                                                                      \
        return (num)(bits)result;                                              \
    }

#define HELPERS_SIGNED(type, num, bits)                                        \
    static inline num int_div_##type(num x, num y)                             \
    {                                                                          \
        if (y == 0)                                                            \
            return -1;                                                         \
        return y == -1 ? (num)(0 - (bits)x) : x / y;                           \
    }                                                                          \
    static inline num int_rem_##type(num x, num y)                             \
    {                                                                          \
        if (y == 0)                                                            \
            return x;                                                          \
        return y == -1 ? 0 : x % y;                                            \
    }                                                                          \
    static inline num int_sra_##type(num x, num y)                             \
    {                                                                          \
        if (int_out_##type(y))                                                 \
            return x < 0 ? -1 : 0;                                             \
        return x >> y;                                                         \
    }                                                                          \
    static inline num int_pow_##type(num x, num y)                             \
    {                                                                          \
        if (y >= 0)                                                            \
            return int_raise_##type(x, y);                                     \
        if (x == 1 || x == -1)                                                 \
            return (y & 1) != 0 ? x : 1;                                       \
        return 0;                                                              \
    }                                                                          \
    static inline num int_abs_##type(num x)                                    \
    {                                                                          \
        return x < 0 ? (num)(0 - (bits)x) : x;                                 \
    }                                                                          \
    static inline num int_sign_##type(num x)                                   \
    {                                                                          \
        return (x > 0) - (x < 0);                                              \
    }

#define HELPERS_UNSIGNED(type, num, bits)                                      \
    static inline num int_div_##type(num x, num y)                             \
    {                                                                          \
        return (num)(y == 0 ? (num)-1 : x / y);                                \
    }                                                                          \
    static inline num int_rem_##type(num x, num y)                             \
    {                                                                          \
        return (num)(y == 0 ? x : x % y);                                      \
    }                                                                          \
    /* The top bit counts as a sign here too. */                               \
    static inline num int_sra_##type(num x, num y)                             \
    {                                                                          \
        const num fill =                                                       \
            (num)(x >> (sizeof(num) * 8 - 1)) != 0 ? (num)-1 : (num)0;         \
        if (int_out_##type(y))                                                 \
            return fill;                                                       \
        return (num)((x >> y) | (fill & (num) ~((num)-1 >> y)));               \
    }                                                                          \
    static inline num int_pow_##type(num x, num y)                             \
    {                                                                          \
        return int_raise_##type(x, y);                                         \
    }                                                                          \
    static inline num int_abs_##type(num x)                                    \
    {                                                                          \
        return x;                                                              \
    }

SIGNED(HELPERS_BOTH)
UNSIGNED(HELPERS_BOTH)
SIGNED(HELPERS_SIGNED)
UNSIGNED(HELPERS_UNSIGNED)

// Columns: opcode, value for x (and y), then those of the type.
#define UNARY(X, type, num, bits)                                              \
    X(ABS, int_abs_##type(x), type, num)                                       \
    X(NEGATE, 0 - (bits)x, type, num)                                          \
    X(NOT, ~x, type, num)                                                      \
    X(POPCNT, int_popcnt_##type(x), type, num)                                 \
    X(COUNT_LEADING_ZEROS, int_clz_##type(x), type, num)

// XLA has no sign of unsigned numbers.
#define SIGN(X, type, num) X(SIGN, int_sign_##type(x), type, num)

#define BINARY(X, type, num, bits)                                             \
    X(ADD, (bits)x + (bits)y, type, num)                                       \
    X(SUBTRACT, (bits)x - (bits)y, type, num)                                  \
    X(MULTIPLY, (bits)x *(bits)y, type, num)                                   \
    X(DIVIDE, int_div_##type(x, y), type, num)                                 \
    X(REMAINDER, int_rem_##type(x, y), type, num)                              \
    X(POWER, int_pow_##type(x, y), type, num)                                  \
    X(MINIMUM, x < y ? x : y, type, num)                                       \
    X(MAXIMUM, x > y ? x : y, type, num)                                       \
    X(AND, x &y, type, num)                                                    \
    X(OR, x | y, type, num)                                                    \
    X(XOR, x ^ y, type, num)                                                   \
    X(SHIFT_LEFT, int_shl_##type(x, y), type, num)                             \
    X(SHIFT_RIGHT_LOGICAL, int_shr_##type(x, y), type, num)                    \
    X(SHIFT_RIGHT_ARITHMETIC, int_sra_##type(x, y), type, num)

// One bit: sums saturate, as XLA has it.
#define PRED_UNARY(X) X(NOT, x ^ 1, PRED, uint8_t)
#define PRED_BINARY(X)                                                         \
    X(ADD, x | y, PRED, uint8_t)                                               \
    X(MULTIPLY, x &y, PRED, uint8_t)                                           \
    X(MINIMUM, x &y, PRED, uint8_t)                                            \
    X(MAXIMUM, x | y, PRED, uint8_t)                                           \
    X(AND, x &y, PRED, uint8_t)                                                \
    X(OR, x | y, PRED, uint8_t)                                                \
    X(XOR, x ^ y, PRED, uint8_t)

#define UNARY_LOOP(op, value, type, num)                                       \
    static void int_##op##_##type(void *out, const void *in, int64_t count)    \
    {                                                                          \
        const num *a = in;                                                     \
        num *o = out;                                                          \
        for (int64_t i = 0; i < count; i++) {                                  \
            const num x = a[i];                                                \
            o[i] = (num)(value);                                               \
        }                                                                      \
    }

#define BINARY_LOOP(op, value, type, num)                                      \
    static void int_##op##_##type(void *out, const void *left,                 \
                                  const void *right, int64_t count)            \
    {                                                                          \
        const num *a = left;                                                   \
        const num *b = right;                                                  \
        num *o = out;                                                          \
        for (int64_t i = 0; i < count; i++) {                                  \
            const num x = a[i];                                                \
            const num y = b[i];                                                \
            o[i] = (num)(value);                                               \
        }                                                                      \
    }

#define LOOPS(type, num, bits)                                                 \
    UNARY(UNARY_LOOP, type, num, bits)                                         \
    BINARY(BINARY_LOOP, type, num, bits)

#define SIGN_LOOPS(type, num, bits) SIGN(UNARY_LOOP, type, num)

SIGNED(LOOPS)
SIGNED(SIGN_LOOPS)
UNSIGNED(LOOPS)
PRED_UNARY(UNARY_LOOP)
PRED_BINARY(BINARY_LOOP)

#define ENTRY(op, value, type, num)                                            \
    [POD_TYPE_##type][POD_OP_##op] = int_##op##_##type,
#define UNARY_ENTRIES(type, num, bits)  UNARY(ENTRY, type, num, bits)
#define SIGN_ENTRIES(type, num, bits)   SIGN(ENTRY, type, num)
#define BINARY_ENTRIES(type, num, bits) BINARY(ENTRY, type, num, bits)

static pod_ref_unary_fn *const int_unary[POD_TYPE_COUNT][POD_OP_COUNT] = {
    SIGNED(UNARY_ENTRIES) SIGNED(SIGN_ENTRIES) UNSIGNED(UNARY_ENTRIES)
        PRED_UNARY(ENTRY)};

static pod_ref_binary_fn *const int_binary[POD_TYPE_COUNT][POD_OP_COUNT] = {
    SIGNED(BINARY_ENTRIES) UNSIGNED(BINARY_ENTRIES) PRED_BINARY(ENTRY)};

pod_ref_unary_fn *pod_ref_int_unary(enum pod_opcode opcode, enum pod_type type)
{
    return int_unary[type][opcode];
}

pod_ref_binary_fn *pod_ref_int_binary(enum pod_opcode opcode,
                                      enum pod_type type)
{
    return int_binary[type][opcode];
}
