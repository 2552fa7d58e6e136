// SPDX-License-Identifier: Apache-2.0
// Programs: compiled once for equal content on every host that is up, loaded
// on cores, freed when the last handle is.
//
// The calls belong to the compiled record, not to an operation, because several
// operations may wait for one compile: a leading COMPILE, other COMPILEs of the
// same content (compiled->joined), and LOADs on a host that came back, or came
// later, and has to compile now (host->joined).
#include "core/pod/compile.h"

#include "core/pod/complete.h"
#include "core/pod/effect.h"
#include "core/pod/failure.h"
#include "core/pod/launch.h"
#include "core/pod/outbox.h"

// ----------------------------------------------------------------------- calls

// Whether a host has it, and can free it.
static struct pod_host *compile_freeable(const struct pod *pod,
                                         const struct pod_compiled_host *on)
{
    struct pod_host *host = pod_host_at(pod, on->host);

    if (host == NULL || on->state != POD_COMPILED_READY ||
        on->incarnation != host->incarnation || !pod_host_up(host) ||
        (host->features & POD_DRIVER_FREE_PROGRAM) == 0)
        return NULL;
    return host;
}

// `cause` is the operation that it is made for; NULL: none any more.
static void compile_call(struct pod_compiled *compiled,
                         struct pod_compiled_host *on, struct pod_host *host,
                         enum pod_call_kind kind, uint64_t number,
                         const struct pod_op *cause, struct pod_after *after)
{
    struct pod_call *call = &on->call;

    pod_call_init(call, NULL, host, kind, number);
    pod_trace_unref(on->trace);
    on->trace = cause == NULL ? NULL : pod_trace_ref(cause->trace);
    call->trace = on->trace;
    call->cause = cause == NULL ? 0 : cause->number;
    call->compiled = compiled;
    call->handle = compiled->number;
    pod_call_queue_locked(call, after);
}

// ------------------------------------------------------------------- compile

static void compile_outcome(struct pod_op *op, uint32_t host,
                            enum pod_sched_state state,
                            struct pod_failure *failure)
{
    struct pod_outcome *outcome = &op->outcomes[op->outcome_count++];

    outcome->host = host;
    outcome->state = state;
    outcome->failure = failure == NULL ? NULL : pod_failure_ref(failure);
}

static void compile_begin(struct pod *pod, struct pod_op *op,
                          struct pod_compiled *compiled,
                          struct pod_after *after)
{
    size_t cursor = 0;
    struct pod_host *host;

    compiled->number = op->number;
    compiled->leader = op;
    pod_list_push_back(&pod->compiled, &compiled->link);
    // Those for which there was no room yet compile when they need it.
    while (compiled->host_count < compiled->host_room &&
           (host = pod_host_next(pod, &cursor)) != NULL) {
        struct pod_compiled_host *on = pod_compiled_on(compiled, host->id);
        if (on == NULL || !pod_host_up(host))
            continue;
        on->state = POD_COMPILED_OPEN;
        on->incarnation = host->incarnation;
        compiled->open_hosts++;
        compile_call(compiled, on, host, POD_CALL_COMPILE, op->number, op,
                     after);
    }
}

// The program's own copy of the shape: it outlives the compiled record.
static void compile_take_shape(struct pod *pod, struct pod_op *op,
                               const struct pod_compiled *compiled)
{
    struct pod_err err;

    if (!compiled->has_shape || op->program->has_shape)
        return;
    if (pod_program_shape_copy(&compiled->shape, &op->program->shape, &err) ==
        POD_OK) {
        op->program->has_shape = true;
        return;
    }
    op->outcome = POD_SCHED_FAILED;
    pod_fail_err_locked(pod, op, &err);
}

static void compile_outcomes(struct pod_op *op,
                             const struct pod_compiled *compiled)
{
    for (size_t i = 0;
         i < compiled->host_count && op->outcome_count < op->outcome_room;
         i++) {
        const struct pod_compiled_host *on = compiled->hosts[i];
        if (on->state == POD_COMPILED_READY)
            compile_outcome(op, on->host, POD_SCHED_SUCCEEDED, NULL);
        else if (on->state == POD_COMPILED_FAILED)
            compile_outcome(op, on->host, on->failed_as, on->failure);
    }
}

