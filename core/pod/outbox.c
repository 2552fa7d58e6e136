// SPDX-License-Identifier: Apache-2.0
// From records to drivers: each host has an outbox, filled under the engine's
// lock and so in one order for all hosts, and emptied by one thread at a time.
//
// Whoever filled it empties it once the engine's lock is given up, unless a
// thread is at it already; that saves a change of threads for each call. One
// that has made many calls leaves the rest to the host's own thread.
#include "core/pod/outbox.h"

#include <assert.h>
#include <string.h>

#include "core/pod/compile.h"
#include "core/pod/complete.h"
#include "core/pod/stall.h"
#include "core/pod/transfer.h"

enum { OUTBOX_TURN = 64 };

void pod_call_init(struct pod_call *call, struct pod_op *op,
                   struct pod_host *host, enum pod_call_kind kind,
                   uint64_t number)
{
    *call = (struct pod_call){
        .kind = kind,
        .state = POD_CALL_IDLE,
        .index = call->index,
        .pod = host->pod,
        .op = op,
        .host = host,
        .cause = op == NULL ? 0 : op->number,
        .trace = op == NULL ? NULL : op->trace,
        .number = number,
        .waits = op == NULL ? NULL : op->work->waits,
        .wait_count = op == NULL ? 0 : op->work->wait_count,
        .orders = op == NULL ? NULL : op->work->orders,
        .order_count = op == NULL ? 0 : op->work->order_count,
    };
    pod_list_init(&call->link);
    pod_list_init(&call->cancel_link);
    pod_list_init(&call->host_link);
}

const struct pod_call *pod_op_call(const struct pod_op *op, size_t index)
{
    const struct pod_compiled *compiled = NULL;
    const struct pod_work *work = op->work;

    if (index == 0)
        return &work->call;
    index--;
    if (index < work->call_count)
        return &work->calls[index];
    index -= work->call_count;
    if (op->transfer != NULL && index < POD_TRANSFER_SLOTS)
        return &op->transfer->slots[index].call;
    if (op->program != NULL)
        compiled = op->program->compiled;
    else if (op->kind == POD_KIND_LOAD && !pod_list_empty(&work->joined))
        compiled = op->target_program->compiled;
    if (compiled == NULL)
        return NULL;
    if (op->program != NULL)
        return pod_compiled_call(compiled, index);
    // A load waits for its own host alone.
    return index == 0 ? pod_compiled_host_call(compiled, op->host) : NULL;
}

struct pod_op *pod_call_op(const struct pod_call *call)
{
    const struct pod_compiled *compiled = call->compiled;

    if (call->op != NULL || compiled->leader != NULL)
        return call->op != NULL ? call->op : compiled->leader;
    // Loads may wait for a host that compiles again.
    const struct pod_list *joined = pod_compiled_joined(call);
    if (pod_list_empty(joined))
        return NULL;
    return POD_CONTAINER(joined->next, struct pod_work, joined)->op;
}

uint64_t pod_call_number_locked(struct pod *pod)
{
    return ++pod->last_call;
}

void pod_kicked_add(struct pod_kicked *kicked, struct pod_host *host)
{
    for (size_t i = kicked->count; i > 0; i--) {
        if (kicked->hosts[i - 1] == host)
            return;
    }
    if (kicked->count < POD_KICKED_MAX) {
        atomic_fetch_add(&host->refs, 1);
        kicked->hosts[kicked->count++] = host;
        return;
    }
    pod_mutex_lock(&host->outbox_lock);
    host->left = true;
    pod_cond_broadcast(&host->outbox_cond);
    pod_mutex_unlock(&host->outbox_lock);
}

void pod_kicked_run(struct pod_kicked *kicked)
{
    for (size_t i = 0; i < kicked->count; i++) {
        pod_outbox_drain(kicked->hosts[i]);
        pod_host_unref(kicked->hosts[i]);
    }
    kicked->count = 0;
}

