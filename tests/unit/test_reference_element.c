// SPDX-License-Identifier: Apache-2.0
// Elementwise instructions of the reference device, type by type. The values
// are worked out by hand; halves stand as bits.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ref_program.h"

static void check1(const char *instr, struct ref_array a, struct ref_array want)
{
    ref_check_op(instr, &a, 1, want);
}

static void check2(const char *instr, struct ref_array a, struct ref_array b,
                   struct ref_array want)
{
    const struct ref_array inputs[] = {a, b};

    ref_check_op(instr, inputs, 2, want);
}

static void close1(const char *instr, struct ref_array a, struct ref_array want,
                   double rtol)
{
    ref_check_op_close(instr, &a, 1, want, rtol);
}

// ------------------------------------------------------------------- integers

static void test_s32(void **state)
{
    const int32_t a[] = {7, -7, INT32_MIN, INT32_MAX, 5, 0};
    const int32_t b[] = {2, 2, -1, 1, 0, -3};
    const int32_t sum[] = {9, -5, INT32_MAX, INT32_MIN, 5, -3};
    const int32_t difference[] = {5, -9, INT32_MIN + 1, INT32_MAX - 1, 5, 3};
    const int32_t product[] = {14, -14, INT32_MIN, INT32_MAX, 0, 0};
    const int32_t quotient[] = {3, -3, INT32_MIN, INT32_MAX, -1, 0};
    const int32_t rest[] = {1, -1, 0, 0, 5, 0};
    const int32_t least[] = {2, -7, INT32_MIN, 1, 0, -3};
    const int32_t most[] = {7, 2, -1, INT32_MAX, 5, 0};

    (void)state;
    check2("add(a, b)", REF(S32, a), REF(S32, b), REF(S32, sum));
    check2("subtract(a, b)", REF(S32, a), REF(S32, b), REF(S32, difference));
    check2("multiply(a, b)", REF(S32, a), REF(S32, b), REF(S32, product));
    check2("divide(a, b)", REF(S32, a), REF(S32, b), REF(S32, quotient));
    check2("remainder(a, b)", REF(S32, a), REF(S32, b), REF(S32, rest));
    check2("minimum(a, b)", REF(S32, a), REF(S32, b), REF(S32, least));
    check2("maximum(a, b)", REF(S32, a), REF(S32, b), REF(S32, most));
}

static void test_s32_bits(void **state)
{
    const int32_t a[] = {12, -1, 1, -8, -8, 6};
    const int32_t b[] = {10, 31, 32, 1, -1, 3};
    const int32_t both[] = {8, 31, 0, 0, -8, 2};
    const int32_t either[] = {14, -1, 33, -7, -1, 7};
    const int32_t one[] = {6, -32, 33, -7, 7, 5};
    const int32_t left[] = {12288, INT32_MIN, 0, -16, 0, 48};
    const int32_t arithmetic[] = {0, -1, 0, -4, -1, 0};
    const int32_t logical[] = {0, 1, 0, 0x7ffffffc, 0, 0};
    const int32_t not_a[] = {-13, 0, -2, 7, 7, -7};

    (void)state;
    check2("and(a, b)", REF(S32, a), REF(S32, b), REF(S32, both));
    check2("or(a, b)", REF(S32, a), REF(S32, b), REF(S32, either));
    check2("xor(a, b)", REF(S32, a), REF(S32, b), REF(S32, one));
    check2("shift-left(a, b)", REF(S32, a), REF(S32, b), REF(S32, left));
    check2("shift-right-arithmetic(a, b)", REF(S32, a), REF(S32, b),
           REF(S32, arithmetic));
    check2("shift-right-logical(a, b)", REF(S32, a), REF(S32, b),
           REF(S32, logical));
    check1("not(a)", REF(S32, a), REF(S32, not_a));
}

