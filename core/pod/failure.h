// SPDX-License-Identifier: Apache-2.0
// Why an operation ends badly: its failure is set before it ends. For core/pod
// alone.
#ifndef POD_POD_FAILURE_H
#define POD_POD_FAILURE_H

#include "core/pod/internal.h"

// All of these replace a failure that was set before.

// Ends are explained before they happen: the operation fails by itself.
// NULL: there was no memory for it.
void pod_fail_with_locked(struct pod *pod, struct pod_op *op,
                          struct pod_failure *owned_failure);
void pod_fail_locked(struct pod *pod, struct pod_op *op, enum pod_reason reason,
                     const char *text);
void pod_fail_err_locked(struct pod *pod, struct pod_op *op,
                         const struct pod_err *err);
// What it works on is lost, or was never made: then as its maker failed.
void pod_fail_missing_locked(struct pod *pod, struct pod_op *op,
                             const struct pod_handle *handle);
// Its host is not connected.
void pod_fail_host_locked(struct pod *pod, struct pod_op *op,
                          const struct pod_host *host);
void pod_unfail_locked(struct pod_op *op);
// It is brought down by `cause`, which ended badly or whose handle is lost.
void pod_inherit_locked(struct pod *pod, struct pod_op *op,
                        const struct pod_op *cause);

#endif
