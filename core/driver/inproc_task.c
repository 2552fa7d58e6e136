// SPDX-License-Identifier: Apache-2.0
// Calls: how they are made, queued, cancelled and ended.
//
// A call that cannot be queued is ended at once: it goes to the list `ended`,
// and the control thread gives its completion. For a call that finds no memory
// there are spare tasks.
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/driver/inproc_internal.h"

// ------------------------------------------------------------ making a task

// A task with `part_count` parts, and in all of them together room for
// `hold_count` holds and `id_count` ids. NULL: no memory.
static struct inproc_task *task_new(const struct pod_driver_call *call,
                                    enum inproc_kind kind, size_t part_count,
                                    size_t hold_count, size_t id_count)
{
    size_t parts, holds, ids, bytes;

    if (__builtin_mul_overflow(part_count, sizeof(struct inproc_part),
                               &parts) ||
        __builtin_mul_overflow(hold_count, sizeof(struct inproc_hold),
                               &holds) ||
        __builtin_mul_overflow(id_count, sizeof(uint64_t), &ids) ||
        __builtin_add_overflow(sizeof(struct inproc_task), parts, &bytes) ||
        __builtin_add_overflow(bytes, holds, &bytes) ||
        __builtin_add_overflow(bytes, ids, &bytes))
        return NULL;
    struct inproc_task *task = pod_malloc(bytes);
    if (task == NULL)
        return NULL;
    memset(task, 0, sizeof *task + parts);
    task->call = *call;
    task->call.waits = NULL;
    task->kind = kind;
    task->refs = 1;
    pod_list_init(&task->link);
    task->part_count = part_count;
    task->parts_left = part_count;
    unsigned char *tail = (unsigned char *)task + sizeof *task + parts;
    for (size_t i = 0; i < part_count; i++) {
        task->parts[i].task = task;
        task->parts[i].holds = (struct inproc_hold *)(void *)tail;
        task->parts[i].ids = (uint64_t *)(void *)(tail + holds);
    }
    return task;
}

void pod_inproc_task_free(struct inproc_task *task)
{
    if (task == NULL)
        return;
    if (task->kind == INPROC_WRITE || task->kind == INPROC_READ)
        pod_blob_unref(task->as.transfer.blob);
    if (task->kind == INPROC_COMPILE)
        pod_blob_unref(task->as.compile.program);
    if (task->kind == INPROC_EXECUTE)
        pod_gang_unref(task->as.gang.gang);
    pod_free(task);
}

void pod_inproc_task_unref_locked(struct inproc *driver,
                                  struct inproc_task *task,
                                  struct inproc_trash *trash)
{
    if (--task->refs > 0)
        return;
    pod_inproc_handle_unref_locked(task->made, trash);
    task->made = NULL;
    if (task->spare)
        pod_list_push_back(&driver->spares, &task->link);
    else
        pod_list_push_back(&trash->tasks, &task->link);
}

// ---------------------------------------------------------------- callbacks

void pod_inproc_wake_control(struct inproc *driver)
{
    pod_cond_signal(&driver->lanes[INPROC_LANE_CONTROL].wake);
}

void pod_inproc_call_begin_locked(struct inproc *driver)
{
    driver->calling++;
}

// The control thread waits for the last one when the state has changed.
void pod_inproc_call_end_locked(struct inproc *driver)
{
    driver->calling--;
    if (driver->calling == 0 && driver->state != INPROC_OPEN)
        pod_inproc_wake_control(driver);
}

static void task_end_result(const struct inproc *driver,
                            const struct inproc_task *task,
                            struct pod_driver_result *result)
{
    uint64_t op = task->call.op;
    struct pod_err *err = &result->err;

    switch (task->end) {
    case INPROC_END_OK:
        break;
    case INPROC_END_ERR:
        *err = task->as.gang.err;
        break;
    case INPROC_END_CANCELLED:
        (void)pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                          "operation %" PRIu64 " was cancelled", op);
        break;
    case INPROC_END_RESET:
        (void)pod_err_set(err, POD_REASON_POD_RESET,
                          "host %" PRIu32 " was reset", driver->host);
        break;
    case INPROC_END_LOST:
        *err = driver->why;
        result->lost = true;
        break;
    case INPROC_END_CLOSED:
        (void)pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                          "host %" PRIu32 " was closed", driver->host);
        break;
    case INPROC_END_NO_MEMORY:
        (void)pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                          "no memory for operation %" PRIu64, op);
        break;
    }
}

void pod_inproc_task_deliver_locked(struct inproc *driver,
                                    struct inproc_task *task)
{
    struct pod_driver_result result = {.err = POD_ERR_NONE};
    struct inproc_trash trash;

