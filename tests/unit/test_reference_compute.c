// SPDX-License-Identifier: Apache-2.0
// dot, calls and loops of the reference device.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ref_program.h"

static void check2(const char *text, struct ref_array a, struct ref_array b,
                   struct ref_array want)
{
    const struct ref_array inputs[] = {a, b};

    ref_check(text, inputs, 2, &want, 1);
}

static void check1(const char *text, struct ref_array a, struct ref_array want)
{
    ref_check(text, &a, 1, &want, 1);
}

// ------------------------------------------------------------------------ dot

static void test_dot_matrices(void **state)
{
    const float a[] = {1, 2, 3, 4, 5, 6};
    const float b[] = {1, 0, 0, 1, 2, -1};
    const float want[] = {7, -1, 16, -1};
    // The same with both operands turned.
    const float a_turned[] = {1, 4, 2, 5, 3, 6};
    const float b_turned[] = {1, 0, 2, 0, 1, -1};

    (void)state;
    check2("HloModule t\nENTRY e {\n"
           "  a = f32[2,3] parameter(0)\n  b = f32[3,2] parameter(1)\n"
           "  ROOT r = f32[2,2] dot(a, b), lhs_contracting_dims={1},"
           " rhs_contracting_dims={0}\n}\n",
           REF(F32, a), REF(F32, b), REF(F32, want));
    check2("HloModule t\nENTRY e {\n"
           "  a = f32[3,2] parameter(0)\n  b = f32[2,3] parameter(1)\n"
           "  ROOT r = f32[2,2] dot(a, b), lhs_contracting_dims={0},"
           " rhs_contracting_dims={1}\n}\n",
           REF(F32, a_turned), REF(F32, b_turned), REF(F32, want));
}

// Big enough for BLAS, in all four orders. a is i + j, b is the identity with
// its rows counted twice, so the result is 2 * (i + j).
static void test_dot_blas(void **state)
{
    enum { N = 20 };
    static double a[N * N];
    static double b[N * N];
    static double want[N * N];
    const char *const orders[] = {
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "lhs_contracting_dims={0}, rhs_contracting_dims={1}",
    };

    (void)state;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            a[i * N + j] = i + j; // symmetric, so that turning it is harmless
            b[i * N + j] = i == j ? 2 : 0;
            want[i * N + j] = 2 * (i + j);
        }
    }
    for (int k = 0; k < 4; k++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "HloModule t\nENTRY e {\n"
                 "  a = f64[20,20] parameter(0)\n"
                 "  b = f64[20,20] parameter(1)\n"
                 "  ROOT r = f64[20,20] dot(a, b), %s\n}\n",
                 orders[k]);
        check2(text, REF(F64, a), REF(F64, b), REF(F64, want));
    }
}

static void test_dot_vectors(void **state)
{
    const float a[] = {1, 2, 3};
    const float b[] = {4, 5, 6};
    const float inner[] = {32};
    const float outer[] = {4, 5, 6, 8, 10, 12, 12, 15, 18};

    (void)state;
    check2("HloModule t\nENTRY e {\n"
           "  a = f32[3] parameter(0)\n  b = f32[3] parameter(1)\n"
           "  ROOT r = f32[] dot(a, b), lhs_contracting_dims={0},"
           " rhs_contracting_dims={0}\n}\n",
           REF(F32, a), REF(F32, b), REF(F32, inner));
    check2("HloModule t\nENTRY e {\n"
           "  a = f32[3] parameter(0)\n  b = f32[3] parameter(1)\n"
           "  ROOT r = f32[3,3] dot(a, b), lhs_contracting_dims={},"
           " rhs_contracting_dims={}\n}\n",
           REF(F32, a), REF(F32, b), REF(F32, outer));
}

