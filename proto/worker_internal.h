// SPDX-License-Identifier: Apache-2.0
// For proto/worker*.c only.
//
// Everything is guarded by the worker's lock. What must happen without it
// (calls of the driver, answers) is noted in an operation's `todo` and done by
// worker_flush_locked, one operation at a time, whichever thread comes; so
// driver calls keep the order in which they were decided.
//
// The life of an operation: it is built and submitted to the scheduler; LAUNCH
// gives it to the driver; it ends (its outcome is known and remembered, its
// answer is due); it settles (nobody uses its buffers any more); the scheduler
// releases it and it is freed.
//
// A number that is waited for before it came has a stand-in, an operation with
// `forward` set and nothing to do; when the real one has settled, the stand-in
// ends as it did.
#ifndef POD_PROTO_WORKER_INTERNAL_H
#define POD_PROTO_WORKER_INTERNAL_H

#include <stdatomic.h>

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/map.h"
#include "core/sched/sched.h"
#include "proto/worker.h"
#include "proto/worker_ids.h"

// Bits of worker_op.todo.
enum {
    WORKER_TODO_LAUNCH = 1,
    WORKER_TODO_STARTED = 2, // tell the client
    WORKER_TODO_ANSWER = 4,
    WORKER_TODO_CANCEL = 8,   // tell the driver
    WORKER_TODO_RESOLVE = 16, // its stand-in ends
    WORKER_TODO_ABORT = 32,   // its gang has failed
    WORKER_TODO_FREE = 64,    // last
};

enum worker_object_kind {
    WORKER_NO_OBJECT, // not known yet, or its maker makes nothing
    WORKER_BUFFER,
    WORKER_TUPLE_OBJECT,
    WORKER_PROGRAM,
    WORKER_LOADED,
};

struct worker_op;

// An operation of this kind takes a thing away.
static inline bool worker_drops(enum worker_kind kind)
{
    return kind == WORKER_DEALLOCATE || kind == WORKER_FREE_PROGRAM ||
           kind == WORKER_UNLOAD;
}

// What an operation makes, known as soon as its number is.
struct worker_object {
    struct worker *worker;
    uint64_t number;
    enum worker_object_kind kind;
    uint64_t driver_op;
    uint32_t core;
    uint64_t bytes;
    struct pod_list member;  // in the session's object_list, or alone
    int refs;                // one for the map, one for each that names it
    bool made;               // it exists on the driver
    bool leaving;            // an operation with `takes` drops it
    struct worker_op *maker; // until it has settled
    // Uses by operations that have not settled, but for those that a later
    // writer waits for: whoever waits for that one waits for them.
    struct pod_list readers; // struct worker_use
    struct pod_list writers;
    uint64_t source;  // a load: its program
    bool independent; // a program or load: worker_request.independent
    struct worker_object **children; // of a tuple, with references
    size_t child_count;
    size_t depth; // of a tuple: tuples in it, and itself
    size_t nodes; // of a tuple: itself and all in it, else 1
};

// That an operation reads or writes a buffer.
struct worker_use {
    struct worker_op *op;
    struct worker_object *object; // with a reference
    bool write;
    struct pod_list link; // in the object's readers or writers
};

// Executions that run together, each an operation of its own.
struct worker_gang {
    struct worker *worker;
    struct pod_list link; // in the session's, until all have come
    uint64_t program;
    uint64_t key;
    int refs;
    size_t count;
    size_t joined;
    size_t ready;
    bool launched; // as one call of the driver
    bool failed;
    struct pod_err *err;
    uint64_t root;
    bool *came;                  // by replica, whether it has ended or not
    struct worker_op **running;  // what the driver has, until it is done
    struct worker_op *members[]; // that have not ended
};

