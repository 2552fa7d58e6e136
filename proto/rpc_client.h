// SPDX-License-Identifier: Apache-2.0
// The calling side: channels, unary calls, streams. See rpc.h for threads.
#ifndef POD_PROTO_RPC_CLIENT_H
#define POD_PROTO_RPC_CLIENT_H

#include "proto/rpc.h"

struct rpc_channel;
struct rpc_call;

struct rpc_channel_options {
    // "host:port", "[::1]:port", or "unix:PATH".
    const char *target;
    const struct rpc_tls *tls; // NULL: plain text
    // A connection on which nothing came for keepalive_ns is probed, and given
    // up when no answer comes for keepalive_timeout_ns more: its calls then end
    // UNAVAILABLE. 0: never. Only ask it of workers that allow it: a plain
    // gRPC server drops clients that probe more often than every 5 minutes.
    int64_t keepalive_ns;
    int64_t keepalive_timeout_ns;
    // Longest an attempt to connect may take. 0: 2 s.
    int64_t connect_ns;
    // Between attempts to connect, doubling from the first to the second.
    // 0: 200 ms and 2 s.
    int64_t backoff_min_ns;
    int64_t backoff_max_ns;
    // Longest message taken; longer ones end the call RESOURCE_EXHAUSTED.
    // 0: 64 MiB.
    int max_receive_bytes;
    // Calls and streams that end UNAVAILABLE before anything, even headers,
    // came from the server are made again on a working connection, at most
    // four times: a connection may have broken unnoticed. The request of a call
    // is sent again if it is small, so the server may see it twice. A stream
    // sends its first message when the server's headers have come, which costs
    // a way there and back, and sends none twice.
    bool retries;
};

enum rpc_state {
    RPC_IDLE, // not used yet, or idle for long
    RPC_CONNECTING,
    RPC_READY,
    RPC_FAILING, // could not connect; tries again by itself
    RPC_SHUT,
};

// A channel with a connection of its own, made when it is first used. BAD_VALUE
// for an unusable target or unusable certificates.
enum pod_code rpc_channel_new(struct rpc_loop *loop,
                              const struct rpc_channel_options *options,
                              struct rpc_channel **out_channel,
                              struct pod_err *err)
    __attribute__((warn_unused_result));
// End its calls and streams before; any that are open end UNAVAILABLE or
// CANCELLED soon. A connection that is just being made is closed when it is
// made or has failed, or when the loop ends. NULL is allowed.
void rpc_channel_free(struct rpc_channel *channel);
// `connect`: begin to connect if it is idle.
enum rpc_state rpc_channel_state(struct rpc_channel *channel, bool connect);

// The answer to a unary call, borrowed for the callback.
struct rpc_reply {
    enum pod_code code; // of the server, or of gRPC when it was not reached
    const char *text;   // the server's or gRPC's words; not checked UTF-8
    const void *data;   // NULL unless code is POD_OK
    size_t size;
};

struct rpc_unary {
    const char *method; // "/pod.worker.v1.PodWorker/Hello"
    int64_t timeout_ns; // > 0
    // Wait for a connection within the timeout; false: fail with UNAVAILABLE
    // as soon as an attempt fails.
    bool wait_for_ready;
    // Exactly once.
    void (*done)(void *arg, const struct rpc_reply *reply);
    void *arg;
};

// Begins a call. Owns `owned_request` (NULL: OUT_OF_MEMORY). If `out_call` is
// not NULL it gets a reference, for rpc_call_cancel and rpc_call_unref, set
// before `done` comes. OUT_OF_MEMORY: `done` will not be called.
enum pod_code rpc_unary_start(struct rpc_channel *channel,
                              const struct rpc_unary *unary,
                              struct pod_wire_out *owned_request,
                              struct rpc_call **out_call, struct pod_err *err)
    __attribute__((warn_unused_result));
// Asks to end the call; `done` comes, with CANCELLED or with the answer if that
// was first.
void rpc_call_cancel(struct rpc_call *call);
void rpc_call_unref(struct rpc_call *call); // NULL is allowed

// Opens a stream without a deadline; what is sent before there is a connection
// is queued. One reference for the caller; *out_stream is set before the first
// callback. Fails fast: without a connection it ends UNAVAILABLE.
// OUT_OF_MEMORY.
enum pod_code rpc_stream_open(struct rpc_channel *channel, const char *method,
                              const struct rpc_stream_settings *settings,
                              const struct rpc_stream_events *events, void *arg,
                              struct rpc_stream **out_stream,
                              struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
