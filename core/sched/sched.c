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
// later ones, so no node is launched in the step that ends it.
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

#include "core/base/clock.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/sched/internal.h"

enum { SCHED_PRIORITY_MAX = 10 };

struct pod_sched *pod_sched_new(void)
{
    struct pod_sched *sched = pod_calloc(1, sizeof *sched);

    if (sched == NULL)
        return NULL;
    pod_sched_pool_init(&sched->nodes, sizeof(struct pod_sched_node));
    pod_sched_pool_init(&sched->edges, sizeof(struct pod_sched_edges));
    pod_sched_lanes_init(&sched->lanes);
    return sched;
}

void pod_sched_free(struct pod_sched *sched)
{
    if (sched == NULL)
        return;
    pod_heap_fini(&sched->deadlines);
    pod_sched_lanes_fini(&sched->lanes);
    pod_sched_pool_fini(&sched->edges);
    pod_sched_pool_fini(&sched->nodes);
    pod_free(sched->effects.nodes);
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

// Adds to the node's effect of this step; the first time it goes to the end
// of the list.
static inline void sched_note(struct pod_sched *sched,
                              struct pod_sched_node *node, unsigned what)
{
    if (!pod_sched_has(node, POD_SCHED_WHAT_MASK))
        pod_sched_effects_add(&sched->effects, node);
    node->flags |= what << POD_SCHED_WHAT_SHIFT;
}

// ---------------------------------------------------------------- end phase

static void sched_interrupt(struct pod_sched *sched,
                            struct pod_sched_node *node)
{
    if (!pod_sched_has(node, POD_SCHED_IS_LAUNCHED) ||
        pod_sched_has(node, POD_SCHED_IS_INTERRUPTED))
        return;
    node->flags |= POD_SCHED_IS_INTERRUPTED;
    sched_note(sched, node, POD_SCHED_INTERRUPT);
}

// It ended, was never launched, and nothing it stood behind is left.
static void sched_spend(struct pod_sched *sched, struct pod_sched_node *node)
{
    node->next_spent = NULL;
    if (sched->spent == NULL)
        sched->spent = node;
    else
        sched->last_spent->next_spent = node;
    sched->last_spent = node;
}

static inline void sched_end(struct pod_sched *sched,
                             struct pod_sched_node *node,
                             enum pod_sched_state state, void *cause)
{
    assert(pod_sched_node_open(node) && pod_sched_terminal(state));
    pod_sched_set_state(node, state);
    if (cause != NULL) {
        node->flags |= POD_SCHED_IS_STRUCK;
        node->cause = cause;
    }
    if (node->deadline_slot != POD_HEAP_NONE)
        pod_heap_remove(&sched->deadlines, &node->deadline_slot);
    if (!pod_sched_has(node, POD_SCHED_IS_LAUNCHED) &&
        pod_sched_has(node, POD_SCHED_IS_PLACED))
        pod_sched_lanes_leave(&sched->lanes, node);
    if (!pod_sched_has(node, POD_SCHED_IS_LAUNCHED) && node->unmet == 0)
        sched_spend(sched, node);
    sched_note(sched, node, POD_SCHED_CHANGED);
}

// Ends the open nodes that depend on this one over edges that carry.
static void sched_end_dependents(struct pod_sched *sched,
                                 const struct pod_sched_node *node,
                                 enum pod_sched_state state)
{
    struct pod_sched_walk walk = {.edges = &node->edges};
    uint32_t edge;

    while ((edge = pod_sched_walk_next(&walk)) != 0) {
        struct pod_sched_node *to = pod_sched_edge_node(sched, edge);
        if (!pod_sched_edge_carries(edge) ||
            pod_sched_has(to, POD_SCHED_IS_RESILIENT) ||
            !pod_sched_node_open(to))
            continue;
        sched_end(sched, to, state, node->user);
        sched_interrupt(sched, to);
    }
}

// Ends the dependents of a node, theirs, and so on.
static void sched_spread(struct pod_sched *sched,
                         const struct pod_sched_node *node,
                         enum pod_sched_state state)
{
    size_t ended = sched->effects.count;

    sched_end_dependents(sched, node, state);
    // What comes now ended just now, and more comes while we go.
    for (; ended < sched->effects.count; ended++)
        sched_end_dependents(sched, sched->effects.nodes[ended], state);
}

static inline void sched_finish(struct pod_sched *sched,
                                struct pod_sched_node *node,
                                enum pod_sched_state state)
{
    if (!pod_sched_node_open(node))
        return;
    sched_end(sched, node, state, NULL);
    if (state != POD_SCHED_SUCCEEDED)
        sched_spread(sched, node, POD_SCHED_SKIPPED);
}

static void sched_cancel(struct pod_sched *sched, struct pod_sched_node *node,
                         bool cascade)
{
    if (!pod_sched_node_open(node))
        return;
    if (pod_sched_has(node, POD_SCHED_IS_LAUNCHED))
        sched_interrupt(sched, node);
    else
        sched_end(sched, node, POD_SCHED_CANCELLED, NULL);
    sched_spread(sched, node,
                 cascade ? POD_SCHED_CANCELLED : POD_SCHED_SKIPPED);
}

static void sched_expire(struct pod_sched *sched, struct pod_sched_node *node)
{
    node->flags |= POD_SCHED_IS_LATE;
    sched_end(sched, node, POD_SCHED_FAILED, NULL);
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
        sched_expire(sched, POD_CONTAINER(top->slot, struct pod_sched_node,
                                          deadline_slot));
    }
}

