// SPDX-License-Identifier: Apache-2.0
// /v1/trace in Perfetto's own trace processor: it takes all of it without a
// complaint, and then says of it by SQL what the events say.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/program.h"
#include "tests/lib/script.h"

static void start(struct test_program *podd, const char *pod)
{
    test_script_install("tests/rest/install-perfetto", "Perfetto");
    test_program_start(podd, "podd",
                       (const char *[]){"--dev", "--listen", "127.0.0.1:0",
                                        "--log-level", "error",
                                        "--history-count", "200000", "--pod",
                                        pod, NULL});
}

static void test_all_that_an_event_can_tell_of(void **state)
{
    struct test_program podd;
    char command[100];
    (void)state;
    start(&podd, "local:2x2x1,hosts=2,cores=2,latency=2ms,"
                 "fault=host1:execute#20=die;host0:read#7=fail:DATA_LOSS");
    (void)snprintf(command, sizeof(command), "tests/rest/check-perfetto %u",
                   podd.port);
    test_script_must(command);
    assert_int_equal(test_program_stop(&podd), 0);
}

// Under the sanitizers it is a smaller one, and memory that was freed is kept.
static void test_a_hundred_thousand_operations(void **state)
{
    struct test_program podd;
    char command[100];
    (void)state;
    start(&podd, "local:2x2x1,hosts=2,cores=2");
    if (getenv("POD_SLOW") != NULL)
        (void)snprintf(command, sizeof(command),
                       "tests/rest/check-perfetto %u 4000", podd.port);
    else
        (void)snprintf(command, sizeof(command),
                       "tests/rest/check-perfetto %u 100000 %d", podd.port,
                       (int)podd.pid);
    test_script_must(command);
    assert_int_equal(test_program_stop(&podd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_an_event_can_tell_of),
        cmocka_unit_test(test_a_hundred_thousand_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
