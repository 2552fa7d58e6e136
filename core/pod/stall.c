// SPDX-License-Identifier: Apache-2.0
#include "core/pod/stall.h"

#include "core/base/mem.h"
#include "core/pod/effect.h"
#include "core/pod/outbox.h"

enum {
    STALL_LOOKS = 4,   // in the time after which something is stalled
    STALL_CALLS = 1024 // of a host, oldest first, in one look
};

int64_t pod_stall_period(int64_t after_ns)
{
    if (after_ns == 0 || after_ns == POD_NEVER)
        return POD_NEVER;
    return after_ns / STALL_LOOKS > 0 ? after_ns / STALL_LOOKS : 1;
}

void pod_stall_watch_locked(struct pod_call *call)
{
    struct pod *pod = call->pod;

    call->since_ns = pod->now_ns;
    if (pod->stall_due_ns == POD_NEVER)
        pod->stall_due_ns = pod_time_add(pod->now_ns, pod->stall_period_ns);
}

int64_t pod_stall_due_locked(const struct pod *pod)
{
    return pod->stall_due_ns;
}

// ----------------------------------------------------------------- begin, over

static bool stall_is_queued(const struct pod_call *call)
{
    pod_mutex_lock(&call->host->outbox_lock);
    bool queued = call->state == POD_CALL_QUEUED;
    pod_mutex_unlock(&call->host->outbox_lock);
    return queued;
}

static enum pod_awaited_state stall_awaits(const struct pod_call *call)
{
    if (call->begun)
        return POD_AWAITED_BEGUN;
    return stall_is_queued(call) ? POD_AWAITED_QUEUED : POD_AWAITED_SENT;
}

static const char *stall_detail(const struct pod_call *call)
{
    switch (stall_awaits(call)) {
    case POD_AWAITED_QUEUED:
        return "it could not be handed to the host yet";
    case POD_AWAITED_SENT:
        return "the host has not begun it";
    case POD_AWAITED_BEGUN:
        break;
    }
    return "the host has begun it and not answered";
}

static void stall_begin(struct pod_call *call, struct pod_op *op,
                        struct pod_after *after)
{
    struct pod *pod = call->pod;
    struct pod_stall *stall = pod_malloc(sizeof(*stall));

    if (stall == NULL)
        return; // the next look tries again
    *stall = (struct pod_stall){
        .call = call,
        .op = op,
        .next = op->stalls,
        .since_ns = call->since_ns,
    };
    pod_list_push_back(&pod->stalls, &stall->link);
    call->stall = stall;
    if (op->stalls == NULL)
        pod->stalled_operations++;
    op->stalls = stall;
    if (call->host->stalled_calls++ == 0)
        pod_changed_host_locked(pod, call->host);
    pod_note_stalled_locked(pod, op, call->host->id, stall->since_ns,
                            stall_detail(call));
    pod_touch_locked(pod, op, after);
}

static void stall_unlink(struct pod_op *op, const struct pod_stall *stall)
{
    struct pod_stall **at = &op->stalls;

    while (*at != stall)
        at = &(*at)->next;
    *at = stall->next;
}

void pod_stall_over_locked(struct pod_call *call, struct pod_after *after)
{
    struct pod_stall *stall = call->stall;
    struct pod *pod = call->pod;

    if (stall == NULL)
        return;
    call->stall = NULL;
    pod_list_remove(&stall->link);
    if (--call->host->stalled_calls == 0)
        pod_changed_host_locked(pod, call->host);
    if (call->host->removed)
        pod_judge_locked(pod); // whose changes are not those of a host any more
    struct pod_op *op = stall->op;
    if (op != NULL) {
        stall_unlink(op, stall);
        pod_note_stall_over_locked(pod, op, call->host->id, stall->since_ns);
        if (op->stalls == NULL)
            pod->stalled_operations--;
        pod_touch_locked(pod, op, after);
    }
    pod_free(stall);
}

