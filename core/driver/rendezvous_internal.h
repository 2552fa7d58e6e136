// SPDX-License-Identifier: Apache-2.0
// What the two files of the meeting point share.
//
//   rendezvous.c         the hub, gangs, who is there, aborts
//   rendezvous_rounds.c  collectives
#ifndef POD_DRIVER_RENDEZVOUS_INTERNAL_H
#define POD_DRIVER_RENDEZVOUS_INTERNAL_H

#include <stdbool.h>

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/map.h"
#include "core/driver/rendezvous.h"

enum gang_place { GANG_AWAITED, GANG_ARRIVED, GANG_LEFT };

struct gang_replica {
    uint32_t host;
    enum gang_place place;
    uint64_t next;  // the least sequence number it may come with
    uint64_t stamp; // finds a replica that stands in a group twice
};

struct pod_gang {
    struct pod_mutex lock; // guards what follows `replica_count`
    // Guarded by the hub's lock.
    struct pod_list link; // in hub->remembered when refs is 0
    long refs;
    // Constant.
    struct pod_gang_hub *hub;
    struct pod_exchange exchange;
    uint64_t op;
    uint32_t replica_count;
    struct pod_cond all_arrived;
    uint32_t arrived;
    bool assembled; // all have arrived, whatever came after
    uint32_t left;
    uint64_t stamp;
    struct pod_err cause;   // code is not POD_OK: aborted
    struct pod_list rounds; // struct gang_round
    struct gang_replica replicas[];
};

struct pod_gang_hub {
    struct pod_mutex lock;
    long refs;
    struct pod_map gangs;       // struct pod_gang by operation
    struct pod_list remembered; // gangs with no reference, oldest first
    size_t remembered_count;
    uint32_t host_count;
    bool *lost; // by host
    // Constant.
    bool tapped;
    uint32_t tap_host;
    struct pod_gang_tap tap;
};

// One collective of one group.
struct gang_round {
    struct pod_list link;
    struct pod_cond complete;
    uint64_t sequence;
    size_t bytes; // of one part
    size_t group_size;
    size_t ready;  // parts that are in `data`
    size_t inside; // members that hold the round
    size_t absent; // of them those that run elsewhere, and do not come back
    unsigned char *data;
    uint32_t *group;
    bool *here; // by position: the member has come
};

// The first failure wins: it is the cause that all others get.
void pod_gang_abort_locked(struct pod_gang *gang, uint32_t replica,
                           const char *cause);
bool pod_gang_interrupted(struct pod_interrupt *interrupt);
// Why a wait ended that did not get what it waited for.
enum pod_code pod_gang_failure_locked(struct pod_gang *gang, uint32_t replica,
                                      struct pod_interrupt *interrupt,
                                      struct pod_err *err);
// Rounds that only replicas elsewhere hold; nobody knows the gang any more.
void pod_gang_drop_rounds(struct pod_gang *gang);
// Whether somebody is to be told what the replica does.
bool pod_gang_tapped(const struct pod_gang *gang, uint32_t replica);
// Whether the replica is a member that has not come.
bool pod_round_awaits(const struct gang_round *round, uint32_t replica);
// The exchange of a gang, as device.h says.
enum pod_code pod_gang_all_gather(struct pod_exchange *exchange,
                                  uint32_t replica, const uint32_t *group,
                                  size_t group_size, uint64_t sequence,
                                  const void *part, size_t bytes, void *out,
                                  struct pod_interrupt *interrupt,
                                  struct pod_err *err);

#endif
