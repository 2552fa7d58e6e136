// SPDX-License-Identifier: Apache-2.0
// Steps of the scheduler and their effects: states, times, causes, launches.
//
// All effects of a step are applied before the next step, so applying one must
// not step: an operation that is over at once is put in pod->local and
// completed when the step is done.
//
// What ends well and brings nothing but its edges (pod_sched_plain) has ended
// for its observers at once; the scheduler is told of many together, as one
// message answers many calls.
#include "core/pod/effect.h"

#include <assert.h>

#include "core/base/mem.h"
#include "core/pod/complete.h"
#include "core/pod/failure.h"
#include "core/pod/gang.h"
#include "core/pod/graph.h"
#include "core/pod/launch.h"
#include "core/pod/settle.h"
#include "core/pod/stall.h"
#include "core/pod/transfer.h"

enum {
    EFFECTS_EXPECTED = 8,
    EFFECTS_LAUNCHED = 64, // taken from the scheduler at once
};

int64_t pod_now_locked(struct pod *pod)
{
    int64_t now = pod_now(pod);

    // Threads read the clock before they get the lock.
    if (now > pod->now_ns)
        pod->now_ns = now;
    return pod->now_ns;
}

void pod_pin(struct pod_op *op)
{
    op->pins++;
}

void pod_unpin_locked(struct pod *pod, struct pod_op *op)
{
    assert(op->pins > 0);
    op->pins--;
    pod_retire_locked(pod, op);
}

void pod_touch_locked(struct pod *pod, struct pod_op *op,
                      struct pod_after *after)
{
    op->revision = ++pod->revision;
    pod_changed_op_locked(pod, op, false);
    if (!pod_list_empty(&op->change_waiters)) {
        pod_list_splice(&pod->woken, &op->change_waiters);
        after->notify = true;
    }
    if (pod_op_ended(op) && !pod_list_empty(&op->end_waiters)) {
        pod_list_splice(&pod->woken, &op->end_waiters);
        after->notify = true;
    }
}

// --------------------------------------------------------------------- running

static void effect_core_running(struct pod_core *core, uint64_t number,
                                bool runs)
{
    size_t room = sizeof(core->running) / sizeof(core->running[0]);

    if (runs && core->running_count < room) {
        core->running[core->running_count++] = number;
        return;
    }
    for (size_t i = 0; !runs && i < core->running_count; i++) {
        if (core->running[i] == number) {
            core->running[i] = core->running[--core->running_count];
            return;
        }
    }
}

// The cores an operation is on.
static void effect_running(struct pod *pod, struct pod_op *op, bool runs)
{
    size_t count = op->replica_count > 0 ? op->replica_count : 1;

    for (size_t i = 0; i < count; i++) {
        uint32_t id = op->replica_count > 0 ? op->replicas[i].core : op->core;
        if (id == POD_NO_ID)
            continue;
        effect_core_running(pod->cores[id], op->number, runs);
        if (op->replica_count > 0)
            pod->cores[id]->running_executions += runs ? 1 : UINT32_MAX;
    }
}

// ------------------------------------------------------------------------ ends

// Whether its worker could have stopped it, had it not been too late.
static bool effect_interruptible(const struct pod *pod, const struct pod_op *op)
{
    if (op->transfer != NULL || op->kind == POD_KIND_COPY)
        return true;
    if (op->kind != POD_KIND_EXECUTE)
        return false;
    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_host *host = pod->hosts[op->replicas[i].host];
        if ((host->features & POD_DRIVER_CANCEL) == 0)
            return false;
    }
    return true;
}

static void effect_cancel_outcome(const struct pod *pod, struct pod_op *op)
{
    if (op->cancel != POD_CANCEL_PENDING)
        return;
    if (op->state == POD_SCHED_CANCELLED)
        op->cancel = POD_CANCEL_INTERRUPTED;
    else if (op->state == POD_SCHED_LOST)
        op->cancel = POD_CANCEL_UNKNOWN;
    else if (effect_interruptible(pod, op))
        op->cancel = POD_CANCEL_COMPLETED_ANYWAY;
    else
        op->cancel = POD_CANCEL_NOT_INTERRUPTIBLE;
}

