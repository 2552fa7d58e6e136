// SPDX-License-Identifier: Apache-2.0
// The queue of a lane against a model that looks at everybody, with enough
// nodes for several rows of bits: random joins, marks and departures, in
// phases that fill the queue, keep it sparse, and empty it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/sched/internal.h"

enum {
    NODES = 20000, // 64 * 64 * 4 and more: three rows
    STEPS = 300000,
    PHASE = 20000, // steps
    CHECK_EVERY = 499,
    RANK_LIMIT = 50,
};

struct fake {
    struct pod_sched_node *node;
    struct pod_sched_gang member; // of a gang
    uint64_t order;               // when it joined; 0: it is not there
};

struct model {
    struct pod_sched_queue queue;
    struct pod_sched_pool nodes;
    struct fake *fakes;
    uint64_t joined;
    uint64_t random;
    size_t waiting;
};

static uint32_t model_below(struct model *model, uint32_t limit)
{
    uint64_t z = (model->random += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ (z >> 31)) % limit);
}

static void model_init(struct model *model)
{
    *model = (struct model){
        .fakes = calloc(NODES, sizeof(struct fake)),
        .random = 1,
    };
    assert_non_null(model->fakes);
    pod_sched_pool_init(&model->nodes, sizeof(struct pod_sched_node),
                        POD_SCHED_NODE_PLACES);
    assert_true(pod_sched_pool_reserve(&model->nodes, NODES));
    for (size_t i = 0; i < NODES; i++)
        model->fakes[i].node = pod_sched_pool_take(&model->nodes);
}

static void model_fini(struct model *model)
{
    pod_sched_queue_fini(&model->queue);
    pod_sched_pool_fini(&model->nodes);
    free(model->fakes);
}

static bool fake_marked(const struct fake *fake)
{
    return pod_sched_has(fake->node, POD_SCHED_IS_QUEUED);
}

static uint32_t fake_at(const struct fake *fake)
{
    return pod_sched_has(fake->node, POD_SCHED_IS_GANG)
               ? fake->member.place.at
               : pod_sched_cold(fake->node)->place.at;
}

static void fake_mark(struct model *model, struct fake *fake)
{
    fake->node->flags |= POD_SCHED_IS_QUEUED;
    pod_sched_queue_mark(&model->queue, pod_sched_level_of(fake->node),
                         fake_at(fake));
}

static void fake_unmark(struct model *model, struct fake *fake)
{
    fake->node->flags &= ~POD_SCHED_IS_QUEUED;
    pod_sched_queue_unmark(&model->queue, pod_sched_level_of(fake->node),
                           fake_at(fake));
}

static void fake_join(struct model *model, struct fake *fake)
{
    uint32_t level = model_below(model, 3) * (POD_SCHED_LEVELS / 2);

    assert_true(pod_sched_queue_reserve(&model->queue, 1));
    *fake->node = (struct pod_sched_node){
        .flags = level << POD_SCHED_LEVEL_SHIFT,
    };
    fake->order = ++model->joined;
    model->waiting++;
    if (model_below(model, 8) > 0) {
        pod_sched_queue_join(&model->queue, fake->node);
        return;
    }
    fake->node->flags |= POD_SCHED_IS_GANG;
    fake->member.node = fake->node;
    pod_sched_queue_join_gang(&model->queue, &fake->member);
}

static void fake_leave(struct model *model, struct fake *fake)
{
    if (fake_marked(fake))
        fake_unmark(model, fake);
    pod_sched_queue_leave(&model->queue, fake_at(fake));
    fake->order = 0;
    model->waiting--;
}

static bool fake_before(const struct fake *a, const struct fake *b)
{
    uint32_t level_a = pod_sched_level_of(a->node);
    uint32_t level_b = pod_sched_level_of(b->node);

    return level_a != level_b ? level_a < level_b : a->order < b->order;
}

static void model_check(struct model *model)
{
    const struct fake *first = NULL;
    const struct fake *some = &model->fakes[model_below(model, NODES)];
    size_t before = 0;

    for (size_t i = 0; i < NODES; i++) {
        const struct fake *fake = &model->fakes[i];
        if (fake->order == 0 || !fake_marked(fake))
            continue;
        if (first == NULL || fake_before(fake, first))
            first = fake;
        before += fake_before(fake, some);
    }
    assert_ptr_equal(pod_sched_queue_first(&model->queue),
                     first == NULL ? NULL : first->node);
    assert_int_equal(model->queue.waiting, model->waiting);
    if (some->order == 0 || !fake_marked(some))
        return;
    uint32_t level = pod_sched_level_of(some->node);
    assert_int_equal(
        pod_sched_queue_rank(&model->queue, level, fake_at(some), SIZE_MAX),
        before);
    assert_int_equal(
        pod_sched_queue_rank(&model->queue, level, fake_at(some), RANK_LIMIT),
        before < RANK_LIMIT ? before : RANK_LIMIT);
}

// Most of those that are there leave in phases 2, 5, ...
static void model_step(struct model *model, int step)
{
    struct fake *fake = &model->fakes[model_below(model, NODES)];
    bool empties = step / PHASE % 3 == 2;

    if (fake->order == 0) {
        if (!empties)
            fake_join(model, fake);
    } else if (model_below(model, 4) == 0 || empties) {
        fake_leave(model, fake);
    } else if (fake_marked(fake)) {
        fake_unmark(model, fake);
    } else {
        fake_mark(model, fake);
    }
}

static void test_random(void **state)
{
    struct model model;
    uint32_t depth = 0;

    (void)state;
    model_init(&model);
    for (int step = 0; step < STEPS; step++) {
        model_step(&model, step);
        if (step % CHECK_EVERY == 0)
            model_check(&model);
        depth = model.queue.depth > depth ? model.queue.depth : depth;
    }
    assert_int_equal(depth, 3);
    for (size_t i = 0; i < NODES; i++) {
        if (model.fakes[i].order != 0)
            fake_leave(&model, &model.fakes[i]);
    }
    model_check(&model);
    model_fini(&model);
}

// One stays in front while many come and go: no memory is needed for these.
static void test_stays(void **state)
{
    struct model model;

    (void)state;
    model_init(&model);
    struct fake *fakes = model.fakes;
    fake_join(&model, &fakes[0]);
    fake_mark(&model, &fakes[0]);
    pod_mem_fail_after(0, 1);
    for (size_t i = 1; i < NODES; i++) {
        fake_join(&model, &fakes[i]);
        fake_leave(&model, &fakes[i]);
    }
    assert_true(pod_sched_queue_reserve(&model.queue, 1));
    assert_false(pod_sched_queue_reserve(&model.queue, NODES));
    pod_mem_fail_after(-1, 0);
    // Positions have 30 bits.
    assert_false(pod_sched_queue_reserve(&model.queue, 1 << 30));
    assert_ptr_equal(pod_sched_queue_first(&model.queue), fakes[0].node);
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
