// SPDX-License-Identifier: Apache-2.0
// Min-heap whose items know their place in it, so that any of them can
// be taken out. Not thread-safe.
#ifndef POD_BASE_HEAP_H
#define POD_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a slot holds while its item is in no heap.
#define POD_HEAP_NONE UINT32_MAX

struct pod_heap_entry {
    uint64_t key;
    uint64_t order; // decides between equal keys
    uint32_t *slot; // a field of the item; the heap keeps its position there
};

// Zero-initialise it.
struct pod_heap {
    struct pod_heap_entry *entries;
    size_t count;
    size_t capacity;
};

void pod_heap_fini(struct pod_heap *heap);
// Makes more room, for `count` items in all; false as below.
bool pod_heap_grow(struct pod_heap *heap, size_t count)
    __attribute__((warn_unused_result));
// Makes room for `count` items in all; false: no memory, nothing changed.
static inline bool __attribute__((warn_unused_result))
pod_heap_reserve(struct pod_heap *heap, size_t count)
{
    return count <= heap->capacity || pod_heap_grow(heap, count);
}
// Room must have been reserved.
void pod_heap_push(struct pod_heap *heap, struct pod_heap_entry entry);
// Takes out the item with this slot, which becomes POD_HEAP_NONE.
void pod_heap_remove(struct pod_heap *heap, uint32_t *slot);

// The least entry, or NULL.
static inline const struct pod_heap_entry *
pod_heap_top(const struct pod_heap *heap)
{
    return heap->count > 0 ? &heap->entries[0] : NULL;
}

#endif
