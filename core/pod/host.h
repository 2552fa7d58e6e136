// SPDX-License-Identifier: Apache-2.0
// Hosts with their chips and cores, as the engine keeps them: the records, and
// what is done with them. For core/pod alone.
#ifndef POD_POD_HOST_H
#define POD_POD_HOST_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/lock.h"
#include "core/pod/conditions.h"
#include "core/pod/host_info.h"
#include "core/pod/op.h"
#include "core/pod/pod.h"

struct pod_after;

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
    bool starved;                // the same, but only for want of memory here
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

// --------------------------------------------------------------------- host.c

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

// ----------------------------------------------------------------- topology.c

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

// --------------------------------------------------------------------- loss.c

// A host is lost, for good or until its driver finds it again: what it held is
// lost, and what cannot go on without it ends. The drivers' calls are answered
// by themselves.
void pod_loss_locked(struct pod *pod, struct pod_host *host,
                     const struct pod_err *err, struct pod_after *after);
// The observer of a host's driver.
struct pod_driver_observer pod_loss_observer(struct pod_host *host);

#endif
