// SPDX-License-Identifier: Apache-2.0
// The worker of tests/wire/fake_worker.py as a process of its own.
#ifndef POD_TESTS_FAKE_WORKER_H
#define POD_TESTS_FAKE_WORKER_H

#include <stdbool.h>
#include <sys/types.h>

struct fake_worker {
    pid_t pid;
    int port;
    char address[32]; // "127.0.0.1:PORT"
};

// Starts it in a mode (see the script), at a port of 127.0.0.1 (0 picks one),
// and waits until it listens. False: it did not come up; says why.
bool fake_worker_start(struct fake_worker *worker, const char *mode, int port);
// Sends a signal; SIGKILL and SIGTERM also wait for its end.
void fake_worker_signal(struct fake_worker *worker, int number);

#endif
