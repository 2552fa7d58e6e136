// SPDX-License-Identifier: Apache-2.0
// What the scheduler's files share. See sched.h for the rules.
#ifndef POD_SCHED_INTERNAL_H
#define POD_SCHED_INTERNAL_H

#include "core/base/heap.h"
#include "core/base/list.h"
#include "core/sched/pool.h"
#include "core/sched/sched.h"

// Edges to dependents, newest first. The first few are in the node itself, so
// that most completions find them where they look anyway.
struct pod_sched_edges {
    struct pod_sched_edges *next; // older ones
    // The dependent and flags, for which the address of a node leaves room;
    // 0: none. Filled from the end.
    uintptr_t to[2];
};

enum {
    POD_SCHED_EDGES =
        sizeof(((struct pod_sched_edges *)0)->to) / sizeof(uintptr_t),
    POD_SCHED_EDGE_CARRIES = 1,
    POD_SCHED_EDGE_AHEAD = 2,
    POD_SCHED_EDGE_FLAGS = 3,
};

// A node's place in one lane, from SUBMIT until it settles. The places of a
// node form a ring; that of a gang is turned to the lane that held it back.
struct pod_sched_place {
    struct pod_sched_place *next;
    struct pod_sched_node *node;
    uint64_t order; // when submitted
    uint32_t lane;
    uint32_t slot; // in the lane's heap while queued
};

enum { POD_SCHED_LINE_BYTES = 64 };

struct pod_sched_node {
    // First line: all that a completion touches of a dependent.
    struct pod_list effect; // in sched->effects while `what` is not 0
    struct pod_sched_edges edges;
    void *user;
    uint32_t unmet; // edges to it that still stand
    uint32_t held;  // those of them that keep it from being launched
    uint32_t deadline_slot;
    uint8_t state;
    uint8_t what; // the effect that waits to be taken
    bool launched : 1;
    bool settled : 1;
    bool placed : 1;      // has places in lanes
    bool queued : 1;      // stands in the heaps of its lanes
    bool interrupted : 1; // INTERRUPT was given
    bool late : 1;        // its deadline passed while it was open
    bool struck : 1;      // ended because of `cause`
    bool run_on_failure : 1;
    bool leads : 1; // some dependent may be launched as soon as it is

    // Second line: what only lanes, failures and sent-ahead launches need.
    union {
        struct pod_sched_place *places;    // if placed
        struct pod_sched_node *next_spent; // while in sched->spent
    };
    union {
        void *cause;                       // if struck
        struct pod_sched_node *next_ahead; // while in sched->ahead
    };
    int8_t priority;
    struct pod_sched_place first_place;
};

_Static_assert(offsetof(struct pod_sched_node, places) == POD_SCHED_LINE_BYTES,
               "the first line is full");
_Static_assert(sizeof(struct pod_sched_node) <= 2 * POD_SCHED_LINE_BYTES,
               "a node has two lines");

static inline struct pod_sched_node *pod_sched_edge_node(uintptr_t edge)
{
    return (struct pod_sched_node *)(edge & ~(uintptr_t)POD_SCHED_EDGE_FLAGS);
}

static inline bool pod_sched_edge_carries(uintptr_t edge)
{
    return (edge & POD_SCHED_EDGE_CARRIES) != 0;
}

static inline bool pod_sched_edge_ahead(uintptr_t edge)
{
    return (edge & POD_SCHED_EDGE_AHEAD) != 0;
}

// A walk over the edges of a node.
struct pod_sched_walk {
    const struct pod_sched_edges *edges;
    size_t next;
};

// The next edge, or 0.
static inline uintptr_t pod_sched_walk_next(struct pod_sched_walk *walk)
{
    while (walk->edges != NULL) {
        while (walk->next < POD_SCHED_EDGES) {
            uintptr_t edge = walk->edges->to[walk->next++];
            if (edge != 0)
                return edge;
        }
        *walk = (struct pod_sched_walk){.edges = walk->edges->next};
    }
    return 0;
}

static inline bool pod_sched_node_open(const struct pod_sched_node *node)
{
    return !pod_sched_terminal((enum pod_sched_state)node->state);
}

struct pod_sched_lane {
    struct pod_heap queue; // places; has room for all that wait
    uint32_t window;
    uint32_t launched;
    uint32_t waiting; // nodes with a place here that are not launched
    uint32_t next_dirty;
    bool dirty; // in the list of lanes to look at
};

struct pod_sched_lanes {
    struct pod_sched_lane *items;
    uint32_t count;
    uint32_t capacity;
    uint32_t dirty;               // first lane of the list, or POD_HEAP_NONE
    struct pod_sched_pool places; // but the first of each node
};

void pod_sched_lanes_init(struct pod_sched_lanes *lanes);
void pod_sched_lanes_fini(struct pod_sched_lanes *lanes);
// The number of a new lane, or UINT32_MAX.
uint32_t pod_sched_lanes_add(struct pod_sched_lanes *lanes, uint32_t window);

// Makes sure that a node can join these lanes; false: no memory.
bool pod_sched_lanes_reserve(struct pod_sched_lanes *lanes,
                             const uint32_t *numbers, size_t count)
    __attribute__((warn_unused_result));
// Gives a node its places; `order` says when it was submitted.
void pod_sched_lanes_join(struct pod_sched_lanes *lanes,
                          struct pod_sched_node *node, const uint32_t *numbers,
                          size_t count, uint64_t order);
// Nothing but its lanes holds the node back now.
void pod_sched_lanes_queue(struct pod_sched_lanes *lanes,
                           struct pod_sched_node *node);
// Whether pod_sched_lanes_pick may find one.
static inline bool pod_sched_lanes_any(const struct pod_sched_lanes *lanes)
{
    return lanes->dirty != POD_HEAP_NONE;
}
// The next node whose turn it is in all of its lanes, or NULL. It must be
// taken with pod_sched_lanes_occupy.
struct pod_sched_node *pod_sched_lanes_pick(struct pod_sched_lanes *lanes);
void pod_sched_lanes_occupy(struct pod_sched_lanes *lanes,
                            struct pod_sched_node *node);
// Gives up the places of a placed node, whether waiting, queued or launched.
void pod_sched_lanes_leave(struct pod_sched_lanes *lanes,
                           struct pod_sched_node *node);

struct pod_sched {
    struct pod_list effects;
    // Nodes that ended and were never launched, and whose dependencies have all
    // settled: they settle in this step, in this order.
    struct pod_sched_node *spent;
    struct pod_sched_node *last_spent;
    struct pod_sched_node *ahead; // launched nodes whose dependents may follow
    struct pod_heap deadlines;    // of open nodes
    uint64_t submitted;           // how many nodes ever
    struct pod_sched_pool nodes;
    struct pod_sched_pool edges;
    struct pod_sched_lanes lanes;
};

// Deadlines keep their order as unsigned keys of a heap.
static inline uint64_t pod_sched_deadline_key(int64_t deadline_ns)
{
    return (uint64_t)deadline_ns ^ (UINT64_C(1) << 63);
}

static inline int64_t pod_sched_deadline_of(uint64_t key)
{
    return (int64_t)(key ^ (UINT64_C(1) << 63));
}

#endif
