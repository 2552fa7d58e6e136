// SPDX-License-Identifier: Apache-2.0
// A thread beside the loop, for work that would hold it up: large graphs.
#ifndef POD_API_WORKER_H
#define POD_API_WORKER_H

#include <pthread.h>
#include <stdbool.h>

#include "core/base/list.h"
#include "core/base/lock.h"

// One piece of work; part of something that lives until it has run.
struct api_work {
    struct pod_list link;
    void (*run)(struct api_work *work);
};

enum { API_WORKER_QUEUE = 64 };

struct api_worker {
    struct pod_mutex lock;
    struct pod_cond cond;
    struct pod_list queue; // api_work.link
    unsigned queued;
    bool has_thread; // started with the first piece of work
    bool stopping;
    pthread_t thread;
};

void api_worker_init(struct api_worker *worker);
// Runs what waits, then ends the thread.
void api_worker_fini(struct api_worker *worker);
// Has work run, in the order of posting. False: API_WORKER_QUEUE pieces wait
// already, or there is no thread.
bool api_worker_post(struct api_worker *worker, struct api_work *work);

#endif