static void test_s32_unary(void **state)
{
    const int32_t a[] = {5, -5, 0, INT32_MIN, -1};
    const int32_t absolute[] = {5, 5, 0, INT32_MIN, 1};
    const int32_t negated[] = {-5, 5, 0, INT32_MIN, 1};
    const int32_t sign[] = {1, -1, 0, -1, -1};
    const int32_t ones[] = {2, 31, 0, 1, 32};
    const int32_t zeros[] = {29, 0, 32, 0, 0};

    (void)state;
    check1("abs(a)", REF(S32, a), REF(S32, absolute));
    check1("negate(a)", REF(S32, a), REF(S32, negated));
    check1("sign(a)", REF(S32, a), REF(S32, sign));
    check1("popcnt(a)", REF(S32, a), REF(S32, ones));
    check1("count-leading-zeros(a)", REF(S32, a), REF(S32, zeros));
}

static void test_s32_power(void **state)
{
    const int32_t a[] = {3, -2, 2, 0, 0, 1, -1, -1, 7, 2};
    const int32_t b[] = {4, 3, -1, 0, 5, -9, -3, -4, -2, 33};
    const int32_t want[] = {81, -8, 0, 1, 0, 1, -1, 1, 0, 0};

    (void)state;
    check2("power(a, b)", REF(S32, a), REF(S32, b), REF(S32, want));
}

static void test_s64(void **state)
{
    const int64_t a[] = {INT64_MAX, INT64_MIN, -9, 1, INT64_C(1) << 40};
    const int64_t b[] = {1, -1, 4, 0, 24};
    const int64_t sum[] = {INT64_MIN, INT64_MAX, -5, 1,
                           (INT64_C(1) << 40) + 24};
    const int64_t product[] = {INT64_MAX, INT64_MIN, -36, 0, INT64_C(24) << 40};
    const int64_t quotient[] = {INT64_MAX, INT64_MIN, -2, -1, 45812984490};
    const int64_t rest[] = {0, 0, -1, 1, 16};
    // 2^40 * 2^24 is 2^64.
    const int64_t left[] = {-2, 0, -144, 1, 0};
    const int64_t arithmetic[] = {INT64_MAX / 2, -1, -1, 1, 65536};
    const int64_t zeros[] = {1, 0, 0, 63, 23};
    const int64_t ones[] = {63, 1, 63, 1, 1};

    (void)state;
    check2("add(a, b)", REF(S64, a), REF(S64, b), REF(S64, sum));
    check2("multiply(a, b)", REF(S64, a), REF(S64, b), REF(S64, product));
    check2("divide(a, b)", REF(S64, a), REF(S64, b), REF(S64, quotient));
    check2("remainder(a, b)", REF(S64, a), REF(S64, b), REF(S64, rest));
    check2("shift-left(a, b)", REF(S64, a), REF(S64, b), REF(S64, left));
    check2("shift-right-arithmetic(a, b)", REF(S64, a), REF(S64, b),
           REF(S64, arithmetic));
    check1("count-leading-zeros(a)", REF(S64, a), REF(S64, zeros));
    check1("popcnt(a)", REF(S64, a), REF(S64, ones));
}

