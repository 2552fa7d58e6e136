// SPDX-License-Identifier: Apache-2.0
// Hosts that move whole buffers only, at one or both ends of a transfer.
//
// What such a host reads or is given is one piece, which must be in podd's
// memory at once, so it takes room in the staging budget. A part that is to be
// written is put into the whole, which is read first: the buffer is the
// operation's alone meanwhile. So a transfer that writes has two phases: bytes
// are gathered in `whole`, then that is written as if it had been given.
//
// Bytes are copied without the engine's lock, by the thread that has `pushing`;
// nobody else touches `whole` and `patch` while it gathers.
#include "core/pod/transfer.h"

#include <string.h>

bool pod_whole_host(const struct pod_host *host)
{
    return host != NULL && (host->features & POD_DRIVER_WHOLE) != 0;
}

static const struct pod_buffer *whole_buffer(const struct pod_op *op)
{
    return op->buffer != NULL ? op->buffer : op->target;
}

static bool whole_take_room(struct pod_transfer *transfer, uint64_t bytes)
{
    const struct pod *pod = transfer->pod;
    const struct pod_host *host =
        pod_whole_host(transfer->to) ? transfer->to : transfer->from;
    struct pod_err err;

    if (pod_staging_take(transfer->pod, bytes)) {
        transfer->staged = bytes;
        return true;
    }
    pod_err_set(&err, POD_REASON_STAGING_FULL,
                "host %u moves whole buffers only, and the %llu bytes of this "
                "one do not fit what is left of the staging budget of %llu "
                "bytes",
                host->id, (unsigned long long)bytes,
                (unsigned long long)pod->options.staging_bytes);
    pod_transfer_fail_locked(transfer, &err);
    return false;
}

// A part, or a pattern that fills all.
static void whole_begin_write(struct pod_transfer *transfer, uint64_t bytes)
{
    transfer->gathering = true;
    transfer->patch = transfer->blob;
    transfer->patch_period = transfer->period;
    transfer->patch_offset = transfer->to_offset;
    transfer->patch_count = transfer->total;
    transfer->blob = NULL;
    transfer->period = 0;
    transfer->whole_bytes = bytes;
    if (transfer->total == bytes) {
        transfer->total = 0; // nothing of what is there stays
        return;
    }
    transfer->from = transfer->to;
    transfer->from_handle = transfer->to_handle;
    transfer->from_offset = 0;
    transfer->total = bytes;
}

bool pod_whole_begin_locked(struct pod_transfer *transfer)
{
    struct pod_op *op = transfer->op;
    uint64_t bytes = whole_buffer(op)->bytes;
    bool all = transfer->total == bytes;

    if (transfer->total == 0 ||
        !(pod_whole_host(transfer->from) || pod_whole_host(transfer->to)))
        return true;
    if (transfer->from == NULL && transfer->period == 0 && all)
        return true; // given in one piece
    if (transfer->to == NULL && op->kept != NULL && all)
        return true; // has its room already
    if (!whole_take_room(transfer, bytes))
        return false;
    if (transfer->from == NULL) {
        whole_begin_write(transfer, bytes);
    } else if (transfer->to != NULL) {
        transfer->gathering = true;
        transfer->whole_bytes = bytes;
    }
    return true;
}

// ---------------------------------------------------------- without the lock

static bool whole_room(struct pod_transfer *transfer)
{
    if (transfer->whole == NULL)
        transfer->whole = pod_blob_new((size_t)transfer->whole_bytes);
    return transfer->whole != NULL;
}

void pod_whole_put(struct pod_transfer *transfer, struct pod_blob *owned_blob)
{
    if (owned_blob->size == transfer->whole_bytes) {
        transfer->whole = owned_blob;
        return;
    }
    if (whole_room(transfer))
        memcpy(transfer->whole->data + transfer->gathered, owned_blob->data,
               owned_blob->size);
    transfer->gathered += owned_blob->size;
    pod_blob_unref(owned_blob);
}

bool pod_whole_finish(struct pod_transfer *transfer)
{
    const struct pod_blob *patch = transfer->patch;
    uint64_t left = transfer->patch_count;

    if (!whole_room(transfer))
        return false;
    unsigned char *at = transfer->whole->data + transfer->patch_offset;
    while (patch != NULL && left > 0) {
        size_t count = left < patch->size ? (size_t)left : patch->size;
        memcpy(at, patch->data, count);
        at += count;
        left -= count;
    }
    return true;
}

// -------------------------------------------------------------- with the lock

bool pod_whole_gathered_locked(const struct pod_transfer *transfer)
{
    return transfer->gathering && !transfer->failing && transfer->op != NULL &&
           transfer->handed == transfer->total;
}

void pod_whole_write_locked(struct pod_transfer *transfer, bool good)
{
    struct pod_err err;

    if (transfer->op == NULL)
        return;
    if (!good) {
        pod_err_set(&err, POD_REASON_OUT_OF_MEMORY,
                    "no memory for the %llu bytes of the buffer",
                    (unsigned long long)transfer->whole_bytes);
        pod_transfer_fail_locked(transfer, &err);
        return;
    }
    transfer->gathering = false;
    transfer->blob = transfer->whole;
    transfer->whole = NULL;
    transfer->from = NULL;
    transfer->to_offset = 0;
    transfer->total = transfer->whole_bytes;
    transfer->next = 0;
    transfer->handed = 0;
}
