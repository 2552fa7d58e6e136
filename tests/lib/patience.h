// SPDX-License-Identifier: Apache-2.0
// How long tests wait for what should come soon, and how long the servers in
// them wait for the tests: long enough for a machine that stands still for a
// while.
#ifndef POD_TESTS_PATIENCE_H
#define POD_TESTS_PATIENCE_H

#include "api/server.h"
#include "core/base/clock.h"

enum { PATIENCE_S = 60, PATIENCE_MS = PATIENCE_S * 1000 };

// Times that are not given pass in no test.
static inline void patient_limits(struct api_limits *limits)
{
    int64_t *const times[] = {&limits->header_ns,     &limits->json_body_ns,
                              &limits->data_grace_ns, &limits->idle_ns,
                              &limits->stall_ns,      &limits->bookmark_ns};

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (*times[i] == 0)
            *times[i] = 3600 * POD_NS_PER_S;
    }
}

#endif
