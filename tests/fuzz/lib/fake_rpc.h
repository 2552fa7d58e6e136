// SPDX-License-Identifier: Apache-2.0
// rpc.h without gRPC: the same functions, where what comes from the other side
// is what a fuzzer says. Callbacks come from a loop's thread, as they should.
#ifndef POD_TESTS_FUZZ_FAKE_RPC_H
#define POD_TESTS_FUZZ_FAKE_RPC_H

#include "proto/rpc_client.h"
#include "proto/rpc_server.h"

// The other side of what is opened and called: gets a reference of its own.
// Called from any thread, with locks held; NULL: streams end UNAVAILABLE.
struct fake_rpc_peer {
    void (*opened)(void *arg, const char *method,
                   struct rpc_stream *owned_stream);
    void (*called)(void *arg, const char *method, struct rpc_call *owned_call);
    void *arg;
};
void fake_rpc_set_peer(const struct fake_rpc_peer *peer);

// A client opens a stream on a method of a server: a reference.
struct rpc_stream *fake_rpc_accept(struct rpc_loop *loop,
                                   const struct rpc_method *method);
// What comes on it, in this order. The bytes are copied.
void fake_rpc_deliver(struct rpc_stream *stream, const void *data, size_t size);
void fake_rpc_half_close(struct rpc_stream *stream);
void fake_rpc_end(struct rpc_stream *stream, enum pod_code code);
// Until its `ended` has returned.
void fake_rpc_await_end(struct rpc_stream *stream);

// A client calls a unary method of a server: waits for the answer. Its bytes,
// for pod_wire_out_free; NULL: refused.
struct pod_wire_out *fake_rpc_request(struct rpc_loop *loop,
                                      const struct rpc_method *method,
                                      const void *data, size_t size);
// Answers a call; takes its reference over.
void fake_rpc_answer(struct rpc_call *owned_call, enum pod_code code,
                     const void *data, size_t size);

#endif
