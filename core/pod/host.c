// SPDX-License-Identifier: Apache-2.0
// The life of a host: it is made, added before the start or while the pod runs,
// cordoned, drained, removed.
//
// Removing: under the engine's lock the host is lost for ever, and no call goes
// to its driver any more (what is still asked of it is answered LOST). Its own
// thread, woken for the last time, closes the driver, which answers what it
// has, and frees it. The record goes when the last operation that names the
// host has expired; threads that are about to empty its outbox hold it, too.
#include "core/pod/host.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/pod/compile.h"
#include "core/pod/outbox.h"

// -------------------------------------------------------------------- records

void pod_host_unref(struct pod_host *host)
{
    if (host == NULL || atomic_fetch_sub(&host->refs, 1) != 1)
        return;
    if (host->driver != NULL)
        host->driver->ops->free(host->driver);
    pod_mutex_fini(&host->outbox_lock);
    pod_cond_fini(&host->outbox_cond);
    pod_failure_unref(host->loss);
    pod_host_info_free(host->info);
    pod_free(host->address);
    pod_free(host);
}

static struct pod_host *host_new(struct pod *pod, const char *address)
{
    struct pod_host *host = pod_calloc(1, sizeof(*host));

    if (host == NULL)
        return NULL;
    atomic_store(&host->refs, 1);
    host->pod = pod;
    host->state = POD_HOST_CONNECTING;
    pod_list_init(&host->cordon_link);
    pod_list_init(&host->handles);
    pod_list_init(&host->owed);
    pod_list_init(&host->calls);
    pod_list_init(&host->drain_waiters);
    pod_list_init(&host->outbox);
    pod_list_init(&host->cancels);
    pod_mutex_init(&host->outbox_lock, POD_RANK_OUTBOX, "outbox");
    pod_cond_init(&host->outbox_cond);
    host->address = pod_strdup(address);
    if (host->address != NULL)
        return host;
    pod_host_unref(host);
    return NULL;
}

// Room in the table for one more.
static bool host_reserve(struct pod *pod)
{
    size_t capacity = pod->host_capacity < 8 ? 8 : 2 * pod->host_capacity;
    struct pod_host **hosts;

    if (pod->host_count < pod->host_capacity)
        return true;
    hosts = pod_realloc(pod->hosts, capacity, sizeof(struct pod_host *));
    if (hosts == NULL)
        return false;
    pod->hosts = hosts;
    pod->host_capacity = capacity;
    return true;
}

static void host_insert(struct pod *pod, struct pod_host *host)
{
    host->id = (uint32_t)pod->host_count;
    pod->hosts[pod->host_count++] = host;
    atomic_fetch_add(&pod->live_hosts, 1);
}

enum pod_code pod_add_host(struct pod *pod, struct pod_driver *owned_driver,
                           const char *address, struct pod_err *err)
{
    struct pod_host *host = host_new(pod, address);

    if (host == NULL || !host_reserve(pod)) {
        pod_host_unref(host);
        owned_driver->ops->free(owned_driver);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for host \"%s\"", address);
    }
    host->driver = owned_driver;
    host_insert(pod, host);
    pod->first_hosts = pod->host_count;
    pod_host_judge_locked(pod, host); // nobody else has the pod yet
    return POD_OK;
}

// The host, or NULL with err set: NOT_FOUND, EXPIRED (it was removed).
static struct pod_host *host_find_locked(const struct pod *pod, size_t id,
                                         struct pod_err *err)
{
    struct pod_host *host = pod_host_at(pod, id);

    if (host == NULL && id < pod->host_count)
        (void)pod_err_set(err, POD_REASON_EXPIRED, "host %zu was removed", id);
    else if (host == NULL)
        (void)pod_err_set(err, POD_REASON_NOT_FOUND,
                          "there is no host %zu: the pod has %zu", id,
                          atomic_load(&pod->live_hosts));
    return host;
}

// ------------------------------------------------------------------- counting

static void host_count(struct pod_host *host, bool takes_part)
{
    if (takes_part) {
        host->open_operations++;
        return;
    }
    assert(host->open_operations > 0);
    host->open_operations--;
    host->finished_operations++;
}

void pod_host_count_locked(struct pod *pod, const struct pod_op *op,
                           bool takes_part)
{
    if (op->host != POD_NO_ID)
        host_count(pod->hosts[op->host], takes_part);
    if (op->source != NULL && op->source->host != op->host)
        host_count(pod->hosts[op->source->host], takes_part);
    if (op->host != POD_NO_ID || op->replica_count == 0)
        return;
    pod->host_mark++; // each host of a gang once
    for (size_t i = 0; i < op->replica_count; i++) {
        struct pod_host *host = pod->hosts[op->replicas[i].host];
        if (host->mark == pod->host_mark)
            continue;
        host->mark = pod->host_mark;
        host_count(host, takes_part);
    }
}