// ------------------------------------------------------------- settle phase

// Nothing but its lanes holds the node back any more.
static inline void sched_launch(struct pod_sched *sched,
                                struct pod_sched_node *node)
{
    struct pod_sched_effects *effects = &sched->effects;

    // Launches show in the order in which they happen, so a node that has
    // just become READY moves to the end.
    if (pod_sched_has(node, POD_SCHED_WHAT_MASK) &&
        effects->nodes[effects->count - 1] != node) {
        node->flags |= POD_SCHED_IS_MOVED;
        pod_sched_effects_add(effects, node);
    }
    sched_note(sched, node, POD_SCHED_LAUNCH);
    if (pod_sched_has(node, POD_SCHED_IS_PLACED))
        pod_sched_lanes_occupy(&sched->lanes, node);
    node->flags |= POD_SCHED_IS_LAUNCHED;
    if (!pod_sched_has(node, POD_SCHED_HAS_FOLLOWERS))
        return;
    node->next_ahead = sched->ahead;
    sched->ahead = node;
}

static inline void sched_unhold(struct pod_sched *sched,
                                struct pod_sched_node *node)
{
    assert(node->held > 0);
    node->held--;
    if (node->held > 0 || !pod_sched_node_open(node))
        return;
    if (pod_sched_has(node, POD_SCHED_IS_PLACED))
        pod_sched_lanes_queue(&sched->lanes, node);
    else
        sched_launch(sched, node);
}

// No edge to the node is left.
static inline void sched_met(struct pod_sched *sched,
                             struct pod_sched_node *node)
{
    if (pod_sched_has(node, POD_SCHED_IS_SETTLED)) {
        sched_note(sched, node, POD_SCHED_RELEASED);
    } else if (pod_sched_state_of(node) == POD_SCHED_WAITING) {
        pod_sched_set_state(node, POD_SCHED_READY);
        sched_note(sched, node, POD_SCHED_CHANGED);
    } else if (!pod_sched_has(node, POD_SCHED_IS_LAUNCHED) &&
               !pod_sched_node_open(node)) {
        sched_spend(sched, node);
    }
}

// What makes more of a node that nothing holds any more than one to launch.
#define SCHED_NOT_PLAIN                                                        \
    (POD_SCHED_STATE_MASK | POD_SCHED_IS_PLACED | POD_SCHED_HAS_FOLLOWERS)

_Static_assert(POD_SCHED_WAITING == 0, "a plain node is WAITING");