static void test_u8(void **state)
{
    const uint8_t a[] = {200, 3, 7, 255, 128};
    const uint8_t b[] = {100, 5, 0, 255, 3};
    const uint8_t sum[] = {44, 8, 7, 254, 131};
    const uint8_t difference[] = {100, 254, 7, 0, 125};
    const uint8_t product[] = {32, 15, 0, 1, 128};
    const uint8_t quotient[] = {2, 0, 255, 1, 42};
    const uint8_t rest[] = {0, 3, 7, 0, 2};
    const uint8_t left[] = {0, 96, 7, 0, 0};
    const uint8_t logical[] = {0, 0, 7, 0, 16};
    const uint8_t arithmetic[] = {255, 0, 7, 255, 240};
    const uint8_t negated[] = {56, 253, 249, 1, 128};
    const uint8_t zeros[] = {0, 6, 5, 0, 0};
    const uint8_t least[] = {100, 3, 0, 255, 3};
    const uint8_t power[] = {0, 243, 1, 255, 0};

    (void)state;
    check2("add(a, b)", REF(U8, a), REF(U8, b), REF(U8, sum));
    check2("subtract(a, b)", REF(U8, a), REF(U8, b), REF(U8, difference));
    check2("multiply(a, b)", REF(U8, a), REF(U8, b), REF(U8, product));
    check2("divide(a, b)", REF(U8, a), REF(U8, b), REF(U8, quotient));
    check2("remainder(a, b)", REF(U8, a), REF(U8, b), REF(U8, rest));
    check2("shift-left(a, b)", REF(U8, a), REF(U8, b), REF(U8, left));
    check2("shift-right-logical(a, b)", REF(U8, a), REF(U8, b),
           REF(U8, logical));
    check2("shift-right-arithmetic(a, b)", REF(U8, a), REF(U8, b),
           REF(U8, arithmetic));
    check1("negate(a)", REF(U8, a), REF(U8, negated));
    check1("count-leading-zeros(a)", REF(U8, a), REF(U8, zeros));
    check2("minimum(a, b)", REF(U8, a), REF(U8, b), REF(U8, least));
    check2("power(a, b)", REF(U8, a), REF(U8, b), REF(U8, power));
}

static void test_u32(void **state)
{
    const uint32_t a[] = {UINT32_MAX, 7, 0x80000000U, 1};
    const uint32_t b[] = {2, 0, 31, 32};
    const uint32_t sum[] = {1, 7, 0x8000001fU, 33};
    const uint32_t product[] = {UINT32_MAX - 1, 0, 0x80000000U, 32};
    const uint32_t quotient[] = {0x7fffffffU, UINT32_MAX, 69273666, 0};
    const uint32_t rest[] = {1, 7, 2, 1};
    const uint32_t logical[] = {0x3fffffffU, 7, 1, 0};
    const uint32_t arithmetic[] = {UINT32_MAX, 7, UINT32_MAX, 0};
    const uint32_t most[] = {UINT32_MAX, 7, 0x80000000U, 32};

    (void)state;
    check2("add(a, b)", REF(U32, a), REF(U32, b), REF(U32, sum));
    check2("multiply(a, b)", REF(U32, a), REF(U32, b), REF(U32, product));
    check2("divide(a, b)", REF(U32, a), REF(U32, b), REF(U32, quotient));
    check2("remainder(a, b)", REF(U32, a), REF(U32, b), REF(U32, rest));
    check2("shift-right-logical(a, b)", REF(U32, a), REF(U32, b),
           REF(U32, logical));
    check2("shift-right-arithmetic(a, b)", REF(U32, a), REF(U32, b),
           REF(U32, arithmetic));
    check2("maximum(a, b)", REF(U32, a), REF(U32, b), REF(U32, most));
    check1("abs(a)", REF(U32, a), REF(U32, a));
}

static void test_pred(void **state)
{
    const uint8_t a[] = {0, 0, 1, 1};
    const uint8_t b[] = {0, 1, 0, 1};
    const uint8_t both[] = {0, 0, 0, 1};
    const uint8_t either[] = {0, 1, 1, 1};
    const uint8_t one[] = {0, 1, 1, 0};
    const uint8_t not_a[] = {1, 1, 0, 0};

    (void)state;
    check2("and(a, b)", REF(PRED, a), REF(PRED, b), REF(PRED, both));
    check2("or(a, b)", REF(PRED, a), REF(PRED, b), REF(PRED, either));
    check2("xor(a, b)", REF(PRED, a), REF(PRED, b), REF(PRED, one));
    check2("maximum(a, b)", REF(PRED, a), REF(PRED, b), REF(PRED, either));
    check2("minimum(a, b)", REF(PRED, a), REF(PRED, b), REF(PRED, both));
    check1("not(a)", REF(PRED, a), REF(PRED, not_a));
}

// --------------------------------------------------------------------- floats

