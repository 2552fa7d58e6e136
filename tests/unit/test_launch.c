// SPDX-License-Identifier: Apache-2.0
// The check of a launch: counts, types, dimensions, tuples, raw buffers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/hlo/launch.h"

static struct pod_shape parse(const char *text)
{
    struct pod_shape shape;

    assert_int_equal(pod_shape_parse(text, strlen(text), &shape, NULL), POD_OK);
    return shape;
}

// The signature (f32[2,3], (s32[4], pred[])) -> result.
struct signature {
    struct pod_shape parameters[2];
    struct pod_program_shape shape;
};

static void sign(struct signature *signature, const char *result)
{
    signature->parameters[0] = parse("f32[2,3]{1,0}");
    signature->parameters[1] = parse("(s32[4]{0}, pred[])");
    signature->shape =
        (struct pod_program_shape){.count = 2,
                                   .parameters = signature->parameters,
                                   .result = parse(result)};
}

static void unsign(struct signature *signature)
{
    pod_shape_fini(&signature->parameters[1]);
    pod_shape_fini(&signature->shape.result);
}

// Buffers that fit.
struct buffers {
    struct pod_shape shapes[3];
    struct pod_launch_value children[2];
    struct pod_launch_value inputs[2];
    struct pod_launch_value output;
};

static struct pod_launch_value array(const struct pod_shape *shape)
{
    return (struct pod_launch_value){.shape = shape,
                                     .bytes = (uint64_t)pod_shape_bytes(shape)};
}

static void fit(struct buffers *buffers)
{
    buffers->shapes[0] = parse("f32[2,3]{0,1}"); // the layout does not matter
    buffers->shapes[1] = parse("s32[4]");
    buffers->shapes[2] = parse("pred[]");
    buffers->children[0] = array(&buffers->shapes[1]);
    buffers->children[1] = array(&buffers->shapes[2]);
    buffers->inputs[0] = array(&buffers->shapes[0]);
    buffers->inputs[1] = (struct pod_launch_value){
        .is_tuple = true, .children = buffers->children, .child_count = 2};
    buffers->output = array(&buffers->shapes[0]);
}

static enum pod_code check(const struct signature *signature,
                           const struct buffers *buffers, struct pod_err *err)
{
    return pod_check_launch(&signature->shape, buffers->inputs, 2,
                            &buffers->output, 1, err);
}

static void test_fits(void **state)
{
    struct signature signature;
    struct buffers buffers;

    (void)state;
    sign(&signature, "f32[2,3]");
    fit(&buffers);
    assert_int_equal(check(&signature, &buffers, NULL), POD_OK);
    // Raw buffers fit by their size.
    buffers.inputs[0].shape = NULL;
    buffers.children[1].shape = NULL;
    assert_int_equal(check(&signature, &buffers, NULL), POD_OK);
    unsign(&signature);
}

static void test_input_mismatch(void **state)
{
    static const char *const wrong[] = {"f32[3,2]", "s32[2,3]", "f32[2,3,1]",
                                        "f32[6]"};
    struct signature signature;
    struct buffers buffers;
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    sign(&signature, "f32[2,3]");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct pod_shape other = parse(wrong[i]);
        fit(&buffers);
        buffers.inputs[0] = array(&other);
        assert_int_equal(check(&signature, &buffers, &err),
                         POD_INVALID_ARGUMENT);
        assert_int_equal(err.reason, POD_REASON_SHAPE_MISMATCH);
        assert_string_equal(err.pointer, "/inputs/0");
        assert_non_null(strstr(err.text, wrong[i]));
        assert_non_null(strstr(err.text, "f32[2,3]"));
    }
    unsign(&signature);
}

static void test_raw_mismatch(void **state)
{
    struct signature signature;
    struct buffers buffers;
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    sign(&signature, "f32[2,3]");
    fit(&buffers);
    buffers.inputs[0] = (struct pod_launch_value){.bytes = 23};
    assert_int_equal(check(&signature, &buffers, &err), POD_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "24"));
    assert_non_null(strstr(err.text, "23"));
    unsign(&signature);
}

