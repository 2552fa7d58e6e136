// SPDX-License-Identifier: Apache-2.0
// What a thread does for each kind of call.
//
// A part is taken from its queue, its work is done without the lock, and it
// ends. The last part of a call to end gives the completion, unless the host
// has left the state OPEN meanwhile: then the control thread gives them all.
#include <inttypes.h>

#include "core/base/mem.h"
#include "core/driver/inproc_internal.h"

static enum pod_code run_check_core(const struct inproc *driver, uint32_t core,
                                    struct pod_err *err)
{
    if (core < driver->core_count)
        return POD_OK;
    return pod_err_set(err, POD_REASON_UNKNOWN_CORE,
                       "core %" PRIu32 " of host %" PRIu32 " of %" PRIu32
                       " cores",
                       core, driver->host, driver->core_count);
}

static enum pod_code run_no_memory(struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                       "no memory for the operation");
}

enum pod_code pod_inproc_run_cancelled(struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                       "the operation was cancelled");
}

bool pod_inproc_run_interrupted(struct inproc_part *part)
{
    return atomic_load(&part->task->interrupt.asked);
}

// Makes a handle known, or gives it back.
static enum pod_code run_add(struct inproc *driver,
                             struct inproc_handle *handle,
                             struct inproc_outcome *outcome)
{
    pod_mutex_lock(&driver->lock);
    enum pod_code code = pod_inproc_handle_add_locked(
        driver, handle, &outcome->trash, &outcome->result.err);
    pod_mutex_unlock(&driver->lock);
    return code;
}

static void run_discard(struct inproc *driver, struct inproc_handle *handle,
                        struct inproc_outcome *outcome)
{
    pod_mutex_lock(&driver->lock);
    pod_inproc_handle_unref_locked(handle, &outcome->trash);
    pod_mutex_unlock(&driver->lock);
}

// ------------------------------------------------------------------ buffers

// The handle of a buffer that is to be allocated; NULL: no memory.
static struct inproc_handle *run_buffer_new(const struct inproc_allocate *want,
                                            uint64_t op)
{
    struct inproc_handle *handle =
        pod_inproc_handle_new(INPROC_BUFFER, op, want->core);

    if (handle == NULL)
        return NULL;
    handle->value.bytes = want->bytes;
    if (!want->shaped)
        return handle;
    handle->shape = pod_malloc(sizeof(*handle->shape));
    if (handle->shape == NULL) {
        pod_free(handle);
        return NULL;
    }
    *handle->shape = want->shape;
    handle->value.shape = handle->shape;
    handle->value.bytes = (uint64_t)pod_shape_bytes(&want->shape);
    return handle;
}

static enum pod_code run_allocate(struct inproc *driver,
                                  struct inproc_part *part,
                                  struct inproc_outcome *outcome)
{
    const struct inproc_allocate *want = &part->task->as.allocate;
    struct pod_err *err = &outcome->result.err;
    enum pod_code code = run_check_core(driver, want->core, err);

    if (code != POD_OK)
        return code;
    if (want->shaped && !pod_shape_is_array(&want->shape))
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "only arrays can be allocated by shape");
    struct inproc_handle *handle = run_buffer_new(want, part->task->call.op);
    if (handle == NULL)
        return run_no_memory(err);
    code = driver->device->ops->allocate(
        driver->device, want->core, handle->value.shape, handle->value.bytes,
        &handle->buffer, err);
    if (code == POD_OK)
        return run_add(driver, handle, outcome);
    if (code == POD_RESOURCE_EXHAUSTED)
        code = pod_inproc_no_room(driver, want->core, handle->value.bytes, err);
    run_discard(driver, handle, outcome);
    return code;
}

// Takes references of the children; they are given back with the handle.
static enum pod_code tuple_gather_locked(struct inproc *driver,
                                         const struct inproc_tuple *want,
                                         struct inproc_handle *handle,
                                         struct pod_err *err)
{
    for (size_t i = 0; i < want->count; i++) {
        struct inproc_handle *child = pod_inproc_handle_find_locked(
            driver, INPROC_BUFFER, want->children[i], err);
        if (child == NULL)
            return POD_NOT_FOUND;
        if (child->core != want->core)
            return pod_err_set(err, POD_REASON_CORE_MISMATCH,
                               "buf-%" PRIu64 " is on core %" PRIu32
                               ", its tuple on core %" PRIu32,
                               child->op, child->core, want->core);
        handle->nodes += child->nodes;
        if (handle->depth <= child->depth)
            handle->depth = child->depth + 1;
        if (handle->nodes > POD_SHAPE_MAX_NODES ||
            handle->depth > POD_SHAPE_MAX_DEPTH)
            return pod_err_set(err, POD_REASON_BAD_SHAPE,
                               "a tuple has at most %d nodes and depth %d",
                               POD_SHAPE_MAX_NODES, POD_SHAPE_MAX_DEPTH);
        child->refs++;
        handle->children[i] = child;
        handle->child_values[i] = child->value;
        handle->value.child_count++;
    }
    return POD_OK;
}

