// SPDX-License-Identifier: Apache-2.0
// When free memory is to be given back to the system.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/mem.h"

static void test_due_when_most_is_gone(void **state)
{
    struct pod_mem_watch watch = {.most = 0};

    (void)state;
    assert_false(pod_mem_watch_due(&watch, 1000));
    assert_false(pod_mem_watch_due(&watch, 1000000));
    assert_false(pod_mem_watch_due(&watch, 400000)); // it still falls
    assert_true(pod_mem_watch_due(&watch, 400000));
    assert_false(pod_mem_watch_due(&watch, 400000)); // once
}

static void test_due_again_after_more(void **state)
{
    struct pod_mem_watch watch = {.most = 0};

    (void)state;
    assert_false(pod_mem_watch_due(&watch, 1000000));
    assert_false(pod_mem_watch_due(&watch, 1000));
    assert_true(pod_mem_watch_due(&watch, 1001));
    assert_false(pod_mem_watch_due(&watch, 600000));
    assert_false(pod_mem_watch_due(&watch, 1000));
    assert_true(pod_mem_watch_due(&watch, 1000));
}

static void test_not_due_for_little(void **state)
{
    struct pod_mem_watch watch = {.most = 0};

    (void)state;
    // Many fewer, but more than half are still there.
    assert_false(pod_mem_watch_due(&watch, 2000000));
    assert_false(pod_mem_watch_due(&watch, 1000001));
    assert_false(pod_mem_watch_due(&watch, 1000001));
    assert_false(pod_mem_watch_due(&watch, 1000000));
    assert_true(pod_mem_watch_due(&watch, 1000000));
    // Nearly all gone, but that is little.
    watch = (struct pod_mem_watch){.most = 0};
    assert_false(pod_mem_watch_due(&watch, 249999));
    assert_false(pod_mem_watch_due(&watch, 0));
    assert_false(pod_mem_watch_due(&watch, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_due_when_most_is_gone),
        cmocka_unit_test(test_due_again_after_more),
        cmocka_unit_test(test_not_due_for_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