    pod_inproc_trash_init(&trash);
    task_end_result(driver, task, &result);
    pod_inproc_call_begin_locked(driver);
    pod_mutex_unlock(&driver->lock);
    task->call.done(task->call.arg, &result);
    pod_mutex_lock(&driver->lock);
    pod_inproc_call_end_locked(driver);
    pod_inproc_task_unref_locked(driver, task, &trash);
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &trash);
    pod_mutex_lock(&driver->lock);
}

// ------------------------------------------------------------------- ending

void pod_inproc_task_end_locked(struct inproc *driver, struct inproc_task *task,
                                enum inproc_end end)
{
    assert(!task->claimed);
    task->claimed = true;
    task->end = end;
    pod_list_remove(&task->link);
    pod_list_push_back(&driver->ended, &task->link);
    if (pod_map_get(&driver->open, task->call.op) == task)
        (void)pod_map_remove(&driver->open, task->call.op);
    pod_inproc_wake_control(driver);
}

// A part that will not run (any more), and that no thread has.
static void part_drop_locked(struct inproc_part *part,
                             const struct pod_err *cause,
                             struct inproc_trash *trash)
{
    struct inproc_task *task = part->task;

    pod_inproc_unhold_locked(part, trash);
    pod_inproc_handle_unref_locked(part->load, trash);
    part->load = NULL;
    if (task->kind == INPROC_EXECUTE && task->as.gang.gang != NULL)
        pod_gang_leave(task->as.gang.gang, part->replica, cause);
    task->parts_left--;
}

// Takes the parts that wait out of their queues, asks those that run to stop.
static void task_stop_locked(struct inproc_task *task,
                             const struct pod_err *cause,
                             struct inproc_trash *trash)
{
    atomic_store(&task->interrupt.asked, true);
    for (size_t i = 0; i < task->part_count; i++) {
        struct inproc_part *part = &task->parts[i];
        if (part->item.queue == NULL)
            continue;
        pod_queue_remove(&part->item);
        part_drop_locked(part, cause, trash);
    }
    if (task->kind == INPROC_EXECUTE && task->as.gang.gang != NULL)
        pod_gang_wake(task->as.gang.gang);
}

void pod_inproc_interrupt_all_locked(struct inproc *driver)
{
    size_t cursor = 0;
    uint64_t op;
    void *value;

    while (pod_map_next(&driver->open, &cursor, &op, &value)) {
        struct inproc_task *task = value;
        if (!task->begun)
            continue;
        atomic_store(&task->interrupt.asked, true);
        if (task->kind == INPROC_EXECUTE && task->as.gang.gang != NULL)
            pod_gang_wake(task->as.gang.gang);
    }
}

void pod_inproc_end_all_locked(struct inproc *driver, uint64_t seq,
                               enum inproc_end end, struct inproc_trash *trash)
{
    struct pod_err cause;
    struct pod_list list;
    struct pod_list *item;
    size_t cursor = 0;
    uint64_t op;
    void *value;

    (void)pod_err_set(&cause, POD_REASON_CANCEL_REQUESTED,
                      "host %" PRIu32 " ended all operations", driver->host);
    pod_list_init(&list);
    while (pod_map_next(&driver->open, &cursor, &op, &value)) {
        struct inproc_task *task = value;
        if (task->seq >= seq && !task->begun)
            continue;
        pod_list_remove(&task->link);
        pod_list_push_back(&list, &task->link);
    }
    while ((item = pod_list_pop_front(&list)) != NULL) {
        struct inproc_task *task =
            POD_CONTAINER(item, struct inproc_task, link);
        task_stop_locked(task, &cause, trash);
        pod_inproc_task_end_locked(driver, task, end);
    }
}

void pod_inproc_cancel(struct pod_driver *base, uint64_t op)
{
    struct inproc *driver = inproc_of(base);
    struct inproc_trash trash;
    struct pod_err cause;

    pod_inproc_trash_init(&trash);
    (void)pod_err_set(&cause, POD_REASON_CANCEL_REQUESTED,
                      "operation %" PRIu64 " was cancelled", op);
    pod_mutex_lock(&driver->lock);
    struct inproc_task *task = pod_map_get(&driver->open, op);
    bool can = driver->state != INPROC_LOST && driver->state != INPROC_CLOSING;
    if (task != NULL && task->kind != INPROC_RESET && can) {
        task_stop_locked(task, &cause, &trash);
        if (task->parts_left == 0)
            pod_inproc_task_end_locked(driver, task, INPROC_END_CANCELLED);
    }
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &trash);
}

// --------------------------------------------------------------- submitting

