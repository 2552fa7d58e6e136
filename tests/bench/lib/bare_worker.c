// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/bare_worker.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct bare_worker {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct bare_job *first; // to do
    struct bare_job *done;
    int event_fd;
    pthread_t thread;
    struct bare_job *given; // the loop's: not handed over yet
};

static void worker_end(struct bare_worker *worker, struct bare_job *job)
{
    uint64_t one = 1;

    pthread_mutex_lock(&worker->lock);
    int first = worker->done == NULL;
    job->next = worker->done;
    worker->done = job;
    pthread_mutex_unlock(&worker->lock);
    if (first && write(worker->event_fd, &one, sizeof(one)) != sizeof(one))
        abort();
}

static struct bare_job *worker_next(struct bare_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->first == NULL)
        pthread_cond_wait(&worker->wake, &worker->lock);
    struct bare_job *jobs = worker->first;
    worker->first = NULL;
    pthread_mutex_unlock(&worker->lock);
    return jobs;
}

static void *worker_main(void *arg)
{
    struct bare_worker *worker = arg;

    for (;;) {
        struct bare_job *job = worker_next(worker);
        while (job != NULL) {
            struct bare_job *next = job->next;
            memcpy(job->to, job->from, sizeof(job->to));
            worker_end(worker, job);
            job = next;
        }
    }
    return NULL;
}

struct bare_worker *bare_worker_start(void)
{
    struct bare_worker *worker = calloc(1, sizeof(*worker));

    if (worker == NULL)
        abort();
    worker->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->wake, NULL);
    if (worker->event_fd < 0 ||
        pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
        perror("bare worker");
        exit(1);
    }
    return worker;
}

int bare_worker_fd(const struct bare_worker *worker)
{
    return worker->event_fd;
}

void bare_worker_give(struct bare_worker *worker, struct bare_job *job)
{
    job->next = worker->given;
    worker->given = job;
}

void bare_worker_flush(struct bare_worker *worker)
{
    struct bare_job *last = worker->given;

    if (last == NULL)
        return;
    while (last->next != NULL)
        last = last->next;
    pthread_mutex_lock(&worker->lock);
    last->next = worker->first;
    worker->first = worker->given;
    pthread_mutex_unlock(&worker->lock);
    pthread_cond_signal(&worker->wake);
    worker->given = NULL;
}

struct bare_job *bare_worker_take(struct bare_worker *worker)
{
    uint64_t count;

    (void)!read(worker->event_fd, &count, sizeof(count));
    pthread_mutex_lock(&worker->lock);
    struct bare_job *done = worker->done;
    worker->done = NULL;
    pthread_mutex_unlock(&worker->lock);
    return done;
}
