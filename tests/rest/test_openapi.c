// SPDX-License-Identifier: Apache-2.0
// The contract against running servers: every status of every operation, and
// a fuzzer that makes requests from it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/routes.h"
#include "tests/lib/program.h"
#include "tests/lib/script.h"

// Debian's own, which has the packages that the tests need.
#define PYTHON "/usr/bin/python3"

static const char *method_name(enum api_method method)
{
    static const char *const names[] = {
        [API_GET] = "GET",
        [API_POST] = "POST",
        [API_PUT] = "PUT",
        [API_DELETE] = "DELETE",
    };
    assert_true(method < sizeof(names) / sizeof(names[0]));
    assert_non_null(names[method]);
    return names[method];
}

// Writes the table of routes, a line each.
static void write_routes(const char *path)
{
    struct api_app app;
    struct api_server_options options = {.listen = NULL};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    api_app_init(&app, NULL);
    api_app_setup(&app, &options);
    for (size_t i = 0; i < options.route_count; i++)
        fprintf(file, "%s %s\n", method_name(options.routes[i].method),
                options.routes[i].pattern);
    fclose(file);
}

static void test_every_status_of_every_operation(void **state)
{
    (void)state;
    char command[512];
    char routes[] = "/tmp/podd-routes-XXXXXX";
    int fd = mkstemp(routes);
    assert_true(fd >= 0);
    close(fd);
    write_routes(routes);
    snprintf(command, sizeof(command), PYTHON " tests/rest/contract.py %s",
             routes);
    test_script_must(command);
    unlink(routes);
}

static void test_a_fuzzer_finds_no_breach(void **state)
{
    (void)state;
    char command[512];
    test_script_install("tests/rest/install-fuzzer", "schemathesis");
    struct test_program podd;
    test_program_start(&podd, "podd",
                       (const char *[]){"--dev", "--listen", "127.0.0.1:0",
                                        "--log-level", "error", NULL});
    snprintf(command, sizeof(command), "tests/rest/fuzz-contract %s",
             podd.address);
    test_script_must(command);
    assert_int_equal(test_program_stop(&podd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_status_of_every_operation),
        cmocka_unit_test(test_a_fuzzer_finds_no_breach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