struct worker_op {
    struct worker_session *session; // with a reference
    struct worker_request request;  // its arrays lie behind this struct
    uint64_t driver_op;
    struct pod_sched_node *node; // NULL before it is submitted and at the end
    struct worker_op *stand_in;  // others wait for this one's number through it
    bool forward;                // it is a stand-in itself
    int64_t since_ns;            // of a stand-in
    bool ended;
    bool settled;
    bool worked;   // the driver said it succeeded
    bool upward;   // it may wait for a higher number
    bool takes;    // it drops named[0], with the room that this has for it
    uint64_t mark; // worker.mark: it waits for what is being submitted
    unsigned todo;
    struct pod_list turn;    // in the worker's turns
    struct pod_list member;  // in the session's op_list until it has ended
    struct pod_list waiting; // of a stand-in: in the session's forwards
    struct pod_list visit;   // in the list of worker_link_mark_locked
    size_t kept;             // of worker.kept
    size_t staged;           // of worker.staged: what it is to read
    struct pod_err *err;     // NULL: none; owned unless it is shared
    uint64_t root;
    struct pod_blob *result;
    struct worker_sink *sink;
    struct worker_object *makes;  // with a reference
    struct worker_object **named; // with references, in order of the request
    size_t named_count;
    struct worker_use *uses;
    size_t use_count;
    struct worker_gang *gang;
    uint32_t gang_place;
    struct pod_shape shape;
};

// The text of a failure that is remembered.
struct worker_failure {
    struct pod_list link; // oldest first
    uint64_t number;
    uint64_t root;
    struct pod_err err;
};

enum worker_ending {
    WORKER_LIVES,
    WORKER_RESETS,
    WORKER_CLOSES,
    WORKER_GONE,
};

// Who waits for the end of a close or reset.
struct worker_waiter {
    struct pod_list link;
    void (*done)(void *arg);
    void *arg;
};

struct worker_session {
    struct worker *worker;
    uint64_t id;
    int refs; // the map's, streams', operations'
    enum worker_ending ending;
    struct pod_map ops; // open ones and stand-ins, by number
    struct pod_list op_list;
    struct pod_map objects; // by number
    struct pod_list object_list;
    struct worker_ids done;
    struct worker_ids failed;
    size_t kept;       // of worker.kept: for these numbers
    uint64_t next_own; // number of the worker's own operations
    uint64_t floor;    // numbers below count as done and are not remembered
    struct pod_map failures;
    struct pod_list failure_list;
    size_t unsettled;
    struct pod_list forwards; // stand-ins nobody resolved, oldest first
    size_t forward_count;
    int64_t data_ns;       // when the bytes of a write came last
    size_t upward;         // operations with that set
    struct pod_list gangs; // not complete
    struct pod_list waiters;
    struct pod_list sweep; // in the worker's sweeps
    size_t sweeping;       // things being freed
    size_t streams;
    int64_t idle_ns;
    int64_t expires_ns;
};

// Bytes of data that operations hold, and of what was read until it has left.
// gRPC may let go of that after the worker is gone.
struct worker_staged {
    atomic_long refs;
    _Atomic uint64_t bytes;
};

struct worker {
    struct pod_mutex lock; // guards all that is not constant
    struct pod_cond changed;
    struct pod_sched *sched;
    struct pod_map sessions;
    struct pod_list turns;  // struct worker_op with something to do
    struct pod_list sweeps; // sessions whose things are to be freed
    bool flushing;
    uint64_t next_driver_op;
    uint64_t open_ops;
    struct worker_staged *staged; // with a reference
    uint64_t kept;                // bytes of all else that is held for clients
    struct worker_core_load *loads; // by core
    bool ready;                     // the driver is open
    bool known_only; // what is being submitted waits for nothing to come
    struct pod_sched_dep *deps; // scratch
    size_t dep_count;
    size_t dep_capacity;
    uint64_t mark; // counts what was submitted
    // Constant.
    struct pod_driver *driver;
    struct pod_clock clock;
    int64_t gone_ns;
    uint64_t staging_bytes;
    uint64_t client_bytes;
    struct pod_driver_info info;
};

// --------------------------------------------------------------- its memory

// What goes with each thing that is held for a client: a node of the scheduler,
// places in maps and lists, what the allocator adds.
enum { WORKER_MORE_BYTES = 128 };

