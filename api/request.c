// SPDX-License-Identifier: Apache-2.0
// A request's way through libmicrohttpd's access handler, which is called
// once when the headers are there, once for each piece of the body, once when
// it is whole, and once more after each resume:
//
//   HEADERS -> BODY -> HANDLING <-> PARKED
//                          |
//                       REPLYING -> completed
//
// Replies are only made in handlers and queued here, because only here may
// libmicrohttpd take them. A refusal before the body is queued early for POST
// and PUT (the body is then not read and the connection closes); a small body
// is read and dropped instead, so that the connection lives on.
#include <string.h>

#include "api/digits.h"
#include "api/http_internal.h"
#include "api/quota.h"
#include "api/request_log.h"
#include "core/base/log.h"
#include "core/base/mem.h"

enum {
    REQUEST_DROP_BYTES = 64 * 1024,  // a refused body this small is read
    REQUEST_DISCARD_BYTES = 1 << 20, // after an early answer, before the cut
    REQUEST_SPARE = 64,
    REQUEST_IDLE_WAKES = 8, // parks in a row that were woken at once
};

// ---------------------------------------------------------------------- life

static enum api_method request_method(const char *text)
{
    static const char *const names[] = {"GET", "HEAD",   "POST",
                                        "PUT", "DELETE", "OPTIONS"};

    for (int i = 0; i < API_OTHER; i++) {
        if (strcmp(text, names[i]) == 0)
            return (enum api_method)i;
    }
    return API_OTHER;
}

// The client's id if it is fit to be shown, else one of ours: a counter from a
// random start, mixed (splitmix64), so that ids of two runs do not meet.
static void request_identify(struct api_request *req)
{
    const char *given = api_request_header(req, "X-Request-Id");

    if (given != NULL && pod_request_id_fit(given)) {
        memcpy(req->id, given, strlen(given) + 1);
        return;
    }
    uint64_t z = req->server->id_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    *api_put_hex(req->id, z ^ z >> 31) = '\0';
}

// A request is too large for malloc's quick bins, so some are kept. The arena
// is cleared as it is handed out.
static struct api_request *request_take(struct api_server *server)
{
    struct pod_list *item = pod_list_pop_front(&server->spare);
    struct api_request *req;

    if (item != NULL) {
        req = POD_CONTAINER(item, struct api_request, wake_link);
        server->spare_count--;
    } else {
        req = pod_malloc(sizeof(*req));
    }
    return req != NULL ? memset(req, 0, offsetof(struct api_request, arena))
                       : NULL;
}

static void request_put(struct api_request *req)
{
    struct api_server *server = req->server;
    struct api_arena_chunk *chunk;

    while ((chunk = req->chunks) != NULL) {
        req->chunks = chunk->next;
        pod_free(chunk);
    }
    if (server->spare_count == REQUEST_SPARE) {
        pod_free(req);
        return;
    }
    server->spare_count++;
    pod_list_push_back(&server->spare, &req->wake_link);
}

void api_request_free_spare(struct api_server *server)
{
    struct pod_list *item;

    while ((item = pod_list_pop_front(&server->spare)) != NULL) {
        server->spare_count--;
        pod_free(POD_CONTAINER(item, struct api_request, wake_link));
    }
}

static struct api_request *request_new(struct api_conn *conn,
                                       struct MHD_Connection *connection,
                                       const char *method)
{
    struct api_request *req = request_take(conn->server);

    if (req == NULL)
        return NULL;
    req->server = conn->server;
    req->conn = conn;
    req->connection = connection;
    req->method = request_method(method);
    req->method_text = method;
    req->started_ns = conn->server->now_ns;
    pod_list_init(&req->wake_link);
    pod_list_init(&req->thread_link);
    pod_list_init(&req->watches);
    req->target = api_strdup(req, conn->target != NULL ? conn->target : "");
    req->path = "";
    if (req->target == NULL) {
        request_put(req);
        return NULL;
    }
    request_identify(req);
    conn->req = req;
    conn->server->in_flight++;
    return req;
}

