// SPDX-License-Identifier: Apache-2.0
// Bytes move in pieces of a fixed size, a few at a time, so that no transfer
// costs more memory than its slots. What was given with the request is there in
// one piece: a host in this process is handed all of it. Such a host also lends
// the memory of a buffer that is read, if the staging budget has room for all
// of it: the buffer may be written or freed while a client still takes the
// bytes, and then they are podd's.
//
// A slot reads its piece, or takes it from the blob that was given, and then
// writes it to a buffer, keeps it, or hands it to a stream in order. Streams
// are pushed to without the lock: `pushing` says that a thread is at it, and
// that thread does what others ask for meanwhile, the finish too.
#include "core/pod/transfer.h"

#include <assert.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/pod/cancel.h"
#include "core/pod/complete.h"
#include "core/pod/effect.h"
#include "core/pod/failure.h"
#include "core/pod/outbox.h"
#include "core/pod/staging.h"

// All slots and what a stream holds are within a cache of some MiB.
enum { TRANSFER_NEAR_BYTES = 512 * 1024 };
// What is smaller is copied: that is cheap, and a writer needs no new memory.
enum { TRANSFER_LEND_BYTES = 256 * 1024 };

struct pod_transfer *pod_transfer_new(struct pod *pod, struct pod_op *op)
{
    struct pod_transfer *transfer = pod_calloc(1, sizeof(*transfer));

    if (transfer == NULL)
        return NULL;
    transfer->refs = 1;
    transfer->pod = pod;
    transfer->op = op;
    pod_list_init(&transfer->after_link);
    for (uint32_t i = 0; i < POD_TRANSFER_SLOTS; i++) {
        transfer->slots[i].call.index = i;
        pod_list_init(&transfer->slots[i].call.link);
        pod_list_init(&transfer->slots[i].call.cancel_link);
    }
    return transfer;
}

void pod_transfer_unref(struct pod_transfer *transfer)
{
    if (transfer == NULL || atomic_fetch_sub(&transfer->refs, 1) != 1)
        return;
    for (size_t i = 0; i < POD_TRANSFER_SLOTS; i++)
        pod_blob_unref(transfer->slots[i].blob);
    pod_blob_unref(transfer->blob);
    pod_failure_unref(transfer->failure);
    pod_blob_unref(transfer->whole);
    pod_blob_unref(transfer->patch);
    pod_staging_give(transfer->pod, transfer->staged);
    pod_loan_free(transfer->loan);
    pod_free(transfer);
}

static void transfer_queue_after(struct pod_transfer *transfer,
                                 struct pod_after *after)
{
    if (transfer->queued)
        return;
    transfer->queued = true;
    atomic_fetch_add(&transfer->refs, 1);
    pod_list_push_back(&after->transfers, &transfer->after_link);
}

static void transfer_drop(struct pod_transfer_slot *slot)
{
    pod_blob_unref(slot->blob);
    slot->blob = NULL;
    slot->arrived = false;
}

// -------------------------------------------------------------------- pieces

size_t pod_transfer_piece(const struct pod_transfer *transfer)
{
    const struct pod_host *host =
        transfer->from != NULL ? transfer->from : transfer->to;

    size_t chunk = transfer->pod->options.chunk_bytes;
    bool near = (host->features & POD_DRIVER_NEAR) != 0;

    if (transfer->borrows || (pod_whole_host(host) && transfer->total > 0))
        return (size_t)transfer->total;
    // What was given is in memory as a whole, and a host nearby may keep it.
    if (near && transfer->from == NULL && transfer->period == 0 &&
        transfer->total > 0)
        return (size_t)transfer->total;
    // What is read nearby and sent at once never leaves the processor's caches.
    if (near && transfer->from != NULL && transfer->to == NULL &&
        chunk > TRANSFER_NEAR_BYTES)
        return TRANSFER_NEAR_BYTES;
    return chunk;
}

static struct pod_transfer_slot *transfer_slot_at(struct pod_transfer *transfer,
                                                  uint64_t offset)
{
    return &transfer->slots[offset / pod_transfer_piece(transfer) %
                            POD_TRANSFER_SLOTS];
}

// The first call of an operation bears its number, but an ALLOCATE's own number
// names its buffer.
static uint64_t transfer_number(struct pod_transfer *transfer)
{
    bool own = !transfer->numbered && transfer->op->kind != POD_KIND_ALLOCATE;

    transfer->numbered = true;
    return own ? transfer->op->number : pod_call_number_locked(transfer->pod);
}

// A host may refuse two writers of one buffer, unless it keeps the order
// itself: then each piece waits there for the one before.
static bool transfer_may_write(const struct pod_transfer *transfer)
{
    return transfer->writing == 0 ||
           (transfer->to->features & POD_DRIVER_WAITS) != 0;
}

