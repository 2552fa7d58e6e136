// SPDX-License-Identifier: Apache-2.0
// The life of the pod: made, started, drained, stopped; its lock and its timer.
//
// Stopping: what is open ends, the outboxes stop, the drivers are closed and
// answer all they have; only then are the records freed.
#include "core/pod/internal.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/pod/cancel.h"
#include "core/pod/compile.h"
#include "core/pod/complete.h"
#include "core/pod/effect.h"
#include "core/pod/op_new.h"
#include "core/pod/outbox.h"
#include "core/pod/settle.h"
#include "core/pod/staging.h"
#include "core/pod/stall.h"
#include "core/pod/transfer.h"

enum {
    POD_DEFAULT_CHUNK = 4 << 20,
    POD_DEFAULT_CHANGES = 128 * 1024,
    POD_GARBAGE_MAX = 64, // expired records that are left to submissions
};

static struct pod_failure *pod_new_fallback(const struct pod *pod)
{
    struct pod_err err;

    pod_err_set(&err, POD_REASON_OUT_OF_MEMORY,
                "there was no memory to say why");
    return pod_failure_new(pod, NULL, &err, false);
}

static void pod_init_lists(struct pod *pod)
{
    pod_list_init(&pod->open);
    pod_list_init(&pod->history);
    pod_list_init(&pod->garbage);
    pod_list_init(&pod->data);
    pod_list_init(&pod->compiled);
    pod_list_init(&pod->compiled_old);
    pod_list_init(&pod->programs);
    pod_list_init(&pod->local);
    pod_list_init(&pod->woken);
    pod_list_init(&pod->stalls);
    pod_list_init(&pod->spare_cores);
    pod_list_init(&pod->cordoned);
}

struct pod *pod_new(const struct pod_options *options)
{
    struct pod *pod = pod_calloc(1, sizeof(*pod));

    if (pod == NULL)
        return NULL;
    pod->options = *options;
    if (pod->options.chunk_bytes == 0)
        pod->options.chunk_bytes = POD_DEFAULT_CHUNK;
    if (pod->options.change_count == 0)
        pod->options.change_count = POD_DEFAULT_CHANGES;
    if (pod->options.history_count == 0)
        pod->options.history_count = 1;
    pod->last_number =
        options->first_number == 0 ? 0 : options->first_number - 1;
    pod->last_call = POD_CALL_BASE;
    pod->timer_ns = POD_NEVER;
    pod->stall_due_ns = POD_NEVER;
    pod->stall_period_ns = pod_stall_period(options->stall_after_ns);
    pod_mutex_init(&pod->lock, POD_RANK_ENGINE, "pod");
    pod_mutex_init(&pod->join_lock, POD_RANK_JOIN, "join");
    pod_mutex_init(&pod->staging_lock, POD_RANK_STAGING, "staging");
    pod_cond_init(&pod->timer_cond);
    pod_cond_init(&pod->idle_cond);
    pod_init_lists(pod);
    pod->now_ns = pod_now(pod);
    pod->sched = pod_sched_new();
    pod->fallback = pod_new_fallback(pod);
    if (pod_changes_init(&pod->changes, pod->options.change_count) &&
        pod->sched != NULL && pod->fallback != NULL && pod_notes_init(pod))
        return pod;
    pod_destroy(pod);
    return NULL;
}

// ------------------------------------------------------------------- the lock

void pod_enter(struct pod *pod, struct pod_after *after)
{
    *after = (struct pod_after){.pod = pod};
    pod_list_init(&after->lost);
    pod_list_init(&after->transfers);
    pod_list_init(&after->garbage);
    pod_mutex_lock(&pod->lock);
    (void)pod_now_locked(pod);
}

static int64_t pod_due_locked(const struct pod *pod)
{
    int64_t due = pod_sched_next_deadline(pod->sched);
    int64_t history = pod_history_due_locked(pod);
    int64_t data = pod_data_due_locked(pod);

    if (history < due)
        due = history;
    if (pod_stall_due_locked(pod) < due)
        due = pod_stall_due_locked(pod);
    return data < due ? data : due;
}

