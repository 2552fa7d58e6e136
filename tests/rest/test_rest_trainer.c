// SPDX-License-Identifier: Apache-2.0
// A client written against the OpenAPI document alone trains a network through
// a proxy that cuts its connections: every operation asked for runs once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/program.h"

#define STAGING_BYTES "1048576"

static void test_training_survives_cut_connections(void **state)
{
    (void)state;
    struct test_program podd;
    test_program_start(
        &podd, "podd",
        (const char *[]){"--dev", "--listen", "127.0.0.1:0", "--log-level",
                         "error", "--staging-bytes", STAGING_BYTES, "--pod",
                         "local:2x1x1,hosts=2,cores=2", NULL});
    char command[200];
    // Debian's own python3 has Debian's NumPy; -B writes nothing beside it.
    snprintf(command, sizeof(command),
             "/usr/bin/python3 -B tests/rest/trainer.py %u " STAGING_BYTES,
             podd.port);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    char line[4096] = "";
    while (fgets(line, sizeof(line), output) != NULL)
        fputs(line, stdout);
    int status = pclose(output);
    assert_int_equal(status, 0);
    const char *asked = getenv("POD_TRAINER_OPS");
    long least = asked != NULL ? strtol(asked, NULL, 10) : 10000;
    long operations = strtol(line, NULL, 10);
    assert_true(least > 0 && operations >= least);
    const char *end = strrchr(line, ',');
    assert_non_null(end);
    assert_string_equal(end, ", 0 faults\n");
    assert_int_equal(test_program_stop(&podd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_survives_cut_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
