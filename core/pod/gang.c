// SPDX-License-Identifier: Apache-2.0
// Executions: one launch, or a gang of replicas that start together. All calls
// of a gang enter their hosts' outboxes under one lock, so that any two gangs
// stand in one order on all hosts.
#include "core/pod/gang.h"

#include "core/base/mem.h"
#include "core/hlo/launch.h"
#include "core/pod/complete.h"
#include "core/pod/effect.h"
#include "core/pod/failure.h"
#include "core/pod/hazard.h"
#include "core/pod/launch.h"
#include "core/pod/outbox.h"

// ---------------------------------------------------------------------- checks

// A shape is known of every buffer that is looked at, or it can be checked
// later.
static bool execute_known(const struct pod_buffer *buffer)
{
    bool known = !buffer->shape_unknown;

    for (size_t i = 0; known && buffer->is_tuple && i < buffer->child_count;
         i++)
        known = execute_known(buffer->children[i]);
    return known;
}

static size_t execute_nodes(struct pod_buffer *const *buffers, size_t count)
{
    size_t nodes = 0;

    for (size_t i = 0; i < count; i++)
        nodes += buffers[i]->nodes;
    return nodes;
}

// Describes a buffer; the children of tuples take places from *rest on.
static void execute_value(const struct pod_buffer *buffer,
                          struct pod_launch_value *value,
                          struct pod_launch_value **rest)
{
    struct pod_launch_value *children = *rest;

    *value = (struct pod_launch_value){
        .shape = buffer->has_shape ? buffer->shape : NULL,
        .bytes = buffer->bytes,
        .is_tuple = buffer->is_tuple,
    };
    if (!buffer->is_tuple)
        return;
    value->children = children;
    value->child_count = buffer->child_count;
    *rest += buffer->child_count;
    for (size_t i = 0; i < buffer->child_count; i++)
        execute_value(buffer->children[i], &children[i], rest);
}

// A result that was not known at submission goes to a flat tuple of its leaves:
// for the program these are the outputs, however the result is nested.
static const struct pod_buffer *
execute_leaves(const struct pod_replica *replica)
{
    const struct pod_buffer *only =
        replica->output_count == 1 ? replica->output_buffers[0] : NULL;

    if (only == NULL || !only->is_tuple || !only->handle.maker->auto_output)
        return NULL;
    return only;
}

enum pod_code pod_execute_check_locked(const struct pod_replica *replica,
                                       struct pod_err *err)
{
    const struct pod_program *program = replica->load->program;
    const struct pod_buffer *leaves = execute_leaves(replica);
    struct pod_buffer *const *out =
        leaves != NULL ? leaves->children : replica->output_buffers;
    size_t outputs =
        leaves != NULL ? leaves->child_count : replica->output_count;
    size_t inputs = replica->input_count;
    bool known = program != NULL && program->has_shape;

