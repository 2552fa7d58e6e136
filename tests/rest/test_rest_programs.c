// SPDX-License-Identifier: Apache-2.0
// The test programs through podd: uploaded, compiled from text and from protos,
// executed (replicas as gangs over several hosts), downloaded, and compared by
// NumPy; and the programs that must be refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/program.h"

static void test_programs_give_the_expected_results(void **state)
{
    (void)state;
    const char *folder = getenv("POD_PROGRAMS");
    assert_non_null(folder);
    struct test_program podd;
    test_program_start(&podd, "podd",
                       (const char *[]){"--dev", "--listen", "127.0.0.1:0",
                                        "--log-level", "error", "--pod",
                                        "local:2x2x2,hosts=4", NULL});
    char command[1200];
    // Debian's own python3 has Debian's NumPy.
    snprintf(command, sizeof(command),
             "/usr/bin/python3 tests/rest/programs.py %u %s", podd.port,
             folder);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    char line[1000] = "";
    while (fgets(line, sizeof(line), output) != NULL)
        fputs(line, stdout);
    int status = pclose(output);
    // All 117 programs of the short list in both forms, all 15 bad ones.
    assert_string_equal(line, "234 runs, 15 refusals, 0 faults\n");
    assert_int_equal(status, 0);
    assert_int_equal(test_program_stop(&podd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs_give_the_expected_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
