// SPDX-License-Identifier: Apache-2.0
// Calls of the driver, and their results.
#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/driver/text_ids.h"
#include "core/hlo/shape_proto.h"
#include "proto/worker_internal.h"

// --------------------------------------------------------------------- results

// A compilation's signature is borrowed for the callback: packed at once.
static struct pod_blob *run_pack_shape(const struct pod_program_shape *shape)
{
    Xla__ProgramShapeProto *proto = pod_program_shape_to_proto(shape, NULL);
    if (proto == NULL)
        return NULL;
    struct pod_blob *blob =
        pod_blob_new(xla__program_shape_proto__get_packed_size(proto));
    if (blob != NULL)
        (void)xla__program_shape_proto__pack(proto, blob->data);
    xla__program_shape_proto__free_unpacked(proto, &pod_shape_heap);
    return blob;
}

static void run_finish_locked(struct worker_op *op, bool worked,
                              const struct pod_err *err)
{
    struct worker *worker = op->session->worker;
    op->worked = worked;
    if (!worked)
        worker_op_blame_locked(op, err, 0);
    worker_move_locked(worker, POD_SCHED_DONE, op,
                       worked                       ? POD_SCHED_SUCCEEDED
                       : err->code == POD_CANCELLED ? POD_SCHED_CANCELLED
                                                    : POD_SCHED_FAILED);
}

static void run_keep_result(struct worker_op *op,
                            const struct pod_driver_result *result,
                            struct pod_err *err)
{
    bool compiled = op->request.kind == WORKER_COMPILE;
    if (compiled && result->shape != NULL)
        op->result = run_pack_shape(result->shape);
    else if (op->request.kind == WORKER_READ && result->data != NULL)
        op->result = worker_staged_keep(op, result->data);
    else if (result->data != NULL)
        op->result = pod_blob_ref(result->data);
    if (op->result == NULL && (compiled || op->request.kind == WORKER_READ))
        (void)pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
}

enum run_event { RUN_GIVEN, RUN_BEGUN, RUN_DONE };

// Executions that the device has, core by core.
static void run_count_locked(const struct worker_op *op, enum run_event event)
{
    size_t at = 0;
    for (size_t i = 0; i < op->request.launch_count; i++) {
        const struct pod_driver_launch *launch = &op->request.launches[i];
        struct worker_core_load *load =
            &op->session->worker->loads[op->named[at]->core];
        bool runs = load->running == op->request.number &&
                    load->session == op->session->id;
        if (event == RUN_GIVEN) {
            load->queued++;
        } else if (event == RUN_BEGUN) {
            load->running = op->request.number;
            load->session = op->session->id;
        } else {
            load->queued--;
            load->running = runs ? 0 : load->running;
        }
        at += 1 + launch->input_count + launch->output_count;
    }
}

// The session's number of what the driver knows by another; 0: it is another
// client's. For errors, so it need not be fast.
static uint64_t run_number_locked(void *arg, uint64_t driver_op)
{
    const struct worker_session *session = arg;
    for (struct pod_list *at = session->object_list.next;
         at != &session->object_list; at = at->next) {
        const struct worker_object *object =
            POD_CONTAINER(at, struct worker_object, member);
        if (object->driver_op == driver_op)
            return object->number;
    }
    return 0;
}

static void run_begun_locked(struct worker_op *op)
{
    if (op->request.kind == WORKER_EXECUTE)
        run_count_locked(op, RUN_BEGUN);
    if (!op->ended && op->request.want_started)
        worker_todo_locked(op, WORKER_TODO_STARTED);
}

static void run_done(void *arg, const struct pod_driver_result *result)
{
    struct worker_op *op = arg;
    struct worker *worker = op->session->worker;
    struct pod_err err = result->err;
    pod_mutex_lock(&worker->lock);
    bool worked = err.code == POD_OK;
    if (result->begun)
        run_begun_locked(op);
    if (!worked)
        pod_text_ids_replace(&err, run_number_locked, op->session);
    if (op->request.kind == WORKER_EXECUTE)
        run_count_locked(op, RUN_DONE);
    if (worked)
        run_keep_result(op, result, &err);
    // A program whose signature could not be kept is there all the same, and
    // is freed with the session.
    run_finish_locked(op, worked && err.code == POD_OK, &err);
    worker_flush_locked(worker);
    pod_mutex_unlock(&worker->lock);
}

