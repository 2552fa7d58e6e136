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
// there is such a one or not. False: it is none, answered 404.
bool api_path_number(struct api_request *req, size_t capture, const char *what,
                     uint32_t *out_number);

// Who waits for one thing with a number: the state of the request, perhaps
// with more behind it.
struct api_waiter {
    uint64_t number;
    int64_t deadline_ns; // 0: it does not wait
};
// Reads who it is: the id in the path, and how long it waits (`default_ns`
// unless the client says); there are no other parameters. A zeroed state of
// `bytes`, which begins with a struct api_waiter. NULL: answered.
void *api_waiter_begin(struct api_request *req, enum pod_ref_kind kind,
                       int64_t default_ns, size_t bytes);

// The id of a member, of one kind (POD_REF_NONE: any), or what a "$ref" means
// if the reader has names. UNKNOWN_HANDLE if it is no such id. `*out` keeps
// what it held when the member is absent.
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

// Sets what every request has: the members of a body or the parameters of the
// query that are there. What `out` holds before a body is read is the default
// (zeroed: none). What it points at lives as long
// as the body and the memory, or as the request.
enum pod_code api_common_from_body(struct api_memory *memory,
                                   struct api_reader *reader,
                                   struct pod_request *out, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code api_common_from_query(struct api_request *req,
                                    struct pod_request *out,
                                    struct pod_err *err)
    __attribute__((warn_unused_result));

enum { API_LABELS_MAX = 16 };

// The labels of `label=k=v`, given any number of times; in memory of the
// request. `reason` is what a malformed one is called: BAD_TEXT of a
// submission, BAD_PARAMETER of a filter.
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

// Reads `wait` and refuses unknown parameters: the last look at the query.
enum pod_code api_submission_end(struct api_request *req,
                                 struct api_submission *submission,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));
// The same, then submits. `code` is what reading has come to so far: unless it
// is OK, replies with the error.
void api_submit_read(struct api_request *req, struct api_submission *submission,
                     enum pod_code code, struct pod_err *err);
// Submits, waits if that was asked for, and replies: 202, or 201 or 200 when
// it is done; a problem when it was refused.
void api_submit(struct api_request *req,
                const struct api_submission *submission);

// ------------------------------------------------------------------ answers

// Replies with an event as it is now, or the problem of why it cannot be read.
void api_reply_event(struct api_request *req, int status, uint64_t number);
// The same of an event that was looked at.
void api_reply_event_view(struct api_request *req, int status,
                          const struct pod_event_view *view);
// The ETag of an event: "<instance>-r91" with its quotes.
enum { API_ETAG_BYTES = 72 };
void api_event_etag(const struct api_request *req,
                    const struct pod_event_view *view,
                    char out_etag[API_ETAG_BYTES]);
// The problem that an operation which ended badly is to somebody who wanted
// its outcome: 409 with the root cause's code and operation, 502 BUFFER_LOST
// when a host was lost.
void api_problem_of_event(struct api_request *req,
                          const struct pod_event_view *view);
// HANDLE_FREED that names the freeing operation.
enum pod_code api_err_freed(enum pod_ref_kind kind, uint64_t number,
                            uint64_t freed_by, struct pod_err *err);
// OUT_OF_MEMORY; never OK.
enum pod_code api_err_memory(struct pod_err *err);

#endif
