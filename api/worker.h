// SPDX-License-Identifier: Apache-2.0
// A thread beside the loop, for work that would hold it up: large graphs, hosts
// that are made.
#ifndef POD_API_WORKER_H
#define POD_API_WORKER_H

#include <pthread.h>
#include <stdbool.h>

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/lock.h"

// One piece of work; part of something that lives until it has run, or, if it
// has a finish, until that is called.
struct api_work {
    struct pod_list link;
    void (*run)(struct api_work *work);    // by the worker's thread
    void (*finish)(struct api_work *work); // then by the loop's; may be NULL
};

enum { API_WORKER_QUEUE = 64 };

struct api_worker {
    struct pod_mutex lock;
    struct pod_cond cond;
    struct pod_list queue; // api_work.link
    struct pod_list done;  // api_work.link: to be finished
    unsigned queued;
    bool has_thread; // started with the first piece of work
    bool stopping;
    pthread_t thread;
};

void api_worker_init(struct api_worker *worker);
// Runs what waits, ends the thread, and finishes all; the loop has ended.
void api_worker_fini(struct api_worker *worker);
// Has work run, in the order of posting. TOO_MANY_REQUESTS: API_WORKER_QUEUE
// pieces wait already. OUT_OF_MEMORY: there is no thread and none can be had
// now.
enum pod_code api_worker_post(struct api_worker *worker, struct api_work *work,
                              struct pod_err *err)
    __attribute__((warn_unused_result));
// Finishes what has run. On the loop's thread.
void api_worker_collect(struct api_worker *worker);

#endif
