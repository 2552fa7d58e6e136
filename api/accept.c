// SPDX-License-Identifier: Apache-2.0
// Accepting connections. We do it ourselves because libmicrohttpd, when no
// descriptor is left, either tries again and again without a pause or stops
// until one of its own connections has ended, which may be never.
//
// Here it is tried again a little later, and at once when a connection ends.
// Who comes meanwhile waits in the queue of the listening socket.
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "api/http_internal.h"
#include "core/base/clock.h"
#include "core/base/log.h"

enum { ACCEPT_BATCH = 128 }; // in one turn; the rest has the next one

#define ACCEPT_PAUSE_NS (POD_NS_PER_S / 50)

// Whether the loop hears of who comes.
static void accept_listen(struct api_server *server, bool wanted)
{
    struct epoll_event event = {.events = wanted ? EPOLLIN : 0,
                                .data.ptr = &server->listen_fd};

    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->listen_fd, &event);
}

static void accept_pause(struct api_server *server, int cause)
{
    if (server->accept_at_ns == POD_NEVER)
        accept_listen(server, false);
    if (!server->accept_failed)
        pod_log(POD_LOG_WARN, "http", "no connection can be accepted: %s",
                strerror(cause));
    server->accept_failed = true;
    server->accept_at_ns = pod_time_add(server->now_ns, ACCEPT_PAUSE_NS);
}

static void accept_go_on(struct api_server *server)
{
    if (server->accept_at_ns != POD_NEVER)
        accept_listen(server, true);
    server->accept_at_ns = POD_NEVER;
}

// Accepts the first in the queue. False: the queue is empty, or it has to wait.
static bool accept_one(struct api_server *server)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    struct sockaddr *any = (struct sockaddr *)&address;
    int fd =
        accept4(server->listen_fd, any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0) {
        server->accept_failed = false;
        // It counts refusals, and has closed the descriptor of what it refuses.
        (void)MHD_add_connection(server->daemon, fd, any, length);
        return true;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
        errno == ENOMEM) {
        accept_pause(server, errno);
        return false;
    }
    return errno != EAGAIN; // else it was that client's fault
}

void api_accept_new(struct api_server *server)
{
    if (server->accept_at_ns <= server->now_ns)
        accept_go_on(server);
    else if (!server->accept_ready)
        return;
    server->accept_ready = false;
    int accepted = 0;
    while (accepted < ACCEPT_BATCH && accept_one(server))
        accepted++;
}

void api_accept_soon(struct api_server *server)
{
    if (server->accept_at_ns != POD_NEVER)
        server->accept_at_ns = server->now_ns;
}

void api_accept_end(struct api_server *server)
{
    server->accept_at_ns = POD_NEVER;
    server->accept_ready = false;
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listen_fd, NULL);
}
