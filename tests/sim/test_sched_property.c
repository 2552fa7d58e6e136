// SPDX-License-Identifier: Apache-2.0
// Random events against a model that knows no counters, lists or queues.
//
// POD_SEEDS says how many seeds to run, POD_SEED runs just one.
#include "core/base/mem.h"
#include "tests/sim/sched_prop.h"

enum {
    PROP_EVENTS = 150,
    PROP_SEEDS = 10000,
};

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

static bool prop_is_leaf(const struct sched_model_op *op)
{
    return !op->settled && !op->depended;
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

static void prop_depend(struct prop *prop, struct sched_model_op *op,
                        const struct sched_model_op *to)
{
    op->deps[op->dep_count++] = (struct sched_model_dep){
        .to = (int)(to - prop->model.ops),
        .carries = !prop_chance(prop, prop->p_order),
        .ahead = prop_chance(prop, prop->p_ahead),
    };
}

// Some in a row on which nothing depends yet, mostly in the same way.
static void prop_join(struct prop *prop, struct sched_model_op *op)
{
    const struct sched_model_op *end = &prop->model.ops[prop->model.count];
    const struct sched_model_op *to = prop_choose(prop, prop_is_leaf);

    for (; to != NULL && to < end && op->dep_count < SCHED_MODEL_DEPS; to++) {
        if (!prop_is_leaf(to))
            continue;
        prop_depend(prop, op, to);
        struct sched_model_dep *dep = &op->deps[op->dep_count - 1];
        if (prop_chance(prop, 80)) {
            dep->carries = op->deps[0].carries;
            dep->ahead = op->deps[0].ahead;
        }
    }
}

static void prop_pick_deps(struct prop *prop, struct sched_model_op *op)
{
    int wanted = prop_below(prop, SCHED_MODEL_DEPS + 1);

    if (prop_chance(prop, prop->p_join)) {
        prop_join(prop, op);
        return;
    }
    for (int i = 0; i < wanted; i++) {
        const struct sched_model_op *to = prop_choose(prop, prop_is_unsettled);
        if (to == NULL)
            return;
        if (prop_chance(prop, prop->p_hub) && !prop->model.ops[0].settled)
            to = &prop->model.ops[0];
        prop_depend(prop, op, to);
    }
}

static void prop_submit(struct prop *prop)
{
    struct pod_sched_dep deps[SCHED_MODEL_DEPS];
    struct sched_model_op op = {.deadline = POD_NEVER};

    if (prop->model.count == SCHED_MODEL_OPS)
        return;
    prop_pick_deps(prop, &op);
    bool plain = prop_chance(prop, prop->p_plain);
    if (!plain)
        prop_pick_lanes(prop, &op);
    op.priority = prop_below(prop, 3) - 1;
    if (prop_chance(prop, 20))
        op.priority = prop_below(prop, 21) - 10;
    op.run_on_failure = prop_chance(prop, prop->p_rescue);
    op.certain = op.lane_count == 0 && prop_chance(prop, prop->p_certain);
    if (!plain && prop_chance(prop, prop->p_deadline))
        op.deadline = prop->model.now + prop_below(prop, 30) - 2;
    if (prop_chance(prop, 5))
        op.doom = prop_choose(prop, prop_is_failure);
    for (int i = 0; i < op.dep_count; i++)
        deps[i] = (struct pod_sched_dep){
            .node = prop->model.ops[op.deps[i].to].node,
            .carries = op.deps[i].carries,
            .ahead = op.deps[i].ahead,
        };
    for (int i = 0; i < op.dep_count; i++)
        prop->model.ops[op.deps[i].to].depended = true;
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

// Whether its end is still to come later.
static bool prop_is_kept(const struct prop *prop,
                         const struct sched_model_op *op)
{
    return op == &prop->model.ops[0] && prop->model.count < prop->hub_until;
}

static void prop_about(struct prop *prop, enum pod_sched_event_kind kind,
                       struct sched_model_op *op)
{
    struct pod_sched_event event = {.kind = kind};

    if (op == NULL || (kind != POD_SCHED_STARTED && prop_is_kept(prop, op)))
        return;
    event.state = prop_end_state(prop);
    event.cascade = prop_chance(prop, 50);
    prop_step(prop, &event, op);
}

static bool prop_may_be_told(const struct prop *prop,
                             const struct sched_model_op *op)
{
    return !op->released && pod_sched_plain(op->node) &&
           !prop_is_kept(prop, op);
}

// Neighbours mostly follow each other.
static void prop_pick_batch(struct prop *prop, struct prop_batch *batch)
{
    size_t wanted = 1 + (size_t)prop_below(prop, SCHED_MODEL_OPS / 2);
    int start = prop_below(prop, prop->model.count);

    for (int i = 0; i < prop->model.count && batch->done.count < wanted; i++) {
        struct sched_model_op *op =
            &prop->model.ops[(start + i) % prop->model.count];
        if (prop_chance(prop, 15) || !prop_may_be_told(prop, op))
            continue;
        op->told = true;
        batch->nodes[batch->done.count] = op->node;
        batch->ops[batch->done.count++] = op;
    }
}

static void prop_together(struct prop *prop)
{
    struct prop_batch batch = {.done = {.nodes = batch.nodes}, .call = -1};

    sched_model_begin(&prop->model);
    prop_pick_batch(prop, &batch);
    while (batch.done.taken < batch.done.count)
        prop_call(prop, &batch);
}

static void prop_done(struct prop *prop)
{
    if (prop_chance(prop, prop->p_together))
        prop_together(prop);
    else
        prop_about(prop, POD_SCHED_DONE, prop_choose(prop, prop_is_at_worker));
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
        prop_done(prop);
}

// Answers for all workers: then everything must come to its end.
static void prop_finish(struct prop *prop)
{
    prop->hub_until = 0;
    while (prop_choose(prop, prop_is_at_worker) != NULL)
        prop_done(prop);
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
    prop.p_together = prop_below(&prop, 100);
    prop.p_hub = prop_chance(&prop, 30) ? 80 : 0;
    if (prop.p_hub > 0)
        prop.hub_until = prop_below(&prop, SCHED_MODEL_OPS + 1);
    prop.p_join = prop_chance(&prop, 30) ? 60 : 0;
    prop.p_plain = prop.p_hub > 0 || prop.p_join > 0 ? 70 : 0;
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
