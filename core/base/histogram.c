// SPDX-License-Identifier: Apache-2.0
#include "core/base/histogram.h"

const int64_t pod_histogram_bounds_ns[POD_HISTOGRAM_BOUNDS] = {
    100000,    250000,    1000000,    2500000,    10000000,    25000000,
    100000000, 250000000, 1000000000, 2500000000, 10000000000, 60000000000,
};

void pod_histogram_add(struct pod_histogram *histogram, int64_t duration_ns)
{
    int64_t duration = duration_ns > 0 ? duration_ns : 0;
    int i = 0;

    while (i < POD_HISTOGRAM_BOUNDS && duration > pod_histogram_bounds_ns[i])
        i++;
    histogram->counts[i]++;
    histogram->sum_ns += (uint64_t)duration;
}
