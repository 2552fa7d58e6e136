// SPDX-License-Identifier: Apache-2.0
// /v1/graphs: lists, and one graph.
#include "api/common.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/query.h"
#include "api/view_json.h"
#include "core/base/mem.h"

void api_graphs_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct api_page page;
    struct pod_graph_view *views = NULL;
    uint64_t next = 0;
    size_t count = 0;
    api_page_begin(req, "graphs", api_graph_fields, &page);
    enum pod_code code = api_page_read(req, &page, &err);
    if (code == POD_OK) {
        views = pod_calloc(page.size, sizeof(*views));
        code = views == NULL ? api_err_memory(&err) : POD_OK;
    }
    if (code == POD_OK)
        code = pod_list_graphs(api_pod(req),
                               page.place != 0 ? page.place : UINT64_MAX,
                               page.size, views, &count, &next, &err);
    if (code == POD_OK) {
        struct api_build items = api_build_array();
        for (size_t i = 0; i < count; i++) {
            api_page_add(&page, &items, api_graph_json(&views[i]));
            pod_graph_view_fini(&views[i]);
        }
        api_page_reply(req, &page, "graphs", &items, next);
    } else {
        api_problem(req, &err);
    }
    pod_free(views);
}

void api_graph_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_graph_view view = {0};
    uint64_t number = 0;
    if (!api_path_id(req, 0, POD_REF_GRAPH, &number))
        return;
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK)
        code = pod_get_graph(api_pod(req), number, &view, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_reply_json(req, 200, api_graph_json(&view));
    pod_graph_view_fini(&view);
}
