// SPDX-License-Identifier: Apache-2.0
// What slow readers of a worker's buffers hold: slow_readers.py says how.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/lib/script.h"

static void test_their_bytes_are_in_the_budget(void **state)
{
    (void)state;
    assert_int_equal(test_script_run("tests/wire/slow_readers.py", NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_their_bytes_are_in_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
