// SPDX-License-Identifier: Apache-2.0
// Many completions told together: how many calls that takes, what each
// launches, and what is left of nodes and edges. What becomes of dependents of
// each kind is traced in tests/sim/test_sched_trace_together.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/sched/internal.h"
#include "core/sched/sched.h"

enum {
    ROOM_MOST = 2048,
    CALLS_MOST = 1024,
    TOGETHER = 64,
    // Nodes of two chunks, and some of a third.
    NODES_MOST = 2 * POD_SCHED_NODE_PLACES + 100,
};

// Nodes in the order submitted. The user pointer of each is where it stands in
// `nodes`.
struct graph {
    struct pod_sched *sched;
    struct pod_sched_node **nodes;
    size_t count;
    struct pod_sched_dep *deps; // of the next one
    size_t dep_count;
    // What was launched since they were last emptied, by number, and in how
    // many calls how much each.
    size_t *launched;
    size_t launched_count;
    size_t calls[CALLS_MOST];
    size_t call_count;
};

static void graph_init(struct graph *graph)
{
    *graph = (struct graph){
        .sched = pod_sched_new(),
        .nodes = calloc(NODES_MOST, sizeof(struct pod_sched_node *)),
        .deps = calloc(NODES_MOST, sizeof(struct pod_sched_dep)),
        .launched = calloc(NODES_MOST, sizeof(size_t)),
    };
    assert_non_null(graph->sched);
    assert_non_null(graph->nodes);
    assert_non_null(graph->deps);
    assert_non_null(graph->launched);
}

// All nodes must be gone, and so must their edges.
static void graph_fini(struct graph *graph)
{
    assert_int_equal(pod_sched_pool_taken(&graph->sched->nodes), 0);
    assert_int_equal(pod_sched_pool_taken(&graph->sched->groups), 0);
    pod_sched_free(graph->sched);
    free(graph->nodes);
    free(graph->deps);
    free(graph->launched);
}

static size_t graph_number(const struct graph *graph, void *user)
{
    struct pod_sched_node **place = user;

    return (size_t)(place - graph->nodes);
}

// The next node that is submitted depends on that one.
static void graph_need(struct graph *graph, size_t number, bool carries)
{
    graph->deps[graph->dep_count++] = (struct pod_sched_dep){
        .node = graph->nodes[number],
        .carries = carries,
    };
}

static struct pod_sched_event graph_event(struct graph *graph)
{
    return (struct pod_sched_event){
        .kind = POD_SCHED_SUBMIT,
        .user = &graph->nodes[graph->count],
        .deps = graph->deps,
        .dep_count = graph->dep_count,
        .deadline_ns = POD_NEVER,
    };
}

static size_t graph_submit(struct graph *graph,
                           const struct pod_sched_event *event)
{
    assert_int_equal(
        pod_sched_step(graph->sched, event, &graph->nodes[graph->count], NULL),
        POD_OK);
    graph->dep_count = 0;
    return graph->count++;
}

static size_t graph_add(struct graph *graph)
{
    struct pod_sched_event event = graph_event(graph);

    return graph_submit(graph, &event);
}

static void graph_add_roots(struct graph *graph, size_t count)
{
    while (count-- > 0)
        (void)graph_add(graph);
}

// Each depends on that one alone.
static void graph_add_fan(struct graph *graph, size_t from, size_t count)
{
    while (count-- > 0) {
        graph_need(graph, from, true);
        (void)graph_add(graph);
    }
}

static void graph_forget_calls(struct graph *graph)
{
    graph->launched_count = 0;
    graph->call_count = 0;
}

