// SPDX-License-Identifier: Apache-2.0
// The routing table: every path of the API, in the order of its contract.
#include "api/routes.h"

#include "api/auth.h"
#include "api/feed.h"
#include "api/handlers.h"
#include "api/watch.h"

enum {
    ROUTES_GRAPH_BYTES = 8 * 1024 * 1024,
    ROUTES_HISTORY_COUNT = 100000,
    ROUTES_HISTORY_AGE_S = 24 * 3600,
};

// The columns that many routes share: a body, a scope.
#define READ  API_BODY_NONE, API_SCOPE_READ
#define WRITE API_BODY_NONE, API_SCOPE_WRITE
#define JSON  API_BODY_JSON, API_SCOPE_WRITE
#define TEXT  API_BODY_TEXT, API_SCOPE_WRITE
#define VERB  API_BODY_OPTIONAL_JSON, API_SCOPE_WRITE
#define ADMIN API_BODY_OPTIONAL_JSON, API_SCOPE_ADMIN
#define DATA  API_BODY_DATA, API_SCOPE_WRITE
#define OPEN  API_BODY_NONE, API_SCOPE_NONE

// Columns: method, pattern, handler, body, scope, on_headers, limits of JSON.
static const struct api_route routes_table[] = {
    {API_GET, "/", api_root_get, READ, NULL, 0, 0},
    {API_GET, "/healthz", api_healthz_get, OPEN, NULL, 0, 0},
    {API_GET, "/readyz", api_readyz_get, OPEN, NULL, 0, 0},
    {API_GET, "/metrics", api_metrics_get, READ, NULL, 0, 0},
    {API_GET, "/openapi.json", api_contract_get, READ, NULL, 0, 0},
    {API_GET, "/ui", api_ui_redirect, OPEN, NULL, 0, 0},
    {API_GET, "/ui/", api_ui_get, OPEN, NULL, 0, 0}, // asks for a token
    {API_GET, "/ui/sign-in.js", api_ui_sign_in_script, OPEN, NULL, 0, 0},
    {API_GET, "/ui/events/{op}", api_ui_event_get, READ, NULL, 0, 0},

    {API_POST, "/ui/session", api_session_post, API_BODY_JSON, API_SCOPE_NONE,
     NULL, 0, 0},
    {API_DELETE, "/ui/session", api_session_delete, OPEN, NULL, 0, 0},

    {API_GET, "/v1", api_service_get, READ, NULL, 0, 0},
    {API_GET, "/v1/pod", api_pod_get, READ, NULL, 0, 0},
    {API_POST, "/v1/pod:reset", api_pod_reset, ADMIN, NULL, 0, 0},

    {API_GET, "/v1/hosts", api_hosts_get, READ, NULL, 0, 0},
    {API_POST, "/v1/hosts", api_hosts_post, ADMIN, NULL, 0, 0},
    {API_GET, "/v1/hosts/{n}", api_host_get, READ, NULL, 0, 0},
    {API_DELETE, "/v1/hosts/{n}", api_host_delete, API_BODY_NONE,
     API_SCOPE_ADMIN, NULL, 0, 0},
    {API_POST, "/v1/hosts/{n}:cordon", api_host_cordon, ADMIN, NULL, 0, 0},
    {API_POST, "/v1/hosts/{n}:uncordon", api_host_uncordon, ADMIN, NULL, 0, 0},
    {API_POST, "/v1/hosts/{n}:drain", api_host_drain, ADMIN, NULL, 0, 0},
    {API_POST, "/v1/hosts/{n}:reconnect", api_host_reconnect, ADMIN, NULL, 0,
     0},

    {API_GET, "/v1/cores", api_cores_get, READ, NULL, 0, 0},
    {API_GET, "/v1/cores/{n}", api_core_get, READ, NULL, 0, 0},

    {API_GET, "/v1/buffers", api_buffers_get, READ, NULL, 0, 0},
    {API_POST, "/v1/buffers", api_buffers_post, JSON, api_buffers_post_headers,
     0, 0},
    {API_GET, "/v1/buffers/{id}", api_buffer_get, READ, NULL, 0, 0},
    {API_DELETE, "/v1/buffers/{id}", api_buffer_delete, WRITE, NULL, 0, 0},
    {API_GET, "/v1/buffers/{id}/data", api_data_get, READ, NULL, 0, 0},
    {API_PUT, "/v1/buffers/{id}/data", api_data_put, DATA, api_data_put_headers,
     0, 0},
    {API_POST, "/v1/buffers/{id}:copy", api_buffer_copy, JSON, NULL, 0, 0},

    {API_GET, "/v1/programs", api_programs_get, READ, NULL, 0, 0},
    {API_POST, "/v1/programs", api_programs_post, DATA,
     api_programs_post_headers, 0, 0},
    {API_GET, "/v1/programs/{id}", api_program_get, READ, NULL, 0, 0},
    {API_DELETE, "/v1/programs/{id}", api_program_delete, WRITE, NULL, 0, 0},
    {API_GET, "/v1/programs/{id}/shape", api_program_shape_get, READ, NULL, 0,
     0},

    {API_GET, "/v1/loads", api_loads_get, READ, NULL, 0, 0},
    {API_POST, "/v1/loads", api_loads_post, JSON, NULL, 0, 0},
    {API_GET, "/v1/loads/{id}", api_load_get, READ, NULL, 0, 0},
    {API_DELETE, "/v1/loads/{id}", api_load_delete, WRITE, NULL, 0, 0},

    {API_POST, "/v1/executions", api_executions_post, JSON, NULL, 0, 0},

    {API_GET, "/v1/graphs", api_graphs_get, READ, NULL, 0, 0},
    {API_POST, "/v1/graphs", api_graphs_post, TEXT, api_graphs_post_headers,
     ROUTES_GRAPH_BYTES, 0},
    {API_GET, "/v1/graphs/{id}", api_graph_get, READ, NULL, 0, 0},
    {API_POST, "/v1/graphs/{id}:cancel", api_graph_cancel, VERB, NULL, 0, 0},

    {API_GET, "/v1/events", api_events_get, READ, NULL, 0, 0},
    {API_GET, "/v1/events:summary", api_events_summary_get, READ, NULL, 0, 0},
    {API_POST, "/v1/events:wait", api_events_wait, API_BODY_JSON,
     API_SCOPE_READ, NULL, 0, 0},
    {API_GET, "/v1/events/{op}", api_event_get, READ, NULL, 0, 0},
    {API_POST, "/v1/events/{op}:cancel", api_event_cancel, VERB, NULL, 0, 0},
    {API_GET, "/v1/events/{op}/data", api_event_data_get, READ, NULL, 0, 0},
    {API_DELETE, "/v1/events/{op}/data", api_event_data_delete, WRITE, NULL, 0,
     0},
    {API_GET, "/v1/events/{op}/dependencies", api_event_dependencies_get, READ,
     NULL, 0, 0},

    {API_GET, "/v1/watch", api_feed_get, READ, NULL, 0, 0},
    {API_GET, "/v1/trace", api_trace_get, READ, NULL, 0, 0},
};

