// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/hlo/shape.h"
#include "core/hlo/shape_proto.h"

static struct pod_shape parse(const char *text)
{
    struct pod_shape shape;
    struct pod_err err = POD_ERR_NONE;
    if (pod_shape_parse(text, strlen(text), &shape, &err) != POD_OK)
        fail_msg("%s: %s", text, err.text);
    return shape;
}

static void assert_printed(const struct pod_shape *shape, bool layouts,
                           const char *want)
{
    struct pod_str str = {.data = NULL};
    pod_shape_print(shape, layouts, &str);
    assert_false(str.failed);
    assert_string_equal(str.data, want);
    pod_str_fini(&str);
}

static void assert_round_trip(const char *text)
{
    struct pod_shape shape = parse(text);
    assert_printed(&shape, true, text);
    pod_shape_fini(&shape);
}

static void assert_refused(const char *text, int column, const char *part)
{
    struct pod_shape shape;
    struct pod_err err = POD_ERR_NONE;
    assert_int_equal(pod_shape_parse(text, strlen(text), &shape, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_BAD_SHAPE);
    assert_int_equal(err.line, 1);
    if (strstr(err.text, part) == NULL || err.column != column)
        fail_msg("\"%s\": %d: %s", text, err.column, err.text);
}

static void test_text_round_trip(void **state)
{
    (void)state;
    assert_round_trip("f32[]");
    assert_round_trip("f32[128,256]");
    assert_round_trip("f32[128,256]{1,0}");
    assert_round_trip("bf16[2,3,4]{0,2,1}");
    assert_round_trip("pred[0]{0}");
    assert_round_trip("()");
    assert_round_trip("(f32[2]{0}, s32[])");
    assert_round_trip("((u8[1], ()), (c128[], token[]))");
    assert_round_trip("f8e4m3b11fnuz[7]");
    assert_round_trip("f32[<=8,2]");
    assert_round_trip("b(f32[2])");
    assert_round_trip("opaque[]");
}

static void test_text_variants(void **state)
{
    static const struct {
        const char *text;
        const char *printed;
    } cases[] = {
        {" f32 [ 2 , 3 ] { 1 , 0 } ", "f32[2,3]{1,0}"},
        {"(f32[2],/*index=1*/s32[])", "(f32[2], s32[])"},
        {"f32[2,3]{1,0:T(8,128)(2,1)E(32)}", "f32[2,3]{1,0}"},
        {"f32[2]{0:S(0)}", "f32[2]{0}"},
        {"f32[]{:T(256)}", "f32[]"},
        {"f32[2]{0:D(D)L(4)#(u32)}", "f32[2]{0}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pod_shape shape = parse(cases[i].text);
        assert_printed(&shape, true, cases[i].printed);
        pod_shape_fini(&shape);
    }
}

static void test_text_refused(void **state)
{
    (void)state;
    assert_refused("", 1, "expected a shape");
    assert_refused("f33[2]", 1, "expected a shape");
    assert_refused("f32", 4, "expected \"[\"");
    assert_refused("f32[", 5, "expected a number");
    assert_refused("f32[2", 6, "expected \",\" or \"]\"");
    assert_refused("f32[2,]", 7, "expected a number");
    assert_refused("f32[-1]", 5, "expected a number");
    assert_refused("f32[?]", 5, "unbounded");
    assert_refused("f32[<8]", 6, "expected \"<=\"");
    assert_refused("f32[2]x", 7, "expected nothing more");
    assert_refused("f32[2]{}", 7, "expected nothing more");
    assert_refused("f32[2,3]{1}", 11, "every dimension once");
    assert_refused("f32[2,3]{1,1}", 13, "permutation");
    assert_refused("f32[2,3]{1,2}", 13, "permutation");
    assert_refused("f32[2]{0:S(5)}", 12, "memory spaces");
    assert_refused("f32[2]{0:T(8}", 14, "expected \")\"");
    assert_refused("(f32[2]", 8, "expected \",\" or \")\"");
    assert_refused("token[2]", 8, "expected \"]\"");
    assert_refused("b(f32[2], f32[2])", 18, "one array");
    assert_refused("f32[9223372036854775808]", 23, "64 bits");
}

// The error gives line and column of a text that has lines.
static void test_text_place(void **state)
{
    const char *text = "(f32[2],\n  f33[2])";
    struct pod_shape shape;
    struct pod_err err = POD_ERR_NONE;
    (void)state;
    assert_int_equal(pod_shape_parse(text, strlen(text), &shape, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.line, 2);
    assert_int_equal(err.column, 3);
}

static void test_rank_limit(void **state)
{
    struct pod_str text = {.data = NULL};
    struct pod_shape shape;
    struct pod_err err = POD_ERR_NONE;
    (void)state;
    pod_str_puts(&text, "f32[1");
    for (int i = 1; i < POD_SHAPE_MAX_RANK; i++)
        pod_str_puts(&text, ",1");
    pod_str_puts(&text, "]");
    shape = parse(text.data);
    assert_int_equal(shape.rank, POD_SHAPE_MAX_RANK);
    text.data[text.length - 1] = ',';
    pod_str_puts(&text, "1]");
    assert_int_equal(pod_shape_parse(text.data, text.length, &shape, &err),
                     POD_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "more than 32 dimensions"));
    pod_str_fini(&text);
}

static void nest(char *text, int depth)
{
    memset(text, '(', (size_t)depth);
    memset(text + depth, ')', (size_t)depth);
    text[2 * depth] = '\0';
}

static void test_depth_limit(void **state)
{
    char text[400];
    struct pod_shape shape;
    struct pod_err err = POD_ERR_NONE;
    (void)state;
    nest(text, POD_SHAPE_MAX_DEPTH);
    shape = parse(text);
    pod_shape_fini(&shape);
    nest(text, POD_SHAPE_MAX_DEPTH + 1);
    assert_int_equal(pod_shape_parse(text, strlen(text), &shape, &err),
                     POD_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "32 deep"));
}

static void test_node_limit(void **state)
{
    struct pod_str str = {.data = NULL};
    struct pod_shape shape;
    struct pod_err err = POD_ERR_NONE;
    (void)state;
    pod_str_puts(&str, "(");
    for (int i = 0; i < POD_SHAPE_MAX_NODES; i++)
        pod_str_puts(&str, i == 0 ? "u8[]" : ",u8[]");
    pod_str_puts(&str, ")");
    assert_int_equal(pod_shape_parse(str.data, str.length, &shape, &err),
                     POD_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "too many parts"));
    // One leaf less fits.
    str.data[str.length - 6] = ')';
    assert_int_equal(pod_shape_parse(str.data, str.length - 5, &shape, &err),
                     POD_OK);
    assert_int_equal(pod_shape_leaves(&shape), POD_SHAPE_MAX_NODES - 1);
    pod_shape_fini(&shape);
    pod_str_fini(&str);
}

