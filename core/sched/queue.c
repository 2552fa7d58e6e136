// SPDX-License-Identifier: Apache-2.0
#include "core/sched/queue.h"

#include <assert.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/sched/internal.h"

enum {
    QUEUE_FIRST_CAPACITY = POD_SCHED_QUEUE_WORD,
    QUEUE_CAPACITY_MAX = 1 << 30, // a word to the power of the depth
};

#define QUEUE_NONE UINT32_MAX
// Items are addresses of nodes, or with this bit of members of gangs.
#define QUEUE_GANG ((uintptr_t)1)

void pod_sched_queue_fini(struct pod_sched_queue *queue)
{
    pod_free(queue->items);
    *queue = (struct pod_sched_queue){.items = NULL};
}

static struct pod_sched_gang *queue_gang(uintptr_t item)
{
    if ((item & QUEUE_GANG) == 0)
        return NULL;
    return (struct pod_sched_gang *)(item - QUEUE_GANG);
}

static struct pod_sched_node *queue_node(uintptr_t item)
{
    struct pod_sched_gang *gang = queue_gang(item);

    return gang != NULL ? gang->node : (struct pod_sched_node *)item;
}

static struct pod_sched_place *queue_place(uintptr_t item)
{
    struct pod_sched_gang *gang = queue_gang(item);

    if (gang != NULL)
        return &gang->place;
    return &pod_sched_cold((const struct pod_sched_node *)item)->place;
}

// -------------------------------------------------------------------- marks

static uint64_t *queue_tree(const struct pod_sched_queue *queue, uint32_t level)
{
    return queue->bits + (size_t)level * queue->words;
}

static void queue_set(struct pod_sched_queue *queue, uint32_t level,
                      uint32_t at)
{
    uint64_t *tree = queue_tree(queue, level);

    for (uint32_t row = 0; row < queue->depth; row++) {
        uint64_t bit = UINT64_C(1) << (at % POD_SCHED_QUEUE_WORD);
        at /= POD_SCHED_QUEUE_WORD;
        uint64_t *word = &tree[queue->base[row] + at];
        uint64_t before = *word;
        *word = before | bit;
        if (before != 0)
            return;
    }
    queue->levels |= UINT32_C(1) << level;
}

void pod_sched_queue_mark_more(struct pod_sched_queue *queue, uint32_t level,
                               uint32_t at)
{
    if (queue->alone != 0) {
        queue_set(queue, queue->alone_level, queue->alone - 1);
        queue->first = queue->alone;
        queue->first_level = queue->alone_level;
        queue->alone = 0;
    }
    queue_set(queue, level, at);
    if (queue->first == 0 || level > queue->first_level ||
        (level == queue->first_level && at + 1 > queue->first))
        return;
    queue->first = at + 1;
    queue->first_level = level;
}

void pod_sched_queue_unmark_more(struct pod_sched_queue *queue, uint32_t level,
                                 uint32_t at)
{
    uint64_t *tree = queue_tree(queue, level);

    if (queue->first == at + 1 && queue->first_level == level)
        queue->first = 0;
    for (uint32_t row = 0; row < queue->depth; row++) {
        uint64_t bit = UINT64_C(1) << (at % POD_SCHED_QUEUE_WORD);
        at /= POD_SCHED_QUEUE_WORD;
        uint64_t *word = &tree[queue->base[row] + at];
        assert((*word & bit) != 0);
        *word &= ~bit;
        if (*word != 0)
            return;
    }
    queue->levels &= ~(UINT32_C(1) << level);
}

// The first mark under one of the words of a row, which is not 0.
static uint32_t queue_descend(const struct pod_sched_queue *queue,
                              const uint64_t *tree, uint32_t row, uint32_t word)
{
    for (;; row--) {
        uint64_t bits = tree[queue->base[row] + word];
        word = word * POD_SCHED_QUEUE_WORD + (uint32_t)__builtin_ctzll(bits);
        if (row == 0)
            return word;
    }
}

// The first mark of a level that has marks.
static uint32_t queue_first(const struct pod_sched_queue *queue, uint32_t level)
{
    return queue_descend(queue, queue_tree(queue, level), queue->depth - 1, 0);
}

// The next mark of a level after a position, or QUEUE_NONE.
static uint32_t queue_next(const struct pod_sched_queue *queue, uint32_t level,
                           uint32_t at)
{
    const uint64_t *tree = queue_tree(queue, level);

    for (uint32_t row = 0; row < queue->depth; row++) {
        uint32_t word = at / POD_SCHED_QUEUE_WORD;
        // Shifted twice, since the last bit leaves nothing behind it.
        uint64_t behind = UINT64_MAX << (at % POD_SCHED_QUEUE_WORD) << 1;
        uint64_t bits = tree[queue->base[row] + word] & behind;
        if (bits != 0) {
            at = word * POD_SCHED_QUEUE_WORD + (uint32_t)__builtin_ctzll(bits);
            return row == 0 ? at : queue_descend(queue, tree, row - 1, at);
        }
        at = word;
    }
    return QUEUE_NONE;
}

