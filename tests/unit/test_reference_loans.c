// SPDX-License-Identifier: Apache-2.0
// Memory that the reference device lends: it stays as it was lent, whatever is
// done to the buffer, which loses nothing by it either.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/device/reference/reference.h"
#include "tests/lib/ref_program.h"

// 64 KiB are the least that is lent; an array of s32 of that size.
enum { LENT = 64 * 1024 };
#define ARRAY "s32[16384]"

static struct pod_device_buffer *buffer_of(int value)
{
    struct pod_device *device = ref_device();
    struct pod_device_buffer *buffer;
    unsigned char bytes[LENT];

    memset(bytes, value, LENT);
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, LENT, &buffer, NULL), POD_OK);
    assert_int_equal(
        device->ops->write(device, buffer, 0, bytes, LENT, NULL, NULL), POD_OK);
    return buffer;
}

static struct pod_blob *lend(struct pod_device_buffer *buffer, uint64_t offset,
                             size_t count)
{
    struct pod_device *device = ref_device();
    struct pod_blob *loan = NULL;

    assert_int_equal(
        device->ops->lend(device, buffer, offset, count, NULL, &loan, NULL),
        POD_OK);
    return loan;
}

static void write_byte(struct pod_device_buffer *buffer, uint64_t offset,
                       unsigned char byte)
{
    struct pod_device *device = ref_device();

    assert_int_equal(
        device->ops->write(device, buffer, offset, &byte, 1, NULL, NULL),
        POD_OK);
}

static void assert_filled(const unsigned char *bytes, size_t count, int value)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(bytes[i], value);
}

static void assert_buffer(struct pod_device_buffer *buffer, uint64_t offset,
                          size_t count, int value)
{
    struct pod_device *device = ref_device();
    unsigned char bytes[LENT];

    assert_int_equal(
        device->ops->read(device, buffer, offset, bytes, count, NULL, NULL),
        POD_OK);
    assert_filled(bytes, count, value);
}

static void release(struct pod_device_buffer *buffer)
{
    ref_device()->ops->release(ref_device(), buffer);
}

// ----------------------------------------------------------------------- parts

static void test_a_part_is_written(void **state)
{
    struct pod_device_buffer *buffer = buffer_of(1);
    struct pod_blob *loan = lend(buffer, 0, LENT);

    (void)state;
    assert_int_equal(loan->size, LENT);
    write_byte(buffer, 7, 2);
    assert_filled(loan->data, LENT, 1);
    assert_buffer(buffer, 0, 7, 1);
    assert_buffer(buffer, 7, 1, 2);
    assert_buffer(buffer, 8, LENT - 8, 1);
    assert_int_equal(ref_used(ref_device(), 0), LENT);
    // It has memory of its own now, and needs no more.
    long live = pod_mem_live();
    write_byte(buffer, 8, 3);
    assert_int_equal(pod_mem_live(), live);
    pod_blob_unref(loan);
    release(buffer);
    assert_int_equal(ref_used(ref_device(), 0), 0);
}

// A loan is no copy, and one that was given back costs nothing.
static void test_what_came_back_is_written_in_place(void **state)
{
    struct pod_device_buffer *buffer = buffer_of(1);
    struct pod_blob *first = lend(buffer, 0, LENT);
    struct pod_blob *second = lend(buffer, 0, LENT);

    (void)state;
    assert_ptr_equal(first->data, second->data);
    const unsigned char *place = first->data;
    pod_blob_unref(first);
    write_byte(buffer, 0, 2);
    assert_filled(second->data, LENT, 1);
    pod_blob_unref(second);
    first = lend(buffer, 0, LENT);
    assert_ptr_not_equal(first->data, place);
    place = first->data;
    pod_blob_unref(first);
    long live = pod_mem_live();
    write_byte(buffer, 0, 3);
    assert_int_equal(pod_mem_live(), live);
    first = lend(buffer, 0, LENT);
    assert_ptr_equal(first->data, place);
    pod_blob_unref(first);
    release(buffer);
}