// The batch dimension is the last of a and the middle one of b, so that both
// have to be rearranged: r[n][i][k] = sum over j of a[j][i][n] * b[j][n][k].
// Ones between numbers beside which they vanish in float; twice as many in the
// second pair of vectors, of which one lies across.
static void test_dot_long_vectors(void **state)
{
    enum { COUNT = 1002 };
    static float a[2 * COUNT];
    static float b[2 * COUNT];
    const float want[] = {COUNT - 2, 2 * (COUNT - 2)};

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        const float ends = i == 0 ? 0x1p30F : -0x1p30F;
        a[i] = i == 0 || i == COUNT - 1 ? ends : 1;
        a[COUNT + i] = 2 * a[i];
        b[2 * i] = 1;
        b[2 * i + 1] = 1;
    }
    check2("HloModule t\nENTRY e {\n"
           "  a = f32[2,1002] parameter(0)\n  b = f32[1002,2] parameter(1)\n"
           "  ROOT r = f32[2] dot(a, b), lhs_batch_dims={0},"
           " rhs_batch_dims={1}, lhs_contracting_dims={1},"
           " rhs_contracting_dims={0}\n}\n",
           REF(F32, a), REF(F32, b), REF(F32, want));
}

// Sums that float cannot hold on the way; those of 1024 products it can. In all
// four orders.
static void check_long_dot(bool left_flipped, bool right_flipped)
{
    enum { M = 3, N = 5, K = 20000 };
    static float a[M * K];
    static float b[K * N];
    float want[M * N];
    char text[512];

    for (int k = 0; k < K; k++) {
        for (int i = 0; i < M; i++)
            a[left_flipped ? k * M + i : i * K + k] =
                (float)(8190 - k * (i + 3) % 7);
        for (int j = 0; j < N; j++)
            b[right_flipped ? j * K + k : k * N + j] = (float)(1 + (k + j) % 2);
    }
    for (int i = 0; i < M * N; i++) {
        int64_t sum = 0;
        for (int k = 0; k < K; k++)
            sum += (8190 - k * (i / N + 3) % 7) * (1 + (k + i % N) % 2);
        want[i] = (float)sum;
    }
    snprintf(text, sizeof(text),
             "HloModule t\nENTRY e {\n  a = f32[%s] parameter(0)\n"
             "  b = f32[%s] parameter(1)\n  ROOT r = f32[3,5] dot(a, b),"
             " lhs_contracting_dims={%d}, rhs_contracting_dims={%d}\n}\n",
             left_flipped ? "20000,3" : "3,20000",
             right_flipped ? "5,20000" : "20000,5", left_flipped ? 0 : 1,
             right_flipped ? 1 : 0);
    check2(text, REF(F32, a), REF(F32, b), REF(F32, want));
}

static void test_dot_long(void **state)
{
    (void)state;
    check_long_dot(false, false);
    check_long_dot(false, true);
    check_long_dot(true, false);
    check_long_dot(true, true);
}

static void test_dot_batch(void **state)
{
    const int32_t a[] = {1, 10, 2, 20, 3, 30, 4, 40};
    const int32_t b[] = {1, 2, 3, 4, 5, 6, 7, 8};
    // n = 0: a is j,i: {{1,2},{3,4}}, b is j,k: {{1,2},{5,6}}
    //   i=0: 1*1+3*5=16, 1*2+3*6=20; i=1: 2*1+4*5=22, 2*2+4*6=28
    // n = 1: ten times a, b is {{3,4},{7,8}}
    //   i=0: 30+210=240, 40+240=280; i=1: 60+280=340, 80+320=400
    const int32_t want[] = {16, 20, 22, 28, 240, 280, 340, 400};

    (void)state;
    check2("HloModule t\nENTRY e {\n"
           "  a = s32[2,2,2] parameter(0)\n  b = s32[2,2,2] parameter(1)\n"
           "  ROOT r = s32[2,2,2] dot(a, b), lhs_batch_dims={2},"
           " rhs_batch_dims={1}, lhs_contracting_dims={0},"
           " rhs_contracting_dims={0}\n}\n",
           REF(S32, a), REF(S32, b), REF(S32, want));
}

