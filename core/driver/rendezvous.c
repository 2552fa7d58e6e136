// SPDX-License-Identifier: Apache-2.0
// Happy path: join, arrive (the last one wakes all), any number of rounds, one
// for each collective and group, leave, unref; the record goes when all
// replicas have left and nobody holds it.
//
// Failures: the first sets `cause` and wakes all. A round that is complete is
// still handed out, so that all of its members see the same end of it.
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/driver/rendezvous_internal.h"

// --------------------------------------------------------------------- hub

struct pod_gang_hub *pod_gang_hub_new(uint32_t host_count)
{
    struct pod_gang_hub *hub = pod_calloc(1, sizeof *hub);

    if (hub == NULL)
        return NULL;
    hub->lost = pod_calloc(host_count, sizeof hub->lost[0]);
    if (hub->lost == NULL) {
        pod_free(hub);
        return NULL;
    }
    pod_mutex_init(&hub->lock, POD_RANK_GANG, "gang hub");
    pod_list_init(&hub->remembered);
    hub->refs = 1;
    hub->host_count = host_count;
    return hub;
}

bool pod_gang_hub_add_host(struct pod_gang_hub *hub, uint32_t host)
{
    pod_mutex_lock(&hub->lock);
    bool known = host < hub->host_count;
    bool *lost = known
                     ? hub->lost
                     : pod_realloc(hub->lost, (size_t)host + 1, sizeof lost[0]);
    if (!known && lost != NULL) {
        memset(lost + hub->host_count, 0, host + 1 - hub->host_count);
        hub->lost = lost;
        hub->host_count = host + 1;
    }
    pod_mutex_unlock(&hub->lock);
    return lost != NULL;
}

struct pod_gang_hub *pod_gang_hub_ref(struct pod_gang_hub *hub)
{
    pod_mutex_lock(&hub->lock);
    hub->refs++;
    pod_mutex_unlock(&hub->lock);
    return hub;
}

// The caller holds the hub's lock; nobody else knows the gang any more.
static void gang_free_locked(struct pod_gang *gang)
{
    pod_gang_drop_rounds(gang);
    (void)pod_map_remove(&gang->hub->gangs, gang->op);
    pod_cond_fini(&gang->all_arrived);
    pod_mutex_fini(&gang->lock);
    pod_free(gang);
}

static void hub_forget_locked(struct pod_gang_hub *hub, struct pod_gang *gang)
{
    pod_list_remove(&gang->link);
    hub->remembered_count--;
    gang_free_locked(gang);
}

void pod_gang_hub_unref(struct pod_gang_hub *hub)
{
    if (hub == NULL)
        return;
    pod_mutex_lock(&hub->lock);
    bool last = --hub->refs == 0;
    while (last && !pod_list_empty(&hub->remembered)) {
        struct pod_list *oldest = hub->remembered.next;
        hub_forget_locked(hub, POD_CONTAINER(oldest, struct pod_gang, link));
    }
    pod_mutex_unlock(&hub->lock);
    if (!last)
        return;
    assert(hub->gangs.count == 0);
    pod_map_fini(&hub->gangs);
    pod_mutex_fini(&hub->lock);
    pod_free(hub->lost);
    pod_free(hub);
}

void pod_gang_hub_tap(struct pod_gang_hub *hub, uint32_t host,
                      const struct pod_gang_tap *tap)
{
    hub->tapped = true;
    hub->tap_host = host;
    hub->tap = *tap;
}

bool pod_gang_tapped(const struct pod_gang *gang, uint32_t replica)
{
    return gang->hub->tapped &&
           gang->replicas[replica].host == gang->hub->tap_host;
}

// ------------------------------------------------------------------- abort

static void gang_wake_locked(struct pod_gang *gang)
{
    pod_cond_broadcast(&gang->all_arrived);
    for (struct pod_list *item = gang->rounds.next; item != &gang->rounds;
         item = item->next)
        pod_cond_broadcast(
            &POD_CONTAINER(item, struct gang_round, link)->complete);
}

