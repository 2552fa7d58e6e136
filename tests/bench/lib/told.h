// SPDX-License-Identifier: Apache-2.0
// The least that releases edges for who is told of completions from outside:
// see tests/bench/sched.c, which measures the scheduler beside it.
#ifndef POD_TESTS_BENCH_LIB_TOLD_H
#define POD_TESTS_BENCH_LIB_TOLD_H

#include <stddef.h>
#include <stdint.h>

enum { TOLD_PLACE_BITS = 24 }; // of an id; the others count operations

struct told_edge {
    struct told_edge *next; // also in the free list
    struct told_node *to;
};

struct told_node {
    union {
        struct told_edge *dependents;
        struct told_node *next_free;
    };
    uint64_t id; // 0: free
    uint32_t unmet;
};

// Zeroed, but for the arrays, which are the caller's and have room for all.
struct told {
    struct told_node *nodes;
    struct told_edge *edges;
    struct told_node *free_nodes;
    struct told_edge *free_edges;
    size_t node_count; // that were ever taken
    size_t edge_count;
    uint64_t submitted;
    uint64_t *news; // ids: of what became ready, and last of what ended
};

// An id need not be looked up: its node is where it says.
static inline struct told_node *told_find(const struct told *told, uint64_t id)
{
    return &told->nodes[id & ((UINT64_C(1) << TOLD_PLACE_BITS) - 1)];
}

// Returns the id of a new operation.
uint64_t told_submit(struct told *told, const uint64_t *deps, size_t dep_count);
// Returns how many news there are: none if there is no such operation.
size_t told_done(struct told *told, uint64_t id);

#endif