static enum pod_code tuple_make(struct inproc *driver,
                                const struct inproc_tuple *want,
                                struct inproc_handle *handle,
                                struct pod_err *err)
{
    struct pod_device_buffer **buffers = NULL;

    handle->children = pod_calloc(want->count, sizeof handle->children[0]);
    handle->child_values =
        pod_calloc(want->count, sizeof handle->child_values[0]);
    buffers = pod_calloc(want->count, sizeof buffers[0]);
    enum pod_code code;
    if (handle->children == NULL || handle->child_values == NULL ||
        buffers == NULL) {
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for a tuple of %zu", want->count);
        pod_free(buffers);
        return code;
    }
    handle->value.is_tuple = true;
    handle->value.children = handle->child_values;
    pod_mutex_lock(&driver->lock);
    code = tuple_gather_locked(driver, want, handle, err);
    pod_mutex_unlock(&driver->lock);
    for (size_t i = 0; i < handle->value.child_count; i++)
        buffers[i] = handle->children[i]->buffer;
    if (code == POD_OK)
        code = driver->device->ops->allocate_tuple(driver->device, want->core,
                                                   buffers, want->count,
                                                   &handle->buffer, err);
    pod_free(buffers);
    return code;
}

static enum pod_code run_tuple(struct inproc *driver, struct inproc_part *part,
                               struct inproc_outcome *outcome)
{
    const struct inproc_tuple *want = &part->task->as.tuple;
    struct pod_err *err = &outcome->result.err;
    enum pod_code code = run_check_core(driver, want->core, err);

    if (code != POD_OK)
        return code;
    struct inproc_handle *handle =
        pod_inproc_handle_new(INPROC_BUFFER, part->task->call.op, want->core);
    if (handle == NULL)
        return run_no_memory(err);
    code = tuple_make(driver, want, handle, err);
    if (code == POD_OK)
        return run_add(driver, handle, outcome);
    run_discard(driver, handle, outcome);
    return code;
}

static enum pod_code run_drop(struct inproc *driver, struct inproc_part *part,
                              enum inproc_handle_kind kind,
                              struct inproc_outcome *outcome)
{
    pod_mutex_lock(&driver->lock);
    enum pod_code code =
        pod_inproc_handle_drop_locked(driver, kind, part->task->as.handle,
                                      &outcome->trash, &outcome->result.err);
    pod_mutex_unlock(&driver->lock);
    return code;
}

static enum pod_code run_deallocate(struct inproc *driver,
                                    struct inproc_part *part,
                                    struct inproc_outcome *outcome)
{
    return run_drop(driver, part, INPROC_BUFFER, outcome);
}

// ----------------------------------------------------------------- programs

static enum pod_code run_compile(struct inproc *driver,
                                 struct inproc_part *part,
                                 struct inproc_outcome *outcome)
{
    struct inproc_task *task = part->task;
    const struct inproc_compile *want = &task->as.compile;
    struct inproc_handle *handle =
        pod_inproc_handle_new(INPROC_PROGRAM, task->call.op, 0);

    if (handle == NULL)
        return run_no_memory(&outcome->result.err);
    enum pod_code code = driver->device->ops->compile(
        driver->device, want->format, want->program->data, want->program->size,
        want->replicas, &handle->program, &outcome->result.err);
    if (code != POD_OK) {
        run_discard(driver, handle, outcome);
        return code;
    }
    outcome->result.shape = driver->device->ops->program_shape(handle->program);
    // The shape must live through the completion.
    handle->refs++;
    task->made = handle;
    return run_add(driver, handle, outcome);
}

static enum pod_code run_free_program(struct inproc *driver,
                                      struct inproc_part *part,
                                      struct inproc_outcome *outcome)
{
    return run_drop(driver, part, INPROC_PROGRAM, outcome);
}

static enum pod_code run_load(struct inproc *driver, struct inproc_part *part,
                              struct inproc_outcome *outcome)
{
    const struct inproc_load *want = &part->task->as.load;
    struct pod_err *err = &outcome->result.err;
    enum pod_code code = run_check_core(driver, want->core, err);

