// SPDX-License-Identifier: Apache-2.0
// Error values: a canonical code, a stable reason, and one line of text.
//
// A function that can fail returns enum pod_code and takes a struct pod_err *
// as its last argument. The layer that finds the fault sets the error, each
// layer above may wrap it with a prefix; nothing is allocated. Text is lower
// case, without a full stop, subject first, user text in quotes.
#ifndef POD_BASE_ERR_H
#define POD_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The canonical codes; numbers are those of gRPC and of tpu_driver's
// StatusMessage.code.
#define POD_CODES(X)                                                           \
    X(OK, 0)                                                                   \
    X(CANCELLED, 1)                                                            \
    X(UNKNOWN, 2)                                                              \
    X(INVALID_ARGUMENT, 3)                                                     \
    X(DEADLINE_EXCEEDED, 4)                                                    \
    X(NOT_FOUND, 5)                                                            \
    X(ALREADY_EXISTS, 6)                                                       \
    X(PERMISSION_DENIED, 7)                                                    \
    X(RESOURCE_EXHAUSTED, 8)                                                   \
    X(FAILED_PRECONDITION, 9)                                                  \
    X(ABORTED, 10)                                                             \
    X(OUT_OF_RANGE, 11)                                                        \
    X(UNIMPLEMENTED, 12)                                                       \
    X(INTERNAL, 13)                                                            \
    X(UNAVAILABLE, 14)                                                         \
    X(DATA_LOSS, 15)                                                           \
    X(UNAUTHENTICATED, 16)

enum pod_code {
#define X(name, number) POD_##name = (number),
    POD_CODES(X)
#undef X
};

// The reasons: stable names that users may rely on. Columns: name, canonical
// code, HTTP status when it answers a request, whether a retry may help.
#define POD_REASONS(X)                                                         \
    X(NONE, OK, 200, false)                                                    \
    /* requests that are malformed */                                          \
    X(BAD_JSON, INVALID_ARGUMENT, 400, false)                                  \
    X(BAD_FRAMING, INVALID_ARGUMENT, 400, false)                               \
    X(BAD_PARAMETER, INVALID_ARGUMENT, 400, false)                             \
    X(UNKNOWN_PARAMETER, INVALID_ARGUMENT, 400, false)                         \
    X(UNKNOWN_MEMBER, INVALID_ARGUMENT, 400, false)                            \
    X(MISSING_MEMBER, INVALID_ARGUMENT, 400, false)                            \
    X(WRONG_TYPE, INVALID_ARGUMENT, 400, false)                                \
    X(BAD_VALUE, INVALID_ARGUMENT, 400, false)                                 \
    X(BAD_LENGTH, INVALID_ARGUMENT, 400, false)                                \
    X(BAD_NPY, INVALID_ARGUMENT, 400, false)                                   \
    X(BAD_PAGE_TOKEN, INVALID_ARGUMENT, 400, false)                            \
    X(DIGEST_MISMATCH, INVALID_ARGUMENT, 400, false)                           \
    X(EMPTY_BODY, INVALID_ARGUMENT, 400, false)                                \
    X(UNAUTHENTICATED, UNAUTHENTICATED, 401, false)                            \
    X(FORBIDDEN, PERMISSION_DENIED, 403, false)                                \
    X(CROSS_ORIGIN, PERMISSION_DENIED, 403, false)                             \
    X(NOT_FOUND, NOT_FOUND, 404, false)                                        \
    X(METHOD_NOT_ALLOWED, UNIMPLEMENTED, 405, false)                           \
    X(NOT_ACCEPTABLE, INVALID_ARGUMENT, 406, false)                            \
    X(LENGTH_REQUIRED, INVALID_ARGUMENT, 411, false)                           \
    X(EXPIRED, NOT_FOUND, 410, false)                                          \
    X(PRECONDITION_FAILED, FAILED_PRECONDITION, 412, false)                    \
    X(BODY_TOO_LARGE, RESOURCE_EXHAUSTED, 413, false)                          \
    X(URI_TOO_LONG, INVALID_ARGUMENT, 414, false)                              \
    X(UNSUPPORTED_TYPE, INVALID_ARGUMENT, 415, false)                          \
    X(NPY_DTYPE, INVALID_ARGUMENT, 415, false)                                 \
    X(RANGE_NOT_SATISFIABLE, OUT_OF_RANGE, 416, false)                         \
    X(WRONG_HOST, INVALID_ARGUMENT, 421, false)                                \
    X(HEADERS_TOO_LARGE, RESOURCE_EXHAUSTED, 431, false)                       \
    X(REQUEST_TIMEOUT, DEADLINE_EXCEEDED, 408, true)                           \
    /* requests that are sound but impossible */                               \
    X(HANDLE_FREED, FAILED_PRECONDITION, 409, false)                           \
    X(IN_USE, FAILED_PRECONDITION, 409, false)                                 \
    X(IDEMPOTENCY_IN_PROGRESS, ABORTED, 409, true)                             \
    X(IDEMPOTENCY_ANSWER_LOST, DATA_LOSS, 409, false)                          \
    X(ALREADY_FINISHED, FAILED_PRECONDITION, 409, false)                       \
    X(HOST_CORDONED, FAILED_PRECONDITION, 409, true)                           \
    X(HOST_EXISTS, ALREADY_EXISTS, 409, false)                                 \
    X(IDEMPOTENCY_KEY_REUSED, INVALID_ARGUMENT, 422, false)                    \
    X(UNKNOWN_HANDLE, NOT_FOUND, 422, false)                                   \
    X(UNKNOWN_CORE, NOT_FOUND, 422, false)                                     \
    X(DEPENDENCY_EXPIRED, FAILED_PRECONDITION, 422, false)                     \
    X(SHAPE_MISMATCH, INVALID_ARGUMENT, 422, false)                            \
    X(BAD_SHAPE, INVALID_ARGUMENT, 422, false)                                 \
    X(BAD_TEXT, INVALID_ARGUMENT, 422, false)                                  \
    X(OUT_OF_RANGE, OUT_OF_RANGE, 422, false)                                  \
    X(CORE_MISMATCH, INVALID_ARGUMENT, 422, false)                             \
    X(COUNT_MISMATCH, INVALID_ARGUMENT, 422, false)                            \
    X(BAD_ASSIGNMENT, INVALID_ARGUMENT, 422, false)                            \
    X(DUPLICATE_OUTPUT, INVALID_ARGUMENT, 422, false)                          \
    X(IS_A_TUPLE, INVALID_ARGUMENT, 422, false)                                \
    X(CYCLE, INVALID_ARGUMENT, 422, false)                                     \
    X(INVALID_GRAPH, INVALID_ARGUMENT, 422, false)                             \
    X(RESOURCE_EXHAUSTED, RESOURCE_EXHAUSTED, 422, false)                      \
    /* requests that may be repeated */                                        \
    X(STAGING_FULL, RESOURCE_EXHAUSTED, 429, true)                             \
    X(TOO_MANY_REQUESTS, RESOURCE_EXHAUSTED, 429, true)                        \
    X(TOO_MANY_WAITS, RESOURCE_EXHAUSTED, 429, true)                           \
    X(TOO_MANY_STREAMS, RESOURCE_EXHAUSTED, 429, true)                         \
    X(TOO_MANY_HOSTS, RESOURCE_EXHAUSTED, 429, true)                           \
    X(HOST_NOT_READY, UNAVAILABLE, 503, true)                                  \
    X(HOST_LOST, UNAVAILABLE, 503, true)                                       \
    X(DRAINING, UNAVAILABLE, 503, true)                                        \
    X(TOO_MANY_CONNECTIONS, RESOURCE_EXHAUSTED, 503, true)                     \
    X(OUT_OF_MEMORY, RESOURCE_EXHAUSTED, 503, true)                            \
    X(WAIT_EXPIRED, DEADLINE_EXCEEDED, 504, true)                              \
    /* how operations end */                                                   \
    X(BUFFER_LOST, DATA_LOSS, 502, false)                                      \
    X(OPERATION_LOST, UNAVAILABLE, 502, true)                                  \
    X(CANCEL_REQUESTED, CANCELLED, 409, false)                                 \
    X(POD_RESET, CANCELLED, 409, false)                                        \
    X(DRAIN_TIMEOUT, CANCELLED, 409, true)                                     \
    X(DEADLINE_EXCEEDED, DEADLINE_EXCEEDED, 409, false)                        \
    X(UNIMPLEMENTED, UNIMPLEMENTED, 409, false)                                \
    X(INVALID_PROGRAM, INVALID_ARGUMENT, 409, false)                           \
    X(PROGRAM_FAULT, INVALID_ARGUMENT, 409, false)                             \
    X(GANG_ABORTED, ABORTED, 409, true)                                        \
    X(HOST_UNAVAILABLE, UNAVAILABLE, 409, true)                                \
    X(WORKER_ERROR, UNKNOWN, 502, false)                                       \
    X(INTERNAL, INTERNAL, 500, false)

