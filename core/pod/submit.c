// SPDX-License-Identifier: Apache-2.0
// Submission: a batch of requests is admitted whole or not at all.
//
//   plan    under the lock: how many buffers do executions allocate themselves
//   make    without it: records, with room for what they need
//   check   under the lock, request by request: refuse, or mark and find edges
//   reserve the table's and the scheduler's memory
//   admit   cannot fail
//
// A fault on the way takes the marks back, newest first, and frees the records.
#include "core/pod/submit.h"

#include <string.h>

#include "core/base/mem.h"

// ---------------------------------------------------------------- plan and
// make

static size_t batch_auto_count(const struct pod_program_shape *shape)
{
    return shape == NULL ? 1 : pod_shape_leaves(&shape->result);
}

static bool batch_has_auto(const struct pod_request *request)
{
    bool found = false;

    if (request->kind != POD_KIND_EXECUTE)
        return false;
    for (size_t i = 0; i < request->execute.launch_count; i++)
        found = found || request->execute.launches[i].auto_outputs;
    return found;
}

// Counts the automatic outputs as the state now says. False: the counts are
// not what they were (the caller asked whether they still hold).
static bool batch_plan_locked(struct pod_batch *batch)
{
    bool same = true;

    batch->op_count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct pod_batch_item *item = &batch->items[i];
        size_t outputs = 0;
        for (size_t k = 0; item->auto_counts != NULL &&
                           k < item->request->execute.launch_count;
             k++) {
            const struct pod_launch *launch =
                &item->request->execute.launches[k];
            size_t count = launch->auto_outputs
                               ? batch_auto_count(pod_batch_shape_locked(
                                     batch, i, &launch->load))
                               : 0;
            same = same && item->auto_counts[k] == count;
            item->auto_counts[k] = count;
            outputs += count;
        }
        item->output_count = outputs;
        item->index = batch->op_count + outputs;
        batch->op_count += outputs + 1;
    }
    return same;
}

static enum pod_code batch_no_memory(const struct pod_batch *batch)
{
    return pod_err_set(batch->err, POD_REASON_OUT_OF_MEMORY,
                       "no memory for %zu operations", batch->op_count);
}

static enum pod_code batch_init(struct pod_batch *batch,
                                const struct pod_request *requests)
{
    if (batch->count == 0 || batch->count > POD_MAX_REQUESTS)
        return pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                           "a submission has 1 to %d requests",
                           POD_MAX_REQUESTS);
    batch->items = pod_calloc(batch->count, sizeof(*batch->items));
    if (batch->items == NULL)
        return batch_no_memory(batch);
    for (size_t i = 0; i < batch->count; i++) {
        struct pod_batch_item *item = &batch->items[i];
        item->request = &requests[i];
        if (pod_check_limits(batch, i) != POD_OK)
            return batch->err->code;
        if (!batch_has_auto(item->request))
            continue;
        item->auto_counts = pod_calloc(item->request->execute.launch_count,
                                       sizeof(*item->auto_counts));
        if (item->auto_counts == NULL)
            return batch_no_memory(batch);
    }
    return POD_OK;
}

static bool batch_make_item(struct pod_batch *batch,
                            struct pod_batch_item *item)
{
    struct pod_op **place = &batch->ops[item->index - item->output_count];

    for (size_t i = 0; i < item->output_count; i++) {
        place[i] = pod_op_new_output(batch->pod);
        if (place[i] == NULL)
            return false;
    }
    item->op = pod_op_new(batch->pod, item->request, item->auto_counts);
    batch->ops[item->index] = item->op;
    return item->op != NULL;
}

static enum pod_code batch_make(struct pod_batch *batch)
{
    size_t lanes = 0;

    batch->ops = pod_calloc(batch->op_count, sizeof(struct pod_op *));
    batch->edge_starts =
        pod_calloc(batch->op_count + 1, sizeof(*batch->edge_starts));
    if (batch->ops == NULL || batch->edge_starts == NULL)
        return batch_no_memory(batch);
    for (size_t i = 0; i < batch->count; i++) {
        if (!batch_make_item(batch, &batch->items[i]))
            return batch_no_memory(batch);
        lanes += batch->items[i].op->replica_count;
    }
    batch->lanes = pod_calloc(lanes, sizeof(*batch->lanes));
    return batch->lanes == NULL ? batch_no_memory(batch) : POD_OK;
}

