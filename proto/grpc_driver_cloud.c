// SPDX-License-Identifier: Apache-2.0
#include "proto/grpc_driver_internal.h"

enum pod_code gd_cloud_begin_locked(struct gd_link *link, struct pod_err *err)
{
    (void)link;
    return pod_err_set(err, POD_REASON_HOST_NOT_READY,
                       "wrong service: what answers is not a worker");
}
