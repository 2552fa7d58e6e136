// SPDX-License-Identifier: Apache-2.0
// Random events against a model that knows no counters, lists or queues.
//
// The model keeps all operations ever submitted with their dependencies and
// finds out by definition, from all of them, what must hold after each event:
// who has ended, who is settled, ready, gone. Launches are checked one by one
// in the order of the effects: each must be allowed when it happens, and in
// the end none may be left that is allowed.
//
// POD_SEEDS says how many seeds to run, POD_SEED runs just one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/sched/internal.h"
#include "core/sched/sched.h"

enum {
    PROP_OPS = 48,
    PROP_DEPS = 5,
    PROP_LANES = 4,
    PROP_EVENTS = 150,
    PROP_SEEDS = 10000,
};

struct prop_dep {
    int to;
    bool carries;
    bool ahead;
};

struct prop_op {
    struct pod_sched_node *node;
    struct prop_dep deps[PROP_DEPS];
    int dep_count;
    uint32_t lanes[PROP_LANES];
    int lane_count;
    int priority;
    int64_t deadline;
    bool run_on_failure;

    enum pod_sched_state state;
    bool launched;
    bool answered; // the worker is done with it
    bool settled;
    bool interrupted;
    bool released;

    // Of the step at hand.
    enum pod_sched_state before;
    unsigned expected;          // bits of its effect, but for LAUNCH
    bool spread;                // ended because of a dependency
    bool late;                  // ended by its deadline
    const struct prop_op *doom; // what the event said had doomed it
    int position;               // of its effect; -1: none yet
};

struct prop {
    uint64_t random;
    unsigned seed;
    int step;
    struct pod_sched *sched;
    int64_t now;
    struct prop_op ops[PROP_OPS];
    int count;
    uint32_t windows[PROP_LANES];
    int lane_count;
    int root; // the launched operation that this step cancels, or -1
    enum pod_sched_state spread_state;
    // How likely some things are, in percent; other for each seed.
    int p_fail, p_ahead, p_order, p_deadline, p_rescue, p_cancel;
};

