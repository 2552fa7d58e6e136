// SPDX-License-Identifier: Apache-2.0
// Automatic outputs of programs that were not compiled yet when their execution
// was submitted: ALLOCATEs that learn their shape when they are launched. If
// the result is a tuple, the buffer becomes a tuple of leaves that are
// allocated then, by operations of their own.
#include "core/pod/gang.h"

#include "core/base/mem.h"
#include "core/pod/complete.h"
#include "core/pod/effect.h"
#include "core/pod/failure.h"
#include "core/pod/graph.h"
#include "core/pod/hazard.h"
#include "core/pod/launch.h"
#include "core/pod/op_new.h"
#include "core/pod/outbox.h"
#include "core/pod/submit.h"

static const struct pod_shape *output_leaf(const struct pod_shape *shape,
                                           size_t *left)
{
    const struct pod_shape *found = NULL;

    if (shape->type != POD_TYPE_TUPLE)
        return (*left)-- == 0 ? shape : NULL;
    for (size_t i = 0; found == NULL && i < shape->child_count; i++)
        found = output_leaf(&shape->children[i], left);
    return found;
}

const struct pod_shape *pod_shape_leaf(const struct pod_shape *shape,
                                       size_t index)
{
    return output_leaf(shape, &index);
}

static bool output_take_shape(struct pod *pod, struct pod_op *op,
                              const struct pod_shape *shape)
{
    struct pod_buffer *buffer = op->buffer;

    if (!pod_shape_is_array(shape)) {
        pod_launch_fail_locked(pod, op, POD_REASON_SHAPE_MISMATCH,
                               "the program's result is not an array");
        return false;
    }
    *buffer->shape = *shape;
    buffer->has_shape = true;
    buffer->shape_unknown = false;
    buffer->bytes = (uint64_t)pod_shape_bytes(shape);
    op->bytes = buffer->bytes;
    pod_memory_reserve_locked(pod, buffer);
    return true;
}

bool pod_output_launch_locked(struct pod *pod, struct pod_op *op)
{
    const struct pod_program *program = op->target_program;

    if (!program->has_shape) {
        pod_launch_fail_locked(pod, op, POD_REASON_INTERNAL,
                               "the program's shape is not known");
        return false;
    }
    if (program->shape.result.type != POD_TYPE_TUPLE)
        return output_take_shape(pod, op, &program->shape.result);
    op->stage = POD_STAGE_PREPARE;
    pod_done_local_locked(pod, op);
    return false;
}

// --------------------------------------------------------------------- tuples

// A leaf is written by whoever writes the tuple.
static void output_set_leaf(struct pod *pod, struct pod_op *tuple,
                            struct pod_op *leaf, size_t index)
{
    struct pod_buffer *buffer = leaf->buffer;

    leaf->number = pod->last_number + 1 + index;
    leaf->created_ns = pod->now_ns;
    leaf->created_wall_ns = pod_clock_wall(&pod->options.clock);
    leaf->priority = tuple->priority;
    if (tuple->graph_op != NULL)
        pod_graph_join(tuple->graph_op, leaf);
    leaf->buffer_number = leaf->number;
    leaf->host = buffer->host = tuple->host;
    leaf->core = buffer->core = tuple->core;
    leaf->tuple_of = tuple;
    buffer->last_writer = leaf;
    buffer->last_writer_number = leaf->number;
    tuple->buffer->children[index] = buffer;
    tuple->buffer->child_numbers[index] = leaf->number;
    pod_pin(leaf);
}

static void output_free_leaves(struct pod *pod, struct pod_op **leaves,
                               size_t count)
{
    for (size_t i = 0; i < count; i++)
        pod_op_free(pod, leaves[i]);
    pod_free(leaves);
}

static struct pod_op **output_new_leaves(struct pod *pod, size_t count)
{
    struct pod_op **leaves = pod_calloc(count, sizeof(struct pod_op *));
    struct pod_work_maker maker = {.expected = count};
    size_t made = 0;

    while (leaves != NULL && made < count) {
        leaves[made] = pod_op_new_output(pod, &maker);
        if (leaves[made] == NULL)
            break;
        made++;
    }
    pod_work_maker_fini(&maker);
    if (leaves == NULL || made == count)
        return leaves;
    output_free_leaves(pod, leaves, made);
    return NULL;
}

static bool output_reserve(struct pod *pod, struct pod_buffer *tuple,
                           size_t count, size_t **out_starts)
{
    *out_starts = pod_calloc(count + 1, sizeof(size_t));
    return *out_starts != NULL && pod_tuple_room(tuple, count) &&
           pod_table_reserve(&pod->table, pod->last_number + 1, count) &&
           pod_sched_reserve(pod->sched, count, 0, NULL, 0, NULL) == POD_OK;
}

