// SPDX-License-Identifier: Apache-2.0
// The reference device itself: memory, limits, refusals, outputs that are
// inputs, and what happens without memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/device/reference/reference.h"
#include "tests/lib/ref_program.h"

// --------------------------------------------------------------------- memory

static void test_info(void **state)
{
    struct pod_device *device = ref_make_device(
        (struct pod_reference_options){.core_count = 3, .memory_bytes = 1000});
    struct pod_device_info info;

    (void)state;
    device->ops->info(device, &info);
    assert_string_equal(info.platform, "reference");
    assert_int_equal(info.core_count, 3);
    assert_int_equal(info.memory_bytes, 1000);
    assert_int_equal(info.accepts,
                     1U << POD_FORMAT_HLO_TEXT | 1U << POD_FORMAT_HLO_PROTO);
    device->ops->free(device);
}

static void test_account(void **state)
{
    struct pod_device *device = ref_make_device(
        (struct pod_reference_options){.core_count = 2, .memory_bytes = 1000});
    struct pod_device_buffer *first;
    struct pod_device_buffer *second;
    struct pod_device_buffer *tuple;
    struct pod_err err = POD_ERR_NONE;
    struct pod_shape shape;
    const int64_t dims[] = {10, 20};

    (void)state;
    assert_int_equal(pod_shape_array(&shape, POD_TYPE_F32, 2, dims, NULL),
                     POD_OK);
    assert_int_equal(device->ops->allocate(device, 0, &shape, 0, &first, NULL),
                     POD_OK);
    assert_int_equal(ref_used(device, 0), 800);
    assert_int_equal(ref_used(device, 1), 0);
    assert_int_equal(device->ops->allocate(device, 0, NULL, 201, &second, &err),
                     POD_RESOURCE_EXHAUSTED);
    assert_int_equal(err.reason, POD_REASON_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.text, "201 bytes were asked for"));
    assert_non_null(strstr(err.text, "200 are free"));
    assert_int_equal(device->ops->allocate(device, 0, NULL, 200, &second, NULL),
                     POD_OK);
    assert_int_equal(ref_used(device, 0), 1000);
    assert_int_equal(device->ops->allocate_tuple(
                         device, 0,
                         (struct pod_device_buffer *[]){first, second, first},
                         3, &tuple, NULL),
                     POD_OK);
    assert_int_equal(ref_used(device, 0), 1000);
    device->ops->release(device, tuple);
    device->ops->release(device, first);
    assert_int_equal(ref_used(device, 0), 200);
    device->ops->release(device, second);
    device->ops->release(device, NULL);
    assert_int_equal(ref_used(device, 0), 0);
    device->ops->free(device);
}

static void test_absurd_sizes(void **state)
{
    struct pod_device *device = ref_make_device((struct pod_reference_options){
        .core_count = 1, .memory_bytes = (uint64_t)INT64_MAX});
    struct pod_device_buffer *buffer;
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    // The core has room, the machine has not.
    pod_mem_fail_after(1, 1);
    assert_int_equal(device->ops->allocate(device, 0, NULL, (uint64_t)INT64_MAX,
                                           &buffer, &err),
                     POD_RESOURCE_EXHAUSTED);
    pod_mem_fail_after(-1, 0);
    assert_non_null(strstr(err.text, "machine"));
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, UINT64_MAX, &buffer, &err),
        POD_RESOURCE_EXHAUSTED);
    assert_int_equal(ref_used(device, 0), 0);
    assert_int_equal(device->ops->allocate(device, 1, NULL, 1, &buffer, &err),
                     POD_NOT_FOUND);
    device->ops->free(device);
}

static void test_options(void **state)
{
    static const struct pod_reference_options wrong[] = {
        {.core_count = 0, .memory_bytes = 1},
        {.core_count = POD_REF_MAX_CORES + 1, .memory_bytes = 1},
        {.core_count = 1, .memory_bytes = UINT64_MAX},
        {.core_count = 1, .memory_bytes = 1, .latency_ns = -1},
        {.core_count = 1, .memory_bytes = 1, .bandwidth = -1},
        {.core_count = 1, .memory_bytes = 1, .flops = -1},
    };
    struct pod_device *device;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(pod_reference_device_new(&wrong[i], &device, NULL),
                         POD_INVALID_ARGUMENT);
}

