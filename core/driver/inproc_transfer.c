// SPDX-License-Identifier: Apache-2.0
// Writes and reads, in turns, and copies.
#include <inttypes.h>

#include "core/driver/inproc_internal.h"

static enum pod_code transfer_hold(struct inproc *driver,
                                   struct inproc_part *part, bool write,
                                   struct pod_err *err)
{
    const struct inproc_transfer *move = &part->task->as.transfer;

    pod_mutex_lock(&driver->lock);
    enum pod_code code =
        pod_inproc_hold_locked(driver, part, move->buffer, write, err);
    if (code == POD_OK && (write || move->lend))
        part->holds[0].handle->lent = move->lend;
    pod_mutex_unlock(&driver->lock);
    if (code != POD_OK)
        return code;
    const struct inproc_handle *handle = part->holds[0].handle;
    if (handle->value.is_tuple)
        return pod_err_set(err, POD_REASON_IS_A_TUPLE,
                           "buf-%" PRIu64 " is a tuple", handle->op);
    if (move->offset > handle->value.bytes ||
        move->count > handle->value.bytes - move->offset)
        return pod_err_set(
            err, POD_REASON_OUT_OF_RANGE,
            "%zu bytes at %" PRIu64 " of buf-%" PRIu64 " of %" PRIu64 " bytes",
            move->count, move->offset, handle->op, handle->value.bytes);
    return POD_OK;
}

// The bytes of this turn.
static size_t transfer_turn(const struct inproc_transfer *move)
{
    size_t left = move->count - move->moved;

    return left < POD_INPROC_CHUNK_BYTES ? left : POD_INPROC_CHUNK_BYTES;
}

// The device may keep the blob instead of copying all of it.
static enum pod_code write_adopt(struct inproc *driver,
                                 struct inproc_part *part, struct pod_err *err)
{
    struct inproc_transfer *move = &part->task->as.transfer;
    const struct inproc_handle *handle = part->holds[0].handle;
    const struct pod_device_ops *ops = driver->device->ops;
    bool taken = false;

    if (ops->adopt == NULL || move->blob->pieces != NULL ||
        move->count != handle->value.bytes || move->count != move->blob->size)
        return POD_OK;
    enum pod_code code = ops->adopt(driver->device, handle->buffer, move->blob,
                                    &part->task->interrupt, &taken, err);
    if (taken)
        move->moved = move->count;
    return code;
}

static enum pod_code write_begin(struct inproc *driver,
                                 struct inproc_part *part, struct pod_err *err)
{
    enum pod_code code = transfer_hold(driver, part, true, err);

    return code == POD_OK ? write_adopt(driver, part, err) : code;
}

// Writes the next `turn` bytes, which may lie in pieces.
static enum pod_code write_turn(struct inproc *driver, struct inproc_part *part,
                                size_t turn, struct pod_err *err)
{
    struct inproc_transfer *move = &part->task->as.transfer;
    enum pod_code code = POD_OK;

    while (turn > 0 && code == POD_OK) {
        const unsigned char *bytes;
        size_t run =
            pod_blob_run(move->blob, move->data_offset + move->moved, &bytes);
        if (run > turn)
            run = turn;
        code = driver->device->ops->write(driver->device,
                                          part->holds[0].handle->buffer,
                                          move->offset + move->moved, bytes,
                                          run, &part->task->interrupt, err);
        move->moved += run;
        turn -= run;
    }
    return code;
}

enum pod_code pod_inproc_run_write(struct inproc *driver,
                                   struct inproc_part *part,
                                   struct inproc_outcome *outcome)
{
    struct inproc_transfer *move = &part->task->as.transfer;
    struct pod_err *err = &outcome->result.err;
    enum pod_code code = POD_OK;

