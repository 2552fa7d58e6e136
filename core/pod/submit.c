// SPDX-License-Identifier: Apache-2.0
// Submission: a batch of requests is admitted whole or not at all.
//
//   plan    under the lock: how many buffers do executions allocate themselves
//   make    without it: records, with room for what they need
//   check   under the lock, turn by turn: refuse, or mark and find edges
//   reserve the table's and the scheduler's memory
//   admit   cannot fail
//
// A fault on the way takes the marks back, newest first, and frees the records.
// A graph goes on after a fault, so that all of them are found.
#include "core/pod/submit.h"

#include "core/base/mem.h"
#include "core/pod/cancel.h"
#include "core/pod/effect.h"
#include "core/pod/hazard.h"
#include "core/pod/transfer.h"

// ---------------------------------------------------------------------- check

// Everything that does not depend on what the request does.
static void batch_stamp(struct pod_batch *batch, struct pod_op *op,
                        const struct pod_batch_item *item, uint64_t number)
{
    op->number = number;
    op->created_ns = batch->now_ns;
    op->created_wall_ns = batch->wall_ns;
    if (batch->graph != NULL)
        pod_graph_join(batch->graph_op, op);
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
    item->marked = false;
    item->passed = false;
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
    for (size_t i = batch->turn_count; i > 0; i--) {
        struct pod_batch_item *item =
            &batch->items[pod_batch_turn(batch, i - 1)];
        if (item->marked)
            batch_undo_item(batch, item);
    }
    batch->pod->edges.count = 0;
}

// Keeps the numbers of all dependencies, to show why it waits, and behind them
// once more the numbers of those that the host itself is to wait for.
static bool batch_keep_deps(struct pod_op *op, const struct pod_edges *edges,
                            size_t first)
{
    size_t count = edges->count - first;
    size_t ahead = 0;
    size_t waits = 0;

    if (count == 0)
        return true;
    if (count > UINT32_MAX)
        return false;
    const struct pod_edge *items = &edges->items[first];
    for (size_t i = 0; i < count; i++) {
        ahead += items[i].ahead;
        waits += items[i].ahead && items[i].carries;
    }
    op->deps = pod_calloc(count + ahead, sizeof(uint64_t));
    if (op->deps == NULL)
        return false;
    op->work->waits = op->deps + count;
    op->work->orders = op->work->waits + waits;
    op->dep_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        uint64_t number = items[i].op->number;
        op->deps[i] = number;
        if (items[i].ahead && items[i].carries)
            op->work->waits[op->work->wait_count++] = number;
        else if (items[i].ahead)
            op->work->orders[op->work->order_count++] = number;
    }
    return true;
}

static enum pod_code batch_check_item(struct pod_batch *batch, size_t index)
{
    struct pod_batch_item *item = &batch->items[index];
    struct pod_edges *edges = &batch->pod->edges;
    size_t start = item->index - item->output_count;

    for (size_t i = start; i <= item->index; i++)
        batch_stamp(batch, batch->ops[i], item,
                    batch->first + item->place - (item->index - i));
    if (pod_check_request_locked(batch, index) != POD_OK)
        return batch->err->code;
    item->marked = true;
    for (size_t i = start; i <= item->index; i++) {
        batch->edge_starts[i] = edges->count;
        if (!pod_batch_edges_locked(batch, batch->ops[i], item))
            return batch->err->code != POD_OK ? batch->err->code
                                              : pod_batch_no_memory(batch);
        if (!batch_keep_deps(batch->ops[i], edges, batch->edge_starts[i]))
            return pod_batch_no_memory(batch);
    }
    for (size_t i = 0; i < item->op->replica_count; i++)
        batch->lanes[batch->lane_count++] =
            batch->pod->cores[item->op->replicas[i].core]->lane;
    item->passed = true;
    return POD_OK;
}

