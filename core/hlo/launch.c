// SPDX-License-Identifier: Apache-2.0
#include "core/hlo/launch.h"

enum { LAUNCH_TEXT = 96 };

static enum pod_code launch_check_array(const struct pod_shape *want,
                                        const struct pod_launch_value *value,
                                        struct pod_err *err)
{
    char wanted[LAUNCH_TEXT];
    char given[LAUNCH_TEXT];

    pod_shape_brief(want, wanted, sizeof(wanted));
    if (value->is_tuple)
        return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                           "the program wants %s, the buffer is a tuple",
                           wanted);
    if (value->shape == NULL) {
        uint64_t bytes = (uint64_t)pod_shape_bytes(want);
        if (value->bytes == bytes)
            return POD_OK;
        return pod_err_set(
            err, POD_REASON_SHAPE_MISMATCH,
            "the program wants %s of %llu bytes, the buffer has %llu", wanted,
            (unsigned long long)bytes, (unsigned long long)value->bytes);
    }
    if (pod_shape_equal(want, value->shape))
        return POD_OK;
    return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                       "the program wants %s, the buffer is %s", wanted,
                       pod_shape_brief(value->shape, given, sizeof(given)));
}

static enum pod_code launch_check_value(const struct pod_shape *want,
                                        const struct pod_launch_value *value,
                                        struct pod_err *err)
{
    char wanted[LAUNCH_TEXT];

    if (want->type != POD_TYPE_TUPLE)
        return launch_check_array(want, value, err);
    pod_shape_brief(want, wanted, sizeof(wanted));
    if (!value->is_tuple)
        return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                           "the program wants the tuple %s, the buffer is an "
                           "array",
                           wanted);
    if (value->child_count != want->child_count)
        return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                           "the program wants the tuple %s of %zu, the buffer "
                           "is a tuple of %zu",
                           wanted, want->child_count, value->child_count);
    for (size_t i = 0; i < want->child_count; i++) {
        enum pod_code code =
            launch_check_value(&want->children[i], &value->children[i], err);
        if (code != POD_OK) {
            pod_err_wrap(err, "element %zu", i);
            return code;
        }
    }
    return POD_OK;
}

// Checks outputs that stand for the leaves of a tuple, from *next on.
static enum pod_code launch_check_leaves(const struct pod_shape *want,
                                         const struct pod_launch_value *outputs,
                                         size_t *next, struct pod_err *err)
{
    if (want->type != POD_TYPE_TUPLE) {
        size_t index = (*next)++;
        enum pod_code code = launch_check_array(want, &outputs[index], err);
        if (code != POD_OK)
            pod_err_at(err, "/outputs/%zu", index);
        return code;
    }
    for (size_t i = 0; i < want->child_count; i++) {
        enum pod_code code =
            launch_check_leaves(&want->children[i], outputs, next, err);
        if (code != POD_OK)
            return code;
    }
    return POD_OK;
}

static enum pod_code launch_check_inputs(const struct pod_program_shape *shape,
                                         const struct pod_launch_value *inputs,
                                         size_t input_count,
                                         struct pod_err *err)
{
    if (input_count != shape->count) {
        enum pod_code code =
            pod_err_set(err, POD_REASON_COUNT_MISMATCH,
                        "the program has %zu parameters, %zu inputs are given",
                        shape->count, input_count);
        pod_err_at(err, "/inputs");
        return code;
    }
    for (size_t i = 0; i < input_count; i++) {
        enum pod_code code =
            launch_check_value(&shape->parameters[i], &inputs[i], err);
        if (code != POD_OK) {
            pod_err_at(err, "/inputs/%zu", i);
            return code;
        }
    }
    return POD_OK;
}

static enum pod_code
launch_check_outputs(const struct pod_shape *result,
                     const struct pod_launch_value *outputs,
                     size_t output_count, struct pod_err *err)
{
    size_t leaves = pod_shape_leaves(result);
    size_t next = 0;
    enum pod_code code;

    if (output_count == 1 &&
        (outputs[0].is_tuple || result->type != POD_TYPE_TUPLE)) {
        code = launch_check_value(result, &outputs[0], err);
        if (code != POD_OK)
            pod_err_at(err, "/outputs/0");
        return code;
    }
    if (output_count == leaves)
        return launch_check_leaves(result, outputs, &next, err);
    code = pod_err_set(err, POD_REASON_COUNT_MISMATCH,
                       "the program has %zu results, %zu outputs are given",
                       leaves, output_count);
    pod_err_at(err, "/outputs");
    return code;
}

enum pod_code pod_check_launch(const struct pod_program_shape *shape,
                               const struct pod_launch_value *inputs,
                               size_t input_count,
                               const struct pod_launch_value *outputs,
                               size_t output_count, struct pod_err *err)
{
    enum pod_code code = launch_check_inputs(shape, inputs, input_count, err);

    if (code != POD_OK)
        return code;
    return launch_check_outputs(&shape->result, outputs, output_count, err);
}
