// SPDX-License-Identifier: Apache-2.0
// Events, and what counts them, as JSON.
#include <stdio.h>

#include "api/build.h"
#include "api/digits.h"
#include "api/ids.h"
#include "api/view_json.h"

const char *const api_event_fields[] = {
    "id",
    "kind",
    "state",
    "done",
    "revision",
    "graph",
    "buffer",
    "program",
    "load",
    "target",
    "inputs",
    "outputs",
    "launches",
    "loads",
    "hosts",
    "waits_for",
    "name",
    "labels",
    "priority",
    "waits_for_count",
    "created",
    "links",
    "ready",
    "running",
    "pending_reason",
    "finished",
    "error",
    "durations",
    "deadline",
    "result",
    "cancel",
    "bytes",
    "queue_position",
    "queue_position_capped",
    "stalled",
    "request_id",
    "trace_id",
    "span_id",
    NULL,
};

static const char *event_cancel_name(enum pod_cancel_outcome outcome)
{
    switch (outcome) {
    case POD_CANCEL_NONE:
        break;
    case POD_CANCEL_PENDING:
        return "PENDING";
    case POD_CANCEL_INTERRUPTED:
        return "INTERRUPTED";
    case POD_CANCEL_COMPLETED_ANYWAY:
        return "COMPLETED_ANYWAY";
    case POD_CANCEL_NOT_INTERRUPTIBLE:
        return "NOT_INTERRUPTIBLE";
    case POD_CANCEL_UNKNOWN:
        return "UNKNOWN";
    }
    return "NONE";
}

static bool event_is_done(const struct pod_event_view *view)
{
    return view->state > POD_SCHED_RUNNING;
}

// A number of a host or a core, null if there is none (or several).
static void event_set_index(struct api_build *build, const char *key,
                            uint32_t index)
{
    api_set(build, key, index != POD_NO_ID ? json_integer(index) : json_null());
}

static json_t *event_target(const struct pod_event_view *view)
{
    if (view->host == POD_NO_ID && view->core == POD_NO_ID)
        return json_null();
    struct api_build target = api_build_object();
    event_set_index(&target, "host", view->host);
    event_set_index(&target, "core", view->core);
    return api_build_take(&target);
}

static json_t *event_labels(const struct pod_event_view *view)
{
    struct api_build labels = api_build_object();
    for (size_t i = 0; i < view->label_count; i++)
        api_set_text(&labels, view->labels[i].key, view->labels[i].value);
    return api_build_take(&labels);
}

// A path with the event's id in its middle.
static void event_set_link(struct api_build *links, const char *key,
                           const char *before, const char *id,
                           const char *after)
{
    char path[API_ID_BYTES + 32];
    char *at = api_put_text(path, before);
    at = api_put_text(at, id);
    *api_put_text(at, after) = '\0';
    api_set_word(links, key, path);
}

static json_t *event_links(const struct pod_event_view *view)
{
    char id[API_ID_BYTES];
    struct api_build links = api_build_object();
    api_id_print(POD_REF_OP, view->number, id);
    event_set_link(&links, "self", "/v1/events/", id, "");
    event_set_link(&links, "ui", "/ui/events/", id, "");
    if (view->has_data)
        event_set_link(&links, "data", "/v1/events/", id, "/data");
    return api_build_take(&links);
}

static json_t *event_launches(const struct pod_event_view *view)
{
    struct api_build list = api_build_array();
    for (size_t i = 0; i < view->launch_count; i++) {
        const struct pod_event_launch *launch = &view->launches[i];
        struct api_build item = api_build_object();
        api_set_id(&item, "load", POD_REF_LOAD, launch->load);
        api_set_number(&item, "core", launch->core);
        api_set_ids(&item, "outputs", POD_REF_BUFFER, launch->outputs,
                    launch->output_count);
        api_append(&list, api_build_take(&item));
    }
    return api_build_take(&list);
}

// The handles that an operation made or works on.
static void event_set_handles(struct api_build *build,
                              const struct pod_event_view *view)
{
    if (view->kind == POD_KIND_GRAPH)
        api_set_id(build, "graph", POD_REF_GRAPH, view->number);
    if (view->graph != 0)
        api_set_id(build, "graph", POD_REF_GRAPH, view->graph);
    if (view->buffer != 0)
        api_set_id(build, "buffer", POD_REF_BUFFER, view->buffer);
    if (view->program != 0)
        api_set_id(build, "program", POD_REF_PROGRAM, view->program);
    if (view->load != 0)
        api_set_id(build, "load", POD_REF_LOAD, view->load);
    if (view->input_count > 0)
        api_set_ids(build, "inputs", POD_REF_BUFFER, view->inputs,
                    view->input_count);
    if (view->kind == POD_KIND_EXECUTE && view->launch_count == 0)
        api_set_ids(build, "outputs", POD_REF_BUFFER, view->outputs,
                    view->output_count);
    if (view->launch_count > 0)
        api_set(build, "launches", event_launches(view));
    if (view->load_count > 0)
        api_set_ids(build, "loads", POD_REF_LOAD, view->loads,
                    view->load_count);
    if (view->host_count > 0)
        api_set(build, "hosts",
                api_event_hosts_json(view->hosts, view->host_count));
}

