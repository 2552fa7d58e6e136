// SPDX-License-Identifier: Apache-2.0
// Sessions of browsers: a random cookie that stands for a token, so that no
// script can read the token. Kept in memory, a number of them, for a time; a
// session ends with its token. Not thread-safe.
#ifndef POD_API_SESSION_H
#define POD_API_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/tokens.h"

enum { API_SESSIONS_MAX = 1000, API_SESSION_SECONDS = 12 * 3600 };

struct api_session {
    uint8_t hash[API_TOKEN_HASH_BYTES]; // of the cookie
    uint8_t token[API_TOKEN_HASH_BYTES];
    int64_t until_ns; // 0: no session
};

// Zero-initialise it.
struct api_sessions {
    struct api_session *items;
    size_t next; // the oldest place, taken next
};

void api_sessions_fini(struct api_sessions *sessions);
// Writes the cookie's value. When there are too many the oldest ends. False:
// no memory or no random bytes.
bool api_session_open(struct api_sessions *sessions,
                      const uint8_t token[API_TOKEN_HASH_BYTES], int64_t now_ns,
                      char out_cookie[API_TOKEN_TEXT_BYTES])
    __attribute__((warn_unused_result));
// The hash of the token that a cookie stands for, or NULL.
const uint8_t *api_session_token(const struct api_sessions *sessions,
                                 const char *cookie, int64_t now_ns);
void api_session_close(struct api_sessions *sessions, const char *cookie);

#endif