// Ends a call for which there is no memory.
static void task_refuse(struct inproc *driver,
                        const struct pod_driver_call *call)
{
    struct pod_driver_result result = {.err = POD_ERR_NONE};

    pod_mutex_lock(&driver->lock);
    struct pod_list *item = pod_list_pop_front(&driver->spares);
    if (item != NULL) {
        struct inproc_task *task =
            POD_CONTAINER(item, struct inproc_task, link);
        task->call = *call;
        task->refs = 1;
        task->claimed = false;
        pod_inproc_task_end_locked(driver, task,
                                   driver->state == INPROC_LOST
                                       ? INPROC_END_LOST
                                       : INPROC_END_NO_MEMORY);
    }
    pod_mutex_unlock(&driver->lock);
    if (item != NULL)
        return;
    (void)pod_err_set(&result.err, POD_REASON_OUT_OF_MEMORY,
                      "no memory for operation %" PRIu64, call->op);
    call->done(call->arg, &result);
}

// Ends a task that was never queued.
static void task_end_new_locked(struct inproc *driver, struct inproc_task *task,
                                enum inproc_end end,
                                const struct pod_err *cause,
                                struct inproc_trash *trash)
{
    for (size_t i = 0; i < task->part_count; i++)
        part_drop_locked(&task->parts[i], cause, trash);
    pod_inproc_task_end_locked(driver, task, end);
}

// Takes the task over: queues its parts, each in its lane, or ends it.
static void task_submit_locked(struct inproc *driver, struct inproc_task *task,
                               struct inproc_trash *trash)
{
    struct pod_err cause = driver->why;
    enum inproc_end end = INPROC_END_NO_MEMORY;

    task->seq = ++driver->next_seq;
    if (driver->state == INPROC_LOST)
        end = INPROC_END_LOST;
    else if (driver->state == INPROC_CLOSING)
        end = INPROC_END_CLOSED;
    else if (pod_map_get(&driver->open, task->call.op) == NULL &&
             pod_map_put(&driver->open, task->call.op, task))
        end = INPROC_END_OK;
    if (end != INPROC_END_OK) {
        (void)pod_err_set(&cause, POD_REASON_HOST_UNAVAILABLE,
                          "host %" PRIu32 " did not take it", driver->host);
        task_end_new_locked(driver, task, end, &cause, trash);
        return;
    }
    bool gang = task->kind == INPROC_EXECUTE && task->as.gang.gang != NULL;
    bool ranked = task->kind == INPROC_EXECUTE && !gang;
    for (size_t i = 0; i < task->part_count; i++) {
        struct inproc_part *part = &task->parts[i];
        struct inproc_lane *lane = &driver->lanes[part->lane];
        part->item.priority = ranked ? task->call.priority : 0;
        part->item.order = task->seq;
        pod_queue_push(gang ? &lane->gangs : &lane->singles, &part->item);
        pod_cond_signal(&lane->wake);
    }
}

// Submits a task of one part; NULL: there was no memory for it.
static void task_submit(struct inproc *driver, struct inproc_task *task,
                        const struct pod_driver_call *call, uint32_t lane)
{
    struct inproc_trash trash;

    if (task == NULL) {
        task_refuse(driver, call);
        return;
    }
    pod_inproc_trash_init(&trash);
    task->parts[0].lane = lane;
    pod_mutex_lock(&driver->lock);
    task_submit_locked(driver, task, &trash);
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &trash);
}

// ---------------------------------------------------------- the simple calls

void pod_inproc_allocate(struct pod_driver *base,
                         const struct pod_driver_call *call, uint32_t core,
                         const struct pod_shape *shape, uint64_t bytes)
{
    struct inproc_task *task = task_new(call, INPROC_ALLOCATE, 1, 0, 0);

    if (task != NULL) {
        task->as.allocate.core = core;
        task->as.allocate.bytes = bytes;
        task->as.allocate.shaped = shape != NULL;
        // An array: it owns nothing, so the struct is all of it.
        if (shape != NULL)
            task->as.allocate.shape = *shape;
    }
    task_submit(inproc_of(base), task, call, INPROC_LANE_CONTROL);
}

void pod_inproc_allocate_tuple(struct pod_driver *base,
                               const struct pod_driver_call *call,
                               uint32_t core, const uint64_t *children,
                               size_t child_count)
{
    struct inproc_task *task = task_new(call, INPROC_TUPLE, 1, 0, child_count);

    if (task != NULL) {
        task->as.tuple.core = core;
        task->as.tuple.count = child_count;
        task->as.tuple.children = task->parts[0].ids;
        if (child_count > 0)
            memcpy(task->parts[0].ids, children,
                   child_count * sizeof children[0]);
    }
    task_submit(inproc_of(base), task, call, INPROC_LANE_CONTROL);
}

static void task_submit_handle(struct pod_driver *base,
                               const struct pod_driver_call *call,
                               enum inproc_kind kind, uint64_t handle)
{
    struct inproc_task *task = task_new(call, kind, 1, 0, 0);