static void output_become_tuple(struct pod_op *op, size_t count)
{
    struct pod_buffer *tuple = op->buffer;

    tuple->is_tuple = true;
    tuple->shape_unknown = false;
    tuple->child_count = count;
    tuple->depth = 1;
    tuple->nodes = (uint32_t)count + 1;
}

static void output_written_locked(struct pod *pod, struct pod_buffer *leaf,
                                  struct pod_op *writer)
{
    pod_pin(writer);
    pod_hazard_forget_locked(pod, leaf);
    leaf->last_writer = writer;
    leaf->last_writer_number = writer->number;
}

static void output_make_leaves(struct pod *pod, struct pod_op *op,
                               struct pod_op **leaves, size_t count,
                               const size_t *starts, struct pod_after *after)
{
    const struct pod_shape *result = &op->target_program->shape.result;
    struct pod_op *writer = op->buffer->last_writer;

    output_become_tuple(op, count);
    for (size_t i = 0; i < count; i++) {
        const struct pod_shape *shape = pod_shape_leaf(result, i);
        output_set_leaf(pod, op, leaves[i], i);
        leaves[i]->trace = pod_trace_ref(op->trace);
        leaves[i]->buffer->has_shape = true;
        *leaves[i]->buffer->shape = *shape;
        leaves[i]->buffer->bytes = (uint64_t)pod_shape_bytes(shape);
        leaves[i]->bytes = leaves[i]->buffer->bytes;
        op->buffer->bytes += leaves[i]->bytes;
        pod_memory_reserve_locked(pod, leaves[i]->buffer);
    }
    if (op->buffer->handle.freed_by == 0)
        pod_tuple_hold_locked(op->buffer);
    op->bytes = op->buffer->bytes;
    op->work->open_leaves = (uint32_t)count;
    pod_admit_locked(pod, leaves, count, starts, after);
    for (size_t i = 0; i < count && writer != NULL && writer != op; i++)
        output_written_locked(pod, leaves[i]->buffer, writer);
}

// All leaves have ended: the tuple itself is made, or fails as they did.
static void output_make_tuple_locked(struct pod *pod, struct pod_op *op,
                                     struct pod_after *after)
{
    struct pod_host *host = pod->hosts[op->host];

    op->stage = POD_STAGE_MAIN;
    if (op->outcome != POD_SCHED_SUCCEEDED || pod_op_ended(op)) {
        pod_complete_locked(pod, op, after);
        return;
    }
    if (!pod_host_up(host)) {
        pod_launch_no_host_locked(pod, op, host);
        return;
    }
    pod_call_init(&op->work->call, op, host, POD_CALL_ALLOCATE_TUPLE,
                  op->number);
    op->work->call.worker_core = pod->cores[op->core]->worker_core;
    pod_call_queue_locked(&op->work->call, after);
}

void pod_output_expand_locked(struct pod *pod, struct pod_op *op,
                              struct pod_after *after)
{
    size_t count = pod_shape_leaves(&op->target_program->shape.result);
    size_t *starts = NULL;
    struct pod_op **leaves = NULL;

    if (pod_op_ended(op) || op->work->open_leaves > 0 || op->buffer->is_tuple ||
        op->outcome != POD_SCHED_SUCCEEDED) {
        pod_complete_locked(pod, op, after);
        return;
    }
    leaves = output_new_leaves(pod, count);
    if (leaves == NULL || !output_reserve(pod, op->buffer, count, &starts) ||
        !pod_hazard_spread_locked(op->buffer, leaves, count)) {
        if (leaves != NULL)
            output_free_leaves(pod, leaves, count);
        pod_free(starts);
        op->stage = POD_STAGE_MAIN;
        pod_launch_fail_locked(pod, op, POD_REASON_OUT_OF_MEMORY,
                               "no memory for the parts of the result");
        return;
    }
    output_make_leaves(pod, op, leaves, count, starts, after);
    pod_free(leaves);
    pod_free(starts);
    if (count == 0)
        output_make_tuple_locked(pod, op, after);
}

void pod_output_leaf_done_locked(struct pod *pod, struct pod_op *op,
                                 struct pod_after *after)
{
    struct pod_op *tuple = op->tuple_of;

    if (tuple == NULL)
        return;
    op->tuple_of = NULL;
    if (op->state != POD_SCHED_SUCCEEDED && !pod_op_ended(tuple) &&
        tuple->outcome == POD_SCHED_SUCCEEDED) {
        tuple->outcome = POD_SCHED_FAILED;
        pod_inherit_locked(pod, tuple, op);
    }
    if (--tuple->work->open_leaves == 0)
        output_make_tuple_locked(pod, tuple, after);
}
