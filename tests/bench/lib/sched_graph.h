// SPDX-License-Identifier: Apache-2.0
// Graphs of operations that benchmarks complete, and what each way of doing
// that needs: memory, and the time for each edge.
//
// For benchmarks: whatever goes wrong ends the program with a message.
#ifndef POD_TESTS_BENCH_LIB_SCHED_GRAPH_H
#define POD_TESTS_BENCH_LIB_SCHED_GRAPH_H

#include <stddef.h>
#include <stdint.h>

enum { BENCH_SHAPES = 4 };

// Who depends on whom: the parents of operation i are
// parents[first[i]] .. parents[first[i + 1] - 1], all less than i.
struct bench_graph {
    const char *name;
    size_t count;
    size_t edges;
    size_t *first;
    uint32_t *parents;
};

// One of BENCH_SHAPES shapes.
struct bench_graph bench_graph_make(size_t shape, size_t count);
void bench_graph_free(struct bench_graph *graph);

// Memory on huge pages, to be freed.
void *bench_alloc(size_t count, size_t bytes);
// The same, and in memory, as what a run is to fill: its first touch of a page
// is not what is measured.
void *bench_alloc_filled(size_t count, size_t bytes);

// Nanoseconds of the processor that this thread has had.
double bench_now(void);
// All of the graph must be completed; returns the time for each edge since
// `begin`.
double bench_result(const struct bench_graph *graph, double begin,
                    size_t completed);

#endif
