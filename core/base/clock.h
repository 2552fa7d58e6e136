// SPDX-License-Identifier: Apache-2.0
// Time as a value that is handed in, so that tests can simulate it.
#ifndef POD_BASE_CLOCK_H
#define POD_BASE_CLOCK_H

#include <stdint.h>

#define POD_NS_PER_S INT64_C(1000000000)

// A deadline that never comes.
#define POD_NEVER INT64_MAX

struct pod_clock {
    int64_t (*mono_ns)(void *arg); // monotonic, nanoseconds, any origin
    int64_t (*wall_ns)(void *arg); // nanoseconds since 1970 UTC
    void *arg;
};

// The machine's clocks. Thread-safe.
extern const struct pod_clock pod_clock_system;

static inline int64_t pod_clock_mono(const struct pod_clock *clock)
{
    return clock->mono_ns(clock->arg);
}

static inline int64_t pod_clock_wall(const struct pod_clock *clock)
{
    return clock->wall_ns(clock->arg);
}

// now + delay without overflow; POD_NEVER stays POD_NEVER.
int64_t pod_time_add(int64_t now_ns, int64_t delay_ns);

#endif