static void test_dot_types(void **state)
{
    const int32_t s32[] = {INT32_MAX, 2};
    const int32_t s32_want[] = {5}; // (2^31 - 1)^2 + 4 wraps
    const uint8_t u8[] = {20, 20};
    const uint8_t u8_want[] = {32}; // 800
    const int64_t s64[] = {INT64_C(1) << 31, 3};
    const int64_t s64_want[] = {(INT64_C(1) << 62) + 9};
    const uint8_t pred[] = {0, 1};
    const uint8_t pred_want[] = {1};
    // 1 and 2^-6 in f16: 1 + 2^-12 is rounded once, to 1.
    const uint16_t f16[] = {0x3c00, 0x2400};
    const uint16_t f16_want[] = {0x3c00};
    // 256 and 1 in bf16: the product of bf16 kept in f32.
    const uint16_t bf16[] = {0x4380, 0x3f80};
    const float f32_want[] = {65537};
    const struct {
        const char *type;
        struct ref_array in;
        struct ref_array want;
    } cases[] = {
        {"s32", REF(S32, s32), REF(S32, s32_want)},
        {"u8", REF(U8, u8), REF(U8, u8_want)},
        {"s64", REF(S64, s64), REF(S64, s64_want)},
        {"pred", REF(PRED, pred), REF(PRED, pred_want)},
        {"f16", REF(F16, f16), REF(F16, f16_want)},
        {"bf16", REF(BF16, bf16), REF(F32, f32_want)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "HloModule t\nENTRY e {\n  a = %s[2] parameter(0)\n"
                 "  ROOT r = %s[] dot(a, a), lhs_contracting_dims={0},"
                 " rhs_contracting_dims={0}\n}\n",
                 cases[i].type, pod_type_name(cases[i].want.type));
        check1(text, cases[i].in, cases[i].want);
    }
}

static void test_dot_empty(void **state)
{
    const struct ref_array none = {POD_TYPE_F32, "", 0};
    const float zeros[] = {0, 0, 0, 0, 0, 0};

    (void)state;
    check2("HloModule t\nENTRY e {\n"
           "  a = f32[2,0] parameter(0)\n  b = f32[0,3] parameter(1)\n"
           "  ROOT r = f32[2,3] dot(a, b), lhs_contracting_dims={1},"
           " rhs_contracting_dims={0}\n}\n",
           none, none, REF(F32, zeros));
}

// ------------------------------------------------------------ calls and loops

static void test_call_and_fusion(void **state)
{
    const int32_t in[] = {3};
    const int32_t want[] = {3 * 3 + 1, (3 * 3 + 1) * (3 * 3 + 1) + 1};
    const struct ref_array inputs[] = {REF(S32, in)};
    const struct ref_array wants[] = {{POD_TYPE_S32, &want[0], 4},
                                      {POD_TYPE_S32, &want[1], 4}};

    (void)state;
    ref_check("HloModule t\nf {\n  x = s32[] parameter(0)\n"
              "  o = s32[] constant(1)\n  y = s32[] multiply(x, x)\n"
              "  ROOT r = s32[] add(y, o)\n}\n"
              "ENTRY e {\n  a = s32[] parameter(0)\n"
              "  b = s32[] call(a), to_apply=f\n"
              "  c = s32[] fusion(b), kind=kLoop, calls=f\n"
              "  ROOT r = (s32[], s32[]) tuple(b, c)\n}\n",
              inputs, 1, wants, 2);
}

// A called computation that hands its argument and a constant through.
static void test_call_hands_through(void **state)
{
    const int32_t in[] = {5};
    const int32_t nine[] = {9};
    const struct ref_array inputs[] = {REF(S32, in)};
    const struct ref_array wants[] = {REF(S32, in), REF(S32, nine),
                                      REF(S32, in)};

    (void)state;
    ref_check("HloModule t\nf {\n  x = s32[] parameter(0)\n"
              "  o = s32[] constant(9)\n"
              "  ROOT r = (s32[], s32[], s32[]) tuple(x, o, x)\n}\n"
              "ENTRY e {\n  a = s32[] parameter(0)\n"
              "  ROOT b = (s32[], s32[], s32[]) call(a), to_apply=f\n}\n",
              inputs, 1, wants, 3);
}

#define BRANCHES                                                               \
    "HloModule t\n"                                                            \
    "f {\n  x = s32[] parameter(0)\n  ROOT r = s32[] negate(x)\n}\n"           \
    "g {\n  x = s32[] parameter(0)\n  ROOT r = s32[] add(x, x)\n}\n"           \
    "h {\n  ROOT x = s32[] parameter(0)\n}\n"

