// SPDX-License-Identifier: Apache-2.0
// Connections: counted, timed, and closed by us where libmicrohttpd would wait
// for ever (its timeouts are for inactivity only, and it reports nothing before
// the headers).
//
// A deadline that passes shuts the socket down; libmicrohttpd then finds the
// end of the stream and closes. We learn that a client has gone from our own
// epoll set, edge triggered and for hang-ups only, because libmicrohttpd
// ignores suspended connections.
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "api/problem.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

// How often a closed connection with an unfinished body is looked at.
#define CONN_GONE_LOOK_NS (POD_NS_PER_S / 20)

// ---------------------------------------------------------------- addresses

// One key for an IPv4 address or an IPv6 /64, never 0. Sockets of IPv6 get no
// connections of IPv4 (listen.c).
static uint64_t conn_key(const struct sockaddr *address)
{
    const unsigned char *bytes;
    uint64_t key = 0;

    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof(v4));
        return UINT64_C(1) << 32 | ntohl(v4.sin_addr.s_addr);
    }
    if (address->sa_family != AF_INET6)
        return 1;
    struct sockaddr_in6 v6;
    memcpy(&v6, address, sizeof(v6));
    bytes = v6.sin6_addr.s6_addr;
    for (size_t i = 0; i < 8; i++)
        key = key << 8 | bytes[i];
    return key | UINT64_C(1) << 63;
}

static bool conn_fits(const struct api_server *server,
                      const struct api_address *known)
{
    return atomic_load(&server->connections) < server->limits.connections &&
           (known == NULL ||
            known->connections < server->limits.connections_per_address);
}

// Counts it where it belongs.
static void conn_count(struct api_conn *conn)
{
    struct api_server *server = conn->server;

    conn->surplus = !conn_fits(server, conn->address);
    if (conn->surplus) {
        conn->address->surplus++;
        server->surplus++;
    } else {
        conn->address->connections++;
        atomic_fetch_add(&server->connections, 1);
    }
}

static void conn_uncount(struct api_conn *conn)
{
    if (conn->surplus) {
        conn->address->surplus--;
        conn->server->surplus--;
    } else {
        conn->address->connections--;
        atomic_fetch_sub(&conn->server->connections, 1);
    }
}

enum MHD_Result api_conn_accept(void *arg, const struct sockaddr *address,
                                socklen_t length)
{
    struct api_server *server = arg;
    const struct api_address *known =
        pod_map_get(&server->addresses, conn_key(address));

    (void)length;
    if (conn_fits(server, known) || server->surplus < API_SURPLUS_CONNECTIONS)
        return MHD_YES;
    atomic_fetch_add(&server->refused, 1);
    return MHD_NO;
}

enum pod_code api_conn_admit(struct api_conn *conn, struct pod_err *err)
{
    struct api_server *server = conn->server;
    uint64_t all = atomic_load(&server->connections);

    if (conn->surplus && conn_fits(server, conn->address)) {
        conn_uncount(conn);
        conn_count(conn); // others have gone
    }
    if (!conn->surplus)
        return POD_OK;
    atomic_fetch_add(&server->refused, 1);
    if (conn->address->connections >= server->limits.connections_per_address)
        return pod_err_limit(
            err, POD_REASON_TOO_MANY_CONNECTIONS, "connections-per-address",
            conn->address->connections, server->limits.connections_per_address);
    return pod_err_limit(err, POD_REASON_TOO_MANY_CONNECTIONS, "connections",
                         all, server->limits.connections);
}

static struct api_address *conn_address(struct api_server *server,
                                        const struct sockaddr *address)
{
    uint64_t key = conn_key(address);
    struct api_address *entry = pod_map_get(&server->addresses, key);

    if (entry == NULL) {
        entry = pod_calloc(1, sizeof(*entry));
        if (entry == NULL)
            return NULL;
        entry->key = key;
        if (!pod_map_put(&server->addresses, key, entry)) {
            pod_free(entry);
            return NULL;
        }
    }
    return entry;
}

