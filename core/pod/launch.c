// SPDX-License-Identifier: Apache-2.0
// What is done when the scheduler says that an operation may go to its host.
#include "core/pod/launch.h"

#include "core/base/mem.h"
#include "core/pod/cancel.h"
#include "core/pod/compile.h"
#include "core/pod/effect.h"
#include "core/pod/failure.h"
#include "core/pod/gang.h"
#include "core/pod/graph.h"
#include "core/pod/hazard.h"
#include "core/pod/outbox.h"
#include "core/pod/transfer.h"

void pod_launch_fail_locked(struct pod *pod, struct pod_op *op,
                            enum pod_reason reason, const char *text)
{
    op->outcome = POD_SCHED_FAILED;
    pod_fail_locked(pod, op, reason, text);
    pod_done_local_locked(pod, op);
}

void pod_launch_no_host_locked(struct pod *pod, struct pod_op *op,
                               const struct pod_host *host)
{
    op->outcome = POD_SCHED_FAILED;
    pod_fail_host_locked(pod, op, host);
    pod_done_local_locked(pod, op);
}

// What it uses must still be there: a loss ends what waits for it, but one that
// runs in spite of failures comes this far.
static bool launch_have(struct pod *pod, struct pod_op *op,
                        const struct pod_handle *handle)
{
    if (pod_ahead_there(handle))
        return true;
    op->outcome = POD_SCHED_FAILED;
    pod_fail_missing_locked(pod, op, handle);
    pod_done_local_locked(pod, op);
    return false;
}

static void launch_simple(struct pod *pod, struct pod_op *op,
                          enum pod_call_kind kind, uint64_t handle,
                          struct pod_after *after)
{
    struct pod_host *host = pod->hosts[op->host];

    if (!pod_host_up(host)) {
        pod_launch_no_host_locked(pod, op, host);
        return;
    }
    pod_call_init(&op->work->call, op, host, kind, op->number);
    op->work->call.handle = handle;
    if (op->core != POD_NO_ID)
        op->work->call.worker_core = pod->cores[op->core]->worker_core;
    pod_call_queue_locked(&op->work->call, after);
}

static void launch_allocate(struct pod *pod, struct pod_op *op,
                            struct pod_after *after)
{
    if (op->buffer->shape_unknown && !pod_output_launch_locked(pod, op))
        return;
    launch_simple(pod, op,
                  op->buffer->is_tuple ? POD_CALL_ALLOCATE_TUPLE
                                       : POD_CALL_ALLOCATE,
                  0, after);
}

static void launch_free(struct pod *pod, struct pod_op *op,
                        struct pod_after *after)
{
    if (op->target_program != NULL)
        pod_program_free_launch_locked(pod, op, after);
    else if (op->target->handle.exists)
        launch_simple(pod, op, POD_CALL_DEALLOCATE, op->buffer_number, after);
    else
        pod_done_local_locked(pod, op);
}

static bool launch_range(struct pod *pod, struct pod_op *op,
                         const struct pod_buffer *buffer, uint64_t offset,
                         uint64_t length)
{
    if (offset <= buffer->bytes && length <= buffer->bytes - offset)
        return true;
    pod_launch_fail_locked(pod, op, POD_REASON_OUT_OF_RANGE,
                           "the bytes are not within the buffer");
    return false;
}

static void launch_write(struct pod *pod, struct pod_op *op,
                         struct pod_after *after)
{
    struct pod_transfer *transfer = op->transfer;

    if (!launch_have(pod, op, &op->target->handle) ||
        !launch_range(pod, op, op->target, transfer->to_offset,
                      transfer->total))
        return;
    transfer->to = pod->hosts[op->host];
    transfer->to_handle = op->buffer_number;
    pod_transfer_start_locked(transfer, after);
}

// The budget was taken at submission unless the size was not known then.
static bool launch_read_room(struct pod *pod, struct pod_op *op, bool late)
{
    uint64_t total = op->transfer->total;
    size_t chunk = pod_transfer_piece(op->transfer);
    size_t count = (size_t)(total / chunk + (total % chunk != 0));

    if (op->kept == NULL)
        return true;
    struct pod_data_chunks *kept = &op->kept->data;
    if (late && !pod_staging_take(pod, total)) {
        pod_launch_fail_locked(pod, op, POD_REASON_STAGING_FULL,
                               "the bytes do not fit the staging budget");
        return false;
    }
    kept->bytes = total;
    kept->chunks = pod_calloc(count, sizeof(struct pod_blob *));
    if (kept->chunks == NULL) {
        pod_launch_fail_locked(pod, op, POD_REASON_OUT_OF_MEMORY,
                               "no memory for the bytes read");
        return false;
    }
    kept->count = count;
    return true;
}

static void launch_read(struct pod *pod, struct pod_op *op,
                        struct pod_after *after)
{
    struct pod_transfer *transfer = op->transfer;
    const struct pod_buffer *buffer = op->target;
    bool late = transfer->total == UINT64_MAX;

    if (!launch_have(pod, op, &buffer->handle))
        return;
    if (buffer->is_tuple) {
        pod_launch_fail_locked(pod, op, POD_REASON_IS_A_TUPLE,
                               "the buffer turned out to be a tuple");
        return;
    }
    if (!launch_range(pod, op, buffer, transfer->from_offset,
                      late ? 0 : transfer->total))
        return;
    if (late)
        transfer->total = buffer->bytes - transfer->from_offset;
    op->bytes = transfer->total;
    transfer->from = pod->hosts[op->host];
    if (!launch_read_room(pod, op, late))
        return;
    if (buffer->has_shape) {
        *op->shape = *buffer->shape;
    } else {
        pod_free(op->shape);
        op->shape = NULL;
    }
    transfer->from_handle = op->buffer_number;
    pod_transfer_start_locked(transfer, after);
}