static void test_f32(void **state)
{
    const float a[] = {1.5F, -2, INFINITY, 1, -1, 0, 3e38F};
    const float b[] = {0.25F, 0.5F, -INFINITY, 0, 0, 0, 3e38F};
    const float sum[] = {1.75F, -1.5F, NAN, 1, -1, 0, INFINITY};
    const float difference[] = {1.25F, -2.5F, INFINITY, 1, -1, 0, 0};
    const float product[] = {0.375F, -1, -INFINITY, 0, -0.0F, 0, INFINITY};
    const float quotient[] = {6, -4, NAN, INFINITY, -INFINITY, NAN, 1};

    (void)state;
    check2("add(a, b)", REF(F32, a), REF(F32, b), REF(F32, sum));
    check2("subtract(a, b)", REF(F32, a), REF(F32, b), REF(F32, difference));
    check2("multiply(a, b)", REF(F32, a), REF(F32, b), REF(F32, product));
    check2("divide(a, b)", REF(F32, a), REF(F32, b), REF(F32, quotient));
}

static void test_f32_nan_wins(void **state)
{
    const float a[] = {NAN, 1, NAN, 2, INFINITY, -5};
    const float b[] = {1, NAN, NAN, 3, NAN, -INFINITY};
    const float least[] = {NAN, NAN, NAN, 2, NAN, -INFINITY};
    const float most[] = {NAN, NAN, NAN, 3, NAN, -5};

    (void)state;
    check2("minimum(a, b)", REF(F32, a), REF(F32, b), REF(F32, least));
    check2("maximum(a, b)", REF(F32, a), REF(F32, b), REF(F32, most));
}

// -0 is below +0, whichever comes first.
static void test_signs_of_zero(void **state)
{
    const float a[] = {0, -0.0F, 0, -0.0F};
    const float b[] = {-0.0F, 0, 0, -0.0F};
    const float least[] = {-0.0F, -0.0F, 0, -0.0F};
    const float most[] = {0, 0, 0, -0.0F};
    const double d[] = {0, -0.0, 0, -0.0};
    const double e[] = {-0.0, 0, 0, -0.0};
    const double d_least[] = {-0.0, -0.0, 0, -0.0};
    const double d_most[] = {0, 0, 0, -0.0};
    const uint16_t h[] = {0, 0x8000, 0, 0x8000};
    const uint16_t k[] = {0x8000, 0, 0, 0x8000};
    const uint16_t h_least[] = {0x8000, 0x8000, 0, 0x8000};
    const uint16_t h_most[] = {0, 0, 0, 0x8000};

    (void)state;
    check2("minimum(a, b)", REF(F32, a), REF(F32, b), REF(F32, least));
    check2("maximum(a, b)", REF(F32, a), REF(F32, b), REF(F32, most));
    check2("clamp(a, b, b)", REF(F32, a), REF(F32, b), REF(F32, b));
    check2("clamp(b, a, a)", REF(F32, a), REF(F32, b), REF(F32, a));
    check2("minimum(a, b)", REF(F64, d), REF(F64, e), REF(F64, d_least));
    check2("maximum(a, b)", REF(F64, d), REF(F64, e), REF(F64, d_most));
    check2("clamp(a, b, b)", REF(F64, d), REF(F64, e), REF(F64, e));
    check2("minimum(a, b)", REF(F16, h), REF(F16, k), REF(F16, h_least));
    check2("maximum(a, b)", REF(F16, h), REF(F16, k), REF(F16, h_most));
    check2("clamp(a, b, b)", REF(F16, h), REF(F16, k), REF(F16, k));
    check2("minimum(a, b)", REF(BF16, h), REF(BF16, k), REF(BF16, h_least));
    check2("maximum(a, b)", REF(BF16, h), REF(BF16, k), REF(BF16, h_most));
    check2("clamp(a, b, b)", REF(BF16, h), REF(BF16, k), REF(BF16, k));
}

