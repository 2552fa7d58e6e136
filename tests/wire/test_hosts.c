// SPDX-License-Identifier: Apache-2.0
// Workers that are added to a pod and taken away: hosts.py says how.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/lib/script.h"

static void test_hosts_come_and_go(void **state)
{
    (void)state;
    assert_int_equal(test_script_run("tests/wire/hosts.py", "come_and_go"), 0);
}

static void test_no_descriptor_left(void **state)
{
    (void)state;
    assert_int_equal(
        test_script_run("tests/wire/hosts.py", "no_descriptor_left"), 0);
}

static void test_machine_stands_still(void **state)
{
    (void)state;
    assert_int_equal(
        test_script_run("tests/wire/hosts.py", "machine_stands_still"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts_come_and_go),
        cmocka_unit_test(test_no_descriptor_left),
        cmocka_unit_test(test_machine_stands_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