void api_request_free(struct api_request *req)
{
    struct api_server *server = req->server;

    for (struct api_cleanup *c = req->cleanups; c != NULL; c = c->next)
        c->run(c->arg);
    // No thread wakes it from here on; what is queued is taken back.
    pod_mutex_lock(&server->shared.lock);
    pod_list_remove(&req->thread_link);
    pod_mutex_unlock(&server->shared.lock);
    api_park_leave(req);
    api_keyed_fini(req);
    api_quota_leave(req);
    api_body_fini(req);
    if (req->response != NULL)
        MHD_destroy_response(req->response);
    pod_trace_unref(req->trace);
    req->conn->req = NULL;
    server->in_flight--;
    request_put(req);
}

// Counts a request that has ended, for /metrics.
static void request_count(const struct api_request *req)
{
    struct api_server *server = req->server;
    const struct api_route *route = req->match.route;
    size_t place =
        route != NULL ? (size_t)(route - server->routes) : server->route_count;

    api_traffic_note(&server->traffic, place, req->status,
                     api_now(req) - req->started_ns);
}

void api_request_completed(void *arg, struct MHD_Connection *connection,
                           void **context, enum MHD_RequestTerminationCode code)
{
    struct api_request *req = *context;
    struct api_server *server = arg;

    (void)connection;
    *context = NULL;
    if (req == NULL)
        return;
    struct api_conn *conn = req->conn;
    atomic_fetch_add(&server->requests, 1);
    request_count(req);
    api_request_log(req, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
    api_request_free(req);
    api_conn_enter(conn, conn->hung_up ? API_PHASE_GONE : API_PHASE_IDLE);
}

// ------------------------------------------------------------------ replying

static enum MHD_Result request_queue(struct api_request *req)
{
    api_keyed_end(req);
    api_reply_decorate(req);
    req->stage = API_STAGE_REPLYING;
    api_conn_enter(req->conn, API_PHASE_REPLY);
    return MHD_queue_response(req->connection, (unsigned)req->status,
                              req->response);
}

static void request_refuse(struct api_request *req, const struct pod_err *err)
{
    struct api_problem more = {.close = err->reason == POD_REASON_BAD_FRAMING};

    api_problem_with(req, err, &more);
}

static void request_fail(struct api_request *req, const char *what)
{
    struct pod_err err;

    pod_log(POD_LOG_ERROR, "http", "%s %s: %s", req->method_text, req->target,
            what);
    (void)pod_err_set(&err, POD_REASON_INTERNAL, "the server failed");
    api_problem(req, &err);
}

static void request_resume(struct api_request *req)
{
    enum api_wake why = req->wake;
    api_resume_fn *resume = req->resume;

    req->stage = API_STAGE_HANDLING;
    req->woken = false;
    api_park_unlist(req);
    if (why == API_WAKE_DRAIN)
        req->drain_told = true;
    resume(req, why);
}

// After a handler: the reply is queued, or the request suspended.
static enum MHD_Result request_settle(struct api_request *req)
{
    for (int turns = 0; req->response == NULL; turns++) {
        if (req->stage != API_STAGE_PARKED || turns > REQUEST_IDLE_WAKES) {
            request_fail(req, req->stage == API_STAGE_PARKED
                                  ? "parked again and again without waiting"
                                  : "the handler gave no answer");
            break;
        }
        if (!api_keyed_waits(req))
            api_body_fini(req);
        if (req->abandoned || req->conn->hung_up || req->server->abandon_done)
            return MHD_NO;
        if (!req->woken) {
            if (!api_park_hold(req))
                api_suspend(req);
            return MHD_YES;
        }
        request_resume(req);
    }
    api_park_leave(req);
    return request_queue(req);
}

// -------------------------------------------------------------- the headers

static void request_options(struct api_request *req)
{
    char allow[API_ALLOW_BYTES];

    api_route_allow(req->match.allowed, allow);
    api_header_text(req, "Allow", allow);
    api_reply_empty(req, 204);
}

static enum pod_code request_copy_params(struct api_request *req,
                                         struct pod_err *err)
{
    for (size_t i = 0; i < req->match.param_count; i++) {
        const struct api_param *param = &req->match.params[i];
        char *copy = api_alloc(req, param->length + 1);
        if (copy == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for the path");
        req->params[i] = memcpy(copy, param->start, param->length);
    }
    return POD_OK;
}

// Refusals count against the rate of the client's address.
static enum pod_code request_admit_caller(struct api_request *req,
                                          struct pod_err *err)
{
    struct pod_err refused;
    enum pod_code code = api_auth_admit(req, err);

    if (api_quota_admit(req, &refused))
        return code;
    *err = refused;
    return refused.code;
}

static enum pod_code request_route(struct api_request *req, struct pod_err *err)
{
    const struct api_server *server = req->server;
    char allow[API_ALLOW_BYTES];

    if (req->method == API_OPTIONS && strcmp(req->path, "*") == 0) {
        req->match.allowed = (1U << API_OTHER) - 1; // of the server as a whole
        return POD_OK;
    }
    api_route_match(server->routes, server->route_count, req->method, req->path,
                    &req->match);
    enum pod_code code = request_admit_caller(req, err);
    if (code != POD_OK)
        return code;
    if (req->match.allowed == 0)
        return pod_err_set(err, POD_REASON_NOT_FOUND,
                           "there is no \"%.200s\"; GET /v1 lists what there "
                           "is, /openapi.json describes all of it",
                           req->path);
    if (req->match.route != NULL || req->method == API_OPTIONS)
        return request_copy_params(req, err);
    api_route_allow(req->match.allowed, allow);
    api_header_text(req, "Allow", allow);
    return pod_err_set(err, POD_REASON_METHOD_NOT_ALLOWED,
                       "\"%.200s\" takes %s, not %.16s", req->path, allow,
                       req->method_text);
}

static enum pod_code request_check_size(struct api_request *req,
                                        struct pod_err *err)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        req->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    size_t limit = req->server->limits.header_bytes;

    if (strlen(req->target) > limit / 2)
        return pod_err_set(err, POD_REASON_URI_TOO_LONG,
                           "the request target is longer than %zu bytes",
                           limit / 2);
    if (info != NULL && info->header_size > limit)
        return pod_err_set(err, POD_REASON_HEADERS_TOO_LARGE,
                           "the headers are larger than %zu bytes", limit);
    return POD_OK;
}

// A NUL in the target cuts the text that libmicrohttpd gives us, but not the
// bytes: in its buffer the version stands one byte behind the target's end.
// (1.0 refuses such a request itself, and makes no promise of the layout.)
static enum pod_code request_check_nul(const struct api_request *req,
                                       const char *version, struct pod_err *err)
{
    uintptr_t gap = (uintptr_t)version - req->conn->target_place;

    // An empty one is the place of a target there was no memory to keep.
    if (req->target[0] == '\0')
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (MHD_VERSION >= 0x01000000 || gap <= strlen(req->target) + 1 ||
        gap > req->server->limits.header_bytes)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_FRAMING,
                       "the request target has a NUL");
}

