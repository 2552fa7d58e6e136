// SPDX-License-Identifier: Apache-2.0
// What the files of the engine proper offer each other: submitting, stepping,
// launching, completing. For core/pod alone.
//
//   submit.c    requests become records
//   check.c     what can be refused at once
//   hazard.c    what must wait for what
//   ahead.c     what need not wait here
//   memory.c    order of memory of a core
//   effect.c    steps of the scheduler
//   launch.c    records become calls
//   outbox.c    calls reach drivers
//   complete.c  answers come back
//   transfer.c  bytes in bounded pieces
//   compile.c   programs and loads
//   gang.c      executions
//   output.c    automatic outputs
//   loss.c      hosts come and go
//   failure.c   why something ended badly
//   settle.c    what ends is let go of
#ifndef POD_POD_ENGINE_H
#define POD_POD_ENGINE_H

#include "core/pod/internal.h"

// ----------------------------------------------------------- failure.c
// All of these replace a failure that was set before.

// Ends are explained before they happen: the operation fails by itself.
// NULL: there was no memory for it.
void pod_fail_with_locked(struct pod *pod, struct pod_op *op,
                          struct pod_failure *owned_failure);
void pod_fail_locked(struct pod *pod, struct pod_op *op, enum pod_reason reason,
                     const char *text);
void pod_fail_err_locked(struct pod *pod, struct pod_op *op,
                         const struct pod_err *err);
// What it works on is lost, or was never made.
void pod_fail_missing_locked(struct pod *pod, struct pod_op *op,
                             const struct pod_handle *handle);
// Its host is not connected.
void pod_fail_host_locked(struct pod *pod, struct pod_op *op,
                          const struct pod_host *host);
void pod_unfail_locked(struct pod_op *op);
// It is brought down by `cause`, which ended badly or whose handle is lost.
void pod_inherit_locked(struct pod *pod, struct pod_op *op,
                        const struct pod_op *cause);
// The handle that an operation made, or NULL.
struct pod_handle *pod_op_handle(const struct pod_op *op);

// ------------------------------------------------------------ metrics.c

// An operation has ended; its state and times are set.
void pod_metrics_ended_locked(struct pod *pod, const struct pod_op *op);

// ------------------------------------------------------------ work.c

// How long the lists are that a request needs.
struct pod_work_room {
    size_t calls;
    size_t reads; // of buffers
    size_t writes;
    size_t replicas;
};

// Makes the work of operations that are made together. Zero but for `expected`
// at first.
struct pod_work_maker {
    size_t expected; // how many more will be made, as a guess
    struct pod_work_block *block;
    char *next; // in the block, and the bytes that are left there
    size_t left;
};
// What it has made stays.
void pod_work_maker_fini(struct pod_work_maker *maker);

// A record that has none gets its work; false: no memory.
bool pod_work_new(struct pod_work_maker *maker, struct pod_op *op,
                  struct pod_work_room room)
    __attribute__((warn_unused_result));
// Room for so many calls in all, which are idle; for `count` more uses, whose
// links are made again; and for one more write. False: no memory, and nothing
// has changed.
bool pod_work_room_calls(struct pod_work *work, size_t count)
    __attribute__((warn_unused_result));
bool pod_work_room_uses(struct pod_work *work, size_t count)
    __attribute__((warn_unused_result));
bool pod_work_room_write(struct pod_work *work)
    __attribute__((warn_unused_result));
// The writes were for taking them back, which will not be done any more.
void pod_work_drop_writes(struct pod_work *work);
// Nothing to a record that has none.
void pod_work_free(struct pod_op *op);

// ------------------------------------------------------------ op_new.c

// A record for a request, with room for all it will need, but for the transfer
// of a COPY between hosts; not in the table.
// `auto_counts`: EXECUTE: outputs that it allocates itself, by launch. NULL: no
// memory.
struct pod_op *pod_op_new(struct pod *pod, struct pod_work_maker *maker,
                          const struct pod_request *request,
                          const size_t *auto_counts);
// A record of an ALLOCATE for an automatic output.
struct pod_op *pod_op_new_output(struct pod *pod, struct pod_work_maker *maker);
// Room for a tuple's children; false: no memory.
bool pod_tuple_room(struct pod_buffer *tuple, size_t count)
    __attribute__((warn_unused_result));