// A call may be open longer than its operation: it is not known what it does.
static uint64_t host_to_do(const struct pod_host *host)
{
    return host->open_operations + !pod_list_empty(&host->calls);
}

// ----------------------------------------------------------------- conditions

static bool host_judge(struct pod_host *host, int64_t wall_ns)
{
    const struct pod_host_facts facts = {
        .state = host->state,
        .cordoned = host->cordoned,
        .known = host->incarnation > 0,
        .refused = host->refused,
        .to_do = host_to_do(host),
        .stalled = host->stalled_calls > 0,
    };
    struct pod_condition judged[POD_CONDITION_COUNT];
    bool changed = false;

    pod_host_judge(&facts, judged);
    for (int i = 0; i < POD_CONDITION_COUNT; i++)
        changed =
            pod_condition_take(&host->conditions[i], &judged[i], wall_ns) ||
            changed;
    return changed;
}

void pod_judge_locked(struct pod *pod)
{
    struct pod_facts facts = {
        .hosts = atomic_load(&pod->live_hosts),
        .draining = pod->phase >= POD_PHASE_DRAINING,
    };
    struct pod_condition judged;
    size_t cursor = 0;
    const struct pod_host *host;

    while ((host = pod_host_next(pod, &cursor)) != NULL)
        facts.up += pod_host_up(host);
    pod_judge(&facts, &judged);
    (void)pod_condition_take(&pod->ready, &judged,
                             pod_clock_wall(&pod->options.clock));
    pod_judge_stalled(!pod_list_empty(&pod->stalls), &judged);
    (void)pod_condition_take(&pod->stalled, &judged,
                             pod_clock_wall(&pod->options.clock));
}

void pod_host_judge_locked(struct pod *pod, struct pod_host *host)
{
    (void)host_judge(host, pod_clock_wall(&pod->options.clock));
    pod_judge_locked(pod);
}

static bool host_is_drained(const struct pod_host *host)
{
    return host->cordoned && host_to_do(host) == 0;
}

static void host_wake(struct pod *pod, struct pod_host *host,
                      struct pod_after *after)
{
    if (pod_list_empty(&host->drain_waiters))
        return;
    pod_list_splice(&pod->woken, &host->drain_waiters);
    after->notify = true;
}

void pod_host_drained_locked(struct pod *pod, struct pod_after *after)
{
    for (struct pod_list *at = pod->cordoned.next; at != &pod->cordoned;
         at = at->next) {
        struct pod_host *host = POD_CONTAINER(at, struct pod_host, cordon_link);
        bool drained = host_is_drained(host);
        if (drained != (host->conditions[POD_CONDITION_DRAINED].status ==
                        POD_CONDITION_TRUE))
            pod_changed_host_locked(pod, host);
        if (drained)
            host_wake(pod, host, after);
    }
}

void pod_host_wake_all_locked(struct pod *pod)
{
    size_t cursor = 0;
    struct pod_host *host;

    while ((host = pod_host_next(pod, &cursor)) != NULL)
        pod_list_splice(&pod->woken, &host->drain_waiters);
}

bool pod_wait_drained(struct pod *pod, struct pod_waiter *waiter, uint32_t id)
{
    pod_mutex_lock(&pod->lock);
    struct pod_host *host = pod_host_at(pod, id);
    waiter->number = id;
    waiter->held = NULL;
    waiter->registered = host != NULL && !host_is_drained(host) &&
                         pod->phase == POD_PHASE_RUNNING;
    if (waiter->registered)
        pod_list_push_back(&host->drain_waiters, &waiter->link);
    pod_mutex_unlock(&pod->lock);
    return waiter->registered;
}

// ------------------------------------------------------------------ operating

static void host_set_cordon(struct pod *pod, struct pod_host *host, bool cordon,
                            struct pod_after *after)
{
    host->cordoned = cordon;
    pod_list_remove(&host->cordon_link);
    if (cordon)
        pod_list_push_back(&pod->cordoned, &host->cordon_link);
    if (pod_host_up(host))
        host->state = cordon ? POD_HOST_CORDONED : POD_HOST_READY;
    pod_changed_host_locked(pod, host);
    // Nobody waits on for what was called off.
    if (!cordon || host_is_drained(host))
        host_wake(pod, host, after);
}

