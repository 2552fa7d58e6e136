// SPDX-License-Identifier: Apache-2.0
// The verifier's rules: for each opcode programs that pass, and one for each
// thing that can be wrong with it, made from a sound one by a small change.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/hlo/text.h"

// Computations and parameters that the cases below may use.
static const char *const prelude =
    "HloModule m\n"
    "addf { x = f32[] parameter(0) y = f32[] parameter(1) "
    "ROOT z = f32[] add(x, y) }\n"
    "addi { x = s32[] parameter(0) y = s32[] parameter(1) "
    "ROOT z = s32[] add(x, y) }\n"
    "less { x = f32[] parameter(0) y = f32[] parameter(1) "
    "ROOT z = pred[] compare(x, y), direction=LT }\n"
    "less2 { a = f32[] parameter(0) b = f32[] parameter(1) "
    "c = s32[] parameter(2) d = s32[] parameter(3) "
    "ROOT z = pred[] compare(a, b), direction=LT }\n"
    "both { a = f32[] parameter(0) b = s32[] parameter(1) "
    "c = f32[] parameter(2) d = s32[] parameter(3) "
    "e = f32[] add(a, c) f = s32[] add(b, d) "
    "ROOT z = (f32[], s32[]) tuple(e, f) }\n"
    "inc { x = s32[] parameter(0) o = s32[] constant(1) "
    "ROOT z = s32[] add(x, o) }\n"
    "small { x = s32[] parameter(0) o = s32[] constant(9) "
    "ROOT z = pred[] compare(x, o), direction=LT }\n"
    "negv { x = f32[4] parameter(0) ROOT z = f32[4] negate(x) }\n"
    "ENTRY e {\n"
    "  f = f32[4] parameter(0)\n"
    "  g = f32[4] parameter(1)\n"
    "  m = f32[2,3] parameter(2)\n"
    "  n = f32[3,5] parameter(3)\n"
    "  i = s32[4] parameter(4)\n"
    "  j = s32[] parameter(5)\n"
    "  k = s64[] parameter(6)\n"
    "  p = pred[4] parameter(7)\n"
    "  q = pred[] parameter(8)\n"
    "  u = u32[4] parameter(9)\n"
    "  c = c64[4] parameter(10)\n"
    "  s = f32[] parameter(11)\n"
    "  t = (f32[4], s32[]) parameter(12)\n"
    "  b = f32[2,3,4] parameter(13)\n"
    "  h = f16[4] parameter(14)\n"
    "  w = f32[4]{0} parameter(15)\n"
    "  d = f64[2] parameter(16)\n";

static enum pod_code verify(const char *line, struct pod_err *err)
{
    char text[8192];
    struct pod_hlo_module *module = NULL;
    enum pod_code code;
    *err = POD_ERR_NONE;
    (void)snprintf(text, sizeof(text), "%s  ROOT r = %s\n}\n", prelude, line);
    code = pod_hlo_parse_text(text, strlen(text), &module, err);
    pod_hlo_module_free(module);
    return code;
}

static void assert_sound(const char *line)
{
    struct pod_err err;
    if (verify(line, &err) != POD_OK)
        fail_msg("%s: %s", line, err.text);
}

static void assert_wrong(const char *line, const char *part)
{
    struct pod_err err;
    enum pod_code code = verify(line, &err);
    if (code != POD_INVALID_ARGUMENT ||
        err.reason != POD_REASON_INVALID_PROGRAM || err.line != 28 ||
        strstr(err.text, part) == NULL ||
        strstr(err.text, "instruction \"r\"") == NULL)
        fail_msg("%s: %d %d: %s", line, (int)code, err.line, err.text);
}

static void assert_unsupported(const char *line, const char *part)
{
    struct pod_err err;
    enum pod_code code = verify(line, &err);
    if (code != POD_UNIMPLEMENTED || strstr(err.text, part) == NULL)
        fail_msg("%s: %d: %s", line, (int)code, err.text);
}

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

