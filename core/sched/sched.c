// SPDX-License-Identifier: Apache-2.0
// A step has three phases, each a loop without recursion:
//
//   end     the event, and what it brings: nodes end, and their failure
//           spreads over the edges that carry;
//   settle  nodes of which no worker has anything any more hand their edges
//           back, which makes dependents READY and queues them;
//   launch  queued nodes whose turn it is are launched, which may queue
//           dependents that were waiting for just that.
//
// Nodes only end in the first phase and only become READY or launched in the
// later ones, so no node is launched in the step that ends it, but for one that
// is certain.
//
// The list of effects is also the list of work: a node that ends is appended
// to it, and spreading failure walks the list while it grows.
//
// An edge stands until its dependency settles, even when the dependent has
// ended before: a node counts its edges down to zero and only then is gone. One
// that was never launched settles only then, too: whoever waits for it to
// settle waits for all that it stood behind.
#include "core/sched/sched.h"

#include <assert.h>
#include <string.h>

#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/sched/internal.h"

struct pod_sched *pod_sched_new(void)
{
    struct pod_sched *sched = pod_calloc(1, sizeof *sched);

    if (sched == NULL)
        return NULL;
    pod_sched_pool_init(&sched->nodes, sizeof(struct pod_sched_node),
                        POD_SCHED_NODE_PLACES);
    pod_sched_pool_init(&sched->groups, sizeof(struct pod_sched_group),
                        POD_SCHED_GROUP_PLACES);
    pod_sched_lanes_init(&sched->lanes);
    return sched;
}

void pod_sched_free(struct pod_sched *sched)
{
    if (sched == NULL)
        return;
    pod_heap_fini(&sched->deadlines);
    pod_sched_lanes_fini(&sched->lanes);
    pod_sched_pool_fini(&sched->groups);
    pod_sched_pool_fini(&sched->nodes);
    pod_free(sched->news.effects.items);
    pod_free(sched);
}

uint32_t pod_sched_add_lane(struct pod_sched *sched, uint32_t window)
{
    return pod_sched_lanes_add(&sched->lanes, window);
}

void pod_sched_set_window(struct pod_sched *sched, uint32_t lane,
                          uint32_t window)
{
    assert(window >= 1 && pod_sched_lane_depth(sched, lane) == 0);
    sched->lanes.windows += window;
    sched->lanes.windows -= sched->lanes.items[lane].window;
    sched->lanes.items[lane].window = window;
}

// Nobody has anything to do with the node any more.
static inline void sched_release(struct pod_sched *sched,
                                 struct pod_sched_node *node)
{
    (void)pod_sched_note(sched, node, POD_SCHED_RELEASED);
    pod_sched_pool_give(&sched->nodes, node);
}

// ---------------------------------------------------------------- end phase

static void sched_interrupt(struct pod_sched *sched,
                            struct pod_sched_node *node)
{
    if (!pod_sched_has(node, POD_SCHED_IS_LAUNCHED) ||
        pod_sched_has(node, POD_SCHED_IS_INTERRUPTED | POD_SCHED_IS_CERTAIN))
        return;
    node->flags |= POD_SCHED_IS_INTERRUPTED;
    (void)pod_sched_note(sched, node, POD_SCHED_INTERRUPT);
}

// It ended, was never launched, and nothing it stood behind is left.
static void sched_spend(struct pod_sched *sched, struct pod_sched_node *node)
{
    pod_sched_cold(node)->next_spent = NULL;
    if (sched->spent == NULL)
        sched->spent = node;
    else
        pod_sched_cold(sched->last_spent)->next_spent = node;
    sched->last_spent = node;
}

