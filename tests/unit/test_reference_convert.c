// SPDX-License-Identifier: Apache-2.0
// Conversions of the reference device, and the 16-bit floats.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/device/reference/half.h"
#include "tests/lib/ref_program.h"

static void check1(const char *instr, struct ref_array a, struct ref_array want)
{
    ref_check_op(instr, &a, 1, want);
}

// Every half survives being widened and narrowed, whatever it is.
static void test_halves_round_trip(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t half = (uint16_t)i;
        float f16 = pod_ref_from_f16(half);
        float bf16 = pod_ref_from_bf16(half);
        if (isnan(f16))
            assert_true(isnan(pod_ref_from_f16(pod_ref_to_f16(f16))));
        else
            assert_int_equal(pod_ref_to_f16(f16), half);
        if (isnan(bf16))
            assert_true(isnan(pod_ref_from_bf16(pod_ref_to_bf16(bf16))));
        else
            assert_int_equal(pod_ref_to_bf16(bf16), half);
    }
}

static void test_convert_from_float(void **state)
{
    const float a[] = {1.9F, -1.9F, 3e9F, -3e9F, NAN, 300, 0, INFINITY};
    const int32_t s32[] = {1, -1, INT32_MAX, INT32_MIN, 0, 300, 0, INT32_MAX};
    const int64_t s64[] = {1, -1,  3000000000, -3000000000,
                           0, 300, 0,          INT64_MAX};
    const uint8_t u8[] = {1, 0, 255, 0, 0, 255, 0, 255};
    const uint32_t u32[] = {1, 0, 3000000000U, 0, 0, 300, 0, UINT32_MAX};
    const uint8_t pred[] = {1, 1, 1, 1, 1, 1, 0, 1};
    const double d[] = {0x1p63, -0x1p63, 1e300, 2147483647.5};
    const int64_t d_s64[] = {INT64_MAX, INT64_MIN, INT64_MAX, 2147483647};
    const int32_t d_s32[] = {INT32_MAX, INT32_MIN, INT32_MAX, INT32_MAX};
    const float d_f32[] = {0x1p63F, -0x1p63F, INFINITY, 2147483648.0F};

    (void)state;
    check1("convert(a)", REF(F32, a), REF(S32, s32));
    check1("convert(a)", REF(F32, a), REF(S64, s64));
    check1("convert(a)", REF(F32, a), REF(U8, u8));
    check1("convert(a)", REF(F32, a), REF(U32, u32));
    check1("convert(a)", REF(F32, a), REF(PRED, pred));
    check1("convert(a)", REF(F32, a), REF(F32, a));
    check1("convert(a)", REF(F64, d), REF(S64, d_s64));
    check1("convert(a)", REF(F64, d), REF(S32, d_s32));
    check1("convert(a)", REF(F64, d), REF(F32, d_f32));
}

static void test_convert_integers(void **state)
{
    const int64_t a[] = {-1, 256 + 7, INT64_C(1) << 33, INT64_MIN};
    const int32_t s32[] = {-1, 263, 0, 0};
    const uint8_t u8[] = {255, 7, 0, 0};
    const uint32_t u32[] = {UINT32_MAX, 263, 0, 0};
    const uint8_t pred[] = {1, 1, 1, 1};
    const double f64[] = {-1, 263, 8589934592.0, -9223372036854775808.0};
    const int32_t b[] = {16777217, -16777219, 33554433, 0};
    const float rounded[] = {16777216, -16777220, 33554432, 0};
    const uint8_t c[] = {0, 1};
    const int64_t c_s64[] = {0, 1};
    const uint16_t c_bf16[] = {0, 0x3f80};

    (void)state;
    check1("convert(a)", REF(S64, a), REF(S32, s32));
    check1("convert(a)", REF(S64, a), REF(U8, u8));
    check1("convert(a)", REF(S64, a), REF(U32, u32));
    check1("convert(a)", REF(S64, a), REF(PRED, pred));
    check1("convert(a)", REF(S64, a), REF(F64, f64));
    check1("convert(a)", REF(S32, b), REF(F32, rounded));
    check1("convert(a)", REF(PRED, c), REF(S64, c_s64));
    check1("convert(a)", REF(PRED, c), REF(BF16, c_bf16));
}

// Halves are rounded once, from whatever: the double just above the tie between
// 1 and the next half goes up though its float lies on the tie.
static void test_convert_halves(void **state)
{
    const double a[] = {1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40, 65519.99, 65520,
                        0x1p-25,     0x1p-25 + 0x1p-60};
    const uint16_t f16[] = {0x3c00, 0x3c01, 0x7bff, 0x7c00, 0, 1};
    const double b[] = {1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 1e39, -0.0};
    const uint16_t bf16[] = {0x3f80, 0x3f81, 0x7f80, 0x8000};
    const int32_t c[] = {2049, 2051, 70000, -1};
    const uint16_t c_f16[] = {0x6800, 0x6802, 0x7c00, 0xbc00};
    const uint16_t d[] = {0x3555, 0xfc00}; // 0.33325195, -inf
    const float d_f32[] = {0.333251953125F, -INFINITY};
    const int32_t d_s32[] = {0, INT32_MIN};

    (void)state;
    check1("convert(a)", REF(F64, a), REF(F16, f16));
    check1("convert(a)", REF(F64, b), REF(BF16, bf16));
    check1("convert(a)", REF(S32, c), REF(F16, c_f16));
    check1("convert(a)", REF(F16, d), REF(F32, d_f32));
    check1("convert(a)", REF(F16, d), REF(S32, d_s32));
}

// An integer just beyond a tie of bf16, by less than a double can tell.
static void test_convert_great_integers(void **state)
{
    const int64_t half = INT64_C(1) << 54; // 2^62 * (1 + 2^-8)
    const int64_t tie = (INT64_C(1) << 62) + half;
    const int64_t a[] = {tie,      tie + 1,  tie - 1,   tie + 2 * half,
                         -tie - 1, -tie + 1, INT64_MAX, INT64_MIN};
    const uint16_t bf16[] = {0x5e80, 0x5e81, 0x5e80, 0x5e82,
                             0xde81, 0xde80, 0x5f00, 0xdf00};
    const uint16_t f16[] = {0x7c00, 0x7c00, 0x7c00, 0x7c00,
                            0xfc00, 0xfc00, 0x7c00, 0xfc00};

    (void)state;
    check1("convert(a)", REF(S64, a), REF(BF16, bf16));
    check1("convert(a)", REF(S64, a), REF(F16, f16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves_round_trip),
        cmocka_unit_test(test_convert_from_float),
        cmocka_unit_test(test_convert_integers),
        cmocka_unit_test(test_convert_halves),
        cmocka_unit_test(test_convert_great_integers),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