static void test_broadcast(void **state)
{
    (void)state;
    assert_sound("f32[3,9,2] broadcast(m), dimensions={2,0}");
    assert_wrong("f32[7,4] broadcast(f), dimensions={2}", "out of range");
    assert_wrong("f32[7,4] broadcast(f), dimensions={0}", "size 4, dimension 0 "
                                                          "of the result 7");
    assert_wrong("f32[7,4] broadcast(f), dimensions={}", "0 dimensions are");
    assert_wrong("f32[2,2] broadcast(m), dimensions={0,0}", "occurs twice");
    assert_wrong("s32[7,4] broadcast(f), dimensions={1}", "type f32");
    assert_wrong("f32[7,4] broadcast(t), dimensions={1}", "not an array");
}

static void test_reshape_transpose_reverse(void **state)
{
    (void)state;
    assert_sound("f32[1,4,1] reshape(f)");
    assert_wrong("f32[5] reshape(m)", "6 elements, the result 5");
    assert_wrong("s32[6] reshape(m)", "type f32");
    assert_wrong("f32[2,3] transpose(m), dimensions={1,0}", "is f32[3,2]");
    assert_wrong("f32[3,2] transpose(m), dimensions={1}", "1 dimensions");
    assert_wrong("f32[3,3] transpose(m), dimensions={1,1}", "occurs twice");
    assert_wrong("f32[2,3] reverse(m), dimensions={2}", "out of range");
    assert_wrong("f32[3,2] reverse(m), dimensions={0}", "is f32[2,3]");
}

static void test_slice(void **state)
{
    (void)state;
    assert_sound("f32[2] slice(f), slice={[0:4:2]}");
    assert_sound("f32[2] slice(f), slice={[0:3:2]}");
    assert_sound("f32[0] slice(f), slice={[4:4]}");
    assert_wrong("f32[1] slice(f), slice={[0:3:2]}", "but is f32[2]");
    assert_wrong("f32[5] slice(f), slice={[0:5]}", "not within its size 4");
    assert_wrong("f32[1] slice(f), slice={[-1:0]}", "not within");
    assert_wrong("f32[1] slice(f), slice={[3:2]}", "not within");
    assert_wrong("f32[4] slice(f), slice={[0:4:0]}", "not within");
    assert_wrong("f32[4] slice(f), slice={}", "slice has 0 dimensions");
}

static void test_pad(void **state)
{
    (void)state;
    assert_sound("f32[9] pad(f, s), padding=1_1_1");
    assert_sound("f32[1] pad(f, s), padding=-1_-2");
    assert_sound("f32[0] pad(f, s), padding=-4_0");
    assert_wrong("f32[8] pad(f, s), padding=1_1_1", "but is f32[9]");
    assert_wrong("f32[1] pad(f, s), padding=-5_0", "impossible");
    assert_wrong("f32[1] pad(f, s), padding=0_0_-1", "impossible");
    assert_wrong("f32[1] pad(f, s), padding=0_9223372036854775807",
                 "impossible");
    assert_wrong("f32[1] pad(f, s), padding=0_0_9223372036854775807",
                 "impossible");
    assert_wrong("f32[6] pad(f, j), padding=1_1", "must be f32[]");
    assert_wrong("f32[6] pad(f, g), padding=1_1", "must be f32[]");
    assert_wrong("f32[6] pad(f, s), padding=1_1x0_0", "2 dimensions");
}

static void test_concatenate(void **state)
{
    (void)state;
    assert_sound("f32[8] concatenate(f, g), dimensions={0}");
    assert_sound("f32[2,9] concatenate(m, m, m), dimensions={1}");
    assert_sound("f32[4] concatenate(f), dimensions={0}");
    assert_wrong("f32[9] concatenate(f, g), dimensions={0}", "is f32[8]");
    assert_wrong("f32[8] concatenate(f, i), dimensions={0}", "does not fit");
    assert_wrong("f32[8] concatenate(f, m), dimensions={0}", "does not fit");
    assert_wrong("f32[4,3] concatenate(m, n), dimensions={0}", "does not fit");
    assert_wrong("f32[8] concatenate(f, g), dimensions={1}", "out of range");
    assert_wrong("f32[8] concatenate(f, g), dimensions={}", "exactly one");
    assert_wrong("f32[8] concatenate(), dimensions={0}", "at least 1");
}

