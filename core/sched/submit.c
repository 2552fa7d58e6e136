// SPDX-License-Identifier: Apache-2.0
// A new node: its memory, its edges, and what becomes of it at once.
#include <assert.h>

#include "core/base/clock.h"
#include "core/sched/internal.h"

enum { SUBMIT_PRIORITY_MAX = 10 };

static inline bool submit_reserve(struct pod_sched *sched, size_t nodes,
                                  size_t edges, const uint32_t *lanes,
                                  size_t lane_count)
{
    return pod_sched_pool_reserve(&sched->nodes, nodes) &&
           pod_sched_pool_reserve(&sched->groups, edges) &&
           pod_heap_reserve(&sched->deadlines,
                            sched->deadlines.count + nodes) &&
           pod_sched_news_reserve(sched, nodes) &&
           (lane_count == 0 ||
            pod_sched_lanes_reserve(&sched->lanes, lanes, lane_count));
}

enum pod_code pod_sched_reserve(struct pod_sched *sched, size_t nodes,
                                size_t edges, const uint32_t *lanes,
                                size_t lane_count, struct pod_err *err)
{
    if (submit_reserve(sched, nodes, edges, lanes, lane_count))
        return POD_OK;
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                       "no memory for %zu more operations", nodes);
}

// Whether a dependency that carries has ended badly, and which.
static bool submit_doomed(const struct pod_sched_event *event, void **out_cause)
{
    if (event->run_on_failure)
        return false;
    if (event->doomed) {
        *out_cause = event->doomed_by;
        return true;
    }
    for (size_t i = 0; i < event->dep_count; i++) {
        const struct pod_sched_node *node = event->deps[i].node;
        if (!event->deps[i].carries || pod_sched_node_open(node) ||
            pod_sched_state_of(node) == POD_SCHED_SUCCEEDED)
            continue;
        *out_cause = *pod_sched_node_user_at(node);
        return true;
    }
    return false;
}

// Puts an edge before those in a group, which leave room for it.
static void submit_put_edge(struct pod_sched_group *group, uint32_t edge)
{
    size_t i = POD_SCHED_GROUP_EDGES;

    while (group->to[--i] != 0) {
    }
    group->to[i] = edge;
}

// A group that has room for one more of the node's older edges.
static struct pod_sched_group *submit_group(struct pod_sched *sched,
                                            struct pod_sched_node *node)
{
    bool grouped = pod_sched_has(node, POD_SCHED_HAS_GROUP);
    struct pod_sched_group *group =
        grouped ? pod_sched_group_at(sched, node->to[0]) : NULL;

    if (grouped && group->to[0] == 0)
        return group;
    group = pod_sched_pool_take(&sched->groups);
    *group = (struct pod_sched_group){.older = grouped ? node->to[0] : 0};
    return group;
}

static void submit_add_edge(struct pod_sched *sched,
                            struct pod_sched_node *node, uint32_t edge)
{
    if (node->to[0] == 0) {
        node->to[node->to[1] == 0 ? 1 : 0] = edge;
        return;
    }
    struct pod_sched_group *group = submit_group(sched, node);
    submit_put_edge(group, node->to[1]);
    if (!pod_sched_has(node, POD_SCHED_HAS_GROUP))
        submit_put_edge(group, node->to[0]);
    node->flags |= POD_SCHED_HAS_GROUP;
    node->to[0] = pod_sched_group_number(group);
    node->to[1] = edge;
}

static void submit_link(struct pod_sched *sched, struct pod_sched_node *node,
                        const struct pod_sched_dep *dep)
{
    uint32_t number = pod_sched_node_number(node);

    assert(!pod_sched_has(dep->node, POD_SCHED_IS_SETTLED));
    submit_add_edge(sched, dep->node,
                    number << POD_SCHED_EDGE_SHIFT |
                        (dep->carries ? POD_SCHED_EDGE_CARRIES : 0U) |
                        (dep->ahead ? POD_SCHED_EDGE_AHEAD : 0U));
    if (dep->ahead && pod_sched_has(dep->node, POD_SCHED_IS_LAUNCHED)) {
        pod_sched_lead(node);
        return;
    }
    node->held++;
    if (dep->ahead)
        dep->node->flags |= POD_SCHED_HAS_FOLLOWERS;
}

// Puts a new node that lives among the others.
static void submit_enter(struct pod_sched *sched, struct pod_sched_node *node,
                         const struct pod_sched_event *event)
{
    if (event->deadline_ns != POD_NEVER) {
        struct pod_heap_entry entry = {
            .key = pod_sched_deadline_key(event->deadline_ns),
            .order = sched->submitted,
            .slot = &pod_sched_cold(node)->deadline_slot,
        };
        pod_heap_push(&sched->deadlines, entry);
        node->flags |= POD_SCHED_HAS_DEADLINE;
    }
    if (event->lane_count > 0)
        pod_sched_lanes_join(&sched->lanes, node, event->lanes,
                             event->lane_count);
    else if (pod_sched_node_met(node)) {
        pod_sched_launch_plain(sched, node);
        return;
    }
    if (pod_sched_node_met(node))
        pod_sched_set_ready(sched, node);
    if (node->held == 0)
        pod_sched_unhold(sched, node);
}

struct pod_sched_node *pod_sched_submit(struct pod_sched *sched,
                                        const struct pod_sched_event *event)
{
    void *cause = NULL;

    assert(event->priority >= -SUBMIT_PRIORITY_MAX &&
           event->priority <= SUBMIT_PRIORITY_MAX);
    assert(!event->certain || event->lane_count == 0);
    // Edges are counted in 32 bits.
    if (event->dep_count >= UINT32_MAX ||
        !submit_reserve(sched, 1, event->dep_count, event->lanes,
                        event->lane_count))
        return NULL;
    struct pod_sched_node *node = pod_sched_pool_take(&sched->nodes);
    *node = (struct pod_sched_node){
        .flags = POD_SCHED_WAITING |
                 (uint32_t)(SUBMIT_PRIORITY_MAX - event->priority)
                     << POD_SCHED_LEVEL_SHIFT |
                 (event->run_on_failure ? POD_SCHED_IS_RESILIENT : 0) |
                 (event->certain ? POD_SCHED_IS_CERTAIN : 0),
    };
    *pod_sched_node_user_at(node) = event->user;
    sched->submitted++;
    for (size_t i = 0; i < event->dep_count; i++)
        submit_link(sched, node, &event->deps[i]);
    if (submit_doomed(event, &cause))
        pod_sched_end_by(sched, node, POD_SCHED_SKIPPED, cause);
    else if (event->deadline_ns <= event->now_ns)
        pod_sched_expire(sched, node);
    else
        submit_enter(sched, node, event);
    return node;
}
