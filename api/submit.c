// SPDX-License-Identifier: Apache-2.0
// Submitting operations and answering with their events.
#include <inttypes.h>
#include <string.h>

#include "api/common.h"
#include "api/digits.h"
#include "api/ids.h"
#include "api/keyed.h"
#include "api/park.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/view_json.h"
#include "api/watch.h"

// ------------------------------------------------------------------ answers

void api_event_etag(const struct api_request *req,
                    const struct pod_event_view *view,
                    char out_etag[API_ETAG_BYTES])
{
    char *at = api_put_text(out_etag, "\"");
    at = api_put_text(at, pod_instance(api_pod(req)));
    at = api_put_text(at, "-r");
    at = api_put_u64(at, view->revision);
    *api_put_text(at, "\"") = '\0';
}

static json_t *submit_event_json(const void *view)
{
    return api_event_json(view);
}

void api_reply_event_view(struct api_request *req, int status,
                          const struct pod_event_view *view)
{
    api_reply_made(req, status, submit_event_json, view);
}

void api_reply_event(struct api_request *req, int status, uint64_t number)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_event_view view = {0};
    if (pod_get_event(api_pod(req), number, &view, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_reply_event_view(req, status, &view);
    pod_event_view_fini(&view);
}

static bool submit_lost(const struct pod_event_view *view)
{
    const char *reason = view->root_error.reason;
    return view->state == POD_SCHED_LOST ||
           (reason != NULL && (strcmp(reason, "HOST_LOST") == 0 ||
                               strcmp(reason, "BUFFER_LOST") == 0 ||
                               strcmp(reason, "OPERATION_LOST") == 0));
}

void api_problem_of_event(struct api_request *req,
                          const struct pod_event_view *view)
{
    struct pod_err err = POD_ERR_NONE;
    struct api_problem more = {.status = 409};
    char id[API_ID_BYTES];
    char root[API_ID_BYTES];
    api_id_print(POD_REF_OP, view->number, id);
    api_id_print(POD_REF_OP, view->root, root);
    const char *detail =
        view->root_error.detail != NULL ? view->root_error.detail : "";
    if (submit_lost(view)) {
        (void)pod_err_set(&err, POD_REASON_BUFFER_LOST, "%s of %s: %s", root,
                          pod_kind_name(view->root_kind), detail);
        more.status = 502;
    } else {
        (void)pod_err_set_code(&err, view->root_error.code, POD_REASON_INTERNAL,
                               "%s (%s) did not succeed: %s", root,
                               pod_kind_name(view->root_kind), detail);
        more.reason_name = view->root_error.reason;
        err.line = view->root_error.line;
        err.column = view->root_error.column;
    }
    more.metadata =
        json_pack("{s:s, s:s, s:s}", "operation", id, "root_cause", root,
                  "root_cause_kind", pod_kind_name(view->root_kind));
    api_problem_with(req, &err, &more);
}

// --------------------------------------------------------------- submitting

enum pod_code api_submission_end(struct api_request *req,
                                 struct api_submission *submission,
                                 struct pod_err *err)
{
    const char *wait = NULL;
    submission->wait_ns = 0;
    enum pod_code code =
        api_wait_time(req, &submission->wait_ns, &submission->waits, err);
    if (code == POD_OK)
        code = api_query_text(req, "wait", &wait, err);
    if (code == POD_OK && submission->waits && wait == NULL)
        api_header(req, "Preference-Applied", "wait=%" PRId64,
                   submission->wait_ns / POD_NS_PER_S);
    if (code == POD_OK)
        code = api_query_end(req, err);
    return code;
}

// What is left of a submission once it waits.
struct submit_state {
    uint64_t number;
    int64_t deadline_ns;
    bool made;
    bool told; // api_keyed_accepted
};

static void submit_resume(struct api_request *req, enum api_wake why);

// Replies with the event if it is done or `last`, else parks.
static void submit_look(struct api_request *req, bool last)
{
    struct submit_state *state = api_state(req);
    struct pod_event_view view = {0};
    struct pod_err err = POD_ERR_NONE;
    if (pod_get_event(api_pod(req), state->number, &view, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    bool done = view.state > POD_SCHED_RUNNING;
    if (!done && !state->told && api_keyed_is_first(req))
        api_keyed_accepted(req, 202, api_event_json(&view));
    state->told = true;
    // It was accepted: no place to wait is no reason to refuse it.
    if (done || last ||
        api_park(req, state->deadline_ns, submit_resume, &err) != POD_OK) {
        int status = !done ? 202 : state->made ? 201 : 200;
        api_reply_event_view(req, status, &view);
    }
    pod_event_view_fini(&view);
}

static void submit_resume(struct api_request *req, enum api_wake why)
{
    submit_look(req, why != API_WAKE_EVENT);
}

static void submit_set_link(struct api_request *req, const char *header,
                            const char *collection, enum pod_ref_kind kind,
                            uint64_t number)
{
    char id[API_ID_BYTES];
    char path[API_ID_BYTES + 32];
    char *at = api_put_text(path, "/v1/");
    at = api_put_text(at, collection);
    at = api_put_text(at, "/");
    *api_put_text(at, api_id_print(kind, number, id)) = '\0';
    api_header_text(req, header, path);
}

static void submit_set_headers(struct api_request *req,
                               const struct api_submission *submission,
                               const uint64_t *numbers)
{
    static const char *const collections[] = {
        [POD_REF_BUFFER] = "buffers",
        [POD_REF_PROGRAM] = "programs",
        [POD_REF_LOAD] = "loads",
    };
    submit_set_link(req, "Operation-Location", "events", POD_REF_OP,
                    numbers[submission->shown]);
    if (submission->made != POD_REF_NONE)
        submit_set_link(req, "Location", collections[submission->made],
                        submission->made, numbers[submission->made_by]);
}

static void submit_wait(struct api_request *req,
                        const struct api_submission *submission,
                        uint64_t number)
{
    struct pod_err err = POD_ERR_NONE;
    struct submit_state *state = api_alloc(req, sizeof(*state));
    if (state == NULL || submission->wait_ns == 0) {
        api_reply_event(req, 202, number);
        return;
    }
    *state = (struct submit_state){
        .number = number,
        .deadline_ns = pod_time_add(api_now(req), submission->wait_ns),
        .made = submission->made != POD_REF_NONE,
    };
    api_set_state(req, state);
    enum api_watch watch = api_watch(req, api_pod(req), number, 0);
    // What is watched is not done, so there is nothing to look at; but the
    // answer to a key is kept as soon as there is one.
    if (watch != API_WATCH_WAITING || api_keyed_is_first(req) ||
        api_park(req, state->deadline_ns, submit_resume, &err) != POD_OK)
        submit_look(req, watch == API_WATCH_NO_MEMORY);
}

// Refused, or a DELETE of what an operation has freed before, which is none.
static void submit_refused(struct api_request *req,
                           const struct pod_request *request, size_t count,
                           uint64_t existing, const struct pod_err *err)
{
    char id[API_ID_BYTES];
    struct api_problem more = {.status = 0};
    bool frees = count == 1 && (request->kind == POD_KIND_FREE ||
                                request->kind == POD_KIND_UNLOAD);
    if (existing == 0 || err->reason != POD_REASON_HANDLE_FREED) {
        api_problem(req, err);
        return;
    }
    api_id_print(POD_REF_OP, existing, id);
    if (frees) {
        api_header(req, "Operation-Location", "/v1/events/%s", id);
        api_reply_event(req, 200, existing);
        return;
    }
    more.metadata = json_pack("{s:s}", "freed_by", id);
    api_problem_with(req, err, &more);
}

void api_submit(struct api_request *req,
                const struct api_submission *submission)
{
    struct pod_err err = POD_ERR_NONE;
    uint64_t existing = 0;
    size_t count = submission->count;
    uint64_t *numbers = api_alloc(req, count * sizeof(*numbers));
    if (numbers == NULL) {
        (void)api_err_memory(&err);
        api_problem(req, &err);
        return;
    }
    submission->requests[0].trace = api_trace(req);
    if (pod_submit_later(api_pod(req), submission->requests, count, numbers,
                         &existing, &err) != POD_OK) {
        submit_refused(req, submission->requests, count, existing, &err);
        return;
    }
    api_keyed_made(req);
    submit_set_headers(req, submission, numbers);
    if (submission->admitted != NULL)
        submission->admitted(req, numbers[submission->shown]);
    submit_wait(req, submission, numbers[submission->shown]);
}

void api_submit_read(struct api_request *req, struct api_submission *submission,
                     enum pod_code code, struct pod_err *err)
{
    if (code == POD_OK)
        code = api_submission_end(req, submission, err);
    if (code == POD_OK)
        api_submit(req, submission);
    else
        api_problem(req, err);
}
