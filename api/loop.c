// SPDX-License-Identifier: Apache-2.0
// The loop. Each turn: wait, look at what woke us, let deadlines pass, resume
// what was woken, accept, and run libmicrohttpd once.
//
// libmicrohttpd does not see a resume that is requested inside MHD_run until
// the next event, and MHD_get_timeout does not account for it. So after any
// resume two turns run without blocking.
//
// Shutting down: accepting stops first; parked requests are told to answer;
// when no request is left or the time is up, what is still suspended is
// dropped, because MHD_stop_daemon aborts on suspended connections.
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "core/base/clock.h"
#include "core/base/log.h"

enum {
    LOOP_EVENTS = 128,
    LOOP_KICKS = 2,
    LOOP_RUNS = 8, // of libmicrohttpd in one turn
    LOOP_LAST_TURNS = 4,
    LOOP_NS_PER_MS = 1000000,
};

static int64_t loop_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Whether libmicrohttpd has something to do that no descriptor signals.
static bool loop_has_work(const struct api_server *server)
{
    MHD_UNSIGNED_LONG_LONG own;

    return MHD_get_timeout(server->daemon, &own) == MHD_YES && own == 0;
}

static int loop_timeout_ms(struct api_server *server)
{
    int64_t next = loop_earlier(api_conn_next_deadline(server),
                                api_park_next_deadline(server));

    if (server->kicks > 0) {
        server->kicks--;
        return 0;
    }
    next = loop_earlier(next, api_linger_next_deadline(server));
    next = loop_earlier(next, server->notify_at_ns);
    next = loop_earlier(next, server->accept_at_ns);
    if (atomic_load(&server->stopping))
        next = loop_earlier(next, atomic_load(&server->stop_deadline_ns));
    if (loop_has_work(server))
        return 0;
    if (next == POD_NEVER)
        return -1;
    int64_t left = next - pod_clock_mono(&pod_clock_system);
    if (left <= 0)
        return 0;
    // Rounded up: a turn before its time would find nothing to do.
    int64_t ms = (left + LOOP_NS_PER_MS - 1) / LOOP_NS_PER_MS;
    return ms < 60000 ? (int)ms : 60000;
}

static void loop_take_wakes(struct api_server *server)
{
    uint64_t count;

    (void)!read(server->event_fd, &count, sizeof(count));
    api_park_collect(server);
    api_worker_collect(&server->worker);
    if (atomic_exchange(&server->reload, false))
        api_auth_reload(server);
    if (atomic_exchange(&server->notified, false) && server->on_notify != NULL)
        server->on_notify(server, server->on_notify_arg);
    if (!atomic_load(&server->draining) || server->drain_done)
        return;
    server->drain_done = true;
    api_park_drain(server);
}

static void loop_take_notify_at(struct api_server *server)
{
    if (server->notify_at_ns > server->now_ns)
        return;
    server->notify_at_ns = POD_NEVER;
    if (server->on_notify != NULL)
        server->on_notify(server, server->on_notify_arg);
}

// Connections of this batch are alive: they are closed only by libmicrohttpd,
// which runs later.
static void loop_look(struct api_server *server,
                      const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        struct api_watched *watched = events[i].data.ptr;
        if (events[i].data.ptr == &server->event_fd)
            loop_take_wakes(server);
        else if (events[i].data.ptr == &server->listen_fd)
            server->accept_ready = true;
        else if (events[i].data.ptr == server)
            continue; // libmicrohttpd's: it runs every turn
        else if (watched->kind == API_WATCHED_LINGER)
            api_linger_ready(server, watched);
        else
            api_conn_hang_up(POD_CONTAINER(watched, struct api_conn, watched));
    }
}

static void loop_run_daemon(struct api_server *server)
{
    if (api_park_apply(server))
        server->kicks = LOOP_KICKS;
    // With bytes of a body at hand it is run again at once: a look at anything
    // else would be a system call for each piece.
    int runs = 0;
    server->held = false;
    do
        (void)MHD_run(server->daemon);
    while (pod_list_empty(&server->wakes) && !server->held &&
           ++runs < LOOP_RUNS && loop_has_work(server));
    if (server->on_turn != NULL)
        server->on_turn(server, server->on_notify_arg);
    // What was woken inside waits for the next turn, at once.
    if (!pod_list_empty(&server->wakes))
        server->kicks = LOOP_KICKS;
}

static void loop_turn(struct api_server *server)
{
    struct epoll_event events[LOOP_EVENTS];

    server->turn++;
    int count = epoll_wait(server->epoll_fd, events, LOOP_EVENTS,
                           loop_timeout_ms(server));
    server->now_ns = pod_clock_mono(&pod_clock_system);
    if (count < 0 && errno != EINTR)
        pod_log(POD_LOG_ERROR, "http", "epoll_wait failed: errno %d", errno);
    loop_look(server, events, count);
    loop_take_notify_at(server);
    api_conn_expire(server);
    api_park_expire(server);
    api_linger_expire(server, server->now_ns);
    api_accept_new(server);
    loop_run_daemon(server);
}

static bool loop_is_over(const struct api_server *server)
{
    return atomic_load(&server->stopping) &&
           (server->in_flight == 0 ||
            server->now_ns >= atomic_load(&server->stop_deadline_ns));
}

static void loop_end(struct api_server *server)
{
    if (server->in_flight > 0)
        pod_log(POD_LOG_WARN, "http", "%u requests cut at the end",
                server->in_flight);
    server->abandon_done = true;
    for (int turn = 0; turn < LOOP_LAST_TURNS; turn++) {
        api_park_abandon(server);
        loop_run_daemon(server);
    }
    MHD_stop_daemon(server->daemon);
    server->daemon = NULL;
    api_linger_expire(server, POD_NEVER);
}

void *api_loop_main(void *arg)
{
    struct api_server *server = arg;
    bool quiet = false;

    server->now_ns = pod_clock_mono(&pod_clock_system);
    while (!loop_is_over(server)) {
        loop_turn(server);
        if (atomic_load(&server->stopping) && !quiet) {
            quiet = true;
            api_accept_end(server);
        }
    }
    loop_end(server);
    return NULL;
}
