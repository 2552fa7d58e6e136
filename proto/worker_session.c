// SPDX-License-Identifier: Apache-2.0
// Sessions: opened, idle, reset, closed.
//
// A session that closes or resets ends its open operations at once, waits until
// they have settled, and then frees its things one by one on the driver. A
// closed one is then taken out of the map; its memory goes with its last
// reference.
#include <inttypes.h>

#include "core/base/mem.h"
#include "proto/worker_internal.h"

// ------------------------------------------------------------------ references

static void session_free_locked(struct worker_session *session)
{
    worker_forget_texts_locked(session);
    session->worker->kept -= session->kept;
    pod_map_fini(&session->failures);
    pod_map_fini(&session->ops);
    pod_map_fini(&session->objects);
    worker_ids_fini(&session->done);
    worker_ids_fini(&session->failed);
    pod_free(session);
}

void worker_session_unref_locked(struct worker_session *session)
{
    if (--session->refs == 0)
        session_free_locked(session);
}

void worker_session_unref(struct worker_session *session)
{
    if (session == NULL)
        return;
    struct worker *worker = session->worker;
    pod_mutex_lock(&worker->lock);
    worker_session_unref_locked(session);
    pod_mutex_unlock(&worker->lock);
}

uint64_t worker_session_id(const struct worker_session *session)
{
    return session->id;
}

// --------------------------------------------------------------------- opening

