// SPDX-License-Identifier: Apache-2.0
// POST /v1/graphs: JSON, or NDJSON that is read as it arrives.
//
// What takes long (parsing, submitting, writing the answer) is done by the
// server's worker thread when the graph is large. A job is shared by the
// request and the worker. A client that hangs up before its graph was admitted
// leaves nothing behind; one that hangs up later leaves its graph, and its
// Idempotency-Key knows the answer.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/body.h"
#include "api/build.h"
#include "api/common.h"
#include "api/graph_read.h"
#include "api/handlers.h"
#include "api/http_internal.h"
#include "api/ids.h"
#include "api/keyed.h"
#include "api/park.h"
#include "api/payload.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/view_json.h"
#include "api/watch.h"
#include "core/base/mem.h"

enum {
    GRAPHS_INLINE_BYTES = 64 * 1024, // of JSON: a millisecond or so
    GRAPHS_INLINE_OPS = 500,
};

static const char graphs_lines_type[] = "application/x-ndjson";

struct graphs_job {
    struct api_work work;
    atomic_int refs;       // the request's, and the worker's while it has it
    struct pod_mutex lock; // held while a graph is admitted, and of its answer
    struct api_request *req; // NULL: it ended
    bool finished;           // the worker has given it back
    bool admitted;

    // Of whoever has the job.
    struct pod *pod;
    struct pod_trace *trace; // with a reference
    struct api_graph graph;
    bool by_lines;
    char *text; // JSON, not parsed yet
    size_t length;
    bool waits; // the answer is written when the graph is done
    enum pod_code code;
    struct pod_err err;
    uint64_t number;
    struct pod_str names; // JSON, until the answer is written
    struct pod_blob *answer;
    bool done; // what the answer says

    // Of the request.
    struct api_submission submission;
    int64_t deadline_ns;
    bool told; // api_keyed_accepted
};

static void graphs_unref(struct graphs_job *job)
{
    if (atomic_fetch_sub(&job->refs, 1) > 1)
        return;
    api_graph_fini(&job->graph);
    pod_trace_unref(job->trace);
    pod_mutex_fini(&job->lock);
    pod_free(job->text);
    pod_str_fini(&job->names);
    pod_blob_unref(job->answer);
    pod_free(job);
}

// ------------------------------------------------------------------- the work

// The event of the graph as text. NULL: no memory, or the graph has ended and
// is forgotten.
static char *graphs_event_text(const struct graphs_job *job, bool *out_done,
                               struct pod_err *err)
{
    struct pod_event_view view = {0};
    char *text = NULL;

    if (pod_get_event(job->pod, job->number, &view, err) != POD_OK)
        return NULL;
    json_t *event = api_event_json(&view);
    *out_done = view.state > POD_SCHED_RUNNING;
    pod_event_view_fini(&view);
    if (event != NULL)
        text = json_dumps(event, JSON_COMPACT);
    json_decref(event);
    if (text == NULL)
        (void)api_err_memory(err);
    return text;
}

// The event, with the names of its operations as its last member.
static struct pod_blob *graphs_answer(const struct graphs_job *job,
                                      bool *out_done, struct pod_err *err)
{
    static const char member[] = ",\"refs\":";
    static const char end[] = "}\n";
    char *event = graphs_event_text(job, out_done, err);
    size_t length = event != NULL ? strlen(event) - 1 : 0; // without its brace
    const struct {
        const char *text;
        size_t length;
    } parts[] = {{event, length},
                 {member, sizeof(member) - 1},
                 {job->names.data, job->names.length},
                 {end, sizeof(end) - 1}};
    struct pod_blob *answer = NULL;
    size_t used = 0;

    if (event != NULL && !job->names.failed)
        answer = pod_blob_new(length + sizeof(member) - 1 + job->names.length +
                              sizeof(end) - 1);
    if (event != NULL && answer == NULL)
        (void)api_err_memory(err);
    for (size_t i = 0; answer != NULL && i < sizeof(parts) / sizeof(parts[0]);
         i++) {
        memcpy(answer->data + used, parts[i].text, parts[i].length);
        used += parts[i].length;
    }
    free(event);
    return answer;
}

