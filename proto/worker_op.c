// SPDX-License-Identifier: Apache-2.0
// Operations: submitted, ended, settled.
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/worker_internal.h"

// ---------------------------------------------------------------------- errors

// For when there is no memory for another one.
static struct pod_err op_no_memory = {.code = POD_RESOURCE_EXHAUSTED,
                                      .reason = POD_REASON_OUT_OF_MEMORY,
                                      .text = "no memory for the error"};

struct pod_err *worker_err_copy(const struct pod_err *err)
{
    struct pod_err *copy = pod_malloc(sizeof(*copy));
    if (copy == NULL)
        return &op_no_memory;
    *copy = *err;
    return copy;
}

void worker_err_free(struct pod_err *err)
{
    if (err != &op_no_memory)
        pod_free(err);
}

void worker_op_blame_locked(struct worker_op *op, const struct pod_err *err,
                            uint64_t root)
{
    if (op->err != NULL)
        return;
    op->err = worker_err_copy(err);
    op->root = root;
}

// ----------------------------------------------------------------- the ending

void worker_op_end_locked(struct worker_op *op, enum pod_sched_state state,
                          const struct worker_op *cause)
{
    struct worker_session *session = op->session;
    struct pod_err err = POD_ERR_NONE;
    if (op->ended)
        return;
    op->ended = true;
    if (state != POD_SCHED_SUCCEEDED) {
        const struct worker_op *culprit = cause != NULL ? cause : op;
        uint64_t root = cause == NULL      ? 0
                        : cause->root != 0 ? cause->root
                                           : cause->request.number;
        (void)pod_err_set(&err, POD_REASON_CANCEL_REQUESTED,
                          "op-%" PRIu64 " was cancelled",
                          culprit->request.number);
        // One that is asked to stop has no error of its own yet.
        worker_op_blame_locked(
            op, cause != NULL && cause->err != NULL ? cause->err : &err, root);
    }
    pod_list_remove(&op->member);
    if (op->forward)
        return;
    (void)pod_map_remove(&session->ops, op->request.number);
    worker_remember_locked(session, op->request.number, op->err, op->root);
    worker_todo_locked(op, WORKER_TODO_ANSWER);
    if (op->gang != NULL)
        worker_gang_ended_locked(op);
}

// A stand-in that ended by itself, for nothing came, is no more waited for.
static void op_forward_gone_locked(struct worker_op *op)
{
    struct worker_session *session = op->session;
    if (pod_list_empty(&op->waiting))
        return;
    pod_list_remove(&op->waiting);
    session->forward_count--;
    if (pod_map_get(&session->ops, op->request.number) == op)
        (void)pod_map_remove(&session->ops, op->request.number);
}

void worker_op_settle_locked(struct worker_op *op)
{
    if (op->settled)
        return;
    op->settled = true;
    worker_unuse_locked(op);
    worker_objects_settle_locked(op);
    if (op->forward)
        op_forward_gone_locked(op);
    else
        op->session->worker->open_ops--;
    if (op->upward)
        op->session->upward--;
    if (op->stand_in != NULL)
        worker_todo_locked(op, WORKER_TODO_RESOLVE);
    worker_session_settled_locked(op->session);
}

static void op_owned_free(const struct worker_request *request)
{
    if (request->task != NULL)
        request->task->free(request->task);
    if (request->plan != NULL)
        request->plan->free(request->plan);
}

void worker_op_free_locked(struct worker_op *op)
{
    if (op == NULL)
        return;
    worker_unuse_locked(op);
    for (size_t i = 0; i < op->named_count; i++)
        worker_object_unref_locked(op->named[i]);
    pod_free(op->named);
    op->session->worker->kept -= op->kept;
    (void)atomic_fetch_sub(&op->session->worker->staged->bytes, op->staged);
    worker_object_unref_locked(op->makes);
    worker_gang_unref_locked(op->gang);
    worker_err_free(op->err);
    pod_blob_unref(op->result);
    if (op->request.data != NULL)
        (void)atomic_fetch_sub(&op->session->worker->staged->bytes,
                               op->request.data->size);
    pod_blob_unref(op->request.data);
    pod_trace_unref(op->request.origin.trace);
    op_owned_free(&op->request);
    if (op->sink != NULL)
        op->sink->unref(op->sink);
    worker_session_unref_locked(op->session);
    pod_free(op);
}

// ------------------------------------------------------------------- building

