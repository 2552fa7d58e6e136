// SPDX-License-Identifier: Apache-2.0
// The worker of tests/wire/fake_worker.py as a process of its own.
#ifndef POD_TESTS_FAKE_WORKER_H
#define POD_TESTS_FAKE_WORKER_H

#include <stdbool.h>
#include <sys/types.h>

struct fake_worker {
    pid_t pid;
    int port;
    char address[32]; // IP:PORT
};

// PEM files: its certificate and key, and who signs its clients'; NULL: none.
struct fake_worker_tls {
    const char *cert;
    const char *key;
    const char *client_ca;
};

// Starts it in a mode (see the script), at a port of loopback (0 picks one),
// and waits until it listens. False: it did not come up; says why.
bool fake_worker_start(struct fake_worker *worker, const char *mode, int port);
bool fake_worker_start_tls(struct fake_worker *worker, const char *mode,
                           int port, const struct fake_worker_tls *tls);
// Sends a signal; SIGKILL and SIGTERM also wait for its end.
void fake_worker_signal(struct fake_worker *worker, int number);

#endif
