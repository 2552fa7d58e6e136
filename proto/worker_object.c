// SPDX-License-Identifier: Apache-2.0
// Things of a session: finding them by number, and who uses them in what order.
#include <inttypes.h>

#include "core/base/mem.h"
#include "proto/worker_internal.h"

// --------------------------------------------------------------------- objects

static size_t object_bytes(const struct worker_object *object)
{
    return sizeof(*object) + WORKER_MORE_BYTES + WORKER_DROP_BYTES +
           object->child_count * sizeof(object->children[0]);
}

void worker_object_unref_locked(struct worker_object *object)
{
    if (object == NULL || --object->refs > 0)
        return;
    // Tuples nest at most POD_SHAPE_MAX_DEPTH deep (worker_op.c checks).
    for (size_t i = 0; i < object->child_count; i++)
        worker_object_unref_locked(object->children[i]);
    object->worker->kept -= object_bytes(object);
    pod_free(object->children);
    pod_free(object);
}

static struct worker_object *object_new(struct worker_session *session,
                                        uint64_t number,
                                        struct worker_op *maker)
{
    struct worker_object *object = pod_calloc(1, sizeof(*object));
    if (object == NULL || !pod_map_put(&session->objects, number, object)) {
        pod_free(object);
        return NULL;
    }
    object->worker = session->worker;
    object->number = number;
    object->refs = 1;
    object->nodes = 1;
    object->maker = maker;
    pod_list_init(&object->readers);
    pod_list_init(&object->writers);
    pod_list_init(&object->member);
    pod_list_push_back(&session->object_list, &object->member);
    object->worker->kept += object_bytes(object);
    return object;
}

void worker_object_made_locked(struct worker *worker,
                               struct worker_object *object, bool made)
{
    if (object->made == made)
        return;
    object->made = made;
    if (object->kind != WORKER_BUFFER)
        return;
    // What was made has a core of this host.
    struct worker_core_load *load = &worker->loads[object->core];
    load->memory_used += made ? object->bytes : -object->bytes;
}

// Takes it out of the session; those who name it keep it.
static void object_drop_locked(struct worker_session *session,
                               struct worker_object *object)
{
    if (pod_map_get(&session->objects, object->number) != object)
        return;
    (void)pod_map_remove(&session->objects, object->number);
    pod_list_remove(&object->member);
    worker_object_made_locked(session->worker, object, false);
    worker_object_unref_locked(object);
}

enum pod_code worker_object_find_locked(struct worker_session *session,
                                        uint64_t number,
                                        struct worker_object **out_object,
                                        uint64_t *out_root, struct pod_err *err)
{
    struct worker_object *object = pod_map_get(&session->objects, number);
    struct worker_op *maker = NULL;
    if (object == NULL) {
        enum pod_code code =
            worker_await_locked(session, number, &maker, out_root, err);
        if (code != POD_OK)
            return code;
        if (maker == NULL || !maker->forward)
            return pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                               "what op-%" PRIu64 " made does not exist",
                               number);
        object = object_new(session, number, maker);
    }
    if (object == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    object->refs++;
    *out_object = object;
    return POD_OK;
}

