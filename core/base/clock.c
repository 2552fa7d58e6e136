// SPDX-License-Identifier: Apache-2.0
#include "core/base/clock.h"

#include <stddef.h>
#include <time.h>

static int64_t clock_read(clockid_t id)
{
    struct timespec now;
    // Cannot fail: both clocks exist on every Linux.
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * POD_NS_PER_S + now.tv_nsec;
}

static int64_t clock_mono_ns(void *arg)
{
    (void)arg;
    return clock_read(CLOCK_MONOTONIC);
}

static int64_t clock_wall_ns(void *arg)
{
    (void)arg;
    return clock_read(CLOCK_REALTIME);
}

const struct pod_clock pod_clock_system = {
    .mono_ns = clock_mono_ns,
    .wall_ns = clock_wall_ns,
    .arg = NULL,
};

int64_t pod_time_add(int64_t now_ns, int64_t delay_ns)
{
    int64_t sum;

    if (now_ns == POD_NEVER || delay_ns == POD_NEVER)
        return POD_NEVER;
    if (__builtin_add_overflow(now_ns, delay_ns, &sum))
        return delay_ns > 0 ? POD_NEVER : INT64_MIN;
    return sum;
}
