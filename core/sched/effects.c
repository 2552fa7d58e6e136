// SPDX-License-Identifier: Apache-2.0
// What a step brings: room for it, and its order.
#include "core/base/mem.h"
#include "core/sched/internal.h"

enum { EFFECTS_FIRST_CAPACITY = 16 };

bool pod_sched_news_grow(struct pod_sched_news *news, size_t wanted)
{
    size_t capacity =
        news->capacity > 0 ? news->capacity : (size_t)EFFECTS_FIRST_CAPACITY;

    while (capacity < wanted)
        capacity *= 2;
    if (capacity > UINT32_MAX)
        return false;
    struct pod_sched_effect *items =
        pod_realloc(news->effects.items, capacity, sizeof items[0]);
    if (items == NULL)
        return false;
    news->effects.items = items;
    news->capacity = capacity;
    return true;
}

struct pod_sched_effect *pod_sched_news_last(struct pod_sched_news *news,
                                             struct pod_sched_node *node)
{
    struct pod_sched_effect *effect = pod_sched_news_find(news, node);

    if (effect == NULL)
        return pod_sched_news_add(news, node, 0, pod_sched_state_of(node));
    if (effect == &news->effects.items[news->effects.count - 1])
        return effect;
    struct pod_sched_effect *last =
        pod_sched_news_add(news, node, effect->what, effect->state);
    *effect = (struct pod_sched_effect){.node = NULL};
    news->gaps++;
    return last;
}

void pod_sched_news_close_gaps(struct pod_sched_news *news)
{
    size_t kept = 0;

    if (news->gaps == 0)
        return;
    for (size_t i = 0; i < news->effects.count; i++) {
        if (news->effects.items[i].node != NULL)
            news->effects.items[kept++] = news->effects.items[i];
    }
    news->effects.count = kept;
    news->gaps = 0;
}

const struct pod_sched_effects *pod_sched_effects(const struct pod_sched *sched)
{
    return &sched->news.effects;
}

void *pod_sched_effect_user(const struct pod_sched_effect *effect)
{
    return *pod_sched_node_user_at(effect->node);
}

void *pod_sched_effect_cause(const struct pod_sched_effect *effect)
{
    // What ended earlier keeps its cause.
    if ((effect->what & POD_SCHED_CHANGED) == 0 ||
        !pod_sched_has(effect->node, POD_SCHED_HAS_CAUSE))
        return NULL;
    return pod_sched_cold(effect->node)->cause;
}