struct pod_sched_effect *pod_sched_end(struct pod_sched *sched,
                                       struct pod_sched_node *node,
                                       enum pod_sched_state state)
{
    assert(pod_sched_node_open(node) && pod_sched_terminal(state));
    pod_sched_set_state(node, state);
    if (pod_sched_has(node, POD_SCHED_HAS_DEADLINE)) {
        node->flags &= ~POD_SCHED_HAS_DEADLINE;
        pod_heap_remove(&sched->deadlines,
                        &pod_sched_cold(node)->deadline_slot);
    }
    if (!pod_sched_has(node, POD_SCHED_IS_LAUNCHED) &&
        pod_sched_has(node, POD_SCHED_IS_PLACED))
        pod_sched_lanes_leave(&sched->lanes, node);
    if (!pod_sched_has(node, POD_SCHED_IS_LAUNCHED) && pod_sched_node_met(node))
        sched_spend(sched, node);
    return pod_sched_note(sched, node, POD_SCHED_CHANGED);
}

void pod_sched_end_by(struct pod_sched *sched, struct pod_sched_node *node,
                      enum pod_sched_state state, void *cause)
{
    (void)pod_sched_end(sched, node, state);
    pod_sched_cold(node)->cause = cause;
    node->flags |= POD_SCHED_HAS_CAUSE;
}

// Ends the open nodes that depend on this one over edges that carry.
static void sched_end_dependents(struct pod_sched *sched,
                                 const struct pod_sched_node *node,
                                 enum pod_sched_state state)
{
    struct pod_sched_walk walk = pod_sched_walk_of(node);
    uint32_t edge;

    while ((edge = pod_sched_walk_next(sched, &walk)) != 0) {
        struct pod_sched_node *to = pod_sched_edge_node(sched, edge);
        if (!pod_sched_edge_carries(edge) ||
            pod_sched_has(to, POD_SCHED_IS_RESILIENT) ||
            !pod_sched_node_open(to))
            continue;
        pod_sched_end_by(sched, to, state, *pod_sched_node_user_at(node));
        sched_interrupt(sched, to);
    }
}

// Ends the dependents of a node, theirs, and so on.
static void sched_spread(struct pod_sched *sched,
                         const struct pod_sched_node *node,
                         enum pod_sched_state state)
{
    size_t ended = sched->news.effects.count;

    sched_end_dependents(sched, node, state);
    // What comes now ended just now, and more comes while we go.
    for (; ended < sched->news.effects.count; ended++)
        sched_end_dependents(sched, sched->news.effects.items[ended].node,
                             state);
}

static inline void sched_finish(struct pod_sched *sched,
                                struct pod_sched_node *node,
                                enum pod_sched_state state)
{
    if (!pod_sched_node_open(node))
        return;
    (void)pod_sched_end(sched, node, state);
    if (state != POD_SCHED_SUCCEEDED)
        sched_spread(sched, node, POD_SCHED_SKIPPED);
}

// A launched node that a cancel ends at once, because its worker need not stop.
static inline bool sched_goes_on_unseen(const struct pod_sched_node *node)
{
    return pod_sched_has(node, POD_SCHED_IS_CERTAIN) &&
           pod_sched_state_of(node) != POD_SCHED_RUNNING;
}

static void sched_cancel(struct pod_sched *sched, struct pod_sched_node *node,
                         bool cascade)
{
    if (!pod_sched_node_open(node))
        return;
    if (pod_sched_has(node, POD_SCHED_IS_LAUNCHED) &&
        !sched_goes_on_unseen(node))
        sched_interrupt(sched, node);
    else
        (void)pod_sched_end(sched, node, POD_SCHED_CANCELLED);
    sched_spread(sched, node,
                 cascade ? POD_SCHED_CANCELLED : POD_SCHED_SKIPPED);
}

void pod_sched_expire(struct pod_sched *sched, struct pod_sched_node *node)
{
    pod_sched_end(sched, node, POD_SCHED_FAILED)->what |= POD_SCHED_EXPIRED;
    sched_interrupt(sched, node);
    sched_spread(sched, node, POD_SCHED_SKIPPED);
}

static void sched_advance(struct pod_sched *sched, int64_t now_ns)
{
    uint64_t now = pod_sched_deadline_key(now_ns);

    for (;;) {
        const struct pod_heap_entry *top = pod_heap_top(&sched->deadlines);
        if (top == NULL || top->key > now)
            return;
        const struct pod_sched_cold *cold =
            POD_CONTAINER(top->slot, struct pod_sched_cold, deadline_slot);
        pod_sched_expire(sched, pod_sched_cold_node(cold));
    }
}

