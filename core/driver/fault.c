// SPDX-License-Identifier: Apache-2.0
// Happy path: a call gets a record, goes on to the driver below with our
// callbacks, and its completion is passed on from the thread it comes from.
//
// What is not so plain goes through our own thread: completions that are late,
// lost or made up, and all calls of the observer. The host as the user sees it
// is INIT, then UP; from UP it goes to LOSING by a rule, by reconnect, or when
// the driver below loses it. Our thread then waits for the callbacks that are
// being made, reports the loss, and ends all calls as lost; those that the
// driver below still has are ended when they come back. When none is left, the
// driver below is open again and the time has come, the host is UP again.
//
// Closing: the driver below is closed first and ends its calls, then our
// thread ends the rest and stops.
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/driver/fault_internal.h"

static int64_t fault_now(void)
{
    return pod_clock_mono(&pod_clock_system);
}

// -------------------------------------------------------------- completions

static void fault_call_free(struct fault_call *call)
{
    pod_blob_unref(call->data);
    pod_program_shape_fini(&call->shape);
    pod_free(call);
}

void pod_fault_due_locked(struct fault *fault, struct fault_call *call)
{
    pod_list_remove(&call->link);
    pod_queue_remove(&call->item);
    call->place = FAULT_DUE;
    pod_list_push_back(&fault->due, &call->link);
    pod_cond_signal(&fault->wake);
}

// Keeps a completion; what cannot be kept for lack of memory is a failure.
static void fault_keep(struct fault_call *call,
                       const struct pod_driver_result *result)
{
    call->err = result->err;
    call->lost = result->lost;
    call->from_worker = result->from_worker;
    call->begun = result->begun;
    if (result->data != NULL)
        call->data = pod_blob_ref(result->data);
    if (result->shape == NULL)
        return;
    call->shaped = pod_program_shape_copy(result->shape, &call->shape,
                                          &call->err) == POD_OK;
}

static void fault_call_end_locked(struct fault *fault)
{
    fault->calling--;
    if (fault->calling == 0 && fault->state == FAULT_LOSING)
        pod_cond_signal(&fault->wake);
}

// Calls back; drops and takes the lock. The call is freed.
static void fault_complete_locked(struct fault *fault, struct fault_call *call,
                                  const struct pod_driver_result *result)
{
    (void)pod_map_remove(&fault->open, call->call.op);
    fault->calling++;
    pod_mutex_unlock(&fault->lock);
    call->call.done(call->call.arg, result);
    fault_call_free(call);
    pod_mutex_lock(&fault->lock);
    fault_call_end_locked(fault);
}

static void fault_complete_due_locked(struct fault *fault)
{
    struct fault_call *call =
        POD_CONTAINER(fault->due.next, struct fault_call, link);
    struct pod_driver_result result = {
        .err = call->err,
        .lost = call->lost,
        .from_worker = call->from_worker,
        .begun = call->begun,
    };

    pod_list_remove(&call->link);
    if (call->err.code == POD_OK) {
        result.data = call->data;
        result.shape = call->shaped ? &call->shape : NULL;
    }
    fault_complete_locked(fault, call, &result);
}

void pod_fault_set_lost(struct fault_call *call, const struct pod_err *why)
{
    call->err = *why;
    call->lost = true;
    call->from_worker = false;
}

// What ends together with the host: all that is not below.
static void fault_end_all_locked(struct fault *fault, const struct pod_err *why,
                                 bool lost)
{
    struct pod_list all;
    struct pod_queue_item *item;

    pod_list_init(&all);
    pod_list_splice(&all, &fault->due);
    pod_list_splice(&all, &fault->held);
    pod_list_splice(&all, &fault->dropped);
    while ((item = pod_queue_pop(&fault->delayed)) != NULL)
        pod_list_push_back(&all,
                           &POD_CONTAINER(item, struct fault_call, item)->link);
    while (!pod_list_empty(&all)) {
        struct fault_call *call =
            POD_CONTAINER(all.next, struct fault_call, link);
        pod_fault_set_lost(call, why);
        call->lost = lost;
        pod_fault_due_locked(fault, call);
    }
}

// A reset has ended below: what the driver below did not know ends before it.
static void fault_end_reset_locked(struct fault *fault, struct fault_call *call)
{
    struct pod_err why;

    (void)pod_err_set(&why, POD_REASON_POD_RESET, "host %" PRIu32 " was reset",
                      fault->host);
    if (call->err.code == POD_OK)
        fault_end_all_locked(fault, &why, false);
    pod_fault_due_locked(fault, call);
}