static void run_started(void *arg)
{
    struct worker_op *op = arg;
    struct worker *worker = op->session->worker;
    pod_mutex_lock(&worker->lock);
    run_begun_locked(op);
    worker_flush_locked(worker);
    pod_mutex_unlock(&worker->lock);
}

// ------------------------------------------------------------------- the calls

enum { RUN_FEW = 4 };

// What a call takes, copied out so that it can be made without the lock.
struct run_call {
    struct worker_op *op;
    struct pod_driver *driver;
    struct pod_driver_call call;
    uint64_t *handles; // of op->named: `few`, or in memory of their own
    uint64_t few[RUN_FEW];
    uint64_t bytes; // of a whole read
};

static void run_transfer(const struct run_call *run)
{
    const struct worker_request *request = &run->op->request;
    const struct pod_driver_ops *ops = run->driver->ops;
    if (request->kind == WORKER_WRITE)
        ops->write(run->driver, &run->call, run->handles[0], request->offset,
                   request->data, request->data_offset, request->data_count);
    else if (request->kind == WORKER_READ)
        // From the device's own memory to the stream, if it lends that.
        (ops->lend != NULL ? ops->lend : ops->read)(
            run->driver, &run->call, run->handles[0], request->offset,
            request->whole ? (size_t)run->bytes : (size_t)request->count);
    else
        ops->copy(run->driver, &run->call, run->handles[0], run->handles[1]);
}

static void run_make(const struct run_call *run)
{
    const struct worker_request *request = &run->op->request;
    const struct pod_driver_ops *ops = run->driver->ops;
    if (request->kind == WORKER_ALLOCATE)
        ops->allocate(run->driver, &run->call, request->core,
                      request->shape != NULL ? &run->op->shape : NULL,
                      request->bytes);
    else if (request->kind == WORKER_TUPLE)
        ops->allocate_tuple(run->driver, &run->call, request->core,
                            run->handles, run->op->named_count);
    else if (request->kind == WORKER_COMPILE)
        ops->compile(run->driver, &run->call, request->format, request->data,
                     request->replicas);
    else
        ops->load(run->driver, &run->call, request->core, run->handles[0]);
}

static void run_drop(const struct run_call *run)
{
    const struct pod_driver_ops *ops = run->driver->ops;
    enum worker_kind kind = run->op->request.kind;
    if (kind == WORKER_DEALLOCATE)
        ops->deallocate(run->driver, &run->call, run->handles[0]);
    else if (kind == WORKER_FREE_PROGRAM)
        ops->free_program(run->driver, &run->call, run->handles[0]);
    else
        ops->unload(run->driver, &run->call, run->handles[0]);
}

static void run_single(const struct run_call *run)
{
    switch (run->op->request.kind) {
    case WORKER_ALLOCATE:
    case WORKER_TUPLE:
    case WORKER_COMPILE:
    case WORKER_LOAD:
        run_make(run);
        break;
    case WORKER_WRITE:
    case WORKER_READ:
    case WORKER_COPY:
        run_transfer(run);
        break;
    case WORKER_DEALLOCATE:
    case WORKER_FREE_PROGRAM:
    case WORKER_UNLOAD:
        run_drop(run);
        break;
    case WORKER_EXECUTE:
    case WORKER_TASK: // not here
        break;
    }
}

static struct pod_driver_call run_describe(struct worker_op *op)
{
    return (struct pod_driver_call){
        .op = op->driver_op,
        .priority = op->request.priority,
        .here = true,
        .started =
            op->request.want_started || op->request.kind == WORKER_EXECUTE
                ? run_started
                : NULL,
        .done = run_done,
        .arg = op,
    };
}

static void run_refuse_locked(struct worker_op *op, const struct pod_err *err)
{
    run_finish_locked(op, false, err);
}