// The first failure wins. A member that was itself aborted by another is never
// the first.
void pod_gang_abort_locked(struct pod_gang *gang, uint32_t replica,
                           const char *cause)
{
    if (gang->cause.code != POD_OK)
        return;
    (void)pod_err_set(&gang->cause, POD_REASON_GANG_ABORTED,
                      "gang aborted by replica %" PRIu32 ": %s", replica,
                      cause);
    gang_wake_locked(gang);
}

// A replica that runs elsewhere and ends well has seen all arrive; the news of
// another one's arrival there may come behind that of its end.
static bool gang_is_ahead(const struct pod_gang *gang, uint32_t replica)
{
    return gang->hub->tapped && !pod_gang_tapped(gang, replica) &&
           gang->replicas[replica].place == GANG_ARRIVED;
}

static void gang_leave_locked(struct pod_gang *gang, uint32_t replica,
                              const char *cause)
{
    struct gang_replica *self = &gang->replicas[replica];

    if (self->place == GANG_LEFT)
        return;
    if (cause == NULL && !gang->assembled && !gang_is_ahead(gang, replica))
        cause = "it ended before the others had arrived";
    self->place = GANG_LEFT;
    gang->left++;
    for (struct pod_list *item = gang->rounds.next;
         item != &gang->rounds && cause == NULL; item = item->next) {
        if (pod_round_awaits(POD_CONTAINER(item, struct gang_round, link),
                             replica))
            cause = "it ended while others waited for it in a collective";
    }
    if (cause != NULL)
        pod_gang_abort_locked(gang, replica, cause);
}

void pod_gang_leave(struct pod_gang *gang, uint32_t replica,
                    const struct pod_err *cause)
{
    if (replica >= gang->replica_count)
        return;
    pod_mutex_lock(&gang->lock);
    bool first = gang->replicas[replica].place != GANG_LEFT;
    gang_leave_locked(gang, replica, cause == NULL ? NULL : cause->text);
    pod_mutex_unlock(&gang->lock);
    if (first && pod_gang_tapped(gang, replica))
        gang->hub->tap.left(gang->hub->tap.arg, gang->op, replica, cause);
}

void pod_gang_wake(struct pod_gang *gang)
{
    pod_mutex_lock(&gang->lock);
    gang_wake_locked(gang);
    pod_mutex_unlock(&gang->lock);
}

// Says whether all replicas have left.
static bool gang_lose_host(struct pod_gang *gang, uint32_t host,
                           const struct pod_err *cause)
{
    pod_mutex_lock(&gang->lock);
    for (uint32_t i = 0; i < gang->replica_count; i++) {
        if (gang->replicas[i].host == host)
            gang_leave_locked(gang, i, cause->text);
    }
    bool empty = gang->left == gang->replica_count;
    pod_mutex_unlock(&gang->lock);
    return empty;
}

// Remembered gangs that nobody can come to any more.
static void hub_sweep_locked(struct pod_gang_hub *hub)
{
    struct pod_list *item = hub->remembered.next;

    while (item != &hub->remembered) {
        struct pod_gang *gang = POD_CONTAINER(item, struct pod_gang, link);
        item = item->next;
        if (gang->left == gang->replica_count)
            hub_forget_locked(hub, gang);
    }
}

void pod_gang_host_lost(struct pod_gang_hub *hub, uint32_t host,
                        const char *why)
{
    struct pod_err cause;
    size_t cursor = 0;
    uint64_t op;
    void *value;

    (void)pod_err_set(&cause, POD_REASON_HOST_LOST,
                      "host %" PRIu32 " was lost: %s", host, why);
    pod_mutex_lock(&hub->lock);
    if (host < hub->host_count) {
        hub->lost[host] = true;
        while (pod_map_next(&hub->gangs, &cursor, &op, &value))
            (void)gang_lose_host(value, host, &cause);
        hub_sweep_locked(hub);
    }
    pod_mutex_unlock(&hub->lock);
}