#define PROP_CHECK(prop, condition, op)                                        \
    do {                                                                       \
        if (!(condition))                                                      \
            fail_msg("seed %u, step %d, operation %d: not so: %s",             \
                     (prop)->seed, (prop)->step, (op), #condition);            \
    } while (0)

static uint64_t prop_random(struct prop *prop)
{
    // splitmix64
    uint64_t z = (prop->random += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static int prop_below(struct prop *prop, int limit)
{
    return (int)(prop_random(prop) % (uint64_t)limit);
}

static bool prop_chance(struct prop *prop, int percent)
{
    return prop_below(prop, 100) < percent;
}

// --------------------------------------------------------------- the model

static bool model_open(const struct prop_op *op)
{
    return !pod_sched_terminal(op->state);
}

static bool model_bad(const struct prop_op *op)
{
    return !model_open(op) && op->state != POD_SCHED_SUCCEEDED;
}

// Dependencies that are not settled.
static int model_unmet(const struct prop *prop, const struct prop_op *op)
{
    int unmet = 0;

    for (int i = 0; i < op->dep_count; i++)
        unmet += !prop->ops[op->deps[i].to].settled;
    return unmet;
}

// Whether it could be launched as far as its dependencies are concerned.
static bool model_free(const struct prop *prop, const struct prop_op *op)
{
    if (!model_open(op) || op->launched)
        return false;
    for (int i = 0; i < op->dep_count; i++) {
        const struct prop_op *to = &prop->ops[op->deps[i].to];
        if (!to->settled && !(op->deps[i].ahead && to->launched))
            return false;
    }
    return true;
}

static bool model_uses(const struct prop_op *op, uint32_t lane)
{
    for (int i = 0; i < op->lane_count; i++) {
        if (op->lanes[i] == lane)
            return true;
    }
    return false;
}

// Whether a dependency gives the operation a reason to end.
static bool model_strikes(const struct prop *prop, const struct prop_dep *dep)
{
    return dep->carries &&
           (model_bad(&prop->ops[dep->to]) || dep->to == prop->root);
}

static void model_spread(struct prop *prop)
{
    bool again = true;

    while (again) {
        again = false;
        for (int i = 0; i < prop->count; i++) {
            struct prop_op *op = &prop->ops[i];
            bool struck = false;
            for (int j = 0; j < op->dep_count; j++)
                struck = struck || model_strikes(prop, &op->deps[j]);
            if (!struck || op->run_on_failure || !model_open(op))
                continue;
            op->state = prop->spread_state;
            op->spread = true;
            again = true;
        }
    }
}

// Ends what is late, one by one: earliest deadline, then earliest submitted.
static void model_advance(struct prop *prop)
{
    for (;;) {
        struct prop_op *first = NULL;
        for (int i = 0; i < prop->count; i++) {
            struct prop_op *op = &prop->ops[i];
            if (model_open(op) && op->deadline <= prop->now &&
                (first == NULL || op->deadline < first->deadline))
                first = op;
        }
        if (first == NULL)
            return;
        first->state = POD_SCHED_FAILED;
        first->late = true;
        model_spread(prop);
    }
}

static void model_submit(struct prop *prop, struct prop_op *op)
{
    if (op->doom != NULL && !op->run_on_failure)
        op->state = POD_SCHED_SKIPPED;
    model_spread(prop);
    if (model_open(op) && op->deadline <= prop->now) {
        op->state = POD_SCHED_FAILED;
        op->late = true;
    }
}

static void model_event(struct prop *prop, const struct pod_sched_event *event,
                        struct prop_op *op)
{
    bool open = op != NULL && model_open(op);

    prop->root = -1;
    prop->spread_state = POD_SCHED_SKIPPED;
    if (event->kind == POD_SCHED_SUBMIT)
        model_submit(prop, op);
    else if (event->kind == POD_SCHED_ADVANCE)
        model_advance(prop);
    else if (event->kind == POD_SCHED_STARTED && open)
        op->state = POD_SCHED_RUNNING;
    else if (event->kind == POD_SCHED_CANCEL && open) {
        if (event->cascade)
            prop->spread_state = POD_SCHED_CANCELLED;
        if (op->launched)
            prop->root = (int)(op - prop->ops);
        else
            op->state = POD_SCHED_CANCELLED;
    } else if ((event->kind == POD_SCHED_DONE ||
                event->kind == POD_SCHED_END) &&
               open)
        op->state = event->state;
    if (event->kind == POD_SCHED_DONE)
        op->answered = true;
    model_spread(prop);
}

// What follows from the ends: who settles, is ready, must be interrupted, is
// gone; and so which effects must come.
static void model_conclude(struct prop *prop)
{
    // Dependencies stand before their dependents, so one pass will do.
    for (int i = 0; i < prop->count; i++) {
        struct prop_op *op = &prop->ops[i];
        if (!model_open(op) &&
            (op->launched ? op->answered : model_unmet(prop, op) == 0))
            op->settled = true;
    }
    for (int i = 0; i < prop->count; i++) {
        struct prop_op *op = &prop->ops[i];
        bool met = model_unmet(prop, op) == 0;
        if (op->state == POD_SCHED_WAITING && met)
            op->state = POD_SCHED_READY;
        if (op->state != op->before)
            op->expected |= POD_SCHED_CHANGED;
        if (op->launched && !op->interrupted &&
            (op->spread || op->late || i == prop->root)) {
            op->expected |= POD_SCHED_INTERRUPT;
            op->interrupted = true;
        }
        if (op->settled && met && !op->released) {
            op->expected |= POD_SCHED_RELEASED;
            op->released = true;
        }
    }
}

// Whether it stands before all others in a lane, and the lane has room.
static bool model_turn_in(const struct prop *prop, const struct prop_op *op,
                          uint32_t lane)
{
    uint32_t busy = 0;

    for (int i = 0; i < prop->count; i++) {
        const struct prop_op *other = &prop->ops[i];
        if (other == op || !model_uses(other, lane))
            continue;
        busy += other->launched && !other->settled;
        if (!model_free(prop, other))
            continue;
        if (other->priority > op->priority ||
            (other->priority == op->priority && other < op))
            return false;
    }
    return busy < prop->windows[lane];
}

static bool model_may_launch(const struct prop *prop, const struct prop_op *op)
{
    if (!model_free(prop, op))
        return false;
    for (int i = 0; i < op->lane_count; i++) {
        if (!model_turn_in(prop, op, op->lanes[i]))
            return false;
    }
    return true;
}

// ------------------------------------------------------------- the checking

static void prop_check_cause(struct prop *prop, const struct prop_op *op,
                             const void *cause)
{
    int number = (int)(op - prop->ops);
    bool found = false;

    if (op->state == POD_SCHED_SKIPPED && op->doom != NULL) {
        PROP_CHECK(prop, cause == op->doom, number);
        return;
    }
    if (!op->spread) {
        PROP_CHECK(prop, cause == NULL, number);
        return;
    }
    for (int i = 0; i < PROP_DEPS; i++) {
        const struct prop_op *to = &prop->ops[op->deps[i].to];
        if (cause == to && model_strikes(prop, &op->deps[i])) {
            found = true;
            // It comes first, unless it ended in an earlier step.
            PROP_CHECK(prop, to->position >= 0 || to->state == to->before,
                       number);
        }
    }
    PROP_CHECK(prop, found, number);
}

static void prop_check_effect(struct prop *prop,
                              const struct pod_sched_effect *effect,
                              int position)
{
    struct prop_op *op = effect->user;
    int number = (int)(op - prop->ops);
    bool expired = (effect->what & POD_SCHED_EXPIRED) != 0;
    unsigned what =
        effect->what & ~(unsigned)(POD_SCHED_LAUNCH | POD_SCHED_EXPIRED);

    PROP_CHECK(prop, op->position < 0, number);
    op->position = position;
    PROP_CHECK(prop, effect->node == op->node, number);
    PROP_CHECK(prop, what == op->expected, number);
    PROP_CHECK(prop, effect->state == op->state, number);
    if ((what & POD_SCHED_CHANGED) != 0 && !model_open(op)) {
        PROP_CHECK(prop, expired == op->late, number);
        prop_check_cause(prop, op, effect->cause);
    } else {
        PROP_CHECK(prop, effect->cause == NULL && !expired, number);
    }
    if ((effect->what & POD_SCHED_LAUNCH) != 0) {
        PROP_CHECK(prop, model_may_launch(prop, op), number);
        op->launched = true;
    }
}

static void prop_check_dependents(struct prop *prop, const struct prop_op *op)
{
    const void *cursor = NULL;
    int number = (int)(op - prop->ops);
    void *user;
    bool carries;

    for (int i = prop->count - 1; i >= 0 && !op->settled; i--) {
        const struct prop_op *from = &prop->ops[i];
        for (int j = from->dep_count - 1; j >= 0; j--) {
            if (from->deps[j].to != number)
                continue;
            PROP_CHECK(prop,
                       pod_sched_next_dependent(prop->sched, op->node, &cursor,
                                                &user, &carries),
                       number);
            PROP_CHECK(prop, user == from, number);
            PROP_CHECK(prop, carries == from->deps[j].carries, number);
        }
    }
    PROP_CHECK(prop,
               !pod_sched_next_dependent(prop->sched, op->node, &cursor, &user,
                                         &carries),
               number);
}

static void prop_check_node(struct prop *prop, const struct prop_op *op)
{
    const struct pod_sched_node *node = op->node;
    int i = (int)(op - prop->ops);
    bool queued = op->lane_count > 0 && model_free(prop, op);

    PROP_CHECK(prop, pod_sched_node_state(node) == op->state, i);
    PROP_CHECK(prop, pod_sched_node_launched(node) == op->launched, i);
    PROP_CHECK(prop, pod_sched_node_settled(node) == op->settled, i);
    PROP_CHECK(prop, pod_sched_node_queued(node) == queued, i);
    PROP_CHECK(
        prop, pod_sched_node_unmet(node) == (uint32_t)model_unmet(prop, op), i);
    prop_check_dependents(prop, op);
}

static void prop_check_lanes(struct prop *prop)
{
    for (int lane = 0; lane < prop->lane_count; lane++) {
        uint32_t depth = 0;
        for (int i = 0; i < prop->count; i++) {
            const struct prop_op *op = &prop->ops[i];
            if (model_uses(op, (uint32_t)lane))
                depth += model_free(prop, op) || (op->launched && !op->settled);
        }
        PROP_CHECK(prop,
                   pod_sched_lane_depth(prop->sched, (uint32_t)lane) == depth,
                   lane);
    }
}

static void prop_check_all(struct prop *prop)
{
    int64_t deadline = POD_NEVER;

    for (int i = 0; i < prop->count; i++) {
        const struct prop_op *op = &prop->ops[i];
        PROP_CHECK(prop, op->expected == 0 || op->position >= 0, i);
        PROP_CHECK(prop, !model_may_launch(prop, op), i);
        if (!op->released)
            prop_check_node(prop, op);
        if (model_open(op) && op->deadline < deadline)
            deadline = op->deadline;
    }
    PROP_CHECK(prop, pod_sched_next_deadline(prop->sched) == deadline, -1);
    prop_check_lanes(prop);
}

// Makes an event happen on both sides and compares. `op` is what it is about.
static void prop_step(struct prop *prop, struct pod_sched_event *event,
                      struct prop_op *op)
{
    struct pod_sched_node *node = NULL;

    prop->step++;
    for (int i = 0; i < prop->count; i++) {
        struct prop_op *each = &prop->ops[i];
        each->before = each->state;
        each->expected = 0;
        each->spread = false;
        each->late = false;
        each->position = -1;
    }
    event->now_ns = prop->now;
    event->node = op != NULL ? op->node : NULL;
    assert_int_equal(pod_sched_step(prop->sched, event, &node, NULL), POD_OK);
    model_event(prop, event, op);
    model_conclude(prop);
    if (event->kind == POD_SCHED_SUBMIT)
        op->node = node;
    const struct pod_sched_effects *effects = pod_sched_effects(prop->sched);
    for (size_t i = 0; i < effects->count; i++)
        prop_check_effect(prop, &effects->items[i], (int)i);
    prop_check_all(prop);
}

// ------------------------------------------------------------ random events

// A random operation for which the test holds, or NULL.
static struct prop_op *prop_choose(struct prop *prop,
                                   bool (*test)(const struct prop_op *op))
{
    int start = prop->count > 0 ? prop_below(prop, prop->count) : 0;

    for (int i = 0; i < prop->count; i++) {
        struct prop_op *op = &prop->ops[(start + i) % prop->count];
        if (test(op))
            return op;
    }
    return NULL;
}

static bool prop_is_there(const struct prop_op *op)
{
    return !op->released;
}

static bool prop_is_at_worker(const struct prop_op *op)
{
    return op->launched && !op->settled;
}

static bool prop_is_unsettled(const struct prop_op *op)
{
    return !op->settled;
}

static bool prop_is_failure(const struct prop_op *op)
{
    return op->settled && model_bad(op);
}

static enum pod_sched_state prop_end_state(struct prop *prop)
{
    static const enum pod_sched_state bad[] = {
        POD_SCHED_FAILED, POD_SCHED_CANCELLED, POD_SCHED_LOST};

    if (!prop_chance(prop, prop->p_fail))
        return POD_SCHED_SUCCEEDED;
    return bad[prop_below(prop, 3)];
}

static void prop_pick_lanes(struct prop *prop, struct prop_op *op)
{
    // None, one, or each lane by chance.
    int kind = prop_below(prop, 4);

    if (prop->lane_count == 0 || kind == 0)
        return;
    if (kind < 3) {
        op->lanes[0] = (uint32_t)prop_below(prop, prop->lane_count);
        op->lane_count = 1;
        return;
    }
    int first = prop_below(prop, prop->lane_count);
    for (int i = 0; i < prop->lane_count; i++) {
        if (prop_chance(prop, 60))
            op->lanes[op->lane_count++] =
                (uint32_t)((first + i) % prop->lane_count);
    }
}

static void prop_pick_deps(struct prop *prop, struct prop_op *op)
{
    int wanted = prop_below(prop, PROP_DEPS + 1);

    for (int i = 0; i < wanted; i++) {
        const struct prop_op *to = prop_choose(prop, prop_is_unsettled);
        if (to == NULL)
            return;
        op->deps[op->dep_count++] = (struct prop_dep){
            .to = (int)(to - prop->ops),
            .carries = !prop_chance(prop, prop->p_order),
            .ahead = prop_chance(prop, prop->p_ahead),
        };
    }
}

static void prop_submit(struct prop *prop)
{
    struct pod_sched_dep deps[PROP_DEPS];
    struct prop_op op = {.deadline = POD_NEVER};

    if (prop->count == PROP_OPS)
        return;
    prop_pick_deps(prop, &op);
    prop_pick_lanes(prop, &op);
    op.priority = prop_below(prop, 3) - 1;
    if (prop_chance(prop, 20))
        op.priority = prop_below(prop, 21) - 10;
    op.run_on_failure = prop_chance(prop, prop->p_rescue);
    if (prop_chance(prop, prop->p_deadline))
        op.deadline = prop->now + prop_below(prop, 30) - 2;
    if (prop_chance(prop, 5))
        op.doom = prop_choose(prop, prop_is_failure);
    for (int i = 0; i < op.dep_count; i++)
        deps[i] = (struct pod_sched_dep){
            .node = prop->ops[op.deps[i].to].node,
            .carries = op.deps[i].carries,
            .ahead = op.deps[i].ahead,
        };
    struct prop_op *added = &prop->ops[prop->count++];
    *added = op;
    struct pod_sched_event event = {
        .kind = POD_SCHED_SUBMIT,
        .user = added,
        .deps = deps,
        .dep_count = (size_t)op.dep_count,
        .doomed = op.doom != NULL,
        .doomed_by = op.doom != NULL ? &prop->ops[op.doom - prop->ops] : NULL,
        .run_on_failure = op.run_on_failure,
        .priority = (int8_t)op.priority,
        .deadline_ns = op.deadline,
        .lanes = op.lanes,
        .lane_count = (size_t)op.lane_count,
    };
    prop_step(prop, &event, added);
}

static void prop_about(struct prop *prop, enum pod_sched_event_kind kind,
                       struct prop_op *op)
{
    struct pod_sched_event event = {.kind = kind};

    if (op == NULL)
        return;
    event.state = prop_end_state(prop);
    event.cascade = prop_chance(prop, 50);
    prop_step(prop, &event, op);
}

static void prop_random_event(struct prop *prop)
{
    struct pod_sched_event advance = {.kind = POD_SCHED_ADVANCE};
    int dice = prop_below(prop, 100);

    if (prop_chance(prop, 30))
        prop->now += prop_below(prop, 5);
    if (dice < 40)
        prop_submit(prop);
    else if (dice < 50)
        prop_about(prop, POD_SCHED_STARTED,
                   prop_choose(prop, prop_is_at_worker));
    else if (dice < 60)
        prop_step(prop, &advance, NULL);
    else if (dice < 60 + prop->p_cancel)
        prop_about(prop, POD_SCHED_CANCEL, prop_choose(prop, prop_is_there));
    else if (dice < 60 + prop->p_cancel + 5)
        prop_about(prop, POD_SCHED_END, prop_choose(prop, prop_is_there));
    else
        prop_about(prop, POD_SCHED_DONE, prop_choose(prop, prop_is_at_worker));
}

// Answers for all workers: then everything must come to its end.
static void prop_finish(struct prop *prop)
{
    for (;;) {
        struct prop_op *op = prop_choose(prop, prop_is_at_worker);
        if (op == NULL)
            break;
        prop_about(prop, POD_SCHED_DONE, op);
    }
    for (int i = 0; i < prop->count; i++)
        PROP_CHECK(prop, prop->ops[i].released, i);
    const struct pod_sched *sched = prop->sched;
    // One chunk each is plenty here, so all of it must be free again.
    PROP_CHECK(prop, sched->nodes.spare == sched->nodes.per_chunk, -1);
    PROP_CHECK(prop,
               sched->edges.chunk_count == 0 ||
                   sched->edges.spare == sched->edges.per_chunk,
               -1);
    PROP_CHECK(prop,
               sched->lanes.gangs.chunk_count == 0 ||
                   sched->lanes.gangs.spare == sched->lanes.gangs.per_chunk,
               -1);
    PROP_CHECK(prop, sched->deadlines.count == 0, -1);
}

static void prop_run(unsigned seed)
{
    static struct prop prop;

    memset(&prop, 0, sizeof prop);
    prop.seed = seed;
    prop.random = seed;
    prop.now = prop_below(&prop, 100) - 50;
    prop.p_fail = prop_below(&prop, 40);
    prop.p_ahead = prop_below(&prop, 2) * prop_below(&prop, 100);
    prop.p_order = prop_below(&prop, 60);
    prop.p_deadline = prop_below(&prop, 2) * prop_below(&prop, 60);
    prop.p_rescue = prop_below(&prop, 40);
    prop.p_cancel = prop_below(&prop, 12);
    prop.lane_count = prop_below(&prop, PROP_LANES + 1);
    prop.sched = pod_sched_new();
    assert_non_null(prop.sched);
    for (int i = 0; i < prop.lane_count; i++) {
        prop.windows[i] = 1 + (uint32_t)prop_below(&prop, 3);
        assert_int_equal(pod_sched_add_lane(prop.sched, prop.windows[i]), i);
    }
    prop_submit(&prop);
    for (int i = 0; i < PROP_EVENTS; i++)
        prop_random_event(&prop);
    prop_finish(&prop);
    pod_sched_free(prop.sched);
}

static unsigned prop_setting(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static void test_random_events(void **state)
{
    unsigned seeds = prop_setting("POD_SEEDS", PROP_SEEDS);
    unsigned only = prop_setting("POD_SEED", 0);
    long live = pod_mem_live();

    (void)state;
    if (only > 0) {
        prop_run(only);
        return;
    }
    for (unsigned seed = 1; seed <= seeds; seed++)
        prop_run(seed);
    assert_int_equal(pod_mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
