// SPDX-License-Identifier: Apache-2.0
// Starts a program of ours as a process and reads where it listens.
#ifndef POD_TESTS_PROGRAM_H
#define POD_TESTS_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

struct test_program {
    pid_t pid;
    int output;        // its stdout
    char address[128]; // "127.0.0.1:40001", or "unix:PATH"
    unsigned port;     // 0 for an address without one
};

// Starts $POD_BUILD/NAME with a NULL-terminated list of arguments and waits for
// its line "listening on ADDRESS". Fails the test if none comes in 20 s.
void test_program_start(struct test_program *program, const char *name,
                        const char *const *arguments);
// Sends SIGTERM and returns the exit code; fails the test if it does not end
// in 20 s, or ends by a signal.
int test_program_stop(struct test_program *program);
// Sends SIGKILL and reaps it. A program that has ended already is no error.
void test_program_kill(struct test_program *program);

#endif
