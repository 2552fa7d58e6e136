// SPDX-License-Identifier: Apache-2.0
// What each kind of operation must wait for, in terms of hazards.
#include "core/pod/submit.h"

#include "core/pod/hazard.h"
#include "core/pod/transfer.h"

static bool edges_allocate(struct pod_hazard *hazard)
{
    struct pod_op *op = hazard->op;

    // An automatic output: what cannot be executed needs none, whenever that
    // turns out, and the shape is known once the program is loaded.
    // An automatic output is of no use if its execution cannot be.
    if (op->target_load != NULL &&
        !pod_hazard_handle_locked(hazard, &op->target_load->handle))
        return false;
    return !op->waits_for_memory ||
           pod_memory_wait_locked(hazard, hazard->pod->cores[op->core]);
}

static bool edges_tuple(struct pod_hazard *hazard)
{
    const struct pod_buffer *tuple = hazard->op->buffer;

    for (size_t i = 0; i < tuple->child_count; i++) {
        if (!pod_hazard_handle_locked(hazard, &tuple->children[i]->handle))
            return false;
    }
    return true;
}

// A program is freed when the unloads before it have ended.
static bool edges_free_program(struct pod_hazard *hazard)
{
    struct pod_program *program = hazard->op->target_program;

    if (!pod_hazard_after_locked(hazard, program->handle.maker, false))
        return false;
    for (struct pod_list *at = program->closing.next; at != &program->closing;
         at = at->next) {
        const struct pod_loaded *load =
            POD_CONTAINER(at, struct pod_loaded, program_link);
        if (!pod_hazard_after_locked(hazard, load->freeing, false))
            return false;
    }
    return true;
}

static bool edges_free(struct pod_hazard *hazard)
{
    struct pod_op *op = hazard->op;

    if (op->target_program != NULL)
        return edges_free_program(hazard);
    if (!pod_hazard_free_locked(hazard, op->target))
        return false;
    if (!op->target->is_tuple)
        pod_memory_freeing_locked(hazard->pod->cores[op->core], op);
    return true;
}

static bool edges_unload(struct pod_hazard *hazard)
{
    struct pod_loaded *load = hazard->op->target_load;

    return pod_hazard_after_locked(hazard, load->handle.maker, false) &&
           pod_hazard_users_locked(hazard, load);
}

static bool edges_execute(struct pod_hazard *hazard)
{
    struct pod_op *op = hazard->op;

    for (size_t i = 0; i < op->replica_count; i++) {
        struct pod_replica *replica = &op->replicas[i];
        if (!pod_hazard_handle_locked(hazard, &replica->load->handle))
            return false;
        op->work->load_uses[i].op = op;
        pod_list_push_back(&replica->load->users, &op->work->load_uses[i].link);
        for (size_t k = 0; k < replica->input_count; k++) {
            if (!pod_hazard_read_locked(hazard, replica->input_buffers[k]))
                return false;
        }
    }
    for (size_t i = 0; i < op->replica_count; i++) {
        struct pod_replica *replica = &op->replicas[i];
        for (size_t k = 0; k < replica->output_count; k++) {
            if (!pod_hazard_write_locked(hazard, replica->output_buffers[k],
                                         true))
                return false;
        }
    }
    return true;
}

static bool edges_write(struct pod_hazard *hazard)
{
    struct pod_op *op = hazard->op;
    bool whole = op->transfer->to_offset == 0 &&
                 op->transfer->total == op->target->bytes;

    return pod_hazard_write_locked(hazard, op->target, whole);
}

static bool edges_kind(struct pod_hazard *hazard)
{
    struct pod_op *op = hazard->op;

    switch (op->kind) {
    case POD_KIND_ALLOCATE:
        return edges_allocate(hazard);
    case POD_KIND_ALLOCATE_TUPLE:
        return edges_tuple(hazard);
    case POD_KIND_FREE:
        return edges_free(hazard);
    case POD_KIND_WRITE:
        return edges_write(hazard);
    case POD_KIND_READ:
        return pod_hazard_read_locked(hazard, op->target);
    case POD_KIND_COPY:
        return pod_hazard_read_locked(hazard, op->source) &&
               pod_hazard_write_locked(hazard, op->target, true);
    case POD_KIND_LOAD:
        return pod_hazard_handle_locked(hazard, &op->target_program->handle);
    case POD_KIND_UNLOAD:
        return edges_unload(hazard);
    case POD_KIND_EXECUTE:
        return edges_execute(hazard);
    case POD_KIND_COMPILE:
    case POD_KIND_GRAPH:
    case POD_KIND_RESET:
    case POD_KIND_COUNT:
        break;
    }
    return true;
}

static bool edges_after(struct pod_batch *batch, struct pod_hazard *hazard,
                        const struct pod_batch_item *item)
{
    const struct pod_request *request = item->request;
    size_t index = (size_t)(item - batch->items);
    struct pod_op *dep;

    for (size_t i = 0; i < batch->after_count; i++) {
        if (!pod_hazard_after_locked(hazard, batch->after[i], true))
            return false;
    }
    for (size_t i = 0; i < request->after_count; i++) {
        if (pod_batch_find_locked(batch, index, &request->after[i],
                                  POD_WANT_ANY, &dep) != POD_OK) {
            pod_batch_at(batch, index, "/after/%zu", i);
            return false;
        }
        if (!pod_hazard_after_locked(hazard, dep, true))
            return false;
    }
    return true;
}

bool pod_batch_edges_locked(struct pod_batch *batch, struct pod_op *op,
                            const struct pod_batch_item *item)
{
    struct pod *pod = batch->pod;
    struct pod_hazard hazard;

    pod_hazard_begin_locked(&hazard, pod, op);
    if (pod->reset != NULL &&
        !pod_hazard_after_locked(&hazard, pod->reset, false))
        return false;
    if (!edges_kind(&hazard) ||
        !(op->auto_output || edges_after(batch, &hazard, item)))
        return false;
    pod_hazard_ahead_locked(&hazard);
    return true;
}
