// SPDX-License-Identifier: Apache-2.0
// What the scheduler's files share. See sched.h for the rules.
#ifndef POD_SCHED_INTERNAL_H
#define POD_SCHED_INTERNAL_H

#include <assert.h>

#include "core/base/heap.h"
#include "core/sched/node.h"
#include "core/sched/pool.h"
#include "core/sched/queue.h"
#include "core/sched/sched.h"

// An edge to a dependent: the dependent's number, shifted, and flags; 0: none.
enum {
    POD_SCHED_EDGE_CARRIES = 1,
    POD_SCHED_EDGE_AHEAD = 2,
    POD_SCHED_EDGE_SHIFT = 2,
    POD_SCHED_NODE_EDGES = 2,
    POD_SCHED_GROUP_EDGES = 7,
};

// Edges that a node has no room for in itself, newest first and filled from the
// end.
struct pod_sched_group {
    uint32_t older; // the number of another group, or 0
    uint32_t to[POD_SCHED_GROUP_EDGES];
};

// One of the places of a gang, from SUBMIT until it settles. They form a ring,
// which is turned to the lane that held the gang back.
struct pod_sched_gang {
    struct pod_sched_place place;
    struct pod_sched_node *node;
    struct pod_sched_gang *next;
    bool first; // as given
};

// struct pod_sched_node.flags: two numbers and single bits. They are in one
// word, always written as a whole: a read that gathers what was written in
// pieces would wait for the pieces to reach the cache.
#define POD_SCHED_STATE_MASK     UINT32_C(0xF) // enum pod_sched_state
#define POD_SCHED_LEVEL_SHIFT    8
#define POD_SCHED_LEVEL_MASK     UINT32_C(0x1F00) // of its priority; 0 goes first
#define POD_SCHED_IS_LAUNCHED    UINT32_C(0x00010000)
#define POD_SCHED_IS_SETTLED     UINT32_C(0x00020000)
#define POD_SCHED_IS_PLACED      UINT32_C(0x00040000) // has places in lanes
#define POD_SCHED_IS_GANG        UINT32_C(0x00080000) // in more than one
#define POD_SCHED_IS_QUEUED      UINT32_C(0x00100000) // marked in their queues
#define POD_SCHED_IS_INTERRUPTED UINT32_C(0x00200000) // INTERRUPT was given
#define POD_SCHED_IS_RESILIENT   UINT32_C(0x00400000) // run_on_failure
// Some dependent may be launched as soon as it is.
#define POD_SCHED_HAS_FOLLOWERS UINT32_C(0x00800000)
#define POD_SCHED_IS_CERTAIN    UINT32_C(0x01000000)
#define POD_SCHED_IS_LED        UINT32_C(0x02000000) // else nothing leads it
#define POD_SCHED_HAS_DEADLINE  UINT32_C(0x04000000)
#define POD_SCHED_HAS_CAUSE     UINT32_C(0x08000000)
#define POD_SCHED_HAS_GROUP     UINT32_C(0x10000000) // has more than two edges

// What nearly each event looks at. Many operations are in flight, and each is
// touched for each of its edges, so it is small: a quarter of a line of the
// cache. Its user pointer stands apart, for it is asked for once or twice.
struct pod_sched_node {
    // Edges to dependents, newest first and filled from the end. If HAS_GROUP,
    // the first is instead the number of the group with the older ones.
    uint32_t to[POD_SCHED_NODE_EDGES];
    // Edges to it that still stand and keep it from being launched.
    uint32_t held;
    uint32_t flags;
};

// The rest of a node. Most do without, so that it is neither read nor written:
// what is in it means something only if the node's flags say so.
struct pod_sched_cold {
    void *cause; // whose failure ended it, if HAS_CAUSE
    union {
        struct pod_sched_place place;      // if PLACED, and no gang
        struct pod_sched_gang *gang;       // if PLACED, and a gang
        struct pod_sched_node *next_spent; // while in sched->spent
    };
    // Its place in the effects of a step, if that is it: it says so itself, so
    // no flag has to.
    uint32_t effect;
    uint32_t next_ahead; // while in sched->ahead: the number of the next
    // Edges to it that still stand and do not keep it from being launched: sent
    // ahead, since their dependency is launched. If IS_LED.
    uint32_t led;
    uint32_t deadline_slot; // if HAS_DEADLINE
};

