// SPDX-License-Identifier: Apache-2.0
// Memory that the reference device takes over instead of copying it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/device/reference/reference.h"
#include "tests/lib/ref_program.h"

// ----------------------------------------------------- memory taken over

static bool adopts(struct pod_device *device, struct pod_device_buffer *buffer,
                   struct pod_blob *blob)
{
    bool taken = false;

    assert_int_equal(
        device->ops->adopt(device, buffer, blob, NULL, &taken, NULL), POD_OK);
    return taken;
}

static int byte_at(struct pod_device *device, struct pod_device_buffer *buffer,
                   uint64_t offset)
{
    unsigned char byte = 0;

    assert_int_equal(
        device->ops->read(device, buffer, offset, &byte, 1, NULL, NULL),
        POD_OK);
    return byte;
}

static void test_adopt(void **state)
{
    long live = pod_mem_live();
    struct pod_device *device = ref_make_device((struct pod_reference_options){
        .core_count = 1, .memory_bytes = REF_ADOPTED});
    struct pod_device_buffer *buffer;
    struct pod_blob *blob = ref_given_up(REF_ADOPTED, 7);

    (void)state;
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, REF_ADOPTED, &buffer, NULL),
        POD_OK);
    assert_true(adopts(device, buffer, blob));
    assert_int_equal(ref_used(device, 0), REF_ADOPTED);
    assert_int_equal(byte_at(device, buffer, REF_ADOPTED - 1), 7);
    // It is the blob's memory and no copy.
    assert_int_equal(device->ops->write(device, buffer, 3, "\1", 1, NULL, NULL),
                     POD_OK);
    assert_int_equal(blob->data[3], 1);
    pod_blob_unref(blob);
    // The next one takes its place, and it is freed.
    blob = ref_given_up(REF_ADOPTED, 8);
    long two = pod_mem_live();
    assert_true(adopts(device, buffer, blob));
    assert_int_equal(pod_mem_live(), two - 1);
    pod_blob_unref(blob);
    assert_int_equal(byte_at(device, buffer, 3), 8);
    device->ops->release(device, buffer);
    assert_int_equal(ref_used(device, 0), 0);
    device->ops->free(device);
    assert_int_equal(pod_mem_live(), live);
}

// Refuses and lets go of the blob, which must be as it was.
static void adopts_not(struct pod_device *device,
                       struct pod_device_buffer *buffer, struct pod_blob *blob)
{
    assert_false(adopts(device, buffer, blob));
    assert_int_equal(atomic_load(&blob->refs), 1);
    pod_blob_unref(blob);
}

static void test_adopt_refusals(void **state)
{
    struct pod_device *device = ref_make_device((struct pod_reference_options){
        .core_count = 1, .memory_bytes = 4 * REF_ADOPTED});
    struct pod_device_buffer *buffer;
    struct pod_device_buffer *less;
    struct pod_device_buffer *tuple;
    struct pod_blob *blob;

    (void)state;
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, REF_ADOPTED, &buffer, NULL),
        POD_OK);
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, REF_ADOPTED - 1, &less, NULL),
        POD_OK);
    assert_int_equal(
        device->ops->allocate_tuple(
            device, 0, (struct pod_device_buffer *[]){less}, 1, &tuple, NULL),
        POD_OK);
    adopts_not(device, tuple, ref_given_up(REF_ADOPTED, 1));
    adopts_not(device, buffer, ref_given_up(REF_ADOPTED + 1, 1));
    adopts_not(device, less,
               ref_given_up(REF_ADOPTED - 1, 1)); // as well copied
    blob = pod_blob_new(REF_ADOPTED);
    adopts_not(device, buffer, blob); // not given up
    // Elements of 8 bytes would not be where the processor wants them.
    struct pod_blob *whole = pod_blob_new(REF_ADOPTED + 8);
    blob = pod_blob_slice(whole, 8, REF_ADOPTED);
    pod_blob_unref(whole);
    pod_blob_give_up(blob);
    adopts_not(device, buffer, blob);
    whole = pod_blob_new(REF_ADOPTED + 64);
    blob = pod_blob_slice(whole, 64, REF_ADOPTED);
    memset(blob->data, 9, REF_ADOPTED);
    pod_blob_unref(whole);
    pod_blob_give_up(blob);
    assert_int_equal(byte_at(device, buffer, 0), 0); // never written so far
    assert_true(adopts(device, buffer, blob));
    pod_blob_unref(blob);
    assert_int_equal(byte_at(device, buffer, 0), 9);
    device->ops->release(device, tuple);
    device->ops->release(device, less);
    device->ops->release(device, buffer);
    device->ops->free(device);
}

// -------------------------------------------------------- interrupts and time

// Memory that is taken over costs what a copy does.
static void test_simulated_adopt(void **state)
{
    struct pod_device *device = ref_make_device((struct pod_reference_options){
        .core_count = 1,
        .memory_bytes = REF_ADOPTED,
        .latency_ns = 1000000,
        .bandwidth = REF_ADOPTED * 1000.0, // all of it: 1 ms
    });
    struct pod_device_buffer *buffer;
    struct pod_blob *blob = ref_given_up(REF_ADOPTED, 1);

    (void)state;
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, REF_ADOPTED, &buffer, NULL),
        POD_OK);
    int64_t start = pod_clock_mono(&pod_clock_system);
    assert_true(adopts(device, buffer, blob));
    assert_true(pod_clock_mono(&pod_clock_system) - start >= 2000000);
    pod_blob_unref(blob);
    device->ops->release(device, buffer);
    device->ops->free(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adopt),
        cmocka_unit_test(test_adopt_refusals),
        cmocka_unit_test(test_simulated_adopt),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
