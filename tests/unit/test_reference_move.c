// SPDX-License-Identifier: Apache-2.0
// Instructions of the reference device that move elements. Elements are
// numbered, so that the results can be written down.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ref_program.h"

// Runs the body of an entry computation.
#define ENTRY(body) "HloModule t\nENTRY e {\n" body "}\n"

static void check(const char *text, struct ref_array in, struct ref_array want)
{
    ref_check(text, &in, 1, &want, 1);
}

static void test_iota(void **state)
{
    const int32_t rows[] = {0, 0, 0, 1, 1, 1};
    const int32_t columns[] = {0, 1, 2, 0, 1, 2};
    const float deep[] = {0, 0, 1, 1, 0, 0, 1, 1};
    const uint16_t halves[] = {0, 0x3c00, 0x4000}; // 0, 1, 2 in f16
    uint8_t bytes[300];
    int64_t many[600];
    const struct ref_array wants[] = {REF(S32, rows), REF(S32, columns),
                                      REF(F32, deep), REF(F16, halves),
                                      REF(U8, bytes), REF(S64, many)};

    (void)state;
    for (int i = 0; i < 300; i++)
        bytes[i] = (uint8_t)(i % 256); // wraps
    for (int i = 0; i < 600; i++)
        many[i] = i / 2;
    ref_check(ENTRY("  a = s32[2,3] iota(), iota_dimension=0\n"
                    "  b = s32[2,3] iota(), iota_dimension=1\n"
                    "  c = f32[2,2,2] iota(), iota_dimension=1\n"
                    "  d = f16[3] iota(), iota_dimension=0\n"
                    "  f = u8[300] iota(), iota_dimension=0\n"
                    "  g = s64[300,2] iota(), iota_dimension=0\n"
                    "  ROOT r = (s32[2,3], s32[2,3], f32[2,2,2], f16[3],"
                    " u8[300], s64[300,2]) tuple(a, b, c, d, f, g)\n"),
              NULL, 0, wants, 6);
}

static void test_broadcast(void **state)
{
    const int64_t one[] = {7};
    const int64_t sevens[] = {7, 7, 7, 7};
    const uint16_t pair[] = {1, 2};
    const uint16_t rows[] = {1, 1, 1, 2, 2, 2};
    const uint16_t columns[] = {1, 2, 1, 2, 1, 2};
    const uint8_t square[] = {1, 2, 3, 4};
    const uint8_t middle[] = {1, 1, 2, 2, 3, 3, 4, 4};
    const uint8_t same[] = {1, 2, 3, 4};

    (void)state;
    check(ENTRY("  a = s64[] parameter(0)\n"
                "  ROOT r = s64[2,2] broadcast(a), dimensions={}\n"),
          REF(S64, one), REF(S64, sevens));
    check(ENTRY("  a = bf16[2] parameter(0)\n"
                "  ROOT r = bf16[2,3] broadcast(a), dimensions={0}\n"),
          REF(BF16, pair), REF(BF16, rows));
    check(ENTRY("  a = bf16[2] parameter(0)\n"
                "  ROOT r = bf16[3,2] broadcast(a), dimensions={1}\n"),
          REF(BF16, pair), REF(BF16, columns));
    check(ENTRY("  a = u8[2,2] parameter(0)\n"
                "  ROOT r = u8[2,2,2] broadcast(a), dimensions={0,1}\n"),
          REF(U8, square), REF(U8, middle));
    check(ENTRY("  a = u8[2,2] parameter(0)\n"
                "  ROOT r = u8[2,1,2] broadcast(a), dimensions={0,2}\n"),
          REF(U8, square), REF(U8, same));
}

static void test_reshape_and_copy(void **state)
{
    const float in[] = {1, 2, 3, 4, 5, 6};

    (void)state;
    check(ENTRY("  a = f32[2,3] parameter(0)\n"
                "  b = f32[3,2]{0,1} reshape(a)\n"
                "  ROOT r = f32[6] reshape(b)\n"),
          REF(F32, in), REF(F32, in));
    check(ENTRY("  a = f32[2,3] parameter(0)\n"
                "  ROOT r = f32[2,3]{0,1} copy(a)\n"),
          REF(F32, in), REF(F32, in));
}

