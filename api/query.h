// SPDX-License-Identifier: Apache-2.0
// Parameters of the query, and headers that work like parameters.
//
// Each function names a parameter and so makes it known; api_query_end refuses
// the others. A parameter that is asked for once and given twice is
// BAD_PARAMETER with its name. Values are percent-decoded ('+' is a space)
// UTF-8, else the request was refused before the handler saw it.
#ifndef POD_API_QUERY_H
#define POD_API_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/http.h"

// *out_value is borrowed from the request; NULL when absent. With a control
// character: BAD_PARAMETER.
enum pod_code api_query_text(struct api_request *req, const char *name,
                             const char **out_value, struct pod_err *err)
    __attribute__((warn_unused_result));
// The same for text that the caller checks, control characters too.
enum pod_code api_query_free_text(struct api_request *req, const char *name,
                                  const char **out_value, struct pod_err *err)
    __attribute__((warn_unused_result));
// The next value of a parameter that may be given several times; start with
// *cursor = 0. NULL at the end. The caller checks it as above.
const char *api_query_next(struct api_request *req, const char *name,
                           size_t *cursor);
// *out_value keeps what it held when the parameter is absent; so below.
// Digits only; outside min..max: BAD_PARAMETER.
enum pod_code api_query_uint(struct api_request *req, const char *name,
                             uint64_t min, uint64_t max, uint64_t *out_value,
                             struct pod_err *err)
    __attribute__((warn_unused_result));
// The same from 1 on, without an upper end: any larger number is taken as
// `max`.
enum pod_code api_query_at_most(struct api_request *req, const char *name,
                                uint64_t max, uint64_t *out_value,
                                struct pod_err *err)
    __attribute__((warn_unused_result));
// -10..10 and the like.
enum pod_code api_query_int(struct api_request *req, const char *name,
                            int64_t min, int64_t max, int64_t *out_value,
                            struct pod_err *err)
    __attribute__((warn_unused_result));
// true, false, 1, 0; a bare name is true.
enum pod_code api_query_bool(struct api_request *req, const char *name,
                             bool *out_value, struct pod_err *err)
    __attribute__((warn_unused_result));
// A duration; a longer one than the cap is taken as the cap.
enum pod_code api_query_duration(struct api_request *req, const char *name,
                                 int64_t cap_ns, int64_t *out_ns,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));
// One of `count` names.
enum pod_code api_query_enum(struct api_request *req, const char *name,
                             const char *const *names, size_t count,
                             size_t *out_index, struct pod_err *err)
    __attribute__((warn_unused_result));
// Steps through a list with commas: sets the next piece (not terminated,
// without the spaces around it); false at the end. Empty pieces are returned,
// too.
bool api_list_next(const char **cursor, const char **out_piece,
                   size_t *out_length);

// Refuses parameters that no function above has named: UNKNOWN_PARAMETER.
enum pod_code api_query_end(struct api_request *req, struct pod_err *err)
    __attribute__((warn_unused_result));

// How long the client is willing to wait: ?wait=, else Prefer: wait=N, else
// what *out_ns held; capped by the server's limit. *out_given (may be NULL):
// the client said so.
enum pod_code api_wait_time(struct api_request *req, int64_t *out_ns,
                            bool *out_given, struct pod_err *err)
    __attribute__((warn_unused_result));
// Prefer: respond-async.
bool api_prefers_async(const struct api_request *req);

// Whether an If-None-Match (weak comparison) or If-Match (strong) value names
// the ETag, given with its quotes. Lists, W/ and * are understood.
bool api_etag_listed(const char *header, const char *etag, bool weak);

// The best of `types` for the Accept header (q-values, wildcards; the earlier
// one wins a tie): its index, or -1 if none will do. No header: 0.
int api_accept(const struct api_request *req, const char *const *types,
               size_t count);

enum api_range {
    API_RANGE_WHOLE,  // no Range, several ranges, or another unit: 200
    API_RANGE_PART,   // 206
    API_RANGE_BEYOND, // 416
};
// The Range header's value (may be NULL) against a body of `size` bytes.
enum api_range api_range_parse(const char *header, uint64_t size,
                               uint64_t *out_offset, uint64_t *out_length);
// "bytes 0-15/64" or "bytes 0-15/*" (*out_total is then UINT64_MAX). False:
// malformed.
bool api_content_range_parse(const char *header, uint64_t *out_offset,
                             uint64_t *out_length, uint64_t *out_total);

#endif
