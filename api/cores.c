// SPDX-License-Identifier: Apache-2.0
// /v1/cores: what programs run on.
#include "api/common.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/query.h"
#include "api/view_json.h"

void api_cores_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    struct api_page page;
    api_page_begin(req, "cores", api_core_fields, &page);
    enum pod_code code = api_page_read(req, &page, &err);
    if (code == POD_OK)
        code = pod_get_topology(api_pod(req), &view, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    struct api_build items = api_build_array();
    size_t i = 0;
    while (i < view.core_count && view.cores[i].id < page.place)
        i++;
    for (size_t shown = 0; i < view.core_count && shown < page.size; shown++)
        api_page_add(&page, &items, api_core_json(&view.cores[i++]));
    api_page_reply(req, &page, "cores", &items,
                   i < view.core_count ? view.cores[i].id : 0);
    pod_topology_view_fini(&view);
}

static void cores_reply(struct api_request *req,
                        const struct pod_core_view *core, size_t index)
{
    struct pod_err err = POD_ERR_NONE;
    if (core != NULL) {
        api_reply_json(req, 200, api_core_json(core));
        return;
    }
    (void)pod_err_set(&err, POD_REASON_EXPIRED,
                      "core %zu was removed with its host", index);
    api_problem(req, &err);
}

void api_core_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    size_t index = 0;
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK)
        code = pod_get_topology(api_pod(req), &view, &err);
    if (code != POD_OK)
        api_problem(req, &err);
    else if (api_path_index(req, 0, "core", view.core_ids, &index))
        cores_reply(req, pod_topology_core(&view, (uint32_t)index), index);
    pod_topology_view_fini(&view);
}
