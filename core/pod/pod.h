// SPDX-License-Identifier: Apache-2.0
// The pod engine: many hosts as one machine with many cores.
//
// It owns all pod state: topology, operations, handles, history. One lock
// guards it (rank POD_RANK_ENGINE); every function here takes it for a short
// time and none blocks on a host. Submitting an operation gives its number at
// once; its event is read or waited for. All functions are thread-safe unless
// they say otherwise, and none may be called from a waiter's notify.
//
// A number names an operation and the thing it made: buffer 17 is what
// operation 17 made. Numbers start at 1 (or where the journal left off), rise
// by one and are never used again.
#ifndef POD_POD_POD_H
#define POD_POD_POD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/trace.h"
#include "core/driver/driver.h"
#include "core/hlo/shape.h"
#include "core/pod/conditions.h"
#include "core/pod/stream.h"
#include "core/sched/sched.h"

struct pod;

// ------------------------------------------------------------------- life

struct pod_options {
    struct pod_clock clock;
    // A random id of this run (or of the state directory): cursors and ETags
    // carry it. At most 31 characters of [a-z0-9].
    char instance[32];
    uint64_t history_count; // finished operations that are kept, at least 1
    int64_t history_age_ns; // and for how long at most
    uint64_t first_number;  // 1, or one above the last of an earlier run
    uint64_t staging_bytes; // budget of bytes held for uploads and reads
    size_t chunk_bytes;     // size of a piece of a transfer; 0: 4 MiB
    size_t change_count;    // changes that are kept (changes.h); 0: 131,072
    // An operation of which nothing was heard for so long is stalled; 0: none
    // ever is.
    int64_t stall_after_ns;
    // Called from any thread, with no lock held, when waiters are woken (then
    // take them with pod_take_woken) or a change came that pod_last_change
    // asked to be told of. Must not call back into the pod.
    void (*notify)(void *arg);
    void *notify_arg;
};

// A pod without hosts. NULL: no memory.
struct pod *pod_new(const struct pod_options *options);

// Adds a host before pod_start. Takes the driver over. `address` is shown to
// users. Hosts number from 0 in the order they are added. Once the pod runs
// there is pod_join_host.
enum pod_code pod_add_host(struct pod *pod, struct pod_driver *owned_driver,
                           const char *address, struct pod_err *err)
    __attribute__((warn_unused_result));

// Opens all hosts at once and starts the outbox and timer threads. Returns at
// once; hosts become READY as they answer.
enum pod_code pod_start(struct pod *pod, struct pod_err *err)
    __attribute__((warn_unused_result));

// Blocks until every host has answered or failed once, or the time is up.
void pod_await_hosts(struct pod *pod, int64_t timeout_ns);

// From now on submissions are refused with DRAINING; parked waiters are woken.
void pod_drain(struct pod *pod);
// Blocks until no operation is open or the time is up; what is then open ends
// CANCELLED with DRAIN_TIMEOUT.
void pod_await_idle(struct pod *pod, int64_t timeout_ns);

// Stops all threads and closes all drivers. No other call may be going on.
void pod_stop(struct pod *pod);
// After pod_stop (or instead of pod_start). NULL is allowed.
void pod_destroy(struct pod *pod);

// ------------------------------------------------------------------- kinds

#define POD_KINDS(X)                                                           \
    X(ALLOCATE)                                                                \
    X(ALLOCATE_TUPLE)                                                          \
    X(FREE)                                                                    \
    X(WRITE)                                                                   \
    X(READ)                                                                    \
    X(COPY)                                                                    \
    X(COMPILE)                                                                 \
    X(LOAD)                                                                    \
    X(UNLOAD)                                                                  \
    X(EXECUTE)                                                                 \
    X(GRAPH)                                                                   \
    X(RESET)

enum pod_kind {
#define X(name) POD_KIND_##name,
    POD_KINDS(X)
#undef X
        POD_KIND_COUNT
};

const char *pod_kind_name(enum pod_kind kind);

// Why an open operation does not run yet.
#define POD_PENDINGS(X)                                                        \
    X(NONE)                                                                    \
    X(DEPENDENCY)                                                              \
    X(HOST_QUEUE)                                                              \
    X(CORE_BUSY)                                                               \
    X(GANG)                                                                    \
    X(MEMORY)                                                                  \
    X(HOST_CORDONED)                                                           \
    X(STAGING)