// What a handle has room for from the start: the operation that will drop it,
// which must not be refused for want of memory.
enum {
    WORKER_DROP_BYTES = sizeof(struct worker_op) + sizeof(struct worker_use) +
                        2 * WORKER_MORE_BYTES
};

// Clients have as much of it as they may.
static inline bool worker_is_full_locked(const struct worker *worker)
{
    return worker->client_bytes != 0 && worker->kept >= worker->client_bytes;
}

// ------------------------------------------------------------------- worker.c

static inline int64_t worker_now(const struct worker *worker)
{
    return pod_clock_mono(&worker->clock);
}

// Something is to be done for the operation.
void worker_todo_locked(struct worker_op *op, unsigned bits);
// Does all that is to be done; drops and takes the lock.
void worker_flush_locked(struct worker *worker);
// A step of the scheduler, and what follows for the operations.
enum pod_code
worker_step_locked(struct worker *worker, const struct pod_sched_event *event,
                   struct pod_sched_node **out_node, struct pod_err *err)
    __attribute__((warn_unused_result));
// A step that cannot fail.
void worker_move_locked(struct worker *worker, enum pod_sched_event_kind kind,
                        struct worker_op *op, enum pod_sched_state state);

// --------------------------------------------------------------- worker_log.c

// The operation has its answer. Without the lock.
void worker_log_ended(uint64_t session, const struct worker_request *request,
                      const struct pod_err *err, uint64_t root);

// ------------------------------------------------------------ worker_staged.c

void worker_staged_unref(struct worker_staged *staged);
// Whether so many bytes more may be staged. STAGING_FULL.
enum pod_code worker_staged_check(const struct worker *worker, uint64_t bytes,
                                  struct pod_err *err)
    __attribute__((warn_unused_result));
// Stages what an operation is to read, if it reads. STAGING_FULL.
enum pod_code worker_staged_read_locked(struct worker_op *op,
                                        struct pod_err *err)
    __attribute__((warn_unused_result));
// What it has read, staged until the last reference goes, which may be when the
// worker is gone. NULL: no memory.
struct pod_blob *worker_staged_keep(struct worker_op *op,
                                    struct pod_blob *data);

// ----------------------------------------------------------- worker_session.c

void worker_session_unref_locked(struct worker_session *session);
// Begins to close or reset it, unless it closes already.
void worker_session_end_locked(struct worker_session *session,
                               enum worker_ending ending, const char *why);
// An operation has settled: the last one lets a close or reset go on.
void worker_session_settled_locked(struct worker_session *session);
// Frees the things of a session that has ended; drops and takes the lock.
void worker_session_sweep_locked(struct worker_session *session);

// ---------------------------------------------------------------- worker_op.c

// Copies an error, or a constant one when there is no memory.
struct pod_err *worker_err_copy(const struct pod_err *err);
void worker_err_free(struct pod_err *err);
// The operation's own copy of request.launches.
struct pod_driver_launch *worker_op_launches(struct worker_op *op);
void worker_op_free_locked(struct worker_op *op);
// The outcome is known.
void worker_op_end_locked(struct worker_op *op, enum pod_sched_state state,
                          const struct worker_op *cause);
void worker_op_settle_locked(struct worker_op *op);
// Sets `err` of an operation that has none yet.
void worker_op_blame_locked(struct worker_op *op, const struct pod_err *err,
                            uint64_t root);

// ------------------------------------------------------------ worker_outcome.c

// Makes sure that so many more numbers can be added to `ids`, which is the
// session's `done` or `failed`. false: no memory, or too many intervals.
bool worker_remember_room_locked(struct worker_session *session,
                                 struct worker_ids *ids, size_t room);
// Remembers how a number ended: `err` is NULL if well. There must be room.
void worker_remember_locked(struct worker_session *session, uint64_t number,
                            const struct pod_err *err, uint64_t root);
// Forgets the texts of failures.
void worker_forget_texts_locked(struct worker_session *session);

// --------------------------------------------------------------- worker_link.c

// What an operation that is being submitted waits for, in this order.

// Notes whether it may wait for a higher number.
void worker_link_upward_locked(struct worker_op *op,
                               const struct worker_request *request);