    for (size_t i = 0; known && i < inputs; i++)
        known = execute_known(replica->input_buffers[i]);
    for (size_t i = 0; known && i < outputs; i++)
        known = execute_known(out[i]);
    if (!known)
        return POD_OK;
    size_t nodes = execute_nodes(replica->input_buffers, inputs) +
                   execute_nodes(out, outputs);
    struct pod_launch_value *values = pod_calloc(nodes, sizeof(*values));
    if (values == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory to check %zu buffers", nodes);
    struct pod_launch_value *rest = values + inputs + outputs;
    for (size_t i = 0; i < inputs; i++)
        execute_value(replica->input_buffers[i], &values[i], &rest);
    for (size_t i = 0; i < outputs; i++)
        execute_value(out[i], &values[inputs + i], &rest);
    enum pod_code code = pod_check_launch(&program->shape, values, inputs,
                                          values + inputs, outputs, err);
    pod_free(values);
    return code;
}

// --------------------------------------------------------------------- launch

static void execute_driver_launch(const struct pod_replica *replica,
                                  struct pod_driver_launch *launch)
{
    *launch = (struct pod_driver_launch){
        .load = replica->load_number,
        .inputs = replica->inputs,
        .input_count = replica->input_count,
        .outputs = replica->outputs,
        .output_count = replica->output_count,
        .replica = replica->replica,
    };
    const struct pod_buffer *leaves = execute_leaves(replica);
    if (leaves != NULL) {
        launch->outputs = leaves->child_numbers;
        launch->output_count = leaves->child_count;
    }
}

// Groups the replicas by host, hosts in the order of their first replica.
static void execute_group(struct pod *pod, struct pod_op *op)
{
    struct pod_work *work = op->work;
    uint32_t placed = 0;

    work->call_count = 0;
    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_replica *first = &op->replicas[i];
        bool seen = false;
        work->replica_hosts[first->replica] = first->host;
        work->replica_cores[first->replica] = first->core;
        work->replica_worker_cores[first->replica] =
            pod->cores[first->core]->worker_core;
        for (size_t k = 0; k < i; k++)
            seen = seen || op->replicas[k].host == first->host;
        if (seen)
            continue;
        work->calls[work->call_count].index = (uint32_t)work->call_count;
        pod_call_init(&work->calls[work->call_count], op,
                      pod->hosts[first->host], POD_CALL_EXECUTE, op->number);
        work->group_starts[work->call_count++] = placed;
        for (size_t k = i; k < op->replica_count; k++) {
            if (op->replicas[k].host == first->host)
                execute_driver_launch(&op->replicas[k],
                                      &work->driver_launches[placed++]);
        }
    }
    work->group_starts[work->call_count] = placed;
}

static const struct pod_handle *
execute_missing_buffer(struct pod_buffer *const *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!pod_ahead_there(&buffers[i]->handle))
            return &buffers[i]->handle;
    }
    return NULL;
}

// The first thing a replica uses that does not exist, or NULL.
static const struct pod_handle *
execute_missing(const struct pod_replica *replica)
{
    const struct pod_handle *missing = NULL;

    if (!pod_ahead_there(&replica->load->handle))
        return &replica->load->handle;
    missing =
        execute_missing_buffer(replica->input_buffers, replica->input_count);
    if (missing == NULL)
        missing = execute_missing_buffer(replica->output_buffers,
                                         replica->output_count);
    return missing;
}

static bool execute_ready(struct pod *pod, struct pod_op *op)
{
    struct pod_err err;

    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_replica *replica = &op->replicas[i];
        if (!pod_host_up(pod->hosts[replica->host])) {
            pod_launch_no_host_locked(pod, op, pod->hosts[replica->host]);
            return false;
        }
        const struct pod_handle *missing = execute_missing(replica);
        if (missing != NULL) {
            op->outcome = POD_SCHED_FAILED;
            pod_fail_missing_locked(pod, op, missing);
            pod_done_local_locked(pod, op);
            return false;
        }
        if (pod_execute_check_locked(replica, &err) != POD_OK) {
            op->outcome = POD_SCHED_FAILED;
            pod_fail_err_locked(pod, op, &err);
            pod_done_local_locked(pod, op);
            return false;
        }
    }
    return true;
}

void pod_execute_launch_locked(struct pod *pod, struct pod_op *op,
                               struct pod_after *after)
{
    if (!execute_ready(pod, op))
        return;
    execute_group(pod, op);
    for (size_t i = 0; i < op->work->call_count; i++)
        pod_call_queue_locked(&op->work->calls[i], after);
}

void pod_execute_answer_locked(struct pod *pod, struct pod_call *call,
                               struct pod_answer *answer,
                               struct pod_after *after)
{
    struct pod_op *op = call->op;

    if (answer->state != POD_SCHED_SUCCEEDED) {
        pod_keep_failure_locked(pod, op, answer);
        // The first that fails ends the others.
        for (size_t i = 0; i < op->work->call_count; i++)
            (void)pod_call_cancel_locked(&op->work->calls[i], after);
    }
    if (op->open_calls == 0)
        pod_complete_locked(pod, op, after);
}