enum pod_code pod_cordon(struct pod *pod, uint32_t id, bool cordon,
                         struct pod_err *err)
{
    struct pod_after after;

    pod_enter(pod, &after);
    struct pod_host *host = host_find_locked(pod, id, err);
    enum pod_host_state before = POD_HOST_LOST;
    enum pod_host_state state = POD_HOST_LOST;
    if (host != NULL) {
        atomic_fetch_add(&host->refs, 1); // until the log is told
        before = host->state;
        host_set_cordon(pod, host, cordon, &after);
        state = host->state;
    }
    pod_leave(pod, &after);
    if (state != before)
        pod_note_host(POD_LOG_INFO, host, state, NULL);
    pod_host_unref(host);
    return host == NULL ? POD_NOT_FOUND : POD_OK;
}

enum pod_code pod_reconnect(struct pod *pod, uint32_t id, struct pod_err *err)
{
    struct pod_after after;

    pod_enter(pod, &after);
    struct pod_host *host = host_find_locked(pod, id, err);
    if (host != NULL &&
        (pod->phase == POD_PHASE_RUNNING || pod->phase == POD_PHASE_DRAINING))
        pod_outbox_reconnect_locked(host, &after);
    pod_leave(pod, &after);
    return host == NULL ? POD_NOT_FOUND : POD_OK;
}

// --------------------------------------------------------------------- adding

static enum pod_code host_may_join_locked(struct pod *pod, const char *address,
                                          struct pod_err *err)
{
    size_t cursor = 0;
    const struct pod_host *host;

    if (pod->phase != POD_PHASE_RUNNING)
        return pod_err_set(err, POD_REASON_DRAINING, "the pod is draining");
    while ((host = pod_host_next(pod, &cursor)) != NULL && address != NULL) {
        if (strcmp(host->address, address) == 0)
            return pod_err_set(err, POD_REASON_HOST_EXISTS,
                               "host %u already has the address \"%s\"",
                               host->id, address);
    }
    if (atomic_load(&pod->live_hosts) >= POD_MAX_HOSTS)
        return pod_err_limit(err, POD_REASON_TOO_MANY_HOSTS, "hosts",
                             atomic_load(&pod->live_hosts), POD_MAX_HOSTS);
    if (!host_reserve(pod))
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for one more host");
    return POD_OK;
}

// The id that the next host gets: only who has the join lock adds hosts.
static enum pod_code host_next_id(struct pod *pod, const char *address,
                                  uint32_t *out_id, struct pod_err *err)
{
    pod_mutex_lock(&pod->lock);
    enum pod_code code = host_may_join_locked(pod, address, err);
    *out_id = (uint32_t)pod->host_count;
    pod_mutex_unlock(&pod->lock);
    return code;
}

// A host that never was in the table: its thread and its driver end here.
static void host_give_up(struct pod_host *host)
{
    pod_outbox_stop(host);
    pod_host_unref(host);
}

static enum pod_code host_make(struct pod *pod, const char *address,
                               const struct pod_driver_maker *maker,
                               uint32_t id, struct pod_host **out_host,
                               struct pod_err *err)
{
    struct pod_host *host = host_new(pod, address);

    if (host == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for host \"%s\"", address);
    host->id = id; // as it will be in the table: hosts join one at a time
    enum pod_code code = maker->make(maker->arg, id, &host->driver, err);
    if (code == POD_OK)
        code = pod_outbox_start(host, err);
    if (code == POD_OK)
        *out_host = host;
    else
        host_give_up(host);
    return code;
}

// Into the table, if the pod still takes hosts.
static enum pod_code host_enter(struct pod *pod, struct pod_host *host,
                                struct pod_err *err)
{
    struct pod_after after;

    assert(host != NULL);
    pod_enter(pod, &after);
    enum pod_code code = host_may_join_locked(pod, host->address, err);
    if (code == POD_OK) {
        host_insert(pod, host);
        host->opened = true;
        host->opening = true;
        pod_changed_host_locked(pod, host);
    }
    pod_leave(pod, &after);
    return code;
}

// The driver is opened without the lock; who removed the host meanwhile has
// left its end to us.
static void host_open(struct pod *pod, struct pod_host *host)
{
    struct pod_driver_observer observer = pod_loss_observer(host);

    host->driver->ops->open(host->driver, &observer);
    pod_mutex_lock(&pod->lock);
    host->opening = false;
    bool removed = host->removed;
    pod_mutex_unlock(&pod->lock);
    if (removed)
        pod_outbox_end(host);
}