static void transfer_write(struct pod_transfer *transfer,
                           struct pod_transfer_slot *slot, uint64_t number,
                           struct pod_after *after)
{
    struct pod_call *call = &slot->call;

    pod_call_init(call, transfer->op, transfer->to, POD_CALL_WRITE, number);
    if (transfer->writing > 0) {
        slot->before = transfer->last_write;
        call->waits = &slot->before;
        call->wait_count = 1;
    }
    transfer->writing++;
    transfer->last_write = number;
    call->handle = transfer->to_handle;
    call->offset = transfer->to_offset + slot->offset;
    call->count = slot->count;
    call->data = slot->blob != NULL ? slot->blob : transfer->blob;
    call->data_offset = slot->blob != NULL ? 0 : (size_t)slot->offset;
    if (slot->blob == NULL && transfer->period > 0)
        call->data_offset = (size_t)(slot->offset % transfer->period);
    pod_call_queue_locked(call, after);
}

static void transfer_read(struct pod_transfer *transfer,
                          struct pod_transfer_slot *slot, uint64_t number,
                          struct pod_after *after)
{
    struct pod_call *call = &slot->call;

    pod_call_init(call, transfer->op, transfer->from,
                  transfer->borrows ? POD_CALL_LEND : POD_CALL_READ, number);
    call->handle = transfer->from_handle;
    call->offset = transfer->from_offset + slot->offset;
    call->count = slot->count;
    pod_call_queue_locked(call, after);
}

void pod_transfer_fail_locked(struct pod_transfer *transfer,
                              const struct pod_err *err)
{
    struct pod_op *op = transfer->op;

    transfer->failing = true;
    if (op->outcome != POD_SCHED_SUCCEEDED || pod_op_ended(op))
        return;
    op->outcome = POD_SCHED_FAILED;
    pod_fail_err_locked(transfer->pod, op, err);
}

// The host it needs that is not connected, or NULL.
static const struct pod_host *
transfer_host_down(const struct pod_transfer *transfer)
{
    if (transfer->from != NULL && !pod_host_up(transfer->from))
        return transfer->from;
    if (transfer->to != NULL && !pod_host_up(transfer->to))
        return transfer->to;
    return NULL;
}

static void transfer_fail_host(struct pod_transfer *transfer,
                               const struct pod_host *host)
{
    struct pod_op *op = transfer->op;

    transfer->failing = true;
    if (op->outcome != POD_SCHED_SUCCEEDED || pod_op_ended(op))
        return;
    op->outcome = POD_SCHED_FAILED;
    pod_fail_host_locked(transfer->pod, op, host);
}

// Begins as many pieces as there are free slots.
static void transfer_pump(struct pod_transfer *transfer,
                          struct pod_after *after)
{
    size_t chunk = pod_transfer_piece(transfer);
    const struct pod_host *down = transfer_host_down(transfer);

    if (!transfer->failing && transfer->next < transfer->total && down != NULL)
        transfer_fail_host(transfer, down);
    while (!transfer->failing && !transfer->full &&
           transfer->next < transfer->total) {
        struct pod_transfer_slot *slot =
            transfer_slot_at(transfer, transfer->next);
        uint64_t left = transfer->total - transfer->next;
        if (slot->busy ||
            (transfer->from == NULL && !transfer_may_write(transfer)))
            return;
        slot->busy = true;
        slot->offset = transfer->next;
        slot->count = left < chunk ? (size_t)left : chunk;
        transfer->next += slot->count;
        uint64_t number = transfer_number(transfer);
        if (transfer->from != NULL)
            transfer_read(transfer, slot, number, after);
        else
            transfer_write(transfer, slot, number, after);
    }
}

// ----------------------------------------------------------------- progress

// Pieces that have come are kept in order of their place.
static void transfer_keep(struct pod_transfer *transfer,
                          struct pod_transfer_slot *slot)
{
    size_t index = (size_t)(slot->offset / pod_transfer_piece(transfer));

    transfer->op->kept->data.chunks[index] = slot->blob;
    slot->blob = NULL;
    slot->busy = false;
    transfer->handed += slot->count;
}

static bool transfer_complete(const struct pod_transfer *transfer)
{
    uint64_t done = transfer->to != NULL ? transfer->moved : transfer->handed;

    return !transfer->gathering && done == transfer->total;
}

// Whether nothing more will happen to it; then its operation can end.
static bool transfer_over(struct pod_transfer *transfer)
{
    struct pod_op *op = transfer->op;

    if (op == NULL || op->settled || op->open_calls > 0 ||
        op->stage != POD_STAGE_BYTES)
        return false;
    if (transfer_complete(transfer))
        return true;
    if (!transfer->failing)
        return false;
    if (op->outcome == POD_SCHED_SUCCEEDED)
        op->outcome = POD_SCHED_CANCELLED;
    return true;
}

