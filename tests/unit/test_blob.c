// SPDX-License-Identifier: Apache-2.0
// core/base: blobs: references, slices, bytes that are taken over.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/blob.h"
#include "core/base/mem.h"

static void count_freed(void *arg, size_t size)
{
    *(size_t *)arg += size;
}

static void test_blob(void **state)
{
    volatile size_t most = SIZE_MAX;
    long live = pod_mem_live();
    struct pod_blob *blob = pod_blob_new(100);
    size_t freed = 0;

    (void)state;
    assert_non_null(blob);
    assert_int_equal(blob->size, 100);
    assert_int_equal((uintptr_t)blob->data % 16, 0);
    memset(blob->data, 1, blob->size);
    blob->on_free = count_freed;
    blob->arg = &freed;
    assert_ptr_equal(pod_blob_ref(blob), blob);
    pod_blob_unref(blob);
    assert_int_equal(freed, 0);
    pod_blob_unref(blob);
    assert_int_equal(freed, 100);
    pod_blob_unref(NULL);
    blob = pod_blob_new(0);
    assert_non_null(blob);
    pod_blob_unref(blob);
    assert_null(pod_blob_new(most));
    assert_int_equal(pod_mem_live(), live);
}

static void test_blob_slice(void **state)
{
    long live = pod_mem_live();
    struct pod_blob *whole = pod_blob_new(100);
    size_t freed = 0;

    (void)state;
    whole->on_free = count_freed;
    whole->arg = &freed;
    struct pod_blob *slice = pod_blob_slice(whole, 16, 84);
    assert_non_null(slice);
    assert_ptr_equal(slice->data, whole->data + 16);
    assert_int_equal(slice->size, 84);
    pod_mem_fail_after(0, 1);
    assert_null(pod_blob_slice(whole, 0, 1));
    pod_mem_fail_after(-1, 0);
    pod_blob_unref(whole);
    assert_int_equal(freed, 0);
    memset(slice->data, 1, slice->size);
    pod_blob_unref(slice);
    assert_int_equal(freed, 100);
    assert_int_equal(pod_mem_live(), live);
}

// A slice of a slice keeps both, and what is taken over is the outermost.
static void test_blob_slice_of_slice(void **state)
{
    long live = pod_mem_live();
    struct pod_blob *whole = pod_blob_new(100);
    struct pod_blob *middle = pod_blob_slice(whole, 2, 96);
    struct pod_blob *inner = pod_blob_slice(middle, 2, 92);
    size_t freed = 0;
    size_t middle_freed = 0;

    (void)state;
    assert_ptr_equal(inner->data, whole->data + 4);
    assert_int_equal(inner->size, 92);
    whole->on_free = count_freed;
    whole->arg = &freed;
    middle->on_free = count_freed;
    middle->arg = &middle_freed;
    pod_blob_unref(whole);
    pod_blob_unref(middle);
    memset(inner->data, 1, inner->size);
    assert_int_equal(middle_freed, 0);
    pod_blob_give_up(inner);
    assert_true(pod_blob_claim(inner));
    assert_int_equal(freed, 100);
    pod_blob_unref(inner);
    assert_int_equal(middle_freed, 96);
    assert_int_equal(freed, 100);
    assert_int_equal(pod_mem_live(), live);
}

static void test_blob_is_sole(void **state)
{
    struct pod_blob *blob = pod_blob_new_zeroed(3);

    (void)state;
    assert_memory_equal(blob->data, "\0\0\0", 3);
    assert_true(pod_blob_is_sole(blob));
    struct pod_blob *slice = pod_blob_slice(blob, 1, 1);
    assert_false(pod_blob_is_sole(blob));
    assert_true(pod_blob_is_sole(slice));
    pod_blob_unref(slice);
    assert_true(pod_blob_is_sole(blob));
    pod_blob_ref(blob);
    assert_false(pod_blob_is_sole(blob));
    pod_blob_unref(blob);
    pod_blob_unref(blob);
}

static void test_blob_claim(void **state)
{
    struct pod_blob *blob = pod_blob_new(100);
    size_t freed = 0;

    (void)state;
    blob->on_free = count_freed;
    blob->arg = &freed;
    assert_false(pod_blob_claim(blob));
    assert_int_equal(freed, 0);
    pod_blob_give_up(blob);
    // Others may hold references; the budget has its bytes back at once.
    pod_blob_ref(blob);
    assert_true(pod_blob_claim(blob));
    assert_int_equal(freed, 100);
    assert_false(pod_blob_claim(blob));
    pod_blob_unref(blob);
    pod_blob_unref(blob);
    assert_int_equal(freed, 100);
}

// The bytes are the whole's, so that is what the budget gets back.
static void test_blob_claim_slice(void **state)
{
    long live = pod_mem_live();
    struct pod_blob *whole = pod_blob_new(100);
    struct pod_blob *slice = pod_blob_slice(whole, 8, 92);
    size_t freed = 0;

    (void)state;
    whole->on_free = count_freed;
    whole->arg = &freed;
    pod_blob_unref(whole);
    assert_false(pod_blob_claim(slice));
    pod_blob_give_up(slice);
    assert_true(pod_blob_claim(slice));
    assert_int_equal(freed, 100);
    pod_blob_unref(slice);
    assert_int_equal(freed, 100);
    assert_int_equal(pod_mem_live(), live);
}

// One byte in eight may be kept in vain, and no more.
static void test_blob_claim_waste(void **state)
{
    struct pod_blob *blob = pod_blob_new(90);

    (void)state;
    pod_blob_give_up(blob);
    blob->size = 79;
    assert_false(pod_blob_claim(blob));
    blob->size = 80;
    assert_true(pod_blob_claim(blob));
    pod_blob_unref(blob);
    // Bytes that are owned elsewhere.
    static unsigned char elsewhere[16];
    blob = pod_blob_new(0);
    blob->data = elsewhere;
    blob->size = sizeof(elsewhere);
    pod_blob_give_up(blob);
    assert_false(pod_blob_claim(blob));
    pod_blob_unref(blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blob),
        cmocka_unit_test(test_blob_slice),
        cmocka_unit_test(test_blob_slice_of_slice),
        cmocka_unit_test(test_blob_is_sole),
        cmocka_unit_test(test_blob_claim),
        cmocka_unit_test(test_blob_claim_slice),
        cmocka_unit_test(test_blob_claim_waste),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
