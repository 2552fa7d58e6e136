// SPDX-License-Identifier: Apache-2.0
// The README's tour: its commands, as they stand, against a fresh podd.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/lib/program.h"

static const char at_home[] = "localhost:8480";

// Writes one line with the address of the tour replaced.
static void write_line(FILE *script, const char *line, unsigned port)
{
    const char *found;
    while ((found = strstr(line, at_home)) != NULL) {
        fprintf(script, "%.*slocalhost:%u", (int)(found - line), line, port);
        line = found + strlen(at_home);
    }
    fputs(line, script);
}

// Puts the ```sh blocks of the README in a script; returns how many there are.
static int extract(const char *script_path, unsigned port)
{
    FILE *readme = fopen("README.md", "r");
    FILE *script = fopen(script_path, "w");
    assert_non_null(readme);
    assert_non_null(script);
    // Every command must succeed, and curl must see a status below 400.
    fputs("set -euo pipefail\n"
          "curl() { command curl --fail-with-body \"$@\"; }\n",
          script);
    char *line = NULL;
    size_t capacity = 0;
    bool inside = false;
    int blocks = 0;
    while (getline(&line, &capacity, readme) > 0) {
        if (strncmp(line, "```", 3) == 0) {
            inside = strcmp(line, "```sh\n") == 0;
            blocks += inside;
        } else if (inside) {
            write_line(script, line, port);
        }
    }
    free(line);
    fclose(readme);
    fclose(script);
    return blocks;
}

static void test_every_command_of_the_tour(void **state)
{
    (void)state;
    struct test_program podd;
    test_program_start(&podd, "podd",
                       (const char *[]){"--dev", "--listen", "127.0.0.1:0",
                                        "--log-level", "error", NULL});
    char folder[] = "/tmp/podd-tour-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char script[64];
    snprintf(script, sizeof(script), "%s/tour.sh", folder);
    assert_true(extract(script, podd.port) >= 8);
    char command[400];
    // Debian's own python3, as the README's reader has it.
    snprintf(
        command, sizeof(command),
        "cd %s && PATH=/usr/bin:/bin bash tour.sh >tour.out 2>&1 && "
        "tail -n 1 tour.out | grep -q '\"FREE\",\"state\":\"SUCCEEDED\"' && "
        "grep -q '19. 22.' tour.out && grep -q SKIPPED tour.out && "
        "grep -qF '[[1307,1518],[2967,3446]]' tour.out",
        folder);
    int status = system(command);
    if (status != 0) {
        snprintf(command, sizeof(command), "tail -n 20 %s/tour.out", folder);
        assert_int_not_equal(system(command), -1);
    }
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_not_equal(system(command), -1);
    assert_int_equal(status, 0);
    assert_int_equal(test_program_stop(&podd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_command_of_the_tour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
