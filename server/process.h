// SPDX-License-Identifier: Apache-2.0
// What podd and podworker do with their process in the same way: its memory,
// its limits, its signals.
#ifndef POD_SERVER_PROCESS_H
#define POD_SERVER_PROCESS_H

#include <stdbool.h>

#include "core/base/err.h"

// As many descriptors as the system allows, a heap that keeps big blocks, and
// no end by SIGPIPE. Before the first thread is started and the first line
// logged.
void process_setup(void);

// SIGTERM, SIGINT and SIGHUP are kept for the functions below. Once, before
// what they are to end is made. INTERNAL: no pipe.
enum pod_code process_catch_signals(struct pod_err *err)
    __attribute__((warn_unused_result));
// What is called meanwhile, each if it is not NULL.
struct process_calls {
    void (*hang_up)(void *arg); // SIGHUP
    // Much less memory is in use than before: gives back to the heap what it
    // can. False: it could not, and is asked again.
    bool (*tidy)(void *arg);
    void *arg;
};
// Returns when the process is asked to end.
void process_await_end(const struct process_calls *calls);

// From here on one more signal ends the process at once with this exit code,
// whatever it waits for. Without a thread for that, none does.
void process_end_begins(const char *component, int exit_code);
// The end has come by itself; a pair with the one before.
void process_end_is_done(void);

#endif