void pod_stall_ended_locked(struct pod *pod, struct pod_op *op)
{
    struct pod_stall *stall = op->stalls;

    if (stall == NULL)
        return;
    pod->stalled_operations--;
    op->stalls = NULL;
    for (; stall != NULL; stall = stall->next) {
        pod_note_stall_over_locked(pod, op, stall->call->host->id,
                                   stall->since_ns);
        stall->op = NULL;
    }
}

// ------------------------------------------------------------------------ look

// A look at one host. What stands before a call is known from the marks that
// those before it have left.
struct stall_look {
    struct pod *pod;
    struct pod_host *host;
    uint64_t mark;     // of this look, in cores
    bool host_is_busy; // by something that has no core
};

// Whether nothing before it is for one of its cores; marks them.
static bool stall_take_cores(struct stall_look *look, const struct pod_op *op)
{
    bool first = true;

    if (op->replica_count == 0 && op->core == POD_NO_ID) {
        first = !look->host_is_busy;
        look->host_is_busy = true;
        return first;
    }
    for (size_t i = 0; i < op->replica_count || i == 0; i++) {
        uint32_t id = op->replica_count > 0 ? op->replicas[i].core : op->core;
        struct pod_core *core = look->pod->cores[id];
        if (core->host != look->host->id)
            continue;
        first = first && core->stall_mark != look->mark;
        core->stall_mark = look->mark;
    }
    return first;
}

// Whether it is the call's turn: it should be on its way.
static bool stall_has_turn(struct stall_look *look, struct pod_call *call,
                           const struct pod_op *op)
{
    // It was sent ahead of what it waits for.
    if (op->state == POD_SCHED_WAITING)
        return false;
    bool first = stall_take_cores(look, op);
    if (call->begun)
        return true;
    // The looks before this one did not come so far.
    bool unseen = !call->watched && call->since_ns <= look->host->unseen_ns;
    call->watched = true;
    return first && !unseen;
}

static void stall_look_at(struct stall_look *look, struct pod_call *call,
                          struct pod_after *after)
{
    struct pod *pod = look->pod;
    struct pod_op *op = pod_call_op(call);

    if (op == NULL || pod_op_ended(op) || call->stall != NULL)
        return;
    if (!stall_has_turn(look, call, op))
        call->since_ns = pod->now_ns;
    else if (pod->now_ns - call->since_ns >= pod->options.stall_after_ns)
        stall_begin(call, op, after);
}

static void stall_look_locked(struct pod *pod, struct pod_host *host,
                              struct pod_after *after)
{
    struct stall_look look = {
        .pod = pod, .host = host, .mark = ++pod->stall_mark};
    struct pod_list *at = host->calls.next;

    for (int i = 0; i < STALL_CALLS && at != &host->calls; i++) {
        struct pod_call *call = POD_CONTAINER(at, struct pod_call, host_link);
        at = at->next;
        stall_look_at(&look, call, after);
    }
    if (at != &host->calls)
        host->unseen_ns = pod->now_ns;
}

static bool stall_is_due(struct pod *pod)
{
    pod_mutex_lock(&pod->lock);
    bool due = pod->stall_due_ns <= pod_now_locked(pod);
    if (due)
        pod->stall_due_ns = POD_NEVER;
    pod_mutex_unlock(&pod->lock);
    return due;
}

void pod_stall_tick(struct pod *pod)
{
    struct pod_after after;
    struct pod_host *host = NULL;
    size_t cursor = 0;
    bool open = false;

    if (!stall_is_due(pod))
        return;
    // One host at a time, so that the lock is never held for long.
    for (bool more = true; more; more = host != NULL) {
        pod_enter(pod, &after);
        host = pod_host_next(pod, &cursor);
        if (host != NULL) {
            stall_look_locked(pod, host, &after);
            open = open || !pod_list_empty(&host->calls);
        }
        if (open)
            pod->stall_due_ns = pod_time_add(pod->now_ns, pod->stall_period_ns);
        pod_leave(pod, &after);
    }
}

// --------------------------------------------------------------------- showing

