// SPDX-License-Identifier: Apache-2.0
// The hosts of an embedded pod: each a device with a driver of its own, around
// it the fault driver if a script was given. Those of the start share one box
// of chips; one that is added later stands alone, beside them.
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/device/reference/reference.h"
#include "core/driver/fault.h"
#include "core/driver/inproc.h"
#include "core/driver/rendezvous.h"
#include "server/host_share.h"
#include "server/pod_spec.h"

struct pod_spec_shared {
    struct pod_spec spec;
    struct pod *pod;
    struct pod_gang_hub *hub;
};

// Chips are dealt in id order.
static struct worker_slice hosts_slice(const struct pod_spec *spec,
                                       uint32_t host)
{
    return (struct worker_slice){
        .x = spec->x,
        .y = spec->y,
        .z = spec->z,
        .cores_per_chip = spec->cores_per_chip,
        .host_id = host,
        .hosts = spec->hosts,
    };
}

static enum pod_code
hosts_new_driver(const struct pod_spec *spec, uint32_t host,
                 const struct host_share *share, struct pod_gang_hub *hub,
                 struct pod_driver **out_driver, struct pod_err *err)
{
    bool later = host >= spec->hosts;
    const struct pod_reference_options device = {
        .memory_bytes = spec->hbm_bytes,
        .latency_ns = spec->latency_ns,
        .bandwidth = (double)spec->bandwidth,
        .flops = spec->flops,
    };
    const struct pod_inproc_options options = {
        .hub = hub,
        .host = host,
        .host_count = later ? 1 : spec->hosts,
    };

    return host_share_new_driver(share, device, options, out_driver, err);
}

static enum pod_code hosts_wrap(const struct pod_spec *spec, uint32_t host,
                                struct pod_gang_hub *hub,
                                struct pod_driver **driver, struct pod_err *err)
{
    if (spec->fault[0] == '\0')
        return POD_OK;
    struct pod_fault_script script;
    enum pod_code code =
        pod_fault_parse(spec->fault, strlen(spec->fault), &script, err);
    if (code != POD_OK)
        return code;
    struct pod_driver *inner = *driver;
    return pod_fault_new(inner, hub, host, &script, driver, err);
}

// Makes the driver of one host. The chips of one that is added later lie as
// those of the first.
static enum pod_code hosts_make(void *arg, uint32_t host,
                                struct pod_driver **out_driver,
                                struct pod_err *err)
{
    const struct pod_spec_shared *shared = arg;
    const struct pod_spec *spec = &shared->spec;
    struct worker_slice slice =
        hosts_slice(spec, host < spec->hosts ? host : 0);
    struct host_share share = {.chips = NULL};
    struct pod_driver *driver = NULL;
    enum pod_code code =
        pod_gang_hub_add_host(shared->hub, host)
            ? host_share_init(&slice, &share, err)
            : pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (code == POD_OK)
        code = hosts_new_driver(spec, host, &share, shared->hub, &driver, err);
    host_share_fini(&share);
    if (code == POD_OK)
        code = hosts_wrap(spec, host, shared->hub, &driver, err);
    if (code == POD_OK)
        *out_driver = driver;
    else if (driver != NULL)
        driver->ops->free(driver);
    return code;
}

static void hosts_name(uint32_t host, char out_address[32])
{
    (void)snprintf(out_address, 32, "local:%u", host);
}

static enum pod_code hosts_add(struct pod_spec_shared *shared, uint32_t host,
                               struct pod_err *err)
{
    struct pod_driver *driver = NULL;
    char address[32];
    enum pod_code code = hosts_make(shared, host, &driver, err);

    hosts_name(host, address);
    return code == POD_OK ? pod_add_host(shared->pod, driver, address, err)
                          : code;
}

enum pod_code pod_spec_add_hosts(const struct pod_spec *spec, struct pod *pod,
                                 struct pod_spec_shared **out_shared,
                                 struct pod_err *err)
{
    struct pod_spec_shared *shared = pod_calloc(1, sizeof(*shared));
    if (shared != NULL)
        shared->hub = pod_gang_hub_new(spec->hosts);
    if (shared == NULL || shared->hub == NULL) {
        pod_spec_shared_free(shared);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    }
    shared->spec = *spec;
    shared->pod = pod;
    *out_shared = shared;
    enum pod_code code = POD_OK;
    for (uint32_t host = 0; host < spec->hosts && code == POD_OK; host++)
        code = hosts_add(shared, host, err);
    return code;
}

enum pod_code pod_spec_join(void *arg, const char *address, uint32_t *out_host,
                            struct pod_err *err)
{
    struct pod_spec_shared *shared = arg;
    const struct pod_driver_maker maker = {.make = hosts_make, .arg = shared};

    if (address == NULL || strcmp(address, "local") == 0)
        return pod_join_host(shared->pod, NULL, &maker, out_host, err);
    pod_err_set(err, POD_REASON_BAD_TEXT,
                "'%.64s': the hosts of an embedded pod have no address but "
                "\"local\"",
                address);
    pod_err_at(err, "/address");
    return err->code;
}

void pod_spec_shared_free(struct pod_spec_shared *shared)
{
    if (shared == NULL)
        return;
    pod_gang_hub_unref(shared->hub);
    pod_free(shared);
}
