// SPDX-License-Identifier: Apache-2.0
// Intrusive priority queue: no allocation, any item can be taken out.
//
// Higher priority first, then lower order number. A pairing heap: push is
// constant, pop and remove logarithmic (amortised). Not thread-safe.
#ifndef POD_DRIVER_QUEUE_H
#define POD_DRIVER_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct pod_queue;

// Zero-initialise it; set priority and order before it is pushed.
struct pod_queue_item {
    int priority;
    uint64_t order;
    struct pod_queue *queue;      // the queue it is in, or NULL
    struct pod_queue_item *prev;  // left sibling, or parent of the leftmost
    struct pod_queue_item *next;  // right sibling
    struct pod_queue_item *child; // leftmost child
};

// Zero-initialise it.
struct pod_queue {
    struct pod_queue_item *root; // the first item, or NULL
};

// Whether `a` goes before `b`.
bool pod_queue_before(const struct pod_queue_item *a,
                      const struct pod_queue_item *b);
void pod_queue_push(struct pod_queue *queue, struct pod_queue_item *item);
// Takes the item out of the queue it is in, if any.
void pod_queue_remove(struct pod_queue_item *item);
// The first item, taken out, or NULL.
struct pod_queue_item *pod_queue_pop(struct pod_queue *queue);

#endif
