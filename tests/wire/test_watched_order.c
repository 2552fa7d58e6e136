// SPDX-License-Identifier: Apache-2.0
// What those who watch see of many operations: watched_order.py says how.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/lib/script.h"

static void test_causes_are_shown_before_effects(void **state)
{
    (void)state;
    assert_int_equal(test_script_run("tests/wire/watched_order.py", NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causes_are_shown_before_effects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