static void test_dynamic_slices(void **state)
{
    (void)state;
    assert_sound("f32[2] dynamic-slice(f, j), dynamic_slice_sizes={2}");
    assert_sound("f32[1,3] dynamic-slice(m, k, k), dynamic_slice_sizes={1,3}");
    assert_sound("f32[] dynamic-slice(s), dynamic_slice_sizes={}");
    assert_sound("f32[4] dynamic-update-slice(f, g, j)");
    assert_wrong("f32[5] dynamic-slice(f, j), dynamic_slice_sizes={5}",
                 "slice of 5 does not fit");
    assert_wrong("f32[2] dynamic-slice(f, s), dynamic_slice_sizes={2}",
                 "not a scalar integer");
    assert_wrong("f32[1,1] dynamic-slice(m, j), dynamic_slice_sizes={1,1}",
                 "1 indices for 2 dimensions");
    assert_wrong("f32[1,1] dynamic-slice(m, j, k), dynamic_slice_sizes={1,1}",
                 "differ in type");
    assert_wrong("f32[1] dynamic-slice(f, j), dynamic_slice_sizes={}",
                 "0 sizes");
    assert_wrong("f32[2] dynamic-slice(f, j), dynamic_slice_sizes={1}",
                 "is f32[1]");
    assert_unsupported("f32[1,1] dynamic-slice(m, s32[2] constant({0,0})), "
                       "dynamic_slice_sizes={1,1}",
                       "one vector");
    assert_wrong("f32[4] dynamic-update-slice(f, m, j)", "type and rank");
    assert_wrong("f32[3,5] dynamic-update-slice(n, m, j)", "1 indices");
    assert_wrong("f32[2,3] dynamic-update-slice(m, n, j, j)",
                 "update of 3 does not fit dimension 0");
    assert_wrong("f32[4] dynamic-update-slice(f)", "at least 2");
}

static void test_bitcast_convert(void **state)
{
    (void)state;
    assert_sound("u32[4] bitcast-convert(f)");
    assert_sound("u16[4,2] bitcast-convert(f)");
    assert_sound("f64[2] bitcast-convert(f32[2,2] reshape(f))");
    assert_wrong("u16[4] bitcast-convert(f)", "one more dimension, of size 2");
    assert_wrong("u16[4,3] bitcast-convert(f)", "of size 2");
    assert_wrong("u32[5] bitcast-convert(f)", "differ in dimensions");
    assert_wrong("f64[4] bitcast-convert(f)", "one more dimension");
    assert_wrong("(u32[4]) bitcast-convert(f)", "must be an array");
}

static void test_dot(void **state)
{
    (void)state;
    assert_sound("f32[2,5] dot(m, n), lhs_contracting_dims={1}, "
                 "rhs_contracting_dims={0}");
    assert_sound("f32[] dot(f, g), lhs_contracting_dims={0}, "
                 "rhs_contracting_dims={0}");
    assert_sound("f32[2,3,4,4] dot(b, b), lhs_batch_dims={0,1}, "
                 "rhs_batch_dims={0,1}");
    assert_sound("f32[4] dot(h, h), lhs_batch_dims={0}, rhs_batch_dims={0}");
    assert_sound("f32[2,3,3,5] dot(m, n)");
    assert_wrong("f32[2,5] dot(m, n), lhs_contracting_dims={0}, "
                 "rhs_contracting_dims={0}",
                 "contracted dimensions 0 and 0 have sizes 2 and 3");
    assert_wrong("f32[2,5] dot(m, n), lhs_contracting_dims={1}",
                 "1 and 0 contracted dimensions");
    assert_wrong("f32[2,5] dot(m, n), lhs_contracting_dims={2}, "
                 "rhs_contracting_dims={0}",
                 "out of range");
    assert_wrong("f32[2] dot(m, m), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                 "lhs_contracting_dims={0}, rhs_contracting_dims={1}",
                 "occurs twice");
    assert_wrong("f32[5] dot(m, n), lhs_batch_dims={9}, rhs_batch_dims={0}",
                 "out of range");
    assert_wrong("f32[5,2] dot(m, n), lhs_contracting_dims={1}, "
                 "rhs_contracting_dims={0}",
                 "is f32[2,5]");
    assert_wrong("s32[2,5] dot(m, n), lhs_contracting_dims={1}, "
                 "rhs_contracting_dims={0}",
                 "a dot of f32 does not give s32");
    assert_unsupported("f32[] dot(f, h), lhs_contracting_dims={0}, "
                       "rhs_contracting_dims={0}",
                       "types f32 and f16");
}

