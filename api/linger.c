// SPDX-License-Identifier: Apache-2.0
// Closing without losing the answer. A request that is refused before its body
// was read leaves bytes in the socket, and closing it then would send a reset
// that overtakes the refusal at the client. So a copy of the descriptor
// outlives libmicrohttpd's: what still comes is thrown away until the client
// closes or the time is up.
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "core/base/clock.h"
#include "core/base/mem.h"

enum {
    LINGER_MAX = 64,
    LINGER_READS = 16, // of one turn
    LINGER_READ_BYTES = 1 << 20,
};

#define LINGER_NS (5 * POD_NS_PER_S)

struct linger_fd {
    struct api_watched watched;
    struct pod_list link; // on server->lingering, in order of deadlines
    int64_t deadline_ns;
    int fd;
};

static void linger_close(struct api_server *server, struct linger_fd *entry)
{
    pod_list_remove(&entry->link);
    server->linger_count--;
    (void)close(entry->fd);
    pod_free(entry);
}

void api_linger_start(struct api_conn *conn)
{
    struct api_server *server = conn->server;

    if (server->linger_count == LINGER_MAX || server->abandon_done)
        return;
    struct linger_fd *entry = pod_calloc(1, sizeof(*entry));
    if (entry == NULL)
        return;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP,
                                .data.ptr = &entry->watched};
    entry->watched.kind = API_WATCHED_LINGER;
    entry->deadline_ns = pod_time_add(server->now_ns, LINGER_NS);
    entry->fd = fcntl(conn->fd, F_DUPFD_CLOEXEC, 0);
    if (entry->fd < 0) {
        pod_free(entry);
        return;
    }
    server->linger_count++;
    pod_list_push_back(&server->lingering, &entry->link);
    (void)shutdown(entry->fd, SHUT_WR);
    if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, entry->fd, &event) != 0)
        linger_close(server, entry);
}

void api_linger_ready(struct api_server *server, struct api_watched *watched)
{
    struct linger_fd *entry = POD_CONTAINER(watched, struct linger_fd, watched);

    for (int i = 0; i < LINGER_READS; i++) {
        // MSG_TRUNC: thrown away without a copy.
        ssize_t got =
            recv(entry->fd, NULL, LINGER_READ_BYTES, MSG_TRUNC | MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            linger_close(server, entry);
            return;
        }
    }
}

static struct linger_fd *linger_first(const struct api_server *server)
{
    const struct pod_list *list = &server->lingering;

    return list->next == list
               ? NULL
               : POD_CONTAINER(list->next, struct linger_fd, link);
}

int64_t api_linger_next_deadline(const struct api_server *server)
{
    const struct linger_fd *entry = linger_first(server);

    return entry != NULL ? entry->deadline_ns : POD_NEVER;
}

void api_linger_expire(struct api_server *server, int64_t now_ns)
{
    struct linger_fd *entry = linger_first(server);

    while (entry != NULL && entry->deadline_ns <= now_ns) {
        linger_close(server, entry);
        entry = linger_first(server);
    }
}
