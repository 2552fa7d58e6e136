// SPDX-License-Identifier: Apache-2.0
// Many workers in one process of their own, each with its server, its session
// core and a reference device of one core: a big pod on a small machine.
//
// For benchmarks: whatever goes wrong ends the program with a message.
#ifndef POD_TESTS_BENCH_CROWD_H
#define POD_TESTS_BENCH_CROWD_H

#include <stddef.h>
#include <sys/types.h>

struct crowd {
    pid_t pid;
    size_t count;
    char **addresses;
};

// Starts them as a child of this process, which must have no threads and must
// not have used gRPC, and waits until all listen.
void crowd_start(struct crowd *crowd, size_t count);
void crowd_stop(struct crowd *crowd);

#endif
