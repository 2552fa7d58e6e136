// SPDX-License-Identifier: Apache-2.0
// The pod's own struct, and what the files of the engine offer each other.
//
// Every function whose name ends in _locked needs pod->lock held. The pattern
// of every entry: lock, steps, collect what is to be done in a struct
// pod_after, unlock, do it (pod_enter, pod_leave).
#ifndef POD_POD_INTERNAL_H
#define POD_POD_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/pod/changes.h"
#include "core/pod/conditions.h"
#include "core/pod/handle.h"
#include "core/pod/host_info.h"
#include "core/pod/metrics.h"
#include "core/pod/op.h"
#include "core/pod/pod.h"

// ----------------------------------------------------------------- topology

// One host. `outbox_lock` guards what stands below it; the rest is the
// engine lock's.
//
// A host that was removed is shown no more and gets no more calls. Its record
// stays for the operations in the table that name it, and while its driver is
// being closed (host.c).
struct pod_host {
    struct pod *pod;
    uint32_t id;
    // One for the pod's table, one for each thread that makes its calls.
    atomic_long refs;
    struct pod_driver *driver; // owned; closed by the last of its threads
    char *address;
    enum pod_host_state state; // CORDONED only shows while connected
    bool cordoned;
    struct pod_list cordon_link; // in pod->cordoned
    bool answered;               // has become ready or failed once
    bool refused;                // LOST for what it said of itself
    bool opening; // the driver is being opened by whoever added it
    bool removed;
    bool ended;           // removed, and its driver is no more
    uint32_t incarnation; // counts how often it became ready
    int64_t heartbeat_wall_ns;
    struct pod_host_load load; // as of then
    char error[256];           // of the last loss; "" if none
    struct pod_failure *loss;  // the last loss, for what it brings down
    // What it said of itself; NULL before the first time (topology.c).
    struct pod_host_info *info;
    unsigned features;
    unsigned accepts;
    bool placed;         // its cores have pod core ids
    uint32_t first_core; // they are first_core .. + core_count - 1
    uint32_t core_count;
    uint32_t first_chip;
    uint32_t chip_count;
    int32_t shift; // of its chips' x, so that slices stand side by side
    struct pod_slice_key slice; // set with `info`
    struct pod_list handles;    // pod_handle.host_link: live, not lost
    struct pod_list owed;       // pod_op.joined: what it did not let go of
    uint64_t owed_programs;     // of which it did not either
    int64_t owed_due_ns;        // when it may be asked for that again
    int64_t owed_wait_ns;       // how long it was left alone before
    struct pod_list calls;      // pod_call.host_link: open, as they were queued
    uint64_t stalled_calls;     // of them
    int64_t unseen_ns;          // when a look at them last left some out
    struct pod_condition conditions[POD_CONDITION_COUNT];
    struct pod_list drain_waiters; // pod_waiter.link: until it is drained
    uint64_t mark;                 // scratch of who counts hosts
    uint64_t open_operations;      // that it has a part in
    uint64_t finished_operations;  // kept or not
    uint64_t kept_operations;      // in the table
    uint64_t buffers;              // live
    uint64_t change;               // its last one

    struct pod_mutex outbox_lock;
    struct pod_cond outbox_cond;
    struct pod_list outbox;  // pod_call.link, in order
    struct pod_list cancels; // pod_call.cancel_link
    bool draining;           // some thread makes its calls now
    bool left;               // calls are left to its own thread
    bool stopping;
    bool ends;      // stopping for good: its thread closes the driver
    bool reconnect; // the driver is to be told so
    pthread_t thread;
    bool has_thread;
    bool opened; // the driver was; of whoever starts and stops the pod
};

enum {
    // Executions of a core that a host which keeps their order has at a time.
    POD_AHEAD_WINDOW = 16,
};

// Whether calls can be made: READY or CORDONED.
static inline bool pod_host_up(const struct pod_host *host)
{
    return host->state == POD_HOST_READY || host->state == POD_HOST_CORDONED;
}

struct pod_core {
    struct pod_list spare_link; // in pod->spare_cores
    uint32_t id;
    uint32_t host;
    uint32_t chip;
    uint32_t worker_core;
    uint32_t lane; // of the scheduler, for executions
    uint64_t memory_total;
    uint64_t memory_used; // of buffers that exist now
    // Accepted allocations that are neither freed nor failed.
    uint64_t reserved;
    // Memory order (memory.c): unsettled frees, and allocations that had to
    // wait for frees, as they were accepted (pod_op.memory_link).
    struct pod_list frees;
    uint32_t open_operations;
    uint64_t running[8]; // operations that run on it now
    size_t running_count;
    uint32_t running_executions; // how many of all that run
    uint64_t stall_mark;         // of the last look that found it taken
};

