// SPDX-License-Identifier: Apache-2.0
#include "core/base/heap.h"

#include <assert.h>

#include "core/base/mem.h"

// Four children a parent: half as many levels as with two, and each level
// writes to an item somewhere else in memory.
enum { HEAP_FIRST_CAPACITY = 16, HEAP_CHILDREN = 4 };

void pod_heap_fini(struct pod_heap *heap)
{
    if (heap == NULL)
        return;
    pod_free(heap->entries);
    *heap = (struct pod_heap){.entries = NULL};
}

bool pod_heap_grow(struct pod_heap *heap, size_t count)
{
    size_t capacity =
        heap->capacity > 0 ? heap->capacity : (size_t)HEAP_FIRST_CAPACITY;

    // Positions are 32 bits wide, and one value means none.
    if (count >= POD_HEAP_NONE)
        return false;
    while (capacity < count)
        capacity *= 2;
    struct pod_heap_entry *entries =
        pod_realloc(heap->entries, capacity, sizeof entries[0]);
    if (entries == NULL)
        return false;
    heap->entries = entries;
    heap->capacity = capacity;
    return true;
}

static bool heap_before(const struct pod_heap_entry *a,
                        const struct pod_heap_entry *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    return a->order < b->order;
}

static void heap_place(struct pod_heap *heap, size_t at,
                       struct pod_heap_entry entry)
{
    heap->entries[at] = entry;
    *entry.slot = (uint32_t)at;
}

// Puts an entry at the position or above it, where it belongs.
static void heap_up(struct pod_heap *heap, size_t at,
                    struct pod_heap_entry entry)
{
    while (at > 0) {
        size_t parent = (at - 1) / HEAP_CHILDREN;
        if (!heap_before(&entry, &heap->entries[parent]))
            break;
        heap_place(heap, at, heap->entries[parent]);
        at = parent;
    }
    heap_place(heap, at, entry);
}

// The least of the children of a position, or `count` if it has none.
static size_t heap_least_child(const struct pod_heap *heap, size_t at)
{
    size_t child = HEAP_CHILDREN * at + 1;
    size_t end = child + HEAP_CHILDREN;

    if (child >= heap->count)
        return heap->count;
    if (end > heap->count)
        end = heap->count;
    size_t least = child;
    for (child++; child < end; child++) {
        if (heap_before(&heap->entries[child], &heap->entries[least]))
            least = child;
    }
    return least;
}

// Puts an entry at the position or below it, where it belongs.
static void heap_down(struct pod_heap *heap, size_t at,
                      struct pod_heap_entry entry)
{
    for (;;) {
        size_t child = heap_least_child(heap, at);
        if (child == heap->count || !heap_before(&heap->entries[child], &entry))
            break;
        heap_place(heap, at, heap->entries[child]);
        at = child;
    }
    heap_place(heap, at, entry);
}

void pod_heap_push(struct pod_heap *heap, struct pod_heap_entry entry)
{
    assert(heap->count < heap->capacity);
    heap->count++;
    heap_up(heap, heap->count - 1, entry);
}

void pod_heap_remove(struct pod_heap *heap, uint32_t *slot)
{
    size_t at = *slot;

    assert(at < heap->count && heap->entries[at].slot == slot);
    *slot = POD_HEAP_NONE;
    heap->count--;
    if (at == heap->count)
        return;
    // The last entry fills the gap; it may belong above or below it.
    struct pod_heap_entry last = heap->entries[heap->count];
    if (at > 0 && heap_before(&last, &heap->entries[(at - 1) / HEAP_CHILDREN]))
        heap_up(heap, at, last);
    else
        heap_down(heap, at, last);
}
