// SPDX-License-Identifier: Apache-2.0
// The records of a batch: how many it needs, and their memory.
#include "core/pod/submit.h"

#include "core/base/mem.h"
#include "core/pod/op_new.h"
#include "core/pod/transfer.h"

// ----------------------------------------------------------------------- plan

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

// Counts the automatic outputs of a request as the state now says. False: the
// counts are not what they were.
static bool batch_plan_outputs(const struct pod_batch *batch,
                               struct pod_batch_item *item)
{
    const struct pod_request *request = item->request;
    bool same = true;

    item->output_count = 0;
    if (item->auto_counts == NULL)
        return true;
    for (size_t i = 0; i < request->execute.launch_count; i++) {
        const struct pod_launch *launch = &request->execute.launches[i];
        size_t count =
            launch->auto_outputs
                ? batch_auto_count(pod_batch_shape_locked(batch, &launch->load))
                : 0;
        same = same && item->auto_counts[i] == count;
        item->auto_counts[i] = count;
        item->output_count += count;
    }
    return same;
}

// The host of what a request of the batch will allocate, or POD_NO_ID.
static uint32_t batch_host_to_be(const struct pod_batch *batch, uint64_t item)
{
    const struct pod *pod = batch->pod;
    const struct pod_request *request =
        item < batch->count ? batch->items[item].request : NULL;

    if (request == NULL || request->kind != POD_KIND_ALLOCATE ||
        request->allocate.core >= pod->core_count ||
        pod->cores[request->allocate.core] == NULL)
        return POD_NO_ID;
    return pod->cores[request->allocate.core]->host;
}

// The host of a buffer for ever, POD_NO_ID: it is not known yet.
static uint32_t batch_host_of(const struct pod_batch *batch,
                              const struct pod_ref *ref)
{
    const struct pod_op *op = NULL;

    if (ref->kind == POD_REF_REQUEST)
        return batch_host_to_be(batch, ref->number);
    if (ref->kind == POD_REF_BUFFER)
        op = pod_table_get(&batch->pod->table, ref->number);
    return op != NULL && op->buffer != NULL ? op->buffer->host : POD_NO_ID;
}

// A copy needs a transfer only if it may move bytes between hosts.
static void batch_plan_copy(const struct pod_batch *batch,
                            struct pod_batch_item *item)
{
    const struct pod_request *request = item->request;

    if (request->kind != POD_KIND_COPY)
        return;
    uint32_t from = batch_host_of(batch, &request->copy.from);
    item->crosses =
        from == POD_NO_ID || from != batch_host_of(batch, &request->copy.to);
}

bool pod_batch_plan_locked(struct pod_batch *batch)
{
    size_t places = batch->graph != NULL ? 1 : 0;
    size_t index = places;
    bool same = true;

    for (size_t i = 0; i < batch->count; i++) {
        struct pod_batch_item *item = &batch->items[i];
        same = batch_plan_outputs(batch, item) && same;
        batch_plan_copy(batch, item);
        item->place = places + item->output_count;
        places = item->place + 1;
    }
    for (size_t i = 0; i < batch->turn_count; i++) {
        struct pod_batch_item *item = &batch->items[pod_batch_turn(batch, i)];
        if (item->left_out)
            continue;
        item->index = index + item->output_count;
        index = item->index + 1;
    }
    batch->op_count = index;
    return same;
}

// ----------------------------------------------------------------------- make

enum pod_code pod_batch_no_memory(const struct pod_batch *batch)
{
    return pod_err_set(batch->err, POD_REASON_OUT_OF_MEMORY,
                       "no memory for %zu operations", batch->op_count);
}

bool pod_batch_fault(struct pod_batch *batch)
{
    if (batch->graph == NULL || batch->err->reason == POD_REASON_OUT_OF_MEMORY)
        return false;
    pod_faults_add(batch->faults, batch->err);
    *batch->err = POD_ERR_NONE;
    return true;
}

static enum pod_code batch_init_item(struct pod_batch *batch, size_t index)
{
    struct pod_batch_item *item = &batch->items[index];

    if (pod_check_limits(batch, index) != POD_OK) {
        item->left_out = true;
        return pod_batch_fault(batch) ? POD_OK : batch->err->code;
    }
    if (!batch_has_auto(item->request))
        return POD_OK;
    item->auto_counts = pod_calloc(item->request->execute.launch_count,
                                   sizeof(*item->auto_counts));
    return item->auto_counts != NULL ? POD_OK : pod_batch_no_memory(batch);
}

