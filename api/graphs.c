// SPDX-License-Identifier: Apache-2.0
// /v1/graphs: lists, and one graph.
#include "api/common.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/view_json.h"
#include "core/base/mem.h"

void api_graphs_get(struct api_request *req)
{
    struct api_list list;
    size_t count = 0;
    api_list_begin(req, "graphs", api_graph_fields, &list);
    struct pod_graph_view *views = api_list_room(&list, sizeof(*views));
    if (list.code == POD_OK)
        list.code =
            pod_list_graphs(api_pod(req), api_list_below(&list), list.page.size,
                            views, &count, &list.next, &list.err);
    for (size_t i = 0; i < count; i++) {
        api_list_add(&list, api_graph_json(&views[i]));
        pod_graph_view_fini(&views[i]);
    }
    api_list_reply(req, &list);
    pod_free(views);
}

void api_graph_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_graph_view view = {0};
    uint64_t number = 0;
    if (!api_path_id_only(req, POD_REF_GRAPH, &number))
        return;
    if (pod_get_graph(api_pod(req), number, &view, &err) == POD_OK)
        api_reply_json(req, 200, api_graph_json(&view));
    else
        api_problem(req, &err);
    pod_graph_view_fini(&view);
}
