// SPDX-License-Identifier: Apache-2.0
// For proto/pod_*.c only.
#ifndef POD_PROTO_POD_INTERNAL_H
#define POD_PROTO_POD_INTERNAL_H

#include "proto/answers.h"
#include "proto/pod_service.h"

#include "pod_worker.pb-c.h"

struct pod_service {
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
// The answer to an entry as a SessionResponse. NULL: no memory.
struct pod_wire_out *pod_entry_pack(struct answers *answers,
                                    const struct worker_answer *answer);

#endif
