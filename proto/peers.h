// SPDX-License-Identifier: Apache-2.0
// Channels to other workers, made when they are first needed and kept.
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
// The channel to an address, borrowed, for as long as the peers. Any thread.
// BAD_VALUE, TOO_MANY_REQUESTS, OUT_OF_MEMORY.
enum pod_code peers_channel(struct peers *peers, const char *address,
                            struct rpc_channel **out_channel,
                            struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