static void test_transfers(void **state)
{
    struct pod_device *device = ref_device();
    struct pod_device_buffer *from;
    struct pod_device_buffer *to;
    unsigned char got[8];

    (void)state;
    assert_int_equal(device->ops->allocate(device, 0, NULL, 8, &from, NULL),
                     POD_OK);
    assert_int_equal(device->ops->allocate(device, 1, NULL, 8, &to, NULL),
                     POD_OK);
    assert_int_equal(device->ops->write(device, from, 2, "abc", 3, NULL, NULL),
                     POD_OK);
    assert_int_equal(device->ops->copy(device, from, to, NULL, NULL), POD_OK);
    assert_int_equal(device->ops->read(device, to, 0, got, 8, NULL, NULL),
                     POD_OK);
    assert_memory_equal(got, "\0\0abc\0\0\0", 8);
    assert_int_equal(device->ops->read(device, to, 3, got, 2, NULL, NULL),
                     POD_OK);
    assert_memory_equal(got, "bc", 2);
    device->ops->release(device, from);
    device->ops->release(device, to);
}

// Big ones are copied in another way: piece by piece, wherever they lie, and
// what lies between them stays.
static void test_big_transfers(void **state)
{
    enum { BIG = (8 << 20) + 5, PIECE = (1 << 20) + 3, FIRST = 13 };
    struct pod_device *device = ref_device();
    unsigned char *bytes = pod_calloc(1, BIG);
    unsigned char *got = pod_malloc(BIG);
    struct pod_device_buffer *buffer;

    (void)state;
    assert_non_null(bytes);
    assert_non_null(got);
    assert_int_equal(device->ops->allocate(device, 0, NULL, BIG, &buffer, NULL),
                     POD_OK);
    for (size_t at = FIRST; at + PIECE <= BIG; at += PIECE + 7) {
        for (size_t i = 0; i < PIECE; i++)
            bytes[at + i] = (unsigned char)((at + i) % 251 + 1);
        assert_int_equal(device->ops->write(device, buffer, at, bytes + at,
                                            PIECE, NULL, NULL),
                         POD_OK);
    }
    bytes[BIG - 1] = 9;
    assert_int_equal(device->ops->write(device, buffer, BIG - 1,
                                        bytes + BIG - 1, 1, NULL, NULL),
                     POD_OK);
    assert_int_equal(device->ops->read(device, buffer, 0, got, BIG, NULL, NULL),
                     POD_OK);
    assert_memory_equal(got, bytes, BIG);
    device->ops->release(device, buffer);
    pod_free(got);
    pod_free(bytes);
}

// ------------------------------------------------------------------- refusals

static void test_unimplemented(void **state)
{
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    assert_int_equal(ref_refused("HloModule t\nENTRY e {\n"
                                 "  a = f32[2] parameter(0)\n"
                                 "  ROOT wave = f32[2] sine(a)\n}\n",
                                 1, &err),
                     POD_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "\"wave\""));
    assert_non_null(strstr(err.text, "sine"));
    assert_non_null(strstr(err.text, "\"reference\""));
    assert_int_equal(err.line, 4);
    assert_int_equal(ref_refused("HloModule t\nENTRY e {\n"
                                 "  a = s16[2] parameter(0)\n"
                                 "  ROOT b = s16[2] add(a, a)\n}\n",
                                 1, &err),
                     POD_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "s16"));
    assert_int_equal(err.line, 3);
    // Also where it makes no difference to the result.
    assert_int_equal(ref_refused("HloModule t\nENTRY e {\n"
                                 "  a = f32[2] parameter(0)\n"
                                 "  b = f32[2] cosine(a)\n"
                                 "  ROOT c = f32[2] add(a, a)\n}\n",
                                 1, &err),
                     POD_UNIMPLEMENTED);
}