// The last edge to a plain node is gone, which held it: what sched_met and
// sched_unhold would do, at once, since that is what most edges bring.
static inline void sched_launch_plain(struct pod_sched *sched,
                                      struct pod_sched_node *node)
{
    // It was WAITING and held, so nothing has come of it yet.
    assert(node->held == 1 &&
           !pod_sched_has(node, POD_SCHED_WHAT_MASK | POD_SCHED_IS_LAUNCHED));
    node->held = 0;
    node->flags |= POD_SCHED_READY | POD_SCHED_IS_LAUNCHED |
                   (POD_SCHED_CHANGED | POD_SCHED_LAUNCH)
                       << POD_SCHED_WHAT_SHIFT;
    pod_sched_effects_add(&sched->effects, node);
}

// An edge to this node is gone: so may be the last thing that held it.
static inline void sched_drop_edge(struct pod_sched *sched,
                                   struct pod_sched_node *node, bool held)
{
    assert(node->unmet > 0);
    node->unmet--;
    if (node->unmet == 0 && held && !pod_sched_has(node, SCHED_NOT_PLAIN)) {
        sched_launch_plain(sched, node);
        return;
    }
    if (node->unmet == 0)
        sched_met(sched, node);
    if (held)
        sched_unhold(sched, node);
}

// With many operations in flight all dependents come from memory: so let them
// come at once.
static inline void sched_expect(const struct pod_sched *sched,
                                const struct pod_sched_edges *edges)
{
    for (size_t i = POD_SCHED_EDGES; i > 0 && edges->to[i - 1] != 0; i--)
        __builtin_prefetch(pod_sched_edge_node(sched, edges->to[i - 1]), 1);
}

// Gives back the edges of one group to the dependents of a node that settles.
static inline void sched_drop_group(struct pod_sched *sched,
                                    const struct pod_sched_node *node,
                                    const struct pod_sched_edges *edges)
{
    size_t i = POD_SCHED_EDGES - 1;

    if (edges->to[i] == 0)
        return;
    if (edges->to[i - 1] != 0)
        sched_expect(sched, edges);
    while (i > 0 && edges->to[i - 1] != 0)
        i--;
    for (; i < POD_SCHED_EDGES; i++) {
        uint32_t edge = edges->to[i];
        bool held = !(pod_sched_edge_ahead(edge) &&
                      pod_sched_has(node, POD_SCHED_IS_LAUNCHED));
        sched_drop_edge(sched, pod_sched_edge_node(sched, edge), held);
    }
}

// Not inline: few nodes have so many dependents.
__attribute__((noinline)) static void
sched_drop_older(struct pod_sched *sched, const struct pod_sched_node *node,
                 struct pod_sched_edges *edges)
{
    while (edges != NULL) {
        struct pod_sched_edges *older = edges->older;
        __builtin_prefetch(older);
        sched_drop_group(sched, node, edges);
        pod_sched_pool_give(&sched->edges, edges);
        edges = older;
    }
}

// Gives back all edges to the dependents of a node that settles.
static inline void sched_drop_edges(struct pod_sched *sched,
                                    struct pod_sched_node *node)
{
    struct pod_sched_edges *older = node->edges.older;

    __builtin_prefetch(older);
    sched_drop_group(sched, node, &node->edges);
    // Nobody may find them any more.
    node->edges = (struct pod_sched_edges){.older = NULL};
    if (older != NULL)
        sched_drop_older(sched, node, older);
}

static inline void sched_settle(struct pod_sched *sched,
                                struct pod_sched_node *node)
{
    if (pod_sched_has(node, POD_SCHED_IS_PLACED))
        pod_sched_lanes_leave(&sched->lanes, node);
    node->flags |= POD_SCHED_IS_SETTLED;
    sched_drop_edges(sched, node);
    if (node->unmet == 0)
        sched_note(sched, node, POD_SCHED_RELEASED);
}

static void sched_settle_spent(struct pod_sched *sched)
{
    while (sched->spent != NULL) {
        struct pod_sched_node *node = sched->spent;
        sched->spent = node->next_spent;
        sched_settle(sched, node);
    }
}

// ------------------------------------------------------------- launch phase

