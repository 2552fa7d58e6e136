// SPDX-License-Identifier: Apache-2.0
// pod.worker.v1.PodWorker: the protocol between podd and its workers.
// proto/pod_worker.proto explains each message.
//
// A session is made by Hello and lives as long as its CONTROL stream; one whose
// stream does not come is given up after POD_SERVICE_IDLE_S. Entries of both
// streams may name each other's operations in any order.
#ifndef POD_PROTO_POD_SERVICE_H
#define POD_PROTO_POD_SERVICE_H

#include "proto/gang_link.h"
#include "proto/peers.h"
#include "proto/rpc_server.h"
#include "proto/slice.h"
#include "proto/worker.h"

struct pod_service;

enum {
    POD_SERVICE_METHODS = 5,
    POD_SERVICE_VERSION = 1,
    POD_SERVICE_IDLE_S = 60,
    POD_SERVICE_CHUNK_BYTES = 4 << 20,        // of data in one entry
    POD_SERVICE_NUMBER_BITS = WORKER_OWN_BIT, // of operations
};

struct pod_service_options {
    struct worker *worker; // outlives the service
    struct worker_slice slice;
    uint64_t incarnation;     // random
    struct peers *peers;      // outlives the service; NULL: reaches no others
    struct gang_links *gangs; // the same; NULL: no gangs with others
};

// NULL: no memory.
struct pod_service *pod_service_new(const struct pod_service_options *options);
// After the server has stopped. NULL is allowed.
void pod_service_free(struct pod_service *service);
// Fills the methods to register, POD_SERVICE_METHODS of them.
void pod_service_methods(struct pod_service *service,
                         struct rpc_method *out_methods);

#endif
