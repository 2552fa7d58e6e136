// SPDX-License-Identifier: Apache-2.0
// Runs a part of a benchmark in a process of its own.
#ifndef POD_TESTS_BENCH_APART_H
#define POD_TESTS_BENCH_APART_H

// Calls it in a child, so that it begins without threads and without gRPC, from
// which servers can be forked; waits until that has ended. Whatever goes wrong
// ends the program with a message.
void bench_apart(void (*run)(const void *arg), const void *arg);

#endif
