// SPDX-License-Identifier: Apache-2.0
// What the operation of a graph does while its members run: it counts them by
// state, remembers the first that failed, cancels them, and ends with them.
//
// It is launched when it is admitted and has no call of its own. Its members
// change inside of steps, in which nothing may step: so what follows for the
// graph is done after the step, from pod->local.
#include "core/pod/graph.h"

#include "core/base/mem.h"
#include "core/pod/complete.h"
#include "core/pod/effect.h"
#include "core/pod/failure.h"

struct pod_graph *pod_graph_new(void)
{
    return pod_calloc(1, sizeof(struct pod_graph));
}

void pod_graph_free(struct pod_graph *graph)
{
    if (graph == NULL)
        return;
    pod_failure_unref(graph->failure);
    pod_free(graph->turns);
    pod_free(graph);
}

void pod_graph_join(struct pod_op *graph, struct pod_op *member)
{
    member->graph = graph->number;
    member->graph_op = graph;
    graph->members->counts[member->state]++;
    graph->members->open++;
}

// ---------------------------------------------------------------------- counts

static void graph_failed(struct pod *pod, struct pod_op *op,
                         const struct pod_op *member)
{
    struct pod_graph *graph = op->members;
    bool breaks =
        member->state == POD_SCHED_FAILED || member->state == POD_SCHED_LOST;

    if (graph->failed == 0) {
        graph->failed = member->number;
        graph->failed_kind = member->kind;
        graph->failed_state = member->state;
        graph->failure = pod_failure_ref(member->failure);
    }
    if (!breaks || !graph->cancel_on_error || graph->cancelled)
        return;
    graph->cancelling = true;
    pod_done_local_locked(pod, op);
}

void pod_graph_moved_locked(struct pod *pod, struct pod_op *member,
                            enum pod_sched_state before)
{
    struct pod_op *op = member->graph_op;
    struct pod_graph *graph = op->members;

    graph->counts[before]--;
    graph->counts[member->state]++;
    if (!pod_op_ended(member))
        return;
    graph->open--;
    graph->last_ended = member->number;
    if (member->state != POD_SCHED_SUCCEEDED)
        graph_failed(pod, op, member);
    if (graph->open == 0)
        pod_done_local_locked(pod, op);
}

// --------------------------------------------------------------------- cancels

// Why its members are cancelled: the graph was cancelled, ended from outside,
// or one of them failed.
static struct pod_failure *graph_why(const struct pod_op *op)
{
    return op->failure != NULL ? op->failure : op->members->failure;
}

static void graph_cancel_member(struct pod *pod, struct pod_op *member,
                                struct pod_failure *why,
                                struct pod_after *after)
{
    member->cancel = POD_CANCEL_PENDING;
    if (member->outcome == POD_SCHED_SUCCEEDED) {
        pod_fail_with_locked(pod, member, pod_failure_ref(why));
        member->root = why->root;
    }
    pod_step_locked(pod, member, POD_SCHED_CANCEL, POD_SCHED_CANCELLED, false,
                    after);
    if (!pod_op_ended(member))
        pod_touch_locked(pod, member, after);
}

// From the last turn to the first, so that each ends by itself and not because
// of another.
static void graph_cancel_members(struct pod *pod, struct pod_op *op,
                                 struct pod_after *after)
{
    struct pod_graph *graph = op->members;
    uint64_t count = graph->last - graph->first + 1;
    struct pod_failure *why = pod_failure_ref(graph_why(op));

    graph->cancelled = true;
    for (uint64_t i = count; i > 0; i--) {
        uint64_t turn = graph->turns == NULL ? i - 1 : graph->turns[i - 1];
        struct pod_op *member = pod_table_get(&pod->table, graph->first + turn);
        if (member != NULL && !pod_op_ended(member) &&
            member->cancel == POD_CANCEL_NONE)
            graph_cancel_member(pod, member, why, after);
    }
    pod_failure_unref(why);
}

void pod_graph_interrupt_locked(struct pod *pod, struct pod_op *op)
{
    op->members->cancelling = true;
    pod_done_local_locked(pod, op);
}

// ------------------------------------------------------------------------ ends

static void graph_explain(struct pod *pod, struct pod_op *op)
{
    const struct pod_graph *graph = op->members;
    const struct pod_op *failed = pod_table_get(&pod->table, graph->failed);

    if (failed != NULL) {
        pod_inherit_locked(pod, op, failed);
        return;
    }
    pod_fail_with_locked(pod, op, pod_failure_ref(graph->failure));
    op->root = graph->failure->root;
}

static void graph_complete(struct pod *pod, struct pod_op *op,
                           struct pod_after *after)
{
    const struct pod_graph *graph = op->members;

    if (op->cancel != POD_CANCEL_NONE) {
        op->outcome = POD_SCHED_CANCELLED; // explained by the cancel
    } else if (graph->failed != 0 && !pod_op_ended(op)) {
        op->outcome = POD_SCHED_FAILED;
        graph_explain(pod, op);
    }
    pod_complete_locked(pod, op, after);
}

void pod_graph_run_locked(struct pod *pod, struct pod_op *op,
                          struct pod_after *after)
{
    struct pod_graph *graph = op->members;

    if (graph->cancelling && !graph->cancelled && graph->open > 0)
        graph_cancel_members(pod, op, after);
    if (graph->open == 0)
        graph_complete(pod, op, after);
}

void pod_graph_settle_locked(struct pod_op *op)
{
    pod_free(op->members->turns);
    op->members->turns = NULL;
}
