// SPDX-License-Identifier: Apache-2.0
// Why an operation does not run yet, and how many come before it.
//
// Nothing is kept for this: who asks counts, in the queue in which the
// operation stands, and no further than PENDING_LIMIT.
//
// POD_PENDING_HOST_CORDONED is not among the answers: what was accepted goes on
// on a cordoned host, and what is new is refused there instead of waiting.
#include "core/pod/pending.h"

#include "core/pod/outbox.h"

enum {
    PENDING_LIMIT = 250, // the last place that is shown
    PENDING_LOOK = 1000, // for a gang, in all of its lanes together
};

static void pending_cap(struct pod_standing *standing)
{
    if (standing->position < PENDING_LIMIT)
        return;
    standing->position = PENDING_LIMIT;
    standing->capped = true;
}

// --------------------------------------------------------------------- memory

// An allocation waits for the frees before it on its core, and so behind the
// allocations that wait for those.
static bool pending_waits_for_memory(const struct pod *pod,
                                     const struct pod_op *op)
{
    return op->waits_for_memory && !pod_list_empty(&op->work->memory_link) &&
           op->work->memory_link.prev != &pod->cores[op->core]->frees;
}

static void pending_memory(const struct pod *pod, const struct pod_op *op,
                           struct pod_standing *standing)
{
    const struct pod_list *end = &pod->cores[op->core]->frees;
    struct pod_list *at = op->work->memory_link.prev;
    int looks = 0;

    standing->position = 0;
    for (; at != end && looks < PENDING_LIMIT; at = at->prev, looks++) {
        const struct pod_op *before =
            POD_CONTAINER(at, struct pod_work, memory_link)->op;
        if (before->kind == POD_KIND_ALLOCATE && !pod_op_ended(before))
            standing->position++;
    }
    standing->capped = at != end;
}

// ------------------------------------------------------------------ executions

// Before it in a lane are those that are queued before it and those that were
// launched and have not begun. The place of a gang is its worst one.
static void pending_lanes(const struct pod *pod, const struct pod_op *op,
                          struct pod_standing *standing)
{
    struct pod_sched_standing lane;
    const void *cursor = NULL;
    size_t looks = 0;

    standing->position = 0;
    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_core *core = pod->cores[op->replicas[i].core];
        if (looks >= PENDING_LOOK) {
            standing->capped = true;
            break;
        }
        if (!pod_sched_next_standing(pod->sched, op->node, PENDING_LIMIT,
                                     &cursor, &lane))
            break;
        uint32_t before = (uint32_t)lane.before;
        if (lane.launched > core->running_executions)
            before += lane.launched - core->running_executions;
        if (before > standing->position)
            standing->position = before;
        looks += lane.before + 1;
    }
    pending_cap(standing);
}

// --------------------------------------------------------------------- hosts

// Cores of a host take their operations one beside the other; what has no core
// of its own is behind all.
static bool pending_same_core(const struct pod_op *a, const struct pod_op *b)
{
    return a->core == b->core || a->core == POD_NO_ID || b->core == POD_NO_ID;
}

// Operations that went to the host before this call's and could begin before
// it does. Calls of one operation stand together.
static uint32_t pending_sent_before(const struct pod_op *op,
                                    const struct pod_call *call,
                                    int *in_out_looks)
{
    const struct pod_list *end = &call->host->calls;
    const struct pod_op *last = NULL;
    uint32_t count = 0;

    for (struct pod_list *at = call->host_link.prev;
         at != end && *in_out_looks < PENDING_LIMIT; at = at->prev) {
        const struct pod_op *other =
            pod_call_op(POD_CONTAINER(at, struct pod_call, host_link));
        ++*in_out_looks;
        if (other == NULL || other == op || other == last ||
            other->state != POD_SCHED_READY || other->priority < op->priority ||
            !pending_same_core(op, other))
            continue;
        last = other;
        count++;
    }
    return count;
}

static void pending_host(const struct pod_op *op, struct pod_standing *standing)
{
    const struct pod_call *call;
    int looks = 0;

    for (size_t i = 0; (call = pod_op_call(op, i)) != NULL; i++) {
        if (!call->open)
            continue;
        uint32_t before = pending_sent_before(op, call, &looks);
        if (standing->position == POD_NO_ID || before > standing->position)
            standing->position = before;
        standing->capped = looks >= PENDING_LIMIT;
        if (standing->capped)
            break;
    }
}

// ---------------------------------------------------------------------- reason

static enum pod_pending pending_reason(const struct pod *pod,
                                       const struct pod_op *op)
{
    if (op->state == POD_SCHED_WAITING)
        return pending_waits_for_memory(pod, op) ? POD_PENDING_MEMORY
                                                 : POD_PENDING_DEPENDENCY;
    if (op->state != POD_SCHED_READY)
        return POD_PENDING_NONE;
    if (op->launched)
        return POD_PENDING_HOST_QUEUE;
    return op->replica_count > 1 ? POD_PENDING_GANG : POD_PENDING_CORE_BUSY;
}

struct pod_standing pod_op_standing_locked(const struct pod *pod,
                                           const struct pod_op *op)
{
    struct pod_standing standing = {
        .reason = pending_reason(pod, op),
        .position = POD_NO_ID,
    };

    switch (standing.reason) {
    case POD_PENDING_MEMORY:
        pending_memory(pod, op, &standing);
        break;
    case POD_PENDING_HOST_QUEUE:
        pending_host(op, &standing);
        break;
    case POD_PENDING_CORE_BUSY:
    case POD_PENDING_GANG:
        if (op->node != NULL)
            pending_lanes(pod, op, &standing);
        break;
    case POD_PENDING_NONE:
    case POD_PENDING_DEPENDENCY:
    case POD_PENDING_HOST_CORDONED:
    case POD_PENDING_STAGING:
        break;
    }
    return standing;
}
