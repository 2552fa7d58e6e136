// SPDX-License-Identifier: Apache-2.0
// The checks of an execution: loads, buffers, replicas, assignment.
#include "core/pod/submit.h"

#include <string.h>

#include "core/pod/gang.h"
#include "core/pod/hazard.h"

const struct pod_program_shape *
pod_batch_shape_locked(const struct pod_batch *batch,
                       const struct pod_ref *load)
{
    struct pod_ref program = {.kind = POD_REF_NONE};
    const struct pod_op *op;

    if (load->kind == POD_REF_LOAD) {
        op = pod_table_get(&batch->pod->table, load->number);
        if (op == NULL || op->load == NULL || op->load->program == NULL)
            return NULL;
        program.kind = POD_REF_PROGRAM;
        program.number = op->load->program_number;
    } else if (load->kind == POD_REF_REQUEST && load->number < batch->count &&
               batch->items[load->number].request->kind == POD_KIND_LOAD) {
        program = batch->items[load->number].request->load.program;
    }
    if (program.kind != POD_REF_PROGRAM)
        return NULL;
    op = pod_table_get(&batch->pod->table, program.number);
    if (op == NULL || op->program == NULL || !op->program->has_shape)
        return NULL;
    return &op->program->shape;
}

static enum pod_code execute_at(const struct pod_batch *batch, size_t item,
                                size_t launch, const char *member)
{
    if (batch->items[item].request->execute.is_gang)
        return pod_batch_at(batch, item, "/launches/%zu%s", launch, member);
    return pod_batch_at(batch, item, "%s", member);
}

static enum pod_code execute_at_index(const struct pod_batch *batch,
                                      size_t item, size_t launch,
                                      const char *list, size_t index)
{
    if (batch->items[item].request->execute.is_gang)
        return pod_batch_at(batch, item, "/launches/%zu/%s/%zu", launch, list,
                            index);
    return pod_batch_at(batch, item, "/%s/%zu", list, index);
}

static enum pod_code execute_load(const struct pod_batch *batch, size_t item,
                                  size_t launch)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_replica *replica = &batch->items[item].op->replicas[launch];
    struct pod_op *made;

    if (pod_batch_find_locked(batch, item,
                              &request->execute.launches[launch].load,
                              POD_WANT_LOAD, &made) != POD_OK)
        return execute_at(batch, item, launch, "/load");
    replica->load = made->load;
    replica->load_number = made->number;
    replica->core = made->load->core;
    replica->host = made->load->host;
    replica->replica = (uint32_t)launch;
    return POD_OK;
}

static enum pod_code execute_buffers(const struct pod_batch *batch, size_t item,
                                     size_t launch, const char *list,
                                     const struct pod_ref *refs, size_t count,
                                     uint64_t *numbers,
                                     struct pod_buffer **buffers)
{
    const struct pod_replica *replica =
        &batch->items[item].op->replicas[launch];
    struct pod_op *made;

    for (size_t i = 0; i < count; i++) {
        if (pod_batch_find_locked(batch, item, &refs[i], POD_WANT_BUFFER,
                                  &made) != POD_OK)
            return execute_at_index(batch, item, launch, list, i);
        if (made->buffer->core != replica->core) {
            pod_err_set(batch->err, POD_REASON_CORE_MISMATCH,
                        "the buffer is on core %u, the load on core %u",
                        made->buffer->core, replica->core);
            return execute_at_index(batch, item, launch, list, i);
        }
        numbers[i] = made->number;
        buffers[i] = made->buffer;
    }
    return POD_OK;
}

// Leaves of all outputs must be distinct. The mark is the submission's scratch.
static bool execute_mark(struct pod *pod, struct pod_buffer *buffer)
{
    if (buffer->handle.maker->dep_mark == pod->dep_mark)
        return false;
    buffer->handle.maker->dep_mark = pod->dep_mark;
    for (size_t i = 0; buffer->is_tuple && i < buffer->child_count; i++) {
        if (!execute_mark(pod, buffer->children[i]))
            return false;
    }
    return true;
}

