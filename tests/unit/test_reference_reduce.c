// SPDX-License-Identifier: Apache-2.0
// reduce of the reference device: axes, types, any computation and its order.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/lib/ref_program.h"

static void check1(const char *text, struct ref_array a, struct ref_array want)
{
    ref_check(text, &a, 1, &want, 1);
}

#define REDUCER(type, op)                                                      \
    "HloModule t\nf {\n  x = " type "[] parameter(0)\n  y = " type             \
    "[] parameter(1)\n  ROOT r = " type "[] " op "(x, y)\n}\n"

#define REDUCE(type, op, in, out, init, dims)                                  \
    REDUCER(type, op)                                                          \
    "ENTRY e {\n  a = " type in " parameter(0)\n  i = " type                   \
    "[] constant(" init ")\n  ROOT r = " type out                              \
    " reduce(a, i), dimensions={" dims "}, to_apply=f\n}\n"

static void test_reduce_axes(void **state)
{
    const int32_t in[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const int32_t rows[] = {121, 157};
    const int32_t first[] = {108, 110, 112, 114, 116, 118};
    const int32_t middle[] = {109, 112, 127, 130};
    const int32_t ends[] = {100 + 1 + 2 + 7 + 8, 100 + 3 + 4 + 9 + 10,
                            100 + 5 + 6 + 11 + 12};
    const int32_t all[] = {178};

    (void)state;
    check1(REDUCE("s32", "add", "[2,6]", "[2]", "100", "1"), REF(S32, in),
           REF(S32, rows));
    check1(REDUCE("s32", "add", "[2,2,3]", "[2,3]", "100", "0"), REF(S32, in),
           REF(S32, first));
    check1(REDUCE("s32", "add", "[2,3,2]", "[2,2]", "100", "1"), REF(S32, in),
           REF(S32, middle));
    check1(REDUCE("s32", "add", "[2,3,2]", "[3]", "100", "0,2"), REF(S32, in),
           REF(S32, ends));
    check1(REDUCE("s32", "add", "[2,2,3]", "[]", "100", "0,1,2"), REF(S32, in),
           REF(S32, all));
}

static void test_reduce_types(void **state)
{
    const uint8_t u8[] = {200, 100};
    const uint8_t u8_sum[] = {44};
    const int64_t s64[] = {INT64_MAX, 2};
    const int64_t s64_product[] = {-2};
    const uint32_t u32[] = {0xf0f0f0f0U, 0x00ff00ffU};
    const uint32_t u32_xor[] = {0xf00ff00fU};
    const uint8_t pred[] = {1, 0};
    const uint8_t pred_and[] = {0};
    const uint8_t pred_or[] = {1};
    const double f64[] = {0.5, 8};
    const double f64_product[] = {4};
    // 256 + 1 is a tie in bf16: rounded after each step both would be lost, but
    // accumulated 258 is left.
    const uint16_t bf16[] = {0x4380, 0x3f80, 0x3f80};
    const uint16_t bf16_sum[] = {0x4381};
    const uint16_t f16[] = {0x3c00, 0xc000, 0x3800};
    const uint16_t f16_least[] = {0xc000};

    (void)state;
    check1(REDUCE("u8", "add", "[2]", "[]", "0", "0"), REF(U8, u8),
           REF(U8, u8_sum));
    check1(REDUCE("s64", "multiply", "[2]", "[]", "1", "0"), REF(S64, s64),
           REF(S64, s64_product));
    check1(REDUCE("u32", "xor", "[2]", "[]", "0", "0"), REF(U32, u32),
           REF(U32, u32_xor));
    check1(REDUCE("pred", "and", "[2]", "[]", "true", "0"), REF(PRED, pred),
           REF(PRED, pred_and));
    check1(REDUCE("pred", "or", "[2]", "[]", "false", "0"), REF(PRED, pred),
           REF(PRED, pred_or));
    check1(REDUCE("f64", "multiply", "[2]", "[]", "1", "0"), REF(F64, f64),
           REF(F64, f64_product));
    check1(REDUCE("bf16", "add", "[3]", "[]", "0", "0"), REF(BF16, bf16),
           REF(BF16, bf16_sum));
    check1(REDUCE("f16", "minimum", "[3]", "[]", "inf", "0"), REF(F16, f16),
           REF(F16, f16_least));
}

static void test_reduce_nan(void **state)
{
    const float in[] = {1, NAN, 2, 5, 3, 4};
    const float most[] = {NAN, 5};
    const float down[] = {5, NAN, 4};

    (void)state;
    check1(REDUCE("f32", "maximum", "[2,3]", "[2]", "-inf", "1"), REF(F32, in),
           REF(F32, most));
    check1(REDUCE("f32", "maximum", "[2,3]", "[3]", "-inf", "0"), REF(F32, in),
           REF(F32, down));
}

// The greatest of both zeros is +0, in whatever order they come.
static void test_reduce_zeros(void **state)
{
    const float in[] = {0, -0.0F, -0.0F, 0, -0.0F, -0.0F};
    const float most[] = {0, 0, -0.0F};
    const float least[] = {-0.0F, -0.0F};

    (void)state;
    check1(REDUCE("f32", "maximum", "[3,2]", "[3]", "-inf", "1"), REF(F32, in),
           REF(F32, most));
    check1(REDUCE("f32", "minimum", "[3,2]", "[2]", "inf", "0"), REF(F32, in),
           REF(F32, least));
}

// More columns than are reduced at a time, and many rows.
static void test_reduce_wide(void **state)
{
    static float in[9 * 600];
    static float down[600];
    static float across[9];

    (void)state;
    for (int i = 0; i < 9; i++) {
        for (int j = 0; j < 600; j++) {
            in[i * 600 + j] = (float)(i * j);
            down[j] = (float)(36 * j);       // 0 + 1 + ... + 8 is 36
            across[i] = (float)(i * 179700); // 0 + ... + 599
        }
    }
    check1(REDUCE("f32", "add", "[9,600]", "[600]", "0", "0"), REF(F32, in),
           REF(F32, down));
    check1(REDUCE("f32", "add", "[9,600]", "[9]", "0", "1"), REF(F32, in),
           REF(F32, across));
}

// A computation that is more than one operation: x + y * y.
static void test_reduce_any(void **state)
{
    const float in[] = {1, 2, 3, 4, 5, 6};
    const float want[] = {14.5F, 77.5F};
    const float down[] = {17.5F, 29.5F, 45.5F};
    const char *head = "HloModule t\nf {\n  x = f32[] parameter(0)\n"
                       "  y = f32[] parameter(1)\n"
                       "  z = f32[] multiply(y, y)\n"
                       "  ROOT r = f32[] add(x, z)\n}\n"
                       "ENTRY e {\n  a = f32[2,3] parameter(0)\n"
                       "  i = f32[] constant(0.5)\n";
    char text[512];

    (void)state;
    snprintf(
        text, sizeof(text),
        "%s  ROOT r = f32[2] reduce(a, i), dimensions={1}, to_apply=f\n}\n",
        head);
    check1(text, REF(F32, in), REF(F32, want));
    snprintf(
        text, sizeof(text),
        "%s  ROOT r = f32[3] reduce(a, i), dimensions={0}, to_apply=f\n}\n",
        head);
    check1(text, REF(F32, in), REF(F32, down));
}

// Two operands whose accumulators change places: after an even number of
// elements they are where they were, after an odd number swapped.
static void test_reduce_swaps(void **state)
{
    const int32_t in[] = {1, 2, 3};
    const int32_t first[] = {7 + 2};
    const int32_t second[] = {100 + 1 + 3};
    const struct ref_array inputs[] = {REF(S32, in)};
    const struct ref_array wants[] = {REF(S32, second), REF(S32, first)};

    (void)state;
    // (a, b) -> (b, a + x), from (100, 7): (7, 101), (101, 9), (9, 104).
    ref_check("HloModule t\nf {\n  a = s32[] parameter(0)\n"
              "  b = s32[] parameter(1)\n  x = s32[] parameter(2)\n"
              "  y = s32[] parameter(3)\n  s = s32[] add(a, x)\n"
              "  ROOT r = (s32[], s32[]) tuple(b, s)\n}\n"
              "ENTRY e {\n  a = s32[3] parameter(0)\n"
              "  i = s32[] constant(100)\n  j = s32[] constant(7)\n"
              "  q = (s32[], s32[]) reduce(a, a, i, j), dimensions={0},"
              " to_apply=f\n"
              "  u = s32[] get-tuple-element(q), index=0\n"
              "  v = s32[] get-tuple-element(q), index=1\n"
              "  ROOT r = (s32[], s32[]) tuple(v, u)\n}\n",
              inputs, 1, wants, 2);
}

static void test_reduce_empty(void **state)
{
    const struct ref_array none = {POD_TYPE_F32, "", 0};
    const float want[] = {3, 3};

    (void)state;
    check1(REDUCE("f32", "add", "[2,0]", "[2]", "3", "1"), none,
           REF(F32, want));
}

// Ones between numbers beside which they vanish.
static void test_reduce_f64_sum(void **state)
{
    enum { COUNT = 1003, COLUMNS = 300 };
    static double line[COUNT];
    static double rows[COUNT * COLUMNS];
    static double want[COLUMNS];

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        const double ends = i == 0 ? 0x1p60 : -0x1p60;
        line[i] = i == 0 || i == COUNT - 1 ? ends : 1;
        for (int j = 0; j < COLUMNS; j++)
            rows[i * COLUMNS + j] = (j + 1) * line[i];
    }
    for (int j = 0; j < COLUMNS; j++)
        want[j] = (j + 1) * (double)(COUNT - 2);
    check1(REDUCE("f64", "add", "[1003]", "[]", "0", "0"), REF(F64, line),
           (struct ref_array){POD_TYPE_F64, want, sizeof(double)});
    check1(REDUCE("f64", "add", "[1003,300]", "[300]", "0", "0"),
           REF(F64, rows), REF(F64, want));
}

