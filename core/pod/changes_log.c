// SPDX-License-Identifier: Apache-2.0
// What the engine writes into the log of changes, and how it is read.
#include "core/pod/internal.h"

static void changes_add(struct pod *pod, enum pod_change_kind kind,
                        uint64_t number, uint64_t *chain)
{
    const struct pod_change change = {.number = number, .kind = (uint8_t)kind};

    pod_changes_append(&pod->changes, &change, chain);
}

static void changes_add_event(struct pod *pod, struct pod_op *op)
{
    const struct pod_change change = {
        .number = op->number,
        .revision = op->revision,
        .kind = POD_CHANGE_EVENT,
        .state = (uint8_t)op->state,
    };

    pod_changes_append(&pod->changes, &change, &op->change);
}

static void changes_add_graph(struct pod *pod, struct pod_op *op)
{
    struct pod_op *graph = op->kind == POD_KIND_GRAPH ? op : op->graph_op;

    if (graph != NULL)
        changes_add(pod, POD_CHANGE_GRAPH, graph->number, &graph->graph_change);
}

void pod_changed_handle_locked(struct pod *pod, struct pod_handle *handle)
{
    const struct pod_op *maker = handle->maker;
    enum pod_change_kind kind = POD_CHANGE_LOAD;

    if (maker->buffer != NULL)
        kind = POD_CHANGE_BUFFER;
    else if (maker->program != NULL)
        kind = POD_CHANGE_PROGRAM;
    changes_add(pod, kind, maker->number, &handle->change);
}

// A program lists its loads.
static void changes_load(struct pod *pod, struct pod_loaded *load)
{
    pod_changed_handle_locked(pod, &load->handle);
    if (load->program != NULL)
        pod_changed_handle_locked(pod, &load->program->handle);
}

// What looks different when an operation was accepted and when it has ended:
// what it makes, writes or frees.
static void changes_handles(struct pod *pod, struct pod_op *op)
{
    struct pod_handle *made = pod_op_handle(op);

    if (op->load != NULL)
        changes_load(pod, op->load);
    else if (made != NULL)
        pod_changed_handle_locked(pod, made);
    if (op->target != NULL && op->kind != POD_KIND_READ)
        pod_changed_handle_locked(pod, &op->target->handle);
    if (op->target_program != NULL && op->kind == POD_KIND_FREE)
        pod_changed_handle_locked(pod, &op->target_program->handle);
    if (op->target_load != NULL && op->kind == POD_KIND_UNLOAD)
        changes_load(pod, op->target_load);
    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_replica *replica = &op->replicas[i];
        for (size_t k = 0; k < replica->output_count; k++)
            pod_changed_handle_locked(pod, &replica->output_buffers[k]->handle);
    }
}

void pod_changed_op_locked(struct pod *pod, struct pod_op *op, bool accepted)
{
    changes_add_event(pod, op);
    changes_add_graph(pod, op);
    if ((accepted || pod_op_ended(op)) && !op->settled)
        changes_handles(pod, op);
}

void pod_changed_host_locked(struct pod *pod, struct pod_host *host)
{
    if (host->removed)
        return; // that was its last change
    pod_host_judge_locked(pod, host);
    changes_add(pod, POD_CHANGE_HOST, host->id, &host->change);
}

void pod_removed_host_locked(struct pod *pod, struct pod_host *host)
{
    const struct pod_change change = {
        .number = host->id, .kind = POD_CHANGE_HOST, .removed = true};

    host->removed = true;
    pod_changes_append(&pod->changes, &change, &host->change);
}

// -------------------------------------------------------------------- reading

uint64_t pod_last_change(struct pod *pod, bool arm)
{
    pod_mutex_lock(&pod->lock);
    uint64_t last = pod->changes.last;
    if (arm)
        pod->changes.armed = last;
    pod_mutex_unlock(&pod->lock);
    return last;
}

enum pod_code pod_read_changes(struct pod *pod, uint64_t after, size_t capacity,
                               struct pod_change *out_items, size_t *out_count,
                               struct pod_err *err)
{
    pod_mutex_lock(&pod->lock);
    uint64_t last = pod->changes.last;
    bool kept =
        after <= last &&
        pod_changes_copy(&pod->changes, after, capacity, out_items, out_count);
    pod_mutex_unlock(&pod->lock);
    if (kept)
        return POD_OK;
    if (after > last)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "the last change is %llu, not yet %llu",
                           (unsigned long long)last, (unsigned long long)after);
    return pod_err_set(err, POD_REASON_EXPIRED,
                       "the changes after change %llu are no longer kept",
                       (unsigned long long)after);
}