    if (code != POD_OK)
        return code;
    struct inproc_handle *handle =
        pod_inproc_handle_new(INPROC_LOADED, part->task->call.op, want->core);
    if (handle == NULL)
        return run_no_memory(err);
    pod_mutex_lock(&driver->lock);
    handle->source = pod_inproc_handle_find_locked(driver, INPROC_PROGRAM,
                                                   want->program, err);
    if (handle->source != NULL) {
        handle->source->refs++;
        code =
            pod_inproc_handle_add_locked(driver, handle, &outcome->trash, err);
    } else {
        code = POD_NOT_FOUND;
        pod_inproc_handle_unref_locked(handle, &outcome->trash);
    }
    pod_mutex_unlock(&driver->lock);
    return code;
}

static enum pod_code run_unload(struct inproc *driver, struct inproc_part *part,
                                struct inproc_outcome *outcome)
{
    return run_drop(driver, part, INPROC_LOADED, outcome);
}

// --------------------------------------------------------------- executions

static void run_tell_started_locked(struct inproc *driver,
                                    struct inproc_task *task)
{
    // Not when the host has gone: the completion may be on its way.
    if (task->started || task->here || driver->state != INPROC_OPEN)
        return;
    task->started = true;
    if (task->call.started == NULL)
        return;
    pod_inproc_call_begin_locked(driver);
    pod_mutex_unlock(&driver->lock);
    task->call.started(task->call.arg);
    pod_mutex_lock(&driver->lock);
    pod_inproc_call_end_locked(driver);
}

// Outputs first: an output that is an input too is then known as one.
static enum pod_code execute_hold_locked(struct inproc *driver,
                                         struct inproc_part *part,
                                         struct pod_err *err)
{
    enum pod_code code = POD_OK;

    for (size_t i = 0; i < part->output_count && code == POD_OK; i++)
        code = pod_inproc_hold_locked(
            driver, part, part->ids[part->input_count + i], true, err);
    for (size_t i = 0; i < part->input_count && code == POD_OK; i++)
        code = pod_inproc_hold_locked(driver, part, part->ids[i], false, err);
    return code;
}

// Runs it on the device with the buffers that are held: outputs, then inputs.
static enum pod_code execute_launch(struct inproc *driver,
                                    struct inproc_part *part,
                                    struct pod_launch_value *values,
                                    struct pod_device_buffer **buffers,
                                    struct pod_err *err)
{
    struct inproc_gang *gang = &part->task->as.gang;
    struct pod_device_program *program = part->load->source->program;

    for (size_t i = 0; i < part->hold_count; i++) {
        values[i] = part->holds[i].handle->value;
        buffers[i] = part->holds[i].handle->buffer;
    }
    enum pod_code code =
        pod_check_launch(driver->device->ops->program_shape(program),
                         values + part->output_count, part->input_count, values,
                         part->output_count, err);
    if (code != POD_OK)
        return code;
    if (pod_inproc_run_interrupted(part))
        return pod_inproc_run_cancelled(err);
    struct pod_device_launch launch = {
        .program = program,
        .core = part->load->core,
        .inputs = buffers + part->output_count,
        .input_count = part->input_count,
        .outputs = buffers,
        .output_count = part->output_count,
        .replica = part->replica,
        .replica_count = gang->replica_count,
        .exchange = gang->gang == NULL ? NULL : pod_gang_exchange(gang->gang),
        .interrupt = &part->task->interrupt,
    };
    return driver->device->ops->execute(driver->device, &launch, err);
}

static enum pod_code run_execute(struct inproc *driver,
                                 struct inproc_part *part,
                                 struct inproc_outcome *outcome)
{
    struct inproc_gang *gang = &part->task->as.gang;
    struct pod_err *err = &outcome->result.err;
    enum pod_code code = POD_OK;

    if (gang->gang != NULL)
        code = pod_gang_arrive(gang->gang, part->replica,
                               &part->task->interrupt, err);
    if (code != POD_OK)
        return code;
    pod_mutex_lock(&driver->lock);
    run_tell_started_locked(driver, part->task);
    code = execute_hold_locked(driver, part, err);
    pod_mutex_unlock(&driver->lock);
    if (code != POD_OK)
        return code;
    struct pod_launch_value *values =
        pod_calloc(part->hold_count, sizeof values[0]);
    struct pod_device_buffer **buffers =
        pod_calloc(part->hold_count, sizeof buffers[0]);
    if (values == NULL || buffers == NULL)
        code = run_no_memory(err);
    else
        code = execute_launch(driver, part, values, buffers, err);
    pod_free(values);
    pod_free(buffers);
    return code;
}

// ----------------------------------------------------------------- the parts