// ------------------------------------------------------------- settle phase

static inline void sched_set_launched(struct pod_sched *sched,
                                      struct pod_sched_node *node)
{
    node->flags |= POD_SCHED_IS_LAUNCHED;
    if (!pod_sched_has(node, POD_SCHED_HAS_FOLLOWERS))
        return;
    pod_sched_cold(node)->next_ahead = sched->ahead;
    sched->ahead = pod_sched_node_number(node);
}

// Nothing but its lanes holds the node back any more.
static inline void sched_launch(struct pod_sched *sched,
                                struct pod_sched_node *node)
{
    // Launches show in the order in which they happen.
    pod_sched_news_last(&sched->news, node)->what |= POD_SCHED_LAUNCH;
    if (pod_sched_has(node, POD_SCHED_IS_PLACED))
        pod_sched_lanes_occupy(&sched->lanes, node);
    sched_set_launched(sched, node);
}

void pod_sched_unhold(struct pod_sched *sched, struct pod_sched_node *node)
{
    if (!pod_sched_node_open(node))
        return;
    if (pod_sched_has(node, POD_SCHED_IS_PLACED))
        pod_sched_lanes_queue(&sched->lanes, node);
    else
        sched_launch(sched, node);
}

// No edge to the node is left, which is not settled.
static inline void sched_met(struct pod_sched *sched,
                             struct pod_sched_node *node)
{
    if (pod_sched_state_of(node) == POD_SCHED_WAITING) {
        pod_sched_set_ready(sched, node);
    } else if (!pod_sched_has(node, POD_SCHED_IS_LAUNCHED) &&
               !pod_sched_node_open(node)) {
        sched_spend(sched, node);
    }
}

// Not inline: what most edges bring is done without it.
__attribute__((noinline)) void
pod_sched_drop_edge(struct pod_sched *sched, const struct pod_sched_node *node,
                    struct pod_sched_node *to, uint32_t edge)
{
    bool led = pod_sched_edge_ahead(edge) &&
               pod_sched_has(node, POD_SCHED_IS_LAUNCHED);

    if (led) {
        pod_sched_unlead(to);
    } else {
        assert(to->held > 0);
        to->held--;
    }
    if (pod_sched_node_met(to) && pod_sched_has(to, POD_SCHED_IS_SETTLED)) {
        sched_release(sched, to);
        return;
    }
    if (pod_sched_node_met(to))
        sched_met(sched, to);
    if (!led && to->held == 0)
        pod_sched_unhold(sched, to);
}

// Gives back an edge to a dependent of a node that settles, if that leaves the
// dependent waiting or makes it one to launch at once, as most do. false:
// nothing was done.
static inline bool sched_drop_plain_edge(struct pod_sched *sched,
                                         struct pod_sched_node *to,
                                         uint32_t edge)
{
    if (pod_sched_edge_ahead(edge))
        return false;
    uint32_t left = to->held - 1;
    if (left > 0) {
        assert(left != UINT32_MAX);
        to->held = left;
        return true;
    }
    if (pod_sched_has(to, POD_SCHED_NOT_PLAIN))
        return false;
    to->held = 0;
    pod_sched_launch_plain(sched, to);
    return true;
}

// Gives back an edge of a node that settles to its dependent. false: something
// more than a plain launch may come of it.
static inline bool sched_drop_edge(struct pod_sched *sched,
                                   const struct pod_sched_node *node,
                                   struct pod_sched_node *to, uint32_t edge)
{
    if (sched_drop_plain_edge(sched, to, edge))
        return true;
    pod_sched_drop_edge(sched, node, to, edge);
    return false;
}

