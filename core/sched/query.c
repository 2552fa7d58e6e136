// SPDX-License-Identifier: Apache-2.0
// Questions about a scheduler that change nothing.
#include <assert.h>

#include "core/base/clock.h"
#include "core/sched/internal.h"

int64_t pod_sched_next_deadline(const struct pod_sched *sched)
{
    const struct pod_heap_entry *top = pod_heap_top(&sched->deadlines);

    if (top == NULL)
        return POD_NEVER;
    return pod_sched_deadline_of(top->key);
}

void *pod_sched_node_user(const struct pod_sched_node *node)
{
    return *pod_sched_node_user_at(node);
}

enum pod_sched_state pod_sched_node_state(const struct pod_sched_node *node)
{
    return pod_sched_state_of(node);
}

bool pod_sched_node_launched(const struct pod_sched_node *node)
{
    return pod_sched_has(node, POD_SCHED_IS_LAUNCHED);
}

bool pod_sched_node_settled(const struct pod_sched_node *node)
{
    return pod_sched_has(node, POD_SCHED_IS_SETTLED);
}

bool pod_sched_node_queued(const struct pod_sched_node *node)
{
    return pod_sched_has(node, POD_SCHED_IS_QUEUED);
}

bool pod_sched_plain(const struct pod_sched_node *node)
{
    return pod_sched_is_plain(node);
}

uint32_t pod_sched_node_unmet(const struct pod_sched_node *node)
{
    return node->held + (pod_sched_has(node, POD_SCHED_IS_LED)
                             ? pod_sched_cold(node)->led
                             : 0);
}

// A walk over the edges of a node from behind one of them on.
static struct pod_sched_walk query_walk_after(const struct pod_sched_node *node,
                                              const uint32_t *edge)
{
    struct pod_sched_walk walk = pod_sched_walk_of(node);

    if (edge == NULL)
        return walk;
    if (edge < walk.next || edge >= walk.end) {
        // Groups are aligned to their size, so an edge tells its group.
        uintptr_t group =
            (uintptr_t)edge & ~(sizeof(struct pod_sched_group) - 1);
        walk = pod_sched_walk_of_group((const struct pod_sched_group *)group);
    }
    walk.next = edge + 1;
    return walk;
}

bool pod_sched_next_dependent(const struct pod_sched *sched,
                              const struct pod_sched_node *node,
                              const void **cursor, void **out_user,
                              bool *out_carries)
{
    struct pod_sched_walk walk = query_walk_after(node, *cursor);
    uint32_t edge = pod_sched_walk_next(sched, &walk);

    if (edge == 0)
        return false;
    *cursor = walk.next - 1;
    *out_user = *pod_sched_node_user_at(pod_sched_edge_node(sched, edge));
    *out_carries = pod_sched_edge_carries(edge);
    return true;
}

_Static_assert(offsetof(struct pod_sched_gang, place) == 0,
               "a place of a gang is where its member is");

// The place after one, in the order given; the first after NULL.
static const struct pod_sched_place *
query_next_place(const struct pod_sched_node *node, const void *place)
{
    if (!pod_sched_has(node, POD_SCHED_IS_GANG))
        return place == NULL ? &pod_sched_cold(node)->place : NULL;
    if (place != NULL) {
        const struct pod_sched_gang *before = place;
        return before->next->first ? NULL : &before->next->place;
    }
    // The ring is turned now and then; its first member stays the first.
    const struct pod_sched_gang *member = pod_sched_cold(node)->gang;
    while (!member->first)
        member = member->next;
    return &member->place;
}

bool pod_sched_next_standing(const struct pod_sched *sched,
                             const struct pod_sched_node *node, size_t limit,
                             const void **cursor,
                             struct pod_sched_standing *out_standing)
{
    if (!pod_sched_has(node, POD_SCHED_IS_QUEUED))
        return false;
    const struct pod_sched_place *place = query_next_place(node, *cursor);
    if (place == NULL)
        return false;
    const struct pod_sched_lane *lane = &sched->lanes.items[place->lane];
    *cursor = place;
    *out_standing = (struct pod_sched_standing){
        .before = pod_sched_queue_rank(&lane->queue, pod_sched_level_of(node),
                                       place->at, limit),
        .launched = lane->launched,
    };
    return true;
}

uint32_t pod_sched_lane_depth(const struct pod_sched *sched, uint32_t lane)
{
    assert(lane < sched->lanes.count);
    const struct pod_sched_lane *item = &sched->lanes.items[lane];
    return item->launched + item->queued;
}

const char *pod_sched_state_name(enum pod_sched_state state)
{
    static const char *const names[] = {
        "WAITING", "READY",     "RUNNING", "SUCCEEDED",
        "FAILED",  "CANCELLED", "SKIPPED", "LOST",
    };

    return (size_t)state < sizeof names / sizeof names[0] ? names[state]
                                                          : "UNKNOWN";
}
