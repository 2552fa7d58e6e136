// SPDX-License-Identifier: Apache-2.0
// Durations counted by size.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/histogram.h"

static void test_a_bound_is_inclusive(void **state)
{
    (void)state;
    struct pod_histogram histogram = {.sum_ns = 0};
    pod_histogram_add(&histogram, 100000);
    pod_histogram_add(&histogram, 100001);
    pod_histogram_add(&histogram, INT64_C(60000000000));
    pod_histogram_add(&histogram, INT64_C(60000000001));
    assert_int_equal(histogram.counts[0], 1);
    assert_int_equal(histogram.counts[1], 1);
    assert_int_equal(histogram.counts[POD_HISTOGRAM_BOUNDS - 1], 1);
    assert_int_equal(histogram.counts[POD_HISTOGRAM_BOUNDS], 1);
    assert_int_equal(histogram.sum_ns, UINT64_C(120000200002));
}

static void test_a_negative_duration_is_none(void **state)
{
    (void)state;
    struct pod_histogram histogram = {.sum_ns = 0};
    pod_histogram_add(&histogram, -5);
    pod_histogram_add(&histogram, INT64_MIN);
    pod_histogram_add(&histogram, 0);
    assert_int_equal(histogram.counts[0], 3);
    assert_int_equal(histogram.sum_ns, 0);
}

static void test_bounds_rise(void **state)
{
    (void)state;
    for (int i = 1; i < POD_HISTOGRAM_BOUNDS; i++)
        assert_true(pod_histogram_bounds_ns[i] >
                    pod_histogram_bounds_ns[i - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bound_is_inclusive),
        cmocka_unit_test(test_a_negative_duration_is_none),
        cmocka_unit_test(test_bounds_rise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