static void test_tuple_mismatch(void **state)
{
    struct signature signature;
    struct buffers buffers;
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    sign(&signature, "f32[2,3]");
    fit(&buffers);
    buffers.inputs[1].child_count = 1;
    assert_int_equal(check(&signature, &buffers, &err), POD_INVALID_ARGUMENT);
    assert_string_equal(err.pointer, "/inputs/1");
    fit(&buffers);
    buffers.inputs[1] = array(&buffers.shapes[1]); // no tuple
    assert_int_equal(check(&signature, &buffers, &err), POD_INVALID_ARGUMENT);
    assert_string_equal(err.pointer, "/inputs/1");
    fit(&buffers);
    buffers.inputs[0] = buffers.inputs[1]; // no array
    assert_int_equal(check(&signature, &buffers, &err), POD_INVALID_ARGUMENT);
    assert_string_equal(err.pointer, "/inputs/0");
    fit(&buffers);
    buffers.children[1] = array(&buffers.shapes[1]); // a wrong element
    assert_int_equal(check(&signature, &buffers, &err), POD_INVALID_ARGUMENT);
    assert_string_equal(err.pointer, "/inputs/1");
    assert_non_null(strstr(err.text, "element 1"));
    unsign(&signature);
}

static void test_counts(void **state)
{
    struct signature signature;
    struct buffers buffers;
    struct pod_launch_value outputs[2];
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    sign(&signature, "f32[2,3]");
    fit(&buffers);
    assert_int_equal(pod_check_launch(&signature.shape, buffers.inputs, 1,
                                      &buffers.output, 1, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_COUNT_MISMATCH);
    assert_string_equal(err.pointer, "/inputs");
    outputs[0] = buffers.output;
    outputs[1] = buffers.output;
    assert_int_equal(
        pod_check_launch(&signature.shape, buffers.inputs, 2, outputs, 2, &err),
        POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_COUNT_MISMATCH);
    assert_string_equal(err.pointer, "/outputs");
    assert_int_equal(
        pod_check_launch(&signature.shape, buffers.inputs, 2, NULL, 0, &err),
        POD_INVALID_ARGUMENT);
    unsign(&signature);
}

// A tuple result goes to one tuple buffer or to its leaves.
static void test_tuple_result(void **state)
{
    struct signature signature;
    struct buffers buffers;
    struct pod_launch_value outputs[3];
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    sign(&signature, "(f32[2,3], (s32[4], pred[]))");
    fit(&buffers);
    outputs[0] = array(&buffers.shapes[0]);
    outputs[1] = array(&buffers.shapes[1]);
    outputs[2] = array(&buffers.shapes[2]);
    assert_int_equal(
        pod_check_launch(&signature.shape, buffers.inputs, 2, outputs, 3, &err),
        POD_OK);
    outputs[2] = array(&buffers.shapes[1]);
    assert_int_equal(
        pod_check_launch(&signature.shape, buffers.inputs, 2, outputs, 3, &err),
        POD_INVALID_ARGUMENT);
    assert_string_equal(err.pointer, "/outputs/2");
    outputs[1] = buffers.inputs[1];
    buffers.output = (struct pod_launch_value){
        .is_tuple = true, .children = outputs, .child_count = 2};
    assert_int_equal(check(&signature, &buffers, &err), POD_OK);
    outputs[1] = outputs[0];
    assert_int_equal(check(&signature, &buffers, &err), POD_INVALID_ARGUMENT);
    assert_string_equal(err.pointer, "/outputs/0");
    unsign(&signature);
}

static void test_empty_result(void **state)
{
    struct signature signature;
    struct buffers buffers;

    (void)state;
    sign(&signature, "()");
    fit(&buffers);
    assert_int_equal(
        pod_check_launch(&signature.shape, buffers.inputs, 2, NULL, 0, NULL),
        POD_OK);
    buffers.output = (struct pod_launch_value){.is_tuple = true};
    assert_int_equal(check(&signature, &buffers, NULL), POD_OK);
    unsign(&signature);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fits),
        cmocka_unit_test(test_input_mismatch),
        cmocka_unit_test(test_raw_mismatch),
        cmocka_unit_test(test_tuple_mismatch),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_tuple_result),
        cmocka_unit_test(test_empty_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