// The names go as the answer comes, under the lock: whoever ends the request
// meanwhile needs one of them.
static void graphs_write_answer(struct graphs_job *job)
{
    bool done = false;
    struct pod_err err;
    struct pod_blob *answer = graphs_answer(job, &done, &err);

    pod_mutex_lock(&job->lock);
    job->answer = answer;
    job->done = done;
    if (answer != NULL) {
        pod_str_fini(&job->names);
    } else {
        job->err = err;
        job->code = err.code;
    }
    pod_mutex_unlock(&job->lock);
}

// The answer that the request's key gives should the client hang up.
static void graphs_tell_key(struct api_request *req, struct graphs_job *job)
{
    bool done = false;
    struct pod_err err;

    pod_mutex_lock(&job->lock);
    struct pod_blob *answer = job->answer != NULL
                                  ? pod_blob_ref(job->answer)
                                  : graphs_answer(job, &done, &err);
    pod_mutex_unlock(&job->lock);
    api_keyed_accepted_text(req, 202, answer);
    pod_blob_unref(answer);
}

static enum pod_code graphs_parse(struct graphs_job *job)
{
    struct api_graph *graph = &job->graph;

    if (job->by_lines)
        return api_graph_read_end(graph, &job->err);
    enum pod_code code =
        api_graph_parse_json(graph, job->text, job->length, &job->err);
    pod_free(job->text);
    job->text = NULL;
    return code == POD_OK ? api_graph_read_json(graph, &job->err) : code;
}

// Admits the graph unless the client has hung up. The lock is held, so that
// whoever ends the request meanwhile learns what came of it.
static enum pod_code graphs_admit(struct graphs_job *job)
{
    size_t count = job->graph.count;
    uint64_t *numbers = pod_calloc(count + 1, sizeof(*numbers));
    enum pod_code code = POD_CANCELLED;

    if (numbers == NULL)
        return api_err_memory(&job->err);
    pod_mutex_lock(&job->lock);
    if (job->req != NULL)
        code = api_graph_submit(&job->graph, &job->number, numbers, &job->err);
    job->admitted = code == POD_OK && !job->graph.validate_only;
    // Without memory for it there will be no answer, but there is the graph.
    if (job->admitted)
        job->names.failed =
            !api_graph_refs(&job->graph, job->number, numbers, &job->names);
    pod_mutex_unlock(&job->lock);
    pod_free(numbers);
    if (job->admitted)
        api_graph_fini(&job->graph);
    return code;
}

static void graphs_run(struct graphs_job *job)
{
    if (!job->admitted) {
        job->code = graphs_parse(job);
        if (job->code == POD_OK)
            job->code = graphs_admit(job);
        if (job->code != POD_OK || !job->admitted || job->waits)
            return;
    }
    graphs_write_answer(job);
}

// In the worker's thread.
static void graphs_work(struct api_work *work)
{
    struct graphs_job *job = POD_CONTAINER(work, struct graphs_job, work);

    graphs_run(job);
    pod_mutex_lock(&job->lock);
    job->finished = true;
    if (job->req != NULL)
        api_wake_from_thread(job->req);
    pod_mutex_unlock(&job->lock);
    graphs_unref(job);
}

// -------------------------------------------------------------------- answers

static void graphs_reply_faults(struct api_request *req,
                                const struct graphs_job *job)
{
    const struct pod_faults *faults = &job->graph.faults;
    struct api_problem more = {.status = 0};
    char total[24];

    if (faults->total > 0) {
        more.errors = json_array();
        for (size_t i = 0; i < faults->count; i++)
            (void)json_array_append_new(more.errors,
                                        api_problem_entry(&faults->items[i]));
        (void)snprintf(total, sizeof(total), "%llu",
                       (unsigned long long)faults->total);
        more.metadata = json_pack("{s:s}", "faults", total);
    }
    api_problem_with(req, &job->err, &more);
}

