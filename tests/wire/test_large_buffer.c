// SPDX-License-Identifier: Apache-2.0
// Buffers of more bytes than 32 bits count: large_buffer.py says how.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/lib/script.h"

enum { SKIPPED = 77 };

static void test_more_than_four_gib(void **state)
{
    (void)state;
    int code = test_script_run("tests/wire/large_buffer.py", NULL);
    if (code == SKIPPED)
        skip();
    assert_int_equal(code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_than_four_gib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
