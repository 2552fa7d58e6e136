// SPDX-License-Identifier: Apache-2.0
// Lists: pages of views, newest first.
//
// The place in a walk is a number, and numbers neither change nor come back, so
// a walk shows what existed at its start once, whatever comes or goes. The
// numbers of a few things that fit are found under the lock, a bounded number
// of records at a time, then each view is made as if it were asked for alone.
#include "core/pod/view.h"

#include "core/pod/stall.h"

enum {
    LIST_BATCH = 64,        // numbers found before their views are made
    LIST_HOLD = 4096,       // records looked at while the lock is held
    LIST_LOOK = 256 * 1024, // and in one call
};

struct list_walk {
    struct pod *pod;
    const struct pod_view_kind *kind;
    const struct pod_event_filter *filter; // NULL: any
    uint64_t below; // goes on below this number; 0: at the end
    uint64_t floor; // nothing below this fits
    size_t looked;
};

// The next record below the place of the walk that may fit, or NULL.
static const struct pod_op *list_next_locked(const struct list_walk *walk)
{
    const struct pod *pod = walk->pod;
    const struct pod_op *op;

    // The few that are stalled are not looked for among all.
    if (walk->filter != NULL && walk->filter->stalled == POD_STALLED_ONLY)
        op = pod_stall_before_locked(pod, walk->below);
    else
        op = pod_table_before(&pod->table, walk->below);
    return op == NULL || op->number < walk->floor ? NULL : op;
}

// Finds the next numbers that fit; looks at a bounded number of records.
static size_t list_find(struct list_walk *walk, uint64_t *out_numbers,
                        size_t capacity)
{
    size_t count = 0;

    pod_mutex_lock(&walk->pod->lock);
    for (size_t i = 0; i < LIST_HOLD && count < capacity; i++) {
        const struct pod_op *op = list_next_locked(walk);
        if (op == NULL) {
            walk->below = 0;
            break;
        }
        walk->below = op->number;
        walk->looked++;
        if (walk->kind->match_locked(op, walk->filter))
            out_numbers[count++] = op->number;
    }
    pod_mutex_unlock(&walk->pod->lock);
    return count;
}

// Makes the views of what was found; what has gone meanwhile is left out.
static enum pod_code list_build(const struct list_walk *walk,
                                const uint64_t *numbers, size_t count,
                                char *views, size_t *in_out_filled,
                                struct pod_err *err)
{
    for (size_t i = 0; i < count; i++) {
        void *view = views + *in_out_filled * walk->kind->bytes;
        enum pod_code code = pod_view_build(walk->pod, walk->kind, numbers[i],
                                            walk->filter, view, err);
        if (code == POD_OK)
            ++*in_out_filled;
        else if (code != POD_NOT_FOUND)
            return code;
    }
    return POD_OK;
}

// Whether nothing is left below the place of the walk.
static bool list_at_end(const struct list_walk *walk)
{
    if (walk->below == 0)
        return true;
    pod_mutex_lock(&walk->pod->lock);
    bool end = list_next_locked(walk) == NULL;
    pod_mutex_unlock(&walk->pod->lock);
    return end;
}

static enum pod_code list_page(struct list_walk *walk, size_t capacity,
                               void *out_views, size_t *out_count,
                               uint64_t *out_next, struct pod_err *err)
{
    uint64_t numbers[LIST_BATCH];
    size_t filled = 0;

    while (filled < capacity && walk->below != 0 && walk->looked < LIST_LOOK) {
        size_t wanted = capacity - filled;
        size_t found =
            list_find(walk, numbers, wanted < LIST_BATCH ? wanted : LIST_BATCH);
        enum pod_code code =
            list_build(walk, numbers, found, out_views, &filled, err);
        if (code == POD_OK)
            continue;
        while (filled > 0)
            walk->kind->fini((char *)out_views + --filled * walk->kind->bytes);
        return code;
    }
    *out_count = filled;
    *out_next = list_at_end(walk) ? 0 : walk->below;
    return POD_OK;
}

enum pod_code pod_list_events(struct pod *pod,
                              const struct pod_event_filter *filter,
                              uint64_t below, size_t capacity,
                              struct pod_event_view *out_views,
                              size_t *out_count, uint64_t *out_next,
                              struct pod_err *err)
{
    struct list_walk walk = {
        .pod = pod,
        .kind = &pod_view_event,
        .filter = filter,
        .below = below,
        .floor = filter->since_number,
    };

    return list_page(&walk, capacity, out_views, out_count, out_next, err);
}

enum pod_code pod_list_views(struct pod *pod, const struct pod_view_kind *kind,
                             uint64_t below, size_t capacity, void *out_views,
                             size_t *out_count, uint64_t *out_next,
                             struct pod_err *err)
{
    struct list_walk walk = {.pod = pod, .kind = kind, .below = below};

    return list_page(&walk, capacity, out_views, out_count, out_next, err);
}

enum pod_code pod_list_buffers(struct pod *pod, uint64_t below, size_t capacity,
                               struct pod_buffer_view *out_views,
                               size_t *out_count, uint64_t *out_next,
                               struct pod_err *err)
{
    return pod_list_views(pod, &pod_view_buffer, below, capacity, out_views,
                          out_count, out_next, err);
}

enum pod_code pod_list_programs(struct pod *pod, uint64_t below,
                                size_t capacity,
                                struct pod_program_view *out_views,
                                size_t *out_count, uint64_t *out_next,
                                struct pod_err *err)
{
    return pod_list_views(pod, &pod_view_program, below, capacity, out_views,
                          out_count, out_next, err);
}

enum pod_code pod_list_loads(struct pod *pod, uint64_t below, size_t capacity,
                             struct pod_load_view *out_views, size_t *out_count,
                             uint64_t *out_next, struct pod_err *err)
{
    return pod_list_views(pod, &pod_view_load, below, capacity, out_views,
                          out_count, out_next, err);
}