enum {
    POD_SCHED_GROUP_PLACES =
        POD_SCHED_CHUNK_BYTES / sizeof(struct pod_sched_group),
};

_Static_assert(sizeof(struct pod_sched_node) == POD_SCHED_NODE_BYTES,
               "as node.h says");
_Static_assert(sizeof(struct pod_sched_cold) == POD_SCHED_COLD_BYTES,
               "as node.h says");
_Static_assert(sizeof(struct pod_sched_group) == 32, "aligned to its size");

static inline struct pod_sched_cold *
pod_sched_cold(const struct pod_sched_node *node)
{
    return pod_sched_node_cold(node);
}

static inline struct pod_sched_node *
pod_sched_cold_node(const struct pod_sched_cold *cold)
{
    return pod_sched_node_of_cold(cold);
}

static inline bool pod_sched_edge_carries(uint32_t edge)
{
    return (edge & POD_SCHED_EDGE_CARRIES) != 0;
}

static inline bool pod_sched_edge_ahead(uint32_t edge)
{
    return (edge & POD_SCHED_EDGE_AHEAD) != 0;
}

static inline bool pod_sched_has(const struct pod_sched_node *node,
                                 uint32_t flag)
{
    return (node->flags & flag) != 0;
}

static inline enum pod_sched_state
pod_sched_state_of(const struct pod_sched_node *node)
{
    return (enum pod_sched_state)(node->flags & POD_SCHED_STATE_MASK);
}

static inline void pod_sched_set_state(struct pod_sched_node *node,
                                       enum pod_sched_state state)
{
    node->flags = (node->flags & ~POD_SCHED_STATE_MASK) | (uint32_t)state;
}

static inline uint32_t pod_sched_level_of(const struct pod_sched_node *node)
{
    return (node->flags & POD_SCHED_LEVEL_MASK) >> POD_SCHED_LEVEL_SHIFT;
}

// Whether no edge to it stands any more.
static inline bool pod_sched_node_met(const struct pod_sched_node *node)
{
    return node->held == 0 && (node->flags & POD_SCHED_IS_LED) == 0;
}

static inline bool pod_sched_node_open(const struct pod_sched_node *node)
{
    return !pod_sched_terminal(pod_sched_state_of(node));
}

// Plain completions and plain launches are most of what happens, so they are
// made on short ways of their own.

// What tells a node that the worker has, and of which nothing is left once that
// has answered.
#define POD_SCHED_PLAIN_MASK                                                   \
    (POD_SCHED_STATE_MASK | POD_SCHED_IS_LAUNCHED | POD_SCHED_IS_SETTLED |     \
     POD_SCHED_IS_PLACED | POD_SCHED_IS_LED | POD_SCHED_HAS_DEADLINE)

_Static_assert(POD_SCHED_RUNNING == POD_SCHED_READY + 1, "one comparison");

static inline bool pod_sched_is_plain(const struct pod_sched_node *node)
{
    return (node->flags & POD_SCHED_PLAIN_MASK) -
               (POD_SCHED_IS_LAUNCHED | POD_SCHED_READY) <=
           1;
}

// What makes more of a node that nothing holds any more than one to launch.
#define POD_SCHED_NOT_PLAIN                                                    \
    (POD_SCHED_STATE_MASK | POD_SCHED_IS_LAUNCHED | POD_SCHED_IS_PLACED |      \
     POD_SCHED_HAS_FOLLOWERS | POD_SCHED_IS_LED)

_Static_assert(POD_SCHED_WAITING == 0, "a plain node is WAITING");

struct pod_sched_lane {
    struct pod_sched_queue queue; // has room for all that may wait
    uint32_t window;
    uint32_t launched;
    uint32_t queued;
    uint32_t wanted; // room in the queue, while that is being reserved
    uint32_t next_dirty;
    bool dirty; // in the list of lanes to look at
};