static void conn_address_leave(struct api_server *server,
                               struct api_address *entry)
{
    if (entry == NULL || entry->connections + entry->surplus > 0)
        return;
    (void)pod_map_remove(&server->addresses, entry->key);
    pod_free(entry);
}

static void conn_print(const struct sockaddr *address, char *out, size_t size)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    (void)snprintf(out, size, "local");
    if (address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof(v4));
        (void)inet_ntop(AF_INET, &v4.sin_addr, out, (socklen_t)size);
    } else if (address->sa_family == AF_INET6) {
        memcpy(&v6, address, sizeof(v6));
        (void)inet_ntop(AF_INET6, &v6.sin6_addr, out, (socklen_t)size);
    }
}

// --------------------------------------------------------------------- life

// The kernel knows who connected to a Unix socket.
static void conn_see_user(struct api_conn *conn)
{
    struct ucred user;
    socklen_t size = sizeof(user);

    if (!conn->server->local ||
        getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &user, &size) != 0)
        return;
    conn->local = true;
    conn->uid = user.uid;
}

static struct api_conn *conn_open(struct api_server *server,
                                  struct MHD_Connection *connection)
{
    int fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
            ->connect_fd;
    const struct sockaddr *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
            ->client_addr;
    struct api_conn *conn = pod_calloc(1, sizeof(*conn));
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET};

    if (conn != NULL) {
        event.data.ptr = &conn->watched;
        conn->address = conn_address(server, address);
    }
    if (conn == NULL || conn->address == NULL ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        if (conn != NULL)
            conn_address_leave(server, conn->address);
        pod_free(conn);
        (void)shutdown(fd, SHUT_RDWR);
        return NULL;
    }
    conn->server = server;
    conn->connection = connection;
    conn->fd = fd;
    conn_see_user(conn);
    conn->phase = API_PHASE_NONE;
    conn_print(address, conn->client, sizeof(conn->client));
    pod_list_init(&conn->phase_link);
    pod_list_push_back(&server->conns, &conn->all_link);
    conn_count(conn);
    api_conn_enter(conn, API_PHASE_NEW);
    return conn;
}

static void conn_close(struct api_conn *conn)
{
    struct api_server *server = conn->server;

    // A request whose completion was never reported must be ended here.
    if (conn->req != NULL)
        api_request_free(conn->req);
    pod_list_remove(&conn->phase_link);
    pod_list_remove(&conn->all_link);
    conn_uncount(conn);
    conn_address_leave(server, conn->address);
    (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    if (conn->linger)
        api_linger_start(conn);
    pod_free(conn->target);
    pod_free(conn);
    api_accept_soon(server);
}

void api_conn_notify(void *arg, struct MHD_Connection *connection,
                     void **socket_context,
                     enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = conn_open(arg, connection);
    } else if (*socket_context != NULL) {
        conn_close(*socket_context);
        *socket_context = NULL;
    }
}

struct api_conn *api_conn_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection,
                                   MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

void *api_conn_target(void *arg, const char *target,
                      struct MHD_Connection *connection)
{
    struct api_conn *conn = api_conn_of(connection);

    (void)arg;
    if (conn == NULL)
        return NULL;
    pod_free(conn->target);
    conn->target = pod_strdup(target);
    conn->target_place = (uintptr_t)target;
    api_conn_enter(conn, API_PHASE_HEADERS);
    return NULL;
}

// ----------------------------------------------------------------- deadlines

static int64_t conn_delay(const struct api_limits *limits, enum api_phase phase)
{
    int64_t look = limits->data_grace_ns;

    switch (phase) {
    case API_PHASE_NEW:
    case API_PHASE_HEADERS:
        return limits->header_ns;
    case API_PHASE_JSON:
        return limits->json_body_ns;
    case API_PHASE_DATA:
        return look < POD_NS_PER_S ? look : POD_NS_PER_S;
    case API_PHASE_GONE:
        return CONN_GONE_LOOK_NS;
    case API_PHASE_REPLY:
        return limits->stall_ns;
    case API_PHASE_IDLE:
        return limits->idle_ns;
    case API_PHASE_COUNT:
    case API_PHASE_NONE:
        break;
    }
    return POD_NEVER;
}

