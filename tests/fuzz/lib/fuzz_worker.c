// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/lib/fuzz_worker.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/device/reference/reference.h"
#include "core/driver/inproc.h"

enum {
    FUZZ_CORES = 2,
    FUZZ_MEMORY = 1 << 20,
    FUZZ_TURNS = 100, // of 100 us: programs may loop for ever
};

static void fuzz_check(bool good)
{
    if (!good)
        abort();
}

static const struct worker_slice fuzz_slice = {
    .x = FUZZ_CORES,
    .y = 1,
    .z = 1,
    .cores_per_chip = 1,
    .hosts = 1,
    .hbm_bytes = FUZZ_MEMORY,
};

static struct pod_driver *fuzz_driver(struct pod_gang_hub *hub)
{
    static const struct pod_driver_chip chips[FUZZ_CORES] = {{.x = 0},
                                                             {.x = 1}};
    static const uint32_t core_chips[FUZZ_CORES] = {0, 1};
    const struct pod_reference_options device = {
        .core_count = FUZZ_CORES,
        .memory_bytes = FUZZ_MEMORY,
        .scratch_bytes = FUZZ_MEMORY,
    };
    struct pod_inproc_options options = {
        .hub = hub,
        .host_count = 1,
        .chips = chips,
        .chip_count = FUZZ_CORES,
        .core_chips = core_chips,
    };
    struct pod_driver *driver = NULL;

    fuzz_check(pod_reference_device_new(&device, &options.device, NULL) ==
               POD_OK);
    fuzz_check(pod_inproc_new(&options, &driver, NULL) == POD_OK);
    return driver;
}

void fuzz_worker_start(struct fuzz_worker *fuzz)
{
    memset(fuzz, 0, sizeof(*fuzz));
    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT);
    fuzz->hub = pod_gang_hub_new(2);
    fuzz_check(fuzz->hub != NULL);
    struct worker_options options = {
        .driver = fuzz_driver(fuzz->hub),
        .clock = pod_clock_system,
        .gone_ns = POD_NS_PER_S,
        .staging_bytes = FUZZ_MEMORY,
    };
    fuzz_check(worker_new(&options, &fuzz->worker, NULL) == POD_OK);
    fuzz_check(rpc_loop_new(&fuzz->loop, NULL) == POD_OK);
    fuzz->peers = peers_new(fuzz->loop, NULL);
    fuzz->gangs = gang_links_new(fuzz->hub, fuzz->peers);
    struct pod_service_options pods = {.worker = fuzz->worker,
                                       .slice = fuzz_slice,
                                       .incarnation = 1,
                                       .peers = fuzz->peers,
                                       .gangs = fuzz->gangs};
    struct cloud_options cloud = {
        .worker = fuzz->worker, .slice = fuzz_slice, .first_client = 1};
    fuzz->pods = pod_service_new(&pods);
    fuzz->cloud = cloud_service_new(&cloud);
    fuzz_check(fuzz->pods != NULL && fuzz->cloud != NULL);
    pod_service_methods(fuzz->pods, fuzz->pod_methods);
    cloud_service_methods(fuzz->cloud, fuzz->cloud_methods);
}

void fuzz_worker_wait(struct fuzz_worker *fuzz)
{
    const struct timespec turn = {.tv_nsec = 100000};
    struct worker_load load = {.open = 1};

    for (int i = 0; i < FUZZ_TURNS && load.open > 0; i++) {
        nanosleep(&turn, NULL);
        worker_load_get(fuzz->worker, &load, NULL);
    }
}

void fuzz_worker_stop(struct fuzz_worker *fuzz)
{
    struct worker_core_load cores[FUZZ_CORES];
    struct worker_load load;

    worker_stop(fuzz->worker);
    worker_load_get(fuzz->worker, &load, cores);
    fuzz_check(load.open == 0 && load.sessions == 0);
    for (int i = 0; i < FUZZ_CORES; i++)
        fuzz_check(cores[i].memory_used == 0 && cores[i].queued == 0);
    gang_links_stop(fuzz->gangs);
    rpc_loop_free(fuzz->loop);
    peers_free(fuzz->peers);
    worker_free(fuzz->worker);
    pod_service_free(fuzz->pods);
    cloud_service_free(fuzz->cloud);
    gang_links_free(fuzz->gangs);
    pod_gang_hub_unref(fuzz->hub);
    fuzz_check(pod_mem_live() == 0);
}

const struct rpc_method *fuzz_worker_method(const struct fuzz_worker *fuzz,
                                            const char *name)
{
    for (size_t i = 0; i < POD_SERVICE_METHODS; i++) {
        if (strcmp(strrchr(fuzz->pod_methods[i].path, '/') + 1, name) == 0)
            return &fuzz->pod_methods[i];
    }
    for (size_t i = 0; i < CLOUD_METHODS; i++) {
        if (strcmp(strrchr(fuzz->cloud_methods[i].path, '/') + 1, name) == 0)
            return &fuzz->cloud_methods[i];
    }
    abort();
}
