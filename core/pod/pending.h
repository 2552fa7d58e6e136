// SPDX-License-Identifier: Apache-2.0
// Why an open operation does not run yet. For core/pod alone.
#ifndef POD_POD_PENDING_H
#define POD_POD_PENDING_H

#include "core/pod/internal.h"

// Why it does not run yet, and its place among those that wait for the same.
struct pod_standing {
    enum pod_pending reason;
    uint32_t position; // 0: it is next; POD_NO_ID: there is no order
    bool capped;       // there are more before it than were counted
};
struct pod_standing pod_op_standing_locked(const struct pod *pod,
                                           const struct pod_op *op);
// Its dependencies that are not settled: fills at most `capacity` numbers and
// returns how many there are at least (exact if below capacity).
size_t pod_op_waits_locked(const struct pod *pod, struct pod_op *op,
                           uint64_t *out_numbers, size_t capacity);

#endif
