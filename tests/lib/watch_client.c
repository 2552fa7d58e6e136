// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/watch_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/http_client.h"
#include "tests/lib/patience.h"

enum { WATCH_LINE_BYTES = 256 * 1024 };

struct watch_client {
    int fd;
    int status;
    char head[4096];
    bool sse;
    bool ended; // by the last chunk
    long retry;
    char bytes[16384]; // read, not yet used
    size_t used;
    size_t filled;
    size_t chunk; // bytes that are left of the present chunk
    char line[WATCH_LINE_BYTES];
};

static bool watch_fill(struct watch_client *client)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};

    if (client->used < client->filled)
        return true;
    assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
    ssize_t got = recv(client->fd, client->bytes, sizeof(client->bytes), 0);
    client->used = 0;
    client->filled = got > 0 ? (size_t)got : 0;
    return got > 0;
}

// One byte as it came over the wire; -1: the end.
static int watch_byte(struct watch_client *client)
{
    if (!watch_fill(client))
        return -1;
    return (unsigned char)client->bytes[client->used++];
}

static void watch_read_head(struct watch_client *client)
{
    size_t length = 0;
    int byte;

    while ((byte = watch_byte(client)) >= 0) {
        assert_true(length + 1 < sizeof(client->head));
        client->head[length++] = (char)byte;
        client->head[length] = '\0';
        if (length >= 4 && strcmp(client->head + length - 4, "\r\n\r\n") == 0)
            break;
    }
    assert_int_equal(sscanf(client->head, "HTTP/1.1 %d", &client->status), 1);
    client->sse = strstr(client->head, "text/event-stream") != NULL;
}

static int watch_connect(unsigned port, int receive_bytes)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (receive_bytes > 0)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                                    sizeof(receive_bytes)),
                         0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)),
                     0);
    return fd;
}

struct watch_client *watch_open(unsigned port, const char *target,
                                const char *headers, int receive_bytes)
{
    struct watch_client *client = calloc(1, sizeof(*client));
    char request[2048];

    assert_non_null(client);
    client->fd = watch_connect(port, receive_bytes);
    client->retry = -1;
    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", target,
                   headers);
    assert_true(client_puts(client->fd, request));
    watch_read_head(client);
    return client;
}

void watch_close(struct watch_client *client)
{
    if (client == NULL)
        return;
    (void)close(client->fd);
    free(client);
}

int watch_status(const struct watch_client *client)
{
    return client->status;
}

const char *watch_head(const struct watch_client *client)
{
    return client->head;
}

long watch_retry(const struct watch_client *client)
{
    return client->retry;
}

bool watch_ended_well(const struct watch_client *client)
{
    return client->ended;
}

// ------------------------------------------------------------------- chunks

// The size line of the next chunk; false: it was the last one, or the end.
static bool watch_next_chunk(struct watch_client *client)
{
    char size[32];
    size_t length = 0;
    int byte;

    while ((byte = watch_byte(client)) >= 0 && byte != '\n') {
        if (length + 1 < sizeof(size) && byte != '\r')
            size[length++] = (char)byte;
        // The line feed that ends the chunk before is skipped.
    }
    size[length] = '\0';
    if (byte < 0)
        return false;
    if (length == 0)
        return watch_next_chunk(client);
    client->chunk = strtoul(size, NULL, 16);
    client->ended = client->chunk == 0;
    return !client->ended;
}

// One byte of the body; -1: the end.
static int watch_body_byte(struct watch_client *client)
{
    if (client->ended || (client->chunk == 0 && !watch_next_chunk(client)))
        return -1;
    int byte = watch_byte(client);
    client->chunk--;
    return byte;
}

// A line of the body without its line feed; false: the end.
static bool watch_line(struct watch_client *client)
{
    size_t length = 0;
    int byte;

    while ((byte = watch_body_byte(client)) >= 0 && byte != '\n') {
        assert_true(length + 1 < sizeof(client->line));
        client->line[length++] = (char)byte;
    }
    client->line[length] = '\0';
    return byte == '\n';
}

// ----------------------------------------------------------------- messages

static json_t *watch_parse(const char *text)
{
    json_t *message = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(message);
    return message;
}

static const char *watch_member(const json_t *message, const char *name)
{
    const char *text = json_string_value(json_object_get(message, name));

    return text != NULL ? text : "";
}

static json_t *watch_next_frame(struct watch_client *client)
{
    char type[32] = "";
    char id[128] = "";
    json_t *message = NULL;

    client->retry = -1;
    while (watch_line(client)) {
        const char *line = client->line;
        if (line[0] == '\0')
            break;
        if (strncmp(line, "data: ", 6) == 0) {
            assert_null(message);
            message = watch_parse(line + 6);
        } else if (sscanf(line, "retry: %ld", &client->retry) != 1) {
            assert_true(sscanf(line, "event: %31s", type) == 1 ||
                        sscanf(line, "id: %127s", id) == 1);
        }
    }
    if (message == NULL)
        return NULL;
    assert_string_equal(type, watch_member(message, "type"));
    assert_string_equal(id, watch_member(message, "cursor"));
    return message;
}

json_t *watch_next(struct watch_client *client)
{
    if (client->sse)
        return watch_next_frame(client);
    return watch_line(client) ? watch_parse(client->line) : NULL;
}