static void test_replica_counts(void **state)
{
    const char *text = "HloModule t\nENTRY e {\n"
                       "  ROOT a = f32[2] parameter(0)\n}\n";
    struct pod_err err = POD_ERR_NONE;
    struct pod_device_program *program = ref_compile(text, 2);
    struct pod_device_launch launch = {.program = program, .replica_count = 1};

    (void)state;
    assert_int_equal(ref_refused(text, 0, &err), POD_INVALID_ARGUMENT);
    assert_int_equal(ref_refused(text, 65537, &err), POD_INVALID_ARGUMENT);
    assert_int_equal(ref_device()->ops->execute(ref_device(), &launch, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_BAD_ASSIGNMENT);
    ref_device()->ops->program_free(ref_device(), program);
}

// What is between inputs and outputs is limited, whatever the shapes say.
static void test_scratch_limit(void **state)
{
    struct pod_device *device = ref_make_device((struct pod_reference_options){
        .core_count = 1, .memory_bytes = 1000, .scratch_bytes = 1 << 20});
    const char *head = "HloModule t\nENTRY e {\n  a = f32[] parameter(0)\n";
    static const char *const bodies[] = {
        "  b = f32[1000000,1000000] broadcast(a), dimensions={}\n"
        "  c = f32[1000000,1000000] add(b, b)\n"
        "  d = f32[1,1] slice(c), slice={[0:1], [0:1]}\n",
        "  b = f32[300000] broadcast(a), dimensions={}\n"
        "  c = f32[300000] exponential(b)\n"
        "  d = f32[1] slice(c), slice={[0:1]}\n",
    };
    struct pod_device_program *program;
    struct pod_err err = POD_ERR_NONE;
    char text[512];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), "%s%s  ROOT r = f32[] reshape(d)\n}\n",
                 head, bodies[i]);
        assert_int_equal(device->ops->compile(device, POD_FORMAT_HLO_TEXT, text,
                                              strlen(text), 1, &program, &err),
                         POD_RESOURCE_EXHAUSTED);
    }
    snprintf(text, sizeof(text),
             "%s  b = f32[200000] broadcast(a), dimensions={}\n"
             "  c = f32[200000] exponential(b)\n"
             "  d = f32[1] slice(c), slice={[0:1]}\n"
             "  ROOT r = f32[] reshape(d)\n}\n",
             head);
    assert_int_equal(device->ops->compile(device, POD_FORMAT_HLO_TEXT, text,
                                          strlen(text), 1, &program, &err),
                     POD_OK);
    device->ops->program_free(device, program);
    device->ops->free(device);
}

// Ten thousand steps need no more memory than a few.
static void test_memory_is_reused(void **state)
{
    struct pod_device *device = ref_make_device((struct pod_reference_options){
        .core_count = 1, .memory_bytes = 1000, .scratch_bytes = 64 << 10});
    struct pod_device_program *program;
    struct pod_str text = {NULL, 0, 0, false};
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    pod_str_puts(&text, "HloModule t\nENTRY e {\n"
                        "  v0 = f32[1000] parameter(0)\n"
                        "  v1 = f32[1000] negate(v0)\n");
    for (int i = 2; i < 10000; i++)
        pod_str_printf(&text, "  v%d = f32[1000] %s(v%d, v%d)\n", i,
                       i % 3 == 0 ? "add" : "multiply", i - 1, i - 2);
    pod_str_puts(&text, "}\n");
    assert_false(text.failed);
    if (device->ops->compile(device, POD_FORMAT_HLO_TEXT, text.data,
                             text.length, 1, &program, &err) != POD_OK)
        fail_msg("%s", err.text);
    device->ops->program_free(device, program);
    pod_str_fini(&text);
    device->ops->free(device);
}

// ------------------------------------------------------------------- launches

// Allocates an array of s32 with two values.
static struct pod_device_buffer *pair(int32_t first, int32_t second)
{
    const int32_t values[] = {first, second};
    struct pod_device_buffer *buffer;

