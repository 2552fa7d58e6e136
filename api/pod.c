// SPDX-License-Identifier: Apache-2.0
// /v1/pod, /v1/pod:reset, /healthz and /readyz: the pod as a whole.

#include "api/body.h"
#include "api/build.h"
#include "api/common.h"
#include "api/handlers.h"
#include "api/query.h"
#include "api/view_json.h"

void api_pod_get(struct api_request *req)
{
    static const char *const views[] = {"full", "flat"};
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    size_t flat = 0;
    enum pod_code code = api_query_enum(req, "view", views, 2, &flat, &err);
    if (code == POD_OK)
        code = api_query_end(req, &err);
    if (code == POD_OK)
        code = pod_get_topology(api_pod(req), &view, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_reply_json(req, 200,
                   api_pod_json(&view, pod_draining(api_pod(req)), flat == 1));
    pod_topology_view_fini(&view);
}

void api_pod_reset(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_request request = {.kind = POD_KIND_RESET,
                                  .deadline_ns = POD_NEVER};
    struct api_submission submission = {.requests = &request, .count = 1};
    struct api_reader reader;
    const json_t *body = api_body_json(req);
    struct api_memory *memory = api_memory_of(req);
    enum pod_code code = memory == NULL ? api_err_memory(&err) : POD_OK;
    if (code == POD_OK && body != NULL)
        code = api_read_begin(&reader, body, "", &err);
    if (code == POD_OK && body != NULL)
        code = api_common_from_body(memory, &reader, &request, &err);
    if (code == POD_OK && body != NULL)
        code = api_read_end(&reader, &err);
    api_submit_read(req, &submission, code, &err);
}

void api_healthz_get(struct api_request *req)
{
    api_reply_static(req, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

static void pod_reply_ready(struct api_request *req,
                            const struct pod_topology_view *view,
                            const char *state)
{
    struct api_build answer = api_build_object();
    size_t ready = 0;
    for (size_t i = 0; i < view->host_count; i++)
        ready += view->hosts[i].state == POD_HOST_READY;
    api_set_word(&answer, "status", "ready");
    api_set_bool(&answer, "degraded", ready < view->host_count);
    api_set_word(&answer, "state", state);
    api_set_number(&answer, "hosts", (int64_t)view->host_count);
    api_set_number(&answer, "hosts_ready", (int64_t)ready);
    api_reply_json(req, 200, api_build_take(&answer));
}

void api_readyz_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    struct pod *pod = api_pod(req);
    size_t ready = 0;
    if (pod_get_topology(pod, &view, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    for (size_t i = 0; i < view.host_count; i++)
        ready += view.hosts[i].state == POD_HOST_READY;
    if (pod_draining(pod))
        (void)pod_err_set(&err, POD_REASON_DRAINING,
                          "podd is draining and takes no new operations");
    else if (ready == 0)
        (void)pod_err_set(&err, POD_REASON_HOST_NOT_READY,
                          "none of the %zu hosts is READY", view.host_count);
    if (err.code != POD_OK)
        api_problem(req, &err);
    else
        pod_reply_ready(req, &view, api_pod_state(&view, false));
    pod_topology_view_fini(&view);
}