// A buffer stands, or stands no more, in the way of freeing its children. Does
// nothing to one that is no tuple, or lets go a second time.
void pod_tuple_hold_locked(struct pod_buffer *buffer);
void pod_tuple_let_go_locked(struct pod_buffer *buffer);
// Any record, whatever it has. NULL is allowed.
void pod_op_free(struct pod *pod, struct pod_op *op);
// A record that is settled has no transfer any more; that may live on. Without
// the lock or with it.
void pod_op_leave_transfer(struct pod_op *op);

// ------------------------------------------------------------- hazard.c

// What a new operation waits for, while it is found.
struct pod_hazard {
    struct pod *pod;
    struct pod_op *op;
    size_t first; // its edges are pod->edges.items[first...]
};

void pod_hazard_begin_locked(struct pod_hazard *hazard, struct pod *pod,
                             struct pod_op *op);
// An edge; met or unneeded ones are left out. All return false: no memory.
bool pod_hazard_after_locked(struct pod_hazard *hazard, struct pod_op *dep,
                             bool carries);
// All edges are found: says which the host keeps itself.
void pod_hazard_ahead_locked(struct pod_hazard *hazard);
// The making of a handle that is used.
bool pod_hazard_handle_locked(struct pod_hazard *hazard,
                              struct pod_handle *handle);
// The executions of a load, before it is unloaded.
bool pod_hazard_users_locked(struct pod_hazard *hazard,
                             struct pod_loaded *load);
bool pod_hazard_read_locked(struct pod_hazard *hazard,
                            struct pod_buffer *buffer);
bool pod_hazard_write_locked(struct pod_hazard *hazard,
                             struct pod_buffer *buffer, bool whole);
// An automatic output turns out to be a tuple: who reads it reads its leaves.
// False: no memory, and nothing has changed.
bool pod_hazard_spread_locked(struct pod_buffer *tuple,
                              struct pod_op *const *leaves, size_t count);
bool pod_hazard_free_locked(struct pod_hazard *hazard,
                            struct pod_buffer *buffer);
// Undoes what an operation's hazards changed in buffers (newest first).
void pod_hazard_undo_locked(struct pod_op *op);
// Makes it final: what was put aside is let go.
void pod_hazard_commit_locked(struct pod *pod, struct pod_op *op);
// Pins what a submitted operation points at, or lets it go.
void pod_hazard_hold_locked(struct pod *pod, struct pod_op *op, bool hold);
// A buffer is gone: its last writer need not be kept for it.
void pod_hazard_forget_locked(struct pod *pod, struct pod_buffer *buffer);
// The operation is settled: nobody waits for its uses any more.
void pod_hazard_settle_locked(struct pod_op *op);

// -------------------------------------------------------------- ahead.c

// Whether `op`, which waits for `dep` (`carries`: for its success), may be sent
// to its host as soon as `dep` was.
bool pod_ahead_may(const struct pod *pod, const struct pod_op *op,
                   const struct pod_op *dep, bool carries);
// Whether a handle is there, or will be by the time a launched operation that
// uses it begins.
bool pod_ahead_there(const struct pod_handle *handle);
// Whether something that `op` was to be sent after did not reach the host
// itself, and ends badly as soon as this step is over.
bool pod_ahead_broken_locked(const struct pod *pod, const struct pod_op *op);

// ------------------------------------------------------------- memory.c

// Whether an allocation fits what is not spoken for.
bool pod_memory_fits(const struct pod_core *core, uint64_t bytes);
// Orders an allocation that does not fit behind the frees of its core.
bool pod_memory_wait_locked(struct pod_hazard *hazard, struct pod_core *core);
void pod_memory_reserve_locked(struct pod *pod, struct pod_buffer *buffer);
// The host has a buffer, or has it no more: the core's use is counted.
void pod_memory_exists_locked(struct pod *pod, struct pod_buffer *buffer,
                              bool exists);
// A FREE was accepted on a core.
void pod_memory_freeing_locked(struct pod_core *core, struct pod_op *op);
// A buffer's bytes are not spoken for any more (freed, failed, lost).
void pod_memory_release_locked(struct pod *pod, struct pod_buffer *buffer);