static void outbox_open(struct pod_call *call)
{
    call->open = true;
    pod_list_push_back(&call->host->calls, &call->host_link);
    pod_stall_watch_locked(call);
    if (call->op != NULL)
        call->op->open_calls++;
}

void pod_call_queue_locked(struct pod_call *call, struct pod_after *after)
{
    struct pod_host *host = call->host;

    assert(!call->open);
    outbox_open(call);
    if (host->removed) {
        call->state = POD_CALL_SENT; // and answered when the lock is given up
        pod_list_push_back(&after->lost, &call->link);
        return;
    }
    pod_mutex_lock(&host->outbox_lock);
    call->state = POD_CALL_QUEUED;
    pod_list_push_back(&host->outbox, &call->link);
    pod_mutex_unlock(&host->outbox_lock);
    pod_kicked_add(&after->kicked, host);
}

// Its host has let go of it, or never had it.
static void outbox_close(struct pod_call *call, struct pod_after *after)
{
    pod_stall_over_locked(call, after);
    call->open = false;
    pod_list_remove(&call->host_link);
    if (call->op != NULL)
        call->op->open_calls--;
}

bool pod_call_cancel_locked(struct pod_call *call, struct pod_after *after)
{
    struct pod_host *host = call->host;
    bool taken_back = false;
    bool kick = false;

    if (host == NULL || call->cancel_asked)
        return false;
    pod_mutex_lock(&host->outbox_lock);
    if (call->state == POD_CALL_QUEUED) {
        pod_list_remove(&call->link);
        call->state = POD_CALL_IDLE;
        taken_back = true;
    } else if (call->state == POD_CALL_SENT && !host->removed) {
        call->cancel_asked = true;
        pod_list_push_back(&host->cancels, &call->cancel_link);
        kick = true;
    }
    pod_mutex_unlock(&host->outbox_lock);
    if (taken_back)
        outbox_close(call, after);
    if (kick)
        pod_kicked_add(&after->kicked, host);
    return taken_back;
}

void pod_call_answered_locked(struct pod_call *call, struct pod_after *after)
{
    assert(call->open); // a driver answers once
    pod_mutex_lock(&call->host->outbox_lock);
    pod_list_remove(&call->cancel_link);
    call->state = POD_CALL_IDLE;
    call->cancel_asked = false;
    pod_mutex_unlock(&call->host->outbox_lock);
    outbox_close(call, after);
}

void pod_outbox_abandon_locked(struct pod_host *host, struct pod_after *after)
{
    struct pod_list *item;

    pod_mutex_lock(&host->outbox_lock);
    while (pod_list_pop_front(&host->cancels) != NULL) {
    }
    while ((item = pod_list_pop_front(&host->outbox)) != NULL) {
        POD_CONTAINER(item, struct pod_call, link)->state = POD_CALL_SENT;
        pod_list_push_back(&after->lost, item);
    }
    pod_mutex_unlock(&host->outbox_lock);
}

void pod_outbox_reconnect_locked(struct pod_host *host, struct pod_after *after)
{
    pod_mutex_lock(&host->outbox_lock);
    host->reconnect = true;
    pod_mutex_unlock(&host->outbox_lock);
    pod_kicked_add(&after->kicked, host);
}

// -------------------------------------------------------------------- sending

static void outbox_execute(const struct pod_call *call,
                           const struct pod_driver_call *driver_call)
{
    const struct pod_op *op = call->op;
    const struct pod_work *work = op->work;
    uint32_t first = work->group_starts[call->index];
    struct pod_driver_execute execute = {
        .launches = &work->driver_launches[first],
        .launch_count = work->group_starts[call->index + 1] - first,
        .replica_count = (uint32_t)op->replica_count,
        .replica_hosts = work->replica_hosts,
        .replica_cores = work->replica_cores,
        .replica_worker_cores = work->replica_worker_cores,
    };

    call->host->driver->ops->execute(call->host->driver, driver_call, &execute);
}

