// SPDX-License-Identifier: Apache-2.0
// What was asked and how it was answered, by route, for /metrics. For the
// loop's thread.
#ifndef POD_API_TRAFFIC_H
#define POD_API_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/histogram.h"

// More than there are statuses that podd sends.
enum { API_TRAFFIC_STATUSES = 40 };

struct api_route_traffic {
    // In the order of their first use; count 0: not used.
    struct {
        int status; // 0: the client went before it was answered
        uint64_t count;
    } answers[API_TRAFFIC_STATUSES];
    struct pod_histogram took; // from headers to the end of the answer
};

struct api_traffic {
    int64_t started_wall_ns;
    size_t route_count;
    // By place in the table of routes; one more for what had no route.
    struct api_route_traffic *routes;
};

// Zero-initialised it may be given to fini. Returns false: no memory.
bool api_traffic_init(struct api_traffic *traffic, size_t route_count);
void api_traffic_fini(struct api_traffic *traffic);
// A request has ended. `route`: its place in the table, route_count: none.
void api_traffic_note(struct api_traffic *traffic, size_t route, int status,
                      int64_t took_ns);

#endif