// The dependents that waited only for the node's launch no longer do.
static void sched_lead(struct pod_sched *sched, struct pod_sched_node *node)
{
    struct pod_sched_walk walk = {.edges = &node->edges};
    uint32_t edge;

    while ((edge = pod_sched_walk_next(&walk)) != 0) {
        if (pod_sched_edge_ahead(edge))
            sched_unhold(sched, pod_sched_edge_node(sched, edge));
    }
}

static void sched_launch_all(struct pod_sched *sched)
{
    for (;;) {
        // First all that can be queued, then the choice among it.
        while (sched->ahead != NULL) {
            struct pod_sched_node *node = sched->ahead;
            sched->ahead = node->next_ahead;
            sched_lead(sched, node);
        }
        struct pod_sched_node *node = pod_sched_lanes_pick(&sched->lanes);
        if (node == NULL)
            return;
        sched_launch(sched, node);
    }
}

// ------------------------------------------------------------------- submit

static bool sched_reserve(struct pod_sched *sched, size_t nodes, size_t edges,
                          const uint32_t *lanes, size_t lane_count)
{
    return pod_sched_pool_reserve(&sched->nodes, nodes) &&
           pod_sched_pool_reserve(&sched->edges, edges) &&
           pod_heap_reserve(&sched->deadlines,
                            sched->deadlines.count + nodes) &&
           pod_sched_effects_reserve(sched, nodes) &&
           pod_sched_lanes_reserve(&sched->lanes, lanes, lane_count);
}

enum pod_code pod_sched_reserve(struct pod_sched *sched, size_t nodes,
                                size_t edges, const uint32_t *lanes,
                                size_t lane_count, struct pod_err *err)
{
    if (sched_reserve(sched, nodes, edges, lanes, lane_count))
        return POD_OK;
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                       "no memory for %zu more operations", nodes);
}

// Whether a dependency that carries has ended badly, and which.
static bool sched_doomed(const struct pod_sched_event *event, void **out_cause)
{
    if (event->run_on_failure)
        return false;
    if (event->doomed) {
        *out_cause = event->doomed_by;
        return true;
    }
    for (size_t i = 0; i < event->dep_count; i++) {
        const struct pod_sched_node *node = event->deps[i].node;
        if (!event->deps[i].carries || pod_sched_node_open(node) ||
            pod_sched_state_of(node) == POD_SCHED_SUCCEEDED)
            continue;
        *out_cause = node->user;
        return true;
    }
    return false;
}

static void sched_add_edge(struct pod_sched *sched, struct pod_sched_node *node,
                           uint32_t edge)
{
    struct pod_sched_edges *edges = &node->edges;

    if (edges->to[0] != 0) {
        struct pod_sched_edges *older = pod_sched_pool_take(&sched->edges);
        *older = *edges;
        *edges = (struct pod_sched_edges){.older = older};
    }
    size_t i = POD_SCHED_EDGES - 1;
    while (edges->to[i] != 0)
        i--;
    edges->to[i] = edge;
}

static void sched_link(struct pod_sched *sched, struct pod_sched_node *node,
                       const struct pod_sched_dep *dep)
{
    uint32_t number = pod_sched_node_number(node);

    assert(!pod_sched_has(dep->node, POD_SCHED_IS_SETTLED));
    sched_add_edge(sched, dep->node,
                   number << POD_SCHED_EDGE_SHIFT |
                       (dep->carries ? POD_SCHED_EDGE_CARRIES : 0U) |
                       (dep->ahead ? POD_SCHED_EDGE_AHEAD : 0U));
    node->unmet++;
    if (dep->ahead && pod_sched_has(dep->node, POD_SCHED_IS_LAUNCHED))
        return;
    node->held++;
    if (dep->ahead)
        dep->node->flags |= POD_SCHED_HAS_FOLLOWERS;
}

