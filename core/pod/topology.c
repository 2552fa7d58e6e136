// SPDX-License-Identifier: Apache-2.0
// Which cores and chips the pod has, and on which hosts.
//
// A host gets its places when it and all hosts before it have answered once,
// well or badly, and keeps them for the life of the pod: ids of cores and chips
// are dense, never change and never go. A host that is lost keeps its ids; one
// that comes back must be the machine it was.
//
// Placing allocates under the lock: once in a host's life, and of a size that
// pod_host_info_new has bounded.
#include <assert.h>

#include "core/base/mem.h"
#include "core/pod/internal.h"

struct topology_span {
    int64_t first;
    int64_t last;
};

static void topology_stretch(struct topology_span *span, int32_t x)
{
    if (x < span->first)
        span->first = x;
    if (x > span->last)
        span->last = x;
}

// Every machine of its own calls its first chip (0,0,0). Slices whose chips
// would stand in one another's place are moved along x; hosts of one slice move
// together.
static int32_t topology_shift(const struct pod *pod,
                              const struct pod_host *host)
{
    struct pod_slice_key key =
        pod_slice_key(host->info, host->id, pod->host_count);
    struct topology_span own = {INT32_MAX, INT32_MIN};
    struct topology_span taken = {INT32_MAX, INT32_MIN};

    for (size_t i = 0; i < host->info->chip_count; i++)
        topology_stretch(&own, host->info->chips[i].x);
    for (size_t i = 0; i < pod->chip_count; i++) {
        const struct pod_host *other = pod->hosts[pod->chips[i].host];
        if (pod_slice_equal(
                key, pod_slice_key(other->info, other->id, pod->host_count)))
            return other->shift;
        topology_stretch(&taken, pod->chips[i].x);
    }
    int64_t shift = taken.last + 1 - own.first;
    if (own.first > taken.last || own.last < taken.first ||
        own.last + shift > INT32_MAX || shift > INT32_MAX)
        return 0;
    return (int32_t)shift;
}

// The cores are numbered by chip, so each chip's follow the last one's.
static void topology_add_chips(struct pod *pod, struct pod_host *host)
{
    const struct pod_host_info *info = host->info;
    uint32_t core = 0;

    host->shift = topology_shift(pod, host);
    host->first_chip = (uint32_t)pod->chip_count;
    host->chip_count = (uint32_t)info->chip_count;
    for (uint32_t i = 0; i < host->chip_count; i++) {
        struct pod_chip *chip = &pod->chips[pod->chip_count];
        *chip = (struct pod_chip){
            .id = (uint32_t)pod->chip_count++,
            .host = host->id,
            .x = info->chips[i].x + host->shift,
            .y = info->chips[i].y,
            .z = info->chips[i].z,
            .first_core = host->first_core + core,
        };
        for (; core < info->core_count && info->cores[core].chip == i; core++)
            chip->core_count++;
    }
}

// A core without its ids; NULL: no memory.
// Executions may queue on a host that keeps their order.
static struct pod_core *topology_new_core(struct pod *pod, unsigned features)
{
    uint32_t window = (features & POD_DRIVER_WAITS) != 0 ? POD_AHEAD_WINDOW : 1;

    struct pod_core *core = pod_calloc(1, sizeof(*core));

    if (core == NULL)
        return NULL;
    core->lane = pod_sched_add_lane(pod->sched, window);
    if (core->lane == UINT32_MAX) {
        pod_free(core);
        return NULL;
    }
    pod_list_init(&core->frees);
    return core;
}

// Makes the records of a host's cores behind those the pod has, without
// counting them yet. False: no memory, nothing changed but unused room.
static bool topology_make_cores(struct pod *pod,
                                const struct pod_host_info *info)
{
    size_t made = 0;

    while (made < info->core_count) {
        struct pod_core *core = topology_new_core(pod, info->features);
        if (core == NULL)
            break;
        pod->cores[pod->core_count + made++] = core;
    }
    if (made == info->core_count)
        return true;
    while (made > 0)
        pod_free(pod->cores[pod->core_count + --made]);
    return false;
}

static void topology_add_cores(struct pod *pod, struct pod_host *host)
{
    const struct pod_host_info *info = host->info;

    host->first_core = (uint32_t)pod->core_count;
    host->core_count = (uint32_t)info->core_count;
    for (size_t i = 0; i < info->core_count; i++) {
        struct pod_core *core = pod->cores[pod->core_count];
        core->id = (uint32_t)pod->core_count++;
        core->host = host->id;
        core->chip = (uint32_t)pod->chip_count + info->cores[i].chip;
        core->worker_core = info->cores[i].worker_core;
        core->memory_total = info->cores[i].memory_bytes;
    }
}

