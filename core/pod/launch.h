// SPDX-License-Identifier: Apache-2.0
// A launched operation becomes calls of the driver. For core/pod alone.
#ifndef POD_POD_LAUNCH_H
#define POD_POD_LAUNCH_H

#include "core/pod/internal.h"

void pod_launch_locked(struct pod *pod, struct pod_op *op,
                       struct pod_after *after);
// A COPY between hosts: the bytes go through here.
void pod_copy_bounce_locked(struct pod *pod, struct pod_op *op,
                            struct pod_after *after);
void pod_interrupt_locked(struct pod *pod, struct pod_op *op,
                          struct pod_after *after);
// A launched operation cannot be sent: it ends FAILED after this step.
void pod_launch_fail_locked(struct pod *pod, struct pod_op *op,
                            enum pod_reason reason, const char *text);
// The same, for a host that is not connected.
void pod_launch_no_host_locked(struct pod *pod, struct pod_op *op,
                               const struct pod_host *host);

#endif