    if (pod_inproc_run_interrupted(part))
        return pod_inproc_run_cancelled(err);
    if (move->data_offset > move->blob->size ||
        move->count > move->blob->size - move->data_offset)
        return pod_err_set(err, POD_REASON_BAD_LENGTH,
                           "%zu bytes at %zu of %zu", move->count,
                           move->data_offset, move->blob->size);
    if (part->hold_count == 0)
        code = write_begin(driver, part, err);
    if (code == POD_OK)
        code = write_turn(driver, part, transfer_turn(move), err);
    outcome->again = code == POD_OK && move->moved < move->count;
    return code;
}

// The device may lend the bytes instead of copying them.
static enum pod_code read_borrow(struct inproc *driver,
                                 struct inproc_part *part, struct pod_err *err)
{
    struct inproc_transfer *move = &part->task->as.transfer;
    const struct pod_device_ops *ops = driver->device->ops;

    if (!move->lend || ops->lend == NULL)
        return POD_OK;
    enum pod_code code =
        ops->lend(driver->device, part->holds[0].handle->buffer, move->offset,
                  move->count, &part->task->interrupt, &move->blob, err);
    if (code == POD_OK && move->blob != NULL)
        move->moved = move->count;
    return code;
}

static enum pod_code read_begin(struct inproc *driver, struct inproc_part *part,
                                struct pod_err *err)
{
    struct inproc_transfer *move = &part->task->as.transfer;
    enum pod_code code = transfer_hold(driver, part, false, err);

    if (code == POD_OK)
        code = read_borrow(driver, part, err);
    if (code != POD_OK || move->blob != NULL)
        return code;
    move->blob = pod_blob_new(move->count);
    if (move->blob == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory to read %zu bytes", move->count);
    return POD_OK;
}

enum pod_code pod_inproc_run_read(struct inproc *driver,
                                  struct inproc_part *part,
                                  struct inproc_outcome *outcome)
{
    struct inproc_transfer *move = &part->task->as.transfer;
    struct pod_err *err = &outcome->result.err;
    enum pod_code code = POD_OK;

    if (pod_inproc_run_interrupted(part))
        return pod_inproc_run_cancelled(err);
    if (move->blob == NULL)
        code = read_begin(driver, part, err);
    if (code != POD_OK)
        return code;
    size_t turn = transfer_turn(move);
    if (turn > 0)
        code = driver->device->ops->read(
            driver->device, part->holds[0].handle->buffer,
            move->offset + move->moved, move->blob->data + move->moved, turn,
            &part->task->interrupt, err);
    move->moved += turn;
    outcome->again = code == POD_OK && move->moved < move->count;
    outcome->result.data = move->blob;
    return code;
}

static enum pod_code copy_hold_locked(struct inproc *driver,
                                      struct inproc_part *part,
                                      struct pod_err *err)
{
    const struct inproc_copy *copy = &part->task->as.copy;
    enum pod_code code =
        pod_inproc_hold_locked(driver, part, copy->to, true, err);

    if (code == POD_OK)
        code = pod_inproc_hold_locked(driver, part, copy->from, false, err);
    return code;
}

enum pod_code pod_inproc_run_copy(struct inproc *driver,
                                  struct inproc_part *part,
                                  struct inproc_outcome *outcome)
{
    struct pod_err *err = &outcome->result.err;

    pod_mutex_lock(&driver->lock);
    enum pod_code code = copy_hold_locked(driver, part, err);
    pod_mutex_unlock(&driver->lock);
    if (code != POD_OK)
        return code;
    const struct inproc_handle *to = part->holds[0].handle;
    const struct inproc_handle *from = part->holds[1].handle;
    if (to->value.is_tuple || from->value.is_tuple)
        return pod_err_set(err, POD_REASON_IS_A_TUPLE,
                           "buf-%" PRIu64 " is a tuple",
                           to->value.is_tuple ? to->op : from->op);
    if (to->value.bytes != from->value.bytes)
        return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                           "buf-%" PRIu64 " has %" PRIu64 " bytes, buf-%" PRIu64
                           " has %" PRIu64,
                           from->op, from->value.bytes, to->op,
                           to->value.bytes);
    if (to == from)
        return POD_OK;
    return driver->device->ops->copy(driver->device, from->buffer, to->buffer,
                                     &part->task->interrupt, err);
}
