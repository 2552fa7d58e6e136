// SPDX-License-Identifier: Apache-2.0
// Hosts, chips, cores and links as they are shown, and what users may do with
// hosts.
#include <string.h>

#include "core/base/mem.h"
#include "core/pod/view.h"

// A topology view while it is laid; what is NULL did not fit.
struct topology_lay {
    struct pod_carver carver;
    struct pod_host_view *hosts;
    struct pod_chip_view *chips;
    struct pod_core_view *cores;
    struct pod_link_view *links; // room for them; found later
    struct pod_site *sites;      // scratch for that
    size_t host_count;
    size_t chip_count;
    size_t core_count;
};

static void topology_lay_host(const struct pod_host *host,
                              struct topology_lay *lay,
                              struct pod_host_view *out_view)
{
    struct pod_carver *carver = &lay->carver;
    const struct pod_host_info *info = host->info;
    struct pod_host_view view = {
        .id = host->id,
        .address = pod_carve_text(carver, host->address),
        .state = host->state,
        .incarnation = host->incarnation,
        .heartbeat_wall_ns = host->heartbeat_wall_ns,
        .accepts = host->accepts,
        .open_operations = host->open_operations,
        .finished_operations = host->finished_operations,
        .buffers = host->buffers,
        .load = host->load,
    };

    if (host->error[0] != '\0')
        view.error = pod_carve_text(carver, host->error);
    if (info != NULL) {
        view.platform = pod_carve_text(carver, info->platform);
        view.version = pod_carve_text(carver, info->version);
        view.chip_count = (uint32_t)info->chip_count;
        view.core_count = (uint32_t)info->core_count;
    }
    if (out_view != NULL)
        *out_view = view;
}

static void topology_lay_chips(const struct pod *pod, struct topology_lay *lay)
{
    lay->chip_count = pod->chip_count;
    lay->chips = pod_carve(&lay->carver, pod->chip_count, sizeof(*lay->chips));
    lay->links =
        pod_carve(&lay->carver, 3 * pod->chip_count, sizeof(*lay->links));
    lay->sites = pod_carve(&lay->carver, pod->chip_count, sizeof(*lay->sites));
    if (lay->carver.used > lay->carver.size)
        return;
    for (size_t i = 0; i < pod->chip_count; i++) {
        const struct pod_chip *chip = &pod->chips[i];
        lay->chips[i] = (struct pod_chip_view){
            .id = chip->id,
            .host = chip->host,
            .x = chip->x,
            .y = chip->y,
            .z = chip->z,
            .first_core = chip->first_core,
            .core_count = chip->core_count,
        };
        lay->sites[i] = (struct pod_site){
            .slice = pod_slice_key(pod->hosts[chip->host]->info, chip->host,
                                   pod->host_count),
            .x = chip->x,
            .y = chip->y,
            .z = chip->z,
            .id = chip->id,
        };
    }
}

static void topology_lay_cores(const struct pod *pod, struct topology_lay *lay)
{
    lay->core_count = pod->core_count;
    lay->cores = pod_carve(&lay->carver, pod->core_count, sizeof(*lay->cores));
    for (size_t i = 0; lay->cores != NULL && i < pod->core_count; i++) {
        const struct pod_core *core = pod->cores[i];
        struct pod_core_view *view = &lay->cores[i];
        *view = (struct pod_core_view){
            .id = core->id,
            .host = core->host,
            .chip = core->chip,
            .worker_core = core->worker_core,
            .memory_total = core->memory_total,
            .memory_used = core->memory_used,
            .queue_depth = pod_sched_lane_depth(pod->sched, core->lane),
            .running_count = core->running_count,
        };
        memcpy(view->running, core->running, sizeof(view->running));
    }
}

static void topology_lay_locked(const struct pod *pod, struct topology_lay *lay)
{
    lay->carver.used = 0;
    lay->host_count = pod->host_count;
    lay->hosts = pod_carve(&lay->carver, pod->host_count, sizeof(*lay->hosts));
    for (size_t i = 0; i < pod->host_count; i++)
        topology_lay_host(pod->hosts[i], lay,
                          lay->hosts == NULL ? NULL : &lay->hosts[i]);
    topology_lay_cores(pod, lay);
    topology_lay_chips(pod, lay);
}

enum pod_code pod_get_topology(struct pod *pod,
                               struct pod_topology_view *out_view,
                               struct pod_err *err)
{
    struct topology_lay lay = {.carver = {.size = 0}};

    do {
        // Room for a host or two that is placed in between.
        lay.carver.size = lay.carver.used + lay.carver.used / 4 + 4096;
        pod_free(lay.carver.base);
        lay.carver.base = pod_malloc(lay.carver.size);
        if (lay.carver.base == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for a view of %zu bytes",
                               lay.carver.size);
        pod_mutex_lock(&pod->lock);
        topology_lay_locked(pod, &lay);
        pod_mutex_unlock(&pod->lock);
    } while (lay.carver.used > lay.carver.size);

    *out_view = (struct pod_topology_view){
        .hosts = lay.hosts,
        .host_count = lay.host_count,
        .chips = lay.chips,
        .chip_count = lay.chip_count,
        .cores = lay.cores,
        .core_count = lay.core_count,
        .links = lay.links,
        .link_count = pod_sites_link(lay.sites, lay.chip_count, lay.links),
        .memory = lay.carver.base,
    };
    return POD_OK;
}

void pod_topology_view_fini(struct pod_topology_view *view)
{
    if (view == NULL)
        return;
    pod_free(view->memory);
    view->memory = NULL;
}

// ---------------------------------------------------------------- operating

// NULL with err set: there is no such host.
static struct pod_host *topology_find_host(const struct pod *pod, uint32_t id,
                                           struct pod_err *err)
{
    if (id < pod->host_count)
        return pod->hosts[id];
    (void)pod_err_set(err, POD_REASON_NOT_FOUND,
                      "there is no host %u, the pod has %zu", id,
                      pod->host_count);
    return NULL;
}

enum pod_code pod_cordon(struct pod *pod, uint32_t id, bool cordon,
                         struct pod_err *err)
{
    struct pod_after after;

    pod_enter(pod, &after);
    struct pod_host *host = topology_find_host(pod, id, err);
    enum pod_host_state before = POD_HOST_LOST;
    enum pod_host_state state = POD_HOST_LOST;
    if (host != NULL) {
        before = host->state;
        host->cordoned = cordon;
        if (host->state == POD_HOST_READY || host->state == POD_HOST_CORDONED)
            host->state = cordon ? POD_HOST_CORDONED : POD_HOST_READY;
        state = host->state;
        pod_changed_host_locked(pod, host);
    }
    pod_leave(pod, &after);
    if (state != before)
        pod_note_host(POD_LOG_INFO, host, state, NULL);
    return host == NULL ? POD_NOT_FOUND : POD_OK;
}

enum pod_code pod_reconnect(struct pod *pod, uint32_t id, struct pod_err *err)
{
    pod_mutex_lock(&pod->lock);
    struct pod_host *host = topology_find_host(pod, id, err);
    bool open =
        pod->phase == POD_PHASE_RUNNING || pod->phase == POD_PHASE_DRAINING;
    pod_mutex_unlock(&pod->lock);
    if (host == NULL)
        return POD_NOT_FOUND;
    // The driver of a host is fixed once the pod runs.
    if (open)
        host->driver->ops->reconnect(host->driver);
    return POD_OK;
}
