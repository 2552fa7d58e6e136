// SPDX-License-Identifier: Apache-2.0
// gRPC calls as both sides see them: the queue thread, streams, settings.
//
// gRPC's C core is used in proto/rpc*.c alone; what is above sees this header,
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

// A loop and its thread. RESOURCE_EXHAUSTED.
enum pod_code rpc_loop_new(struct rpc_loop **out_loop, struct pod_err *err)
    __attribute__((warn_unused_result));
// Cancels the streams that have not ended and waits for their ends, serves what
// is left in the queue, then joins the thread. NULL is allowed. Not from a
// callback.
void rpc_loop_free(struct rpc_loop *loop);

// Certificates, as PEM texts, borrowed while a channel or a server is made.
struct rpc_tls {
    // Who signs the other side. Of a server: NULL: clients show none; else only
    // clients with a certificate it signed are served.
    const char *ca;
    // This side's own. Of a client both may be NULL.
    const char *cert;
    const char *key;
    // Of a client: the name the server's certificate must have; NULL: the host
    // in the target.
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
    // Things sent are joined into one message until it has this many bytes;
    // 0: each is a message of its own. Joining is sound for messages that only
    // have repeated fields, or whose other fields stand in the first thing.
    size_t batch_bytes;
    // Of so many things at most; 0: of any number. A message is handled as a
    // whole: where each thing is little work, a smaller one lets the other side
    // answer the first while more come.
    size_t batch_count;
    size_t high_water; // of bytes queued; 0: no marks
    size_t low_water;
    // While what is queued takes more than this, nothing is read: who takes no
    // answers cannot go on asking. Tails are not counted. 0: no bound.
    size_t hold_bytes;
    // Of messages that come: bytes that need not lie together. Where a long one
    // is in pieces, `message` is given the rest, and rpc_stream_bulk has them.
    struct wire_lean_path bulk;
};

// A blob with bytes of a message, while that is handled. They are not copied if
// they are at least half of it, for the whole of it then stays as long as the
// blob. NULL: no memory. Only from `message`.
struct pod_blob *rpc_stream_keep(struct rpc_stream *stream, const void *data,
                                 size_t size);
// The bytes that were left out of the message that is handled, if `data` is the
// part of it that they were left out of; in pieces, with a reference. NULL:
// nothing was left out of that part, or it has been asked for. Only from
// `message`.
struct pod_blob *rpc_stream_bulk(struct rpc_stream *stream, const void *data,
                                 size_t size);
// Queues it to be sent; takes it over. After the end, or after half-close or
// finish, it is dropped. NULL is allowed: it stands for a thing there was no
// memory for, and breaks the stream.
void rpc_stream_send(struct rpc_stream *stream, struct pod_wire_out *owned_out);
// The same for what need not go at once: it goes with what is sent next, or a
// few milliseconds later (RPC_SOON_MS).
void rpc_stream_send_soon(struct rpc_stream *stream,
                          struct pod_wire_out *owned_out);
// Bytes queued and not yet taken by gRPC.
size_t rpc_stream_queued(struct rpc_stream *stream);
// Stops and goes on with reading; the other side then blocks when its window
// is full. A message that was asked for already may still come.
void rpc_stream_pause(struct rpc_stream *stream);
void rpc_stream_resume(struct rpc_stream *stream);
// Client: after what is queued, tells the server that no more comes.
void rpc_stream_half_close(struct rpc_stream *stream);
// Server: after what is queued, ends the call with this status.
void rpc_stream_finish(struct rpc_stream *stream, enum pod_code code,
                       const char *text);
// Ends it at once; what is queued is dropped. `ended` still comes.
void rpc_stream_cancel(struct rpc_stream *stream);
// One more reference, and one less. The opener of a client stream and the
// acceptor of a server stream hold one each. Dropping it does not end the
// stream; all the functions above may be called until then, `ended` or not.
struct rpc_stream *rpc_stream_ref(struct rpc_stream *stream);
void rpc_stream_unref(struct rpc_stream *stream); // NULL is allowed

#endif