enum pod_code worker_object_make_locked(struct worker_op *op,
                                        struct pod_err *err)
{
    struct worker_session *session = op->session;
    uint64_t number = op->request.number;
    struct worker_object *object = pod_map_get(&session->objects, number);
    if (object == NULL)
        object = object_new(session, number, op);
    if (object == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    object->maker = op;
    object->driver_op = op->driver_op;
    object->refs++;
    op->makes = object;
    return POD_OK;
}

void worker_objects_settle_locked(struct worker_op *op)
{
    struct worker_object *made = op->makes;
    if (op->takes)
        op->named[0]->leaving = false;
    if (op->worked && worker_drops(op->request.kind))
        object_drop_locked(op->session, op->named[0]);
    if (op->forward) // nobody made what it stood for
        made = pod_map_get(&op->session->objects, op->request.number);
    if (made == NULL || made->maker != op)
        return;
    made->maker = NULL;
    if (op->request.kind == WORKER_LOAD && op->worked)
        made->independent = op->named[0]->independent;
    worker_object_made_locked(op->session->worker, made,
                              op->worked && !op->forward);
    if (!made->made)
        object_drop_locked(op->session, made);
}

// ----------------------------------------------------------------------- edges

enum pod_code worker_dep_locked(struct worker *worker, struct worker_op *on,
                                bool carries, struct pod_err *err)
{
    if (on == NULL || on->settled || on->node == NULL)
        return POD_OK;
    if (worker->dep_count == worker->dep_capacity) {
        size_t capacity = worker->dep_capacity * 2 + 16;
        struct pod_sched_dep *deps =
            pod_realloc(worker->deps, capacity, sizeof(deps[0]));
        if (deps == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
        worker->deps = deps;
        worker->dep_capacity = capacity;
    }
    worker->deps[worker->dep_count++] =
        (struct pod_sched_dep){.node = on->node, .carries = carries};
    return POD_OK;
}

// A stand-in has nothing to do: it is launched when it is submitted.
static struct worker_op *object_stand_in(struct worker_session *session,
                                         uint64_t number, struct pod_err *err)
{
    struct worker *worker = session->worker;
    if (worker->known_only) {
        (void)pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                          "what op-%" PRIu64 " made does not exist", number);
        return NULL;
    }
    if (session->forward_count >= WORKER_MAX_FORWARD) {
        (void)pod_err_set(err, POD_REASON_TOO_MANY_WAITS,
                          "%d operations that others wait for have not come",
                          WORKER_MAX_FORWARD);
        return NULL;
    }
    struct worker_op *op = pod_calloc(1, sizeof(*op));
    struct pod_sched_event event = {.kind = POD_SCHED_SUBMIT,
                                    .now_ns = worker_now(worker),
                                    .user = op,
                                    .deadline_ns = POD_NEVER};
    if (op == NULL || !pod_map_put(&session->ops, number, op)) {
        pod_free(op);
        (void)pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
        return NULL;
    }
    op->forward = true;
    op->request.number = number;
    op->since_ns = event.now_ns;
    op->session = session;
    op->kept = sizeof(*op) + WORKER_MORE_BYTES;
    pod_list_init(&op->turn);
    pod_list_init(&op->member);
    pod_list_init(&op->waiting);
    pod_list_init(&op->visit);
    if (worker_step_locked(worker, &event, &op->node, err) != POD_OK) {
        (void)pod_map_remove(&session->ops, number);
        pod_free(op);
        return NULL;
    }
    worker->kept += op->kept;
    session->refs++;
    session->unsettled++;
    session->forward_count++;
    pod_list_push_back(&session->op_list, &op->member);
    pod_list_push_back(&session->forwards, &op->waiting);
    return op;
}

// How a number ended that is not open: NULL failure: well, or never.
static enum pod_code object_past_locked(struct worker_session *session,
                                        uint64_t number, uint64_t *out_root,
                                        struct pod_err *err)
{
    const struct worker_failure *failure =
        pod_map_get(&session->failures, number);
    if (failure != NULL) {
        *out_root = failure->root != 0 ? failure->root : number;
        if (err != NULL)
            *err = failure->err;
        return failure->err.code;
    }
    if (!worker_ids_has(&session->failed, number))
        return POD_OK;
    *out_root = number;
    return pod_err_set(err, POD_REASON_DEPENDENCY_EXPIRED,
                       "op-%" PRIu64 " failed long ago", number);
}

enum pod_code worker_await_locked(struct worker_session *session,
                                  uint64_t number, struct worker_op **out_op,
                                  uint64_t *out_root, struct pod_err *err)
{
    *out_op = pod_map_get(&session->ops, number);
    if (*out_op != NULL)
        return POD_OK;
    if (number == 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "0 is neither an operation nor a handle");
    enum pod_code code = object_past_locked(session, number, out_root, err);
    if (code != POD_OK || number < session->floor ||
        worker_ids_has(&session->done, number))
        return code;
    *out_op = object_stand_in(session, number, err);
    return *out_op != NULL ? POD_OK : err->code;
}

enum pod_code worker_follow_locked(struct worker_session *session,
                                   uint64_t number, struct worker_op **out_op,
                                   struct pod_err *err)
{
    *out_op = pod_map_get(&session->ops, number);
    if (*out_op != NULL || session->worker->known_only || number == 0 ||
        number < session->floor || worker_ids_has(&session->done, number) ||
        worker_ids_has(&session->failed, number) ||
        pod_map_get(&session->failures, number) != NULL)
        return POD_OK;
    *out_op = object_stand_in(session, number, err);
    return *out_op != NULL ? POD_OK : err->code;
}

// ------------------------------------------------------------------------ uses

// Operations of a session are numbered in the order in which its client made
// them. They may arrive in another order; one that comes late is not put behind
// higher numbers, nor behind what waits for it.
static bool use_before(const struct worker_use *use, const struct worker_op *op)
{
    return use->op->request.number < op->request.number &&
           !worker_link_waits_for_it(op->session->worker, use->op);
}

static enum pod_code use_edges_locked(struct worker_op *op,
                                      struct pod_list *uses,
                                      struct pod_err *err)
{
    enum pod_code code = POD_OK;
    for (struct pod_list *item = uses->next; item != uses && code == POD_OK;
         item = item->next) {
        struct worker_use *use = POD_CONTAINER(item, struct worker_use, link);
        if (use_before(use, op))
            code = worker_dep_locked(op->session->worker, use->op, false, err);
    }
    return code;
}

// A writer waits for all before it, so later ones need not.
static void use_replace_locked(const struct worker_op *op,
                               struct pod_list *uses)
{
    struct pod_list *item = uses->next;
    while (item != uses) {
        struct worker_use *use = POD_CONTAINER(item, struct worker_use, link);
        item = item->next;
        if (use_before(use, op))
            pod_list_remove(&use->link);
    }
}

static void use_enter_locked(struct worker_use *use)
{
    struct worker_object *object = use->object;
    if (!use->write) {
        pod_list_push_back(&object->readers, &use->link);
        return;
    }
    use_replace_locked(use->op, &object->readers);
    use_replace_locked(use->op, &object->writers);
    pod_list_push_back(&object->writers, &use->link);
}

// An operation that writes what it reads, reads it first.
static bool use_is_written_by(const struct worker_object *object,
                              const struct worker_op *op)
{
    for (struct pod_list *item = object->writers.next; item != &object->writers;
         item = item->next) {
        if (POD_CONTAINER(item, struct worker_use, link)->op == op)
            return true;
    }
    return false;
}

static enum pod_code use_add_locked(struct worker_op *op,
                                    struct worker_object *object, bool write,
                                    struct pod_err *err)
{
    if (object->kind == WORKER_TUPLE_OBJECT && object->child_count > 0) {
        enum pod_code code = POD_OK;
        for (size_t i = 0; i < object->child_count && code == POD_OK; i++)
            code = use_add_locked(op, object->children[i], write, err);
        return code;
    }
    if (use_is_written_by(object, op))
        return POD_OK;
    enum pod_code code = use_edges_locked(op, &object->writers, err);
    if (code == POD_OK && write)
        code = use_edges_locked(op, &object->readers, err);
    if (code != POD_OK)
        return code;
    struct worker_use *use = &op->uses[op->use_count++];
    *use = (struct worker_use){.op = op, .object = object, .write = write};
    pod_list_init(&use->link);
    object->refs++;
    use_enter_locked(use);
    return POD_OK;
}

// Whether the i-th thing that an operation names is written by it.
static bool use_writes(const struct worker_op *op, size_t i)
{
    const struct worker_request *request = &op->request;
    switch (request->kind) {
    case WORKER_DEALLOCATE:
    case WORKER_WRITE:
    case WORKER_FREE_PROGRAM:
    case WORKER_UNLOAD:
    case WORKER_TASK:
        return true;
    case WORKER_COPY:
        return i == 1;
    case WORKER_EXECUTE:
        break;
    case WORKER_ALLOCATE:
    case WORKER_TUPLE:
    case WORKER_READ:
    case WORKER_COMPILE:
    case WORKER_LOAD:
        return false;
    }
    for (size_t k = 0; k < request->launch_count; k++) {
        const struct pod_driver_launch *launch = &request->launches[k];
        if (i < 1 + launch->input_count)
            return false;
        i -= 1 + launch->input_count;
        if (i < launch->output_count)
            return true;
        i -= launch->output_count;
    }
    return false;
}

// Writes first, so that what is also read is known as written.
enum pod_code worker_uses_locked(struct worker_op *op, struct pod_err *err)
{
    enum pod_code code = POD_OK;
    size_t count = 0;
    for (size_t i = 0; i < op->named_count; i++)
        count += op->named[i]->nodes;
    if (count > WORKER_MAX_USES)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "an operation uses at most %d buffers",
                           WORKER_MAX_USES);
    op->uses = pod_calloc(count, sizeof(op->uses[0]));
    if (op->uses == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    for (int write = 1; write >= 0; write--) {
        for (size_t i = 0; i < op->named_count && code == POD_OK; i++) {
            if (use_writes(op, i) == (write == 1))
                code = use_add_locked(op, op->named[i], write == 1, err);
        }
    }
    return code;
}

void worker_unuse_locked(struct worker_op *op)
{
    for (size_t i = 0; i < op->use_count; i++) {
        struct worker_use *use = &op->uses[i];
        pod_list_remove(&use->link);
        worker_object_unref_locked(use->object);
    }
    op->use_count = 0;
    pod_free(op->uses);
    op->uses = NULL;
}
