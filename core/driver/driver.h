// SPDX-License-Identifier: Apache-2.0
// The driver interface: one host of the pod, as a table of functions.
//
// All calls are asynchronous and return at once, whatever the state of the
// host. Every call takes the number of its operation and one completion, which
// is called exactly once, from a thread of the driver, never with a lock of the
// driver held, and inline only if the call allows it (`here`). A call sees the
// effects of calls on the same handles that are completed, or that it names in
// `waits`. All else may run in any order.
//
// Handles are operation numbers: the buffer, program or load that operation 17
// made is handle 17 on every host that has it. Cores are the host's own
// numbers, 0..n-1. Transfers carry dense row-major bytes.
//
// Three drivers implement this: in-process (inproc.h), fault (fault.h, wraps
// another), and gRPC (proto/).
#ifndef POD_DRIVER_DRIVER_H
#define POD_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/err.h"
#include "core/base/trace.h"
#include "core/device/device.h"
#include "core/hlo/shape.h"

struct pod_driver;

// The outcome of a call. Everything in it is borrowed for the callback.
struct pod_driver_result {
    struct pod_err err;    // code POD_OK: it succeeded
    bool lost;             // the host went away: the outcome cannot be known
    bool from_worker;      // the text of err came from another program
    bool begun;            // it had begun; `started` was not called before
    struct pod_blob *data; // read
    const struct pod_program_shape *shape; // compile
};

struct pod_driver_call {
    uint64_t op; // 1..2^44-1; used once in the life of a host's incarnation
    // Earlier operations of this host, not known to be done, that must have
    // succeeded first; if one fails this one fails without effect. Only used
    // with drivers that have the feature POD_DRIVER_WAITS. Borrowed during the
    // call.
    const uint64_t *waits;
    size_t wait_count;
    // The same, but they must only have ended, well or badly; with
    // POD_DRIVER_ORDERS.
    const uint64_t *orders;
    size_t order_count;
    int priority; // orders what is queued on one core, higher first
    // The caller allows its completion to come inside the call: brief work may
    // be carried out and completed before the call returns.
    bool here;
    // Another call to this host follows at once from the same thread, so this
    // one may leave the waking of threads to that one. A hint.
    bool more;
    // Where it comes from, for logs and traces: the request (NULL: unknown;
    // borrowed during the call), the pod's operation (0: none) and its span.
    struct pod_trace *trace;
    uint64_t operation;
    uint64_t span;
    // The host has begun it. Called at most once, before done, and not if the
    // result says `begun`. May be NULL.
    void (*started)(void *arg);
    void (*done)(void *arg, const struct pod_driver_result *result);
    void *arg;
};

// Bits of struct pod_driver_info.features.
enum {
    // Enforces `waits` itself, and that a call comes after the making of the
    // handles that it names. After a loss it is ready again only once all
    // earlier calls are completed.
    POD_DRIVER_WAITS = 1,
    POD_DRIVER_CANCEL = 2,       // cancel may stop a running operation
    POD_DRIVER_FREE_PROGRAM = 4, // compiled programs can be freed
    POD_DRIVER_PEER_COPY = 8,    // can fetch from another host
    POD_DRIVER_WHOLE = 16,       // moves whole buffers only
    POD_DRIVER_ORDERS = 32,      // enforces `orders` itself
    POD_DRIVER_NEAR = 64,        // its bytes are in this process's memory
    POD_DRIVER_LENDS = 128,      // lend gives memory without copying it
};

struct pod_driver_core {
    uint32_t worker_core; // the host's number of it
    uint32_t chip;        // index in chips
    uint64_t memory_bytes;
};

struct pod_driver_chip {
    int32_t x, y, z;
    int32_t host_id; // the worker's own idea of which host owns it
};

// What a host says about itself when it is opened. Borrowed for the callback.
struct pod_driver_info {
    const char *platform;
    const char *version;
    unsigned accepts; // bit 1 << enum pod_program_format
    unsigned features;
    int32_t host_id; // the worker's own number; need not be ours
    int32_t host_count;
    // The worker's process, by a random number of its own; 0: it has none.
    uint64_t worker;
    // Cores of this host alone, by rising worker_core; the chips they are on.
    const struct pod_driver_core *cores;
    size_t core_count;
    const struct pod_driver_chip *chips;
    size_t chip_count;
};

// What a core of a host does, as the host sees it.
struct pod_driver_core_load {
    uint64_t memory_used; // by buffers of all its clients
    uint32_t queued;      // executions it has and has not done
    bool busy;            // one of them runs
    uint64_t running;     // its number; 0: none, or another client's
};

// What a host does now. Borrowed for the callback.
struct pod_driver_load {
    uint64_t open_operations;                 // of all its clients
    const struct pod_driver_core_load *cores; // as in pod_driver_info
    size_t core_count;
};

// A call that went well, of which there is no more to say.
struct pod_driver_well {
    void *arg;  // of the call
    bool begun; // as in pod_driver_result
};

