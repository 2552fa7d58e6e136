// SPDX-License-Identifier: Apache-2.0
// The record of an operation, inside the pod engine.
//
// A record is made by a submission, stands in the table (below) under its
// number until it expires, and is guarded by the engine's lock. What is said
// here to be "fixed" is set before the record is admitted and never changes,
// so that it may be read without the lock while the operation is not settled.
#ifndef POD_POD_OP_H
#define POD_POD_OP_H

#include <stdatomic.h>

#include "core/pod/pod.h"

struct pod_buffer;
struct pod_compiled;
struct pod_graph;
struct pod_host;
struct pod_loaded;
struct pod_op;
struct pod_program;
struct pod_stall;
struct pod_transfer;
struct pod_work_block;

// ----------------------------------------------------------------- failures

// Why something ended badly: the root cause, shared by everything that it
// brought down. Immutable once shared.
struct pod_failure {
    atomic_long refs;
    uint64_t root; // number of the operation that failed by itself
    enum pod_kind kind;
    uint32_t host; // POD_NO_ID: none
    uint32_t core;
    enum pod_code code;
    enum pod_reason reason;
    int line, column; // 0: none
    bool from_worker; // the text came from another program
    int64_t at_wall_ns;
    char text[]; // NUL-terminated, at most POD_ERR_TEXT_BYTES
};

// A new failure with one reference, of operation `op` (host and core are the
// operation's), or NULL when there is no memory.
struct pod_failure *pod_failure_new(const struct pod *pod,
                                    const struct pod_op *op,
                                    const struct pod_err *err,
                                    bool from_worker);
struct pod_failure *pod_failure_ref(struct pod_failure *failure);
void pod_failure_unref(struct pod_failure *failure); // NULL is allowed

enum { POD_CAUSES_MAX = 16 };

// The chain of operations between a skipped operation and its root, nearest
// first. A copy, so that it outlives the records it speaks of.
struct pod_causes {
    uint32_t count;   // in `items`
    uint64_t omitted; // further ones, up to the root
    struct pod_event_cause items[];
};

// -------------------------------------------------------------------- calls

// What a call asks of a driver.
enum pod_call_kind {
    POD_CALL_ALLOCATE,
    POD_CALL_ALLOCATE_TUPLE,
    POD_CALL_DEALLOCATE,
    POD_CALL_WRITE,
    POD_CALL_READ,
    POD_CALL_LEND, // a READ that may bring the buffer's own memory
    POD_CALL_COPY,
    POD_CALL_PEER_COPY,
    POD_CALL_COMPILE,
    POD_CALL_FREE_PROGRAM,
    POD_CALL_LOAD,
    POD_CALL_UNLOAD,
    POD_CALL_EXECUTE,
    POD_CALL_RESET,
};

enum pod_call_state {
    POD_CALL_IDLE,
    POD_CALL_QUEUED, // in the host's outbox
    POD_CALL_SENT,   // the driver has it
};

// One call to one host's driver. It is part of the operation or of something
// that lives as long. Everything but the links and states is set before it is
// put in an outbox and is read there without the lock.
struct pod_call {
    struct pod_list link;        // in the host's outbox
    struct pod_list cancel_link; // in the host's list of cancels to send
    enum pod_call_kind kind;
    enum pod_call_state state; // guarded by the outbox's lock
    bool open;                 // queued or sent; guarded by the engine's lock
    bool cancel_asked;
    bool begun;                // its host has said so
    bool watched;              // for being stalled (stall.c)
    struct pod_list host_link; // in host->calls while open
    int64_t since_ns;          // when something was heard of it last
    struct pod_stall *stall;   // NULL: it is not stalled
    struct pod *pod;
    struct pod_op *op;             // NULL: of `compiled`
    struct pod_compiled *compiled; // COMPILE, FREE_PROGRAM: whose it is
    struct pod_host *host;
    uint64_t cause;          // number of the operation that it is made for
    struct pod_trace *trace; // the same operation's, for as long as it is open
    uint64_t number;       // for the driver: the operation's or an internal one
    const uint64_t *waits; // what it may be sent ahead of: the operation's
    const uint64_t *orders;
    uint32_t wait_count;
    uint32_t order_count;
    uint32_t worker_core;
    // Meaning is the kind's: slot of a transfer, launch group, PEER_COPY: host
    // that has the data.
    uint32_t index;
    uint64_t handle; // what it works on, for the driver
    uint64_t offset; // READ, LEND, WRITE
    size_t count;
    struct pod_blob *data; // WRITE: borrowed from the transfer
    size_t data_offset;
};

// -------------------------------------------------------------------- uses

// One operation reads a buffer, from its submission until it is settled.
struct pod_use {
    struct pod_list link; // in the buffer's readers
    struct pod_buffer *buffer;
    struct pod_op *op;
};