enum pod_code pod_join_host(struct pod *pod, const char *address,
                            const struct pod_driver_maker *maker,
                            uint32_t *out_id, struct pod_err *err)
{
    struct pod_host *host = NULL;
    uint32_t id = 0;
    char local[32];

    pod_mutex_lock(&pod->join_lock);
    enum pod_code code = host_next_id(pod, address, &id, err);
    if (address == NULL) {
        (void)snprintf(local, sizeof(local), "local:%u", id);
        address = local;
    }
    if (code == POD_OK)
        code = host_make(pod, address, maker, id, &host, err);
    if (code == POD_OK)
        code = host_enter(pod, host, err);
    if (code == POD_OK) {
        host_open(pod, host);
        *out_id = id;
    } else if (host != NULL) {
        host_give_up(host);
    }
    pod_mutex_unlock(&pod->join_lock);
    return code;
}

// ------------------------------------------------------------------- removing

static enum pod_code host_check_unused(const struct pod_host *host,
                                       struct pod_err *err)
{
    uint64_t buffers = 0;
    uint64_t loads = 0;
    uint64_t calls = 0;

    for (struct pod_list *at = host->handles.next; at != &host->handles;
         at = at->next) {
        const struct pod_handle *handle =
            POD_CONTAINER(at, struct pod_handle, host_link);
        if (handle->freed_by == 0)
            *(handle->maker->buffer != NULL ? &buffers : &loads) += 1;
    }
    for (const struct pod_list *at = host->calls.next; at != &host->calls;
         at = at->next)
        calls++;
    if (host_to_do(host) == 0 && buffers == 0 && loads == 0)
        return POD_OK;
    return pod_err_set(err, POD_REASON_IN_USE,
                       "host %u is in use (open operations: %llu, unanswered "
                       "calls: %llu, live buffers: %llu, loads: %llu): drain "
                       "it and free what lives there, or use force",
                       host->id, (unsigned long long)host->open_operations,
                       (unsigned long long)calls, (unsigned long long)buffers,
                       (unsigned long long)loads);
}

// False: somebody is just opening its driver, and ends it.
static bool host_leave(struct pod *pod, struct pod_host *host,
                       struct pod_after *after)
{
    struct pod_err why;

    pod_err_set(&why, POD_REASON_HOST_LOST, "it was removed");
    pod_loss_locked(pod, host, &why, after);
    host_wake(pod, host, after);
    pod_removed_host_locked(pod, host);
    pod_list_remove(&host->cordon_link);
    atomic_fetch_sub(&pod->live_hosts, 1);
    pod->reaping++;
    pod_outbox_abandon_locked(host, after);
    pod_judge_locked(pod);
    return !host->opening;
}

enum pod_code pod_remove_host(struct pod *pod, uint32_t id, bool force,
                              struct pod_err *err)
{
    struct pod_after after;
    bool ends = false;

    pod_enter(pod, &after);
    struct pod_host *host = host_find_locked(pod, id, err);
    enum pod_code code = host == NULL ? POD_NOT_FOUND : POD_OK;
    if (code == POD_OK && pod->phase != POD_PHASE_RUNNING &&
        pod->phase != POD_PHASE_DRAINING)
        code = pod_err_set(err, POD_REASON_DRAINING, "the pod is not running");
    if (code == POD_OK && !force)
        code = host_check_unused(host, err);
    if (code == POD_OK)
        ends = host_leave(pod, host, &after);
    pod_leave(pod, &after);
    if (ends)
        pod_outbox_end(host);
    return code;
}

void pod_host_release_locked(struct pod *pod, struct pod_host *host)
{
    if (!host->ended || host->kept_operations > 0)
        return;
    assert(pod_list_empty(&host->handles) && pod_list_empty(&host->calls));
    pod_topology_forget_locked(pod, host);
    pod_compiled_forget_host_locked(pod, host->id);
    pod->hosts[host->id] = NULL;
    pod_host_unref(host);
}

void pod_host_end(struct pod_host *host)
{
    struct pod *pod = host->pod;
    struct pod_after after;

    host->driver->ops->close(host->driver);
    host->driver->ops->free(host->driver);
    host->driver = NULL;
    pod_note_host(POD_LOG_INFO, host, POD_HOST_LOST, "it was removed");
    pod_enter(pod, &after);
    host->ended = true;
    pod_host_release_locked(pod, host);
    pod_leave(pod, &after);
    // The last touch of the pod: whoever stops it waits for that.
    pod_mutex_lock(&pod->lock);
    pod->reaping--;
    pod_cond_broadcast(&pod->idle_cond);
    pod_mutex_unlock(&pod->lock);
}