static void test_parts_are_lent(void **state)
{
    struct pod_device *device = ref_device();
    struct pod_device_buffer *buffer;

    (void)state;
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, LENT + 100, &buffer, NULL),
        POD_OK);
    write_byte(buffer, 100, 1);
    struct pod_blob *loan = lend(buffer, 100, LENT);
    assert_int_equal(loan->size, LENT);
    assert_int_equal(loan->data[0], 1);
    // Not where it was lent, and yet all of its memory is.
    write_byte(buffer, 0, 2);
    write_byte(buffer, 100, 3);
    assert_int_equal(loan->data[0], 1);
    pod_blob_unref(loan);
    assert_null(lend(buffer, 0, LENT - 1)); // as well copied
    release(buffer);
}

// ------------------------------------------------------ the whole is written

static void test_the_whole_is_written(void **state)
{
    struct pod_device *device = ref_device();
    struct pod_device_buffer *buffer = buffer_of(1);
    struct pod_device_buffer *other = buffer_of(3);
    struct pod_blob *loan = lend(buffer, 0, LENT);
    unsigned char bytes[LENT];

    (void)state;
    memset(bytes, 2, LENT);
    assert_int_equal(
        device->ops->write(device, buffer, 0, bytes, LENT, NULL, NULL), POD_OK);
    assert_buffer(buffer, 0, LENT, 2);
    struct pod_blob *second = lend(buffer, 0, LENT);
    assert_int_equal(device->ops->copy(device, other, buffer, NULL, NULL),
                     POD_OK);
    assert_buffer(buffer, 0, LENT, 3);
    // What is only read stays where it is.
    struct pod_blob *third = lend(other, 0, LENT);
    assert_int_equal(device->ops->copy(device, other, buffer, NULL, NULL),
                     POD_OK);
    struct pod_blob *fourth = lend(other, 0, LENT);
    assert_ptr_equal(third->data, fourth->data);
    pod_blob_unref(fourth);
    assert_filled(loan->data, LENT, 1);
    assert_filled(second->data, LENT, 2);
    assert_int_equal(ref_used(ref_device(), 0), 2 * LENT);
    pod_blob_unref(loan);
    pod_blob_unref(second);
    pod_blob_unref(third);
    release(buffer);
    release(other);
}

static struct pod_blob *given_up(int value, size_t skip)
{
    struct pod_blob *whole = pod_blob_new(LENT + skip);
    struct pod_blob *slice;

    assert_non_null(whole);
    memset(whole->data, value, whole->size);
    slice = pod_blob_slice(whole, skip, LENT);
    assert_non_null(slice);
    pod_blob_unref(whole);
    pod_blob_give_up(slice);
    return slice;
}

static void adopt(struct pod_device_buffer *buffer, struct pod_blob *blob)
{
    bool taken = false;

    assert_int_equal(ref_device()->ops->adopt(ref_device(), buffer, blob, NULL,
                                              &taken, NULL),
                     POD_OK);
    assert_true(taken);
}

// Whoever made the blob may hold it still: that is no loan.
static void test_adopted_memory_is_lent(void **state)
{
    struct pod_device_buffer *buffer = buffer_of(1);
    struct pod_blob *blob = given_up(2, 64);
    struct pod_blob *next = given_up(3, 0);
    struct pod_blob *first = lend(buffer, 0, LENT);

    (void)state;
    adopt(buffer, blob);
    write_byte(buffer, 0, 2);
    assert_filled(blob->data, LENT, 2);
    struct pod_blob *second = lend(buffer, 0, LENT);
    assert_ptr_equal(second->data, blob->data);
    adopt(buffer, next);
    pod_blob_unref(blob);
    pod_blob_unref(next);
    assert_filled(first->data, LENT, 1);
    assert_filled(second->data, LENT, 2);
    assert_buffer(buffer, 0, LENT, 3);
    pod_blob_unref(first);
    pod_blob_unref(second);
    release(buffer);
}