// The same for a list of edges, from the newest on.
static inline bool sched_drop_list(struct pod_sched *sched,
                                   const struct pod_sched_node *node,
                                   const uint32_t *edges, size_t count,
                                   bool with_cold)
{
    struct pod_sched_node *to[POD_SCHED_GROUP_EDGES];
    size_t first = count;
    bool plain = true;

    // With many operations in flight all dependents come from memory: so let
    // them come at once.
    for (; first > 0 && edges[first - 1] != 0; first--) {
        to[first - 1] = pod_sched_edge_node(sched, edges[first - 1]);
        __builtin_prefetch(to[first - 1], 1);
        if (with_cold)
            __builtin_prefetch(pod_sched_cold(to[first - 1]), 1);
    }
    for (size_t i = first; i < count; i++)
        plain = sched_drop_edge(sched, node, to[i], edges[i]) && plain;
    return plain;
}

// The same for several edges of a node. Not inline: most have fewer.
__attribute__((noinline)) static bool
sched_drop_edges(struct pod_sched *sched, const struct pod_sched_node *node,
                 bool with_cold)
{
    struct pod_sched_walk walk = pod_sched_walk_of(node);
    uint32_t number = walk.older;
    bool plain = sched_drop_list(sched, node, walk.next,
                                 (size_t)(walk.end - walk.next), with_cold);

    while (number != 0) {
        struct pod_sched_group *group = pod_sched_group_at(sched, number);
        number = group->older;
        __builtin_prefetch(pod_sched_group_at(sched, number));
        plain = sched_drop_list(sched, node, group->to, POD_SCHED_GROUP_EDGES,
                                with_cold) &&
                plain;
        pod_sched_pool_give(&sched->groups, group);
    }
    return plain;
}

static inline void sched_settle(struct pod_sched *sched,
                                struct pod_sched_node *node)
{
    bool placed = pod_sched_has(node, POD_SCHED_IS_PLACED);

    if (placed)
        pod_sched_lanes_leave(&sched->lanes, node);
    node->flags |= POD_SCHED_IS_SETTLED;
    if (node->to[1] != 0) {
        (void)sched_drop_edges(sched, node, placed);
        // Nobody may find them any more.
        node->flags &= ~POD_SCHED_HAS_GROUP;
        memset(node->to, 0, sizeof node->to);
    }
    if (pod_sched_node_met(node))
        sched_release(sched, node);
}

static void sched_settle_spent(struct pod_sched *sched)
{
    while (sched->spent != NULL) {
        struct pod_sched_node *node = sched->spent;
        sched->spent = pod_sched_cold(node)->next_spent;
        if (!pod_sched_has(node, POD_SCHED_IS_CERTAIN)) {
            sched_settle(sched, node);
            continue;
        }
        (void)pod_sched_note(sched, node, POD_SCHED_LAUNCH);
        sched_set_launched(sched, node);
    }
}

// ------------------------------------------------------------- launch phase

// The dependents that waited only for the node's launch no longer do.
static void sched_lead(struct pod_sched *sched, struct pod_sched_node *node)
{
    struct pod_sched_walk walk = pod_sched_walk_of(node);
    uint32_t edge;

    while ((edge = pod_sched_walk_next(sched, &walk)) != 0) {
        if (!pod_sched_edge_ahead(edge))
            continue;
        struct pod_sched_node *to = pod_sched_edge_node(sched, edge);
        assert(to->held > 0);
        to->held--;
        pod_sched_lead(to);
        if (to->held == 0)
            pod_sched_unhold(sched, to);
    }
}

static void sched_launch_all(struct pod_sched *sched)
{
    for (;;) {
        // First all that can be queued, then the choice among it.
        while (sched->ahead != 0) {
            struct pod_sched_node *node =
                pod_sched_node_at(sched, sched->ahead);
            sched->ahead = pod_sched_cold(node)->next_ahead;
            sched_lead(sched, node);
        }
        struct pod_sched_node *node = pod_sched_lanes_pick(&sched->lanes);
        if (node == NULL)
            return;
        sched_launch(sched, node);
    }
}

// --------------------------------------------------------------------- step

