// SPDX-License-Identifier: Apache-2.0
// Graphs, inside the pod engine: what the operation of a graph knows of its
// members, and the order in which a list of requests takes its turns.
#ifndef POD_POD_GRAPH_H
#define POD_POD_GRAPH_H

#include "core/pod/internal.h"

// Of a GRAPH operation, owned by it. Guarded by the engine's lock.
struct pod_graph {
    uint64_t counts[POD_SCHED_LOST + 1]; // members by state
    uint64_t open;                       // members that have not ended
    // The members' numbers as they were submitted are `first` .. `last`; leaves
    // of automatic tuples come later and lie elsewhere.
    uint64_t first;
    uint64_t last;
    // The same numbers, minus `first`, in the order of their turns; NULL: by
    // number. Only until the graph is settled.
    uint32_t *turns;
    bool cancel_on_error;
    bool cancelling; // members are to be cancelled
    bool cancelled;  // and were
    // The first member that ended badly.
    uint64_t failed; // 0: none
    enum pod_kind failed_kind;
    enum pod_sched_state failed_state;
    struct pod_failure *failure;
    uint64_t last_ended; // the member that ended last so far; 0: none
};

// A graph without members. NULL: no memory.
struct pod_graph *pod_graph_new(void);
void pod_graph_free(struct pod_graph *graph); // NULL is allowed

// A member joins, WAITING, before it is admitted.
void pod_graph_join(struct pod_op *graph, struct pod_op *member);
// A member's state was `before` and is another now.
void pod_graph_moved_locked(struct pod *pod, struct pod_op *member,
                            enum pod_sched_state before);
// The operation of a graph is to stop: its members are, after this step.
void pod_graph_interrupt_locked(struct pod *pod, struct pod_op *op);
// After a step: cancels members, ends the graph, whatever is due.
void pod_graph_run_locked(struct pod *pod, struct pod_op *op,
                          struct pod_after *after);
// No member will be looked for any more.
void pod_graph_settle_locked(struct pod_op *op);

// The order of turns of a list (pod_submit_graph). *out_turns is the caller's
// (pod_free); NULL: the order of the list. *out_count is less than the list's
// when there are cycles, which are added to `faults`; what waits for one of
// them has no turn. Errors: OUT_OF_MEMORY.
enum pod_code pod_graph_order(const struct pod_graph_request *graph,
                              size_t **out_turns, size_t *out_count,
                              struct pod_faults *faults, struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