// One operation writes a buffer. What it put aside when it was submitted, so
// that a batch that fails can be undone.
struct pod_write {
    struct pod_buffer *buffer;
    struct pod_op *writer_before;
    uint64_t writer_number_before;
    struct pod_list readers_before;
};

// One replica of an execution. Fixed but for outputs, which an automatic
// tuple's launch may fill in.
struct pod_replica {
    struct pod_loaded *load; // valid until the operation is settled
    uint64_t load_number;
    uint32_t core;
    uint32_t host;
    uint32_t replica;
    uint64_t *inputs; // buffer numbers
    size_t input_count;
    uint64_t *outputs;
    size_t output_count;
    struct pod_buffer **input_buffers; // valid until the operation is settled
    struct pod_buffer **output_buffers;
};

// ---------------------------------------------------------------- operations

enum pod_op_stage {
    POD_STAGE_MAIN,
    POD_STAGE_PREPARE, // LOAD: compiles first; ALLOCATE: makes a tuple's leaves
    POD_STAGE_BYTES,   // moves bytes
    POD_STAGE_UNDO,    // ALLOCATE: gives back what cannot be filled
    POD_STAGE_OVER,    // its host has let go of it
};

// What is needed of an operation until it is settled: many more are kept than
// are at work. Its lists stand behind it, but for those that have grown.
struct pod_work {
    struct pod_work_block *block; // it stands in (work.c)
    struct pod_op *op;            // whose it is
    struct pod_list local;        // in pod->local: done without a driver
    struct pod_list memory_link;  // FREE, ALLOCATE: in its core's frees
    struct pod_use *uses;         // buffers it reads
    size_t use_count;
    struct pod_call call;   // the call of its own number
    struct pod_call *calls; // one a host: RESET, EXECUTE
    size_t call_count;
    // In the list of what it waits for while launched; later, if it is `owed`,
    // in its host's.
    struct pod_list joined;
    // Those of the operation's `deps` that it may be sent ahead of: the first
    // must go well, the others must only end (fixed).
    uint64_t *waits;
    uint64_t *orders;
    uint32_t wait_count;
    uint32_t order_count;
    uint32_t open_leaves; // of an automatic tuple that is being made

    // ---- EXECUTE
    struct pod_load_use *load_uses;            // one a replica
    struct pod_driver_launch *driver_launches; // grouped by call
    uint32_t *group_starts;  // first launch of each call; call_count + 1
    uint32_t *replica_hosts; // by replica
    uint32_t *replica_cores;
    uint32_t *replica_worker_cores;

    // ---- while it is submitted
    struct pod_op *doomed_by;
    struct pod_write *writes; // buffers it writes
    size_t write_count;
    size_t write_capacity;

    // ---- growth
    size_t use_capacity;
    // The same as calls, uses and writes if they have grown, else NULL.
    struct pod_call *grown_calls;
    struct pod_use *grown_uses;
    struct pod_write *grown_writes;
};

// The bytes of a READ without a stream (data.c).
struct pod_data_chunks {
    struct pod_blob **chunks;
    size_t count;
    uint64_t bytes; // to give back to the staging budget
};

struct pod_kept {
    struct pod_op *op;
    struct pod_list link; // in pod->data, by time
    bool there;           // they may be taken
    bool dropped;         // they are not there any more
    int64_t until_ns;     // monotonic: when they are dropped
    struct pod_data_chunks data;
};

// What each step looks at comes first, within three lines of the cache: with
// many operations in flight each line comes from memory.
struct pod_op {
    uint64_t number;
    enum pod_kind kind;
    enum pod_sched_state state;
    struct pod_sched_node *node; // NULL once released by the scheduler
    uint64_t revision;
    uint64_t change;      // its last one in the log of changes
    struct pod_list link; // in pod->open, then (retired) in pod->history
    struct pod_list change_waiters;
    struct pod_list end_waiters;

    // ---- the life
    int64_t created_ns; // monotonic
    int64_t ready_ns;   // offsets from created_ns; -1: not happened
    int64_t running_ns;
    int64_t finished_ns;
    int64_t retired_ns; // monotonic: when it became history
    bool settled;       // ended, and its host has let go of it
    bool launched;
    bool retired; // stands in pod->history
    bool expired; // out of the table: to be freed
    bool owed;    // its host refused to let go of what it was to (owed.c)

    // ---- the request (fixed), and more below
    bool run_on_failure;
    bool is_gang;     // EXECUTE that was given as launches
    bool auto_output; // ALLOCATE for an execution, shape from its program
    bool waits_for_memory;
    uint32_t host; // POD_NO_ID: none or several
    uint32_t core;

    // ---- the work
    enum pod_op_stage stage;
    // What the answers so far say it comes to; SUCCEEDED until a bad one.
    enum pod_sched_state outcome;
    enum pod_cancel_outcome cancel;
    uint32_t open_calls;
    uint32_t pins;                 // last writer of a buffer, and the like
    int8_t priority;               // (fixed)
    struct pod_work *work;         // NULL: it is settled, and not owed
    struct pod_transfer *transfer; // NULL: no bytes go through podd
    struct pod_stall *stalls;      // its calls that are stalled; NULL: none

