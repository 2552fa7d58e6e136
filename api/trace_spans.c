// SPDX-License-Identifier: Apache-2.0
#include "api/trace_spans.h"

#include <stdlib.h>

#include "core/base/heap.h"
#include "core/base/list.h"
#include "core/base/mem.h"

void trace_spans_fini(struct trace_spans *spans)
{
    pod_free(spans->items);
    pod_free(spans->by_number);
    spans->items = NULL;
    spans->by_number = NULL;
    spans->count = 0;
}

// --------------------------------------------------------------------- adding

static bool spans_push(struct trace_spans *spans, const struct trace_span *span)
{
    if (spans->count == spans->limit) {
        spans->cut = true;
        return true;
    }
    if (spans->count == spans->capacity) {
        size_t capacity = spans->capacity * 2 + 256;
        struct trace_span *items =
            pod_realloc(spans->items, capacity, sizeof(*items));
        if (items == NULL)
            return false;
        spans->items = items;
        spans->capacity = capacity;
    }
    spans->items[spans->count++] = *span;
    return true;
}

static enum trace_track spans_track(enum pod_kind kind)
{
    switch (kind) {
    case POD_KIND_WRITE:
    case POD_KIND_READ:
    case POD_KIND_COPY:
        return TRACE_TRACK_TRANSFERS;
    case POD_KIND_ALLOCATE:
    case POD_KIND_ALLOCATE_TUPLE:
    case POD_KIND_FREE:
        return TRACE_TRACK_MEMORY;
    case POD_KIND_COMPILE:
    case POD_KIND_LOAD:
    case POD_KIND_UNLOAD:
        return TRACE_TRACK_PROGRAMS;
    case POD_KIND_EXECUTE:
    case POD_KIND_GRAPH:
    case POD_KIND_RESET:
    case POD_KIND_COUNT:
        break;
    }
    return TRACE_TRACK_GRAPHS;
}

static bool spans_push_core(struct trace_spans *spans, struct trace_span *span,
                            uint32_t core, uint32_t only, const uint32_t *hosts,
                            size_t core_count)
{
    if (core >= core_count)
        return true; // placed after the topology was looked at
    // Of a host that was removed: what had but one host says which.
    uint32_t host = hosts[core] == POD_NO_ID ? only : hosts[core];
    if (host == POD_NO_ID)
        return true;
    span->process = host + 1;
    span->track = TRACE_TRACK_CORE;
    span->core = core;
    return spans_push(spans, span);
}

static bool spans_push_cores(struct trace_spans *spans, struct trace_span *span,
                             const struct pod_event_view *view,
                             const uint32_t *hosts, size_t core_count)
{
    for (size_t i = 0; i < view->launch_count; i++)
        if (!spans_push_core(spans, span, view->launches[i].core, view->host,
                             hosts, core_count))
            return false;
    return view->launch_count > 0 ||
           spans_push_core(spans, span, view->core, view->host, hosts,
                           core_count);
}

bool trace_spans_add(struct trace_spans *spans,
                     const struct pod_event_view *view,
                     const struct trace_window *window, const uint32_t *hosts,
                     size_t core_count)
{
    if (view->running_ns < 0)
        return true;
    int64_t start = view->created_wall_ns + view->running_ns;
    int64_t end = view->finished_ns >= 0
                      ? view->created_wall_ns + view->finished_ns
                      : window->until_ns;
    if (start < window->since_ns)
        start = window->since_ns;
    if (end > window->until_ns)
        end = window->until_ns;
    if (end < start)
        return true;
    struct trace_span span = {
        .start_ns = (uint64_t)(start - window->since_ns),
        .end_ns = (uint64_t)(end - window->since_ns),
        .number = view->number,
        .slot = POD_HEAP_NONE,
        .kind = (uint8_t)view->kind,
        .state = (uint8_t)view->state,
    };
    if (view->kind == POD_KIND_EXECUTE)
        return spans_push_cores(spans, &span, view, hosts, core_count);
    span.process = view->host != POD_NO_ID ? view->host + 1 : 0;
    span.track = (uint8_t)spans_track(view->kind);
    return spans_push(spans, &span);
}

// -------------------------------------------------------------------- lanes

static int spans_compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int spans_compare(const void *left, const void *right)
{
    const struct trace_span *a = left;
    const struct trace_span *b = right;
    int order = spans_compare_u64(a->process, b->process);

    if (order == 0)
        order = spans_compare_u64(a->track, b->track);
    if (order == 0)
        order = spans_compare_u64(a->core, b->core);
    if (order == 0)
        order = spans_compare_u64(a->start_ns, b->start_ns);
    return order != 0 ? order : spans_compare_u64(a->number, b->number);
}

