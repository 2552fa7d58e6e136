// SPDX-License-Identifier: Apache-2.0
// Linear probing; removal moves later entries back, so there are no
// tombstones and a map that lives long does not slow down.
#include "core/base/map.h"

#include <assert.h>

#include "core/base/mem.h"

enum {
    MAP_FIRST_CAPACITY = 16, // a power of two, as all capacities
    MAP_EMPTY_CAPACITY_MAX =
        64 * 1024, // growing again costs little beside them
};

// Keys are often consecutive numbers: spread them over all bits.
static size_t map_home(uint64_t key, size_t mask)
{
    key ^= key >> 32;
    key *= UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(key >> 32) & mask;
}

// The slot of the key, or the empty one where it belongs. There is always an
// empty slot, so the search ends.
static struct pod_map_slot *map_find(struct pod_map_slot *slots,
                                     size_t capacity, uint64_t key)
{
    size_t mask = capacity - 1;
    size_t i = map_home(key, mask);

    while (slots[i].key != 0 && slots[i].key != key)
        i = (i + 1) & mask;
    return &slots[i];
}

void pod_map_fini(struct pod_map *map)
{
    if (map == NULL)
        return;
    pod_free(map->slots);
    *map = (struct pod_map){.slots = NULL};
}

static bool map_grow(struct pod_map *map)
{
    size_t capacity = MAP_FIRST_CAPACITY;

    if (map->capacity > 0 &&
        __builtin_mul_overflow(map->capacity, 2, &capacity))
        return false;
    struct pod_map_slot *slots = pod_calloc(capacity, sizeof slots[0]);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].key != 0)
            *map_find(slots, capacity, map->slots[i].key) = map->slots[i];
    }
    pod_free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return true;
}

bool pod_map_put(struct pod_map *map, uint64_t key, void *value)
{
    struct pod_map_slot *slot = NULL;
    void **kept;

    assert(key != 0);
    if (map->capacity > 0)
        slot = map_find(map->slots, map->capacity, key);
    // One that is there needs no room.
    kept =
        slot != NULL && slot->key == key ? &slot->value : pod_map_at(map, key);
    if (kept == NULL)
        return false;
    *kept = value;
    return true;
}

void **pod_map_at(struct pod_map *map, uint64_t key)
{
    assert(key != 0);
    if (map->count >= map->capacity / 4 * 3 && !map_grow(map))
        return NULL;
    struct pod_map_slot *slot = map_find(map->slots, map->capacity, key);
    if (slot->key == 0) {
        slot->key = key;
        map->count++;
    }
    return &slot->value;
}

void *pod_map_get(const struct pod_map *map, uint64_t key)
{
    if (map->count == 0 || key == 0)
        return NULL;
    return map_find(map->slots, map->capacity, key)->value;
}

void pod_map_expect(const struct pod_map *map, uint64_t key)
{
    if (map->capacity > 0)
        __builtin_prefetch(&map->slots[map_home(key, map->capacity - 1)], 1);
}

// Empties a slot, then moves back each entry of the run behind it that would
// no longer be reached from its home.
static void map_close_gap(struct pod_map *map, size_t gap)
{
    size_t mask = map->capacity - 1;

    for (size_t i = (gap + 1) & mask; map->slots[i].key != 0;
         i = (i + 1) & mask) {
        size_t home = map_home(map->slots[i].key, mask);
        if (((i - home) & mask) < ((i - gap) & mask))
            continue;
        map->slots[gap] = map->slots[i];
        gap = i;
    }
    map->slots[gap] = (struct pod_map_slot){.key = 0};
}

void *pod_map_remove(struct pod_map *map, uint64_t key)
{
    if (map->count == 0 || key == 0)
        return NULL;
    struct pod_map_slot *slot = map_find(map->slots, map->capacity, key);
    if (slot->key != key)
        return NULL;
    void *value = slot->value;
    map_close_gap(map, (size_t)(slot - map->slots));
    map->count--;
    if (map->count == 0 && map->capacity > MAP_EMPTY_CAPACITY_MAX)
        pod_map_fini(map);
    return value;
}

bool pod_map_next(const struct pod_map *map, size_t *cursor, uint64_t *out_key,
                  void **out_value)
{
    while (*cursor < map->capacity) {
        const struct pod_map_slot *slot = &map->slots[(*cursor)++];
        if (slot->key == 0)
            continue;
        *out_key = slot->key;
        *out_value = slot->value;
        return true;
    }
    return false;
}