// The first compile has ended everywhere: so do the operations that wait.
static void compile_finish_op(struct pod *pod, struct pod_op *op,
                              struct pod_compiled *compiled,
                              struct pod_after *after)
{
    compile_outcomes(op, compiled);
    if (op->outcome == POD_SCHED_SUCCEEDED && compiled->failed &&
        !pod_op_ended(op)) {
        op->outcome = compiled->failed_as;
        if (op->cancel == POD_CANCEL_NONE)
            pod_fail_with_locked(pod, op,
                                 compiled->failure == NULL
                                     ? NULL
                                     : pod_failure_ref(compiled->failure));
    }
    if (op->outcome == POD_SCHED_SUCCEEDED)
        compile_take_shape(pod, op, compiled);
    pod_complete_locked(pod, op, after);
}

// What some hosts compiled is of no use if others could not.
static void compile_discard(struct pod *pod, struct pod_compiled *compiled,
                            struct pod_after *after)
{
    pod_compiled_hide_locked(pod, compiled);
    for (size_t i = 0; i < compiled->host_count; i++) {
        struct pod_compiled_host *on = compiled->hosts[i];
        struct pod_host *host = compile_freeable(pod, on);
        if (host == NULL)
            continue;
        on->state = POD_COMPILED_NONE;
        compile_call(compiled, on, host, POD_CALL_FREE_PROGRAM,
                     pod_call_number_locked(pod), NULL, after);
    }
}

static void compile_finish(struct pod *pod, struct pod_compiled *compiled,
                           struct pod_after *after)
{
    struct pod_op *leader = compiled->leader;
    struct pod_list *item;

    compiled->done = true;
    compiled->leader = NULL;
    compiled->refs++; // while this goes on
    if (leader != NULL)
        compile_finish_op(pod, leader, compiled, after);
    while ((item = pod_list_pop_front(&compiled->joined)) != NULL)
        compile_finish_op(pod, POD_CONTAINER(item, struct pod_work, joined)->op,
                          compiled, after);
    if (compiled->failed || compiled->refs == 1)
        compile_discard(pod, compiled, after);
    pod_compiled_unref_locked(pod, compiled);
}

void pod_compile_launch_locked(struct pod *pod, struct pod_op *op,
                               struct pod_after *after)
{
    struct pod_compiled *own = op->compiled;
    struct pod_compiled *compiled = pod_compiled_find_locked(pod, own);

    op->compiled = NULL;
    if (compiled == NULL) {
        compiled = own;
        compile_begin(pod, op, own, after);
    } else {
        pod_compiled_free(own);
    }
    compiled->refs++;
    op->program->compiled = compiled;
    if (compiled->leader == op && compiled->open_hosts > 0)
        return;
    if (compiled->open_hosts > 0) {
        pod_list_push_back(&compiled->joined, &op->work->joined);
        return;
    }
    if (compiled->done) {
        compile_outcomes(op, compiled);
        compile_take_shape(pod, op, compiled);
        pod_done_local_locked(pod, op);
        return;
    }
    // No host was up.
    compiled->leader = NULL;
    compiled->done = true;
    pod_compiled_hide_locked(pod, compiled);
    pod_launch_fail_locked(pod, op, POD_REASON_HOST_UNAVAILABLE,
                           "no host is connected");
}

bool pod_compile_interrupt_locked(struct pod *pod, struct pod_op *op,
                                  struct pod_after *after)
{
    struct pod_compiled *compiled =
        op->program == NULL ? NULL : op->program->compiled;
    bool open = false;

    if (compiled == NULL || compiled->leader != op)
        return false;
    if (!pod_list_empty(&compiled->joined)) {
        compiled->leader = NULL; // others want it
        return true;
    }
    // Nobody else shall join what is being stopped.
    pod_compiled_hide_locked(pod, compiled);
    for (size_t i = 0; i < compiled->host_count; i++) {
        struct pod_compiled_host *on = compiled->hosts[i];
        if (on->state != POD_COMPILED_OPEN)
            continue;
        if (pod_call_cancel_locked(&on->call, after)) {
            on->state = POD_COMPILED_NONE;
            compiled->open_hosts--;
        }
        open = open || on->state == POD_COMPILED_OPEN;
    }
    if (open)
        return false;
    compiled->leader = NULL;
    compiled->done = true;
    compiled->failed = true;
    return true;
}

// -------------------------------------------------------------------- answers

