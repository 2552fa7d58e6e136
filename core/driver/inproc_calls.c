// SPDX-License-Identifier: Apache-2.0
// The calls of the driver's table: each becomes a task and is submitted.
#include <inttypes.h>
#include <string.h>

#include "core/driver/inproc_internal.h"

// ---------------------------------------------------------- the simple calls

void pod_inproc_allocate(struct pod_driver *base,
                         const struct pod_driver_call *call, uint32_t core,
                         const struct pod_shape *shape, uint64_t bytes)
{
    struct inproc_task *task =
        pod_inproc_task_new(inproc_of(base), call, INPROC_ALLOCATE, 1, 0, 0);

    if (task != NULL) {
        task->as.allocate.core = core;
        task->as.allocate.bytes = bytes;
        task->as.allocate.shaped = shape != NULL;
        // An array: it owns nothing, so the struct is all of it.
        if (shape != NULL)
            task->as.allocate.shape = *shape;
    }
    pod_inproc_task_submit(inproc_of(base), task, call, INPROC_LANE_CONTROL);
}

void pod_inproc_allocate_tuple(struct pod_driver *base,
                               const struct pod_driver_call *call,
                               uint32_t core, const uint64_t *children,
                               size_t child_count)
{
    struct inproc_task *task = pod_inproc_task_new(
        inproc_of(base), call, INPROC_TUPLE, 1, 0, child_count);

    if (task != NULL) {
        task->as.tuple.core = core;
        task->as.tuple.count = child_count;
        task->as.tuple.children = task->parts[0].ids;
        if (child_count > 0)
            memcpy(task->parts[0].ids, children,
                   child_count * sizeof children[0]);
    }
    pod_inproc_task_submit(inproc_of(base), task, call, INPROC_LANE_CONTROL);
}

static void task_submit_handle(struct pod_driver *base,
                               const struct pod_driver_call *call,
                               enum inproc_kind kind, uint64_t handle)
{
    struct inproc_task *task =
        pod_inproc_task_new(inproc_of(base), call, kind, 1, 0, 0);

    if (task != NULL)
        task->as.handle = handle;
    pod_inproc_task_submit(inproc_of(base), task, call, INPROC_LANE_CONTROL);
}

void pod_inproc_deallocate(struct pod_driver *base,
                           const struct pod_driver_call *call, uint64_t buffer)
{
    task_submit_handle(base, call, INPROC_DEALLOCATE, buffer);
}

void pod_inproc_free_program(struct pod_driver *base,
                             const struct pod_driver_call *call,
                             uint64_t program)
{
    task_submit_handle(base, call, INPROC_FREE_PROGRAM, program);
}

void pod_inproc_unload(struct pod_driver *base,
                       const struct pod_driver_call *call, uint64_t load)
{
    task_submit_handle(base, call, INPROC_UNLOAD, load);
}

void pod_inproc_load(struct pod_driver *base,
                     const struct pod_driver_call *call, uint32_t core,
                     uint64_t program)
{
    struct inproc_task *task =
        pod_inproc_task_new(inproc_of(base), call, INPROC_LOAD, 1, 0, 0);

    if (task != NULL)
        task->as.load = (struct inproc_load){.core = core, .program = program};
    pod_inproc_task_submit(inproc_of(base), task, call, INPROC_LANE_CONTROL);
}

void pod_inproc_write(struct pod_driver *base,
                      const struct pod_driver_call *call, uint64_t buffer,
                      uint64_t offset, struct pod_blob *data,
                      size_t data_offset, size_t count)
{
    struct inproc_task *task =
        pod_inproc_task_new(inproc_of(base), call, INPROC_WRITE, 1, 1, 0);

    if (task != NULL)
        task->as.transfer = (struct inproc_transfer){
            .buffer = buffer,
            .offset = offset,
            .count = count,
            .blob = pod_blob_ref(data),
            .data_offset = data_offset,
        };
    pod_inproc_task_submit(inproc_of(base), task, call, INPROC_LANE_TRANSFER);
}

