// SPDX-License-Identifier: Apache-2.0
// The text reader: each production, the place of each error, each limit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/hlo/literal.h"
#include "core/hlo/text.h"
#include "tests/lib/hlo_module.h"

// --------------------------------------------------------------------- module

static void test_module(void **state)
{
    struct pod_hlo_module *module = parse_module(
        "HloModule the.name-1, is_scheduled=true, replica_count=4,\n"
        "  num_partitions=2, frontend_attributes={a=\"b\",c={\"d\":1}},\n"
        "  input_output_alias={ {}: (0, {}, must-alias) },\n"
        "  buffer_donor={ (0, {}), (1, {0}) },\n"
        "  entry_computation_layout={(f32[2,3]{0,1}, (s32[]))->"
        "f32[2,3]{1,0}}\n"
        "FileNames\n1 \"a.py\"\n2 'b.py'\n"
        "FileLocations\n1 {file_name_id=1 line=2}\n"
        "ENTRY %e (x: f32[2,3], y: (s32[])) -> f32[2,3] {\n"
        "  %x = f32[2,3] parameter(0) // the first\n"
        "  %y = (s32[]) parameter(1)\n"
        "  ROOT %n = f32[2,3] negate(%x) /* and\n so on */\n"
        "}, execution_thread=\"main\"\n");
    const Xla__HloModuleProto *proto = module->proto;
    struct pod_str str = {.data = NULL};
    (void)state;
    assert_string_equal(proto->name, "the.name-1");
    assert_string_equal(proto->entry_computation_name, "e");
    assert_int_equal(module->replica_count, 4);
    assert_int_equal(module->num_partitions, 2);
    assert_int_equal(proto->frontend_attributes->n_map, 2);
    assert_string_equal(proto->frontend_attributes->map[0]->value, "b");
    assert_string_equal(proto->frontend_attributes->map[1]->value, "{\"d\":1}");
    assert_int_equal(proto->input_output_alias->entries[0]->kind, 2);
    assert_int_equal(proto->buffer_donor->n_entries, 2);
    assert_int_equal(proto->buffer_donor->entries[1]->parameter_number, 1);
    pod_program_shape_print(&module->shape, true, &str);
    assert_string_equal(str.data, "(f32[2,3]{0,1}, (s32[])) -> f32[2,3]{1,0}");
    pod_str_fini(&str);
    assert_int_equal(module_root(module)->line, 14);
    assert_int_equal(module_root(module)->column, 9); // behind the "%"
    pod_hlo_module_free(module);
}

// Without a layout in the header the signature is the entry's, row-major.
static void test_default_signature(void **state)
{
    struct pod_hlo_module *module =
        parse_body("a = f32[4,2]{0,1} parameter(0)\nb = f32[2,2] parameter(1)\n"
                   "c = (f32[2,2], f32[4,2]{0,1}) tuple(b, a)");
    struct pod_str str = {.data = NULL};
    (void)state;
    pod_program_shape_print(&module->shape, true, &str);
    assert_string_equal(str.data, "(f32[4,2]{0,1}, f32[2,2]{1,0}) -> "
                                  "(f32[2,2]{1,0}, f32[4,2]{0,1})");
    pod_str_fini(&str);
    pod_hlo_module_free(module);
}

// Without ENTRY the last computation is it; without ROOT the last instruction.
static void test_entry_and_root(void **state)
{
    struct pod_hlo_module *module = parse_module(
        "HloModule m\n"
        "one { a = f32[] parameter(0) ROOT b = f32[] negate(a) c = f32[] "
        "abs(a) }\n"
        "two { x = f32[] parameter(0) y = f32[] call(x), to_apply=one }\n");
    (void)state;
    assert_int_equal(module->count, 2);
    assert_int_equal(module->entry, 1);
    assert_int_equal(module->comps[0].root, 1);
    assert_int_equal(module->comps[1].root, 1);
    assert_int_equal(module_root(module)->called_count, 1);
    assert_int_equal(module_root(module)->called[0], 0);
    pod_hlo_module_free(module);
    module = parse_module("HloModule m\nENTRY one { a = f32[] parameter(0) }\n"
                          "two { x = s32[] parameter(0) }\n");
    assert_int_equal(module->entry, 0);
    pod_hlo_module_free(module);
}

