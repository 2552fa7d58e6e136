// SPDX-License-Identifier: Apache-2.0
// /: a page of text for curl, the dashboard for a browser.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/common.h"
#include "api/handlers.h"
#include "api/overview.h"
#include "api/query.h"
#include "api/view_json.h"

enum { ROOT_CORES_SHOWN = 64, ROOT_STALLED_SHOWN = 8 };

// "1.5 GiB", rounded down to a tenth.
static const char *root_size(uint64_t bytes, char buffer[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    uint64_t tenths = 0;
    while (bytes >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        tenths = bytes % 1024 * 10 / 1024;
        bytes /= 1024;
        unit++;
    }
    if (tenths > 0)
        (void)snprintf(buffer, 32, "%" PRIu64 ".%" PRIu64 " %s", bytes, tenths,
                       units[unit]);
    else
        (void)snprintf(buffer, 32, "%" PRIu64 " %s", bytes, units[unit]);
    return buffer;
}

static const char *root_plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static void root_print_hosts(const struct pod_topology_view *view,
                             struct pod_str *out)
{
    pod_str_puts(out, "\nhost  state       device       cores  address\n");
    for (size_t i = 0; i < view->host_count; i++) {
        const struct pod_host_view *host = &view->hosts[i];
        pod_str_printf(out, "%-5" PRIu32 " %-11s %-12s %-6" PRIu32 " %s\n",
                       host->id, pod_host_state_name(host->state),
                       host->platform != NULL ? host->platform : "-",
                       host->core_count,
                       host->address != NULL ? host->address : "-");
        if (host->error != NULL)
            pod_str_printf(out, "      %s\n", host->error);
    }
}

static void root_print_cores(const struct pod_topology_view *view,
                             struct pod_str *out)
{
    pod_str_puts(out, "\ncore  host  chip  memory used / total     queue\n");
    for (size_t i = 0; i < view->core_count && i < ROOT_CORES_SHOWN; i++) {
        const struct pod_core_view *core = &view->cores[i];
        char used[32];
        char total[32];
        pod_str_printf(out,
                       "%-5" PRIu32 " %-5" PRIu32 " %-5" PRIu32
                       " %10s / %-10s %" PRIu32 "\n",
                       core->id, core->host, core->chip,
                       root_size(core->memory_used, used),
                       root_size(core->memory_total, total), core->queue_depth);
    }
    if (view->core_count > ROOT_CORES_SHOWN)
        pod_str_printf(out, "... and %zu more: /v1/cores\n",
                       view->core_count - ROOT_CORES_SHOWN);
}

static void root_print_counts(const struct pod_summary *summary,
                              struct pod_str *out)
{
    pod_str_puts(out, "\noperations:");
    bool any = false;
    for (int i = 0; i <= POD_SCHED_LOST; i++) {
        if (summary->by_state[i] == 0)
            continue;
        any = true;
        pod_str_printf(out, " %" PRIu64 " %s", summary->by_state[i],
                       pod_sched_state_name((enum pod_sched_state)i));
    }
    pod_str_puts(out, any ? "\n" : " none yet\n");
}

static void root_print_awaited(const struct pod_event_awaited *awaited,
                               struct pod_str *out)
{
    pod_str_printf(out, " host %" PRIu32, awaited->host);
    for (size_t i = 0; i < awaited->core_count; i++)
        pod_str_printf(out, "%s%" PRIu32, i == 0 ? " core " : ",",
                       awaited->cores[i]);
    if (awaited->state != POD_AWAITED_BEGUN)
        pod_str_puts(out, " (not begun)");
}

static void root_print_stalled(const struct pod_event_view *view,
                               struct pod_str *out)
{
    int64_t quiet_ns = pod_clock_wall(&pod_clock_system) -
                       (view->created_wall_ns + view->stalled_ns);
    pod_str_printf(
        out, "\nop-%" PRIu64 " %s: nothing heard for %" PRId64 " s of",
        view->number, pod_kind_name(view->kind), quiet_ns / POD_NS_PER_S);
    for (size_t i = 0; i < view->awaited_count; i++) {
        pod_str_puts(out, i == 0 ? "" : ",");
        root_print_awaited(&view->awaited[i], out);
    }
}

// The latest of what hangs, if anything does.
static enum pod_code root_print_stalls(struct pod *pod, struct pod_str *out,
                                       struct pod_err *err)
{
    const struct pod_event_filter filter = {.host = POD_NO_ID,
                                            .core = POD_NO_ID,
                                            .since_wall_ns = INT64_MIN,
                                            .stalled = POD_STALLED_ONLY};
    struct pod_event_view views[ROOT_STALLED_SHOWN];
    uint64_t next = 0;
    size_t count = 0;
    enum pod_code code =
        pod_list_events(pod, &filter, UINT64_MAX, ROOT_STALLED_SHOWN, views,
                        &count, &next, err);
    if (code != POD_OK || count == 0)
        return code;
    pod_str_puts(out, "\nstalled:");
    for (size_t i = 0; i < count; i++) {
        root_print_stalled(&views[i], out);
        pod_event_view_fini(&views[i]);
    }
    pod_str_puts(out, next != 0 ? "\n... and more: /v1/events?stalled=true\n"
                                : "\n");
    return POD_OK;
}

static void root_print_next(const struct api_request *req, struct pod_str *out)
{
    const char *host = api_request_header(req, "Host");
    if (host == NULL)
        host = "localhost";
    pod_str_printf(
        out,
        "\ntry next:\n"
        "  curl http://%s/v1            what podd is and where things are\n"
        "  curl http://%s/v1/pod        hosts, chips, cores\n"
        "  curl http://%s/v1/events     what was done\n"
        "  curl -H 'Content-Type: application/json' \\\n"
        "    -d '{\"core\":0,\"shape\":\"f32[2,2]\","
        "\"values\":[[1,2],[3,4]]}' \\\n"
        "    'http://%s/v1/buffers?wait=10s'\n"
        "  curl -H 'Accept: application/json' "
        "http://%s/v1/buffers/buf-1/data\n"
        "  a browser at http://%s/ui/\n",
        host, host, host, host, host, host);
}

enum pod_code api_overview_print(struct api_request *req, struct pod_str *out,
                                 struct pod_err *err)
{
    struct pod *pod = api_pod(req);
    struct pod_topology_view view = {0};
    struct pod_summary summary = {0};
    enum pod_code code = pod_get_topology(pod, &view, err);
    if (code == POD_OK)
        code = pod_get_summary(pod, &summary, err);
    if (code == POD_OK) {
        pod_str_printf(out,
                       "podd %s: a pod of %zu host%s, %zu chip%s, %zu core%s "
                       "(%s)\n",
                       POD_VERSION, view.host_count,
                       root_plural(view.host_count), view.chip_count,
                       root_plural(view.chip_count), view.core_count,
                       root_plural(view.core_count),
                       api_pod_state(&view, pod_draining(pod)));
        root_print_hosts(&view, out);
        root_print_cores(&view, out);
        root_print_counts(&summary, out);
        code = root_print_stalls(pod, out, err);
        root_print_next(req, out);
        if (code == POD_OK && out->failed)
            code = api_err_memory(err);
    }
    pod_summary_fini(&summary);
    pod_topology_view_fini(&view);
    return code;
}

void api_root_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_str text = {0};
    const char *accept = api_request_header(req, "Accept");
    enum pod_code code = api_query_end(req, &err);
    api_header(req, "Vary", "Accept");
    // Browsers name HTML; curl and scripts take whatever comes.
    if (code == POD_OK && accept != NULL &&
        strstr(accept, "text/html") != NULL) {
        api_header(req, "Location", "/ui/");
        api_reply_empty(req, 302);
        return;
    }
    if (code == POD_OK)
        code = api_overview_print(req, &text, &err);
    if (code == POD_OK)
        api_reply_text(req, 200, "text/plain; charset=utf-8", text.data,
                       text.length);
    else
        api_problem(req, &err);
    pod_str_fini(&text);
}
