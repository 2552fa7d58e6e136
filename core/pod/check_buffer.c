// SPDX-License-Identifier: Apache-2.0
// The checks of requests about buffers: allocate, tuple, write, read, copy,
// free.
#include "core/pod/check.h"

#include "core/pod/hazard.h"
#include "core/pod/op_new.h"
#include "core/pod/transfer.h"

// The buffer that a member names, or NULL with err set.
static struct pod_buffer *check_buffer(const struct pod_batch *batch,
                                       size_t item, const struct pod_ref *ref,
                                       const char *member)
{
    struct pod_op *op;

    if (pod_batch_find_locked(batch, item, ref, POD_WANT_BUFFER, &op) == POD_OK)
        return op->buffer;
    pod_batch_at(batch, item, "%s", member);
    return NULL;
}

static void check_target(struct pod_op *op, struct pod_buffer *buffer)
{
    op->target = buffer;
    op->buffer_number = buffer->handle.maker->number;
    op->host = buffer->host;
    op->core = buffer->core;
}

static enum pod_code check_contents(const struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    const struct pod_buffer *buffer = batch->items[item].op->buffer;
    size_t fill = request->allocate.fill_size;

    if (request->allocate.data != NULL &&
        request->allocate.data->size != buffer->bytes) {
        pod_err_set(batch->err, POD_REASON_BAD_LENGTH,
                    "the buffer has %llu bytes, the data %zu",
                    (unsigned long long)buffer->bytes,
                    request->allocate.data->size);
        return pod_batch_at(batch, item, "/values");
    }
    if (fill > 0 &&
        (fill > sizeof(request->allocate.fill) || buffer->bytes % fill != 0)) {
        pod_err_set(batch->err, POD_REASON_SHAPE_MISMATCH,
                    "elements of %zu bytes do not fill the buffer evenly",
                    fill);
        return pod_batch_at(batch, item, "/fill");
    }
    return POD_OK;
}

enum pod_code pod_check_allocate_locked(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    struct pod *pod = batch->pod;
    const struct pod_core *core;

    if (pod_check_place_locked(pod, request->allocate.core, batch->err) !=
        POD_OK)
        return pod_batch_at(batch, item, "/core");
    if (request->allocate.shape != NULL &&
        !pod_shape_is_array(request->allocate.shape)) {
        pod_err_set(batch->err, POD_REASON_BAD_SHAPE,
                    "the shape of a buffer must be an array");
        return pod_batch_at(batch, item, "/shape");
    }
    core = pod->cores[request->allocate.core];
    if (op->buffer->bytes > core->memory_total) {
        pod_err_set(batch->err, POD_REASON_RESOURCE_EXHAUSTED,
                    "core %u has %llu bytes in all, the buffer needs %llu",
                    core->id, (unsigned long long)core->memory_total,
                    (unsigned long long)op->buffer->bytes);
        return pod_batch_at(
            batch, item, request->allocate.shape != NULL ? "/shape" : "/bytes");
    }
    if (check_contents(batch, item) != POD_OK)
        return batch->err->code;
    op->host = op->buffer->host = core->host;
    op->core = op->buffer->core = core->id;
    op->buffer_number = op->number;
    op->waits_for_memory = !pod_memory_fits(core, op->buffer->bytes);
    pod_memory_reserve_locked(pod, op->buffer);
    return POD_OK;
}

