// SPDX-License-Identifier: Apache-2.0
#include "api/worker.h"

#include <signal.h>
#include <string.h>

#include "api/http_internal.h"

void api_worker_init(struct api_worker *worker)
{
    *worker = (struct api_worker){.queued = 0};
    pod_mutex_init(&worker->lock, POD_RANK_PARKED, "worker");
    pod_cond_init(&worker->cond);
    pod_list_init(&worker->queue);
    pod_list_init(&worker->done);
}

// The next piece of work, or NULL at the end.
static struct api_work *worker_next(struct api_worker *worker)
{
    pod_mutex_lock(&worker->lock);
    while (pod_list_empty(&worker->queue) && !worker->stopping)
        pod_cond_wait(&worker->cond, &worker->lock);
    struct pod_list *item = pod_list_pop_front(&worker->queue);
    if (item != NULL)
        worker->queued--;
    pod_mutex_unlock(&worker->lock);
    return item == NULL ? NULL : POD_CONTAINER(item, struct api_work, link);
}

static void worker_hand_back(struct api_worker *worker, struct api_work *work)
{
    pod_mutex_lock(&worker->lock);
    pod_list_push_back(&worker->done, &work->link);
    pod_mutex_unlock(&worker->lock);
    api_server_wake_loop(POD_CONTAINER(worker, struct api_server, worker));
}

static void *worker_main(void *arg)
{
    struct api_work *work;

    while ((work = worker_next(arg)) != NULL) {
        bool finishes = work->finish != NULL; // else it may be gone by then
        work->run(work);
        if (finishes)
            worker_hand_back(arg, work);
    }
    return NULL;
}

void api_worker_collect(struct api_worker *worker)
{
    struct pod_list *item;

    do {
        pod_mutex_lock(&worker->lock);
        item = pod_list_pop_front(&worker->done);
        pod_mutex_unlock(&worker->lock);
        if (item != NULL) {
            struct api_work *work = POD_CONTAINER(item, struct api_work, link);
            work->finish(work);
        }
    } while (item != NULL);
}

// Signals are for the thread that waits for them.
static enum pod_code worker_start_locked(struct api_worker *worker,
                                         struct pod_err *err)
{
    sigset_t all;
    sigset_t before;

    if (worker->has_thread)
        return POD_OK;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&worker->thread, NULL, worker_main, worker);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    worker->has_thread = failure == 0;
    if (failure == 0)
        return POD_OK;
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                       "no thread for work beside requests: %s",
                       strerror(failure));
}

static enum pod_code worker_post_locked(struct api_worker *worker,
                                        struct api_work *work,
                                        struct pod_err *err)
{
    if (worker->queued >= API_WORKER_QUEUE)
        return pod_err_limit(err, POD_REASON_TOO_MANY_REQUESTS, "queued-work",
                             worker->queued, API_WORKER_QUEUE);
    enum pod_code code = worker_start_locked(worker, err);
    if (code != POD_OK)
        return code;
    pod_list_push_back(&worker->queue, &work->link);
    worker->queued++;
    pod_cond_signal(&worker->cond);
    return POD_OK;
}

enum pod_code api_worker_post(struct api_worker *worker, struct api_work *work,
                              struct pod_err *err)
{
    pod_mutex_lock(&worker->lock);
    enum pod_code code = worker_post_locked(worker, work, err);
    pod_mutex_unlock(&worker->lock);
    return code;
}

void api_worker_fini(struct api_worker *worker)
{
    pod_mutex_lock(&worker->lock);
    worker->stopping = true;
    pod_cond_signal(&worker->cond);
    pod_mutex_unlock(&worker->lock);
    if (worker->has_thread)
        (void)pthread_join(worker->thread, NULL);
    api_worker_collect(worker);
    pod_cond_fini(&worker->cond);
    pod_mutex_fini(&worker->lock);
}