// The sign of a remainder is the dividend's.
static void test_f32_remainder(void **state)
{
    const float a[] = {5.5F, -5.5F, 5.5F, 1, -0.0F, INFINITY, 3};
    const float b[] = {2, 2, -2, 0, 2, 2, INFINITY};
    const float want[] = {1.5F, -1.5F, 1.5F, NAN, -0.0F, NAN, 3};

    (void)state;
    check2("remainder(a, b)", REF(F32, a), REF(F32, b), REF(F32, want));
}

static void test_f32_power(void **state)
{
    const float a[] = {2, 0, NAN, 1, -2, -8, 0, -1};
    const float b[] = {10, 0, 0, NAN, 3, 0.5F, -1, INFINITY};
    const float want[] = {1024, 1, 1, 1, -8, NAN, INFINITY, 1};

    (void)state;
    check2("power(a, b)", REF(F32, a), REF(F32, b), REF(F32, want));
}

// What is 1 for every number is 1 for NaN too, be it quiet (0x7e00) or not.
static void test_power_of_nan(void **state)
{
    const uint16_t a[] = {0x7e00, 0x7c01, 0x3c00, 0x3c00, 0x7c01, 0x4000};
    const uint16_t b[] = {0x0000, 0x8000, 0xfe00, 0xfc01, 0x3c00, 0x7c01};
    const uint16_t want[] = {0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x7e00, 0x7e00};

    (void)state;
    check2("power(a, b)", REF(F16, a), REF(F16, b), REF(F16, want));
}

static void test_f32_rounding(void **state)
{
    const float a[] = {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 2.4F, -0.0F, NAN};
    const float down[] = {0, 1, 2, -1, -2, 2, -0.0F, NAN};
    const float up[] = {1, 2, 3, -0.0F, -1, 3, -0.0F, NAN};
    const float away[] = {1, 2, 3, -1, -2, 2, -0.0F, NAN};
    const float even[] = {0, 2, 2, -0.0F, -2, 2, -0.0F, NAN};

    (void)state;
    check1("floor(a)", REF(F32, a), REF(F32, down));
    check1("ceil(a)", REF(F32, a), REF(F32, up));
    check1("round-nearest-afz(a)", REF(F32, a), REF(F32, away));
    check1("round-nearest-even(a)", REF(F32, a), REF(F32, even));
}

static void test_f32_signs(void **state)
{
    const float a[] = {-3, 0, -0.0F, NAN, INFINITY, -1e-40F};
    const float absolute[] = {3, 0, 0, NAN, INFINITY, 1e-40F};
    const float negated[] = {3, -0.0F, 0, NAN, -INFINITY, 1e-40F};
    const float sign[] = {-1, 0, -0.0F, NAN, 1, -1};

    (void)state;
    check1("abs(a)", REF(F32, a), REF(F32, absolute));
    check1("negate(a)", REF(F32, a), REF(F32, negated));
    check1("sign(a)", REF(F32, a), REF(F32, sign));
}

static void test_f32_functions(void **state)
{
    const float a[] = {0, 1, -1, INFINITY, -INFINITY, NAN};
    const float exponential[] = {1, 2.7182818F, 0.36787944F, INFINITY, 0, NAN};
    const float tanh_a[] = {0, 0.76159416F, -0.76159416F, 1, -1, NAN};
    const float logistic[] = {0.5F, 0.73105858F, 0.26894142F, 1, 0, NAN};
    const float b[] = {4, 0, -0.0F, INFINITY, -1, 2.7182818F};
    const float root[] = {2, 0, -0.0F, INFINITY, NAN, 1.6487213F};
    const float inverse[] = {0.5F, INFINITY, -INFINITY, 0, NAN, 0.60653066F};
    const float logarithm[] = {1.3862944F, -INFINITY, -INFINITY,
                               INFINITY,   NAN,       1};

    (void)state;
    close1("exponential(a)", REF(F32, a), REF(F32, exponential), 2e-7);
    close1("tanh(a)", REF(F32, a), REF(F32, tanh_a), 2e-7);
    close1("logistic(a)", REF(F32, a), REF(F32, logistic), 3e-7);
    close1("sqrt(a)", REF(F32, b), REF(F32, root), 1e-7);
    close1("rsqrt(a)", REF(F32, b), REF(F32, inverse), 2e-7);
    close1("log(a)", REF(F32, b), REF(F32, logarithm), 2e-7);
}

