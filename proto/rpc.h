// SPDX-License-Identifier: Apache-2.0
// gRPC calls as both sides see them: the queue thread, streams, settings.
//
// gRPC's C core is used only in proto/rpc*.c; all other code uses this header,
// rpc_client.h and rpc_server.h. A loop is one completion queue and the thread
// that serves it; every callback comes from that thread, one at a time, never
// inline from a call of these functions and never with a lock held. Callbacks
// must not block. Functions may be called from any thread, callbacks included,
// under locks of a rank below POD_RANK_RPC.
//
// Shutting down: end the streams and calls, free channels and servers, then
// the loop. Signals that a program waits for are blocked before the first loop
// is made, because gRPC starts threads.
#ifndef POD_PROTO_RPC_H
#define POD_PROTO_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "proto/wire.h"
#include "proto/wire_lean.h"

enum { RPC_SOON_MS = 2 };

struct rpc_loop;
struct rpc_stream;

// A loop and its thread. OUT_OF_MEMORY, also when there is no thread.
enum pod_code rpc_loop_new(struct rpc_loop **out_loop, struct pod_err *err)
    __attribute__((warn_unused_result));
// Cancels the streams that have not ended and waits for their ends, serves what
// is left in the queue, then joins the thread. NULL is allowed. Not from a
// callback.
void rpc_loop_free(struct rpc_loop *loop);

// Certificates, as PEM texts, borrowed while a channel or a server is made.
struct rpc_tls {
    // The authority that signs the other side's certificate. In a server NULL
    // means that clients need none; else only clients with a certificate of it
    // are served.
    const char *ca;
    // This side's own certificate and key. In a client both may be NULL.
    const char *cert;
    const char *key;
    // In a client: the name that the server's certificate must have; NULL: the
    // host in the target.
    const char *peer_name;
};

// --------------------------------------------------------------------- streams

// What happens to a stream. `arg` is what was given when it was opened.
struct rpc_stream_events {
    // A message came, borrowed. The next one is read when this has returned,
    // unless the stream is paused.
    void (*message)(void *arg, const void *data, size_t size);
    // Server: the client sends no more. May be NULL. Never for a client.
    void (*half_closed)(void *arg);
    // Less than the low-water mark (rpc_stream_settings) is queued again, after
    // more than the high-water mark was. May be NULL.
    void (*drained)(void *arg);
    // The stream is over: exactly once, nothing comes after it. Client: the
    // status of the server, or of gRPC when the connection failed. Server:
    // POD_OK when the status was sent, else CANCELLED: the client is gone.
    void (*ended)(void *arg, enum pod_code code, const char *text);
};

struct rpc_stream_settings {
    // What is sent is joined into one message until that has this many bytes;
    // 0: each is a message of its own. Only for messages that have nothing but
    // repeated fields, or whose other fields are in the first part.
    size_t batch_bytes;
    // At most so many are joined; 0: any number. A message is handled as a
    // whole, so a smaller one lets the other side answer the first parts while
    // more come.
    size_t batch_count;
    size_t high_water; // of bytes queued; 0: no marks
    size_t low_water;
    // While more bytes than this are queued, nothing is read: a client that
    // takes no answers cannot go on asking. Tails are not counted. 0: no bound.
    size_t hold_bytes;
    // The bytes field of incoming messages that need not be contiguous. If it
    // is long and comes in pieces, `message` gets the rest of the message, and
    // rpc_stream_bulk has the bytes.
    struct wire_lean_path bulk;
};

// A blob with bytes of the message that is being handled. If they are at least
// half of it they are not copied, but the whole message then stays as long as
// the blob. NULL: no memory. Only from `message`.
struct pod_blob *rpc_stream_keep(struct rpc_stream *stream, const void *data,
                                 size_t size);
// The bytes that were left out of the message that is being handled, if `data`
// is the part of it that they were left out of: a blob in pieces, with a
// reference. NULL: nothing was left out of that part, or the blob was taken
// before. Only from `message`.
struct pod_blob *rpc_stream_bulk(struct rpc_stream *stream, const void *data,
                                 size_t size);
// Queues it to be sent, and owns it. After the end, or after half-close or
// finish, it is dropped. NULL stands for something for which there was no
// memory, and breaks the stream.
void rpc_stream_send(struct rpc_stream *stream, struct pod_wire_out *owned_out);
// The same for what is not urgent: it goes with whatever is sent next, or a few
// milliseconds later (RPC_SOON_MS).
void rpc_stream_send_soon(struct rpc_stream *stream,
                          struct pod_wire_out *owned_out);
// Bytes queued and not yet taken by gRPC.
size_t rpc_stream_queued(struct rpc_stream *stream);
// Stop and resume reading; while it is stopped the other side blocks when its
// window is full. A message that was already requested may still come.
void rpc_stream_pause(struct rpc_stream *stream);
void rpc_stream_resume(struct rpc_stream *stream);
// Client: after what is queued, tells the server that no more comes.
void rpc_stream_half_close(struct rpc_stream *stream);
// Server: after what is queued, ends the call with this status.
void rpc_stream_finish(struct rpc_stream *stream, enum pod_code code,
                       const char *text);
// Ends it at once; what is queued is dropped. `ended` still comes.
void rpc_stream_cancel(struct rpc_stream *stream);
// Take and drop a reference. The opener of a client stream and the acceptor of
// a server stream hold one each, and may call all functions above as long as
// they do, `ended` or not. Dropping it does not end the stream.
struct rpc_stream *rpc_stream_ref(struct rpc_stream *stream);
void rpc_stream_unref(struct rpc_stream *stream); // NULL is allowed

#endif