    // ---- what it made (by kind), owned by this record; NULL: nothing
    struct pod_buffer *buffer;
    struct pod_program *program;
    struct pod_loaded *load;
    struct pod_graph *members; // GRAPH

    // ---- what it works on: valid until the operation is settled, then NULL
    struct pod_buffer *target; // written, read, freed, copied to
    struct pod_buffer *source; // COPY
    struct pod_program *target_program;
    struct pod_loaded *target_load;

    // ---- the same as numbers: for showing, always valid (fixed)
    uint64_t buffer_number;  // made, written, read, freed, copied to
    uint64_t program_number; // made, freed, loaded
    uint64_t load_number;    // made, unloaded
    uint64_t from_number;    // COPY
    uint64_t *load_numbers;  // COMPILE with loads in the same submission
    size_t load_number_count;
    struct pod_replica *replicas; // EXECUTE
    size_t replica_count;
    uint64_t bytes; // moved or allocated

    // ---- the rest of the request (fixed)
    int64_t created_wall_ns;
    int64_t deadline_ns; // as submitted, offset from creation; POD_NEVER
    char *name;          // NULL: none
    struct pod_label *labels;
    size_t label_count;
    uint64_t graph; // 0: none
    // The operation of that number; valid until this one has ended.
    struct pod_op *graph_op;
    uint64_t graph_change;   // GRAPH: its last change as a graph
    struct pod_trace *trace; // with a reference; NULL: not known

    // ---- dependencies
    uint64_t *deps; // numbers, as found at submission
    uint32_t dep_count;
    uint32_t dep_met;  // the first so many are known to be settled
    uint64_t dep_mark; // scratch of the submission that looked at it last
    size_t dep_index;

    // ---- work of some kinds
    struct pod_list doomed;        // while many are ended at once
    struct pod_compiled *compiled; // COMPILE: of its own, until launched
    // COMPILE and RESET: the outcome by host; NULL else.
    struct pod_outcome *outcomes;
    size_t outcome_count;
    size_t outcome_room;     // COMPILE: hosts there were when it was asked for
    struct pod_op *tuple_of; // the automatic tuple whose leaf it makes
    struct pod_kept *kept;   // READ without a stream; NULL: none
    struct pod_shape *shape; // READ: of the buffer; NULL: raw

    // ---- the end
    // Set before it ends if it fails by itself; from its cause if it is
    // skipped.
    struct pod_failure *failure;
    struct pod_causes *causes; // NULL: it is its own root, or no memory
    uint64_t root;             // number of the root; 0: ended well
    char *cancel_reason;

    void *arrays; // EXECUTE: memory of the replicas' lists
    void *block;  // memory of name, labels, and of arrays by kind
};

// What its life and its work change is in the first so many bytes of a record.
enum { POD_OP_LIVE_BYTES = offsetof(struct pod_op, buffer_number) };

// The outcome of a compile or a reset on one host.
struct pod_outcome {
    uint32_t host;
    enum pod_sched_state state;
    struct pod_failure *failure; // NULL: none
};

// What it was accepted for takes away a handle, which nobody can name any more:
// its hosts let go of it whatever becomes of the operation.
static inline bool pod_op_takes(const struct pod_op *op)
{
    return op->kind == POD_KIND_FREE || op->kind == POD_KIND_UNLOAD;
}

static inline bool pod_op_ended(const struct pod_op *op)
{
    return pod_sched_terminal(op->state);
}

// Whether it is a READ whose bytes may be taken.
static inline bool pod_op_has_data(const struct pod_op *op)
{
    return op->kept != NULL && op->kept->there;
}

// ------------------------------------------------------------------- table

enum { POD_TABLE_PAGE = 1024 };

struct pod_table_page {
    uint32_t count;
    struct pod_op *ops[POD_TABLE_PAGE];
};

// Operations by number: numbers are dense and rise, so this is a directory of
// pages that goes when they are empty.
struct pod_table {
    struct pod_table_page **pages;
    size_t page_count;
    size_t page_capacity;
    uint64_t first_page; // number / POD_TABLE_PAGE of pages[0]
};

void pod_table_fini(struct pod_table *table); // not the records
// Makes room for the numbers first..first + count - 1, which are above all
// others. False: no memory.
bool pod_table_reserve(struct pod_table *table, uint64_t first, size_t count);
// Needs pod_table_reserve before.
void pod_table_put(struct pod_table *table, struct pod_op *op);
struct pod_op *pod_table_get(const struct pod_table *table, uint64_t number);
void pod_table_remove(struct pod_table *table, uint64_t number);
// The operation with the greatest number below `below`, or NULL.
struct pod_op *pod_table_before(const struct pod_table *table, uint64_t below);

#endif