// Straight from host to host, if both can do that.
static bool launch_copy_peer(struct pod *pod, struct pod_op *op,
                             struct pod_after *after)
{
    struct pod_host *from = pod->hosts[op->source->host];
    struct pod_host *to = pod->hosts[op->target->host];

    if ((from->features & to->features & POD_DRIVER_PEER_COPY) == 0 ||
        !pod_host_up(from) || !pod_host_up(to))
        return false;
    pod_call_init(&op->work->call, op, to, POD_CALL_PEER_COPY, op->number);
    op->work->call.handle = op->buffer_number;
    op->work->call.index = from->id;
    pod_call_queue_locked(&op->work->call, after);
    return true;
}

static void launch_copy(struct pod *pod, struct pod_op *op,
                        struct pod_after *after)
{
    const struct pod_buffer *from = op->source;
    const struct pod_buffer *to = op->target;

    if (!launch_have(pod, op, &from->handle) ||
        !launch_have(pod, op, &to->handle))
        return;
    if (from->is_tuple || to->is_tuple || from->bytes != to->bytes) {
        pod_launch_fail_locked(pod, op, POD_REASON_SHAPE_MISMATCH,
                               "the buffers turned out to differ in size");
        return;
    }
    op->bytes = to->bytes;
    if (from->host == to->host) {
        launch_simple(pod, op, POD_CALL_COPY, op->buffer_number, after);
        return;
    }
    if (launch_copy_peer(pod, op, after))
        return;
    pod_copy_bounce_locked(pod, op, after);
}

void pod_copy_bounce_locked(struct pod *pod, struct pod_op *op,
                            struct pod_after *after)
{
    const struct pod_buffer *from = op->source;
    const struct pod_buffer *to = op->target;
    struct pod_transfer *transfer = op->transfer;

    transfer->total = to->bytes;
    transfer->from = pod->hosts[from->host];
    transfer->from_handle = op->from_number;
    transfer->to = pod->hosts[to->host];
    transfer->to_handle = op->buffer_number;
    pod_transfer_start_locked(transfer, after);
}

static void launch_unload(struct pod *pod, struct pod_op *op,
                          struct pod_after *after)
{
    if (op->target_load->handle.exists)
        launch_simple(pod, op, POD_CALL_UNLOAD, op->load_number, after);
    else
        pod_done_local_locked(pod, op);
}

void pod_launch_locked(struct pod *pod, struct pod_op *op,
                       struct pod_after *after)
{
    if (pod_ahead_broken_locked(pod, op)) {
        op->outcome = POD_SCHED_CANCELLED; // it is skipped before that counts
        pod_done_local_locked(pod, op);
        return;
    }
    switch (op->kind) {
    case POD_KIND_ALLOCATE:
        launch_allocate(pod, op, after);
        break;
    case POD_KIND_ALLOCATE_TUPLE:
        launch_simple(pod, op, POD_CALL_ALLOCATE_TUPLE, 0, after);
        break;
    case POD_KIND_FREE:
        launch_free(pod, op, after);
        break;
    case POD_KIND_WRITE:
        launch_write(pod, op, after);
        break;
    case POD_KIND_READ:
        launch_read(pod, op, after);
        break;
    case POD_KIND_COPY:
        launch_copy(pod, op, after);
        break;
    case POD_KIND_COMPILE:
        pod_compile_launch_locked(pod, op, after);
        break;
    case POD_KIND_LOAD:
        pod_load_launch_locked(pod, op, after);
        break;
    case POD_KIND_UNLOAD:
        launch_unload(pod, op, after);
        break;
    case POD_KIND_EXECUTE:
        pod_execute_launch_locked(pod, op, after);
        break;
    case POD_KIND_RESET:
        pod_reset_launch_locked(pod, op, after);
        break;
    case POD_KIND_GRAPH:
    case POD_KIND_COUNT:
        break;
    }
}

// ------------------------------------------------------------------ interrupts

// It ended, or is to end, while its host has it.
void pod_interrupt_locked(struct pod *pod, struct pod_op *op,
                          struct pod_after *after)
{
    bool stopped = false;

    if (op->kind == POD_KIND_GRAPH) {
        pod_graph_interrupt_locked(pod, op);
        return;
    }
    if (op->settled || !pod_list_empty(&op->work->local) ||
        op->stage == POD_STAGE_UNDO)
        return; // it is over anyway
    if (op->transfer != NULL && op->stage == POD_STAGE_BYTES) {
        pod_transfer_cancel_locked(op->transfer, after);
        return;
    }
    if (!pod_list_empty(&op->work->joined)) { // it waits for another's compile
        pod_list_remove(&op->work->joined);
        stopped = true;
    }
    stopped = pod_compile_interrupt_locked(pod, op, after) || stopped;
    stopped = pod_call_cancel_locked(&op->work->call, after) || stopped;
    for (size_t i = 0; i < op->work->call_count; i++)
        stopped = pod_call_cancel_locked(&op->work->calls[i], after) || stopped;
    if (!stopped || op->open_calls > 0 || op->work->open_leaves > 0)
        return;
    if (op->outcome == POD_SCHED_SUCCEEDED)
        op->outcome = POD_SCHED_CANCELLED;
    pod_done_local_locked(pod, op);
}
