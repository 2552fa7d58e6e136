// SPDX-License-Identifier: Apache-2.0
// What the requests that submit operations have in common: reading ids and
// the common members, submitting, and the answer.
#ifndef POD_API_COMMON_H
#define POD_API_COMMON_H

#include "api/http.h"
#include "api/json.h"
#include "api/memory.h"
#include "core/pod/pod.h"

// The pod that the request's server serves.
struct pod *api_pod(const struct api_request *req);

// ---------------------------------------------------------------------- ids

// The id in a capture of the path. False: the request was answered 404.
bool api_path_id(struct api_request *req, size_t index, enum pod_ref_kind kind,
                 uint64_t *out_number);
// The id in the path of a request that has no parameters. False: answered.
bool api_path_id_only(struct api_request *req, enum pod_ref_kind kind,
                      uint64_t *out_number);
// The number of a host or a core (`what`) in a capture of the path, whether
// such a host or core exists or not. False: it is not a number, and the request
// was answered with 404.
bool api_path_number(struct api_request *req, size_t capture, const char *what,
                     uint32_t *out_number);

// The state of a request that waits for one thing with a number; may be the
// beginning of a larger struct.
struct api_waiter {
    uint64_t number;
    int64_t deadline_ns; // 0: it does not wait
};
// Reads the id in the path and how long to wait (`default_ns` unless the client
// says), and refuses all other parameters. Returns a zeroed state of `bytes`
// that begins with a struct api_waiter, or NULL if the request was answered.
void *api_waiter_begin(struct api_request *req, enum pod_ref_kind kind,
                       int64_t default_ns, size_t bytes);

// The id in a member, of one kind (POD_REF_NONE: any), or what a "$ref" means
// if the reader has names. UNKNOWN_HANDLE if it is not such an id. When the
// member is absent `*out` is left as it is.
enum pod_code api_read_ref(struct api_reader *reader, const char *name,
                           enum pod_ref_kind kind, struct pod_ref *out,
                           struct pod_err *err)
    __attribute__((warn_unused_result));
// A list of ids. Absent: *out_refs is NULL.
enum pod_code api_read_refs(struct api_memory *memory,
                            struct api_reader *reader, const char *name,
                            enum pod_ref_kind kind,
                            const struct pod_ref **out_refs, size_t *out_count,
                            struct pod_err *err)
    __attribute__((warn_unused_result));

// ----------------------------------------------------------- common members

// Read the common members from a body, or from the parameters of the query. For
// a body, what `out` holds before is the default (zeroed: none). What `out`
// then points to lives as long as the body and the memory, or as the request.
enum pod_code api_common_from_body(struct api_memory *memory,
                                   struct api_reader *reader,
                                   struct pod_request *out, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code api_common_from_query(struct api_request *req,
                                    struct pod_request *out,
                                    struct pod_err *err)
    __attribute__((warn_unused_result));

enum { API_LABELS_MAX = 16 };

// The labels of the parameter `label=k=v`, which may be given several times; in
// memory of the request. A malformed one fails with `reason`: BAD_TEXT for a
// submission, BAD_PARAMETER for a filter.
enum pod_code api_query_labels(struct api_request *req, enum pod_reason reason,
                               const struct pod_label **out_labels,
                               size_t *out_count, struct pod_err *err)
    __attribute__((warn_unused_result));

// --------------------------------------------------------------- submitting

struct api_submission {
    struct pod_request *requests; // the first gets the trace
    size_t count;
    size_t shown;           // the request whose event is the answer
    size_t made_by;         // the request that makes what Location names
    enum pod_ref_kind made; // and what that is; POD_REF_NONE: nothing
    // Called when `shown` was admitted, to add headers; or NULL.
    void (*admitted)(struct api_request *req, uint64_t number);
    // Set by api_submission_end.
    int64_t wait_ns;
    bool waits;
};

// Reads `wait` and refuses unknown parameters. Comes after all other parameters
// have been read.
enum pod_code api_submission_end(struct api_request *req,
                                 struct api_submission *submission,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));
// The same, then submits. `code` is the result of reading the request so far:
// unless it is OK, replies with the error.
void api_submit_read(struct api_request *req, struct api_submission *submission,
                     enum pod_code code, struct pod_err *err);
// Submits, waits if asked to, and replies: with 202, with 201 or 200 when it is
// done, or with a problem when it was refused.
void api_submit(struct api_request *req,
                const struct api_submission *submission);

// ------------------------------------------------------------------ answers

// Replies with an event as it is now, or with a problem if it cannot be read.
void api_reply_event(struct api_request *req, int status, uint64_t number);
// The same with an event that has already been read.
void api_reply_event_view(struct api_request *req, int status,
                          const struct pod_event_view *view);
// The ETag of an event: "<instance>-r91" with its quotes.
enum { API_ETAG_BYTES = 72 };
void api_event_etag(const struct api_request *req,
                    const struct pod_event_view *view,
                    char out_etag[API_ETAG_BYTES]);
// Replies to somebody who wanted the outcome of an operation that ended badly:
// 409 with the root cause's code and operation, or 502 BUFFER_LOST when a host
// was lost.
void api_problem_of_event(struct api_request *req,
                          const struct pod_event_view *view);
// HANDLE_FREED that names the freeing operation.
enum pod_code api_err_freed(enum pod_ref_kind kind, uint64_t number,
                            uint64_t freed_by, struct pod_err *err);
// OUT_OF_MEMORY; never OK.
enum pod_code api_err_memory(struct pod_err *err);

#endif
