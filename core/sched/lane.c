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

enum {
    LANE_FIRST_CAPACITY = 16,
    LANE_PRIORITY_MAX = 10,
};

void pod_sched_lanes_init(struct pod_sched_lanes *lanes)
{
    *lanes = (struct pod_sched_lanes){.dirty = LANE_NONE};
    pod_sched_pool_init(&lanes->places, sizeof(struct pod_sched_place));
}

void pod_sched_lanes_fini(struct pod_sched_lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->count; i++)
        pod_heap_fini(&lanes->items[i].queue);
    pod_free(lanes->items);
    pod_sched_pool_fini(&lanes->places);
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
    return lanes->count++;
}

static struct pod_sched_place *lane_place(uint32_t *slot)
{
    return POD_CONTAINER(slot, struct pod_sched_place, slot);
}

static void lane_mark(struct pod_sched_lanes *lanes, uint32_t number)
{
    struct pod_sched_lane *lane = &lanes->items[number];

    if (lane->dirty)
        return;
    lane->dirty = true;
    lane->next_dirty = lanes->dirty;
    lanes->dirty = number;
}

static void lane_unmark_first(struct pod_sched_lanes *lanes)
{
    struct pod_sched_lane *lane = &lanes->items[lanes->dirty];

    lane->dirty = false;
    lanes->dirty = lane->next_dirty;
}

bool pod_sched_lanes_reserve(struct pod_sched_lanes *lanes,
                             const uint32_t *numbers, size_t count)
{
    // The first place is in the node.
    if (count > 1 && !pod_sched_pool_reserve(&lanes->places, count - 1))
        return false;
    bool reserved = true;
    for (size_t i = 0; i < count; i++) {
        assert(numbers[i] < lanes->count);
        lanes->items[numbers[i]].waiting++;
    }
    for (size_t i = 0; i < count; i++) {
        struct pod_sched_lane *lane = &lanes->items[numbers[i]];
        reserved = reserved && pod_heap_reserve(&lane->queue, lane->waiting);
    }
    for (size_t i = 0; i < count; i++)
        lanes->items[numbers[i]].waiting--;
    return reserved;
}

void pod_sched_lanes_join(struct pod_sched_lanes *lanes,
                          struct pod_sched_node *node, const uint32_t *numbers,
                          size_t count, uint64_t order)
{
    struct pod_sched_place *last = NULL;

    node->placed = count > 0;
    for (size_t i = 0; i < count; i++) {
        struct pod_sched_place *place = &node->first_place;
        if (i > 0)
            place = pod_sched_pool_take(&lanes->places);
        *place = (struct pod_sched_place){
            .node = node,
            .order = order,
            .lane = numbers[i],
            .slot = POD_HEAP_NONE,
        };
        if (last == NULL)
            node->places = place;
        else
            last->next = place;
        last = place;
        lanes->items[numbers[i]].waiting++;
    }
    if (last != NULL)
        last->next = node->places;
}

void pod_sched_lanes_queue(struct pod_sched_lanes *lanes,
                           struct pod_sched_node *node)
{
    struct pod_sched_place *place = node->places;

    node->queued = true;
    do {
        struct pod_heap_entry entry = {
            .key = (uint64_t)(LANE_PRIORITY_MAX - node->priority),
            .order = place->order,
            .slot = &place->slot,
        };
        pod_heap_push(&lanes->items[place->lane].queue, entry);
        lane_mark(lanes, place->lane);
        place = place->next;
    } while (place != node->places);
}

// Whether the node is first in all of its lanes and all have room. The ring
// is left at the lane that says no: as long as that one does, further
// questions cost one look, however large the gang is.
static bool lane_has_turn(struct pod_sched_lanes *lanes,
                          struct pod_sched_node *node)
{
    struct pod_sched_place *start = node->places;

    do {
        struct pod_sched_place *place = node->places;
        const struct pod_sched_lane *lane = &lanes->items[place->lane];
        if (place->slot != 0 || lane->launched >= lane->window)
            return false;
        node->places = place->next;
    } while (node->places != start);
    return true;
}

struct pod_sched_node *pod_sched_lanes_pick(struct pod_sched_lanes *lanes)
{
    while (lanes->dirty != LANE_NONE) {
        const struct pod_sched_lane *lane = &lanes->items[lanes->dirty];
        const struct pod_heap_entry *top = pod_heap_top(&lane->queue);
        if (top != NULL) {
            struct pod_sched_node *node = lane_place(top->slot)->node;
            if (lane_has_turn(lanes, node))
                return node;
        }
        lane_unmark_first(lanes);
    }
    return NULL;
}

void pod_sched_lanes_occupy(struct pod_sched_lanes *lanes,
                            struct pod_sched_node *node)
{
    struct pod_sched_place *place = node->places;

    node->queued = false;
    do {
        struct pod_sched_lane *lane = &lanes->items[place->lane];
        pod_heap_remove(&lane->queue, &place->slot);
        lane->waiting--;
        lane->launched++;
        lane_mark(lanes, place->lane);
        place = place->next;
    } while (place != node->places);
}

void pod_sched_lanes_leave(struct pod_sched_lanes *lanes,
                           struct pod_sched_node *node)
{
    struct pod_sched_place *place = node->places;

    do {
        struct pod_sched_place *next = place->next;
        struct pod_sched_lane *lane = &lanes->items[place->lane];
        if (node->launched)
            lane->launched--;
        else
            lane->waiting--;
        if (node->queued)
            pod_heap_remove(&lane->queue, &place->slot);
        lane_mark(lanes, place->lane);
        if (place != &node->first_place)
            pod_sched_pool_give(&lanes->places, place);
        place = next;
    } while (place != node->places);
    node->placed = false;
    node->queued = false;
}
