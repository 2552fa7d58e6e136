// SPDX-License-Identifier: Apache-2.0
// /v1/loads: programs on cores.
#include "api/common.h"
#include "api/forms.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/view_json.h"
#include "core/base/mem.h"

void api_loads_get(struct api_request *req)
{
    struct api_list list;
    size_t count = 0;
    api_list_begin(req, "loads", api_load_fields, &list);
    struct pod_load_view *views = api_list_room(&list, sizeof(*views));
    if (list.code == POD_OK)
        list.code =
            pod_list_loads(api_pod(req), api_list_below(&list), list.page.size,
                           views, &count, &list.next, &list.err);
    for (size_t i = 0; i < count; i++)
        api_list_add(&list, api_load_json(&views[i]));
    api_list_reply(req, &list);
    pod_free(views);
}

void api_load_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_load_view view = {0};
    uint64_t number = 0;
    if (!api_path_id_only(req, POD_REF_LOAD, &number))
        return;
    if (pod_get_load(api_pod(req), number, &view, &err) == POD_OK)
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
    struct api_form form;
    enum pod_code code = api_form_begin(req, &reader, &form, &err);
    if (code == POD_OK)
        code = api_form_load(&form, &request, &err);
    api_submit_read(req, &submission, code, &err);
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
    api_submit_read(req, &submission, code, &err);
}
