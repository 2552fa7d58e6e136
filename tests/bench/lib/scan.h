// SPDX-License-Identifier: Apache-2.0
// A model of a driver that looks at all operations in flight on each
// completion: see tests/bench/sched.c, which measures the scheduler beside it.
#ifndef POD_TESTS_BENCH_LIB_SCAN_H
#define POD_TESTS_BENCH_LIB_SCAN_H

#include "tests/bench/lib/sched_graph.h"

// Completes the graph; returns nanoseconds for each edge.
double scan_run(const struct bench_graph *graph);

#endif
