// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/told.h"

static struct told_node *told_take_node(struct told *told)
{
    struct told_node *node = told->free_nodes;

    if (node == NULL)
        return &told->nodes[told->node_count++];
    told->free_nodes = node->next_free;
    return node;
}

static struct told_edge *told_take_edge(struct told *told)
{
    struct told_edge *edge = told->free_edges;

    if (edge == NULL)
        return &told->edges[told->edge_count++];
    told->free_edges = edge->next;
    return edge;
}

uint64_t told_submit(struct told *told, const uint64_t *deps, size_t dep_count)
{
    struct told_node *node = told_take_node(told);
    uint64_t place = (uint64_t)(node - told->nodes);

    *node = (struct told_node){
        .id = ++told->submitted << TOLD_PLACE_BITS | place,
        .unmet = (uint32_t)dep_count,
    };
    for (size_t i = 0; i < dep_count; i++) {
        struct told_node *from = told_find(told, deps[i]);
        struct told_edge *edge = told_take_edge(told);
        *edge = (struct told_edge){from->dependents, node};
        from->dependents = edge;
    }
    return node->id;
}

size_t told_done(struct told *told, uint64_t id)
{
    struct told_node *node = told_find(told, id);
    struct told_edge *last = NULL;
    uint64_t *news = told->news;

    if (node->id != id)
        return 0;
    for (struct told_edge *edge = node->dependents; edge != NULL;
         edge = edge->next) {
        if (--edge->to->unmet == 0)
            *news++ = edge->to->id;
        last = edge;
    }
    *news++ = id;
    if (last != NULL) {
        last->next = told->free_edges;
        told->free_edges = node->dependents;
    }
    node->id = 0;
    node->next_free = told->free_nodes;
    told->free_nodes = node;
    return (size_t)(news - told->news);
}
