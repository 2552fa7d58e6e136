// SPDX-License-Identifier: Apache-2.0
// The verifier's rules for what moves or multiplies arrays: for each
// opcode programs that pass, and one for each thing that can be wrong with it,
// made from a sound one by a small change.
#include "tests/unit/hlo_verify.h"

static void test_broadcast(void **state)
{
    (void)state;
    assert_sound("f32[3,9,2] broadcast(m), dimensions={2,0}");
    assert_wrong("f32[7,4] broadcast(f), dimensions={2}", "out of range");
    assert_wrong("f32[7,4] broadcast(f), dimensions={0}", "size 4, dimension 0 "
                                                          "of the result 7");
    assert_wrong("f32[7,4] broadcast(f), dimensions={}", "0 dimensions are");
    assert_wrong("f32[2,2] broadcast(m), dimensions={0,0}", "occurs twice");
    assert_wrong("s32[7,4] broadcast(f), dimensions={1}", "type f32");
    assert_wrong("f32[7,4] broadcast(t), dimensions={1}", "not an array");
}

static void test_reshape_transpose_reverse(void **state)
{
    (void)state;
    assert_sound("f32[1,4,1] reshape(f)");
    assert_wrong("f32[5] reshape(m)", "6 elements, the result 5");
    assert_wrong("s32[6] reshape(m)", "type f32");
    assert_wrong("f32[2,3] transpose(m), dimensions={1,0}", "is f32[3,2]");
    assert_wrong("f32[3,2] transpose(m), dimensions={1}", "1 dimensions");
    assert_wrong("f32[3,3] transpose(m), dimensions={1,1}", "occurs twice");
    assert_wrong("f32[2,3] reverse(m), dimensions={2}", "out of range");
    assert_wrong("f32[3,2] reverse(m), dimensions={0}", "is f32[2,3]");
}

static void test_slice(void **state)
{
    (void)state;
    assert_sound("f32[2] slice(f), slice={[0:4:2]}");
    assert_sound("f32[2] slice(f), slice={[0:3:2]}");
    assert_sound("f32[0] slice(f), slice={[4:4]}");
    assert_wrong("f32[1] slice(f), slice={[0:3:2]}", "but is f32[2]");
    assert_wrong("f32[5] slice(f), slice={[0:5]}", "not within its size 4");
    assert_wrong("f32[1] slice(f), slice={[-1:0]}", "not within");
    assert_wrong("f32[1] slice(f), slice={[3:2]}", "not within");
    assert_wrong("f32[4] slice(f), slice={[0:4:0]}", "not within");
    assert_wrong("f32[4] slice(f), slice={}", "slice has 0 dimensions");
}

static void test_pad(void **state)
{
    (void)state;
    assert_sound("f32[9] pad(f, s), padding=1_1_1");
    assert_sound("f32[1] pad(f, s), padding=-1_-2");
    assert_sound("f32[0] pad(f, s), padding=-4_0");
    assert_wrong("f32[8] pad(f, s), padding=1_1_1", "but is f32[9]");
    assert_wrong("f32[1] pad(f, s), padding=-5_0", "impossible");
    assert_wrong("f32[1] pad(f, s), padding=0_0_-1", "impossible");
    assert_wrong("f32[1] pad(f, s), padding=0_9223372036854775807",
                 "impossible");
    assert_wrong("f32[1] pad(f, s), padding=0_0_9223372036854775807",
                 "impossible");
    assert_wrong("f32[6] pad(f, j), padding=1_1", "must be f32[]");
    assert_wrong("f32[6] pad(f, g), padding=1_1", "must be f32[]");
    assert_wrong("f32[6] pad(f, s), padding=1_1x0_0", "2 dimensions");
}

static void test_concatenate(void **state)
{
    (void)state;
    assert_sound("f32[8] concatenate(f, g), dimensions={0}");
    assert_sound("f32[2,9] concatenate(m, m, m), dimensions={1}");
    assert_sound("f32[4] concatenate(f), dimensions={0}");
    assert_wrong("f32[9] concatenate(f, g), dimensions={0}", "is f32[8]");
    assert_wrong("f32[8] concatenate(f, i), dimensions={0}", "does not fit");
    assert_wrong("f32[8] concatenate(f, m), dimensions={0}", "does not fit");
    assert_wrong("f32[4,3] concatenate(m, n), dimensions={0}", "does not fit");
    assert_wrong("f32[8] concatenate(f, g), dimensions={1}", "out of range");
    assert_wrong("f32[8] concatenate(f, g), dimensions={}", "exactly one");
    assert_wrong("f32[8] concatenate(), dimensions={0}", "at least 1");
}