static void sched_started(struct pod_sched *sched, struct pod_sched_node *node)
{
    if (!pod_sched_node_open(node) ||
        pod_sched_state_of(node) == POD_SCHED_RUNNING)
        return;
    assert(pod_sched_has(node, POD_SCHED_IS_LAUNCHED));
    pod_sched_set_state(node, POD_SCHED_RUNNING);
    // Nothing else comes of this step.
    (void)pod_sched_news_append(&sched->news, node, POD_SCHED_CHANGED,
                                POD_SCHED_RUNNING);
}

static void sched_done(struct pod_sched *sched, struct pod_sched_node *node,
                       enum pod_sched_state state)
{
    assert((node->flags & (POD_SCHED_IS_LAUNCHED | POD_SCHED_IS_SETTLED)) ==
           POD_SCHED_IS_LAUNCHED);
    sched_finish(sched, node, state);
    sched_settle(sched, node);
}

static enum pod_code sched_make(struct pod_sched *sched,
                                const struct pod_sched_event *event,
                                struct pod_sched_node **out_node,
                                struct pod_err *err)
{
    struct pod_sched_node *node;

    switch (event->kind) {
    case POD_SCHED_SUBMIT:
        node = pod_sched_submit(sched, event);
        if (node == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for another operation");
        if (out_node != NULL)
            *out_node = node;
        break;
    case POD_SCHED_STARTED:
        sched_started(sched, event->node);
        break;
    case POD_SCHED_DONE:
        sched_done(sched, event->node, event->state);
        break;
    case POD_SCHED_END:
        sched_finish(sched, event->node, event->state);
        break;
    case POD_SCHED_CANCEL:
        sched_cancel(sched, event->node, event->cascade);
        break;
    case POD_SCHED_ADVANCE:
        sched_advance(sched, event->now_ns);
        break;
    }
    return POD_OK;
}

void pod_sched_settle_and_launch(struct pod_sched *sched)
{
    sched_settle_spent(sched);
    sched_launch_all(sched);
    pod_sched_news_close_gaps(&sched->news);
}

// Not inline: it keeps more on the stack than most steps need.
__attribute__((noinline)) static enum pod_code
sched_step_any(struct pod_sched *sched, const struct pod_sched_event *event,
               struct pod_sched_node **out_node, struct pod_err *err)
{
    enum pod_code code = sched_make(sched, event, out_node, err);

    pod_sched_go_on(sched);
    return code;
}

// -------------------------------------------------------- plain completions

// Most steps are completions of nodes that go at once and bring nothing but
// plain launches. They are made here without a call, since calls and what they
// keep would cost more than the work.

// The rest of a plain completion of a node with several edges, or whose only
// edge is not plain. Not inline, so that the others keep nothing on the stack.
__attribute__((noinline)) static enum pod_code
sched_finish_plain(struct pod_sched *sched, struct pod_sched_node *node)
{
    bool plain = sched_drop_edges(sched, node, false);

    pod_sched_pool_give(&sched->nodes, node);
    if (!plain)
        pod_sched_go_on(sched);
    return POD_OK;
}

static inline enum pod_code sched_step_plain(struct pod_sched *sched,
                                             struct pod_sched_node *node)
{
    uint32_t edge = node->to[1];

    node->flags |= POD_SCHED_IS_SETTLED;
    pod_sched_news_append(&sched->news, node,
                          POD_SCHED_CHANGED | POD_SCHED_RELEASED,
                          POD_SCHED_SUCCEEDED);
    if (edge != 0 &&
        (node->to[0] != 0 ||
         !sched_drop_plain_edge(sched, pod_sched_edge_node(sched, edge), edge)))
        return sched_finish_plain(sched, node);
    pod_sched_pool_give(&sched->nodes, node);
    return POD_OK;
}

enum pod_code pod_sched_step(struct pod_sched *sched,
                             const struct pod_sched_event *event,
                             struct pod_sched_node **out_node,
                             struct pod_err *err)
{
    sched->news.effects.count = 0;
    if (event->kind == POD_SCHED_DONE && event->state == POD_SCHED_SUCCEEDED &&
        pod_sched_is_plain(event->node))
        return sched_step_plain(sched, event->node);
    return sched_step_any(sched, event, out_node, err);
}
