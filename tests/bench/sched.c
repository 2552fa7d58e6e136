// SPDX-License-Identifier: Apache-2.0
// What a completion costs with N operations in flight: nanoseconds for each
// edge that it releases.
//
// All N operations of a graph are submitted, then completed as they become
// ready, first in first out. What gives its memory back and takes it again
// (sched, step, lanes, told) has done the same graph once before, as it is
// after a while: no page is new to it. Columns, for the same graph in the same
// run:
//
//   sched  pod_sched_done_many, which puts what it launches behind all that is
//          to be completed, as bare does. Up to 64 completions are told
//          together, as the engine does with the answers that come in one
//          message; one if there are no more
//   step   each completion is told by a step of its own: DONE, and reading the
//          effects. It is announced one before with pod_sched_expect, as the
//          engine does when an answer comes: before it waits for its lock and
//          does its own work; so are those of bare and told
//   lanes  as step with each operation in one of 64 lanes of window 4
//   bare   the least that releases edges: nodes of a counter, a state and the
//          head of a list of dependents, edges as a singly linked list, both in
//          arrays in the order submitted and on huge pages as the scheduler's;
//          what becomes ready goes to a list and comes from it. No effects, no
//          failures, no lanes, nothing is given back
//   told   the same counters and lists, for who is told of completions from
//          outside, and no more than that takes: a completion is an id, which
//          comes through a call that is not inlined; the ids of what became
//          ready, and that of what ended, stand in an array that the caller
//          reads; the node and its edges go back to free lists. No failures, no
//          lanes, no deadlines, no states. An id is a number that rises with
//          each operation, and in its low bits the place of the node, so the
//          node is found by an index and known by its id. A hash map would cost
//          more than all the rest, and the scheduler, which is told of a node
//          by its address, would not pay for it. There is room for all from the
//          start
//   scan   a model of a driver that keeps for each operation the set of what it
//          waits for, and on each completion walks all that are in flight to
//          erase the id from their sets; only up to 10,000, since it is slow
//
// The last column is the memory that an operation takes in the scheduler, with
// its edges and its lane, when all are submitted: what is resident then and was
// not before, so only where that is much more than a page.
//
// Each number is the median of the rounds, which take turns, in time of the
// processor: all is done by one thread. POD_BENCH_MAX says how large N may
// become: 1,000,000 if it is not set, at most 10,000,000.
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/sched/sched.h"
#include "tests/bench/lib/numbers.h"
#include "tests/bench/lib/scan.h"
#include "tests/bench/lib/sched_graph.h"
#include "tests/bench/lib/told.h"

enum {
    BENCH_LANES = 64,
    BENCH_WINDOW = 4,
    BENCH_TOGETHER = 64,
    BENCH_ROUNDS = 5,
    BENCH_SCAN_MAX = 10000,
    BENCH_BYTES_MIN = 100000,
    BENCH_MAPPED = 1 << 20,
    BENCH_LINE = 128,
    BENCH_DEFAULT = 1000000,
    BENCH_MAX = 10000000,
};

// ------------------------------------------------------------ the scheduler

// What became ready, as it did; the first so many are completed.
struct bench_ready {
    struct pod_sched_node **nodes; // with room for a call's launches behind all
    size_t count;
    size_t completed;
};

static inline void bench_step(struct pod_sched *sched,
                              const struct pod_sched_event *event,
                              struct pod_sched_node **out_node,
                              const struct pod_sched_effects *effects,
                              struct bench_ready *ready)
{
    if (pod_sched_step(sched, event, out_node, NULL) != POD_OK) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    for (size_t i = 0; i < effects->count; i++) {
        if ((effects->items[i].what & POD_SCHED_LAUNCH) != 0)
            ready->nodes[ready->count++] = effects->items[i].node;
    }
}