enum pod_code pod_batch_init(struct pod_batch *batch,
                             const struct pod_request *requests)
{
    const struct pod_graph_request *graph = batch->graph;
    enum pod_code code = POD_OK;

    if (batch->count == 0 || batch->count > POD_MAX_REQUESTS)
        return pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                           "a submission has 1 to %d requests",
                           POD_MAX_REQUESTS);
    batch->turn_count = batch->count;
    batch->items = pod_calloc(batch->count, sizeof(*batch->items));
    if (batch->items == NULL)
        return pod_batch_no_memory(batch);
    for (size_t i = 0; i < batch->count && code == POD_OK; i++) {
        struct pod_batch_item *item = &batch->items[i];
        item->request = graph != NULL ? graph->ops[i] : &requests[i];
        item->left_out =
            graph != NULL && graph->refused != NULL && graph->refused[i];
        batch->compiles |= item->request->kind == POD_KIND_COMPILE;
        batch->resets |= item->request->kind == POD_KIND_RESET;
        if (!item->left_out)
            code = batch_init_item(batch, i);
    }
    return code;
}

// All that comes of one submission comes from one request.
static bool batch_place(struct pod_batch *batch, size_t index,
                        struct pod_op *owned_op)
{
    const struct pod_request *first =
        batch->graph != NULL ? batch->graph->self : batch->items[0].request;

    batch->ops[index] = owned_op;
    if (owned_op != NULL)
        owned_op->trace = pod_trace_ref(first->trace);
    return owned_op != NULL;
}

static bool batch_make_item(struct pod_batch *batch,
                            struct pod_work_maker *maker,
                            struct pod_batch_item *item)
{
    for (size_t i = item->output_count; i > 0; i--) {
        if (!batch_place(batch, item->index - i,
                         pod_op_new_output(batch->pod, maker)))
            return false;
    }
    item->op = pod_op_new(batch->pod, maker, item->request, item->auto_counts);
    if (!batch_place(batch, item->index, item->op) || !item->crosses)
        return item->op != NULL;
    item->op->transfer = pod_transfer_new(batch->pod, item->op);
    return item->op->transfer != NULL;
}

// The operation of the graph itself, which comes first.
static bool batch_make_graph(struct pod_batch *batch,
                             struct pod_work_maker *maker)
{
    if (batch->graph == NULL)
        return true;
    batch->graph_op = pod_op_new(batch->pod, maker, batch->graph->self, NULL);
    return batch_place(batch, 0, batch->graph_op);
}

static bool batch_make_all(struct pod_batch *batch,
                           struct pod_work_maker *maker)
{
    size_t lanes = 0;

    if (!batch_make_graph(batch, maker))
        return false;
    for (size_t i = 0; i < batch->turn_count; i++) {
        struct pod_batch_item *item = &batch->items[pod_batch_turn(batch, i)];
        if (item->left_out)
            continue;
        if (!batch_make_item(batch, maker, item))
            return false;
        lanes += item->op->replica_count;
    }
    batch->lanes = pod_calloc(lanes, sizeof(*batch->lanes));
    return batch->lanes != NULL;
}

enum pod_code pod_batch_make(struct pod_batch *batch)
{
    struct pod_work_maker maker = {.expected = batch->op_count};

    batch->ops = pod_calloc(batch->op_count, sizeof(struct pod_op *));
    batch->edge_starts =
        pod_calloc(batch->op_count + 1, sizeof(*batch->edge_starts));
    bool made = batch->ops != NULL && batch->edge_starts != NULL &&
                batch_make_all(batch, &maker);
    pod_work_maker_fini(&maker);
    return made ? POD_OK : pod_batch_no_memory(batch);
}

void pod_batch_drop(struct pod_batch *batch)
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

void pod_batch_fini(struct pod_batch *batch)
{
    for (size_t i = 0; batch->items != NULL && i < batch->count; i++)
        pod_free(batch->items[i].auto_counts);
    pod_free(batch->items);
    pod_free(batch->turns);
    pod_free(batch->ops);
    pod_free(batch->edge_starts);
    pod_free(batch->lanes);
}
