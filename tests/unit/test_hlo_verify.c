// SPDX-License-Identifier: Apache-2.0
// The verifier's rules for what works on each element: for each
// opcode programs that pass, and one for each thing that can be wrong with it,
// made from a sound one by a small change.
#include "tests/unit/hlo_verify.h"

static void test_elementwise(void **state)
{
    (void)state;
    assert_sound("f32[4] add(f, g)");
    assert_sound("f32[4]{0} tanh(f)");
    assert_sound("pred[4] and(p, p)");
    assert_sound("pred[4] add(p, p)");
    assert_sound("f32[4] abs(c)");
    assert_sound("f32[4] imag(c)");
    assert_sound("c64[4] complex(f, g)");
    assert_sound("pred[4] is-finite(f)");
    assert_sound("u32[4] popcnt(u)");
    assert_sound("s32[4] convert(f)");
    assert_sound("f32[4] reduce-precision(f), exponent_bits=5, "
                 "mantissa_bits=10");
    assert_wrong("f32[4] add(f)", "2 operands are needed, there are 1");
    assert_wrong("f32[4] add(f, m)", "operand 1 is f32[2,3]{1,0}, operand 0 is "
                                     "f32[4]{0}");
    assert_wrong("f32[4] add(f, i)", "operand 1 is s32[4]");
    assert_wrong("s32[4] add(f, g)", "declared s32[4]{0}, but is f32[4]{0}");
    assert_wrong("f32[5] tanh(f)", "declared f32[5]");
    assert_wrong("s32[4] tanh(i)", "has type s32, which tanh does not take");
    assert_wrong("f32[4] and(f, g)", "which and does not take");
    assert_wrong("pred[4] subtract(p, p)", "which subtract does not take");
    assert_wrong("pred[4] negate(p)", "which negate does not take");
    assert_wrong("u32[4] sign(u)", "which sign does not take");
    assert_wrong("f32[4] shift-left(f, g)", "which shift-left does not take");
    assert_wrong("c64[4] maximum(c, c)", "which maximum does not take");
    assert_wrong("c64[4] abs(c)", "declared c64[4]{0}, but is f32[4]");
    assert_wrong("c64[4] complex(h, h)", "of f32 or f64, not f16");
    assert_wrong("f32[4] is-finite(f)", "but is pred[4]");
    assert_wrong("(f32[4], s32[]) add(t, t)", "has type tuple");
    assert_wrong("s32[2] convert(f)", "but is s32[4]");
    assert_wrong("(f32[4]) convert(s)", "not that of an array");
    assert_wrong("f32[4] reduce-precision(f), exponent_bits=0, "
                 "mantissa_bits=1",
                 "0 exponent");
}

static void test_compare(void **state)
{
    (void)state;
    assert_sound("pred[4] compare(f, g), direction=EQ");
    assert_sound("pred[4] compare(f, g), direction=GE, type=TOTALORDER");
    assert_sound("pred[4] compare(i, i), direction=NE, type=SIGNED");
    assert_sound("pred[4] compare(p, p), direction=LE, type=UNSIGNED");
    assert_sound("pred[4] compare(c, c), direction=EQ, type=FLOAT");
    assert_wrong("pred[4] compare(f, g), direction=XX", "not one of EQ");
    assert_wrong("pred[4] compare(c, c), direction=LT", "EQ or NE only");
    assert_wrong("pred[4] compare(f, g), direction=LT, type=SIGNED", "suit");
    assert_wrong("pred[4] compare(u, u), direction=LT, type=SIGNED", "suit");
    assert_wrong("f32[4] compare(f, g), direction=LT", "but is pred[4]");
    assert_wrong("pred[4] compare(f, i), direction=LT", "operand 1 is s32");
}

static void test_select_and_clamp(void **state)
{
    (void)state;
    assert_sound("f32[4] select(p, f, g)");
    assert_sound("f32[4] select(q, f, g)");
    assert_sound("f32[4] clamp(s, f, s)");
    assert_sound("f32[4] clamp(g, f, s)");
    assert_wrong("f32[4] select(i, f, g)", "has type s32, not pred");
    assert_wrong("f32[2,3] select(p, m, m)", "differ in dimensions");
    assert_wrong("f32[4] select(p, f, i)", "operand 2 is s32");
    assert_wrong("f32[2,3] clamp(f, m, s)", "operand 0 is f32[4]");
    assert_wrong("f32[4] clamp(j, f, s)", "operand 0 is s32[]");
}

static void test_leaves(void **state)
{
    (void)state;
    assert_sound("s32[3,4] iota(), iota_dimension=1");
    assert_sound("u32[] replica-id()");
    assert_sound("u32[] partition-id()");
    assert_sound("(f32[4], s32[]) copy(t)");
    assert_sound("(f32[4], (s32[])) tuple(f, (s32[]) tuple(j))");
    assert_sound("f32[4] get-tuple-element(t), index=0");
    assert_wrong("s32[3,4] iota(), iota_dimension=2", "out of range");
    assert_wrong("s32[3,4] iota(), iota_dimension=-1", "out of range");
    assert_wrong("s32[] iota(), iota_dimension=0", "at least one dimension");
    assert_wrong("pred[2] iota(), iota_dimension=0", "of numbers");
    assert_sound("u32[4] bitcast(f)");
    assert_wrong("f32[5] bitcast(f)", "differ in bytes");
    assert_wrong("f32[2] bitcast(t)", "not an array");
    assert_wrong("s32[] replica-id()", "but is u32[]");
    assert_wrong("(f32[4]) tuple(f, g)", "not a tuple of 2");
    assert_wrong("f32[4] tuple(f)", "not a tuple of 1");
    assert_wrong("(s32[4]) tuple(f)", "operand 0 is f32[4]");
    assert_wrong("f32[4] get-tuple-element(t), index=2", "the tuple has 2");
    assert_wrong("f32[4] get-tuple-element(t), index=-1", "out of range");
    assert_wrong("f32[4] get-tuple-element(t), index=1", "but is s32[]");
    assert_wrong("f32[4] get-tuple-element(f), index=0", "not a tuple");
}

static void refuse(const char *text, const char *part)
{
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    assert_int_equal(pod_hlo_parse_text(text, strlen(text), &module, &err),
                     POD_INVALID_ARGUMENT);
    if (strstr(err.text, part) == NULL)
        fail_msg("%s", err.text);
}

static void test_parameters(void **state)
{
    (void)state;
    refuse("HloModule m\ne { a = f32[] parameter(0) b = f32[] parameter(2) }",
           "parameter number 2 is out of range: there are 2");
    refuse("HloModule m\ne { a = f32[] parameter(0) b = f32[] parameter(0) }",
           "parameter number 0 is used twice");
    refuse("HloModule m\ne { a = f32[] parameter(-1) }",
           "parameter number -1 is out of range");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),      cmocka_unit_test(test_compare),
        cmocka_unit_test(test_select_and_clamp), cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
