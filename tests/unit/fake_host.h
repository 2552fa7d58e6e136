// SPDX-License-Identifier: Apache-2.0
// A host for tests: an in-process driver around a fake device, maybe with the
// fault driver around it.
#ifndef TESTS_UNIT_FAKE_HOST_H
#define TESTS_UNIT_FAKE_HOST_H

#include "tests/unit/driver_calls.h"

#include "core/base/clock.h"
#include "core/driver/fault.h"
#include "core/driver/inproc.h"
#include "tests/unit/fake_device.h"

enum { HOST_BYTES = 1 << 20 };

struct host {
    struct calls_watch watch;
    struct fake_device *fake;
    struct pod_driver *driver;
};

static inline void host_make(struct host *host, uint32_t cores,
                             struct pod_gang_hub *hub, uint32_t index)
{
    static const struct pod_driver_chip chips[] = {{.x = 0}, {.x = 1}};
    static const uint32_t core_chips[FAKE_MAX_REPLICAS] = {0, 1};
    struct pod_err err;

    calls_watch_init(&host->watch);
    host->fake = fake_new(cores, HOST_BYTES);
    struct pod_inproc_options options = {
        .device = &host->fake->base,
        .hub = hub,
        .host = index,
        .host_count = 2,
        .chips = chips,
        .chip_count = 2,
        .core_chips = core_chips,
        .heartbeat_ns = POD_NS_PER_S / 100,
    };
    assert_int_equal(pod_inproc_new(&options, &host->driver, &err), POD_OK);
}

static inline void host_open(struct host *host, uint32_t cores,
                             struct pod_gang_hub *hub, uint32_t index)
{
    struct pod_driver_observer observer = calls_observer(&host->watch);

    host_make(host, cores, hub, index);
    host->driver->ops->open(host->driver, &observer);
    calls_await(&host->watch, &host->watch.ready, 1);
}

// Buffers 1..6 hold their number, `gate` is load 11, `increment` load 13.
static inline void host_with_gate(struct host *host)
{
    host_open(host, 1, NULL, 0);
    for (uint64_t i = 1; i <= 6; i++) {
        calls_allocate(&host->watch, host->driver, i, 0, 4);
        calls_write_s32(&host->watch, host->driver, 100 + i, i, (int32_t)i);
    }
    calls_program(&host->watch, host->driver, 10, 0, "gate");
    calls_program(&host->watch, host->driver, 12, 0, "increment");
}

static inline void host_close(struct host *host)
{
    host->driver->ops->close(host->driver);
    host->driver->ops->free(host->driver);
    assert_int_equal(host->watch.inlined, 0);
    assert_int_equal(host->watch.late, 0);
    calls_watch_fini(&host->watch);
}

#endif
