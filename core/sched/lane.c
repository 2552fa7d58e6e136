// SPDX-License-Identifier: Apache-2.0
// Lanes: which of the nodes that could be launched has its turn.
//
// The order of a lane is total (priority, then submission) and the same in
// all lanes. So of all queued nodes the least one is first in each of its
// lanes and waits for room only: gangs cannot block each other for ever.
//
// Whatever may give a lane's first node its turn (a new first node, room)
// marks the lane dirty; only dirty lanes are looked at.
#include <assert.h>

#include "core/base/mem.h"
#include "core/sched/internal.h"

#define LANE_NONE POD_HEAP_NONE

enum { LANE_FIRST_CAPACITY = 16 };

void pod_sched_lanes_init(struct pod_sched_lanes *lanes)
{
    *lanes = (struct pod_sched_lanes){.dirty = LANE_NONE};
    pod_sched_pool_init(&lanes->gangs, sizeof(struct pod_sched_gang),
                        POD_SCHED_CHUNK_BYTES / sizeof(struct pod_sched_gang));
}

void pod_sched_lanes_fini(struct pod_sched_lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->count; i++)
        pod_sched_queue_fini(&lanes->items[i].queue);
    pod_free(lanes->items);
    pod_sched_pool_fini(&lanes->gangs);
}

static bool lane_grow(struct pod_sched_lanes *lanes)
{
    size_t capacity = lanes->capacity > 0 ? (size_t)lanes->capacity * 2
                                          : (size_t)LANE_FIRST_CAPACITY;
    struct pod_sched_lane *items;

    if (capacity > UINT32_MAX)
        return false;
    items = pod_realloc(lanes->items, capacity, sizeof items[0]);
    if (items == NULL)
        return false;
    lanes->items = items;
    lanes->capacity = (uint32_t)capacity;
    return true;
}

uint32_t pod_sched_lanes_add(struct pod_sched_lanes *lanes, uint32_t window)
{
    assert(window >= 1);
    if (lanes->count == lanes->capacity && !lane_grow(lanes))
        return UINT32_MAX;
    lanes->items[lanes->count] = (struct pod_sched_lane){
        .window = window,
        .next_dirty = LANE_NONE,
    };
    lanes->windows += window;
    return lanes->count++;
}

static inline void lane_touch(struct pod_sched_lanes *lanes, uint32_t number)
{
    struct pod_sched_lane *lane = &lanes->items[number];

    if (lane->dirty)
        return;
    lane->dirty = true;
    lane->next_dirty = lanes->dirty;
    lanes->dirty = number;
}

static void lane_untouch_first(struct pod_sched_lanes *lanes)
{
    struct pod_sched_lane *lane = &lanes->items[lanes->dirty];

    lane->dirty = false;
    lanes->dirty = lane->next_dirty;
}

bool pod_sched_lanes_reserve(struct pod_sched_lanes *lanes,
                             const uint32_t *numbers, size_t count)
{
    if (count > 1 && !pod_sched_pool_reserve(&lanes->gangs, count))
        return false;
    bool reserved = true;
    for (size_t i = 0; i < count; i++) {
        assert(numbers[i] < lanes->count);
        lanes->items[numbers[i]].wanted++;
    }
    for (size_t i = 0; i < count; i++) {
        struct pod_sched_lane *lane = &lanes->items[numbers[i]];
        reserved =
            reserved && pod_sched_queue_reserve(&lane->queue, lane->wanted);
    }
    for (size_t i = 0; i < count; i++)
        lanes->items[numbers[i]].wanted = 0;
    return reserved;
}

// ----------------------------------------------------------- nodes of a lane

static inline void lane_queue(struct pod_sched_lanes *lanes,
                              const struct pod_sched_node *node,
                              const struct pod_sched_place *place)
{
    struct pod_sched_lane *lane = &lanes->items[place->lane];

    lane->queued++;
    pod_sched_queue_mark(&lane->queue, pod_sched_level_of(node), place->at);
    lane_touch(lanes, place->lane);
}

// Gives up a place of a node that is not launched.
static inline void lane_quit(struct pod_sched_lanes *lanes,
                             const struct pod_sched_node *node,
                             const struct pod_sched_place *place)
{
    struct pod_sched_lane *lane = &lanes->items[place->lane];

    if (pod_sched_has(node, POD_SCHED_IS_QUEUED)) {
        lane->queued--;
        pod_sched_queue_unmark(&lane->queue, pod_sched_level_of(node),
                               place->at);
    }
    pod_sched_queue_leave(&lane->queue, place->at);
    if (lane->queued > 0)
        lane_touch(lanes, place->lane);
}

static inline void lane_occupy(struct pod_sched_lanes *lanes,
                               const struct pod_sched_node *node,
                               const struct pod_sched_place *place)
{
    lane_quit(lanes, node, place);
    lanes->items[place->lane].launched++;
}

