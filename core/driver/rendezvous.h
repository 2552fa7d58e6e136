// SPDX-License-Identifier: Apache-2.0
// Where the replicas of a gang meet: one hub for all in-process hosts of a pod.
//
// A gang is known by the number of its operation. Each host that gets a part
// of it joins (which makes the record if it is the first), each replica then
// arrives, may exchange data, and leaves. A replica that leaves before the end
// or with a failure aborts the gang: the first failure wins and all the others
// get GANG_ABORTED with that cause. A host that is lost leaves with all its
// replicas. Nobody waits for a replica that cannot come any more.
//
// All functions may be called from any thread. Locks: POD_RANK_GANG (the hub)
// and the rank behind it (one gang), so a driver may hold its own lock.
#ifndef POD_DRIVER_RENDEZVOUS_H
#define POD_DRIVER_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/device/device.h"

struct pod_gang_hub;
struct pod_gang;

enum {
    POD_GANG_MAX_REPLICAS = 65536,
    // Aborted gangs of which a host has not got its part yet are remembered, so
    // that its late part fails at once instead of waiting; the oldest are
    // forgotten first.
    POD_GANG_MAX_REMEMBERED = 1024,
};

// For hosts 0..host_count-1, all of them present. One reference; NULL: no
// memory.
struct pod_gang_hub *pod_gang_hub_new(uint32_t host_count);
// Adds all hosts up to this one; new ones are present. False: no memory.
bool pod_gang_hub_add_host(struct pod_gang_hub *hub, uint32_t host)
    __attribute__((warn_unused_result));
struct pod_gang_hub *pod_gang_hub_ref(struct pod_gang_hub *hub);
// NULL is allowed. The last reference frees it; no gang is referenced then.
void pod_gang_hub_unref(struct pod_gang_hub *hub);

// Aborts every gang that has a replica on the host which has not left, and each
// one made later, until it is present again. `why` is copied.
void pod_gang_host_lost(struct pod_gang_hub *hub, uint32_t host,
                        const char *why);
void pod_gang_host_present(struct pod_gang_hub *hub, uint32_t host);

// The gang of an operation; `replica_hosts` (copied) has the host of each of
// its replicas. One reference, given back with pod_gang_unref after its
// replicas have left. BAD_ASSIGNMENT for an impossible host or count, or one
// that differs from what others gave; OUT_OF_MEMORY.
enum pod_code pod_gang_join(struct pod_gang_hub *hub, uint64_t op,
                            uint32_t replica_count,
                            const uint32_t *replica_hosts,
                            struct pod_gang **out_gang, struct pod_err *err)
    __attribute__((warn_unused_result));
// NULL is allowed.
void pod_gang_unref(struct pod_gang *gang);

// Blocks until all replicas have arrived. GANG_ABORTED, or CANCEL_REQUESTED
// when `interrupt` is set; the caller then leaves with that failure.
enum pod_code pod_gang_arrive(struct pod_gang *gang, uint32_t replica,
                              struct pod_interrupt *interrupt,
                              struct pod_err *err)
    __attribute__((warn_unused_result));

// The replica has ended; `cause` NULL: well. A second time has no effect.
void pod_gang_leave(struct pod_gang *gang, uint32_t replica,
                    const struct pod_err *cause);

// Makes those who wait look at their interrupts.
void pod_gang_wake(struct pod_gang *gang);

// Lives as long as the gang. Its all_gather fails with PROGRAM_FAULT, and
// aborts the gang, when replicas disagree on a group or on the bytes, or when a
// member has ended or gone on without the others.
struct pod_exchange *pod_gang_exchange(struct pod_gang *gang);

// ------------------------------------------------- gangs over several programs

// Is told what the replicas of one host do, so that it can be sent to where the
// others run. Called from the replica's thread, before it waits, and without a
// lock of the hub or a gang; `left` may come under a driver's lock. Nothing may
// block.
struct pod_gang_tap {
    void (*arrived)(void *arg, uint64_t op, uint32_t replica);
    void (*gave)(void *arg, uint64_t op, uint32_t replica,
                 const uint32_t *group, size_t group_size, uint64_t sequence,
                 const void *part, size_t bytes);
    // `cause` NULL: well.
    void (*left)(void *arg, uint64_t op, uint32_t replica,
                 const struct pod_err *cause);
    void *arg;
};

// For the replicas of `host`, before the first gang; copied.
void pod_gang_hub_tap(struct pod_gang_hub *hub, uint32_t host,
                      const struct pod_gang_tap *tap);

// For a replica that runs elsewhere: as pod_gang_arrive, and as the exchange's
// all_gather, without waiting for anybody. It leaves with pod_gang_leave.
void pod_gang_arrive_elsewhere(struct pod_gang *gang, uint32_t replica);
enum pod_code pod_gang_give(struct pod_gang *gang, uint32_t replica,
                            const uint32_t *group, size_t group_size,
                            uint64_t sequence, const void *part, size_t bytes,
                            struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
