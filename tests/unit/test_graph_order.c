// SPDX-License-Identifier: Apache-2.0
// The order of turns of random lists, against a model that works it out from
// the transitive closure of the references.
//
// POD_SEEDS=n for another number of lists, POD_SEED=n for just that one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/pod/graph.h"

enum { OPS_MAX = 24, REFS_MAX = 3, SEEDS = 3000 };

struct list {
    uint64_t seed;
    size_t count;
    struct pod_request requests[OPS_MAX];
    const struct pod_request *ops[OPS_MAX];
    struct pod_ref refs[OPS_MAX][REFS_MAX];
    bool refused[OPS_MAX];
    bool reaches[OPS_MAX][OPS_MAX]; // refers to, over any number of steps
};

static uint64_t pick(struct list *list, uint64_t below)
{
    list->seed = list->seed * UINT64_C(6364136223846793005) +
                 UINT64_C(1442695040888963407);
    return (list->seed >> 33) % below;
}

// References go back, mostly; how often they go forward differs by list.
static void list_make(struct list *list, uint64_t seed)
{
    memset(list, 0, sizeof(*list));
    list->seed = seed * 7919 + 1;
    list->count = 1 + pick(list, OPS_MAX);
    uint64_t forward = pick(list, 60);
    for (size_t i = 0; i < list->count; i++) {
        struct pod_request *request = &list->requests[i];
        list->ops[i] = request;
        list->refused[i] = pick(list, 20) == 0;
        request->kind = POD_KIND_ALLOCATE;
        request->after = list->refs[i];
        request->after_count = pick(list, REFS_MAX + 1);
        for (size_t k = 0; k < request->after_count; k++) {
            bool any = pick(list, 100) < forward;
            list->refs[i][k] = (struct pod_ref){
                .kind = POD_REF_REQUEST,
                .number = pick(list, any ? list->count : i + (i == 0)),
            };
            if (i == 0 && !any)
                list->refs[i][k].kind = POD_REF_OP;
        }
    }
}

static void list_close(struct list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct pod_request *request = &list->requests[i];
        for (size_t k = 0; k < request->after_count; k++) {
            const struct pod_ref *ref = &list->refs[i][k];
            if (ref->kind == POD_REF_REQUEST && !list->refused[i] &&
                !list->refused[ref->number])
                list->reaches[i][ref->number] = true;
        }
    }
    for (size_t via = 0; via < list->count; via++) {
        for (size_t i = 0; i < list->count; i++) {
            for (size_t to = 0; to < list->count; to++)
                list->reaches[i][to] |=
                    list->reaches[i][via] && list->reaches[via][to];
        }
    }
}

// Whether an operation is on a cycle, or waits for one.
static bool is_stuck(const struct list *list, size_t op)
{
    bool stuck = list->reaches[op][op];

    for (size_t i = 0; i < list->count; i++)
        stuck = stuck || (list->reaches[op][i] && list->reaches[i][i]);
    return stuck;
}

// The last place in the list that an operation has to do with.
static size_t last_place(const struct list *list, size_t op)
{
    size_t last = op;

    for (size_t i = op + 1; i < list->count; i++)
        last = list->reaches[op][i] ? i : last;
    return last;
}

static bool is_ready(const struct list *list, size_t op, const bool *taken)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->reaches[op][i] && !taken[i])
            return false;
    }
    return true;
}

// Of those whose turn may be next, the one with the earliest last place, then
// the one that stands first.
static size_t model_order(const struct list *list, size_t *out_turns)
{
    bool taken[OPS_MAX] = {false};
    size_t count = 0;

    for (;;) {
        size_t best = OPS_MAX;
        for (size_t i = 0; i < list->count; i++) {
            if (taken[i] || list->refused[i] || is_stuck(list, i) ||
                !is_ready(list, i, taken))
                continue;
            if (best == OPS_MAX || last_place(list, i) < last_place(list, best))
                best = i;
        }
        if (best == OPS_MAX)
            return count;
        taken[best] = true;
        out_turns[count++] = best;
    }
}

// Each fault stands at an operation that is on a cycle.
static void check_cycles(const struct list *list,
                         const struct pod_faults *faults)
{
    bool any = false;

    for (size_t i = 0; i < list->count; i++)
        any = any || list->reaches[i][i];
    assert_int_equal(faults->total > 0, any);
    for (size_t i = 0; i < faults->count; i++) {
        size_t place;
        assert_int_equal(sscanf(faults->items[i].pointer, "/ops/%zu", &place),
                         1);
        assert_true(list->reaches[place][place]);
        assert_int_equal(faults->items[i].reason, POD_REASON_CYCLE);
    }
}

static void check_list(uint64_t seed)
{
    struct list list;
    struct pod_err items[OPS_MAX];
    struct pod_faults faults = {.items = items, .capacity = OPS_MAX};
    struct pod_err err;
    size_t expected[OPS_MAX];
    size_t *turns = NULL;
    size_t count = 0;

    list_make(&list, seed);
    list_close(&list);
    const struct pod_graph_request graph = {
        .ops = list.ops, .count = list.count, .refused = list.refused};
    assert_int_equal(pod_graph_order(&graph, &turns, &count, &faults, &err),
                     POD_OK);
    check_cycles(&list, &faults);
    size_t wanted = model_order(&list, expected);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t turn = turns == NULL ? i : turns[i];
        // A sorted list keeps those that were refused.
        if (list.refused[turn])
            continue;
        if (at >= wanted || turn != expected[at])
            fail_msg("POD_SEED=%llu: turn %zu is %zu", (unsigned long long)seed,
                     at, turn);
        at++;
    }
    assert_int_equal(at, wanted);
    pod_free(turns);
}

static void test_orders_are_those_of_the_model(void **state)
{
    const char *seeds = getenv("POD_SEEDS");
    const char *one = getenv("POD_SEED");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t count = one != NULL     ? 1
                     : seeds != NULL ? strtoull(seeds, NULL, 10)
                                     : SEEDS;

    (void)state;
    for (uint64_t seed = first; seed < first + count; seed++)
        check_list(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_are_those_of_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
