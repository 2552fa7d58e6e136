// SPDX-License-Identifier: Apache-2.0
#include "api/traffic.h"

#include <stdbool.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

bool api_traffic_init(struct api_traffic *traffic, size_t route_count)
{
    traffic->started_wall_ns = pod_clock_wall(&pod_clock_system);
    traffic->route_count = route_count;
    traffic->routes = pod_calloc(route_count + 1, sizeof(traffic->routes[0]));
    return traffic->routes != NULL;
}

void api_traffic_fini(struct api_traffic *traffic)
{
    pod_free(traffic->routes);
    traffic->routes = NULL;
}

void api_traffic_note(struct api_traffic *traffic, size_t route, int status,
                      int64_t took_ns)
{
    struct api_route_traffic *routed = &traffic->routes[route];
    size_t i = 0;

    while (i + 1 < API_TRAFFIC_STATUSES && routed->answers[i].count > 0 &&
           routed->answers[i].status != status)
        i++;
    routed->answers[i].status = status;
    routed->answers[i].count++;
    pod_histogram_add(&routed->took, took_ns);
}
