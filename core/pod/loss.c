// SPDX-License-Identifier: Apache-2.0
// Hosts come and go. When one is lost, what it has is answered LOST by its
// driver; what it held is lost; what waits and uses that is skipped with the
// loss as its cause; what waits for the host alone fails.
#include "core/pod/host.h"

#include <string.h>

#include "core/base/str.h"
#include "core/pod/complete.h"
#include "core/pod/effect.h"
#include "core/pod/failure.h"
#include "core/pod/hazard.h"
#include "core/pod/outbox.h"
#include "core/pod/settle.h"

// ----------------------------------------------------------------------- ready

static void loss_set_error(struct pod_host *host, const struct pod_err *err)
{
    size_t length =
        pod_utf8_clip(err->text, strlen(err->text), sizeof(host->error) - 1);

    memcpy(host->error, err->text, length);
    host->error[length] = '\0';
}

// `owned_info` NULL: err says what is wrong with it.
static enum pod_code loss_ready(struct pod *pod, struct pod_host *host,
                                struct pod_host_info *owned_info,
                                struct pod_err *err, struct pod_after *after)
{
    enum pod_code code = err->code;

    if (owned_info != NULL)
        code = pod_topology_ready_locked(pod, host, owned_info, err);
    else if (!host->answered)
        pod_topology_failed_locked(pod, host);
    host->refused = code != POD_OK;
    host->starved = host->refused && err->reason == POD_REASON_OUT_OF_MEMORY;
    if (code == POD_OK) {
        host->incarnation++;
        host->state = host->cordoned ? POD_HOST_CORDONED : POD_HOST_READY;
        host->error[0] = '\0';
        host->heartbeat_wall_ns = pod_clock_wall(&pod->options.clock);
    } else {
        host->state = POD_HOST_LOST;
        loss_set_error(host, err);
    }
    pod_changed_host_locked(pod, host);
    after->idle = true;
    return code;
}

static void loss_on_ready(void *arg, const struct pod_driver_info *info)
{
    struct pod_host *host = arg;
    struct pod *pod = host->pod;
    struct pod_err err = POD_ERR_NONE;
    struct pod_host_info *copy = pod_host_info_new(info, &err);
    struct pod_after after;
    enum pod_code code = POD_OK;

    pod_enter(pod, &after);
    bool removed = host->removed;
    enum pod_host_state state = POD_HOST_LOST;
    if (removed)
        pod_host_info_free(copy);
    else
        code = loss_ready(pod, host, copy, &err, &after);
    state = host->state;
    pod_leave(pod, &after);
    if (!removed)
        pod_note_host(code == POD_OK ? POD_LOG_INFO : POD_LOG_ERROR, host,
                      state, code == POD_OK ? NULL : err.text);
}

// A worker may say anything: sums wrap, and are shown as they are.
static struct pod_host_load loss_load(const struct pod_driver_load *from)
{
    struct pod_host_load load = {.known = from != NULL};

    if (from == NULL)
        return load;
    load.open_operations = from->open_operations;
    for (size_t i = 0; i < from->core_count; i++) {
        load.memory_used += from->cores[i].memory_used;
        load.queued += from->cores[i].queued;
        load.cores_busy += from->cores[i].busy ? 1 : 0;
    }
    return load;
}

static void loss_on_heartbeat(void *arg, const struct pod_driver_load *load)
{
    struct pod_host *host = arg;
    struct pod *pod = host->pod;
    struct pod_host_load now = loss_load(load);
    struct pod_after after;

    pod_enter(pod, &after);
    host->heartbeat_wall_ns = pod_clock_wall(&pod->options.clock);
    host->load = now;
    pod_owed_ask_locked(pod, host, &after);
    // It says again what it is, for which there may be memory by now.
    if (host->starved)
        pod_outbox_reconnect_locked(host, &after);
    host->starved = false;
    pod_leave(pod, &after);
}

// ------------------------------------------------------------------------ lost

static void loss_handle(struct pod *pod, struct pod_host *host,
                        struct pod_handle *handle)
{
    struct pod_op *maker = handle->maker;

    handle->lost = true;
    handle->loss = host->loss == NULL ? NULL : pod_failure_ref(host->loss);
    if (maker->buffer != NULL) {
        pod_memory_exists_locked(pod, maker->buffer, false);
        pod_memory_release_locked(pod, maker->buffer);
    } else if (handle->freed_by == 0) {
        pod_load_leave_locked(pod, maker->load);
    }
    handle->exists = false;
    pod_list_remove(&handle->host_link);
    pod_changed_handle_locked(pod, handle);
    pod_retire_locked(pod, maker);
}

static void loss_handles(struct pod *pod, struct pod_host *host)
{
    struct pod_list *at = host->handles.next;

    while (at != &host->handles) {
        struct pod_handle *handle =
            POD_CONTAINER(at, struct pod_handle, host_link);
        at = at->next;
        if (handle->exists)
            loss_handle(pod, host, handle);
    }
}

static const struct pod_op *loss_lost_buffer(const struct pod_buffer *buffer)
{
    return buffer != NULL && buffer->handle.lost ? buffer->handle.maker : NULL;
}