static void calls_read(struct pod_driver *base,
                       const struct pod_driver_call *call, uint64_t buffer,
                       uint64_t offset, size_t count, bool lend)
{
    struct inproc_task *task =
        pod_inproc_task_new(inproc_of(base), call, INPROC_READ, 1, 1, 0);

    if (task != NULL)
        task->as.transfer = (struct inproc_transfer){
            .buffer = buffer,
            .offset = offset,
            .count = count,
            .lend = lend,
        };
    pod_inproc_task_submit(inproc_of(base), task, call, INPROC_LANE_TRANSFER);
}

void pod_inproc_read(struct pod_driver *base,
                     const struct pod_driver_call *call, uint64_t buffer,
                     uint64_t offset, size_t count)
{
    calls_read(base, call, buffer, offset, count, false);
}

void pod_inproc_lend(struct pod_driver *base,
                     const struct pod_driver_call *call, uint64_t buffer,
                     uint64_t offset, size_t count)
{
    calls_read(base, call, buffer, offset, count, true);
}

void pod_inproc_copy(struct pod_driver *base,
                     const struct pod_driver_call *call, uint64_t from,
                     uint64_t to)
{
    struct inproc_task *task =
        pod_inproc_task_new(inproc_of(base), call, INPROC_COPY, 1, 2, 0);

    if (task != NULL)
        task->as.copy = (struct inproc_copy){.from = from, .to = to};
    pod_inproc_task_submit(inproc_of(base), task, call, INPROC_LANE_COPY);
}

void pod_inproc_compile(struct pod_driver *base,
                        const struct pod_driver_call *call,
                        enum pod_program_format format,
                        struct pod_blob *program, uint32_t replicas)
{
    struct inproc_task *task =
        pod_inproc_task_new(inproc_of(base), call, INPROC_COMPILE, 1, 0, 0);

    if (task != NULL)
        task->as.compile = (struct inproc_compile){
            .format = format,
            .program = pod_blob_ref(program),
            .replicas = replicas,
        };
    pod_inproc_task_submit(inproc_of(base), task, call, INPROC_LANE_COMPILE);
}

// A reset is not queued: from now on nothing begins, and once nothing runs the
// control thread carries it out.
void pod_inproc_reset(struct pod_driver *base,
                      const struct pod_driver_call *call)
{
    struct inproc *driver = inproc_of(base);
    struct inproc_task *task =
        pod_inproc_task_new(inproc_of(base), call, INPROC_RESET, 0, 0, 0);
    struct inproc_trash trash;

    if (task == NULL) {
        pod_inproc_task_refuse(driver, call);
        return;
    }
    pod_inproc_trash_init(&trash);
    pod_mutex_lock(&driver->lock);
    pod_inproc_task_submit_locked(driver, task, &trash);
    pod_inproc_wake_due_locked(driver);
    if (!task->claimed) {
        pod_list_push_back(&driver->resets, &task->link);
        if (driver->state == INPROC_OPEN)
            driver->state = INPROC_RESETTING;
        pod_inproc_interrupt_all_locked(driver);
        pod_inproc_wake_control(driver);
    }
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &trash);
}

// ---------------------------------------------------------------- executing

static struct inproc_task *execute_new(struct inproc *driver,
                                       const struct pod_driver_call *call,
                                       const struct pod_driver_execute *execute)
{
    size_t total = 0;

    for (size_t i = 0; i < execute->launch_count; i++) {
        const struct pod_driver_launch *launch = &execute->launches[i];
        if (__builtin_add_overflow(total, launch->input_count, &total) ||
            __builtin_add_overflow(total, launch->output_count, &total))
            return NULL;
    }
    struct inproc_task *task = pod_inproc_task_new(
        driver, call, INPROC_EXECUTE, execute->launch_count, total, total);
    if (task == NULL)
        return NULL;
    task->as.gang.replica_count = execute->replica_count;
    size_t at = 0;
    for (size_t i = 0; i < execute->launch_count; i++) {
        const struct pod_driver_launch *launch = &execute->launches[i];
        struct inproc_part *part = &task->parts[i];
        part->holds += at;
        part->ids += at;
        part->input_count = launch->input_count;
        part->output_count = launch->output_count;
        part->replica = launch->replica;
        if (launch->input_count > 0)
            memcpy(part->ids, launch->inputs,
                   launch->input_count * sizeof part->ids[0]);
        if (launch->output_count > 0)
            memcpy(part->ids + launch->input_count, launch->outputs,
                   launch->output_count * sizeof part->ids[0]);
        at += launch->input_count + launch->output_count;
    }
    return task;
}

