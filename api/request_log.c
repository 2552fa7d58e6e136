// SPDX-License-Identifier: Apache-2.0
#include "api/request_log.h"

#include <string.h>
#include <strings.h>

#include "api/http_internal.h"
#include "core/base/log.h"

static bool request_log_is_audit(const struct api_request *req)
{
    if (!req->server->auth.on)
        return false;
    switch (req->status) {
    case 401:
    case 403:
    case 421:
    case 429:
        return true;
    default:
        return req->method != API_GET && req->method != API_HEAD &&
               req->method != API_OPTIONS;
    }
}

static enum pod_log_level request_log_level(const struct api_request *req,
                                            bool audit)
{
    if (req->status >= 500 && req->status != 503 && req->status != 504)
        return POD_LOG_WARN;
    return audit ? POD_LOG_INFO : POD_LOG_DEBUG;
}

// "op-17" of Operation-Location, or NULL.
static const char *request_log_operation(const struct api_request *req)
{
    for (const struct api_reply_header *h = req->headers; h; h = h->next) {
        const char *slash = strrchr(h->value, '/');
        if (strcasecmp(h->name, "Operation-Location") == 0 && slash != NULL)
            return slash + 1;
    }
    return NULL;
}

static void request_log_write(struct api_request *req, enum pod_log_level level,
                              bool audit, bool aborted)
{
    const struct pod_trace *trace = api_trace(req);
    const struct api_route *route = req->match.route;
    uint64_t bytes = req->method == API_HEAD ? 0 : req->body_bytes;
    const struct pod_log_field fields[] = {
        pod_log_text(POD_LOG_KEY_METHOD, req->method_text),
        pod_log_text(POD_LOG_KEY_ROUTE, route != NULL ? route->pattern : NULL),
        pod_log_number(POD_LOG_KEY_STATUS, req->status),
        pod_log_number(POD_LOG_KEY_BYTES, (int64_t)bytes),
        pod_log_number(POD_LOG_KEY_DURATION_US,
                       (api_now(req) - req->started_ns) / 1000),
        pod_log_text(POD_LOG_KEY_REQUEST_ID, req->id),
        pod_log_text(POD_LOG_KEY_TRACE_ID,
                     trace != NULL ? trace->trace_id : NULL),
        pod_log_text(POD_LOG_KEY_PARENT_ID,
                     trace != NULL ? trace->parent_id : NULL),
        pod_log_text(POD_LOG_KEY_PEER, req->conn->client),
        pod_log_text(POD_LOG_KEY_TOKEN, req->identity),
        pod_log_text(POD_LOG_KEY_SCOPE,
                     audit ? api_scope_name(req->scope) : NULL),
        pod_log_text(POD_LOG_KEY_OPERATION, request_log_operation(req)),
        pod_log_flag(POD_LOG_KEY_AUDIT, audit),
        pod_log_flag(POD_LOG_KEY_ABORTED, aborted),
        pod_log_text(POD_LOG_KEY_TARGET, req->target),
    };

    pod_log_event(level, POD_LOG_EVENT_REQUEST, fields,
                  sizeof(fields) / sizeof(fields[0]));
}

void api_request_log(struct api_request *req, bool aborted)
{
    bool audit = request_log_is_audit(req);
    enum pod_log_level level = request_log_level(req, audit);

    if (pod_log_wants(level))
        request_log_write(req, level, audit, aborted);
}
