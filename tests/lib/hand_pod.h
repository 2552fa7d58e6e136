// SPDX-License-Identifier: Apache-2.0
// A pod made by hand: records without the engine that would move them, so that
// what is shown of them can be compared with what was put in.
#ifndef POD_TESTS_HAND_POD_H
#define POD_TESTS_HAND_POD_H

#include "core/pod/internal.h"

enum { HAND_HOSTS = 4 };

struct hand_pod {
    struct pod pod; // with a scheduler
    int64_t mono_ns;
    struct pod_host *host_table[HAND_HOSTS];
    struct pod_host hosts[HAND_HOSTS];
};

// Cannot fail; aborts when there is no memory.
void hand_pod_init(struct hand_pod *hand);
// Frees the records that are left, but not what the test hung on them.
void hand_pod_fini(struct hand_pod *hand);

// The next operation, in the table and counted; finished if `state` says so.
struct pod_op *hand_op(struct hand_pod *hand, enum pod_kind kind,
                       enum pod_sched_state state);
// Takes it out of the table and frees it.
void hand_expire(struct hand_pod *hand, struct pod_op *op);

#endif