static void test_module_errors(void **state)
{
    (void)state;
    assert_refused("", 1, 1, "expected \"HloModule\", found the end");
    assert_refused("ENTRY e {}", 1, 1, "expected \"HloModule\", found \"ENTRY");
    assert_refused("HloModule", 1, 10, "name of the module");
    assert_refused("HloModule m", 1, 12, "expected a computation");
    assert_refused("HloModule m, x=1", 1, 14, "no attribute \"x\"");
    assert_refused("HloModule m, replica_count=-2\ne { }", 2, 1, "negative");
    assert_refused("HloModule m, replica_count=x", 1, 28, "expected a number");
    assert_refused("HloModule m\ne { }", 2, 5, "expected an instruction");
    assert_refused("HloModule m\ne {", 2, 4, "found the end of the text");
    assert_refused("HloModule m /* open", 1, 13, "expected a computation");
    assert_refused("HloModule m\ne { a = f32[] parameter(0) }\n"
                   "e { b = f32[] parameter(0) }",
                   3, 1, "\"e\" is already defined");
    assert_refused("HloModule m\nENTRY e { a = f32[] parameter(0) }\n"
                   "ENTRY f { b = f32[] parameter(0) }",
                   3, 1, "second ENTRY");
    assert_refused("HloModule m\ne (a: f32[]) -> s32[] {\n"
                   "  a = f32[] parameter(0) }",
                   2, 17, "another shape than the root");
    assert_refused("HloModule m, entry_computation_layout={(f32[2])->f32[]}\n"
                   "e { a = f32[] parameter(0) }",
                   2, 5, "signature says f32[2]{0}");
    assert_refused("HloModule m, entry_computation_layout={()->f32[]}\n"
                   "e { a = f32[] parameter(0) }",
                   0, 0, "signature has 0 parameters");
}

// ---------------------------------------------------------------- instructions

static void test_operand_forms(void **state)
{
    struct pod_hlo_module *module = parse_body(
        "p = (f32[2], (s32[], f32[2])) parameter(0)\n"
        "ROOT r = f32[2] add(f32[2] multiply(p#0, f32[2]{0} %p#1#1),\n"
        "  f32[2] constant({1, 2}))");
    const struct pod_hlo_comp *entry = &module->comps[0];
    (void)state;
    // p, p#0, p#1, p#1#1, multiply, constant, r.
    assert_int_equal(entry->count, 7);
    assert_int_equal(module_root(module)->opcode, POD_OP_ADD);
    assert_int_equal(pod_hlo_operand(entry, module_root(module), 0)->opcode,
                     POD_OP_MULTIPLY);
    assert_int_equal(pod_hlo_operand(entry, module_root(module), 1)->opcode,
                     POD_OP_CONSTANT);
    assert_int_equal(pod_hlo_operand(entry, module_root(module), 1)->line, 5);
    pod_hlo_module_free(module);
}

static void test_instruction_errors(void **state)
{
    (void)state;
    assert_body_refused("a f32[] parameter(0)", 1, 3, "expected \"=\"");
    assert_body_refused("a = parameter(0)", 1, 5, "expected a shape");
    assert_body_refused("a = f32[] (0)", 1, 11, "expected an opcode");
    assert_body_refused("a = f32[] addd(0)", 1, 11, "no opcode \"addd\"");
    assert_body_refused("a = f32[] parameter 0", 1, 21, "expected \"(\"");
    assert_body_refused("a = f32[] parameter(x)", 1, 21, "expected a number");
    assert_body_refused("a = f32[] parameter(0", 2, 1, "expected \")\"");
    assert_body_refused("a = f32[] negate(b)", 1, 18, "named \"b\"");
    assert_body_refused("a = f32[] negate(a)", 1, 18, "named \"a\"");
    assert_body_refused("a = f32[] parameter(0)\nb = f32[] negate(s32[] a)", 2,
                        24, "operand is s32[] here, f32[] where");
    assert_body_refused("a = f32[] parameter(0)\nb = f32[] negate(a#0)", 2, 20,
                        "no such part");
    assert_body_refused("a = f32[] parameter(0)\na = f32[] negate(a)", 2, 1,
                        "\"a\" is already defined");
    assert_body_refused("ROOT a = f32[] parameter(0)\nROOT b = f32[] negate(a)",
                        2, 1, "second ROOT");
    assert_body_refused("a = f32[] parameter(0)\nb = f32[] negate(a,)", 2, 20,
                        "expected an operand");
    assert_body_refused("a = f32[] parameter(0)\nb = f32[] negate(a a)", 2, 20,
                        "expected \",\" or \")\"");
}

