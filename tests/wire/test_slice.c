// SPDX-License-Identifier: Apache-2.0
// Which chips and cores of a slice are a host's own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/slice.h"

static void test_slice(void **state)
{
    (void)state;
    // 4x4 chips of two cores, hosts own blocks of 2x2.
    struct worker_slice slice = {.x = 4,
                                 .y = 4,
                                 .z = 1,
                                 .block_x = 2,
                                 .block_y = 2,
                                 .block_z = 1,
                                 .cores_per_chip = 2,
                                 .host_id = 1,
                                 .hosts = 4};
    struct pod_err err = POD_ERR_NONE;
    uint32_t local = 99;
    assert_int_equal(worker_slice_check(&slice, &err), POD_OK);
    static const uint32_t own[] = {2, 3, 6, 7};
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(worker_slice_own_chip(&slice, i), own[i]);
    assert_true(worker_slice_own_core(&slice, 13, &local));
    assert_int_equal(local, 5);
    assert_false(worker_slice_own_core(&slice, 8, &local));
    assert_false(worker_slice_own_core(&slice, 32, &local));
    slice.block_x = 0;
    slice.block_y = 0;
    slice.block_z = 0;
    assert_int_equal(worker_slice_own_chip(&slice, 0), 4);
}

static void test_slice_refuses(void **state)
{
    (void)state;
    const struct worker_slice good = {
        .x = 4, .y = 2, .z = 1, .cores_per_chip = 1, .hosts = 2};
    struct pod_err err = POD_ERR_NONE;
    struct worker_slice bad[7];
    for (size_t i = 0; i < 7; i++)
        bad[i] = good;
    assert_int_equal(worker_slice_check(&good, &err), POD_OK);
    bad[0].x = 0;
    bad[1].x = UINT32_MAX;
    bad[2].hosts = 3;
    bad[3].host_id = 2;
    bad[4].cores_per_chip = 65;
    bad[5].block_x = 3;
    bad[5].block_y = 1;
    bad[5].block_z = 1;
    bad[6].block_x = 1;
    bad[6].block_y = 1;
    bad[6].block_z = 1; // eight blocks for two hosts
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(worker_slice_check(&bad[i], &err),
                         POD_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_slice_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
