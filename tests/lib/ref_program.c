// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/device/reference/half.h"
#include "core/device/reference/reference.h"
#include "tests/lib/ref_program.h"

static struct pod_device *device;

int ref_setup(void **state)
{
    const struct pod_reference_options options = {.core_count = REF_CORES,
                                                  .memory_bytes = 16 << 20};

    (void)state;
    return pod_reference_device_new(&options, &device, NULL);
}

int ref_teardown(void **state)
{
    (void)state;
    device->ops->free(device);
    return pod_mem_live() == 0 ? 0 : -1;
}

struct pod_device *ref_device(void)
{
    return device;
}

struct pod_device *ref_make_device(struct pod_reference_options options)
{
    struct pod_device *made;

    assert_int_equal(pod_reference_device_new(&options, &made, NULL), POD_OK);
    return made;
}

uint64_t ref_used(struct pod_device *of, uint32_t core)
{
    struct pod_device_memory memory;

    of->ops->memory(of, core, &memory);
    return memory.used;
}

struct pod_blob *ref_given_up(size_t size, int value)
{
    struct pod_blob *blob = pod_blob_new(size);

    assert_non_null(blob);
    memset(blob->data, value, size);
    pod_blob_give_up(blob);
    return blob;
}

struct pod_device_program *ref_compile(const char *text, uint32_t replicas)
{
    struct pod_device_program *program = NULL;
    struct pod_err err = POD_ERR_NONE;

    if (device->ops->compile(device, POD_FORMAT_HLO_TEXT, text, strlen(text),
                             replicas, &program, &err) != POD_OK)
        fail_msg("line %d: %s\n%s", err.line, err.text, text);
    return program;
}

enum pod_code ref_refused(const char *text, uint32_t replicas,
                          struct pod_err *err)
{
    struct pod_device_program *program;
    enum pod_code code =
        device->ops->compile(device, POD_FORMAT_HLO_TEXT, text, strlen(text),
                             replicas, &program, err);

    if (code == POD_OK)
        fail_msg("was not refused:\n%s", text);
    return code;
}

static double ref_number(enum pod_type type, const unsigned char *data)
{
    uint16_t half;
    float f32;
    double f64;

    if (type == POD_TYPE_F64) {
        memcpy(&f64, data, sizeof(f64));
        return f64;
    }
    if (type == POD_TYPE_F32) {
        memcpy(&f32, data, sizeof(f32));
        return (double)f32;
    }
    memcpy(&half, data, sizeof(half));
    return type == POD_TYPE_F16 ? (double)pod_ref_from_f16(half)
                                : (double)pod_ref_from_bf16(half);
}

static bool ref_same(enum pod_type type, const unsigned char *got,
                     const unsigned char *want, double rtol)
{
    double a;
    double b;

    if (memcmp(got, want, pod_type_bytes(type)) == 0)
        return true;
    if (!pod_type_is_float(type))
        return false;
    a = ref_number(type, got);
    b = ref_number(type, want);
    if (isnan(a) && isnan(b))
        return true;
    return rtol > 0 && fabs(a - b) <= rtol * fabs(b);
}

void ref_compare(const struct ref_array *got, const struct ref_array *wanted,
                 double rtol, const char *text)
{
    size_t size = pod_type_bytes(wanted->type);
    const unsigned char *a = got->data;
    const unsigned char *b = wanted->data;
    uint64_t bits[2];

    assert_int_equal(got->type, wanted->type);
    if (got->bytes != wanted->bytes)
        fail_msg("%zu bytes, not %zu\n%s", got->bytes, wanted->bytes, text);
    for (size_t i = 0; i * size < wanted->bytes; i++) {
        if (ref_same(wanted->type, a + i * size, b + i * size, rtol))
            continue;
        memset(bits, 0, sizeof(bits));
        memcpy(&bits[0], a + i * size, size);
        memcpy(&bits[1], b + i * size, size);
        if (pod_type_is_float(wanted->type))
            print_message("%g, not %g\n",
                          ref_number(wanted->type, a + i * size),
                          ref_number(wanted->type, b + i * size));
        fail_msg("element %zu is 0x%llx, not 0x%llx\n%s", i,
                 (unsigned long long)bits[0], (unsigned long long)bits[1],
                 text);
    }
}

// The arrays of a result, depth first.
static size_t ref_leaves(const struct pod_shape *shape,
                         const struct pod_shape **leaves, size_t count)
{
    if (shape->type != POD_TYPE_TUPLE) {
        assert_true(count < REF_MAX_VALUES);
        leaves[count] = shape;
        return count + 1;
    }
    for (size_t i = 0; i < shape->child_count; i++)
        count = ref_leaves(&shape->children[i], leaves, count);
    return count;
}