static void event_set_waiting(struct api_build *build,
                              const struct pod_event_view *view)
{
    api_set_ids(build, "waits_for", POD_REF_OP, view->waits_for,
                view->waits_for_shown);
    api_set_number(build, "waits_for_count", view->waits_for_count);
    if (view->pending != POD_PENDING_NONE)
        api_set_word(build, "pending_reason", pod_pending_name(view->pending));
    event_set_index(build, "queue_position", view->queue_position);
    if (view->queue_capped)
        api_set_bool(build, "queue_position_capped", true);
}

static json_t *event_awaited(const struct pod_event_awaited *awaited)
{
    struct api_build item = api_build_object();
    struct api_build cores = api_build_array();
    api_set_number(&item, "host", awaited->host);
    for (size_t i = 0; i < awaited->core_count; i++)
        api_append(&cores, json_integer(awaited->cores[i]));
    api_set(&item, "cores", api_build_take(&cores));
    api_set_word(&item, "state", pod_awaited_state_name(awaited->state));
    return api_build_take(&item);
}

static json_t *event_stalled(const struct pod_event_view *view)
{
    struct api_build stalled = api_build_object();
    struct api_build hosts = api_build_array();
    api_set_time(&stalled, "since", view->created_wall_ns + view->stalled_ns);
    for (size_t i = 0; i < view->awaited_count; i++)
        api_append(&hosts, event_awaited(&view->awaited[i]));
    api_set(&stalled, "waiting_for", api_build_take(&hosts));
    return api_build_take(&stalled);
}

// ---------------------------------------------------------------- the ends

static void event_set_error(struct api_build *build,
                            const struct pod_event_error *error)
{
    api_set_word(build, "code", pod_code_name(error->code));
    api_set_text(build, "reason", error->reason);
    api_set_text(build, "detail", error->detail);
    if (error->from_worker)
        api_set_word(build, "source", "worker");
    if (error->line == 0 && error->column == 0)
        return;
    struct api_build place = api_build_object();
    api_set_u64(&place, "line", (uint64_t)error->line);
    api_set_u64(&place, "column", (uint64_t)error->column);
    api_set(build, "metadata", api_build_take(&place));
}

static json_t *event_root(const struct pod_event_view *view)
{
    struct api_build root = api_build_object();
    api_set_id(&root, "operation", POD_REF_OP, view->root);
    api_set_word(&root, "kind", pod_kind_name(view->root_kind));
    event_set_index(&root, "host", view->root_host);
    event_set_index(&root, "core", view->root_core);
    event_set_error(&root, &view->root_error);
    api_set_time(&root, "at", view->root_at_wall_ns);
    return api_build_take(&root);
}

static json_t *event_causes(const struct pod_event_view *view)
{
    struct api_build list = api_build_array();
    for (size_t i = 0; i < view->cause_count; i++) {
        const struct pod_event_cause *cause = &view->causes[i];
        struct api_build item = api_build_object();
        api_set_id(&item, "operation", POD_REF_OP, cause->number);
        api_set_word(&item, "kind", pod_kind_name(cause->kind));
        api_set_word(&item, "state", pod_sched_state_name(cause->state));
        api_set_word(&item, "code", pod_code_name(cause->code));
        api_append(&list, api_build_take(&item));
    }
    return api_build_take(&list);
}

static json_t *event_error(const struct pod_event_view *view)
{
    struct api_build error = api_build_object();
    event_set_error(&error, &view->error);
    if (view->root != 0)
        api_set(&error, "root_cause", event_root(view));
    api_set(&error, "causes", event_causes(view));
    api_set_u64(&error, "causes_omitted", view->causes_omitted);
    return api_build_take(&error);
}

// Before it has ended well 0 may mean that they are not known yet.
static bool event_has_bytes(const struct pod_event_view *view)
{
    static const bool kinds[POD_KIND_COUNT] = {
        [POD_KIND_ALLOCATE] = true, [POD_KIND_ALLOCATE_TUPLE] = true,
        [POD_KIND_WRITE] = true,    [POD_KIND_READ] = true,
        [POD_KIND_COPY] = true,
    };
    return view->bytes > 0 ||
           (kinds[view->kind] && view->state == POD_SCHED_SUCCEEDED);
}

static json_t *event_result(const struct pod_event_view *view)
{
    struct api_build result = api_build_object();
    if (event_has_bytes(view))
        api_set_u64(&result, "bytes", view->bytes);
    if (view->kind == POD_KIND_EXECUTE && view->launch_count == 0)
        api_set_ids(&result, "outputs", POD_REF_BUFFER, view->outputs,
                    view->output_count);
    return api_build_take(&result);
}

