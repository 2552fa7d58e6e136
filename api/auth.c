// SPDX-License-Identifier: Apache-2.0
#include "api/auth.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "api/json.h"
#include "api/query.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#define AUTH_LOOK_NS POD_NS_PER_S

static const char auth_cookie[] = "podd_session";

// ----------------------------------------------------------------- the tokens

enum pod_code api_auth_init(struct api_auth *auth, const char *token_file,
                            bool local, struct pod_err *err)
{
    auth->on = token_file != NULL || local;
    if (token_file == NULL)
        return POD_OK;
    auth->token_file = pod_strdup(token_file);
    if (auth->token_file == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    enum pod_code code =
        api_tokens_load(token_file, &auth->tokens, &auth->stamp, err);
    if (code != POD_OK)
        pod_err_wrap(err, "--token-file");
    if (code == POD_OK && auth->tokens.count == 0)
        code = pod_err_set(err, POD_REASON_BAD_VALUE,
                           "%s: no token in it: make one with podd token add "
                           "--scope admin --token-file %s",
                           token_file, token_file);
    return code;
}

void api_auth_fini(struct api_auth *auth)
{
    pod_free(auth->token_file);
    api_tokens_fini(&auth->tokens);
    api_sessions_fini(&auth->sessions);
}

static void auth_read_again(struct api_auth *auth)
{
    struct pod_err err;

    if (api_tokens_load(auth->token_file, &auth->tokens, &auth->stamp, &err) ==
        POD_OK) {
        auth->broken = false;
        pod_log(auth->tokens.count > 0 ? POD_LOG_INFO : POD_LOG_WARN, "tokens",
                "read again: %zu tokens", auth->tokens.count);
        return;
    }
    if (!auth->broken)
        pod_log(POD_LOG_ERROR, "tokens", "kept as they were: %s", err.text);
    auth->broken = true;
}

static void auth_look(struct api_server *server)
{
    struct api_auth *auth = &server->auth;

    if (auth->token_file == NULL || server->now_ns < auth->look_ns)
        return;
    auth->look_ns = pod_time_add(server->now_ns, AUTH_LOOK_NS);
    if (!api_file_is(auth->token_file, &auth->stamp))
        auth_read_again(auth);
}

void api_auth_reload(struct api_server *server)
{
    server->auth.look_ns = 0;
    auth_look(server);
    if (server->tls != NULL)
        api_tls_look(server->tls);
}

// ---------------------------------------------------------------- the caller

// Who sends a request, and how we know.
struct auth_caller {
    enum api_scope scope; // NONE: nobody we know
    const char *fault;    // then why, for the answer
    uint8_t token[API_TOKEN_HASH_BYTES];
    char name[sizeof(((struct api_request *)0)->identity)];
    uint64_t key;
};

static void auth_is_token(struct auth_caller *caller,
                          const struct api_token *token)
{
    caller->scope = token->scope;
    memcpy(caller->token, token->hash, sizeof(caller->token));
    memcpy(&caller->key, token->hash, sizeof(caller->key));
    caller->key |= 1; // never 0
    (void)snprintf(caller->name, sizeof(caller->name), "%s", token->name);
}

static bool auth_is_local(const struct api_conn *conn,
                          struct auth_caller *caller)
{
    if (!conn->local || (conn->uid != 0 && conn->uid != geteuid()))
        return false;
    caller->scope = API_SCOPE_ADMIN;
    caller->key = UINT64_C(1) << 33 | conn->uid;
    (void)snprintf(caller->name, sizeof(caller->name), "uid:%u",
                   (unsigned)conn->uid);
    return true;
}

struct auth_given {
    unsigned count;
    const char *value;
};

static enum MHD_Result auth_header(void *arg, enum MHD_ValueKind kind,
                                   const char *name, const char *value)
{
    struct auth_given *given = arg;

    (void)kind;
    if (strcasecmp(name, "Authorization") == 0) {
        given->count++;
        given->value = value != NULL ? value : "";
    }
    return MHD_YES;
}

static void auth_bearer(const struct api_request *req, const char *value,
                        struct auth_caller *caller)
{
    uint8_t hash[API_TOKEN_HASH_BYTES];

    if (strncasecmp(value, "Bearer ", 7) != 0) {
        caller->fault = "Authorization is not \"Bearer TOKEN\"";
        return;
    }
    value += 7;
    value += strspn(value, " ");
    size_t length = strcspn(value, " \t");
    api_token_hash(value, length, hash);
    const struct api_token *token =
        api_tokens_find(&req->server->auth.tokens, hash);
    if (value[length] == '\0' && token != NULL)
        auth_is_token(caller, token);
    else
        caller->fault = "the token is not known";
}

static const char *auth_cookie_of(const struct api_request *req)
{
    return MHD_lookup_connection_value(req->connection, MHD_COOKIE_KIND,
                                       auth_cookie);
}

static void auth_session(const struct api_request *req, const char *cookie,
                         struct auth_caller *caller)
{
    const struct api_auth *auth = &req->server->auth;
    const uint8_t *hash =
        api_session_token(&auth->sessions, cookie, req->server->now_ns);
    const struct api_token *token =
        hash != NULL ? api_tokens_find(&auth->tokens, hash) : NULL;

    if (token != NULL)
        auth_is_token(caller, token);
    else
        caller->fault = "the session has ended: sign in again at /ui/";
}

// A token that is shown counts, before a cookie and before the socket.
static void auth_identify(const struct api_request *req,
                          struct auth_caller *caller)
{
    struct auth_given given = {.count = 0};
    const char *cookie = auth_cookie_of(req);

    (void)MHD_get_connection_values(req->connection, MHD_HEADER_KIND,
                                    auth_header, &given);
    if (given.count > 1)
        caller->fault = "Authorization is given twice";
    else if (given.count == 1)
        auth_bearer(req, given.value, caller);
    else if (auth_is_local(req->conn, caller))
        return;
    else if (cookie != NULL)
        auth_session(req, cookie, caller);
}

// ------------------------------------------------------------------ admission

// A browser asks without a token whether a page of another origin may ask.
static bool auth_is_preflight(const struct api_request *req)
{
    return req->method == API_OPTIONS &&
           api_request_header(req, "Access-Control-Request-Method") != NULL &&
           api_origin_listed(req);
}

static enum pod_code auth_refuse(struct api_request *req,
                                 const struct auth_caller *caller,
                                 struct pod_err *err)
{
    if (caller->fault != NULL) {
        api_header(req, "WWW-Authenticate",
                   "Bearer realm=\"podd\", error=\"invalid_token\"");
        return pod_err_set(err, POD_REASON_UNAUTHENTICATED, "%s",
                           caller->fault);
    }
    if (req->server->auth.token_file == NULL)
        return pod_err_set(
            err, POD_REASON_FORBIDDEN,
            "only root and the user that podd runs as may use this socket");
    api_header(req, "WWW-Authenticate", "Bearer realm=\"podd\"");
    return pod_err_set(err, POD_REASON_UNAUTHENTICATED,
                       "a token is needed: send the header Authorization: "
                       "Bearer TOKEN (curl: -H \"Authorization: Bearer "
                       "$TOKEN\")");
}

static enum pod_code auth_forbid(struct api_request *req, enum api_scope needed,
                                 struct pod_err *err)
{
    api_header(req, "WWW-Authenticate",
               "Bearer realm=\"podd\", error=\"insufficient_scope\", "
               "scope=\"%s\"",
               api_scope_name(needed));
    return pod_err_set(err, POD_REASON_FORBIDDEN,
                       "this needs the scope %s; the token has %s",
                       api_scope_name(needed), api_scope_name(req->scope));
}

enum pod_code api_auth_admit(struct api_request *req, struct pod_err *err)
{
    const struct api_route *route = req->match.route;
    enum api_scope needed = route != NULL ? route->scope : API_SCOPE_READ;
    struct auth_caller caller = {.scope = API_SCOPE_NONE};

    req->scope = API_SCOPE_ADMIN;
    if (!req->server->auth.on)
        return POD_OK;
    auth_look(req->server);
    auth_identify(req, &caller);
    req->scope = caller.scope;
    req->caller_key = caller.key;
    memcpy(req->identity, caller.name, sizeof(req->identity));
    if (needed == API_SCOPE_NONE || caller.scope >= needed ||
        auth_is_preflight(req))
        return POD_OK;
    return caller.scope == API_SCOPE_NONE ? auth_refuse(req, &caller, err)
                                          : auth_forbid(req, needed, err);
}

bool api_may(const struct api_request *req, enum api_scope scope)
{
    return req->scope >= scope;
}

// ------------------------------------------------------------------- sessions

static void auth_set_cookie(struct api_request *req, const char *value,
                            int seconds)
{
    api_header(req, "Set-Cookie",
               "%s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s",
               auth_cookie, value, seconds,
               req->server->tls != NULL ? "; Secure" : "");
}

static enum pod_code auth_read_token(const struct api_request *req,
                                     const char **out_token,
                                     struct pod_err *err)
{
    struct api_reader reader;

    *out_token = NULL;
    enum pod_code code = api_read_begin(&reader, api_body_json(req), "", err);
    if (code == POD_OK)
        code = api_read_string(&reader, "token", out_token, err);
    if (code == POD_OK)
        code = api_read_end(&reader, err);
    if (code == POD_OK && *out_token == NULL)
        code = api_read_missing(&reader, "token", err);
    return code;
}

static enum pod_code auth_open_session(struct api_request *req,
                                       const char *text, struct pod_err *err)
{
    struct api_auth *auth = &req->server->auth;
    uint8_t hash[API_TOKEN_HASH_BYTES];
    char cookie[API_TOKEN_TEXT_BYTES];

    api_token_hash(text, strlen(text), hash);
    const struct api_token *token = api_tokens_find(&auth->tokens, hash);
    if (token == NULL) {
        const struct auth_caller nobody = {.fault = "the token is not known"};
        return auth_refuse(req, &nobody, err);
    }
    (void)snprintf(req->identity, sizeof(req->identity), "%s", token->name);
    req->scope = token->scope; // for the audit log
    if (!api_session_open(&auth->sessions, hash, req->server->now_ns, cookie))
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for a session");
    auth_set_cookie(req, cookie, API_SESSION_SECONDS);
    return POD_OK;
}

// Where nobody needs a token any is good, and no cookie is needed.
void api_session_post(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    const char *token = NULL;
    enum pod_code code = api_query_end(req, &err);

    if (code == POD_OK)
        code = auth_read_token(req, &token, &err);
    if (code == POD_OK && req->server->auth.token_file != NULL)
        code = auth_open_session(req, token, &err);
    if (code == POD_OK)
        api_reply_empty(req, 204);
    else
        api_problem(req, &err);
}

void api_session_delete(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    const char *cookie = auth_cookie_of(req);

    if (api_query_end(req, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    if (cookie != NULL)
        api_session_close(&req->server->auth.sessions, cookie);
    auth_set_cookie(req, "", 0);
    api_reply_empty(req, 204);
}