static void test_bytes_limit(void **state)
{
    struct pod_shape shape;
    (void)state;
    // 2^62 - 1 elements of two bytes are the most that fit: 2^63 - 2.
    shape = parse("f16[4611686018427387903]");
    assert_int_equal(pod_shape_bytes(&shape), INT64_MAX - 1);
    assert_refused("f16[4611686018427387904]", 24, "2^63-1 bytes");
    assert_refused("f32[4294967296,4294967296]", 26, "2^63-1 bytes");
    // An empty dimension does not hide an overflow: strides would have it.
    assert_refused("f32[0,4294967296,4294967296]", 28, "2^63-1 bytes");
    assert_refused("(u8[9223372036854775807], u8[1])", 1, "2^63-1 bytes");
}

static void test_counts(void **state)
{
    struct pod_shape shape = parse("f64[3,5]");
    (void)state;
    assert_int_equal(pod_shape_elements(&shape), 15);
    assert_int_equal(pod_shape_bytes(&shape), 120);
    assert_int_equal(pod_shape_leaves(&shape), 1);
    shape = parse("s16[]");
    assert_int_equal(pod_shape_elements(&shape), 1);
    assert_int_equal(pod_shape_bytes(&shape), 2);
    shape = parse("c128[2,0,7]");
    assert_int_equal(pod_shape_elements(&shape), 0);
    assert_int_equal(pod_shape_bytes(&shape), 0);
    shape = parse("(f32[2], (pred[3], token[]), s4[5])");
    assert_int_equal(pod_shape_elements(&shape), 0);
    assert_int_equal(pod_shape_bytes(&shape), 8 + 3 + 0 + 5);
    assert_int_equal(pod_shape_leaves(&shape), 4);
    pod_shape_fini(&shape);
    shape = parse("()");
    assert_int_equal(pod_shape_leaves(&shape), 0);
}