static void test_reduce(void **state)
{
    (void)state;
    assert_sound("f32[2] reduce(m, s), dimensions={1}, to_apply=addf");
    assert_sound("f32[] reduce(m, s), dimensions={0,1}, to_apply=addf");
    assert_sound("(f32[], s32[]) reduce(f, i, s, j), dimensions={0}, "
                 "to_apply=both");
    assert_wrong("f32[3] reduce(m, s), dimensions={1}, to_apply=addf",
                 "is f32[2]");
    assert_wrong("f32[2] reduce(m, s), dimensions={2}, to_apply=addf",
                 "out of range");
    assert_wrong("f32[2] reduce(m, s), dimensions={1}, to_apply=addi",
                 "a parameter of computation \"addi\" is s32[], not f32[]");
    assert_wrong("f32[2] reduce(m, s), dimensions={1}, to_apply=less",
                 "the result of computation \"less\" is pred[]");
    assert_wrong("f32[2] reduce(m, s), dimensions={1}, to_apply=inc",
                 "takes 1 parameters, not 2");
    assert_wrong("f32[2] reduce(m, f), dimensions={1}, to_apply=addf",
                 "operand 1 must be a scalar");
    assert_wrong("f32[2] reduce(m, m, s), dimensions={1}, to_apply=addf",
                 "as many");
    assert_wrong("f32[] reduce(f, i, s, j), dimensions={0}, to_apply=both",
                 "not a tuple of 2");
    assert_wrong("(f32[], f32[]) reduce(f, i, s, j), dimensions={0}, "
                 "to_apply=both",
                 "part 1 of the result is f32[], not s32[]");
    assert_wrong("(f32[], s32[]) reduce(f, i, s, j), dimensions={0}, "
                 "to_apply=less2",
                 "a parameter of computation \"less2\" is f32[], not s32[]");
    assert_wrong("(f32[], f32[]) reduce(f, m, s, s), dimensions={0}, "
                 "to_apply=both",
                 "differ in dimensions");
    assert_unsupported("f32[] reduce(h, s), dimensions={0}, to_apply=addf",
                       "f16 into f32");
}

static void test_map_and_sort(void **state)
{
    (void)state;
    assert_sound("f32[4] map(f, g), dimensions={0}, to_apply=addf");
    assert_sound("pred[4] map(f, g), to_apply=less");
    assert_sound("f32[4] sort(f), dimensions={0}, to_apply=less");
    assert_sound("(f32[4], s32[4]) sort(f, i), dimensions={0}, "
                 "to_apply=less2");
    assert_wrong("f32[4] map(f, i), to_apply=addf", "is f32[], not s32[]");
    assert_wrong("f32[4] map(f, m), to_apply=addf", "differ in dimensions");
    assert_wrong("f32[4] map(f, g), to_apply=less", "is pred[4]");
    assert_wrong("f32[4] map(f), to_apply=negv", "is f32[4]{0}, not f32[]");
    assert_wrong("f32[4] sort(f), dimensions={}, to_apply=less", "exactly one");
    assert_wrong("f32[4] sort(f), dimensions={1}, to_apply=less",
                 "out of range");
    assert_wrong("f32[4] sort(f), dimensions={0}, to_apply=addf",
                 "is f32[], not pred[]");
    assert_wrong("f32[4] sort(f, i), dimensions={0}, to_apply=less2",
                 "not a tuple of 2");
    assert_wrong("(f32[4], s32[4]) sort(f, i), dimensions={0}, to_apply=less",
                 "takes 2 parameters, not 4");
}

