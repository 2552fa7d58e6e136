// SPDX-License-Identifier: Apache-2.0
// The neighbourhood of an operation in the graph of dependencies.
//
// All memory is taken before the lock, for `limit` operations. Operations are
// looked at one after the other; after a bounded number of edges the lock is
// let go for a moment. Only the edges of one operation are walked at a stretch,
// and those end early when the limit is reached.
#include "core/pod/internal.h"

#include "core/base/mem.h"

enum {
    DEPENDENCIES_LIMIT = 10000, // more than that is never given
    DEPENDENCIES_HOLD = 65536,  // edges looked at while the lock is held
};

struct dependencies {
    struct pod *pod;
    bool down;
    uint32_t max_depth;
    struct pod_dependency *items; // found, nearest first
    size_t count;
    size_t limit;
    uint64_t *seen; // numbers in open addressing; 0: empty
    size_t seen_mask;
    size_t edges; // looked at since the lock was taken
    bool more;
};

// Where a number stands among those seen, or an empty place for it.
static uint64_t *dependencies_slot(const struct dependencies *deps,
                                   uint64_t number)
{
    // Fibonacci hashing: the high bits of the product are the mixed ones.
    size_t slot = (size_t)((number * UINT64_C(0x9E3779B97F4A7C15)) >> 32);

    for (;; slot++) {
        uint64_t *at = &deps->seen[slot & deps->seen_mask];
        if (*at == number || *at == 0)
            return at;
    }
}

// False: the limit is reached.
static bool dependencies_add(struct dependencies *deps, uint64_t number,
                             uint32_t depth)
{
    uint64_t *slot = dependencies_slot(deps, number);

    if (*slot == number)
        return true;
    if (deps->count == deps->limit) {
        deps->more = true;
        return false;
    }
    *slot = number;
    deps->items[deps->count++] =
        (struct pod_dependency){.number = number, .depth = depth};
    return true;
}

static bool dependencies_up_locked(struct dependencies *deps,
                                   const struct pod_op *op, uint32_t depth)
{
    deps->edges += op->dep_count;
    for (uint32_t i = 0; i < op->dep_count; i++) {
        if (pod_table_get(&deps->pod->table, op->deps[i]) == NULL)
            continue;
        if (!dependencies_add(deps, op->deps[i], depth))
            return false;
    }
    return true;
}

static bool dependencies_down_locked(struct dependencies *deps,
                                     const struct pod_op *op, uint32_t depth)
{
    const void *cursor = NULL;
    void *user;
    bool carries;

    if (op->node == NULL)
        return true;
    while (pod_sched_next_dependent(deps->pod->sched, op->node, &cursor, &user,
                                    &carries)) {
        const struct pod_op *dependent = user;
        deps->edges++;
        if (pod_op_ended(dependent))
            continue;
        if (!dependencies_add(deps, dependent->number, depth))
            return false;
    }
    return true;
}

// The neighbours of one operation; false: the limit is reached.
static bool dependencies_expand_locked(struct dependencies *deps,
                                       uint64_t number, uint32_t depth)
{
    const struct pod_op *op = pod_table_get(&deps->pod->table, number);

    if (op == NULL || depth >= deps->max_depth)
        return true;
    if (deps->down)
        return dependencies_down_locked(deps, op, depth + 1);
    return dependencies_up_locked(deps, op, depth + 1);
}

static enum pod_code dependencies_walk(struct dependencies *deps,
                                       uint64_t number, struct pod_err *err)
{
    struct pod_op *op;

    pod_mutex_lock(&deps->pod->lock);
    enum pod_code code = pod_find_op_locked(deps->pod, number, &op, err);
    bool going = code == POD_OK;
    if (going)
        going = dependencies_expand_locked(deps, number, 0);
    for (size_t i = 0; going && i < deps->count; i++) {
        if (deps->edges >= DEPENDENCIES_HOLD) {
            pod_mutex_unlock(&deps->pod->lock);
            deps->edges = 0;
            pod_mutex_lock(&deps->pod->lock);
        }
        going = dependencies_expand_locked(deps, deps->items[i].number,
                                           deps->items[i].depth);
    }
    pod_mutex_unlock(&deps->pod->lock);
    return code;
}

enum pod_code pod_dependencies(struct pod *pod, uint64_t number, bool down,
                               uint32_t max_depth, size_t limit,
                               struct pod_dependency **out_items,
                               size_t *out_count, bool *out_more,
                               struct pod_err *err)
{
    struct dependencies deps = {
        .pod = pod,
        .down = down,
        .max_depth = max_depth,
        .limit = limit < DEPENDENCIES_LIMIT ? limit : DEPENDENCIES_LIMIT,
    };
    size_t slots = 4;

    // At most half full, the operation itself among them.
    while (slots < 2 * (deps.limit + 1))
        slots *= 2;
    deps.seen_mask = slots - 1;
    deps.seen = pod_calloc(slots, sizeof(*deps.seen));
    deps.items = pod_calloc(deps.limit, sizeof(*deps.items));
    enum pod_code code = POD_RESOURCE_EXHAUSTED;
    if (deps.seen == NULL || deps.items == NULL) {
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for %zu dependencies", deps.limit);
    } else {
        *dependencies_slot(&deps, number) = number;
        code = dependencies_walk(&deps, number, err);
    }
    pod_free(deps.seen);
    if (code != POD_OK) {
        pod_free(deps.items);
        return code;
    }
    *out_items = deps.items;
    *out_count = deps.count;
    *out_more = deps.more;
    return POD_OK;
}

void pod_dependencies_free(struct pod_dependency *items)
{
    pod_free(items);
}
