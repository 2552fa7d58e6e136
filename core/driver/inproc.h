// SPDX-License-Identifier: Apache-2.0
// The in-process driver: a host inside this program, around a device.
//
// Its threads, and what runs on each:
//   control   allocate, tuples, deallocate, load, unload, free of programs,
//             reset, all calls of the observer, and completions of calls that
//             never began
//   transfer  writes and reads, in turns of POD_INPROC_CHUNK_BYTES, so that a
//             small one waits for one turn of each big one at most, but for
//             the first write of a buffer whose memory is lent: then the device
//             copies all of it
//   copy      copies, whole
//   compile   compilations
//   one a core: executions, by priority, then in the order they came; gangs
//             among themselves always in the order they came, so that gangs
//             which all hosts get in one order cannot wait for each other
// Writes, reads, copies and allocations of a few bytes do not wait for those
// threads if their caller may carry them out itself.
//
// Buffers, programs and loads are counted references: one that is freed while
// it is in use goes when its last user ends. A call that would write a buffer
// another call uses, or use one that is being written, fails with IN_USE.
//
// Features: POD_DRIVER_CANCEL (what is queued, executions, transfers between
// turns), POD_DRIVER_FREE_PROGRAM, POD_DRIVER_NEAR, and POD_DRIVER_LENDS if the
// device lends. The calls' `waits` are not looked at.
//
// Loss: a host is lost by pod_inproc_kill, by `reconnect`, and never by itself.
// Not to be called from callbacks: close and free, which join the threads.
#ifndef POD_DRIVER_INPROC_H
#define POD_DRIVER_INPROC_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/driver/driver.h"
#include "core/driver/rendezvous.h"

enum {
    POD_INPROC_CHUNK_BYTES = 1 << 20,
    // At most so many bytes are handled in the caller's thread
    // (pod_driver_call.here): that takes less time than a change of threads.
    POD_INPROC_BRIEF_BYTES = 16 << 10,
    POD_INPROC_MAX_CORES = 4096,
    // So many calls can be refused at a time for lack of memory. Only beyond
    // that is a completion called inline.
    POD_INPROC_SPARE_CALLS = 64,
};

struct pod_inproc_options {
    struct pod_device *device; // owned by the driver once it is made
    struct pod_gang_hub *hub;  // shared by the hosts of a pod (a reference is
                               // taken); NULL: gangs of this host alone
    uint32_t host;             // its index in the hub
    uint32_t host_count;       // of the pod, as shown in the info
    // The chips of this host (copied), and for each core of the device the
    // index of its chip. The counts fit: one entry a core.
    const struct pod_driver_chip *chips;
    size_t chip_count;
    const uint32_t *core_chips;
    int64_t heartbeat_ns; // between heartbeats; 0: four a second
};

// Makes the host and starts its threads; it answers calls once it is opened.
// Fails with BAD_VALUE for options that do not fit, and OUT_OF_MEMORY, also
// when there are no threads; the device then stays the caller's.
enum pod_code pod_inproc_new(const struct pod_inproc_options *options,
                             struct pod_driver **out_driver,
                             struct pod_err *err)
    __attribute__((warn_unused_result));

// The host dies: every open call ends with `lost`, its handles are gone, its
// gangs are aborted on all hosts. It stays lost until it is revived or
// reconnected. No effect on a host that is already lost. Any thread; returns at
// once.
void pod_inproc_kill(struct pod_driver *base, const char *why);
// A killed host comes back, empty, once what it ran has stopped.
void pod_inproc_revive(struct pod_driver *base);

#endif
