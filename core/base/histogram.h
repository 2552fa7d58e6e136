// SPDX-License-Identifier: Apache-2.0
// How often things took how long, for metrics.
#ifndef POD_BASE_HISTOGRAM_H
#define POD_BASE_HISTOGRAM_H

#include <stdint.h>

enum { POD_HISTOGRAM_BOUNDS = 12 };

// Rising upper bounds, inclusive, in nanoseconds: 100 us to 60 s.
extern const int64_t pod_histogram_bounds_ns[POD_HISTOGRAM_BOUNDS];

// Zero-initialise it. Not thread-safe.
struct pod_histogram {
    // By bound, each on its own (not cumulative); the last: above all bounds.
    uint64_t counts[POD_HISTOGRAM_BOUNDS + 1];
    uint64_t sum_ns;
};

// Counts a duration; a negative one counts as 0.
void pod_histogram_add(struct pod_histogram *histogram, int64_t duration_ns);

#endif
