// SPDX-License-Identifier: Apache-2.0
// Bytes and texts were made with NumPy 1.24 (ndarray.tobytes, str), those of
// the 8-bit floats by hand from the definitions of their formats.
#include "api/values.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/json.h"
#include "api/memory.h"
#include "api/number.h"

static struct pod_shape shape_of(const char *text)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_shape shape;
    assert_int_equal(pod_shape_parse(text, strlen(text), &shape, &err), POD_OK);
    return shape;
}

static enum pod_reason read_text(const char *shape_text, const char *json,
                                 void *out, struct pod_err *err)
{
    const struct api_json_limits limits = {
        .depth = 40, .values = 1000, .any = true};
    struct pod_shape shape = shape_of(shape_text);
    struct api_memory memory = {.budget = NULL};
    json_t *value = NULL;
    *err = POD_ERR_NONE;
    assert_int_equal(
        api_json_parse(json, strlen(json), &limits, &memory, &value, err),
        POD_OK);
    enum pod_code code = api_values_read(value, &shape, "/values", out, err);
    api_memory_fini(&memory);
    return code == POD_OK ? POD_REASON_NONE : err->reason;
}

static void check_print(const char *shape_text, const void *data,
                        const char *want)
{
    struct pod_shape shape = shape_of(shape_text);
    struct pod_str text = {0};
    api_values_print(&shape, data, &text);
    assert_false(text.failed);
    assert_string_equal(text.data, want);
    pod_str_fini(&text);
}

// Reads a text, compares the bytes, and prints them back as `printed`.
static void check_both(const char *shape_text, const char *json,
                       const void *bytes, size_t size, const char *printed)
{
    unsigned char out[64];
    struct pod_err err;
    assert_int_equal(read_text(shape_text, json, out, &err), POD_REASON_NONE);
    assert_memory_equal(out, bytes, size);
    check_print(shape_text, bytes, printed);
}

static void check_refused(const char *shape_text, const char *json,
                          enum pod_reason reason, const char *pointer)
{
    unsigned char out[64];
    struct pod_err err;
    assert_int_equal(read_text(shape_text, json, out, &err), reason);
    assert_string_equal(err.pointer, pointer);
}

static void integers(void **state)
{
    (void)state;
    check_both("s8[3]", "[-128, 0, 127]", "\x80\x00\x7f", 3, "[-128,0,127]");
    check_both("u8[2]", "[0,255]", "\x00\xff", 2, "[0,255]");
    check_both("s16[2]", "[-32768,32767]", "\x00\x80\xff\x7f", 4,
               "[-32768,32767]");
    check_both("u16[1]", "[65535]", "\xff\xff", 2, "[65535]");
    check_both("s32[2]", "[-2147483648,2147483647]",
               "\x00\x00\x00\x80\xff\xff\xff\x7f", 8,
               "[-2147483648,2147483647]");
    check_both("u32[]", "4294967295", "\xff\xff\xff\xff", 4, "4294967295");
    check_both("s4[3]", "[-8,-1,7]", "\xf8\xff\x07", 3, "[-8,-1,7]");
    check_both("u4[2]", "[0,15]", "\x00\x0f", 2, "[0,15]");
    check_both("s2[2]", "[-2,1]", "\xfe\x01", 2, "[-2,1]");
}

static void wide_integers_are_strings(void **state)
{
    (void)state;
    static const char ends[] = "\x00\x00\x00\x00\x00\x00\x00\x80"
                               "\xff\xff\xff\xff\xff\xff\xff\x7f";
    const char *printed = "[\"-9223372036854775808\",\"9223372036854775807\"]";
    check_both("s64[2]", printed, ends, 16, printed);
    check_both("s64[2]", "[-9223372036854775808,9223372036854775807]", ends, 16,
               printed);
    check_both("u64[2]", "[0,18446744073709551615]",
               "\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 16,
               "[\"0\",\"18446744073709551615\"]");
    check_both("u64[]", "\"18446744073709551615\"",
               "\xff\xff\xff\xff\xff\xff\xff\xff", 8,
               "\"18446744073709551615\"");
}