static void graphs_reply_valid(struct api_request *req,
                               const struct graphs_job *job)
{
    struct api_build report = api_build_object();

    api_set_bool(&report, "valid", true);
    api_set_u64(&report, "operations", job->graph.count);
    api_set(&report, "errors", json_array());
    api_reply_json(req, 200, api_build_take(&report));
}

static void graphs_reply(struct api_request *req, const struct graphs_job *job)
{
    char id[API_ID_BYTES];

    if (job->admitted)
        api_keyed_made(req);
    if (job->code != POD_OK) {
        graphs_reply_faults(req, job);
        return;
    }
    if (!job->admitted) {
        graphs_reply_valid(req, job);
        return;
    }
    api_header(req, "Operation-Location", "/v1/events/%s",
               api_id_print(POD_REF_OP, job->number, id));
    api_header(req, "Location", "/v1/graphs/%s",
               api_id_print(POD_REF_GRAPH, job->number, id));
    int status = !job->done ? 202 : 201;
    api_keyed_content(req, job->answer->data, job->answer->size);
    api_reply_blobs(req, job->waits ? status : 202, "application/json", NULL,
                    &job->answer, 1, 0, job->answer->size);
}

// -------------------------------------------------------------------- the way

static void graphs_resume(struct api_request *req, enum api_wake why);
static void graphs_advance(struct api_request *req, struct graphs_job *job);

// The request ends: the worker may still have the job.
static void graphs_leave(void *arg)
{
    struct graphs_job *job = arg;
    struct api_request *req = job->req;

    pod_mutex_lock(&job->lock);
    job->req = NULL;
    pod_mutex_unlock(&job->lock);
    if (job->admitted && !job->told && req->response == NULL &&
        api_keyed_is_first(req))
        graphs_tell_key(req, job);
    graphs_unref(job);
}

// The request is parked until the worker has done its part.
static void graphs_post_work(struct api_request *req, struct graphs_job *job)
{
    job->work.run = graphs_work;
    atomic_fetch_add(&job->refs, 1);
    enum pod_code code =
        api_worker_post(&req->server->worker, &job->work, &job->err);
    if (code == POD_OK)
        return; // and the job is the worker's
    atomic_fetch_sub(&job->refs, 1);
    job->finished = true;
    job->code = code;
    api_wake(req);
}

// Runs the next part of the work here or in the worker's thread.
static void graphs_do(struct api_request *req, struct graphs_job *job)
{
    struct pod_err err = POD_ERR_NONE;
    bool small = job->by_lines || job->admitted
                     ? job->graph.count <= GRAPHS_INLINE_OPS
                     : job->length <= GRAPHS_INLINE_BYTES;
    bool parked =
        !small && api_park(req, POD_NEVER, graphs_resume, &err) == POD_OK;

    job->finished = !parked;
    if (parked) {
        graphs_post_work(req, job);
    } else if (small || job->admitted) {
        graphs_run(job);
        graphs_advance(req, job);
    } else {
        api_problem(req, &err);
    }
}

// Whether the graph is to be waited for; then the request is parked.
static bool graphs_wait(struct api_request *req, struct graphs_job *job)
{
    struct pod_event_view view = {0};
    struct pod_err err;
    bool done = true;

    if (job->deadline_ns <= api_now(req))
        return false;
    if (api_watch(req, job->pod, job->number, 0) != API_WATCH_WAITING)
        return false;
    if (pod_get_event(job->pod, job->number, &view, &err) == POD_OK)
        done = view.state > POD_SCHED_RUNNING;
    pod_event_view_fini(&view);
    if (done)
        return false;
    if (!job->told && api_keyed_is_first(req)) {
        graphs_tell_key(req, job);
        job->told = true;
    }
    // It was accepted: no place to wait is no reason to refuse it.
    return api_park(req, job->deadline_ns, graphs_resume, &err) == POD_OK;
}

