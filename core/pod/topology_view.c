// SPDX-License-Identifier: Apache-2.0
// Hosts, chips, cores and links as they are shown.
#include "core/pod/view.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/pod/stall.h"

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
    uint32_t host_ids;
    uint32_t core_ids;
    struct pod_condition ready;
    struct pod_condition stalled;
    struct pod_stalled_view oldest_stall;
    uint64_t open_operations;
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
    memcpy(view.conditions, host->conditions, sizeof(view.conditions));
    view.oldest_stall = pod_stall_oldest_locked(host->pod, host);
    if (out_view != NULL)
        *out_view = view;
}

static void topology_lay_chips(const struct pod *pod, struct topology_lay *lay)
{
    lay->chip_count = 0;
    lay->chips = pod_carve(&lay->carver, pod->chip_count, sizeof(*lay->chips));
    lay->links =
        pod_carve(&lay->carver, 3 * pod->chip_count, sizeof(*lay->links));
    lay->sites = pod_carve(&lay->carver, pod->chip_count, sizeof(*lay->sites));
    if (lay->carver.used > lay->carver.size)
        return;
    for (size_t i = 0; i < pod->chip_count; i++) {
        const struct pod_chip *chip = &pod->chips[i];
        const struct pod_host *host = pod_host_at(pod, chip->host);
        if (host == NULL)
            continue;
        lay->chips[lay->chip_count] = (struct pod_chip_view){
            .id = chip->id,
            .host = chip->host,
            .x = chip->x,
            .y = chip->y,
            .z = chip->z,
            .first_core = chip->first_core,
            .core_count = chip->core_count,
        };
        lay->sites[lay->chip_count++] = (struct pod_site){
            .slice = host->slice,
            .x = chip->x,
            .y = chip->y,
            .z = chip->z,
            .id = chip->id,
        };
    }
}

static void topology_lay_cores(const struct pod *pod, struct topology_lay *lay)
{
    lay->core_count = 0;
    lay->cores = pod_carve(&lay->carver, pod->core_count, sizeof(*lay->cores));
    for (size_t i = 0; lay->cores != NULL && i < pod->core_count; i++) {
        const struct pod_core *core = pod->cores[i];
        if (core == NULL || pod_host_at(pod, core->host) == NULL)
            continue;
        struct pod_core_view *view = &lay->cores[lay->core_count++];
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
    size_t cursor = 0;
    const struct pod_host *host;

    lay->carver.used = 0;
    lay->host_ids = (uint32_t)pod->host_count;
    lay->core_ids = (uint32_t)pod->core_count;
    lay->ready = pod->ready;
    lay->stalled = pod->stalled;
    lay->oldest_stall = pod_stall_oldest_locked(pod, NULL);
    lay->open_operations = pod->open_count;
    lay->host_count = 0;
    lay->hosts = pod_carve(&lay->carver, atomic_load(&pod->live_hosts),
                           sizeof(*lay->hosts));
    while ((host = pod_host_next(pod, &cursor)) != NULL) {
        topology_lay_host(host, lay,
                          lay->hosts == NULL ? NULL
                                             : &lay->hosts[lay->host_count]);
        lay->host_count++;
    }
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
        .host_ids = lay.host_ids,
        .core_ids = lay.core_ids,
        .ready = lay.ready,
        .stalled = lay.stalled,
        .oldest_stall = lay.oldest_stall,
        .open_operations = lay.open_operations,
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

// ------------------------------------------------------------------- finding

const struct pod_host_view *
pod_topology_host(const struct pod_topology_view *view, uint32_t id)
{
    for (size_t i = 0; i < view->host_count; i++) {
        if (view->hosts[i].id == id)
            return &view->hosts[i];
    }
    return NULL;
}

const struct pod_core_view *
pod_topology_core(const struct pod_topology_view *view, uint32_t id)
{
    for (size_t i = 0; i < view->core_count; i++) {
        if (view->cores[i].id == id)
            return &view->cores[i];
    }
    return NULL;
}