void pod_fault_on_started(void *arg)
{
    struct fault_call *call = arg;
    struct fault *fault = call->fault;

    pod_mutex_lock(&fault->lock);
    bool tell = (fault->state == FAULT_INIT || fault->state == FAULT_UP) &&
                !fault->stalled;
    fault->calling += tell;
    pod_mutex_unlock(&fault->lock);
    if (!tell)
        return;
    call->call.started(call->call.arg);
    pod_mutex_lock(&fault->lock);
    fault_call_end_locked(fault);
    pod_mutex_unlock(&fault->lock);
}

static void fault_done_locked(struct fault *fault, struct fault_call *call,
                              const struct pod_driver_result *result)
{
    bool gone = fault->state == FAULT_LOSING || fault->state == FAULT_LOST;

    if (gone || result->lost) {
        pod_fault_set_lost(call, gone ? &fault->why : &result->err);
        pod_fault_due_locked(fault, call);
    } else if (fault->state == FAULT_CLOSING) {
        fault_complete_locked(fault, call, result);
    } else if (fault->stalled) {
        fault_keep(call, result);
        call->place = FAULT_HELD;
        pod_list_push_back(&fault->held, &call->link);
    } else if (call->delay_ns > 0) {
        fault_keep(call, result);
        call->place = FAULT_DELAYED;
        // The queue's order is the time: the earliest comes first.
        call->item.order = (uint64_t)pod_time_add(fault_now(), call->delay_ns);
        pod_queue_push(&fault->delayed, &call->item);
        pod_cond_signal(&fault->wake);
    } else if (call->reset) {
        fault_keep(call, result);
        fault_end_reset_locked(fault, call);
    } else {
        fault_complete_locked(fault, call, result);
    }
}

void pod_fault_on_done(void *arg, const struct pod_driver_result *result)
{
    struct fault_call *call = arg;
    struct fault *fault = call->fault;

    pod_mutex_lock(&fault->lock);
    fault_done_locked(fault, call, result);
    pod_mutex_unlock(&fault->lock);
}

// ----------------------------------------------------------------- the rules

static void fault_lose_locked(struct fault *fault, const struct pod_err *why,
                              int64_t revive_ns)
{
    fault->state = FAULT_LOSING;
    fault->why = *why;
    fault->stalled = false;
    fault->beat_due = false;
    fault->revive_ns = revive_ns;
    pod_cond_signal(&fault->wake);
}

// Loses the host though the driver below has it: that one must open it anew.
void pod_fault_kill_locked(struct fault *fault, const char *text,
                           int64_t revive_ns)
{
    struct pod_err why;

    (void)pod_err_set(&why, POD_REASON_HOST_LOST, "%s", text);
    fault->awaiting_loss = fault->inner_up;
    fault->inner_up = false;
    fault->inner_must_reopen = true;
    fault_lose_locked(fault, &why, revive_ns);
}

// ------------------------------------------------------- the driver below

static void fault_info_free(struct fault_info *info)
{
    if (info == NULL)
        return;
    pod_free(info->cores);
    pod_free(info->chips);
    pod_free(info->platform);
    pod_free(info->version);
    pod_free(info);
}

// A copy of what the driver below says about itself; NULL: no memory.
static struct fault_info *fault_info_new(const struct pod_driver_info *from)
{
    struct fault_info *info = pod_calloc(1, sizeof *info);

    if (info == NULL)
        return NULL;
    info->cores = pod_calloc(from->core_count, sizeof info->cores[0]);
    info->chips = pod_calloc(from->chip_count, sizeof info->chips[0]);
    info->platform = pod_strdup(from->platform);
    info->version = pod_strdup(from->version);
    if (info->cores == NULL || info->chips == NULL || info->platform == NULL ||
        info->version == NULL) {
        fault_info_free(info);
        return NULL;
    }
    if (from->core_count > 0)
        memcpy(info->cores, from->cores,
               from->core_count * sizeof info->cores[0]);
    if (from->chip_count > 0)
        memcpy(info->chips, from->chips,
               from->chip_count * sizeof info->chips[0]);
    info->info = *from;
    info->info.cores = info->cores;
    info->info.chips = info->chips;
    info->info.platform = info->platform;
    info->info.version = info->version;
    return info;
}

static void fault_on_ready(void *arg, const struct pod_driver_info *from)
{
    struct fault *fault = arg;
    struct fault_info *info = fault_info_new(from);
    struct fault_info *old = info;

    pod_mutex_lock(&fault->lock);
    if (info != NULL && !fault->awaiting_loss) {
        old = fault->info;
        fault->info = info;
        fault->inner_up = true;
        pod_cond_signal(&fault->wake);
    }
    pod_mutex_unlock(&fault->lock);
    fault_info_free(old);
    if (info == NULL)
        fault->inner->ops->reconnect(fault->inner);
}