void api_conn_enter(struct api_conn *conn, enum api_phase phase)
{
    struct api_server *server = conn->server;

    // The time to the first whole headers counts from the connect.
    if (phase == API_PHASE_HEADERS && conn->phase == API_PHASE_NEW)
        return;
    pod_list_remove(&conn->phase_link);
    conn->phase = phase;
    conn->sent_bytes = -1;
    if (phase == API_PHASE_NONE || conn->refused)
        return;
    conn->deadline_ns =
        pod_time_add(server->now_ns, conn_delay(&server->limits, phase));
    pod_list_push_back(&server->phases[phase], &conn->phase_link);
}

static struct api_conn *conn_first(const struct api_server *server, int phase)
{
    const struct pod_list *list = &server->phases[phase];

    return list->next == list
               ? NULL
               : POD_CONTAINER(list->next, struct api_conn, phase_link);
}

int64_t api_conn_next_deadline(const struct api_server *server)
{
    int64_t next = POD_NEVER;

    for (int phase = 0; phase < API_PHASE_COUNT; phase++) {
        const struct api_conn *conn = conn_first(server, phase);
        if (conn != NULL && conn->deadline_ns < next)
            next = conn->deadline_ns;
    }
    return next;
}

static void conn_shut(struct api_conn *conn)
{
    conn->refused = true;
    api_conn_enter(conn, API_PHASE_NONE);
    if (!conn->hung_up)
        atomic_fetch_add(&conn->server->refused, 1);
    (void)shutdown(conn->fd, SHUT_RDWR);
    if (conn->req != NULL && conn->req->suspended) {
        conn->req->abandoned = true;
        api_wake_soon(conn->req, API_WAKE_TIMEOUT);
    }
}

static bool conn_upload_is_slow(const struct api_conn *conn)
{
    const struct api_limits *limits = &conn->server->limits;
    int64_t late = conn->server->now_ns - conn->req->body_started_ns -
                   limits->data_grace_ns;

    if (late <= 0)
        return false;
    long double want = (long double)limits->data_bytes_per_s *
                       (long double)late / (long double)POD_NS_PER_S;
    return (long double)conn->req->body.received < want;
}

