// SPDX-License-Identifier: Apache-2.0
// Answers of drivers. What they borrow for the callback is copied before the
// lock is taken.
#include "core/pod/complete.h"

#include "core/base/mem.h"
#include "core/pod/cancel.h"
#include "core/pod/compile.h"
#include "core/pod/effect.h"
#include "core/pod/failure.h"
#include "core/pod/gang.h"
#include "core/pod/hazard.h"
#include "core/pod/launch.h"
#include "core/pod/outbox.h"
#include "core/pod/settle.h"
#include "core/pod/staging.h"
#include "core/pod/stall.h"
#include "core/pod/transfer.h"

static void complete_begun_locked(struct pod_call *call,
                                  struct pod_after *after)
{
    struct pod_op *op = call->op;

    if (op == NULL)
        op = call->compiled->leader;
    if (op != NULL && op->node != NULL && op->launched && !pod_op_ended(op) &&
        op->state != POD_SCHED_RUNNING)
        pod_step_locked(call->pod, op, POD_SCHED_STARTED, POD_SCHED_RUNNING,
                        false, after);
    call->begun = true;
    call->since_ns = call->pod->now_ns;
    pod_stall_over_locked(call, after);
}

void pod_call_started(void *arg)
{
    struct pod_call *call = arg;
    struct pod_after after;

    pod_enter(call->pod, &after);
    complete_begun_locked(call, &after);
    pod_leave(call->pod, &after);
}

static enum pod_sched_state
complete_state(const struct pod_driver_result *result)
{
    if (result->lost)
        return POD_SCHED_LOST;
    if (result->err.code == POD_OK)
        return POD_SCHED_SUCCEEDED;
    return result->err.code == POD_CANCELLED ? POD_SCHED_CANCELLED
                                             : POD_SCHED_FAILED;
}

static void complete_failure(const struct pod_call *call,
                             const struct pod_driver_result *result,
                             struct pod_answer *answer)
{
    struct pod_err err = result->err;

    if (result->lost) {
        err.code = POD_UNAVAILABLE;
        err.reason = POD_REASON_OPERATION_LOST;
        pod_err_wrap(&err, "host %u was lost", call->host->id);
    } else if (err.reason == POD_REASON_NONE) {
        err.reason = POD_REASON_WORKER_ERROR;
    }
    answer->failure =
        pod_failure_new(call->pod, call->op, &err, result->from_worker);
    if (answer->failure != NULL) {
        answer->failure->kind =
            call->op == NULL ? POD_KIND_COMPILE : call->op->kind;
        answer->failure->host = call->host->id;
    }
}

static struct pod_answer complete_answer(const struct pod_call *call,
                                         const struct pod_driver_result *result)
{
    struct pod_answer answer = {.state = complete_state(result)};
    struct pod_err err;

    if (answer.state != POD_SCHED_SUCCEEDED) {
        complete_failure(call, result, &answer);
        return answer;
    }
    if (result->data != NULL)
        answer.data = pod_blob_ref(result->data);
    if (result->shape == NULL)
        return answer;
    answer.has_shape =
        pod_program_shape_copy(result->shape, &answer.shape, &err) == POD_OK;
    if (!answer.has_shape) {
        answer.state = POD_SCHED_FAILED;
        answer.done = true;
        answer.failure = pod_failure_new(call->pod, call->op, &err, false);
    }
    return answer;
}

// Whatever the driver of a removed host answers: the host has already been
// reported lost, and what the call made does not exist.
static void complete_removed(struct pod_call *call, struct pod_answer *answer)
{
    struct pod_driver_result lost = {.lost = true};

    pod_err_set(&lost.err, POD_REASON_HOST_LOST, "it was removed");
    pod_failure_unref(answer->failure);
    answer->failure = NULL;
    answer->state = POD_SCHED_LOST;
    complete_failure(call, &lost, answer);
}

// All that an answer changes, which this needs no lock for: it stays the
// operation's until all of its calls are answered.
static void complete_expect(const struct pod_call *call)
{
    const struct pod_op *op = call->op;

    pod_mem_expect(call, sizeof(*call));
    if (op == NULL)
        return;
    pod_mem_expect(op, POD_OP_LIVE_BYTES);
    pod_sched_expect(op->node, false);
    __builtin_prefetch(op->buffer, 1);
}

static void complete_locked(struct pod_call *call, bool begun,
                            struct pod_answer *answer, struct pod_after *after)
{
    if (begun)
        complete_begun_locked(call, after);
    if (call->host->removed)
        complete_removed(call, answer);
    pod_call_answered_locked(call, after);
    pod_answer_locked(call->pod, call, answer, after);
}