// Far below zero, where e^-x is beyond the greatest number, logistic is e^x and
// a denormal: so many times the least one.
static void test_logistic_denormal(void **state)
{
    const float a[] = {-89, -100, -104.5F, -90.25F, 104};
    const float want[] = {1589500 * 0x1p-149F, 27 * 0x1p-149F, 0,
                          455399 * 0x1p-149F, 1};
    const double b[] = {-710, -740, -746, 746};
    const double b_want[] = {906010418525123 * 0x1p-1074, 85 * 0x1p-1074, 0, 1};
    const uint16_t h[] = {0xc2b2, 0xc2c8}; // -89, -100
    const uint16_t h_want[] = {24, 0};

    (void)state;
    check1("logistic(a)", REF(F32, a), REF(F32, want));
    check1("logistic(a)", REF(F64, b), REF(F64, b_want));
    check1("logistic(a)", REF(BF16, h), REF(BF16, h_want));
}

static void test_f64(void **state)
{
    const double a[] = {1, -7.5, 0, INFINITY};
    const double b[] = {3, 2, -0.0, NAN};
    const double sum[] = {4, -5.5, 0, NAN};
    const double quotient[] = {1.0 / 3.0, -3.75, NAN, NAN};
    const double rest[] = {1, -1.5, NAN, NAN};
    const double power[] = {1, 56.25, 1, NAN};
    const double exponential[] = {2.718281828459045, 5.530843701478336e-4, 1,
                                  INFINITY};
    const double even[] = {1, -8, 0, INFINITY};

    (void)state;
    check2("add(a, b)", REF(F64, a), REF(F64, b), REF(F64, sum));
    check2("divide(a, b)", REF(F64, a), REF(F64, b), REF(F64, quotient));
    check2("remainder(a, b)", REF(F64, a), REF(F64, b), REF(F64, rest));
    check2("power(a, b)", REF(F64, a), REF(F64, b), REF(F64, power));
    close1("exponential(a)", REF(F64, a), REF(F64, exponential), 1e-15);
    check1("round-nearest-even(a)", REF(F64, a), REF(F64, even));
}

// f16 has 10 bits behind the point: 1 + 2^-11 is a tie and goes to the even 1,
// 1 + 3 * 2^-11 one to 1 + 2^-9. 65504 is the greatest; 65504 + 16 is a tie
// that goes to infinity.
static void test_f16(void **state)
{
    const uint16_t a[] = {0x3c00, 0x3c01, 0x7bff, 0x0001, 0xc000, 0x7e00};
    const uint16_t b[] = {0x1000, 0x1000, 0x4c00, 0x0001, 0x3800, 0x3c00};
    const uint16_t sum[] = {0x3c00, 0x3c02, 0x7c00, 0x0002, 0xbe00, 0x7e00};
    const uint16_t product[] = {0x1000, 0x1001, 0x7c00, 0, 0xbc00, 0x7e00};
    const uint16_t c[] = {0x4400, 0x3400, 0x0000, 0xbc00};
    const uint16_t root[] = {0x4000, 0x3800, 0x0000, 0x7e00};
    const uint16_t negated[] = {0xc400, 0xb400, 0x8000, 0x3c00};

    (void)state;
    check2("add(a, b)", REF(F16, a), REF(F16, b), REF(F16, sum));
    check2("multiply(a, b)", REF(F16, a), REF(F16, b), REF(F16, product));
    check1("sqrt(a)", REF(F16, c), REF(F16, root));
    check1("negate(a)", REF(F16, c), REF(F16, negated));
}