void pod_send(struct pod *pod)
{
    struct pod_kicked kicked;

    if (!atomic_load(&pod->has_unsent))
        return;
    pod_mutex_lock(&pod->lock);
    kicked = pod->unsent;
    pod->unsent.count = 0;
    atomic_store(&pod->has_unsent, false);
    pod_mutex_unlock(&pod->lock);
    pod_kicked_run(&kicked);
}

// What was to be sent at once is sent together with other things.
static void pod_send_later_locked(struct pod *pod, struct pod_kicked *kicked)
{
    for (size_t i = 0; i < kicked->count; i++) {
        pod_kicked_add(&pod->unsent, kicked->hosts[i]);
        pod_host_unref(kicked->hosts[i]);
    }
    kicked->count = 0;
    atomic_store(&pod->has_unsent, pod->unsent.count > 0);
}

static void pod_free_garbage(struct pod *pod, struct pod_list *garbage)
{
    struct pod_list *item;

    while ((item = pod_list_pop_front(garbage)) != NULL)
        pod_op_free(pod, POD_CONTAINER(item, struct pod_op, link));
}

static void pod_after_run(struct pod_after *after)
{
    struct pod *pod = after->pod;
    struct pod_list *item;

    pod_kicked_run(&after->kicked);
    while ((item = pod_list_pop_front(&after->lost)) != NULL)
        pod_call_lost(POD_CONTAINER(item, struct pod_call, link));
    while ((item = pod_list_pop_front(&after->transfers)) != NULL)
        pod_transfer_after(
            POD_CONTAINER(item, struct pod_transfer, after_link));
    pod_free_garbage(pod, &after->garbage);
    if (after->notify && pod->options.notify != NULL)
        pod->options.notify(pod->options.notify_arg);
    if (after->notes)
        pod_notes_write(pod);
}

// A thread gets back fast what it has freed itself, so submissions free the
// records that have expired, unless those are many.
static void pod_take_garbage_locked(struct pod *pod, struct pod_after *after)
{
    if (!after->makes && pod->garbage_count < POD_GARBAGE_MAX)
        return;
    pod_list_splice(&after->garbage, &pod->garbage);
    pod->garbage_count = 0;
}

// What is told launches more, some of which is over at once.
static void pod_finish_locked(struct pod *pod, struct pod_after *after)
{
    pod_run_local_locked(pod, after);
    while (pod->done_count > 0) {
        pod_tell_done_locked(pod, after);
        pod_run_local_locked(pod, after);
    }
}

void pod_leave(struct pod *pod, struct pod_after *after)
{
    pod_finish_locked(pod, after);
    pod_host_drained_locked(pod, after);
    pod_history_trim_locked(pod);
    pod_take_garbage_locked(pod, after);
    if (pod_due_locked(pod) < pod->timer_ns)
        pod_cond_signal(&pod->timer_cond);
    if (pod_changes_disarm(&pod->changes))
        after->notify = true;
    if (after->idle)
        pod_cond_broadcast(&pod->idle_cond);
    after->notes = pod->notes.count > 0;
    if (after->later)
        pod_send_later_locked(pod, &after->kicked);
    pod_mutex_unlock(&pod->lock);
    pod_after_run(after);
}

// ----------------------------------------------------------------------- timer

static bool pod_tick_data(struct pod *pod)
{
    struct pod_data_chunks chunks;
    bool dropped;

    pod_mutex_lock(&pod->lock);
    dropped = pod_data_expire_locked(pod, pod_now_locked(pod), &chunks);
    pod_mutex_unlock(&pod->lock);
    if (dropped)
        pod_data_discard(pod, chunks);
    return dropped;
}

void pod_tick(struct pod *pod)
{
    struct pod_after after;

    pod_enter(pod, &after);
    pod_advance_locked(pod, &after);
    pod_leave(pod, &after);
    pod_stall_tick(pod);
    while (pod_tick_data(pod)) {
    }
}