struct pod_chip {
    uint32_t id;
    uint32_t host;
    int32_t x, y, z;
    uint32_t first_core;
    uint32_t core_count;
};

// Given by topology.c.
//
// The host is open (again). Takes the info over, whatever comes of it. The
// cores of a host get their pod ids when it and every host before it has
// answered once (host->answered, set here), so they number in order of hosts;
// those of a host that failed before it answered come after all that are placed
// then. Sets host->features, accepts, placed; adds lanes. WORKER_ERROR: the
// host came back as another machine, or claims the place of another host of its
// slice; it must not be used. OUT_OF_MEMORY.
enum pod_code pod_topology_ready_locked(struct pod *pod, struct pod_host *host,
                                        struct pod_host_info *owned_info,
                                        struct pod_err *err)
    __attribute__((warn_unused_result));
// A host has failed before it answered: those behind it may be placed now.
// Sets host->answered.
void pod_topology_failed_locked(struct pod *pod, struct pod_host *host);
// Nothing names a removed host any more: the records of its cores go. Its ids
// stay unused.
void pod_topology_forget_locked(struct pod *pod, struct pod_host *host);
void pod_topology_fini(struct pod *pod);

// ---------------------------------------------------------------------- pod

enum pod_phase {
    POD_PHASE_NEW,
    POD_PHASE_RUNNING,
    POD_PHASE_DRAINING,
    POD_PHASE_STOPPED,
};

// An edge that a submission found.
struct pod_edge {
    struct pod_op *op;
    bool carries;
    bool ahead; // the host of both keeps the order
};

// Scratch of submissions, kept from one to the next.
struct pod_edges {
    struct pod_edge *items;
    struct pod_sched_dep *deps; // of one operation, for the scheduler
    size_t count;
    size_t capacity;
};

// Something about an operation, for the log (notes.c).
struct pod_note {
    enum pod_log_event event;
    enum pod_log_level level;
    uint64_t number;
    enum pod_kind kind;
    enum pod_sched_state state;
    uint32_t host;
    uint32_t core;
    uint64_t graph;
    uint64_t root;
    int64_t took_ns;
    const char *detail;          // fixed text, or NULL
    struct pod_failure *failure; // with a reference, or NULL
    struct pod_trace *trace;     // the same
};

struct pod_notes {
    struct pod_note *items; // a ring
    size_t first;
    size_t count;
    uint64_t dropped; // for want of room
};

// As many outboxes are emptied by the thread that filled them; if there are
// more their hosts' own threads are woken.
enum { POD_KICKED_MAX = 16 };

// Hosts whose outboxes have calls; each is a reference.
struct pod_kicked {
    size_t count;
    struct pod_host *hosts[POD_KICKED_MAX];
};

struct pod {
    struct pod_mutex lock;
    struct pod_mutex join_lock; // hosts are added one at a time
    struct pod_options options;
    enum pod_phase phase;
    struct pod_sched *sched;

    // By id. Ids are never given twice: what was removed leaves a place that is
    // NULL once nothing names it. See pod_host_at and pod_host_next.
    struct pod_host **hosts;
    size_t host_count;
    size_t host_capacity;
    size_t first_hosts;       // how many there were at the start
    atomic_size_t live_hosts; // not removed; changed under the lock
    uint32_t reaping;         // removed ones whose drivers are being closed
    struct pod_core **cores;  // NULL: of a host that is gone
    size_t core_count;
    struct pod_chip *chips; // of hosts that are gone, too
    size_t chip_count;
    struct pod_list spare_cores; // pod_core.spare_link: for hosts to come
    struct pod_list cordoned;    // pod_host.cordon_link
    uint64_t host_mark;
    struct pod_condition ready; // of the pod as a whole
    struct pod_condition stalled;