enum pod_reason {
#define X(name, code, status, retry) POD_REASON_##name,
    POD_REASONS(X)
#undef X
        POD_REASON_COUNT
};

enum { POD_ERR_TEXT_BYTES = 512, POD_ERR_POINTER_BYTES = 64 };

struct pod_err {
    enum pod_code code;
    enum pod_reason reason;
    int line;   // place in a text that was at fault, 1-based; 0: none
    int column; // the same
    // The limit that was reached, a literal; NULL: the error is not about a
    // limit.
    const char *limit;
    uint64_t used; // how much of the limit is used, out of `max`
    uint64_t max;
    // Place in a request that was at fault, as a JSON pointer ("/inputs/2"),
    // or empty.
    char pointer[POD_ERR_POINTER_BYTES];
    char text[POD_ERR_TEXT_BYTES];
};

#define POD_ERR_NONE                                                           \
    (struct pod_err)                                                           \
    {                                                                          \
        .code = POD_OK                                                         \
    }

// "INVALID_ARGUMENT"; "UNKNOWN" for a number that is not canonical.
const char *pod_code_name(enum pod_code code);
// "HANDLE_FREED".
const char *pod_reason_name(enum pod_reason reason);
// The canonical code a reason stands for.
enum pod_code pod_reason_code(enum pod_reason reason);
// The HTTP status of a request that is refused for this reason.
int pod_reason_status(enum pod_reason reason);
// Whether the same request may succeed later.
bool pod_reason_retryable(enum pod_reason reason);

// Sets the error (code from the reason) and returns its code, never POD_OK.
// Text that does not fit is cut at a UTF-8 boundary. `err` may be NULL.
enum pod_code pod_err_set(struct pod_err *err, enum pod_reason reason,
                          const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The same with a code of its own, for errors that another program named.
enum pod_code pod_err_set_code(struct pod_err *err, enum pod_code code,
                               enum pod_reason reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Names the place in the request. Setting an error clears it, so call it after.
// A place whose pointer is too long is named by what holds it.
void pod_err_at(struct pod_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// The same for a limit that is reached: "the limit NAME is reached: USED of MAX
// are used". `limit` is a literal, which is kept.
enum pod_code pod_err_limit(struct pod_err *err, enum pod_reason reason,
                            const char *limit, uint64_t used, uint64_t max);

// Puts "prefix: " before the text, cutting the end if need be.
void pod_err_wrap(struct pod_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