// The first compile as a whole has failed, for the first failure there is.
static void compile_keep_failure(struct pod_compiled *compiled,
                                 const struct pod_answer *answer)
{
    if (answer->failure != NULL)
        answer->failure->root = compiled->leader == NULL
                                    ? compiled->number
                                    : compiled->leader->number;
    if (compiled->failed || compiled->done)
        return;
    compiled->failed = true;
    compiled->failed_as = answer->state;
    if (answer->failure != NULL)
        compiled->failure = pod_failure_ref(answer->failure);
}

static void compile_keep_answer(struct pod_compiled *compiled,
                                struct pod_compiled_host *host,
                                struct pod_answer *answer)
{
    if (answer->state == POD_SCHED_SUCCEEDED || answer->done) {
        host->state = POD_COMPILED_READY;
        if (answer->has_shape && !compiled->has_shape) {
            compiled->shape = answer->shape;
            compiled->has_shape = true;
            answer->has_shape = false;
        }
        // A shape for which there was no memory is of no use a second time.
        if (answer->done && !compiled->has_shape)
            compile_keep_failure(compiled, answer);
        return;
    }
    host->state = POD_COMPILED_FAILED;
    host->failed_as = answer->state;
    compile_keep_failure(compiled, answer);
    pod_failure_unref(host->failure);
    host->failure = answer->failure;
    answer->failure = NULL;
}

// LOADs that waited for their host to compile again.
static void compile_resume_loads(struct pod *pod,
                                 struct pod_compiled_host *host,
                                 struct pod_after *after)
{
    struct pod_list waiting;
    struct pod_list *item;

    pod_list_init(&waiting);
    pod_list_splice(&waiting, &host->joined);
    while ((item = pod_list_pop_front(&waiting)) != NULL)
        pod_load_launch_locked(
            pod, POD_CONTAINER(item, struct pod_work, joined)->op, after);
}

// What is compiled for nobody any more is freed on its hosts, then here.
static void compile_tidy(struct pod *pod, struct pod_compiled *compiled,
                         struct pod_after *after)
{
    if (compiled->refs == 0)
        compile_discard(pod, compiled, after);
    pod_compiled_release_locked(compiled);
}

static void compile_freed(struct pod *pod, struct pod_compiled *compiled,
                          struct pod_compiled_host *on,
                          struct pod_answer *answer, struct pod_after *after)
{
    struct pod_op *op = compiled->leader;

    on->owed = pod_owed_refused(answer);
    on->call.host->owed_programs += on->owed ? 1 : 0;
    if (op != NULL) {
        pod_keep_failure_locked(pod, op, answer);
        if (--compiled->open_hosts > 0)
            return;
        compiled->leader = NULL;
        pod_complete_locked(pod, op, after);
        compiled->refs--;
    }
    compile_tidy(pod, compiled, after);
}

void pod_compile_answer_locked(struct pod *pod, struct pod_call *call,
                               struct pod_answer *answer,
                               struct pod_after *after)
{
    struct pod_compiled *compiled = call->compiled;
    struct pod_compiled_host *host =
        POD_CONTAINER(call, struct pod_compiled_host, call);

    if (call->kind == POD_CALL_FREE_PROGRAM) {
        compile_freed(pod, compiled, host, answer, after);
        return;
    }
    // An answer of an incarnation that is gone says nothing of this one.
    if (host->state == POD_COMPILED_OPEN)
        compile_keep_answer(compiled, host, answer);
    // Loads wait for a first compile too, if they run in spite of its failure.
    compile_resume_loads(pod, host, after);
    if (!compiled->done) {
        if (--compiled->open_hosts == 0)
            compile_finish(pod, compiled, after);
        return;
    }
    compile_tidy(pod, compiled, after);
}

// ----------------------------------------------------------------------- loads

static void load_call(struct pod *pod, struct pod_op *op,
                      struct pod_compiled *compiled, struct pod_after *after)
{
    struct pod_host *host = pod->hosts[op->host];

    pod_call_init(&op->work->call, op, host, POD_CALL_LOAD, op->number);
    op->work->call.handle = compiled->number;
    op->work->call.worker_core = pod->cores[op->core]->worker_core;
    pod_call_queue_locked(&op->work->call, after);
}

