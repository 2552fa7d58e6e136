// SPDX-License-Identifier: Apache-2.0
// Which chips and cores of a slice one host has, as its driver wants them.
#ifndef POD_SERVER_HOST_SHARE_H
#define POD_SERVER_HOST_SHARE_H

#include <stdint.h>

#include "core/device/reference/reference.h"
#include "core/driver/driver.h"
#include "core/driver/inproc.h"
#include "proto/slice.h"

struct host_share {
    struct pod_driver_chip *chips; // by rising id
    uint32_t chip_count;
    uint32_t *core_chips; // index in chips of each core
    uint32_t core_count;
};

// The share of slice->host_id. Freed with host_share_fini, also after a
// failure. OUT_OF_MEMORY.
enum pod_code host_share_init(const struct worker_slice *slice,
                              struct host_share *share, struct pod_err *err)
    __attribute__((warn_unused_result));
void host_share_fini(struct host_share *share);

// An in-process driver around a reference device, both with the share's chips
// and cores; all else is as `device` and `options` say. The caller owns it.
enum pod_code host_share_new_driver(const struct host_share *share,
                                    struct pod_reference_options device,
                                    struct pod_inproc_options options,
                                    struct pod_driver **out_driver,
                                    struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
