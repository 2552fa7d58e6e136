// SPDX-License-Identifier: Apache-2.0
// The end of many things at once: the reset of the pod, and its stop.
#include "core/pod/cancel.h"

#include "core/base/mem.h"
#include "core/pod/compile.h"
#include "core/pod/complete.h"
#include "core/pod/effect.h"
#include "core/pod/failure.h"
#include "core/pod/launch.h"
#include "core/pod/op_new.h"
#include "core/pod/outbox.h"
#include "core/pod/settle.h"

void pod_end_all_locked(struct pod *pod, const struct pod_op *but,
                        enum pod_reason reason, const char *text,
                        struct pod_after *after)
{
    struct pod_list *at = pod->open.prev;
    struct pod_list all;

    // Each in a list of its own that ends cannot disturb: an operation leaves
    // pod->open when it settles, others with it. Newest first, so that each
    // ends for this reason and none is skipped because of another.
    pod_list_init(&all);
    for (; at != &pod->open; at = at->prev) {
        struct pod_op *op = POD_CONTAINER(at, struct pod_op, link);
        if (op != but && !pod_op_ended(op))
            pod_list_push_back(&all, &op->doomed);
    }
    while ((at = pod_list_pop_front(&all)) != NULL) {
        struct pod_op *op = POD_CONTAINER(at, struct pod_op, doomed);
        if (pod_op_ended(op))
            continue;
        pod_fail_locked(pod, op, reason, text);
        if (but != NULL)
            op->root = op->failure->root = but->number;
        pod_step_locked(pod, op, POD_SCHED_END, POD_SCHED_CANCELLED, false,
                        after);
    }
}

static void reset_host_handles(struct pod *pod, struct pod_host *host,
                               uint64_t number)
{
    struct pod_list *at;

    while ((at = host->handles.next) != &host->handles) {
        struct pod_handle *handle =
            POD_CONTAINER(at, struct pod_handle, host_link);
        pod_list_remove(at);
        pod_handle_gone_locked(pod, handle, number);
    }
}

static void reset_programs(struct pod *pod, uint64_t number)
{
    struct pod_list *at;

    while ((at = pod_list_pop_front(&pod->programs)) != NULL)
        pod_handle_gone_locked(
            pod, POD_CONTAINER(at, struct pod_handle, host_link), number);
    pod_compiled_forget_all_locked(pod);
}

// Handles that their hosts lost stand in no list; they are found by number.
static void reset_lost_handles(struct pod *pod, uint64_t number)
{
    struct pod_op *op = pod_table_before(&pod->table, UINT64_MAX);

    for (; op != NULL; op = pod_table_before(&pod->table, op->number)) {
        struct pod_handle *handle = pod_op_handle(op);
        if (handle != NULL && !handle->free_done)
            pod_handle_gone_locked(pod, handle, number);
    }
}

void pod_reset_all_locked(struct pod *pod, struct pod_op *reset,
                          struct pod_after *after)
{
    size_t cursor = 0;
    struct pod_host *host;

    pod_end_all_locked(pod, reset, POD_REASON_POD_RESET, "the pod was reset",
                       after);
    while ((host = pod_host_next(pod, &cursor)) != NULL) {
        reset_host_handles(pod, host, reset->number);
        pod_owed_lost_locked(pod, host);
    }
    reset_programs(pod, reset->number);
    reset_lost_handles(pod, reset->number);
    if (!reset->settled)
        pod->reset = reset;
}

// Hosts may have been added since the request was read. Its calls are idle.
static bool reset_room(const struct pod *pod, struct pod_op *op)
{
    size_t count = atomic_load(&pod->live_hosts);

    if (count <= op->work->call_count)
        return true;
    struct pod_outcome *outcomes = pod_calloc(count, sizeof(*outcomes));
    if (outcomes == NULL || !pod_work_room_calls(op->work, count)) {
        pod_free(outcomes);
        return false;
    }
    pod_free(op->outcomes);
    op->outcomes = outcomes;
    return true;
}

void pod_reset_launch_locked(struct pod *pod, struct pod_op *op,
                             struct pod_after *after)
{
    size_t cursor = 0;
    struct pod_host *host;

    if (!reset_room(pod, op)) {
        pod_launch_fail_locked(pod, op, POD_REASON_OUT_OF_MEMORY,
                               "no memory for the calls to all hosts");
        return;
    }
    while ((host = pod_host_next(pod, &cursor)) != NULL) {
        struct pod_call *call = &op->work->calls[op->outcome_count];
        if (!pod_host_up(host))
            continue;
        call->index = (uint32_t)op->outcome_count;
        op->outcomes[op->outcome_count++] =
            (struct pod_outcome){.host = host->id, .state = POD_SCHED_RUNNING};
        pod_call_init(call, op, host, POD_CALL_RESET, op->number);
        pod_call_queue_locked(call, after);
    }
    if (op->outcome_count == 0)
        pod_done_local_locked(pod, op);
}

void pod_reset_answer_locked(struct pod *pod, struct pod_call *call,
                             struct pod_answer *answer, struct pod_after *after)
{
    struct pod_op *op = call->op;
    struct pod_outcome *outcome = &op->outcomes[call->index];

    outcome->state = answer->state;
    if (answer->failure != NULL)
        outcome->failure = pod_failure_ref(answer->failure);
    pod_keep_failure_locked(pod, op, answer);
    if (op->open_calls == 0)
        pod_complete_locked(pod, op, after);
}
