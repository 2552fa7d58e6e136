// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/near_worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "proto/cloud_service.h"
#include "proto/gang_link.h"
#include "proto/peers.h"
#include "proto/pod_service.h"
#include "proto/rpc_server.h"
#include "proto/worker.h"

struct near_worker {
    struct worker *worker;
    struct rpc_loop *loop;
    struct peers *peers;
    struct pod_gang_hub *hub;
    struct gang_links *gangs;
    struct pod_service *service;
    struct cloud_service *cloud;
    struct rpc_server *server;
};

static void near_worker_tick(void *arg)
{
    struct near_worker *near = arg;

    worker_tick(near->worker);
    if (near->gangs != NULL)
        gang_links_tick(near->gangs);
}

static void near_worker_serve(struct near_worker *near)
{
    struct rpc_method methods[POD_SERVICE_METHODS + CLOUD_METHODS];
    struct rpc_server_options options = {
        .listen = "127.0.0.1:0",
        .methods = methods,
        .tick_ns = POD_NS_PER_S / 4,
        .tick = near_worker_tick,
        .tick_arg = near,
    };
    struct pod_err err;

    if (near->cloud != NULL) {
        cloud_service_methods(near->cloud, methods);
        options.method_count = CLOUD_METHODS;
    } else {
        pod_service_methods(near->service, methods);
        options.method_count = POD_SERVICE_METHODS;
    }
    assert_int_equal(rpc_server_new(near->loop, &options, &near->server, &err),
                     POD_OK);
}

static struct near_worker *near_worker_new(struct pod_driver *owned_driver)
{
    struct near_worker *near = pod_calloc(1, sizeof(*near));
    struct worker_options options = {
        .driver = owned_driver,
        .clock = pod_clock_system,
        .gone_ns = 30 * POD_NS_PER_S,
    };
    struct pod_err err;

    assert_non_null(near);
    assert_int_equal(worker_new(&options, &near->worker, &err), POD_OK);
    assert_int_equal(rpc_loop_new(&near->loop, &err), POD_OK);
    return near;
}

struct near_worker *near_worker_start(struct pod_driver *owned_driver,
                                      struct pod_gang_hub *hub, uint32_t chips)
{
    struct near_worker *near = near_worker_new(owned_driver);

    near->peers = peers_new(near->loop, NULL);
    assert_non_null(near->peers);
    if (hub != NULL) {
        near->hub = pod_gang_hub_ref(hub);
        near->gangs = gang_links_new(near->hub, near->peers);
        assert_non_null(near->gangs);
    }
    struct pod_service_options service = {
        .worker = near->worker,
        .slice = {.x = chips,
                  .y = 1,
                  .z = 1,
                  .cores_per_chip = 1,
                  .hosts = 1,
                  .hbm_bytes = 1},
        .incarnation = (uint64_t)(uintptr_t)near,
        .peers = near->peers,
        .gangs = near->gangs,
    };
    near->service = pod_service_new(&service);
    assert_non_null(near->service);
    near_worker_serve(near);
    return near;
}

struct near_worker *near_worker_start_plain(struct pod_driver *owned_driver,
                                            const struct worker_slice *slice)
{
    struct near_worker *near = near_worker_new(owned_driver);
    struct cloud_options options = {
        .worker = near->worker,
        .slice = *slice,
        .first_client = 1 + slice->host_id,
        .idle_seconds = 3600,
    };

    near->cloud = cloud_service_new(&options);
    assert_non_null(near->cloud);
    near_worker_serve(near);
    return near;
}

const char *near_worker_address(const struct near_worker *near)
{
    return rpc_server_address(near->server);
}

void near_worker_stop(struct near_worker *near)
{
    if (near == NULL)
        return;
    rpc_server_stop(near->server, 0);
    worker_stop(near->worker);
    rpc_server_free(near->server);
    gang_links_stop(near->gangs);
    peers_free(near->peers);
    rpc_loop_free(near->loop);
    worker_free(near->worker);
    pod_service_free(near->service);
    cloud_service_free(near->cloud);
    gang_links_free(near->gangs);
    pod_gang_hub_unref(near->hub);
    pod_free(near);
}
