// SPDX-License-Identifier: Apache-2.0
// For proto/cloud_*.c only.
#ifndef POD_PROTO_CLOUD_INTERNAL_H
#define POD_PROTO_CLOUD_INTERNAL_H

#include "proto/answers.h"
#include "proto/cloud_service.h"

#include "tpu_service.pb-c.h"

struct cloud_service {
    struct worker *worker;
    struct worker_slice slice;
    uint32_t idle_seconds;
    struct answers_list streams;
    struct pod_mutex lock; // guards the next one
    uint32_t next_client;
};

// Submits one entry of a stream. What is wrong with the entry is its answer; an
// error is a fault of the stream.
enum pod_code cloud_entry(struct cloud_service *service,
                          struct answers *answers, const void *data,
                          size_t size, struct pod_err *err)
    __attribute__((warn_unused_result));
// The answer to an entry as a StreamResponse. NULL: no memory.
struct pod_wire_out *cloud_pack(struct answers *answers,
                                const struct worker_answer *answer);

// Whether no replica of an HloProto looks at another; false also when it cannot
// be read.
bool cloud_program_independent(const void *data, size_t size);

// QuerySystemInfoResponse. NULL: no memory.
struct pod_wire_out *cloud_pack_info(const struct cloud_service *service);

#endif
