// SPDX-License-Identifier: Apache-2.0
// /v1: the service document: version, limits, and where to find what.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/build.h"
#include "api/common.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/query.h"
#include "api/routes.h"
#include "api/values.h"
#include "api/view_json.h"

// In the largest unit that it is a whole number of.
static void service_print_age(int64_t seconds, char *out, size_t size)
{
    if (seconds > 0 && seconds % 3600 == 0)
        (void)snprintf(out, size, "%" PRId64 "h", seconds / 3600);
    else if (seconds > 0 && seconds % 60 == 0)
        (void)snprintf(out, size, "%" PRId64 "m", seconds / 60);
    else
        (void)snprintf(out, size, "%" PRId64 "s", seconds);
}

static json_t *service_limits(const struct api_request *req)
{
    const struct api_app *app = api_app(req);
    uint64_t used = 0;
    uint64_t staging = 0;
    char text[32];
    pod_staging_usage(app->pod, &used, &staging);
    struct api_build limits = api_build_object();
    struct api_build history = api_build_object();
    struct api_build json = api_build_object();
    api_set_u64(&history, "count", app->history_count);
    service_print_age(app->history_age_ns / POD_NS_PER_S, text, sizeof(text));
    api_set_word(&history, "age", text);
    api_set(&limits, "history", api_build_take(&history));
    api_set_word(&limits, "wait", "55s");
    api_set_word(&limits, "kept_data_age", "10m");
    api_set_u64(&limits, "staging_bytes", staging);
    api_set_number(&limits, "page_size", API_PAGE_MAX);
    api_set_number(&limits, "labels", API_LABELS_MAX);
    api_set_number(&limits, "values", API_VALUES_MAX);
    api_set_u64(&json, "bytes", 1024 * 1024);
    api_set_number(&json, "depth", 32);
    api_set_number(&json, "values", 200000);
    api_set(&limits, "json", api_build_take(&json));
    return api_build_take(&limits);
}

// Whether a host before this one has the same device.
static bool service_is_repeated(const struct pod_topology_view *view,
                                size_t index)
{
    const struct pod_host_view *host = &view->hosts[index];
    for (size_t i = 0; i < index; i++) {
        const struct pod_host_view *other = &view->hosts[i];
        if (other->platform != NULL && other->version != NULL &&
            host->version != NULL &&
            strcmp(other->platform, host->platform) == 0 &&
            strcmp(other->version, host->version) == 0)
            return true;
    }
    return false;
}

static json_t *service_devices(const struct pod_topology_view *view)
{
    struct api_build devices = api_build_array();
    for (size_t i = 0; i < view->host_count; i++) {
        const struct pod_host_view *host = &view->hosts[i];
        if (host->platform == NULL || service_is_repeated(view, i))
            continue;
        struct api_build device = api_build_object();
        api_set_text(&device, "platform", host->platform);
        api_set_text(&device, "version",
                     host->version != NULL ? host->version : "");
        api_set(&device, "accepts", api_formats_json(host->accepts));
        api_append(&devices, api_build_take(&device));
    }
    return api_build_take(&devices);
}

static json_t *service_links(void)
{
    static const char *const links[][2] = {
        {"self", "/v1"},
        {"pod", "/v1/pod"},
        {"hosts", "/v1/hosts"},
        {"cores", "/v1/cores"},
        {"buffers", "/v1/buffers"},
        {"programs", "/v1/programs"},
        {"loads", "/v1/loads"},
        {"executions", "/v1/executions"},
        {"graphs", "/v1/graphs"},
        {"events", "/v1/events"},
        {"summary", "/v1/events:summary"},
        {"wait", "/v1/events:wait"},
        {"watch", "/v1/watch"},
        {"trace", "/v1/trace"},
        {"health", "/healthz"},
        {"ready", "/readyz"},
        {"metrics", "/metrics"},
        {"openapi", "/openapi.json"},
        {"ui", "/ui/"},
    };
    struct api_build object = api_build_object();
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        api_set_word(&object, links[i][0], links[i][1]);
    return api_build_take(&object);
}

void api_service_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    struct pod *pod = api_pod(req);
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK)
        code = pod_get_topology(pod, &view, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    struct api_build answer = api_build_object();
    api_set_word(&answer, "version", POD_VERSION);
    api_set_word(&answer, "api", "v1");
    api_set_word(&answer, "instance", pod_instance(pod));
    api_set_u64(&answer, "revision", pod_revision(pod));
    api_set_word(&answer, "state", api_pod_state(&view, pod_draining(pod)));
    api_set(&answer, "limits", service_limits(req));
    api_set(&answer, "devices", service_devices(&view));
    api_set(&answer, "links", service_links());
    api_reply_json(req, 200, api_build_take(&answer));
    pod_topology_view_fini(&view);
}
