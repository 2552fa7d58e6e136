// SPDX-License-Identifier: Apache-2.0
// GET and HEAD /v1/buffers/{id}/data: a read operation and its bytes.
//
// One request goes through up to three waits, all against one deadline: for
// the shape of a buffer that an execution has yet to make, for the first bytes
// (an operation that fails before them is a problem document), and, for JSON,
// for all of them. Then the bytes are sent: from the device's own memory if the
// engine could borrow it, else as they come.
#include <string.h>

#include "api/data.h"
#include "api/handlers.h"
#include "api/ids.h"
#include "api/park.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/watch.h"

enum {
    DATA_WAIT_S = 30,
    DATA_WINDOW = 16 * 1024 * 1024,
    DATA_UNCOUNTED = 256 * 1024, // reads that no budget needs to bound
    DATA_SHARE = 16, // no reader holds more than this part of the budget
};

// What a request has of the staging budget.
struct data_hold {
    struct pod *pod;
    uint64_t bytes;
};

struct data_read {
    uint64_t buffer;
    uint64_t op; // the READ, once it was submitted
    int64_t deadline_ns;
    bool waits; // the client said how long
    int64_t wait_ns;
    struct pod_request request;
    struct api_data data;
    struct data_hold *hold; // or NULL
    struct pod_stream *stream;
    struct pod_blob *gathered; // JSON: all bytes
    size_t gathered_bytes;
};

static void data_resume(struct api_request *req, enum api_wake why);

// ------------------------------------------------------------------ refusals

static void data_refuse_tuple(struct api_request *req,
                              const struct pod_buffer_view *view)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_str leaves = {0};
    char id[API_ID_BYTES];
    for (size_t i = 0; i < view->child_count; i++) {
        pod_str_puts(&leaves, i == 0 ? "" : ",");
        pod_str_puts(&leaves,
                     api_id_print(POD_REF_BUFFER, view->children[i], id));
    }
    const char *list = leaves.data != NULL ? leaves.data : "";
    (void)pod_err_set(&err, POD_REASON_IS_A_TUPLE,
                      "%s is a tuple: read its leaves, %s",
                      api_id_print(POD_REF_BUFFER, view->number, id), list);
    struct api_problem more = {.metadata = json_pack("{s:s}", "leaves", list)};
    api_problem_with(req, &err, &more);
    pod_str_fini(&leaves);
}

// The bytes did not come in time. The operation goes on without its reader.
static void data_refuse_late(struct api_request *req,
                             const struct data_read *read, enum api_wake why)
{
    struct pod_err err = POD_ERR_NONE;
    struct api_problem more = {0};
    char id[API_ID_BYTES] = "";
    if (read->op != 0) {
        api_id_print(POD_REF_OP, read->op, id);
        more.metadata = json_pack("{s:s}", "operation", id);
    }
    if (read->stream != NULL)
        pod_stream_abandon(read->stream);
    if (why == API_WAKE_DRAIN)
        (void)pod_err_set(&err, POD_REASON_DRAINING, "podd is shutting down");
    else
        (void)pod_err_set(
            &err, POD_REASON_WAIT_EXPIRED,
            "the bytes were not there yet when the wait ran out%s%s",
            id[0] != '\0' ? "; the operation is " : "", id);
    api_problem_with(req, &err, &more);
}

static void data_park(struct api_request *req, const struct data_read *read)
{
    struct pod_err err = POD_ERR_NONE;
    if (api_park(req, read->deadline_ns, data_resume, &err) != POD_OK)
        api_problem(req, &err);
}

// ------------------------------------------------------- the bytes are coming

// The read ended badly: why is in its event, once that has ended too.
static void data_failed(struct api_request *req, const struct data_read *read)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_event_view view = {0};
    enum api_watch watch = api_watch(req, api_pod(req), read->op, 0);
    if (watch == API_WATCH_WAITING) {
        data_park(req, read);
        return;
    }
    if (pod_get_event(api_pod(req), read->op, &view, &err) == POD_OK &&
        view.has_error) {
        api_problem_of_event(req, &view);
    } else {
        // Its event is gone: the stream has the error too.
        (void)pod_err_set(&err, POD_REASON_INTERNAL, "the read failed");
        (void)pod_stream_pop(read->stream, NULL, &err);
        api_problem(req, &err);
    }
    pod_event_view_fini(&view);
}