// Tells that nodes from one number on are done. Nothing but plain launches may
// come of it.
static void graph_tell(struct graph *graph, size_t first, size_t count,
                       size_t room)
{
    struct pod_sched_node *launched[ROOM_MOST];
    struct pod_sched_done done = {
        .nodes = graph->nodes + first,
        .count = count,
    };

    assert_true(room <= ROOM_MOST);
    do {
        size_t more = pod_sched_done_many(graph->sched, &done, launched, room);
        assert_true(more <= room);
        for (size_t i = 0; i < more; i++)
            graph->launched[graph->launched_count++] =
                graph_number(graph, pod_sched_node_user(launched[i]));
        assert_int_equal(pod_sched_effects(graph->sched)->count, 0);
        assert_true(graph->call_count < CALLS_MOST);
        graph->calls[graph->call_count++] = more;
    } while (done.taken < done.count);
    assert_int_equal(done.group, 0);
}

// What was launched is `count` nodes, down from that number.
static void check_newest_first(const struct graph *graph, size_t newest,
                               size_t count)
{
    assert_int_equal(graph->launched_count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(graph->launched[i], newest - i);
}

// ------------------------------------------------------------ many dependents

// The node keeps its newest edge, each group seven, and the newest group what
// is left: 1,000 = 1 + 5 + 142 * 7. With the least room a call ends behind the
// first launch.
static void test_fan_out(void **state)
{
    struct graph graph;

    (void)state;
    graph_init(&graph);
    graph_add_roots(&graph, 1);
    graph_add_fan(&graph, 0, 1000);
    graph_tell(&graph, 0, 1, POD_SCHED_LAUNCHED_MIN);
    check_newest_first(&graph, 1000, 1000);
    assert_int_equal(graph.call_count, 144);
    assert_int_equal(graph.calls[0], 1);
    assert_int_equal(graph.calls[1], 5);
    for (size_t i = 2; i < graph.call_count; i++)
        assert_int_equal(graph.calls[i], 7);
    graph_tell(&graph, 1, 1000, POD_SCHED_LAUNCHED_MIN);
    graph_fini(&graph);
}

// With room for 64 it ends when there is room for less than 16:
// 1,000 = 55 + 19 * 49 + 14.
static void test_fan_out_with_room(void **state)
{
    struct graph graph;

    (void)state;
    graph_init(&graph);
    graph_add_roots(&graph, 1);
    graph_add_fan(&graph, 0, 1000);
    graph_tell(&graph, 0, 1, 64);
    check_newest_first(&graph, 1000, 1000);
    assert_int_equal(graph.call_count, 21);
    assert_int_equal(graph.calls[0], 1 + 5 + 7 * 7);
    for (size_t i = 1; i < 20; i++)
        assert_int_equal(graph.calls[i], 7 * 7);
    assert_int_equal(graph.calls[20], 7 * 2);
    graph_forget_calls(&graph);
    graph_add_fan(&graph, 1, 1000);
    graph_tell(&graph, 1, 1000, ROOM_MOST);
    check_newest_first(&graph, 2000, 1000);
    assert_int_equal(graph.call_count, 1);
    graph_tell(&graph, 1001, 1000, 64);
    graph_fini(&graph);
}

// One alone with few dependents: in the node there are two edges, or the newest
// and a group of up to seven.
static void test_one(void **state)
{
    static const struct {
        size_t dependents;
        size_t call_count;
        size_t calls[3];
    } cases[] = {
        {0, 1, {0}},    {1, 1, {1}},        {2, 1, {2}},       {3, 2, {1, 2}},
        {8, 2, {1, 7}}, {10, 3, {1, 2, 7}}, {9, 3, {1, 1, 7}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct graph graph;
        graph_init(&graph);
        graph_add_roots(&graph, 1);
        graph_add_fan(&graph, 0, cases[i].dependents);
        graph_tell(&graph, 0, 1, POD_SCHED_LAUNCHED_MIN);
        check_newest_first(&graph, cases[i].dependents, cases[i].dependents);
        assert_int_equal(graph.call_count, cases[i].call_count);
        for (size_t j = 0; j < graph.call_count; j++)
            assert_int_equal(graph.calls[j], cases[i].calls[j]);
        graph_tell(&graph, 1, cases[i].dependents, POD_SCHED_LAUNCHED_MIN);
        graph_fini(&graph);
    }
}

// Several with many dependents in one batch, and some with none in between. A
// call that goes on with one begins the next if there is room.
static void test_several(void **state)
{
    struct graph graph;

    (void)state;
    graph_init(&graph);
    graph_add_roots(&graph, 5);
    graph_add_fan(&graph, 1, 10); // 5 .. 14
    graph_add_fan(&graph, 2, 30); // 15 .. 44
    graph_add_fan(&graph, 4, 1);  // 45
    graph_tell(&graph, 0, 5, 32);
    assert_int_equal(graph.launched_count, 41);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(graph.launched[i], 14 - i);
    for (size_t i = 0; i < 30; i++)
        assert_int_equal(graph.launched[10 + i], 44 - i);
    assert_int_equal(graph.launched[40], 45);
    // A call ends behind more than 16: 1 + 2 + 7 and 1 + 1 + 7, then 7 * 3.
    assert_int_equal(graph.call_count, 3);
    assert_int_equal(graph.calls[0], 19);
    assert_int_equal(graph.calls[1], 21);
    assert_int_equal(graph.calls[2], 1);
    graph_tell(&graph, 5, 41, POD_SCHED_LAUNCHED_MIN);
    graph_fini(&graph);
}

// ---------------------------------------------------------------------- joins

static void test_join(void **state)
{
    struct graph graph;

    (void)state;
    graph_init(&graph);
    graph_add_roots(&graph, 1000);
    for (size_t i = 0; i < 1000; i++)
        graph_need(&graph, i, true);
    size_t join = graph_add(&graph);
    for (size_t i = 0; i < 960; i += TOGETHER) {
        graph_tell(&graph, i, TOGETHER, POD_SCHED_LAUNCHED_MIN);
        assert_int_equal(pod_sched_node_unmet(graph.nodes[join]),
                         1000 - TOGETHER - i);
        assert_int_equal(graph.launched_count, 0);
    }
    assert_int_equal(graph.call_count, 15);
    graph_tell(&graph, 960, 40, POD_SCHED_LAUNCHED_MIN);
    check_newest_first(&graph, join, 1);
    assert_int_equal(graph.call_count, 16);
    graph_tell(&graph, join, 1, POD_SCHED_LAUNCHED_MIN);
    graph_fini(&graph);
}

// Two joins in turns, so that each node comes after one with another dependent;
// some edges only order, and some nodes have two to their dependent.
static void test_unlike_joins(void **state)
{
    struct graph graph;

    (void)state;
    graph_init(&graph);
    graph_add_roots(&graph, 40);
    for (size_t join = 0; join < 2; join++) {
        for (size_t i = join; i < 40; i += 2) {
            graph_need(&graph, i, i % 3 == 0);
            if (i % 5 == 0)
                graph_need(&graph, i, i % 3 == 0);
        }
        (void)graph_add(&graph);
    }
    // Of 20 each, four stand there twice.
    assert_int_equal(pod_sched_node_unmet(graph.nodes[40]), 24);
    assert_int_equal(pod_sched_node_unmet(graph.nodes[41]), 24);
    graph_tell(&graph, 0, 39, POD_SCHED_LAUNCHED_MIN);
    check_newest_first(&graph, 40, 1);
    assert_int_equal(pod_sched_node_unmet(graph.nodes[41]), 1);
    graph_forget_calls(&graph);
    graph_tell(&graph, 39, 1, POD_SCHED_LAUNCHED_MIN);
    check_newest_first(&graph, 41, 1);
    graph_tell(&graph, 40, 2, POD_SCHED_LAUNCHED_MIN);
    graph_fini(&graph);
}

// --------------------------------------------------------------------- memory

// Nodes and groups are taken again, each by one.
static void test_reused(void **state)
{
    enum { FAN = 100 };
    struct graph graph;

    (void)state;
    graph_init(&graph);
    for (size_t round = 0; round < 3; round++) {
        size_t root = graph.count;
        graph_forget_calls(&graph);
        graph_add_roots(&graph, 1);
        graph_add_fan(&graph, root, FAN);
        for (size_t i = 1; i <= FAN; i++)
            graph_need(&graph, root + i, true);
        size_t join = graph_add(&graph);
        graph_tell(&graph, root, 1, TOGETHER);
        check_newest_first(&graph, root + FAN, FAN);
        graph_forget_calls(&graph);
        graph_tell(&graph, root + 1, FAN, TOGETHER);
        check_newest_first(&graph, join, 1);
        graph_tell(&graph, join, 1, TOGETHER);
        // 102 nodes, and 14 full groups for 99 edges and one more: no others
        // were ever taken.
        const struct pod_sched *sched = graph.sched;
        assert_int_equal(pod_sched_pool_taken(&sched->nodes), 0);
        assert_int_equal(pod_sched_pool_taken(&sched->groups), 0);
        assert_int_equal(sched->nodes.per_chunk - sched->nodes.fresh_count,
                         FAN + 2);
        assert_int_equal(sched->groups.per_chunk - sched->groups.fresh_count,
                         15);
    }
    graph_fini(&graph);
}

// Edges from the first chunk of nodes to the others and back.
static void test_chunks(void **state)
{
    enum { FAN = 2 * POD_SCHED_NODE_PLACES };
    struct graph graph;

    (void)state;
    graph_init(&graph);
    graph_add_roots(&graph, 1);
    graph_add_fan(&graph, 0, FAN);
    assert_int_equal(graph.sched->nodes.chunk_count, 3);
    for (size_t i = 1; i <= FAN; i++)
        graph_need(&graph, i, true);
    // The first is gone, so that the join stands in the first chunk.
    struct pod_sched_node *first = graph.nodes[0];
    for (size_t left = FAN; left > 0;) {
        struct pod_sched_node *launched[TOGETHER];
        struct pod_sched_done done = {.nodes = graph.nodes, .count = 1};
        while (done.taken < done.count) {
            size_t count =
                pod_sched_done_many(graph.sched, &done, launched, TOGETHER);
            for (size_t i = 0; i < count; i++)
                assert_ptr_equal(launched[i], graph.nodes[left--]);
        }
    }
    size_t join = graph_add(&graph);
    assert_ptr_equal(graph.nodes[join], first);
    graph_tell(&graph, 1, FAN - 1, TOGETHER);
    assert_int_equal(graph.launched_count, 0);
    graph_tell(&graph, FAN, 1, TOGETHER);
    check_newest_first(&graph, join, 1);
    graph_tell(&graph, join, 1, TOGETHER);
    graph_fini(&graph);
}

// ---------------------------------------------------------------------- plain

static bool plain(const struct graph *graph, size_t number)
{
    return pod_sched_plain(graph->nodes[number]);
}

static void graph_step(struct graph *graph, enum pod_sched_event_kind kind,
                       size_t number, enum pod_sched_state state)
{
    const struct pod_sched_event event = {
        .kind = kind,
        .node = graph->nodes[number],
        .state = state,
    };

    assert_int_equal(pod_sched_step(graph->sched, &event, NULL, NULL), POD_OK);
}

static void test_plain_states(void **state)
{
    struct graph graph;

    (void)state;
    graph_init(&graph);
    graph_add_roots(&graph, 2);
    graph_add_fan(&graph, 0, 1);
    assert_true(plain(&graph, 0));
    assert_false(plain(&graph, 2)); // not launched
    graph_step(&graph, POD_SCHED_STARTED, 0, POD_SCHED_RUNNING);
    assert_true(plain(&graph, 0));
    graph_step(&graph, POD_SCHED_CANCEL, 1, POD_SCHED_CANCELLED);
    assert_true(plain(&graph, 1)); // to be interrupted, but open
    graph_tell(&graph, 0, 2, POD_SCHED_LAUNCHED_MIN);
    check_newest_first(&graph, 2, 1);
    assert_true(plain(&graph, 2));
    graph_step(&graph, POD_SCHED_END, 2, POD_SCHED_LOST);
    assert_false(plain(&graph, 2)); // ended, and the worker still has it
    graph_step(&graph, POD_SCHED_DONE, 2, POD_SCHED_SUCCEEDED);
    graph_fini(&graph);
}

static void test_not_plain(void **state)
{
    static const uint32_t lane = 0;
    struct graph graph;

    (void)state;
    graph_init(&graph);
    assert_int_equal(pod_sched_add_lane(graph.sched, 1), 0);
    struct pod_sched_event event = graph_event(&graph);
    event.lanes = &lane;
    event.lane_count = 1;
    size_t placed = graph_submit(&graph, &event);
    event = graph_event(&graph);
    event.deadline_ns = 1;
    size_t timed = graph_submit(&graph, &event);
    size_t root = graph_add(&graph);
    graph_need(&graph, root, true);
    graph.deps[0].ahead = true;
    size_t led = graph_add(&graph);
    for (size_t i = placed; i <= led; i++) {
        assert_true(pod_sched_node_launched(graph.nodes[i]));
        assert_int_equal(plain(&graph, i), i == root);
    }
    // As soon as nothing leads it, it is.
    graph_step(&graph, POD_SCHED_DONE, root, POD_SCHED_SUCCEEDED);
    assert_true(plain(&graph, led));
    graph_tell(&graph, led, 1, POD_SCHED_LAUNCHED_MIN);
    graph_step(&graph, POD_SCHED_DONE, placed, POD_SCHED_SUCCEEDED);
    graph_step(&graph, POD_SCHED_DONE, timed, POD_SCHED_SUCCEEDED);
    graph_fini(&graph);
}

static void test_none(void **state)
{
    struct graph graph;

    (void)state;
    graph_init(&graph);
    graph_add_roots(&graph, 1);
    assert_int_equal(pod_sched_effects(graph.sched)->count, 1);
    graph_tell(&graph, 0, 0, POD_SCHED_LAUNCHED_MIN);
    assert_int_equal(graph.launched_count, 0);
    graph_tell(&graph, 0, 1, POD_SCHED_LAUNCHED_MIN);
    graph_fini(&graph);
}

// ----------------------------------------------------------------- dependents

// The dependents of a node are walked newest first, each once.
static void test_walk(void **state)
{
    enum { MOST = 20 };

    (void)state;
    for (size_t count = 0; count <= MOST; count++) {
        struct graph graph;
        const void *cursor = NULL;
        void *user;
        bool carries;
        graph_init(&graph);
        graph_add_roots(&graph, 1);
        for (size_t i = 0; i < count; i++) {
            graph_need(&graph, 0, i % 2 == 0);
            (void)graph_add(&graph);
        }
        for (size_t i = count; i > 0; i--) {
            assert_true(pod_sched_next_dependent(graph.sched, graph.nodes[0],
                                                 &cursor, &user, &carries));
            assert_int_equal(graph_number(&graph, user), i);
            assert_int_equal(carries, i % 2 == 1);
        }
        assert_false(pod_sched_next_dependent(graph.sched, graph.nodes[0],
                                              &cursor, &user, &carries));
        graph_tell(&graph, 0, 1, POD_SCHED_LAUNCHED_MIN);
        graph_tell(&graph, 1, count, POD_SCHED_LAUNCHED_MIN);
        graph_fini(&graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fan_out),
        cmocka_unit_test(test_fan_out_with_room),
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_unlike_joins),
        cmocka_unit_test(test_reused),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_plain_states),
        cmocka_unit_test(test_not_plain),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_walk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