static struct worker_op *op_new(struct worker_session *session,
                                const struct worker_request *request,
                                struct worker_sink *sink)
{
    size_t bytes = request->launch_count * sizeof(request->launches[0]);
    struct worker_op *op = pod_calloc(1, sizeof(*op) + bytes);
    if (op == NULL)
        return NULL;
    struct pod_driver_launch *launches = worker_op_launches(op);
    op->session = session;
    op->kept = sizeof(*op) + bytes + WORKER_MORE_BYTES;
    session->worker->kept += op->kept;
    op->request = *request;
    op->request.launches = launches;
    (void)pod_trace_ref(request->origin.trace);
    if (bytes > 0)
        memcpy(launches, request->launches, bytes);
    if (request->data != NULL) {
        (void)pod_blob_ref(request->data);
        (void)atomic_fetch_add(&session->worker->staged->bytes,
                               request->data->size);
    }
    if (request->shape != NULL)
        op->shape = *request->shape; // an array's shape owns nothing
    op->sink = sink;
    sink->ref(sink);
    session->refs++;
    op->driver_op = session->worker->next_driver_op++;
    pod_list_init(&op->turn);
    pod_list_init(&op->member);
    pod_list_init(&op->waiting);
    pod_list_init(&op->visit);
    return op;
}

struct pod_driver_launch *worker_op_launches(struct worker_op *op)
{
    return (struct pod_driver_launch *)(op + 1);
}

// ----------------------------------------------------- what an object will be

// A tuple knows those of its children that have come before it, so tuples make
// no circles, and their depth is known.
static enum pod_code op_describe_tuple(struct worker_op *op,
                                       struct worker_object *object,
                                       struct pod_err *err)
{
    object->kind = WORKER_TUPLE_OBJECT;
    object->depth = 1;
    object->nodes = 1;
    object->children = pod_calloc(op->named_count, sizeof(op->named[0]));
    if (object->children == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    for (size_t i = 0; i < op->named_count; i++) {
        struct worker_object *child = op->named[i];
        if (child->kind == WORKER_NO_OBJECT || child == object)
            continue;
        object->children[object->child_count++] = child;
        op->session->worker->kept += sizeof(object->children[0]);
        child->refs++;
        object->nodes += child->nodes;
        if (child->depth >= object->depth)
            object->depth = child->depth + 1;
    }
    if (object->depth > POD_SHAPE_MAX_DEPTH ||
        object->nodes > POD_SHAPE_MAX_NODES)
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "a tuple has at most %d nodes and depth %d",
                           POD_SHAPE_MAX_NODES, POD_SHAPE_MAX_DEPTH);
    return POD_OK;
}

static enum pod_code op_describe(struct worker_op *op, struct pod_err *err)
{
    const struct worker_request *request = &op->request;
    enum worker_kind kind = request->kind;
    if (kind != WORKER_ALLOCATE && kind != WORKER_TUPLE &&
        kind != WORKER_COMPILE && kind != WORKER_LOAD)
        return POD_OK;
    enum pod_code code = worker_object_make_locked(op, err);
    if (code != POD_OK)
        return code;
    struct worker_object *object = op->makes;
    object->core = request->core;
    if (kind == WORKER_TUPLE)
        return op_describe_tuple(op, object, err);
    if (kind == WORKER_COMPILE) {
        object->kind = WORKER_PROGRAM;
        object->independent = request->independent;
    } else if (kind == WORKER_LOAD) {
        object->kind = WORKER_LOADED;
        object->source = request->target;
    } else {
        object->kind = WORKER_BUFFER;
        object->bytes = request->shape != NULL
                            ? (uint64_t)pod_shape_bytes(request->shape)
                            : request->bytes;
    }
    return POD_OK;
}

// ----------------------------------------------------------------- submitting

static bool op_came_before(const struct worker_session *session,
                           uint64_t number)
{
    const struct worker_op *known = pod_map_get(&session->ops, number);
    return number == 0 || number < session->floor ||
           (known != NULL && !known->forward) ||
           worker_ids_has(&session->done, number) ||
           worker_ids_has(&session->failed, number);
}

// Whether it drops a handle that has room for that.
static bool op_has_room(const struct worker_session *session,
                        const struct worker_request *request)
{
    const struct worker_object *object =
        pod_map_get(&session->objects, request->target);
    return worker_drops(request->kind) && object != NULL && !object->leaving;
}