enum pod_pending {
#define X(name) POD_PENDING_##name,
    POD_PENDINGS(X)
#undef X
};

const char *pod_pending_name(enum pod_pending pending);

// What an id names. GRAPH's number is its operation's.
enum pod_ref_kind {
    POD_REF_NONE,
    POD_REF_OP,
    POD_REF_BUFFER,
    POD_REF_PROGRAM,
    POD_REF_LOAD,
    POD_REF_GRAPH,
    // Inside one submission: what request number `number` (an index from 0)
    // makes; `output` then picks one of an EXECUTE's automatic outputs.
    POD_REF_REQUEST,
};

struct pod_ref {
    enum pod_ref_kind kind;
    uint64_t number;
    uint32_t output; // REQUEST of an EXECUTE used as a buffer: which output
    bool has_output; // false: the thing the request itself makes
};

// ------------------------------------------------------------ submitting

struct pod_label {
    const char *key;
    const char *value;
};

// One replica of an execution.
struct pod_launch {
    struct pod_ref load;
    const struct pod_ref *inputs;
    size_t input_count;
    const struct pod_ref *outputs; // ignored if auto_outputs
    size_t output_count;
    bool auto_outputs; // allocate what the result needs
};

// One operation that is asked for. Everything is borrowed for the call, but
// for blobs and streams, of which the engine takes references of its own.
struct pod_request {
    enum pod_kind kind;

    // Common members.
    const struct pod_ref *after;
    size_t after_count;
    bool run_on_failure;
    int64_t deadline_ns; // from acceptance; POD_NEVER: none
    int priority;        // -10..10
    const struct pod_label *labels;
    size_t label_count;
    const char *name; // NULL: none
    // Where faults of this request are reported: err.pointer becomes this
    // followed by the member ("/ops/3" + "/inputs/0"). NULL: "".
    const char *pointer;
    // Where the submission came from; NULL: nobody said. That of the first
    // request, or of a graph's `self`, is the whole submission's. The engine
    // takes references.
    struct pod_trace *trace;

    union {
        struct {
            uint32_t core;
            const struct pod_shape *shape; // NULL: raw
            uint64_t bytes;                // raw only
            struct pod_blob *data;         // first contents, whole; or NULL
            unsigned char fill[16]; // or one element, repeated, if fill_size
            size_t fill_size;       // 0: none
        } allocate;
        struct {
            const struct pod_ref *children;
            size_t child_count;
        } tuple;
        struct {
            struct pod_ref handle; // BUFFER or PROGRAM
        } free;
        struct {
            struct pod_ref buffer;
            uint64_t offset;
            struct pod_blob *data;
        } write;
        struct {
            struct pod_ref buffer;
            uint64_t offset;
            uint64_t length; // UINT64_MAX: to the end
            // Where the bytes go. NULL: they are kept with the operation
            // (pod_take_data), counted against the staging budget.
            struct pod_stream *stream;
        } read;
        struct {
            struct pod_ref from;
            struct pod_ref to;
        } copy;
        struct {
            enum pod_program_format format;
            struct pod_blob *program;
            uint32_t replicas;
            // Names the content ("sha-256:..." in hex, at most 71 characters).
            // Equal digest, format and replicas are compiled once per host.
            const char *digest;
        } compile;
        struct {
            struct pod_ref program;
            uint32_t core;
        } load;
        struct {
            struct pod_ref load;
        } unload;
        struct {
            const struct pod_launch *launches; // one, or a gang's
            size_t launch_count;
            bool is_gang; // was given as launches; shown so
            // Pod core ids by replica; NULL: replica r is launches[r].
            const uint32_t *assignment;
            size_t assignment_count;
        } execute;
    };
};

// Admits all requests, in order, with consecutive numbers (automatic outputs
// take the numbers just before their execution's), or none. out_numbers has
// room for `count`. An error changes nothing; err.pointer names the place.
//
// DELETE of a handle that an operation has freed already: HANDLE_FREED with
// *out_existing set to that operation (out_existing may be NULL). A FREE or
// UNLOAD that is the only request of its submission and finds that is no
// error to the client.
enum pod_code pod_submit(struct pod *pod, const struct pod_request *requests,
                         size_t count, uint64_t *out_numbers,
                         uint64_t *out_existing, struct pod_err *err)
    __attribute__((warn_unused_result));
