// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/script.h"

#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

pid_t test_script_start(const char *path, const char *argument)
{
    static const char python[] = "/usr/bin/python3";
    const char *const argv[] = {python, "-B", path, argument, NULL};
    pid_t script = 0;
    // posix_spawn takes them without const, and leaves them alone.
    union {
        const char *const *from;
        char *const *to;
    } arguments = {.from = argv};
    assert_int_equal(
        posix_spawn(&script, python, NULL, NULL, arguments.to, environ), 0);
    return script;
}

int test_script_end(pid_t script)
{
    int status = 0;
    assert_int_equal(waitpid(script, &status, 0), script);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int test_script_run(const char *path, const char *argument)
{
    return test_script_end(test_script_start(path, argument));
}

void test_script_install(const char *installer, const char *name)
{
    const char *ci = getenv("CI");
    int status = system(installer);
    if (status != 0 && (ci == NULL || strcmp(ci, "true") != 0)) {
        print_message("skipped: %s cannot be installed here\n", name);
        skip();
    }
    assert_int_equal(status, 0);
}

void test_script_must(const char *command)
{
    int status = system(command);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