    assert_int_equal(ref_device()->ops->allocate(ref_device(), 0, NULL,
                                                 sizeof(values), &buffer, NULL),
                     POD_OK);
    assert_int_equal(ref_device()->ops->write(ref_device(), buffer, 0, values,
                                              sizeof(values), NULL, NULL),
                     POD_OK);
    return buffer;
}

static void assert_pair(struct pod_device_buffer *buffer, int32_t first,
                        int32_t second)
{
    int32_t values[2];

    assert_int_equal(ref_device()->ops->read(ref_device(), buffer, 0, values,
                                             sizeof(values), NULL, NULL),
                     POD_OK);
    assert_int_equal(values[0], first);
    assert_int_equal(values[1], second);
}

static enum pod_code run_pairs(const char *text,
                               struct pod_device_buffer *const *inputs,
                               size_t input_count,
                               struct pod_device_buffer *const *outputs,
                               size_t output_count, struct pod_err *err)
{
    struct pod_device_program *program = ref_compile(text, 1);
    struct pod_device_launch launch = {.program = program,
                                       .inputs = inputs,
                                       .input_count = input_count,
                                       .outputs = outputs,
                                       .output_count = output_count,
                                       .replica_count = 1};
    enum pod_code code = ref_device()->ops->execute(ref_device(), &launch, err);

    ref_device()->ops->program_free(ref_device(), program);
    return code;
}

// Outputs that are inputs are read first, even if they only change places or
// are needed after the first result is known.
static void test_outputs_are_inputs(void **state)
{
    struct pod_device_buffer *a = pair(1, 2);
    struct pod_device_buffer *b = pair(30, 40);
    struct pod_device_buffer *const forth[] = {a, b};
    struct pod_device_buffer *const back[] = {b, a};

    (void)state;
    assert_int_equal(
        run_pairs("HloModule t\nENTRY e {\n  a = s32[2] parameter(0)\n"
                  "  b = s32[2] parameter(1)\n"
                  "  ROOT r = (s32[2], s32[2]) tuple(b, a)\n}\n",
                  forth, 2, forth, 2, NULL),
        POD_OK);
    assert_pair(a, 30, 40);
    assert_pair(b, 1, 2);
    assert_int_equal(
        run_pairs("HloModule t\nENTRY e {\n  a = s32[2] parameter(0)\n"
                  "  b = s32[2] parameter(1)\n  c = s32[2] add(a, b)\n"
                  "  d = s32[2] subtract(a, b)\n"
                  "  ROOT r = (s32[2], s32[2]) tuple(c, d)\n}\n",
                  forth, 2, back, 2, NULL),
        POD_OK);
    assert_pair(b, 31, 42);
    assert_pair(a, 29, 38);
    ref_device()->ops->release(ref_device(), a);
    ref_device()->ops->release(ref_device(), b);
}

// Whoever forgets the check gets an error, not somebody else's memory.
static void test_unchecked_launch(void **state)
{
    const char *text = "HloModule t\nENTRY e {\n  a = s32[3] parameter(0)\n"
                       "  ROOT r = s32[3] negate(a)\n}\n";
    struct pod_device_buffer *a = pair(1, 2);
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    assert_int_equal(run_pairs(text, &a, 1, &a, 1, &err), POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_SHAPE_MISMATCH);
    assert_int_equal(run_pairs(text, &a, 0, &a, 1, &err), POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_COUNT_MISMATCH);
    ref_device()->ops->release(ref_device(), a);
}

// ------------------------------------------------------------- without memory