    struct pod_table table;
    uint64_t last_number; // 0: none issued yet (or the one before first_number)
    uint64_t last_call;   // internal numbers of driver calls, see POD_CALL_BASE
    uint64_t revision;
    struct pod_list open;    // pod_op.link: not settled, as they were admitted
    uint64_t open_count;     // not ended
    struct pod_list history; // pod_op.link: may expire, oldest first
    uint64_t history_count;
    struct pod_list garbage; // pod_op.link: expired, to be freed
    uint32_t garbage_count;
    struct pod_list data;         // pod_kept.link: kept bytes, oldest first
    struct pod_list compiled;     // pod_compiled.link: to be found by content
    struct pod_list compiled_old; // the same: not to be found any more
    struct pod_list programs;     // pod_handle.host_link of programs, not freed
    struct pod_op *reset;         // the open RESET, before which nothing starts

    // Counters of the operations in the table.
    uint64_t by_state[POD_SCHED_LOST + 1];
    uint64_t by_kind[POD_KIND_COUNT];
    struct pod_metrics metrics; // of its whole life; not open, not kept

    struct pod_changes changes;
    struct pod_list woken; // pod_waiter.link
    struct pod_list local; // pod_op.local: launched, and done without a driver
    struct pod_edges edges;
    uint64_t dep_mark;
    struct pod_list stalls; // pod_stall.link: as they began
    uint64_t stalled_operations;
    uint64_t stall_mark;          // of the last look
    int64_t stall_period_ns;      // between looks (fixed)
    int64_t stall_due_ns;         // of the next one; POD_NEVER: no call is open
    struct pod_notes notes;       // not written yet
    uint64_t span_salt;           // fixed
    struct pod_failure *fallback; // used when there is no memory for a failure

    pthread_t timer;
    bool has_timer;
    int64_t now_ns;             // the latest time a step was made
    int64_t timer_ns;           // when it will look next
    struct pod_cond timer_cond; // something may be due earlier than thought
    // open_count, reaping, host->answered may have changed
    struct pod_cond idle_cond;

    struct pod_kicked unsent; // for pod_send
    atomic_bool has_unsent;   // that is not empty

    struct pod_mutex staging_lock; // guards what follows
    uint64_t staging_used;
    uint64_t staging_lent; // a part of it
};

// Numbers of driver calls that are not an operation's own begin here.
#define POD_CALL_BASE (UINT64_C(1) << 43)

// ------------------------------------------------------------------- after

// What is to be done once the lock is released.
struct pod_after {
    struct pod *pod;
    bool notify; // waiters were woken
    bool notes;  // there is something to log
    bool idle;   // pod->idle_cond is to be signalled
    bool later;  // outboxes are emptied by pod_send
    bool makes;  // it makes records, and so frees expired ones
    struct pod_kicked kicked;
    struct pod_list lost;      // pod_call.link: of hosts that were removed
    struct pod_list transfers; // pod_transfer.after_link: push or finish
    struct pod_list garbage;   // pod_op.link: expired records
};

// Take the lock; release it and do what was collected: drain outboxes, push to
// streams, notify, free.
void pod_enter(struct pod *pod, struct pod_after *after);
void pod_leave(struct pod *pod, struct pod_after *after);

// ----------------------------------------------------------------- notes.c

// The id of an operation's span, never 0.
uint64_t pod_span(const struct pod *pod, uint64_t number);
bool pod_notes_init(struct pod *pod); // false: no memory
void pod_notes_fini(struct pod *pod);
// The operation has ended: notes it for the log, unless its level is not
// logged.
void pod_note_ended_locked(struct pod *pod, const struct pod_op *op);
// It is stalled on a host, without progress since then; and it is no longer.
// `detail` is a constant.
void pod_note_stalled_locked(struct pod *pod, const struct pod_op *op,
                             uint32_t host, int64_t since_ns,
                             const char *detail);
void pod_note_stall_over_locked(struct pod *pod, const struct pod_op *op,
                                uint32_t host, int64_t since_ns);
// Writes the notes to the log. Without the lock.
void pod_notes_write(struct pod *pod);
// A host's state has changed. Without the lock; the address is fixed.
void pod_note_host(enum pod_log_level level, const struct pod_host *host,
                   enum pod_host_state state, const char *detail);

// -------------------------------------------------------- given by others
// staging.c: memory that is lent to a reader, in the budget until it is over.
struct pod_loan {
    struct pod *pod;
    uint64_t bytes;
};

// A loan that keeps so many bytes of memory. NULL: no room; at most half of the
// budget is lent, so that readers leave room to those who write.
struct pod_loan *pod_loan_new(struct pod *pod, uint64_t bytes);
void pod_loan_free(struct pod_loan *loan); // it is over; NULL is allowed
// Makes what was lent end the loan, however little of the memory that is.
void pod_loan_follow(struct pod_loan *owned_loan, struct pod_blob *blob);
// The on_free of bytes that were taken.
void pod_staging_on_free(void *pod, size_t size);

