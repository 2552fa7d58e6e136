// SPDX-License-Identifier: Apache-2.0
// The serving side: methods by name, unary and streaming. See rpc.h for
// threads.
//
// Methods that are not registered are answered UNIMPLEMENTED with their name.
#ifndef POD_PROTO_RPC_SERVER_H
#define POD_PROTO_RPC_SERVER_H

#include "proto/rpc.h"

struct rpc_server;
// One unary call that was received and not answered yet.
struct rpc_request;

enum {
    RPC_SERVER_MAX_METHODS = 32,
    // Streams of one connection at a time: 256 cores and more, and calls.
    RPC_SERVER_MAX_STREAMS = 4096,
};

struct rpc_method {
    const char *path; // "/tpu_driver.CloudTpuDriver/Open"; lives on
    void *arg;        // given to the callbacks
    // A unary method: the message is borrowed for the call. The request is
    // answered, exactly once, with rpc_request_reply or rpc_request_fail, then
    // or later.
    void (*unary)(void *arg, struct rpc_request *request, const void *data,
                  size_t size);
    // A streaming method (unary is NULL): a stream was opened. Fill the events
    // and the argument for them. The stream's reference is the callee's.
    void (*opened)(void *arg, struct rpc_stream *owned_stream,
                   struct rpc_stream_events *out_events, void **out_arg);
    struct rpc_stream_settings settings;
};

struct rpc_server_options {
    // "host:port" (port 0 picks one), "[::1]:port", or "unix:PATH".
    const char *listen;
    const struct rpc_tls *tls; // NULL: plain text
    const struct rpc_method *methods;
    size_t method_count;
    int max_receive_bytes; // longest message; 0: INT_MAX
    // Runs on the loop's thread about this often until the loop is freed, for
    // leases. 0: never.
    int64_t tick_ns;
    void (*tick)(void *arg);
    void *tick_arg;
};

// Binds and begins to serve. BAD_VALUE (no such address, bad certificates),
// RESOURCE_EXHAUSTED (the port is taken), OUT_OF_MEMORY.
enum pod_code
rpc_server_new(struct rpc_loop *loop, const struct rpc_server_options *options,
               struct rpc_server **out_server, struct pod_err *err)
    __attribute__((warn_unused_result));
// "127.0.0.1:34567" or "unix:PATH". Lives as long as the server.
const char *rpc_server_address(const struct rpc_server *server);
// Takes no more calls, lets open ones end for up to `grace_ns`, cancels the
// rest, waits until all have ended. Not from a callback.
void rpc_server_stop(struct rpc_server *server, int64_t grace_ns);
// After stop, and after all references to streams and all requests have been
// given back. NULL is allowed.
void rpc_server_free(struct rpc_server *server);

// Answers the request. Owns the reply (NULL: fails with RESOURCE_EXHAUSTED) and
// the request.
void rpc_request_reply(struct rpc_request *owned_request,
                       struct pod_wire_out *owned_reply);
void rpc_request_fail(struct rpc_request *owned_request, enum pod_code code,
                      const char *text);
// The address of the client, as text, for logs; until the request is answered.
const char *rpc_request_peer(struct rpc_request *request);

#endif