struct pod_sched_node *pod_sched_queue_first(struct pod_sched_queue *queue)
{
    if (queue->alone != 0)
        return queue_node(queue->items[queue->alone - 1]);
    if (queue->levels == 0)
        return NULL;
    if (queue->first == 0) {
        queue->first_level = (uint32_t)__builtin_ctz(queue->levels);
        queue->first = queue_first(queue, queue->first_level) + 1;
    }
    return queue_node(queue->items[queue->first - 1]);
}

size_t pod_sched_queue_rank(const struct pod_sched_queue *queue, uint32_t level,
                            uint32_t at, size_t limit)
{
    size_t rank = 0;

    for (uint32_t i = 0; i <= level; i++) {
        if ((queue->levels >> i & 1) == 0)
            continue;
        uint32_t mark = queue_first(queue, i);
        while (mark != QUEUE_NONE && rank < limit &&
               !(i == level && mark == at)) {
            rank++;
            mark = queue_next(queue, i, mark);
        }
    }
    return rank;
}

// ---------------------------------------------------------------- positions

// Moves all to the front, in their order. Where the items are moved to may be
// where they are; the marks there are 0.
static void queue_pack(struct pod_sched_queue *queue, const uintptr_t *items)
{
    uint32_t end = 0;

    // All that is marked is marked anew.
    queue->levels = 0;
    queue->alone = 0;
    queue->first = 0;
    for (uint32_t i = 0; i < queue->end; i++) {
        uintptr_t item = items[i];
        if (item == 0)
            continue;
        queue_place(item)->at = end;
        queue->items[end] = item;
        const struct pod_sched_node *node = queue_node(item);
        if (pod_sched_has(node, POD_SCHED_IS_QUEUED))
            pod_sched_queue_mark(queue, pod_sched_level_of(node), end);
        end++;
    }
    queue->end = end;
}

// The rows of a tree for so many positions.
static void queue_shape(struct pod_sched_queue *queue, uint32_t capacity)
{
    uint32_t row = capacity;

    queue->capacity = capacity;
    queue->depth = 0;
    queue->words = 0;
    do {
        row = (row + POD_SCHED_QUEUE_WORD - 1) / POD_SCHED_QUEUE_WORD;
        queue->base[queue->depth++] = queue->words;
        queue->words += row;
    } while (row > 1);
}

static bool queue_grow(struct pod_sched_queue *queue, uint32_t capacity)
{
    struct pod_sched_queue grown = *queue;

    queue_shape(&grown, capacity);
    size_t marks = (size_t)grown.words * POD_SCHED_LEVELS;
    // Zeroes, which of much memory are there without being touched.
    grown.items = pod_calloc(capacity + marks, sizeof(uint64_t));
    if (grown.items == NULL)
        return false;
    grown.bits = (uint64_t *)(grown.items + capacity);
    queue_pack(&grown, queue->items);
    pod_free(queue->items);
    *queue = grown;
    return true;
}

// All that is done here is proportional to the capacity, of which a quarter or
// more was used up since it was done before.
static bool queue_make_room(struct pod_sched_queue *queue, size_t wanted)
{
    size_t capacity =
        queue->capacity > 0 ? queue->capacity : (size_t)QUEUE_FIRST_CAPACITY;

    if (wanted > QUEUE_CAPACITY_MAX / 2)
        return false;
    while (capacity / 4 * 3 < wanted)
        capacity *= 2;
    if (capacity > queue->capacity)
        return queue_grow(queue, (uint32_t)capacity);
    memset(queue->bits, 0,
           (size_t)queue->words * POD_SCHED_LEVELS * sizeof(queue->bits[0]));
    queue_pack(queue, queue->items);
    return true;
}

bool pod_sched_queue_reserve(struct pod_sched_queue *queue, size_t count)
{
    if (count <= queue->capacity - queue->end)
        return true;
    return queue_make_room(queue, queue->waiting + count);
}

static uint32_t queue_add(struct pod_sched_queue *queue, uintptr_t item)
{
    assert(queue->end < queue->capacity);
    queue->waiting++;
    queue->items[queue->end] = item;
    return queue->end++;
}

void pod_sched_queue_join(struct pod_sched_queue *queue,
                          struct pod_sched_node *node)
{
    pod_sched_cold(node)->place.at = queue_add(queue, (uintptr_t)node);
}

void pod_sched_queue_join_gang(struct pod_sched_queue *queue,
                               struct pod_sched_gang *member)
{
    member->place.at = queue_add(queue, (uintptr_t)member | QUEUE_GANG);
}
