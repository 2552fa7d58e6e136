// SPDX-License-Identifier: Apache-2.0
// The bytes of a buffer as an answer: negotiation, validators, ranges.
#ifndef POD_API_DATA_H
#define POD_API_DATA_H

#include "api/common.h"
#include "core/base/blob.h"
#include "core/hlo/shape.h"

enum api_data_form { API_DATA_OCTETS, API_DATA_NPY, API_DATA_JSON };

enum { API_DATA_ETAG_BYTES = 80 };

// What is known about an array before its bytes are there.
struct api_data {
    struct pod_shape shape; // u8[n] of what has none
    uint64_t bytes;         // of the whole array, dense
    enum api_data_form form;
    char etag[API_DATA_ETAG_BYTES]; // "" has none
    // The part that is asked for; the whole unless `part`.
    bool part;
    uint64_t offset;
    uint64_t length;
};

// Describes an array. Where the shape is NULL, not that of an array, or of
// another size, it is u8[bytes].
enum pod_code api_data_describe(const struct pod_shape *shape, uint64_t bytes,
                                struct api_data *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// Chooses the form by Accept: NOT_ACCEPTABLE, also when the array is too large
// for JSON.
enum pod_code api_data_negotiate(struct api_request *req, struct api_data *data,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));
// Sets the ETag: of what operation `writer` wrote, in the chosen form.
void api_data_set_etag(const struct api_request *req, struct api_data *data,
                       uint64_t writer);
// For the answer to a write by `writer`: adds the ETag that the octets have
// from now on.
void api_data_etag_header(struct api_request *req, uint64_t writer);
// Reads If-Match and If-None-Match against the ETag. False: answered 412 or
// 304.
bool api_data_wanted(struct api_request *req, const struct api_data *data);
// The same for a write over what operation `writer` wrote; the ETag of any form
// will do. *out_writer: the operation that must still be the last writer when
// the write is admitted; 0: any. PRECONDITION_FAILED.
enum pod_code api_data_may_write(const struct api_request *req, uint64_t writer,
                                 uint64_t *out_writer, struct pod_err *err)
    __attribute__((warn_unused_result));
// Reads Range and If-Range. False: answered 416.
bool api_data_range(struct api_request *req, struct api_data *data);

// Adds the headers that every answer with data has.
void api_data_headers(struct api_request *req, const struct api_data *data);
int api_data_status(const struct api_data *data);
const char *api_data_type(const struct api_data *data);
// Replies to HEAD.
void api_data_reply_head(struct api_request *req, const struct api_data *data);
// What goes before the bytes (of .npy), owned by the request; *out_prefix NULL
// if nothing does.
enum pod_code api_data_prefix(struct api_request *req,
                              const struct api_data *data,
                              struct pod_blob **out_prefix, struct pod_err *err)
    __attribute__((warn_unused_result));
// Replies {"shape":...,"values":...} of the whole array's bytes.
void api_data_reply_values(struct api_request *req, const struct api_data *data,
                           const void *bytes);

#endif
