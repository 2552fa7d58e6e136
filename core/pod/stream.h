// SPDX-License-Identifier: Apache-2.0
// Chunks on their way from a read operation to whoever takes them.
//
// The pod engine pushes chunks in order, a consumer pops them. A stream holds
// at most `window` bytes that were pushed and not popped (always at least one
// chunk); when it is full the engine stops reading and goes on when the
// consumer pops. So a slow consumer costs a bounded amount of memory.
// Thread-safe.
#ifndef POD_POD_STREAM_H
#define POD_POD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/err.h"

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
struct pod_stream *pod_stream_new(uint64_t window,
                                  void (*notify)(void *arg), void *arg);

// Consumer. CHUNK: *out_chunk is a reference the caller owns. FAILED: *out_err
// says why (the operation's error); either may be NULL if not wanted.
enum pod_stream_state pod_stream_pop(struct pod_stream *stream,
                                     struct pod_blob **out_chunk,
                                     struct pod_err *out_err);
// Consumer: the state without taking anything; EMPTY arms `notify`.
enum pod_stream_state pod_stream_peek(struct pod_stream *stream);
// Consumer: gives its reference up; `notify` is not called after this returns.
// If the stream had not ended the engine cancels the read.
void pod_stream_close(struct pod_stream *stream);

// Engine. Pushes a chunk (takes over the reference). Returns whether there is
// room for more; if not, `resume` is called once when there is.
bool pod_stream_push(struct pod_stream *stream, struct pod_blob *owned_chunk);
// Engine: called when a full stream has room again, or the consumer has closed
// it. Set before the first push.
void pod_stream_on_resume(struct pod_stream *stream,
                          void (*resume)(void *arg, bool closed), void *arg);
// Engine: no more will come; `err` NULL or POD_OK is the good end. Then the
// engine's reference is given up.
void pod_stream_finish(struct pod_stream *stream, const struct pod_err *err);

#endif