static void load_fail(struct pod *pod, struct pod_op *op,
                      const struct pod_compiled_host *host)
{
    op->outcome = POD_SCHED_FAILED;
    pod_fail_with_locked(
        pod, op, host->failure == NULL ? NULL : pod_failure_ref(host->failure));
    pod_done_local_locked(pod, op);
}

void pod_load_launch_locked(struct pod *pod, struct pod_op *op,
                            struct pod_after *after)
{
    struct pod_host *host = pod->hosts[op->host];
    struct pod_compiled *compiled = op->target_program->compiled;

    if (!pod_host_up(host)) {
        pod_launch_no_host_locked(pod, op, host);
        return;
    }
    // Only a load that runs in spite of failures comes here without.
    if (compiled == NULL || compiled->failed) {
        pod_launch_fail_locked(pod, op, POD_REASON_INVALID_PROGRAM,
                               "the program was not compiled");
        return;
    }
    struct pod_compiled_host *on = pod_compiled_on(compiled, op->host);
    if (on == NULL) {
        pod_launch_fail_locked(pod, op, POD_REASON_OUT_OF_MEMORY,
                               "no memory to compile it for its host");
        return;
    }
    bool current = on->incarnation == host->incarnation;
    if (on->state == POD_COMPILED_READY && current) {
        load_call(pod, op, compiled, after);
        return;
    }
    if (on->state == POD_COMPILED_FAILED && current) {
        load_fail(pod, op, on);
        return;
    }
    // A call of the incarnation before may still want its answer; the loads
    // that wait are looked at again then.
    if (!on->call.open) {
        on->state = POD_COMPILED_OPEN;
        on->incarnation = host->incarnation;
        if (!compiled->done)
            compiled->open_hosts++; // it is one of the first compile's calls
        compile_call(compiled, on, host, POD_CALL_COMPILE, compiled->number, op,
                     after);
    }
    // Behind the compile, in the same outbox.
    if ((host->features & POD_DRIVER_WAITS) != 0)
        load_call(pod, op, compiled, after);
    else
        pod_list_push_back(&on->joined, &op->work->joined);
}

// ----------------------------------------------------------------------- frees

void pod_program_free_launch_locked(struct pod *pod, struct pod_op *op,
                                    struct pod_after *after)
{
    struct pod_compiled *compiled = op->target_program->compiled;

    op->target_program->compiled = NULL;
    // Others share it, or it is still being compiled for an operation that has
    // ended: then it is freed when that is done.
    if (compiled == NULL || compiled->refs > 1 || !compiled->done) {
        if (compiled != NULL)
            compiled->refs--;
        pod_done_local_locked(pod, op);
        return;
    }
    // The last program: its reference is this operation's now.
    pod_compiled_hide_locked(pod, compiled);
    compiled->leader = op;
    compiled->open_hosts = 0;
    for (size_t i = 0; i < compiled->host_count; i++) {
        struct pod_compiled_host *on = compiled->hosts[i];
        struct pod_host *host = compile_freeable(pod, on);
        uint64_t number = op->number; // of the first call
        if (host == NULL || on->call.open)
            continue;
        if (compiled->open_hosts++ > 0)
            number = pod_call_number_locked(pod);
        on->state = POD_COMPILED_NONE;
        compile_call(compiled, on, host, POD_CALL_FREE_PROGRAM, number, op,
                     after);
    }
    if (compiled->open_hosts > 0)
        return;
    compiled->leader = NULL;
    pod_compiled_unref_locked(pod, compiled);
    pod_done_local_locked(pod, op);
}

bool pod_compile_free_again_locked(struct pod *pod, struct pod_host *host,
                                   struct pod_after *after)
{
    struct pod_list *at = pod->compiled_old.next;
    bool asks = false;

    for (; at != &pod->compiled_old && host->owed_programs > 0; at = at->next) {
        struct pod_compiled *compiled =
            POD_CONTAINER(at, struct pod_compiled, link);
        struct pod_compiled_host *on =
            pod_compiled_find_host(compiled, host->id);
        // While an operation still waits for other hosts, answers are its.
        if (on == NULL || !on->owed || compiled->leader != NULL)
            continue;
        on->owed = false;
        host->owed_programs--;
        asks = true;
        compile_call(compiled, on, host, POD_CALL_FREE_PROGRAM,
                     pod_call_number_locked(pod), NULL, after);
    }
    return asks;
}
