// SPDX-License-Identifier: Apache-2.0
// Ending what is open: one operation and who depends on it (cancel.c), or
// everything at once (reset.c). For core/pod alone.
#ifndef POD_POD_CANCEL_H
#define POD_POD_CANCEL_H

#include "core/pod/internal.h"

struct pod_answer;

// ------------------------------------------------------------------- cancel.c

// Cancels an open operation, whoever asks for it.
void pod_cancel_locked(struct pod *pod, struct pod_op *op,
                       enum pod_cancel_cascade cascade, enum pod_reason reason,
                       const char *text, struct pod_after *after);
// Every waiter is woken: the pod drains.
void pod_wake_all_locked(struct pod *pod, struct pod_after *after);

// -------------------------------------------------------------------- reset.c

void pod_reset_launch_locked(struct pod *pod, struct pod_op *op,
                             struct pod_after *after);
void pod_reset_answer_locked(struct pod *pod, struct pod_call *call,
                             struct pod_answer *answer,
                             struct pod_after *after);
// A RESET was accepted: everything before it ends.
void pod_reset_all_locked(struct pod *pod, struct pod_op *reset,
                          struct pod_after *after);

// Ends every open operation (but one, the root cause then) CANCELLED.
void pod_end_all_locked(struct pod *pod, const struct pod_op *but,
                        enum pod_reason reason, const char *text,
                        struct pod_after *after);

#endif
