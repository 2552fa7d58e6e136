// SPDX-License-Identifier: Apache-2.0
// A scheduler beside its model (sched_model.h): makes the same events happen in
// both, and compares. Part of test_sched_property.c.
//
// The model says what must hold after each event: who has ended, who is
// settled, ready, gone. Launches are checked one by one in the order of the
// effects: each must be allowed when it happens, and in the end none may be
// left that is allowed.
//
// Completions are told one by one, or many together in several calls. A call
// may leave a node with some of its edges given back and others not, which the
// model does not know: until a later one has given back the rest, launches are
// checked less strictly, and nothing else is.
#ifndef POD_TESTS_SIM_SCHED_PROP_H
#define POD_TESTS_SIM_SCHED_PROP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/sched/internal.h"
#include "core/sched/sched.h"
#include "tests/lib/sched_model.h"

struct prop {
    uint64_t random;
    unsigned seed;
    int step;
    struct pod_sched *sched;
    struct sched_model model;
    // How likely some things are, in percent; other for each seed.
    int p_fail, p_ahead, p_order, p_deadline, p_rescue, p_cancel, p_certain;
    int p_together, p_hub, p_join, p_plain;
    // The first operation is not done before there are so many: it comes to
    // have more dependents than a call gives back.
    int hub_until;
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

    for (int i = prop->model.count - 1; i > number && !op->settled; i--) {
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
               pod_sched_plain(node) == sched_model_plain(&prop->model, op), i);
    PROP_CHECK(prop, pod_sched_node_user(node) == op, i);
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
        PROP_CHECK(prop, op->told || op->expected == 0 || op->position >= 0, i);
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

// ----------------------------------------------- completions told together

// A step of many DONEs, and how far it is.
struct prop_batch {
    struct pod_sched_done done;
    struct pod_sched_node *nodes[SCHED_MODEL_OPS];
    struct sched_model_op *ops[SCHED_MODEL_OPS];
    size_t modelled; // the first so many have happened in the model
    int call;
};

// What one call says of an operation: at most one thing.
static void prop_check_said(struct prop *prop, const struct prop_batch *batch,
                            const struct pod_sched_effect *effect)
{
    struct sched_model_op *op = pod_sched_effect_user(effect);
    int number = (int)(op - prop->model.ops);
    bool halfway = batch->done.group != 0;

    PROP_CHECK(prop, !op->told, number);
    PROP_CHECK(prop, op->position < batch->call, number);
    op->position = batch->call;
    PROP_CHECK(prop, effect->node == op->node, number);
    PROP_CHECK(prop, pod_sched_effect_cause(effect) == NULL, number);
    // One that is sent ahead may be launched before it is READY.
    PROP_CHECK(prop,
               effect->state == op->state ||
                   (halfway && effect->state == POD_SCHED_WAITING),
               number);
    if ((effect->what & POD_SCHED_LAUNCH) != 0) {
        PROP_CHECK(prop,
                   halfway ? sched_model_free(&prop->model, op) &&
                                 sched_model_has_room(&prop->model, op)
                           : sched_model_may_launch(&prop->model, op),
                   number);
        op->launched = true;
    }
    op->said |= effect->what & ~(unsigned)POD_SCHED_LAUNCH;
}

static void prop_check_told(struct prop *prop)
{
    for (int i = 0; i < prop->model.count; i++) {
        const struct sched_model_op *op = &prop->model.ops[i];
        if (!op->told)
            PROP_CHECK(prop, op->said == op->expected, i);
    }
    prop_check_all(prop);
}

static void prop_call(struct prop *prop, struct prop_batch *batch)
{
    enum { MORE = 48 };
    struct pod_sched_node *launched[POD_SCHED_LAUNCHED_MIN + MORE];
    size_t room = POD_SCHED_LAUNCHED_MIN +
                  (size_t)(prop_below(prop, 2) * prop_below(prop, MORE + 1));
    const struct pod_sched_effects *effects = pod_sched_effects(prop->sched);
    size_t count =
        pod_sched_done_many(prop->sched, &batch->done, launched, room);
    // One of whose edges some are given back counts as done.
    size_t begun = batch->done.taken + (batch->done.group != 0);

    prop->step++;
    batch->call++;
    PROP_CHECK(prop, count <= room && begun <= batch->done.count, -1);
    sched_model_done_well(&prop->model, batch->ops + batch->modelled,
                          begun - batch->modelled);
    batch->modelled = begun;
    for (size_t i = 0; i < count; i++) {
        const struct pod_sched_effect effect = {
            .node = launched[i],
            .what = POD_SCHED_CHANGED | POD_SCHED_LAUNCH,
            .state = POD_SCHED_READY,
        };
        prop_check_said(prop, batch, &effect);
    }
    for (size_t i = 0; i < effects->count; i++)
        prop_check_said(prop, batch, &effects->items[i]);
    if (batch->done.group == 0)
        prop_check_told(prop);
}

#endif