// Who is told when the host comes, goes and is alive. Called from a thread of
// the driver, never inline, never with a lock of the driver held, one call at a
// time but for done_well.
struct pod_driver_observer {
    // The host is open (again). After a loss this is a new incarnation: none
    // of its old handles exist.
    void (*ready)(void *arg, const struct pod_driver_info *info);
    // It could not be opened, or went away; the driver keeps trying. Comes
    // before the open calls are completed with result.lost. The text says why,
    // without repeating that the host is lost, as in those results.
    void (*lost)(void *arg, const struct pod_err *err);
    // A sign of life came (at most a few times a second). `load` is NULL if the
    // host does not report it.
    void (*heartbeat)(void *arg, const struct pod_driver_load *load);
    // Calls went well at once: instead of the `done` of each, and as that, by
    // any thread. A driver need not use it. NULL: it must not.
    void (*done_well)(void *arg, const struct pod_driver_well *calls,
                      size_t count);
    void *arg;
};

// One replica of an execution on this host.
struct pod_driver_launch {
    uint64_t load;
    const uint64_t *inputs;
    size_t input_count;
    const uint64_t *outputs;
    size_t output_count;
    uint32_t replica;
};

struct pod_driver_execute {
    // The replicas that run on this host, each on the core of its load.
    const struct pod_driver_launch *launches;
    size_t launch_count;
    // The whole gang: its replicas, and for each the host index of its core
    // (as given to the drivers' makers) and the pod's core id.
    uint32_t replica_count;
    const uint32_t *replica_hosts;
    const uint32_t *replica_cores;
    const uint32_t *replica_worker_cores; // the host's own number of each
};

struct pod_driver_ops {
    // Starts to open the host and keeps it open until close.
    void (*open)(struct pod_driver *driver,
                 const struct pod_driver_observer *observer);
    // Closes the host: completes all open calls (CANCELLED) and returns when
    // the observer will not be called any more. Blocks.
    void (*close)(struct pod_driver *driver);
    // After close. NULL is allowed.
    void (*free)(struct pod_driver *driver);
    // Drops every handle and ends every open call CANCELLED, then completes.
    void (*reset)(struct pod_driver *driver,
                  const struct pod_driver_call *call);
    // Gives up the present connection, if any, and opens a new one: a loss.
    void (*reconnect)(struct pod_driver *driver);

    // `shape` (an array) or NULL for `bytes` raw. Reads as zeros.
    void (*allocate)(struct pod_driver *driver,
                     const struct pod_driver_call *call, uint32_t core,
                     const struct pod_shape *shape, uint64_t bytes);
    void (*allocate_tuple)(struct pod_driver *driver,
                           const struct pod_driver_call *call, uint32_t core,
                           const uint64_t *children, size_t child_count);
    void (*deallocate)(struct pod_driver *driver,
                       const struct pod_driver_call *call, uint64_t buffer);

    // `count` bytes of `data` from `data_offset` on, to `offset` of the
    // buffer. The driver takes a reference of `data` for as long as it needs,
    // and may claim it (pod_blob_claim) when all of it fills the buffer.
    void (*write)(struct pod_driver *driver, const struct pod_driver_call *call,
                  uint64_t buffer, uint64_t offset, struct pod_blob *data,
                  size_t data_offset, size_t count);
    // The result has `data` of `count` bytes.
    void (*read)(struct pod_driver *driver, const struct pod_driver_call *call,
                 uint64_t buffer, uint64_t offset, size_t count);
    // As read, but the result may be the buffer's own memory, which must not be
    // changed. Its bytes stay as they are, whatever becomes of the buffer, the
    // host and the driver, and a loan of a part keeps all of the buffer's
    // memory. Whoever holds much for long must account for it; a device only
    // bounds the sum. Without POD_DRIVER_LENDS this is a read. NULL: the driver
    // never lends.
    void (*lend)(struct pod_driver *driver, const struct pod_driver_call *call,
                 uint64_t buffer, uint64_t offset, size_t count);
    // Both buffers are of this host and of one size.
    void (*copy)(struct pod_driver *driver, const struct pod_driver_call *call,
                 uint64_t from, uint64_t to);
    // From a buffer of another host, by that host's number (as given to the
    // drivers' makers), straight to one of this host and of the same size. Only
    // with POD_DRIVER_PEER_COPY on both. UNAVAILABLE: the other host cannot be
    // reached from this one; the caller may still read there and write here.
    void (*copy_from_peer)(struct pod_driver *driver,
                           const struct pod_driver_call *call, uint32_t host,
                           uint64_t from, uint64_t to);

    // The result has `shape`.
    void (*compile)(struct pod_driver *driver,
                    const struct pod_driver_call *call,
                    enum pod_program_format format, struct pod_blob *program,
                    uint32_t replicas);
    void (*free_program)(struct pod_driver *driver,
                         const struct pod_driver_call *call, uint64_t program);
    void (*load)(struct pod_driver *driver, const struct pod_driver_call *call,
                 uint32_t core, uint64_t program);
    void (*unload)(struct pod_driver *driver,
                   const struct pod_driver_call *call, uint64_t load);
    // Part of a gang: begins on all its cores of this host together, and is
    // done when all of them are. If one fails the gang is aborted on all hosts.
    void (*execute)(struct pod_driver *driver,
                    const struct pod_driver_call *call,
                    const struct pod_driver_execute *execute);

    // Asks to stop an open operation. If it has not begun, or can be stopped,
    // its own completion comes with CANCELLED; else it ends as if not asked.
    // Unknown and finished numbers are ignored.
    void (*cancel)(struct pod_driver *driver, uint64_t op);
};

// The first member of each driver's own struct.
struct pod_driver {
    const struct pod_driver_ops *ops;
};

#endif