enum pod_code worker_open(struct worker *worker, uint64_t id, int64_t idle_ns,
                          struct pod_err *err)
{
    struct worker_session *session = pod_calloc(1, sizeof(*session));
    enum pod_code code = POD_OK;
    if (session == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    session->worker = worker;
    session->id = id;
    session->refs = 1;
    session->floor = 1;
    session->next_own = UINT64_C(1) << WORKER_OWN_BIT;
    session->idle_ns = idle_ns;
    pod_list_init(&session->op_list);
    pod_list_init(&session->object_list);
    pod_list_init(&session->failure_list);
    pod_list_init(&session->forwards);
    pod_list_init(&session->gangs);
    pod_list_init(&session->waiters);
    pod_list_init(&session->sweep);
    pod_mutex_lock(&worker->lock);
    session->expires_ns = pod_time_add(worker_now(worker), idle_ns);
    if (pod_map_get(&worker->sessions, id) != NULL)
        code = pod_err_set_code(err, POD_ALREADY_EXISTS, POD_REASON_IN_USE,
                                "session %" PRIu64 " is open", id);
    else if (worker->sessions.count >= WORKER_MAX_SESSIONS)
        code = pod_err_set(err, POD_REASON_TOO_MANY_REQUESTS,
                           "%d clients have a session; those without a stream "
                           "are given up in time",
                           WORKER_MAX_SESSIONS);
    else if (!pod_map_put(&worker->sessions, id, session))
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (code != POD_OK)
        session_free_locked(session);
    pod_mutex_unlock(&worker->lock);
    return code;
}

struct worker_session *worker_find(struct worker *worker, uint64_t id)
{
    pod_mutex_lock(&worker->lock);
    struct worker_session *session = pod_map_get(&worker->sessions, id);
    if (session != NULL && session->ending >= WORKER_CLOSES)
        session = NULL;
    if (session != NULL)
        session->refs++;
    pod_mutex_unlock(&worker->lock);
    return session;
}

enum pod_code worker_list(struct worker *worker, uint64_t **out_ids,
                          size_t *out_count, struct pod_err *err)
{
    size_t cursor = 0;
    size_t count = 0;
    uint64_t id;
    void *session;
    pod_mutex_lock(&worker->lock);
    uint64_t *ids = pod_calloc(worker->sessions.count, sizeof(ids[0]));
    while (ids != NULL &&
           pod_map_next(&worker->sessions, &cursor, &id, &session))
        ids[count++] = id;
    pod_mutex_unlock(&worker->lock);
    if (ids == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    *out_ids = ids;
    *out_count = count;
    return POD_OK;
}

void worker_stream_begins(struct worker_session *session)
{
    pod_mutex_lock(&session->worker->lock);
    session->streams++;
    session->refs++;
    pod_mutex_unlock(&session->worker->lock);
}

void worker_stream_ends(struct worker_session *session, bool gone)
{
    struct worker *worker = session->worker;
    pod_mutex_lock(&worker->lock);
    if (--session->streams == 0)
        session->expires_ns = pod_time_add(
            worker_now(worker), gone ? worker->gone_ns : session->idle_ns);
    worker_session_unref_locked(session);
    pod_mutex_unlock(&worker->lock);
}

uint64_t worker_own_number(struct worker_session *session)
{
    pod_mutex_lock(&session->worker->lock);
    uint64_t number = session->next_own++;
    pod_mutex_unlock(&session->worker->lock);
    return number;
}

// --------------------------------------------------------------------- closing

static void session_end_op_locked(struct worker_op *op, const char *why)
{
    struct worker *worker = op->session->worker;
    struct pod_err err = POD_ERR_NONE;
    if (op->ended)
        return;
    (void)pod_err_set(&err, POD_REASON_CANCEL_REQUESTED, "%s", why);
    worker_op_blame_locked(op, &err, 0);
    if (op->forward) {
        worker_move_locked(worker, POD_SCHED_DONE, op, POD_SCHED_CANCELLED);
        return;
    }
    bool launched = pod_sched_node_launched(op->node);
    bool gathering = op->gang != NULL && !op->gang->launched;
    worker_move_locked(worker, POD_SCHED_END, op, POD_SCHED_CANCELLED);
    // In a gang that has not begun it waits for others, not for the driver.
    if (launched && gathering)
        worker_move_locked(worker, POD_SCHED_DONE, op, POD_SCHED_CANCELLED);
    else if (launched)
        worker_todo_locked(op, WORKER_TODO_CANCEL);
}

static void session_end_ops_locked(struct worker_session *session,
                                   const char *why)
{
    struct pod_list *item;
    while ((item = pod_list_pop_front(&session->op_list)) != NULL)
        session_end_op_locked(POD_CONTAINER(item, struct worker_op, member),
                              why);
    while (!pod_list_empty(&session->gangs))
        worker_gang_leave_list_locked(
            POD_CONTAINER(session->gangs.next, struct worker_gang, link));
}

static void session_sweep_soon_locked(struct worker_session *session)
{
    if (session->unsettled > 0 || session->sweeping > 0)
        return;
    pod_list_remove(&session->sweep);
    pod_list_push_back(&session->worker->sweeps, &session->sweep);
}

void worker_session_end_locked(struct worker_session *session,
                               enum worker_ending ending, const char *why)
{
    if (session->ending >= ending)
        return;
    session->ending = ending;
    session_end_ops_locked(session, why);
    session_sweep_soon_locked(session);
}

static void session_end(struct worker_session *session,
                        enum worker_ending ending, const char *why,
                        void (*done)(void *arg), void *arg)
{
    struct worker *worker = session->worker;
    struct worker_waiter *waiter = pod_calloc(1, sizeof(*waiter));
    pod_mutex_lock(&worker->lock);
    bool wait = waiter != NULL && session->ending != WORKER_GONE;
    if (wait) {
        *waiter = (struct worker_waiter){.done = done, .arg = arg};
        pod_list_push_back(&session->waiters, &waiter->link);
    }
    worker_session_end_locked(session, ending, why);
    worker_flush_locked(worker);
    pod_mutex_unlock(&worker->lock);
    if (wait)
        return;
    pod_free(waiter);
    if (done != NULL)
        done(arg);
}

void worker_close(struct worker_session *session, const char *why,
                  void (*closed)(void *arg), void *arg)
{
    session_end(session, WORKER_CLOSES, why, closed, arg);
}

void worker_reset(struct worker_session *session, void (*done)(void *arg),
                  void *arg)
{
    session_end(session, WORKER_RESETS, "the client was reset", done, arg);
}

void worker_session_settled_locked(struct worker_session *session)
{
    session->unsettled--;
    if (session->ending != WORKER_LIVES)
        session_sweep_soon_locked(session);
}

// -------------------------------------------------------------------- sweeping

static void session_swept_locked(struct worker_session *session)
{
    struct worker *worker = session->worker;
    struct pod_list waiters;
    struct pod_list *item;
    pod_list_init(&waiters);
    pod_list_splice(&waiters, &session->waiters);
    if (session->ending == WORKER_CLOSES) {
        session->ending = WORKER_GONE;
        (void)pod_map_remove(&worker->sessions, session->id);
        worker_session_unref_locked(session);
    } else if (session->ending == WORKER_RESETS) {
        session->ending = WORKER_LIVES;
    }
    pod_cond_broadcast(&worker->changed);
    pod_mutex_unlock(&worker->lock);
    while ((item = pod_list_pop_front(&waiters)) != NULL) {
        struct worker_waiter *waiter =
            POD_CONTAINER(item, struct worker_waiter, link);
        if (waiter->done != NULL)
            waiter->done(waiter->arg);
        pod_free(waiter);
    }
    pod_mutex_lock(&worker->lock);
}

// Whatever came of it: the driver has let go.
static void session_freed(void *arg, const struct pod_driver_result *result)
{
    struct worker_session *session = arg;
    struct worker *worker = session->worker;
    (void)result;
    pod_mutex_lock(&worker->lock);
    if (--session->sweeping == 0)
        session_swept_locked(session);
    pod_mutex_unlock(&worker->lock);
}

static void session_free_object(struct worker *worker,
                                const struct pod_driver_call *call,
                                enum worker_object_kind kind,
                                uint64_t driver_op)
{
    const struct pod_driver_ops *ops = worker->driver->ops;
    if (kind == WORKER_LOADED)
        ops->unload(worker->driver, call, driver_op);
    else if (kind == WORKER_PROGRAM)
        ops->free_program(worker->driver, call, driver_op);
    else
        ops->deallocate(worker->driver, call, driver_op);
}

// Takes one thing out of the session and frees it; false: there is none.
static bool session_sweep_one_locked(struct worker_session *session)
{
    struct worker *worker = session->worker;
    struct pod_list *item = pod_list_pop_front(&session->object_list);
    if (item == NULL)
        return false;
    struct worker_object *object =
        POD_CONTAINER(item, struct worker_object, member);
    (void)pod_map_remove(&session->objects, object->number);
    enum worker_object_kind kind = object->kind;
    uint64_t driver_op = object->driver_op;
    bool made = object->made;
    worker_object_made_locked(worker, object, false);
    worker_object_unref_locked(object);
    if (!made)
        return true;
    struct pod_driver_call call = {
        .op = worker->next_driver_op++, .done = session_freed, .arg = session};
    session->sweeping++;
    pod_mutex_unlock(&worker->lock);
    session_free_object(worker, &call, kind, driver_op);
    pod_mutex_lock(&worker->lock);
    return true;
}

void worker_session_sweep_locked(struct worker_session *session)
{
    session->sweeping++; // this loop's
    while (session_sweep_one_locked(session))
        ;
    if (--session->sweeping == 0)
        session_swept_locked(session);
}

// ------------------------------------------------------------------------ time

// What only follows a number that does not come fails, too: it cannot be known
// to run behind it.
static void session_fail_followers_locked(const struct worker_op *stand_in)
{
    struct worker *worker = stand_in->session->worker;
    uint64_t number = stand_in->request.number;
    const void *cursor = NULL;
    void *user = NULL;
    bool carries = false;
    struct pod_list list;
    struct pod_list *item;
    struct pod_err err;

    (void)pod_err_set(&err, POD_REASON_DEPENDENCY_EXPIRED,
                      "op-%" PRIu64
                      ", which it follows, did not come within %d s",
                      number, (int)(WORKER_FORWARD_NS / POD_NS_PER_S));
    pod_list_init(&list);
    while (pod_sched_next_dependent(worker->sched, stand_in->node, &cursor,
                                    &user, &carries)) {
        struct worker_op *op = user;
        if (!carries && pod_list_empty(&op->visit))
            pod_list_push_back(&list, &op->visit);
    }
    while ((item = pod_list_pop_front(&list)) != NULL) {
        struct worker_op *op = POD_CONTAINER(item, struct worker_op, visit);
        worker_op_blame_locked(op, &err, number);
        worker_move_locked(worker, POD_SCHED_END, op, POD_SCHED_FAILED);
    }
}

static void session_expire_forwards_locked(struct worker_session *session,
                                           int64_t now_ns)
{
    while (!pod_list_empty(&session->forwards)) {
        struct worker_op *op =
            POD_CONTAINER(session->forwards.next, struct worker_op, waiting);
        struct pod_err err = POD_ERR_NONE;
        int64_t since_ns =
            op->since_ns > session->data_ns ? op->since_ns : session->data_ns;
        if (pod_time_add(since_ns, WORKER_FORWARD_NS) > now_ns)
            return;
        (void)pod_err_set(&err, POD_REASON_UNKNOWN_HANDLE,
                          "op-%" PRIu64 " did not come within %d s",
                          op->request.number,
                          (int)(WORKER_FORWARD_NS / POD_NS_PER_S));
        session_fail_followers_locked(op);
        worker_op_blame_locked(op, &err, 0);
        worker_move_locked(session->worker, POD_SCHED_DONE, op,
                           POD_SCHED_FAILED);
    }
}

void worker_tick(struct worker *worker)
{
    size_t cursor = 0;
    uint64_t id;
    void *value;
    pod_mutex_lock(&worker->lock);
    int64_t now_ns = worker_now(worker);
    while (pod_map_next(&worker->sessions, &cursor, &id, &value)) {
        struct worker_session *session = value;
        session_expire_forwards_locked(session, now_ns);
        if (session->streams == 0 && session->expires_ns <= now_ns)
            worker_session_end_locked(session, WORKER_CLOSES,
                                      "the client was idle for too long");
    }
    worker_flush_locked(worker);
    pod_mutex_unlock(&worker->lock);
}