// A failure is there when an operation ends badly, whatever brought it.
static void effect_explain(struct pod *pod, struct pod_op *op,
                           const struct pod_sched_effect *effect)
{
    struct pod_op *cause = op->state == POD_SCHED_SUCCEEDED
                               ? NULL
                               : pod_sched_effect_cause(effect);

    if (op->state == POD_SCHED_SUCCEEDED)
        pod_unfail_locked(op);
    else if (cause != NULL)
        pod_inherit_locked(pod, op, cause);
    else if ((effect->what & POD_SCHED_EXPIRED) != 0)
        pod_fail_locked(pod, op, POD_REASON_DEADLINE_EXCEEDED,
                        "the deadline passed before it was done");
    else if (op->failure == NULL)
        pod_fail_locked(pod, op, POD_REASON_INTERNAL,
                        "it ended without a known cause");
}

static void effect_end(struct pod *pod, struct pod_op *op,
                       const struct pod_sched_effect *effect,
                       struct pod_after *after)
{
    struct pod_handle *handle = pod_op_handle(op);

    effect_explain(pod, op, effect);
    effect_cancel_outcome(pod, op);
    if (handle != NULL && op->state != POD_SCHED_SUCCEEDED)
        handle->failed = true;
    pod_metrics_ended_locked(pod, op);
    pod_stall_ended_locked(pod, op);
    pod_note_ended_locked(pod, op);
    pod->open_count--;
    after->idle = after->idle || pod->open_count == 0;
    pod_host_count_locked(pod, op, false);
    if (op->core != POD_NO_ID)
        pod->cores[op->core]->open_operations--;
    pod_transfer_end_locked(op, after);
}

static void effect_change(struct pod *pod, struct pod_op *op,
                          const struct pod_sched_effect *effect,
                          struct pod_after *after)
{
    int64_t since = pod->now_ns - op->created_ns;
    enum pod_sched_state before = op->state;

    pod->by_state[op->state]--;
    op->state = effect->state;
    pod->by_state[op->state]++;
    if (op->state >= POD_SCHED_READY && op->ready_ns < 0 &&
        op->state <= POD_SCHED_SUCCEEDED)
        op->ready_ns = since;
    if (op->state == POD_SCHED_RUNNING) {
        op->running_ns = since;
        effect_running(pod, op, true);
    }
    if (pod_op_ended(op)) {
        op->finished_ns = since;
        if (before == POD_SCHED_RUNNING)
            effect_running(pod, op, false);
        effect_end(pod, op, effect, after);
    }
    if (op->graph_op != NULL)
        pod_graph_moved_locked(pod, op, before);
    pod_touch_locked(pod, op, after);
}

void pod_effect_apply_locked(struct pod *pod, struct pod_op *op,
                             const struct pod_sched_effect *effect,
                             struct pod_after *after)
{
    if (effect->what & POD_SCHED_RELEASED)
        op->node = NULL;
    if (effect->what & POD_SCHED_CHANGED)
        effect_change(pod, op, effect, after);
    if (effect->what & POD_SCHED_LAUNCH) {
        op->launched = true;
        pod_launch_locked(pod, op, after);
    }
    if ((effect->what & POD_SCHED_INTERRUPT) && op->launched)
        pod_interrupt_locked(pod, op, after);
    // One that never went to a host settles with the scheduler's node, after
    // all that it stood behind.
    if (pod_op_ended(op) && !op->launched && op->node == NULL)
        pod_settle_locked(pod, op);
    pod_retire_locked(pod, op);
}

// ----------------------------------------------------------------------- steps

// With many operations in flight those that a step launches come from memory,
// so let them come while what went before is applied: first the operations
// themselves, then each one's work.
static void effect_expect(const struct pod_sched_effect *effects, size_t count,
                          size_t i)
{
    size_t ahead = i + EFFECTS_EXPECTED;

    if (ahead < count)
        pod_mem_expect(pod_sched_effect_user(&effects[ahead]),
                       POD_OP_LIVE_BYTES);
    if (i + 1 >= count || (effects[i + 1].what & POD_SCHED_LAUNCH) == 0)
        return;
    const struct pod_op *next = pod_sched_effect_user(&effects[i + 1]);
    pod_mem_expect(next->work, sizeof(*next->work));
}

static void effect_apply_all(struct pod *pod,
                             const struct pod_sched_effect *effects,
                             size_t count, struct pod_after *after)
{
    for (size_t i = 1; i < count && i < EFFECTS_EXPECTED; i++)
        pod_mem_expect(pod_sched_effect_user(&effects[i]), POD_OP_LIVE_BYTES);
    for (size_t i = 0; i < count; i++) {
        effect_expect(effects, count, i);
        pod_effect_apply_locked(pod, pod_sched_effect_user(&effects[i]),
                                &effects[i], after);
    }
}