static void data_let_go(void *arg)
{
    struct data_hold *hold = arg;
    pod_staging_give(hold->pod, hold->bytes);
    hold->bytes = 0;
}

static void data_send(struct api_request *req, const struct data_read *read)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_blob *prefix = NULL;
    if (api_data_prefix(req, &read->data, &prefix, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_data_headers(req, &read->data);
    bool whole =
        api_reply_stream(req, api_data_status(&read->data),
                         api_data_type(&read->data), prefix, read->data.length);
    // Bytes that are there have their own place in the budget.
    if (whole && read->hold != NULL)
        data_let_go(read->hold);
}

// Takes what has come; returns the stream's state after it.
static enum pod_stream_state data_gather(struct data_read *read)
{
    struct pod_blob *chunk = NULL;
    enum pod_stream_state state = pod_stream_pop(read->stream, &chunk, NULL);
    while (state == POD_STREAM_CHUNK) {
        size_t room = read->gathered->size - read->gathered_bytes;
        size_t size = chunk->size < room ? chunk->size : room;
        memcpy(read->gathered->data + read->gathered_bytes, chunk->data, size);
        read->gathered_bytes += size;
        pod_blob_unref(chunk);
        state = pod_stream_pop(read->stream, &chunk, NULL);
    }
    return state;
}

static void data_look(struct api_request *req, struct data_read *read)
{
    bool values = read->data.form == API_DATA_JSON;
    enum pod_stream_state state =
        values ? data_gather(read) : pod_stream_peek(read->stream);
    if (state == POD_STREAM_EMPTY)
        data_park(req, read);
    else if (state == POD_STREAM_FAILED)
        data_failed(req, read);
    else if (values)
        api_data_reply_values(req, &read->data, read->gathered->data);
    else
        data_send(req, read);
}

// --------------------------------------------------------------- the request

static void data_unref(void *blob)
{
    pod_blob_unref(blob);
}

// What a slow reader keeps waiting counts against the staging budget.
static enum pod_code data_take(struct api_request *req, struct data_read *read,
                               struct pod_err *err)
{
    uint64_t used = 0;
    uint64_t max = 0;
    uint64_t bytes = read->data.length;
    struct pod *pod = api_pod(req);
    if (bytes <= DATA_UNCOUNTED)
        return POD_OK;
    pod_staging_usage(pod, &used, &max);
    bytes = bytes < DATA_WINDOW ? bytes : DATA_WINDOW;
    bytes = bytes < max / DATA_SHARE ? bytes : max / DATA_SHARE;
    struct data_hold *hold = api_alloc(req, sizeof(*hold));
    if (hold == NULL)
        return api_err_memory(err);
    if (!pod_staging_take(pod, bytes))
        return pod_err_set(err, POD_REASON_STAGING_FULL,
                           "other requests hold %llu of the %llu staging bytes",
                           (unsigned long long)used, (unsigned long long)max);
    *hold = (struct data_hold){.pod = pod, .bytes = bytes};
    read->hold = hold;
    return api_defer(req, data_let_go, hold) ? POD_OK : api_err_memory(err);
}

static enum pod_code data_open(struct api_request *req, struct data_read *read,
                               struct pod_err *err)
{
    enum pod_code code = data_take(req, read, err);
    if (code != POD_OK)
        return code;
    if (read->data.form == API_DATA_JSON) {
        // Bounded: JSON is for small arrays.
        read->gathered = pod_blob_new((size_t)read->data.bytes);
        if (read->gathered == NULL ||
            !api_defer(req, data_unref, read->gathered))
            return api_err_memory(err);
        memset(read->gathered->data, 0, read->gathered->size);
    }
    read->stream = api_stream_open(req, DATA_WINDOW);
    if (read->stream == NULL)
        return api_err_memory(err);
    read->request.read.stream = read->stream;
    read->request.trace = api_trace(req);
    code =
        pod_submit_later(api_pod(req), &read->request, 1, &read->op, NULL, err);
    // Refused: nobody else will end the stream.
    if (code != POD_OK)
        pod_stream_finish(read->stream, err);
    return code;
}

static void data_submit(struct api_request *req, struct data_read *read)
{
    struct pod_err err = POD_ERR_NONE;
    char id[API_ID_BYTES];
    read->request.read.buffer =
        (struct pod_ref){.kind = POD_REF_BUFFER, .number = read->buffer};
    read->request.read.offset = read->data.offset;
    read->request.read.length =
        read->data.part ? read->data.length : UINT64_MAX;
    if (api_prefers_async(req)) {
        struct api_submission submission = {
            .requests = &read->request,
            .count = 1,
            .waits = read->waits,
            .wait_ns = read->waits ? read->wait_ns : 0,
        };
        api_header(req, "Preference-Applied", "respond-async");
        api_submit(req, &submission);
        return;
    }
    if (data_open(req, read, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_header(req, "Operation-Location", "/v1/events/%s",
               api_id_print(POD_REF_OP, read->op, id));
    data_look(req, read);
}

// The buffer's shape is known: chooses what to answer with.
static void data_choose(struct api_request *req, struct data_read *read,
                        const struct pod_buffer_view *view)
{
    struct pod_err err = POD_ERR_NONE;
    uint64_t bytes =
        view->has_shape ? (uint64_t)pod_shape_bytes(&view->shape) : view->bytes;
    enum pod_code code = api_data_describe(
        view->has_shape ? &view->shape : NULL, bytes, &read->data, &err);
    if (code == POD_OK)
        code = api_data_negotiate(req, &read->data, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_data_set_etag(req, &read->data, view->last_writer);
    if (!api_data_wanted(req, &read->data))
        return;
    if (api_method(req) == API_HEAD)
        api_data_reply_head(req, &read->data);
    else if (api_data_range(req, &read->data))
        data_submit(req, read);
}

// A buffer that an execution makes has no size until its program is compiled.
static bool data_is_unknown(const struct pod_buffer_view *view)
{
    return view->state == POD_HANDLE_PENDING && !view->has_shape &&
           !view->is_tuple && view->bytes == 0;
}

// Looks at the buffer. *out_wait: nothing is known of it yet, and the request
// is woken when there is.
static enum pod_code data_find(struct api_request *req,
                               const struct data_read *read,
                               struct pod_buffer_view *out_view, bool *out_wait,
                               struct pod_err *err)
{
    struct pod *pod = api_pod(req);
    enum pod_code code = pod_get_buffer(pod, read->buffer, out_view, err);
    *out_wait = false;
    if (code != POD_OK || !data_is_unknown(out_view))
        return code;
    enum api_watch watch = api_watch(req, pod, read->buffer, 0);
    *out_wait = watch == API_WATCH_WAITING;
    if (*out_wait)
        return POD_OK;
    pod_buffer_view_fini(out_view);
    if (watch == API_WATCH_NO_MEMORY)
        return api_err_memory(err);
    // It was made between the look and the watch, or the pod drains.
    code = pod_get_buffer(pod, read->buffer, out_view, err);
    if (code != POD_OK || !data_is_unknown(out_view))
        return code;
    pod_buffer_view_fini(out_view);
    return pod_err_set(err, POD_REASON_DRAINING, "podd is shutting down");
}

static void data_begin(struct api_request *req, struct data_read *read)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_buffer_view view = {0};
    bool wait = false;
    if (data_find(req, read, &view, &wait, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    if (view.freed_by != 0) {
        (void)api_err_freed(POD_REF_BUFFER, view.number, view.freed_by, &err);
        api_problem(req, &err);
    } else if (view.is_tuple) {
        data_refuse_tuple(req, &view);
    } else if (wait) {
        data_park(req, read);
    } else {
        data_choose(req, read, &view);
    }
    pod_buffer_view_fini(&view);
}

static void data_resume(struct api_request *req, enum api_wake why)
{
    struct data_read *read = api_state(req);
    if (why != API_WAKE_EVENT)
        data_refuse_late(req, read, why);
    else if (read->stream != NULL)
        data_look(req, read);
    else
        data_begin(req, read);
}

void api_data_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct data_read *read = api_alloc(req, sizeof(*read));
    enum pod_code code = read == NULL ? api_err_memory(&err) : POD_OK;
    if (code == POD_OK) {
        read->request.kind = POD_KIND_READ;
        read->wait_ns = DATA_WAIT_S * POD_NS_PER_S;
        code = api_common_from_query(req, &read->request, &err);
    }
    if (code == POD_OK)
        code = api_wait_time(req, &read->wait_ns, &read->waits, &err);
    if (code == POD_OK)
        code = api_query_end(req, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    if (!api_path_id(req, 0, POD_REF_BUFFER, &read->buffer))
        return;
    read->deadline_ns = pod_time_add(api_now(req), read->wait_ns);
    api_set_state(req, read);
    data_begin(req, read);
}