static enum pod_code batch_check_items(struct pod_batch *batch)
{
    for (size_t i = 0; i < batch->turn_count; i++) {
        size_t index = pod_batch_turn(batch, i);
        pod_op_expect(batch->ops, batch->op_count, batch->items[index].index);
        if (batch->items[index].left_out ||
            batch_check_item(batch, index) == POD_OK)
            continue;
        if (batch->items[index].shadowed)
            *batch->err = POD_ERR_NONE; // the fault is another's
        else if (!pod_batch_fault(batch))
            return batch->err->code;
    }
    return POD_OK;
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
    if (!batch->compiles)
        return true;
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

// The turns of the members, for cancelling them.
static bool batch_keep_turns(const struct pod_batch *batch)
{
    struct pod_graph *members;

    if (batch->graph == NULL)
        return true;
    members = batch->graph_op->members;
    members->cancel_on_error = batch->graph->cancel_on_error;
    members->first = batch->first + 1;
    members->last = batch->first + batch->op_count - 1;
    if (batch->turns == NULL)
        return true;
    members->turns = pod_calloc(batch->op_count, sizeof(*members->turns));
    for (size_t i = 1; members->turns != NULL && i < batch->op_count; i++)
        members->turns[i - 1] =
            (uint32_t)(batch->ops[i]->number - members->first);
    return members->turns != NULL;
}

static enum pod_code batch_reserve(struct pod_batch *batch)
{
    struct pod *pod = batch->pod;

    if (!batch_keep_loads(batch) || !batch_keep_turns(batch) ||
        !pod_table_reserve(&pod->table, batch->first, batch->op_count))
        return pod_batch_no_memory(batch);
    return pod_sched_reserve(pod->sched, batch->op_count, pod->edges.count,
                             batch->lanes, batch->lane_count, batch->err);
}

// ---------------------------------------------------------------------- graphs

void pod_faults_add(struct pod_faults *faults, const struct pod_err *fault)
{
    faults->total++;
    if (faults->count < faults->capacity)
        faults->items[faults->count++] = *fault;
}

static bool batch_only_validates(const struct pod_batch *batch)
{
    return batch->graph != NULL && batch->graph->validate_only;
}

// The error of a graph with faults: the first one if all may go away.
static enum pod_code batch_faulty(const struct pod_batch *batch)
{
    const struct pod_faults *faults = batch->faults;
    bool retryable = faults->count > 0 && faults->count == faults->total;

    for (size_t i = 0; i < faults->count; i++)
        retryable = retryable && pod_reason_retryable(faults->items[i].reason);
    if (retryable) {
        *batch->err = faults->items[0];
        return batch->err->code;
    }
    return pod_err_set(batch->err, POD_REASON_INVALID_GRAPH,
                       "the graph has %llu %s and was not admitted",
                       (unsigned long long)faults->total,
                       faults->total == 1 ? "fault" : "faults");
}

// What needs no lock of the graph as a whole.
static enum pod_code batch_check_graph(const struct pod_batch *batch)
{
    const struct pod_graph_request *graph = batch->graph;

    if (graph->count == 0 || graph->count > POD_GRAPH_MAX) {
        pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                    "a graph has 1 to %d operations", POD_GRAPH_MAX);
        pod_err_at(batch->err, "/ops");
        return batch->err->code;
    }
    if (graph->self->after_count <= POD_GRAPH_AFTER_MAX)
        return POD_OK;
    pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                "a graph may wait for at most %d others", POD_GRAPH_AFTER_MAX);
    pod_err_at(batch->err, "/after");
    return batch->err->code;
}

// The operation of the graph, and what all of its operations wait for.
static void batch_begin_graph(struct pod_batch *batch)
{
    const struct pod_request *self = batch->graph->self;
    struct pod_op *op = batch->graph_op;

    op->number = batch->first;
    op->created_ns = batch->now_ns;
    op->created_wall_ns = batch->wall_ns;
    batch->after_count = 0;
    for (size_t i = 0; i < self->after_count; i++) {
        struct pod_op **dep = &batch->after[batch->after_count];
        if (pod_batch_find_after_locked(batch, &self->after[i], dep) ==
            POD_OK) {
            batch->after_count++;
            continue;
        }
        pod_err_at(batch->err, "/after/%zu", i);
        (void)pod_batch_fault(batch);
    }
}

// -------------------------------------------------------------------- attempts

static enum pod_code batch_check_locked(struct pod_batch *batch)
{
    struct pod *pod = batch->pod;

    if (pod->phase != POD_PHASE_RUNNING)
        return pod_err_set(batch->err, POD_REASON_DRAINING,
                           "the pod takes no new operations");
    batch->first = pod->last_number + 1;
    batch->now_ns = pod->now_ns;
    batch->wall_ns = pod_clock_wall(&pod->options.clock);
    pod->edges.count = 0;
    if (batch->graph != NULL)
        batch_begin_graph(batch);
    if (batch_check_items(batch) != POD_OK)
        return batch->err->code;
    if (batch->faults != NULL && batch->faults->total > 0)
        return batch_faulty(batch);
    batch->edge_starts[batch->op_count] = pod->edges.count;
    return batch_reserve(batch);
}

