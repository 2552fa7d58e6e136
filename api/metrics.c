// SPDX-License-Identifier: Apache-2.0
// /metrics: counters and gauges in Prometheus' text format, version 0.0.4.
// https://prometheus.io/docs/instrumenting/exposition_formats/
//
// Base units, counters end in _total, and no label holds an id: the number of
// series is bounded by the routes, kinds and states that there are.
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/common.h"
#include "api/handlers.h"
#include "api/http_internal.h"
#include "api/query.h"
#include "core/base/log.h"
#include "core/pod/metrics.h"

// ------------------------------------------------------------------ the format

static void metrics_head(struct pod_str *out, const char *name,
                         const char *type, const char *help)
{
    pod_str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

// A metric that has one series.
static void metrics_one(struct pod_str *out, const char *name, const char *type,
                        const char *help, uint64_t value)
{
    metrics_head(out, name, type, help);
    pod_str_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void metrics_seconds(struct pod_str *out, uint64_t ns)
{
    pod_str_printf(out, "%" PRIu64 ".%09" PRIu64, ns / POD_NS_PER_S,
                   ns % POD_NS_PER_S);
}

// `labels` as they stand between the braces, never empty.
static void metrics_histogram(struct pod_str *out, const char *name,
                              const char *labels,
                              const struct pod_histogram *histogram)
{
    uint64_t count = 0;

    for (int i = 0; i < POD_HISTOGRAM_BOUNDS; i++) {
        count += histogram->counts[i];
        pod_str_printf(
            out, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, labels,
            (double)pod_histogram_bounds_ns[i] / POD_NS_PER_S, count);
    }
    count += histogram->counts[POD_HISTOGRAM_BOUNDS];
    pod_str_printf(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels,
                   count);
    pod_str_printf(out, "%s_sum{%s} ", name, labels);
    metrics_seconds(out, histogram->sum_ns);
    pod_str_printf(out, "\n%s_count{%s} %" PRIu64 "\n", name, labels, count);
}

// --------------------------------------------------------------- the process

static uint64_t metrics_timeval_ns(struct timeval time)
{
    return (uint64_t)time.tv_sec * POD_NS_PER_S + (uint64_t)time.tv_usec * 1000;
}

// Bytes that are in memory now; 0: not known.
static uint64_t metrics_resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL)
        return 0;
    if (fscanf(file, "%*s %lu", &pages) != 1)
        pages = 0;
    (void)fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void metrics_process(struct pod_str *out,
                            const struct api_server *server)
{
    struct rusage usage;

    metrics_head(out, "podd_build_info", "gauge", "The version; always 1.");
    pod_str_puts(out, "podd_build_info{version=\"" POD_VERSION "\"} 1\n");
    metrics_one(out, "podd_log_lines_lost_total", "counter",
                "Lines of the log that could not be written.", pod_log_lost());
    metrics_head(out, "process_start_time_seconds", "gauge",
                 "When it began, in seconds since 1970.");
    pod_str_puts(out, "process_start_time_seconds ");
    metrics_seconds(out, (uint64_t)server->traffic.started_wall_ns);
    pod_str_puts(out, "\n");
    metrics_one(out, "process_resident_memory_bytes", "gauge",
                "Memory of the process.", metrics_resident());
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return;
    metrics_head(out, "process_cpu_seconds_total", "counter",
                 "Processor time of all threads.");
    pod_str_puts(out, "process_cpu_seconds_total ");
    metrics_seconds(out, metrics_timeval_ns(usage.ru_utime) +
                             metrics_timeval_ns(usage.ru_stime));
    pod_str_puts(out, "\n");
}

// ---------------------------------------------------------------------- HTTP

static const char *metrics_method(enum api_method method)
{
    switch (method) {
    case API_GET:
        return "GET";
    case API_POST:
        return "POST";
    case API_PUT:
        return "PUT";
    case API_DELETE:
        return "DELETE";
    case API_HEAD:
    case API_OPTIONS:
    case API_OTHER:
        break;
    }
    return "none";
}

enum { METRICS_LABELS_BYTES = 160 };

static void metrics_route_labels(const struct api_server *server, size_t i,
                                 char out[METRICS_LABELS_BYTES])
{
    bool routed = i < server->route_count;

    (void)snprintf(out, METRICS_LABELS_BYTES, "method=\"%s\",route=\"%s\"",
                   routed ? metrics_method(server->routes[i].method) : "none",
                   routed ? server->routes[i].pattern : "none");
}

static void metrics_requests(struct pod_str *out,
                             const struct api_server *server)
{
    char labels[METRICS_LABELS_BYTES];
    const char *name = "podd_http_requests_total";

    metrics_head(out, name, "counter",
                 "Requests that have ended, by route and status; code 0: the "
                 "client went first.");
    for (size_t i = 0; i <= server->route_count; i++) {
        const struct api_route_traffic *route = &server->traffic.routes[i];
        metrics_route_labels(server, i, labels);
        for (size_t k = 0; k < API_TRAFFIC_STATUSES; k++) {
            if (route->answers[k].count > 0)
                pod_str_printf(out, "%s{%s,code=\"%d\"} %" PRIu64 "\n", name,
                               labels, route->answers[k].status,
                               route->answers[k].count);
        }
    }
}

static void metrics_durations(struct pod_str *out,
                              const struct api_server *server)
{
    char labels[METRICS_LABELS_BYTES];
    const char *name = "podd_http_request_duration_seconds";

    metrics_head(out, name, "histogram",
                 "From the headers of a request to the end of its answer, the "
                 "wait it asked for and the reading of the client included.");
    for (size_t i = 0; i <= server->route_count; i++) {
        const struct api_route_traffic *route = &server->traffic.routes[i];
        metrics_route_labels(server, i, labels);
        if (route->answers[0].count > 0)
            metrics_histogram(out, name, labels, &route->took);
    }
}

static void metrics_http(struct pod_str *out, const struct api_server *server)
{
    struct api_server_counts counts;

    api_server_counts(server, &counts);
    metrics_requests(out, server);
    metrics_durations(out, server);
    metrics_one(out, "podd_http_connections", "gauge", "Open now.",
                counts.connections);
    metrics_one(out, "podd_http_parked_requests", "gauge",
                "Requests that wait for operations now.", counts.parked);
    metrics_one(out, "podd_http_streams", "gauge",
                "Answers without end that are open now.", counts.streams);
    metrics_one(out, "podd_http_connections_refused_total", "counter",
                "Connections closed for a limit or a deadline.",
                counts.refused);
}

// ----------------------------------------------------------------------- pod

static void metrics_hosts(struct pod_str *out,
                          const struct pod_topology_view *view)
{
    uint64_t hosts[POD_HOST_LOST + 1] = {0};
    uint64_t total = 0;
    uint64_t used = 0;
    uint64_t queued = 0;

    for (size_t i = 0; i < view->host_count; i++)
        hosts[view->hosts[i].state]++;
    for (size_t i = 0; i < view->core_count; i++) {
        total += view->cores[i].memory_total;
        used += view->cores[i].memory_used;
        queued += view->cores[i].queue_depth;
    }
    metrics_head(out, "podd_hosts", "gauge", "Hosts by their state.");
    for (int i = 0; i <= POD_HOST_LOST; i++)
        pod_str_printf(out, "podd_hosts{state=\"%s\"} %" PRIu64 "\n",
                       pod_host_state_name((enum pod_host_state)i), hosts[i]);
    metrics_one(out, "podd_cores", "gauge", "Cores that are known.",
                view->core_count);
    metrics_one(out, "podd_device_memory_bytes", "gauge",
                "Memory of all cores.", total);
    metrics_one(out, "podd_device_memory_used_bytes", "gauge",
                "Memory that buffers take.", used);
    metrics_one(out, "podd_core_queued_operations", "gauge",
                "Operations in the queues of all cores.", queued);
}

static void metrics_staging(struct pod_str *out, struct pod *pod)
{
    uint64_t used = 0;
    uint64_t max = 0;

    pod_staging_usage(pod, &used, &max);
    metrics_one(out, "podd_staging_used_bytes", "gauge",
                "Bytes that are held for uploads and reads.", used);
    metrics_one(out, "podd_staging_max_bytes", "gauge", "And their budget.",
                max);
}

// ---------------------------------------------------------------- operations

static void metrics_ended(struct pod_str *out,
                          const struct pod_metrics *metrics)
{
    const char *name = "podd_operations_ended_total";

    metrics_head(out, name, "counter",
                 "Operations that have ended, by kind and how.");
    for (int kind = 0; kind < POD_KIND_COUNT; kind++) {
        for (int state = POD_SCHED_SUCCEEDED; state <= POD_SCHED_LOST; state++)
            pod_str_printf(out, "%s{kind=\"%s\",state=\"%s\"} %" PRIu64 "\n",
                           name, pod_kind_name((enum pod_kind)kind),
                           pod_sched_state_name((enum pod_sched_state)state),
                           metrics->ended[kind][state]);
    }
}

static void metrics_kinds(struct pod_str *out, const char *name,
                          const char *help,
                          const uint64_t counts[POD_KIND_COUNT])
{
    metrics_head(out, name, "counter", help);
    for (int kind = 0; kind < POD_KIND_COUNT; kind++)
        pod_str_printf(out, "%s{kind=\"%s\"} %" PRIu64 "\n", name,
                       pod_kind_name((enum pod_kind)kind), counts[kind]);
}

static void metrics_times(struct pod_str *out, const char *name,
                          const char *help,
                          const struct pod_histogram times[POD_KIND_COUNT])
{
    char labels[METRICS_LABELS_BYTES];

    metrics_head(out, name, "histogram", help);
    for (int kind = 0; kind < POD_KIND_COUNT; kind++) {
        (void)snprintf(labels, sizeof(labels), "kind=\"%s\"",
                       pod_kind_name((enum pod_kind)kind));
        metrics_histogram(out, name, labels, &times[kind]);
    }
}

static void metrics_operations(struct pod_str *out,
                               const struct pod_metrics *metrics)
{
    metrics_head(out, "podd_operations_open", "gauge",
                 "Operations that have not ended, by state.");
    for (int state = 0; state <= POD_SCHED_RUNNING; state++)
        pod_str_printf(out, "podd_operations_open{state=\"%s\"} %" PRIu64 "\n",
                       pod_sched_state_name((enum pod_sched_state)state),
                       metrics->open[state]);
    metrics_one(out, "podd_operations_kept", "gauge",
                "Ended operations in the history.", metrics->kept);
    metrics_one(out, "podd_stalled_operations", "gauge",
                "Operations of which nothing was heard for long.",
                metrics->stalled);
    metrics_kinds(out, "podd_operations_accepted_total",
                  "Operations that were accepted, by kind.", metrics->accepted);
    metrics_ended(out, metrics);
    metrics_times(out, "podd_operation_wait_seconds",
                  "From acceptance to the start, of operations that ran.",
                  metrics->waited);
    metrics_times(out, "podd_operation_queue_seconds",
                  "The part of it from being ready, of operations that ran.",
                  metrics->queued);
    metrics_times(out, "podd_operation_run_seconds",
                  "From the start to the end, of operations that ran.",
                  metrics->ran);
    metrics_kinds(out, "podd_transferred_bytes_total",
                  "Bytes moved by operations that succeeded, by kind.",
                  metrics->moved_bytes);
    metrics_one(out, "podd_host_losses_total", "counter",
                "How often a host that was up was lost.", metrics->host_losses);
}

void api_metrics_get(struct api_request *req)
{
    struct pod *pod = api_pod(req);
    struct pod_err err = POD_ERR_NONE;
    struct pod_topology_view view = {0};
    struct pod_metrics metrics;
    struct pod_str text = {0};
    enum pod_code code = api_query_end(req, &err);

    if (code == POD_OK)
        code = pod_get_topology(pod, &view, &err);
    if (code == POD_OK) {
        pod_get_metrics(pod, &metrics);
        metrics_process(&text, req->server);
        metrics_http(&text, req->server);
        metrics_hosts(&text, &view);
        metrics_staging(&text, pod);
        metrics_operations(&text, &metrics);
        code = text.failed ? api_err_memory(&err) : POD_OK;
    }
    if (code == POD_OK)
        api_reply_text(req, 200, "text/plain; version=0.0.4; charset=utf-8",
                       text.data, text.length);
    else
        api_problem(req, &err);
    pod_str_fini(&text);
    pod_topology_view_fini(&view);
}
