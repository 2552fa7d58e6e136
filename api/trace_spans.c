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
    span->track = TRACE_TRACK_CORE + core;
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
    span.track = spans_track(view->kind);
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
        order = spans_compare_u64(a->start_ns, b->start_ns);
    return order != 0 ? order : spans_compare_u64(a->number, b->number);
}

static void spans_drain(struct pod_heap *heap)
{
    while (heap->count > 0)
        pod_heap_remove(heap, heap->entries[heap->count - 1].slot);
}

// Gives each span the first lane of its track that is free again.
static bool spans_give_lanes(struct trace_spans *spans)
{
    struct pod_heap open = {.count = 0}; // by end: spans that hold their lane
    uint32_t lanes = 0;
    uint32_t first_thread = 1;

    if (!pod_heap_reserve(&open, spans->count))
        return false;
    for (size_t i = 0; i < spans->count; i++) {
        struct trace_span *span = &spans->items[i];
        if (i > 0 && (span->process != span[-1].process ||
                      span->track != span[-1].track)) {
            spans_drain(&open);
            first_thread += lanes;
            lanes = 0;
        }
        const struct pod_heap_entry *first = pod_heap_top(&open);
        if (first != NULL && first->key <= span->start_ns) {
            span->lane =
                POD_CONTAINER(first->slot, struct trace_span, slot)->lane;
            pod_heap_remove(&open, first->slot);
        } else {
            span->lane = lanes++;
        }
        span->thread = first_thread + span->lane;
        pod_heap_push(&open, (struct pod_heap_entry){.key = span->end_ns,
                                                     .order = i,
                                                     .slot = &span->slot});
    }
    spans_drain(&open);
    pod_heap_fini(&open);
    return true;
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
    return spans_give_lanes(spans) && spans_index(spans);
}
