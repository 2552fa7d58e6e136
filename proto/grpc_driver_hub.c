// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/mem.h"
#include "proto/grpc_driver_internal.h"

struct hub_host {
    struct gd *driver; // NULL: it is not there (any more)
    unsigned holds;    // threads that look at the driver
    uint64_t session;
    // Stays until the end of the hub: others name it when they write to
    // workers.
    char *address;
};

struct pod_grpc_hub {
    struct pod_mutex lock;
    struct pod_cond let_go; // some `holds` came to 0
    struct rpc_loop *loop;
    struct rpc_tls tls;
    bool has_tls;
    bool trusts_order;   // of plain workers
    uint64_t salt;       // makes names of gangs those of this pod alone
    uint32_t host_count; // grows
    struct hub_host *hosts;
};

static bool hub_copy(const char *from, const char **out_to)
{
    *out_to = from == NULL ? NULL : pod_strdup(from);
    return from == NULL || *out_to != NULL;
}

static bool hub_take_tls(struct pod_grpc_hub *hub, const struct rpc_tls *tls)
{
    if (tls == NULL)
        return true;
    hub->has_tls = true;
    return hub_copy(tls->ca, &hub->tls.ca) &&
           hub_copy(tls->cert, &hub->tls.cert) &&
           hub_copy(tls->key, &hub->tls.key) &&
           hub_copy(tls->peer_name, &hub->tls.peer_name);
}

static enum pod_code hub_fill(struct pod_grpc_hub *hub,
                              const struct rpc_tls *tls, struct pod_err *err)
{
    if (!hub_take_tls(hub, tls))
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (getrandom(&hub->salt, sizeof(hub->salt), 0) != sizeof(hub->salt))
        return pod_err_set(err, POD_REASON_INTERNAL, "no random bytes: %s",
                           strerror(errno));
    return rpc_loop_new(&hub->loop, err);
}

enum pod_code pod_grpc_hub_new(const struct rpc_tls *tls,
                               struct pod_grpc_hub **out_hub,
                               struct pod_err *err)
{
    struct pod_grpc_hub *hub = pod_calloc(1, sizeof(*hub));

    if (hub == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    pod_mutex_init(&hub->lock, POD_RANK_GANG, "grpc hub");
    pod_cond_init(&hub->let_go);
    enum pod_code code = hub_fill(hub, tls, err);
    if (code == POD_OK)
        *out_hub = hub;
    else
        pod_grpc_hub_free(hub);
    return code;
}

static void hub_free_text(const char *text)
{
    char *block;

    memcpy(&block, &text, sizeof(block)); // a copy of hub_copy
    pod_free(block);
}

void pod_grpc_hub_free(struct pod_grpc_hub *hub)
{
    if (hub == NULL)
        return;
    rpc_loop_free(hub->loop);
    hub_free_text(hub->tls.ca);
    hub_free_text(hub->tls.cert);
    hub_free_text(hub->tls.key);
    hub_free_text(hub->tls.peer_name);
    for (uint32_t i = 0; i < hub->host_count; i++)
        pod_free(hub->hosts[i].address);
    pod_free(hub->hosts);
    pod_cond_fini(&hub->let_go);
    pod_mutex_fini(&hub->lock);
    pod_free(hub);
}

struct rpc_loop *gd_hub_loop(struct pod_grpc_hub *hub)
{
    return hub->loop;
}

const struct rpc_tls *gd_hub_tls(const struct pod_grpc_hub *hub)
{
    return hub->has_tls ? &hub->tls : NULL;
}

void pod_grpc_hub_trust_order(struct pod_grpc_hub *hub)
{
    hub->trusts_order = true;
}

bool gd_hub_trusts_order(const struct pod_grpc_hub *hub)
{
    return hub->trusts_order;
}

uint64_t gd_hub_salt(const struct pod_grpc_hub *hub)
{
    return hub->salt;
}

static bool hub_grow_locked(struct pod_grpc_hub *hub, uint32_t host)
{
    struct hub_host *hosts;

    if (host < hub->host_count)
        return true;
    hosts = pod_realloc(hub->hosts, (size_t)host + 1, sizeof(*hosts));
    if (hosts == NULL)
        return false;
    memset(hosts + hub->host_count, 0,
           (host + 1 - hub->host_count) * sizeof(*hosts));
    hub->hosts = hosts;
    hub->host_count = host + 1;
    return true;
}

bool gd_hub_join(struct pod_grpc_hub *hub, struct gd *driver)
{
    char *address = pod_strdup(driver->address);

    pod_mutex_lock(&hub->lock);
    bool joined = address != NULL && hub_grow_locked(hub, driver->host);
    if (joined) {
        pod_free(hub->hosts[driver->host].address);
        hub->hosts[driver->host] =
            (struct hub_host){.driver = driver, .address = address};
    }
    pod_mutex_unlock(&hub->lock);
    if (!joined)
        pod_free(address);
    return joined;
}

void gd_hub_leave(struct pod_grpc_hub *hub, const struct gd *driver)
{
    pod_mutex_lock(&hub->lock);
    if (driver->host < hub->host_count &&
        hub->hosts[driver->host].driver == driver) {
        hub->hosts[driver->host].driver = NULL;
        hub->hosts[driver->host].session = 0;
        while (hub->hosts[driver->host].holds > 0)
            pod_cond_wait(&hub->let_go, &hub->lock);
    }
    pod_mutex_unlock(&hub->lock);
}

void gd_hub_set_session(struct pod_grpc_hub *hub, uint32_t host,
                        uint64_t session)
{
    pod_mutex_lock(&hub->lock);
    if (host < hub->host_count)
        hub->hosts[host].session = session;
    pod_mutex_unlock(&hub->lock);
}

uint64_t gd_hub_session(struct pod_grpc_hub *hub, uint32_t host)
{
    uint64_t session = 0;

    pod_mutex_lock(&hub->lock);
    if (host < hub->host_count)
        session = hub->hosts[host].session;
    pod_mutex_unlock(&hub->lock);
    return session;
}

struct gd *gd_hub_hold(struct pod_grpc_hub *hub, uint32_t host)
{
    struct gd *driver = NULL;

    pod_mutex_lock(&hub->lock);
    if (host < hub->host_count)
        driver = hub->hosts[host].driver;
    if (driver != NULL)
        hub->hosts[host].holds++;
    pod_mutex_unlock(&hub->lock);
    return driver;
}

void gd_hub_let_go(struct pod_grpc_hub *hub, uint32_t host)
{
    pod_mutex_lock(&hub->lock);
    if (--hub->hosts[host].holds == 0)
        pod_cond_broadcast(&hub->let_go);
    pod_mutex_unlock(&hub->lock);
}

const char *gd_hub_address(struct pod_grpc_hub *hub, uint32_t host)
{
    const char *address = NULL;

    pod_mutex_lock(&hub->lock);
    if (host < hub->host_count && hub->hosts[host].driver != NULL)
        address = hub->hosts[host].address;
    pod_mutex_unlock(&hub->lock);
    return address;
}
