// SPDX-License-Identifier: Apache-2.0
// The topology as JSON.
#include <inttypes.h>
#include <stdio.h>

#include "api/build.h"
#include "api/ids.h"
#include "api/view_json.h"

const char *const api_host_fields[] = {
    "id",
    "address",
    "state",
    "incarnation",
    "last_heartbeat",
    "error",
    "platform",
    "version",
    "accepts",
    "chips",
    "cores",
    "open_operations",
    "finished_operations",
    "buffers",
    "load",
    "conditions",
    NULL,
};
const char *const api_core_fields[] = {
    "id",     "host",        "chip",    "worker_core",
    "memory", "queue_depth", "running", NULL,
};

json_t *api_formats_json(unsigned accepts)
{
    struct api_build list = api_build_array();
    for (unsigned i = 0; i < POD_FORMAT_COUNT; i++) {
        if (accepts & (1U << i))
            api_append(&list, json_string_nocheck(pod_program_format_type(
                                  (enum pod_program_format)i)));
    }
    return api_build_take(&list);
}

// What the worker itself says it does; null: it does not say.
static json_t *pod_load(const struct pod_host_load *load)
{
    if (!load->known)
        return json_null();
    struct api_build object = api_build_object();
    api_set_number(&object, "cores_busy", load->cores_busy);
    api_set_u64(&object, "queued", load->queued);
    api_set_u64(&object, "open_operations", load->open_operations);
    api_set_u64(&object, "memory_used", load->memory_used);
    return api_build_take(&object);
}

static json_t *view_condition(enum pod_condition_type type,
                              const struct pod_condition *condition,
                              const char *message)
{
    struct api_build object = api_build_object();
    api_set_word(&object, "type", pod_condition_type_name(type));
    api_set_word(&object, "status",
                 pod_condition_status_name(condition->status));
    api_set_word(&object, "reason",
                 pod_condition_reason_name(condition->reason));
    api_set_text(&object, "message",
                 message != NULL
                     ? message
                     : pod_condition_reason_text(condition->reason));
    api_set_time(&object, "last_transition_time", condition->since_wall_ns);
    return api_build_take(&object);
}

// Which operation it is that hangs; NULL: none, or it has ended meanwhile.
static const char *view_stalled(const struct pod_stalled_view *stalled,
                                char out[96])
{
    char id[API_ID_BYTES];
    if (stalled->operation == 0)
        return NULL;
    (void)snprintf(out, 96, "nothing is heard of %s (%s) from host %" PRIu32,
                   api_id_print(POD_REF_OP, stalled->operation, id),
                   pod_kind_name(stalled->kind), stalled->host);
    return out;
}

// For a host that is not READY the message is its own error; for one that hangs
// it names the operation.
static json_t *view_conditions(const struct pod_host_view *view)
{
    struct api_build list = api_build_array();
    for (unsigned i = 0; i < POD_CONDITION_COUNT; i++) {
        const struct pod_condition *condition = &view->conditions[i];
        const char *told = NULL;
        char stalled[96];
        if (i == POD_CONDITION_READY &&
            condition->status == POD_CONDITION_FALSE)
            told = view->error;
        else if (i == POD_CONDITION_STALLED)
            told = view_stalled(&view->oldest_stall, stalled);
        api_append(&list,
                   view_condition((enum pod_condition_type)i, condition, told));
    }
    return api_build_take(&list);
}

json_t *api_host_json(const struct pod_host_view *view)
{
    struct api_build host = api_build_object();
    api_set_number(&host, "id", view->id);
    api_set_text(&host, "address", view->address);
    api_set_word(&host, "state", pod_host_state_name(view->state));
    api_set_number(&host, "incarnation", view->incarnation);
    if (view->heartbeat_wall_ns != 0)
        api_set_time(&host, "last_heartbeat", view->heartbeat_wall_ns);
    else
        api_set(&host, "last_heartbeat", json_null());
    api_set_text(&host, "error", view->error);
    api_set_text(&host, "platform", view->platform);
    api_set_text(&host, "version", view->version);
    api_set(&host, "accepts", api_formats_json(view->accepts));
    api_set_number(&host, "chips", view->chip_count);
    api_set_number(&host, "cores", view->core_count);
    api_set_u64(&host, "open_operations", view->open_operations);
    api_set_u64(&host, "finished_operations", view->finished_operations);
    api_set_u64(&host, "buffers", view->buffers);
    api_set(&host, "load", pod_load(&view->load));
    api_set(&host, "conditions", view_conditions(view));
    return api_build_take(&host);
}

static json_t *pod_memory(uint64_t total, uint64_t used)
{
    struct api_build memory = api_build_object();
    api_set_u64(&memory, "total", total);
    api_set_u64(&memory, "used", used);
    api_set_u64(&memory, "free", total > used ? total - used : 0);
    return api_build_take(&memory);
}

json_t *api_core_json(const struct pod_core_view *view)
{
    struct api_build core = api_build_object();
    api_set_number(&core, "id", view->id);
    api_set_number(&core, "host", view->host);
    api_set_number(&core, "chip", view->chip);
    api_set_number(&core, "worker_core", view->worker_core);
    api_set(&core, "memory", pod_memory(view->memory_total, view->memory_used));
    api_set_number(&core, "queue_depth", view->queue_depth);
    api_set_ids(&core, "running", POD_REF_OP, view->running,
                view->running_count);
    return api_build_take(&core);
}

