// SPDX-License-Identifier: Apache-2.0
// /v1/loads: programs on cores.
#include "api/body.h"
#include "api/common.h"
#include "api/forms.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/query.h"
#include "api/view_json.h"
#include "core/base/mem.h"

void api_loads_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct api_page page;
    struct pod_load_view *views = NULL;
    uint64_t next = 0;
    size_t count = 0;
    api_page_begin(req, "loads", api_load_fields, &page);
    enum pod_code code = api_page_read(req, &page, &err);
    if (code == POD_OK) {
        views = pod_calloc(page.size, sizeof(*views));
        code = views == NULL ? api_err_memory(&err) : POD_OK;
    }
    if (code == POD_OK)
        code = pod_list_loads(api_pod(req),
                              page.place != 0 ? page.place : UINT64_MAX,
                              page.size, views, &count, &next, &err);
    if (code == POD_OK) {
        struct api_build items = api_build_array();
        for (size_t i = 0; i < count; i++)
            api_page_add(&page, &items, api_load_json(&views[i]));
        api_page_reply(req, &page, "loads", &items, next);
    } else {
        api_problem(req, &err);
    }
    pod_free(views);
}

void api_load_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_load_view view = {0};
    uint64_t number = 0;
    if (!api_path_id(req, 0, POD_REF_LOAD, &number))
        return;
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK)
        code = pod_get_load(api_pod(req), number, &view, &err);
    if (code == POD_OK)
        api_reply_json(req, 200, api_load_json(&view));
    else
        api_problem(req, &err);
}

void api_loads_post(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_request request = {.kind = POD_KIND_LOAD};
    struct api_submission submission = {
        .requests = &request, .count = 1, .made = POD_REF_LOAD};
    struct api_reader reader;
    struct api_form form = {
        .memory = api_memory_of(req), .pod = api_pod(req), .reader = &reader};
    enum pod_code code = form.memory == NULL ? api_err_memory(&err) : POD_OK;
    if (code == POD_OK)
        code = api_read_begin(&reader, api_body_json(req), "", &err);
    if (code == POD_OK)
        code = api_form_load(&form, &request, &err);
    if (code == POD_OK)
        code = api_submission_end(req, &submission, &err);
    if (code == POD_OK)
        api_submit(req, &submission);
    else
        api_problem(req, &err);
}

void api_load_delete(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_load_view view = {0};
    struct pod_request request = {.kind = POD_KIND_UNLOAD};
    struct api_submission submission = {.requests = &request, .count = 1};
    struct pod_ref *load = &request.unload.load;
    load->kind = POD_REF_LOAD;
    if (!api_path_id(req, 0, POD_REF_LOAD, &load->number))
        return;
    // In a path an unknown load is 404 or 410.
    enum pod_code code = pod_get_load(api_pod(req), load->number, &view, &err);
    if (code == POD_OK)
        code = api_common_from_query(req, &request, &err);
    if (code == POD_OK)
        code = api_submission_end(req, &submission, &err);
    if (code == POD_OK)
        api_submit(req, &submission);
    else
        api_problem(req, &err);
}