static void out_of_range_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        const char *json;
    } cases[] = {
        {"s8[]", "128"},
        {"s8[]", "-129"},
        {"u8[]", "256"},
        {"u8[]", "-1"},
        {"s16[]", "32768"},
        {"u16[]", "65536"},
        {"s32[]", "2147483648"},
        {"s32[]", "99999999999999999999"},
        {"u32[]", "4294967296"},
        {"u32[]", "-1"},
        {"s64[]", "9223372036854775808"},
        {"s64[]", "\"9223372036854775808\""},
        {"s64[]", "\"-9223372036854775809\""},
        {"u64[]", "-1"},
        {"u64[]", "\"-1\""},
        {"u64[]", "18446744073709551616"},
        {"s4[]", "8"},
        {"u4[]", "16"},
        {"f16[]", "65520"},
        {"bf16[]", "3.4e38"},
        {"f32[]", "3.4028236e38"},
        {"f32[]", "-1e39"},
        {"f8e4m3fn[]", "\"Infinity\""},
        {"f8e4m3fn[]", "465"},
        {"f4e2m1fn[]", "\"NaN\""},
        {"f8e8m0fnu[]", "0"},
        {"f8e8m0fnu[]", "-1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_refused(cases[i].shape, cases[i].json, POD_REASON_OUT_OF_RANGE,
                      "/values");
}

static void wrong_types_are_refused(void **state)
{
    (void)state;
    check_refused("s32[2]", "[1, 1.5]", POD_REASON_WRONG_TYPE, "/values/1");
    check_refused("s32[2]", "[1, 1.0]", POD_REASON_WRONG_TYPE, "/values/1");
    check_refused("s32[1]", "[\"1\"]", POD_REASON_WRONG_TYPE, "/values/0");
    check_refused("s32[1]", "[true]", POD_REASON_WRONG_TYPE, "/values/0");
    check_refused("f32[1]", "[null]", POD_REASON_WRONG_TYPE, "/values/0");
    check_refused("f32[1]", "[[1]]", POD_REASON_WRONG_TYPE, "/values/0");
    check_refused("f32[1]", "[\"1\"]", POD_REASON_BAD_VALUE, "/values/0");
    check_refused("f32[1]", "[\"nan\"]", POD_REASON_BAD_VALUE, "/values/0");
    check_refused("pred[1]", "[1]", POD_REASON_WRONG_TYPE, "/values/0");
    check_refused("s64[1]", "[\"0x1\"]", POD_REASON_BAD_VALUE, "/values/0");
    check_refused("s64[1]", "[\" 1\"]", POD_REASON_BAD_VALUE, "/values/0");
    check_refused("s64[1]", "[\"01\"]", POD_REASON_BAD_VALUE, "/values/0");
    check_refused("s64[1]", "[\"\"]", POD_REASON_BAD_VALUE, "/values/0");
    check_refused("c64[1]", "[1]", POD_REASON_WRONG_TYPE, "/values/0");
    check_refused("c64[1]", "[[1,2,3]]", POD_REASON_WRONG_TYPE, "/values/0");
}

static void nesting_must_be_the_shapes(void **state)
{
    (void)state;
    const enum pod_reason mismatch = POD_REASON_SHAPE_MISMATCH;
    check_refused("f32[2,2]", "[[1,2],[3]]", mismatch, "/values/1");
    check_refused("f32[2,2]", "[[1,2],[3,4],[5,6]]", mismatch, "/values");
    check_refused("f32[2,2]", "[1,2]", mismatch, "/values/0");
    check_refused("f32[2,2]", "[[1,2],[3,4,5]]", mismatch, "/values/1");
    check_refused("f32[2]", "1", mismatch, "/values");
    check_refused("f32[0]", "[1]", mismatch, "/values");
    check_refused("f32[]", "[1]", POD_REASON_WRONG_TYPE, "/values");
    check_refused("f32[2,0]", "[[],[1]]", mismatch, "/values/1");
}

static void empty_arrays_and_rows(void **state)
{
    (void)state;
    check_both("f32[0]", "[]", "", 0, "[]");
    check_both("f32[2,0]", "[[],[]]", "", 0, "[[],[]]");
    check_both("f32[0,3]", "[]", "", 0, "[]");
    check_both("s8[2,1,2]", "[[[1,2]],[[3,4]]]", "\1\2\3\4", 4,
               "[[[1,2]],[[3,4]]]");
    check_both("pred[2]", "[true,false]", "\1\0", 2, "[true,false]");
}