static void test_unsupported(void **state)
{
    (void)state;
    assert_body_unsupported("a = f32[] parameter(0)\n"
                            "b = f32[] domain(a), domain={}",
                            "domains are not supported");
    assert_body_unsupported("a = f32[] parameter(0)\n"
                            "b = f32[] negate-start(a)",
                            "async");
    assert_body_unsupported("a = f32[] parameter(0), sharding={mesh['x'=2]}",
                            "sharding");
    assert_body_unsupported("a = f32[<=2] parameter(0)", "dynamic");
    assert_body_unsupported("a = f8e3m4[] constant(1)", "literals");
}

static void test_nesting_limit(void **state)
{
    struct pod_str body = {.data = NULL};
    (void)state;
    pod_str_puts(&body, "a = f32[] parameter(0)\nb = ");
    for (int i = 0; i < 80; i++)
        pod_str_puts(&body, "f32[] abs(");
    pod_str_puts(&body, "a");
    for (int i = 0; i < 80; i++)
        pod_str_puts(&body, ")");
    assert_body_refused(body.data, 2, 5 + 65 * 10, "nested more than 64 deep");
    pod_str_fini(&body);
}

// -------------------------------------------------------------------- literals

// Compares the row-major bytes of a module's root, which is a constant.
static void assert_constant(const char *shape, const char *literal,
                            const void *want, size_t size)
{
    char body[512];
    unsigned char data[256];
    struct pod_hlo_module *module;
    (void)snprintf(body, sizeof(body), "c = %s constant(%s)", shape, literal);
    module = parse_body(body);
    assert_int_equal(pod_shape_bytes(module_root(module)->shape), size);
    assert_true(size <= sizeof(data));
    assert_int_equal(pod_literal_read(module_root(module)->proto->literal,
                                      module_root(module)->shape, data, NULL),
                     POD_OK);
    assert_memory_equal(data, want, size);
    pod_hlo_module_free(module);
}

#define ASSERT_CONSTANT(shape, literal, type, ...)                             \
    assert_constant((shape), (literal), ((type[]){__VA_ARGS__}),               \
                    sizeof((type[]){__VA_ARGS__}))

static void test_literal_integers(void **state)
{
    (void)state;
    ASSERT_CONSTANT("s32[]", "-7", int32_t, -7);
    ASSERT_CONSTANT("s8[2]", "{-128, 127}", int8_t, -128, 127);
    ASSERT_CONSTANT("s16[2]", "{-32768, 32767}", int16_t, -32768, 32767);
    ASSERT_CONSTANT("u16[1]", "{65535}", uint16_t, 65535);
    ASSERT_CONSTANT("s64[2]", "{-9223372036854775808, 9223372036854775807}",
                    int64_t, INT64_MIN, INT64_MAX);
    ASSERT_CONSTANT("u64[]", "18446744073709551615", uint64_t, UINT64_MAX);
    ASSERT_CONSTANT("s4[2]", "{-8, 7}", int8_t, -8, 7);
    ASSERT_CONSTANT("u4[]", "15", uint8_t, 15);
    ASSERT_CONSTANT("pred[4]", "{true, false, 1, 0}", uint8_t, 1, 0, 1, 0);
}

// What is compared from here to the errors is what XLA makes of it.
static void test_literal_wide_integers(void **state)
{
    (void)state;
    ASSERT_CONSTANT("pred[]", "3", uint8_t, 1);
    ASSERT_CONSTANT("pred[2,2]", "{{1, 0}, {-5, true}}", uint8_t, 1, 0, 1, 1);
    ASSERT_CONSTANT("pred[2]", "{18446744073709551615, -9223372036854775808}",
                    uint8_t, 1, 1);
    ASSERT_CONSTANT("u64[2]", "{-1, -9223372036854775808}", uint64_t,
                    UINT64_MAX, UINT64_C(1) << 63);
    ASSERT_CONSTANT("s64[2]", "{9223372036854775808, 18446744073709551615}",
                    int64_t, INT64_MIN, -1);
}