static void run_single_locked(struct worker_op *op)
{
    struct worker *worker = op->session->worker;
    struct run_call run = {
        .op = op, .driver = worker->driver, .call = run_describe(op)};
    struct pod_err err = POD_ERR_NONE;
    enum pod_code code = worker_staged_read_locked(op, &err);
    if (code == POD_OK)
        run.handles = op->named_count <= RUN_FEW
                          ? run.few
                          : pod_calloc(op->named_count, sizeof(run.handles[0]));
    if (code == POD_OK && run.handles == NULL)
        code = pod_err_set(&err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (code != POD_OK) {
        run_refuse_locked(op, &err);
        return;
    }
    for (size_t i = 0; i < op->named_count; i++)
        run.handles[i] = op->named[i]->driver_op;
    if (op->request.whole)
        run.bytes = op->named[0]->bytes;
    pod_mutex_unlock(&worker->lock);
    run_single(&run);
    if (run.handles != run.few)
        pod_free(run.handles);
    pod_mutex_lock(&worker->lock);
}

// The original protocol reads and writes tuples as nothing.
static bool run_nothing_locked(struct worker_op *op)
{
    struct pod_err none = POD_ERR_NONE;
    if (!op->request.whole || op->named[0]->kind != WORKER_TUPLE_OBJECT)
        return false;
    op->result = pod_blob_new(0);
    run_finish_locked(op, true, &none);
    return true;
}

// ----------------------------------------------------------------------- tasks

void worker_task_done(struct worker_op *op, const struct pod_err *err)
{
    struct worker *worker = op->session->worker;
    pod_mutex_lock(&worker->lock);
    run_finish_locked(op, err->code == POD_OK, err);
    worker_flush_locked(worker);
    pod_mutex_unlock(&worker->lock);
}

void worker_driver_write(struct worker *worker, uint64_t driver_buffer,
                         uint64_t offset, struct pod_blob *blob,
                         void (*done)(void *arg,
                                      const struct pod_driver_result *result),
                         void *arg)
{
    struct pod_driver_call call = {.done = done, .arg = arg};
    pod_mutex_lock(&worker->lock);
    call.op = worker->next_driver_op++;
    pod_mutex_unlock(&worker->lock);
    worker->driver->ops->write(worker->driver, &call, driver_buffer, offset,
                               blob, 0, blob->size);
}

static void run_task_locked(struct worker_op *op)
{
    struct worker *worker = op->session->worker;
    struct pod_err err = POD_ERR_NONE;
    if (op->named[0]->kind == WORKER_TUPLE_OBJECT) {
        (void)pod_err_set(&err, POD_REASON_IS_A_TUPLE,
                          "buf-%" PRIu64 " is a tuple", op->named[0]->number);
        run_refuse_locked(op, &err);
        return;
    }
    uint64_t buffer = op->named[0]->driver_op;
    uint64_t bytes = op->named[0]->bytes;
    if (!op->ended && op->request.want_started)
        worker_todo_locked(op, WORKER_TODO_STARTED);
    pod_mutex_unlock(&worker->lock);
    op->request.task->start(op->request.task, op, buffer, bytes);
    pod_mutex_lock(&worker->lock);
}

// ------------------------------------------------------------------ executions

// The launches of one call, with the driver's handles.
struct run_launches {
    struct pod_driver_launch *launches;
    size_t count;
    uint64_t *handles;
    uint32_t *zeros; // hosts and cores of the replicas: all here
};

static void run_launches_fini(struct run_launches *all)
{
    pod_free(all->launches);
    pod_free(all->handles);
    pod_free(all->zeros);
}

static bool run_launches_init(struct run_launches *all, size_t launch_count,
                              size_t handle_count, size_t replica_count)
{
    all->launches = pod_calloc(launch_count, sizeof(all->launches[0]));
    all->handles = pod_calloc(handle_count, sizeof(all->handles[0]));
    all->zeros = pod_calloc(replica_count, sizeof(all->zeros[0]));
    return all->launches != NULL && all->handles != NULL && all->zeros != NULL;
}

static void run_launches_add(struct run_launches *all,
                             const struct worker_op *op, uint64_t **handles)
{
    size_t at = 0;
    for (size_t i = 0; i < op->request.launch_count; i++) {
        struct pod_driver_launch launch = op->request.launches[i];
        launch.load = op->named[at++]->driver_op;
        launch.inputs = *handles;
        launch.outputs = *handles + launch.input_count;
        for (size_t k = 0; k < launch.input_count + launch.output_count; k++)
            *(*handles)++ = op->named[at++]->driver_op;
        all->launches[all->count++] = launch;
    }
}

static bool run_gather(struct worker_op *op, struct run_launches *all)
{
    const struct worker_gang *gang = op->gang;
    size_t members = gang != NULL ? gang->count : 1;
    struct worker_op *const *ops = gang != NULL ? gang->members : &op;
    size_t handle_count = 0;
    size_t launch_count = 0;
    for (size_t i = 0; i < members; i++) {
        handle_count += ops[i]->named_count;
        launch_count += ops[i]->request.launch_count;
    }
    if (!run_launches_init(all, launch_count, handle_count,
                           op->request.replica_count))
        return false;
    uint64_t *handles = all->handles;
    for (size_t i = 0; i < members; i++)
        run_launches_add(all, ops[i], &handles);
    return true;
}

static void run_gang_started(void *arg)
{
    struct worker_gang *gang = arg;
    pod_mutex_lock(&gang->worker->lock);
    for (size_t i = 0; i < gang->count; i++)
        run_count_locked(gang->running[i], RUN_BEGUN);
    pod_mutex_unlock(&gang->worker->lock);
}

// The members of a gang end together; each may go when it has.
static void run_gang_done(void *arg, const struct pod_driver_result *result)
{
    struct worker_gang *gang = arg;
    struct worker *worker = gang->worker;
    struct pod_err err = result->err;
    pod_mutex_lock(&worker->lock);
    if (err.code != POD_OK)
        pod_text_ids_replace(&err, run_number_locked,
                             gang->running[0]->session);
    for (size_t i = 0; i < gang->count; i++) {
        struct worker_op *op = gang->running[i];
        run_count_locked(op, RUN_DONE);
        run_finish_locked(op, err.code == POD_OK, &err);
    }
    worker_gang_unref_locked(gang);
    worker_flush_locked(worker);
    pod_mutex_unlock(&worker->lock);
}

static void run_gang_refuse_locked(struct worker_op *op,
                                   const struct pod_err *err)
{
    struct worker_gang *gang = op->gang;
    if (gang == NULL) {
        run_refuse_locked(op, err);
        return;
    }
    gang->launched = false;
    run_refuse_locked(op, err); // the others follow
}

static bool run_plan_begins(const struct worker_op *op,
                            struct pod_driver_execute *execute,
                            struct pod_err *err)
{
    struct worker_plan *plan = op->request.plan;
    if (plan == NULL)
        return true;
    execute->replica_hosts = plan->places;
    return plan->begin(plan, op->driver_op, err) == POD_OK;
}

static void run_execute_locked(struct worker_op *op)
{
    struct worker *worker = op->session->worker;
    struct worker_gang *gang = op->gang;
    struct pod_driver_call call = run_describe(op);
    struct run_launches all = {.count = 0};
    struct pod_err err = POD_ERR_NONE;
    if (!run_gather(op, &all)) {
        run_launches_fini(&all);
        (void)pod_err_set(&err, POD_REASON_OUT_OF_MEMORY, "no memory");
        run_gang_refuse_locked(op, &err);
        return;
    }
    struct pod_driver_execute execute = {
        .launches = all.launches,
        .launch_count = all.count,
        .replica_count = op->request.replica_count,
        .replica_hosts = all.zeros,
        .replica_cores = all.zeros,
        .replica_worker_cores = all.zeros,
    };
    if (gang == NULL)
        run_count_locked(op, RUN_GIVEN);
    if (gang != NULL) {
        worker_gang_begin_locked(gang, op->driver_op);
        for (size_t i = 0; i < gang->count; i++)
            run_count_locked(gang->running[i], RUN_GIVEN);
        call.started = run_gang_started;
        call.done = run_gang_done;
        call.arg = gang;
    }
    pod_mutex_unlock(&worker->lock);
    if (run_plan_begins(op, &execute, &err))
        worker->driver->ops->execute(worker->driver, &call, &execute);
    run_launches_fini(&all);
    pod_mutex_lock(&worker->lock);
    if (err.code == POD_OK)
        return;
    run_count_locked(op, RUN_DONE);
    run_refuse_locked(op, &err);
}

// Replicas that have nothing to do with each other need not meet.
static void run_alone_locked(struct worker_op *op)
{
    struct pod_driver_launch *launches = worker_op_launches(op);
    worker_gang_detach_locked(op);
    launches[0].replica = 0;
    op->request.replica_count = 1;
}

void worker_launch_locked(struct worker_op *op)
{
    struct pod_err err = POD_ERR_NONE;
    if (op->settled)
        return;
    if (op->ended) {
        run_refuse_locked(op, op->err);
        return;
    }
    if (worker_check(op, &err) != POD_OK) {
        run_refuse_locked(op, &err);
        return;
    }
    if (run_nothing_locked(op))
        return;
    if (op->request.kind == WORKER_EXECUTE && op->named[0]->independent)
        run_alone_locked(op);
    if (op->request.kind == WORKER_TASK)
        run_task_locked(op);
    else if (op->request.kind != WORKER_EXECUTE)
        run_single_locked(op);
    else if (op->gang == NULL || worker_gang_ready_locked(op))
        run_execute_locked(op);
}
