// SPDX-License-Identifier: Apache-2.0
// For proto/rpc*.c only: gRPC's credentials from PEM texts.
#ifndef POD_PROTO_RPC_TLS_H
#define POD_PROTO_RPC_TLS_H

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include "proto/rpc.h"

// `tls` NULL: plain text. The credentials are released by the caller, once
// the channel or the port has been made. BAD_VALUE.
enum pod_code rpc_tls_client(const struct rpc_tls *tls,
                             grpc_channel_credentials **out_credentials,
                             struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code rpc_tls_server(const struct rpc_tls *tls,
                             grpc_server_credentials **out_credentials,
                             struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
