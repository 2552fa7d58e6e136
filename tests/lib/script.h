// SPDX-License-Identifier: Apache-2.0
// Runs a test that is a script, as a process of its own.
#ifndef POD_TESTS_SCRIPT_H
#define POD_TESTS_SCRIPT_H

// By the interpreter of the distribution, for which its packages are made.
// `argument` may be NULL. Returns the exit code, or -1 after a signal; fails
// the test if it cannot be started.
int test_script_run(const char *path, const char *argument);

#endif
