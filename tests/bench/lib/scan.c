// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/scan.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"

// An operation in flight, in a list of all of them.
struct scan_op {
    struct pod_map waits_for;
    bool fired;
    uint32_t previous;
    uint32_t next;
};

double scan_run(const struct bench_graph *graph)
{
    // Operation i is element i + 1; element 0 heads the list.
    struct scan_op *ops = bench_alloc(graph->count + 1, sizeof ops[0]);
    uint32_t *ready = bench_alloc(graph->count, sizeof ready[0]);
    uint32_t count = (uint32_t)graph->count;
    size_t ready_count = 0;
    size_t completed = 0;

    memset(ops, 0, (graph->count + 1) * sizeof ops[0]);
    for (uint32_t i = 0; i <= count; i++) {
        ops[i].previous = i > 0 ? i - 1 : count;
        ops[i].next = i < count ? i + 1 : 0;
        for (size_t j = i > 0 ? graph->first[i - 1] : 0; j < graph->first[i];
             j++)
            (void)pod_map_put(&ops[i].waits_for,
                              (uint64_t)graph->parents[j] + 1, ops);
        ops[i].fired = i > 0 && ops[i].waits_for.count == 0;
        if (ops[i].fired)
            ready[ready_count++] = i;
    }
    double begin = bench_now();
    for (; completed < ready_count; completed++) {
        uint32_t done = ready[completed];
        for (uint32_t i = ops[0].next; i != 0; i = ops[i].next) {
            (void)pod_map_remove(&ops[i].waits_for, done);
            if (ops[i].waits_for.count > 0 || ops[i].fired)
                continue;
            ops[i].fired = true;
            ready[ready_count++] = i;
        }
        ops[ops[done].previous].next = ops[done].next;
        ops[ops[done].next].previous = ops[done].previous;
    }
    double result = bench_result(graph, begin, completed);
    for (uint32_t i = 0; i <= count; i++)
        pod_map_fini(&ops[i].waits_for);
    free(ready);
    free(ops);
    return result;
}
