// SPDX-License-Identifier: Apache-2.0
// /v1/buffers: lists, one buffer, freeing and copying. Making: buffers_post.c.
#include "api/body.h"
#include "api/common.h"
#include "api/forms.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/query.h"
#include "api/view_json.h"
#include "core/base/mem.h"

void api_buffers_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct api_page page;
    struct pod_buffer_view *views = NULL;
    uint64_t next = 0;
    size_t count = 0;
    api_page_begin(req, "buffers", api_buffer_fields, &page);
    enum pod_code code = api_page_read(req, &page, &err);
    if (code == POD_OK) {
        views = pod_calloc(page.size, sizeof(*views));
        code = views == NULL ? api_err_memory(&err) : POD_OK;
    }
    if (code == POD_OK)
        code = pod_list_buffers(api_pod(req),
                                page.place != 0 ? page.place : UINT64_MAX,
                                page.size, views, &count, &next, &err);
    if (code == POD_OK) {
        struct api_build items = api_build_array();
        for (size_t i = 0; i < count; i++) {
            api_page_add(&page, &items, api_buffer_json(&views[i]));
            pod_buffer_view_fini(&views[i]);
        }
        api_page_reply(req, &page, "buffers", &items, next);
    } else {
        api_problem(req, &err);
    }
    pod_free(views);
}

void api_buffer_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_buffer_view view = {0};
    uint64_t number = 0;
    if (!api_path_id(req, 0, POD_REF_BUFFER, &number))
        return;
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK)
        code = pod_get_buffer(api_pod(req), number, &view, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_reply_json(req, 200, api_buffer_json(&view));
    pod_buffer_view_fini(&view);
}

// The buffer of the path is looked up first: in a path one that is unknown is
// 404 or 410, which the engine cannot know. False: replied.
static bool buffers_find(struct api_request *req, struct pod_ref *out)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_buffer_view view = {0};
    out->kind = POD_REF_BUFFER;
    if (!api_path_id(req, 0, POD_REF_BUFFER, &out->number))
        return false;
    if (pod_get_buffer(api_pod(req), out->number, &view, &err) != POD_OK) {
        api_problem(req, &err);
        return false;
    }
    pod_buffer_view_fini(&view);
    return true;
}

void api_buffer_delete(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_request request = {.kind = POD_KIND_FREE};
    struct api_submission submission = {.requests = &request, .count = 1};
    if (!buffers_find(req, &request.free.handle))
        return;
    enum pod_code code = api_common_from_query(req, &request, &err);
    if (code == POD_OK)
        code = api_submission_end(req, &submission, &err);
    if (code == POD_OK)
        api_submit(req, &submission);
    else
        api_problem(req, &err);
}

void api_buffer_copy(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_request request = {.kind = POD_KIND_COPY};
    struct api_submission submission = {.requests = &request, .count = 1};
    struct api_reader reader;
    struct api_form form = {
        .memory = api_memory_of(req), .pod = api_pod(req), .reader = &reader};
    if (!buffers_find(req, &request.copy.from))
        return;
    enum pod_code code = form.memory == NULL ? api_err_memory(&err) : POD_OK;
    if (code == POD_OK)
        code = api_read_begin(&reader, api_body_json(req), "", &err);
    if (code == POD_OK)
        code = api_form_copy(&form, &request, &err);
    if (code == POD_OK)
        code = api_submission_end(req, &submission, &err);
    if (code == POD_OK)
        api_submit(req, &submission);
    else
        api_problem(req, &err);
}
