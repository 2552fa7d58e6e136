// SPDX-License-Identifier: Apache-2.0
// /v1/buffers: lists, one buffer, freeing and copying. Making: buffers_post.c.
#include "api/common.h"
#include "api/forms.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/view_json.h"
#include "core/base/mem.h"

void api_buffers_get(struct api_request *req)
{
    struct api_list list;
    size_t count = 0;
    api_list_begin(req, "buffers", api_buffer_fields, &list);
    struct pod_buffer_view *views = api_list_room(&list, sizeof(*views));
    if (list.code == POD_OK)
        list.code = pod_list_buffers(api_pod(req), api_list_below(&list),
                                     list.page.size, views, &count, &list.next,
                                     &list.err);
    for (size_t i = 0; i < count; i++) {
        api_list_add(&list, api_buffer_json(&views[i]));
        pod_buffer_view_fini(&views[i]);
    }
    api_list_reply(req, &list);
    pod_free(views);
}

void api_buffer_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_buffer_view view = {0};
    uint64_t number = 0;
    if (!api_path_id_only(req, POD_REF_BUFFER, &number))
        return;
    if (pod_get_buffer(api_pod(req), number, &view, &err) == POD_OK)
        api_reply_json(req, 200, api_buffer_json(&view));
    else
        api_problem(req, &err);
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
    api_submit_read(req, &submission, code, &err);
}

void api_buffer_copy(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_request request = {.kind = POD_KIND_COPY};
    struct api_submission submission = {.requests = &request, .count = 1};
    struct api_reader reader;
    struct api_form form;
    if (!buffers_find(req, &request.copy.from))
        return;
    enum pod_code code = api_form_begin(req, &reader, &form, &err);
    if (code == POD_OK)
        code = api_form_copy(&form, &request, &err);
    api_submit_read(req, &submission, code, &err);
}
