// SPDX-License-Identifier: Apache-2.0
// /v1/programs: compiling, lists, one program, its shape.
#include <stdlib.h>
#include <string.h>

#include "api/body.h"
#include "api/common.h"
#include "api/digest.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/park.h"
#include "api/payload.h"
#include "api/query.h"
#include "api/view_json.h"
#include "api/watch.h"
#include "core/base/mem.h"
#include "core/base/str.h"

enum {
    PROGRAMS_REPLICAS_MAX = 4096,
    PROGRAMS_LOADS_MAX = 4096,
    PROGRAMS_SHAPE_WAIT_S = 30,
};

// ------------------------------------------------------------------- compile

static enum pod_code programs_format(const struct api_request *req,
                                     enum pod_program_format *out_format,
                                     struct pod_err *err)
{
    const char *type = api_body_type(req);
    for (int i = 0; i < POD_FORMAT_COUNT; i++) {
        enum pod_program_format format = (enum pod_program_format)i;
        if (strcmp(type, pod_program_format_type(format)) == 0) {
            *out_format = format;
            return POD_OK;
        }
    }
    return pod_err_set(err, POD_REASON_UNSUPPORTED_TYPE,
                       "send a program as one of these: "
                       "-H 'Content-Type: %s' (HLO text), %s, %s or %s",
                       pod_program_format_type(POD_FORMAT_HLO_TEXT),
                       pod_program_format_type(POD_FORMAT_HLO_PROTO),
                       pod_program_format_type(POD_FORMAT_MLIR_TEXT),
                       pod_program_format_type(POD_FORMAT_MLIR_BYTECODE));
}

void api_programs_post_headers(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    enum pod_program_format format = POD_FORMAT_COUNT;
    if (programs_format(req, &format, &err) != POD_OK)
        api_problem(req, &err);
}

// The cores of ?load=0,1 as requests that load what request 0 compiles.
static enum pod_code programs_read_loads(struct api_request *req,
                                         const struct pod_request *compile,
                                         struct pod_request *out_requests,
                                         size_t *out_count, struct pod_err *err)
{
    const char *list = NULL;
    const char *piece = NULL;
    size_t length = 0;
    size_t count = 0;
    enum pod_code code = api_query_text(req, "load", &list, err);
    while (code == POD_OK && list != NULL &&
           api_list_next(&list, &piece, &length)) {
        uint64_t core = 0;
        bool zero = length == 1 && piece[0] == '0';
        if (count == PROGRAMS_LOADS_MAX ||
            (!zero && !pod_parse_number(piece, length, &core)) ||
            core >= POD_NO_ID)
            return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                               "load: not a list of at most %d cores",
                               PROGRAMS_LOADS_MAX);
        out_requests[count++] = (struct pod_request){
            .kind = POD_KIND_LOAD,
            .deadline_ns = compile->deadline_ns,
            .priority = compile->priority,
            .labels = compile->labels,
            .label_count = compile->label_count,
            .load = {.program = {.kind = POD_REF_REQUEST},
                     .core = (uint32_t)core},
        };
    }
    *out_count = count;
    return code;
}

static void programs_unref(void *blob)
{
    pod_blob_unref(blob);
}

// The engine keeps a program's text as long as the program, for hosts that come
// later. The body is held against the staging budget, which is for data on its
// way, so the engine gets a copy. NULL: no memory.
static struct pod_blob *programs_copy(struct api_request *req,
                                      const struct pod_blob *body)
{
    struct pod_blob *copy = pod_blob_new(body->size);
    if (copy == NULL || !api_defer(req, programs_unref, copy))
        return NULL;
    memcpy(copy->data, body->data, body->size);
    return copy;
}

// `requests` has room for the compilation and all loads the query can name.
static enum pod_code programs_read(struct api_request *req,
                                   const struct pod_blob *body,
                                   struct pod_request *requests,
                                   struct api_submission *submission,
                                   struct pod_err *err)
{
    struct pod_request *compile = &requests[0];
    uint64_t replicas = 1;
    size_t loads = 0;
    compile->kind = POD_KIND_COMPILE;
    enum pod_code code = programs_format(req, &compile->compile.format, err);
    if (code == POD_OK && body->size == 0)
        code = pod_err_set(err, POD_REASON_EMPTY_BODY,
                           "the body is empty; it must hold the program");
    if (code == POD_OK)
        code = api_common_from_query(req, compile, err);
    if (code == POD_OK)
        code = api_query_uint(req, "replicas", 1, PROGRAMS_REPLICAS_MAX,
                              &replicas, err);
    if (code == POD_OK)
        code = programs_read_loads(req, compile, requests + 1, &loads, err);
    if (code == POD_OK)
        code = api_submission_end(req, submission, err);
    compile->compile.replicas = (uint32_t)replicas;
    submission->count = 1 + loads;
    if (code != POD_OK)
        return code;
    compile->compile.program = programs_copy(req, body);
    return compile->compile.program != NULL ? POD_OK : api_err_memory(err);
}

