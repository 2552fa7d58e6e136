// SPDX-License-Identifier: Apache-2.0
// What is refused before anything is routed: framing that could be read in two
// ways, hosts that are not ours, pages of other sites.
#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "api/http_internal.h"

enum { GUARD_PORT_MAX = 65535 };

// ------------------------------------------------------------------ framing

struct guard_headers {
    unsigned hosts;
    unsigned lengths;
    unsigned encodings;
    const char *host;
    const char *length;
    const char *encoding;
    bool malformed;
};

static bool guard_token(const char *name)
{
    if (*name == '\0')
        return false;
    for (; *name != '\0'; name++) {
        if (!isalnum((unsigned char)*name) &&
            strchr("!#$%&'*+-.^_`|~", *name) == NULL)
            return false;
    }
    return true;
}

static enum MHD_Result guard_header(void *arg, enum MHD_ValueKind kind,
                                    const char *name, const char *value)
{
    struct guard_headers *seen = arg;

    (void)kind;
    if (!guard_token(name)) {
        seen->malformed = true;
    } else if (strcasecmp(name, "Host") == 0) {
        seen->hosts++;
        seen->host = value;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        seen->lengths++;
        seen->length = value;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        seen->encodings++;
        seen->encoding = value;
    }
    return MHD_YES;
}

static bool guard_digits(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length < 19 && strspn(text, "0123456789") == length;
}

static enum pod_code guard_framing(const struct guard_headers *seen,
                                   const char *version, struct pod_err *err)
{
    const char *fault = NULL;

    if (strncmp(version, "HTTP/1.", 7) != 0)
        fault = "the version is not HTTP/1.x";
    else if (seen->malformed)
        fault = "the name of a header is malformed";
    else if (seen->hosts != 1)
        fault = seen->hosts == 0 ? "Host is missing" : "Host is given twice";
    else if (seen->lengths > 0 && seen->encodings > 0)
        fault = "both Content-Length and Transfer-Encoding are given";
    else if (seen->lengths > 1)
        fault = "Content-Length is given twice";
    else if (seen->lengths == 1 && !guard_digits(seen->length))
        fault = "Content-Length is malformed";
    else if (seen->encodings > 1 ||
             (seen->encodings == 1 &&
              strcasecmp(seen->encoding, "chunked") != 0))
        fault = "Transfer-Encoding is not \"chunked\"";
    else if (seen->encodings == 1 && strcmp(version, "HTTP/1.0") == 0)
        fault = "Transfer-Encoding is given with HTTP/1.0";
    if (fault == NULL)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_FRAMING, "%s", fault);
}

// --------------------------------------------------------------------- Host

// A port, which may be left out behind its colon.
static bool guard_port(const char *text, size_t length)
{
    unsigned long port = 0;

    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        port = port * 10 + (unsigned long)(text[i] - '0');
        if (port > GUARD_PORT_MAX)
            return false;
    }
    return true;
}

// Takes the port off: "[::1]:80" is "[::1]". False if it is malformed.
static bool guard_host_name(const char *text, size_t length, char out_name[256])
{
    size_t end = 0;

    if (length == 0 || length >= 256)
        return false;
    if (text[0] == '[') {
        const char *close = memchr(text, ']', length);
        if (close == NULL)
            return false;
        end = (size_t)(close - text) + 1;
    } else {
        while (end < length && text[end] != ':')
            end++;
    }
    if (end == 0 || (end < length && text[end] != ':'))
        return false;
    if (end < length && !guard_port(text + end + 1, length - end - 1))
        return false;
    for (size_t i = 0; i < end; i++) {
        if (!isalnum((unsigned char)text[i]) &&
            strchr("-._[]:", text[i]) == NULL)
            return false;
        out_name[i] = (char)tolower((unsigned char)text[i]);
    }
    out_name[end] = '\0';
    return true;
}

// localhost, 127.0.0.0/8 written as four numbers, [::1].
static bool guard_loopback(const char *name)
{
    struct in_addr address;

    if (strcmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0)
        return true;
    return inet_pton(AF_INET, name, &address) == 1 &&
           (ntohl(address.s_addr) >> 24) == 127;
}

static bool guard_listed(char *const *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i], name) == 0)
            return true;
    }
    return false;
}

static bool guard_host_of(const struct api_server *server, const char *text,
                          size_t length)
{
    char name[256];

    return guard_host_name(text, length, name) &&
           (guard_loopback(name) ||
            guard_listed(server->hosts, server->host_count, name));
}