static void bench_submit_all(struct pod_sched *sched,
                             const struct bench_graph *graph, bool with_lanes,
                             struct bench_ready *ready)
{
    struct pod_sched_node **nodes = bench_alloc(graph->count, sizeof(void *));
    struct pod_sched_dep *deps = bench_alloc(graph->count, sizeof deps[0]);

    for (size_t i = 0; i < graph->count; i++) {
        uint32_t lane = (uint32_t)i % BENCH_LANES;
        size_t dep_count = 0;
        for (size_t j = graph->first[i]; j < graph->first[i + 1]; j++)
            deps[dep_count++] = (struct pod_sched_dep){
                .node = nodes[graph->parents[j]], .carries = true};
        struct pod_sched_event event = {
            .kind = POD_SCHED_SUBMIT,
            .user = nodes,
            .deps = deps,
            .dep_count = dep_count,
            .deadline_ns = POD_NEVER,
            .lanes = &lane,
            .lane_count = with_lanes ? 1 : 0,
        };
        bench_step(sched, &event, &nodes[i], pod_sched_effects(sched), ready);
    }
    free(deps);
    free(nodes);
}

// Bytes of memory that the process has now.
static double bench_resident(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[BENCH_LINE] = "";
    char *resident = NULL;

    if (file == NULL)
        return 0;
    if (fgets(line, sizeof line, file) != NULL)
        (void)strtoul(line, &resident, 10); // the size comes first
    (void)fclose(file);
    return resident == NULL ? 0
                            : (double)strtoul(resident, NULL, 10) *
                                  (double)sysconf(_SC_PAGESIZE);
}

static double bench_bytes; // of an operation, in the last run of a scheduler

// How completions are told to a scheduler.
enum bench_way { BENCH_MANY, BENCH_EACH, BENCH_IN_LANES };

static void bench_done_each(struct pod_sched *sched, enum bench_way way,
                            struct bench_ready *ready)
{
    const struct pod_sched_effects *effects = pod_sched_effects(sched);
    struct pod_sched_event event = {
        .kind = POD_SCHED_DONE,
        .state = POD_SCHED_SUCCEEDED,
    };

    for (; ready->completed < ready->count; ready->completed++) {
        event.node = ready->nodes[ready->completed];
        if (ready->completed + 1 < ready->count)
            pod_sched_expect(ready->nodes[ready->completed + 1],
                             way == BENCH_IN_LANES);
        bench_step(sched, &event, NULL, effects, ready);
    }
}

static inline void bench_done_together(struct pod_sched *sched, size_t count,
                                       struct bench_ready *ready)
{
    struct pod_sched_done done = {
        .nodes = ready->nodes + ready->completed,
        .count = count,
    };

    do {
        ready->count += pod_sched_done_many(
            sched, &done, ready->nodes + ready->count, BENCH_TOGETHER);
    } while (done.taken < done.count);
    ready->completed += count;
}

static void bench_done_many(struct pod_sched *sched, struct bench_ready *ready)
{
    while (ready->completed < ready->count) {
        size_t count = ready->count - ready->completed;
        bench_done_together(
            sched, count < BENCH_TOGETHER ? count : BENCH_TOGETHER, ready);
    }
}

static double bench_complete_all(struct pod_sched *sched,
                                 const struct bench_graph *graph,
                                 enum bench_way way, struct bench_ready *ready)
{
    double begin = bench_now();

    if (way == BENCH_MANY)
        bench_done_many(sched, ready);
    else
        bench_done_each(sched, way, ready);
    double result = bench_result(graph, begin, ready->completed);
    ready->completed = 0;
    ready->count = 0;
    return result;
}

