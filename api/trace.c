// SPDX-License-Identifier: Apache-2.0
// /v1/trace: what ran in a window of time, as the JSON that Perfetto and
// Chrome's tracing open (the Trace Event Format's JSON object form, of which
// complete events "X", metadata "M" and flows "s" and "f" are used).
//
// First the history is walked, a part in each turn of the loop, and a small
// record kept of each span; then the spans are written as the client takes
// them. A process is a host, a thread a lane of a core or of a kind of work;
// slices of one thread never overlap. At the end come the flows, arrows from
// what an operation waited for.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/build.h"
#include "api/common.h"
#include "api/handlers.h"
#include "api/live.h"
#include "api/query.h"
#include "api/routes.h"
#include "api/trace_args.h"
#include "api/trace_spans.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/str.h"

enum {
    TRACE_BATCH = 64, // operations looked at in a turn, times:
    TRACE_BATCHES = 4,
    TRACE_SPANS = 256 * 1024, // in one trace
    TRACE_AT_ONCE = 4,        // traces that are being made
    TRACE_FLOWS = 256 * 1024, // in one trace
    TRACE_FLOWS_TO = 16,      // one operation
    TRACE_STEPS = 512,        // spans looked at in a turn
};

#define TRACE_WINDOW_NS     (60 * POD_NS_PER_S)
#define TRACE_WINDOW_MAX_NS (30 * 24 * 3600 * POD_NS_PER_S)

enum trace_stage {
    TRACE_COLLECT,
    TRACE_HEAD,
    TRACE_SLICES,
    TRACE_ARROWS,
    TRACE_OVER,
};

struct trace {
    struct api_app *app;
    enum trace_stage stage;
    struct trace_window window;
    uint64_t below;  // of the walk
    uint32_t *hosts; // by core
    size_t core_count;
    struct trace_spans spans;
    size_t next;         // span to be written
    uint32_t lanes;      // of its track that were named so far
    uint32_t flows;      // written so far
    struct pod_str text; // being written
    size_t written;
};

// -------------------------------------------------------------------- writing