// A program with most kinds of instructions.
static const char everything[] =
    "HloModule t\n"
    "f {\n  x = s32[] parameter(0)\n  y = s32[] parameter(1)\n"
    "  ROOT r = s32[] add(x, y)\n}\n"
    "g {\n  x = s32[] parameter(0)\n  y = s32[] parameter(1)\n"
    "  z = s32[] multiply(x, y)\n  ROOT r = s32[] add(z, y)\n}\n"
    "b {\n  p = (s32[2], s32[2]) parameter(0)\n"
    "  x = s32[2] get-tuple-element(p), index=0\n"
    "  y = s32[2] get-tuple-element(p), index=1\n"
    "  ROOT r = (s32[2], s32[2]) tuple(y, x)\n}\n"
    "c {\n  p = (s32[2], s32[2]) parameter(0)\n"
    "  ROOT r = pred[] constant(false)\n}\n"
    "ENTRY e {\n  a = s32[2] parameter(0)\n  z = s32[] constant(1)\n"
    "  i = s32[2] iota(), iota_dimension=0\n"
    "  t = (s32[2], s32[2]) tuple(a, i)\n"
    "  w = (s32[2], s32[2]) while(t), condition=c, body=b\n"
    "  q = s32[2] get-tuple-element(w), index=0\n"
    "  d = s32[] dot(q, a), lhs_contracting_dims={0},"
    " rhs_contracting_dims={0}\n"
    "  s = s32[] reduce(q, z), dimensions={0}, to_apply=f\n"
    "  u = s32[] reduce(q, z), dimensions={0}, to_apply=g\n"
    "  k = s32[] call(s, u), to_apply=g\n"
    "  l = s32[2] all-reduce(a), to_apply=f\n"
    "  m = s32[2] all-gather(l), dimensions={0}\n"
    "  n = s32[2] collective-permute(m), source_target_pairs={{0,0}}\n"
    "  o = s32[4] concatenate(n, m), dimensions={0}\n"
    "  h = s32[2] dynamic-slice(o, k), dynamic_slice_sizes={2}\n"
    "  j = s32[4] pad(h, d), padding=1_1\n"
    "  v = s32[4] dynamic-update-slice(j, h, z)\n"
    "  y = s32[2] slice(v), slice={[0:4:2]}\n"
    "  less = pred[2] compare(y, h), direction=LT\n"
    "  some = s32[2] select(less, y, h)\n"
    "  ROOT r = s32[2] clamp(z, some, k)\n}\n";

// Every allocation of a compilation and of an execution fails once; each
// failure is a clean error.
static void test_no_memory(void **state)
{
    struct pod_device *device = ref_device();
    struct pod_device_program *program = NULL;
    struct pod_device_buffer *buffer = pair(3, 4);
    long before = pod_mem_live();
    enum pod_code code = POD_UNKNOWN;
    struct pod_device_launch launch = {.inputs = &buffer,
                                       .input_count = 1,
                                       .outputs = &buffer,
                                       .output_count = 1,
                                       .replica_count = 1};
    long fails = 0;

    (void)state;
    for (; code != POD_OK; fails++) {
        struct pod_err err = POD_ERR_NONE;
        pod_mem_fail_after(fails, 1);
        code = device->ops->compile(device, POD_FORMAT_HLO_TEXT, everything,
                                    strlen(everything), 1, &program, &err);
        pod_mem_fail_after(-1, 0);
        if (code != POD_OK && code != POD_RESOURCE_EXHAUSTED)
            fail_msg("allocation %ld: %s", fails, err.text);
        if (code != POD_OK)
            assert_int_equal(pod_mem_live(), before);
    }
    assert_true(fails > 20);
    launch.program = program;
    code = POD_UNKNOWN;
    before = pod_mem_live();
    for (fails = 0; code != POD_OK; fails++) {
        pod_mem_fail_after(fails, 1);
        code = device->ops->execute(device, &launch, NULL);
        pod_mem_fail_after(-1, 0);
        assert_true(code == POD_OK || code == POD_RESOURCE_EXHAUSTED);
        assert_int_equal(pod_mem_live(), before);
    }
    assert_true(fails > 2);
    device->ops->program_free(device, program);
    device->ops->release(device, buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_account),
        cmocka_unit_test(test_absurd_sizes),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_big_transfers),
        cmocka_unit_test(test_unimplemented),
        cmocka_unit_test(test_replica_counts),
        cmocka_unit_test(test_scratch_limit),
        cmocka_unit_test(test_memory_is_reused),
        cmocka_unit_test(test_outputs_are_inputs),
        cmocka_unit_test(test_unchecked_launch),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
