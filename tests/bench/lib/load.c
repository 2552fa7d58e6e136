// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"

enum {
    LOAD_HEAD_BYTES = 2048,
    LOAD_READ_BYTES = 256 * 1024,
    LOAD_EVENTS = 256,
    LOAD_SOURCES = 8,
    LOAD_PATIENCE_MS = 30000,
};

struct load_conn {
    int fd;
    struct load_request request;
    size_t sent;       // of head and body
    bool wants_write;  // registered for EPOLLOUT
    bool waiting;      // for its answer
    bool in_body;      // the head of the answer is over
    size_t body_left;  // of the answer
    int64_t sent_ns;   // when the request began to leave
    size_t head_bytes; // of the answer, so far
    char head[LOAD_HEAD_BYTES];
};

struct load {
    int epoll_fd;
    size_t count;
    size_t waiting; // connections
    int64_t until_ns;
    uint64_t bytes;
    float *samples; // us
    size_t sample_count;
    size_t sample_capacity;
    char buffer[LOAD_READ_BYTES];
    struct load_conn conns[];
};

static void load_die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t load_now(void)
{
    return pod_clock_mono(&pod_clock_system);
}

// -------------------------------------------------------------- connections

static int load_connect(unsigned port, size_t index)
{
    int on = 1;
    struct sockaddr_in from = {
        .sin_family = AF_INET,
        .sin_addr = {htonl(INADDR_LOOPBACK + (uint32_t)(index % LOAD_SOURCES))},
    };
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    // The port is chosen at the connect: a bind would look through all ports.
    if (fd < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)) !=
            0 ||
        bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        load_die("connect");
    return fd;
}

struct load *load_open(unsigned port, size_t connections)
{
    struct load *load =
        calloc(1, sizeof(*load) + connections * sizeof(load->conns[0]));

    if (load == NULL)
        load_die("memory");
    load->count = connections;
    load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < connections; i++) {
        struct load_conn *conn = &load->conns[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
        conn->fd = load_connect(port, i);
        if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0)
            load_die("epoll");
    }
    return load;
}

void load_close(struct load *load)
{
    for (size_t i = 0; i < load->count; i++)
        close(load->conns[i].fd);
    close(load->epoll_fd);
    free(load->samples);
    free(load);
}

void load_set(struct load *load, size_t index,
              const struct load_request *request)
{
    load->conns[index].request = *request;
}

// ------------------------------------------------------------------ sending

static void load_want_write(struct load *load, struct load_conn *conn,
                            bool wanted)
{
    struct epoll_event event = {.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                .data.ptr = conn};

    if (conn->wants_write == wanted)
        return;
    conn->wants_write = wanted;
    if (epoll_ctl(load->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event) != 0)
        load_die("epoll");
}

static ssize_t load_send_some(struct load_conn *conn)
{
    const struct load_request *request = &conn->request;
    bool in_head = conn->sent < request->head_bytes;
    size_t at = in_head ? conn->sent : conn->sent - request->head_bytes;
    const char *bytes = in_head ? request->head : request->body;
    size_t left = (in_head ? request->head_bytes : request->body_bytes) - at;
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT;

    if (in_head && request->body_bytes > 0)
        flags |= MSG_MORE;
    return send(conn->fd, bytes + at, left, flags);
}

// As much as the socket takes.
static void load_push(struct load *load, struct load_conn *conn)
{
    size_t whole = conn->request.head_bytes + conn->request.body_bytes;

    while (conn->sent < whole) {
        ssize_t sent = load_send_some(conn);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0)
            load_die("send");
        conn->sent += (size_t)sent;
    }
    load_want_write(load, conn, conn->sent < whole);
}

static void load_begin(struct load *load, struct load_conn *conn)
{
    conn->sent = 0;
    conn->waiting = true;
    conn->in_body = false;
    conn->head_bytes = 0;
    conn->sent_ns = load_now();
    load->waiting++;
    load_push(load, conn);
}

// ---------------------------------------------------------------- receiving

static void load_sample(struct load *load, int64_t ns)
{
    if (load->sample_count == load->sample_capacity) {
        load->sample_capacity = load->sample_capacity * 2 + 1024;
        load->samples =
            realloc(load->samples, load->sample_capacity * sizeof(float));
        if (load->samples == NULL)
            load_die("memory");
    }
    load->samples[load->sample_count++] = (float)ns / 1000;
}

