// SPDX-License-Identifier: Apache-2.0
// Giving back what many nodes took, once there is none. What is needed of it is
// taken anew by the next SUBMIT.
#include "core/base/mem.h"
#include "core/sched/internal.h"

static void trim_pool(struct pod_sched_pool *pool)
{
    size_t item_bytes = pool->item_bytes;
    size_t places = pool->places;

    assert(pod_sched_pool_taken(pool) == 0);
    pod_sched_pool_fini(pool);
    pod_sched_pool_init(pool, item_bytes, places);
}

bool pod_sched_trim(struct pod_sched *sched)
{
    if (pod_sched_pool_taken(&sched->nodes) > 0)
        return false;
    trim_pool(&sched->nodes);
    trim_pool(&sched->groups);
    trim_pool(&sched->lanes.gangs);
    pod_heap_fini(&sched->deadlines);
    pod_free(sched->news.effects.items);
    sched->news = (struct pod_sched_news){.capacity = 0};
    for (uint32_t i = 0; i < sched->lanes.count; i++)
        pod_sched_queue_fini(&sched->lanes.items[i].queue);
    return true;
}