static double bench_sched(const struct bench_graph *graph, enum bench_way way)
{
    struct bench_ready ready = {
        .nodes =
            bench_alloc_filled(graph->count + BENCH_TOGETHER, sizeof(void *))};
    double resident = bench_resident();
    struct pod_sched *sched = pod_sched_new();
    bool with_lanes = way == BENCH_IN_LANES;

    for (int i = 0; i < BENCH_LANES; i++)
        (void)pod_sched_add_lane(sched, BENCH_WINDOW);
    bench_submit_all(sched, graph, with_lanes, &ready);
    bench_bytes = (bench_resident() - resident) / (double)graph->count;
    (void)bench_complete_all(sched, graph, way, &ready);
    bench_submit_all(sched, graph, with_lanes, &ready);
    double result = bench_complete_all(sched, graph, way, &ready);
    pod_sched_free(sched);
    free(ready.nodes);
    return result;
}

static double bench_many(const struct bench_graph *graph)
{
    return bench_sched(graph, BENCH_MANY);
}

static double bench_each(const struct bench_graph *graph)
{
    return bench_sched(graph, BENCH_EACH);
}

static double bench_lanes(const struct bench_graph *graph)
{
    return bench_sched(graph, BENCH_IN_LANES);
}

// ------------------------------------------------------------ the bare loop

struct bare_edge {
    struct bare_edge *next;
    struct bare_node *to;
};

struct bare_node {
    struct bare_edge *dependents;
    uint32_t unmet;
    uint8_t state;
};

static double bench_bare(const struct bench_graph *graph)
{
    struct bare_node *nodes = bench_alloc(graph->count, sizeof nodes[0]);
    struct bare_edge *edges = bench_alloc(graph->edges, sizeof edges[0]);
    struct bare_node **ready = bench_alloc_filled(graph->count, sizeof(void *));
    size_t ready_count = 0;
    size_t completed = 0;

    for (size_t i = 0; i < graph->count; i++) {
        nodes[i] = (struct bare_node){
            .unmet = (uint32_t)(graph->first[i + 1] - graph->first[i]),
            .state = POD_SCHED_WAITING,
        };
        for (size_t j = graph->first[i]; j < graph->first[i + 1]; j++) {
            struct bare_node *from = &nodes[graph->parents[j]];
            edges[j] = (struct bare_edge){from->dependents, &nodes[i]};
            from->dependents = &edges[j];
        }
        if (nodes[i].unmet == 0)
            ready[ready_count++] = &nodes[i];
    }
    double begin = bench_now();
    for (; completed < ready_count; completed++) {
        struct bare_node *node = ready[completed];
        if (completed + 1 < ready_count)
            __builtin_prefetch(ready[completed + 1], 1);
        node->state = POD_SCHED_SUCCEEDED;
        const struct bare_edge *edge = node->dependents;
        for (; edge != NULL; edge = edge->next) {
            if (--edge->to->unmet > 0)
                continue;
            edge->to->state = POD_SCHED_READY;
            ready[ready_count++] = edge->to;
        }
    }
    double result = bench_result(graph, begin, completed);
    free(ready);
    free(edges);
    free(nodes);
    return result;
}

// ------------------------------------------------------- who is told by id

_Static_assert(BENCH_MAX <= 1 << TOLD_PLACE_BITS, "each node has a place");

static size_t told_submit_all(struct told *told,
                              const struct bench_graph *graph, uint64_t *ready)
{
    uint64_t *ids = bench_alloc(graph->count, sizeof ids[0]);
    uint64_t *deps = bench_alloc(graph->count, sizeof deps[0]);
    size_t ready_count = 0;

    for (size_t i = 0; i < graph->count; i++) {
        size_t dep_count = 0;
        for (size_t j = graph->first[i]; j < graph->first[i + 1]; j++)
            deps[dep_count++] = ids[graph->parents[j]];
        ids[i] = told_submit(told, deps, dep_count);
        if (dep_count == 0)
            ready[ready_count++] = ids[i];
    }
    free(deps);
    free(ids);
    return ready_count;
}

