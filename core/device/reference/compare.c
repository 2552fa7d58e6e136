// SPDX-License-Identifier: Apache-2.0
// Comparisons, choices and bounds; and the finders of all arithmetic.
#include <string.h>

#include "core/device/reference/half.h"
#include "core/device/reference/kernel.h"
#include "core/device/reference/minmax.h"

#define PLAIN(x) (x)

// Columns: type, storage, how it is read.
#define TYPES(X)                                                               \
    X(PRED, uint8_t, PLAIN)                                                    \
    X(S32, int32_t, PLAIN)                                                     \
    X(S64, int64_t, PLAIN)                                                     \
    X(U8, uint8_t, PLAIN)                                                      \
    X(U32, uint32_t, PLAIN)                                                    \
    X(F16, uint16_t, pod_ref_from_f16)                                         \
    X(BF16, uint16_t, pod_ref_from_bf16)                                       \
    X(F32, float, PLAIN)                                                       \
    X(F64, double, PLAIN)

// Floats in total order, read as integers of their bits: those with a sign
// count down.
#define TOTAL(X)                                                               \
    X(F16, int16_t, compare_key16)                                             \
    X(BF16, int16_t, compare_key16)                                            \
    X(F32, int32_t, compare_key32)                                             \
    X(F64, int64_t, compare_key64)

static inline int16_t compare_key16(int16_t bits)
{
    return bits < 0 ? (int16_t)(bits ^ INT16_MAX) : bits;
}

static inline int32_t compare_key32(int32_t bits)
{
    return bits < 0 ? bits ^ INT32_MAX : bits;
}

static inline int64_t compare_key64(int64_t bits)
{
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

#define DIRECTIONS(X, order, type, store, read)                                \
    X(EQ, ==, order, type, store, read)                                        \
    X(NE, !=, order, type, store, read)                                        \
    X(LT, <, order, type, store, read)                                         \
    X(LE, <=, order, type, store, read)                                        \
    X(GT, >, order, type, store, read)                                         \
    X(GE, >=, order, type, store, read)

#define LOOP(name, sign, order, type, store, read)                             \
    static void compare_##order##_##name##_##type(                             \
        void *out, const void *left, const void *right, int64_t count)         \
    {                                                                          \
        const store *a = left;                                                 \
        const store *b = right;                                                \
        unsigned char *o = out;                                                \
        for (int64_t i = 0; i < count; i++)                                    \
            o[i] = read(a[i]) sign read(b[i]);                                 \
    }
#define LOOPS(type, store, read) DIRECTIONS(LOOP, plain, type, store, read)
#define TOTAL_LOOPS(type, store, read)                                         \
    DIRECTIONS(LOOP, total, type, store, read)
TYPES(LOOPS)
TOTAL(TOTAL_LOOPS)

enum { EQ, NE, LT, LE, GT, GE, COMPARE_COUNT };

