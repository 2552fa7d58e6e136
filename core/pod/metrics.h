// SPDX-License-Identifier: Apache-2.0
// What the engine counts over its whole life. Unlike the summary's, these
// counters never go down: what has left the history stays counted.
#ifndef POD_POD_METRICS_H
#define POD_POD_METRICS_H

#include <stdint.h>

#include "core/base/histogram.h"
#include "core/pod/pod.h"

struct pod_metrics {
    uint64_t accepted[POD_KIND_COUNT];
    // By kind and how they ended: from SUCCEEDED on.
    uint64_t ended[POD_KIND_COUNT][POD_SCHED_LOST + 1];
    // Of operations that ran: from acceptance to the start, the part of it when
    // they were ready and waited for their host alone, and from the start on.
    struct pod_histogram waited[POD_KIND_COUNT];
    struct pod_histogram queued[POD_KIND_COUNT];
    struct pod_histogram ran[POD_KIND_COUNT];
    uint64_t moved_bytes[POD_KIND_COUNT]; // by WRITE, READ, COPY that succeeded
    uint64_t host_losses;                 // of hosts that were up
    uint64_t open[POD_SCHED_RUNNING + 1]; // now, by state
    uint64_t kept;                        // operations in the history now
    uint64_t stalled;                     // operations now
};

// A copy. Thread-safe.
void pod_get_metrics(struct pod *pod, struct pod_metrics *out_metrics);

#endif