static void test_types(void **state)
{
    (void)state;
    // Numbers are those of XLA's PrimitiveType.
    assert_int_equal(pod_type_parse("pred", 4), 1);
    assert_int_equal(pod_type_parse("u64", 3), 9);
    assert_int_equal(pod_type_parse("bf16", 4), 16);
    assert_int_equal(pod_type_parse("c128", 4), 18);
    assert_int_equal(pod_type_parse("f6e2m3fn", 8), 36);
    assert_int_equal(pod_type_parse("tuple", 5), POD_TYPE_INVALID);
    assert_int_equal(pod_type_parse("b", 1), POD_TYPE_INVALID);
    assert_int_equal(pod_type_parse("", 0), POD_TYPE_INVALID);
    assert_string_equal(pod_type_name((enum pod_type)99), "invalid");
    assert_int_equal(pod_type_bytes((enum pod_type)99), 0);
    assert_true(pod_type_is_float(POD_TYPE_BF16));
    assert_true(pod_type_is_float(POD_TYPE_F8E5M2));
    assert_false(pod_type_is_float(POD_TYPE_C64));
    assert_true(pod_type_is_signed(POD_TYPE_S4));
    assert_false(pod_type_is_signed(POD_TYPE_PRED));
    assert_true(pod_type_is_unsigned(POD_TYPE_U1));
    assert_false(pod_type_is_array(POD_TYPE_TOKEN));
}

static void assert_equal(const char *a, const char *b, bool equal,
                         bool with_layout)
{
    struct pod_shape left = parse(a);
    struct pod_shape right = parse(b);
    assert_int_equal(pod_shape_equal(&left, &right), equal);
    assert_int_equal(pod_shape_equal_layout(&left, &right), with_layout);
    pod_shape_fini(&left);
    pod_shape_fini(&right);
}

static void test_equality(void **state)
{
    (void)state;
    assert_equal("f32[2,3]", "f32[2,3]", true, true);
    assert_equal("f32[2,3]", "f32[2,3]{1,0}", true, true);
    assert_equal("f32[2,3]", "f32[2,3]{0,1}", true, false);
    assert_equal("f32[2,3]", "f32[3,2]", false, false);
    assert_equal("f32[2]", "s32[2]", false, false);
    assert_equal("f32[2]", "f32[<=2]", false, false);
    assert_equal("f32[]", "f32[1]", false, false);
    assert_equal("(f32[2,2])", "(f32[2,2]{0,1})", true, false);
    assert_equal("(f32[2])", "(f32[2], f32[2])", false, false);
    assert_equal("f32[2]", "(f32[2])", false, false);
}

static void assert_row_major(const char *text, bool want)
{
    struct pod_shape shape = parse(text);
    assert_int_equal(pod_shape_is_row_major(&shape), want);
}

static void test_row_major(void **state)
{
    (void)state;
    assert_row_major("f32[2,3]", true);
    assert_row_major("f32[2,3]{1,0}", true);
    assert_row_major("f32[2,3]{0,1}", false);
    assert_row_major("f32[1,3]{0,1}", true); // dimension 0 does not matter
    assert_row_major("f32[4,1,2]{1,2,0}", true);
    assert_row_major("f32[4,2,1]{0,1,2}", false);
    assert_row_major("f32[0,3,2]{0,1,2}", true); // nothing to order
    assert_row_major("f32[]", true);
}

static void test_default_layout(void **state)
{
    struct pod_shape shape = parse("(f32[2,3], (f32[4,5,6]{0,1,2}))");
    (void)state;
    pod_shape_set_default_layout(&shape);
    assert_printed(&shape, true, "(f32[2,3]{1,0}, (f32[4,5,6]{0,1,2}))");
    pod_shape_fini(&shape);
}

