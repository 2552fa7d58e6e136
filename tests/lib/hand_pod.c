// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/hand_pod.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/pod/op_new.h"

static int64_t hand_mono(void *arg)
{
    return ((struct hand_pod *)arg)->mono_ns;
}

static int64_t hand_wall(void *arg)
{
    return ((struct hand_pod *)arg)->mono_ns + 1000000;
}

static void hand_init_hosts(struct hand_pod *hand)
{
    for (uint32_t i = 0; i < HAND_HOSTS; i++) {
        hand->hosts[i].pod = &hand->pod;
        hand->hosts[i].id = i;
        hand->host_table[i] = &hand->hosts[i];
        pod_list_init(&hand->hosts[i].handles);
        pod_list_init(&hand->hosts[i].calls);
        pod_list_init(&hand->hosts[i].drain_waiters);
        pod_list_init(&hand->hosts[i].cordon_link);
        pod_list_init(&hand->hosts[i].outbox);
        pod_list_init(&hand->hosts[i].cancels);
        pod_mutex_init(&hand->hosts[i].outbox_lock, POD_RANK_OUTBOX, "hand");
        pod_cond_init(&hand->hosts[i].outbox_cond);
        hand->hosts[i].refs = 1;
    }
    hand->pod.hosts = hand->host_table;
    hand->pod.host_count = HAND_HOSTS;
    hand->pod.first_hosts = HAND_HOSTS;
    hand->pod.live_hosts = HAND_HOSTS;
}

void hand_pod_init(struct hand_pod *hand)
{
    struct pod *pod = &hand->pod;

    memset(hand, 0, sizeof(*hand));
    pod_mutex_init(&pod->lock, POD_RANK_ENGINE, "hand pod");
    pod_mutex_init(&pod->staging_lock, POD_RANK_STAGING, "hand staging");
    pod->options.clock = (struct pod_clock){
        .mono_ns = hand_mono, .wall_ns = hand_wall, .arg = hand};
    pod->options.history_count = 1000;
    pod->options.history_age_ns = POD_NEVER;
    pod->options.staging_bytes = 1000;
    pod->phase = POD_PHASE_RUNNING;
    pod_list_init(&pod->open);
    pod_list_init(&pod->history);
    pod_list_init(&pod->data);
    pod_list_init(&pod->compiled);
    pod_list_init(&pod->woken);
    pod_list_init(&pod->local);
    pod_list_init(&pod->stalls);
    pod_list_init(&pod->cordoned);
    pod_list_init(&pod->spare_cores);
    hand_init_hosts(hand);
    pod->sched = pod_sched_new();
    if (pod->sched == NULL || !pod_changes_init(&pod->changes, 100))
        abort();
}

struct pod_op *hand_op(struct hand_pod *hand, enum pod_kind kind,
                       enum pod_sched_state state)
{
    struct pod *pod = &hand->pod;
    struct pod_op *op = pod_calloc(1, sizeof(*op));
    struct pod_work_maker maker = {.expected = 1};
    const struct pod_work_room room = {.calls = 0};

    if (op == NULL || !pod_table_reserve(&pod->table, pod->last_number + 1, 1))
        abort();
    op->number = ++pod->last_number;
    op->kind = kind;
    op->state = state;
    op->settled = pod_sched_terminal(state);
    op->revision = ++pod->revision;
    op->created_ns = hand->mono_ns;
    op->created_wall_ns = hand_wall(hand);
    op->ready_ns = op->running_ns = op->finished_ns = -1;
    op->deadline_ns = POD_NEVER;
    op->host = op->core = POD_NO_ID;
    pod_list_init(&op->link);
    pod_list_init(&op->change_waiters);
    pod_list_init(&op->end_waiters);
    if (!op->settled && !pod_work_new(&maker, op, room))
        abort();
    pod_work_maker_fini(&maker);
    pod_table_put(&pod->table, op);
    pod->by_state[state]++;
    pod->by_kind[kind]++;
    return op;
}

void hand_expire(struct hand_pod *hand, struct pod_op *op)
{
    pod_table_remove(&hand->pod.table, op->number);
    pod_list_remove(&op->link);
    if (op->kept != NULL)
        pod_list_remove(&op->kept->link);
    pod_free(op->kept);
    hand->pod.by_state[op->state]--;
    hand->pod.by_kind[op->kind]--;
    pod_work_free(op);
    pod_free(op);
}

void hand_pod_fini(struct hand_pod *hand)
{
    struct pod *pod = &hand->pod;
    struct pod_op *op;

    while ((op = pod_table_before(&pod->table, UINT64_MAX)) != NULL)
        hand_expire(hand, op);
    pod_table_fini(&pod->table);
    pod_changes_fini(&pod->changes);
    pod_sched_free(pod->sched);
    pod_mutex_fini(&pod->staging_lock);
    pod_mutex_fini(&pod->lock);
}
