// SPDX-License-Identifier: Apache-2.0
// Which cores and chips the pod has, and on which hosts.
//
// A host gets its places when it and all hosts before it have answered once,
// well or badly, and keeps them for the life of the pod: ids of cores and chips
// are given in order and never change. A host that is lost keeps its ids; one
// that comes back must be the machine it was. One that is removed takes its ids
// with it.
//
// Placing allocates under the lock: once in a host's life, and of a size that
// pod_host_info_new has bounded.
#include "core/pod/host.h"

#include <assert.h>

#include "core/base/mem.h"
#include "core/pod/internal.h"

// Of cores or chips, in the life of a pod: 4,096 times those of a big host.
enum { TOPOLOGY_MAX_IDS = 1 << 24 };

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
    struct topology_span own = {INT32_MAX, INT32_MIN};
    struct topology_span taken = {INT32_MAX, INT32_MIN};

    for (size_t i = 0; i < host->info->chip_count; i++)
        topology_stretch(&own, host->info->chips[i].x);
    for (size_t i = 0; i < pod->chip_count; i++) {
        const struct pod_host *other = pod_host_at(pod, pod->chips[i].host);
        if (other == NULL)
            continue;
        if (pod_slice_equal(host->slice, other->slice))
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

    struct pod_list *spare = pod_list_pop_front(&pod->spare_cores);
    struct pod_core *core = NULL;

    if (spare != NULL) {
        core = POD_CONTAINER(spare, struct pod_core, spare_link);
        *core = (struct pod_core){.lane = core->lane};
        pod_sched_set_window(pod->sched, core->lane, window);
    } else {
        core = pod_calloc(1, sizeof(*core));
        if (core == NULL)
            return NULL;
        core->lane = pod_sched_add_lane(pod->sched, window);
    }
    pod_list_init(&core->spare_link);
    pod_list_init(&core->frees);
    if (core->lane != UINT32_MAX)
        return core;
    pod_free(core);
    return NULL;
}