    if (task != NULL)
        task->as.handle = handle;
    task_submit(inproc_of(base), task, call, INPROC_LANE_CONTROL);
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
    struct inproc_task *task = task_new(call, INPROC_LOAD, 1, 0, 0);

    if (task != NULL)
        task->as.load = (struct inproc_load){.core = core, .program = program};
    task_submit(inproc_of(base), task, call, INPROC_LANE_CONTROL);
}

void pod_inproc_write(struct pod_driver *base,
                      const struct pod_driver_call *call, uint64_t buffer,
                      uint64_t offset, struct pod_blob *data,
                      size_t data_offset, size_t count)
{
    struct inproc_task *task = task_new(call, INPROC_WRITE, 1, 1, 0);

    if (task != NULL)
        task->as.transfer = (struct inproc_transfer){
            .buffer = buffer,
            .offset = offset,
            .count = count,
            .blob = pod_blob_ref(data),
            .data_offset = data_offset,
        };
    task_submit(inproc_of(base), task, call, INPROC_LANE_TRANSFER);
}

void pod_inproc_read(struct pod_driver *base,
                     const struct pod_driver_call *call, uint64_t buffer,
                     uint64_t offset, size_t count)
{
    struct inproc_task *task = task_new(call, INPROC_READ, 1, 1, 0);

    if (task != NULL)
        task->as.transfer = (struct inproc_transfer){
            .buffer = buffer,
            .offset = offset,
            .count = count,
        };
    task_submit(inproc_of(base), task, call, INPROC_LANE_TRANSFER);
}

void pod_inproc_copy(struct pod_driver *base,
                     const struct pod_driver_call *call, uint64_t from,
                     uint64_t to)
{
    struct inproc_task *task = task_new(call, INPROC_COPY, 1, 2, 0);

    if (task != NULL)
        task->as.copy = (struct inproc_copy){.from = from, .to = to};
    task_submit(inproc_of(base), task, call, INPROC_LANE_COPY);
}

void pod_inproc_compile(struct pod_driver *base,
                        const struct pod_driver_call *call,
                        enum pod_program_format format,
                        struct pod_blob *program, uint32_t replicas)
{
    struct inproc_task *task = task_new(call, INPROC_COMPILE, 1, 0, 0);

    if (task != NULL)
        task->as.compile = (struct inproc_compile){
            .format = format,
            .program = pod_blob_ref(program),
            .replicas = replicas,
        };
    task_submit(inproc_of(base), task, call, INPROC_LANE_COMPILE);
}

// A reset is not queued: from now on nothing begins, and once nothing runs the
// control thread carries it out.
void pod_inproc_reset(struct pod_driver *base,
                      const struct pod_driver_call *call)
{
    struct inproc *driver = inproc_of(base);
    struct inproc_task *task = task_new(call, INPROC_RESET, 0, 0, 0);
    struct inproc_trash trash;

    if (task == NULL) {
        task_refuse(driver, call);
        return;
    }
    pod_inproc_trash_init(&trash);
    pod_mutex_lock(&driver->lock);
    task_submit_locked(driver, task, &trash);
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

static struct inproc_task *execute_new(const struct pod_driver_call *call,
                                       const struct pod_driver_execute *execute)
{
    size_t total = 0;

    for (size_t i = 0; i < execute->launch_count; i++) {
        const struct pod_driver_launch *launch = &execute->launches[i];
        if (__builtin_add_overflow(total, launch->input_count, &total) ||
            __builtin_add_overflow(total, launch->output_count, &total))
            return NULL;
    }
    struct inproc_task *task =
        task_new(call, INPROC_EXECUTE, execute->launch_count, total, total);
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
        return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                           "%zu of %" PRIu32 " replicas on %" PRIu32 " cores",
                           execute->launch_count, execute->replica_count,
                           driver->core_count);
    for (size_t i = 0; i < execute->launch_count; i++) {
        if (execute->launches[i].replica >= execute->replica_count)
            return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                               "replica %" PRIu32 " of %" PRIu32,
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

    // Before all that may fail: whoever waits for these replicas shall hear.
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
    struct inproc_task *task = execute_new(call, execute);
    struct inproc_trash trash;

    if (task == NULL) {
        task_refuse(driver, call);
        return;
    }
    pod_inproc_trash_init(&trash);
    pod_mutex_lock(&driver->lock);
    if (execute_prepare_locked(driver, task, execute) == POD_OK)
        task_submit_locked(driver, task, &trash);
    else
        task_end_new_locked(driver, task,
                            driver->state == INPROC_LOST ? INPROC_END_LOST
                                                         : INPROC_END_ERR,
                            &task->as.gang.err, &trash);
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &trash);
}