static void test_transpose(void **state)
{
    const int32_t in[] = {1, 2, 3, 4, 5, 6};
    const int32_t turned[] = {1, 4, 2, 5, 3, 6};
    const uint8_t cube[] = {0, 1, 2, 3, 4, 5, 6, 7};
    // Element (i, j, k) of the result is (k, i, j) of the operand.
    const uint8_t cycled[] = {0, 4, 1, 5, 2, 6, 3, 7};
    static uint32_t big[70 * 65];
    static uint32_t big_turned[70 * 65];

    (void)state;
    check(ENTRY("  a = s32[2,3] parameter(0)\n"
                "  ROOT r = s32[3,2] transpose(a), dimensions={1,0}\n"),
          REF(S32, in), REF(S32, turned));
    check(ENTRY("  a = u8[2,2,2] parameter(0)\n"
                "  ROOT r = u8[2,2,2] transpose(a), dimensions={1,2,0}\n"),
          REF(U8, cube), REF(U8, cycled));
    for (uint32_t i = 0; i < 70; i++) {
        for (uint32_t j = 0; j < 65; j++) {
            big[i * 65 + j] = i * 1000 + j;
            big_turned[j * 70 + i] = i * 1000 + j;
        }
    }
    check(ENTRY("  a = u32[70,65] parameter(0)\n"
                "  ROOT r = u32[65,70] transpose(a), dimensions={1,0}\n"),
          REF(U32, big), REF(U32, big_turned));
}