static json_t *event_durations(const struct pod_event_view *view)
{
    // A state that was skipped over took no time.
    int64_t running =
        view->running_ns >= 0 ? view->running_ns : view->finished_ns;
    int64_t ready = view->ready_ns >= 0 ? view->ready_ns : running;
    struct api_build durations = api_build_object();
    api_set_duration(&durations, "waiting", ready);
    api_set_duration(&durations, "ready", running - ready);
    api_set_duration(&durations, "running", view->finished_ns - running);
    return api_build_take(&durations);
}

static void event_set_end(struct api_build *build,
                          const struct pod_event_view *view)
{
    api_set_time(build, "finished", view->created_wall_ns + view->finished_ns);
    api_set(build, "durations", event_durations(view));
    if (view->has_error)
        api_set(build, "error", event_error(view));
    else
        api_set(build, "result", event_result(view));
}

static json_t *event_cancel(const struct pod_event_view *view)
{
    struct api_build cancel = api_build_object();
    api_set_word(&cancel, "outcome", event_cancel_name(view->cancel));
    api_set_text(&cancel, "reason", view->cancel_reason);
    return api_build_take(&cancel);
}

static void event_set_times(struct api_build *build,
                            const struct pod_event_view *view)
{
    api_set_time(build, "created", view->created_wall_ns);
    if (view->ready_ns >= 0)
        api_set_time(build, "ready", view->created_wall_ns + view->ready_ns);
    if (view->running_ns >= 0)
        api_set_time(build, "running",
                     view->created_wall_ns + view->running_ns);
    if (view->deadline_ns != POD_NEVER)
        api_set_time(build, "deadline",
                     view->created_wall_ns + view->deadline_ns);
}

// What asked for it. Ids of spans are of use only where there is a trace.
static void event_set_origin(struct api_build *build,
                             const struct pod_event_view *view)
{
    char span[POD_SPAN_ID_BYTES];

    if (view->request_id == NULL || view->request_id[0] == '\0')
        return;
    api_set_word(build, "request_id", view->request_id);
    if (view->trace_id[0] == '\0')
        return;
    pod_span_id_print(view->span, span);
    api_set_word(build, "trace_id", view->trace_id);
    api_set_word(build, "span_id", span);
}

json_t *api_event_json(const struct pod_event_view *view)
{
    struct api_build event = api_build_object();
    api_set_id(&event, "id", POD_REF_OP, view->number);
    api_set_word(&event, "kind", pod_kind_name(view->kind));
    api_set_word(&event, "state", pod_sched_state_name(view->state));
    api_set_bool(&event, "done", event_is_done(view));
    api_set_u64(&event, "revision", view->revision);
    event_set_handles(&event, view);
    api_set(&event, "target", event_target(view));
    if (!event_is_done(view))
        event_set_waiting(&event, view);
    if (view->is_stalled)
        api_set(&event, "stalled", event_stalled(view));
    event_set_times(&event, view);
    if (event_has_bytes(view))
        api_set_u64(&event, "bytes", view->bytes);
    if (view->priority != 0)
        api_set_number(&event, "priority", view->priority);
    if (event_is_done(view))
        event_set_end(&event, view);
    if (view->cancel != POD_CANCEL_NONE || view->cancel_reason != NULL)
        api_set(&event, "cancel", event_cancel(view));
    if (view->name != NULL)
        api_set_text(&event, "name", view->name);
    api_set(&event, "labels", event_labels(view));
    event_set_origin(&event, view);
    api_set(&event, "links", event_links(view));
    return api_build_take(&event);
}

// ------------------------------------------------------------------ summary

static json_t *summary_counts(const uint64_t *counts, size_t count,
                              const char *(*name)(size_t index))
{
    struct api_build object = api_build_object();
    for (size_t i = 0; i < count; i++)
        api_set_u64(&object, name(i), counts[i]);
    return api_build_take(&object);
}

static const char *summary_state_name(size_t index)
{
    return pod_sched_state_name((enum pod_sched_state)index);
}

static const char *summary_kind_name(size_t index)
{
    return pod_kind_name((enum pod_kind)index);
}

json_t *api_summary_json(const struct pod_summary *summary)
{
    struct api_build object = api_build_object();
    api_set(&object, "by_state",
            summary_counts(summary->by_state, POD_SCHED_LOST + 1,
                           summary_state_name));
    api_set(
        &object, "by_kind",
        summary_counts(summary->by_kind, POD_KIND_COUNT, summary_kind_name));
    struct api_build hosts = api_build_object();
    for (size_t i = 0; i < summary->host_count; i++) {
        char key[24];
        (void)snprintf(key, sizeof(key), "%u", summary->by_host[i].host);
        api_set_u64(&hosts, key, summary->by_host[i].operations);
    }
    api_set(&object, "by_host", api_build_take(&hosts));
    api_set_u64(&object, "revision", summary->revision);
    return api_build_take(&object);
}
