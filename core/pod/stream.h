// SPDX-License-Identifier: Apache-2.0
// Chunks on their way from a read operation to whoever takes them.
//
// The pod engine pushes chunks in order, a consumer pops them. A stream holds
// at most `window` bytes and POD_STREAM_CHUNKS chunks that were pushed and not
// popped (always at least one chunk); when it is full the engine stops reading
// and goes on when the consumer pops. So a slow consumer costs a bounded amount
// of memory. Thread-safe.
#ifndef POD_POD_STREAM_H
#define POD_POD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/err.h"

enum { POD_STREAM_CHUNKS = 4 };

struct pod_stream;

enum pod_stream_state {
    POD_STREAM_EMPTY, // nothing yet, more will come
    POD_STREAM_CHUNK, // a chunk was given
    POD_STREAM_END,   // all bytes have been given
    POD_STREAM_FAILED,
};

// A stream with two references: the consumer's and the engine's. `notify` is
// called, with no lock held and from any thread, when something can be popped
// after a pop gave EMPTY; it must not call back into the stream. NULL: no
// memory.
struct pod_stream *pod_stream_new(uint64_t window, void (*notify)(void *arg),
                                  void *arg);

// Consumer. CHUNK: *out_chunk is a reference the caller owns. FAILED: *out_err
// says why (the operation's error); either may be NULL if not wanted. A failure
// is reported at once: chunks that were not popped yet are dropped.
enum pod_stream_state pod_stream_pop(struct pod_stream *stream,
                                     struct pod_blob **out_chunk,
                                     struct pod_err *out_err);
// Consumer: the state without taking anything; EMPTY arms `notify`.
enum pod_stream_state pod_stream_peek(struct pod_stream *stream);
// Consumer: gives its reference up; waits for a `notify` that is on its way,
// and none comes after this returns. If the stream had not ended the engine
// cancels the read. NULL is allowed.
void pod_stream_close(struct pod_stream *stream);

// Consumer: wants no more of it, but the read is to go on to its end: what
// comes is dropped, and a close does not cancel it. Nothing is popped after
// this.
void pod_stream_abandon(struct pod_stream *stream);

// Engine; one thread at a time, and no lock held of those that `notify` and
// `resume` take. Pushes a chunk (takes over the reference). Returns whether
// there is room for another of its size; if not, `resume` is called once when
// there is (perhaps before this returns). What is pushed after the consumer
// closed is dropped. No memory fails the stream (OUT_OF_MEMORY).
bool pod_stream_push(struct pod_stream *stream, struct pod_blob *owned_chunk);
// Engine: called when a full stream has room again, or, once, when the consumer
// has closed it before its end; from the consumer's thread, with no lock of the
// stream held. Set before the first push.
void pod_stream_on_resume(struct pod_stream *stream,
                          void (*resume)(void *arg, bool closed), void *arg);
// Engine: called with resume's `arg` when the stream is freed, after which
// resume is not called any more. Set with on_resume, or never.
void pod_stream_on_release(struct pod_stream *stream,
                           void (*release)(void *arg));
// Engine: no more will come; `err` NULL or POD_OK is the good end. Then the
// engine's reference is given up. No resume begins after this returns, but one
// that had begun in another thread may still run: what its `arg` points at
// must live until then (on_release). NULL is allowed.
void pod_stream_finish(struct pod_stream *stream, const struct pod_err *err);

#endif