static void test_calls(void **state)
{
    (void)state;
    assert_sound("f32[4] call(f), to_apply=negv");
    assert_sound("f32[4] fusion(f), kind=kLoop, calls=negv");
    assert_sound("s32[] while(j), condition=small, body=inc");
    assert_sound("f32[4] conditional(q, f, g), true_computation=negv, "
                 "false_computation=negv");
    assert_sound("f32[4] conditional(j, f, g, f), "
                 "branch_computations={negv, negv, negv}");
    assert_wrong("f32[4] call(f, g), to_apply=negv", "takes 1 parameters");
    assert_wrong("f32[4] call(i), to_apply=negv", "is f32[4]{0}, not s32");
    assert_wrong("s32[4] call(f), to_apply=negv", "the result of computation");
    assert_wrong("s32[] while(j), condition=inc, body=inc",
                 "\"inc\" is s32[], not pred[]");
    assert_wrong("s32[] while(j), condition=small, body=small",
                 "\"small\" is pred[], not s32[]");
    assert_wrong("f32[] while(s), condition=small, body=inc", "a parameter");
    assert_wrong("s32[] while(j), condition=less, body=inc",
                 "takes 2 parameters");
    assert_wrong("s32[4] while(j), condition=small, body=inc", "is s32[]");
    assert_wrong("f32[4] conditional(q, f), true_computation=negv, "
                 "false_computation=negv",
                 "2 branches need");
    assert_wrong("f32[4] conditional(q, f, g, f), "
                 "branch_computations={negv, negv, negv}",
                 "selector must be");
    assert_wrong("f32[4] conditional(k, f, g), "
                 "branch_computations={negv, negv}",
                 "selector must be");
    assert_wrong("f32[4] conditional(p, f, g), true_computation=negv, "
                 "false_computation=negv",
                 "selector must be");
    assert_wrong("f32[4] conditional(q, f, i), true_computation=negv, "
                 "false_computation=negv",
                 "a parameter");
    assert_wrong("f32[4] conditional(q)", "0 branches");
}

static void test_all_reduce_family(void **state)
{
    (void)state;
    assert_sound("f32[4] all-reduce(f), to_apply=addf");
    assert_sound("(f32[4], f32[2,3]) all-reduce(f, m), to_apply=addf, "
                 "replica_groups={{0,1},{2,3}}");
    assert_sound("f32[8] all-gather(f), dimensions={0}, "
                 "replica_groups={{0,1}}");
    assert_sound("f32[12] all-gather(f), dimensions={0}");
    assert_sound("f32[2] reduce-scatter(f), dimensions={0}, to_apply=addf, "
                 "replica_groups=[1,2]<=[2]");
    assert_wrong("f32[4] all-reduce(f), to_apply=addi", "a parameter");
    assert_wrong("f32[5] all-reduce(f), to_apply=addf", "does not fit");
    assert_wrong("f32[4] all-reduce(f, g), to_apply=addf", "does not fit");
    assert_wrong("(f32[4], s32[4]) all-reduce(f, i), to_apply=addf",
                 "differ in type");
    assert_wrong("f32[4] all-reduce(), to_apply=addf", "at least 1");
    // Only what all-reduce does means the same in groups of any size.
    assert_sound("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups={{0,1},{2}}");
    assert_wrong("f32[8] all-gather(f), dimensions={0}, "
                 "replica_groups={{0,1},{2}}",
                 "differ in size");
    assert_wrong("f32[2] reduce-scatter(f), dimensions={0}, to_apply=addf, "
                 "replica_groups={{2},{0,1}}",
                 "differ in size");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, replica_groups={{},{}}",
                 "group is empty");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups={{0,1},{},{2}}",
                 "group is empty");
    assert_wrong("f32[9] all-gather(f), dimensions={0}", "does not fit");
    assert_wrong("f32[8] all-gather(f), dimensions={}", "exactly one");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups=[2,2]<=[4]T(0,1)",
                 "1 dimensions and 2 permuted");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups=[2,2]<=[-4]",
                 "impossible sizes");
    assert_wrong("f32[12] all-gather(f), dimensions={0}, "
                 "replica_groups={{0,1}}",
                 "does not fit");
    assert_wrong("f32[8] all-gather(f), dimensions={1}", "out of range");
    assert_wrong("f32[4,2] all-gather(f), dimensions={0}", "does not fit");
    assert_wrong("f32[3] reduce-scatter(f), dimensions={0}, to_apply=addf",
                 "does not fit");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups=[2,2]<=[5]",
                 "take 4 ids from 5");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups=[2,2]<=[2,2]T(0,0)",
                 "occurs twice");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups=[0,2]<=[0]",
                 "impossible sizes");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, replica_groups="
                 "[4294967296,4294967296]<=[4294967296,4294967296]",
                 "impossible sizes");
}