static void test_reduce_f64_specials(void **state)
{
    const double in[] = {INFINITY, 1,       -1, INFINITY, 2,    -INFINITY,
                         DBL_MAX,  DBL_MAX, 1,  -0.0,     -0.0, -0.0};
    const double want[] = {INFINITY, NAN, INFINITY, -0.0};

    (void)state;
    check1(REDUCE("f64", "add", "[4,3]", "[4]", "-0.0", "1"), REF(F64, in),
           REF(F64, want));
}

// Affine functions f(x) = scale * x + shift, one after the other: associative,
// but the order counts.
static void check_affine(int count, const char *shape, const char *dims)
{
    enum { MOST = 1000 };
    int32_t scales[MOST];
    int32_t shifts[MOST];
    uint32_t scale = 3;
    uint32_t shift = 5;
    int32_t wants[2];
    const size_t bytes = (size_t)count * sizeof(int32_t);
    const struct ref_array inputs[] = {{POD_TYPE_S32, scales, bytes},
                                       {POD_TYPE_S32, shifts, bytes}};
    const struct ref_array outputs[] = {{POD_TYPE_S32, &wants[0], 4},
                                        {POD_TYPE_S32, &wants[1], 4}};
    char text[1024];

    for (int i = 0; i < count; i++) {
        scales[i] = 2 * i + 3;
        shifts[i] = 7 * i - 11;
        scale *= (uint32_t)scales[i];
        shift = shift * (uint32_t)scales[i] + (uint32_t)shifts[i];
    }
    wants[0] = (int32_t)scale;
    wants[1] = (int32_t)shift;
    snprintf(text, sizeof(text),
             "HloModule t\nf {\n  a = s32[] parameter(0)\n"
             "  b = s32[] parameter(1)\n  c = s32[] parameter(2)\n"
             "  d = s32[] parameter(3)\n  p = s32[] multiply(a, c)\n"
             "  q = s32[] multiply(b, c)\n  s = s32[] add(q, d)\n"
             "  ROOT r = (s32[], s32[]) tuple(p, s)\n}\n"
             "ENTRY e {\n  a = s32%s parameter(0)\n"
             "  b = s32%s parameter(1)\n  i = s32[] constant(3)\n"
             "  j = s32[] constant(5)\n"
             "  ROOT r = (s32[1], s32[1]) reduce(a, b, i, j), dimensions={%s},"
             " to_apply=f\n}\n",
             shape, shape, dims);
    ref_check(text, inputs, 2, outputs, 2);
}