static void batch_drop(struct pod_batch *batch)
{
    for (size_t i = 0; batch->ops != NULL && i < batch->op_count; i++)
        pod_op_free(batch->pod, batch->ops[i]);
    pod_free(batch->ops);
    pod_free(batch->edge_starts);
    pod_free(batch->lanes);
    batch->ops = NULL;
    batch->edge_starts = NULL;
    batch->lanes = NULL;
    batch->lane_count = 0;
}

static void batch_fini(struct pod_batch *batch)
{
    for (size_t i = 0; batch->items != NULL && i < batch->count; i++)
        pod_free(batch->items[i].auto_counts);
    pod_free(batch->items);
    pod_free(batch->ops);
    pod_free(batch->edge_starts);
    pod_free(batch->lanes);
}

// ---------------------------------------------------------------------- check

// Everything that does not depend on what the request does.
static void batch_stamp(struct pod_batch *batch, struct pod_op *op,
                        const struct pod_batch_item *item)
{
    op->created_ns = batch->now_ns;
    op->created_wall_ns = batch->wall_ns;
    if (op->auto_output) {
        op->priority = item->op->priority;
        op->deadline_ns = item->op->deadline_ns;
    }
    if (op->buffer != NULL) {
        op->buffer->last_writer = op;
        op->buffer->last_writer_number = op->number;
    }
    if (op->transfer != NULL && item->request->kind == POD_KIND_READ)
        op->transfer->stream = item->request->read.stream;
}

static void batch_undo_item(struct pod_batch *batch,
                            struct pod_batch_item *item)
{
    pod_hazard_undo_locked(item->op);
    pod_check_undo_locked(batch->pod, item->op);
    for (size_t i = 1; i <= item->output_count; i++) {
        struct pod_op *output = batch->ops[item->index - i];
        pod_hazard_undo_locked(output);
        pod_check_undo_locked(batch->pod, output);
    }
    // The stream stays the caller's when the request is refused.
    if (item->op->transfer != NULL)
        item->op->transfer->stream = NULL;
}

static void batch_undo_locked(struct pod_batch *batch)
{
    while (batch->checked > 0)
        batch_undo_item(batch, &batch->items[--batch->checked]);
    batch->pod->edges.count = 0;
}

static enum pod_code batch_check_item(struct pod_batch *batch, size_t index)
{
    struct pod_batch_item *item = &batch->items[index];
    struct pod_edges *edges = &batch->pod->edges;

    for (size_t i = item->index - item->output_count; i <= item->index; i++)
        batch_stamp(batch, batch->ops[i], item);
    if (pod_check_request_locked(batch, index) != POD_OK)
        return batch->err->code;
    batch->checked++;
    for (size_t i = item->index - item->output_count; i <= item->index; i++) {
        batch->edge_starts[i] = edges->count;
        if (!pod_batch_edges_locked(batch, batch->ops[i], item))
            return batch->err->code != POD_OK ? batch->err->code
                                              : batch_no_memory(batch);
    }
    for (size_t i = 0; i < item->op->replica_count; i++)
        batch->lanes[batch->lane_count++] =
            batch->pod->cores[item->op->replicas[i].core]->lane;
    return POD_OK;
}

// The numbers of dependencies are kept for those who ask why it waits.
static bool batch_keep_deps(struct pod_batch *batch)
{
    const struct pod_edge *edges = batch->pod->edges.items;

    for (size_t i = 0; i < batch->op_count; i++) {
        size_t first = batch->edge_starts[i];
        size_t count = batch->edge_starts[i + 1] - first;
        if (count == 0)
            continue;
        if (count > UINT32_MAX)
            return false;
        batch->ops[i]->deps = pod_calloc(count, sizeof(uint64_t));
        if (batch->ops[i]->deps == NULL)
            return false;
        batch->ops[i]->dep_count = (uint32_t)count;
        for (size_t k = 0; k < count; k++)
            batch->ops[i]->deps[k] = edges[first + k].op->number;
    }
    return true;
}

// The COMPILE of the same submission that a LOAD loads, or NULL.
static struct pod_op *batch_compile_of(const struct pod_batch *batch,
                                       const struct pod_batch_item *item)
{
    const struct pod_ref *program = &item->request->load.program;

    if (item->request->kind != POD_KIND_LOAD ||
        program->kind != POD_REF_REQUEST)
        return NULL;
    return batch->items[program->number].op;
}

