// SPDX-License-Identifier: Apache-2.0
#include "proto/peers.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/mem.h"

enum { PEERS_KEEPALIVE_S = 2 };

struct peers_entry {
    struct pod_list link;
    struct rpc_channel *channel;
    char address[];
};

struct peers {
    struct pod_mutex lock; // guards the list and the channels in it
    struct pod_list entries;
    size_t count;
    struct rpc_loop *loop;
    bool secure;
    char *ca;
    char *cert;
    char *key;
};

static bool peers_copy(char **out, const char *text)
{
    if (text == NULL)
        return true;
    *out = pod_strdup(text);
    return *out != NULL;
}

struct peers *peers_new(struct rpc_loop *loop, const struct rpc_tls *tls)
{
    struct peers *peers = pod_calloc(1, sizeof(*peers));
    if (peers == NULL)
        return NULL;
    pod_mutex_init(&peers->lock, POD_RANK_DRIVER, "peers");
    pod_list_init(&peers->entries);
    peers->loop = loop;
    peers->secure = tls != NULL;
    if (tls == NULL || (peers_copy(&peers->ca, tls->ca) &&
                        peers_copy(&peers->cert, tls->cert) &&
                        peers_copy(&peers->key, tls->key)))
        return peers;
    peers_free(peers);
    return NULL;
}

void peers_free(struct peers *peers)
{
    struct pod_list *item;
    if (peers == NULL)
        return;
    while ((item = pod_list_pop_front(&peers->entries)) != NULL) {
        struct peers_entry *entry =
            POD_CONTAINER(item, struct peers_entry, link);
        rpc_channel_free(entry->channel);
        pod_free(entry);
    }
    pod_free(peers->ca);
    pod_free(peers->cert);
    pod_free(peers->key);
    pod_mutex_fini(&peers->lock);
    pod_free(peers);
}

static enum pod_code peers_connect(const struct peers *peers,
                                   const char *address,
                                   struct rpc_channel **out_channel,
                                   struct pod_err *err)
{
    struct rpc_tls tls = {
        .ca = peers->ca, .cert = peers->cert, .key = peers->key};
    struct rpc_channel_options options = {
        .target = address,
        .tls = peers->secure ? &tls : NULL,
        .keepalive_ns = PEERS_KEEPALIVE_S * POD_NS_PER_S,
        .keepalive_timeout_ns = PEERS_KEEPALIVE_S * POD_NS_PER_S,
        // A connection may be dead and nobody knows, on either side.
        .retries = true,
    };
    return rpc_channel_new(peers->loop, &options, out_channel, err);
}

static enum pod_code peers_add_locked(struct peers *peers, const char *address,
                                      struct rpc_channel **out_channel,
                                      struct pod_err *err)
{
    size_t length = strlen(address);
    if (peers->count == PEERS_MAX)
        return pod_err_set(err, POD_REASON_TOO_MANY_REQUESTS,
                           "%d other workers are connected", PEERS_MAX);
    struct peers_entry *entry = pod_calloc(1, sizeof(*entry) + length + 1);
    if (entry == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    memcpy(entry->address, address, length + 1);
    enum pod_code code = peers_connect(peers, address, &entry->channel, err);
    if (code != POD_OK) {
        pod_free(entry);
        return code;
    }
    pod_list_push_back(&peers->entries, &entry->link);
    peers->count++;
    *out_channel = entry->channel;
    return POD_OK;
}

// The channel to an address; it is connected, or may come to be.
static enum pod_code peers_find_locked(struct peers *peers, const char *address,
                                       struct rpc_channel **out_channel,
                                       struct pod_err *err)
{
    struct rpc_channel *fresh = NULL;
    struct peers_entry *entry = NULL;
    for (struct pod_list *item = peers->entries.next;
         item != &peers->entries && entry == NULL; item = item->next) {
        entry = POD_CONTAINER(item, struct peers_entry, link);
        if (strcmp(entry->address, address) != 0)
            entry = NULL;
    }
    if (entry == NULL)
        return peers_add_locked(peers, address, out_channel, err);
    if (rpc_channel_state(entry->channel, false) == RPC_FAILING) {
        enum pod_code code = peers_connect(peers, address, &fresh, err);
        if (code != POD_OK)
            return code;
        // What would be tried again on it could not go on either.
        rpc_channel_free(entry->channel);
        entry->channel = fresh;
    }
    *out_channel = entry->channel;
    return POD_OK;
}

enum pod_code peers_open(struct peers *peers, const char *address,
                         const char *method,
                         const struct rpc_stream_settings *settings,
                         const struct rpc_stream_events *events, void *arg,
                         struct rpc_stream **out_stream, struct pod_err *err)
{
    struct rpc_channel *channel = NULL;
    pod_mutex_lock(&peers->lock);
    enum pod_code code = peers_find_locked(peers, address, &channel, err);
    if (code == POD_OK)
        code = rpc_stream_open(channel, method, settings, events, arg,
                               out_stream, err);
    pod_mutex_unlock(&peers->lock);
    return code;
}