// Microseconds with all their nanoseconds.
static void trace_put_us(struct pod_str *text, const char *key, uint64_t ns)
{
    pod_str_printf(text, ",\"%s\":%llu.%03u", key,
                   (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

// Takes the value over.
static void trace_put_json(struct pod_str *text, json_t *owned_value)
{
    char *dumped =
        owned_value == NULL
            ? NULL
            : json_dumps(owned_value, JSON_ENCODE_ANY | JSON_COMPACT);

    if (dumped != NULL)
        pod_str_puts(text, dumped);
    else
        text->failed = true;
    free(dumped);
    json_decref(owned_value);
}

static void trace_put_name(struct pod_str *text, const char *what,
                           const struct trace_span *span, const char *name)
{
    pod_str_printf(text,
                   "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,"
                   "\"args\":{\"name\":\"%s\"}},\n",
                   what, span->process_id, span->thread_id, name);
}

static void trace_track_name(const struct trace_span *span, char *out,
                             size_t size)
{
    static const char *const names[] = {
        [TRACE_TRACK_GRAPHS] = "graphs",
        [TRACE_TRACK_TRANSFERS] = "transfers",
        [TRACE_TRACK_PROGRAMS] = "programs",
        [TRACE_TRACK_MEMORY] = "memory",
    };
    char lane[24] = "";

    if (span->lane > 0)
        (void)snprintf(lane, sizeof(lane), " (%u)", span->lane + 1);
    if (span->track == TRACE_TRACK_CORE)
        (void)snprintf(out, size, "core %u%s", span->core, lane);
    else
        (void)snprintf(out, size, "%s%s", names[span->track], lane);
}

// Names the process and the threads of the spans, before the first of each.
static void trace_put_names(struct trace *trace, const struct trace_span *span)
{
    bool is_first = span == trace->spans.items;
    char name[64];

    if (is_first || span->process != span[-1].process) {
        if (span->process == 0)
            (void)snprintf(name, sizeof(name), "pod");
        else
            (void)snprintf(name, sizeof(name), "host %u", span->process - 1);
        trace_put_name(&trace->text, "process_name", span, name);
    }
    if (is_first || !trace_span_same_track(span, span - 1))
        trace->lanes = 0;
    if (span->lane < trace->lanes)
        return;
    trace->lanes = span->lane + 1;
    trace_track_name(span, name, sizeof(name));
    trace_put_name(&trace->text, "thread_name", span, name);
}

static void trace_put_slice(struct trace *trace, const struct trace_span *span)
{
    struct pod_str *text = &trace->text;
    struct pod_event_view event = {.number = 0};

    // It may have expired since.
    (void)!pod_get_event(trace->app->pod, span->number, &event, NULL);
    pod_str_puts(text, span != trace->spans.items ? ",\n" : "");
    trace_put_names(trace, span);
    pod_str_puts(text, "{\"ph\":\"X\",\"name\":");
    trace_put_json(text, trace_args_name(&event, span));
    pod_str_printf(text, ",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u",
                   pod_kind_name((enum pod_kind)span->kind), span->process_id,
                   span->thread_id);
    trace_put_us(text, "ts", span->start_ns);
    trace_put_us(text, "dur", span->end_ns - span->start_ns);
    pod_str_puts(text, ",\"args\":");
    trace_put_json(text, trace_args(&event, span));
    pod_str_puts(text, "}");
    pod_event_view_fini(&event);
}

// One end of an arrow. The viewers bind it to the slice of that thread that it
// lies in.
static void trace_put_end(struct trace *trace, const char *phase,
                          const struct trace_span *span, uint64_t at_ns)
{
    pod_str_printf(&trace->text,
                   ",\n{\"ph\":%s,\"id\":%u,\"name\":\"dependency\","
                   "\"cat\":\"dependency\",\"pid\":%u,\"tid\":%u",
                   phase, trace->flows, span->process_id, span->thread_id);
    trace_put_us(&trace->text, "ts", at_ns);
    pod_str_puts(&trace->text, "}");
}

// The arrows to an operation from those it waited for. What has expired since
// has none.
static void trace_put_flows(struct trace *trace, const struct trace_span *span)
{
    struct pod_dependency *items = NULL;
    size_t count = 0;
    bool more = false;
    uint64_t leave_ns = 0;

    // Of a gang to the first of its cores.
    if (trace_spans_find(&trace->spans, span->number) != span ||
        pod_dependencies(trace->app->pod, span->number, false, 1,
                         TRACE_FLOWS_TO, &items, &count, &more, NULL) != POD_OK)
        return;
    for (size_t i = 0; i < count && trace->flows < TRACE_FLOWS; i++) {
        const struct trace_span *from =
            trace_spans_find(&trace->spans, items[i].number);
        if (from == NULL || !trace_span_leave(from, span, &leave_ns))
            continue;
        trace->flows++;
        trace_put_end(trace, "\"s\"", from, leave_ns);
        trace_put_end(trace, "\"f\",\"bp\":\"e\"", span, span->start_ns);
    }
    pod_dependencies_free(items);
}

static void trace_put_head(struct trace *trace)
{
    char since[API_TIME_BYTES];
    char until[API_TIME_BYTES];

    pod_str_printf(&trace->text,
                   "{\"displayTimeUnit\":\"ns\",\"otherData\":{"
                   "\"instance\":\"%s\",\"since\":\"%s\",\"until\":\"%s\","
                   "\"complete\":%s},\"traceEvents\":[\n",
                   pod_instance(trace->app->pod),
                   api_time_print(trace->window.since_ns, since),
                   api_time_print(trace->window.until_ns, until),
                   trace->spans.cut ? "false" : "true");
}

// ----------------------------------------------------------------- collecting

// Walks a part of the history. False: no memory.
static bool trace_collect_batch(struct trace *trace)
{
    struct pod_event_filter filter = {
        .states = 1U << POD_SCHED_RUNNING | 1U << POD_SCHED_SUCCEEDED |
                  1U << POD_SCHED_FAILED | 1U << POD_SCHED_CANCELLED |
                  1U << POD_SCHED_LOST,
        .host = POD_NO_ID,
        .core = POD_NO_ID,
        .since_wall_ns = INT64_MIN,
    };
    struct pod_event_view views[TRACE_BATCH];
    size_t count = 0;
    bool fine =
        pod_list_events(trace->app->pod, &filter, trace->below, TRACE_BATCH,
                        views, &count, &trace->below, NULL) == POD_OK;

    for (size_t i = 0; i < count; i++) {
        fine = fine && trace_spans_add(&trace->spans, &views[i], &trace->window,
                                       trace->hosts, trace->core_count);
        pod_event_view_fini(&views[i]);
    }
    return fine;
}

// A turn's part. False: no memory.
static bool trace_collect(struct trace *trace)
{
    for (int i = 0; i < TRACE_BATCHES && trace->below != 0; i++)
        if (!trace_collect_batch(trace))
            return false;
    if (trace->below != 0 && !trace->spans.cut)
        return true;
    trace->stage = TRACE_HEAD;
    return trace_spans_arrange(&trace->spans);
}

// --------------------------------------------------------------------- filling

// Puts what comes next into trace->text: perhaps nothing.
static void trace_step(struct trace *trace)
{
    trace->text.length = 0;
    trace->written = 0;
    if (trace->stage == TRACE_HEAD) {
        trace_put_head(trace);
        trace->stage = TRACE_SLICES;
    } else if (trace->next < trace->spans.count) {
        const struct trace_span *span = &trace->spans.items[trace->next++];
        if (trace->stage == TRACE_SLICES)
            trace_put_slice(trace, span);
        else
            trace_put_flows(trace, span);
    } else if (trace->stage == TRACE_SLICES) {
        trace->stage = TRACE_ARROWS;
        trace->next = 0;
    } else {
        pod_str_puts(&trace->text, "\n]}\n");
        trace->stage = TRACE_OVER;
    }
}

static ptrdiff_t trace_fill(struct api_request *req, char *out, size_t max)
{
    struct trace *trace = api_state(req);
    size_t used = 0;
    int steps = 0;

    if (trace->stage == TRACE_COLLECT) {
        if (!trace_collect(trace))
            return API_LIVE_CUT;
        api_live_until(req, 0);
        return 0;
    }
    while (used < max) {
        if (trace->written == trace->text.length) {
            if (trace->stage == TRACE_OVER || steps++ == TRACE_STEPS)
                break;
            trace_step(trace);
        }
        if (trace->text.failed)
            return API_LIVE_CUT;
        size_t left = trace->text.length - trace->written;
        size_t size = left < max - used ? left : max - used;
        memcpy(out + used, trace->text.data + trace->written, size);
        trace->written += size;
        used += size;
    }
    if (used > 0)
        return (ptrdiff_t)used;
    if (trace->stage == TRACE_OVER)
        return API_LIVE_END;
    api_live_until(req, 0);
    return 0;
}

// ---------------------------------------------------------------- the handler

static enum pod_code trace_read_time(struct api_request *req, const char *name,
                                     int64_t *in_out_ns, bool *out_given,
                                     struct pod_err *err)
{
    const char *text = NULL;
    enum pod_code code = api_query_text(req, name, &text, err);

    *out_given = text != NULL;
    if (code != POD_OK || text == NULL || api_time_parse(text, in_out_ns))
        return code;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "%s: not an RFC 3339 time", name);
}

static enum pod_code trace_read(struct api_request *req,
                                struct trace_window *window,
                                struct pod_err *err)
{
    int64_t length = TRACE_WINDOW_NS;
    const char *asked = NULL;
    bool since = false;
    bool until = false;

    window->until_ns = pod_clock_wall(&pod_clock_system);
    enum pod_code code =
        trace_read_time(req, "until", &window->until_ns, &until, err);
    if (code == POD_OK)
        code = trace_read_time(req, "since", &window->since_ns, &since, err);
    if (code == POD_OK)
        code = api_query_text(req, "window", &asked, err);
    if (code == POD_OK)
        code = api_query_duration(req, "window", TRACE_WINDOW_MAX_NS, &length,
                                  err);
    if (code == POD_OK)
        code = api_query_end(req, err);
    if (code != POD_OK)
        return code;
    if (since && asked != NULL)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "window: cannot be combined with since");
    if (!since)
        window->since_ns = window->until_ns - length;
    // In microseconds as they are written, so that what counts from them is
    // exact.
    window->since_ns -= window->since_ns % 1000;
    window->until_ns -= window->until_ns % 1000;
    if (window->since_ns <= window->until_ns)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "since: it is later than until");
}

