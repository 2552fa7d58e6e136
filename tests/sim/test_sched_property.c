// SPDX-License-Identifier: Apache-2.0
// Random events against a model that knows no counters, lists or queues
// (sched_model.h).
//
// The model says what must hold after each event: who has ended, who is
// settled, ready, gone. Launches are checked one by one in the order of the
// effects: each must be allowed when it happens, and in the end none may be
// left that is allowed.
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
#include "tests/lib/sched_model.h"

enum {
    PROP_EVENTS = 150,
    PROP_SEEDS = 10000,
};

struct prop {
    uint64_t random;
    unsigned seed;
    int step;
    struct pod_sched *sched;
    struct sched_model model;
    // How likely some things are, in percent; other for each seed.
    int p_fail, p_ahead, p_order, p_deadline, p_rescue, p_cancel, p_certain;
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

// ------------------------------------------------------------- the checking

static void prop_check_cause(struct prop *prop, const struct sched_model_op *op,
                             const void *cause)
{
    int number = (int)(op - prop->model.ops);
    bool found = false;

    if (op->state == POD_SCHED_SKIPPED && op->doom != NULL) {
        PROP_CHECK(prop, cause == op->doom, number);
        return;
    }
    if (!op->spread) {
        PROP_CHECK(prop, cause == NULL, number);
        return;
    }
    for (int i = 0; i < SCHED_MODEL_DEPS; i++) {
        const struct sched_model_op *to = &prop->model.ops[op->deps[i].to];
        if (cause == to && sched_model_strikes(&prop->model, &op->deps[i])) {
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
    struct sched_model_op *op = pod_sched_effect_user(effect);
    int number = (int)(op - prop->model.ops);
    bool expired = (effect->what & POD_SCHED_EXPIRED) != 0;
    unsigned what =
        effect->what & ~(unsigned)(POD_SCHED_LAUNCH | POD_SCHED_EXPIRED);

    PROP_CHECK(prop, op->position < 0, number);
    op->position = position;
    PROP_CHECK(prop, effect->node == op->node, number);
    PROP_CHECK(prop, what == op->expected, number);
    PROP_CHECK(prop, effect->state == op->state, number);
    if ((what & POD_SCHED_CHANGED) != 0 && !sched_model_open(op)) {
        PROP_CHECK(prop, expired == op->late, number);
        prop_check_cause(prop, op, pod_sched_effect_cause(effect));
    } else {
        PROP_CHECK(prop, pod_sched_effect_cause(effect) == NULL && !expired,
                   number);
    }
    if ((effect->what & POD_SCHED_LAUNCH) != 0) {
        PROP_CHECK(prop, sched_model_may_launch(&prop->model, op), number);
        op->launched = true;
    }
}

static void prop_check_dependents(struct prop *prop,
                                  const struct sched_model_op *op)
{
    const void *cursor = NULL;
    int number = (int)(op - prop->model.ops);
    void *user;
    bool carries;

    for (int i = prop->model.count - 1; i >= 0 && !op->settled; i--) {
        const struct sched_model_op *from = &prop->model.ops[i];
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

static void prop_check_node(struct prop *prop, const struct sched_model_op *op)
{
    const struct pod_sched_node *node = op->node;
    int i = (int)(op - prop->model.ops);
    bool queued = op->lane_count > 0 && sched_model_free(&prop->model, op);

    PROP_CHECK(prop, pod_sched_node_state(node) == op->state, i);
    PROP_CHECK(prop, pod_sched_node_launched(node) == op->launched, i);
    PROP_CHECK(prop, pod_sched_node_settled(node) == op->settled, i);
    PROP_CHECK(prop, pod_sched_node_queued(node) == queued, i);
    PROP_CHECK(prop,
               pod_sched_node_unmet(node) ==
                   (uint32_t)sched_model_unmet(&prop->model, op),
               i);
    prop_check_dependents(prop, op);
}

static void prop_check_lanes(struct prop *prop)
{
    for (int lane = 0; lane < prop->model.lane_count; lane++) {
        uint32_t depth = 0;
        for (int i = 0; i < prop->model.count; i++) {
            const struct sched_model_op *op = &prop->model.ops[i];
            if (sched_model_uses(op, (uint32_t)lane))
                depth += sched_model_free(&prop->model, op) ||
                         (op->launched && !op->settled);
        }
        PROP_CHECK(prop,
                   pod_sched_lane_depth(prop->sched, (uint32_t)lane) == depth,
                   lane);
    }
}

static void prop_check_all(struct prop *prop)
{
    int64_t deadline = POD_NEVER;

    for (int i = 0; i < prop->model.count; i++) {
        const struct sched_model_op *op = &prop->model.ops[i];
        PROP_CHECK(prop, op->expected == 0 || op->position >= 0, i);
        PROP_CHECK(prop, !sched_model_may_launch(&prop->model, op), i);
        if (!op->released)
            prop_check_node(prop, op);
        if (sched_model_open(op) && op->deadline < deadline)
            deadline = op->deadline;
    }
    PROP_CHECK(prop, pod_sched_next_deadline(prop->sched) == deadline, -1);
    prop_check_lanes(prop);
}

// Makes an event happen on both sides and compares. `op` is what it is about.
static void prop_step(struct prop *prop, struct pod_sched_event *event,
                      struct sched_model_op *op)
{
    struct pod_sched_node *node = NULL;

    prop->step++;
    event->now_ns = prop->model.now;
    event->node = op != NULL ? op->node : NULL;
    assert_int_equal(pod_sched_step(prop->sched, event, &node, NULL), POD_OK);
    sched_model_step(&prop->model, event, op);
    if (event->kind == POD_SCHED_SUBMIT)
        op->node = node;
    const struct pod_sched_effects *effects = pod_sched_effects(prop->sched);
    for (size_t i = 0; i < effects->count; i++)
        prop_check_effect(prop, &effects->items[i], (int)i);
    prop_check_all(prop);
}

// ------------------------------------------------------------ random events

// A random operation for which the test holds, or NULL.
static struct sched_model_op *
prop_choose(struct prop *prop, bool (*test)(const struct sched_model_op *op))
{
    int start = prop->model.count > 0 ? prop_below(prop, prop->model.count) : 0;

    for (int i = 0; i < prop->model.count; i++) {
        struct sched_model_op *op =
            &prop->model.ops[(start + i) % prop->model.count];
        if (test(op))
            return op;
    }
    return NULL;
}

static bool prop_is_there(const struct sched_model_op *op)
{
    return !op->released;
}

static bool prop_is_at_worker(const struct sched_model_op *op)
{
    return op->launched && !op->settled;
}

static bool prop_is_unsettled(const struct sched_model_op *op)
{
    return !op->settled;
}

static bool prop_is_failure(const struct sched_model_op *op)
{
    return op->settled && sched_model_bad(op);
}

static enum pod_sched_state prop_end_state(struct prop *prop)
{
    static const enum pod_sched_state bad[] = {
        POD_SCHED_FAILED, POD_SCHED_CANCELLED, POD_SCHED_LOST};

    if (!prop_chance(prop, prop->p_fail))
        return POD_SCHED_SUCCEEDED;
    return bad[prop_below(prop, 3)];
}

static void prop_pick_lanes(struct prop *prop, struct sched_model_op *op)
{
    // None, one, or each lane by chance.
    int kind = prop_below(prop, 4);

    if (prop->model.lane_count == 0 || kind == 0)
        return;
    if (kind < 3) {
        op->lanes[0] = (uint32_t)prop_below(prop, prop->model.lane_count);
        op->lane_count = 1;
        return;
    }
    int first = prop_below(prop, prop->model.lane_count);
    for (int i = 0; i < prop->model.lane_count; i++) {
        if (prop_chance(prop, 60))
            op->lanes[op->lane_count++] =
                (uint32_t)((first + i) % prop->model.lane_count);
    }
}

static void prop_pick_deps(struct prop *prop, struct sched_model_op *op)
{
    int wanted = prop_below(prop, SCHED_MODEL_DEPS + 1);

    for (int i = 0; i < wanted; i++) {
        const struct sched_model_op *to = prop_choose(prop, prop_is_unsettled);
        if (to == NULL)
            return;
        op->deps[op->dep_count++] = (struct sched_model_dep){
            .to = (int)(to - prop->model.ops),
            .carries = !prop_chance(prop, prop->p_order),
            .ahead = prop_chance(prop, prop->p_ahead),
        };
    }
}

static void prop_submit(struct prop *prop)
{
    struct pod_sched_dep deps[SCHED_MODEL_DEPS];
    struct sched_model_op op = {.deadline = POD_NEVER};

    if (prop->model.count == SCHED_MODEL_OPS)
        return;
    prop_pick_deps(prop, &op);
    prop_pick_lanes(prop, &op);
    op.priority = prop_below(prop, 3) - 1;
    if (prop_chance(prop, 20))
        op.priority = prop_below(prop, 21) - 10;
    op.run_on_failure = prop_chance(prop, prop->p_rescue);
    op.certain = op.lane_count == 0 && prop_chance(prop, prop->p_certain);
    if (prop_chance(prop, prop->p_deadline))
        op.deadline = prop->model.now + prop_below(prop, 30) - 2;
    if (prop_chance(prop, 5))
        op.doom = prop_choose(prop, prop_is_failure);
    for (int i = 0; i < op.dep_count; i++)
        deps[i] = (struct pod_sched_dep){
            .node = prop->model.ops[op.deps[i].to].node,
            .carries = op.deps[i].carries,
            .ahead = op.deps[i].ahead,
        };
    struct sched_model_op *added = &prop->model.ops[prop->model.count++];
    *added = op;
    struct pod_sched_event event = {
        .kind = POD_SCHED_SUBMIT,
        .user = added,
        .deps = deps,
        .dep_count = (size_t)op.dep_count,
        .doomed = op.doom != NULL,
        .doomed_by = op.doom != NULL
                         ? &prop->model.ops[op.doom - prop->model.ops]
                         : NULL,
        .run_on_failure = op.run_on_failure,
        .certain = op.certain,
        .priority = (int8_t)op.priority,
        .deadline_ns = op.deadline,
        .lanes = op.lanes,
        .lane_count = (size_t)op.lane_count,
    };
    prop_step(prop, &event, added);
}

static void prop_about(struct prop *prop, enum pod_sched_event_kind kind,
                       struct sched_model_op *op)
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
        prop->model.now += prop_below(prop, 5);
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
        struct sched_model_op *op = prop_choose(prop, prop_is_at_worker);
        if (op == NULL)
            break;
        prop_about(prop, POD_SCHED_DONE, op);
    }
    for (int i = 0; i < prop->model.count; i++)
        PROP_CHECK(prop, prop->model.ops[i].released, i);
    const struct pod_sched *sched = prop->sched;
    // One chunk each is plenty here, so all of it must be free again.
    PROP_CHECK(prop, sched->nodes.spare == sched->nodes.per_chunk, -1);
    PROP_CHECK(prop,
               sched->groups.chunk_count == 0 ||
                   sched->groups.spare == sched->groups.per_chunk,
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
    prop.model.now = prop_below(&prop, 100) - 50;
    prop.p_fail = prop_below(&prop, 40);
    prop.p_ahead = prop_below(&prop, 2) * prop_below(&prop, 100);
    prop.p_order = prop_below(&prop, 60);
    prop.p_deadline = prop_below(&prop, 2) * prop_below(&prop, 60);
    prop.p_rescue = prop_below(&prop, 40);
    prop.p_cancel = prop_below(&prop, 12);
    prop.p_certain = prop_below(&prop, 2) * prop_below(&prop, 100);
    prop.model.lane_count = prop_below(&prop, SCHED_MODEL_LANES + 1);
    prop.sched = pod_sched_new();
    assert_non_null(prop.sched);
    for (int i = 0; i < prop.model.lane_count; i++) {
        prop.model.windows[i] = 1 + (uint32_t)prop_below(&prop, 3);
        assert_int_equal(pod_sched_add_lane(prop.sched, prop.model.windows[i]),
                         i);
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