// A COMPILE names the loads that were submitted with it.
static bool batch_keep_loads(struct pod_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct pod_op *compile = batch_compile_of(batch, &batch->items[i]);
        if (compile != NULL)
            compile->load_number_count++;
    }
    for (size_t i = 0; i < batch->count; i++) {
        struct pod_op *op = batch->items[i].op;
        if (op->load_number_count == 0)
            continue;
        op->load_numbers = pod_calloc(op->load_number_count, sizeof(uint64_t));
        if (op->load_numbers == NULL)
            return false;
        op->load_number_count = 0;
    }
    for (size_t i = 0; i < batch->count; i++) {
        struct pod_op *compile = batch_compile_of(batch, &batch->items[i]);
        if (compile != NULL)
            compile->load_numbers[compile->load_number_count++] =
                batch->items[i].op->number;
    }
    return true;
}

static enum pod_code batch_reserve(struct pod_batch *batch)
{
    struct pod *pod = batch->pod;

    if (!batch_keep_deps(batch) || !batch_keep_loads(batch) ||
        !pod_table_reserve(&pod->table, batch->first, batch->op_count))
        return batch_no_memory(batch);
    return pod_sched_reserve(pod->sched, batch->op_count, pod->edges.count,
                             batch->lanes, batch->lane_count, batch->err);
}

static enum pod_code batch_check_locked(struct pod_batch *batch)
{
    struct pod *pod = batch->pod;

    if (pod->phase != POD_PHASE_RUNNING)
        return pod_err_set(batch->err, POD_REASON_DRAINING,
                           "the pod takes no new operations");
    batch->first = pod->last_number + 1;
    batch->now_ns = pod_now(pod);
    batch->wall_ns = pod_clock_wall(&pod->options.clock);
    pod->edges.count = 0;
    for (size_t i = 0; i < batch->op_count; i++)
        batch->ops[i]->number = batch->first + i;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch_check_item(batch, i) != POD_OK)
            return batch->err->code;
    }
    batch->edge_starts[batch->op_count] = pod->edges.count;
    return batch_reserve(batch);
}

// Streams that the pod now answers for.
static void batch_admit_locked(struct pod_batch *batch, struct pod_after *after)
{
    struct pod *pod = batch->pod;

    pod_admit_locked(pod, batch->ops, batch->op_count, batch->edge_starts,
                     after);
    for (size_t i = 0; i < batch->op_count; i++) {
        if (batch->ops[i]->kind == POD_KIND_RESET)
            pod_reset_all_locked(pod, batch->ops[i], after);
    }
}

// One attempt. *out_again: the plan did not hold, nothing has changed.
static enum pod_code batch_try(struct pod_batch *batch, uint64_t *out_numbers,
                               bool *out_again)
{
    struct pod_after after;
    enum pod_code code = batch_make(batch);

    *out_again = false;
    if (code != POD_OK)
        return code;
    pod_enter(batch->pod, &after);
    batch->checked = 0;
    if (!batch_plan_locked(batch))
        *out_again = true;
    else
        code = batch_check_locked(batch);
    if (code == POD_OK && !*out_again) {
        for (size_t i = 0; i < batch->count; i++)
            out_numbers[i] = batch->items[i].op->number;
        batch_admit_locked(batch, &after);
    } else {
        batch_undo_locked(batch);
    }
    pod_leave(batch->pod, &after);
    return code;
}

enum pod_code pod_submit(struct pod *pod, const struct pod_request *requests,
                         size_t count, uint64_t *out_numbers,
                         uint64_t *out_existing, struct pod_err *err)
{
    struct pod_err scratch;
    struct pod_batch batch = {.pod = pod,
                              .count = count,
                              .out_existing = out_existing,
                              .err = err == NULL ? &scratch : err};
    enum pod_code code;
    bool again = true;

    *batch.err = POD_ERR_NONE;
    code = batch_init(&batch, requests);
    if (code == POD_OK) {
        pod_mutex_lock(&pod->lock);
        (void)batch_plan_locked(&batch);
        pod_mutex_unlock(&pod->lock);
    }
    while (code == POD_OK && again) {
        // The records were made for op_count as it was then.
        size_t made = batch.op_count;
        code = batch_try(&batch, out_numbers, &again);
        if (code == POD_OK && !again)
            break;
        size_t planned = batch.op_count;
        batch.op_count = made;
        batch_drop(&batch);
        batch.op_count = planned;
    }
    batch_fini(&batch);
    return code;
}