static enum pod_code execute_distinct(const struct pod_batch *batch,
                                      size_t item)
{
    const struct pod_op *op = batch->items[item].op;

    batch->pod->dep_mark++;
    for (size_t i = 0; i < op->replica_count; i++) {
        for (size_t k = 0; k < op->replicas[i].output_count; k++) {
            if (execute_mark(batch->pod, op->replicas[i].output_buffers[k]))
                continue;
            pod_err_set(batch->err, POD_REASON_DUPLICATE_OUTPUT,
                        "the buffer is already an output");
            return execute_at_index(batch, item, i, "outputs", k);
        }
    }
    return POD_OK;
}

// Gives the automatic outputs of a launch their places.
static void execute_outputs(struct pod_batch *batch, size_t item, size_t launch,
                            size_t first, const struct pod_program_shape *shape)
{
    struct pod_replica *replica = &batch->items[item].op->replicas[launch];
    struct pod *pod = batch->pod;

    for (size_t i = 0; i < replica->output_count; i++) {
        struct pod_op *op = batch->ops[first + i];
        struct pod_buffer *buffer = op->buffer;
        replica->outputs[i] = op->number;
        replica->output_buffers[i] = buffer;
        op->buffer_number = op->number;
        op->core = buffer->core = replica->core;
        op->host = buffer->host = replica->host;
        op->target_load = replica->load;
        op->target_program = replica->load->program; // NULL: failed or lost
        buffer->shape_unknown = shape == NULL;
        if (shape == NULL)
            continue;
        buffer->has_shape = true;
        *buffer->shape = *pod_shape_leaf(&shape->result, i);
        buffer->bytes = (uint64_t)pod_shape_bytes(buffer->shape);
        op->bytes = buffer->bytes;
        op->waits_for_memory =
            !pod_memory_fits(pod->cores[buffer->core], buffer->bytes);
        pod_memory_reserve_locked(pod, buffer);
    }
}

// The replica that each launch is, from the assignment of cores.
static enum pod_code execute_assign(const struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    size_t count = request->execute.assignment_count;

    if (request->execute.assignment == NULL)
        return POD_OK;
    bool fits = count == op->replica_count;
    for (size_t i = 0; fits && i < count; i++) {
        uint32_t replica = UINT32_MAX;
        for (size_t k = 0; k < count; k++) {
            if (request->execute.assignment[k] == op->replicas[i].core)
                replica = (uint32_t)k;
        }
        fits = replica != UINT32_MAX;
        op->replicas[i].replica = replica;
    }
    if (fits)
        return POD_OK;
    pod_err_set(batch->err, POD_REASON_BAD_ASSIGNMENT,
                "the device assignment must name the core of each load once");
    return pod_batch_at(batch, item, "/device_assignment");
}

static enum pod_code execute_replicas(const struct pod_batch *batch,
                                      size_t item)
{
    const struct pod_op *op = batch->items[item].op;
    const struct pod_program *program = op->replicas[0].load->program;

    // A load that failed or is lost has none: the execution will be skipped.
    for (size_t i = 0; i < op->replica_count; i++) {
        if (op->replicas[i].load->program == NULL)
            return POD_OK;
    }
    if (program->replicas != op->replica_count) {
        pod_err_set(batch->err, POD_REASON_COUNT_MISMATCH,
                    "the program needs %u (one launch for each replica), not "
                    "%zu",
                    program->replicas, op->replica_count);
        return pod_batch_at(batch, item, "/launches");
    }
    for (size_t i = 0; i < op->replica_count; i++) {
        if (op->replicas[i].load->program != program) {
            pod_err_set(batch->err, POD_REASON_BAD_ASSIGNMENT,
                        "the loads are not of one program");
            return execute_at(batch, item, i, "/load");
        }
        for (size_t k = 0; k < i; k++) {
            if (op->replicas[k].core != op->replicas[i].core)
                continue;
            pod_err_set(batch->err, POD_REASON_BAD_ASSIGNMENT,
                        "two launches are on core %u", op->replicas[i].core);
            return execute_at(batch, item, i, "/load");
        }
    }
    return execute_assign(batch, item);
}

