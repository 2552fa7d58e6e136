// SPDX-License-Identifier: Apache-2.0
// The ceiling of what goes over gRPC: a bidirectional stream over the C core
// between two processes, one thread and one completion queue each. The client
// sends messages of one size, the server answers each with one of another.
//
// It leaves out all that the messages say: nothing is packed, read or copied,
// no operations, no devices. Each message is sent as it is: none are joined.
// What messages hold is cut in turns from as many bytes as the work moves, for
// a few that are sent again and again stay in the processor's cache.
//
// Neither process is that of the benchmark: all queues of a process share one
// poll set, so a thread that waits for another queue takes the client's events
// and has to wake it, which makes each round trip half as long again.
//
// For benchmarks: whatever goes wrong ends the program with a message.
#ifndef POD_TESTS_BENCH_ECHO_H
#define POD_TESTS_BENCH_ECHO_H

#include <stddef.h>
#include <sys/types.h>

struct echo_options {
    size_t request_bytes; // at least 1, and so has the reply
    size_t reply_bytes;
    unsigned window;   // requests that have no reply yet, at most
    size_t pool_bytes; // that messages are cut from; at least one is
};

struct echo {
    struct echo_options options;
    pid_t server;
    pid_t client;
    int ask;    // seconds, for the client
    int answer; // requests a second
};

// Starts both as children of this process, which must have no threads and must
// not have used gRPC.
void echo_start(struct echo *echo, const struct echo_options *options);
// Sends and receives for so long, then until all is answered; requests a
// second.
double echo_run(struct echo *echo, double seconds);
void echo_stop(struct echo *echo);

#endif
