// SPDX-License-Identifier: Apache-2.0
#include "core/driver/queue.h"

#include <assert.h>
#include <stddef.h>

bool pod_queue_before(const struct pod_queue_item *a,
                      const struct pod_queue_item *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->order < b->order;
}

// Joins two heaps, each without siblings. NULL is an empty one.
static struct pod_queue_item *queue_join(struct pod_queue_item *a,
                                         struct pod_queue_item *b)
{
    if (a == NULL)
        return b;
    if (b == NULL)
        return a;
    if (pod_queue_before(b, a)) {
        struct pod_queue_item *swap = a;
        a = b;
        b = swap;
    }
    b->prev = a;
    b->next = a->child;
    if (b->next != NULL)
        b->next->prev = b;
    a->child = b;
    return a;
}

// Cuts the first item from a chain of siblings; NULL when there is none.
static struct pod_queue_item *queue_cut(struct pod_queue_item **chain)
{
    struct pod_queue_item *item = *chain;

    if (item != NULL) {
        *chain = item->next;
        item->next = NULL;
        item->prev = NULL;
    }
    return item;
}

// Joins a chain of siblings in pairs, then the pairs from the last to the
// first: that order is what makes pops cheap.
static struct pod_queue_item *queue_join_chain(struct pod_queue_item *chain)
{
    struct pod_queue_item *pairs = NULL;
    struct pod_queue_item *joined = NULL;
    struct pod_queue_item *item;

    while ((item = queue_cut(&chain)) != NULL) {
        item = queue_join(item, queue_cut(&chain));
        item->next = pairs;
        pairs = item;
    }
    while ((item = queue_cut(&pairs)) != NULL)
        joined = queue_join(joined, item);
    return joined;
}

void pod_queue_push(struct pod_queue *queue, struct pod_queue_item *item)
{
    assert(item->queue == NULL);
    item->queue = queue;
    item->prev = NULL;
    item->next = NULL;
    item->child = NULL;
    queue->root = queue_join(queue->root, item);
}

void pod_queue_remove(struct pod_queue_item *item)
{
    struct pod_queue *queue = item->queue;

    if (queue == NULL)
        return;
    struct pod_queue_item *children = queue_join_chain(item->child);
    if (item == queue->root) {
        queue->root = children;
    } else {
        if (item->prev->child == item)
            item->prev->child = item->next;
        else
            item->prev->next = item->next;
        if (item->next != NULL)
            item->next->prev = item->prev;
        queue->root = queue_join(queue->root, children);
    }
    item->queue = NULL;
    item->prev = NULL;
    item->next = NULL;
    item->child = NULL;
}

struct pod_queue_item *pod_queue_pop(struct pod_queue *queue)
{
    struct pod_queue_item *first = queue->root;

    if (first != NULL)
        pod_queue_remove(first);
    return first;
}
