// SPDX-License-Identifier: Apache-2.0
// Calls on their way to the driver of a host, in its order. For core/pod alone.
#ifndef POD_POD_OUTBOX_H
#define POD_POD_OUTBOX_H

#include "core/pod/internal.h"

// Puts a call in its host's outbox. Everything but links and state is set.
void pod_call_queue_locked(struct pod_call *call, struct pod_after *after);
// Sets the common members of a call.
void pod_call_init(struct pod_call *call, struct pod_op *op,
                   struct pod_host *host, enum pod_call_kind kind,
                   uint64_t number);
// Asks for its end; one that the driver has not got yet is taken back and
// true is returned: it is over.
bool pod_call_cancel_locked(struct pod_call *call, struct pod_after *after);
// A call is answered: it is idle again, and no cancel of it is under way.
void pod_call_answered_locked(struct pod_call *call, struct pod_after *after);
uint64_t pod_call_number_locked(struct pod *pod);
enum pod_code pod_outbox_start(struct pod_host *host, struct pod_err *err);
void pod_outbox_stop(struct pod_host *host);
// A host was removed: what waits is answered LOST after the lock, and its
// thread ends it (pod_host_end) when no other makes calls.
void pod_outbox_abandon_locked(struct pod_host *host, struct pod_after *after);
void pod_outbox_end(struct pod_host *host);
// Has the driver open a new connection.
void pod_outbox_reconnect_locked(struct pod_host *host,
                                 struct pod_after *after);
// Has a host's outbox emptied by who runs `kicked`; with the engine's lock.
// Then without it: empties them.
void pod_kicked_add(struct pod_kicked *kicked, struct pod_host *host);
void pod_kicked_run(struct pod_kicked *kicked);
// Makes the calls that wait, if no other thread does.
void pod_outbox_drain(struct pod_host *host);
// The calls that an operation that is not settled may have now, by an index
// from 0; NULL at the end. Not all of them are open. One that waits for the
// compile of another operation has that one's calls.
const struct pod_call *pod_op_call(const struct pod_op *op, size_t index);
// The operation that a call works for, or NULL: nobody waits for it any more.
struct pod_op *pod_call_op(const struct pod_call *call);

#endif