static enum pod_code request_admit(struct api_request *req, const char *version,
                                   struct pod_err *err)
{
    enum pod_code code = request_check_nul(req, version, err);

    if (code == POD_OK) {
        code = api_conn_admit(req->conn, err);
        req->close = req->close || code != POD_OK;
    }
    if (code == POD_OK)
        code = api_guard(req, version, err);
    if (code == POD_OK)
        code = request_check_size(req, err);
    if (code == POD_OK)
        code = api_target_parse(req, err);
    if (code == POD_OK)
        code = request_route(req, err);
    if (code != POD_OK)
        return code;
    if (req->match.route == NULL) {
        request_options(req);
        return POD_OK;
    }
    req->body.kind = req->match.route->body;
    code = api_keyed_headers(req, err);
    if (code != POD_OK || api_keyed_replays(req))
        return code;
    if (req->match.route->on_headers != NULL)
        req->match.route->on_headers(req);
    return req->response == NULL ? api_body_admit(req, err) : POD_OK;
}

// What to do with the body of a request that is answered already.
static enum MHD_Result request_answer_early(struct api_request *req,
                                            const struct pod_err *err)
{
    bool drop = !req->body.chunked && !req->close &&
                req->body.declared <= REQUEST_DROP_BYTES &&
                api_request_header(req, "Expect") == NULL;

    if (drop)
        return MHD_YES; // queued when the body has been read and dropped
    req->close = true;
    req->conn->linger = true;
    // libmicrohttpd skips the body of an early answer for these two alone.
    if (req->method == API_POST || req->method == API_PUT)
        return request_queue(req);
    api_conn_last_words(req->conn, err);
    return MHD_NO;
}

