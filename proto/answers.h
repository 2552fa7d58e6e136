// SPDX-License-Identifier: Apache-2.0
// A stream on which operations come in and answers go out: what the two
// services of a worker have in common.
//
// The stream is finished when the client will send no more, or its session has
// ended, and everything that came on it has been answered.
#ifndef POD_PROTO_ANSWERS_H
#define POD_PROTO_ANSWERS_H

#include <stdatomic.h>

#include "core/base/list.h"
#include "core/base/lock.h"
#include "proto/rpc.h"
#include "proto/wire.h"
#include "proto/worker.h"

// While so many bytes of answers wait for a client, nothing more is read from
// it. The data of reads does not count: it is staged.
enum { ANSWERS_HOLD_BYTES = 16 << 20 };

// The streams of a service.
struct answers_list {
    struct pod_mutex lock;
    struct pod_list streams; // struct answers
};

struct answers;

// What the services do each in its own way.
struct answers_ways {
    // A field of a message that came; an error ends the stream.
    enum pod_code (*field)(struct answers *answers,
                           const struct pod_wire_field *field,
                           struct pod_err *err);
    // Makes the message of an answer. NULL: no memory.
    struct pod_wire_out *(*pack)(struct answers *answers,
                                 const struct worker_answer *answer);
    // The stream has ended; may be NULL.
    void (*ended)(struct answers *answers);
};

struct answers {
    struct worker_sink sink;
    struct pod_mutex lock; // guards the next four
    size_t open;           // operations that came and are not answered
    bool last;             // nothing more will come
    bool finished;
    struct worker_session *session; // that it belongs to, once that is known
    atomic_int refs;
    struct pod_list link; // in the list
    struct answers_list *list;
    struct rpc_stream *stream;
    const struct answers_ways *ways;
    struct pod_trace *trace; // of the last entry that said one, with a
                             // reference; only the stream's own events use it
    void *service;           // for the owner
    bool control;            // for the owner: the session ends with it
    // One outcome may say that an operation has begun and that it is done.
    atomic_bool joins;
};

void answers_list_init(struct answers_list *list);
void answers_list_fini(struct answers_list *list);

// Begins a stream of a service, as rpc_method.opened. Fields are taken one by
// one, so that a message of gigabytes does not exist twice in memory. `ways` is
// a constant.
void answers_open(struct answers_list *list, const struct answers_ways *ways,
                  void *service, struct rpc_stream *owned_stream,
                  struct rpc_stream_events *out_events, void **out_arg);

// Ends a stream for which there is no memory.
void answers_refuse(struct rpc_stream *owned_stream,
                    struct rpc_stream_events *out_events, void **out_arg);

// Makes the stream one of the session, unless it already belongs to one.
void answers_bind(struct answers *answers, struct worker_session *session);
// An operation has come; its answer will be given to the sink.
void answers_expect(struct answers *answers);
// Nothing more will come on all streams of a session.
void answers_end_session(struct answers_list *list,
                         const struct worker_session *session);

#endif