// Bytes the client has acknowledged, or -1 for a socket that does not say.
static int64_t conn_acknowledged(const struct api_conn *conn)
{
    struct tcp_info info;
    socklen_t size = sizeof(info);

    memset(&info, 0, sizeof(info));
    if (getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return -1;
    return (int64_t)info.tcpi_bytes_acked;
}

// Two looks a stall apart decide; an answer that waits for us does not count.
static bool conn_reply_is_stalled(struct api_conn *conn)
{
    const struct api_limits *limits = &conn->server->limits;
    int64_t sent = conn_acknowledged(conn);
    int64_t before = conn->sent_bytes;
    bool starved = conn->req == NULL || conn->req->stream_starved;

    api_conn_enter(conn, API_PHASE_REPLY);
    conn->sent_bytes = sent;
    if (conn->req != NULL)
        conn->req->stream_starved = conn->req->suspended;
    if (starved || before < 0 || sent < 0)
        return false;
    long double want = (long double)limits->reply_bytes_per_s *
                       (long double)limits->stall_ns /
                       (long double)POD_NS_PER_S;
    return (long double)(sent - before) < want;
}

// libmicrohttpd waits for the end of a body that will not come, and sometimes
// misses the close of a connection whose answer was suspended.
static bool conn_has_unread(const struct api_conn *conn)
{
    int bytes = 0;

    return ioctl(conn->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

static void conn_time_out(struct api_conn *conn, const char *what)
{
    struct pod_err err;

    (void)pod_err_set(&err, POD_REASON_REQUEST_TIMEOUT, "%s", what);
    api_conn_last_words(conn, &err);
    conn_shut(conn);
}

static void conn_expire_one(struct api_conn *conn)
{
    switch (conn->phase) {
    case API_PHASE_NEW:
    case API_PHASE_IDLE:
        conn_shut(conn);
        break;
    case API_PHASE_HEADERS:
        conn_time_out(conn, "the headers took too long");
        break;
    case API_PHASE_JSON:
        conn_time_out(conn, "the body took too long");
        break;
    case API_PHASE_DATA:
        if (conn_upload_is_slow(conn))
            conn_time_out(conn, "the body comes too slowly");
        else
            api_conn_enter(conn, API_PHASE_DATA);
        break;
    case API_PHASE_GONE:
        if (conn_has_unread(conn))
            api_conn_enter(conn, API_PHASE_GONE);
        else
            conn_shut(conn);
        break;
    case API_PHASE_REPLY:
        if (conn_reply_is_stalled(conn))
            conn_shut(conn);
        break;
    case API_PHASE_COUNT:
    case API_PHASE_NONE:
        break;
    }
}

void api_conn_expire(struct api_server *server)
{
    for (int phase = 0; phase < API_PHASE_COUNT; phase++) {
        struct api_conn *conn = conn_first(server, phase);
        while (conn != NULL && conn->deadline_ns <= server->now_ns) {
            conn_expire_one(conn);
            conn = conn_first(server, phase);
        }
    }
}

void api_conn_hang_up(struct api_conn *conn)
{
    bool working =
        conn->phase == API_PHASE_NONE || conn->phase == API_PHASE_REPLY;

    conn->hung_up = true;
    if (!working && !conn->refused)
        api_conn_enter(conn, API_PHASE_GONE);
    if (conn->req == NULL || !conn->req->suspended)
        return;
    conn->req->abandoned = true;
    api_wake_soon(conn->req, API_WAKE_EVENT);
}

// ---------------------------------------------------------------- last words

// Best effort: the socket's buffer is empty, nothing was sent before.
static void conn_send(struct api_conn *conn, char *head, size_t head_length,
                      char *body, size_t body_length)
{
    struct iovec parts[2] = {{.iov_base = head, .iov_len = head_length},
                             {.iov_base = body, .iov_len = body_length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    if (conn->server->tls == NULL) {
        (void)sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        return;
    }
    gnutls_session_t session =
        MHD_get_connection_info(conn->connection,
                                MHD_CONNECTION_INFO_GNUTLS_SESSION)
            ->tls_session;
    (void)gnutls_record_send(session, head, head_length);
    (void)gnutls_record_send(session, body, body_length);
    (void)gnutls_bye(session, GNUTLS_SHUT_WR);
}

// libmicrohttpd takes no answer in the middle of a body; without this a client
// would never learn why its connection was cut.
void api_conn_last_words(struct api_conn *conn, const struct pod_err *err)
{
    char head[512];
    int status = pod_reason_status(err->reason);
    const char *id = conn->req != NULL ? conn->req->id : "";
    const char *target = conn->target != NULL ? conn->target : "";
    const struct api_problem none = {.status = 0};
    json_t *json = api_problem_json(conn->req, target, id, err, &none);
    char *body = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;

    conn->linger = true;
    json_decref(json);
    if (body == NULL)
        return;
    int length =
        snprintf(head, sizeof(head),
                 "HTTP/1.1 %d %s\r\nConnection: close\r\n"
                 "Content-Type: application/problem+json\r\n"
                 "Cache-Control: no-store\r\nX-Request-Id: %s\r\n"
                 "X-Content-Type-Options: nosniff\r\n%s"
                 "Content-Length: %zu\r\n\r\n",
                 status, api_status_text(status), id,
                 status == 429 || status == 503 ? "Retry-After: 1\r\n" : "",
                 strlen(body));
    conn_send(conn, head, (size_t)length, body, strlen(body));
    (void)shutdown(conn->fd, SHUT_WR);
    free(body);
}