static void fault_on_lost(void *arg, const struct pod_err *err)
{
    struct fault *fault = arg;

    pod_mutex_lock(&fault->lock);
    fault->awaiting_loss = false;
    fault->inner_up = false;
    if (fault->state == FAULT_INIT || fault->state == FAULT_UP)
        fault_lose_locked(fault, err, fault_now());
    pod_mutex_unlock(&fault->lock);
}

static void fault_on_heartbeat(void *arg, const struct pod_driver_load *load)
{
    struct fault *fault = arg;

    (void)load;
    pod_mutex_lock(&fault->lock);
    if (fault->state == FAULT_UP && !fault->stalled) {
        fault->beat_due = true;
        pod_cond_signal(&fault->wake);
    }
    pod_mutex_unlock(&fault->lock);
}

// -------------------------------------------------------------- our thread

// Each report of ours follows one of the driver below.
static void fault_tell_ready_locked(struct fault *fault)
{
    struct fault_info *info = fault->info;

    fault->info = NULL;
    // Before the report, because the first calls may come at once.
    fault->state = FAULT_UP;
    pod_mutex_unlock(&fault->lock);
    fault->observer.ready(fault->observer.arg, &info->info);
    fault_info_free(info);
    pod_mutex_lock(&fault->lock);
}

static void fault_tell_lost_locked(struct fault *fault)
{
    struct pod_err why = fault->why;
    bool reopen = fault->inner_must_reopen;

    fault->inner_must_reopen = false;
    pod_mutex_unlock(&fault->lock);
    if (reopen)
        fault->inner->ops->reconnect(fault->inner);
    fault->observer.lost(fault->observer.arg, &why);
    pod_mutex_lock(&fault->lock);
    if (fault->state != FAULT_LOSING)
        return;
    fault->state = FAULT_LOST;
    fault_end_all_locked(fault, &why, true);
}

static void fault_beat_locked(struct fault *fault)
{
    fault->beat_due = false;
    if (fault->observer.heartbeat == NULL)
        return;
    pod_mutex_unlock(&fault->lock);
    fault->observer.heartbeat(fault->observer.arg, NULL);
    pod_mutex_lock(&fault->lock);
}

// Moves what has become due; says when there will be more.
static int64_t fault_advance_locked(struct fault *fault)
{
    int64_t now = fault_now();
    int64_t next = POD_NEVER;

    if (fault->stalled && fault->stall_until_ns <= now) {
        fault->stalled = false;
        while (!pod_list_empty(&fault->held))
            pod_fault_due_locked(fault, POD_CONTAINER(fault->held.next,
                                                      struct fault_call, link));
    }
    while (!fault->stalled && fault->delayed.root != NULL &&
           (int64_t)fault->delayed.root->order <= now)
        pod_fault_due_locked(
            fault, POD_CONTAINER(fault->delayed.root, struct fault_call, item));
    if (fault->stalled)
        next = fault->stall_until_ns;
    else if (fault->delayed.root != NULL)
        next = (int64_t)fault->delayed.root->order;
    if (fault->state == FAULT_LOST && fault->revive_ns > now &&
        fault->revive_ns < next)
        next = fault->revive_ns;
    return next;
}

// One thing our thread does; false: there is nothing to do.
static bool fault_step_locked(struct fault *fault)
{
    bool back = fault->inner_up && fault->revive_ns <= fault_now();

    if (fault->state == FAULT_LOSING && fault->calling == 0)
        fault_tell_lost_locked(fault);
    else if (fault->state == FAULT_INIT && fault->inner_up)
        fault_tell_ready_locked(fault);
    else if (!pod_list_empty(&fault->due) && fault->state != FAULT_LOSING &&
             !fault->stalled)
        fault_complete_due_locked(fault);
    else if (fault->state == FAULT_LOST && back && fault->open.count == 0)
        fault_tell_ready_locked(fault);
    else if (fault->beat_due && fault->state == FAULT_UP)
        fault_beat_locked(fault);
    else
        return false;
    return true;
}

