// SPDX-License-Identifier: Apache-2.0
// The logs of podd and podworker as processes: ids that reach workers, lines
// that parse, events and keys as server/README.md has them. Each test is a case
// of logs.py, which says on stderr what was wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void run_case(void **state)
{
    const char *name = *state;
    char command[128];

    (void)snprintf(command, sizeof(command),
                   "/usr/bin/python3 -B tests/wire/logs.py %s", name);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    static char cases[][24] = {"ids_reach_workers",
                               "ids_without_traces",
                               "lines",
                               "closed_sets",
                               "text",
                               "levels"};
    struct CMUnitTest tests[sizeof(cases) / sizeof(cases[0])];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i], .test_func = run_case, .initial_state = cases[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