static void transfer_advance(struct pod_transfer *transfer,
                             struct pod_after *after)
{
    if (transfer->stream != NULL || transfer->gathering)
        transfer_queue_after(transfer, after);
    transfer_pump(transfer, after);
    if (transfer_over(transfer))
        pod_done_local_locked(transfer->pod, transfer->op);
}

// Takes a loan of the buffer's memory instead of pieces, if there can be one.
static void transfer_begin_loan(struct pod_transfer *transfer)
{
    const struct pod_host *from = transfer->from;

    if (transfer->stream == NULL || from == NULL || transfer->to != NULL ||
        (from->features & POD_DRIVER_LENDS) == 0 ||
        transfer->total < TRANSFER_LEND_BYTES)
        return;
    // A part keeps the memory of the whole, should that be written or freed.
    transfer->loan = pod_loan_new(transfer->pod, transfer->op->target->bytes);
    transfer->borrows = transfer->loan != NULL;
}

void pod_transfer_start_locked(struct pod_transfer *transfer,
                               struct pod_after *after)
{
    transfer->op->stage = POD_STAGE_BYTES;
    if (pod_whole_begin_locked(transfer)) // failed: so does the transfer
        transfer_begin_loan(transfer);
    transfer_advance(transfer, after);
}

// From host to host: the next piece that has come is written.
static void transfer_write_next(struct pod_transfer *transfer,
                                struct pod_after *after)
{
    if (transfer->to == NULL || transfer->gathering)
        return;
    for (size_t i = 0; i < POD_TRANSFER_SLOTS; i++) {
        struct pod_transfer_slot *slot = &transfer->slots[i];
        if (!slot->arrived || !transfer_may_write(transfer))
            continue;
        slot->arrived = false;
        transfer_write(transfer, slot, pod_call_number_locked(transfer->pod),
                       after);
    }
}

static void transfer_arrived(struct pod_transfer *transfer,
                             struct pod_transfer_slot *slot,
                             struct pod_answer *answer, struct pod_after *after)
{
    struct pod_err err;

    if (answer->data == NULL || answer->data->size != slot->count) {
        slot->busy = false;
        pod_err_set(
            &err, POD_REASON_WORKER_ERROR,
            "the worker gave a different number of bytes than was asked for");
        pod_transfer_fail_locked(transfer, &err);
        return;
    }
    slot->blob = answer->data;
    answer->data = NULL;
    if (transfer->borrows) { // from now on the budget follows the bytes
        pod_loan_follow(transfer->loan, slot->blob);
        transfer->loan = NULL;
    }
    if (transfer->to != NULL || transfer->stream != NULL)
        slot->arrived = true;
    else
        transfer_keep(transfer, slot);
    transfer_write_next(transfer, after);
}

static void transfer_stop_calls(struct pod_transfer *transfer,
                                struct pod_after *after)
{
    transfer->failing = true;
    for (size_t i = 0; i < POD_TRANSFER_SLOTS; i++) {
        if (pod_call_cancel_locked(&transfer->slots[i].call, after))
            transfer_drop(&transfer->slots[i]);
    }
}

void pod_transfer_answer_locked(struct pod_transfer *transfer,
                                struct pod_call *call,
                                struct pod_answer *answer,
                                struct pod_after *after)
{
    struct pod_transfer_slot *slot = &transfer->slots[call->index];

    if (call->kind == POD_CALL_WRITE)
        transfer->writing--;
    if (answer->state != POD_SCHED_SUCCEEDED || transfer->failing) {
        pod_keep_failure_locked(transfer->pod, transfer->op, answer);
        transfer_drop(slot);
        slot->busy = false;
        if (call->kind == POD_CALL_WRITE &&
            answer->state == POD_SCHED_SUCCEEDED)
            transfer->moved += slot->count;
        if (answer->state != POD_SCHED_SUCCEEDED)
            transfer_stop_calls(transfer, after);
    } else if (call->kind != POD_CALL_WRITE) {
        transfer_arrived(transfer, slot, answer, after);
    } else {
        transfer_drop(slot);
        slot->busy = false;
        transfer->moved += slot->count;
        transfer_write_next(transfer, after);
    }
    transfer_advance(transfer, after);
}

void pod_transfer_cancel_locked(struct pod_transfer *transfer,
                                struct pod_after *after)
{
    transfer_stop_calls(transfer, after);
    transfer_advance(transfer, after);
}

// ------------------------------------------------------------------ streams

static void transfer_on_resume(void *arg, bool closed)
{
    struct pod_transfer *transfer = arg;
    struct pod *pod = transfer->pod;
    struct pod_after after;

    pod_enter(pod, &after);
    transfer->full = false;
    if (closed && transfer->op != NULL && !pod_op_ended(transfer->op) &&
        transfer->op->cancel == POD_CANCEL_NONE)
        pod_cancel_locked(pod, transfer->op, POD_CASCADE_NONE,
                          POD_REASON_CANCEL_REQUESTED,
                          "the reader of its bytes went away", &after);
    else if (transfer->op != NULL && transfer->op->stage == POD_STAGE_BYTES)
        transfer_advance(transfer, &after);
    pod_leave(pod, &after);
}

