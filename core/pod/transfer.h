// SPDX-License-Identifier: Apache-2.0
// Bytes move in bounded pieces (transfer.c), or as whole buffers with a host
// that knows no other way (whole.c). For core/pod alone.
#ifndef POD_POD_TRANSFER_H
#define POD_POD_TRANSFER_H

#include "core/pod/internal.h"

struct pod_answer;

// ----------------------------------------------------------------- transfer.c

enum { POD_TRANSFER_SLOTS = 4 };

struct pod_transfer_slot {
    struct pod_call call;
    uint64_t before; // number of the write that this one waits for
    uint64_t offset; // in the transfer
    size_t count;
    struct pod_blob *blob;
    bool busy;    // has a piece that is not at its end yet
    bool arrived; // read, and waits for its turn to be handed on
};

// Bytes that move in pieces: from a blob, a pattern or a buffer, to a buffer, a
// stream or the record. Counted: the operation has it, and the stream while it
// may call back. All but `refs` is guarded by the engine's lock.
struct pod_transfer {
    atomic_long refs;
    struct pod *pod;
    struct pod_op *op;     // NULL: the operation is gone
    struct pod_blob *blob; // what is written; NULL: it is read
    size_t period;         // of a pattern in `blob`; 0: blob is the whole
    struct pod_host *from; // NULL: from `blob`
    uint64_t from_handle;
    uint64_t from_offset;
    struct pod_host *to; // NULL: to the stream, or kept
    uint64_t to_handle;
    uint64_t to_offset;
    struct pod_stream *stream;
    uint64_t total;
    uint64_t next;       // bytes whose moving has begun
    uint64_t handed;     // READ: bytes pushed or kept, in order
    uint64_t moved;      // bytes that have arrived
    uint64_t last_write; // number of the piece whose writing began last
    uint32_t writing;    // pieces that are being written
    bool failing;        // no more is begun
    bool full;           // the stream has no room
    bool pushing;        // a thread is at it without the lock
    bool finish;         // the stream is to be finished
    // What it is finished with, with a reference; NULL: all is well.
    struct pod_failure *failure;
    bool numbered; // a call bears the operation's number
    // Of the staging budget: what it has taken, and what is to be lent to it
    // before that is there, or NULL.
    uint64_t staged;
    struct pod_loan *loan;
    bool borrows; // its one piece is the buffer's own memory
    // With a host that moves whole buffers only (whole.c).
    bool gathering; // what comes goes to `whole`, which is written then
    struct pod_blob *whole;
    uint64_t whole_bytes;
    uint64_t gathered;
    struct pod_blob *patch; // replaces a part of `whole`, or NULL
    size_t patch_period;    // it repeats; 0: it does not
    uint64_t patch_offset;
    uint64_t patch_count;
    bool queued; // in some thread's list of what to do after the lock
    struct pod_list after_link;
    struct pod_transfer_slot slots[POD_TRANSFER_SLOTS];
};

struct pod_transfer *pod_transfer_new(struct pod *pod, struct pod_op *op);
void pod_transfer_unref(struct pod_transfer *transfer); // NULL is allowed
// Its stream may call back from now on.
void pod_transfer_listen_locked(struct pod_transfer *transfer);
// Bytes of a piece: all there are where a host moves whole buffers only, or is
// given them in this process. Both ends and the total are set.
size_t pod_transfer_piece(const struct pod_transfer *transfer);
// Begins: what is set are ends, total.
void pod_transfer_start_locked(struct pod_transfer *transfer,
                               struct pod_after *after);
void pod_transfer_answer_locked(struct pod_transfer *transfer,
                                struct pod_call *call,
                                struct pod_answer *answer,
                                struct pod_after *after);
void pod_transfer_cancel_locked(struct pod_transfer *transfer,
                                struct pod_after *after);
// It ends badly by itself, unless it does already.
void pod_transfer_fail_locked(struct pod_transfer *transfer,
                              const struct pod_err *err);
// The operation has ended: its stream is told why.
void pod_transfer_end_locked(struct pod_op *op, struct pod_after *after);
// Without the lock: pushes, finishes. Gives up the list's reference.
void pod_transfer_after(struct pod_transfer *transfer);

// -------------------------------------------------------------------- whole.c

// Whether it moves whole buffers only. NULL: no.
bool pod_whole_host(const struct pod_host *host);
// Sets up what such a host at an end needs; its ends are set. False: it fails.
bool pod_whole_begin_locked(struct pod_transfer *transfer);
// Without the lock: a piece, in order; then all of them, false: no memory.
void pod_whole_put(struct pod_transfer *transfer, struct pod_blob *owned_blob);
bool pod_whole_finish(struct pod_transfer *transfer)
    __attribute__((warn_unused_result));
// All pieces have come. Then: what was gathered is to be written.
bool pod_whole_gathered_locked(const struct pod_transfer *transfer);
void pod_whole_write_locked(struct pod_transfer *transfer, bool good);

#endif
