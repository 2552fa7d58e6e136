// SPDX-License-Identifier: Apache-2.0
// Conversions between any two of the nine types.
//
// Floats become integers by truncation, saturating, NaN as 0; they become pred
// by comparison with zero. Integers become narrower by dropping bits. Whatever
// becomes a float is rounded once, to nearest even.
#include "core/device/reference/half.h"
#include "core/device/reference/kernel.h"

#define PLAIN(x) (x)

// Columns: type, storage, kind of number it is read as, how it is read.
#define SOURCES(X)                                                             \
    X(PRED, uint8_t, int, PLAIN)                                               \
    X(S32, int32_t, int, PLAIN)                                                \
    X(S64, int64_t, int, PLAIN)                                                \
    X(U8, uint8_t, int, PLAIN)                                                 \
    X(U32, uint32_t, int, PLAIN)                                               \
    X(F16, uint16_t, float, pod_ref_from_f16)                                  \
    X(BF16, uint16_t, float, pod_ref_from_bf16)                                \
    X(F32, float, float, PLAIN)                                                \
    X(F64, double, double, PLAIN)

// The same types again, for the other side of the matrix.
#define TARGETS(X, from, store, kind, read)                                    \
    X(PRED, uint8_t, from, store, kind, read)                                  \
    X(S32, int32_t, from, store, kind, read)                                   \
    X(S64, int64_t, from, store, kind, read)                                   \
    X(U8, uint8_t, from, store, kind, read)                                    \
    X(U32, uint32_t, from, store, kind, read)                                  \
    X(F16, uint16_t, from, store, kind, read)                                  \
    X(BF16, uint16_t, from, store, kind, read)                                 \
    X(F32, float, from, store, kind, read)                                     \
    X(F64, double, from, store, kind, read)

// Integer types as targets: bounds as doubles, the upper one exclusive.
#define CONVERT_INT(type, num, low, high, least, most)                         \
    static inline num convert_##type##_int(int64_t x)                          \
    {                                                                          \
        return (num)x;                                                         \
    }                                                                          \
    static inline num convert_##type##_double(double x)                        \
    {                                                                          \
        if (x != x)                                                            \
            return 0;                                                          \
        if (x <= (low))                                                        \
            return (least);                                                    \
        return x < (high) ? (num)x : (most);                                   \
    }                                                                          \
    static inline num convert_##type##_float(float x)                          \
    {                                                                          \
        return convert_##type##_double((double)x);                             \
    }

CONVERT_INT(S32, int32_t, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)
CONVERT_INT(S64, int64_t, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)
CONVERT_INT(U8, uint8_t, 0.0, 0x1p8, 0, UINT8_MAX)
CONVERT_INT(U32, uint32_t, 0.0, 0x1p32, 0, UINT32_MAX)

// The integer as a double; one that does not fit is rounded to odd, in units
// that are small enough for halves.
static inline double convert_odd(int64_t x)
{
    const int64_t unit = 1024;
    const int64_t rest = x & (unit - 1);

    if (rest == 0 || (x > -(INT64_C(1) << 53) && x < INT64_C(1) << 53))
        return (double)x;
    return (double)((x - rest) | unit);
}

// Targets that need no bounds. Columns: type, storage, then the value for an
// integer, a float and a double x.
#define CONVERT_PLAIN(type, num, of_int, of_float, of_double)                  \
    static inline num convert_##type##_int(int64_t x)                          \
    {                                                                          \
        return of_int;                                                         \
    }                                                                          \
    static inline num convert_##type##_float(float x)                          \
    {                                                                          \
        return of_float;                                                       \
    }                                                                          \
    static inline num convert_##type##_double(double x)                        \
    {                                                                          \
        return of_double;                                                      \
    }

CONVERT_PLAIN(PRED, uint8_t, x != 0, x != 0, x != 0)
CONVERT_PLAIN(F32, float, (float)x, x, (float)x)
CONVERT_PLAIN(F64, double, (double)x, (double)x, x)
CONVERT_PLAIN(F16, uint16_t, pod_ref_to_f16(pod_ref_to_odd(convert_odd(x))),
              pod_ref_to_f16(x), pod_ref_to_f16(pod_ref_to_odd(x)))
CONVERT_PLAIN(BF16, uint16_t, pod_ref_to_bf16(pod_ref_to_odd(convert_odd(x))),
              pod_ref_to_bf16(x), pod_ref_to_bf16(pod_ref_to_odd(x)))

#define LOOP(to, target, from, store, kind, read)                              \
    static void convert_##from##_##to(void *out, const void *in,               \
                                      int64_t count)                           \
    {                                                                          \
        const store *a = in;                                                   \
        target *o = out;                                                       \
        for (int64_t i = 0; i < count; i++)                                    \
            o[i] = convert_##to##_##kind(read(a[i]));                          \
    }
#define LOOPS(from, store, kind, read) TARGETS(LOOP, from, store, kind, read)
SOURCES(LOOPS)

#define ENTRY(to, target, from, store, kind, read)                             \
    [POD_TYPE_##from][POD_TYPE_##to] = convert_##from##_##to,
#define ENTRIES(from, store, kind, read) TARGETS(ENTRY, from, store, kind, read)

static pod_ref_unary_fn *const convert_table[POD_TYPE_COUNT][POD_TYPE_COUNT] = {
    SOURCES(ENTRIES)};

pod_ref_unary_fn *pod_ref_convert_find(enum pod_type from, enum pod_type to)
{
    return convert_table[from][to];
}

bool pod_ref_type_known(enum pod_type type)
{
    return convert_table[type][type] != NULL;
}