// Finds the core of a part; two parts on one core could never start together.
static enum pod_code execute_place_locked(struct inproc *driver,
                                          struct inproc_task *task,
                                          size_t index, uint64_t load)
{
    struct inproc_part *part = &task->parts[index];
    struct pod_err *err = &task->as.gang.err;
    struct inproc_handle *handle =
        pod_inproc_handle_find_locked(driver, INPROC_LOADED, load, err);

    if (handle == NULL)
        return POD_NOT_FOUND;
    part->load = handle;
    handle->refs++;
    part->lane = INPROC_LANE_CORES + handle->core;
    for (size_t i = 0; i < index; i++) {
        if (task->parts[i].lane == part->lane)
            return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                               "replicas %" PRIu32 " and %" PRIu32
                               " are both on core %" PRIu32,
                               task->parts[i].replica, part->replica,
                               handle->core);
    }
    return POD_OK;
}

static enum pod_code execute_check(const struct inproc *driver,
                                   const struct pod_driver_execute *execute,
                                   struct pod_err *err)
{
    if (execute->launch_count == 0 ||
        execute->launch_count > driver->core_count ||
        execute->launch_count > execute->replica_count)
        return pod_err_set(
            err, POD_REASON_BAD_ASSIGNMENT,
            "%zu launches of %" PRIu32 " replicas on %" PRIu32 " cores",
            execute->launch_count, execute->replica_count, driver->core_count);
    for (size_t i = 0; i < execute->launch_count; i++) {
        if (execute->launches[i].replica >= execute->replica_count)
            return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                               "replica %" PRIu32 " of a gang of %" PRIu32,
                               execute->launches[i].replica,
                               execute->replica_count);
    }
    return POD_OK;
}

static enum pod_code
execute_prepare_locked(struct inproc *driver, struct inproc_task *task,
                       const struct pod_driver_execute *execute)
{
    struct inproc_gang *gang = &task->as.gang;
    enum pod_code code = execute_check(driver, execute, &gang->err);

    // Before anything that may fail, so that whoever waits for these replicas
    // learns of it.
    if (code == POD_OK && execute->replica_count > 1)
        code = pod_gang_join(driver->hub, task->call.op, execute->replica_count,
                             execute->replica_hosts, &gang->gang, &gang->err);
    if (driver->state == INPROC_LOST || driver->state == INPROC_CLOSING)
        return POD_OK;
    for (size_t i = 0; i < execute->launch_count && code == POD_OK; i++)
        code = execute_place_locked(driver, task, i, execute->launches[i].load);
    return code;
}

void pod_inproc_execute(struct pod_driver *base,
                        const struct pod_driver_call *call,
                        const struct pod_driver_execute *execute)
{
    struct inproc *driver = inproc_of(base);
    struct inproc_task *task = execute_new(driver, call, execute);
    struct inproc_trash trash;

    if (task == NULL) {
        pod_inproc_task_refuse(driver, call);
        return;
    }
    pod_inproc_trash_init(&trash);
    pod_mutex_lock(&driver->lock);
    if (execute_prepare_locked(driver, task, execute) == POD_OK) {
        pod_inproc_task_submit_locked(driver, task, &trash);
        pod_inproc_task_wake_locked(driver, task);
    } else {
        pod_inproc_task_end_new_locked(
            driver, task,
            driver->state == INPROC_LOST ? INPROC_END_LOST : INPROC_END_ERR,
            &task->as.gang.err, &trash);
    }
    pod_inproc_wake_due_locked(driver);
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &trash);
}