static void test_loans_outlive_buffer_and_device(void **state)
{
    const struct pod_reference_options options = {.core_count = 1,
                                                  .memory_bytes = LENT};
    struct pod_device *device = ref_make_device(options);
    struct pod_device_buffer *buffer;
    struct pod_device_memory memory;
    struct pod_blob *loan = NULL;

    (void)state;
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, LENT, &buffer, NULL), POD_OK);
    assert_int_equal(device->ops->write(device, buffer, 9, "\5", 1, NULL, NULL),
                     POD_OK);
    assert_int_equal(
        device->ops->lend(device, buffer, 9, LENT - 9, NULL, &loan, NULL),
        POD_OK);
    assert_null(loan); // one byte less than what is worth it
    assert_int_equal(
        device->ops->lend(device, buffer, 0, LENT, NULL, &loan, NULL), POD_OK);
    device->ops->release(device, buffer);
    device->ops->memory(device, 0, &memory);
    assert_int_equal(memory.used, 0);
    // The core has room for the next one, which is zeros.
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, LENT, &buffer, NULL), POD_OK);
    unsigned char byte = 1;
    assert_int_equal(device->ops->read(device, buffer, 9, &byte, 1, NULL, NULL),
                     POD_OK);
    assert_int_equal(byte, 0);
    device->ops->release(device, buffer);
    device->ops->free(device);
    assert_int_equal(loan->data[9], 5);
    pod_blob_unref(loan);
}

// ----------------------------------------------------------------- executions

static void run(const char *text, struct pod_device_buffer *const *inputs,
                struct pod_device_buffer *const *outputs, size_t count)
{
    struct pod_device_program *program = ref_compile(text, 1);
    struct pod_interrupt interrupt = {.asked = false};
    const struct pod_device_launch launch = {.program = program,
                                             .inputs = inputs,
                                             .input_count = count,
                                             .outputs = outputs,
                                             .output_count = count,
                                             .replica_count = 1,
                                             .interrupt = &interrupt};

    assert_int_equal(ref_device()->ops->execute(ref_device(), &launch, NULL),
                     POD_OK);
    ref_device()->ops->program_free(ref_device(), program);
}

static const char doubled[] = "HloModule t\nENTRY e {\n"
                              "  a = " ARRAY " parameter(0)\n"
                              "  ROOT r = " ARRAY " add(a, a)\n}\n";

// Two buffers change places, both lent; then one is added up in place.
static void test_outputs_are_lent(void **state)
{
    struct pod_device_buffer *a = buffer_of(1);
    struct pod_device_buffer *b = buffer_of(2);
    struct pod_device_buffer *const both[] = {a, b};
    struct pod_blob *loans[] = {lend(a, 0, LENT), lend(b, 0, LENT)};

    (void)state;
    run("HloModule t\nENTRY e {\n  a = " ARRAY " parameter(0)\n"
        "  b = " ARRAY " parameter(1)\n"
        "  ROOT r = (" ARRAY ", " ARRAY ") tuple(b, a)\n}\n",
        both, both, 2);
    assert_filled(loans[0]->data, LENT, 1);
    assert_filled(loans[1]->data, LENT, 2);
    assert_buffer(a, 0, LENT, 2);
    assert_buffer(b, 0, LENT, 1);
    struct pod_blob *again = lend(a, 0, LENT);
    run(doubled, &a, &a, 1);
    assert_filled(again->data, LENT, 2);
    assert_buffer(a, 0, LENT, 4);
    // Into a buffer that is no input; and inputs may be lent, too.
    struct pod_blob *output = lend(b, 0, LENT);
    struct pod_blob *input = lend(a, 0, LENT);
    run(doubled, &a, &b, 1);
    assert_filled(output->data, LENT, 1);
    assert_buffer(b, 0, LENT, 8);
    assert_filled(input->data, LENT, 4);
    assert_int_equal(ref_used(ref_device(), 0), 2 * LENT);
    pod_blob_unref(loans[0]);
    pod_blob_unref(loans[1]);
    pod_blob_unref(again);
    pod_blob_unref(output);
    pod_blob_unref(input);
    release(a);
    release(b);
}

// ------------------------------------------------------------------- refusals

static void test_no_memory_for_another_block(void **state)
{
    struct pod_device *device = ref_device();
    struct pod_device_buffer *buffer = buffer_of(1);
    struct pod_device_buffer *other = buffer_of(2);
    struct pod_blob *loan = lend(buffer, 0, LENT);
    struct pod_blob *none = NULL;
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    pod_mem_fail_after(0, 3);
    assert_int_equal(device->ops->write(device, buffer, 0, "\3", 1, NULL, &err),
                     POD_RESOURCE_EXHAUSTED);
    assert_int_equal(device->ops->copy(device, other, buffer, NULL, &err),
                     POD_RESOURCE_EXHAUSTED);
    assert_int_equal(
        device->ops->lend(device, buffer, 0, LENT, NULL, &none, &err),
        POD_RESOURCE_EXHAUSTED);
    pod_mem_fail_after(-1, 0);
    assert_null(none);
    assert_buffer(buffer, 0, LENT, 1);
    assert_filled(loan->data, LENT, 1);
    pod_blob_unref(loan);
    release(buffer);
    release(other);
}