// Room in the pod's tables for one more host.
static bool topology_reserve(struct pod *pod, const struct pod_host_info *info)
{
    size_t core_count = pod->core_count + info->core_count;
    size_t chip_count = pod->chip_count + info->chip_count;
    struct pod_core **cores =
        pod_realloc(pod->cores, core_count, sizeof(struct pod_core *));

    if (cores == NULL)
        return false;
    pod->cores = cores;
    struct pod_chip *chips =
        pod_realloc(pod->chips, chip_count, sizeof(struct pod_chip));
    if (chips == NULL)
        return false;
    pod->chips = chips;
    return true;
}

static bool topology_place(struct pod *pod, struct pod_host *host)
{
    if (!topology_reserve(pod, host->info) ||
        !topology_make_cores(pod, host->info))
        return false;
    topology_add_cores(pod, host);
    topology_add_chips(pod, host);
    host->placed = true;
    return true;
}

// Places, in order, the hosts that nobody before them holds up. False: there
// was no memory for one; it is tried again when another host answers.
static bool topology_settle(struct pod *pod)
{
    for (size_t i = 0; i < pod->host_count; i++) {
        struct pod_host *host = pod->hosts[i];
        if (!host->answered)
            break;
        if (host->placed || host->info == NULL)
            continue;
        if (!topology_place(pod, host))
            return false;
    }
    return true;
}

// Whether another host claims the place of this one in its slice.
static enum pod_code topology_check_slice(const struct pod *pod,
                                          const struct pod_host *host,
                                          const struct pod_host_info *info,
                                          struct pod_err *err)
{
    if (info->slice_hosts == 1)
        return POD_OK;
    struct pod_slice_key key = pod_slice_key(info, host->id, pod->host_count);
    for (size_t i = 0; i < pod->host_count; i++) {
        const struct pod_host *other = pod->hosts[i];
        if (other == host || other->info == NULL ||
            other->info->slice_host != info->slice_host)
            continue;
        struct pod_slice_key other_key =
            pod_slice_key(other->info, other->id, pod->host_count);
        if (pod_slice_equal(key, other_key))
            return pod_err_set(err, POD_REASON_WORKER_ERROR,
                               "host says it is number %d of its slice, and "
                               "so does host %u",
                               info->slice_host, other->id);
    }
    return POD_OK;
}

static void topology_take_info(struct pod *pod, struct pod_host *host,
                               struct pod_host_info *info)
{
    pod_host_info_free(host->info);
    host->info = info;
    host->features = info->features;
    host->accepts = info->accepts;
    for (uint32_t i = 0; host->placed && i < host->core_count; i++)
        pod->cores[host->first_core + i]->memory_total =
            info->cores[i].memory_bytes;
}

enum pod_code pod_topology_ready_locked(struct pod *pod, struct pod_host *host,
                                        struct pod_host_info *owned_info,
                                        struct pod_err *err)
{
    enum pod_code code = POD_OK;

    host->answered = true;
    if (host->info != NULL)
        code = pod_host_info_same(host->info, owned_info, err);
    if (code == POD_OK)
        code = topology_check_slice(pod, host, owned_info, err);
    if (code != POD_OK) {
        pod_host_info_free(owned_info);
        (void)topology_settle(pod);
        return code;
    }
    topology_take_info(pod, host, owned_info);
    if (!topology_settle(pod) && !host->placed)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the cores of host %u", host->id);
    return POD_OK;
}

void pod_topology_failed_locked(struct pod *pod, struct pod_host *host)
{
    host->answered = true;
    (void)topology_settle(pod);
}

void pod_topology_fini(struct pod *pod)
{
    for (size_t i = 0; i < pod->core_count; i++)
        pod_free(pod->cores[i]);
    pod_free(pod->cores);
    pod_free(pod->chips);
    pod->cores = NULL;
    pod->chips = NULL;
    pod->core_count = 0;
    pod->chip_count = 0;
    for (size_t i = 0; i < pod->host_count; i++) {
        pod_host_info_free(pod->hosts[i]->info);
        pod->hosts[i]->info = NULL;
    }
}
