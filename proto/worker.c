// SPDX-License-Identifier: Apache-2.0
// The worker: making it, steps of its scheduler, and the turns in which calls
// and answers are made.
#include <assert.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/worker_internal.h"

// ---------------------------------------------------------------------- steps

void worker_todo_locked(struct worker_op *op, unsigned bits)
{
    if (op->todo == 0)
        pod_list_push_back(&op->session->worker->turns, &op->turn);
    op->todo |= bits;
}

static void worker_effect_locked(const struct pod_sched_effect *effect)
{
    struct worker_op *op = pod_sched_effect_user(effect);
    bool released = (effect->what & POD_SCHED_RELEASED) != 0;
    if ((effect->what & POD_SCHED_LAUNCH) && !op->forward)
        worker_todo_locked(op, WORKER_TODO_LAUNCH);
    if ((effect->what & POD_SCHED_CHANGED) && pod_sched_terminal(effect->state))
        worker_op_end_locked(op, effect->state, pod_sched_effect_cause(effect));
    if (effect->what & POD_SCHED_INTERRUPT)
        worker_todo_locked(op, WORKER_TODO_CANCEL);
    if (released || pod_sched_node_settled(effect->node))
        worker_op_settle_locked(op);
    if (!released)
        return;
    op->node = NULL;
    worker_todo_locked(op, WORKER_TODO_FREE);
}

enum pod_code worker_step_locked(struct worker *worker,
                                 const struct pod_sched_event *event,
                                 struct pod_sched_node **out_node,
                                 struct pod_err *err)
{
    enum pod_code code = pod_sched_step(worker->sched, event, out_node, err);
    const struct pod_sched_effects *effects = pod_sched_effects(worker->sched);

    for (size_t i = 0; i < effects->count; i++)
        worker_effect_locked(&effects->items[i]);
    return code;
}

void worker_move_locked(struct worker *worker, enum pod_sched_event_kind kind,
                        struct worker_op *op, enum pod_sched_state state)
{
    struct pod_sched_event event = {.kind = kind,
                                    .now_ns = worker_now(worker),
                                    .node = op->node,
                                    .state = state};
    if (op->node == NULL)
        return;
    enum pod_code code = worker_step_locked(worker, &event, NULL, NULL);
    assert(code == POD_OK);
    (void)code;
}

// ---------------------------------------------------------------------- turns

// That it has begun, its outcome, or both.
static void turn_tell(struct worker *worker, struct worker_op *op,
                      unsigned todo)
{
    struct pod_err none = POD_ERR_NONE;
    bool done = (todo & WORKER_TODO_ANSWER) != 0;
    struct worker_answer answer = {.session = op->session->id,
                                   .number = op->request.number,
                                   .started = !done,
                                   .begun = (todo & WORKER_TODO_STARTED) != 0,
                                   .compiled =
                                       op->request.kind == WORKER_COMPILE,
                                   .err = op->err != NULL ? op->err : &none,
                                   .root = op->root,
                                   .data = op->result};
    pod_mutex_unlock(&worker->lock);
    if (op->request.plan != NULL && done)
        op->request.plan->end(op->request.plan, answer.err);
    if (done)
        worker_log_ended(answer.session, &op->request, answer.err, op->root);
    op->sink->answer(op->sink, &answer);
    pod_mutex_lock(&worker->lock);
}

static void turn_cancel(struct worker *worker, struct worker_op *op)
{
    uint64_t driver_op = op->driver_op;
    struct worker_task *task = op->request.task;
    if (op->gang != NULL && !op->gang->launched) {
        // It waits for the others of its gang; the driver does not know it.
        if (!op->settled)
            worker_move_locked(worker, POD_SCHED_DONE, op, POD_SCHED_CANCELLED);
        return;
    }
    pod_mutex_unlock(&worker->lock);
    if (task != NULL)
        task->stop(task);
    else
        worker->driver->ops->cancel(worker->driver, driver_op);
    pod_mutex_lock(&worker->lock);
}

// The stand-in ends as the operation it stood for.
static void turn_resolve(struct worker *worker, struct worker_op *op)
{
    struct worker_op *stand_in = op->stand_in;
    op->stand_in = NULL;
    if (op->err != NULL)
        worker_op_blame_locked(stand_in, op->err, op->root);
    worker_move_locked(worker, POD_SCHED_DONE, stand_in,
                       op->err == NULL ? POD_SCHED_SUCCEEDED
                                       : POD_SCHED_FAILED);
}

static void turn_abort(struct worker *worker, struct worker_op *op)
{
    if (op->ended || op->node == NULL)
        return;
    worker_op_blame_locked(op, op->gang->err, op->gang->root);
    worker_move_locked(worker,
                       pod_sched_node_launched(op->node) ? POD_SCHED_DONE
                                                         : POD_SCHED_END,
                       op, POD_SCHED_FAILED);
}