// A part of the work is done.
static void graphs_advance(struct api_request *req, struct graphs_job *job)
{
    bool written = job->code != POD_OK || !job->admitted || job->answer != NULL;

    if (written)
        graphs_reply(req, job);
    else if (!graphs_wait(req, job))
        graphs_do(req, job);
}

static void graphs_resume(struct api_request *req, enum api_wake why)
{
    struct graphs_job *job = api_state(req);
    struct pod_err err = POD_ERR_NONE;

    pod_mutex_lock(&job->lock);
    bool finished = job->finished;
    pod_mutex_unlock(&job->lock);
    if (finished) {
        if (why != API_WAKE_EVENT && job->answer == NULL)
            job->deadline_ns = 0;
        graphs_advance(req, job);
        return;
    }
    if (why == API_WAKE_TIMEOUT)
        (void)pod_err_set(&err, POD_REASON_WAIT_EXPIRED,
                          "the graph could not be read in time");
    else if (api_park(req, POD_NEVER, graphs_resume, &err) == POD_OK)
        return;
    api_problem(req, &err);
}

// -------------------------------------------------------------------- requests

static struct graphs_job *graphs_job_new(struct api_request *req)
{
    struct graphs_job *job = pod_calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->pod = api_pod(req);
    job->req = req;
    atomic_store(&job->refs, 1);
    pod_mutex_init(&job->lock, POD_RANK_WORK, "graph");
    pod_list_init(&job->work.link);
    api_graph_init(&job->graph, job->pod);
    job->trace = pod_trace_ref(api_trace(req));
    job->graph.self.trace = job->trace;
    if (!api_defer(req, graphs_leave, job))
        return NULL;
    api_set_state(req, job);
    return job;
}

static enum pod_code graphs_piece(struct api_request *req, const char *data,
                                  size_t size, struct pod_err *err)
{
    struct graphs_job *job = api_state(req);

    return api_graph_read_lines(&job->graph, data, size, err);
}

static enum pod_code graphs_read_query(struct api_request *req,
                                       struct graphs_job *job,
                                       struct pod_err *err)
{
    struct api_graph *graph = &job->graph;
    size_t on_error = 0;
    enum pod_code code =
        api_query_bool(req, "validate_only", &graph->validate_only, err);

    if (code == POD_OK && job->by_lines)
        code = api_common_from_query(req, &graph->self, err);
    if (code == POD_OK && job->by_lines)
        code = api_query_enum(req, "on_error", api_graph_on_error, 2, &on_error,
                              err);
    graph->cancel_on_error = on_error == 1;
    if (code == POD_OK)
        code = api_submission_end(req, &job->submission, err);
    if (code == POD_OK)
        code = api_payload_undigested(req, err);
    job->waits = job->submission.wait_ns > 0 && !graph->validate_only;
    return code;
}

void api_graphs_post_headers(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct graphs_job *job = graphs_job_new(req);

    if (job == NULL) {
        (void)api_err_memory(&err);
        api_problem(req, &err);
        return;
    }
    job->by_lines = strcmp(api_body_type(req), graphs_lines_type) == 0;
    if (graphs_read_query(req, job, &err) != POD_OK)
        api_problem(req, &err);
    else if (job->by_lines)
        api_body_pieces(req, graphs_piece);
}

void api_graphs_post(struct api_request *req)
{
    struct graphs_job *job = api_state(req);

    if (!job->by_lines)
        job->text = api_body_take_text(req, &job->length);
    if (job->waits)
        job->deadline_ns = pod_time_add(api_now(req), job->submission.wait_ns);
    graphs_do(req, job);
}