static void transfer_on_release(void *arg)
{
    pod_transfer_unref(arg);
}

void pod_transfer_listen_locked(struct pod_transfer *transfer)
{
    atomic_fetch_add(&transfer->refs, 1);
    pod_stream_on_resume(transfer->stream, transfer_on_resume, transfer);
    pod_stream_on_release(transfer->stream, transfer_on_release);
}

void pod_transfer_end_locked(struct pod_op *op, struct pod_after *after)
{
    struct pod_transfer *transfer = op->transfer;

    if (transfer == NULL)
        return;
    if (op->stage == POD_STAGE_BYTES) { // it ended while it was at work
        transfer->failing = true;
        if (transfer_over(transfer))
            pod_done_local_locked(transfer->pod, op);
    }
    if (transfer->stream == NULL || transfer->finish)
        return;
    transfer->finish = true;
    if (op->state != POD_SCHED_SUCCEEDED && op->failure != NULL)
        transfer->failure = pod_failure_ref(op->failure);
    transfer_queue_after(transfer, after);
}

// The next piece for the stream, if it has come and there is room.
static struct pod_blob *transfer_take_locked(struct pod_transfer *transfer)
{
    struct pod_transfer_slot *slot;
    struct pod_blob *blob;

    if (transfer->full || transfer->handed == transfer->total ||
        transfer->failure != NULL)
        return NULL;
    slot = transfer_slot_at(transfer, transfer->handed);
    if (!slot->arrived)
        return NULL;
    blob = slot->blob;
    slot->blob = NULL;
    slot->arrived = false;
    slot->busy = false;
    transfer->handed += slot->count;
    // Until the push says that there is room, or the stream calls back.
    transfer->full = true;
    return blob;
}

static void transfer_finish(const struct pod_transfer *transfer,
                            struct pod_stream *stream)
{
    const struct pod_failure *failure = transfer->failure;
    struct pod_err err = POD_ERR_NONE;

    if (failure != NULL)
        (void)pod_err_set_code(&err, failure->code, failure->reason, "%s",
                               failure->text);
    pod_stream_finish(stream, &err);
}

// Without the lock. Says whether there is room for more.
static bool transfer_hand_on(struct pod_transfer *transfer,
                             struct pod_blob *owned_blob)
{
    if (transfer->stream != NULL)
        return pod_stream_push(transfer->stream, owned_blob);
    pod_whole_put(transfer, owned_blob);
    return true;
}

// The bytes of a whole buffer are there: they are put together without the
// lock, and then written.
static void transfer_gathered_locked(struct pod_transfer *transfer,
                                     struct pod_after *after)
{
    struct pod *pod = transfer->pod;

    pod_leave(pod, after);
    bool good = pod_whole_finish(transfer);
    pod_enter(pod, after);
    pod_whole_write_locked(transfer, good);
    if (transfer->op != NULL && transfer->op->stage == POD_STAGE_BYTES)
        transfer_advance(transfer, after);
}

static void transfer_push_all(struct pod_transfer *transfer)
{
    struct pod *pod = transfer->pod;
    struct pod_blob *blob;
    struct pod_after after;

    pod_enter(pod, &after);
    while ((blob = transfer_take_locked(transfer)) != NULL) {
        pod_leave(pod, &after);
        bool room = transfer_hand_on(transfer, blob);
        pod_enter(pod, &after);
        if (room)
            transfer->full = false;
        if (transfer->op != NULL && transfer->op->stage == POD_STAGE_BYTES)
            transfer_advance(transfer, &after);
    }
    if (pod_whole_gathered_locked(transfer))
        transfer_gathered_locked(transfer, &after);
    struct pod_stream *stream = transfer->finish ? transfer->stream : NULL;
    if (stream != NULL)
        transfer->stream = NULL;
    transfer->pushing = false;
    pod_leave(pod, &after);
    // Not before it is to be finished: until then another thread may say why.
    if (stream != NULL)
        transfer_finish(transfer, stream);
}

void pod_transfer_after(struct pod_transfer *transfer)
{
    struct pod *pod = transfer->pod;
    bool mine;

    pod_mutex_lock(&pod->lock);
    transfer->queued = false;
    mine =
        !transfer->pushing && (transfer->stream != NULL || transfer->gathering);
    if (mine)
        transfer->pushing = true;
    pod_mutex_unlock(&pod->lock);
    if (mine)
        transfer_push_all(transfer);
    pod_transfer_unref(transfer);
}