static void outbox_allocate(const struct pod_call *call,
                            const struct pod_driver_call *driver_call)
{
    const struct pod_buffer *buffer = call->op->buffer;

    call->host->driver->ops->allocate(
        call->host->driver, driver_call, call->worker_core,
        buffer->has_shape ? buffer->shape : NULL, buffer->bytes);
}

static void outbox_tuple(const struct pod_call *call,
                         const struct pod_driver_call *driver_call)
{
    const struct pod_buffer *buffer = call->op->buffer;

    call->host->driver->ops->allocate_tuple(
        call->host->driver, driver_call, call->worker_core,
        buffer->child_numbers, buffer->child_count);
}

// The call as the driver takes it. `more`: another call follows.
static struct pod_driver_call outbox_call(struct pod_call *call, bool more)
{
    return (struct pod_driver_call){
        .op = call->number,
        .waits = call->waits,
        .wait_count = call->wait_count,
        .orders = call->orders,
        .order_count = call->order_count,
        .priority = call->op == NULL ? 0 : call->op->priority,
        .more = more,
        .trace = call->trace,
        .operation = call->cause,
        .span = pod_span(call->pod, call->cause),
        .started = pod_call_started,
        .done = pod_call_done,
        .arg = call,
    };
}

// Makes a call. The answer may come before this returns, so the call is not
// looked at after its driver has it.
static void outbox_send(struct pod_call *call, bool more)
{
    struct pod_driver *driver = call->host->driver;
    const struct pod_driver_ops *ops = driver->ops;
    const struct pod_driver_call to = outbox_call(call, more);

    switch (call->kind) {
    case POD_CALL_ALLOCATE:
        outbox_allocate(call, &to);
        break;
    case POD_CALL_ALLOCATE_TUPLE:
        outbox_tuple(call, &to);
        break;
    case POD_CALL_DEALLOCATE:
        ops->deallocate(driver, &to, call->handle);
        break;
    case POD_CALL_WRITE:
        ops->write(driver, &to, call->handle, call->offset, call->data,
                   call->data_offset, call->count);
        break;
    case POD_CALL_READ:
        ops->read(driver, &to, call->handle, call->offset, call->count);
        break;
    case POD_CALL_LEND:
        ops->lend(driver, &to, call->handle, call->offset, call->count);
        break;
    case POD_CALL_COPY:
        ops->copy(driver, &to, call->op->from_number, call->handle);
        break;
    case POD_CALL_PEER_COPY:
        ops->copy_from_peer(driver, &to, call->index, call->op->from_number,
                            call->handle);
        break;
    case POD_CALL_COMPILE:
        ops->compile(driver, &to, call->compiled->format, call->compiled->blob,
                     call->compiled->replicas);
        break;
    case POD_CALL_FREE_PROGRAM:
        ops->free_program(driver, &to, call->handle);
        break;
    case POD_CALL_LOAD:
        ops->load(driver, &to, call->worker_core, call->handle);
        break;
    case POD_CALL_UNLOAD:
        ops->unload(driver, &to, call->handle);
        break;
    case POD_CALL_EXECUTE:
        outbox_execute(call, &to);
        break;
    case POD_CALL_RESET:
        ops->reset(driver, &to);
        break;
    }
}

// What the driver is given next.
struct outbox_item {
    struct pod_call *call; // or else
    uint64_t cancel;       // a call's number; or 0: to reconnect
};

// Calls go before cancels: a cancel that waits is of a call that has been sent.
static bool outbox_next_locked(struct pod_host *host,
                               struct outbox_item *out_item)
{
    struct pod_list *item = pod_list_pop_front(&host->outbox);

