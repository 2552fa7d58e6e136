// SPDX-License-Identifier: Apache-2.0
// For proto/gang_*.c only.
//
//   gang_link.c  gangs, and what this worker's replicas do
//   gang_in.c    streams from other workers, and what their replicas do
#ifndef POD_PROTO_GANG_INTERNAL_H
#define POD_PROTO_GANG_INTERNAL_H

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/map.h"
#include "proto/gang_link.h"

enum { GANG_LINK_MAX_ENDED = 4096 };

struct gang_links {
    struct pod_mutex lock;   // guards the maps, the list and the ring
    struct pod_map by_gang;  // struct gang_link that is begun, by its id
    struct pod_map by_op;    // the same by the driver's number
    struct pod_list waiting; // struct gang_in
    size_t waiting_count;
    struct pod_map ended; // gangs that have ended here, the latest ones
    uint64_t ended_ids[GANG_LINK_MAX_ENDED]; // a ring of the same; 0: none
    size_t ended_at;                         // the oldest
    struct pod_gang_hub *hub;
    struct peers *peers;
};

// Another worker of a gang.
struct gang_out {
    struct gang_link *link;
    uint32_t host;
    uint64_t session; // 0: it is not connected to podd
    char *address;
    struct rpc_stream *stream; // NULL: it could not be opened
    bool heard; // its stream to here has come; guarded by the links' lock
};

// One gang: a plan of the worker core.
struct gang_link {
    struct worker_plan plan; // first
    struct gang_links *links;
    atomic_int refs;
    uint64_t id;
    uint32_t own_host;
    uint32_t replica_count;
    uint32_t *hosts;  // of the pod, by replica
    uint32_t *places; // 0: here, 1: elsewhere
    struct gang_out *outs;
    size_t out_count;
    // Set when it begins.
    uint64_t driver_op;
    struct pod_gang *gang;
    bool begun;
};

void gang_link_unref(struct gang_link *link);
// All replicas of a host of the pod leave, unless they have.
void gang_link_lose(struct gang_link *link, uint32_t host, const char *why);

// Streams that waited for this gang go on. Not under the lock.
void gang_in_resume(struct gang_links *links, struct gang_link *link);
// Ends those that wait for a gang that has ended. Not under the lock.
void gang_in_drop(struct gang_links *links, uint64_t id);
// Ends the streams that have waited since before this time.
void gang_in_expire(struct gang_links *links, int64_t before_ns);

#endif
