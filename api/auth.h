// SPDX-License-Identifier: Apache-2.0
// Who a request is from, and what he may do.
//
// With a token file every request needs a token, but for routes of scope NONE:
// `Authorization: Bearer TOKEN`, or the cookie of a session (POST /ui/session).
// Each scope holds the ones below it: read < write < admin. A path or method
// that does not exist needs a token too, so that nobody without one learns what
// there is. On a Unix socket the users root and that of podd itself are known
// by the socket and are admin; others need a token, and where there is no token
// file they are refused.
//
// The token file is looked at once a second while requests come, and at
// api_server_reload (a stat of the loop's thread; a small file is read there
// when it changed). A file that cannot be read or is malformed leaves the
// tokens as they were and is logged; an empty one ends them all.
#ifndef POD_API_AUTH_H
#define POD_API_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "api/http.h"
#include "api/session.h"
#include "api/tokens.h"

struct api_auth {
    bool on;          // somebody may be refused
    char *token_file; // NULL: no tokens
    struct api_tokens tokens;
    struct api_file_stamp stamp;
    int64_t look_ns; // when the file is looked at next
    bool broken;     // the file is unfit, and that was logged
    struct api_sessions sessions;
};

// `token_file` may be NULL, `local`: a Unix socket. Errors: BAD_VALUE, and the
// file must hold a token.
enum pod_code api_auth_init(struct api_auth *auth, const char *token_file,
                            bool local, struct pod_err *err)
    __attribute__((warn_unused_result));
void api_auth_fini(struct api_auth *auth);

// Looks at the files of tokens and certificate now.
void api_auth_reload(struct api_server *server);

// Finds out who sends the request and whether its route (or, without one, the
// path) is for him. Errors: UNAUTHENTICATED, FORBIDDEN; the WWW-Authenticate
// header of the answer is set.
enum pod_code api_auth_admit(struct api_request *req, struct pod_err *err)
    __attribute__((warn_unused_result));
// Whether the request may do what needs this scope. For handlers of routes
// that need none.
bool api_may(const struct api_request *req, enum api_scope scope);

// POST and DELETE /ui/session.
void api_session_post(struct api_request *req);
void api_session_delete(struct api_request *req);

#endif
