// SPDX-License-Identifier: Apache-2.0
#include "proto/worker_ids.h"

#include <assert.h>
#include <string.h>

#include "core/base/mem.h"

enum { IDS_FIRST = 8 };

void worker_ids_fini(struct worker_ids *ids)
{
    pod_free(ids->items);
    *ids = (struct worker_ids){.items = NULL};
}

bool worker_ids_reserve(struct worker_ids *ids, size_t room, size_t limit)
{
    if (room > limit || ids->count > limit - room)
        return false;
    if (room <= ids->capacity - ids->count)
        return true;
    size_t capacity = ids->capacity == 0 ? IDS_FIRST : ids->capacity * 2;
    if (capacity < ids->count + room)
        capacity = ids->count + room;
    struct worker_interval *items =
        pod_realloc(ids->items, capacity, sizeof(items[0]));
    if (items == NULL)
        return false;
    ids->items = items;
    ids->capacity = capacity;
    return true;
}

// The first interval that ends at or behind the number.
static size_t ids_find(const struct worker_ids *ids, uint64_t number)
{
    size_t low = 0;
    size_t high = ids->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ids->items[middle].last < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool worker_ids_has(const struct worker_ids *ids, uint64_t number)
{
    size_t at = ids_find(ids, number);
    return at < ids->count && ids->items[at].first <= number;
}

static void ids_remove(struct worker_ids *ids, size_t at, size_t count)
{
    if (count == 0) // there may be no items at all
        return;
    memmove(ids->items + at, ids->items + at + count,
            (ids->count - at - count) * sizeof(ids->items[0]));
    ids->count -= count;
}

void worker_ids_add(struct worker_ids *ids, uint64_t number)
{
    size_t at = ids_find(ids, number);
    struct worker_interval *items = ids->items;
    bool after = at > 0 && items[at - 1].last + 1 == number;
    bool before = at < ids->count && items[at].first == number + 1;
    if (at < ids->count && items[at].first <= number)
        return;
    if (after && before) {
        items[at - 1].last = items[at].last;
        ids_remove(ids, at, 1);
    } else if (after) {
        items[at - 1].last = number;
    } else if (before) {
        items[at].first = number;
    } else {
        assert(ids->count < ids->capacity);
        memmove(items + at + 1, items + at,
                (ids->count - at) * sizeof(items[0]));
        items[at] = (struct worker_interval){.first = number, .last = number};
        ids->count++;
    }
}

void worker_ids_drop_below(struct worker_ids *ids, uint64_t number)
{
    size_t at = ids_find(ids, number);
    ids_remove(ids, 0, at);
    if (ids->count > 0 && ids->items[0].first < number)
        ids->items[0].first = number;
}