static void *pod_timer_thread(void *arg)
{
    struct pod *pod = arg;

    pod_mutex_lock(&pod->lock);
    while (pod->phase != POD_PHASE_STOPPED) {
        pod->timer_ns = pod_due_locked(pod);
        if (pod->timer_ns == POD_NEVER)
            pod_cond_wait(&pod->timer_cond, &pod->lock);
        else if (pod->timer_ns > pod_now(pod))
            (void)pod_cond_wait_until(&pod->timer_cond, &pod->lock,
                                      pod->timer_ns);
        if (pod->phase == POD_PHASE_STOPPED)
            break;
        // While it works nobody needs to wake it.
        pod->timer_ns = INT64_MIN;
        pod_mutex_unlock(&pod->lock);
        pod_tick(pod);
        pod_mutex_lock(&pod->lock);
    }
    pod_mutex_unlock(&pod->lock);
    return NULL;
}

// Simulated time does not pass by itself: whoever moves it calls pod_tick.
static bool pod_needs_timer(const struct pod *pod)
{
    return pod->options.clock.mono_ns == pod_clock_system.mono_ns;
}

enum pod_code pod_start(struct pod *pod, struct pod_err *err)
{
    pod->phase = POD_PHASE_RUNNING;
    if (pod_needs_timer(pod)) {
        if (pthread_create(&pod->timer, NULL, pod_timer_thread, pod) != 0)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no thread for the timer");
        pod->has_timer = true;
    }
    for (size_t i = 0; i < pod->host_count; i++) {
        enum pod_code code = pod_outbox_start(pod->hosts[i], err);
        if (code != POD_OK)
            return code;
    }
    for (size_t i = 0; i < pod->host_count; i++) {
        struct pod_host *host = pod->hosts[i];
        struct pod_driver_observer observer = pod_loss_observer(host);
        host->opened = true;
        host->driver->ops->open(host->driver, &observer);
    }
    return POD_OK;
}

// --------------------------------------------------------------------- waiting

static bool pod_hosts_answered(const struct pod *pod)
{
    bool answered = true;
    size_t cursor = 0;
    const struct pod_host *host;

    while ((host = pod_host_next(pod, &cursor)) != NULL)
        answered = answered && host->answered;
    return answered;
}

static bool pod_is_idle(const struct pod *pod)
{
    return pod->open_count == 0;
}

// Removed hosts have closed their drivers.
static bool pod_hosts_ended(const struct pod *pod)
{
    return pod->reaping == 0;
}

static void pod_await(struct pod *pod, bool (*done)(const struct pod *pod),
                      int64_t timeout_ns)
{
    int64_t until = pod_time_add(pod_clock_mono(&pod_clock_system), timeout_ns);
    bool in_time = true;

    pod_mutex_lock(&pod->lock);
    while (in_time && !done(pod)) {
        if (until == POD_NEVER)
            pod_cond_wait(&pod->idle_cond, &pod->lock);
        else
            in_time = pod_cond_wait_until(&pod->idle_cond, &pod->lock, until);
    }
    pod_mutex_unlock(&pod->lock);
}

void pod_await_hosts(struct pod *pod, int64_t timeout_ns)
{
    pod_await(pod, pod_hosts_answered, timeout_ns);
}

void pod_drain(struct pod *pod)
{
    struct pod_after after;

    pod_enter(pod, &after);
    if (pod->phase == POD_PHASE_RUNNING)
        pod->phase = POD_PHASE_DRAINING;
    pod_judge_locked(pod);
    pod_wake_all_locked(pod, &after);
    pod_leave(pod, &after);
}

static void pod_end_all(struct pod *pod)
{
    struct pod_after after;

    pod_enter(pod, &after);
    pod_end_all_locked(pod, NULL, POD_REASON_DRAIN_TIMEOUT,
                       "the pod stopped before it was done", &after);
    pod_leave(pod, &after);
}

