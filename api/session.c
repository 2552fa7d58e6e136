// SPDX-License-Identifier: Apache-2.0
#include "api/session.h"

#include <string.h>

#include <nettle/memops.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

void api_sessions_fini(struct api_sessions *sessions)
{
    pod_free(sessions->items);
    *sessions = (struct api_sessions){.items = NULL};
}

// All places have the same lifetime, so the one taken first ends first.
bool api_session_open(struct api_sessions *sessions,
                      const uint8_t token[API_TOKEN_HASH_BYTES], int64_t now_ns,
                      char out_cookie[API_TOKEN_TEXT_BYTES])
{
    if (sessions->items == NULL)
        sessions->items =
            pod_calloc(API_SESSIONS_MAX, sizeof(sessions->items[0]));
    if (sessions->items == NULL || !api_token_make(out_cookie))
        return false;
    struct api_session *session = &sessions->items[sessions->next];
    sessions->next = (sessions->next + 1) % API_SESSIONS_MAX;
    api_token_hash(out_cookie, strlen(out_cookie), session->hash);
    memcpy(session->token, token, API_TOKEN_HASH_BYTES);
    session->until_ns =
        pod_time_add(now_ns, API_SESSION_SECONDS * POD_NS_PER_S);
    return true;
}

static struct api_session *session_find(const struct api_sessions *sessions,
                                        const char *cookie)
{
    uint8_t hash[API_TOKEN_HASH_BYTES];
    struct api_session *found = NULL;

    if (sessions->items == NULL)
        return NULL;
    api_token_hash(cookie, strlen(cookie), hash);
    for (size_t i = 0; i < API_SESSIONS_MAX; i++) {
        struct api_session *session = &sessions->items[i];
        if (memeql_sec(session->hash, hash, sizeof(hash)) &&
            session->until_ns > 0)
            found = session;
    }
    return found;
}

const uint8_t *api_session_token(const struct api_sessions *sessions,
                                 const char *cookie, int64_t now_ns)
{
    const struct api_session *session = session_find(sessions, cookie);

    return session != NULL && now_ns < session->until_ns ? session->token
                                                         : NULL;
}

void api_session_close(struct api_sessions *sessions, const char *cookie)
{
    struct api_session *session = session_find(sessions, cookie);

    if (session != NULL)
        *session = (struct api_session){.until_ns = 0};
}
