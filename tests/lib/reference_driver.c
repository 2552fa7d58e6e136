// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/reference_driver.h"

#include <assert.h>
#include <stdlib.h>

#include "core/device/reference/reference.h"
#include "core/driver/inproc.h"

struct pod_driver *reference_driver_new(uint32_t cores, uint64_t memory_bytes,
                                        struct pod_gang_hub *hub)
{
    static const struct pod_driver_chip chips[REFERENCE_DRIVER_CORES] = {
        {.x = 0}, {.x = 1}};
    static const uint32_t core_chips[REFERENCE_DRIVER_CORES] = {0, 1};
    const struct pod_reference_options device = {.core_count = cores,
                                                 .memory_bytes = memory_bytes};
    struct pod_inproc_options options = {
        .hub = hub,
        .host_count = 1,
        .chips = chips,
        .chip_count = cores,
        .core_chips = core_chips,
    };
    struct pod_driver *driver = NULL;

    assert(cores >= 1 && cores <= REFERENCE_DRIVER_CORES);
    if (pod_reference_device_new(&device, &options.device, NULL) != POD_OK ||
        pod_inproc_new(&options, &driver, NULL) != POD_OK)
        abort();
    return driver;
}
