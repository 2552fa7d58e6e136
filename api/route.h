// SPDX-License-Identifier: Apache-2.0
// The routing table: method and path to handler.
//
// A pattern is matched by whole segments: "/v1/events/{id}:cancel". "{id}"
// takes one segment (never empty, never with a colon); what follows it in the
// segment must be there. "{path*}" at the end takes the rest, slashes
// and all, and may be empty. Literals are tried before captures, whatever the
// order of the table. A known path with another method is 405 with Allow; HEAD
// goes to the GET handler; OPTIONS on a known path is 204 with Allow.
#ifndef POD_API_ROUTE_H
#define POD_API_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

struct api_request;

enum api_method {
    API_GET,
    API_HEAD,
    API_POST,
    API_PUT,
    API_DELETE,
    API_OPTIONS,
    API_OTHER, // a method we do not know
};

// What a route takes as its body.
enum api_body_kind {
    API_BODY_NONE,          // a body is 400
    API_BODY_JSON,          // an object, already parsed when handle runs
    API_BODY_OPTIONAL_JSON, // the same, or nothing at all
    API_BODY_DATA,          // bytes, whole in one blob when handle runs
    API_BODY_TEXT,          // JSON that handle parses itself
    API_BODY_PIECES,        // handed on as it arrives (api_body_pieces)
};

// Who may use a route once tokens are on.
enum api_scope {
    API_SCOPE_NONE,
    API_SCOPE_READ,
    API_SCOPE_WRITE,
    API_SCOPE_ADMIN
};

// Runs on the loop's thread and never blocks. It must reply once or park once
// before it returns (otherwise the client gets 500).
typedef void api_handler_fn(struct api_request *req);

struct api_route {
    enum api_method method; // never HEAD, OPTIONS, OTHER
    const char *pattern;
    api_handler_fn *handle;
    enum api_body_kind body;
    enum api_scope scope;
    // For POST and PUT: runs when the headers are there and before any of the
    // body is read (and before 100 Continue). It may reply (then the body is
    // not read, handle does not run and the connection is closed), or say what
    // body it wants (body.h). May be NULL.
    api_handler_fn *on_headers;
    size_t json_bytes;  // limit of this route's JSON body; 0: the server's
    size_t json_values; // the same for its values
};

enum { API_PARAMS_MAX = 4, API_PARAM_BYTES = 255 };

// What a capture took: a part of the path, not terminated.
struct api_param {
    const char *start;
    size_t length; // at most API_PARAM_BYTES
};

// What a path matched.
struct api_match {
    const struct api_route *route; // NULL: none
    // Bit 1 << enum api_method: the methods of the routes with this path.
    // 0: the path is unknown.
    unsigned allowed;
    size_t param_count;
    struct api_param params[API_PARAMS_MAX];
};

// HEAD matches GET. The path is decoded and must outlive the match. What is
// longer than API_PARAM_BYTES fits no capture.
void api_route_match(const struct api_route *routes, size_t count,
                     enum api_method method, const char *path,
                     struct api_match *out_match);

// The value of an Allow header for a mask of methods: "GET, HEAD, OPTIONS".
enum { API_ALLOW_BYTES = 64 };
void api_route_allow(unsigned allowed, char out_text[API_ALLOW_BYTES]);

#endif
