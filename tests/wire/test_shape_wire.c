// SPDX-License-Identifier: Apache-2.0
// Shapes as both protocols of a worker carry them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "proto/shape_wire.h"

enum {
    UNKNOWN = 15, // a field of bytes that ShapeProto does not have
    HEAD_BYTES = 3,
};

// F32[2,3], then an unknown field, `size` bytes in all.
static void array_of(unsigned char *out, size_t size)
{
    static const unsigned char array[] = {0x10, 0x0b, 0x1a, 0x02, 0x02, 0x03};
    size_t rest = size - sizeof(array) - HEAD_BYTES;

    memset(out, 0, size);
    memcpy(out, array, sizeof(array));
    out += sizeof(array);
    out[0] = UNKNOWN << 3 | 2;
    out[1] = (unsigned char)(rest % 128 + 128);
    out[2] = (unsigned char)(rest / 128);
}

static void expect_refusal(const unsigned char *bytes, size_t size,
                           const char *why)
{
    struct pod_shape shape;
    struct pod_err err = POD_ERR_NONE;

    assert_int_equal(pod_array_wire_parse(bytes, size, &shape, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_BAD_SHAPE);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s", err.text);
}

static void test_size(void **state)
{
    unsigned char bytes[POD_ARRAY_WIRE_BYTES + 1];
    struct pod_shape shape;
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    array_of(bytes, POD_ARRAY_WIRE_BYTES);
    assert_int_equal(
        pod_array_wire_parse(bytes, POD_ARRAY_WIRE_BYTES, &shape, &err),
        POD_OK);
    assert_int_equal(shape.type, POD_TYPE_F32);
    assert_int_equal(shape.rank, 2);
    assert_int_equal(shape.dims[0], 2);
    assert_int_equal(shape.dims[1], 3);
    array_of(bytes, sizeof(bytes));
    expect_refusal(bytes, sizeof(bytes), "8193 bytes");
}

static void test_what_is_no_array(void **state)
{
    static const unsigned char tuple[] = {0x10, 0x0d}; // of nothing
    static const unsigned char cut[] = {0x10};
    // A tuple in a tuple, and so on, each the only one.
    unsigned char deep[4 * POD_SHAPE_MAX_DEPTH];
    size_t begin = sizeof(deep);
    long live = pod_mem_live();

    (void)state;
    expect_refusal(tuple, sizeof(tuple), "only arrays");
    expect_refusal(cut, sizeof(cut), "malformed");
    for (int i = 0; i < POD_SHAPE_MAX_DEPTH; i++) {
        size_t size = sizeof(deep) - begin;
        deep[--begin] = (unsigned char)size;
        deep[--begin] = 4 << 3 | 2; // tuple_shapes
    }
    expect_refusal(deep + begin, sizeof(deep) - begin, "deeper");
    assert_int_equal(pod_mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_what_is_no_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
