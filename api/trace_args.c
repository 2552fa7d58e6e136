// SPDX-License-Identifier: Apache-2.0
#include "api/trace_args.h"

#include <stdio.h>

#include "api/build.h"
#include "api/ids.h"

enum { ARGS_BUFFERS = 16 }; // inputs that are shown, and outputs

// What the execution ran on the span's core; 0 if that is not known.
static uint64_t args_load(const struct pod_event_view *view,
                          const struct trace_span *span)
{
    for (size_t i = 0; i < view->launch_count; i++)
        if (view->launches[i].core == span->core)
            return view->launches[i].load;
    return view->load;
}

json_t *trace_args_name(const struct pod_event_view *view,
                        const struct trace_span *span)
{
    const char *kind = pod_kind_name((enum pod_kind)span->kind);
    char text[API_ID_BYTES + 32];
    char id[API_ID_BYTES];

    if (view->name != NULL)
        return json_string(view->name);
    uint64_t load = span->kind == POD_KIND_EXECUTE ? args_load(view, span) : 0;
    if (load == 0)
        return json_string(kind);
    (void)snprintf(text, sizeof(text), "%s %s", kind,
                   api_id_print(POD_REF_LOAD, load, id));
    return json_string(text);
}

static void args_set_ids(struct api_build *args, const char *key,
                         const uint64_t *numbers, size_t count)
{
    if (count > 0)
        api_set_ids(args, key, POD_REF_BUFFER, numbers,
                    count < ARGS_BUFFERS ? count : ARGS_BUFFERS);
}

static void args_set_outputs(struct api_build *args,
                             const struct pod_event_view *view,
                             const struct trace_span *span)
{
    if (view->launch_count == 0)
        args_set_ids(args, "outputs", view->outputs, view->output_count);
    for (size_t i = 0; i < view->launch_count; i++)
        if (view->launches[i].core == span->core)
            args_set_ids(args, "outputs", view->launches[i].outputs,
                         view->launches[i].output_count);
}

static void args_set_id(struct api_build *args, const char *key,
                        enum pod_ref_kind kind, uint64_t number)
{
    if (number != 0)
        api_set_id(args, key, kind, number);
}

static json_t *args_error(const struct pod_event_view *view)
{
    struct api_build error = api_build_object();

    api_set_word(&error, "code", pod_code_name(view->error.code));
    api_set_text(&error, "reason", view->error.reason);
    api_set_text(&error, "detail", view->error.detail);
    args_set_id(&error, "root_cause", POD_REF_OP, view->root);
    return api_build_take(&error);
}

static void args_set_handles(struct api_build *args,
                             const struct pod_event_view *view,
                             const struct trace_span *span)
{
    args_set_id(args, "graph", POD_REF_GRAPH, view->graph);
    args_set_id(args, "load", POD_REF_LOAD, args_load(view, span));
    args_set_id(args, "program", POD_REF_PROGRAM, view->program);
    args_set_id(args, "buffer", POD_REF_BUFFER, view->buffer);
    args_set_ids(args, "inputs", view->inputs, view->input_count);
    args_set_outputs(args, view, span);
}

static void args_set_word(struct api_build *args, const char *key,
                          const char *word)
{
    if (word != NULL && word[0] != '\0')
        api_set_word(args, key, word);
}

json_t *trace_args(const struct pod_event_view *view,
                   const struct trace_span *span)
{
    struct api_build args = api_build_object();
    enum pod_sched_state state = (enum pod_sched_state)span->state;

    api_set_id(&args, "operation", POD_REF_OP, span->number);
    api_set_word(&args, "state", pod_sched_state_name(state));
    if (view->number == 0)
        return api_build_take(&args);
    args_set_handles(&args, view, span);
    if (view->bytes > 0) // a number, which viewers can add up
        api_set(&args, "bytes", json_integer((json_int_t)view->bytes));
    if (view->priority != 0)
        api_set_number(&args, "priority", view->priority);
    int64_t ready = view->ready_ns >= 0 ? view->ready_ns : view->running_ns;
    api_set_duration(&args, "waiting", ready);
    api_set_duration(&args, "ready", view->running_ns - ready);
    if (view->has_error)
        api_set(&args, "error", args_error(view));
    args_set_word(&args, "request_id", view->request_id);
    args_set_word(&args, "trace_id", view->trace_id);
    return api_build_take(&args);
}
