// SPDX-License-Identifier: Apache-2.0
// The pod's own struct, and how its lock is taken and released. What the files
// of the engine offer each other is in a header for each subject (README.md).
//
// Every function whose name ends in _locked needs pod->lock held. The pattern
// of every entry: lock, steps, collect what is to be done in a struct
// pod_after, unlock, do it (pod_enter, pod_leave).
#ifndef POD_POD_INTERNAL_H
#define POD_POD_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/lock.h"
#include "core/pod/changes.h"
#include "core/pod/conditions.h"
#include "core/pod/handle.h"
#include "core/pod/host.h"
#include "core/pod/metrics.h"
#include "core/pod/notes.h"
#include "core/pod/op.h"
#include "core/pod/pod.h"

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

// Of so many completions the scheduler is told together.
enum { POD_DONE_MAX = 64 };

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
    // Nodes of operations that have ended, of which it is told next (effect.c).
    struct pod_sched_node *done[POD_DONE_MAX];
    size_t done_count;

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
    int64_t now_ns;             // when the lock was entered last
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

// ---------------------------------------------------------------------- pod.c

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

// Take the lock, and look at the clock, once for all that is done under it;
// release it and do what was collected: drain outboxes, push to streams,
// notify, free.
void pod_enter(struct pod *pod, struct pod_after *after);
void pod_leave(struct pod *pod, struct pod_after *after);

// What is due by time. The timer's thread calls it; with simulated time,
// whoever moves that.
void pod_tick(struct pod *pod);
static inline int64_t pod_now(const struct pod *pod)
{
    return pod_clock_mono(&pod->options.clock);
}

// --------------------------------------------------------------------- find.c

// OK, NOT_FOUND (never issued) or EXPIRED.
enum pod_code pod_find_op_locked(const struct pod *pod, uint64_t number,
                                 struct pod_op **out_op, struct pod_err *err)
    __attribute__((warn_unused_result));

// -------------------------------------------------------------- changes_log.c

// The log of changes. An operation was accepted, or changed its
// state or anything else that is shown; a handle or a host did (whose
// conditions are judged anew).
void pod_changed_op_locked(struct pod *pod, struct pod_op *op, bool accepted);
void pod_changed_handle_locked(struct pod *pod, struct pod_handle *handle);
void pod_changed_host_locked(struct pod *pod, struct pod_host *host);
// Its last change: it is shown no more.
void pod_removed_host_locked(struct pod *pod, struct pod_host *host);

// ------------------------------------------------------------------ metrics.c

// An operation has ended; its state and times are set.
void pod_metrics_ended_locked(struct pod *pod, const struct pod_op *op);

#endif