static void test_literal_nans(void **state)
{
    (void)state;
    ASSERT_CONSTANT("f32[4]", "{nan, -nan, nan(0x1234), -nan(0x7fffff)}",
                    uint32_t, 0x7fc00000, 0xffc00000, 0x7f801234, 0xffffffff);
    ASSERT_CONSTANT("f64[2]", "{nan(0x00001), nan(0xFfffffffffff1)}", uint64_t,
                    UINT64_C(0x7ff0000000000001), UINT64_C(0x7ffffffffffffff1));
    ASSERT_CONSTANT("f16[2]", "{nan(0x1), -nan(0x3ff)}", uint16_t, 0x7c01,
                    0xffff);
    ASSERT_CONSTANT("bf16[2]", "{nan(0x7f), -nan(0x1)}", uint16_t, 0x7fff,
                    0xff81);
    ASSERT_CONSTANT("c64[]", "(nan(0x1), 2)", uint32_t, 0x7f800001, 0x40000000);
}

static void test_literal_commas(void **state)
{
    (void)state;
    ASSERT_CONSTANT("s32[3]", "{1 2/*and*/3}", int32_t, 1, 2, 3);
    ASSERT_CONSTANT("s32[2]", "{1-2}", int32_t, 1, -2);
    ASSERT_CONSTANT("f32[2]", "{1.5-5}", float, 1.5F, -5);
    ASSERT_CONSTANT("pred[2]", "{1true}", uint8_t, 1, 1);
    ASSERT_CONSTANT("s32[2,2]", "{,{1,,2,},{3 4},,}", int32_t, 1, 2, 3, 4);
    ASSERT_CONSTANT("s32[2,2]{0,1}", "{{1 2}{3 4}}", int32_t, 1, 2, 3, 4);
    ASSERT_CONSTANT("c64[2]", "{(1,2)(3,4)}", float, 1, 2, 3, 4);
    assert_constant("f32[0]", "{,}", "", 0);
    assert_constant("f32[2,0]", "{{}{},}", "", 0);
    struct pod_hlo_module *module =
        parse_body("c = (s32[2], (s32[], f32[])) constant(({1 2}(3 4)))");
    const Xla__LiteralProto *literal = module_root(module)->proto->literal;
    assert_int_equal(literal->tuple_literals[0]->s32s[1], 2);
    assert_true(literal->tuple_literals[1]->tuple_literals[1]->f32s[0] == 4);
    pod_hlo_module_free(module);
}

static void test_literal_floats(void **state)
{
    (void)state;
    ASSERT_CONSTANT("f32[3]", "{1, -2.5e-3, 3.5}", float, 1, -2.5e-3F, 3.5F);
    ASSERT_CONSTANT("f64[2]", "{0.1, 1e300}", double, 0.1, 1e300);
    ASSERT_CONSTANT("f32[3]", "{inf, -inf, -0.0}", float, __builtin_inff(),
                    -__builtin_inff(), -0.0F);
    ASSERT_CONSTANT("c64[2]", "{(1, -2), (0.5, inf)}", float, 1, -2, 0.5F,
                    __builtin_inff());
    ASSERT_CONSTANT("c128[]", "(1, 2)", double, 1, 2);
    ASSERT_CONSTANT("f32[5]", "{-.5, 1., 00.5, 1.e5, 1E+2}", float, -0.5F, 1,
                    0.5F, 1e5F, 100);
    // Bits of IEEE half: 1 = 0x3c00; the largest; the smallest denormal; half
    // of it is a tie to even, so zero; a little more rounds up.
    ASSERT_CONSTANT("f16[6]",
                    "{1, 65504, 5.960464477539063e-8, "
                    "2.9802322387695312e-8, 2.98023224e-8, -inf}",
                    uint16_t, 0x3c00, 0x7bff, 0x0001, 0x0000, 0x0001, 0xfc00);
    // 65519 rounds to the largest half, 65520 is a tie that overflows.
    ASSERT_CONSTANT("f16[1]", "{65519}", uint16_t, 0x7bff);
    // 1 + 2^-8 is a tie to even in bfloat16, 1 + 3 * 2^-8 one to the odd side.
    ASSERT_CONSTANT("bf16[4]", "{1.00390625, 1.01171875, -2, nan}", uint16_t,
                    0x3f80, 0x3f82, 0xc000, 0x7fc0);
    // The largest denormal half rounds up to the smallest normal.
    ASSERT_CONSTANT("f16[1]", "{6.1020e-5}", uint16_t, 0x0400);
}