    *out_item = (struct outbox_item){.call = NULL};
    if (item != NULL) {
        out_item->call = POD_CONTAINER(item, struct pod_call, link);
        out_item->call->state = POD_CALL_SENT;
        return true;
    }
    item = pod_list_pop_front(&host->cancels);
    if (item != NULL) {
        out_item->cancel =
            POD_CONTAINER(item, struct pod_call, cancel_link)->number;
        return true;
    }
    bool reconnect = host->reconnect;
    host->reconnect = false;
    return reconnect;
}

// `more`: a call follows.
static void outbox_tell(struct pod_host *host, const struct outbox_item *item,
                        bool more)
{
    struct pod_driver *driver = host->driver;

    if (item->call != NULL)
        outbox_send(item->call, more);
    else if (item->cancel != 0)
        driver->ops->cancel(driver, item->cancel);
    else
        driver->ops->reconnect(driver);
}

// The next item is taken before this one is sent, so it is certain that it
// follows.
static void outbox_turn_locked(struct pod_host *host, int turns)
{
    struct outbox_item item;
    struct outbox_item next = {.call = NULL};
    bool any = !host->stopping && outbox_next_locked(host, &next);

    while (any) {
        item = next;
        any = --turns > 0 && !host->stopping && outbox_next_locked(host, &next);
        pod_mutex_unlock(&host->outbox_lock);
        outbox_tell(host, &item, any && next.call != NULL);
        pod_mutex_lock(&host->outbox_lock);
    }
}

static bool outbox_waits(const struct pod_host *host)
{
    return !pod_list_empty(&host->outbox) || !pod_list_empty(&host->cancels) ||
           host->reconnect;
}

void pod_outbox_drain(struct pod_host *host)
{
    pod_mutex_lock(&host->outbox_lock);
    if (!host->draining) {
        host->draining = true;
        outbox_turn_locked(host, OUTBOX_TURN);
        host->draining = false;
        host->left = outbox_waits(host);
        if (host->stopping || host->left)
            pod_cond_broadcast(&host->outbox_cond);
    }
    pod_mutex_unlock(&host->outbox_lock);
}

static void *outbox_thread(void *arg)
{
    struct pod_host *host = arg;

    pod_mutex_lock(&host->outbox_lock);
    while (!host->stopping) {
        if (host->draining || !host->left) {
            pod_cond_wait(&host->outbox_cond, &host->outbox_lock);
            continue;
        }
        host->draining = true;
        outbox_turn_locked(host, OUTBOX_TURN);
        host->draining = false;
        host->left = outbox_waits(host);
    }
    // Who stops it may wait for the turn that has just ended.
    pod_cond_broadcast(&host->outbox_cond);
    while (host->ends && host->draining)
        pod_cond_wait(&host->outbox_cond, &host->outbox_lock);
    bool ends = host->ends;
    pod_mutex_unlock(&host->outbox_lock);
    if (ends) {
        (void)pthread_detach(pthread_self()); // nobody waits for it
        pod_host_end(host);
    }
    return NULL;
}

enum pod_code pod_outbox_start(struct pod_host *host, struct pod_err *err)
{
    int failure = pthread_create(&host->thread, NULL, outbox_thread, host);

    if (failure != 0)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no thread for the calls to host %u: %s", host->id,
                           strerror(failure));
    host->has_thread = true;
    return POD_OK;
}

void pod_outbox_stop(struct pod_host *host)
{
    pod_mutex_lock(&host->outbox_lock);
    host->stopping = true;
    pod_cond_broadcast(&host->outbox_cond);
    while (host->draining)
        pod_cond_wait(&host->outbox_cond, &host->outbox_lock);
    pod_mutex_unlock(&host->outbox_lock);
    if (host->has_thread)
        (void)pthread_join(host->thread, NULL);
    host->has_thread = false;
}

void pod_outbox_end(struct pod_host *host)
{
    pod_mutex_lock(&host->outbox_lock);
    host->stopping = true;
    host->ends = true;
    pod_cond_broadcast(&host->outbox_cond);
    pod_mutex_unlock(&host->outbox_lock);
}
