// SPDX-License-Identifier: Apache-2.0
// Random graphs, completed twice: once by a step for each completion, and once
// with those together that have come by then. Some nodes fail; they and those
// behind them are the same both times, so the same nodes must be launched, end
// in the same states and be gone.
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
#include "core/sched/internal.h"
#include "core/sched/sched.h"

enum {
    WAYS_SEEDS = 1000,
    WAYS_NODES = 1000,
    WAYS_DEPS = 6,
    WAYS_LANES = 3,
    WAYS_WINDOW = 4,
    WAYS_TOGETHER = 64,
    WAYS_PERCENT = 100,
};

// What became of a node.
struct ways_node {
    struct pod_sched_node *node;
    enum pod_sched_state state;
    bool launched;
    bool gone;
};

struct ways {
    uint64_t random;
    struct pod_sched *sched;
    struct ways_node nodes[WAYS_NODES];
    // Launched ones, in that order; the first so many are told of.
    size_t queue[WAYS_NODES];
    size_t queued;
    size_t told;
};

static uint32_t ways_below(uint64_t *random, uint32_t limit)
{
    uint64_t z = (*random += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ (z >> 31)) % limit);
}

static bool ways_chance(uint64_t *random, uint32_t percent)
{
    return ways_below(random, WAYS_PERCENT) < percent;
}

// The same for a node, whenever it is asked.
static bool ways_fails(const struct ways *ways, size_t number)
{
    uint64_t random = ways->random + number;

    return ways_chance(&random, 1);
}

static void ways_apply(struct ways *ways, const struct pod_sched_effect *effect)
{
    struct ways_node *node = pod_sched_effect_user(effect);

    assert_false(node->gone);
    assert_ptr_equal(node->node, effect->node);
    if ((effect->what & POD_SCHED_CHANGED) != 0)
        node->state = effect->state;
    if ((effect->what & POD_SCHED_RELEASED) != 0)
        node->gone = true;
    if ((effect->what & POD_SCHED_LAUNCH) == 0)
        return;
    assert_false(node->launched);
    node->launched = true;
    ways->queue[ways->queued++] = (size_t)(node - ways->nodes);
}

static void ways_apply_all(struct ways *ways)
{
    const struct pod_sched_effects *effects = pod_sched_effects(ways->sched);

    for (size_t i = 0; i < effects->count; i++)
        ways_apply(ways, &effects->items[i]);
}

static void ways_step(struct ways *ways, const struct pod_sched_event *event)
{
    assert_int_equal(pod_sched_step(ways->sched, event, NULL, NULL), POD_OK);
    ways_apply_all(ways);
}

// ---------------------------------------------------------------- the graph

// Those that a node may depend on: most are one of a few with very many
// dependents, or one of the last.
static size_t ways_parent(uint64_t *random, size_t number)
{
    enum { HUBS = 8, LAST = 100 };
    uint32_t kind = ways_below(random, 3);

    if (kind == 0)
        return ways_below(random, number < HUBS ? (uint32_t)number : HUBS);
    if (kind == 1 && number > LAST)
        return number - 1 - ways_below(random, LAST);
    return ways_below(random, (uint32_t)number);
}

static void ways_submit(struct ways *ways, uint64_t *random, size_t number)
{
    struct pod_sched_dep deps[WAYS_DEPS];
    uint32_t lanes[2] = {ways_below(random, WAYS_LANES)};
    struct ways_node *node = &ways->nodes[number];
    struct pod_sched_event event = {
        .kind = POD_SCHED_SUBMIT,
        .user = node,
        .deps = deps,
        .run_on_failure = ways_chance(random, 10),
        .deadline_ns = ways_chance(random, 5) ? 1 : POD_NEVER,
        .lanes = lanes,
        .lane_count = ways_chance(random, 10) ? 1 : 0,
    };

    if (event.lane_count > 0 && ways_chance(random, 30)) {
        lanes[1] = (lanes[0] + 1) % WAYS_LANES;
        event.lane_count = 2;
    }
    event.certain = event.lane_count == 0 && ways_chance(random, 10);
    size_t wanted = number > 0 ? ways_below(random, WAYS_DEPS) : 0;
    for (; event.dep_count < wanted; event.dep_count++)
        deps[event.dep_count] = (struct pod_sched_dep){
            .node = ways->nodes[ways_parent(random, number)].node,
            .carries = ways_chance(random, 70),
        };
    node->state = POD_SCHED_WAITING;
    assert_int_equal(pod_sched_step(ways->sched, &event, &node->node, NULL),
                     POD_OK);
    ways_apply_all(ways);
}