#undef READ
#undef WRITE
#undef JSON
#undef TEXT
#undef VERB
#undef ADMIN
#undef DATA
#undef OPEN

static bool routes_staging_take(void *pod, size_t bytes)
{
    return pod_staging_take(pod, bytes);
}

static void routes_staging_give(void *pod, size_t bytes)
{
    pod_staging_give(pod, bytes);
}

static void routes_staging_usage(void *pod, uint64_t *out_used,
                                 uint64_t *out_max)
{
    pod_staging_usage(pod, out_used, out_max);
}

// Something happened in the pod.
static void routes_notify(struct api_server *server, void *arg)
{
    struct api_app *app = arg;

    api_watch_collect(server, app->pod);
    api_feed_turn(app->feed);
}

// The requests of a turn have been handled: what they submitted is sent.
static void routes_turn(struct api_server *server, void *arg)
{
    struct api_app *app = arg;

    (void)server;
    pod_send(app->pod);
}

void api_app_init(struct api_app *app, struct pod *pod)
{
    *app = (struct api_app){
        .pod = pod,
        .history_count = ROUTES_HISTORY_COUNT,
        .history_age_ns = ROUTES_HISTORY_AGE_S * POD_NS_PER_S,
    };
}

void api_app_setup(struct api_app *app, struct api_server_options *options)
{
    options->routes = routes_table;
    options->route_count = sizeof(routes_table) / sizeof(routes_table[0]);
    options->staging = (struct api_budget){
        .take = routes_staging_take,
        .give = routes_staging_give,
        .usage = routes_staging_usage,
        .arg = app->pod,
    };
    options->app = app;
    options->on_notify = routes_notify;
    options->on_notify_arg = app;
    options->on_turn = routes_turn;
}
