// SPDX-License-Identifier: Apache-2.0
// The order in which memory of a core is taken and given back.
//
// Each core counts the bytes of the allocations that were accepted and neither
// freed nor failed. One that fits what is left needs no order. One that does
// not waits for the frees that were accepted before it, back to the last such
// allocation, which has waited for those before: so the edges stay few. Both
// stand in one list, in the order of their acceptance.
#include "core/pod/hazard.h"

bool pod_memory_fits(const struct pod_core *core, uint64_t bytes)
{
    return core->reserved <= core->memory_total &&
           bytes <= core->memory_total - core->reserved;
}

bool pod_memory_wait_locked(struct pod_hazard *hazard, struct pod_core *core)
{
    struct pod_op *op = hazard->op;

    op->waits_for_memory = true;
    for (struct pod_list *at = core->frees.prev; at != &core->frees;
         at = at->prev) {
        struct pod_op *before =
            POD_CONTAINER(at, struct pod_work, memory_link)->op;
        if (!pod_hazard_after_locked(hazard, before, false))
            return false;
        if (before->kind == POD_KIND_ALLOCATE)
            break;
    }
    pod_list_push_back(&core->frees, &op->work->memory_link);
    return true;
}

void pod_memory_freeing_locked(struct pod_core *core, struct pod_op *op)
{
    pod_list_push_back(&core->frees, &op->work->memory_link);
}

void pod_memory_reserve_locked(struct pod *pod, struct pod_buffer *buffer)
{
    pod->cores[buffer->core]->reserved += buffer->bytes;
    buffer->reserved = true;
}

void pod_memory_release_locked(struct pod *pod, struct pod_buffer *buffer)
{
    if (!buffer->reserved)
        return;
    pod->cores[buffer->core]->reserved -= buffer->bytes;
    buffer->reserved = false;
}

void pod_memory_exists_locked(struct pod *pod, struct pod_buffer *buffer,
                              bool exists)
{
    struct pod_core *core = pod->cores[buffer->core];

    if (buffer->handle.exists == exists)
        return;
    buffer->handle.exists = exists;
    if (buffer->is_tuple)
        return;
    if (exists)
        core->memory_used += buffer->bytes;
    else
        core->memory_used -= buffer->bytes;
}