static void load_answered(struct load *load, struct load_conn *conn)
{
    int64_t now = load_now();

    load_sample(load, now - conn->sent_ns);
    load->bytes += conn->request.body_bytes;
    conn->waiting = false;
    load->waiting--;
    if (now < load->until_ns)
        load_begin(load, conn);
}

// The head of the answer is whole; returns its end.
static const char *load_read_head(struct load_conn *conn)
{
    static const char length[] = "\r\nContent-Length:";
    const char *end = strstr(conn->head, "\r\n\r\n");

    if (end == NULL && conn->head_bytes == LOAD_HEAD_BYTES - 1)
        load_die("an answer's headers are too long");
    if (end == NULL)
        return NULL;
    if (strncmp(conn->head, "HTTP/1.1 2", 10) != 0) {
        fprintf(stderr, "load: answered\n%s\n", conn->head);
        exit(1);
    }
    const char *at = strcasestr(conn->head, length);
    if (at == NULL)
        load_die("an answer has no Content-Length");
    conn->body_left = strtoul(at + strlen(length), NULL, 10);
    conn->in_body = true;
    return end + 4;
}

// Bytes of the head, with perhaps some of the body behind them; returns how
// many of them belong to the body.
static size_t load_take_head(struct load_conn *conn, const char *bytes,
                             size_t size)
{
    size_t room = LOAD_HEAD_BYTES - 1 - conn->head_bytes;
    size_t taken = size < room ? size : room;

    memcpy(conn->head + conn->head_bytes, bytes, taken);
    conn->head_bytes += taken;
    conn->head[conn->head_bytes] = '\0';
    const char *end = load_read_head(conn);
    if (end == NULL)
        return 0;
    return size - taken + (size_t)(conn->head + conn->head_bytes - end);
}

static void load_pull(struct load *load, struct load_conn *conn)
{
    ssize_t got = recv(conn->fd, load->buffer, LOAD_READ_BYTES, MSG_DONTWAIT);

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0 || !conn->waiting)
        load_die("a connection ended, or brought what was not asked for");
    size_t size = (size_t)got;
    if (!conn->in_body)
        size = load_take_head(conn, load->buffer, size);
    if (size > conn->body_left)
        load_die("an answer is longer than it said");
    conn->body_left -= size;
    load->bytes += size;
    if (conn->in_body && conn->body_left == 0)
        load_answered(load, conn);
}

static void load_turn(struct load *load)
{
    struct epoll_event events[LOAD_EVENTS];
    int count =
        epoll_wait(load->epoll_fd, events, LOAD_EVENTS, LOAD_PATIENCE_MS);

    if (count <= 0)
        load_die("no answer");
    for (int i = 0; i < count; i++) {
        struct load_conn *conn = events[i].data.ptr;
        if ((events[i].events & EPOLLOUT) != 0)
            load_push(load, conn);
        if ((events[i].events & ~(uint32_t)EPOLLOUT) != 0)
            load_pull(load, conn);
    }
}

// ------------------------------------------------------------------ running

static int load_compare(const void *a, const void *b)
{
    float x = *(const float *)a;
    float y = *(const float *)b;

    return (x > y) - (x < y);
}

static void load_finish(struct load *load, int64_t began_ns,
                        struct load_result *out)
{
    while (load->waiting > 0)
        load_turn(load);
    int64_t ended_ns = load_now();
    size_t count = load->sample_count;
    qsort(load->samples, count, sizeof(float), load_compare);
    *out = (struct load_result){
        .requests = count,
        .bytes = load->bytes,
        .seconds = (double)(ended_ns - began_ns) / (double)POD_NS_PER_S,
        .p50_us = (double)load->samples[count / 2],
        .p99_us = (double)load->samples[count * 99 / 100],
    };
}

static void load_reset(struct load *load, int64_t until_ns)
{
    load->until_ns = until_ns;
    load->bytes = 0;
    load->sample_count = 0;
}

void load_run(struct load *load, double seconds, struct load_result *out)
{
    int64_t began_ns = load_now();

    load_reset(load, began_ns + (int64_t)(seconds * (double)POD_NS_PER_S));
    for (size_t i = 0; i < load->count; i++)
        load_begin(load, &load->conns[i]);
    load_finish(load, began_ns, out);
}

void load_send(struct load *load)
{
    load_reset(load, 0);
    for (size_t i = 0; i < load->count; i++)
        load_begin(load, &load->conns[i]);
}

void load_await(struct load *load, struct load_result *out)
{
    load_finish(load, load_now(), out);
}