static void test_slice(void **state)
{
    const int32_t in[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const int32_t inner[] = {5, 6};
    const int32_t strided[] = {0, 3, 8, 11};

    (void)state;
    check(ENTRY("  a = s32[3,4] parameter(0)\n"
                "  ROOT r = s32[1,2] slice(a), slice={[1:2], [1:3]}\n"),
          REF(S32, in), REF(S32, inner));
    check(ENTRY("  a = s32[3,4] parameter(0)\n"
                "  ROOT r = s32[2,2] slice(a), slice={[0:3:2], [0:4:3]}\n"),
          REF(S32, in), REF(S32, strided));
}

static void test_concatenate(void **state)
{
    const double a[] = {1, 2, 3, 4};
    const double b[] = {5, 6};
    const double rows[] = {1, 2, 3, 4, 5, 6};
    const double columns[] = {1, 2, 5, 3, 4, 6};
    const struct ref_array inputs[] = {REF(F64, a), REF(F64, b)};
    const struct ref_array rows_want[] = {REF(F64, rows)};
    const struct ref_array columns_want[] = {REF(F64, columns)};

    (void)state;
    ref_check(ENTRY("  a = f64[2,2] parameter(0)\n"
                    "  b = f64[1,2] parameter(1)\n"
                    "  ROOT r = f64[3,2] concatenate(a, b), dimensions={0}\n"),
              inputs, 2, rows_want, 1);
    ref_check(ENTRY("  a = f64[2,2] parameter(0)\n"
                    "  b = f64[2,1] parameter(1)\n"
                    "  ROOT r = f64[2,3] concatenate(a, b), dimensions={1}\n"),
              inputs, 2, columns_want, 1);
}

static void test_pad(void **state)
{
    const float in[] = {1, 2, 3};
    const float fill[] = {9};
    const float edges[] = {9, 1, 2, 3, 9, 9};
    const float interior[] = {9, 1, 9, 9, 2, 9, 9, 3};
    const float negative[] = {2};
    // 1 9 2 9 3 without its first and its last two.
    const float both[] = {9, 2};
    const float gone[] = {9, 9};
    const struct ref_array inputs[] = {REF(F32, in), REF(F32, fill)};
    const struct ref_array wants[] = {
        REF(F32, edges), REF(F32, interior), REF(F32, negative),
        REF(F32, both),  REF(F32, gone),
    };

    (void)state;
    ref_check(ENTRY("  a = f32[3] parameter(0)\n"
                    "  z = f32[] parameter(1)\n"
                    "  b = f32[6] pad(a, z), padding=1_2\n"
                    "  c = f32[8] pad(a, z), padding=1_0_2\n"
                    "  d = f32[1] pad(a, z), padding=-1_-1\n"
                    "  f = f32[2] pad(a, z), padding=-1_-2_1\n"
                    "  g = f32[2] pad(a, z), padding=-3_2\n"
                    "  ROOT r = (f32[6], f32[8], f32[1], f32[2], f32[2])"
                    " tuple(b, c, d, f, g)\n"),
              inputs, 2, wants, 5);
}

static void test_dynamic_slice(void **state)
{
    const int32_t in[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const int64_t row[] = {1};
    const int64_t column[] = {2}; // clamped to 1: two columns are taken
    const int64_t below[] = {-5};
    const struct ref_array inputs[] = {REF(S32, in), REF(S64, row),
                                       REF(S64, column), REF(S64, below)};
    const int32_t middle[] = {4, 5, 7, 8};
    const int32_t first[] = {1, 2, 4, 5};
    const struct ref_array wants[] = {REF(S32, middle), REF(S32, first)};

    (void)state;
    ref_check(ENTRY("  a = s32[3,3] parameter(0)\n"
                    "  i = s64[] parameter(1)\n"
                    "  j = s64[] parameter(2)\n"
                    "  k = s64[] parameter(3)\n"
                    "  b = s32[2,2] dynamic-slice(a, i, j),"
                    " dynamic_slice_sizes={2,2}\n"
                    "  c = s32[2,2] dynamic-slice(a, k, j),"
                    " dynamic_slice_sizes={2,2}\n"
                    "  ROOT r = (s32[2,2], s32[2,2]) tuple(b, c)\n"),
              inputs, 4, wants, 2);
}

static void test_dynamic_update_slice(void **state)
{
    const uint8_t in[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const uint8_t update[] = {90, 91};
    const uint8_t index[] = {200}; // clamped to the last row
    const uint8_t zero[] = {0};
    const struct ref_array inputs[] = {REF(U8, in), REF(U8, update),
                                       REF(U8, index), REF(U8, zero)};
    const uint8_t low[] = {0, 1, 2, 3, 4, 5, 90, 91, 8};
    const uint8_t high[] = {90, 91, 2, 3, 4, 5, 6, 7, 8};
    const struct ref_array wants[] = {REF(U8, low), REF(U8, high), REF(U8, in)};

    (void)state;
    ref_check(ENTRY("  a = u8[3,3] parameter(0)\n"
                    "  u = u8[1,2] parameter(1)\n"
                    "  i = u8[] parameter(2)\n"
                    "  z = u8[] parameter(3)\n"
                    "  b = u8[3,3] dynamic-update-slice(a, u, i, z)\n"
                    "  c = u8[3,3] dynamic-update-slice(a, u, z, z)\n"
                    "  ROOT r = (u8[3,3], u8[3,3], u8[3,3]) tuple(b, c, a)\n"),
              inputs, 4, wants, 3);
}

// Indices of a type without a sign are not negative however great they are.
static void test_unsigned_index(void **state)
{
    const float in[] = {1, 2, 3};
    const uint32_t index[] = {UINT32_MAX};
    const float want[] = {3};
    const struct ref_array inputs[] = {REF(F32, in), REF(U32, index)};
    const struct ref_array wants[] = {REF(F32, want)};

    (void)state;
    ref_check(ENTRY("  a = f32[3] parameter(0)\n"
                    "  i = u32[] parameter(1)\n"
                    "  ROOT r = f32[1] dynamic-slice(a, i),"
                    " dynamic_slice_sizes={1}\n"),
              inputs, 2, wants, 1);
}

// The bigger array ends where the update is made, so its memory is taken over.
static void test_update_in_place(void **state)
{
    const float in[] = {1, 2, 3};
    const float want[] = {20, 40, 20};

    (void)state;
    check(ENTRY("  a = f32[3] parameter(0)\n"
                "  ten = f32[] constant(10)\n"
                "  b = f32[3] broadcast(ten), dimensions={}\n"
                "  c = f32[3] multiply(a, b)\n"
                "  u = f32[1] slice(c), slice={[1:2]}\n"
                "  v = f32[1] add(u, u)\n"
                "  i = s32[] constant(1)\n"
                "  d = f32[3] add(b, b)\n"
                "  ROOT r = f32[3] dynamic-update-slice(d, v, i)\n"),
          REF(F32, in), REF(F32, want));
}

static void test_tuples(void **state)
{
    const float x[] = {1, 2};
    const int32_t y[] = {3};
    const struct ref_array inputs[] = {REF(F32, x), REF(S32, y)};
    const struct ref_array wants[] = {REF(S32, y), REF(F32, x), REF(S32, y),
                                      REF(S32, y)};

    (void)state;
    ref_check(ENTRY("  x = f32[2] parameter(0)\n"
                    "  y = s32[] parameter(1)\n"
                    "  a = (f32[2], s32[]) tuple(x, y)\n"
                    "  b = (s32[], (f32[2], s32[])) tuple(y, a)\n"
                    "  c = (f32[2], s32[]) get-tuple-element(b), index=1\n"
                    "  d = s32[] get-tuple-element(c), index=1\n"
                    "  f = s32[] get-tuple-element(b), index=0\n"
                    "  ROOT r = (s32[], (f32[2], s32[]), s32[])"
                    " tuple(d, c, f)\n"),
              inputs, 2, wants, 4);
}

static void test_constants(void **state)
{
    const uint8_t preds[] = {1, 0};
    const uint16_t half[] = {0xbe00}; // -1.5 in f16
    const double big[] = {1e300, -INFINITY};
    const int32_t square[] = {1, 2, 3, 4};
    const struct ref_array wants[] = {REF(PRED, preds), REF(F16, half),
                                      REF(F64, big), REF(S32, square)};

    (void)state;
    ref_check(ENTRY("  a = pred[2] constant({true, false})\n"
                    "  b = f16[] constant(-1.5)\n"
                    "  c = f64[2] constant({1e300, -inf})\n"
                    "  d = s32[2,2]{0,1} constant({ {1, 2}, {3, 4} })\n"
                    "  ROOT r = (pred[2], f16[], f64[2], s32[2,2]{0,1})"
                    " tuple(a, b, c, d)\n"),
              NULL, 0, wants, 4);
}

static void test_nothing_to_move(void **state)
{
    const struct ref_array none = {POD_TYPE_F32, "", 0};
    const float fill[] = {5};
    const float fives[] = {5, 5};
    const struct ref_array inputs[] = {none, REF(F32, fill)};
    const struct ref_array wants[] = {none, REF(F32, fives), none};

    (void)state;
    ref_check(ENTRY("  a = f32[2,0] parameter(0)\n"
                    "  z = f32[] parameter(1)\n"
                    "  b = f32[0,2] transpose(a), dimensions={1,0}\n"
                    "  c = f32[2,1] pad(a, z), padding=0_0x1_0\n"
                    "  d = f32[0,2] add(b, b)\n"
                    "  ROOT r = (f32[0,2], f32[2,1], f32[0,2])"
                    " tuple(b, c, d)\n"),
              inputs, 2, wants, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_iota),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_reshape_and_copy),
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_concatenate),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_dynamic_slice),
        cmocka_unit_test(test_dynamic_update_slice),
        cmocka_unit_test(test_unsigned_index),
        cmocka_unit_test(test_update_in_place),
        cmocka_unit_test(test_tuples),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_nothing_to_move),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
