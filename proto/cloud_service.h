// SPDX-License-Identifier: Apache-2.0
// tpu_driver.CloudTpuDriver: the service of the original protocol.
//
// A client is a session whose id is its client_id; the upper 20 bits of every
// id and handle name it. What the protocol leaves open is decided so:
//   - an operation whose dependency failed fails with its code, unexecuted;
//   - an operation runs after earlier ones that use its buffers and conflict;
//   - a client that has gone without Close is given up when its last stream
//     has broken off, or when it had no stream for the idle time;
//   - Reset ends every client of this protocol and is answered when their
//     things have been freed;
//   - executions of several replicas must all be on this worker.
// References: fields and habits of the client are those of TensorFlow's
// grpc_tpu_driver.cc and tpu_service.proto of 2020 to 2023.
#ifndef POD_PROTO_CLOUD_SERVICE_H
#define POD_PROTO_CLOUD_SERVICE_H

#include "proto/rpc_server.h"
#include "proto/slice.h"
#include "proto/worker.h"

struct cloud_service;

enum {
    CLOUD_METHODS = 5,
    CLOUD_MAX_CLIENT = (1 << 20) - 1, // ids are 1 to this
    CLOUD_NUMBER_BITS = 44,           // of an operation, below the client's
    CLOUD_IDLE_SECONDS = 3600,
};

struct cloud_options {
    struct worker *worker; // outlives the service
    struct worker_slice slice;
    uint32_t first_client; // random: 1 to CLOUD_MAX_CLIENT
    uint32_t idle_seconds; // 0: CLOUD_IDLE_SECONDS
};

// NULL: no memory.
struct cloud_service *cloud_service_new(const struct cloud_options *options);
// After the server has stopped. NULL is allowed.
void cloud_service_free(struct cloud_service *service);
// Fills the methods to register, CLOUD_METHODS of them.
void cloud_service_methods(struct cloud_service *service,
                           struct rpc_method *out_methods);

#endif
