// SPDX-License-Identifier: Apache-2.0
// Numbers of operations that ended, kept as intervals.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "proto/worker_ids.h"

static void test_ids(void **state)
{
    (void)state;
    struct worker_ids ids = {.items = NULL};
    static const uint64_t order[] = {5, 1, 3, 2, 4, 9, 7, 8};
    for (size_t i = 0; i < 8; i++) {
        assert_true(worker_ids_reserve(&ids, 1, 16));
        worker_ids_add(&ids, order[i]);
    }
    assert_int_equal(ids.count, 2); // 1-5 and 7-9
    for (uint64_t number = 0; number < 12; number++) {
        bool in = (number >= 1 && number <= 5) || (number >= 7 && number <= 9);
        assert_int_equal(worker_ids_has(&ids, number), in);
    }
    worker_ids_add(&ids, 8); // again: nothing changes
    assert_int_equal(ids.count, 2);
    worker_ids_drop_below(&ids, 4);
    assert_false(worker_ids_has(&ids, 3));
    assert_true(worker_ids_has(&ids, 4));
    worker_ids_drop_below(&ids, 100);
    assert_int_equal(ids.count, 0);
    worker_ids_fini(&ids);
}

static void test_ids_limit(void **state)
{
    (void)state;
    struct worker_ids ids = {.items = NULL};
    for (uint64_t i = 0; i < 4; i++) {
        assert_true(worker_ids_reserve(&ids, 1, 4));
        worker_ids_add(&ids, 1 + 2 * i);
    }
    assert_false(worker_ids_reserve(&ids, 1, 4));
    pod_mem_fail_after(0, 1);
    bool grown = worker_ids_reserve(&ids, 100, 1000);
    pod_mem_fail_after(-1, 0);
    assert_false(grown);
    assert_true(worker_ids_has(&ids, 7));
    worker_ids_fini(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_ids_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
