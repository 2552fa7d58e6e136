// SPDX-License-Identifier: Apache-2.0
// What ran when: the spans of a trace, and the lanes on which they are drawn so
// that none overlaps another. Pure but for memory.
#ifndef POD_API_TRACE_SPANS_H
#define POD_API_TRACE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pod/pod.h"

// What a span is drawn under, within its process, from the top down.
enum trace_track {
    TRACE_TRACK_GRAPHS,
    TRACE_TRACK_CORE, // one for each core
    TRACE_TRACK_TRANSFERS,
    TRACE_TRACK_PROGRAMS,
    TRACE_TRACK_MEMORY,
};

// The first id of a process. Perfetto shows ids behind the names ("host 0
// 1001"), where a small one would be taken for a part of the name.
enum { TRACE_FIRST_ID = 1000 };

struct trace_span {
    uint64_t start_ns; // from the window's start
    uint64_t end_ns;
    uint64_t number;  // the operation
    uint32_t process; // 0: the pod as a whole, else a host's id + 1
    uint32_t core;    // of TRACE_TRACK_CORE, else 0
    // Set by trace_spans_arrange. The ids of processes and threads are of one
    // sequence: viewers take a thread with its process's id for a main thread.
    uint32_t process_id;
    uint32_t thread_id; // of the lane
    uint32_t lane;
    uint32_t slot; // for it
    uint8_t track; // enum trace_track
    uint8_t kind;
    uint8_t state;
};

struct trace_window {
    int64_t since_ns; // wall clock
    int64_t until_ns;
};

struct trace_spans {
    struct trace_span *items;
    size_t count;
    size_t capacity;
    size_t limit; // of count
    bool cut;     // there were more
    // Indices of the items by number, then as they stand; set by
    // trace_spans_arrange.
    uint32_t *by_number;
};

// Adds what of an operation lies in the window: one span, or one for each core
// of an execution. `hosts` has the host of each core. False: no memory.
bool trace_spans_add(struct trace_spans *spans,
                     const struct pod_event_view *view,
                     const struct trace_window *window, const uint32_t *hosts,
                     size_t core_count) __attribute__((warn_unused_result));
// Sorts by process, track, core and start, gives each span the first lane that
// is free again, numbers processes and lanes, and makes the index by number.
// False: no memory.
bool trace_spans_arrange(struct trace_spans *spans)
    __attribute__((warn_unused_result));
// Whether both are drawn in one group of lanes.
bool trace_span_same_track(const struct trace_span *a,
                           const struct trace_span *b);
// The first span of an operation, or NULL. After trace_spans_arrange.
const struct trace_span *trace_spans_find(const struct trace_spans *spans,
                                          uint64_t number);
// Where an arrow from one span to a later one leaves the first: at its end or,
// if the other began before that, then. False: the other began before the first
// did, or one of them has no length, so that nothing is there to bind to.
bool trace_span_leave(const struct trace_span *from,
                      const struct trace_span *to, uint64_t *out_ns)
    __attribute__((warn_unused_result));
void trace_spans_fini(struct trace_spans *spans);

#endif