static void execute_place(struct pod_op *op)
{
    op->host = op->replicas[0].host;
    op->core = op->replica_count == 1 ? op->replicas[0].core : POD_NO_ID;
    for (size_t i = 0; i < op->replica_count; i++) {
        if (op->replicas[i].host != op->host)
            op->host = POD_NO_ID;
    }
    if (op->replica_count == 1)
        op->load_number = op->replicas[0].load_number;
}

static enum pod_code execute_named(const struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;

    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_launch *launch = &request->execute.launches[i];
        struct pod_replica *replica = &op->replicas[i];
        if (execute_load(batch, item, i) != POD_OK ||
            execute_buffers(batch, item, i, "inputs", launch->inputs,
                            launch->input_count, replica->inputs,
                            replica->input_buffers) != POD_OK)
            return batch->err->code;
        if (launch->auto_outputs)
            continue;
        if (execute_buffers(batch, item, i, "outputs", launch->outputs,
                            launch->output_count, replica->outputs,
                            replica->output_buffers) != POD_OK)
            return batch->err->code;
    }
    return execute_replicas(batch, item);
}

static size_t execute_inner(struct pod_buffer *const *buffers, size_t count)
{
    size_t inner = 0;

    for (size_t i = 0; i < count; i++)
        inner += buffers[i]->nodes - 1;
    return inner;
}

// All that is named is looked at under the lock, tuples with all they hold.
static enum pod_code execute_bound(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    const struct pod_op *op = batch->items[item].op;

    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_replica *replica = &op->replicas[i];
        batch->inner +=
            execute_inner(replica->input_buffers, replica->input_count);
        if (!request->execute.launches[i].auto_outputs)
            batch->inner +=
                execute_inner(replica->output_buffers, replica->output_count);
        if (batch->inner <= POD_MAX_INNER)
            continue;
        pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                    "the tuples hold more than %d buffers in all",
                    POD_MAX_INNER);
        return execute_at(batch, item, i, "/inputs");
    }
    return POD_OK;
}

static void execute_all_outputs(struct pod_batch *batch, size_t item)
{
    const struct pod_batch_item *self = &batch->items[item];
    size_t first = self->index - self->output_count;

    for (size_t i = 0; i < self->op->replica_count; i++) {
        const struct pod_launch *launch = &self->request->execute.launches[i];
        if (!launch->auto_outputs)
            continue;
        execute_outputs(batch, item, i, first,
                        pod_batch_shape_locked(batch, &launch->load));
        first += self->auto_counts[i];
    }
}

static void execute_undo_outputs(struct pod_batch *batch, size_t item)
{
    const struct pod_batch_item *self = &batch->items[item];

    for (size_t i = 1; i <= self->output_count; i++)
        pod_memory_release_locked(batch->pod,
                                  batch->ops[self->index - i]->buffer);
}

enum pod_code pod_check_execute_locked(struct pod_batch *batch, size_t item)
{
    struct pod_op *op = batch->items[item].op;

    if (execute_named(batch, item) != POD_OK ||
        execute_bound(batch, item) != POD_OK)
        return batch->err->code;
    execute_place(op);
    execute_all_outputs(batch, item);
    if (execute_distinct(batch, item) != POD_OK) {
        execute_undo_outputs(batch, item);
        return batch->err->code;
    }
    for (size_t i = 0; i < op->replica_count; i++) {
        char member[POD_ERR_POINTER_BYTES];
        if (pod_execute_check_locked(&op->replicas[i], batch->err) == POD_OK)
            continue;
        execute_undo_outputs(batch, item);
        memcpy(member, batch->err->pointer, sizeof(member));
        return execute_at(batch, item, i, member);
    }
    return POD_OK;
}
