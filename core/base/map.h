// SPDX-License-Identifier: Apache-2.0
// Hash map from a non-zero 64-bit number to a pointer. Not thread-safe.
#ifndef POD_BASE_MAP_H
#define POD_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pod_map_slot {
    uint64_t key; // 0: empty
    void *value;
};

// Zero-initialise it. Open addressing, at most 3/4 full. One that is empty
// keeps no more than 1 MiB for those to come.
struct pod_map {
    struct pod_map_slot *slots;
    size_t capacity;
    size_t count;
};

void pod_map_fini(struct pod_map *map);
// Inserts or replaces; false when there is no memory (map unchanged).
bool pod_map_put(struct pod_map *map, uint64_t key, void *value);
// Where the value of a key is kept. A key that was not there is inserted with
// the value NULL. Valid until the next insertion. NULL when there is no memory.
void **pod_map_at(struct pod_map *map, uint64_t key);
// The value, or NULL.
void *pod_map_get(const struct pod_map *map, uint64_t key);
// A hint that the key will be looked up or inserted soon: its place in a large
// map is brought into the cache meanwhile.
void pod_map_expect(const struct pod_map *map, uint64_t key);
// Removes and returns the value, or NULL.
void *pod_map_remove(struct pod_map *map, uint64_t key);
// Walks all entries: start with *cursor = 0; false at the end. The map must
// not change during the walk.
bool pod_map_next(const struct pod_map *map, size_t *cursor, uint64_t *out_key,
                  void **out_value);

#endif