#define ENTRY(name, sign, order, type, store, read)                            \
    [POD_TYPE_##type][name] = compare_##order##_##name##_##type,
#define ENTRIES(type, store, read) DIRECTIONS(ENTRY, plain, type, store, read)
#define TOTAL_ENTRIES(type, store, read)                                       \
    DIRECTIONS(ENTRY, total, type, store, read)

static pod_ref_binary_fn *const compare_plain[POD_TYPE_COUNT][COMPARE_COUNT] = {
    TYPES(ENTRIES)};
static pod_ref_binary_fn *const compare_total[POD_TYPE_COUNT][COMPARE_COUNT] = {
    TOTAL(TOTAL_ENTRIES)};

pod_ref_binary_fn *pod_ref_compare_find(const char *direction, bool total,
                                        enum pod_type type)
{
    static const char names[COMPARE_COUNT][3] = {"EQ", "NE", "LT",
                                                 "LE", "GT", "GE"};

    for (int i = 0; i < COMPARE_COUNT; i++) {
        if (strcmp(direction, names[i]) == 0)
            return total ? compare_total[type][i] : compare_plain[type][i];
    }
    return NULL;
}

// Columns: type, storage, how it is read and written, the lesser and the
// greater.
#define CLAMPS(X)                                                              \
    X(PRED, uint8_t, PLAIN, PLAIN, COMPARE_MIN, COMPARE_MAX)                   \
    X(S32, int32_t, PLAIN, PLAIN, COMPARE_MIN, COMPARE_MAX)                    \
    X(S64, int64_t, PLAIN, PLAIN, COMPARE_MIN, COMPARE_MAX)                    \
    X(U8, uint8_t, PLAIN, PLAIN, COMPARE_MIN, COMPARE_MAX)                     \
    X(U32, uint32_t, PLAIN, PLAIN, COMPARE_MIN, COMPARE_MAX)                   \
    X(F16, uint16_t, pod_ref_from_f16, pod_ref_to_f16, pod_ref_minf,           \
      pod_ref_maxf)                                                            \
    X(BF16, uint16_t, pod_ref_from_bf16, pod_ref_to_bf16, pod_ref_minf,        \
      pod_ref_maxf)                                                            \
    X(F32, float, PLAIN, PLAIN, pod_ref_minf, pod_ref_maxf)                    \
    X(F64, double, PLAIN, PLAIN, pod_ref_min, pod_ref_max)

#define COMPARE_MIN(x, y) ((x) < (y) ? (x) : (y))
#define COMPARE_MAX(x, y) ((x) > (y) ? (x) : (y))

// min(max(low, x), high), where NaN in any of them wins.
#define CLAMP_LOOP(type, store, read, write, min, max)                         \
    static void compare_clamp_##type(                                          \
        void *out, const void *low, int64_t low_step, const void *in,          \
        const void *high, int64_t high_step, int64_t count)                    \
    {                                                                          \
        const store *a = in;                                                   \
        const store *l = low;                                                  \
        const store *h = high;                                                 \
        store *o = out;                                                        \
        for (int64_t i = 0; i < count; i++, l += low_step, h += high_step)     \
            o[i] = write(min(max(read(*l), read(a[i])), read(*h)));            \
    }
CLAMPS(CLAMP_LOOP)

#define CLAMP_ENTRY(type, store, read, write, min, max)                        \
    [POD_TYPE_##type] = compare_clamp_##type,
static pod_ref_clamp_fn *const compare_clamp[POD_TYPE_COUNT] = {
    CLAMPS(CLAMP_ENTRY)};

pod_ref_clamp_fn *pod_ref_clamp_find(enum pod_type type)
{
    return compare_clamp[type];
}

#define SELECT_LOOP(type, store, read)                                         \
    static void compare_select_##type(void *out, const unsigned char *choice,  \
                                      int64_t choice_step, const void *yes,    \
                                      const void *no, int64_t count)           \
    {                                                                          \
        const store *a = yes;                                                  \
        const store *b = no;                                                   \
        store *o = out;                                                        \
        for (int64_t i = 0; i < count; i++, choice += choice_step)             \
            o[i] = *choice ? a[i] : b[i];                                      \
    }
TYPES(SELECT_LOOP)

#define SELECT_ENTRY(type, store, read)                                        \
    [POD_TYPE_##type] = compare_select_##type,
static pod_ref_select_fn *const compare_select[POD_TYPE_COUNT] = {
    TYPES(SELECT_ENTRY)};

pod_ref_select_fn *pod_ref_select_find(enum pod_type type)
{
    return compare_select[type];
}

pod_ref_unary_fn *pod_ref_unary_find(enum pod_opcode opcode, enum pod_type type)
{
    return pod_type_is_float(type) ? pod_ref_float_unary(opcode, type)
                                   : pod_ref_int_unary(opcode, type);
}

pod_ref_binary_fn *pod_ref_binary_find(enum pod_opcode opcode,
                                       enum pod_type type)
{
    return pod_type_is_float(type) ? pod_ref_float_binary(opcode, type)
                                   : pod_ref_int_binary(opcode, type);
}
