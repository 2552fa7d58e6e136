// SPDX-License-Identifier: Apache-2.0
// Gangs over several workers. The steps of this worker's replicas are sent to
// the others; steps that come from them are carried out in the local meeting
// point (hub) on behalf of their replicas.
//
// Each worker of a gang opens an Exchange stream to each other one and sends on
// it the steps of its own replicas. A stream that comes before the gang was
// launched here waits, for at most GANG_LINK_WAIT_NS; one that comes after its
// end is ended. A stream that breaks off, or a worker that cannot be reached,
// aborts the gang. A host has one stream in a gang: a second one, made because
// the first broke before it was answered, is refused, so that no step is done
// twice.
//
// In the hub the worker's own replicas are on host 0, all others on host 1.
#ifndef POD_PROTO_GANG_LINK_H
#define POD_PROTO_GANG_LINK_H

#include "core/driver/rendezvous.h"
#include "proto/peers.h"
#include "proto/rpc_server.h"
#include "proto/worker.h"

#include "pod_worker.pb-c.h"

struct gang_links;

#define GANG_LINK_WAIT_NS (60 * POD_NS_PER_S)

enum {
    GANG_LINK_PIECE_BYTES = 1 << 20,
    GANG_LINK_MAX_PART = 1 << 30, // bytes of one part of a collective
    GANG_LINK_MAX_WAITING = 4096, // streams whose gang is not there yet
};

// `hub` (referenced) is that of the driver, made for two hosts, not yet in
// use; `peers` outlive the links. NULL: no memory.
struct gang_links *gang_links_new(struct pod_gang_hub *hub,
                                  struct peers *peers);
// Lets go of all streams. After the worker and the server have stopped, before
// the loop is freed. NULL is allowed.
void gang_links_stop(struct gang_links *links);
// After that. NULL is allowed.
void gang_links_free(struct gang_links *links);
// Gives up streams that have waited too long. Call it now and then.
void gang_links_tick(struct gang_links *links);

// The plan for an execution of which other workers run replicas. BAD_ASSIGNMENT
// when the message contradicts itself; OUT_OF_MEMORY.
enum pod_code gang_links_plan(struct gang_links *links,
                              const Pod__Worker__V1__Execute *execute,
                              struct worker_plan **out_plan,
                              struct pod_err *err)
    __attribute__((warn_unused_result));

// A stream of Exchange was opened; `arg` is the links.
void gang_links_opened(void *arg, struct rpc_stream *owned_stream,
                       struct rpc_stream_events *out_events, void **out_arg);

#endif
