// SPDX-License-Identifier: Apache-2.0
// Graphs as they are shown.
#include "core/pod/view.h"

#include "core/base/mem.h"
#include "core/pod/graph.h"

enum { GRAPH_HOLD = 4096 }; // edges looked at while the lock is held

static void graph_lay_failure(const struct pod_graph *graph,
                              struct pod_carver *carver,
                              struct pod_graph_view *view)
{
    const struct pod_failure *failure = graph->failure;

    if (graph->failed == 0)
        return;
    view->failed = graph->failed;
    view->failed_kind = graph->failed_kind;
    view->failed_state = graph->failed_state;
    view->failed_root = failure->root != 0 ? failure->root : graph->failed;
    view->failed_error = pod_carve_error(carver, failure);
}

static bool graph_match(const struct pod_op *op,
                        const struct pod_event_filter *filter)
{
    (void)filter;
    return op->kind == POD_KIND_GRAPH;
}

static enum pod_code graph_lay(struct pod *pod, struct pod_op *op,
                               const struct pod_event_filter *filter,
                               struct pod_carver *carver, void *out_view,
                               struct pod_err *err)
{
    struct pod_graph_view *view = out_view;

    (void)pod;
    if (!graph_match(op, filter))
        return pod_err_set(err, POD_REASON_NOT_FOUND, "op-%llu is not a graph",
                           (unsigned long long)op->number);
    *view = (struct pod_graph_view){
        .number = op->number,
        .state = op->state,
        .revision = op->revision,
        .name = pod_carve_text(carver, op->name),
        .labels = pod_carve_labels(carver, op),
        .label_count = op->label_count,
        .created_wall_ns = op->created_wall_ns,
        .finished_ns = op->finished_ns,
        .cancel_on_error = op->members->cancel_on_error,
        .memory = carver->base,
    };
    for (size_t i = 0; i <= POD_SCHED_LOST; i++)
        view->counts[i] = op->members->counts[i];
    graph_lay_failure(op->members, carver, view);
    return POD_OK;
}

static void graph_fini(void *view)
{
    pod_graph_view_fini(view);
}

static const struct pod_view_kind graph_view = {
    .lay_locked = graph_lay,
    .match_locked = graph_match,
    .word = "graph",
    .bytes = sizeof(struct pod_graph_view),
    .fini = graph_fini,
};

void pod_graph_view_fini(struct pod_graph_view *view)
{
    if (view == NULL)
        return;
    pod_free(view->critical_path);
    pod_free(view->memory);
    view->critical_path = NULL;
    view->memory = NULL;
}

enum pod_code pod_list_graphs(struct pod *pod, uint64_t below, size_t capacity,
                              struct pod_graph_view *out_views,
                              size_t *out_count, uint64_t *out_next,
                              struct pod_err *err)
{
    return pod_list_views(pod, &graph_view, below, capacity, out_views,
                          out_count, out_next, err);
}

// --------------------------------------------------------------- critical path

static int64_t graph_ended_ns(const struct pod_op *op)
{
    return pod_time_add(op->created_ns, op->finished_ns);
}

// The dependency of a member that ended last, of the same graph; NULL: none.
static const struct pod_op *graph_before(const struct pod *pod,
                                         const struct pod_op *op)
{
    const struct pod_op *last = NULL;

    for (uint32_t i = 0; i < op->dep_count; i++) {
        const struct pod_op *dep = pod_table_get(&pod->table, op->deps[i]);
        if (dep == NULL || dep->graph != op->graph || !pod_op_ended(dep))
            continue;
        if (last == NULL || graph_ended_ns(dep) > graph_ended_ns(last))
            last = dep;
    }
    return last;
}

// The first member of the walk.
static uint64_t graph_last_ended_locked(const struct pod *pod, uint64_t number)
{
    const struct pod_op *op = pod_table_get(&pod->table, number);

    return op == NULL || op->members == NULL ? 0 : op->members->last_ended;
}

// Walks on from `at` for a while; 0: at the end.
static uint64_t graph_walk_locked(const struct pod *pod, uint64_t at,
                                  struct pod_graph_view *view)
{
    const struct pod_op *op = pod_table_get(&pod->table, at);

    for (size_t edges = 0; op != NULL; op = graph_before(pod, op)) {
        if (edges >= GRAPH_HOLD)
            return op->number;
        edges += op->dep_count + 1;
        if (view->critical_path_count < POD_CRITICAL_PATH_MAX)
            view->critical_path[view->critical_path_count++] = op->number;
        else
            view->critical_path_omitted++;
    }
    return 0;
}

// Numbers stay what they are, so the walk may let the lock go in between.
static void graph_walk(struct pod *pod, struct pod_graph_view *view)
{
    uint64_t at;

    pod_mutex_lock(&pod->lock);
    at = graph_last_ended_locked(pod, view->number);
    pod_mutex_unlock(&pod->lock);
    while (at != 0) {
        pod_mutex_lock(&pod->lock);
        at = graph_walk_locked(pod, at, view);
        pod_mutex_unlock(&pod->lock);
    }
    // It was walked from its end.
    for (size_t i = 0; i < view->critical_path_count / 2; i++) {
        size_t other = view->critical_path_count - 1 - i;
        uint64_t number = view->critical_path[i];
        view->critical_path[i] = view->critical_path[other];
        view->critical_path[other] = number;
    }
}

enum pod_code pod_get_graph(struct pod *pod, uint64_t number,
                            struct pod_graph_view *out_view,
                            struct pod_err *err)
{
    struct pod_graph_view view;
    enum pod_code code =
        pod_view_build(pod, &graph_view, number, NULL, &view, err);

    if (code != POD_OK)
        return code;
    view.critical_path = pod_calloc(POD_CRITICAL_PATH_MAX, sizeof(uint64_t));
    if (view.critical_path == NULL) {
        pod_graph_view_fini(&view);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the path of a graph");
    }
    graph_walk(pod, &view);
    *out_view = view;
    return POD_OK;
}
