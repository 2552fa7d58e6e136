// SPDX-License-Identifier: Apache-2.0
// The bytes of an array as the engine wants them, from what a client sent.
#ifndef POD_API_PAYLOAD_H
#define POD_API_PAYLOAD_H

#include <jansson.h>

#include "api/http.h"
#include "api/npy.h"
#include "core/base/blob.h"
#include "core/hlo/shape.h"

// The blobs belong to the request, so whoever keeps one takes a reference. Each
// counts against the staging budget as long as it lives. NULL: an error as of
// api_memory_refuse, or OUT_OF_MEMORY.

// The array of a .npy file, dense, row-major and little-endian.
struct pod_blob *api_payload_npy(struct api_request *req,
                                 const struct api_npy *npy,
                                 struct pod_blob *file, struct pod_err *err);
// BAD_VALUE if a body of JSON came with a Content-Digest.
enum pod_code api_payload_undigested(struct api_request *req,
                                     struct pod_err *err)
    __attribute__((warn_unused_result));
// JSON values of an array. BAD_VALUE if the body came with a Content-Digest.
struct pod_blob *api_payload_values(struct api_request *req,
                                    const json_t *values, const char *pointer,
                                    const struct pod_shape *shape,
                                    struct pod_err *err);

// Checks the request's body against its Content-Digest, if it has one in its
// headers or its trailer, and then
// runs `next`, or replies with the problem. A large body is looked at in
// slices, one a turn of the loop, so that other requests are served in between.
// `body` is the whole body, the request's until it ends; api_body_blob may not
// have it any more.
typedef void api_body_fn(struct api_request *req, struct pod_blob *body);
void api_payload_verify(struct api_request *req, api_body_fn *next);

#endif
