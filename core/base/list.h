// SPDX-License-Identifier: Apache-2.0
// Intrusive doubly linked list with a sentinel. Not thread-safe.
#ifndef POD_BASE_LIST_H
#define POD_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct pod_list {
    struct pod_list *prev;
    struct pod_list *next;
};

#define POD_CONTAINER(pointer, type, member)                                   \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void pod_list_init(struct pod_list *head)
{
    head->prev = head;
    head->next = head;
}

static inline bool pod_list_empty(const struct pod_list *head)
{
    return head->next == head;
}

static inline void pod_list_push_back(struct pod_list *head,
                                      struct pod_list *item)
{
    item->prev = head->prev;
    item->next = head;
    head->prev->next = item;
    head->prev = item;
}

// Unlinks an item; it is then a list of its own, so removing twice is safe.
static inline void pod_list_remove(struct pod_list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    pod_list_init(item);
}

// The first item, unlinked, or NULL.
static inline struct pod_list *pod_list_pop_front(struct pod_list *head)
{
    struct pod_list *item = head->next;
    if (item == head)
        return NULL;
    pod_list_remove(item);
    return item;
}

// Moves all items of `from` to the end of `to`.
static inline void pod_list_splice(struct pod_list *to, struct pod_list *from)
{
    if (pod_list_empty(from))
        return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    pod_list_init(from);
}

#endif