// A core that is not in use any more leaves its lane to another.
static void topology_spare_core(struct pod *pod, size_t id)
{
    pod_list_push_back(&pod->spare_cores, &pod->cores[id]->spare_link);
    pod->cores[id] = NULL;
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
        topology_spare_core(pod, pod->core_count + --made);
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

// Room in the pod's tables for one more host, and ids.
static bool topology_reserve(struct pod *pod, const struct pod_host_info *info)
{
    size_t core_count = pod->core_count + info->core_count;
    size_t chip_count = pod->chip_count + info->chip_count;

    if (core_count > TOPOLOGY_MAX_IDS || chip_count > TOPOLOGY_MAX_IDS)
        return false;
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
    size_t cursor = 0;
    struct pod_host *host;

    while ((host = pod_host_next(pod, &cursor)) != NULL && host->answered) {
        if (host->placed || host->info == NULL)
            continue;
        if (!topology_place(pod, host))
            return false;
    }
    return true;
}

// The host that has a place in a slice, or NULL: none, or it is `but`.
static const struct pod_host *topology_in_slice(const struct pod *pod,
                                                struct pod_slice_key slice,
                                                int32_t place,
                                                const struct pod_host *but)
{
    size_t cursor = 0;
    const struct pod_host *host;

    while ((host = pod_host_next(pod, &cursor)) != NULL) {
        if (host != but && host->info != NULL &&
            host->info->slice_host == place &&
            pod_slice_equal(host->slice, slice))
            return host;
    }
    return NULL;
}

// A host that was added later takes the first place that is free for it in a
// slice of that size, or begins one: a slice may be added host by host, and a
// host of one be replaced.
static struct pod_slice_key
topology_join_slice(const struct pod *pod, const struct pod_host *host,
                    const struct pod_host_info *info)
{
    size_t cursor = 0;
    const struct pod_host *other;

    while ((other = pod_host_next(pod, &cursor)) != NULL) {
        if (other != host && other->info != NULL &&
            other->slice.hosts == info->slice_hosts &&
            topology_in_slice(pod, other->slice, info->slice_host, host) ==
                NULL)
            return other->slice;
    }
    // Not a number that hosts of the start may have come to.
    return (struct pod_slice_key){.hosts = info->slice_hosts,
                                  .base = (int64_t)UINT32_MAX + host->id};
}

// The slice of a host, which never changes while it says the same of itself,
// whoever else comes or goes.
static struct pod_slice_key topology_slice(const struct pod *pod,
                                           const struct pod_host *host,
                                           const struct pod_host_info *info)
{
    if (host->info != NULL && host->info->slice_hosts == info->slice_hosts &&
        host->info->slice_host == info->slice_host)
        return host->slice;
    if (host->id < pod->first_hosts || info->slice_hosts == 1)
        return pod_slice_key(info, host->id, pod->first_hosts);
    return topology_join_slice(pod, host, info);
}

// Whether another host claims the place of this one in its slice.
static enum pod_code topology_check_slice(const struct pod *pod,
                                          const struct pod_host *host,
                                          const struct pod_host_info *info,
                                          struct pod_slice_key slice,
                                          struct pod_err *err)
{
    if (info->slice_hosts == 1)
        return POD_OK;
    const struct pod_host *other =
        topology_in_slice(pod, slice, info->slice_host, host);
    if (other == NULL)
        return POD_OK;
    return pod_err_set(err, POD_REASON_WORKER_ERROR,
                       "host says it is number %d of its slice, and so does "
                       "host %u",
                       info->slice_host, other->id);
}

// Whether the worker serves another host already: one machine has many names.
static enum pod_code topology_check_worker(const struct pod *pod,
                                           const struct pod_host *host,
                                           const struct pod_host_info *info,
                                           struct pod_err *err)
{
    size_t cursor = 0;
    const struct pod_host *other;

    while (info->worker != 0 && (other = pod_host_next(pod, &cursor)) != NULL) {
        if (other != host && pod_host_up(other) && other->info != NULL &&
            other->info->worker == info->worker)
            return pod_err_set(
                err, POD_REASON_WORKER_ERROR,
                "this worker already serves host %u, which has the "
                "address %s",
                other->id, other->address);
    }
    return POD_OK;
}

static void topology_take_info(struct pod *pod, struct pod_host *host,
                               struct pod_host_info *info,
                               struct pod_slice_key slice)
{
    pod_host_info_free(host->info);
    host->info = info;
    host->slice = slice;
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
    struct pod_slice_key slice = topology_slice(pod, host, owned_info);
    enum pod_code code = POD_OK;

    host->answered = true;
    if (host->info != NULL)
        code = pod_host_info_same(host->info, owned_info, err);
    if (code == POD_OK)
        code = topology_check_worker(pod, host, owned_info, err);
    if (code == POD_OK)
        code = topology_check_slice(pod, host, owned_info, slice, err);
    if (code != POD_OK) {
        pod_host_info_free(owned_info);
        (void)topology_settle(pod);
        return code;
    }
    topology_take_info(pod, host, owned_info, slice);
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

void pod_topology_forget_locked(struct pod *pod, struct pod_host *host)
{
    for (uint32_t i = 0; host->placed && i < host->core_count; i++)
        topology_spare_core(pod, host->first_core + i);
}

void pod_topology_fini(struct pod *pod)
{
    struct pod_list *item;
    size_t cursor = 0;
    struct pod_host *host;

    while ((item = pod_list_pop_front(&pod->spare_cores)) != NULL)
        pod_free(POD_CONTAINER(item, struct pod_core, spare_link));
    for (size_t i = 0; i < pod->core_count; i++)
        pod_free(pod->cores[i]);
    pod_free(pod->cores);
    pod_free(pod->chips);
    pod->cores = NULL;
    pod->chips = NULL;
    pod->core_count = 0;
    pod->chip_count = 0;
    while ((host = pod_host_next(pod, &cursor)) != NULL) {
        pod_host_info_free(host->info);
        host->info = NULL;
    }
}
