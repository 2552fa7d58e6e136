// SPDX-License-Identifier: Apache-2.0
#include "core/base/mem.h"
#include "proto/grpc_driver_internal.h"

struct gd_info *gd_info_new(size_t core_count, size_t chip_count,
                            const char *platform, const char *version)
{
    struct gd_info *info = pod_calloc(1, sizeof(*info));

    if (info == NULL)
        return NULL;
    info->platform = pod_strdup(platform);
    info->version = pod_strdup(version);
    info->cores = pod_calloc(core_count, sizeof(*info->cores));
    info->chips = pod_calloc(chip_count, sizeof(*info->chips));
    if (info->platform == NULL || info->version == NULL ||
        info->cores == NULL || info->chips == NULL) {
        gd_info_free(info);
        return NULL;
    }
    info->info = (struct pod_driver_info){
        .platform = info->platform,
        .version = info->version,
        .cores = info->cores,
        .core_count = core_count,
        .chips = info->chips,
        .chip_count = chip_count,
    };
    return info;
}

void gd_info_free(struct gd_info *info)
{
    if (info == NULL)
        return;
    pod_free(info->platform);
    pod_free(info->version);
    pod_free(info->cores);
    pod_free(info->chips);
    pod_free(info);
}
