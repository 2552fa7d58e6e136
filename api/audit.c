// SPDX-License-Identifier: Apache-2.0
#include "api/audit.h"

#include <string.h>
#include <strings.h>

#include "api/http_internal.h"
#include "core/base/log.h"

static bool audit_is_due(const struct api_request *req)
{
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

// "op-17" of Operation-Location, or "-".
static const char *audit_operation(const struct api_request *req)
{
    for (const struct api_reply_header *h = req->headers; h; h = h->next) {
        const char *slash = strrchr(h->value, '/');
        if (strcasecmp(h->name, "Operation-Location") == 0 && slash != NULL)
            return slash + 1;
    }
    return "-";
}

void api_audit(const struct api_request *req)
{
    if (!req->server->auth.on || !audit_is_due(req))
        return;
    pod_log(POD_LOG_INFO, "audit",
            "who=%s scope=%s client=%s request=%s status=%d operation=%s "
            "%.16s %.256s",
            req->identity[0] != '\0' ? req->identity : "-",
            api_scope_name(req->scope), req->conn->client, req->id, req->status,
            audit_operation(req), req->method_text, req->target);
}
