// SPDX-License-Identifier: Apache-2.0
// A client of raw sockets for the tests of the HTTP layer: it sends exactly
// the bytes it is told, and reads answers one by one.
#ifndef POD_TESTS_LIB_HTTP_CLIENT_H
#define POD_TESTS_LIB_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

// Connects to 127.0.0.1:port; aborts the program if it cannot.
int client_connect(unsigned port);

// All of it, or the program aborts; false: the peer has closed.
bool client_send(int fd, const void *bytes, size_t length);
bool client_puts(int fd, const char *text);

struct client_answer {
    int status;      // 0: the connection ended before an answer
    char head[4096]; // status line and headers
    char *body;      // NUL-terminated; client_answer_free
    size_t body_size;
};

// Reads one answer (Content-Length, or no body). `no_body`: it answers HEAD.
struct client_answer client_read(int fd, bool no_body);
void client_answer_free(struct client_answer *answer);
// The value of a header, in a buffer of the thread's own; NULL: not there.
const char *client_header(const struct client_answer *answer, const char *name);
// Whether the peer has closed (waits for it up to a minute).
bool client_is_closed(int fd);

// Connects, sends, reads one answer, closes.
struct client_answer client_ask(unsigned port, const char *request);

#endif
