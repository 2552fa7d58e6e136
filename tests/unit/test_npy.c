// SPDX-License-Identifier: Apache-2.0
// Files are written out here byte by byte, as numpy.save 1.24 writes them.
#include "api/npy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct file {
    unsigned char bytes[512];
    size_t size;
};

// A file of a version with any header text and data.
static struct file file_of(int major, const char *header, const void *data,
                           size_t data_size)
{
    struct file file = {.size = 0};
    size_t length = strlen(header);
    size_t prefix = major == 1 ? 10 : 12;
    memcpy(file.bytes, "\x93NUMPY", 6);
    file.bytes[6] = (unsigned char)major;
    file.bytes[8] = (unsigned char)(length & 0xFF);
    file.bytes[9] = (unsigned char)(length >> 8);
    memcpy(file.bytes + prefix, header, length);
    memcpy(file.bytes + prefix + length, data, data_size);
    file.size = prefix + length + data_size;
    return file;
}

static enum pod_reason read_file(const struct file *file, struct api_npy *npy)
{
    struct pod_err err = POD_ERR_NONE;
    return api_npy_read(file->bytes, file->size, npy, &err) == POD_OK
               ? POD_REASON_NONE
               : err.reason;
}

static enum pod_reason read_header(const char *header, size_t data_size)
{
    static const unsigned char zeros[256];
    struct api_npy npy;
    struct file file = file_of(1, header, zeros, data_size);
    return read_file(&file, &npy);
}

static void reads_all_versions(void **state)
{
    (void)state;
    static const float data[6] = {0, 1, 2, 3, 4, 5};
    for (int major = 1; major <= 3; major++) {
        struct file file = file_of(
            major,
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
            data, sizeof(data));
        struct api_npy npy;
        assert_int_equal(read_file(&file, &npy), POD_REASON_NONE);
        assert_int_equal(npy.type, POD_TYPE_F32);
        assert_int_equal(npy.rank, 2);
        assert_int_equal(npy.dims[0], 2);
        assert_int_equal(npy.dims[1], 3);
        assert_int_equal(npy.data_bytes, 24);
        assert_true(api_npy_is_plain(&npy));
        assert_memory_equal(file.bytes + npy.data_offset, data, 24);
    }
}

static void reads_every_dtype(void **state)
{
    (void)state;
    static const struct {
        const char *descr;
        enum pod_type type;
        size_t bytes;
    } cases[] = {
        {"|b1", POD_TYPE_PRED, 1},    {"|i1", POD_TYPE_S8, 1},
        {"<i2", POD_TYPE_S16, 2},     {"<i4", POD_TYPE_S32, 4},
        {"<i8", POD_TYPE_S64, 8},     {"|u1", POD_TYPE_U8, 1},
        {"<u2", POD_TYPE_U16, 2},     {">u4", POD_TYPE_U32, 4},
        {"<u8", POD_TYPE_U64, 8},     {"<f2", POD_TYPE_F16, 2},
        {"<f4", POD_TYPE_F32, 4},     {"<f8", POD_TYPE_F64, 8},
        {"<c8", POD_TYPE_C64, 8},     {">c16", POD_TYPE_C128, 16},
        {"<V2", POD_TYPE_INVALID, 2}, {"|V2", POD_TYPE_INVALID, 2},
        {"|V1", POD_TYPE_INVALID, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static const unsigned char zeros[64];
        char header[128];
        (void)snprintf(header, sizeof(header),
                       "{'shape':(3,),'descr':\"%s\",'fortran_order':False}",
                       cases[i].descr);
        struct api_npy npy;
        struct file file = file_of(1, header, zeros, 3 * cases[i].bytes);
        assert_int_equal(read_file(&file, &npy), POD_REASON_NONE);
        assert_int_equal(npy.type, cases[i].type);
        assert_int_equal(npy.item_bytes, cases[i].bytes);
    }
}

static void refuses_other_dtypes(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "'|O'",  "'|S1'",  "'<U1'",          "'<M8[ns]'",     "'<m8'",
        "'|V4'", "'<f16'", "'<i3'",          "'|i4'",         "'f4'",
        "'=f4'", "''",     "[('a', '<f4')]", "('<f4', (2,))",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char header[128];
        (void)snprintf(header, sizeof(header),
                       "{'descr': %s, 'fortran_order': False, 'shape': ()}",
                       cases[i]);
        assert_int_equal(read_header(header, 4), POD_REASON_NPY_DTYPE);
    }
}

static void refuses_malformed_headers(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': Falsee, 'shape': (1,)}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': "
        "(1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
        "{'descr': '<\\x664', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': 4, 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': "
        "(9223372036854775808,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': "
        "(4611686018427387904,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, "
        "4294967296, 0)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': "
        "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(read_header(cases[i], 4), POD_REASON_BAD_NPY);
}

static void refuses_lying_lengths(void **state)
{
    (void)state;
    const char *header =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
    static const unsigned char zeros[25];
    struct api_npy npy;
    struct file file = file_of(1, header, zeros, 24);
    assert_int_equal(read_file(&file, &npy), POD_REASON_NONE);
    for (size_t size = 0; size < file.size; size++) {
        struct file cut = file;
        cut.size = size;
        assert_int_equal(read_file(&cut, &npy), POD_REASON_BAD_NPY);
    }
    file = file_of(1, header, zeros, 25);
    assert_int_equal(read_file(&file, &npy), POD_REASON_BAD_NPY);
    file = file_of(2, header, zeros, 24);
    file.bytes[11] = 0xFF; // a header of 4 GB
    assert_int_equal(read_file(&file, &npy), POD_REASON_BAD_NPY);
    file = file_of(1, header, zeros, 24);
    file.bytes[6] = 4;
    assert_int_equal(read_file(&file, &npy), POD_REASON_BAD_NPY);
    file.bytes[6] = 1;
    file.bytes[0] = 'X';
    assert_int_equal(read_file(&file, &npy), POD_REASON_BAD_NPY);
}

