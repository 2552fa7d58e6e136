// SPDX-License-Identifier: Apache-2.0
// What a step brought: room for it, and handing it out.
#include "core/base/mem.h"
#include "core/sched/internal.h"

enum { EFFECTS_FIRST_CAPACITY = 16 };

bool pod_sched_effects_reserve(struct pod_sched *sched, size_t more)
{
    struct pod_sched_effects *effects = &sched->effects;
    size_t nodes_most = sched->live + more;
    size_t moved_most = sched->lanes.windows < nodes_most
                            ? (size_t)sched->lanes.windows
                            : nodes_most;
    size_t wanted = nodes_most + moved_most;
    size_t capacity = effects->capacity > 0 ? effects->capacity
                                            : (size_t)EFFECTS_FIRST_CAPACITY;

    if (wanted <= effects->capacity)
        return true;
    while (capacity < wanted)
        capacity *= 2;
    struct pod_sched_node **nodes =
        pod_realloc(effects->nodes, capacity, sizeof(nodes[0]));
    if (nodes == NULL)
        return false;
    effects->nodes = nodes;
    effects->capacity = capacity;
    return true;
}

// Why the node is in the state that it is told to be in now.
static void effects_explain(const struct pod_sched_node *node,
                            struct pod_sched_effect *out_effect)
{
    if ((out_effect->what & POD_SCHED_CHANGED) == 0)
        return;
    if (pod_sched_has(node, POD_SCHED_IS_STRUCK))
        out_effect->cause = node->cause;
    out_effect->deadline = pod_sched_has(node, POD_SCHED_IS_LATE);
}

static inline void effects_give(struct pod_sched *sched,
                                struct pod_sched_node *node,
                                struct pod_sched_effect *out_effect)
{
    uint32_t flags = node->flags;

    *out_effect = (struct pod_sched_effect){
        .user = node->user,
        .node = node,
        .what = (flags & POD_SCHED_WHAT_MASK) >> POD_SCHED_WHAT_SHIFT,
        .state = (enum pod_sched_state)(flags & POD_SCHED_STATE_MASK),
    };
    if ((flags & (POD_SCHED_IS_STRUCK | POD_SCHED_IS_LATE)) != 0)
        effects_explain(node, out_effect);
    node->flags = flags & ~POD_SCHED_WHAT_MASK;
    if ((flags & POD_SCHED_RELEASED << POD_SCHED_WHAT_SHIFT) != 0) {
        sched->live--;
        pod_sched_pool_give(&sched->nodes, node);
    }
}

size_t pod_sched_take_effects(struct pod_sched *sched,
                              struct pod_sched_effect *out_effects, size_t room)
{
    struct pod_sched_effects *effects = &sched->effects;
    size_t taken = effects->taken;
    size_t given = 0;

    for (; taken < effects->count && given < room; taken++) {
        struct pod_sched_node *node = effects->nodes[taken];
        if (pod_sched_has(node, POD_SCHED_IS_MOVED))
            node->flags &= ~POD_SCHED_IS_MOVED; // it comes once more
        else
            effects_give(sched, node, &out_effects[given++]);
    }
    effects->taken = taken;
    return given;
}
