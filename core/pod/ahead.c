// SPDX-License-Identifier: Apache-2.0
// Sending ahead: an operation goes to its host before those it waits for are
// answered, if that host keeps the order itself (POD_DRIVER_WAITS). That saves
// a round trip for each link of a chain.
//
// Both must be one call each, to one host, that bears the operation's own
// number. A LOAD is left out: its call may come later than its launch, when its
// host has to compile first. What frees something may go ahead of uses, but not
// of the making: if that fails there is nothing to free, and a host would call
// it an error.
#include "core/pod/engine.h"

static bool ahead_one_piece(const struct pod *pod, const struct pod_op *op)
{
    uint64_t total = op->transfer->total;

    return total > 0 && total <= pod->options.chunk_bytes;
}

static bool ahead_one_call(const struct pod *pod, const struct pod_op *op)
{
    switch (op->kind) {
    case POD_KIND_ALLOCATE:
        return op->transfer == NULL && !op->buffer->shape_unknown &&
               !op->buffer->is_tuple;
    case POD_KIND_ALLOCATE_TUPLE:
        return true;
    case POD_KIND_WRITE:
    case POD_KIND_READ:
        return !op->target->shape_unknown && ahead_one_piece(pod, op);
    case POD_KIND_COPY:
        return op->source->host == op->target->host &&
               !op->source->shape_unknown && !op->target->shape_unknown;
    case POD_KIND_EXECUTE:
        return op->replica_count == 1;
    case POD_KIND_FREE:
        return op->target != NULL && op->target->handle.exists;
    case POD_KIND_UNLOAD:
        return op->target_load->handle.exists;
    case POD_KIND_COMPILE:
    case POD_KIND_LOAD:
    case POD_KIND_GRAPH:
    case POD_KIND_RESET:
    case POD_KIND_COUNT:
        break;
    }
    return false;
}

bool pod_ahead_may(const struct pod *pod, const struct pod_op *op,
                   const struct pod_op *dep, bool carries)
{
    return !(carries && op->run_on_failure) && op->host != POD_NO_ID &&
           op->host == dep->host &&
           (pod->hosts[op->host]->features & POD_DRIVER_WAITS) != 0 &&
           ahead_one_call(pod, op) && ahead_one_call(pod, dep);
}

bool pod_ahead_there(const struct pod_handle *handle)
{
    const struct pod_op *maker = handle->maker;

    return handle->exists ||
           (!handle->lost && maker->launched && !pod_op_ended(maker));
}

bool pod_ahead_broken_locked(const struct pod *pod, const struct pod_op *op)
{
    for (uint32_t i = 0; i < op->wait_count; i++) {
        const struct pod_op *dep = pod_table_get(&pod->table, op->waits[i]);
        if (dep != NULL && !dep->settled && !pod_list_empty(&dep->local))
            return true;
    }
    return false;
}
