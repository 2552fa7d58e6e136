// SPDX-License-Identifier: Apache-2.0
#include "api/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

#define MS (POD_NS_PER_S / 1000)

static void test_a_burst_and_then_evenly(void **state)
{
    struct api_rate rate;
    struct api_rate_state left;

    (void)state;
    api_rate_init(&rate, 4); // one each 250 ms
    for (unsigned i = 0; i < 4; i++) {
        assert_true(api_rate_take(&rate, 7, 0, &left));
        assert_int_equal(left.remaining, 3 - i);
        assert_int_equal(left.full_ns, (i + 1) * 250 * MS);
        assert_int_equal(left.retry_ns, i == 3 ? 250 * MS : 0);
    }
    assert_false(api_rate_take(&rate, 7, 0, &left));
    assert_int_equal(left.remaining, 0);
    assert_int_equal(left.retry_ns, 250 * MS);
    assert_false(api_rate_take(&rate, 7, 249 * MS, &left));
    assert_int_equal(left.retry_ns, 1 * MS);
    assert_true(api_rate_take(&rate, 7, 250 * MS, &left));
    assert_false(api_rate_take(&rate, 7, 250 * MS, &left));
    // A refusal takes nothing: after a second the bucket is full again.
    for (unsigned i = 0; i < 4; i++)
        assert_true(api_rate_take(&rate, 7, 1250 * MS, &left));
    assert_false(api_rate_take(&rate, 7, 1250 * MS, &left));
    api_rate_fini(&rate);
}

static void test_callers_do_not_share(void **state)
{
    struct api_rate rate;
    struct api_rate_state left;

    (void)state;
    api_rate_init(&rate, 1);
    assert_true(api_rate_take(&rate, 7, 0, &left));
    assert_true(api_rate_take(&rate, 8, 0, &left));
    assert_false(api_rate_take(&rate, 7, 0, &left));
    api_rate_fini(&rate);
}

// Those that are new when there are too many share what one may have, until
// the others have been away for a second.
static void test_callers_are_bounded(void **state)
{
    struct api_rate rate;
    struct api_rate_state left;

    (void)state;
    api_rate_init(&rate, 2);
    for (uint64_t key = 2; key < 2 + API_RATE_KEYS; key++)
        assert_true(api_rate_take(&rate, key, 0, &left));
    assert_true(api_rate_take(&rate, 1000001, 0, &left));
    assert_true(api_rate_take(&rate, 1000002, 0, &left));
    assert_false(api_rate_take(&rate, 1000003, 0, &left));
    assert_true(api_rate_take(&rate, 2, 0, &left));
    assert_true(rate.buckets.count <= API_RATE_KEYS + 1);
    assert_true(api_rate_take(&rate, 1000003, 1000 * MS, &left));
    assert_int_equal(left.remaining, 1);
    assert_int_equal(rate.buckets.count, 1);
    api_rate_fini(&rate);
    assert_int_equal(pod_mem_live(), 0);
}

static void test_without_memory_nobody_is_refused(void **state)
{
    struct api_rate rate;
    struct api_rate_state left;

    (void)state;
    api_rate_init(&rate, 1);
    pod_mem_fail_after(0, 2);
    assert_true(api_rate_take(&rate, 7, 0, &left));
    assert_true(api_rate_take(&rate, 7, 0, &left));
    pod_mem_fail_after(-1, 0);
    assert_int_equal(rate.buckets.count, 0);
    api_rate_fini(&rate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_burst_and_then_evenly),
        cmocka_unit_test(test_callers_do_not_share),
        cmocka_unit_test(test_callers_are_bounded),
        cmocka_unit_test(test_without_memory_nobody_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