static void batch_admit_locked(struct pod_batch *batch, struct pod_after *after)
{
    struct pod *pod = batch->pod;

    pod_admit_locked(pod, batch->ops, batch->op_count, batch->edge_starts,
                     after);
    for (size_t i = 0; i < batch->op_count && batch->resets; i++) {
        if (batch->ops[i]->kind == POD_KIND_RESET)
            pod_reset_all_locked(pod, batch->ops[i], after);
    }
    // It runs while its members wait and run.
    if (batch->graph != NULL)
        pod_step_locked(pod, batch->graph_op, POD_SCHED_STARTED,
                        POD_SCHED_RUNNING, false, after);
}

// One attempt. *out_again: the plan did not hold, nothing has changed.
static enum pod_code batch_try(struct pod_batch *batch, uint64_t *out_numbers,
                               bool *out_again)
{
    struct pod_after after;
    enum pod_code code = pod_batch_make(batch);

    *out_again = false;
    if (code != POD_OK)
        return code;
    pod_enter(batch->pod, &after);
    if (!pod_batch_plan_locked(batch))
        *out_again = true;
    else
        code = batch_check_locked(batch);
    if (code == POD_OK && !*out_again && !batch_only_validates(batch)) {
        batch->admitted = true;
        for (size_t i = 0; i < batch->count; i++)
            out_numbers[i] = batch->first + batch->items[i].place;
        batch_admit_locked(batch, &after);
    } else {
        batch_undo_locked(batch);
    }
    after.later = batch->later;
    after.makes = true;
    pod_leave(batch->pod, &after);
    return code;
}

// Tries until the plan holds. *batch->err is set.
static enum pod_code batch_run(struct pod_batch *batch, uint64_t *out_numbers)
{
    enum pod_code code = POD_OK;
    bool again = true;

    pod_mutex_lock(&batch->pod->lock);
    (void)pod_batch_plan_locked(batch);
    pod_mutex_unlock(&batch->pod->lock);
    while (code == POD_OK && again) {
        // The records were made for op_count as it was then.
        size_t made = batch->op_count;
        code = batch_try(batch, out_numbers, &again);
        if (batch->admitted)
            break;
        size_t planned = batch->op_count;
        batch->op_count = made;
        pod_batch_drop(batch);
        batch->op_count = planned;
    }
    return code;
}

static enum pod_code batch_submit(struct pod_batch *batch,
                                  const struct pod_request *requests,
                                  uint64_t *out_numbers)
{
    struct pod_err scratch;

    if (batch->err == NULL)
        batch->err = &scratch;
    *batch->err = POD_ERR_NONE;
    enum pod_code code = pod_batch_init(batch, requests);
    if (code == POD_OK)
        code = batch_run(batch, out_numbers);
    pod_batch_fini(batch);
    return code;
}

enum pod_code pod_submit(struct pod *pod, const struct pod_request *requests,
                         size_t count, uint64_t *out_numbers,
                         uint64_t *out_existing, struct pod_err *err)
{
    struct pod_batch batch = {
        .pod = pod, .count = count, .out_existing = out_existing, .err = err};

    return batch_submit(&batch, requests, out_numbers);
}

enum pod_code pod_submit_later(struct pod *pod,
                               const struct pod_request *requests, size_t count,
                               uint64_t *out_numbers, uint64_t *out_existing,
                               struct pod_err *err)
{
    struct pod_batch batch = {.pod = pod,
                              .count = count,
                              .later = true,
                              .out_existing = out_existing,
                              .err = err};

    return batch_submit(&batch, requests, out_numbers);
}

enum pod_code pod_submit_graph(struct pod *pod,
                               const struct pod_graph_request *graph,
                               uint64_t *out_graph, uint64_t *out_numbers,
                               struct pod_faults *faults, struct pod_err *err)
{
    struct pod_batch batch = {.pod = pod,
                              .count = graph->count,
                              .graph = graph,
                              .faults = faults,
                              .err = err};

    *err = POD_ERR_NONE;
    enum pod_code code = batch_check_graph(&batch);
    if (code == POD_OK)
        code = pod_batch_init(&batch, NULL);
    if (code == POD_OK)
        code = pod_graph_order(graph, &batch.turns, &batch.turn_count, faults,
                               err);
    if (code == POD_OK)
        code = batch_run(&batch, out_numbers);
    if (batch.admitted)
        *out_graph = batch.first;
    pod_batch_fini(&batch);
    return code;
}
