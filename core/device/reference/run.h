// SPDX-License-Identifier: Apache-2.0
// Running a compiled program on buffers.
#ifndef POD_DEVICE_REFERENCE_RUN_H
#define POD_DEVICE_REFERENCE_RUN_H

#include "core/device/device.h"

// One execution, as pod_device_ops.execute says. `*out_flops` is what it cost,
// by count of operations, also if it failed. RESOURCE_EXHAUSTED when the
// machine has no memory for what is between inputs and outputs.
enum pod_code pod_ref_run_program(const struct pod_device_launch *launch,
                                  double *out_flops, struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
