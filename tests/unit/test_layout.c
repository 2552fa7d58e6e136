// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/hlo/layout.h"

static struct pod_shape parse(const char *text)
{
    struct pod_shape shape;
    assert_int_equal(pod_shape_parse(text, strlen(text), &shape, NULL), POD_OK);
    return shape;
}

// Worked out by hand: a 2 x 3 matrix stored column by column.
static void test_column_major(void **state)
{
    static const int32_t row_major[] = {1, 2, 3, 4, 5, 6};
    static const int32_t column_major[] = {1, 4, 2, 5, 3, 6};
    struct pod_shape shape = parse("s32[2,3]{0,1}");
    int32_t device[6];
    int32_t back[6];
    (void)state;
    pod_layout_from_row_major(&shape, row_major, device);
    assert_memory_equal(device, column_major, sizeof(device));
    pod_layout_to_row_major(&shape, device, back);
    assert_memory_equal(back, row_major, sizeof(back));
}

// Where element `at` (row-major) of a shape lies in device order, by the
// definition: the index of each dimension times the sizes of all faster ones.
static size_t device_place(const struct pod_shape *shape, size_t at)
{
    int64_t index[POD_SHAPE_MAX_RANK];
    size_t place = 0;
    size_t stride = 1;
    for (uint32_t d = shape->rank; d-- > 0;) {
        index[d] = (int64_t)at % shape->dims[d];
        at /= (size_t)shape->dims[d];
    }
    for (uint32_t i = 0; i < shape->rank; i++) {
        uint8_t dim = shape->minor_to_major[i];
        place += (size_t)index[dim] * stride;
        stride *= (size_t)shape->dims[dim];
    }
    return place;
}

static void check_both_ways(const struct pod_shape *shape)
{
    unsigned char source[4096];
    unsigned char device[4096];
    unsigned char back[4096];
    size_t size = pod_type_bytes(shape->type);
    size_t count = (size_t)pod_shape_elements(shape);
    assert_true(count * size <= sizeof(source));
    for (size_t i = 0; i < count * size; i++)
        source[i] = (unsigned char)(i * 7 + i / 256);
    memset(device, 0xee, sizeof(device));
    pod_layout_from_row_major(shape, source, device);
    for (size_t i = 0; i < count; i++)
        assert_memory_equal(device + device_place(shape, i) * size,
                            source + i * size, size);
    pod_layout_to_row_major(shape, device, back);
    assert_memory_equal(back, source, count * size);
}

// Every order of four dimensions, for every element size.
static void test_every_permutation(void **state)
{
    static const enum pod_type types[] = {
        POD_TYPE_U8, POD_TYPE_BF16, POD_TYPE_F32, POD_TYPE_C64, POD_TYPE_C128};
    struct pod_shape shape = parse("u8[3,1,4,5]{3,2,1,0}");
    int orders = 0;
    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        unsigned seen = 0;
        for (unsigned i = 0; i < 4; i++) {
            shape.minor_to_major[i] = (uint8_t)(code >> (2 * i) & 3);
            seen |= 1U << shape.minor_to_major[i];
        }
        if (seen != 15)
            continue;
        orders++;
        for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
            shape.type = types[t];
            check_both_ways(&shape);
        }
    }
    assert_int_equal(orders, 24);
}

static void test_small_shapes(void **state)
{
    struct pod_shape scalar = parse("f64[]");
    struct pod_shape vector = parse("s16[7]{0}");
    struct pod_shape deep = parse("u8[1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2]"
                                  "{0,2,4,6,8,10,12,14,1,3,5,7,9,11,13,15}");
    (void)state;
    check_both_ways(&scalar);
    check_both_ways(&vector);
    check_both_ways(&deep);
}

// Nothing is touched, whatever the pointers.
static void test_empty(void **state)
{
    struct pod_shape shape = parse("f32[3,0,2]{0,1,2}");
    (void)state;
    pod_layout_from_row_major(&shape, NULL, NULL);
    pod_layout_to_row_major(&shape, NULL, NULL);
}

static void test_gather_strides(void **state)
{
    static const uint16_t source[] = {10, 11, 12, 13, 14, 15};
    const int64_t dims[] = {2, 3};
    const int64_t broadcast[] = {0, 1};
    const int64_t backwards[] = {3, -1};
    uint16_t dense[6];
    (void)state;
    pod_layout_gather(2, 2, dims, broadcast, source, dense);
    assert_memory_equal(dense, ((uint16_t[]){10, 11, 12, 10, 11, 12}), 12);
    pod_layout_gather(2, 2, dims, backwards, source + 2, dense);
    assert_memory_equal(dense, ((uint16_t[]){12, 11, 10, 15, 14, 13}), 12);
    pod_layout_gather(2, 0, NULL, NULL, source + 4, dense);
    assert_int_equal(dense[0], 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_column_major),
        cmocka_unit_test(test_every_permutation),
        cmocka_unit_test(test_small_shapes),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_gather_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