static void *fault_main(void *arg)
{
    struct fault *fault = arg;

    pod_mutex_lock(&fault->lock);
    while (!fault->stop) {
        int64_t next = fault_advance_locked(fault);
        if (!fault_step_locked(fault))
            (void)pod_cond_wait_until(&fault->wake, &fault->lock, next);
    }
    struct pod_err why;
    (void)pod_err_set(&why, POD_REASON_CANCEL_REQUESTED,
                      "host %" PRIu32 " was closed", fault->host);
    fault_end_all_locked(fault, &why, false);
    while (!pod_list_empty(&fault->due))
        fault_complete_due_locked(fault);
    pod_mutex_unlock(&fault->lock);
    return NULL;
}

// ---------------------------------------------------------------- its life

static void fault_open(struct pod_driver *base,
                       const struct pod_driver_observer *observer)
{
    struct fault *fault = fault_of(base);
    struct pod_driver_observer own = {
        .ready = fault_on_ready,
        .lost = fault_on_lost,
        .heartbeat = fault_on_heartbeat,
        .arg = fault,
    };

    fault->observer = *observer;
    fault->inner->ops->open(fault->inner, &own);
}

static void fault_reconnect(struct pod_driver *base)
{
    struct fault *fault = fault_of(base);

    pod_mutex_lock(&fault->lock);
    if (fault->state == FAULT_UP)
        pod_fault_kill_locked(fault, "a new connection was asked for",
                              fault_now());
    else
        fault->revive_ns = fault_now();
    bool below = !fault->inner_up && !fault->inner_must_reopen;
    pod_cond_signal(&fault->wake);
    pod_mutex_unlock(&fault->lock);
    if (below)
        fault->inner->ops->reconnect(fault->inner);
}

static void fault_close(struct pod_driver *base)
{
    struct fault *fault = fault_of(base);

    pod_mutex_lock(&fault->lock);
    fault->state = FAULT_CLOSING;
    fault->stalled = false;
    pod_mutex_unlock(&fault->lock);
    fault->inner->ops->close(fault->inner);
    pod_mutex_lock(&fault->lock);
    bool join = fault->started;
    fault->started = false;
    fault->stop = true;
    pod_cond_signal(&fault->wake);
    pod_mutex_unlock(&fault->lock);
    if (join)
        (void)pthread_join(fault->thread, NULL);
}

// All but the driver below.
static void fault_fini(struct fault *fault)
{
    pod_map_fini(&fault->open);
    pod_gang_hub_unref(fault->hub);
    fault_info_free(fault->info);
    pod_cond_fini(&fault->wake);
    pod_mutex_fini(&fault->lock);
    pod_free(fault);
}

static void fault_free(struct pod_driver *base)
{
    if (base == NULL)
        return;
    struct fault *fault = fault_of(base);
    struct pod_driver *inner = fault->inner;

    if (fault->started)
        fault_close(base);
    fault_fini(fault);
    inner->ops->free(inner);
}

static const struct pod_driver_ops fault_ops = {
    .open = fault_open,
    .close = fault_close,
    .free = fault_free,
    .reset = pod_fault_reset,
    .reconnect = fault_reconnect,
    .allocate = pod_fault_allocate,
    .allocate_tuple = pod_fault_allocate_tuple,
    .deallocate = pod_fault_deallocate,
    .write = pod_fault_write,
    .read = pod_fault_read,
    .lend = pod_fault_lend,
    .copy = pod_fault_copy,
    .compile = pod_fault_compile,
    .free_program = pod_fault_free_program,
    .load = pod_fault_load,
    .unload = pod_fault_unload,
    .execute = pod_fault_execute,
    .cancel = pod_fault_cancel,
};

enum pod_code pod_fault_new(struct pod_driver *owned_inner,
                            struct pod_gang_hub *hub, uint32_t host,
                            const struct pod_fault_script *script,
                            struct pod_driver **out_driver, struct pod_err *err)
{
    struct fault *fault = pod_calloc(1, sizeof *fault);

    if (fault == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the faults of host %" PRIu32, host);
    pod_mutex_init(&fault->lock, POD_RANK_DRIVER, "fault driver");
    pod_cond_init(&fault->wake);
    pod_list_init(&fault->dropped);
    pod_list_init(&fault->held);
    pod_list_init(&fault->due);
    fault->base.ops = &fault_ops;
    fault->inner = owned_inner;
    fault->hub = hub == NULL ? NULL : pod_gang_hub_ref(hub);
    fault->host = host;
    fault->script = *script;
    fault->revive_ns = POD_NEVER;
    int result = pthread_create(&fault->thread, NULL, fault_main, fault);
    if (result != 0) {
        fault_fini(fault);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "thread for the faults of host %" PRIu32 ": %s",
                           host, strerror(result));
    }
    fault->started = true;
    *out_driver = &fault->base;
    return POD_OK;
}