static void test_conditional(void **state)
{
    const int32_t in[] = {7};
    const uint8_t yes[] = {1};
    const uint8_t no[] = {0};
    const int32_t negated[] = {-7};
    const int32_t doubled[] = {14};
    const char *text = BRANCHES
        "ENTRY e {\n  c = pred[] parameter(0)\n  a = s32[] parameter(1)\n"
        "  ROOT r = s32[] conditional(c, a, a), true_computation=f,"
        " false_computation=g\n}\n";

    (void)state;
    check2(text, REF(PRED, yes), REF(S32, in), REF(S32, negated));
    check2(text, REF(PRED, no), REF(S32, in), REF(S32, doubled));
}

// An index outside the branches takes the last one.
static void test_conditional_index(void **state)
{
    const int32_t in[] = {7};
    const int32_t indices[] = {0, 1, 2, 3, -1, INT32_MIN};
    const int32_t wants[] = {-7, 14, 7, 7, 7, 7};

    (void)state;
    for (size_t i = 0; i < sizeof(indices) / sizeof(indices[0]); i++)
        check2(BRANCHES "ENTRY e {\n  c = s32[] parameter(0)\n"
                        "  a = s32[] parameter(1)\n"
                        "  ROOT r = s32[] conditional(c, a, a, a),"
                        " branch_computations={f, g, h}\n}\n",
               (struct ref_array){POD_TYPE_S32, &indices[i], 4}, REF(S32, in),
               (struct ref_array){POD_TYPE_S32, &wants[i], 4});
}

#define LOOP(state, body)                                                      \
    "HloModule t\n"                                                            \
    "b {\n  p = " state " parameter(0)\n"                                      \
    "  i = s32[] get-tuple-element(p), index=0\n"                              \
    "  one = s32[] constant(1)\n  n = s32[] subtract(i, one)\n" body "}\n"     \
    "c {\n  p = " state " parameter(0)\n"                                      \
    "  i = s32[] get-tuple-element(p), index=0\n"                              \
    "  z = s32[] constant(0)\n"                                                \
    "  ROOT r = pred[] compare(i, z), direction=GT\n}\n"

// The state changes places, one member never changes, one is constant.
static void test_while_shuffles(void **state)
{
    const int32_t in[] = {3};
    const int32_t zero[] = {0};
    const int32_t ten[] = {10};
    const int32_t twenty[] = {20};
    const int32_t five[] = {5};
    const struct ref_array inputs[] = {REF(S32, in), REF(S32, ten),
                                       REF(S32, twenty)};
    const struct ref_array wants[] = {REF(S32, zero), REF(S32, twenty),
                                      REF(S32, ten), REF(S32, twenty),
                                      REF(S32, five)};

    (void)state;
    ref_check(
        LOOP("(s32[], s32[], s32[], s32[], s32[])",
             "  x = s32[] get-tuple-element(p), index=1\n"
             "  y = s32[] get-tuple-element(p), index=2\n"
             "  k = s32[] get-tuple-element(p), index=3\n"
             "  five = s32[] constant(5)\n"
             "  ROOT r = (s32[], s32[], s32[], s32[], s32[])"
             " tuple(n, y, x, k, five)\n") "ENTRY e {\n"
                                           "  a = s32[] parameter(0)\n  x = "
                                           "s32[] parameter(1)\n"
                                           "  y = s32[] parameter(2)\n"
                                           "  t = (s32[], s32[], s32[], s32[], "
                                           "s32[]) tuple(a, x, y, y, x)\n"
                                           "  ROOT w = (s32[], s32[], s32[], "
                                           "s32[], s32[]) while(t),"
                                           " condition=c, body=b\n}\n",
        inputs, 3, wants, 5);
}

// No turn at all: the state is what it was.
static void test_while_never(void **state)
{
    const int32_t in[] = {-1};
    const float x[] = {1, 2};
    const struct ref_array inputs[] = {REF(S32, in), REF(F32, x)};
    const struct ref_array wants[] = {REF(S32, in), REF(F32, x)};

    (void)state;
    ref_check(LOOP("(s32[], f32[2])", "  x = f32[2] get-tuple-element(p), "
                                      "index=1\n"
                                      "  y = f32[2] add(x, x)\n"
                                      "  ROOT r = (s32[], f32[2]) tuple(n, "
                                      "y)\n") "ENTRY e {\n"
                                              "  a = s32[] parameter(0)\n  x = "
                                              "f32[2] parameter(1)\n"
                                              "  t = (s32[], f32[2]) tuple(a, "
                                              "x)\n"
                                              "  ROOT w = (s32[], f32[2]) "
                                              "while(t), condition=c, "
                                              "body=b\n}\n",
              inputs, 2, wants, 2);
}