static enum pod_code check_tuple_child(const struct pod_batch *batch,
                                       size_t item, size_t index)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_buffer *tuple = batch->items[item].op->buffer;
    struct pod_buffer *child;
    struct pod_op *op;

    if (pod_batch_find_locked(batch, item, &request->tuple.children[index],
                              POD_WANT_BUFFER, &op) != POD_OK)
        return pod_batch_at(batch, item, "/tuple/%zu", index);
    child = op->buffer;
    if (index > 0 && child->core != tuple->core) {
        pod_err_set(batch->err, POD_REASON_CORE_MISMATCH,
                    "the buffer is on core %u, the first one on core %u",
                    child->core, tuple->core);
        return pod_batch_at(batch, item, "/tuple/%zu", index);
    }
    tuple->core = child->core;
    tuple->host = child->host;
    tuple->nodes += child->nodes;
    if (tuple->depth <= child->depth)
        tuple->depth = child->depth + 1;
    if (tuple->nodes > POD_SHAPE_MAX_NODES ||
        tuple->depth > POD_SHAPE_MAX_DEPTH) {
        pod_err_set(batch->err, POD_REASON_BAD_SHAPE,
                    "the tuple has more than %d buffers or is deeper than %d",
                    POD_SHAPE_MAX_NODES, POD_SHAPE_MAX_DEPTH);
        return pod_batch_at(batch, item, "/tuple/%zu", index);
    }
    tuple->children[index] = child;
    tuple->child_numbers[index] = op->number;
    tuple->bytes += child->bytes;
    return POD_OK;
}

enum pod_code pod_check_tuple_locked(struct pod_batch *batch, size_t item)
{
    struct pod_op *op = batch->items[item].op;
    struct pod_buffer *tuple = op->buffer;

    if (tuple->child_count == 0) {
        pod_err_set(batch->err, POD_REASON_COUNT_MISMATCH,
                    "a tuple needs at least one buffer, which says on which "
                    "core it is");
        return pod_batch_at(batch, item, "/tuple");
    }
    tuple->depth = 1;
    for (size_t i = 0; i < tuple->child_count; i++) {
        if (check_tuple_child(batch, item, i) != POD_OK)
            return batch->err->code;
    }
    if (pod_check_place_locked(batch->pod, tuple->core, batch->err) != POD_OK)
        return pod_batch_at(batch, item, "/tuple");
    pod_tuple_hold_locked(tuple);
    op->host = tuple->host;
    op->core = tuple->core;
    op->bytes = tuple->bytes;
    op->buffer_number = op->number;
    return POD_OK;
}

static enum pod_code check_not_tuple(const struct pod_batch *batch, size_t item,
                                     const struct pod_buffer *buffer,
                                     const char *member)
{
    if (!buffer->is_tuple)
        return POD_OK;
    pod_err_set(
        batch->err, POD_REASON_IS_A_TUPLE, "buf-%llu is a tuple of %zu buffers",
        (unsigned long long)buffer->handle.maker->number, buffer->child_count);
    return pod_batch_at(batch, item, "%s", member);
}

static enum pod_code check_range(const struct pod_batch *batch, size_t item,
                                 const struct pod_buffer *buffer,
                                 uint64_t offset, uint64_t length)
{
    if (buffer->shape_unknown ||
        (offset <= buffer->bytes && length <= buffer->bytes - offset))
        return POD_OK;
    pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                "%llu bytes at %llu are not within the buffer's %llu",
                (unsigned long long)length, (unsigned long long)offset,
                (unsigned long long)buffer->bytes);
    return pod_batch_at(batch, item, "/buffer");
}

enum pod_code pod_check_write_locked(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    struct pod_buffer *buffer =
        check_buffer(batch, item, &request->write.buffer, "/buffer");

    if (buffer == NULL ||
        check_not_tuple(batch, item, buffer, "/buffer") != POD_OK ||
        check_range(batch, item, buffer, request->write.offset,
                    request->write.data->size) != POD_OK)
        return batch->err->code;
    if (request->write.if_writer != 0 &&
        request->write.if_writer != buffer->last_writer_number)
        return pod_err_set(batch->err, POD_REASON_PRECONDITION_FAILED,
                           "op-%llu has written to the buffer since",
                           (unsigned long long)buffer->last_writer_number);
    check_target(op, buffer);
    return POD_OK;
}

// Takes the room for the bytes that a read is to keep.
static enum pod_code check_kept(const struct pod_batch *batch, uint64_t length)
{
    unsigned long long bytes = length;

