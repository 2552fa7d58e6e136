// SPDX-License-Identifier: Apache-2.0
// SystemInfo: every chip of the slice, and this machine's processor.
#include <stdlib.h>
#include <sys/sysinfo.h>

#include "core/base/mem.h"
#include "proto/cloud_internal.h"

// The message in blocks of memory, one for each kind of part.
struct info_parts {
    TpuDriver__SystemInfo info;
    TpuDriver__CpuInfo cpu;
    TpuDriver__TpuChipInfo *chips;
    TpuDriver__TpuChipInfo **chip_list;
    TpuDriver__ChipCoordinate *coordinates;
    TpuDriver__TpuCoreInfo *cores;
    TpuDriver__TpuCoreInfo **core_list;
    TpuDriver__TpuCoreInfo **local_list;
};

static void info_fini(struct info_parts *parts)
{
    pod_free(parts->chips);
    pod_free(parts->chip_list);
    pod_free(parts->coordinates);
    pod_free(parts->cores);
    pod_free(parts->core_list);
    pod_free(parts->local_list);
}

static bool info_init(struct info_parts *parts, uint32_t chips, uint32_t cores)
{
    parts->chips = pod_calloc(chips, sizeof(parts->chips[0]));
    parts->chip_list = pod_calloc(chips, sizeof(parts->chip_list[0]));
    parts->coordinates = pod_calloc(chips, sizeof(parts->coordinates[0]));
    parts->cores = pod_calloc(cores, sizeof(parts->cores[0]));
    parts->core_list = pod_calloc(cores, sizeof(parts->core_list[0]));
    parts->local_list = pod_calloc(cores, sizeof(parts->local_list[0]));
    return parts->chips != NULL && parts->chip_list != NULL &&
           parts->coordinates != NULL && parts->cores != NULL &&
           parts->core_list != NULL && parts->local_list != NULL;
}

static void info_cpu(TpuDriver__CpuInfo *cpu)
{
    struct sysinfo machine = {.mem_unit = 1};
    double load = 0;
    tpu_driver__cpu_info__init(cpu);
    (void)sysinfo(&machine);
    cpu->num_cpu_cores = get_nprocs();
    if (getloadavg(&load, 1) == 1)
        cpu->cpu_load_average_1min = (float)load;
    cpu->ram_bytes_total = (int64_t)(machine.totalram * machine.mem_unit);
    cpu->ram_bytes_available =
        (int64_t)((machine.freeram + machine.bufferram) * machine.mem_unit);
}

static void info_core(const struct worker_slice *slice,
                      struct info_parts *parts, uint32_t id, uint32_t *on_host)
{
    TpuDriver__TpuCoreInfo *core = &parts->cores[id];
    tpu_driver__tpu_core_info__init(core);
    core->id = (int32_t)id;
    core->has_core_on_chip_index = 1;
    core->core_on_chip_index = (int32_t)(id % slice->cores_per_chip);
    core->has_core_on_host_index = 1;
    core->core_on_host_index = (int32_t)(*on_host)++;
    core->has_hbm_bytes_available = 1;
    core->hbm_bytes_available = (int64_t)slice->hbm_bytes;
    core->has_hbm_bytes_allocatable = 1;
    core->hbm_bytes_allocatable = (int64_t)slice->hbm_bytes;
    parts->core_list[id] = core;
}

static void info_chip(const struct worker_slice *slice,
                      struct info_parts *parts, uint32_t id, uint32_t *on_host)
{
    TpuDriver__TpuChipInfo *chip = &parts->chips[id];
    TpuDriver__ChipCoordinate *at = &parts->coordinates[id];
    uint32_t host = worker_slice_host(slice, id);
    uint32_t first = id * slice->cores_per_chip;
    tpu_driver__tpu_chip_info__init(chip);
    tpu_driver__chip_coordinate__init(at);
    at->x = (int32_t)(id % slice->x);
    at->y = (int32_t)(id / slice->x % slice->y);
    at->z = (int32_t)(id / slice->x / slice->y);
    for (uint32_t i = 0; i < slice->cores_per_chip; i++)
        info_core(slice, parts, first + i, &on_host[host]);
    chip->n_core = slice->cores_per_chip;
    chip->core = &parts->core_list[first];
    chip->has_host_id = 1;
    chip->host_id = (int32_t)host;
    chip->chip_coord = at;
    parts->chip_list[id] = chip;
}

static void info_local(const struct worker_slice *slice,
                       struct info_parts *parts)
{
    uint32_t local = 0;
    for (uint32_t id = 0; id < worker_slice_cores(slice); id++) {
        if (worker_slice_host(slice, id / slice->cores_per_chip) ==
            slice->host_id)
            parts->local_list[local++] = parts->core_list[id];
    }
    parts->info.n_local_core = local;
    parts->info.local_core = parts->local_list;
}

static void info_fill(const struct worker_slice *slice,
                      struct info_parts *parts, uint32_t *on_host)
{
    TpuDriver__SystemInfo *info = &parts->info;
    uint32_t chips = worker_slice_chips(slice);
    tpu_driver__system_info__init(info);
    for (uint32_t id = 0; id < chips; id++)
        info_chip(slice, parts, id, on_host);
    info->n_tpu_chip = chips;
    info->tpu_chip = parts->chip_list;
    info_cpu(&parts->cpu);
    info->cpu = &parts->cpu;
    info_local(slice, parts);
    info->has_host_id = 1;
    info->host_id = (int32_t)slice->host_id;
    info->has_host_count = 1;
    info->host_count = (int32_t)slice->hosts;
    info->has_chip_count = 1;
    info->chip_count = (int32_t)chips;
    info->has_core_count = 1;
    info->core_count = (int32_t)worker_slice_cores(slice);
}

struct pod_wire_out *cloud_pack_info(const struct cloud_service *service)
{
    const struct worker_slice *slice = &service->slice;
    struct info_parts parts = {.chips = NULL};
    struct pod_wire_out *out = NULL;
    TpuDriver__QuerySystemInfoResponse response =
        TPU_DRIVER__QUERY_SYSTEM_INFO_RESPONSE__INIT;
    uint32_t *on_host = pod_calloc(slice->hosts, sizeof(on_host[0]));
    if (on_host != NULL && info_init(&parts, worker_slice_chips(slice),
                                     worker_slice_cores(slice))) {
        info_fill(slice, &parts, on_host);
        response.system_info = &parts.info;
        out = pod_wire_pack(&response.base);
    }
    pod_free(on_host);
    info_fini(&parts);
    return out;
}