struct pod_op *pod_stall_before_locked(const struct pod *pod, uint64_t below)
{
    struct pod_op *found = NULL;

    for (struct pod_list *at = pod->stalls.next; at != &pod->stalls;
         at = at->next) {
        struct pod_op *op = POD_CONTAINER(at, struct pod_stall, link)->op;
        if (op != NULL && op->number < below &&
            (found == NULL || op->number > found->number))
            found = op;
    }
    return found;
}

struct pod_stalled_view pod_stall_oldest_locked(const struct pod *pod,
                                                const struct pod_host *host)
{
    for (struct pod_list *at = pod->stalls.next; at != &pod->stalls;
         at = at->next) {
        const struct pod_stall *stall =
            POD_CONTAINER(at, struct pod_stall, link);
        if (stall->op != NULL && (host == NULL || stall->call->host == host))
            return (struct pod_stalled_view){.operation = stall->op->number,
                                             .kind = stall->op->kind,
                                             .host = stall->call->host->id};
    }
    return (struct pod_stalled_view){.operation = 0};
}

// The cores of an operation that are the host's.
static const uint32_t *stall_lay_cores(const struct pod_op *op, uint32_t host,
                                       struct pod_carver *carver,
                                       size_t *out_count)
{
    size_t count = 0;

    if (op->replica_count == 0) {
        *out_count = op->core != POD_NO_ID ? 1 : 0;
        return pod_carve_copy(carver, &op->core, *out_count, sizeof(op->core));
    }
    for (size_t i = 0; i < op->replica_count; i++)
        count += op->replicas[i].host == host ? 1 : 0;
    uint32_t *cores = pod_carve(carver, count, sizeof(*cores));
    *out_count = count;
    for (size_t i = 0, k = 0; cores != NULL && i < op->replica_count; i++) {
        if (op->replicas[i].host == host)
            cores[k++] = op->replicas[i].core;
    }
    return cores;
}

// All hosts that have not answered: those it is stalled on first.
static size_t stall_list(const struct pod_op *op,
                         const struct pod_call *out_calls[], size_t capacity)
{
    const struct pod_call *call;
    size_t count = 0;

    for (const struct pod_stall *stall = op->stalls; stall != NULL;
         stall = stall->next) {
        if (count < capacity)
            out_calls[count] = stall->call;
        count++;
    }
    for (size_t i = 0; (call = pod_op_call(op, i)) != NULL; i++) {
        if (!call->open || call->stall != NULL)
            continue;
        if (count < capacity)
            out_calls[count] = call;
        count++;
    }
    return count < capacity ? count : capacity;
}

void pod_stall_lay_locked(const struct pod_op *op, struct pod_carver *carver,
                          struct pod_event_view *view)
{
    const struct pod_call *calls[POD_AWAITED_SHOWN];

    if (op->stalls == NULL)
        return;
    int64_t since_ns = op->stalls->since_ns;
    for (const struct pod_stall *stall = op->stalls; stall != NULL;
         stall = stall->next)
        since_ns = stall->since_ns < since_ns ? stall->since_ns : since_ns;
    size_t count = stall_list(op, calls, POD_AWAITED_SHOWN);
    struct pod_event_awaited *awaited =
        pod_carve(carver, count, sizeof(*awaited));
    for (size_t i = 0; i < count; i++) {
        struct pod_event_awaited item = {
            .host = calls[i]->host->id,
            .state = stall_awaits(calls[i]),
        };
        item.cores = stall_lay_cores(op, item.host, carver, &item.core_count);
        if (awaited != NULL)
            awaited[i] = item;
    }
    view->is_stalled = true;
    view->stalled_ns = since_ns - op->created_ns;
    view->awaited = awaited;
    view->awaited_count = count;
}

void pod_stall_fini(struct pod *pod)
{
    struct pod_list *item;

    while ((item = pod_list_pop_front(&pod->stalls)) != NULL)
        pod_free(POD_CONTAINER(item, struct pod_stall, link));
}