static void test_literal_nesting(void **state)
{
    (void)state;
    ASSERT_CONSTANT("u8[2,3]", "{ {1,2,3}, {4,5,6} }", uint8_t, 1, 2, 3, 4, 5,
                    6);
    ASSERT_CONSTANT("u8[2,3]{0,1}", "{{1,2,3},{4,5,6}}", uint8_t, 1, 2, 3, 4, 5,
                    6);
    ASSERT_CONSTANT("u8[2,1,2]", "{{/*i0=0*/{1,2}},{{3,4}}}", uint8_t, 1, 2, 3,
                    4);
    assert_constant("f32[0]", "{}", "", 0);
    assert_constant("f32[2,0]", "{ {}, {} }", "", 0);
    assert_constant("f32[0,1000000000]", "{ }", "", 0);
}

// What a column-major literal holds is in the order of its layout.
static void test_literal_layout(void **state)
{
    struct pod_hlo_module *module =
        parse_body("c = s32[2,3]{0,1} constant({{1,2,3},{4,5,6}})");
    const Xla__LiteralProto *literal = module_root(module)->proto->literal;
    (void)state;
    assert_int_equal(literal->n_s32s, 6);
    assert_memory_equal(literal->s32s, ((int32_t[]){1, 4, 2, 5, 3, 6}), 24);
    assert_int_equal(literal->shape->layout->minor_to_major[0], 0);
    pod_hlo_module_free(module);
}

// XLA leaves the upper half of the bytes of an s4 empty in its messages.
static void test_literal_of_nibbles(void **state)
{
    struct pod_hlo_module *module =
        parse_body("c = s4[4] constant({-1,-8,7,0})");
    const struct pod_hlo_instr *root = module_root(module);
    const Xla__LiteralProto *literal = root->proto->literal;
    int8_t values[4];

    (void)state;
    for (size_t i = 0; i < literal->s4s.len; i++)
        literal->s4s.data[i] &= 0xf;
    assert_int_equal(literal->s4s.data[1], 8);
    assert_int_equal(pod_literal_read(literal, root->shape, values, NULL),
                     POD_OK);
    assert_memory_equal(values, ((int8_t[]){-1, -8, 7, 0}), 4);
    pod_hlo_module_free(module);
}

static void test_literal_tuple(void **state)
{
    struct pod_hlo_module *module =
        parse_body("c = (s32[], (pred[1], f32[])) constant((3, ({1}, 2.5)))");
    const Xla__LiteralProto *literal = module_root(module)->proto->literal;
    (void)state;
    assert_int_equal(literal->n_tuple_literals, 2);
    assert_int_equal(literal->tuple_literals[0]->s32s[0], 3);
    assert_true(literal->tuple_literals[1]->tuple_literals[1]->f32s[0] == 2.5F);
    pod_hlo_module_free(module);
}

