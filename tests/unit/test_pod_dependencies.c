// SPDX-License-Identifier: Apache-2.0
// The neighbourhood of operations, on a real scheduler; random graphs against
// a plain breadth-first search.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tests/lib/hand_pod.h"

enum { GRAPH_MAX = 200, DEPS_MAX = 8 };

static int check_no_leak(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

struct graph {
    struct hand_pod hand;
    size_t count;
    uint64_t deps[GRAPH_MAX + 1][DEPS_MAX]; // by number
    size_t dep_counts[GRAPH_MAX + 1];
};

static void take_effects(struct hand_pod *hand)
{
    const struct pod_sched_effects *effects =
        pod_sched_effects(hand->pod.sched);

    for (size_t i = 0; i < effects->count; i++)
        ((struct pod_op *)pod_sched_effect_user(&effects->items[i]))->state =
            effects->items[i].state;
}

// An operation that waits for others of the graph.
static struct pod_op *add(struct graph *graph, const uint64_t *deps,
                          size_t dep_count)
{
    struct pod_sched_dep edges[DEPS_MAX];
    struct pod_op *op = hand_op(&graph->hand, POD_KIND_READ, POD_SCHED_WAITING);

    graph->count++;
    for (size_t i = 0; i < dep_count; i++)
        graph->deps[op->number][i] = deps[i];
    graph->dep_counts[op->number] = dep_count;
    op->deps = graph->deps[op->number];
    op->dep_count = (uint32_t)dep_count;
    for (size_t i = 0; i < dep_count; i++)
        edges[i] = (struct pod_sched_dep){
            .node = pod_table_get(&graph->hand.pod.table, deps[i])->node,
            .carries = i % 2 == 0,
        };
    struct pod_sched_event event = {
        .kind = POD_SCHED_SUBMIT,
        .user = op,
        .deps = edges,
        .dep_count = dep_count,
        .deadline_ns = POD_NEVER,
    };
    assert_int_equal(
        pod_sched_step(graph->hand.pod.sched, &event, &op->node, NULL), POD_OK);
    take_effects(&graph->hand);
    return op;
}

static size_t walk(struct graph *graph, uint64_t number, bool down,
                   uint32_t depth, size_t limit, struct pod_dependency **items,
                   bool *more)
{
    size_t count = 99;

    assert_int_equal(pod_dependencies(&graph->hand.pod, number, down, depth,
                                      limit, items, &count, more, NULL),
                     POD_OK);
    return count;
}

// 1 <- 2 <- 4, 1 <- 3 <- 4, 4 <- 5
static void make_diamond(struct graph *graph)
{
    memset(graph, 0, sizeof(*graph));
    hand_pod_init(&graph->hand);
    (void)add(graph, NULL, 0);
    (void)add(graph, (uint64_t[]){1}, 1);
    (void)add(graph, (uint64_t[]){1}, 1);
    (void)add(graph, (uint64_t[]){2, 3}, 2);
    (void)add(graph, (uint64_t[]){4}, 1);
}

static void test_diamond(void **state)
{
    (void)state;
    static struct graph graph;
    struct pod_dependency *items;
    bool more;

    make_diamond(&graph);
    assert_int_equal(walk(&graph, 4, false, 10, 100, &items, &more), 3);
    assert_int_equal(items[0].number, 2);
    assert_int_equal(items[0].depth, 1);
    assert_int_equal(items[1].number, 3);
    assert_int_equal(items[2].number, 1);
    assert_int_equal(items[2].depth, 2);
    assert_false(more);
    pod_dependencies_free(items);

    assert_int_equal(walk(&graph, 1, true, 2, 100, &items, &more), 3);
    assert_int_equal(items[2].number, 4);
    assert_int_equal(items[2].depth, 2);
    assert_false(more); // the depth was asked for, nothing was left out
    pod_dependencies_free(items);

    assert_int_equal(walk(&graph, 5, true, 2, 100, &items, &more), 0);
    pod_dependencies_free(items);
    hand_pod_fini(&graph.hand);
}

static void test_limits(void **state)
{
    (void)state;
    static struct graph graph;
    struct pod_dependency *items;
    bool more;

    make_diamond(&graph);
    assert_int_equal(walk(&graph, 1, true, 10, 2, &items, &more), 2);
    assert_true(more);
    pod_dependencies_free(items);
    assert_int_equal(walk(&graph, 1, true, 10, 4, &items, &more), 4);
    assert_false(more);
    pod_dependencies_free(items);
    assert_int_equal(walk(&graph, 1, true, 10, 0, &items, &more), 0);
    assert_true(more);
    pod_dependencies_free(items);
    assert_int_equal(walk(&graph, 1, true, 0, 4, &items, &more), 0);
    assert_false(more);
    pod_dependencies_free(items);
    hand_pod_fini(&graph.hand);
}

static void test_errors(void **state)
{
    (void)state;
    static struct graph graph;
    struct pod_dependency *items = NULL;
    struct pod_err err = POD_ERR_NONE;
    size_t count;
    bool more;

    make_diamond(&graph);
    assert_int_equal(pod_dependencies(&graph.hand.pod, 6, true, 1, 10, &items,
                                      &count, &more, &err),
                     POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_NOT_FOUND);
    for (long allowed = 0; allowed < 2; allowed++) {
        long live = pod_mem_live();
        pod_mem_fail_after(allowed, 1);
        enum pod_code code = pod_dependencies(&graph.hand.pod, 1, true, 1, 10,
                                              &items, &count, &more, &err);
        pod_mem_fail_after(-1, 0);
        assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
        assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
        assert_int_equal(pod_mem_live(), live);
    }
    assert_null(items);
    hand_pod_fini(&graph.hand);
}

static void test_expired_and_ended_ones_are_left_out(void **state)
{
    (void)state;
    static struct graph graph;
    struct pod_dependency *items;
    bool more;

    make_diamond(&graph);
    struct pod_op *second = pod_table_get(&graph.hand.pod.table, 2);
    struct pod_op *first = pod_table_get(&graph.hand.pod.table, 1);
    // 1 and 2 succeed: 4 waits for 3 alone, nothing waits for 1.
    for (int i = 0; i < 2; i++) {
        struct pod_sched_event done = {
            .kind = POD_SCHED_DONE,
            .node = i == 0 ? first->node : second->node,
            .state = POD_SCHED_SUCCEEDED,
        };
        assert_int_equal(
            pod_sched_step(graph.hand.pod.sched, &done, NULL, NULL), POD_OK);
        const struct pod_sched_effects *effects =
            pod_sched_effects(graph.hand.pod.sched);
        for (size_t j = 0; j < effects->count; j++)
            if ((effects->items[j].what & POD_SCHED_RELEASED) != 0)
                ((struct pod_op *)pod_sched_effect_user(&effects->items[j]))
                    ->node = NULL;
    }
    assert_int_equal(walk(&graph, 1, true, 5, 100, &items, &more), 0);
    pod_dependencies_free(items);
    hand_expire(&graph.hand, first);
    assert_int_equal(walk(&graph, 4, false, 5, 100, &items, &more), 2);
    assert_int_equal(items[0].number, 2);
    assert_int_equal(items[1].number, 3);
    assert_false(more);
    pod_dependencies_free(items);
    hand_pod_fini(&graph.hand);
}

// ---------------------------------------------------------- random graphs

static uint64_t random_next(uint64_t *seed)
{
    *seed =
        *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

// Distances by relaxation over all edges until nothing changes; 0: not reached.
static void model_depths(const struct graph *graph, uint64_t from, bool down,
                         uint32_t *depths)
{
    bool changed = true;

    memset(depths, 0, (graph->count + 1) * sizeof(*depths));
    while (changed) {
        changed = false;
        for (uint64_t number = 1; number <= graph->count; number++) {
            for (size_t i = 0; i < graph->dep_counts[number]; i++) {
                uint64_t dep = graph->deps[number][i];
                uint64_t a = down ? dep : number;
                uint64_t b = down ? number : dep;
                if (a != from && depths[a] == 0)
                    continue;
                uint32_t through = a == from ? 1 : depths[a] + 1;
                if (b != from && (depths[b] == 0 || depths[b] > through)) {
                    depths[b] = through;
                    changed = true;
                }
            }
        }
    }
}

static void check_against_model(struct graph *graph, uint64_t from, bool down,
                                uint32_t max_depth)
{
    uint32_t depths[GRAPH_MAX + 1];
    struct pod_dependency *items;
    bool more;
    size_t expected = 0;

    model_depths(graph, from, down, depths);
    for (uint64_t number = 1; number <= graph->count; number++) {
        if (depths[number] > max_depth)
            depths[number] = 0;
        expected += depths[number] > 0;
    }
    size_t count = walk(graph, from, down, max_depth, GRAPH_MAX, &items, &more);
    assert_int_equal(count, expected);
    assert_false(more);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(items[i].depth, depths[items[i].number]);
        depths[items[i].number] = 0; // each once
        if (i > 0)
            assert_true(items[i].depth >= items[i - 1].depth);
    }
    pod_dependencies_free(items);
}

static void random_graph(uint64_t seed)
{
    static struct graph graph;

    memset(&graph, 0, sizeof(graph));
    hand_pod_init(&graph.hand);
    size_t count = 1 + random_next(&seed) % GRAPH_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t deps[DEPS_MAX];
        size_t dep_count = random_next(&seed) % (DEPS_MAX + 1);
        size_t kept = 0;
        for (size_t j = 0; j < dep_count && i > 0; j++) {
            deps[kept] = 1 + random_next(&seed) % i;
            bool fresh = true;
            for (size_t k = 0; k < kept; k++)
                fresh = fresh && deps[k] != deps[kept];
            kept += fresh;
        }
        (void)add(&graph, deps, kept);
    }
    for (int i = 0; i < 4; i++)
        check_against_model(&graph, 1 + random_next(&seed) % count, i % 2 == 0,
                            i < 2 ? UINT32_MAX : 2);
    hand_pod_fini(&graph.hand);
}

static void test_random_graphs(void **state)
{
    (void)state;
    const char *text = getenv("POD_SEEDS");
    uint64_t seeds = text == NULL ? 300 : strtoull(text, NULL, 10);

    for (uint64_t seed = 1; seed <= seeds; seed++)
        random_graph(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_diamond, check_no_leak),
        cmocka_unit_test_teardown(test_limits, check_no_leak),
        cmocka_unit_test_teardown(test_errors, check_no_leak),
        cmocka_unit_test_teardown(test_expired_and_ended_ones_are_left_out,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_random_graphs, check_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