struct ref_buffers {
    struct pod_device_buffer *buffers[REF_MAX_VALUES];
    size_t count;
};

static void ref_release(struct ref_buffers *all)
{
    for (size_t i = 0; i < all->count; i++)
        device->ops->release(device, all->buffers[i]);
}

static void ref_compare_outputs(const struct ref_buffers *outputs,
                                const struct pod_shape *const *leaves,
                                const struct ref_array *wanted, double rtol,
                                const char *text)
{
    for (size_t i = 0; i < outputs->count; i++) {
        struct ref_array got = {leaves[i]->type, NULL,
                                (size_t)pod_shape_bytes(leaves[i])};
        void *data = malloc(got.bytes + 1);
        assert_non_null(data);
        assert_int_equal(device->ops->read(device, outputs->buffers[i], 0, data,
                                           got.bytes, NULL, NULL),
                         POD_OK);
        got.data = data;
        ref_compare(&got, &wanted[i], rtol, text);
        free(data);
    }
}

void ref_check_close(const char *text, const struct ref_array *inputs,
                     size_t input_count, const struct ref_array *wanted,
                     size_t wanted_count, double rtol)
{
    struct pod_device_program *program = ref_compile(text, 1);
    const struct pod_program_shape *shape = device->ops->program_shape(program);
    const struct pod_shape *leaves[REF_MAX_VALUES];
    struct ref_buffers in = {.count = input_count};
    struct ref_buffers out = {.count = wanted_count};
    struct pod_interrupt interrupt = {.asked = false};
    struct pod_err err = POD_ERR_NONE;
    struct pod_device_launch launch = {.program = program,
                                       .inputs = in.buffers,
                                       .input_count = input_count,
                                       .outputs = out.buffers,
                                       .output_count = wanted_count,
                                       .replica_count = 1,
                                       .interrupt = &interrupt};

    assert_int_equal(shape->count, input_count);
    assert_int_equal(ref_leaves(&shape->result, leaves, 0), wanted_count);
    for (size_t i = 0; i < input_count; i++) {
        assert_int_equal(pod_shape_bytes(&shape->parameters[i]),
                         inputs[i].bytes);
        assert_int_equal(device->ops->allocate(device, 0, &shape->parameters[i],
                                               0, &in.buffers[i], NULL),
                         POD_OK);
        assert_int_equal(device->ops->write(device, in.buffers[i], 0,
                                            inputs[i].data, inputs[i].bytes,
                                            NULL, NULL),
                         POD_OK);
    }
    for (size_t i = 0; i < wanted_count; i++)
        assert_int_equal(device->ops->allocate(device, 0, leaves[i], 0,
                                               &out.buffers[i], NULL),
                         POD_OK);
    if (device->ops->execute(device, &launch, &err) != POD_OK)
        fail_msg("%s\n%s", err.text, text);
    ref_compare_outputs(&out, leaves, wanted, rtol, text);
    ref_release(&in);
    ref_release(&out);
    device->ops->program_free(device, program);
}

void ref_check(const char *text, const struct ref_array *inputs,
               size_t input_count, const struct ref_array *wanted,
               size_t wanted_count)
{
    ref_check_close(text, inputs, input_count, wanted, wanted_count, 0);
}

void ref_check_op_close(const char *instr, const struct ref_array *inputs,
                        size_t input_count, struct ref_array wanted,
                        double rtol)
{
    char text[1024];
    size_t length = 0;

    length += (size_t)snprintf(text, sizeof(text), "HloModule t\nENTRY e {\n");
    for (size_t i = 0; i < input_count; i++)
        length += (size_t)snprintf(
            text + length, sizeof(text) - length,
            "  %c = %s[%zu] parameter(%zu)\n", (char)('a' + (int)i),
            pod_type_name(inputs[i].type),
            inputs[i].bytes / pod_type_bytes(inputs[i].type), i);
    length += (size_t)snprintf(
        text + length, sizeof(text) - length, "  ROOT r = %s[%zu] %s\n}\n",
        pod_type_name(wanted.type), wanted.bytes / pod_type_bytes(wanted.type),
        instr);
    assert_true(length < sizeof(text));
    ref_check_close(text, inputs, input_count, &wanted, 1, rtol);
}

void ref_check_op(const char *instr, const struct ref_array *inputs,
                  size_t input_count, struct ref_array wanted)
{
    ref_check_op_close(instr, inputs, input_count, wanted, 0);
}
