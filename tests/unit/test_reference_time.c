// SPDX-License-Identifier: Apache-2.0
// The reference device while it works: interrupts, and time that it simulates.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/device/reference/reference.h"
#include "tests/lib/ref_program.h"

#define FOREVER                                                                \
    "HloModule t\n"                                                            \
    "b {\n  p = s32[2] parameter(0)\n  ROOT r = s32[2] add(p, p)\n}\n"         \
    "c {\n  p = s32[2] parameter(0)\n  ROOT r = pred[] constant(true)\n}\n"    \
    "ENTRY e {\n  a = s32[2] parameter(0)\n"                                   \
    "  ROOT r = s32[2] while(a), condition=c, body=b\n}\n"

struct running {
    struct pod_device *device;
    struct pod_device_launch launch;
    enum pod_code code;
    struct pod_err err;
};

static void *run_in_thread(void *arg)
{
    struct running *running = arg;

    running->code = running->device->ops->execute(
        running->device, &running->launch, &running->err);
    return NULL;
}

// Starts the launch, then interrupts it; the launch would never end.
static void interrupt_it(struct pod_device *device, const char *text)
{
    struct pod_interrupt interrupt = {.asked = false};
    struct pod_device_program *program;
    struct pod_device_buffer *buffer;
    struct running running = {.device = device};
    pthread_t thread;

    assert_int_equal(device->ops->compile(device, POD_FORMAT_HLO_TEXT, text,
                                          strlen(text), 1, &program, NULL),
                     POD_OK);
    assert_int_equal(device->ops->allocate(device, 0, NULL, 8, &buffer, NULL),
                     POD_OK);
    running.launch = (struct pod_device_launch){.program = program,
                                                .inputs = &buffer,
                                                .input_count = 1,
                                                .outputs = &buffer,
                                                .output_count = 1,
                                                .replica_count = 1,
                                                .interrupt = &interrupt};
    assert_int_equal(pthread_create(&thread, NULL, run_in_thread, &running), 0);
    atomic_store(&interrupt.asked, true);
    pthread_join(thread, NULL);
    assert_int_equal(running.code, POD_CANCELLED);
    assert_int_equal(running.err.reason, POD_REASON_CANCEL_REQUESTED);
    device->ops->release(device, buffer);
    device->ops->program_free(device, program);
}

static void test_interrupt_loop(void **state)
{
    (void)state;
    interrupt_it(ref_device(), FOREVER);
}

// Neither body nor condition has anything to do.
static void test_interrupt_idle_loop(void **state)
{
    (void)state;
    interrupt_it(ref_device(),
                 "HloModule t\n"
                 "b {\n  ROOT p = s32[2] parameter(0)\n}\n"
                 "c {\n  p = s32[2] parameter(0)\n"
                 "  ROOT r = pred[] constant(true)\n}\n"
                 "ENTRY e {\n  a = s32[2] parameter(0)\n"
                 "  ROOT r = s32[2] while(a), condition=c, body=b\n}\n");
}

static void test_interrupt_simulated(void **state)
{
    struct pod_device *device = ref_make_device(
        (struct pod_reference_options){.core_count = 1,
                                       .memory_bytes = 1000,
                                       .latency_ns = INT64_MAX}); // centuries

    (void)state;
    interrupt_it(device, "HloModule t\nENTRY e {\n  a = s32[2] parameter(0)\n"
                         "  ROOT r = s32[2] negate(a)\n}\n");
    device->ops->free(device);
}

// Simulated time is a lower bound, so it may be tested without a wait.
static void test_interrupt_transfers(void **state)
{
    struct pod_device *device = ref_make_device(
        (struct pod_reference_options){.core_count = 1,
                                       .memory_bytes = 2 * REF_ADOPTED,
                                       .latency_ns = INT64_MAX});
    const struct pod_interrupt interrupt = {.asked = true};
    struct pod_device_buffer *from;
    struct pod_device_buffer *to;
    struct pod_err err;
    char byte = 0;

    (void)state;
    assert_int_equal(device->ops->allocate(device, 0, NULL, 8, &from, NULL),
                     POD_OK);
    assert_int_equal(device->ops->allocate(device, 0, NULL, 8, &to, NULL),
                     POD_OK);
    assert_int_equal(
        device->ops->write(device, from, 0, "a", 1, &interrupt, NULL),
        POD_CANCELLED);
    assert_int_equal(
        device->ops->read(device, from, 0, &byte, 1, &interrupt, NULL),
        POD_CANCELLED);
    assert_int_equal(device->ops->copy(device, from, to, &interrupt, &err),
                     POD_CANCELLED);
    assert_int_equal(err.reason, POD_REASON_CANCEL_REQUESTED);
    device->ops->release(device, from);
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, REF_ADOPTED, &from, NULL),
        POD_OK);
    struct pod_blob *blob = ref_given_up(REF_ADOPTED, 1);
    bool taken;
    assert_int_equal(
        device->ops->adopt(device, from, blob, &interrupt, &taken, &err),
        POD_CANCELLED);
    assert_int_equal(err.reason, POD_REASON_CANCEL_REQUESTED);
    pod_blob_unref(blob);
    device->ops->release(device, from);
    device->ops->release(device, to);
    device->ops->free(device);
}

static void test_simulated_time(void **state)
{
    struct pod_device *device = ref_make_device(
        (struct pod_reference_options){.core_count = 1,
                                       .memory_bytes = 1000,
                                       .latency_ns = 1000000,
                                       .bandwidth = 100000}); // 100 bytes: 1 ms
    struct pod_device_buffer *buffer;
    const unsigned char bytes[100] = {1};
    int64_t start;

    (void)state;
    assert_int_equal(device->ops->allocate(device, 0, NULL, 100, &buffer, NULL),
                     POD_OK);
    start = pod_clock_mono(&pod_clock_system);
    assert_int_equal(
        device->ops->write(device, buffer, 0, bytes, 100, NULL, NULL), POD_OK);
    assert_true(pod_clock_mono(&pod_clock_system) - start >= 2000000);
    device->ops->release(device, buffer);
    device->ops->free(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interrupt_loop),
        cmocka_unit_test(test_interrupt_idle_loop),
        cmocka_unit_test(test_interrupt_simulated),
        cmocka_unit_test(test_interrupt_transfers),
        cmocka_unit_test(test_simulated_time),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
