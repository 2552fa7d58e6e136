// SPDX-License-Identifier: Apache-2.0
// The core of a worker: operations of several clients over one driver.
//
// A client is a session. Its operations have the client's own numbers, which
// are also the handles of what they make. The driver knows them by the worker's
// numbers, so clients cannot reach each other's things. An operation runs when
//   - all it waits for have succeeded, in any order of arrival: one that has
//     not come yet is waited for WORKER_FORWARD_NS, and for so long after each
//     write, for it may be on its way behind other data over a slow link. The
//     one that would close a circle of operations that wait for each other
//     fails when it comes;
//   - all it is ordered behind have ended; if one does not come in that time
//     it fails, for it would run out of order;
//   - what made its handles has succeeded;
//   - earlier operations of its session that use the same buffers, and would
//     conflict, have ended.
// When one fails, those that wait for it fail without effect, with its code and
// text and its number as their root. Numbers of operations that ended are
// remembered as intervals, so they may be waited for at any time.
//
// Threads: any; answers are given from threads of the driver or of a caller,
// with no lock held, one operation after another. Locks: POD_RANK_ENGINE.
#ifndef POD_PROTO_WORKER_H
#define POD_PROTO_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/trace.h"
#include "core/driver/driver.h"

struct worker;
struct worker_session;

#define WORKER_FORWARD_NS (60 * POD_NS_PER_S)

enum {
    WORKER_MAX_SESSIONS = 4096, // more are refused with RESOURCE_EXHAUSTED
    // Of one session; what is beyond is refused with RESOURCE_EXHAUSTED.
    WORKER_MAX_OPEN = 1 << 20,
    WORKER_MAX_FORWARD = 1 << 16,
    WORKER_MAX_FAILURES = 1 << 16, // remembered with their texts
    WORKER_MAX_INTERVALS = 1 << 20,
    WORKER_MAX_REPLICAS = 4096,
    WORKER_MAX_USES = 1 << 18, // of buffers by one operation, leaves counted
    WORKER_OWN_BIT = 43,       // numbers with it are the worker's
};

enum worker_kind {
    WORKER_ALLOCATE,
    WORKER_TUPLE,
    WORKER_DEALLOCATE,
    WORKER_WRITE,
    WORKER_READ,
    WORKER_COPY,
    WORKER_COMPILE,
    WORKER_FREE_PROGRAM,
    WORKER_LOAD,
    WORKER_UNLOAD,
    WORKER_EXECUTE,
    WORKER_TASK,
};

struct worker_op;

// An operation that writes a buffer and is not carried out by the worker core
// itself.
struct worker_task {
    // Begins it, with the driver's number of the buffer, and its size. Must end
    // with one call of worker_task_done.
    void (*start)(struct worker_task *task, struct worker_op *op,
                  uint64_t driver_buffer, uint64_t bytes);
    void (*stop)(struct worker_task *task); // end soon; any time
    void (*free)(struct worker_task *task);
};

// An execution of which other workers run replicas.
struct worker_plan {
    const uint32_t *places; // by replica: 0 here, 1 elsewhere
    // Called right before the driver gets it under this number. An error ends
    // it.
    enum pod_code (*begin)(struct worker_plan *plan, uint64_t driver_op,
                           struct pod_err *err);
    // Called once, when its outcome is known, whether it had begun or not.
    void (*end)(struct worker_plan *plan, const struct pod_err *err);
    void (*free)(struct worker_plan *plan);
};

struct worker_answer {
    uint64_t session;
    uint64_t number;
    bool started;              // it has begun; nothing else is set
    bool begun;                // it has, which was not said before
    const struct pod_err *err; // code POD_OK: it succeeded
    uint64_t root;             // whose failure this is; 0: its own
    bool compiled;             // the data is that of a compilation
    struct pod_blob *data;     // of a read; of a compilation the bytes of an
                               // xla.ProgramShapeProto; borrowed, or NULL
};

