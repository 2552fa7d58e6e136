// SPDX-License-Identifier: Apache-2.0
// Connections to other workers, made when they are first needed and kept.
#ifndef POD_PROTO_PEERS_H
#define POD_PROTO_PEERS_H

#include "proto/rpc_client.h"

struct peers;

enum { PEERS_MAX = 1024 }; // channels at a time

// `tls` as a client's (NULL: plain text); its texts are copied. NULL: no
// memory.
struct peers *peers_new(struct rpc_loop *loop, const struct rpc_tls *tls);
// After every call and stream on them has ended. NULL is allowed.
void peers_free(struct peers *peers);
// Opens a stream to an address, as rpc_stream_open does. If the last attempt to
// connect failed, a new one is made at once, so that a worker that is back need
// not wait until an old backoff is over. A stream that breaks off before the
// other worker has answered is tried again (see rpc_channel_options.retries).
// Any thread. BAD_VALUE, TOO_MANY_REQUESTS, OUT_OF_MEMORY.
enum pod_code peers_open(struct peers *peers, const char *address,
                         const char *method,
                         const struct rpc_stream_settings *settings,
                         const struct rpc_stream_events *events, void *arg,
                         struct rpc_stream **out_stream, struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
