// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/patience.h"

static void client_die(const char *what)
{
    perror(what);
    abort();
}

int client_connect(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        client_die("connect");
    return fd;
}

bool client_send(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;

    while (length > 0) {
        ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
            return false;
        if (sent < 0)
            client_die("send");
        at += sent;
        length -= (size_t)sent;
    }
    return true;
}

bool client_puts(int fd, const char *text)
{
    return client_send(fd, text, strlen(text));
}

// At most `length` bytes; 0 at the end of the stream or after a reset.
static size_t client_receive(int fd, char *out, size_t length)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    if (poll(&poll_fd, 1, PATIENCE_MS) <= 0)
        client_die("no answer in time");
    ssize_t got = recv(fd, out, length, 0);
    if (got < 0 && errno != ECONNRESET)
        client_die("recv");
    return got > 0 ? (size_t)got : 0;
}

static bool client_read_head(int fd, struct client_answer *answer)
{
    size_t used = 0;

    while (used + 1 < sizeof(answer->head)) {
        if (client_receive(fd, answer->head + used, 1) == 0)
            return false;
        used++;
        answer->head[used] = '\0';
        if (used >= 4 && strcmp(answer->head + used - 4, "\r\n\r\n") == 0)
            return true;
    }
    return false;
}

const char *client_header(const struct client_answer *answer, const char *name)
{
    static _Thread_local char value[1024];
    size_t length = strlen(name);

    for (const char *line = answer->head; line != NULL && *line != '\0';) {
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            line += length + 1;
            line += strspn(line, " ");
            (void)snprintf(value, sizeof(value), "%.*s",
                           (int)strcspn(line, "\r"), line);
            return value;
        }
        line = strchr(line, '\n');
        if (line != NULL)
            line++;
    }
    return NULL;
}

struct client_answer client_read(int fd, bool no_body)
{
    struct client_answer answer = {.status = 0};

    do {
        if (!client_read_head(fd, &answer)) {
            answer.status = 0;
            return answer;
        }
        answer.status =
            (int)strtol(answer.head + strlen("HTTP/1.1 "), NULL, 10);
    } while (answer.status == 100);
    const char *length = client_header(&answer, "Content-Length");
    size_t size = length != NULL && !no_body ? strtoul(length, NULL, 10) : 0;
    answer.body = calloc(1, size + 1);
    if (answer.body == NULL)
        client_die("calloc");
    while (answer.body_size < size) {
        size_t got = client_receive(fd, answer.body + answer.body_size,
                                    size - answer.body_size);
        if (got == 0)
            break;
        answer.body_size += got;
    }
    return answer;
}

void client_answer_free(struct client_answer *answer)
{
    free(answer->body);
    answer->body = NULL;
}

bool client_is_closed(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    char byte;

    for (;;) {
        if (poll(&poll_fd, 1, PATIENCE_MS) <= 0)
            return false;
        if (recv(fd, &byte, 1, 0) <= 0)
            return true;
    }
}

struct client_answer client_ask(unsigned port, const char *request)
{
    int fd = client_connect(port);

    (void)client_puts(fd, request);
    struct client_answer answer =
        client_read(fd, strncmp(request, "HEAD ", 5) == 0);
    (void)close(fd);
    return answer;
}
