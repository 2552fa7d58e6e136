// SPDX-License-Identifier: Apache-2.0
// Operations that hang, and where. For core/pod only; everything here needs the
// engine's lock.
//
// A call is stalled when there was no sign of progress for
// options.stall_after_ns although it is its turn: its host has begun it and not
// answered, or has not begun it and has nothing before it for the same core.
// What merely waits behind something stalled is not stalled itself, so a hung
// host shows as the few operations that hold it up.
//
// This costs a place for each open call in its host's list, and a look at the
// oldest calls of each host four times in that time. The stall of a call that
// has begun is noticed at most a quarter of the time late. That of one that has
// not begun is noticed after between three and five quarters of the time,
// because when its turn came is only known from look to look.
#ifndef POD_POD_STALL_H
#define POD_POD_STALL_H

#include "core/pod/view.h"

// One call that is stalled.
struct pod_stall {
    struct pod_list link; // in pod->stalls
    struct pod_call *call;
    struct pod_op *op;      // NULL: it has ended, its host still has the call
    struct pod_stall *next; // of the same operation
    int64_t since_ns;
};

// How often it looks; POD_NEVER if `after_ns` is 0.
int64_t pod_stall_period(int64_t after_ns);
// A call enters its host's list.
void pod_stall_watch_locked(struct pod_call *call);
// It has got on: it was answered, taken back or begun.
void pod_stall_over_locked(struct pod_call *call, struct pod_after *after);
// An operation has ended: it is not stalled, whatever its hosts do.
void pod_stall_ended_locked(struct pod *pod, struct pod_op *op);
// When it will look next, or POD_NEVER.
int64_t pod_stall_due_locked(const struct pod *pod);
// Without the lock: looks, if it is time.
void pod_stall_tick(struct pod *pod);
// The stalled operation with the greatest number below `below`, or NULL. Costs
// the number of stalled calls.
struct pod_op *pod_stall_before_locked(const struct pod *pod, uint64_t below);
// What has been stalled for longest on a host, or anywhere (NULL).
struct pod_stalled_view pod_stall_oldest_locked(const struct pod *pod,
                                                const struct pod_host *host);
// Sets what an event shows of it.
void pod_stall_lay_locked(const struct pod_op *op, struct pod_carver *carver,
                          struct pod_event_view *view);
// At the end of the pod.
void pod_stall_fini(struct pod *pod);

#endif