// ------------------------------------------------------------- effect.c

// One step of the scheduler and all that follows. DONE, END and CANCEL need
// the failure set before if the state is a bad one.
void pod_step_locked(struct pod *pod, struct pod_op *op,
                     enum pod_sched_event_kind kind, enum pod_sched_state state,
                     bool cascade, struct pod_after *after);
void pod_advance_locked(struct pod *pod, struct pod_after *after);
// What a SUBMIT of `op` brought; called when all of its batch are submitted.
void pod_effect_apply_locked(struct pod *pod, struct pod_op *op,
                             const struct pod_sched_effect *effect,
                             struct pod_after *after);
// The time of a step: never less than that of the one before.
int64_t pod_now_locked(struct pod *pod);
// A launched operation that needs no driver (any more): it ends when the
// present step is over, well, or FAILED if a failure is set.
void pod_done_local_locked(struct pod *pod, struct pod_op *op);
void pod_run_local_locked(struct pod *pod, struct pod_after *after);
void pod_pin(struct pod_op *op);
void pod_unpin_locked(struct pod *pod, struct pod_op *op);

// ------------------------------------------------------- launch.c, outbox.c

void pod_launch_locked(struct pod *pod, struct pod_op *op,
                       struct pod_after *after);
// A COPY between hosts: the bytes go through here.
void pod_copy_bounce_locked(struct pod *pod, struct pod_op *op,
                            struct pod_after *after);
void pod_interrupt_locked(struct pod *pod, struct pod_op *op,
                          struct pod_after *after);
// A launched operation cannot be sent: it ends FAILED after this step.
void pod_launch_fail_locked(struct pod *pod, struct pod_op *op,
                            enum pod_reason reason, const char *text);
// The same, for a host that is not connected.
void pod_launch_no_host_locked(struct pod *pod, struct pod_op *op,
                               const struct pod_host *host);
// Puts a call in its host's outbox. Everything but links and state is set.
void pod_call_queue_locked(struct pod_call *call, struct pod_after *after);
// Sets the common members of a call.
void pod_call_init(struct pod_call *call, struct pod_op *op,
                   struct pod_host *host, enum pod_call_kind kind,
                   uint64_t number);
// Asks for its end; one that the driver has not got yet is taken back and
// true is returned: it is over.
bool pod_call_cancel_locked(struct pod_call *call, struct pod_after *after);
// A call is answered: it is idle again, and no cancel of it is under way.
void pod_call_answered_locked(struct pod_call *call, struct pod_after *after);
uint64_t pod_call_number_locked(struct pod *pod);
enum pod_code pod_outbox_start(struct pod_host *host, struct pod_err *err);
void pod_outbox_stop(struct pod_host *host);
// A host was removed: what waits is answered LOST after the lock, and its
// thread ends it (pod_host_end) when no other makes calls.
void pod_outbox_abandon_locked(struct pod_host *host, struct pod_after *after);
void pod_outbox_end(struct pod_host *host);
// Has the driver open a new connection.
void pod_outbox_reconnect_locked(struct pod_host *host,
                                 struct pod_after *after);
// Has a host's outbox emptied by who runs `kicked`; with the engine's lock.
// Then without it: empties them.
void pod_kicked_add(struct pod_kicked *kicked, struct pod_host *host);
void pod_kicked_run(struct pod_kicked *kicked);
// Makes the calls that wait, if no other thread does.
void pod_outbox_drain(struct pod_host *host);
// The calls that an operation that is not settled may have now, by an index
// from 0; NULL at the end. Not all of them are open. One that waits for the
// compile of another operation has that one's calls.
const struct pod_call *pod_op_call(const struct pod_op *op, size_t index);
// The operation that a call works for, or NULL: nobody waits for it any more.
struct pod_op *pod_call_op(const struct pod_call *call);

// ------------------------------------------------------------ complete.c

// The answer to a call, with everything copied that is borrowed.
struct pod_answer {
    enum pod_sched_state state;  // SUCCEEDED, FAILED, CANCELLED, LOST
    struct pod_failure *failure; // of a bad one; NULL also if no memory
    struct pod_blob *data;
    bool has_shape;
    struct pod_program_shape shape;
};

