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

static struct inproc_task *task_alloc(struct inproc *driver, size_t bytes)
{
    if (bytes > INPROC_TASK_BYTES)
        return pod_malloc(bytes);
    pod_mutex_lock(&driver->lock);
    struct pod_list *item = pod_list_pop_front(&driver->used);
    if (item != NULL)
        driver->used_count--;
    pod_mutex_unlock(&driver->lock);
    return item != NULL ? POD_CONTAINER(item, struct inproc_task, link)
                        : pod_malloc(INPROC_TASK_BYTES);
}

// A task with `part_count` parts, and in all of them together room for
// `hold_count` holds and `id_count` ids. NULL: no memory.
struct inproc_task *pod_inproc_task_new(struct inproc *driver,
                                        const struct pod_driver_call *call,
                                        enum inproc_kind kind,
                                        size_t part_count, size_t hold_count,
                                        size_t id_count)
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
    struct inproc_task *task = task_alloc(driver, bytes);
    if (task == NULL)
        return NULL;
    memset(task, 0, sizeof *task + parts);
    task->usual = bytes <= INPROC_TASK_BYTES;
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

// Whether it owns something that is not to be freed under the lock.
static bool task_owns(const struct inproc_task *task)
{
    return task->kind == INPROC_WRITE || task->kind == INPROC_READ ||
           task->kind == INPROC_COMPILE || task->kind == INPROC_EXECUTE;
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
    if (task->spare) {
        pod_list_push_back(&driver->spares, &task->link);
    } else if (task->usual && !task_owns(task) &&
               driver->used_count < INPROC_TASKS_KEPT) {
        driver->used_count++;
        pod_list_push_back(&driver->used, &task->link);
    } else {
        pod_list_push_back(&trash->tasks, &task->link);
    }
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
    struct pod_err *err = &result->err;

    switch (task->end) {
    case INPROC_END_OK:
        break;
    case INPROC_END_ERR:
        *err = task->as.gang.err;
        break;
    case INPROC_END_CANCELLED:
        (void)pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                          "the operation was cancelled");
        break;
    case INPROC_END_RESET:
        (void)pod_err_set(err, POD_REASON_POD_RESET, "the host was reset");
        break;
    case INPROC_END_LOST:
        *err = driver->why;
        result->lost = true;
        break;
    case INPROC_END_CLOSED:
        (void)pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                          "the host was closed");
        break;
    case INPROC_END_TWICE:
        (void)pod_err_set(err, POD_REASON_INTERNAL,
                          "the operation is already open");
        break;
    case INPROC_END_NO_MEMORY:
        (void)pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                          "no memory for the operation");
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
                      "the host ended all operations");
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
                      "the operation was cancelled");
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
void pod_inproc_task_refuse(struct inproc *driver,
                            const struct pod_driver_call *call)
{
    struct pod_driver_result result = {.err = POD_ERR_NONE};

    pod_mutex_lock(&driver->lock);
    pod_inproc_wake_due_locked(driver);
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
                      "no memory for the operation");
    call->done(call->arg, &result);
}

// Ends a task that was never queued.
void pod_inproc_task_end_new_locked(struct inproc *driver,
                                    struct inproc_task *task,
                                    enum inproc_end end,
                                    const struct pod_err *cause,
                                    struct inproc_trash *trash)
{
    for (size_t i = 0; i < task->part_count; i++)
        part_drop_locked(&task->parts[i], cause, trash);
    pod_inproc_task_end_locked(driver, task, end);
}

void pod_inproc_task_submit_locked(struct inproc *driver,
                                   struct inproc_task *task,
                                   struct inproc_trash *trash)
{
    struct pod_err cause;
    enum inproc_end end = INPROC_END_NO_MEMORY;