// data.c: the bytes that reads keep.

// A record of a READ gets the place of its bytes; false: no memory.
bool pod_kept_new(struct pod_op *op) __attribute__((warn_unused_result));
// A read has brought all its bytes (they stand in op->kept): they may be taken
// until the 10 minutes are over.
void pod_data_keep_locked(struct pod *pod, struct pod_op *op);
// Takes the bytes away from the record, for the caller to free with
// pod_data_discard after the lock; the operation may now expire.
struct pod_data_chunks pod_data_drop_locked(struct pod *pod, struct pod_op *op);
void pod_data_discard(struct pod *pod, struct pod_data_chunks chunks);
// Drops what is too old, one at a time: true and *out_chunks to discard; false
// when nothing is due. Called by the timer.
bool pod_data_expire_locked(struct pod *pod, int64_t now_ns,
                            struct pod_data_chunks *out_chunks);
// When the oldest kept bytes are due, or POD_NEVER.
int64_t pod_data_due_locked(const struct pod *pod);

// ------------------------------------------------------------ given by host.c

// The host of that id, or NULL: there is none, or it was removed.
static inline struct pod_host *pod_host_at(const struct pod *pod, size_t id)
{
    struct pod_host *host = id < pod->host_count ? pod->hosts[id] : NULL;

    return host == NULL || host->removed ? NULL : host;
}

// Walks the hosts that were not removed, by id: start with *cursor = 0; NULL at
// the end.
static inline struct pod_host *pod_host_next(const struct pod *pod,
                                             size_t *cursor)
{
    struct pod_host *host = NULL;

    while (host == NULL && *cursor < pod->host_count)
        host = pod_host_at(pod, (*cursor)++);
    return host;
}

void pod_host_unref(struct pod_host *host); // NULL is allowed
// An operation takes part in its hosts from now on, or does so no more.
void pod_host_count_locked(struct pod *pod, const struct pod_op *op,
                           bool takes_part);
// What is shown of a host has changed: its conditions follow, and the pod's.
void pod_host_judge_locked(struct pod *pod, struct pod_host *host);
void pod_judge_locked(struct pod *pod);
// Who waits for a cordoned host to be drained is woken if it is.
void pod_host_drained_locked(struct pod *pod, struct pod_after *after);
void pod_host_wake_all_locked(struct pod *pod);
// The last thread of a removed host: closes and frees its driver.
void pod_host_end(struct pod_host *host);
// An operation that named a removed host has expired.
void pod_host_release_locked(struct pod *pod, struct pod_host *host);

// ------------------------------------------------------- given by the engine

// OK, NOT_FOUND (never issued) or EXPIRED.
enum pod_code pod_find_op_locked(const struct pod *pod, uint64_t number,
                                 struct pod_op **out_op, struct pod_err *err)
    __attribute__((warn_unused_result));
// Marks a visible change of an operation: revision and waiters.
void pod_touch_locked(struct pod *pod, struct pod_op *op,
                      struct pod_after *after);
// The log of changes (changes_log.c). An operation was accepted, or changed its
// state or anything else that is shown; a handle or a host did (whose
// conditions are judged anew).
void pod_changed_op_locked(struct pod *pod, struct pod_op *op, bool accepted);
void pod_changed_handle_locked(struct pod *pod, struct pod_handle *handle);
void pod_changed_host_locked(struct pod *pod, struct pod_host *host);
// Its last change: it is shown no more.
void pod_removed_host_locked(struct pod *pod, struct pod_host *host);
// Something that kept an operation is gone: it may be history now.
void pod_retire_locked(struct pod *pod, struct pod_op *op);
// Why an open operation does not run yet, and its place among those that wait
// for the same (pending.c).
struct pod_standing {
    enum pod_pending reason;
    uint32_t position; // 0: it is next; POD_NO_ID: there is no order
    bool capped;       // there are more before it than were counted
};
struct pod_standing pod_op_standing_locked(const struct pod *pod,
                                           const struct pod_op *op);
// Its dependencies that are not settled: fills at most `capacity` numbers and
// returns how many there are at least (exact if below capacity).
size_t pod_op_waits_locked(const struct pod *pod, struct pod_op *op,
                           uint64_t *out_numbers, size_t capacity);

#endif
