// SPDX-License-Identifier: Apache-2.0
// Parked requests, in a heap by deadline (libmicrohttpd never times out a
// suspended connection).
//
// What wakes a request only marks it and puts it on the turn's list; the loop
// resumes the list once a turn, because each run of libmicrohttpd that finds a
// resumed connection looks at all suspended ones. The handler then runs inside
// libmicrohttpd's access handler, where replies may be queued.
//
// Suspending and resuming costs two changes of libmicrohttpd's epoll set. So a
// request is only held at first: libmicrohttpd calls the access handler again
// in each run until it has a reply or is suspended, and while it does so the
// loop does not block.
#include "api/park.h"

#include "api/http_internal.h"
#include "core/base/clock.h"
#include "core/base/mem.h"

// Turns in which a request that has just parked is asked again before its
// connection is suspended. Small operations are done by then.
enum { PARK_HELD_TURNS = 4 };

// --------------------------------------------------------------------- heap

static void park_place(struct api_server *server, size_t index,
                       struct api_request *req)
{
    server->heap[index - 1] = req;
    req->heap_index = index;
}

static void park_sift_up(struct api_server *server, size_t index)
{
    struct api_request *req = server->heap[index - 1];

    while (index > 1) {
        struct api_request *parent = server->heap[index / 2 - 1];
        if (parent->park_deadline_ns <= req->park_deadline_ns)
            break;
        park_place(server, index, parent);
        index /= 2;
    }
    park_place(server, index, req);
}

static void park_sift_down(struct api_server *server, size_t index)
{
    struct api_request *req = server->heap[index - 1];

    for (;;) {
        size_t child = index * 2;
        if (child > server->heap_count)
            break;
        if (child < server->heap_count &&
            server->heap[child]->park_deadline_ns <
                server->heap[child - 1]->park_deadline_ns)
            child++;
        if (server->heap[child - 1]->park_deadline_ns >= req->park_deadline_ns)
            break;
        park_place(server, index, server->heap[child - 1]);
        index = child;
    }
    park_place(server, index, req);
}

static bool park_insert(struct api_server *server, struct api_request *req)
{
    if (server->heap_count == server->heap_capacity) {
        size_t capacity = server->heap_capacity * 2 + 64;
        struct api_request **heap =
            pod_realloc(server->heap, capacity, sizeof(struct api_request *));
        if (heap == NULL)
            return false;
        server->heap = heap;
        server->heap_capacity = capacity;
    }
    park_place(server, ++server->heap_count, req);
    park_sift_up(server, server->heap_count);
    return true;
}

static void park_remove(struct api_server *server, struct api_request *req)
{
    size_t index = req->heap_index;

    if (index == 0)
        return;
    req->heap_index = 0;
    struct api_request *last = server->heap[--server->heap_count];
    if (last == req)
        return;
    park_place(server, index, last);
    park_sift_up(server, index);
    park_sift_down(server, last->heap_index);
}

int64_t api_park_next_deadline(const struct api_server *server)
{
    return server->heap_count > 0 ? server->heap[0]->park_deadline_ns
                                  : POD_NEVER;
}

// ------------------------------------------------------------------- parking

int64_t api_now(const struct api_request *req)
{
    (void)req;
    return pod_clock_mono(&pod_clock_system);
}

static enum pod_code park_count(struct api_request *req, struct pod_err *err)
{
    struct api_server *server = req->server;
    uint64_t parked = atomic_load(&server->parked);

    if (parked >= server->limits.parked)
        return pod_err_limit(err, POD_REASON_TOO_MANY_WAITS, "waits", parked,
                             server->limits.parked);
    if (req->conn->address->parked >= server->limits.parked_per_address)
        return pod_err_limit(err, POD_REASON_TOO_MANY_WAITS,
                             "waits-per-address", req->conn->address->parked,
                             server->limits.parked_per_address);
    atomic_fetch_add(&server->parked, 1);
    req->conn->address->parked++;
    req->counted = true;
    return POD_OK;
}