struct pod_sched_lanes {
    struct pod_sched_lane *items;
    uint32_t count;
    uint32_t capacity;
    uint32_t dirty;              // first lane of the list, or POD_HEAP_NONE
    uint64_t windows;            // of all lanes together
    struct pod_sched_pool gangs; // struct pod_sched_gang
};

void pod_sched_lanes_init(struct pod_sched_lanes *lanes);
void pod_sched_lanes_fini(struct pod_sched_lanes *lanes);
// The number of a new lane, or UINT32_MAX.
uint32_t pod_sched_lanes_add(struct pod_sched_lanes *lanes, uint32_t window);

// Makes sure that a node can join these lanes; false: no memory.
bool pod_sched_lanes_reserve(struct pod_sched_lanes *lanes,
                             const uint32_t *numbers, size_t count)
    __attribute__((warn_unused_result));
// Gives a node its places, behind all that joined before.
void pod_sched_lanes_join(struct pod_sched_lanes *lanes,
                          struct pod_sched_node *node, const uint32_t *numbers,
                          size_t count);
// Nothing but its lanes holds the node back now.
void pod_sched_lanes_queue(struct pod_sched_lanes *lanes,
                           struct pod_sched_node *node);
// Whether pod_sched_lanes_pick may find one.
static inline bool pod_sched_lanes_any(const struct pod_sched_lanes *lanes)
{
    return lanes->dirty != POD_HEAP_NONE;
}
// The next node whose turn it is in all of its lanes, or NULL. It must be
// taken with pod_sched_lanes_occupy.
struct pod_sched_node *pod_sched_lanes_pick(struct pod_sched_lanes *lanes);
void pod_sched_lanes_occupy(struct pod_sched_lanes *lanes,
                            struct pod_sched_node *node);
// Gives up the places of a placed node, whether waiting, queued or launched.
void pod_sched_lanes_leave(struct pod_sched_lanes *lanes,
                           struct pod_sched_node *node);

// What a step brings, in order, and what the last one brought. There is room
// for each node, and once more for those that may be launched from lanes in one
// step: when such a node had an effect before, that moves to the end and leaves
// a gap, until the end of the step.
struct pod_sched_news {
    struct pod_sched_effects effects;
    size_t capacity;
    size_t gaps;
};

struct pod_sched {
    struct pod_sched_news news;
    // Nodes that ended and were never launched, and whose dependencies have all
    // settled: they settle in this step, in this order, or are launched.
    struct pod_sched_node *spent;
    struct pod_sched_node *last_spent;
    // Launched nodes whose dependents may follow: the number of the first.
    uint32_t ahead;
    struct pod_heap deadlines; // of open nodes
    uint64_t submitted;        // how many nodes ever
    struct pod_sched_pool nodes;
    struct pod_sched_pool groups;
    struct pod_sched_lanes lanes;
};

// Makes more room, for so many effects; false: no memory.
bool pod_sched_news_grow(struct pod_sched_news *news, size_t wanted)
    __attribute__((warn_unused_result));
// Makes sure that there is room for the effects of all nodes that are there and
// `more`; false: no memory.
static inline bool pod_sched_news_reserve(struct pod_sched *sched, size_t more)
{
    size_t nodes_most = pod_sched_pool_taken(&sched->nodes) + more;
    size_t moved_most = sched->lanes.windows < nodes_most
                            ? (size_t)sched->lanes.windows
                            : nodes_most;
    size_t wanted = nodes_most + moved_most;

    return wanted <= sched->news.capacity ||
           pod_sched_news_grow(&sched->news, wanted);
}
// The effect of a node, which has the last place now: moved there or new.
struct pod_sched_effect *pod_sched_news_last(struct pod_sched_news *news,
                                             struct pod_sched_node *node);
// At the end of a step.
void pod_sched_news_close_gaps(struct pod_sched_news *news);