void pod_call_started(void *arg); // struct pod_call
void pod_call_done(void *arg, const struct pod_driver_result *result);
// Answers a call that no driver will get.
void pod_call_lost(struct pod_call *call);
// Settles a launched operation all of whose calls are answered: well, or as
// the first bad answer that was kept says.
void pod_complete_locked(struct pod *pod, struct pod_op *op,
                         struct pod_after *after);
// Keeps a bad answer as the operation's, unless a better one came before.
void pod_keep_failure_locked(struct pod *pod, struct pod_op *op,
                             struct pod_answer *answer);
// An ALLOCATE's first contents are written, or could not be.
void pod_allocate_filled_locked(struct pod *pod, struct pod_op *op,
                                struct pod_after *after);
// The rest of an operation's work for each kind of answer.
void pod_answer_locked(struct pod *pod, struct pod_call *call,
                       struct pod_answer *answer, struct pod_after *after);

// --------------------------------------------------------------- owed.c

// Whether the host has it still that was to be freed.
bool pod_owed_refused(const struct pod_answer *answer);
// The answer to a call that frees what `op` was to free, or has made in vain:
// if it is refused the record of `op`, which is to be completed now, is kept.
void pod_owed_note_locked(struct pod *pod, struct pod_op *op,
                          const struct pod_answer *answer);
// The answer when it was asked for again, long after `op` has settled.
void pod_owed_answer_locked(struct pod *pod, struct pod_op *op,
                            const struct pod_answer *answer);
// A sign of life came from the host: it is asked for them again.
void pod_owed_ask_locked(struct pod *pod, struct pod_host *host,
                         struct pod_after *after);
// The host has nothing any more.
void pod_owed_lost_locked(struct pod *pod, struct pod_host *host);

// ------------------------------------------------------------ transfer.c

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

// -------------------------------------------------------------- whole.c

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

// ----------------------------------------------------------- compiled.c

// A record of its own for a program, by which it is compiled unless one of
// equal content exists by then. NULL: no memory.
struct pod_compiled *pod_compiled_new(struct pod *pod, struct pod_blob *blob,
                                      const struct pod_program *program);
void pod_compiled_free(struct pod_compiled *compiled); // NULL is allowed
// The one of equal content that programs share, or NULL.
struct pod_compiled *pod_compiled_find_locked(struct pod *pod,
                                              const struct pod_compiled *like);
// No further program shall share it.
void pod_compiled_hide_locked(struct pod *pod, struct pod_compiled *compiled);
// It is gone when nobody holds it, no call works for it, and no host owes it:
// looks whether that is so.
void pod_compiled_release_locked(struct pod_compiled *compiled);
void pod_compiled_unref_locked(struct pod *pod, struct pod_compiled *compiled);
// The record of a host, which may be new to it. Stays where it is until the
// host is forgotten. NULL: no memory; never so for a new one while host_count
// is less than host_room.
struct pod_compiled_host *pod_compiled_on(struct pod_compiled *compiled,
                                          uint32_t host);
// The same, or NULL: it is new to it.
struct pod_compiled_host *
pod_compiled_find_host(const struct pod_compiled *compiled, uint32_t host);
// The calls that work for it, of one host after the other; NULL at the end.
const struct pod_call *pod_compiled_call(const struct pod_compiled *compiled,
                                         size_t index);
// That of one host, or NULL; and the loads that wait for such a call.
const struct pod_call *
pod_compiled_host_call(const struct pod_compiled *compiled, uint32_t host);
const struct pod_list *pod_compiled_joined(const struct pod_call *call);
// No program needs to know of a host any more that is gone: its calls have
// been answered.
void pod_compiled_forget_host_locked(struct pod *pod, uint32_t host);
// A host has nothing any more of what it had refused to free.
void pod_compiled_let_host_go_locked(struct pod *pod, uint32_t host);
// Nothing that was compiled is to be found any more.
void pod_compiled_forget_all_locked(struct pod *pod);

// ------------------------------------------------------------ compile.c

void pod_compile_launch_locked(struct pod *pod, struct pod_op *op,
                               struct pod_after *after);
void pod_compile_answer_locked(struct pod *pod, struct pod_call *call,
                               struct pod_answer *answer,
                               struct pod_after *after);