// Memory that is lent and no buffer's is bounded: beyond that it is copied.
static void test_loans_are_bounded(void **state)
{
    const uint64_t bytes = (UINT64_C(256) << 20) + 1; // no page is touched
    const struct pod_reference_options options = {.core_count = 1,
                                                  .memory_bytes = bytes};
    struct pod_device *device = ref_make_device(options);
    struct pod_device_buffer *buffer;
    struct pod_blob *loan = NULL;
    struct pod_blob *none = NULL;

    (void)state;
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, bytes, &buffer, NULL), POD_OK);
    assert_int_equal(
        device->ops->lend(device, buffer, 7, LENT, NULL, &loan, NULL), POD_OK);
    assert_non_null(loan);
    device->ops->release(device, buffer);
    assert_int_equal(
        device->ops->allocate(device, 0, NULL, LENT, &buffer, NULL), POD_OK);
    assert_int_equal(
        device->ops->lend(device, buffer, 0, LENT, NULL, &none, NULL), POD_OK);
    assert_null(none);
    pod_blob_unref(loan);
    assert_int_equal(
        device->ops->lend(device, buffer, 0, LENT, NULL, &loan, NULL), POD_OK);
    assert_non_null(loan);
    device->ops->release(device, buffer);
    device->ops->free(device);
    pod_blob_unref(loan);
}

static void test_interrupted(void **state)
{
    struct pod_device *device = ref_device();
    struct pod_device_buffer *buffer = buffer_of(1);
    struct pod_blob *loan = lend(buffer, 0, LENT);
    const struct pod_interrupt interrupt = {.asked = true};
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    assert_int_equal(
        device->ops->write(device, buffer, 0, "\3", 1, &interrupt, &err),
        POD_CANCELLED);
    assert_buffer(buffer, 0, LENT, 1);
    assert_filled(loan->data, LENT, 1);
    pod_blob_unref(loan);
    release(buffer);
}

// -------------------------------------------------------------------- threads

struct reader {
    struct pod_blob *loan;
    int value;
};

static void *read_and_let_go(void *arg)
{
    struct reader *reader = arg;

    for (size_t i = 0; i < LENT; i++) {
        if (reader->loan->data[i] != reader->value)
            return reader;
    }
    pod_blob_unref(reader->loan);
    return NULL;
}

// Each reader sees one version, while the next one is written.
static void test_readers_beside_a_writer(void **state)
{
    struct pod_device *device = ref_device();
    struct pod_device_buffer *buffer = buffer_of(0);
    unsigned char bytes[LENT];

    (void)state;
    for (int i = 0; i < 200; i++) {
        struct reader reader = {.loan = lend(buffer, 0, LENT), .value = i};
        pthread_t thread;
        void *result = NULL;
        assert_int_equal(
            pthread_create(&thread, NULL, read_and_let_go, &reader), 0);
        memset(bytes, i + 1, LENT);
        assert_int_equal(
            device->ops->write(device, buffer, 0, bytes, LENT / 2, NULL, NULL),
            POD_OK);
        assert_int_equal(device->ops->write(device, buffer, LENT / 2, bytes,
                                            LENT / 2, NULL, NULL),
                         POD_OK);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_null(result);
    }
    assert_int_equal(ref_used(ref_device(), 0), LENT);
    release(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_part_is_written),
        cmocka_unit_test(test_what_came_back_is_written_in_place),
        cmocka_unit_test(test_parts_are_lent),
        cmocka_unit_test(test_the_whole_is_written),
        cmocka_unit_test(test_adopted_memory_is_lent),
        cmocka_unit_test(test_loans_outlive_buffer_and_device),
        cmocka_unit_test(test_outputs_are_lent),
        cmocka_unit_test(test_no_memory_for_another_block),
        cmocka_unit_test(test_loans_are_bounded),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_readers_beside_a_writer),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