void pod_await_idle(struct pod *pod, int64_t timeout_ns)
{
    pod_await(pod, pod_is_idle, timeout_ns);
    pod_end_all(pod);
}

bool pod_trim(struct pod *pod)
{
    pod_mutex_lock(&pod->lock);
    bool trimmed = pod_sched_trim(pod->sched);
    struct pod_edges edges = pod->edges;
    pod->edges = (struct pod_edges){.count = 0};
    pod_mutex_unlock(&pod->lock);
    pod_free(edges.items);
    pod_free(edges.deps);
    return trimmed;
}

// ------------------------------------------------------------------------ end

void pod_stop(struct pod *pod)
{
    struct pod_host *host;
    size_t cursor;

    pod_drain(pod);
    pod_end_all(pod);
    pod_mutex_lock(&pod->join_lock); // no host is just being added
    pod_mutex_lock(&pod->lock);
    pod->phase = POD_PHASE_STOPPED;
    pod_cond_broadcast(&pod->timer_cond);
    pod_mutex_unlock(&pod->lock);
    pod_mutex_unlock(&pod->join_lock);
    if (pod->has_timer)
        (void)pthread_join(pod->timer, NULL);
    pod->has_timer = false;
    pod_await(pod, pod_hosts_ended, POD_NEVER);
    for (cursor = 0; (host = pod_host_next(pod, &cursor)) != NULL;)
        pod_outbox_stop(host);
    for (cursor = 0; (host = pod_host_next(pod, &cursor)) != NULL;) {
        if (host->opened)
            host->driver->ops->close(host->driver);
        host->opened = false;
    }
}

static void pod_free_operations(struct pod *pod)
{
    struct pod_op *op = pod_table_before(&pod->table, UINT64_MAX);

    while (op != NULL) {
        struct pod_op *before = pod_table_before(&pod->table, op->number);
        pod_op_free(pod, op);
        op = before;
    }
    pod_table_fini(&pod->table);
}

void pod_destroy(struct pod *pod)
{
    struct pod_list *item;

    if (pod == NULL)
        return;
    pod_free_operations(pod);
    pod_free_garbage(pod, &pod->garbage);
    pod_stall_fini(pod);
    pod_list_splice(&pod->compiled, &pod->compiled_old);
    while ((item = pod_list_pop_front(&pod->compiled)) != NULL)
        pod_compiled_free(POD_CONTAINER(item, struct pod_compiled, link));
    pod_topology_fini(pod); // looks at the hosts
    for (size_t i = 0; i < pod->unsent.count; i++)
        pod_host_unref(pod->unsent.hosts[i]);
    for (size_t i = 0; i < pod->host_count; i++)
        pod_host_unref(pod->hosts[i]);
    pod_free(pod->hosts);
    pod_sched_free(pod->sched);
    pod_changes_fini(&pod->changes);
    pod_free(pod->edges.items);
    pod_free(pod->edges.deps);
    pod_notes_fini(pod);
    pod_failure_unref(pod->fallback);
    pod_mutex_fini(&pod->lock);
    pod_mutex_fini(&pod->join_lock);
    pod_mutex_fini(&pod->staging_lock);
    pod_cond_fini(&pod->timer_cond);
    pod_cond_fini(&pod->idle_cond);
    pod_free(pod);
}

// ------------------------------------------------------------------- counters

const char *pod_instance(const struct pod *pod)
{
    return pod->options.instance;
}

uint64_t pod_last_number(struct pod *pod)
{
    pod_mutex_lock(&pod->lock);
    uint64_t number = pod->last_number;
    pod_mutex_unlock(&pod->lock);
    return number;
}

uint64_t pod_revision(struct pod *pod)
{
    pod_mutex_lock(&pod->lock);
    uint64_t revision = pod->revision;
    pod_mutex_unlock(&pod->lock);
    return revision;
}

bool pod_draining(struct pod *pod)
{
    pod_mutex_lock(&pod->lock);
    bool draining = pod->phase >= POD_PHASE_DRAINING;
    pod_mutex_unlock(&pod->lock);
    return draining;
}
