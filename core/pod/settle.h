// SPDX-License-Identifier: Apache-2.0
// What has settled lets go of what it used, becomes history, and expires. For
// core/pod alone.
#ifndef POD_POD_SETTLE_H
#define POD_POD_SETTLE_H

#include "core/pod/internal.h"

// The operation is settled: lets everything go that it held. Once.
void pod_settle_locked(struct pod *pod, struct pod_op *op);
// A load does not stand on its program any more.
void pod_load_leave_locked(struct pod *pod, struct pod_loaded *load);
// A handle is freed by operation `number`, and that is done.
void pod_handle_gone_locked(struct pod *pod, struct pod_handle *handle,
                            uint64_t number);
// Expires what is too old or too many; a bounded number at a time.
void pod_history_trim_locked(struct pod *pod);
// When the oldest is due, or POD_NEVER.
int64_t pod_history_due_locked(const struct pod *pod);
// Something that kept an operation is gone: it may be history now.
void pod_retire_locked(struct pod *pod, struct pod_op *op);

#endif