static void floats_print_the_shortest_digits(void **state)
{
    (void)state;
    static const float f32[] = {
        1,         -0.0F,    0.1F,     1e-45F,   3.4028235e38F,
        123456792, 0x1p-24F, 16777216, 1.0F / 3, 1.17549435e-38F};
    check_print("f32[10]", f32,
                "[1,-0.0,0.1,1e-45,3.4028235e+38,1.2345679e+08,5.9604645e-08,"
                "16777216,0.33333334,1.1754944e-38]");
    static const double f64[] = {0.1,  5e-324, 0x1p-24, 1.7976931348623157e308,
                                 1e22, 0.3,    1e300,   123456789};
    check_print("f64[8]", f64,
                "[0.1,5e-324,5.960464477539063e-08,1.7976931348623157e+308,"
                "1e+22,0.3,1e+300,123456789]");
    // 0.1, 65504, 1e-7 and the least one.
    check_print("f16[4]", "\x66\x2e\xff\x7b\x02\x00\x01\x00",
                "[0.1,65504,1e-07,6e-08]");
    // 3.140625 and 1e30 rounded.
    check_print("bf16[2]", "\x49\x40\x4a\x71", "[3.14,1e+30]");
}

static void floats_round_to_nearest_even(void **state)
{
    (void)state;
    check_both("f16[4]", "[0.1,65504,65519.99,5.9604645e-08]",
               "\x66\x2e\xff\x7b\xff\x7b\x01\x00", 8,
               "[0.1,65504,65504,6e-08]");
    // 1 + 2^-8 and 1 + 3 * 2^-8 lie in the middle between two bf16.
    check_both("bf16[3]", "[1.00390625,1.01171875,1e30]",
               "\x80\x3f\x82\x3f\x4a\x71", 6, "[1,1.016,1e+30]");
    check_both("f32[2]", "[16777217,0.1]", "\x00\x00\x80\x4b\xcd\xcc\xcc\x3d",
               8, "[16777216,0.1]");
    check_both("f64[1]", "[9007199254740993]",
               "\x00\x00\x00\x00\x00\x00\x40\x43", 8, "[9007199254740992]");
    check_both("f64[1]", "[10000000000000000000000]",
               "\x92\xd5\x4d\x06\xcf\xf0\x80\x44", 8, "[1e+22]");
}

static void specials_are_strings(void **state)
{
    (void)state;
    const char *text = "[\"NaN\",\"Infinity\",\"-Infinity\"]";
    check_both("f32[3]", text, "\0\0\xc0\x7f\0\0\x80\x7f\0\0\x80\xff", 12,
               text);
    check_both("f16[3]", text, "\0\x7e\0\x7c\0\xfc", 6, text);
    check_both("bf16[3]", text, "\xc0\x7f\x80\x7f\x80\xff", 6, text);
    check_both("f8e5m2[3]", text, "\x7e\x7c\xfc", 3, text);
    check_both("f32[2]", "[-0.0,0.0]", "\0\0\0\x80\0\0\0\0", 8, "[-0.0,0]");
    check_both("c64[1]", "[[1,-2.5]]", "\0\0\x80\x3f\0\0\x20\xc0", 8,
               "[[1,-2.5]]");
}

static void small_floats(void **state)
{
    (void)state;
    // 448 is the greatest of e4m3fn, 2^-9 the least.
    check_both("f8e4m3fn[4]", "[448,1,-0.001953125,\"NaN\"]",
               "\x7e\x38\x81\x7f", 4, "[448,1,-0.002,\"NaN\"]");
    check_both("f8e5m2[2]", "[57344,1.25]", "\x7b\x3d", 2, "[57344,1.2]");
    // The lone NaN of FNUZ is where negative zero would be.
    check_both("f8e4m3fnuz[3]", "[240,-0.0,\"NaN\"]", "\x7f\x00\x80", 3,
               "[240,0,\"NaN\"]");
    check_both("f8e8m0fnu[3]", "[1,2,\"NaN\"]", "\x7f\x80\xff", 3,
               "[1,2,\"NaN\"]");
    check_both("f4e2m1fn[3]", "[6,-0.5,1.5]", "\x07\x09\x03", 3,
               "[6,-0.5,1.5]");
}