// Marks all that waits for it already: it can wait for none of these.
void worker_link_mark_locked(struct worker_op *op);
bool worker_link_waits_for_it(const struct worker *worker,
                              const struct worker_op *op);
// The edges to what it is to wait for, and what makes the things it names
// (op->named). The failure of one that failed already, with its root.
enum pod_code worker_link_waits_locked(struct worker_op *op,
                                       const struct worker_request *request,
                                       uint64_t *out_root, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code worker_link_named_locked(struct worker_op *op,
                                       const struct worker_request *request,
                                       uint64_t *out_root, struct pod_err *err)
    __attribute__((warn_unused_result));

// ------------------------------------------------------------ worker_object.c

void worker_object_unref_locked(struct worker_object *object);
// The object of a number, with a reference; made if the number may still come.
// UNKNOWN_HANDLE, OUT_OF_MEMORY, or the failure of its maker (in *out_root).
enum pod_code worker_object_find_locked(struct worker_session *session,
                                        uint64_t number,
                                        struct worker_object **out_object,
                                        uint64_t *out_root, struct pod_err *err)
    __attribute__((warn_unused_result));
// The object that the operation makes; takes a stand-in's object over.
enum pod_code worker_object_make_locked(struct worker_op *op,
                                        struct pod_err *err)
    __attribute__((warn_unused_result));
// The object is on the driver, or is not any more.
void worker_object_made_locked(struct worker *worker,
                               struct worker_object *object, bool made);
// Fills op->uses and notes the edges that follow.
enum pod_code worker_uses_locked(struct worker_op *op, struct pod_err *err)
    __attribute__((warn_unused_result));
// Takes the operation out of the objects it uses.
void worker_unuse_locked(struct worker_op *op);
// After the operation has settled: what it made or dropped.
void worker_objects_settle_locked(struct worker_op *op);
// One edge more for the operation that is being submitted.
enum pod_code worker_dep_locked(struct worker *worker, struct worker_op *on,
                                bool carries, struct pod_err *err)
    __attribute__((warn_unused_result));
// The open operation or the stand-in of a number that has not come, making it
// if need be; NULL with POD_OK: it is done. A failure: as above.
enum pod_code worker_await_locked(struct worker_session *session,
                                  uint64_t number, struct worker_op **out_op,
                                  uint64_t *out_root, struct pod_err *err)
    __attribute__((warn_unused_result));
// The same for a number that need not end well: NULL also if it failed, and
// where nothing is waited for that is still to come.
enum pod_code worker_follow_locked(struct worker_session *session,
                                   uint64_t number, struct worker_op **out_op,
                                   struct pod_err *err)
    __attribute__((warn_unused_result));

// ------------------------------------------------------------- worker_check.c

// Of an operation that is to be launched. UNKNOWN_HANDLE, BAD_LENGTH,
// UNIMPLEMENTED.
enum pod_code worker_check(const struct worker_op *op, struct pod_err *err)
    __attribute__((warn_unused_result));

// --------------------------------------------------------------- worker_run.c

// Gives it to the driver; drops and takes the lock.
void worker_launch_locked(struct worker_op *op);

// -------------------------------------------------------------- worker_gang.c

// Finds or makes the gang of a gathered execution of the load `number`.
enum pod_code worker_gang_join_locked(struct worker_op *op, uint64_t number,
                                      uint64_t *out_root, struct pod_err *err)
    __attribute__((warn_unused_result));
// A member that turns out to run alone goes.
void worker_gang_detach_locked(struct worker_op *op);
// One more member may begin: whether all may.
bool worker_gang_ready_locked(struct worker_op *op);
// The operation has ended: if badly, so do the others.
void worker_gang_ended_locked(struct worker_op *op);
void worker_gang_unref_locked(struct worker_gang *gang);
// All members are given to the driver as one call with this number.
void worker_gang_begin_locked(struct worker_gang *gang, uint64_t driver_op);
// No other member will come.
void worker_gang_leave_list_locked(struct worker_gang *gang);

#endif