enum pod_code api_park(struct api_request *req, int64_t deadline_ns,
                       api_resume_fn *resume, struct pod_err *err)
{
    struct api_server *server = req->server;
    int64_t now = api_now(req);

    if (!req->counted) {
        enum pod_code code = park_count(req, err);
        if (code != POD_OK)
            return code;
        req->park_cap_ns = pod_time_add(now, server->limits.wait_ns);
    }
    req->park_deadline_ns =
        deadline_ns < req->park_cap_ns ? deadline_ns : req->park_cap_ns;
    if (!park_insert(server, req)) {
        api_park_leave(req);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory to wait with");
    }
    req->resume = resume;
    req->stage = API_STAGE_PARKED;
    if (req->park_deadline_ns <= now)
        api_wake_soon(req, API_WAKE_TIMEOUT);
    if (server->drain_done && !req->drain_told)
        api_wake_soon(req, API_WAKE_DRAIN);
    return POD_OK;
}

bool api_park_alarm(struct api_request *req, int64_t deadline_ns)
{
    req->park_deadline_ns = deadline_ns;
    return park_insert(req->server, req);
}

void api_park_unlist(struct api_request *req)
{
    park_remove(req->server, req);
    pod_list_remove(&req->wake_link);
}

void api_park_leave(struct api_request *req)
{
    api_park_unlist(req);
    req->woken = false;
    if (!req->counted)
        return;
    req->counted = false;
    req->conn->address->parked--;
    atomic_fetch_sub(&req->server->parked, 1);
}

// -------------------------------------------------------------------- waking

void api_suspend(struct api_request *req)
{
    MHD_suspend_connection(req->connection);
    req->suspended = true;
}

bool api_park_hold(struct api_request *req)
{
    struct api_server *server = req->server;

    if (req->held_turn == 0)
        req->held_turn = server->turn;
    if (server->turn - req->held_turn >= PARK_HELD_TURNS)
        return false;
    server->held = true;
    return true;
}

void api_wake_soon(struct api_request *req, enum api_wake why)
{
    if (!req->woken) {
        req->woken = true;
        req->wake = why;
    }
    if (req->suspended) {
        pod_list_remove(&req->wake_link);
        pod_list_push_back(&req->server->wakes, &req->wake_link);
    }
}

void api_wake(struct api_request *req)
{
    api_wake_soon(req, API_WAKE_EVENT);
}

void api_wake_from_thread(struct api_request *req)
{
    struct api_shared *shared = &req->server->shared;

    pod_mutex_lock(&shared->lock);
    if (pod_list_empty(&req->thread_link))
        pod_list_push_back(&shared->woken, &req->thread_link);
    pod_mutex_unlock(&shared->lock);
    api_server_wake_loop(req->server);
}

void api_park_collect(struct api_server *server)
{
    struct pod_list woken;
    struct pod_list *item;

    pod_list_init(&woken);
    pod_mutex_lock(&server->shared.lock);
    pod_list_splice(&woken, &server->shared.woken);
    // Taken off one by one under the lock: an item that is not on a list may
    // be queued again by its thread.
    while ((item = pod_list_pop_front(&woken)) != NULL)
        api_wake(POD_CONTAINER(item, struct api_request, thread_link));
    pod_mutex_unlock(&server->shared.lock);
}

void api_park_expire(struct api_server *server)
{
    while (server->heap_count > 0 &&
           server->heap[0]->park_deadline_ns <= server->now_ns) {
        struct api_request *req = server->heap[0];
        park_remove(server, req);
        api_wake_soon(req, API_WAKE_TIMEOUT);
    }
}

bool api_park_apply(struct api_server *server)
{
    struct pod_list *item;
    bool any = false;

    while ((item = pod_list_pop_front(&server->wakes)) != NULL) {
        struct api_request *req =
            POD_CONTAINER(item, struct api_request, wake_link);
        req->suspended = false;
        MHD_resume_connection(req->connection);
        any = true;
    }
    return any;
}

void api_park_drain(struct api_server *server)
{
    for (size_t i = 0; i < server->heap_count; i++)
        api_wake_soon(server->heap[i], API_WAKE_DRAIN);
}

void api_park_abandon(struct api_server *server)
{
    struct pod_list *item = server->conns.next;

    for (; item != &server->conns; item = item->next) {
        struct api_request *req =
            POD_CONTAINER(item, struct api_conn, all_link)->req;
        if (req == NULL)
            continue;
        req->abandoned = true;
        if (req->suspended)
            api_wake_soon(req, API_WAKE_DRAIN);
    }
}
