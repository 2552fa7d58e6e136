// SPDX-License-Identifier: Apache-2.0
// Many plain completions in one step.
//
// What a completion by itself costs is mostly not its edges: a call, an effect
// for what ended, one for each launch, and both looked at by who made the step.
// Told together, each costs its edges alone. A node that has one dependent and
// comes after others with the same one, as in a join, does not even touch it:
// such edges are counted, and given back together.
#include <assert.h>
#include <string.h>

#include "core/sched/internal.h"

enum { DONE_EXPECTED = 8 }; // so many nodes ahead come from memory

// It is seen before each node and before each group whether there is room for
// what their edges may launch.
_Static_assert((int)POD_SCHED_LAUNCHED_MIN >= POD_SCHED_NODE_EDGES &&
                   (int)POD_SCHED_LAUNCHED_MIN >= POD_SCHED_GROUP_EDGES,
               "room for all of them");

// A node whose edges are given back.
struct done {
    struct pod_sched *sched;
    struct pod_sched_chunk *const *chunks; // of the nodes
    const struct pod_sched_node *node;
};

// `held` and `flags` of a node as one word: they are looked at together.
static inline uint64_t done_word(uint32_t held, uint32_t flags)
{
    const uint32_t parts[] = {held, flags};
    uint64_t word;

    memcpy(&word, parts, sizeof word);
    return word;
}

_Static_assert(offsetof(struct pod_sched_node, flags) ==
                   offsetof(struct pod_sched_node, held) + sizeof(uint32_t),
               "they are neighbours");

static inline uint64_t done_load(const struct pod_sched_node *node)
{
    return done_word(node->held, node->flags);
}

static inline void done_store(struct pod_sched_node *node, uint64_t word)
{
    memcpy(&node->held, &word, sizeof word);
}

// As pod_sched_edge_node, in fewer steps: the flags fall away with what the
// offset has no room for.
static inline struct pod_sched_node *done_to(const struct done *done,
                                             uint32_t edge)
{
    enum { BYTES = sizeof(struct pod_sched_node) };
    uint32_t chunk = edge / (POD_SCHED_NODE_PLACES << POD_SCHED_EDGE_SHIFT);
    uint32_t offset = edge * (BYTES >> POD_SCHED_EDGE_SHIFT) &
                      (POD_SCHED_NODE_PLACES - 1) * BYTES;

    return (struct pod_sched_node *)(void *)((char *)done->chunks[chunk] +
                                             offset);
}

// Gives back `count` edges to one dependent, all alike. Returns where the next
// node that is launched is to be put: behind the dependent, if it is.
static inline struct pod_sched_node **
done_drop(const struct done *done, uint32_t edge, uint32_t count,
          struct pod_sched_node **launched)
{
    struct pod_sched_node *to = done_to(done, edge);
    uint64_t word = done_load(to);

    // An edge that is sent ahead leads its dependent now, which is not plain.
    if (__builtin_expect((word & done_word(UINT32_MAX, POD_SCHED_NOT_PLAIN)) ==
                             done_word(count, 0),
                         1)) {
        done_store(to, word ^ done_word(count, POD_SCHED_READY |
                                                   POD_SCHED_IS_LAUNCHED));
        *launched = to;
        return launched + 1;
    }
    if (!pod_sched_edge_ahead(edge) && to->held > count) {
        done_store(to, word - done_word(count, 0));
        return launched;
    }
    for (; count > 0; count--)
        pod_sched_drop_edge(done->sched, done->node, to, edge);
    return launched;
}

static inline struct pod_sched_node **
done_drop_group(const struct done *done, const struct pod_sched_group *group,
                struct pod_sched_node **launched)
{
// A node with very many dependents costs hardly more than this.
#pragma GCC unroll 7
    for (size_t i = 0; i < POD_SCHED_GROUP_EDGES; i++) {
        if (group->to[i] != 0)
            launched = done_drop(done, group->to[i], 1, launched);
    }
    return launched;
}

// Gives back the edges of a node with several dependents, from the group on to
// which an earlier call came, if any, and says to which group it came: 0 if no
// edge is left. Not inline: what most nodes bring is done without it.
__attribute__((noinline)) static struct pod_sched_node **
done_edges(struct done done, uint32_t *in_out_group,
           struct pod_sched_node **launched, struct pod_sched_node *const *full)
{
    const struct pod_sched_node *node = done.node;
    uint32_t number = *in_out_group;