void pod_gang_host_present(struct pod_gang_hub *hub, uint32_t host)
{
    pod_mutex_lock(&hub->lock);
    if (host < hub->host_count)
        hub->lost[host] = false;
    pod_mutex_unlock(&hub->lock);
}

// -------------------------------------------------------------------- join

static enum pod_code hub_make_gang_locked(struct pod_gang_hub *hub, uint64_t op,
                                          uint32_t replica_count,
                                          const uint32_t *replica_hosts,
                                          struct pod_gang **out_gang,
                                          struct pod_err *err)
{
    struct pod_gang *gang =
        pod_calloc(1, sizeof *gang + replica_count * sizeof gang->replicas[0]);
    struct pod_err cause;

    if (gang == NULL || !pod_map_put(&hub->gangs, op, gang)) {
        pod_free(gang);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for a gang of %" PRIu32 " replicas",
                           replica_count);
    }
    pod_mutex_init(&gang->lock, POD_RANK_GANG + 1, "gang");
    pod_cond_init(&gang->all_arrived);
    pod_list_init(&gang->rounds);
    pod_list_init(&gang->link);
    gang->hub = hub;
    gang->exchange.all_gather = pod_gang_all_gather;
    gang->op = op;
    gang->replica_count = replica_count;
    for (uint32_t i = 0; i < replica_count; i++)
        gang->replicas[i].host = replica_hosts[i];
    for (uint32_t i = 0; i < replica_count; i++) {
        if (!hub->lost[replica_hosts[i]])
            continue;
        (void)pod_err_set(&cause, POD_REASON_HOST_LOST,
                          "host %" PRIu32 " is not connected",
                          replica_hosts[i]);
        (void)gang_lose_host(gang, replica_hosts[i], &cause);
    }
    *out_gang = gang;
    return POD_OK;
}

static enum pod_code hub_check_locked(const struct pod_gang_hub *hub,
                                      uint32_t replica_count,
                                      const uint32_t *replica_hosts,
                                      struct pod_err *err)
{
    if (replica_count == 0 || replica_count > POD_GANG_MAX_REPLICAS)
        return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                           "a gang of %" PRIu32 " replicas: 1 to %d can meet",
                           replica_count, POD_GANG_MAX_REPLICAS);
    for (uint32_t i = 0; i < replica_count; i++) {
        if (replica_hosts[i] >= hub->host_count)
            return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                               "replica %" PRIu32 " is on host %" PRIu32
                               ", but there are %" PRIu32 " hosts",
                               i, replica_hosts[i], hub->host_count);
    }
    return POD_OK;
}

// Whether a host gave the same gang as the one that came first.
static bool gang_is(const struct pod_gang *gang, uint32_t replica_count,
                    const uint32_t *replica_hosts)
{
    if (gang->replica_count != replica_count)
        return false;
    for (uint32_t i = 0; i < replica_count; i++) {
        if (gang->replicas[i].host != replica_hosts[i])
            return false;
    }
    return true;
}

static enum pod_code gang_join_locked(struct pod_gang_hub *hub, uint64_t op,
                                      uint32_t replica_count,
                                      const uint32_t *replica_hosts,
                                      struct pod_gang **out_gang,
                                      struct pod_err *err)
{
    struct pod_gang *gang = pod_map_get(&hub->gangs, op);

    if (gang == NULL)
        return hub_make_gang_locked(hub, op, replica_count, replica_hosts,
                                    out_gang, err);
    if (!gang_is(gang, replica_count, replica_hosts))
        return pod_err_set(
            err, POD_REASON_BAD_ASSIGNMENT,
            "gang %" PRIu64 " has other replicas on another host", op);
    if (gang->refs == 0) {
        pod_list_remove(&gang->link);
        hub->remembered_count--;
    }
    *out_gang = gang;
    return POD_OK;
}