static double told_complete_all(struct told *told,
                                const struct bench_graph *graph,
                                uint64_t *ready, size_t ready_count)
{
    size_t completed = 0;

    double begin = bench_now();
    for (size_t next = 0; next < ready_count; next++) {
        if (next + 1 < ready_count)
            __builtin_prefetch(told_find(told, ready[next + 1]), 1);
        size_t count = told_done(told, ready[next]);
        for (size_t i = 0; i + 1 < count; i++)
            ready[ready_count++] = told->news[i];
        completed += count > 0 && told->news[count - 1] == ready[next];
    }
    return bench_result(graph, begin, completed);
}

static double bench_told(const struct bench_graph *graph)
{
    struct told told = {
        .nodes = bench_alloc(graph->count, sizeof told.nodes[0]),
        .edges = bench_alloc(graph->edges, sizeof told.edges[0]),
        .news = bench_alloc_filled(graph->count, sizeof told.news[0]),
    };
    uint64_t *ready = bench_alloc_filled(graph->count, sizeof ready[0]);
    size_t ready_count = told_submit_all(&told, graph, ready);

    (void)told_complete_all(&told, graph, ready, ready_count);
    ready_count = told_submit_all(&told, graph, ready);
    double result = told_complete_all(&told, graph, ready, ready_count);
    free(ready);
    free(told.news);
    free(told.edges);
    free(told.nodes);
    return result;
}

// -------------------------------------------------------------------- table

static const struct {
    const char *name;
    double (*run)(const struct bench_graph *graph);
    size_t most;
} bench_models[] = {
    {"sched", bench_many, BENCH_MAX},  {"step", bench_each, BENCH_MAX},
    {"lanes", bench_lanes, BENCH_MAX}, {"bare", bench_bare, BENCH_MAX},
    {"told", bench_told, BENCH_MAX},   {"scan", scan_run, BENCH_SCAN_MAX},
};

enum {
    BENCH_SCHED,
    BENCH_STEP,
    BENCH_WITH_LANES,
    BENCH_BARE,
    BENCH_TOLD,
    BENCH_SCAN,
    BENCH_MODELS,
};

static void bench_row(size_t shape, size_t count)
{
    struct bench_graph graph = bench_graph_make(shape, count);
    double results[BENCH_MODELS][BENCH_ROUNDS];
    double median[BENCH_MODELS];

    for (size_t round = 0; round < BENCH_ROUNDS; round++) {
        for (size_t i = 0; i < BENCH_MODELS; i++)
            results[i][round] =
                count > bench_models[i].most ? 0 : bench_models[i].run(&graph);
    }
    printf("%-8s %9zu", graph.name, count);
    for (size_t i = 0; i < BENCH_MODELS; i++) {
        median[i] = bench_median_of(results[i], BENCH_ROUNDS);
        printf(" %7.1f", median[i]);
    }
    printf(" %10.2f %10.2f %10.0f", median[BENCH_SCHED] / median[BENCH_BARE],
           median[BENCH_SCHED] / median[BENCH_TOLD],
           median[BENCH_SCAN] / median[BENCH_SCHED]);
    if (count >= BENCH_BYTES_MIN)
        printf(" %6.0f", bench_bytes);
    printf("\n");
    (void)fflush(stdout);
    bench_graph_free(&graph);
}

int main(void)
{
    const char *limit = getenv("POD_BENCH_MAX");
    size_t most = limit != NULL ? strtoul(limit, NULL, 10) : BENCH_DEFAULT;

    // What is freed goes back to the system, so that it does not count.
    (void)mallopt(M_MMAP_THRESHOLD, BENCH_MAPPED);

    printf("ns for each released edge\n%-8s %9s", "graph", "in flight");
    for (size_t i = 0; i < BENCH_MODELS; i++)
        printf(" %7s", bench_models[i].name);
    printf(" %10s %10s %10s %6s\n", "sched/bare", "sched/told", "scan/sched",
           "bytes");
    for (size_t i = 0; i < BENCH_SHAPES; i++) {
        for (size_t count = 1000; count <= most && count <= BENCH_MAX;
             count *= 10)
            bench_row(i, count);
    }
    return 0;
}