static void test_literal_errors(void **state)
{
    (void)state;
    assert_body_refused("c = s32[] constant(x)", 1, 20, "expected an integer");
    assert_body_refused("c = s32[] constant(1.5)", 1, 20, "a fraction");
    assert_body_refused("c = s32[] constant()", 1, 20, "expected an integer");
    assert_body_refused("c = s32[] constant(2147483648)", 1, 20, "not fit s32");
    assert_body_refused("c = s8[] constant(-129)", 1, 19, "not fit s8");
    assert_body_refused("c = u8[] constant(-1)", 1, 19, "not fit u8");
    assert_body_refused("c = u4[] constant(16)", 1, 19, "not fit u4");
    assert_body_refused("c = u64[] constant(18446744073709551616)", 1, 20,
                        "64 bits");
    assert_body_refused("c = s32[] constant(- 1)", 1, 22, "an integer");
    assert_body_refused("c = u64[] constant(-9223372036854775809)", 1, 20,
                        "not fit u64");
    assert_body_refused("c = pred[] constant(yes)", 1, 21, "true, false or an");
    assert_body_refused("c = pred[] constant(1.5)", 1, 21, "a fraction");
    assert_body_refused("c = pred[] constant(18446744073709551616)", 1, 21,
                        "64 bits");
    assert_body_refused("c = pred[2] constant({truefalse})", 1, 23, "true");
    assert_body_refused("c = f32[] constant(.5)", 1, 20, "expected a number");
    assert_body_refused("c = f32[] constant(-.)", 1, 20, "expected a number");
    assert_body_refused("c = f32[] constant(+1.5)", 1, 20, "a number");
    assert_body_refused("c = f32[] constant(- inf)", 1, 20, "a number");
    assert_body_refused("c = f32[] constant(nan(0x0))", 1, 23, "the mantissa");
    assert_body_refused("c = f32[] constant(nan( 0x1))", 1, 23, "the mantissa");
    assert_body_refused("c = f32[] constant(nan(0x1 ))", 1, 23, "the mantissa");
    assert_body_refused("c = f32[] constant(nan(0x800000))", 1, 20, "too long");
    assert_body_refused("c = bf16[] constant(nan(0x80))", 1, 21, "too long");
    assert_body_refused("c = f64[] constant(nan(0x10000000000000001))", 1, 23,
                        "the mantissa");
    assert_body_refused("c = s32[2] constant({,})", 1, 23, "2 values");
    assert_body_refused("c = (s32[], s32[]) constant((1,,2))", 1, 32,
                        "an integer");
    assert_body_refused("c = f32[] constant(1e39)", 1, 20, "not fit f32");
    assert_body_refused("c = f64[] constant(1e309)", 1, 20, "not fit f64");
    assert_body_refused("c = f16[] constant(65520)", 1, 20, "not fit f16");
    assert_body_refused("c = f32[] constant(1e)", 1, 20, "expected a number");
    assert_body_refused("c = f32[] constant(--1)", 1, 20, "expected a number");
    assert_body_refused("c = c64[] constant(1)", 1, 20, "expected \"(\"");
    assert_body_refused("c = f32[2] constant({...})", 1, 22, "elided");
    assert_body_refused("c = f32[2] constant({1})", 1, 23, "2 values");
    assert_body_refused("c = f32[2] constant({1,2,3})", 1, 26, "2 values");
    assert_body_refused("c = f32[2] constant(1)", 1, 21, "expected \"{\"");
    assert_body_refused("c = f32[2,1] constant({{1}})", 1, 27, "2 values");
    assert_body_refused("c = f32[2] constant({{1},{2}})", 1, 22,
                        "expected a number");
    assert_body_refused("c = token[] constant(1)", 1, 22, "no literals");
}

// The declared size costs nothing: there are not that many values.
static void test_literal_huge_shape(void **state)
{
    (void)state;
    assert_body_refused("c = f32[1000000000000] constant({1,2})", 1, 37,
                        "1000000000000 values");
}

// -------------------------------------------------------------- memory, limits

static void test_length_limit(void **state)
{
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    (void)state;
    // Refused by its length alone: nothing is read.
    assert_int_equal(
        pod_hlo_parse_text("", (size_t)POD_HLO_MAX_BYTES + 1, &module, &err),
        POD_RESOURCE_EXHAUSTED);
    assert_int_equal(err.reason, POD_REASON_RESOURCE_EXHAUSTED);
}

// The text needs no NUL behind it: every prefix, in a block of its own size,
// is read without a byte more, and refused but for the whole.
// A chain of additions, a line each; `root` is the last line but one.
static enum pod_code parse_lines(int lines, const char *root,
                                 struct pod_hlo_module **out_module,
                                 struct pod_err *err)
{
    struct pod_str text = {.data = NULL};

    pod_str_puts(&text, "HloModule m\nENTRY e {\n  x0 = f32[2] parameter(0)\n");
    for (int i = 1; i < lines; i++)
        pod_str_printf(&text, "  x%d = f32[2] add(x%d, x%d)\n", i, i - 1,
                       i - 1);
    pod_str_puts(&text, root);
    pod_str_puts(&text, "}\n");
    assert_false(text.failed);
    enum pod_code code =
        pod_hlo_parse_text(text.data, text.length, out_module, err);
    pod_str_fini(&text);
    return code;
}