static void ways_init(struct ways *ways, unsigned seed)
{
    uint64_t random = seed;

    memset(ways, 0, sizeof *ways);
    ways->random = seed;
    ways->sched = pod_sched_new();
    assert_non_null(ways->sched);
    for (uint32_t i = 0; i < WAYS_LANES; i++)
        assert_int_equal(pod_sched_add_lane(ways->sched, WAYS_WINDOW), i);
    for (size_t i = 0; i < WAYS_NODES; i++)
        ways_submit(ways, &random, i);
}

// ------------------------------------------------------------- the two ways

static void ways_tell_one(struct ways *ways)
{
    size_t number = ways->queue[ways->told++];
    const struct pod_sched_event event = {
        .kind = POD_SCHED_DONE,
        .node = ways->nodes[number].node,
        .state =
            ways_fails(ways, number) ? POD_SCHED_FAILED : POD_SCHED_SUCCEEDED,
    };

    ways_step(ways, &event);
}

static void ways_one_by_one(struct ways *ways)
{
    while (ways->told < ways->queued)
        ways_tell_one(ways);
}

static void ways_call(struct ways *ways, struct pod_sched_done *done,
                      uint64_t *random)
{
    struct pod_sched_node *launched[WAYS_TOGETHER];
    size_t room =
        POD_SCHED_LAUNCHED_MIN +
        ways_below(random, WAYS_TOGETHER - POD_SCHED_LAUNCHED_MIN + 1);
    size_t count = pod_sched_done_many(ways->sched, done, launched, room);

    assert_true(count <= room);
    for (size_t i = 0; i < count; i++) {
        const struct pod_sched_effect effect = {
            .node = launched[i],
            .what = POD_SCHED_CHANGED | POD_SCHED_LAUNCH,
            .state = pod_sched_node_state(launched[i]),
        };
        ways_apply(ways, &effect);
    }
    ways_apply_all(ways);
}

// Up to so many of those that come next and may be told together.
static void ways_tell_many(struct ways *ways, uint64_t *random)
{
    struct pod_sched_node *nodes[WAYS_TOGETHER];
    struct pod_sched_done done = {.nodes = nodes};
    size_t most = 1 + ways_below(random, WAYS_TOGETHER);

    for (; ways->told < ways->queued && done.count < most; ways->told++) {
        size_t number = ways->queue[ways->told];
        struct ways_node *node = &ways->nodes[number];
        if (ways_fails(ways, number) || !pod_sched_plain(node->node))
            break;
        node->state = POD_SCHED_SUCCEEDED;
        node->gone = true;
        nodes[done.count++] = node->node;
    }
    while (done.taken < done.count)
        ways_call(ways, &done, random);
}

static void ways_together(struct ways *ways)
{
    uint64_t random = ways->random;

    while (ways->told < ways->queued) {
        ways_tell_many(ways, &random);
        if (ways->told < ways->queued)
            ways_tell_one(ways);
    }
}

static void ways_compare(const struct ways *one, const struct ways *other,
                         unsigned seed)
{
    assert_int_equal(one->queued, other->queued);
    for (size_t i = 0; i < WAYS_NODES; i++) {
        const struct ways_node *a = &one->nodes[i];
        const struct ways_node *b = &other->nodes[i];
        if (!a->gone || !b->gone || a->state != b->state ||
            a->launched != b->launched)
            fail_msg("seed %u, node %zu: %s, %s", seed, i,
                     pod_sched_state_name(a->state),
                     pod_sched_state_name(b->state));
    }
    assert_int_equal(pod_sched_pool_taken(&other->sched->nodes), 0);
    assert_int_equal(pod_sched_pool_taken(&other->sched->groups), 0);
}

static void ways_run(unsigned seed)
{
    static struct ways one;
    static struct ways other;

    ways_init(&one, seed);
    ways_init(&other, seed);
    ways_one_by_one(&one);
    ways_together(&other);
    ways_compare(&one, &other, seed);
    pod_sched_free(one.sched);
    pod_sched_free(other.sched);
}

static unsigned ways_setting(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static void test_ways(void **state)
{
    unsigned seeds = ways_setting("POD_SEEDS", WAYS_SEEDS);
    unsigned only = ways_setting("POD_SEED", 0);

    (void)state;
    if (only > 0) {
        ways_run(only);
        return;
    }
    for (unsigned seed = 1; seed <= seeds; seed++)
        ways_run(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
