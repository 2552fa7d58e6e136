// SPDX-License-Identifier: Apache-2.0
// Graphs as JSON.
#include "api/build.h"
#include "api/view_json.h"

const char *const api_graph_fields[] = {
    "id",
    "state",
    "done",
    "counts",
    "revision",
    "on_error",
    "critical_path",
    "critical_path_omitted",
    "first_failure",
    "created",
    "finished",
    "operation",
    "name",
    "labels",
    NULL,
};

static json_t *graph_counts(const struct pod_graph_view *view)
{
    struct api_build counts = api_build_object();
    for (size_t i = 0; i <= POD_SCHED_LOST; i++) {
        if (view->counts[i] > 0)
            api_set_u64(&counts, pod_sched_state_name((enum pod_sched_state)i),
                        view->counts[i]);
    }
    return api_build_take(&counts);
}

static json_t *graph_failure(const struct pod_graph_view *view)
{
    if (view->failed == 0)
        return json_null();
    struct api_build failure = api_build_object();
    api_set_id(&failure, "operation", POD_REF_OP, view->failed);
    api_set_word(&failure, "kind", pod_kind_name(view->failed_kind));
    api_set_word(&failure, "state", pod_sched_state_name(view->failed_state));
    api_set_word(&failure, "code", pod_code_name(view->failed_error.code));
    api_set_word(&failure, "reason", view->failed_error.reason);
    api_set_text(&failure, "detail", view->failed_error.detail);
    api_set_id(&failure, "root_cause", POD_REF_OP, view->failed_root);
    return api_build_take(&failure);
}

static json_t *graph_labels(const struct pod_graph_view *view)
{
    struct api_build labels = api_build_object();
    for (size_t i = 0; i < view->label_count; i++)
        api_set_text(&labels, view->labels[i].key, view->labels[i].value);
    return api_build_take(&labels);
}

json_t *api_graph_json(const struct pod_graph_view *view)
{
    struct api_build graph = api_build_object();
    api_set_id(&graph, "id", POD_REF_GRAPH, view->number);
    api_set_word(&graph, "state", pod_sched_state_name(view->state));
    api_set_bool(&graph, "done", view->state > POD_SCHED_RUNNING);
    api_set_u64(&graph, "revision", view->revision);
    api_set_id(&graph, "operation", POD_REF_OP, view->number);
    api_set_word(&graph, "on_error",
                 view->cancel_on_error ? "CANCEL_GRAPH" : "SKIP_DEPENDENTS");
    api_set(&graph, "counts", graph_counts(view));
    api_set_text(&graph, "name", view->name);
    api_set(&graph, "labels", graph_labels(view));
    api_set_time(&graph, "created", view->created_wall_ns);
    if (view->finished_ns >= 0)
        api_set_time(&graph, "finished",
                     view->created_wall_ns + view->finished_ns);
    if (view->critical_path != NULL) {
        api_set_ids(&graph, "critical_path", POD_REF_OP, view->critical_path,
                    view->critical_path_count);
        api_set_u64(&graph, "critical_path_omitted",
                    view->critical_path_omitted);
    }
    api_set(&graph, "first_failure", graph_failure(view));
    return api_build_take(&graph);
}