void pod_call_done(void *arg, const struct pod_driver_result *result)
{
    struct pod_call *call = arg;
    struct pod *pod = call->pod;

    complete_expect(call);
    struct pod_answer answer = complete_answer(call, result);
    struct pod_after after;

    pod_enter(pod, &after);
    complete_locked(call, result->begun, &answer, &after);
    pod_leave(pod, &after);
    pod_failure_unref(answer.failure);
    pod_blob_unref(answer.data);
    if (answer.has_shape)
        pod_program_shape_fini(&answer.shape);
}

void pod_calls_done_well(struct pod *pod, const struct pod_driver_well *calls,
                         size_t count)
{
    struct pod_after after;

    for (size_t i = 0; i < count; i++)
        complete_expect(calls[i].arg);
    pod_enter(pod, &after);
    for (size_t i = 0; i < count; i++) {
        struct pod_answer answer = {.state = POD_SCHED_SUCCEEDED};
        complete_locked(calls[i].arg, calls[i].begun, &answer, &after);
        pod_failure_unref(answer.failure);
        // What is over here must not look broken to what follows it.
        pod_run_local_locked(pod, &after);
    }
    pod_leave(pod, &after);
}

void pod_call_lost(struct pod_call *call)
{
    struct pod_driver_result lost = {.lost = true};

    pod_err_set(&lost.err, POD_REASON_HOST_LOST, "it was removed");
    pod_call_done(call, &lost);
}

// ------------------------------------------------------------------- outcomes

// Whether its failure is only a consequence of another's, which says less.
static bool complete_is_echo(const struct pod_op *op)
{
    return op->outcome == POD_SCHED_CANCELLED ||
           (op->failure != NULL && op->failure->code == POD_ABORTED);
}

void pod_keep_failure_locked(struct pod *pod, struct pod_op *op,
                             struct pod_answer *answer)
{
    if (answer->state == POD_SCHED_SUCCEEDED || pod_op_ended(op))
        return;
    // A cancelled gang ends as cancelled on the host that the cancel reaches
    // first, and as aborted on the others.
    if (op->cancel != POD_CANCEL_NONE && answer->failure != NULL &&
        answer->failure->code == POD_ABORTED)
        answer->state = POD_SCHED_CANCELLED;
    if (op->outcome != POD_SCHED_SUCCEEDED &&
        !(complete_is_echo(op) && answer->state != POD_SCHED_CANCELLED))
        return;
    op->outcome = answer->state;
    // A cancel was explained when it was asked for.
    if (answer->state == POD_SCHED_CANCELLED && op->failure != NULL)
        return;
    pod_fail_with_locked(pod, op, answer->failure);
    answer->failure = NULL;
}

// What an answered operation made stays, or is not there any more.
static void complete_apply(struct pod *pod, struct pod_op *op)
{
    if (op->outcome != POD_SCHED_SUCCEEDED || op->owed)
        return;
    if (op->load != NULL && op->kind == POD_KIND_LOAD)
        op->load->handle.exists = !op->load->handle.lost;
    if (op->kind == POD_KIND_UNLOAD)
        op->target_load->handle.exists = false;
    if (op->kind == POD_KIND_FREE && op->target != NULL)
        pod_memory_exists_locked(pod, op->target, false);
    if (op->kept != NULL && !pod_op_ended(op))
        pod_data_keep_locked(pod, op);
}

void pod_complete_locked(struct pod *pod, struct pod_op *op,
                         struct pod_after *after)
{
    complete_apply(pod, op);
    op->stage = POD_STAGE_OVER;
    pod_done_locked(pod, op, after);
    pod_settle_locked(pod, op);
    pod_output_leaf_done_locked(pod, op, after);
}

// ------------------------------------------------------------------- answers

// The host made something that nobody can use any more: it is given back.
static void complete_give_back(struct pod *pod, struct pod_op *op,
                               enum pod_call_kind kind, struct pod_after *after)
{
    struct pod_host *host = op->work->call.host;

    op->stage = POD_STAGE_UNDO;
    pod_call_init(&op->work->call, op, host, kind, pod_call_number_locked(pod));
    op->work->call.handle = op->number;
    pod_call_queue_locked(&op->work->call, after);
}