// Every code of the narrow types must survive printing and reading.
static void every_code_reads_back(void **state)
{
    (void)state;
    static const struct {
        enum pod_type type;
        unsigned codes;
    } types[] = {
        {POD_TYPE_F16, 65536},         {POD_TYPE_BF16, 65536},
        {POD_TYPE_F8E5M2, 256},        {POD_TYPE_F8E4M3, 256},
        {POD_TYPE_F8E3M4, 256},        {POD_TYPE_F8E4M3FN, 256},
        {POD_TYPE_F8E5M2FNUZ, 256},    {POD_TYPE_F8E4M3FNUZ, 256},
        {POD_TYPE_F8E4M3B11FNUZ, 256}, {POD_TYPE_F8E8M0FNU, 256},
        {POD_TYPE_F4E2M1FN, 16},       {POD_TYPE_F6E3M2FN, 64},
        {POD_TYPE_F6E2M3FN, 64},
    };
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        for (unsigned code = 0; code < types[t].codes; code++) {
            const unsigned char in[2] = {(unsigned char)code,
                                         (unsigned char)(code >> 8)};
            unsigned char out[2] = {0};
            char text[API_NUMBER_TEXT_BYTES];
            api_number_print_float(types[t].type, in, text);
            if (text[0] == '"')
                continue;
            assert_true(
                api_number_put_float(types[t].type, strtod(text, NULL), out));
            assert_memory_equal(in, out, pod_type_bytes(types[t].type));
        }
    }
}

static void wide_floats_read_back(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        // Knuth's MMIX generator; its high bits are good.
        seed = seed * UINT64_C(6364136223846793005) +
               UINT64_C(1442695040888963407);
        uint64_t bits = seed ^ (seed >> 32);
        enum pod_type type = i % 2 ? POD_TYPE_F64 : POD_TYPE_F32;
        unsigned char in[8];
        unsigned char out[8];
        char text[API_NUMBER_TEXT_BYTES];
        memcpy(in, &bits, 8);
        api_number_print_float(type, in, text);
        if (text[0] == '"')
            continue;
        assert_true(api_number_put_float(type, strtod(text, NULL), out));
        assert_memory_equal(in, out, pod_type_bytes(type));
    }
}

static void locale_does_not_matter(void **state)
{
    (void)state;
    static const double values[] = {0.5};
    char folder[] = "/tmp/podd-locale-XXXXXX";
    char command[128];

    // One that has a decimal comma is made for this: few machines have one.
    assert_non_null(mkdtemp(folder));
    (void)snprintf(command, sizeof(command),
                   "localedef -i de_DE -f UTF-8 --no-archive %s/de_DE.UTF-8",
                   folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(setenv("LOCPATH", folder, 1), 0);
    assert_non_null(setlocale(LC_NUMERIC, "de_DE.UTF-8"));
    assert_string_equal(localeconv()->decimal_point, ",");
    check_print("f64[1]", values, "[0.5]");
    (void)setlocale(LC_NUMERIC, "C");
    (void)unsetenv("LOCPATH");
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void limits_of_lists(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        bool fits;
    } cases[] = {
        {"f32[]", true},          {"f32[200000]", true},
        {"f32[200001]", false},   {"f32[400,500]", true},
        {"f32[401,500]", false},  {"f32[0,9999999]", true},
        {"f32[200001,0]", false}, {"f32[9999999,9999999,0]", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pod_shape shape = shape_of(cases[i].shape);
        assert_int_equal(api_values_fit(&shape), cases[i].fits);
    }
}

static void one_element(void **state)
{
    (void)state;
    unsigned char out[16] = {0};
    struct pod_err err = POD_ERR_NONE;
    json_t *value = json_integer(-7);
    assert_int_equal(
        api_values_read_one(value, POD_TYPE_S32, "/fill", out, &err), POD_OK);
    assert_memory_equal(out, "\xf9\xff\xff\xff", 4);
    assert_int_not_equal(
        api_values_read_one(value, POD_TYPE_U32, "/fill", out, &err), POD_OK);
    assert_string_equal(err.pointer, "/fill");
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(wide_integers_are_strings),
        cmocka_unit_test(out_of_range_is_refused),
        cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(nesting_must_be_the_shapes),
        cmocka_unit_test(empty_arrays_and_rows),
        cmocka_unit_test(floats_print_the_shortest_digits),
        cmocka_unit_test(floats_round_to_nearest_even),
        cmocka_unit_test(specials_are_strings),
        cmocka_unit_test(small_floats),
        cmocka_unit_test(every_code_reads_back),
        cmocka_unit_test(wide_floats_read_back),
        cmocka_unit_test(locale_does_not_matter),
        cmocka_unit_test(limits_of_lists),
        cmocka_unit_test(one_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