static enum pod_code run_work(struct inproc *driver, struct inproc_part *part,
                              struct inproc_outcome *outcome)
{
    switch (part->task->kind) {
    case INPROC_ALLOCATE:
        return run_allocate(driver, part, outcome);
    case INPROC_TUPLE:
        return run_tuple(driver, part, outcome);
    case INPROC_DEALLOCATE:
        return run_deallocate(driver, part, outcome);
    case INPROC_WRITE:
        return pod_inproc_run_write(driver, part, outcome);
    case INPROC_READ:
        return pod_inproc_run_read(driver, part, outcome);
    case INPROC_COPY:
        return pod_inproc_run_copy(driver, part, outcome);
    case INPROC_COMPILE:
        return run_compile(driver, part, outcome);
    case INPROC_FREE_PROGRAM:
        return run_free_program(driver, part, outcome);
    case INPROC_LOAD:
        return run_load(driver, part, outcome);
    case INPROC_UNLOAD:
        return run_unload(driver, part, outcome);
    case INPROC_EXECUTE:
        return run_execute(driver, part, outcome);
    case INPROC_RESET: // never queued
        break;
    }
    return POD_OK;
}

// Of several parts that failed, one that failed by itself counts: the others
// were only aborted.
static void part_merge_error(struct inproc_task *task,
                             const struct pod_err *err)
{
    struct pod_err *kept = &task->as.gang.err;

    if (kept->code == POD_OK || (kept->reason == POD_REASON_GANG_ABORTED &&
                                 err->reason != POD_REASON_GANG_ABORTED))
        *kept = *err;
}

// Gives the completion of a call whose last part has ended.
static void run_finish_locked(struct inproc *driver, struct inproc_part *part,
                              struct inproc_outcome *outcome)
{
    struct inproc_task *task = part->task;
    struct pod_err *err = &outcome->result.err;

    if (task->kind == INPROC_EXECUTE)
        *err = task->as.gang.err;
    if (err->reason == POD_REASON_GANG_ABORTED &&
        pod_inproc_run_interrupted(part))
        (void)pod_inproc_run_cancelled(err);
    if (err->code != POD_OK) {
        outcome->result.data = NULL;
        outcome->result.shape = NULL;
    }
    outcome->result.begun = task->here;
    task->claimed = true;
    (void)pod_map_remove(&driver->open, task->call.op);
    pod_inproc_call_begin_locked(driver);
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &outcome->trash);
    pod_inproc_trash_init(&outcome->trash);
    task->call.done(task->call.arg, &outcome->result);
    pod_mutex_lock(&driver->lock);
    pod_inproc_call_end_locked(driver);
    pod_inproc_task_unref_locked(driver, task, &outcome->trash);
}

static void run_end_locked(struct inproc *driver, struct inproc_part *part,
                           struct inproc_outcome *outcome)
{
    struct inproc_task *task = part->task;
    struct inproc_lane *lane = &driver->lanes[part->lane];
    struct pod_err *err = &outcome->result.err;

    if (outcome->again && driver->state == INPROC_OPEN) {
        part->item.order = ++driver->next_seq;
        pod_queue_push(&lane->singles, &part->item);
        return;
    }
    pod_inproc_unhold_locked(part, &outcome->trash);
    pod_inproc_handle_unref_locked(part->load, &outcome->trash);
    part->load = NULL;
    if (task->kind == INPROC_EXECUTE && task->as.gang.gang != NULL)
        pod_gang_leave(task->as.gang.gang, part->replica,
                       err->code == POD_OK ? NULL : err);
    if (task->kind == INPROC_EXECUTE && err->code != POD_OK)
        part_merge_error(task, err);
    task->parts_left--;
    if (task->parts_left == 0 && !task->claimed && driver->state == INPROC_OPEN)
        run_finish_locked(driver, part, outcome);
}

void pod_inproc_run_locked(struct inproc *driver, struct inproc_part *part)
{
    struct inproc_outcome outcome = {.result = {.err = POD_ERR_NONE}};
    struct inproc_task *task = part->task;

    pod_inproc_trash_init(&outcome.trash);
    driver->running++;
    task->refs++;
    task->begun = true;
    // A gang has begun when it has met.
    if (task->kind != INPROC_EXECUTE || task->as.gang.gang == NULL)
        run_tell_started_locked(driver, task);
    pod_mutex_unlock(&driver->lock);
    if (run_work(driver, part, &outcome) == POD_OK)
        outcome.result.err = POD_ERR_NONE;
    pod_mutex_lock(&driver->lock);
    run_end_locked(driver, part, &outcome);
    pod_inproc_task_unref_locked(driver, task, &outcome.trash);
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &outcome.trash);
    pod_mutex_lock(&driver->lock);
    // Only now: a host that comes back after a loss must be empty.
    driver->running--;
    if (driver->running == 0 && driver->state != INPROC_OPEN)
        pod_inproc_wake_control(driver);
}