    task->seq = ++driver->next_seq;
    if (driver->state == INPROC_LOST)
        end = INPROC_END_LOST;
    else if (driver->state == INPROC_CLOSING)
        end = INPROC_END_CLOSED;
    else if (pod_map_get(&driver->open, task->call.op) != NULL)
        end = INPROC_END_TWICE;
    else if (pod_map_put(&driver->open, task->call.op, task))
        end = INPROC_END_OK;
    if (end != INPROC_END_OK) {
        (void)pod_err_set(&cause, POD_REASON_HOST_UNAVAILABLE,
                          "host %" PRIu32 " did not accept it", driver->host);
        pod_inproc_task_end_new_locked(driver, task, end, &cause, trash);
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
    }
}

static void task_wake_lanes(struct inproc *driver, unsigned lanes)
{
    for (uint32_t lane = 0; lanes >> lane != 0; lane++) {
        if (lanes >> lane & 1)
            pod_cond_signal(&driver->lanes[lane].wake);
    }
}

void pod_inproc_wake_due_locked(struct inproc *driver)
{
    task_wake_lanes(driver, driver->due);
    driver->due = 0;
}

void pod_inproc_task_wake_locked(struct inproc *driver,
                                 const struct inproc_task *task)
{
    for (size_t i = 0; i < task->part_count; i++)
        pod_cond_signal(&driver->lanes[task->parts[i].lane].wake);
}

// Whether it takes less time than a change of threads.
static bool task_brief_locked(const struct inproc *driver,
                              const struct inproc_task *task)
{
    const struct inproc_allocate *allocate = &task->as.allocate;
    const struct inproc_handle *handle;

    switch (task->kind) {
    case INPROC_ALLOCATE:
        return (allocate->shaped ? (uint64_t)pod_shape_bytes(&allocate->shape)
                                 : allocate->bytes) <= POD_INPROC_BRIEF_BYTES;
    case INPROC_WRITE:
        handle = pod_map_get(&driver->handles, task->as.transfer.buffer);
        // What is lent, however much it is, may have to be copied first.
        return task->as.transfer.count <= POD_INPROC_BRIEF_BYTES &&
               (handle == NULL || !handle->lent);
    case INPROC_READ:
        return task->as.transfer.count <= POD_INPROC_BRIEF_BYTES;
    case INPROC_COPY:
        handle = pod_map_get(&driver->handles, task->as.copy.from);
        return handle != NULL && handle->kind == INPROC_BUFFER &&
               handle->value.bytes <= POD_INPROC_BRIEF_BYTES;
    case INPROC_TUPLE:
    case INPROC_DEALLOCATE:
    case INPROC_COMPILE:
    case INPROC_FREE_PROGRAM:
    case INPROC_LOAD:
    case INPROC_UNLOAD:
    case INPROC_EXECUTE:
    case INPROC_RESET:
        break;
    }
    return false;
}

// Carries out, in the thread of its caller, what has just been queued; false:
// its lane is to do it.
static bool task_run_here_locked(struct inproc *driver,
                                 struct inproc_task *task)
{
    struct inproc_part *part = &task->parts[0];

    if (!task->call.here || driver->state != INPROC_OPEN ||
        part->item.queue == NULL || !task_brief_locked(driver, task))
        return false;
    pod_queue_remove(&part->item);
    task->here = true;
    pod_inproc_run_locked(driver, part);
    return true;
}

// Submits a task of one part; NULL: there was no memory for it.
void pod_inproc_task_submit(struct inproc *driver, struct inproc_task *task,
                            const struct pod_driver_call *call, uint32_t lane)
{
    struct inproc_trash trash;
    unsigned wake = 0;

    if (task == NULL) {
        pod_inproc_task_refuse(driver, call);
        return;
    }
    pod_inproc_trash_init(&trash);
    task->parts[0].lane = lane;
    pod_mutex_lock(&driver->lock);
    pod_inproc_task_submit_locked(driver, task, &trash);
    if (!task_run_here_locked(driver, task))
        driver->due |= 1U << lane;
    if (!call->more) {
        wake = driver->due;
        driver->due = 0;
    }
    pod_mutex_unlock(&driver->lock);
    // Not before: the lanes would wake only to wait for the lock.
    task_wake_lanes(driver, wake);
    pod_inproc_trash_empty(driver, &trash);
}