// Gives up a place, whether waiting, queued or launched.
static inline void lane_leave(struct pod_sched_lanes *lanes,
                              const struct pod_sched_node *node,
                              const struct pod_sched_place *place)
{
    if (!pod_sched_has(node, POD_SCHED_IS_LAUNCHED)) {
        lane_quit(lanes, node, place);
        return;
    }
    struct pod_sched_lane *lane = &lanes->items[place->lane];
    lane->launched--;
    if (lane->queued > 0)
        lane_touch(lanes, place->lane);
}

// -------------------------------------------------------------------- gangs

static void lane_join_gang(struct pod_sched_lanes *lanes,
                           struct pod_sched_node *node, const uint32_t *numbers,
                           size_t count)
{
    struct pod_sched_cold *cold = pod_sched_cold(node);
    struct pod_sched_gang *last = NULL;

    node->flags |= POD_SCHED_IS_GANG;
    for (size_t i = 0; i < count; i++) {
        struct pod_sched_gang *member = pod_sched_pool_take(&lanes->gangs);
        *member = (struct pod_sched_gang){
            .place.lane = numbers[i],
            .node = node,
            .first = last == NULL,
        };
        if (last == NULL)
            cold->gang = member;
        else
            last->next = member;
        last = member;
        pod_sched_queue_join_gang(&lanes->items[numbers[i]].queue, member);
    }
    last->next = cold->gang;
}

// Whether the node is first in all of its lanes and all have room. The ring
// is left at the lane that says no: as long as that one does, further
// questions cost one look, however large the gang is.
static bool lane_gang_has_turn(struct pod_sched_lanes *lanes,
                               struct pod_sched_node *node)
{
    struct pod_sched_cold *cold = pod_sched_cold(node);
    const struct pod_sched_gang *start = cold->gang;

    do {
        const struct pod_sched_gang *member = cold->gang;
        struct pod_sched_lane *lane = &lanes->items[member->place.lane];
        if (lane->launched >= lane->window ||
            pod_sched_queue_first(&lane->queue) != node)
            return false;
        cold->gang = member->next;
    } while (cold->gang != start);
    return true;
}

typedef void lane_visit(struct pod_sched_lanes *lanes,
                        const struct pod_sched_node *node,
                        const struct pod_sched_place *place);

static inline void lane_for_each(struct pod_sched_lanes *lanes,
                                 struct pod_sched_node *node, lane_visit *visit)
{
    if (!pod_sched_has(node, POD_SCHED_IS_GANG)) {
        visit(lanes, node, &pod_sched_cold(node)->place);
        return;
    }
    const struct pod_sched_gang *first = pod_sched_cold(node)->gang;
    const struct pod_sched_gang *member = first;
    do {
        visit(lanes, node, &member->place);
        member = member->next;
    } while (member != first);
}

static void lane_give_gang(struct pod_sched_lanes *lanes,
                           struct pod_sched_node *node)
{
    struct pod_sched_gang *first = pod_sched_cold(node)->gang;
    struct pod_sched_gang *member = first;

    do {
        struct pod_sched_gang *next = member->next;
        pod_sched_pool_give(&lanes->gangs, member);
        member = next;
    } while (member != first);
    node->flags &= ~POD_SCHED_IS_GANG;
}

// -------------------------------------------------------------------- nodes

void pod_sched_lanes_join(struct pod_sched_lanes *lanes,
                          struct pod_sched_node *node, const uint32_t *numbers,
                          size_t count)
{
    if (count > 0)
        node->flags |= POD_SCHED_IS_PLACED;
    if (count > 1) {
        lane_join_gang(lanes, node, numbers, count);
    } else if (count > 0) {
        pod_sched_cold(node)->place.lane = numbers[0];
        pod_sched_queue_join(&lanes->items[numbers[0]].queue, node);
    }
}

void pod_sched_lanes_queue(struct pod_sched_lanes *lanes,
                           struct pod_sched_node *node)
{
    node->flags |= POD_SCHED_IS_QUEUED;
    lane_for_each(lanes, node, lane_queue);
}

struct pod_sched_node *pod_sched_lanes_pick(struct pod_sched_lanes *lanes)
{
    while (lanes->dirty != LANE_NONE) {
        struct pod_sched_lane *lane = &lanes->items[lanes->dirty];
        struct pod_sched_node *node = pod_sched_queue_first(&lane->queue);
        if (node != NULL && lane->launched >= lane->window)
            pod_sched_expect(node, true); // when there is room
        else if (node != NULL && (!pod_sched_has(node, POD_SCHED_IS_GANG) ||
                                  lane_gang_has_turn(lanes, node)))
            return node;
        lane_untouch_first(lanes);
    }
    return NULL;
}

void pod_sched_lanes_occupy(struct pod_sched_lanes *lanes,
                            struct pod_sched_node *node)
{
    lane_for_each(lanes, node, lane_occupy);
    node->flags &= ~POD_SCHED_IS_QUEUED;
}

void pod_sched_lanes_leave(struct pod_sched_lanes *lanes,
                           struct pod_sched_node *node)
{
    lane_for_each(lanes, node, lane_leave);
    if (pod_sched_has(node, POD_SCHED_IS_GANG))
        lane_give_gang(lanes, node);
    node->flags &= ~POD_SCHED_IS_PLACED;
    node->flags &= ~POD_SCHED_IS_QUEUED;
}
