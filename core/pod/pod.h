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
// operation 17 made. Numbers start at 1 (or at options.first_number), rise
// by one and are never used again.
//
// This header has the pod's life, submitting, cancelling and waiting. It
// includes reading (read.h) and hosts (hosts.h).
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
#include "core/pod/hosts.h"
#include "core/pod/kinds.h"
#include "core/pod/read.h"
#include "core/pod/stream.h"
#include "core/sched/sched.h"

struct pod;

// ------------------------------------------------------------------- life

struct pod_options {
    struct pod_clock clock;
    // A random id of this run: cursors and ETags carry it. At most 31
    // characters of [a-z0-9].
    char instance[32];
    uint64_t history_count; // finished operations that are kept, at least 1
    int64_t history_age_ns; // and for how long at most
    uint64_t first_number;  // 1, or one above the last of an earlier run
    uint64_t staging_bytes; // budget of bytes held for uploads and reads
    size_t chunk_bytes;     // size of a piece of a transfer; 0: 4 MiB
    size_t change_count;    // changes that are kept (changes.h); 0: 131,072
    // An operation that its hosts have had for so long without a sign of
    // progress is stalled; 0: none ever is.
    int64_t stall_after_ns;
    // Called from any thread, with no lock held, when waiters are woken (take
    // them with pod_take_woken) or when there is a change for which
    // pod_last_change asked to be notified. Must not call back into the pod.
    void (*notify)(void *arg);
    void *notify_arg;
};

// A pod without hosts. NULL: no memory.
struct pod *pod_new(const struct pod_options *options);

// Adds a host before pod_start; afterwards there is pod_join_host. The pod owns
// the driver, also after a failure. `address` is shown to users. Hosts are
// numbered from 0 in the order they are added.
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

// Gives back to the heap what the operations of the past took, if none is left
// that has not settled; else false. What is needed of it is taken anew, so call
// it when there is much less to do than before. Any thread.
bool pod_trim(struct pod *pod);

// Stops all threads and closes all drivers. No other call may be going on.
void pod_stop(struct pod *pod);
// After pod_stop (or instead of pod_start). NULL is allowed.
void pod_destroy(struct pod *pod);

// -------------------------------------------------------------- submitting

// One replica of an execution.
struct pod_launch {
    struct pod_ref load;
    const struct pod_ref *inputs;
    size_t input_count;
    const struct pod_ref *outputs; // ignored if auto_outputs
    size_t output_count;
    bool auto_outputs; // allocate what the result needs
};

// One operation to be submitted. Everything in it is borrowed for the call; of
// blobs and streams the engine takes its own references.
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
    // Where the submission came from; NULL: unknown. The one of the first
    // request, or of a graph's `self`, counts for the whole submission. The
    // engine takes references.
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
            // The operation that must be the buffer's last writer, or
            // PRECONDITION_FAILED; 0: any.
            uint64_t if_writer;
        } write;
        struct {
            struct pod_ref buffer;
            uint64_t offset;
            uint64_t length; // UINT64_MAX: to the end
            // Where the bytes go: in pieces that fit its window, or as one
            // piece that a near host lends. A loan counts against the staging
            // budget until its last holder lets go of it. NULL: the bytes are
            // kept with the operation (pod_take_data) and count likewise.
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
// A FREE or UNLOAD of a handle that is already freed fails with HANDLE_FREED
// and sets *out_existing to the operation that freed it (out_existing may be
// NULL): a caller that asked for nothing else may take that for success.
enum pod_code pod_submit(struct pod *pod, const struct pod_request *requests,
                         size_t count, uint64_t *out_numbers,
                         uint64_t *out_existing, struct pod_err *err)
    __attribute__((warn_unused_result));
// The same, but the calls to hosts may be put off until the next pod_send. A
// thread that submits one by one so wakes each host's threads once, not every
// time.
enum pod_code pod_submit_later(struct pod *pod,
                               const struct pod_request *requests, size_t count,
                               uint64_t *out_numbers, uint64_t *out_existing,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
// Makes the calls that pod_submit_later has put off. Cheap when there are none.
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
    // Operations in which the caller has already found faults: they are not
    // checked. NULL: none.
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
// Every operation is checked. All faults are added to `faults` (which may hold
// some before), and INVALID_GRAPH is returned, or the first fault itself if a
// retry may cure all of them. An operation that refers to a faulty one is not a
// fault of its own. out_numbers has room for `count`.
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
// begun end CANCELLED at once. Errors: NOT_FOUND, EXPIRED, ALREADY_FINISHED,
// OUT_OF_MEMORY.
enum pod_code pod_cancel(struct pod *pod, uint64_t number,
                         enum pod_cancel_cascade cascade, const char *reason,
                         bool *out_again, struct pod_err *err)
    __attribute__((warn_unused_result));

// ------------------------------------------------------------------ waiting

// Somebody who waits for one operation, or host. Owned by the caller; the
// engine does not touch it once it is taken as woken, until pod_wait_remove.
struct pod_waiter {
    struct pod_list link;
    uint64_t number;
    void *owner; // the caller's
    bool registered;
    struct pod_op *held; // the engine's; NULL: none
};

// Registers the waiter and returns true, unless the operation has already
// changed since `revision` (0: has already ended), is unknown or has expired. A
// registered waiter is woken once: when the operation changes (revision != 0)
// or ends. Register, then read, then park: so no change is missed. The
// operation does not expire until pod_wait_remove, which must follow: so who is
// woken can read what became of it.
bool pod_wait_add(struct pod *pod, struct pod_waiter *waiter, uint64_t number,
                  uint64_t revision);
// Takes the waiter out, woken or not, and lets go of its operation; nothing if
// it was not registered, or if this has been called before. To wait
// until a buffer, program or load is made, wait for the operation of its
// number.
void pod_wait_remove(struct pod *pod, struct pod_waiter *waiter);
// Moves the woken waiters to `out_list` (initialised by the caller).
void pod_take_woken(struct pod *pod, struct pod_list *out_list);

// ------------------------------------------------------------------ staging

// Takes bytes from the staging budget, until pod_staging_give; false: not so
// many are left. Thread-safe.
bool pod_staging_take(struct pod *pod, uint64_t bytes);
void pod_staging_give(struct pod *pod, uint64_t bytes);
// used, max.
void pod_staging_usage(struct pod *pod, uint64_t *out_used, uint64_t *out_max);
// Whether bytes that the pod handed out count against the budget for as long as
// they are held: loans and bytes kept with an operation do, the pieces of a
// stream do not. Any thread.
bool pod_staging_has(const struct pod_blob *blob);

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
