// SPDX-License-Identifier: Apache-2.0
// A request as its handler sees it, and the replies.
//
// A request lives from its first header to the moment its answer has left (or
// its connection has ended); everything a handler gets from it is valid until
// then. All functions are for the loop's thread only, unless they say
// otherwise. A handler replies exactly once; a second reply is a bug and is
// logged and dropped.
#ifndef POD_API_HTTP_H
#define POD_API_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/route.h"
#include "core/base/blob.h"
#include "core/base/err.h"
#include "core/base/trace.h"
#include "core/pod/stream.h"

struct api_request;
struct api_server;

// -------------------------------------------------------------- the request

// options.app of the server.
void *api_app(const struct api_request *req);
struct api_server *api_server_of(const struct api_request *req);
// API_HEAD is told apart from API_GET only here; replies are the same.
enum api_method api_method(const struct api_request *req);
// As it was sent, with the query: for `instance` and fingerprints.
const char *api_target(const struct api_request *req);
// The text that a capture of the route's pattern matched, by its place in the
// pattern; "" beyond the last.
const char *api_param(const struct api_request *req, size_t index);
// The request's id and the client's place in its trace, for as long as the
// request lives. The id is the client's X-Request-Id if that is 1-64 characters
// of [A-Za-z0-9._-], else 16 lower-case hex digits. A malformed or repeated
// traceparent is ignored. tracestate is not kept, because nothing is called
// further on: workers only write the trace to their logs. NULL: no memory.
struct pod_trace *api_trace(struct api_request *req);
// The first header of this name (any case), or NULL.
const char *api_request_header(const struct api_request *req, const char *name);
// All headers of this name as one list ("a, b"), and once the body is read
// those in the trailer of a chunked body, too; NULL: there are none. It lives
// as long as the request. OUT_OF_MEMORY.
enum pod_code api_request_list(struct api_request *req, const char *name,
                               const char **out_list, struct pod_err *err)
    __attribute__((warn_unused_result));

// Who sent it: the short name of its token, "uid:1000" for a user known by the
// Unix socket, or "" where no token is needed.
const char *api_identity(const struct api_request *req);

// Zeroed memory that lives as long as the request; NULL: no memory.
void *api_alloc(struct api_request *req, size_t bytes);
// A copy of the text in such memory; NULL: no memory.
char *api_strdup(struct api_request *req, const char *text);
// Registers `cleanup(arg)` to be called when the request ends, the last one
// first. False when there is no memory: then it has already been called.
bool api_defer(struct api_request *req, void (*cleanup)(void *arg), void *arg);
// A pointer for the handler's own use, NULL at first.
void *api_state(const struct api_request *req);
void api_set_state(struct api_request *req, void *state);

// -------------------------------------------------------------- the replies
// Every reply carries X-Request-Id, X-Content-Type-Options: nosniff and
// Cache-Control: no-store (unless the handler set one), and what
// api_header added. HEAD gets the headers and no body.

// Adds a header to the reply that will follow. Setting Cache-Control,
// Content-Type or Vary replaces the default. Values with control characters are
// dropped (and logged): they would split the answer.
void api_header(struct api_request *req, const char *name, const char *format,
                ...) __attribute__((format(printf, 3, 4)));

// The same with a finished value; it is copied.
void api_header_text(struct api_request *req, const char *name,
                     const char *value);

// Replies with compact JSON and a newline, application/json. Owns the value;
// NULL (no memory, or text that is not UTF-8) is answered with 500.
void api_reply_json(struct api_request *req, int status, json_t *owned_json);
// The same with the value that `make` returns. All JSON that `make` creates is
// freed at once when the answer is written: it must not keep any of it, nor
// drop the last reference to any other JSON.
void api_reply_made(struct api_request *req, int status,
                    json_t *(*make)(const void *arg), const void *arg);
// Text is copied. `type` with charset: "text/plain; charset=utf-8".
void api_reply_text(struct api_request *req, int status, const char *type,
                    const char *text, size_t length);
// Bytes that live as long as the server: not copied.
void api_reply_static(struct api_request *req, int status, const char *type,
                      const void *bytes, size_t length);
// No body and no Content-Type: 204, 304, redirects.
void api_reply_empty(struct api_request *req, int status);
// Replies with the length and type of a body but without the body: for HEAD,
// which saves making it. API_LENGTH_UNKNOWN: says no length.
#define API_LENGTH_UNKNOWN UINT64_MAX // libmicrohttpd's MHD_SIZE_UNKNOWN
void api_reply_head(struct api_request *req, int status, const char *type,
                    uint64_t length);
// Replies with bytes offset .. offset + length - 1 of the chunks joined
// together, without copying them: references to the chunks are taken. `prefix`
// (may be NULL) goes before them and is not counted in `offset` and `length`.
void api_reply_blobs(struct api_request *req, int status, const char *type,
                     struct pod_blob *prefix, struct pod_blob *const *chunks,
                     size_t count, uint64_t offset, uint64_t length);

// Opens a stream whose notify wakes this request, whether it is parked or
// replying; it is closed when the request ends. At most one for each request.
// NULL: no memory.
struct pod_stream *api_stream_open(struct api_request *req, uint64_t window);
// Replies with `length` bytes from the request's stream, after `prefix` (may be
// NULL). Look at the stream first and reply with a problem if it has FAILED:
// from now on a failure can only cut the connection. True: all bytes had come
// in one piece, which counts against the staging budget until it has been sent.
bool api_reply_stream(struct api_request *req, int status, const char *type,
                      struct pod_blob *prefix, uint64_t length);

// A problem document (problem.h); the status comes from err->reason.
void api_problem(struct api_request *req, const struct pod_err *err);

#endif
