// SPDX-License-Identifier: Apache-2.0
// A client of the stream of changes, on a raw socket: it takes the chunked
// answer apart message by message, and may go away at any byte.
#ifndef POD_TESTS_LIB_WATCH_CLIENT_H
#define POD_TESTS_LIB_WATCH_CLIENT_H

#include <jansson.h>
#include <stdbool.h>

struct watch_client;

// Asks for a target with header lines of its own, each ended by CRLF ("": none)
// and reads the head of the answer. `receive_bytes`: of the socket's buffer, 0:
// as the system has it.
struct watch_client *watch_open(unsigned port, const char *target,
                                const char *headers, int receive_bytes);
void watch_close(struct watch_client *client);

int watch_status(const struct watch_client *client);
// Status line and headers.
const char *watch_head(const struct watch_client *client);

// The next message (the caller's); NULL: the answer has ended. Of a frame of
// SSE, the fields are checked to be those of the message.
json_t *watch_next(struct watch_client *client);
// The retry field of the last SSE frame, -1: it had none.
long watch_retry(const struct watch_client *client);
// Whether the answer ended as a whole one does.
bool watch_ended_well(const struct watch_client *client);

#endif