// The effect of a node in this step, or NULL. A node need not forget the place
// of an earlier one: in that place is another's now, or nothing.
static inline struct pod_sched_effect *
pod_sched_news_find(const struct pod_sched_news *news,
                    const struct pod_sched_node *node)
{
    size_t count = news->effects.count;
    struct pod_sched_effect *items = news->effects.items;

    // Most are asked for at once, if there are any.
    if (count == 0 || items[count - 1].node == node)
        return count == 0 ? NULL : &items[count - 1];
    uint32_t place = pod_sched_cold(node)->effect;
    return place < count && items[place].node == node ? &items[place] : NULL;
}

// Appends the effect of a node that has none yet and will not be asked for it
// once there is another after it.
static inline struct pod_sched_effect *
pod_sched_news_append(struct pod_sched_news *news, struct pod_sched_node *node,
                      uint32_t what, enum pod_sched_state state)
{
    assert(news->effects.count < news->capacity);
    struct pod_sched_effect *effect =
        &news->effects.items[news->effects.count++];
    *effect = (struct pod_sched_effect){
        .node = node,
        .what = what,
        .state = state,
    };
    return effect;
}

// The same for one that may be.
static inline struct pod_sched_effect *
pod_sched_news_add(struct pod_sched_news *news, struct pod_sched_node *node,
                   uint32_t what, enum pod_sched_state state)
{
    pod_sched_cold(node)->effect = (uint32_t)news->effects.count;
    return pod_sched_news_append(news, node, what, state);
}

// Adds to the node's effect of this step; the first time it goes to the end
// of the list.
static inline struct pod_sched_effect *
pod_sched_note(struct pod_sched *sched, struct pod_sched_node *node,
               unsigned what)
{
    struct pod_sched_effect *effect = pod_sched_news_find(&sched->news, node);

    if (effect == NULL)
        return pod_sched_news_add(&sched->news, node, what,
                                  pod_sched_state_of(node));
    effect->what |= what;
    effect->state = pod_sched_state_of(node);
    return effect;
}

// Nothing holds back any more a node that waits, has no lanes and no followers,
// and of which nothing has come in this step: it is launched, and nothing more
// comes of it in this step.
static inline void pod_sched_launch_plain(struct pod_sched *sched,
                                          struct pod_sched_node *node)
{
    node->flags |= POD_SCHED_READY | POD_SCHED_IS_LAUNCHED;
    pod_sched_news_append(&sched->news, node,
                          POD_SCHED_CHANGED | POD_SCHED_LAUNCH,
                          POD_SCHED_READY);
}

// No edge to a node that waits is left. What is not launched had no effect in
// this step before, and has no other unless it has lanes, or is launched next.
static inline void pod_sched_set_ready(struct pod_sched *sched,
                                       struct pod_sched_node *node)
{
    pod_sched_set_state(node, POD_SCHED_READY);
    if (pod_sched_has(node, POD_SCHED_IS_LAUNCHED))
        (void)pod_sched_note(sched, node, POD_SCHED_CHANGED);
    else if (pod_sched_has(node, POD_SCHED_IS_PLACED))
        (void)pod_sched_news_add(&sched->news, node, POD_SCHED_CHANGED,
                                 POD_SCHED_READY);
    else
        (void)pod_sched_news_append(&sched->news, node, POD_SCHED_CHANGED,
                                    POD_SCHED_READY);
}

static inline struct pod_sched_node *
pod_sched_node_at(const struct pod_sched *sched, uint32_t number)
{
    return pod_sched_pool_at(&sched->nodes, number,
                             sizeof(struct pod_sched_node),
                             POD_SCHED_NODE_PLACES);
}

// The node an edge leads to.
static inline struct pod_sched_node *
pod_sched_edge_node(const struct pod_sched *sched, uint32_t edge)
{
    return pod_sched_node_at(sched, edge >> POD_SCHED_EDGE_SHIFT);
}

static inline uint32_t pod_sched_node_number(const struct pod_sched_node *node)
{
    return pod_sched_pool_number(node, sizeof *node, POD_SCHED_NODE_PLACES);
}

static inline struct pod_sched_group *
pod_sched_group_at(const struct pod_sched *sched, uint32_t number)
{
    return pod_sched_pool_at(&sched->groups, number,
                             sizeof(struct pod_sched_group),
                             POD_SCHED_GROUP_PLACES);
}

