// SPDX-License-Identifier: Apache-2.0
// /v1/hosts: workers, keeping new work off them, taking them away.
#include "api/body.h"
#include "api/common.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/park.h"
#include "api/query.h"
#include "api/view_json.h"
#include "api/watch.h"

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
    size_t i = 0;
    while (i < view.host_count && view.hosts[i].id < page.place)
        i++;
    for (size_t shown = 0; i < view.host_count && shown < page.size; shown++)
        api_page_add(&page, &items, api_host_json(&view.hosts[i++]));
    api_page_reply(req, &page, "hosts", &items,
                   i < view.host_count ? view.hosts[i].id : 0);
    pod_topology_view_fini(&view);
}

// ----------------------------------------------------------------- one host

// The host of the path; NULL: replied.
static const struct pod_host_view *
hosts_find(struct api_request *req, const struct pod_topology_view *view)
{
    struct pod_err err = POD_ERR_NONE;
    size_t index = 0;
    if (!api_path_index(req, 0, "host", view->host_ids, &index))
        return NULL;
    const struct pod_host_view *host = pod_topology_host(view, (uint32_t)index);
    if (host != NULL)
        return host;
    (void)pod_err_set(&err, POD_REASON_EXPIRED, "host %zu was removed", index);
    api_problem(req, &err);
    return NULL;
}

// Replies with the host of the path as it is now.
static void hosts_reply(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    const struct pod_host_view *host = NULL;
    if (pod_get_topology(api_pod(req), &view, &err) != POD_OK)
        api_problem(req, &err);
    else
        host = hosts_find(req, &view);
    if (host != NULL)
        api_reply_json(req, 200, api_host_json(host));
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

void api_host_delete(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    const struct pod_host_view *host = NULL;
    bool force = false;
    enum pod_code code = api_query_bool(req, "force", &force, &err);
    if (code == POD_OK)
        code = api_query_end(req, &err);
    if (code == POD_OK)
        code = pod_get_topology(api_pod(req), &view, &err);
    if (code == POD_OK) {
        host = hosts_find(req, &view);
        if (host != NULL)
            code = pod_remove_host(api_pod(req), host->id, force, &err);
    }
    if (code != POD_OK)
        api_problem(req, &err);
    else if (host != NULL)
        api_reply_empty(req, 204);
    pod_topology_view_fini(&view);
}

// ------------------------------------------------------------------- verbs

// The host of a verb, which takes no member; its parameters were read before.
// False: replied.
static bool hosts_read_verb(struct api_request *req, uint32_t *out_host)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    struct api_reader reader;
    const json_t *body = api_body_json(req);
    const struct pod_host_view *host = NULL;
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK && body != NULL)
        code = api_read_begin(&reader, body, "", &err);
    if (code == POD_OK && body != NULL)
        code = api_read_end(&reader, &err);
    if (code == POD_OK)
        code = pod_get_topology(api_pod(req), &view, &err);
    if (code == POD_OK)
        host = hosts_find(req, &view);
    else
        api_problem(req, &err);
    if (host != NULL)
        *out_host = host->id;
    pod_topology_view_fini(&view);
    return host != NULL;
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

// ------------------------------------------------------------------- drain

// Who waits until a host is drained.
struct hosts_drain {
    uint32_t host;
    int64_t deadline_ns;
};

// Woken: it is drained, was called off, or the time is up; the answer tells.
static void hosts_drain_resume(struct api_request *req, enum api_wake why)
{
    const struct hosts_drain *drain = api_state(req);
    struct pod_err err = POD_ERR_NONE;
    if (why == API_WAKE_EVENT && api_watch_pending(req) > 0 &&
        api_park(req, drain->deadline_ns, hosts_drain_resume, &err) == POD_OK)
        return;
    hosts_reply(req);
}

static void hosts_drain_wait(struct api_request *req,
                             const struct hosts_drain *drain)
{
    struct pod_err err = POD_ERR_NONE;
    enum api_watch watch = api_watch_drained(req, api_pod(req), drain->host);
    if (watch == API_WATCH_NOT)
        hosts_reply(req);
    else if (watch == API_WATCH_NO_MEMORY)
        (void)api_err_memory(&err);
    else
        (void)!api_park(req, drain->deadline_ns, hosts_drain_resume, &err);
    if (err.code != POD_OK)
        api_problem(req, &err);
}

void api_host_drain(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    int64_t wait_ns = 0;
    struct hosts_drain *drain = api_alloc(req, sizeof(*drain));
    enum pod_code code = drain == NULL
                             ? api_err_memory(&err)
                             : api_wait_time(req, &wait_ns, NULL, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    if (!hosts_read_verb(req, &drain->host))
        return;
    drain->deadline_ns = pod_time_add(api_now(req), wait_ns);
    api_set_state(req, drain);
    if (pod_cordon(api_pod(req), drain->host, true, &err) != POD_OK)
        api_problem(req, &err);
    else if (wait_ns > 0)
        hosts_drain_wait(req, drain);
    else
        hosts_reply(req);
}
