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
    struct api_list list;
    struct pod_topology_view view = {0};
    api_list_begin(req, "hosts", api_host_fields, &list);
    if (list.code == POD_OK)
        list.code = pod_get_topology(api_pod(req), &view, &list.err);
    for (size_t i = 0; i < view.host_count; i++) {
        if (api_list_takes(&list, view.hosts[i].id))
            api_list_add(&list, api_host_json(&view.hosts[i]));
    }
    api_list_reply(req, &list);
    pod_topology_view_fini(&view);
}

// ----------------------------------------------------------------- one host

// The host in the view. Errors as in core/pod/hosts.h.
static enum pod_code hosts_find(const struct pod_topology_view *view,
                                uint32_t id,
                                const struct pod_host_view **out_host,
                                struct pod_err *err)
{
    *out_host = pod_topology_host(view, id);
    if (*out_host != NULL)
        return POD_OK;
    if (id < view->host_ids)
        return pod_err_set(err, POD_REASON_EXPIRED, "host %u was removed", id);
    return pod_err_set(err, POD_REASON_NOT_FOUND,
                       "there is no host %u: the pod has %zu", id,
                       view->host_count);
}

// Replies with the host as it is now.
static void hosts_reply(struct api_request *req, uint32_t id)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    const struct pod_host_view *host = NULL;
    enum pod_code code = pod_get_topology(api_pod(req), &view, &err);
    if (code == POD_OK)
        code = hosts_find(&view, id, &host, &err);
    if (code == POD_OK)
        api_reply_json(req, 200, api_host_json(host));
    else
        api_problem(req, &err);
    pod_topology_view_fini(&view);
}

void api_host_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    uint32_t host = 0;
    if (api_query_end(req, &err) != POD_OK)
        api_problem(req, &err);
    else if (api_path_number(req, 0, "host", &host))
        hosts_reply(req, host);
}

void api_host_delete(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    uint32_t host = 0;
    bool force = false;
    enum pod_code code = api_query_bool(req, "force", &force, &err);
    if (code == POD_OK)
        code = api_query_end(req, &err);
    if (code == POD_OK && !api_path_number(req, 0, "host", &host))
        return;
    if (code == POD_OK)
        code = pod_remove_host(api_pod(req), host, force, &err);
    if (code == POD_OK)
        api_reply_empty(req, 204);
    else
        api_problem(req, &err);
}

// ------------------------------------------------------------------- verbs

// The host of a verb, which takes no member; its parameters were read before.
// False: replied.
static bool hosts_read_verb(struct api_request *req, uint32_t *out_host)
{
    struct pod_err err = POD_ERR_NONE;
    struct api_reader reader;
    const json_t *body = api_body_json(req);
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK && body != NULL)
        code = api_read_begin(&reader, body, "", &err);
    if (code == POD_OK && body != NULL)
        code = api_read_end(&reader, &err);
    if (code == POD_OK)
        return api_path_number(req, 0, "host", out_host);
    api_problem(req, &err);
    return false;
}

static void hosts_set_cordon(struct api_request *req, bool cordon)
{
    struct pod_err err = POD_ERR_NONE;
    uint32_t host = 0;
    if (!hosts_read_verb(req, &host))
        return;
    if (pod_cordon(api_pod(req), host, cordon, &err) == POD_OK)
        hosts_reply(req, host);
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
        hosts_reply(req, host);
    else
        api_problem(req, &err);
}

// ------------------------------------------------------------------- drain

// Who waits until a host is drained.
struct hosts_drain {
    uint32_t host;
    int64_t deadline_ns;
};

// Woken: the host is drained or uncordoned, or the time is up; the answer shows
// which.
static void hosts_drain_resume(struct api_request *req, enum api_wake why)
{
    const struct hosts_drain *drain = api_state(req);
    struct pod_err err = POD_ERR_NONE;
    if (why == API_WAKE_EVENT && api_watch_pending(req) > 0 &&
        api_park(req, drain->deadline_ns, hosts_drain_resume, &err) == POD_OK)
        return;
    hosts_reply(req, drain->host);
}

static void hosts_drain_wait(struct api_request *req,
                             const struct hosts_drain *drain)
{
    struct pod_err err = POD_ERR_NONE;
    enum api_watch watch = api_watch_drained(req, api_pod(req), drain->host);
    if (watch == API_WATCH_NOT)
        hosts_reply(req, drain->host);
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
        hosts_reply(req, drain->host);
}