static const struct pod_op *loss_lost_replica(const struct pod_replica *replica)
{
    if (replica->load->handle.lost)
        return replica->load->handle.maker;
    for (size_t i = 0; i < replica->input_count; i++) {
        if (loss_lost_buffer(replica->input_buffers[i]) != NULL)
            return replica->input_buffers[i]->handle.maker;
    }
    for (size_t i = 0; i < replica->output_count; i++) {
        if (loss_lost_buffer(replica->output_buffers[i]) != NULL)
            return replica->output_buffers[i]->handle.maker;
    }
    return NULL;
}

// The maker of something lost that an operation uses, or NULL.
static const struct pod_op *loss_lost_use(const struct pod_op *op)
{
    const struct pod_op *maker = loss_lost_buffer(op->target);

    if (maker == NULL)
        maker = loss_lost_buffer(op->source);
    for (size_t i = 0; maker == NULL && i < op->replica_count; i++)
        maker = loss_lost_replica(&op->replicas[i]);
    for (size_t i = 0; maker == NULL && op->kind == POD_KIND_ALLOCATE_TUPLE &&
                       i < op->buffer->child_count;
         i++)
        maker = loss_lost_buffer(op->buffer->children[i]);
    return maker;
}

// A new placement on the host, which nothing will come of.
static bool loss_places(const struct pod_op *op, const struct pod_host *host)
{
    return op->host == host->id &&
           (op->kind == POD_KIND_ALLOCATE || op->kind == POD_KIND_LOAD ||
            op->kind == POD_KIND_ALLOCATE_TUPLE);
}

static bool loss_concerns(const struct pod_op *op, const struct pod_host *host)
{
    if (pod_op_ended(op) || op->launched || pod_op_takes(op))
        return false;
    return loss_places(op, host) ||
           (!op->run_on_failure && loss_lost_use(op) != NULL);
}

static void loss_end(struct pod *pod, struct pod_op *op,
                     const struct pod_host *host, struct pod_after *after)
{
    const struct pod_op *maker = op->run_on_failure ? NULL : loss_lost_use(op);
    struct pod_err err;

    if (maker != NULL) {
        pod_inherit_locked(pod, op, maker);
        pod_step_locked(pod, op, POD_SCHED_END, POD_SCHED_SKIPPED, false,
                        after);
        return;
    }
    pod_err_set(&err, POD_REASON_HOST_UNAVAILABLE, "host %u was lost: %s",
                host->id, host->error);
    pod_fail_err_locked(pod, op, &err);
    pod_step_locked(pod, op, POD_SCHED_END, POD_SCHED_FAILED, false, after);
}

static void loss_operations(struct pod *pod, struct pod_host *host,
                            struct pod_after *after)
{
    struct pod_list concerned;
    struct pod_list *item;

    pod_list_init(&concerned);
    for (struct pod_list *at = pod->open.next; at != &pod->open;
         at = at->next) {
        struct pod_op *op = POD_CONTAINER(at, struct pod_op, link);
        if (loss_concerns(op, host))
            pod_list_push_back(&concerned, &op->doomed);
    }
    while ((item = pod_list_pop_front(&concerned)) != NULL) {
        struct pod_op *op = POD_CONTAINER(item, struct pod_op, doomed);
        // An earlier one may have brought it down already.
        if (!pod_op_ended(op))
            loss_end(pod, op, host, after);
    }
}

static void loss_remember(struct pod *pod, struct pod_host *host,
                          const struct pod_err *err)
{
    loss_set_error(host, err);
    pod_failure_unref(host->loss);
    host->loss = pod_failure_new(pod, NULL, err, false);
    if (host->loss != NULL)
        host->loss->host = host->id;
}

void pod_loss_locked(struct pod *pod, struct pod_host *host,
                     const struct pod_err *err, struct pod_after *after)
{
    bool was_up = pod_host_up(host);

    host->state = POD_HOST_LOST;
    host->load.known = false;
    host->refused = false;
    host->starved = false;
    loss_remember(pod, host, err);
    if (!host->answered)
        pod_topology_failed_locked(pod, host);
    if (was_up) {
        pod->metrics.host_losses++;
        loss_handles(pod, host);
        pod_owed_lost_locked(pod, host);
        loss_operations(pod, host, after);
    }
    pod_changed_host_locked(pod, host);
    after->idle = true;
}

static void loss_on_lost(void *arg, const struct pod_err *err)
{
    struct pod_host *host = arg;
    struct pod *pod = host->pod;
    struct pod_after after;

    pod_enter(pod, &after);
    bool removed = host->removed;
    if (!removed)
        pod_loss_locked(pod, host, err, &after);
    pod_leave(pod, &after);
    if (!removed)
        pod_note_host(POD_LOG_WARN, host, POD_HOST_LOST, err->text);
}

static void loss_on_done_well(void *arg, const struct pod_driver_well *calls,
                              size_t count)
{
    const struct pod_host *host = arg;

    pod_calls_done_well(host->pod, calls, count);
}

struct pod_driver_observer pod_loss_observer(struct pod_host *host)
{
    return (struct pod_driver_observer){
        .ready = loss_on_ready,
        .lost = loss_on_lost,
        .heartbeat = loss_on_heartbeat,
        .done_well = loss_on_done_well,
        .arg = host,
    };
}
