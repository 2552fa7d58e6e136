// SPDX-License-Identifier: Apache-2.0
// /v1/hosts: workers, and keeping new work off them.
#include "api/body.h"
#include "api/common.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/query.h"
#include "api/view_json.h"

void api_hosts_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    struct api_page page;
    api_page_begin(req, "hosts", api_host_fields, &page);
    enum pod_code code = api_page_read(req, &page, &err);
    if (code == POD_OK)
        code = pod_get_topology(api_pod(req), &view, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    struct api_build items = api_build_array();
    size_t i = (size_t)page.place;
    for (size_t shown = 0; i < view.host_count && shown < page.size; shown++)
        api_page_add(&page, &items, api_host_json(&view.hosts[i++]));
    api_page_reply(req, &page, "hosts", &items, i < view.host_count ? i : 0);
    pod_topology_view_fini(&view);
}

// Replies with the host of the path as it is now.
static void hosts_reply(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    size_t index = 0;
    if (pod_get_topology(api_pod(req), &view, &err) != POD_OK)
        api_problem(req, &err);
    else if (api_path_index(req, 0, "host", view.host_count, &index))
        api_reply_json(req, 200, api_host_json(&view.hosts[index]));
    pod_topology_view_fini(&view);
}

void api_host_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    if (api_query_end(req, &err) == POD_OK)
        hosts_reply(req);
    else
        api_problem(req, &err);
}

// The host of a verb, which takes no parameter and no member. False: replied.
static bool hosts_read_verb(struct api_request *req, uint32_t *out_host)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    struct api_reader reader;
    const json_t *body = api_body_json(req);
    size_t index = 0;
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK && body != NULL)
        code = api_read_begin(&reader, body, "", &err);
    if (code == POD_OK && body != NULL)
        code = api_read_end(&reader, &err);
    if (code == POD_OK)
        code = pod_get_topology(api_pod(req), &view, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return false;
    }
    bool found = api_path_index(req, 0, "host", view.host_count, &index);
    pod_topology_view_fini(&view);
    *out_host = (uint32_t)index;
    return found;
}

static void hosts_set_cordon(struct api_request *req, bool cordon)
{
    struct pod_err err = POD_ERR_NONE;
    uint32_t host = 0;
    if (!hosts_read_verb(req, &host))
        return;
    if (pod_cordon(api_pod(req), host, cordon, &err) == POD_OK)
        hosts_reply(req);
    else
        api_problem(req, &err);
}

void api_host_cordon(struct api_request *req)
{
    hosts_set_cordon(req, true);
}

void api_host_uncordon(struct api_request *req)
{
    hosts_set_cordon(req, false);
}

void api_host_reconnect(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    uint32_t host = 0;
    if (!hosts_read_verb(req, &host))
        return;
    if (pod_reconnect(api_pod(req), host, &err) == POD_OK)
        hosts_reply(req);
    else
        api_problem(req, &err);
}