static void turn_take_locked(struct worker *worker, struct worker_op *op)
{
    unsigned todo = op->todo;
    op->todo = 0;
    if (todo & WORKER_TODO_ABORT)
        turn_abort(worker, op);
    if (todo & WORKER_TODO_LAUNCH)
        worker_launch_locked(op);
    if (todo & WORKER_TODO_CANCEL)
        turn_cancel(worker, op);
    if (todo & (WORKER_TODO_STARTED | WORKER_TODO_ANSWER))
        turn_tell(worker, op, todo);
    if (todo & WORKER_TODO_RESOLVE)
        turn_resolve(worker, op);
    if (!(todo & WORKER_TODO_FREE))
        return;
    if (op->todo == 0)
        worker_op_free_locked(op);
    else
        op->todo |= WORKER_TODO_FREE;
}

void worker_flush_locked(struct worker *worker)
{
    if (worker->flushing)
        return;
    worker->flushing = true;
    for (;;) {
        struct pod_list *item = pod_list_pop_front(&worker->turns);
        if (item != NULL) {
            turn_take_locked(worker,
                             POD_CONTAINER(item, struct worker_op, turn));
            continue;
        }
        item = pod_list_pop_front(&worker->sweeps);
        if (item == NULL)
            break;
        worker_session_sweep_locked(
            POD_CONTAINER(item, struct worker_session, sweep));
    }
    worker->flushing = false;
    pod_cond_broadcast(&worker->changed);
}

// --------------------------------------------------------------------- making

static void worker_ready(void *arg, const struct pod_driver_info *info)
{
    struct worker *worker = arg;
    pod_mutex_lock(&worker->lock);
    worker->info = *info; // what it points at lives as long as the driver
    worker->ready = true;
    pod_cond_broadcast(&worker->changed);
    pod_mutex_unlock(&worker->lock);
}

static void worker_lost(void *arg, const struct pod_err *err)
{
    (void)arg;
    pod_log(POD_LOG_ERROR, "worker", "the device is lost: %s", err->text);
}

static void worker_fini(struct worker *worker)
{
    worker->driver->ops->free(worker->driver);
    pod_sched_free(worker->sched);
    pod_map_fini(&worker->sessions);
    pod_free(worker->deps);
    pod_free(worker->loads);
    worker_staged_unref(worker->staged);
    pod_cond_fini(&worker->changed);
    pod_mutex_fini(&worker->lock);
    pod_free(worker);
}

enum pod_code worker_new(const struct worker_options *options,
                         struct worker **out_worker, struct pod_err *err)
{
    struct worker *worker = pod_calloc(1, sizeof(*worker));
    struct pod_sched *sched = pod_sched_new();
    struct worker_staged *staged = pod_calloc(1, sizeof(*staged));
    if (worker == NULL || sched == NULL || staged == NULL) {
        pod_free(worker);
        pod_free(staged);
        pod_sched_free(sched);
        options->driver->ops->free(options->driver);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    }
    pod_mutex_init(&worker->lock, POD_RANK_ENGINE, "worker");
    pod_cond_init(&worker->changed);
    pod_list_init(&worker->turns);
    pod_list_init(&worker->sweeps);
    worker->sched = sched;
    atomic_init(&staged->refs, 1);
    worker->staged = staged;
    worker->driver = options->driver;
    worker->clock = options->clock;
    worker->gone_ns = options->gone_ns;
    worker->staging_bytes = options->staging_bytes;
    worker->client_bytes = options->client_bytes;
    worker->next_driver_op = 1;
    struct pod_driver_observer observer = {
        .ready = worker_ready, .lost = worker_lost, .arg = worker};
    worker->driver->ops->open(worker->driver, &observer);
    pod_mutex_lock(&worker->lock);
    while (!worker->ready)
        pod_cond_wait(&worker->changed, &worker->lock);
    pod_mutex_unlock(&worker->lock);
    worker->loads =
        pod_calloc(worker->info.core_count, sizeof(worker->loads[0]));
    if (worker->loads == NULL) {
        worker_free(worker);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    }
    *out_worker = worker;
    return POD_OK;
}

void worker_stop(struct worker *worker)
{
    size_t cursor = 0;
    uint64_t id;
    void *session;
    if (worker == NULL)
        return;
    pod_mutex_lock(&worker->lock);
    while (pod_map_next(&worker->sessions, &cursor, &id, &session))
        worker_session_end_locked(session, WORKER_CLOSES, "the worker stops");
    worker_flush_locked(worker);
    while (worker->sessions.count > 0 || worker->flushing)
        pod_cond_wait(&worker->changed, &worker->lock);
    pod_mutex_unlock(&worker->lock);
}

void worker_free(struct worker *worker)
{
    if (worker == NULL)
        return;
    worker_stop(worker);
    worker->driver->ops->close(worker->driver);
    worker_fini(worker);
}

const struct pod_driver_info *worker_info(const struct worker *worker)
{
    return &worker->info;
}

void worker_load_get(struct worker *worker, struct worker_load *out_load,
                     struct worker_core_load *out_cores)
{
    pod_mutex_lock(&worker->lock);
    if (out_cores != NULL)
        memcpy(out_cores, worker->loads,
               worker->info.core_count * sizeof(out_cores[0]));
    out_load->open = worker->open_ops;
    out_load->sessions = worker->sessions.count;
    pod_mutex_unlock(&worker->lock);
}