// A COMPILE is to stop: true if it is over with no more answers to come.
bool pod_compile_interrupt_locked(struct pod *pod, struct pod_op *op,
                                  struct pod_after *after);
void pod_load_launch_locked(struct pod *pod, struct pod_op *op,
                            struct pod_after *after);
void pod_program_free_launch_locked(struct pod *pod, struct pod_op *op,
                                    struct pod_after *after);
// Asks a host again for what it refused to free; whether there is anything.
bool pod_compile_free_again_locked(struct pod *pod, struct pod_host *host,
                                   struct pod_after *after);

// --------------------------------------------------------------- gang.c

void pod_execute_launch_locked(struct pod *pod, struct pod_op *op,
                               struct pod_after *after);
void pod_execute_answer_locked(struct pod *pod, struct pod_call *call,
                               struct pod_answer *answer,
                               struct pod_after *after);
// Checks the buffers of one replica against its program's shape.
enum pod_code pod_execute_check_locked(const struct pod_replica *replica,
                                       struct pod_err *err);

// ------------------------------------------------------------- output.c

// The leaf of a result, depth first from 0.
const struct pod_shape *pod_shape_leaf(const struct pod_shape *shape,
                                       size_t index);
// An automatic output: its shape is known now. True: go on as usual.
bool pod_output_launch_locked(struct pod *pod, struct pod_op *op);
// An operation has settled: perhaps it was the last leaf of a tuple.
void pod_output_leaf_done_locked(struct pod *pod, struct pod_op *op,
                                 struct pod_after *after);
// Outside of a step: makes the leaves of an automatic tuple.
void pod_output_expand_locked(struct pod *pod, struct pod_op *op,
                              struct pod_after *after);

// -------------------------------------------------------------- reset.c

void pod_reset_launch_locked(struct pod *pod, struct pod_op *op,
                             struct pod_after *after);
void pod_reset_answer_locked(struct pod *pod, struct pod_call *call,
                             struct pod_answer *answer,
                             struct pod_after *after);
// A RESET was accepted: everything before it ends.
void pod_reset_all_locked(struct pod *pod, struct pod_op *reset,
                          struct pod_after *after);

// Ends every open operation (but one, the root cause then) CANCELLED.
void pod_end_all_locked(struct pod *pod, const struct pod_op *but,
                        enum pod_reason reason, const char *text,
                        struct pod_after *after);

// ------------------------------------------------------------- cancel.c

// Cancels an open operation, whoever asks for it.
void pod_cancel_locked(struct pod *pod, struct pod_op *op,
                       enum pod_cancel_cascade cascade, enum pod_reason reason,
                       const char *text, struct pod_after *after);
// Every waiter is woken: the pod drains.
void pod_wake_all_locked(struct pod *pod, struct pod_after *after);

// --------------------------------------------------------------- loss.c

// A host is lost, for good or until its driver finds it again: what it held is
// lost, and what cannot go on without it ends. The drivers' calls are answered
// by themselves.
void pod_loss_locked(struct pod *pod, struct pod_host *host,
                     const struct pod_err *err, struct pod_after *after);
// The observer of a host's driver.
struct pod_driver_observer pod_loss_observer(struct pod_host *host);

// ------------------------------------------------------------- settle.c

// The operation is settled: lets everything go that it held. Once.
void pod_settle_locked(struct pod *pod, struct pod_op *op);
// A load does not stand on its program any more.
void pod_load_leave_locked(struct pod *pod, struct pod_loaded *load);
// A handle is freed by operation `number`, and that is done.
void pod_handle_gone_locked(struct pod *pod, struct pod_handle *handle,
                            uint64_t number);
// Expires what is too old or too many; a bounded number at a time.
void pod_history_trim_locked(struct pod *pod);
// When the oldest is due, or POD_NEVER.
int64_t pod_history_due_locked(const struct pod *pod);

// ---------------------------------------------------------------- pod.c

// What is due by time. The timer's thread calls it; with simulated time,
// whoever moves that.
void pod_tick(struct pod *pod);
static inline int64_t pod_now(const struct pod *pod)
{
    return pod_clock_mono(&pod->options.clock);
}

#endif