// bf16 has 7 bits behind the point: 1 + 2^-8 is a tie and goes to 1,
// 1 + 3 * 2^-8 to 1 + 2^-6.
static void test_bf16(void **state)
{
    const uint16_t a[] = {0x3f80, 0x3f81, 0x7f7f, 0x4000, 0x7fc0};
    const uint16_t b[] = {0x3b80, 0x3b80, 0x7f7f, 0xc040, 0x3f80};
    const uint16_t sum[] = {0x3f80, 0x3f82, 0x7f80, 0xbf80, 0x7fc0};
    const uint16_t quotient[] = {0x4380, 0x4381, 0x3f80, 0xbf2b, 0x7fc0};
    const uint16_t least[] = {0x3b80, 0x3b80, 0x7f7f, 0xc040, 0x7fc0};

    (void)state;
    check2("add(a, b)", REF(BF16, a), REF(BF16, b), REF(BF16, sum));
    check2("divide(a, b)", REF(BF16, a), REF(BF16, b), REF(BF16, quotient));
    check2("minimum(a, b)", REF(BF16, a), REF(BF16, b), REF(BF16, least));
}

// -------------------------------------------------- compare, select and clamp

static void test_compare_floats(void **state)
{
    const float a[] = {1, 2, NAN, -0.0F, NAN, INFINITY};
    const float b[] = {2, 1, 1, 0, NAN, INFINITY};
    const uint8_t eq[] = {0, 0, 0, 1, 0, 1};
    const uint8_t ne[] = {1, 1, 1, 0, 1, 0};
    const uint8_t lt[] = {1, 0, 0, 0, 0, 0};
    const uint8_t le[] = {1, 0, 0, 1, 0, 1};
    const uint8_t gt[] = {0, 1, 0, 0, 0, 0};
    const uint8_t ge[] = {0, 1, 0, 1, 0, 1};
    // -0 is below 0, NaN above everything, and a NaN equals itself.
    const uint8_t total_lt[] = {1, 0, 0, 1, 0, 0};
    const uint8_t total_eq[] = {0, 0, 0, 0, 1, 1};
    const uint8_t total_gt[] = {0, 1, 1, 0, 0, 0};

    (void)state;
    check2("compare(a, b), direction=EQ", REF(F32, a), REF(F32, b),
           REF(PRED, eq));
    check2("compare(a, b), direction=NE", REF(F32, a), REF(F32, b),
           REF(PRED, ne));
    check2("compare(a, b), direction=LT", REF(F32, a), REF(F32, b),
           REF(PRED, lt));
    check2("compare(a, b), direction=LE", REF(F32, a), REF(F32, b),
           REF(PRED, le));
    check2("compare(a, b), direction=GT", REF(F32, a), REF(F32, b),
           REF(PRED, gt));
    check2("compare(a, b), direction=GE", REF(F32, a), REF(F32, b),
           REF(PRED, ge));
    check2("compare(a, b), direction=LT, type=TOTALORDER", REF(F32, a),
           REF(F32, b), REF(PRED, total_lt));
    check2("compare(a, b), direction=EQ, type=TOTALORDER", REF(F32, a),
           REF(F32, b), REF(PRED, total_eq));
    check2("compare(a, b), direction=GT, type=TOTALORDER", REF(F32, a),
           REF(F32, b), REF(PRED, total_gt));
}