static void test_permute_family(void **state)
{
    (void)state;
    assert_sound("f32[4] collective-permute(f), "
                 "source_target_pairs={{0,1},{1,0}}");
    assert_sound("f32[4] collective-permute(f), source_target_pairs={}");
    assert_sound("f32[4] all-to-all(f), dimensions={0}, "
                 "replica_groups={{0,1}}");
    assert_sound("(f32[4], f32[4]) all-to-all(f, g), replica_groups={{0,1}}");
    assert_sound("f32[4] collective-broadcast(f), replica_groups={{0,1}}");
    assert_wrong("f32[4] collective-permute(f), "
                 "source_target_pairs={{0,1},{0,2}}",
                 "source 0 occurs twice");
    assert_wrong("f32[4] collective-permute(f), "
                 "source_target_pairs={{0,1},{2,1}}",
                 "target 1 occurs twice");
    assert_wrong("f32[4] collective-permute(f), source_target_pairs={{-1,1}}",
                 "source -1 is negative");
    assert_wrong("f32[5] collective-permute(f), source_target_pairs={}",
                 "does not fit");
    assert_wrong("f32[4] all-to-all(f), dimensions={0}, "
                 "replica_groups={{0,1,2}}",
                 "does not split into 3 parts");
    assert_wrong("(f32[4], f32[4]) all-to-all(f, g), dimensions={0}",
                 "one operand");
    assert_wrong("(f32[4], f32[4]) all-to-all(f, g), "
                 "replica_groups={{0,1,2}}",
                 "2 operands for groups of 3");
    assert_wrong("(f32[4], s32[4]) all-to-all(f, i)", "differ in shape");
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

// A chain of calls is as deep as it may be, and one deeper.
static void test_call_depth(void **state)
{
    struct pod_str text = {.data = NULL};
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    size_t allowed = 0;
    (void)state;
    pod_str_puts(&text, "HloModule m\nc0 { a = f32[] parameter(0) }\n");
    for (int i = 1; i <= POD_HLO_MAX_CALL_DEPTH + 1; i++) {
        allowed = text.length;
        pod_str_printf(&text,
                       "c%d { a = f32[] parameter(0) "
                       "b = f32[] call(a), to_apply=c%d }\n",
                       i, i - 1);
    }
    assert_int_equal(pod_hlo_parse_text(text.data, allowed, &module, &err),
                     POD_OK);
    pod_hlo_module_free(module);
    assert_int_equal(pod_hlo_parse_text(text.data, text.length, &module, &err),
                     POD_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "nested more than 128 deep"));
    pod_str_fini(&text);
}

static int nothing_left(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_select_and_clamp),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_reshape_transpose_reverse),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_concatenate),
        cmocka_unit_test(test_dynamic_slices),
        cmocka_unit_test(test_bitcast_convert),
        cmocka_unit_test(test_dot),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_map_and_sort),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_all_reduce_family),
        cmocka_unit_test(test_permute_family),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_call_depth),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
