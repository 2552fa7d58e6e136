// SPDX-License-Identifier: Apache-2.0
// The scheduler steps, and what follows from that: states, times, launches. For
// core/pod alone.
#ifndef POD_POD_EFFECT_H
#define POD_POD_EFFECT_H

#include "core/pod/internal.h"

// One step of the scheduler and all that follows. DONE, END and CANCEL need
// the failure set before if the state is a bad one.
void pod_step_locked(struct pod *pod, struct pod_op *op,
                     enum pod_sched_event_kind kind, enum pod_sched_state state,
                     bool cascade, struct pod_after *after);
void pod_advance_locked(struct pod *pod, struct pod_after *after);
// The hosts have let go of an operation, which ends as its outcome says. What
// waits for it is launched by this call, or soon: before another step, but for
// STARTED of what is READY, and before the lock is released.
void pod_done_locked(struct pod *pod, struct pod_op *op,
                     struct pod_after *after);
// Tells the scheduler of all that is done.
void pod_tell_done_locked(struct pod *pod, struct pod_after *after);
// What a SUBMIT of `op` brought; called when all of its batch are submitted.
void pod_effect_apply_locked(struct pod *pod, struct pod_op *op,
                             const struct pod_sched_effect *effect,
                             struct pod_after *after);
// Looks at the clock, for pod->now_ns, which never decreases.
int64_t pod_now_locked(struct pod *pod);
// A launched operation that needs no driver (any more): it ends when the
// present step is over, well, or FAILED if a failure is set.
void pod_done_local_locked(struct pod *pod, struct pod_op *op);
void pod_run_local_locked(struct pod *pod, struct pod_after *after);
void pod_pin(struct pod_op *op);
void pod_unpin_locked(struct pod *pod, struct pod_op *op);
// Marks a visible change of an operation: revision and waiters.
void pod_touch_locked(struct pod *pod, struct pod_op *op,
                      struct pod_after *after);

#endif
