// SPDX-License-Identifier: Apache-2.0
// The bytes of reads without a stream: kept for a while, taken as often as
// wanted, dropped on request or when their time is over.
//
// The bytes were taken from the staging budget. They go back when the last user
// of a chunk lets go of it, be it the record or a client that is still sending,
// so the budget holds whatever happens first.
#include "core/pod/staging.h"

#include <assert.h>

#include "core/base/mem.h"
#include "core/pod/internal.h"
#include "core/pod/settle.h"

#define DATA_KEPT_NS (600 * POD_NS_PER_S)

bool pod_kept_new(struct pod_op *op)
{
    op->kept = pod_calloc(1, sizeof(*op->kept));
    if (op->kept == NULL)
        return false;
    op->kept->op = op;
    pod_list_init(&op->kept->link);
    return true;
}

void pod_data_keep_locked(struct pod *pod, struct pod_op *op)
{
    struct pod_kept *kept = op->kept;
    struct pod_data_chunks *data = &kept->data;

    assert(!kept->there && !kept->dropped);
    // A chunk that somebody else follows already stays on the record's account.
    for (size_t i = 0; i < data->count; i++) {
        struct pod_blob *chunk = data->chunks[i];
        if (chunk->on_free != NULL || chunk->size > data->bytes)
            continue;
        chunk->on_free = pod_staging_on_free;
        chunk->arg = pod;
        data->bytes -= chunk->size;
    }
    kept->there = true;
    kept->until_ns =
        pod_time_add(pod_clock_mono(&pod->options.clock), DATA_KEPT_NS);
    pod_list_push_back(&pod->data, &kept->link);
}

struct pod_data_chunks pod_data_drop_locked(struct pod *pod, struct pod_op *op)
{
    struct pod_data_chunks data = {.chunks = NULL};

    if (!pod_op_has_data(op))
        return data;
    data = op->kept->data;
    op->kept->data = (struct pod_data_chunks){.chunks = NULL};
    op->kept->there = false;
    op->kept->dropped = true;
    pod_list_remove(&op->kept->link);
    // What its event shows has changed; nobody waits for an ended operation.
    op->revision = ++pod->revision;
    pod_retire_locked(pod, op);
    return data;
}

void pod_data_discard(struct pod *pod, struct pod_data_chunks chunks)
{
    for (size_t i = 0; i < chunks.count; i++)
        pod_blob_unref(chunks.chunks[i]);
    pod_free(chunks.chunks);
    if (chunks.bytes > 0)
        pod_staging_give(pod, chunks.bytes);
}

static const struct pod_kept *data_oldest(const struct pod *pod)
{
    if (pod_list_empty(&pod->data))
        return NULL;
    return POD_CONTAINER(pod->data.next, struct pod_kept, link);
}

bool pod_data_expire_locked(struct pod *pod, int64_t now_ns,
                            struct pod_data_chunks *out_chunks)
{
    const struct pod_kept *kept = data_oldest(pod);

    if (kept == NULL || kept->until_ns > now_ns)
        return false;
    *out_chunks = pod_data_drop_locked(pod, kept->op);
    return true;
}

int64_t pod_data_due_locked(const struct pod *pod)
{
    const struct pod_kept *kept = data_oldest(pod);

    return kept == NULL ? POD_NEVER : kept->until_ns;
}

// The operation's own error, or its root's.
static enum pod_code data_failure(const struct pod_op *op, struct pod_err *err)
{
    const struct pod_failure *failure = op->failure;

    if (failure == NULL)
        return pod_err_set(err, POD_REASON_INTERNAL, "op-%llu did not succeed",
                           (unsigned long long)op->number);
    if (op->root == op->number)
        return pod_err_set_code(err, failure->code, failure->reason, "%s",
                                failure->text);
    return pod_err_set_code(err, failure->code, failure->reason,
                            "op-%llu did not succeed: %s",
                            (unsigned long long)op->root, failure->text);
}

// The read whose bytes are there.
static enum pod_code data_find_locked(struct pod *pod, uint64_t number,
                                      struct pod_op **out_op,
                                      struct pod_err *err)
{
    struct pod_op *op;
    enum pod_code code = pod_find_op_locked(pod, number, &op, err);

    if (code != POD_OK)
        return code;
    if (op->kept == NULL)
        return pod_err_set(err, POD_REASON_NOT_FOUND, "op-%llu keeps no bytes",
                           (unsigned long long)number);
    if (op->kept->dropped)
        return pod_err_set(err, POD_REASON_EXPIRED,
                           "the bytes of op-%llu are no longer kept",
                           (unsigned long long)number);
    if (!pod_op_ended(op))
        return pod_err_set(err, POD_REASON_WAIT_EXPIRED,
                           "op-%llu is not done yet",
                           (unsigned long long)number);
    if (op->state != POD_SCHED_SUCCEEDED || !op->kept->there)
        return data_failure(op, err);
    *out_op = op;
    return POD_OK;
}

// Fills `data`, whose array has room for `room` chunks; or sets only the count.
static enum pod_code data_copy(struct pod *pod, uint64_t number, size_t room,
                               struct pod_data *data, struct pod_err *err)
{
    struct pod_op *op;

    pod_mutex_lock(&pod->lock);
    enum pod_code code = data_find_locked(pod, number, &op, err);
    if (code != POD_OK)
        goto out;
    const struct pod_data_chunks *kept = &op->kept->data;
    data->chunk_count = kept->count;
    if (kept->count > room)
        goto out;
    data->bytes = 0;
    for (size_t i = 0; i < kept->count; i++) {
        data->chunks[i] = pod_blob_ref(kept->chunks[i]);
        data->bytes += kept->chunks[i]->size;
    }
    data->buffer = op->buffer_number;
    data->has_shape = op->shape != NULL;
    if (data->has_shape)
        data->shape = *op->shape; // an array's, so the copy owns nothing
out:
    pod_mutex_unlock(&pod->lock);
    return code;
}

enum pod_code pod_take_data(struct pod *pod, uint64_t number,
                            struct pod_data *out_data, struct pod_err *err)
{
    struct pod_data data = {.chunk_count = 16};
    size_t room = 0;

    // Bytes that are there do not change, so the second time fits.
    while (room < data.chunk_count) {
        room = data.chunk_count;
        pod_free(data.chunks);
        data.chunks = pod_calloc(room, sizeof(struct pod_blob *));
        if (data.chunks == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for a list of %zu pieces", room);
        enum pod_code code = data_copy(pod, number, room, &data, err);
        if (code != POD_OK) {
            pod_free(data.chunks);
            return code;
        }
    }
    *out_data = data;
    return POD_OK;
}

void pod_data_fini(struct pod_data *data)
{
    if (data == NULL)
        return;
    for (size_t i = 0; i < data->chunk_count; i++)
        pod_blob_unref(data->chunks[i]);
    pod_free(data->chunks);
    *data = (struct pod_data){.chunks = NULL};
}

enum pod_code pod_drop_data(struct pod *pod, uint64_t number,
                            struct pod_err *err)
{
    struct pod_data_chunks chunks = {.chunks = NULL};
    struct pod_op *op;

    pod_mutex_lock(&pod->lock);
    enum pod_code code = data_find_locked(pod, number, &op, err);
    if (code == POD_OK)
        chunks = pod_data_drop_locked(pod, op);
    pod_mutex_unlock(&pod->lock);
    pod_data_discard(pod, chunks);
    return code;
}