static json_t *pod_chip(const struct pod_chip_view *view, bool flat)
{
    struct api_build chip = api_build_object();
    struct api_build cores = api_build_array();
    api_set_number(&chip, "id", view->id);
    api_set_number(&chip, "host", flat ? 0 : view->host);
    api_set_number(&chip, "x", view->x);
    api_set_number(&chip, "y", view->y);
    api_set_number(&chip, "z", view->z);
    for (uint32_t i = 0; i < view->core_count; i++)
        api_append(&cores, json_integer(view->first_core + i));
    api_set(&chip, "cores", api_build_take(&cores));
    return api_build_take(&chip);
}

static size_t pod_hosts_up(const struct pod_topology_view *view)
{
    size_t up = 0;
    for (size_t i = 0; i < view->host_count; i++) {
        if (view->hosts[i].state == POD_HOST_READY ||
            view->hosts[i].state == POD_HOST_CORDONED)
            up++;
    }
    return up;
}

const char *api_pod_state(const struct pod_topology_view *view, bool draining)
{
    size_t up = pod_hosts_up(view);
    if (draining)
        return "DRAINING";
    if (up == 0)
        return "NOT_READY";
    return up == view->host_count ? "READY" : "DEGRADED";
}

static json_t *pod_totals(const struct pod_topology_view *view)
{
    struct api_build totals = api_build_object();
    uint64_t total = 0;
    uint64_t used = 0;
    for (size_t i = 0; i < view->core_count; i++) {
        total += view->cores[i].memory_total;
        used += view->cores[i].memory_used;
    }
    api_set_number(&totals, "hosts", (int64_t)view->host_count);
    api_set_number(&totals, "hosts_up", (int64_t)pod_hosts_up(view));
    api_set_number(&totals, "chips", (int64_t)view->chip_count);
    api_set_number(&totals, "cores", (int64_t)view->core_count);
    api_set(&totals, "memory", pod_memory(total, used));
    api_set_u64(&totals, "open_operations", view->open_operations);
    return api_build_take(&totals);
}

// The one host that stands for all of them.
static json_t *pod_flat_host(const struct pod_topology_view *view,
                             const char *state)
{
    struct api_build host = api_build_object();
    api_set_number(&host, "id", 0);
    api_set_word(&host, "address", "pod");
    api_set_word(&host, "state", state);
    api_set_number(&host, "chips", (int64_t)view->chip_count);
    api_set_number(&host, "cores", (int64_t)view->core_count);
    return api_build_take(&host);
}

static json_t *pod_cores(const struct pod_topology_view *view, bool flat)
{
    struct api_build cores = api_build_array();
    for (size_t i = 0; i < view->core_count; i++) {
        struct pod_core_view core = view->cores[i];
        if (flat) {
            core.host = 0;
            core.worker_core = core.id;
        }
        api_append(&cores, api_core_json(&core));
    }
    return api_build_take(&cores);
}

static json_t *pod_links(const struct pod_topology_view *view)
{
    struct api_build links = api_build_array();
    for (size_t i = 0; i < view->link_count; i++) {
        struct api_build link = api_build_object();
        api_set_number(&link, "from", view->links[i].from);
        api_set_number(&link, "to", view->links[i].to);
        api_append(&links, api_build_take(&link));
    }
    return api_build_take(&links);
}

// Which hosts are missing is said where they are shown.
static json_t *pod_conditions(const struct pod_topology_view *view)
{
    struct api_build list = api_build_array();
    char message[64];
    const char *told = NULL;
    if (view->ready.reason == POD_CONDITION_REASON_HOSTS_MISSING) {
        (void)snprintf(message, sizeof(message), "%zu of %zu hosts are ready",
                       pod_hosts_up(view), view->host_count);
        told = message;
    }
    api_append(&list, view_condition(POD_CONDITION_READY, &view->ready, told));
    char stalled[96];
    api_append(&list,
               view_condition(POD_CONDITION_STALLED, &view->stalled,
                              view_stalled(&view->oldest_stall, stalled)));
    return api_build_take(&list);
}

json_t *api_pod_json(const struct pod_topology_view *view, bool draining,
                     bool flat)
{
    struct api_build pod = api_build_object();
    struct api_build hosts = api_build_array();
    struct api_build chips = api_build_array();
    const char *state = api_pod_state(view, draining);
    api_set_word(&pod, "state", state);
    api_set(&pod, "totals", pod_totals(view));
    if (flat)
        api_append(&hosts, pod_flat_host(view, state));
    for (size_t i = 0; !flat && i < view->host_count; i++)
        api_append(&hosts, api_host_json(&view->hosts[i]));
    for (size_t i = 0; i < view->chip_count; i++)
        api_append(&chips, pod_chip(&view->chips[i], flat));
    api_set(&pod, "hosts", api_build_take(&hosts));
    api_set(&pod, "chips", api_build_take(&chips));
    api_set(&pod, "cores", pod_cores(view, flat));
    api_set(&pod, "links", pod_links(view));
    api_set(&pod, "conditions", pod_conditions(view));
    return api_build_take(&pod);
}
