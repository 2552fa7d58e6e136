// SPDX-License-Identifier: Apache-2.0
#include "api/watch.h"

#include "api/http_internal.h"

// One operation that a request watches. Lives in the request's memory.
struct watch {
    struct pod_waiter waiter;
    struct pod_list link; // on the request's watches
    struct pod *pod;
};

static void watch_let_go(void *arg)
{
    struct api_request *req = arg;
    struct pod_list *item;

    while ((item = pod_list_pop_front(&req->watches)) != NULL) {
        struct watch *watch = POD_CONTAINER(item, struct watch, link);
        pod_wait_remove(watch->pod, &watch->waiter);
    }
    req->watches_pending = 0;
}

// NULL: no memory.
static struct watch *watch_new(struct api_request *req, struct pod *pod)
{
    if (!req->watching) {
        if (!api_defer(req, watch_let_go, req))
            return NULL;
        req->watching = true;
    }
    struct watch *watch = api_alloc(req, sizeof(*watch));
    if (watch == NULL)
        return NULL;
    watch->pod = pod;
    watch->waiter.owner = req;
    return watch;
}

static enum api_watch watch_begun(struct api_request *req, struct watch *watch,
                                  bool waits)
{
    if (!waits)
        return API_WATCH_NOT;
    pod_list_push_back(&req->watches, &watch->link);
    req->watches_pending++;
    return API_WATCH_WAITING;
}

enum api_watch api_watch(struct api_request *req, struct pod *pod,
                         uint64_t number, uint64_t revision)
{
    struct watch *watch = watch_new(req, pod);
    if (watch == NULL)
        return API_WATCH_NO_MEMORY;
    return watch_begun(req, watch,
                       pod_wait_add(pod, &watch->waiter, number, revision));
}

enum api_watch api_watch_drained(struct api_request *req, struct pod *pod,
                                 uint32_t host)
{
    struct watch *watch = watch_new(req, pod);
    if (watch == NULL)
        return API_WATCH_NO_MEMORY;
    return watch_begun(req, watch, pod_wait_drained(pod, &watch->waiter, host));
}

size_t api_watch_pending(const struct api_request *req)
{
    return req->watches_pending;
}

void api_watch_all(struct api_request *req, bool all)
{
    req->watch_all = all;
}

void api_watch_collect(struct api_server *server, void *pod)
{
    struct pod_list woken;
    struct pod_list *item;

    (void)server;
    pod_list_init(&woken);
    pod_take_woken(pod, &woken);
    while ((item = pod_list_pop_front(&woken)) != NULL) {
        struct pod_waiter *waiter =
            POD_CONTAINER(item, struct pod_waiter, link);
        struct api_request *req = waiter->owner;
        req->watches_pending--;
        if (!req->watch_all || req->watches_pending == 0)
            api_wake(req);
    }
}
