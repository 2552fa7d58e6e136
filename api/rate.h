// SPDX-License-Identifier: Apache-2.0
// How many requests a second each caller may send.
//
// A bucket of `limit` requests for each key, filled evenly at `limit` a second
// (the generic cell rate algorithm: one number is the whole bucket). A full
// bucket is no entry, so memory is bounded by who was here in the last second;
// past API_RATE_KEYS at once the callers that are new share one bucket. Not
// thread-safe.
#ifndef POD_API_RATE_H
#define POD_API_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/base/map.h"

enum { API_RATE_KEYS = 65536 };

struct api_rate {
    uint32_t limit;         // requests a second, and at once
    struct pod_map buckets; // by key, those that are not full
    struct pod_list order;  // the same, the one used last at the end
};

// What the answer's headers say.
struct api_rate_state {
    uint32_t remaining; // that would be taken now
    int64_t full_ns;    // until `limit` would be
    int64_t retry_ns;   // until one would be; 0 if remaining > 0
};

// At most one request each nanosecond.
void api_rate_init(struct api_rate *rate, uint32_t limit);
void api_rate_fini(struct api_rate *rate);
// Takes one request from a key's bucket (0 and UINT64_MAX are none); false when
// it is empty. Without memory the request is let through.
bool api_rate_take(struct api_rate *rate, uint64_t key, int64_t now_ns,
                   struct api_rate_state *out_state);

#endif
