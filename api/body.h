// SPDX-License-Identifier: Apache-2.0
// Bodies of requests.
//
// A body is whole when `handle` runs; one that breaks off never reaches it.
// JSON is parsed before. Data is received into one blob that is held against
// the staging budget until the last reference to it goes: with Content-Length
// the budget is taken before the body is read (429 STAGING_FULL, or 413
// when it is larger than the whole budget), a chunked body takes it as it
// grows.
#ifndef POD_API_BODY_H
#define POD_API_BODY_H

#include <jansson.h>
#include <stdint.h>

#include "api/http.h"

// For on_headers: the body that is expected, instead of the route's.
void api_body_want(struct api_request *req, enum api_body_kind kind);
// For on_headers of data: the body must have exactly this length, else 400
// BAD_LENGTH, as early as possible.
void api_body_exactly(struct api_request *req, uint64_t length);

// For on_headers: each piece of the body goes to `take` as it arrives, in
// order; nothing of it is kept. An error refuses the request there and then. A
// body that breaks off ends without another call.
typedef enum pod_code api_piece_fn(struct api_request *req, const char *data,
                                   size_t size, struct pod_err *err);
void api_body_pieces(struct api_request *req, api_piece_fn *take);

// The media type of the body in lower case, without parameters, or "".
const char *api_body_type(const struct api_request *req);

// For handle, and valid until it returns: a request that parks gives its body
// up, so that waiting holds no memory. The parsed object, borrowed; NULL with
// OPTIONAL_JSON and an empty body.
json_t *api_body_json(const struct api_request *req);
// For handle of TEXT: hands the text over (free with pod_free); *out_length is
// set. It may be taken once.
char *api_body_take_text(struct api_request *req, size_t *out_length);
// For handle of data, the same: the whole body, borrowed (take a reference to
// keep it). Never NULL; of size 0 for an empty body.
struct pod_blob *api_body_blob(const struct api_request *req);

#endif