static void trace_end(void *arg)
{
    struct trace *trace = arg;

    trace->app->traces--;
    trace_spans_fini(&trace->spans);
    pod_str_fini(&trace->text);
    pod_free(trace->hosts);
}

static enum pod_code trace_read_cores(struct trace *trace, struct pod_err *err)
{
    struct pod_topology_view view;
    enum pod_code code = pod_get_topology(trace->app->pod, &view, err);

    if (code != POD_OK)
        return code;
    trace->hosts = pod_calloc(view.core_ids, sizeof(*trace->hosts));
    if (trace->hosts == NULL)
        code = api_err_memory(err);
    for (size_t i = 0; code == POD_OK && i < view.core_ids; i++)
        trace->hosts[i] = POD_NO_ID; // of a host that was removed
    for (size_t i = 0; code == POD_OK && i < view.core_count; i++)
        trace->hosts[view.cores[i].id] = view.cores[i].host;
    trace->core_count = view.core_ids;
    pod_topology_view_fini(&view);
    return code;
}

static enum pod_code trace_start(struct api_request *req, struct trace *trace,
                                 struct pod_err *err)
{
    *trace = (struct trace){.app = api_app(req),
                            .below = UINT64_MAX,
                            .spans = {.limit = TRACE_SPANS}};
    enum pod_code code = trace_read(req, &trace->window, err);

    if (code != POD_OK)
        return code;
    if (trace->app->traces >= TRACE_AT_ONCE)
        return pod_err_limit(err, POD_REASON_TOO_MANY_REQUESTS, "traces",
                             trace->app->traces, TRACE_AT_ONCE);
    trace->app->traces++;
    if (!api_defer(req, trace_end, trace))
        return api_err_memory(err);
    api_set_state(req, trace);
    code = trace_read_cores(trace, err);
    return code == POD_OK ? api_live_admit(req, err) : code;
}

void api_trace_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct trace *trace = api_alloc(req, sizeof(*trace));
    enum pod_code code =
        trace != NULL ? trace_start(req, trace, &err) : api_err_memory(&err);

    if (code == POD_OK)
        api_reply_live(req, 200, "application/json", trace_fill);
    else
        api_problem(req, &err);
}