// What the worker has for its clients is not used up.
static enum pod_code op_admit_memory(const struct worker_session *session,
                                     const struct worker_request *request,
                                     struct pod_err *err)
{
    const struct worker *worker = session->worker;
    if (worker_is_full_locked(worker) && !op_has_room(session, request))
        return pod_err_set(err, POD_REASON_TOO_MANY_REQUESTS,
                           "the operations and handles of all clients of this "
                           "worker take %" PRIu64
                           " bytes; the limit is %" PRIu64,
                           worker->kept, worker->client_bytes);
    if (request->data == NULL)
        return POD_OK;
    return worker_staged_check(worker, request->data->size, err);
}

static enum pod_code op_admit(struct worker_session *session,
                              const struct worker_request *request,
                              struct pod_err *err)
{
    uint64_t number = request->number;
    size_t room = session->unsettled + 2; // one is for op_never_locked
    if (session->ending != WORKER_LIVES)
        return pod_err_set(err, POD_REASON_POD_RESET,
                           session->ending == WORKER_RESETS
                               ? "the client is being reset"
                               : "the client is closed");
    if (op_came_before(session, number))
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "op-%" PRIu64 " was sent before", number);
    enum pod_code code = op_admit_memory(session, request, err);
    if (code != POD_OK)
        return code;
    if (session->unsettled >= WORKER_MAX_OPEN)
        return pod_err_set(err, POD_REASON_TOO_MANY_REQUESTS,
                           "%d operations are open", WORKER_MAX_OPEN);
    if (!worker_remember_room_locked(session, &session->done, room) ||
        !worker_remember_room_locked(session, &session->failed, room))
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the numbers of operations");
    return POD_OK;
}

// The number was refused and will be no operation's: who waits for it fails
// now, and not when it has not come for long.
static void op_never_locked(struct worker_session *session, uint64_t number,
                            const struct pod_err *err)
{
    size_t room = session->unsettled + 1;
    const struct worker_ids *failed = &session->failed;
    if (session->ending != WORKER_LIVES || op_came_before(session, number))
        return;
    struct worker_op *stand_in = pod_map_get(&session->ops, number);
    // What is refused because there is no more memory takes no more.
    bool fits = !worker_is_full_locked(session->worker) ||
                failed->capacity - failed->count >= room;
    if (fits && worker_remember_room_locked(session, &session->failed, room))
        worker_remember_locked(session, number, err, 0);
    if (stand_in == NULL)
        return;
    worker_op_blame_locked(stand_in, err, number);
    worker_move_locked(session->worker, POD_SCHED_DONE, stand_in,
                       POD_SCHED_FAILED);
}

// From here on the number is that of the operation.
static void op_adopt_locked(struct worker_op *op)
{
    struct worker_session *session = op->session;
    struct worker_op *known = pod_map_get(&session->ops, op->request.number);
    if (known != NULL) {
        op->stand_in = known;
        pod_list_remove(&known->member);
        pod_list_remove(&known->waiting);
        session->forward_count--;
    }
    session->unsettled++;
    session->worker->open_ops++;
    pod_list_push_back(&session->op_list, &op->member);
}

static enum pod_code op_link_locked(struct worker_op *op,
                                    const struct worker_request *request,
                                    uint64_t *out_root, struct pod_err *err)
{
    enum pod_code code = POD_OK;
    op->session->worker->dep_count = 0;
    op->session->worker->known_only = request->number >> WORKER_OWN_BIT != 0;
    worker_link_upward_locked(op, request);
    // Before anything that may fail, so that the others of the gang learn of
    // it.
    if (request->gathered)
        code = worker_gang_join_locked(op, request->launches[0].load, out_root,
                                       err);
    worker_link_mark_locked(op);
    if (code == POD_OK)
        code = worker_link_waits_locked(op, request, out_root, err);
    if (code == POD_OK)
        code = worker_link_named_locked(op, request, out_root, err);
    if (code == POD_OK)
        code = op_describe(op, err);
    if (code == POD_OK)
        code = worker_uses_locked(op, err);
    return code;
}

// That it drops a handle, in the room that one drop of it has.
static void op_take_locked(struct worker_op *op)
{
    if (!worker_drops(op->request.kind) || op->named[0]->leaving)
        return;
    op->takes = true;
    op->named[0]->leaving = true;
}

// What it takes since it was linked.
static void op_keep_more_locked(struct worker_op *op)
{
    struct worker *worker = op->session->worker;
    size_t bytes = op->named_count * sizeof(op->named[0]) +
                   op->use_count * sizeof(op->uses[0]) +
                   worker->dep_count * sizeof(worker->deps[0]);
    op->kept += bytes;
    worker->kept += bytes;
}