static void test_a_hundred_thousand_lines(void **state)
{
    enum { LINES = 100000 };
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    (void)state;
    assert_int_equal(
        parse_lines(LINES, "  ROOT r = f32[2] negate(x99999)\n", &module, &err),
        POD_OK);
    assert_int_equal(module->proto->computations[0]->n_instructions, LINES + 1);
    assert_int_equal(module_root(module)->line, LINES + 3);
    pod_hlo_module_free(module);
    module = NULL;
    assert_int_equal(parse_lines(LINES, "  ROOT r = f32[2] negate(x100000)\n",
                                 &module, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.line, LINES + 3);
    assert_int_equal(err.column, 26);
    assert_null(module);
}

static void test_every_prefix(void **state)
{
    const char *text =
        "HloModule m, entry_computation_layout={(f32[2]{0})->(f32[2])}\n"
        "a { x = f32[] parameter(0) y = f32[] parameter(1)\n"
        " ROOT z = f32[] add(x, y), metadata={op_name=\"n\"} } // end\n"
        "ENTRY %e (p: f32[2]) -> (f32[2]) { p = f32[2]{0} parameter(0)\n"
        " c = f32[2] constant({1e0, nan(0x7f)}) d = f32[2] add(p, %c)\n"
        " r = f32[2] all-reduce(d), replica_groups=[1,2]<=[2], to_apply=a\n"
        " ROOT t = (f32[2]) tuple(r) }";
    (void)state;
    for (size_t n = 0; n <= strlen(text); n++) {
        char *copy = malloc(n == 0 ? 1 : n);
        struct pod_hlo_module *module = NULL;
        memcpy(copy, text, n);
        if (pod_hlo_parse_text(copy, n, &module, NULL) == POD_OK)
            assert_int_equal(n, strlen(text));
        pod_hlo_module_free(module);
        free(copy);
    }
}

static const char *const add_computation =
    "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] "
    "add(x, y) }\n";

static void test_no_memory(void **state)
{
    char text[2048];
    long live = pod_mem_live();
    (void)state;
    (void)snprintf(
        text, sizeof(text),
        "HloModule m\n%sENTRY e { p = (f32[2], s32[]) parameter(0)\n"
        "c = pred[3] constant({1,0,1})\n"
        "b = f32[2] add(f32[2] p#0, f32[2] constant({1,2})),\n"
        "  frontend_attributes={k=\"v\"}\n"
        "r = f32[2] all-reduce(b), to_apply=add, replica_groups={{0},{1}}\n"
        "q = f32[2] collective-permute(r), source_target_pairs={{0,1}}\n"
        "ROOT t = (f32[2], pred[3]) tuple(q, c) }",
        add_computation);
    for (long n = 0;; n++) {
        struct pod_hlo_module *module = NULL;
        struct pod_err err = POD_ERR_NONE;
        enum pod_code code;
        pod_mem_fail_after(n, 1);
        code = pod_hlo_parse_text(text, strlen(text), &module, &err);
        pod_mem_fail_after(-1, 0);
        pod_hlo_module_free(module);
        assert_int_equal(pod_mem_live(), live);
        if (code == POD_OK) {
            assert_true(n > 10);
            return;
        }
        assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
    }
}

static int nothing_left(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_module),
        cmocka_unit_test(test_default_signature),
        cmocka_unit_test(test_entry_and_root),
        cmocka_unit_test(test_module_errors),
        cmocka_unit_test(test_operand_forms),
        cmocka_unit_test(test_instruction_errors),
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_nesting_limit),
        cmocka_unit_test(test_literal_integers),
        cmocka_unit_test(test_literal_wide_integers),
        cmocka_unit_test(test_literal_floats),
        cmocka_unit_test(test_literal_nans),
        cmocka_unit_test(test_literal_nesting),
        cmocka_unit_test(test_literal_commas),
        cmocka_unit_test(test_literal_layout),
        cmocka_unit_test(test_literal_of_nibbles),
        cmocka_unit_test(test_literal_tuple),
        cmocka_unit_test(test_literal_errors),
        cmocka_unit_test(test_literal_huge_shape),
        cmocka_unit_test(test_length_limit),
        cmocka_unit_test(test_a_hundred_thousand_lines),
        cmocka_unit_test(test_every_prefix),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