    if (length > batch->pod->options.staging_bytes)
        return pod_err_set(
            batch->err, POD_REASON_RESOURCE_EXHAUSTED,
            "%llu bytes are more than the whole staging budget "
            "of %llu: read parts, or without keeping them",
            bytes, (unsigned long long)batch->pod->options.staging_bytes);
    if (!pod_staging_take(batch->pod, length))
        return pod_err_set(batch->err, POD_REASON_STAGING_FULL,
                           "%llu bytes do not fit the staging budget now",
                           bytes);
    return POD_OK;
}

enum pod_code pod_check_read_locked(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    uint64_t offset = request->read.offset;
    uint64_t length = request->read.length;
    struct pod_buffer *buffer =
        check_buffer(batch, item, &request->read.buffer, "/buffer");

    if (buffer == NULL ||
        check_not_tuple(batch, item, buffer, "/buffer") != POD_OK)
        return batch->err->code;
    if (check_range(batch, item, buffer, offset,
                    length == UINT64_MAX ? 0 : length) != POD_OK)
        return batch->err->code;
    if (length == UINT64_MAX && !buffer->shape_unknown)
        length = buffer->bytes - offset;
    if (op->kept != NULL && length != UINT64_MAX) {
        if (check_kept(batch, length) != POD_OK)
            return pod_batch_at(batch, item, "/buffer");
        op->kept->data.bytes = length;
    }
    op->transfer->total = length;
    op->bytes = length == UINT64_MAX ? 0 : length;
    check_target(op, buffer);
    return POD_OK;
}

enum pod_code pod_check_copy_locked(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    struct pod_buffer *from =
        check_buffer(batch, item, &request->copy.from, "/from");
    struct pod_buffer *to =
        from == NULL ? NULL
                     : check_buffer(batch, item, &request->copy.to, "/to");

    if (to == NULL || check_not_tuple(batch, item, from, "/from") != POD_OK ||
        check_not_tuple(batch, item, to, "/to") != POD_OK)
        return batch->err->code;
    if (!from->shape_unknown && !to->shape_unknown &&
        (from->bytes != to->bytes ||
         (from->has_shape && to->has_shape &&
          !pod_shape_equal(from->shape, to->shape)))) {
        pod_err_set(batch->err, POD_REASON_SHAPE_MISMATCH,
                    "the buffers differ in shape or size (%llu and %llu bytes)",
                    (unsigned long long)from->bytes,
                    (unsigned long long)to->bytes);
        return pod_batch_at(batch, item, "/to");
    }
    check_target(op, to);
    if (from->host != to->host)
        op->host = POD_NO_ID;
    if (from->core != to->core)
        op->core = POD_NO_ID;
    op->source = from;
    op->from_number = from->handle.maker->number;
    op->bytes = to->bytes;
    return POD_OK;
}

// A tuple in which it has several places has them next to each other.
static enum pod_code check_stands_in_tuple(const struct pod_batch *batch,
                                           size_t item,
                                           const struct pod_buffer *buffer)
{
    const struct pod_buffer *before = NULL;
    struct pod_str text = {0};

    for (struct pod_list *at = buffer->tuples.next;
         at != &buffer->tuples && text.length < POD_ERR_TEXT_BYTES;
         at = at->next) {
        const struct pod_buffer *tuple =
            POD_CONTAINER(at, struct pod_tuple_place, link)->tuple;
        if (tuple != before)
            pod_str_printf(&text, " buf-%llu",
                           (unsigned long long)tuple->handle.maker->number);
        before = tuple;
    }
    pod_err_set(batch->err, POD_REASON_IN_USE,
                "buf-%llu is part of a tuple that is not freed:%s",
                (unsigned long long)buffer->handle.maker->number,
                text.data == NULL ? "" : text.data);
    pod_str_fini(&text);
    return pod_batch_at(batch, item, "/buffer");
}

enum pod_code pod_check_free_buffer_locked(struct pod_batch *batch, size_t item,
                                           struct pod_buffer *buffer)
{
    struct pod_op *op = batch->items[item].op;

    if (!pod_list_empty(&buffer->tuples))
        return check_stands_in_tuple(batch, item, buffer);
    check_target(op, buffer);
    buffer->handle.freed_by = op->number;
    pod_tuple_let_go_locked(buffer);
    return POD_OK;
}