static void complete_allocated(struct pod *pod, struct pod_op *op,
                               struct pod_answer *answer,
                               struct pod_after *after)
{
    if (op->stage == POD_STAGE_UNDO) {
        pod_owed_note_locked(pod, op, answer);
        pod_complete_locked(pod, op, after);
        return;
    }
    if (answer->state != POD_SCHED_SUCCEEDED) {
        pod_keep_failure_locked(pod, op, answer);
        pod_complete_locked(pod, op, after);
        return;
    }
    if (pod_op_ended(op)) {
        complete_give_back(pod, op, POD_CALL_DEALLOCATE, after);
        return;
    }
    if (op->transfer == NULL) {
        pod_memory_exists_locked(pod, op->buffer, true);
        pod_complete_locked(pod, op, after);
        return;
    }
    op->transfer->to = op->work->call.host;
    op->transfer->to_handle = op->number;
    pod_transfer_start_locked(op->transfer, after);
}

void pod_allocate_filled_locked(struct pod *pod, struct pod_op *op,
                                struct pod_after *after)
{
    if (op->outcome == POD_SCHED_SUCCEEDED && !pod_op_ended(op)) {
        pod_memory_exists_locked(pod, op->buffer, true);
        pod_complete_locked(pod, op, after);
    } else if (op->outcome == POD_SCHED_LOST) {
        pod_complete_locked(pod, op, after);
    } else {
        complete_give_back(pod, op, POD_CALL_DEALLOCATE, after);
    }
}

static void complete_loaded(struct pod *pod, struct pod_op *op,
                            struct pod_answer *answer, struct pod_after *after)
{
    if (op->stage != POD_STAGE_UNDO && pod_op_ended(op) &&
        answer->state == POD_SCHED_SUCCEEDED) {
        complete_give_back(pod, op, POD_CALL_UNLOAD, after);
        return;
    }
    if (op->stage != POD_STAGE_UNDO)
        pod_keep_failure_locked(pod, op, answer);
    else
        pod_owed_note_locked(pod, op, answer);
    pod_complete_locked(pod, op, after);
}

// The host that has the data could not be reached from the other one, but maybe
// both can from here.
static bool complete_may_bounce(const struct pod_op *op,
                                const struct pod_call *call,
                                const struct pod_answer *answer)
{
    return call->kind == POD_CALL_PEER_COPY && !pod_op_ended(op) &&
           op->cancel == POD_CANCEL_NONE && answer->state == POD_SCHED_FAILED &&
           answer->failure != NULL &&
           (answer->failure->code == POD_UNAVAILABLE ||
            answer->failure->code == POD_UNIMPLEMENTED);
}

static void complete_copied(struct pod *pod, struct pod_op *op,
                            struct pod_call *call, struct pod_answer *answer,
                            struct pod_after *after)
{
    if (complete_may_bounce(op, call, answer)) {
        op->transfer->numbered = true; // the number was used
        pod_copy_bounce_locked(pod, op, after);
        return;
    }
    pod_keep_failure_locked(pod, op, answer);
    pod_complete_locked(pod, op, after);
}

void pod_answer_locked(struct pod *pod, struct pod_call *call,
                       struct pod_answer *answer, struct pod_after *after)
{
    struct pod_op *op = call->op;

    if (op == NULL) {
        pod_compile_answer_locked(pod, call, answer, after);
        return;
    }
    if (call->kind == POD_CALL_READ || call->kind == POD_CALL_LEND ||
        call->kind == POD_CALL_WRITE) {
        pod_transfer_answer_locked(op->transfer, call, answer, after);
        return;
    }
    if (op->settled) {
        pod_owed_answer_locked(pod, op, answer);
        return;
    }
    switch (op->kind) {
    case POD_KIND_ALLOCATE:
    case POD_KIND_ALLOCATE_TUPLE:
        complete_allocated(pod, op, answer, after);
        break;
    case POD_KIND_LOAD:
        complete_loaded(pod, op, answer, after);
        break;
    case POD_KIND_EXECUTE:
        pod_execute_answer_locked(pod, call, answer, after);
        break;
    case POD_KIND_RESET:
        pod_reset_answer_locked(pod, call, answer, after);
        break;
    case POD_KIND_COPY:
        complete_copied(pod, op, call, answer, after);
        break;
    case POD_KIND_FREE:
    case POD_KIND_UNLOAD:
        pod_owed_note_locked(pod, op, answer);
        pod_keep_failure_locked(pod, op, answer);
        pod_complete_locked(pod, op, after);
        break;
    case POD_KIND_WRITE:
    case POD_KIND_READ:
    case POD_KIND_COMPILE:
    case POD_KIND_GRAPH:
    case POD_KIND_COUNT:
        pod_keep_failure_locked(pod, op, answer);
        pod_complete_locked(pod, op, after);
        break;
    }
}