bool trace_span_same_track(const struct trace_span *a,
                           const struct trace_span *b)
{
    return a->process == b->process && a->track == b->track &&
           a->core == b->core;
}

// The lanes of one track while its spans are gone through by their start.
struct spans_lanes {
    struct pod_heap open; // by end: spans that hold their lane
    struct pod_heap free; // by lane: spans that have left it
    uint32_t count;
};

static void spans_drain(struct pod_heap *heap)
{
    while (heap->count > 0)
        pod_heap_remove(heap, heap->entries[heap->count - 1].slot);
}

static void spans_lanes_clear(struct spans_lanes *lanes)
{
    spans_drain(&lanes->open);
    spans_drain(&lanes->free);
    lanes->count = 0;
}

static void spans_lanes_fini(struct spans_lanes *lanes)
{
    spans_lanes_clear(lanes);
    pod_heap_fini(&lanes->open);
    pod_heap_fini(&lanes->free);
}

static uint32_t spans_lane_of(const struct pod_heap_entry *entry)
{
    return POD_CONTAINER(entry->slot, struct trace_span, slot)->lane;
}

// The first lane that is free at that time, else a new one.
static uint32_t spans_take_lane(struct spans_lanes *lanes, uint64_t start_ns)
{
    const struct pod_heap_entry *first;

    while ((first = pod_heap_top(&lanes->open)) != NULL &&
           first->key <= start_ns) {
        struct pod_heap_entry left = {.key = spans_lane_of(first),
                                      .slot = first->slot};
        pod_heap_remove(&lanes->open, left.slot);
        pod_heap_push(&lanes->free, left);
    }
    first = pod_heap_top(&lanes->free);
    if (first == NULL)
        return lanes->count++;
    uint32_t lane = spans_lane_of(first);
    pod_heap_remove(&lanes->free, first->slot);
    return lane;
}

// Gives each span its lane and ids.
static void spans_give_lanes(struct trace_spans *spans,
                             struct spans_lanes *lanes)
{
    uint32_t next_id = TRACE_FIRST_ID;
    uint32_t process_id = 0;

    for (size_t i = 0; i < spans->count; i++) {
        struct trace_span *span = &spans->items[i];
        if (i > 0 && !trace_span_same_track(span, span - 1)) {
            next_id += lanes->count;
            spans_lanes_clear(lanes);
        }
        if (i == 0 || span->process != span[-1].process)
            process_id = next_id++;
        span->lane = spans_take_lane(lanes, span->start_ns);
        span->process_id = process_id;
        span->thread_id = next_id + span->lane;
        pod_heap_push(&lanes->open,
                      (struct pod_heap_entry){.key = span->end_ns,
                                              .order = i,
                                              .slot = &span->slot});
    }
}

static bool spans_arrange_lanes(struct trace_spans *spans)
{
    struct spans_lanes lanes = {.count = 0};
    bool fine = pod_heap_reserve(&lanes.open, spans->count) &&
                pod_heap_reserve(&lanes.free, spans->count);

    if (fine)
        spans_give_lanes(spans, &lanes);
    spans_lanes_fini(&lanes);
    return fine;
}

// -------------------------------------------------------------------- index

static int spans_compare_index(const void *left, const void *right, void *arg)
{
    const struct trace_span *items = arg;
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    int order = spans_compare_u64(items[a].number, items[b].number);

    return order != 0 ? order : spans_compare_u64(a, b);
}

static bool spans_index(struct trace_spans *spans)
{
    spans->by_number = pod_calloc(spans->count, sizeof(*spans->by_number));
    if (spans->by_number == NULL)
        return false;
    for (size_t i = 0; i < spans->count; i++)
        spans->by_number[i] = (uint32_t)i;
    qsort_r(spans->by_number, spans->count, sizeof(*spans->by_number),
            spans_compare_index, spans->items);
    return true;
}

const struct trace_span *trace_spans_find(const struct trace_spans *spans,
                                          uint64_t number)
{
    size_t low = 0;
    size_t high = spans->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans->items[spans->by_number[middle]].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == spans->count)
        return NULL;
    const struct trace_span *span = &spans->items[spans->by_number[low]];
    return span->number == number ? span : NULL;
}

bool trace_span_leave(const struct trace_span *from,
                      const struct trace_span *to, uint64_t *out_ns)
{
    if (to->start_ns < from->start_ns || from->end_ns == from->start_ns ||
        to->end_ns == to->start_ns)
        return false;
    // The end itself is outside of the span.
    *out_ns = to->start_ns < from->end_ns ? to->start_ns : from->end_ns - 1;
    return true;
}

bool trace_spans_arrange(struct trace_spans *spans)
{
    if (spans->count == 0)
        return true;
    qsort(spans->items, spans->count, sizeof(spans->items[0]), spans_compare);
    return spans_arrange_lanes(spans) && spans_index(spans);
}
