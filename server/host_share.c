// SPDX-License-Identifier: Apache-2.0
#include "server/host_share.h"

#include "core/base/mem.h"

enum pod_code host_share_init(const struct worker_slice *slice,
                              struct host_share *share, struct pod_err *err)
{
    uint32_t chips = worker_slice_share(slice);
    uint32_t cores = chips * slice->cores_per_chip;

    *share = (struct host_share){.chip_count = chips, .core_count = cores};
    share->chips = pod_calloc(chips, sizeof(*share->chips));
    share->core_chips = pod_calloc(cores, sizeof(*share->core_chips));
    if (share->chips == NULL || share->core_chips == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    for (uint32_t i = 0; i < chips; i++) {
        uint32_t id = worker_slice_own_chip(slice, i);
        share->chips[i] = (struct pod_driver_chip){
            .x = (int32_t)(id % slice->x),
            .y = (int32_t)(id / slice->x % slice->y),
            .z = (int32_t)(id / slice->x / slice->y),
            .host_id = (int32_t)slice->host_id,
        };
    }
    for (uint32_t i = 0; i < cores; i++)
        share->core_chips[i] = i / slice->cores_per_chip;
    return POD_OK;
}

void host_share_fini(struct host_share *share)
{
    pod_free(share->chips);
    pod_free(share->core_chips);
}

enum pod_code host_share_new_driver(const struct host_share *share,
                                    struct pod_reference_options device,
                                    struct pod_inproc_options options,
                                    struct pod_driver **out_driver,
                                    struct pod_err *err)
{
    device.core_count = share->core_count;
    options.chips = share->chips;
    options.chip_count = share->chip_count;
    options.core_chips = share->core_chips;
    enum pod_code code =
        pod_reference_device_new(&device, &options.device, err);
    if (code != POD_OK)
        return code;
    code = pod_inproc_new(&options, out_driver, err);
    if (code != POD_OK)
        options.device->ops->free(options.device);
    return code;
}
