// SPDX-License-Identifier: Apache-2.0
// The core of a worker and its services over the in-process driver and the
// reference device, for what clients may send.
#ifndef POD_TESTS_FUZZ_WORKER_H
#define POD_TESTS_FUZZ_WORKER_H

#include "proto/cloud_service.h"
#include "proto/pod_service.h"
#include "tests/fuzz/lib/fake_rpc.h"

struct fuzz_worker {
    struct worker *worker;
    struct rpc_loop *loop;
    struct peers *peers;
    struct pod_gang_hub *hub;
    struct gang_links *gangs;
    struct pod_service *pods;
    struct cloud_service *cloud;
    struct rpc_method pod_methods[POD_SERVICE_METHODS];
    struct rpc_method cloud_methods[CLOUD_METHODS];
};

// Two cores of a mebibyte; the first plain client is 1.
void fuzz_worker_start(struct fuzz_worker *fuzz);
// Gives what runs some time to end by itself.
void fuzz_worker_wait(struct fuzz_worker *fuzz);
// After all streams have ended. Aborts if anything was left.
void fuzz_worker_stop(struct fuzz_worker *fuzz);
// The method whose path ends so.
const struct rpc_method *fuzz_worker_method(const struct fuzz_worker *fuzz,
                                            const char *name);

#endif