// Who gets answers. Referenced by every operation that was submitted with it.
struct worker_sink {
    // Called exactly once for each operation with its outcome. If
    // `want_started` was set there is an earlier call with `started` when it
    // begins, or, if it was done before that could be said, the outcome has
    // `begun` set.
    void (*answer)(struct worker_sink *sink,
                   const struct worker_answer *answer);
    void (*ref)(struct worker_sink *sink);
    void (*unref)(struct worker_sink *sink);
};

// Where an operation comes from, as far as the client says it.
struct worker_origin {
    struct pod_trace *trace; // NULL: not known
    uint64_t operation;      // the pod's number of it; 0: not known
    uint64_t span;
};

// An operation to be submitted. Everything is borrowed; the worker takes its
// own references to blobs and the trace.
struct worker_request {
    enum worker_kind kind;
    struct worker_origin origin;
    uint64_t number; // 1..2^44-1, not used before in the session
    const uint64_t *waits;
    size_t wait_count;
    const uint64_t *orders;
    size_t order_count;
    int priority;
    bool want_started;
    uint32_t core;                 // allocate, tuple, load: the driver's number
    const struct pod_shape *shape; // allocate: an array, or NULL for `bytes`
    uint64_t bytes;
    uint64_t target; // the handle of all but allocate, tuple, compile, execute
    uint64_t second; // copy: to
    const uint64_t *children; // tuple
    size_t child_count;
    struct worker_task *task; // owned by worker_submit in any case
    bool whole;               // read, write: all of the buffer; a tuple has no
                              // bytes; the data must fit exactly
    uint64_t offset;          // read, write
    uint64_t count;           // read
    struct pod_blob *data;    // write; compile: the program
    size_t data_offset;
    size_t data_count;
    enum pod_program_format format; // compile
    uint32_t replicas;
    // Execute: the replicas that this worker runs.
    const struct pod_driver_launch *launches; // handles of the session
    size_t launch_count;
    uint32_t replica_count;   // of the whole gang
    struct worker_plan *plan; // owned by worker_submit in any case; NULL: all
                              // replicas are on this worker
    // Compile: the replicas do not communicate, so the program is compiled for
    // one, and its executions run alone, whatever they say.
    bool independent;
    // Execute: some replicas are on other workers that cannot be reached; only
    // an independent program can run so.
    bool scattered;
    // Execute with one launch of several: the others come as operations of
    // their own, with equal programs and gang_key; they run together, the n-th
    // of each replica with the n-th of the others.
    bool gathered;
    uint64_t gang_key;
};

struct worker_options {
    struct pod_driver *driver; // not opened; freed with the worker
    struct pod_clock clock;
    int64_t gone_ns; // how long a session without streams is kept
    // Limit of the data that waiting operations hold, or that was read and the
    // client has not taken yet; more is refused with STAGING_FULL. 0: none.
    uint64_t staging_bytes;
    // Limit of all else that is held for clients: operations, handles, and how
    // operations ended. Once it is reached operations are refused with
    // TOO_MANY_REQUESTS, except the first one that drops a handle, for which
    // each handle has room from the start. 0: none.
    uint64_t client_bytes;
};

// Makes a worker and opens its driver, which the worker owns, also after a
// failure.
enum pod_code worker_new(const struct worker_options *options,
                         struct worker **out_worker, struct pod_err *err)
    __attribute__((warn_unused_result));
// Ends all sessions, and waits until their things are freed. No session may be
// opened any more. NULL is allowed.
void worker_stop(struct worker *worker);
// Stops the worker, closes its driver and frees everything; blocks. Nothing may
// use it any more. NULL is allowed.
void worker_free(struct worker *worker);
// What the driver said about its cores; constant once the worker is made.
const struct pod_driver_info *worker_info(const struct worker *worker);