// How many loads the query may name: its commas and one.
static size_t programs_most_loads(const struct api_request *req)
{
    size_t count = 1;
    for (const char *at = api_target(req); *at != '\0'; at++)
        count += *at == ',' || *at == '%';
    return count;
}

static void programs_compile(struct api_request *req, struct pod_blob *body)
{
    struct pod_err err = POD_ERR_NONE;
    char digest[API_DIGEST_NAME_BYTES];
    struct pod_request *requests =
        pod_calloc(1 + programs_most_loads(req), sizeof(*requests));
    struct api_submission submission = {.requests = requests,
                                        .made = POD_REF_PROGRAM};
    enum pod_code code = requests == NULL ? api_err_memory(&err)
                                          : programs_read(req, body, requests,
                                                          &submission, &err);
    if (code == POD_OK) {
        api_digest_name(body->data, body->size, digest);
        requests[0].compile.digest = digest;
        api_submit(req, &submission);
    } else {
        api_problem(req, &err);
    }
    pod_free(requests);
}

void api_programs_post(struct api_request *req)
{
    api_payload_verify(req, programs_compile);
}

// ------------------------------------------------------------------- reading

void api_programs_get(struct api_request *req)
{
    struct api_list list;
    size_t count = 0;
    api_list_begin(req, "programs", api_program_fields, &list);
    struct pod_program_view *views = api_list_room(&list, sizeof(*views));
    if (list.code == POD_OK)
        list.code = pod_list_programs(api_pod(req), api_list_below(&list),
                                      list.page.size, views, &count, &list.next,
                                      &list.err);
    for (size_t i = 0; i < count; i++) {
        api_list_add(&list, api_program_json(&views[i]));
        pod_program_view_fini(&views[i]);
    }
    api_list_reply(req, &list);
    pod_free(views);
}

void api_program_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_program_view view = {0};
    uint64_t number = 0;
    if (!api_path_id_only(req, POD_REF_PROGRAM, &number))
        return;
    if (pod_get_program(api_pod(req), number, &view, &err) == POD_OK)
        api_reply_json(req, 200, api_program_json(&view));
    else
        api_problem(req, &err);
    pod_program_view_fini(&view);
}

void api_program_delete(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_program_view view = {0};
    struct pod_request request = {.kind = POD_KIND_FREE};
    struct api_submission submission = {.requests = &request, .count = 1};
    struct pod_ref *handle = &request.free.handle;
    handle->kind = POD_REF_PROGRAM;
    if (!api_path_id(req, 0, POD_REF_PROGRAM, &handle->number))
        return;
    // In a path an unknown program is 404 or 410.
    enum pod_code code =
        pod_get_program(api_pod(req), handle->number, &view, &err);
    if (code == POD_OK)
        code = api_common_from_query(req, &request, &err);
    api_submit_read(req, &submission, code, &err);
    pod_program_view_fini(&view);
}

// --------------------------------------------------------------------- shape

static void programs_shape_resume(struct api_request *req, enum api_wake why);

// The compilation has ended, or will not in time.
static void programs_shape_refuse(struct api_request *req, uint64_t number)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_event_view view = {0};
    if (pod_get_event(api_pod(req), number, &view, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    if (view.has_error) {
        api_problem_of_event(req, &view);
    } else {
        (void)pod_err_set(&err, POD_REASON_WAIT_EXPIRED,
                          "the program is not compiled yet");
        api_problem(req, &err);
    }
    pod_event_view_fini(&view);
}

static void programs_shape_look(struct api_request *req, bool last)
{
    const struct api_waiter *want = api_state(req);
    struct pod_err err = POD_ERR_NONE;
    struct pod_program_view view = {0};
    // Registered before the look, so that its end is not missed.
    enum api_watch watch =
        last ? API_WATCH_NOT : api_watch(req, api_pod(req), want->number, 0);
    enum pod_code code =
        pod_get_program(api_pod(req), want->number, &view, &err);
    if (code == POD_OK && view.freed_by != 0)
        code = api_err_freed(POD_REF_PROGRAM, view.number, view.freed_by, &err);
    if (code != POD_OK)
        api_problem(req, &err);
    else if (view.has_shape)
        api_reply_json(req, 200, api_program_shape_json(&view.shape));
    else if (watch != API_WATCH_WAITING ||
             api_park(req, want->deadline_ns, programs_shape_resume, &err) !=
                 POD_OK)
        programs_shape_refuse(req, want->number);
    pod_program_view_fini(&view);
}

static void programs_shape_resume(struct api_request *req, enum api_wake why)
{
    programs_shape_look(req, why != API_WAKE_EVENT);
}

void api_program_shape_get(struct api_request *req)
{
    const struct api_waiter *want =
        api_waiter_begin(req, POD_REF_PROGRAM,
                         PROGRAMS_SHAPE_WAIT_S * POD_NS_PER_S, sizeof(*want));
    if (want != NULL)
        programs_shape_look(req, want->deadline_ns == 0);
}