static inline uint32_t
pod_sched_group_number(const struct pod_sched_group *group)
{
    return pod_sched_pool_number(group, sizeof *group, POD_SCHED_GROUP_PLACES);
}

// A walk over the edges of a node.
struct pod_sched_walk {
    const uint32_t *next;
    const uint32_t *end;
    uint32_t older; // the group that follows
};

static inline struct pod_sched_walk
pod_sched_walk_of(const struct pod_sched_node *node)
{
    bool grouped = pod_sched_has(node, POD_SCHED_HAS_GROUP);

    return (struct pod_sched_walk){
        .next = grouped ? &node->to[1] : node->to,
        .end = node->to + POD_SCHED_NODE_EDGES,
        .older = grouped ? node->to[0] : 0,
    };
}

static inline struct pod_sched_walk
pod_sched_walk_of_group(const struct pod_sched_group *group)
{
    return (struct pod_sched_walk){
        .next = group->to,
        .end = group->to + POD_SCHED_GROUP_EDGES,
        .older = group->older,
    };
}

// The next edge, or 0.
static inline uint32_t pod_sched_walk_next(const struct pod_sched *sched,
                                           struct pod_sched_walk *walk)
{
    for (;;) {
        while (walk->next < walk->end) {
            uint32_t edge = *walk->next++;
            if (edge != 0)
                return edge;
        }
        if (walk->older == 0)
            return 0;
        *walk = pod_sched_walk_of_group(pod_sched_group_at(sched, walk->older));
    }
}

// Edges to it that are sent ahead count apart.
static inline void pod_sched_lead(struct pod_sched_node *node)
{
    struct pod_sched_cold *cold = pod_sched_cold(node);

    cold->led = pod_sched_has(node, POD_SCHED_IS_LED) ? cold->led + 1 : 1;
    node->flags |= POD_SCHED_IS_LED;
}

static inline void pod_sched_unlead(struct pod_sched_node *node)
{
    struct pod_sched_cold *cold = pod_sched_cold(node);

    assert(cold->led > 0);
    if (--cold->led == 0)
        node->flags &= ~POD_SCHED_IS_LED;
}

// Deadlines keep their order as unsigned keys of a heap.
static inline uint64_t pod_sched_deadline_key(int64_t deadline_ns)
{
    return (uint64_t)deadline_ns ^ (UINT64_C(1) << 63);
}

static inline int64_t pod_sched_deadline_of(uint64_t key)
{
    return (int64_t)(key ^ (UINT64_C(1) << 63));
}

// An open node ends; returns its effect.
struct pod_sched_effect *pod_sched_end(struct pod_sched *sched,
                                       struct pod_sched_node *node,
                                       enum pod_sched_state state);
// The same, because of the failure of a dependency with that user pointer.
void pod_sched_end_by(struct pod_sched *sched, struct pod_sched_node *node,
                      enum pod_sched_state state, void *cause);
// The deadline of an open node has passed.
void pod_sched_expire(struct pod_sched *sched, struct pod_sched_node *node);
// Nothing but its lanes holds the node back any more.
void pod_sched_unhold(struct pod_sched *sched, struct pod_sched_node *node);
// What a SUBMIT is before anything settles or is launched from a lane; NULL: no
// memory, and nothing has changed.
struct pod_sched_node *pod_sched_submit(struct pod_sched *sched,
                                        const struct pod_sched_event *event);
// Gives back an edge of a node that settles to its dependent, whatever may come
// of it.
void pod_sched_drop_edge(struct pod_sched *sched,
                         const struct pod_sched_node *node,
                         struct pod_sched_node *to, uint32_t edge);
// The last two phases of a step (sched.c).
void pod_sched_settle_and_launch(struct pod_sched *sched);
// The same, if there is something to do in them.
static inline void pod_sched_go_on(struct pod_sched *sched)
{
    if (sched->spent != NULL || sched->ahead != 0 ||
        pod_sched_lanes_any(&sched->lanes))
        pod_sched_settle_and_launch(sched);
}

#endif
