// SPDX-License-Identifier: Apache-2.0
// A pod whose hosts are workers behind gRPC, and short ways to ask it for
// things and to wait for them: what podd is without HTTP.
//
// For benchmarks: whatever goes wrong ends the program with a message.
#ifndef POD_TESTS_BENCH_FAR_POD_H
#define POD_TESTS_BENCH_FAR_POD_H

#include "core/base/lock.h"
#include "core/pod/pod.h"
#include "proto/grpc_driver.h"

struct far_pod {
    struct pod *pod;
    struct pod_grpc_hub *hub;
    struct pod_mutex lock; // guards `woken`
    struct pod_cond changed;
    bool woken; // waiters may be taken
};

// Connects to all workers and waits until their hosts are ready.
void far_pod_open(struct far_pod *far, const char *const *addresses,
                  size_t count);
void far_pod_close(struct far_pod *far);

// A request of that kind with its defaults.
struct pod_request far_request(enum pod_kind kind);
struct pod_ref far_buffer(uint64_t number);
// Submits one; returns its number.
uint64_t far_submit(struct far_pod *far, const struct pod_request *request);
// Blocks until the operation has succeeded. One thread at a time.
void far_await(struct far_pod *far, uint64_t number);

#endif
