// SPDX-License-Identifier: Apache-2.0
// The ceiling: the least that a program on libmicrohttpd has to do to answer
// the requests of the benchmark. It has our loop (its own epoll set around
// MHD_run) and, unless jobs are handed over, no other thread.
//
//   GET /v1/events/...         builds the event with jansson, dumps it
//   GET /v1/events/...?wait    is suspended until the next cancel
//   POST ...:cancel            resumes all that are suspended
//   POST                       parses the body, answers as for the event: at
//                              once, or, if jobs are handed over, when a
//                              thread has copied 16 bytes (bare_worker.h)
//   PUT                        receives into one malloc'ed buffer, keeps it in
//                              place of the one before, and answers as for the
//                              event
//   GET .../data               answers from memory that was written
//   GET /metrics               tells how many are suspended, as podd does
//
// Answers have the members and the headers of ours, so their size is the same.
// It leaves out: operations and their events, threads and hosts to hand them
// to, device memory; routes, parameters, Host and framing checks, limits of
// memory and time, a name for each request, the duplicates and the depth of
// JSON, hang-ups of those who wait.
#ifndef POD_TESTS_BENCH_BARE_H
#define POD_TESTS_BENCH_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct bare {
    pid_t pid;
    unsigned port;
};

struct bare_options {
    size_t pool_bytes; // memory of a connection; 0: libmicrohttpd's own choice
    size_t data_bytes; // what GET .../data answers with
    bool hands_over;   // a POST is done by another thread
};

// Starts it as a child of this process, which must have no threads. A failure
// ends the program.
void bare_start(struct bare *bare, const struct bare_options *options);
void bare_stop(struct bare *bare);

#endif
