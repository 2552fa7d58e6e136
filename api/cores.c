// SPDX-License-Identifier: Apache-2.0
// /v1/cores: what programs run on.
#include "api/common.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/query.h"
#include "api/view_json.h"

void api_cores_get(struct api_request *req)
{
    struct api_list list;
    struct pod_topology_view view = {0};
    api_list_begin(req, "cores", api_core_fields, &list);
    if (list.code == POD_OK)
        list.code = pod_get_topology(api_pod(req), &view, &list.err);
    for (size_t i = 0; i < view.core_count; i++) {
        if (api_list_takes(&list, view.cores[i].id))
            api_list_add(&list, api_core_json(&view.cores[i]));
    }
    api_list_reply(req, &list);
    pod_topology_view_fini(&view);
}

static enum pod_code cores_find(const struct pod_topology_view *view,
                                uint32_t id,
                                const struct pod_core_view **out_core,
                                struct pod_err *err)
{
    *out_core = pod_topology_core(view, id);
    if (*out_core != NULL)
        return POD_OK;
    if (id < view->core_ids)
        return pod_err_set(err, POD_REASON_EXPIRED,
                           "core %u was removed with its host", id);
    return pod_err_set(err, POD_REASON_NOT_FOUND,
                       "there is no core %u: the pod has %zu", id,
                       view->core_count);
}

void api_core_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    const struct pod_core_view *core = NULL;
    uint32_t id = 0;
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK && !api_path_number(req, 0, "core", &id))
        return;
    if (code == POD_OK)
        code = pod_get_topology(api_pod(req), &view, &err);
    if (code == POD_OK)
        code = cores_find(&view, id, &core, &err);
    if (code == POD_OK)
        api_reply_json(req, 200, api_core_json(core));
    else
        api_problem(req, &err);
    pod_topology_view_fini(&view);
}
