// SPDX-License-Identifier: Apache-2.0
// For proto/pod_*.c only.
#ifndef POD_PROTO_POD_INTERNAL_H
#define POD_PROTO_POD_INTERNAL_H

#include "proto/answers.h"
#include "proto/pod_service.h"

#include "pod_worker.pb-c.h"

// Sessions of this protocol have the top bit, those of the original not.
#define POD_SESSION_BIT (UINT64_C(1) << 63)

enum {
    POD_FETCH_PIECE_BYTES = 1 << 20, // one turn of the driver
    POD_FETCH_HIGH_WATER = 8 << 20,
};

struct pod_service {
    struct peers *peers;      // or NULL
    struct gang_links *gangs; // or NULL
    struct worker *worker;
    struct worker_slice slice;
    uint64_t incarnation;
    struct answers_list streams;
};

// Submits one entry of a session's stream. What is wrong with the entry is its
// answer; an error is a fault of the stream.
enum pod_code pod_entry(struct pod_service *service, struct answers *answers,
                        const void *data, size_t size, struct pod_err *err)
    __attribute__((warn_unused_result));
// A stream of Fetch was opened; `arg` is the service.
void pod_fetch_opened(void *arg, struct rpc_stream *owned_stream,
                      struct rpc_stream_events *out_events, void **out_arg);
// A copy from another worker, to be submitted. NULL: no memory.
struct worker_task *pod_peer_copy(struct pod_service *service,
                                  const Pod__Worker__V1__CopyFromPeer *request);

// The answer to an entry as a SessionResponse. NULL: no memory.
struct pod_wire_out *pod_entry_pack(struct answers *answers,
                                    const struct worker_answer *answer);

#endif
