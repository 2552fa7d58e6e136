// SPDX-License-Identifier: Apache-2.0
// The gRPC driver: a host that is another program, somewhere else.
//
// It speaks pod.worker.v1 with our own workers and tpu_driver.CloudTpuDriver
// with those that have nothing else. From open to close it keeps trying to
// connect, waiting between attempts (backoff). It asks for signs of life all
// the time; when none comes the host is lost, and its next connection is a new
// incarnation.
//
// What a worker can do (pod_driver_info.features):
//                        pod.worker.v1        tpu_driver.CloudTpuDriver
//   waits for others     WAITS, ORDERS        WAITS if its order is trusted
//   cancel               CANCEL               - (it ends as it would have)
//   free a program       FREE_PROGRAM         -
//   fetch from another   PEER_COPY            -
//   parts of a buffer    PIECES               - whole buffers of 1 GiB at most
//   reset                Reset                a new client, the old one closed
#ifndef POD_PROTO_GRPC_DRIVER_H
#define POD_PROTO_GRPC_DRIVER_H

#include "core/driver/driver.h"
#include "proto/rpc.h"

// What the drivers of one pod share: the thread that serves their connections,
// certificates, and the workers' addresses, for data from worker to worker.
// Drivers come and go while it lives; numbers of hosts are not used again.
struct pod_grpc_hub;

// `tls` NULL: plain text. Its texts are copied. Signals that the program waits
// for are blocked before. OUT_OF_MEMORY.
enum pod_code pod_grpc_hub_new(const struct rpc_tls *tls,
                               struct pod_grpc_hub **out_hub,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
// From now on plain workers get an operation at once, together with what it
// waits for. Only for workers that fail an operation when one that it waits for
// has failed. Call it before any driver is opened.
void pod_grpc_hub_trust_order(struct pod_grpc_hub *hub);
// After all its drivers. NULL is allowed.
void pod_grpc_hub_free(struct pod_grpc_hub *hub);

struct pod_grpc_options {
    struct pod_grpc_hub *hub;
    uint32_t host;       // its number in the pod
    const char *address; // "host:port", "[::1]:port", "unix:PATH"; copied
    // All 0: the defaults in brackets.
    int64_t connect_ns;   // longest an attempt may take [3 s]
    int64_t heartbeat_ns; // between signs of life asked for [1 s]
    // Without any sign for so long it is lost, unless this process stood still
    // itself when it had to look [4 s].
    int64_t silence_ns;
    int64_t backoff_min_ns; // between attempts, doubling [0.2 s]
    int64_t backoff_max_ns; // up to this [2 s]
};

// A driver of one host; nothing happens before open. OUT_OF_MEMORY.
enum pod_code pod_grpc_driver_new(const struct pod_grpc_options *options,
                                  struct pod_driver **out_driver,
                                  struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