static void test_compare_others(void **state)
{
    const uint32_t u[] = {UINT32_MAX, 0};
    const uint32_t v[] = {0, 1};
    const int32_t s[] = {-1, 0};
    const int32_t t[] = {0, 1};
    const uint8_t p[] = {0, 1};
    const uint8_t q[] = {1, 1};
    const uint16_t h[] = {0xbc00, 0x3c00}; // -1, 1 in f16
    const uint16_t k[] = {0x3c00, 0xbc00};
    const double d[] = {1e300, -1};
    const double e[] = {1, -1};
    const uint8_t first[] = {1, 0};
    const uint8_t second[] = {0, 1};
    const uint8_t all[] = {1, 1};

    (void)state;
    check2("compare(a, b), direction=GT", REF(U32, u), REF(U32, v),
           REF(PRED, first));
    check2("compare(a, b), direction=LT", REF(S32, s), REF(S32, t),
           REF(PRED, all));
    check2("compare(a, b), direction=LT", REF(PRED, p), REF(PRED, q),
           REF(PRED, first));
    check2("compare(a, b), direction=LT", REF(F16, h), REF(F16, k),
           REF(PRED, first));
    check2("compare(a, b), direction=LE", REF(F64, d), REF(F64, e),
           REF(PRED, second));
    check2("compare(a, b), direction=LT, type=TOTALORDER", REF(F16, h),
           REF(F16, k), REF(PRED, first));
}

static void test_select(void **state)
{
    const uint8_t choice[] = {1, 0, 1};
    const double yes[] = {1, 2, NAN};
    const double no[] = {-1, -2, -3};
    const double want[] = {1, -2, NAN};
    const struct ref_array inputs[] = {REF(PRED, choice), REF(F64, yes),
                                       REF(F64, no)};
    const uint8_t one[] = {1};
    const uint8_t bytes[] = {7, 8};
    const uint8_t others[] = {1, 2};
    const struct ref_array scalar[] = {REF(PRED, one), REF(U8, bytes),
                                       REF(U8, others)};
    const struct ref_array scalar_want[] = {REF(U8, bytes)};

    (void)state;
    ref_check_op("select(a, b, c)", inputs, 3, REF(F64, want));
    ref_check("HloModule t\nENTRY e {\n"
              "  a = pred[] parameter(0)\n"
              "  b = u8[2] parameter(1)\n"
              "  c = u8[2] parameter(2)\n"
              "  ROOT r = u8[2] select(a, b, c)\n}\n",
              scalar, 3, scalar_want, 1);
}

static void test_clamp(void **state)
{
    const float low[] = {0, 0, NAN, 0, 5};
    const float x[] = {-1, 2, 1, NAN, 1};
    const float high[] = {1, 1, 2, 1, 3};
    const float want[] = {0, 1, NAN, NAN, 3};
    const struct ref_array arrays[] = {REF(F32, low), REF(F32, x),
                                       REF(F32, high)};
    const int32_t least[] = {-2};
    const int32_t most[] = {2};
    const int32_t numbers[] = {-5, -2, 0, 9};
    const int32_t clamped[] = {-2, -2, 0, 2};
    const struct ref_array scalars[] = {REF(S32, least), REF(S32, numbers),
                                        REF(S32, most)};
    const struct ref_array scalars_want[] = {REF(S32, clamped)};

    (void)state;
    ref_check_op("clamp(a, b, c)", arrays, 3, REF(F32, want));
    ref_check("HloModule t\nENTRY e {\n"
              "  a = s32[] parameter(0)\n"
              "  b = s32[4] parameter(1)\n"
              "  c = s32[] parameter(2)\n"
              "  ROOT r = s32[4] clamp(a, b, c)\n}\n",
              scalars, 3, scalars_want, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s32),
        cmocka_unit_test(test_s32_bits),
        cmocka_unit_test(test_s32_unary),
        cmocka_unit_test(test_s32_power),
        cmocka_unit_test(test_s64),
        cmocka_unit_test(test_u8),
        cmocka_unit_test(test_u32),
        cmocka_unit_test(test_pred),
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_f32_nan_wins),
        cmocka_unit_test(test_signs_of_zero),
        cmocka_unit_test(test_f32_remainder),
        cmocka_unit_test(test_f32_power),
        cmocka_unit_test(test_power_of_nan),
        cmocka_unit_test(test_f32_rounding),
        cmocka_unit_test(test_f32_signs),
        cmocka_unit_test(test_f32_functions),
        cmocka_unit_test(test_logistic_denormal),
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_compare_floats),
        cmocka_unit_test(test_compare_others),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_clamp),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