static void converts_order_and_ends(void **state)
{
    (void)state;
    // numpy.asfortranarray(numpy.arange(6, dtype='>i2').reshape(2, 3))
    static const unsigned char data[12] = {0, 0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5};
    static const unsigned char want[12] = {0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0};
    struct api_npy npy;
    struct file file = file_of(
        1, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n", data,
        sizeof(data));
    unsigned char plain[12];
    assert_int_equal(read_file(&file, &npy), POD_REASON_NONE);
    assert_false(api_npy_is_plain(&npy));
    api_npy_to_plain(&npy, file.bytes + npy.data_offset, plain);
    assert_memory_equal(plain, want, 12);
}

static void swaps_both_parts_of_complex(void **state)
{
    (void)state;
    // numpy.array([1+2j], dtype='>c8')
    static const unsigned char data[8] = {0x3f, 0x80, 0, 0, 0x40, 0, 0, 0};
    static const unsigned char want[8] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};
    struct api_npy npy;
    struct file file = file_of(
        1, "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }\n", data,
        sizeof(data));
    unsigned char plain[8];
    assert_int_equal(read_file(&file, &npy), POD_REASON_NONE);
    api_npy_to_plain(&npy, file.bytes + npy.data_offset, plain);
    assert_memory_equal(plain, want, 8);
}

static void scalars_and_empty_arrays(void **state)
{
    (void)state;
    assert_int_equal(
        read_header("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4),
        POD_REASON_NONE);
    assert_int_equal(
        read_header(
            "{'descr': '<f4', 'fortran_order': True, 'shape': (0L, 3L)}", 0),
        POD_REASON_NONE);
}

static void types_are_said_never_guessed(void **state)
{
    (void)state;
    static const struct {
        enum pod_type in_file;
        size_t item;
        enum pod_type said;
        enum pod_reason reason;
    } cases[] = {
        {POD_TYPE_INVALID, 2, POD_TYPE_BF16, POD_REASON_NONE},
        {POD_TYPE_INVALID, 1, POD_TYPE_F8E4M3FN, POD_REASON_NONE},
        {POD_TYPE_F32, 4, POD_TYPE_INVALID, POD_REASON_NONE},
        {POD_TYPE_F32, 4, POD_TYPE_F32, POD_REASON_NONE},
        {POD_TYPE_INVALID, 2, POD_TYPE_INVALID, POD_REASON_NPY_DTYPE},
        {POD_TYPE_INVALID, 2, POD_TYPE_F8E4M3FN, POD_REASON_SHAPE_MISMATCH},
        {POD_TYPE_INVALID, 1, POD_TYPE_BF16, POD_REASON_SHAPE_MISMATCH},
        {POD_TYPE_F32, 4, POD_TYPE_S32, POD_REASON_SHAPE_MISMATCH},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pod_err err = POD_ERR_NONE;
        struct pod_shape shape = {0};
        struct api_npy npy = {.type = cases[i].in_file,
                              .item_bytes = cases[i].item,
                              .rank = 1,
                              .dims = {3}};
        (void)!api_npy_shape(&npy, cases[i].said, &shape, &err);
        assert_int_equal(err.reason, cases[i].reason);
        if (err.code == POD_OK)
            assert_int_equal(shape.dims[0], 3);
    }
}

static void writes_what_numpy_writes(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        const char *header;
    } cases[] = {
        {"f32[2,3]",
         "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"},
        {"pred[7]",
         "{'descr': '|b1', 'fortran_order': False, 'shape': (7,), }"},
        {"s64[]", "{'descr': '<i8', 'fortran_order': False, 'shape': (), }"},
        {"c128[1]", "{'descr': '<c16', 'fortran_order': False, 'shape': (1,), "
                    "}"},
        {"bf16[0,1]",
         "{'descr': '<V2', 'fortran_order': False, 'shape': (0, 1), }"},
        {"f8e5m2[4]",
         "{'descr': '|V1', 'fortran_order': False, 'shape': (4,), }"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pod_err err = POD_ERR_NONE;
        struct pod_shape shape;
        struct pod_str out = {0};
        assert_int_equal(pod_shape_parse(cases[i].shape, strlen(cases[i].shape),
                                         &shape, &err),
                         POD_OK);
        api_npy_print_header(&shape, &out);
        assert_false(out.failed);
        assert_int_equal(out.length, 128);
        assert_memory_equal(out.data, "\x93NUMPY\x01\x00\x76\x00", 10);
        size_t length = strlen(cases[i].header);
        assert_memory_equal(out.data + 10, cases[i].header, length);
        assert_int_equal(strspn(out.data + 10 + length, " "), 117 - length);
        assert_int_equal(out.data[127], '\n');
        pod_str_fini(&out);
        pod_shape_fini(&shape);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_versions),
        cmocka_unit_test(reads_every_dtype),
        cmocka_unit_test(refuses_other_dtypes),
        cmocka_unit_test(refuses_malformed_headers),
        cmocka_unit_test(refuses_lying_lengths),
        cmocka_unit_test(converts_order_and_ends),
        cmocka_unit_test(swaps_both_parts_of_complex),
        cmocka_unit_test(scalars_and_empty_arrays),
        cmocka_unit_test(types_are_said_never_guessed),
        cmocka_unit_test(writes_what_numpy_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