    if (number == 0) {
        bool grouped = pod_sched_has(node, POD_SCHED_HAS_GROUP);
        if (!grouped)
            launched = done_drop(&done, node->to[0], 1, launched);
        launched = done_drop(&done, node->to[1], 1, launched);
        number = grouped ? node->to[0] : 0;
    }
    while (number != 0 && launched <= full) {
        struct pod_sched_group *group = pod_sched_group_at(done.sched, number);
        number = group->older;
        __builtin_prefetch(pod_sched_group_at(done.sched, number));
        launched = done_drop_group(&done, group, launched);
        pod_sched_pool_give(&done.sched->groups, group);
    }
    *in_out_group = number;
    return launched;
}

// The nodes that are done.
struct done_nodes {
    struct pod_sched_node *const *items;
    size_t count;
    size_t expected; // the first so many have one DONE_EXPECTED further on
    struct pod_sched_pool_list gone; // those that are taken
};

static inline const struct pod_sched_node *
done_look(const struct done_nodes *nodes, size_t i)
{
    if (i < nodes->expected)
        __builtin_prefetch(nodes->items[i + DONE_EXPECTED], 1);
    assert(pod_sched_is_plain(nodes->items[i]));
    return nodes->items[i];
}

// Those from `i` on that have no dependent; returns the first that has one.
static inline size_t done_leaves(struct done_nodes *nodes, size_t i)
{
    while (i < nodes->count && done_look(nodes, i)->to[1] == 0)
        pod_sched_pool_collect(&nodes->gone, nodes->items[i++]);
    return i;
}

// Those from `i` on whose only edge is that one; returns the first that is
// other.
static inline size_t done_alike(struct done_nodes *nodes, size_t i,
                                uint32_t edge)
{
    const struct pod_sched_node *node;

    while (i < nodes->count && (node = done_look(nodes, i))->to[1] == edge &&
           node->to[0] == 0)
        pod_sched_pool_collect(&nodes->gone, nodes->items[i++]);
    return i;
}

// Not inline, so that a chain need not keep what this does on the stack.
__attribute__((noinline)) static size_t
done_all(struct pod_sched *sched, struct pod_sched_done *what,
         struct pod_sched_node **out_launched, size_t room)
{
    struct pod_sched_node **launched = out_launched;
    struct pod_sched_node *const *full =
        out_launched + (room - POD_SCHED_LAUNCHED_MIN);
    struct done done = {.sched = sched, .chunks = sched->nodes.chunks};
    struct done_nodes nodes = {
        .items = what->nodes,
        .count = what->count,
        .expected =
            what->count > DONE_EXPECTED ? what->count - DONE_EXPECTED : 0,
    };
    size_t i = what->taken;

    assert(room >= POD_SCHED_LAUNCHED_MIN);
    sched->news.effects.count = 0;
    while ((i = done_leaves(&nodes, i)) < nodes.count && launched <= full) {
        struct pod_sched_node *node = nodes.items[i];
        uint32_t edge = node->to[1];
        done.node = node;
        if (node->to[0] == 0) {
            size_t next = done_alike(&nodes, i, edge);
            launched = done_drop(&done, edge, (uint32_t)(next - i), launched);
            i = next;
            continue;
        }
        launched = done_edges(done, &what->group, launched, full);
        if (what->group != 0)
            break;
        pod_sched_pool_collect(&nodes.gone, node);
        i++;
    }
    pod_sched_pool_give_list(&sched->nodes, &nodes.gone, i - what->taken);
    what->taken = i;
    pod_sched_go_on(sched);
    return (size_t)(launched - out_launched);
}

// One alone that has one dependent at most, as in a chain.
static inline size_t done_one(struct pod_sched *sched,
                              struct pod_sched_node *node,
                              struct pod_sched_node **out_launched)
{
    const struct done done = {
        .sched = sched, .chunks = sched->nodes.chunks, .node = node};
    struct pod_sched_node **launched = out_launched;
    uint32_t edge = node->to[1];

    assert(pod_sched_is_plain(node));
    sched->news.effects.count = 0;
    pod_sched_pool_give(&sched->nodes, node);
    if (edge != 0)
        launched = done_drop(&done, edge, 1, launched);
    pod_sched_go_on(sched);
    return (size_t)(launched - out_launched);
}

size_t pod_sched_done_many(struct pod_sched *sched, struct pod_sched_done *done,
                           struct pod_sched_node **out_launched, size_t room)
{
    if (done->count != 1 || done->nodes[0]->to[0] != 0)
        return done_all(sched, done, out_launched, room);
    done->taken = 1;
    return done_one(sched, done->nodes[0], out_launched);
}
