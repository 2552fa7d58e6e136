// SPDX-License-Identifier: Apache-2.0
// Tests that are scripts, as processes of their own.
#ifndef POD_TESTS_SCRIPT_H
#define POD_TESTS_SCRIPT_H

#include <stdbool.h>
#include <sys/types.h>

// By the interpreter of the distribution, for which its packages are made.
// `argument` may be NULL. Fails the test if it cannot be started.
pid_t test_script_start(const char *path, const char *argument);
// Waits for its end; the exit code, or -1 after a signal.
int test_script_end(pid_t script);
// Both.
int test_script_run(const char *path, const char *argument);

// Runs a program that installs what a test needs from PyPI. Where that cannot
// be had the test is skipped, which it says with the name, but never in CI.
void test_script_install(const char *installer, const char *name);
// Runs a command of a shell, which must succeed.
void test_script_must(const char *command);

#endif
