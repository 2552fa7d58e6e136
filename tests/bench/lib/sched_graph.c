// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/sched_graph.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { BENCH_PARENTS = 3 }; // at most, of a random operation

void *bench_alloc(size_t count, size_t bytes)
{
    enum { BENCH_HUGE = 2 << 20 };
    size_t size = count * bytes;
    void *block =
        aligned_alloc(BENCH_HUGE, (size / BENCH_HUGE + 1) * (size_t)BENCH_HUGE);

    if (block == NULL) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    (void)madvise(block, size, MADV_HUGEPAGE);
    return block;
}

void *bench_alloc_filled(size_t count, size_t bytes)
{
    void *block = bench_alloc(count, bytes);

    memset(block, 0, count * bytes);
    return block;
}

double bench_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double bench_result(const struct bench_graph *graph, double begin,
                    size_t completed)
{
    double spent = bench_now() - begin;

    if (completed != graph->count) {
        fprintf(stderr, "%s: %zu of %zu completed\n", graph->name, completed,
                graph->count);
        exit(1);
    }
    return spent / (double)graph->edges;
}

// ------------------------------------------------------------------- shapes

static uint64_t bench_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void bench_chain(struct bench_graph *graph, size_t i)
{
    if (i > 0)
        graph->parents[graph->edges++] = (uint32_t)i - 1;
}

static void bench_fan_out(struct bench_graph *graph, size_t i)
{
    if (i > 0)
        graph->parents[graph->edges++] = 0;
}

static void bench_fan_in(struct bench_graph *graph, size_t i)
{
    for (size_t j = 0; i == graph->count - 1 && j < i; j++)
        graph->parents[graph->edges++] = (uint32_t)j;
}

static void bench_any(struct bench_graph *graph, size_t i)
{
    uint64_t random = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    size_t wanted = i > 0 ? 1 + bench_random(&random) % BENCH_PARENTS : 0;

    while (wanted-- > 0)
        graph->parents[graph->edges++] = (uint32_t)(bench_random(&random) % i);
}

static const struct {
    const char *name;
    void (*parents)(struct bench_graph *graph, size_t i);
} bench_shapes[BENCH_SHAPES] = {
    {"chain", bench_chain},
    {"fan out", bench_fan_out},
    {"fan in", bench_fan_in},
    {"random", bench_any},
};

struct bench_graph bench_graph_make(size_t shape, size_t count)
{
    assert(shape < BENCH_SHAPES);
    struct bench_graph graph = {
        .name = bench_shapes[shape].name,
        .count = count,
        .first = bench_alloc(count + 1, sizeof(size_t)),
        .parents = bench_alloc(count * BENCH_PARENTS, sizeof(uint32_t)),
    };

    for (size_t i = 0; i < count; i++) {
        graph.first[i] = graph.edges;
        bench_shapes[shape].parents(&graph, i);
    }
    graph.first[count] = graph.edges;
    return graph;
}

void bench_graph_free(struct bench_graph *graph)
{
    free(graph->first);
    free(graph->parents);
}