// Puts a new node that lives among the others.
static void sched_enter(struct pod_sched *sched, struct pod_sched_node *node,
                        const struct pod_sched_event *event)
{
    if (event->deadline_ns != POD_NEVER) {
        struct pod_heap_entry entry = {
            .key = pod_sched_deadline_key(event->deadline_ns),
            .order = sched->submitted,
            .slot = &node->deadline_slot,
        };
        pod_heap_push(&sched->deadlines, entry);
    }
    pod_sched_lanes_join(&sched->lanes, node, event->lanes, event->lane_count);
    if (node->unmet == 0) {
        pod_sched_set_state(node, POD_SCHED_READY);
        sched_note(sched, node, POD_SCHED_CHANGED);
    }
    if (node->held > 0)
        return;
    if (pod_sched_has(node, POD_SCHED_IS_PLACED))
        pod_sched_lanes_queue(&sched->lanes, node);
    else
        sched_launch(sched, node);
}

static struct pod_sched_node *sched_submit(struct pod_sched *sched,
                                           const struct pod_sched_event *event)
{
    void *cause = NULL;

    assert(event->priority >= -SCHED_PRIORITY_MAX &&
           event->priority <= SCHED_PRIORITY_MAX);
    // Edges are counted in 32 bits.
    if (event->dep_count >= UINT32_MAX ||
        !sched_reserve(sched, 1, event->dep_count, event->lanes,
                       event->lane_count))
        return NULL;
    struct pod_sched_node *node = pod_sched_pool_take(&sched->nodes);
    *node = (struct pod_sched_node){
        .user = event->user,
        .deadline_slot = POD_HEAP_NONE,
        .flags = POD_SCHED_WAITING |
                 (uint32_t)(SCHED_PRIORITY_MAX - event->priority)
                     << POD_SCHED_LEVEL_SHIFT |
                 (event->run_on_failure ? POD_SCHED_IS_RESILIENT : 0),
    };
    sched->submitted++;
    sched->live++;
    for (size_t i = 0; i < event->dep_count; i++)
        sched_link(sched, node, &event->deps[i]);
    if (sched_doomed(event, &cause))
        sched_end(sched, node, POD_SCHED_SKIPPED, cause);
    else if (event->deadline_ns <= event->now_ns)
        sched_expire(sched, node);
    else
        sched_enter(sched, node, event);
    return node;
}

// --------------------------------------------------------------------- step

static void sched_started(struct pod_sched *sched, struct pod_sched_node *node)
{
    if (!pod_sched_node_open(node) ||
        pod_sched_state_of(node) == POD_SCHED_RUNNING)
        return;
    assert(pod_sched_has(node, POD_SCHED_IS_LAUNCHED));
    pod_sched_set_state(node, POD_SCHED_RUNNING);
    sched_note(sched, node, POD_SCHED_CHANGED);
}

static inline void sched_done(struct pod_sched *sched,
                              struct pod_sched_node *node,
                              enum pod_sched_state state)
{
    assert((node->flags & (POD_SCHED_IS_LAUNCHED | POD_SCHED_IS_SETTLED)) ==
           POD_SCHED_IS_LAUNCHED);
    sched_finish(sched, node, state);
    sched_settle(sched, node);
}

// Not inline: a completion, which is all that most steps are, need not make
// room for what a submit keeps on the stack.
__attribute__((noinline)) static enum pod_code
sched_step_rare(struct pod_sched *sched, const struct pod_sched_event *event,
                struct pod_sched_node **out_node, struct pod_err *err)
{
    struct pod_sched_node *node;

    switch (event->kind) {
    case POD_SCHED_SUBMIT:
        node = sched_submit(sched, event);
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
        break; // seen before
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

// Not inline either: many completions bring nothing that is left to do.
__attribute__((noinline)) static void sched_go_on(struct pod_sched *sched)
{
    sched_settle_spent(sched);
    sched_launch_all(sched);
}

enum pod_code pod_sched_step(struct pod_sched *sched,
                             const struct pod_sched_event *event,
                             struct pod_sched_node **out_node,
                             struct pod_err *err)
{
    enum pod_code code = POD_OK;

    pod_sched_effects_begin(&sched->effects);
    if (event->kind == POD_SCHED_DONE)
        sched_done(sched, event->node, event->state);
    else
        code = sched_step_rare(sched, event, out_node, err);
    if (sched->spent != NULL || sched->ahead != NULL ||
        pod_sched_lanes_any(&sched->lanes))
        sched_go_on(sched);
    return code;
}