static enum api_phase request_body_phase(const struct api_request *req)
{
    if (req->conn->hung_up)
        return API_PHASE_GONE;
    return req->body.kind == API_BODY_DATA ||
                   req->body.kind == API_BODY_PIECES || api_keyed_replays(req)
               ? API_PHASE_DATA
               : API_PHASE_JSON;
}

static enum MHD_Result request_first(struct api_request *req,
                                     const char *version)
{
    struct pod_err err = POD_ERR_NONE;

    api_body_init(req);
    if (request_admit(req, version, &err) != POD_OK && req->response == NULL)
        request_refuse(req, &err);
    req->stage = API_STAGE_BODY;
    req->body_started_ns = req->server->now_ns;
    api_conn_enter(req->conn, request_body_phase(req));
    if (req->response != NULL && api_body_expected(req))
        return request_answer_early(req, &err);
    return MHD_YES;
}

// ----------------------------------------------------------------- the body

// libmicrohttpd takes no reply before the body has ended. So the refusal is
// written to the socket, and what the client still sends is discarded for a
// while.
static void request_break_off(struct api_request *req,
                              const struct pod_err *err)
{
    api_conn_last_words(req->conn, err);
    req->discarding = true;
    req->status = pod_reason_status(err->reason);
    api_body_fini(req);
}

static enum MHD_Result request_piece(struct api_request *req, const char *data,
                                     size_t *size)
{
    struct pod_err err;
    size_t length = *size;

    *size = 0;
    if (req->discarding) {
        req->discarded += length;
        return req->discarded <= REQUEST_DISCARD_BYTES ? MHD_YES : MHD_NO;
    }
    if (req->response != NULL)
        return MHD_YES;
    if (api_keyed_update(req, data, length, &err) != POD_OK)
        request_break_off(req, &err);
    else if (!api_keyed_replays(req) &&
             api_body_append(req, data, length, &err) != POD_OK)
        request_break_off(req, &err);
    return MHD_YES;
}

static enum MHD_Result request_whole(struct api_request *req)
{
    struct pod_err err;

    req->whole = true;
    api_conn_enter(req->conn, API_PHASE_NONE);
    if (req->discarding)
        return MHD_NO;
    if (req->response == NULL) {
        req->stage = API_STAGE_HANDLING;
        if (!api_keyed_replays(req) && api_body_finish(req, &err) != POD_OK)
            api_problem(req, &err);
        else if (api_keyed_begin(req))
            req->match.route->handle(req);
    }
    return request_settle(req);
}

enum MHD_Result api_request_step(void *arg, struct MHD_Connection *connection,
                                 const char *url, const char *method,
                                 const char *version, const char *data,
                                 size_t *data_size, void **context)
{
    struct api_request *req = *context;

    (void)arg;
    (void)url;
    if (req == NULL) {
        struct api_conn *conn = api_conn_of(connection);
        if (conn == NULL || conn->refused)
            return MHD_NO;
        req = request_new(conn, connection, method);
        *context = req;
        return req != NULL ? request_first(req, version) : MHD_NO;
    }
    if (req->abandoned || req->conn->refused)
        return MHD_NO;
    if (*data_size > 0)
        return request_piece(req, data, data_size);
    return req->whole ? request_settle(req) : request_whole(req);
}
