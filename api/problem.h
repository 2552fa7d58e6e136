// SPDX-License-Identifier: Apache-2.0
// Problem documents (RFC 9457), the body of every answer of 400 and above:
// type (urn:podd:problem:REASON), title, status, detail, instance, code,
// reason, retryable, request_id, errors, metadata.
#ifndef POD_API_PROBLEM_H
#define POD_API_PROBLEM_H

#include <jansson.h>

#include "api/http.h"
#include "core/base/err.h"

// What a problem document may have besides the error. Zero-initialise it.
struct api_problem {
    int status;       // 0: of the reason
    json_t *errors;   // array of {pointer, reason, detail}, taken over; NULL:
                      // one entry if err has a pointer, else left out
    json_t *metadata; // object of strings, taken over; NULL: of STAGING_FULL
                      // how full. Line and column are added to it.
    // Seconds for Retry-After; 0: 1 s with 429 and 503, else none.
    unsigned retry_after_s;
    // Names for errors that came from elsewhere; NULL: of the reason.
    const char *reason_name;
    bool close; // end the connection after the answer
};

// Replies with a problem document. `more` may be NULL; its JSON is owned.
void api_problem_with(struct api_request *req, const struct pod_err *err,
                      struct api_problem *more);

// The document without replying; NULL: no memory. `req` NULL: there is no
// request yet.
json_t *api_problem_json(const struct api_request *req, const char *target,
                         const char *id, const struct pod_err *err,
                         const struct api_problem *more);

// {"pointer":..., "reason":..., "detail":...} for `errors`; NULL: no memory.
json_t *api_problem_entry(const struct pod_err *err);

// The text of any status we send: "Not Found".
const char *api_status_text(int status);

// A JSON string of text that need not be UTF-8: bad bytes become U+FFFD.
json_t *api_json_text(const char *text);

#endif