// The same, but hosts may hear of it only at the next pod_send: a thread that
// submits one by one hands all of it over at once, and wakes each host's
// threads once instead of every time.
enum pod_code pod_submit_later(struct pod *pod,
                               const struct pod_request *requests, size_t count,
                               uint64_t *out_numbers, uint64_t *out_existing,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
// Makes the calls of what pod_submit_later has admitted so far. Costs next to
// nothing when there are none.
void pod_send(struct pod *pod);

// ------------------------------------------------------------------ graphs
// Many operations that are submitted together, with references between them,
// under an operation of kind GRAPH that ends when all of them have.

enum {
    POD_GRAPH_MAX = 1000000, // operations in one graph
    POD_GRAPH_AFTER_MAX = 100,
};

// Faults that were found, each with its place. Zero-initialise it but for
// `items`, which has room for `capacity`.
struct pod_faults {
    struct pod_err *items;
    size_t capacity;
    size_t count;   // in `items`
    uint64_t total; // found, listed or not
};

struct pod_graph_request {
    // Of kind GRAPH: name, labels, priority. All operations wait for `after`
    // (at most POD_GRAPH_AFTER_MAX).
    const struct pod_request *self;
    // References of kind REQUEST are indices of this list and may point
    // forward. The place of operation i is "/ops/i"; request.pointer is not
    // looked at.
    const struct pod_request *const *ops;
    size_t count;
    const char *const *names; // to speak of them in cycles; NULL: by index
    // Operations in which the caller has found faults: they are not looked at.
    // NULL: none.
    const bool *refused;
    bool cancel_on_error; // on_error CANCEL_GRAPH
    bool validate_only;   // admits nothing: the numbers are not set
};

// Admits all operations or none. The graph takes the first number, its
// operations the ones after it in the order of the list (automatic outputs just
// before their execution's).
//
// An operation takes its turn at its place in the list or, if it refers to
// later ones, right behind the last of them; in that order uses of one thing
// follow each other. References in a circle are CYCLE.
//
// Every operation is checked: faults are listed in `faults` (which may hold
// some before) and INVALID_GRAPH is returned, or the first of them if all may
// go away when the request is repeated. An operation that refers to a faulty
// one is no fault of its own. out_numbers has room for `count`.
enum pod_code pod_submit_graph(struct pod *pod,
                               const struct pod_graph_request *graph,
                               uint64_t *out_graph, uint64_t *out_numbers,
                               struct pod_faults *faults, struct pod_err *err)
    __attribute__((warn_unused_result));

// Adds a copy of `fault` if there is room, and counts it.
void pod_faults_add(struct pod_faults *faults, const struct pod_err *fault);

enum pod_cancel_cascade { POD_CASCADE_NONE, POD_CASCADE_DEPENDENTS };

// Cancels an operation. *out_again: it was cancelled before (not an error).
// A graph's operation takes all of its operations with it: those that have not
// begun end CANCELLED at once. Errors: NOT_FOUND, EXPIRED, ALREADY_FINISHED.
enum pod_code pod_cancel(struct pod *pod, uint64_t number,
                         enum pod_cancel_cascade cascade, const char *reason,
                         bool *out_again, struct pod_err *err)
    __attribute__((warn_unused_result));

// ------------------------------------------------------------------ waiting

// One party that waits for one operation. Owned by the caller; not touched by
// the engine after pod_wait_remove or once taken as woken.
struct pod_waiter {
    struct pod_list link;
    uint64_t number;
    void *owner; // the caller's
    bool registered;
};

// Registers unless the operation has already changed since `revision` (0: has
// already ended), is unknown or expired: then returns false. A registered
// waiter is woken once: when the operation changes (revision != 0) or ends.
// Register, then read, then park: no change in between is missed.
bool pod_wait_add(struct pod *pod, struct pod_waiter *waiter, uint64_t number,
                  uint64_t revision);
// Waits until a buffer's or a program's or load's making has ended is the same
// as waiting for its operation.
void pod_wait_remove(struct pod *pod, struct pod_waiter *waiter);
// Moves the woken waiters to `out_list` (initialised by the caller).
void pod_take_woken(struct pod *pod, struct pod_list *out_list);

// ------------------------------------------------------------------ reading
// Views are copies; give them back with pod_view_fini. One block of memory
// holds all that a view points at.

struct pod_event_error {
    enum pod_code code;
    const char *reason; // UPPER_SNAKE
    const char *detail;
    bool from_worker;
    int line, column; // 0: none
};

struct pod_event_cause {
    uint64_t number;
    enum pod_kind kind;
    enum pod_sched_state state;
    enum pod_code code;
};

struct pod_event_launch {
    uint64_t load;
    uint32_t core;
    const uint64_t *outputs;
    size_t output_count;
};

struct pod_event_host {
    uint32_t host;
    enum pod_sched_state state; // SUCCEEDED, FAILED, LOST, or open
    enum pod_code code;
    const char *detail; // NULL if none
};

// How far a host has come with an operation that it has not answered.
enum pod_awaited_state {
    POD_AWAITED_QUEUED, // could not be given to the host yet
    POD_AWAITED_SENT,   // the host has it and has not begun it
    POD_AWAITED_BEGUN,
};

const char *pod_awaited_state_name(enum pod_awaited_state state);

enum { POD_AWAITED_SHOWN = 64 }; // at most

struct pod_event_awaited {
    uint32_t host;
    enum pod_awaited_state state;
    const uint32_t *cores; // of the host, that the operation is for
    size_t core_count;
};

enum pod_cancel_outcome {
    POD_CANCEL_NONE, // not asked
    POD_CANCEL_PENDING,
    POD_CANCEL_INTERRUPTED,
    POD_CANCEL_COMPLETED_ANYWAY,
    POD_CANCEL_NOT_INTERRUPTIBLE,
    POD_CANCEL_UNKNOWN,
};

#define POD_NO_ID UINT32_MAX

struct pod_event_view {
    uint64_t number;
    enum pod_kind kind;
    enum pod_sched_state state;
    uint64_t revision;
    uint32_t host; // POD_NO_ID: none or several
    uint32_t core;
    int64_t created_wall_ns;
    // Offsets from creation on the monotonic clock; -1: has not happened.
    int64_t ready_ns;
    int64_t running_ns;
    int64_t finished_ns;
    enum pod_pending pending;
    // Operations before it among those that wait for the same; POD_NO_ID: it
    // runs, or waits for dependencies. queue_capped: there are more.
    uint32_t queue_position;
    bool queue_capped;
    uint32_t waits_for_count;
    const uint64_t *waits_for; // the first unmet ones, at most 100
    size_t waits_for_shown;
    uint64_t graph; // it belongs to, or 0
    int priority;
    int64_t deadline_ns; // offset from creation; POD_NEVER: none
    const char *name;    // NULL: none
    const struct pod_label *labels;
    size_t label_count;
    // What it made or works on; 0: none.
    uint64_t buffer;
    uint64_t program;
    uint64_t load;
    const uint64_t *inputs; // EXECUTE with one launch, COPY (from)
    size_t input_count;
    const uint64_t *outputs; // EXECUTE
    size_t output_count;
    const struct pod_event_launch *launches; // gangs
    size_t launch_count;
    const uint64_t *loads; // COMPILE submitted with loads
    size_t load_count;
    const struct pod_event_host *hosts; // COMPILE and RESET: outcome by host
    size_t host_count;
    uint64_t bytes; // moved or allocated
    bool has_data;  // READ: its bytes are kept
    enum pod_cancel_outcome cancel;
    const char *cancel_reason; // NULL: none
    // Nothing was heard of it for long, and where that is.
    bool is_stalled;
    int64_t stalled_ns; // offset from creation: when it was heard of last
    const struct pod_event_awaited *awaited;
    size_t awaited_count;
    // FAILED, CANCELLED, SKIPPED, LOST:
    bool has_error;
    struct pod_event_error error;
    uint64_t root; // number of the root cause, itself if it failed by itself
    enum pod_kind root_kind;
    uint32_t root_host;
    uint32_t root_core;
    struct pod_event_error root_error;
    int64_t root_at_wall_ns;
    const struct pod_event_cause *causes; // nearest first, at most 16
    size_t cause_count;
    uint64_t causes_omitted;
    // Where it came from: "" if that is not known. `span` is its own.
    const char *request_id;
    const char *trace_id;
    uint64_t span;
    void *memory;
};

enum pod_handle_state {
    POD_HANDLE_PENDING,
    POD_HANDLE_READY,
    POD_HANDLE_FREED,
    POD_HANDLE_LOST,
    POD_HANDLE_FAILED,
};

const char *pod_handle_state_name(enum pod_handle_state state);

struct pod_buffer_view {
    uint64_t number;
    enum pod_handle_state state;
    bool has_shape;         // false: raw, or not known yet
    struct pod_shape shape; // an array's; of a tuple its type is TUPLE, empty
    uint64_t bytes;
    uint32_t core;
    uint32_t host;
    uint64_t last_writer; // never 0
    uint64_t freed_by;    // 0: not freed
    bool is_tuple;
    const uint64_t *children;
    size_t child_count;
    const uint64_t *readers; // since the last write, open ones, at most 100
    size_t reader_count;
    const char *name;
    void *memory;
};

struct pod_program_view {
    uint64_t number;
    enum pod_handle_state state;
    const char *name; // NULL: none
    uint32_t replicas;
    enum pod_program_format format;
    uint64_t bytes;
    char digest[72]; // as submitted
    uint64_t freed_by;
    const struct pod_event_host *hosts;
    size_t host_count;
    const uint64_t *loads; // live ones
    size_t load_count;
    bool has_shape;
    struct pod_program_shape shape; // owned by the view
    void *memory;
};

struct pod_load_view {
    uint64_t number;
    enum pod_handle_state state;
    uint64_t program;
    uint32_t core;
    uint32_t host;
    uint64_t freed_by;
};

struct pod_graph_view {
    uint64_t number;
    enum pod_sched_state state;
    uint64_t revision;
    const char *name; // NULL: none
    const struct pod_label *labels;
    size_t label_count;
    int64_t created_wall_ns;
    int64_t finished_ns; // offset from creation; -1: not yet
    bool cancel_on_error;
    uint64_t counts[POD_SCHED_LOST + 1]; // operations of the graph by state
    // The first operation that did not succeed; 0: none.
    uint64_t failed;
    enum pod_kind failed_kind;
    enum pod_sched_state failed_state;
    struct pod_event_error failed_error;
    uint64_t failed_root; // what it failed because of, itself if by itself
    // The chain that the end waited for, first operation first: from the one
    // that ended last back along the dependency that ended last, as far as
    // these are operations of the graph and kept.
    uint64_t *critical_path;
    size_t critical_path_count;     // at most POD_CRITICAL_PATH_MAX: its end
    uint64_t critical_path_omitted; // before these
    void *memory;
};

enum { POD_CRITICAL_PATH_MAX = 1000 };

// The reads: OK, NOT_FOUND (never issued, or of another kind), EXPIRED (at or
// below the last number issued and no longer kept), OUT_OF_MEMORY.
enum pod_code pod_get_event(struct pod *pod, uint64_t number,
                            struct pod_event_view *out_view,
                            struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_get_buffer(struct pod *pod, uint64_t number,
                             struct pod_buffer_view *out_view,
                             struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_get_program(struct pod *pod, uint64_t number,
                              struct pod_program_view *out_view,
                              struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_get_load(struct pod *pod, uint64_t number,
                           struct pod_load_view *out_view, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_get_graph(struct pod *pod, uint64_t number,
                            struct pod_graph_view *out_view,
                            struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_event_view_fini(struct pod_event_view *view);
void pod_graph_view_fini(struct pod_graph_view *view);
void pod_buffer_view_fini(struct pod_buffer_view *view);
void pod_program_view_fini(struct pod_program_view *view);

enum pod_stalled_filter {
    POD_STALLED_ANY,
    POD_STALLED_ONLY,
    POD_STALLED_NOT,
};

// Which events a list wants. Zero means "any" for the masks.
struct pod_event_filter {
    uint32_t states;       // bit 1 << enum pod_sched_state
    uint32_t kinds;        // bit 1 << enum pod_kind
    uint32_t host;         // POD_NO_ID: any
    uint32_t core;         // POD_NO_ID: any
    uint64_t graph;        // 0: any
    uint64_t since_number; // at least this number; 0: any
    int64_t since_wall_ns; // created at or after; INT64_MIN: any
    enum pod_stalled_filter stalled;
    const struct pod_label *labels; // all must hold
    size_t label_count;
};

// Walks numbers downwards from `below` (exclusive; UINT64_MAX: from the
// newest) and fills at most `capacity` views of things that are kept and fit.
// *out_next is where to go on (pass as `below`), or 0 at the end. It may
// return fewer than asked before the end, when it has looked at very many.
enum pod_code
pod_list_events(struct pod *pod, const struct pod_event_filter *filter,
                uint64_t below, size_t capacity,
                struct pod_event_view *out_views, size_t *out_count,
                uint64_t *out_next, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_list_buffers(struct pod *pod, uint64_t below, size_t capacity,
                               struct pod_buffer_view *out_views,
                               size_t *out_count, uint64_t *out_next,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code
pod_list_programs(struct pod *pod, uint64_t below, size_t capacity,
                  struct pod_program_view *out_views, size_t *out_count,
                  uint64_t *out_next, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_list_loads(struct pod *pod, uint64_t below, size_t capacity,
                             struct pod_load_view *out_views, size_t *out_count,
                             uint64_t *out_next, struct pod_err *err)
    __attribute__((warn_unused_result));

// The views of a list of graphs have no critical path.
enum pod_code pod_list_graphs(struct pod *pod, uint64_t below, size_t capacity,
                              struct pod_graph_view *out_views,
                              size_t *out_count, uint64_t *out_next,
                              struct pod_err *err)
    __attribute__((warn_unused_result));

// The neighbours of an operation in the graph of dependencies, breadth first.
struct pod_dependency {
    uint64_t number;
    uint32_t depth; // 1: direct
};

// Up: what it waits (or waited) for, as far as it is kept; down: open
// operations that wait for it. At most `limit`; *out_more: some were left out.
// *out_items is given back with pod_dependencies_free.
enum pod_code pod_dependencies(struct pod *pod, uint64_t number, bool down,
                               uint32_t max_depth, size_t limit,
                               struct pod_dependency **out_items,
                               size_t *out_count, bool *out_more,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_dependencies_free(struct pod_dependency *items);

// The bytes that a READ without a stream brought, as chunks in order; each a
// reference of the caller's, the array too (pod_data_fini). Errors: NOT_FOUND
// (never issued, or not such a read), EXPIRED (dropped, or kept for more than
// 10 minutes), WAIT_EXPIRED (not done yet), or the operation's own error.
struct pod_data {
    struct pod_blob **chunks;
    size_t chunk_count;
    uint64_t bytes;
    uint64_t buffer; // that was read, with its shape
    bool has_shape;
    struct pod_shape shape;
};
enum pod_code pod_take_data(struct pod *pod, uint64_t number,
                            struct pod_data *out_data, struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_data_fini(struct pod_data *data);
// Drops the kept bytes of a read: afterwards EXPIRED.
enum pod_code pod_drop_data(struct pod *pod, uint64_t number,
                            struct pod_err *err)
    __attribute__((warn_unused_result));

// ------------------------------------------------------------------ staging

// Takes bytes of the staging budget; false when others fill it. Thread-safe.
bool pod_staging_take(struct pod *pod, uint64_t bytes);
void pod_staging_give(struct pod *pod, uint64_t bytes);
// used, max.
void pod_staging_usage(struct pod *pod, uint64_t *out_used, uint64_t *out_max);

// ----------------------------------------------------------------- topology

const char *pod_host_state_name(enum pod_host_state state);

// What a host does, as it sees it itself: for all its clients.
struct pod_host_load {
    bool known;
    uint64_t open_operations;
    uint64_t memory_used; // by buffers, on all its cores
    uint64_t queued;      // executions it has and has not done
    uint32_t cores_busy;
};

// What has been stalled for longest.
struct pod_stalled_view {
    uint64_t operation; // 0: none
    enum pod_kind kind;
    uint32_t host;
};

struct pod_host_view {
    uint32_t id;
    const char *address;
    enum pod_host_state state;
    uint32_t incarnation;
    int64_t heartbeat_wall_ns; // 0: none yet
    const char *error;         // NULL: none
    const char *platform;      // NULL: not known yet
    const char *version;
    unsigned accepts;
    uint32_t chip_count;
    uint32_t core_count;
    uint64_t open_operations; // that it has a part in
    uint64_t finished_operations;
    uint64_t buffers;
    struct pod_host_load load;
    struct pod_condition conditions[POD_CONDITION_COUNT]; // by type
    struct pod_stalled_view oldest_stall;                 // on it
};

struct pod_chip_view {
    uint32_t id;
    uint32_t host;
    int32_t x, y, z;
    uint32_t first_core; // its cores are first_core .. + core_count - 1
    uint32_t core_count;
};

struct pod_core_view {
    uint32_t id;
    uint32_t host;
    uint32_t chip;
    uint32_t worker_core;
    uint64_t memory_total;
    uint64_t memory_used;
    uint32_t queue_depth;
    uint64_t running[8]; // operations that run on it now
    size_t running_count;
};

struct pod_link_view {
    uint32_t from; // chip ids, from < to
    uint32_t to;
};

// Hosts, chips and cores are in the order of their ids. Hosts that were removed
// are not among them, nor what they had: their ids are not used again.
struct pod_topology_view {
    const struct pod_host_view *hosts;
    size_t host_count;
    uint32_t host_ids; // those that were given are below these
    uint32_t core_ids;
    struct pod_condition ready; // of the pod as a whole
    struct pod_condition stalled;
    struct pod_stalled_view oldest_stall;
    uint64_t open_operations; // of the pod
    const struct pod_chip_view *chips;
    size_t chip_count;
    const struct pod_core_view *cores;
    size_t core_count;
    const struct pod_link_view *links;
    size_t link_count;
    void *memory;
};

enum pod_code pod_get_topology(struct pod *pod,
                               struct pod_topology_view *out_view,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_topology_view_fini(struct pod_topology_view *view);

// The host or core of that id; NULL: it is not there (any more).
const struct pod_host_view *
pod_topology_host(const struct pod_topology_view *view, uint32_t id);
const struct pod_core_view *
pod_topology_core(const struct pod_topology_view *view, uint32_t id);

// The errors of all that names a host: NOT_FOUND, EXPIRED (it was removed).
enum pod_code pod_cordon(struct pod *pod, uint32_t host, bool cordon,
                         struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_reconnect(struct pod *pod, uint32_t host, struct pod_err *err)
    __attribute__((warn_unused_result));

// Registers unless the host is drained (DRAINED is TRUE), was removed, or the
// pod drains: then returns false. A registered waiter is woken once, when one
// of these comes; pod_wait_remove and pod_take_woken serve it as any other.
bool pod_wait_drained(struct pod *pod, struct pod_waiter *waiter,
                      uint32_t host);

// ---------------------------------------------------------- hosts at run time

enum { POD_MAX_HOSTS = 1024 }; // that are there at one time

// Makes the driver of a host that is to be added. Without a lock of the pod but
// the one that keeps additions apart; may take its time.
struct pod_driver_maker {
    enum pod_code (*make)(void *arg, uint32_t host,
                          struct pod_driver **out_driver, struct pod_err *err);
    void *arg;
};

// Adds a host to a pod that runs (`address` NULL: it is called local:ID). It
// has the next id, is CONNECTING, and becomes
// READY by itself. Its chips and cores get the ids behind all others. Errors:
// HOST_EXISTS (a host that is there has the address), TOO_MANY_HOSTS, DRAINING,
// OUT_OF_MEMORY, those of the maker.
enum pod_code pod_join_host(struct pod *pod, const char *address,
                            const struct pod_driver_maker *maker,
                            uint32_t *out_id, struct pod_err *err)
    __attribute__((warn_unused_result));

// Takes a host away for ever; does not wait for its driver, which is closed by
// a thread of the host's own. Refused with IN_USE while operations are open on
// it or buffers or loads live there, unless `force`: then it is as if the host
// had been lost.
enum pod_code pod_remove_host(struct pod *pod, uint32_t host, bool force,
                              struct pod_err *err)
    __attribute__((warn_unused_result));

// ----------------------------------------------------------------- counters

struct pod_host_sum {
    uint32_t host;
    uint64_t operations;
};

struct pod_summary {
    uint64_t by_state[POD_SCHED_LOST + 1]; // of the operations kept
    uint64_t by_kind[POD_KIND_COUNT];
    // Operations kept that have one host, for the hosts that are there.
    const struct pod_host_sum *by_host;
    size_t host_count;
    uint64_t revision;
    uint64_t last_number;
    void *memory;
};

// O(hosts).
enum pod_code pod_get_summary(struct pod *pod, struct pod_summary *out_summary,
                              struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_summary_fini(struct pod_summary *summary);

const char *pod_instance(const struct pod *pod);
uint64_t pod_last_number(struct pod *pod);
uint64_t pod_revision(struct pod *pod);
bool pod_draining(struct pod *pod);

#endif