enum pod_code pod_gang_join(struct pod_gang_hub *hub, uint64_t op,
                            uint32_t replica_count,
                            const uint32_t *replica_hosts,
                            struct pod_gang **out_gang, struct pod_err *err)
{
    struct pod_gang *gang = NULL;

    pod_mutex_lock(&hub->lock);
    enum pod_code code =
        hub_check_locked(hub, replica_count, replica_hosts, err);
    if (code == POD_OK)
        code =
            gang_join_locked(hub, op, replica_count, replica_hosts, &gang, err);
    if (code == POD_OK) {
        gang->refs++;
        *out_gang = gang;
    }
    pod_mutex_unlock(&hub->lock);
    return code;
}

void pod_gang_unref(struct pod_gang *gang)
{
    if (gang == NULL)
        return;
    struct pod_gang_hub *hub = gang->hub;
    pod_mutex_lock(&hub->lock);
    if (--gang->refs > 0) {
        pod_mutex_unlock(&hub->lock);
        return;
    }
    if (gang->left == gang->replica_count) {
        gang_free_locked(gang);
    } else {
        pod_list_push_back(&hub->remembered, &gang->link);
        hub->remembered_count++;
    }
    if (hub->remembered_count > POD_GANG_MAX_REMEMBERED)
        hub_forget_locked(
            hub, POD_CONTAINER(hub->remembered.next, struct pod_gang, link));
    pod_mutex_unlock(&hub->lock);
}

// ------------------------------------------------------------------ arrive

bool pod_gang_interrupted(struct pod_interrupt *interrupt)
{
    return interrupt != NULL && atomic_load(&interrupt->asked);
}

enum pod_code pod_gang_failure_locked(struct pod_gang *gang, uint32_t replica,
                                      struct pod_interrupt *interrupt,
                                      struct pod_err *err)
{
    if (gang->cause.code != POD_OK) {
        if (err != NULL)
            *err = gang->cause;
        return gang->cause.code;
    }
    assert(pod_gang_interrupted(interrupt));
    (void)interrupt;
    pod_gang_abort_locked(gang, replica, "it was cancelled");
    return pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                       "replica %" PRIu32 " was cancelled", replica);
}

// Whether it had not arrived before.
static bool gang_arrive(struct pod_gang *gang, uint32_t replica)
{
    pod_mutex_lock(&gang->lock);
    bool first = gang->replicas[replica].place == GANG_AWAITED;
    if (first) {
        gang->replicas[replica].place = GANG_ARRIVED;
        gang->arrived++;
        if (gang->arrived == gang->replica_count) {
            gang->assembled = true;
            pod_cond_broadcast(&gang->all_arrived);
        }
    }
    pod_mutex_unlock(&gang->lock);
    return first;
}

void pod_gang_arrive_elsewhere(struct pod_gang *gang, uint32_t replica)
{
    if (replica < gang->replica_count)
        (void)gang_arrive(gang, replica);
}

enum pod_code pod_gang_arrive(struct pod_gang *gang, uint32_t replica,
                              struct pod_interrupt *interrupt,
                              struct pod_err *err)
{
    enum pod_code code = POD_OK;

    if (replica >= gang->replica_count)
        return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                           "replica %" PRIu32 " of a gang of %" PRIu32, replica,
                           gang->replica_count);
    if (gang_arrive(gang, replica) && pod_gang_tapped(gang, replica))
        gang->hub->tap.arrived(gang->hub->tap.arg, gang->op, replica);
    pod_mutex_lock(&gang->lock);
    while (!gang->assembled && gang->cause.code == POD_OK &&
           !pod_gang_interrupted(interrupt))
        pod_cond_wait(&gang->all_arrived, &gang->lock);
    if (gang->cause.code != POD_OK || pod_gang_interrupted(interrupt))
        code = pod_gang_failure_locked(gang, replica, interrupt, err);
    pod_mutex_unlock(&gang->lock);
    return code;
}

struct pod_exchange *pod_gang_exchange(struct pod_gang *gang)
{
    return &gang->exchange;
}
