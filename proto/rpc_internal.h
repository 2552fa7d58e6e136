// SPDX-License-Identifier: Apache-2.0
// For proto/rpc*.c only: what of gRPC's C core they share.
//
// A tag on the completion queue is a struct rpc_tag inside the object it is
// for; its function runs on the loop's thread when gRPC is done with the
// operations that were started with it.
#ifndef POD_PROTO_RPC_INTERNAL_H
#define POD_PROTO_RPC_INTERNAL_H

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <stdatomic.h>

#include "core/base/lock.h"
#include "proto/rpc.h"

struct rpc_tag {
    void (*run)(struct rpc_tag *tag, bool ok);
    bool failed; // what rpc_post was told; the loop's thread sets it back
};

grpc_completion_queue *rpc_loop_queue(struct rpc_loop *loop);
// A stream was made, and has ended; the latter from the loop's thread.
void rpc_loop_add(struct rpc_loop *loop, struct rpc_stream *stream);
void rpc_loop_remove(struct rpc_loop *loop, struct rpc_stream *stream);
// Has the loop's thread call rpc_stream_flush within RPC_SOON_MS, and holds a
// reference until then; false: that would take a wake of its own.
bool rpc_loop_flush_soon(struct rpc_loop *loop, struct rpc_stream *stream);
// A message of one operation or one answer has come, as far as its size says.
// From the loop's thread.
void rpc_loop_small_came(struct rpc_loop *loop);
// Sends what is queued.
void rpc_stream_flush(struct rpc_stream *stream);
// Keeps the loop until it is released. false: it ends, and nothing is started
// any more.
bool rpc_loop_hold(struct rpc_loop *loop);
void rpc_loop_release(struct rpc_loop *loop);
// It is being freed: those who hold it are to let go soon.
bool rpc_loop_is_ending(struct rpc_loop *loop);
// Once for a loop; it goes on until the loop is freed.
void rpc_loop_set_tick(struct rpc_loop *loop, int64_t period_ns,
                       void (*tick)(void *arg), void *arg);

// Right before anything is started whose tag will come; rpc_start does it.
void rpc_will_start(void);
// Starts operations of a call. They are ours to get right: a refusal is a bug
// and ends the process.
void rpc_start(grpc_call *call, const grpc_op *ops, size_t count,
               struct rpc_tag *tag);
// The same; true: it is done already, and the tag does not come. That spares
// the loop's thread a wake for what needs no callback.
bool rpc_start_here(struct rpc_loop *loop, grpc_call *call, const grpc_op *op,
                    struct rpc_tag *tag);
// Has the loop's thread run the tag of something that is done. `call` is any
// call of that loop.
void rpc_post(grpc_call *call, struct rpc_tag *tag, bool ok);

// --------------------------------------------------------------- byte buffers

// Sends: the outs of `list` in one buffer; they are freed. NULL: no memory.
grpc_byte_buffer *rpc_bytes_join(struct pod_list *owned_list);

// Received: contiguous bytes of a buffer.
struct rpc_flat {
    grpc_slice slice; // with a reference
    const void *data;
    size_t size;
};
// Destroys the buffer. false: no memory, or it cannot be read.
bool rpc_bytes_flatten(grpc_byte_buffer *owned_buffer,
                       struct rpc_flat *out_flat);
void rpc_flat_fini(struct rpc_flat *flat);
// A blob over bytes of it, which holds the slice. NULL: no memory, or they are
// no part of it.
struct pod_blob *rpc_flat_keep(const struct rpc_flat *flat, const void *data,
                               size_t size);

// Received: a message that lies in pieces, without its bulk.
struct rpc_lean {
    struct wire_lean wire;
    struct pod_blob *bulk; // until it is taken
};
// Takes the buffer over; NULL: it does not, for the message is in one piece, or
// has no such bulk, or there is no memory.
struct rpc_lean *rpc_lean_new(grpc_byte_buffer *buffer,
                              const struct wire_lean_path *path);
void rpc_lean_free(struct rpc_lean *lean); // NULL is allowed
// As rpc_stream_bulk.
struct pod_blob *rpc_lean_take(struct rpc_lean *lean, const void *data,
                               size_t size);

// A text copied from a slice; free it with pod_free. NULL: no memory.
char *rpc_text_copy(grpc_slice slice);

enum pod_code rpc_code(grpc_status_code status);

// -------------------------------------------------------------------- streams

struct rpc_stream {
    struct pod_mutex lock; // guards down to `pending`
    struct pod_list queue; // struct pod_wire_out
    size_t queued_bytes;
    size_t heads;      // what that takes as memory, without tails
    bool writing;      // a send is under way, or nothing may be sent yet
    bool closing;      // the last thing was queued
    bool close_sent;   // half-close or status are under way or done
    bool over;         // the status is known: nothing is sent any more
    bool above;        // the high-water mark was passed
    bool paused;       // the user does not want messages
    bool read_waiting; // no read is under way: it is held back
    int64_t sent_ns;   // of the last send that was done at once
    int pending;       // tags that will come
    atomic_int refs;
    struct pod_list soon; // in the loop's list, which its lock guards
    struct pod_list link; // in another one
    // Constant after it was opened.
    struct rpc_loop *loop;
    grpc_call *call;
    bool server;
    bool retried; // gRPC may make the call again until the server answers
    struct rpc_stream_settings settings;
    struct rpc_stream_events events;
    void *arg;
    void (*gone)(void *arg); // after `ended`; of the server that accepted it
    void *gone_arg;
    // gRPC's, while the tags are out.
    struct rpc_tag start_tag;
    struct rpc_tag read_tag;
    struct rpc_tag write_tag;
    struct rpc_tag close_tag;
    struct rpc_tag status_tag;
    grpc_byte_buffer *reading;
    grpc_byte_buffer *sending;
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_status_code status;
    grpc_slice details;
    int cancelled;
    // The loop's thread.
    const struct rpc_flat *message; // while it is handled
    struct rpc_lean *lean;          // the same, of one without its bulk
    enum pod_code finish_code;      // server: what finish said
    char *finish_text;
};

// A stream around a call, with one reference for the user and one of its own
// until it has ended. NULL: no memory, the call stays the caller's.
struct rpc_stream *rpc_stream_new(struct rpc_loop *loop, grpc_call *call,
                                  bool server,
                                  const struct rpc_stream_settings *settings);
// Begins to move messages; events and arg are set.
void rpc_stream_begin(struct rpc_stream *stream);

// Has gRPC do what would disturb a connection that is being made. Once in a
// process, before there is a channel; takes a few milliseconds.
void rpc_warm_up(void);
// Makes gRPC log to our log. Once in a process, before gRPC is used.
void rpc_log_setup(void);
// Whether this text was logged less than a minute before `now_ns`; if not, it
// counts as logged now. Only 16 texts are remembered, and 255 bytes of each.
// Any thread.
bool rpc_log_is_old(const char *text, int64_t now_ns);

#endif