static void effect_launched(struct pod *pod,
                            struct pod_sched_node *const *nodes, size_t count,
                            struct pod_after *after)
{
    struct pod_sched_effect effects[EFFECTS_LAUNCHED];

    for (size_t i = 0; i < count; i++)
        effects[i] = (struct pod_sched_effect){
            .node = nodes[i],
            .what = POD_SCHED_CHANGED | POD_SCHED_LAUNCH,
            .state = POD_SCHED_READY,
        };
    effect_apply_all(pod, effects, count, after);
}

void pod_tell_done_locked(struct pod *pod, struct pod_after *after)
{
    const struct pod_sched_effects *effects = pod_sched_effects(pod->sched);
    struct pod_sched_node *launched[EFFECTS_LAUNCHED];
    struct pod_sched_done done = {
        .nodes = pod->done,
        .count = pod->done_count,
    };

    while (done.taken < done.count) {
        size_t count =
            pod_sched_done_many(pod->sched, &done, launched, EFFECTS_LAUNCHED);
        effect_launched(pod, launched, count, after);
        effect_apply_all(pod, effects->items, effects->count, after);
    }
    pod->done_count = 0;
}

static void effect_step(struct pod *pod, const struct pod_sched_event *event,
                        struct pod_after *after)
{
    const struct pod_sched_effects *effects = pod_sched_effects(pod->sched);
    enum pod_code code = pod_sched_step(pod->sched, event, NULL, NULL);
    assert(code == POD_OK); // only a SUBMIT can fail
    (void)code;
    effect_apply_all(pod, effects->items, effects->count, after);
}

void pod_step_locked(struct pod *pod, struct pod_op *op,
                     enum pod_sched_event_kind kind, enum pod_sched_state state,
                     bool cascade, struct pod_after *after)
{
    // What begins changes nothing else, so it may overtake what is done, if
    // that has not left it WAITING: it is READY before it runs.
    if (kind != POD_SCHED_STARTED || op->state == POD_SCHED_WAITING)
        pod_tell_done_locked(pod, after);
    effect_step(pod,
                &(struct pod_sched_event){
                    .kind = kind,
                    .now_ns = pod->now_ns,
                    .node = op->node,
                    .state = state,
                    .cascade = cascade,
                },
                after);
}

void pod_done_locked(struct pod *pod, struct pod_op *op,
                     struct pod_after *after)
{
    struct pod_sched_effect effect = {
        .node = op->node,
        .what = POD_SCHED_CHANGED | POD_SCHED_RELEASED,
        .state = POD_SCHED_SUCCEEDED,
    };

    if (op->outcome != POD_SCHED_SUCCEEDED || !pod_sched_plain(op->node)) {
        pod_step_locked(pod, op, POD_SCHED_DONE, op->outcome, false, after);
        return;
    }
    if (pod->done_count == POD_DONE_MAX)
        pod_tell_done_locked(pod, after);
    pod->done[pod->done_count++] = op->node;
    pod_effect_apply_locked(pod, op, &effect, after);
}

void pod_advance_locked(struct pod *pod, struct pod_after *after)
{
    pod_tell_done_locked(pod, after);
    effect_step(pod,
                &(struct pod_sched_event){
                    .kind = POD_SCHED_ADVANCE,
                    .now_ns = pod->now_ns,
                },
                after);
}

void pod_done_local_locked(struct pod *pod, struct pod_op *op)
{
    pod_list_remove(&op->work->local);
    pod_list_push_back(&pod->local, &op->work->local);
}

void pod_run_local_locked(struct pod *pod, struct pod_after *after)
{
    struct pod_list *item;

    while ((item = pod_list_pop_front(&pod->local)) != NULL) {
        struct pod_op *op = POD_CONTAINER(item, struct pod_work, local)->op;
        if (op->stage == POD_STAGE_PREPARE && op->kind == POD_KIND_ALLOCATE)
            pod_output_expand_locked(pod, op, after);
        else if (op->stage == POD_STAGE_BYTES && op->kind == POD_KIND_ALLOCATE)
            pod_allocate_filled_locked(pod, op, after);
        else if (op->kind == POD_KIND_GRAPH)
            pod_graph_run_locked(pod, op, after);
        else
            pod_complete_locked(pod, op, after);
    }
}