// Gives up what has waited for too long: references to operations that did not
// come, idle sessions. Call it a few times a second.
void worker_tick(struct worker *worker);

// ------------------------------------------------------------------- sessions

// Opens a session, which may be without a stream for `idle_ns`. ALREADY_EXISTS:
// there is one with that id; TOO_MANY_REQUESTS; OUT_OF_MEMORY.
enum pod_code worker_open(struct worker *worker, uint64_t id, int64_t idle_ns,
                          struct pod_err *err)
    __attribute__((warn_unused_result));
// The session with a reference, or NULL.
struct worker_session *worker_find(struct worker *worker, uint64_t id);
void worker_session_unref(struct worker_session *session); // NULL is allowed
uint64_t worker_session_id(const struct worker_session *session);
// A stream of the session was opened, or has ended. `gone`: it broke off; a
// session that has no other stream is then given up soon.
void worker_stream_begins(struct worker_session *session);
void worker_stream_ends(struct worker_session *session, bool gone);

// Ends a session: its open operations are answered CANCELLED with `why` at once
// and stopped where possible, and its things are freed. Then `closed` (may be
// NULL) is called, from any thread; also if the session had already ended.
void worker_close(struct worker_session *session, const char *why,
                  void (*closed)(void *arg), void *arg);
// Ends every operation of the session and frees its things, then calls `done`.
// The session lives on, and numbers used before stay used.
void worker_reset(struct worker_session *session, void (*done)(void *arg),
                  void *arg);
// The ids of all sessions, in no order; the caller frees them with pod_free.
// OUT_OF_MEMORY.
enum pod_code worker_list(struct worker *worker, uint64_t **out_ids,
                          size_t *out_count, struct pod_err *err)
    __attribute__((warn_unused_result));

// ----------------------------------------------------------------- operations

// Submits an operation. If it is refused, that is its answer. Answers may come
// before this returns.
void worker_submit(struct worker_session *session,
                   const struct worker_request *request,
                   struct worker_sink *sink);
// A number for an operation of the worker itself in this session: from 2^43 on.
uint64_t worker_own_number(struct worker_session *session);
// A task has ended; err->code POD_OK: it succeeded.
void worker_task_done(struct worker_op *op, const struct pod_err *err);
// Writes the blob to a buffer by the driver's number of it, at once.
void worker_driver_write(struct worker *worker, uint64_t driver_buffer,
                         uint64_t offset, struct pod_blob *blob,
                         void (*done)(void *arg,
                                      const struct pod_driver_result *result),
                         void *arg);
// Answers a request that was refused before it could be submitted, and
// remembers its number as failed. Only its number and origin are used.
void worker_refuse(struct worker_session *session,
                   const struct worker_request *refused,
                   const struct pod_err *err, struct worker_sink *sink);
// The core of a load that was submitted, whether it is made yet or not; false:
// there is no such load.
bool worker_loaded_core(struct worker_session *session, uint64_t number,
                        uint32_t *out_core);
// Asks to stop an operation; unknown and ended ones are ignored.
void worker_cancel(struct worker_session *session, uint64_t number);
// The client knows the outcome of everything below `number` and will not wait
// for it: the worker may forget it.
void worker_forget(struct worker_session *session, uint64_t number);

// ------------------------------------------------------------------ for others

// Logs that a client has come ("OPENED") or was reset ("RESET"). Session 0: all
// clients.
void worker_log_client(uint64_t session, const char *peer, const char *state);

struct worker_load {
    uint64_t open; // operations of all sessions
    uint64_t sessions;
};
struct worker_core_load {
    uint64_t memory_used; // by buffers
    uint32_t queued;      // executions given to the device and not done
    uint64_t running;     // the one that has begun; 0: none
    uint64_t session;     // whose that is
};
// `out_cores` may be NULL; else it has room for every core of worker_info.
void worker_load_get(struct worker *worker, struct worker_load *out_load,
                     struct worker_core_load *out_cores);

#endif