// What was refused, or could not be submitted, ends without the scheduler.
static void op_end_alone_locked(struct worker_op *op, const struct pod_err *err,
                                uint64_t root)
{
    worker_op_blame_locked(op, err, root);
    worker_op_end_locked(op, POD_SCHED_FAILED, NULL);
    worker_op_settle_locked(op);
    worker_todo_locked(op, WORKER_TODO_FREE);
}

static void op_submit_locked(struct worker_op *op,
                             const struct worker_request *request)
{
    struct worker *worker = op->session->worker;
    struct pod_err err = POD_ERR_NONE;
    uint64_t root = 0;
    op_adopt_locked(op);
    enum pod_code code = op_link_locked(op, request, &root, &err);
    op_keep_more_locked(op);
    if (code == POD_OK)
        op_take_locked(op);
    struct pod_sched_event event = {
        .kind = POD_SCHED_SUBMIT,
        .now_ns = worker_now(worker),
        .user = op,
        .deps = worker->deps,
        .dep_count = worker->dep_count,
        .priority = (int8_t)request->priority,
        .deadline_ns = POD_NEVER,
    };
    if (code == POD_OK && !pod_map_put(&op->session->ops, request->number, op))
        code = pod_err_set(&err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (code == POD_OK)
        code = worker_step_locked(worker, &event, &op->node, &err);
    if (request->kind == WORKER_WRITE)
        op->session->data_ns = event.now_ns;
    if (code != POD_OK)
        op_end_alone_locked(op, &err, root);
}

static void op_answer_refusal(const struct worker_session *session,
                              struct worker_sink *sink,
                              const struct worker_request *request,
                              const struct pod_err *err)
{
    struct worker_answer answer = {
        .session = session->id, .number = request->number, .err = err};
    worker_log_ended(session->id, request, err, 0);
    sink->answer(sink, &answer);
}

void worker_submit(struct worker_session *session,
                   const struct worker_request *request,
                   struct worker_sink *sink)
{
    struct worker *worker = session->worker;
    struct pod_err err = POD_ERR_NONE;
    struct worker_op *op = NULL;
    pod_mutex_lock(&worker->lock);
    enum pod_code code = op_admit(session, request, &err);
    if (code == POD_OK)
        op = op_new(session, request, sink);
    if (code == POD_OK && op == NULL)
        (void)pod_err_set(&err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (op != NULL)
        op_submit_locked(op, request);
    else
        op_never_locked(session, request->number, &err);
    worker_flush_locked(worker);
    pod_mutex_unlock(&worker->lock);
    if (op != NULL)
        return;
    if (request->plan != NULL)
        request->plan->end(request->plan, &err);
    op_owned_free(request);
    op_answer_refusal(session, sink, request, &err);
}

void worker_refuse(struct worker_session *session,
                   const struct worker_request *refused,
                   const struct pod_err *err, struct worker_sink *sink)
{
    struct worker *worker = session->worker;
    struct worker_request request = {.kind = refused->kind,
                                     .number = refused->number,
                                     .origin = refused->origin};
    struct pod_err other = *err;
    struct worker_op *op = NULL;
    pod_mutex_lock(&worker->lock);
    if (op_admit(session, &request, &other) == POD_OK)
        op = op_new(session, &request, sink);
    if (op != NULL) {
        op_adopt_locked(op);
        op_end_alone_locked(op, err, 0);
    } else {
        op_never_locked(session, request.number, &other);
    }
    worker_flush_locked(worker);
    pod_mutex_unlock(&worker->lock);
    if (op == NULL)
        op_answer_refusal(session, sink, &request, &other);
}

void worker_cancel(struct worker_session *session, uint64_t number)
{
    struct worker *worker = session->worker;
    pod_mutex_lock(&worker->lock);
    struct worker_op *op = pod_map_get(&session->ops, number);
    if (op != NULL && !op->forward)
        worker_move_locked(worker, POD_SCHED_CANCEL, op, POD_SCHED_CANCELLED);
    worker_flush_locked(worker);
    pod_mutex_unlock(&worker->lock);
}

bool worker_loaded_core(struct worker_session *session, uint64_t number,
                        uint32_t *out_core)
{
    struct worker *worker = session->worker;
    pod_mutex_lock(&worker->lock);
    const struct worker_object *object = pod_map_get(&session->objects, number);
    bool found = object != NULL && object->kind == WORKER_LOADED;
    if (found)
        *out_core = object->core;
    pod_mutex_unlock(&worker->lock);
    return found;
}
