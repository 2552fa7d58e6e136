// SPDX-License-Identifier: Apache-2.0
// Sending ahead: an operation goes to its host before those it waits for are
// answered, if that host keeps the order itself (POD_DRIVER_WAITS). That saves
// a round trip for each link of a chain.
//
// What is sent so may be several calls, each of which names what it waits for.
// What it waits for must be one call that bears the operation's own number, for
// that is how a host knows it. So nothing is sent ahead of a transfer of
// several pieces, or of one that reads a buffer to write it: its last call is
// made when others have been answered, because only so many pieces are in
// podd's memory at once, and before that call is made it cannot be named. Nor
// of a COMPILE, which goes well only if it does on all hosts.
//
// What frees something may go ahead of uses, but not of the making: if that
// fails there is nothing to free, and a host would call it an error. Nor of
// what must go well, for it is done however that ends (pod_op_takes).
#include "core/pod/hazard.h"

#include "core/pod/transfer.h"

static bool ahead_one_piece(const struct pod *pod, const struct pod_op *op)
{
    uint64_t total = op->transfer->total;

    return total > 0 && total <= pod->options.chunk_bytes &&
           !(op->kind == POD_KIND_WRITE &&
             pod_whole_host(pod->hosts[op->host]));
}

// Whether it can be sent before what it waits for is answered.
static bool ahead_takes(const struct pod_op *op)
{
    switch (op->kind) {
    case POD_KIND_ALLOCATE:
        return !op->buffer->shape_unknown && !op->buffer->is_tuple;
    case POD_KIND_ALLOCATE_TUPLE:
    case POD_KIND_LOAD:
        return true;
    case POD_KIND_WRITE:
    case POD_KIND_READ:
        return !op->target->shape_unknown;
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
    case POD_KIND_GRAPH:
    case POD_KIND_RESET:
    case POD_KIND_COUNT:
        break;
    }
    return false;
}

// Whether others can be sent before it is answered.
static bool ahead_gives(const struct pod *pod, const struct pod_op *op)
{
    if (op->kind == POD_KIND_WRITE || op->kind == POD_KIND_READ)
        return ahead_takes(op) && ahead_one_piece(pod, op);
    // One with contents is several calls.
    return ahead_takes(op) &&
           !(op->kind == POD_KIND_ALLOCATE && op->transfer != NULL);
}

bool pod_ahead_may(const struct pod *pod, const struct pod_op *op,
                   const struct pod_op *dep, bool carries)
{
    unsigned needs = carries ? POD_DRIVER_WAITS : POD_DRIVER_ORDERS;

    return !(carries && (op->run_on_failure || pod_op_takes(op))) &&
           op->host != POD_NO_ID && op->host == dep->host &&
           (pod->hosts[op->host]->features & needs) != 0 && ahead_takes(op) &&
           ahead_gives(pod, dep);
}

bool pod_ahead_there(const struct pod_handle *handle)
{
    const struct pod_op *maker = handle->maker;

    return handle->exists ||
           (!handle->lost && maker->launched && !pod_op_ended(maker));
}

bool pod_ahead_broken_locked(const struct pod *pod, const struct pod_op *op)
{
    for (uint32_t i = 0; i < op->work->wait_count; i++) {
        const struct pod_op *dep =
            pod_table_get(&pod->table, op->work->waits[i]);
        if (dep != NULL && !dep->settled && !pod_list_empty(&dep->work->local))
            return true;
    }
    return false;
}