// The old value is read after the new one is made, so it may not be written
// over: y = x + x, z = z + x. From (1, 1, 0): x doubles, z sums the old ones.
static void test_while_reads_late(void **state)
{
    const int32_t in[] = {4};
    const int32_t zero[] = {0};
    const float x[] = {1, 3};
    const float x_want[] = {16, 48};
    const float z_want[] = {15, 45};
    const struct ref_array inputs[] = {REF(S32, in), REF(F32, x)};
    const struct ref_array wants[] = {REF(S32, zero), REF(F32, x_want),
                                      REF(F32, z_want)};

    (void)state;
    ref_check(LOOP("(s32[], f32[2], f32[2])",
                   "  x = f32[2] get-tuple-element(p), "
                   "index=1\n"
                   "  z = f32[2] get-tuple-element(p), "
                   "index=2\n"
                   "  y = f32[2] add(x, x)\n"
                   "  q = f32[2] add(z, x)\n"
                   "  ROOT r = (s32[], f32[2], f32[2]) "
                   "tuple(n, y, q)\n") "ENTRY e {\n"
                                       "  a = s32[] "
                                       "parameter(0)\n  x "
                                       "= f32[2] "
                                       "parameter(1)\n"
                                       "  o = f32[] "
                                       "constant(0)\n  z "
                                       "= f32[2] "
                                       "broadcast(o), "
                                       "dimensions={}\n"
                                       "  t = (s32[], "
                                       "f32[2], f32[2]) "
                                       "tuple(a, x, z)\n"
                                       "  ROOT w = "
                                       "(s32[], f32[2], "
                                       "f32[2]) while(t), "
                                       "condition=c, "
                                       "body=b\n}\n",
              inputs, 2, wants, 3);
}

// Running sums, written row by row into one array.
static void test_while_updates_array(void **state)
{
    const int32_t in[] = {4};
    const int32_t zero[] = {0};
    const int32_t want[] = {0, 1, 2, 3, 4}; // element i becomes i, 4 down to 1
    const struct ref_array inputs[] = {REF(S32, in)};
    const struct ref_array wants[] = {REF(S32, zero), REF(S32, want)};

    (void)state;
    ref_check(LOOP("(s32[], s32[5])", "  x = s32[5] get-tuple-element(p), "
                                      "index=1\n"
                                      "  u = s32[1] reshape(i)\n"
                                      "  y = s32[5] dynamic-update-slice(x, u, "
                                      "i)\n"
                                      "  ROOT r = (s32[], s32[5]) tuple(n, "
                                      "y)\n") "ENTRY e {\n"
                                              "  a = s32[] parameter(0)\n  o = "
                                              "s32[] constant(0)\n"
                                              "  z = s32[5] broadcast(o), "
                                              "dimensions={}\n"
                                              "  t = (s32[], s32[5]) tuple(a, "
                                              "z)\n"
                                              "  ROOT w = (s32[], s32[5]) "
                                              "while(t), condition=c, "
                                              "body=b\n}\n",
              inputs, 1, wants, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dot_matrices),
        cmocka_unit_test(test_dot_blas),
        cmocka_unit_test(test_dot_vectors),
        cmocka_unit_test(test_dot_long_vectors),
        cmocka_unit_test(test_dot_long),
        cmocka_unit_test(test_dot_batch),
        cmocka_unit_test(test_dot_types),
        cmocka_unit_test(test_dot_empty),
        cmocka_unit_test(test_call_and_fusion),
        cmocka_unit_test(test_call_hands_through),
        cmocka_unit_test(test_conditional),
        cmocka_unit_test(test_conditional_index),
        cmocka_unit_test(test_while_shuffles),
        cmocka_unit_test(test_while_never),
        cmocka_unit_test(test_while_reads_late),
        cmocka_unit_test(test_while_updates_array),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