static void test_reduce_order(void **state)
{
    const int counts[] = {1,  2,  15, 16, 17,  31,  32,  33,
                          47, 48, 49, 64, 255, 256, 257, 1000};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        char shape[32];
        snprintf(shape, sizeof(shape), "[1,%d]", counts[i]);
        check_affine(counts[i], shape, "1");
        snprintf(shape, sizeof(shape), "[%d,1]", counts[i]);
        check_affine(counts[i], shape, "0");
    }
    check_affine(1000, "[10,1,100]", "0,2");
}

// One after another, ones in bf16 add up to 256 and no further.
static void test_reduce_any_bf16(void **state)
{
    enum { COUNT = 4096 };
    static uint16_t ones[COUNT];
    const uint16_t want[] = {0x4580}; // 4096

    (void)state;
    for (int i = 0; i < COUNT; i++)
        ones[i] = 0x3f80;
    check1("HloModule t\nf {\n  x = bf16[] parameter(0)\n"
           "  y = bf16[] parameter(1)\n  o = bf16[] constant(1)\n"
           "  z = bf16[] multiply(y, o)\n"
           "  ROOT r = bf16[] add(x, z)\n}\n"
           "ENTRY e {\n  a = bf16[4096] parameter(0)\n"
           "  i = bf16[] constant(0)\n"
           "  ROOT r = bf16[] reduce(a, i), dimensions={0}, to_apply=f\n}\n",
           REF(BF16, ones), REF(BF16, want));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce_axes),
        cmocka_unit_test(test_reduce_types),
        cmocka_unit_test(test_reduce_nan),
        cmocka_unit_test(test_reduce_zeros),
        cmocka_unit_test(test_reduce_wide),
        cmocka_unit_test(test_reduce_any),
        cmocka_unit_test(test_reduce_swaps),
        cmocka_unit_test(test_reduce_empty),
        cmocka_unit_test(test_reduce_f64_sum),
        cmocka_unit_test(test_reduce_f64_specials),
        cmocka_unit_test(test_reduce_order),
        cmocka_unit_test(test_reduce_any_bf16),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