static void test_array(void **state)
{
    const int64_t dims[] = {2, -1};
    struct pod_shape shape;
    struct pod_err err = POD_ERR_NONE;
    (void)state;
    assert_int_equal(pod_shape_array(&shape, POD_TYPE_F32, 0, NULL, &err),
                     POD_OK);
    assert_printed(&shape, true, "f32[]");
    assert_int_equal(pod_shape_array(&shape, POD_TYPE_F32, 2, dims, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(pod_shape_array(&shape, POD_TYPE_TUPLE, 0, NULL, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(
        pod_shape_array(&shape, (enum pod_type) - 1, 0, NULL, &err),
        POD_INVALID_ARGUMENT);
    assert_int_equal(pod_shape_array(&shape, POD_TYPE_F32, 33, dims, &err),
                     POD_INVALID_ARGUMENT);
}

static void test_brief(void **state)
{
    struct pod_shape shape = parse("(f32[1,2,3]{2,1,0}, s32[])");
    char buffer[64];
    (void)state;
    assert_string_equal(pod_shape_brief(&shape, buffer, 64),
                        "(f32[1,2,3]{2,1,0}, s32[])");
    assert_string_equal(pod_shape_brief(&shape, buffer, 12), "(f32[1,2...");
    pod_shape_fini(&shape);
}

static void test_scan_stops_at_body(void **state)
{
    const char *text = "f32[2] { x";
    struct pod_shape shape;
    size_t used;
    (void)state;
    assert_int_equal(pod_shape_scan(text, strlen(text), &used, &shape, NULL),
                     POD_OK);
    assert_int_equal(used, strlen("f32[2]"));
}

static void test_proto_round_trip(void **state)
{
    static const char *const texts[] = {"f32[2,3]{0,1}", "s32[]",
                                        "(f32[2]{0}, (token[], pred[<=4]))",
                                        "b(f32[2])", "()"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct pod_shape shape = parse(texts[i]);
        struct pod_shape back;
        Xla__ShapeProto *proto = pod_shape_to_proto(&shape, NULL);
        assert_non_null(proto);
        assert_int_equal(pod_shape_from_proto(proto, &back, NULL), POD_OK);
        assert_printed(&back, true, texts[i]);
        if (proto->layout != NULL)
            assert_int_equal(proto->layout->format, 1);
        pod_shape_fini(&back);
        pod_shape_fini(&shape);
        xla__shape_proto__free_unpacked(proto, &pod_shape_heap);
    }
}

static void assert_proto_refused(Xla__ShapeProto *proto, const char *part)
{
    struct pod_shape shape;
    struct pod_err err = POD_ERR_NONE;
    assert_int_equal(pod_shape_from_proto(proto, &shape, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_BAD_SHAPE);
    if (strstr(err.text, part) == NULL)
        fail_msg("%s", err.text);
}

static void test_proto_refused(void **state)
{
    int64_t dims[] = {2, 3};
    int64_t minor_to_major[] = {0, 2};
    protobuf_c_boolean marks[] = {0, 1, 0};
    Xla__LayoutProto layout = XLA__LAYOUT_PROTO__INIT;
    Xla__ShapeProto child = XLA__SHAPE_PROTO__INIT;
    Xla__ShapeProto *children[] = {&child};
    Xla__ShapeProto proto = XLA__SHAPE_PROTO__INIT;
    (void)state;
    assert_proto_refused(&proto, "element type 0");
    proto.element_type = 99;
    assert_proto_refused(&proto, "element type 99");
    proto.element_type = POD_TYPE_F32;
    proto.n_dimensions = 2;
    proto.dimensions = dims;
    dims[0] = INT64_MIN; // how XLA writes an unbounded dimension
    assert_proto_refused(&proto, "negative");
    dims[0] = 2;
    proto.layout = &layout;
    assert_proto_refused(&proto, "layout has 0 dimensions");
    layout.n_minor_to_major = 2;
    layout.minor_to_major = minor_to_major;
    assert_proto_refused(&proto, "permutation");
    minor_to_major[1] = 1;
    layout.memory_space = 5;
    assert_proto_refused(&proto, "memory space 5");
    layout.memory_space = 0;
    proto.n_is_dynamic_dimension = 3;
    proto.is_dynamic_dimension = marks;
    assert_proto_refused(&proto, "marks dimensions");
    proto.n_is_dynamic_dimension = 0;
    proto.n_tuple_shapes = 1;
    proto.tuple_shapes = children;
    assert_proto_refused(&proto, "not a tuple");
    proto.element_type = POD_TYPE_TUPLE;
    assert_proto_refused(&proto, "element type 0");
}

// A message nested deeper than the limit is refused at the limit.
static void test_proto_depth(void **state)
{
    Xla__ShapeProto protos[POD_SHAPE_MAX_DEPTH + 2];
    Xla__ShapeProto *children[POD_SHAPE_MAX_DEPTH + 2];
    (void)state;
    for (int i = 0; i < POD_SHAPE_MAX_DEPTH + 2; i++) {
        xla__shape_proto__init(&protos[i]);
        protos[i].element_type = POD_TYPE_TUPLE;
        children[i] = i == 0 ? NULL : &protos[i - 1];
        protos[i].n_tuple_shapes = i > 0;
        protos[i].tuple_shapes = i == 0 ? NULL : &children[i];
    }
    assert_proto_refused(&protos[POD_SHAPE_MAX_DEPTH + 1], "too deep");
}

static void test_program_shape(void **state)
{
    struct pod_program_shape shape = {.count = 2};
    struct pod_program_shape copy;
    struct pod_program_shape back;
    struct pod_str str = {.data = NULL};
    Xla__ProgramShapeProto *proto;
    (void)state;
    shape.parameters = pod_calloc(2, sizeof(*shape.parameters));
    shape.parameters[0] = parse("(f32[2,2]{0,1}, s32[])");
    shape.parameters[1] = parse("pred[]");
    shape.result = parse("f32[4]{0}");
    assert_int_equal(pod_program_shape_copy(&shape, &copy, NULL), POD_OK);
    proto = pod_program_shape_to_proto(&copy, NULL);
    assert_int_equal(pod_program_shape_from_proto(proto, &back, NULL), POD_OK);
    pod_program_shape_print(&back, true, &str);
    assert_string_equal(str.data,
                        "((f32[2,2]{0,1}, s32[]), pred[]) -> f32[4]{0}");
    pod_str_fini(&str);
    xla__program_shape_proto__free_unpacked(proto, &pod_shape_heap);
    pod_program_shape_fini(&shape);
    pod_program_shape_fini(&copy);
    pod_program_shape_fini(&back);
    pod_program_shape_fini(NULL);
}

// Every allocation in turn fails: a clean error and nothing left behind.
static void test_no_memory(void **state)
{
    const char *text = "((f32[2], s32[]), (pred[], (u8[1], u8[2], u8[3])))";
    long live = pod_mem_live();
    (void)state;
    for (long n = 0;; n++) {
        struct pod_shape shape;
        struct pod_shape copy;
        enum pod_code code;
        pod_mem_fail_after(n, 1);
        code = pod_shape_parse(text, strlen(text), &shape, NULL);
        if (code == POD_OK) {
            code = pod_shape_copy(&shape, &copy, NULL);
            if (code == POD_OK)
                pod_shape_fini(&copy);
            pod_shape_fini(&shape);
        }
        pod_mem_fail_after(-1, 0);
        assert_int_equal(pod_mem_live(), live);
        if (code == POD_OK) {
            assert_true(n >= 5);
            return;
        }
        assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
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
        cmocka_unit_test(test_text_round_trip),
        cmocka_unit_test(test_text_variants),
        cmocka_unit_test(test_text_refused),
        cmocka_unit_test(test_text_place),
        cmocka_unit_test(test_rank_limit),
        cmocka_unit_test(test_depth_limit),
        cmocka_unit_test(test_node_limit),
        cmocka_unit_test(test_bytes_limit),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_equality),
        cmocka_unit_test(test_row_major),
        cmocka_unit_test(test_default_layout),
        cmocka_unit_test(test_array),
        cmocka_unit_test(test_brief),
        cmocka_unit_test(test_scan_stops_at_body),
        cmocka_unit_test(test_proto_round_trip),
        cmocka_unit_test(test_proto_refused),
        cmocka_unit_test(test_proto_depth),
        cmocka_unit_test(test_program_shape),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
