// SPDX-License-Identifier: Apache-2.0
// Graphs so deep that a scheduler which called itself would run out of stack.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/sched/sched.h"

enum { DEPTH = 500000 };

struct chain {
    struct pod_sched *sched;
    struct pod_sched_node **nodes;
};

// A lane of window 1 that is taken, a node that waits for the lane, and behind
// it a chain: each node depends on the one before. User pointers are into
// chain->nodes.
static void chain_init(struct chain *chain, bool ahead)
{
    static const uint32_t lane = 0;
    struct pod_sched_dep dep = {.carries = true, .ahead = ahead};
    struct pod_sched_event event = {
        .kind = POD_SCHED_SUBMIT,
        .deadline_ns = POD_NEVER,
        .lanes = &lane,
        .lane_count = 1,
        .deps = &dep,
    };

    chain->sched = pod_sched_new();
    chain->nodes = calloc(DEPTH + 1, sizeof(struct pod_sched_node *));
    assert_non_null(chain->sched);
    assert_non_null(chain->nodes);
    assert_int_equal(pod_sched_add_lane(chain->sched, 1), 0);
    for (size_t i = 0; i <= DEPTH; i++) {
        event.user = &chain->nodes[i];
        if (i > 1) {
            dep.node = chain->nodes[i - 1];
            event.dep_count = 1;
            event.lane_count = 0;
        }
        assert_int_equal(
            pod_sched_step(chain->sched, &event, &chain->nodes[i], NULL),
            POD_OK);
    }
}

static void chain_fini(struct chain *chain)
{
    pod_sched_free(chain->sched);
    free(chain->nodes);
}

// An effect of the last step, each of which is about the node of its index.
static struct pod_sched_effect expect_effect(struct chain *chain, size_t index,
                                             size_t first)
{
    const struct pod_sched_effects *effects = pod_sched_effects(chain->sched);

    assert_int_equal(effects->count, DEPTH + 1 - first);
    assert_ptr_equal(pod_sched_effect_user(&effects->items[index - first]),
                     &chain->nodes[index]);
    return effects->items[index - first];
}

static void test_failure(void **state)
{
    struct chain chain;

    (void)state;
    chain_init(&chain, false);
    struct pod_sched_event event = {
        .kind = POD_SCHED_CANCEL,
        .node = chain.nodes[1],
    };
    assert_int_equal(pod_sched_step(chain.sched, &event, NULL, NULL), POD_OK);
    assert_int_equal(expect_effect(&chain, 1, 1).state, POD_SCHED_CANCELLED);
    for (size_t i = 2; i <= DEPTH; i++) {
        struct pod_sched_effect effect = expect_effect(&chain, i, 1);
        assert_int_equal(effect.state, POD_SCHED_SKIPPED);
        assert_ptr_equal(pod_sched_effect_cause(&effect), &chain.nodes[i - 1]);
        assert_int_equal(effect.what, POD_SCHED_CHANGED | POD_SCHED_RELEASED);
    }
    chain_fini(&chain);
}

// All are sent ahead, so that the launch of the first launches them all.
static void test_launch(void **state)
{
    struct chain chain;

    (void)state;
    chain_init(&chain, true);
    struct pod_sched_event event = {
        .kind = POD_SCHED_DONE,
        .node = chain.nodes[0],
        .state = POD_SCHED_SUCCEEDED,
    };
    assert_int_equal(pod_sched_step(chain.sched, &event, NULL, NULL), POD_OK);
    assert_int_equal(expect_effect(&chain, 0, 0).state, POD_SCHED_SUCCEEDED);
    for (size_t i = 1; i <= DEPTH; i++)
        assert_int_equal(expect_effect(&chain, i, 0).what, POD_SCHED_LAUNCH);
    chain_fini(&chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_launch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
