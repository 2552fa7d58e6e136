// SPDX-License-Identifier: Apache-2.0
// Cursors of the stream of changes, as text: "<instance>-<sequence>", and
// "<instance>-<sequence>-<stage>-<place>" inside a snapshot that was begun at
// that sequence. Pure functions.
#ifndef POD_API_CURSOR_H
#define POD_API_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

struct api_cursor {
    uint64_t sequence; // of the last change that was delivered
    bool snapshot;     // inside of one: what follows goes on with it
    uint32_t stage;    // which collection; below 100
    uint64_t place;    // how far in it
};

enum { API_CURSOR_BYTES = 96 };

const char *api_cursor_print(const char *instance,
                             const struct api_cursor *cursor,
                             char buffer[API_CURSOR_BYTES]);
// False: not a cursor of this instance.
bool api_cursor_parse(const char *instance, const char *text,
                      struct api_cursor *out_cursor);

#endif