static void test_dynamic_slices(void **state)
{
    (void)state;
    assert_sound("f32[2] dynamic-slice(f, j), dynamic_slice_sizes={2}");
    assert_sound("f32[1,3] dynamic-slice(m, k, k), dynamic_slice_sizes={1,3}");
    assert_sound("f32[] dynamic-slice(s), dynamic_slice_sizes={}");
    assert_sound("f32[4] dynamic-update-slice(f, g, j)");
    assert_wrong("f32[5] dynamic-slice(f, j), dynamic_slice_sizes={5}",
                 "slice of 5 does not fit");
    assert_wrong("f32[2] dynamic-slice(f, s), dynamic_slice_sizes={2}",
                 "not a scalar integer");
    assert_wrong("f32[1,1] dynamic-slice(m, j), dynamic_slice_sizes={1,1}",
                 "1 indices for 2 dimensions");
    assert_wrong("f32[1,1] dynamic-slice(m, j, k), dynamic_slice_sizes={1,1}",
                 "differ in type");
    assert_wrong("f32[1] dynamic-slice(f, j), dynamic_slice_sizes={}",
                 "0 sizes");
    assert_wrong("f32[2] dynamic-slice(f, j), dynamic_slice_sizes={1}",
                 "is f32[1]");
    assert_unsupported("f32[1,1] dynamic-slice(m, s32[2] constant({0,0})), "
                       "dynamic_slice_sizes={1,1}",
                       "one vector");
    assert_wrong("f32[4] dynamic-update-slice(f, m, j)", "type and rank");
    assert_wrong("f32[3,5] dynamic-update-slice(n, m, j)", "1 indices");
    assert_wrong("f32[2,3] dynamic-update-slice(m, n, j, j)",
                 "update of 3 does not fit dimension 0");
    assert_wrong("f32[4] dynamic-update-slice(f)", "at least 2");
}

static void test_bitcast_convert(void **state)
{
    (void)state;
    assert_sound("u32[4] bitcast-convert(f)");
    assert_sound("u16[4,2] bitcast-convert(f)");
    assert_sound("f64[2] bitcast-convert(f32[2,2] reshape(f))");
    assert_wrong("u16[4] bitcast-convert(f)", "one more dimension, of size 2");
    assert_wrong("u16[4,3] bitcast-convert(f)", "of size 2");
    assert_wrong("u32[5] bitcast-convert(f)", "differ in dimensions");
    assert_wrong("f64[4] bitcast-convert(f)", "one more dimension");
    assert_wrong("(u32[4]) bitcast-convert(f)", "must be an array");
}

static void test_dot(void **state)
{
    (void)state;
    assert_sound("f32[2,5] dot(m, n), lhs_contracting_dims={1}, "
                 "rhs_contracting_dims={0}");
    assert_sound("f32[] dot(f, g), lhs_contracting_dims={0}, "
                 "rhs_contracting_dims={0}");
    assert_sound("f32[2,3,4,4] dot(b, b), lhs_batch_dims={0,1}, "
                 "rhs_batch_dims={0,1}");
    assert_sound("f32[4] dot(h, h), lhs_batch_dims={0}, rhs_batch_dims={0}");
    assert_sound("f32[2,3,3,5] dot(m, n)");
    assert_wrong("f32[2,5] dot(m, n), lhs_contracting_dims={0}, "
                 "rhs_contracting_dims={0}",
                 "contracted dimensions 0 and 0 have sizes 2 and 3");
    assert_wrong("f32[2,5] dot(m, n), lhs_contracting_dims={1}",
                 "1 and 0 contracted dimensions");
    assert_wrong("f32[2,5] dot(m, n), lhs_contracting_dims={2}, "
                 "rhs_contracting_dims={0}",
                 "out of range");
    assert_wrong("f32[2] dot(m, m), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                 "lhs_contracting_dims={0}, rhs_contracting_dims={1}",
                 "occurs twice");
    assert_wrong("f32[5] dot(m, n), lhs_batch_dims={9}, rhs_batch_dims={0}",
                 "out of range");
    assert_wrong("f32[5,2] dot(m, n), lhs_contracting_dims={1}, "
                 "rhs_contracting_dims={0}",
                 "is f32[2,5]");
    assert_wrong("s32[2,5] dot(m, n), lhs_contracting_dims={1}, "
                 "rhs_contracting_dims={0}",
                 "a dot of f32 does not give s32");
    assert_unsupported("f32[] dot(f, h), lhs_contracting_dims={0}, "
                       "rhs_contracting_dims={0}",
                       "types f32 and f16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_reshape_transpose_reverse),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_concatenate),
        cmocka_unit_test(test_dynamic_slices),
        cmocka_unit_test(test_bitcast_convert),
        cmocka_unit_test(test_dot),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