bool api_host_allowed(const struct api_server *server, const char *host)
{
    return guard_host_of(server, host, strlen(host));
}

static enum pod_code guard_host(const struct api_request *req, const char *host,
                                struct pod_err *err)
{
    const char *authority;
    size_t length;
    const char *path;

    if (!api_host_allowed(req->server, host))
        return pod_err_set(err, POD_REASON_WRONG_HOST,
                           "host \"%.128s\" is not one of ours: start podd "
                           "with --allowed-host to add it",
                           host);
    if (api_target_authority(req->target, &authority, &length, &path) &&
        !guard_host_of(req->server, authority, length))
        return pod_err_set(err, POD_REASON_WRONG_HOST,
                           "the host of the request target is not one of ours");
    return POD_OK;
}

// ------------------------------------------------------------------- origin

static bool guard_changes_state(enum api_method method)
{
    return method != API_GET && method != API_HEAD && method != API_OPTIONS;
}

bool api_origin_listed(const struct api_request *req)
{
    const char *origin = api_request_header(req, "Origin");
    return origin != NULL && guard_listed(req->server->origins,
                                          req->server->origin_count, origin);
}

// Whether an Origin is the page's own server: the same host and port, and TLS
// if podd speaks it. (Without it, a proxy in front may; its pages are ours,
// too.)
static bool guard_same_origin(const struct api_request *req, const char *origin,
                              const char *host)
{
    const char *authority = strstr(origin, "://");
    if (req->server->tls != NULL && strncasecmp(origin, "https:", 6) != 0)
        return false;
    return authority != NULL && strcasecmp(authority + 3, host) == 0;
}

static enum pod_code guard_origin(const struct api_request *req,
                                  const char *host, struct pod_err *err)
{
    const char *origin = api_request_header(req, "Origin");
    const char *site = api_request_header(req, "Sec-Fetch-Site");

    if (!guard_changes_state(req->method))
        return POD_OK;
    if (api_origin_listed(req))
        return POD_OK;
    if (site != NULL && strcasecmp(site, "same-origin") != 0 &&
        strcasecmp(site, "none") != 0)
        return pod_err_set(err, POD_REASON_CROSS_ORIGIN,
                           "a page of another site (%.32s) may not do this",
                           site);
    if (origin != NULL && !guard_same_origin(req, origin, host))
        return pod_err_set(err, POD_REASON_CROSS_ORIGIN,
                           "a page of \"%.128s\" may not do this", origin);
    return POD_OK;
}

// What the answer varies with already; "" if nothing.
static const char *guard_vary(const struct api_request *req)
{
    for (const struct api_reply_header *h = req->headers; h; h = h->next) {
        if (strcasecmp(h->name, "Vary") == 0)
            return h->value;
    }
    return "";
}

void api_guard_cors(struct api_request *req)
{
    if (req->server->origin_count == 0)
        return;
    const char *origin = api_request_header(req, "Origin");
    const char *other = guard_vary(req);
    api_header(req, "Vary", "%s%sOrigin", other, *other != '\0' ? ", " : "");
    if (!api_origin_listed(req))
        return;
    api_header_text(req, "Access-Control-Allow-Origin", origin);
    api_header(req, "Access-Control-Expose-Headers",
               "Content-Range, ETag, Idempotency-Replayed, Location, "
               "Operation-Location, Preference-Applied, RateLimit, "
               "RateLimit-Policy, Retry-After, X-Request-Id");
    if (req->method != API_OPTIONS)
        return;
    api_header(req, "Access-Control-Allow-Methods",
               "GET, HEAD, POST, PUT, "
               "DELETE");
    api_header(req, "Access-Control-Allow-Headers",
               "Authorization, Content-Type, Content-Digest, Content-Range, "
               "Idempotency-Key, If-Match, If-None-Match, If-Range, "
               "Last-Event-ID, Prefer, Range, X-Request-Id, traceparent");
}

enum pod_code api_guard(struct api_request *req, const char *version,
                        struct pod_err *err)
{
    struct guard_headers seen = {.hosts = 0};

    (void)MHD_get_connection_values(req->connection, MHD_HEADER_KIND,
                                    guard_header, &seen);
    enum pod_code code = guard_framing(&seen, version, err);
    if (code == POD_OK)
        code = guard_host(req, seen.host, err);
    if (code == POD_OK)
        code = guard_origin(req, seen.host, err);
    return code;
}
