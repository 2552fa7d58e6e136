// SPDX-License-Identifier: Apache-2.0
// Answers of hosts: to calls of any kind (complete.c), and to those that free
// something, which a host may refuse (owed.c). For core/pod alone.
#ifndef POD_POD_COMPLETE_H
#define POD_POD_COMPLETE_H

#include "core/pod/internal.h"

// ----------------------------------------------------------------- complete.c

// The answer to a call, with everything copied that is borrowed.
struct pod_answer {
    enum pod_sched_state state;  // SUCCEEDED, FAILED, CANCELLED, LOST
    struct pod_failure *failure; // of a bad one; NULL also if no memory
    struct pod_blob *data;
    bool has_shape;
    struct pod_program_shape shape;
    // FAILED only because there was no memory here for what the host answered:
    // it has done what it was asked for.
    bool done;
};

void pod_call_started(void *arg); // struct pod_call
void pod_call_done(void *arg, const struct pod_driver_result *result);
// The same for calls that went well, under one hold of the lock: so they are to
// be few.
void pod_calls_done_well(struct pod *pod, const struct pod_driver_well *calls,
                         size_t count);
// Answers a call that no driver will get.
void pod_call_lost(struct pod_call *call);
// Settles a launched operation all of whose calls are answered: well, or as
// the first bad answer that was kept says.
void pod_complete_locked(struct pod *pod, struct pod_op *op,
                         struct pod_after *after);
// Keeps a bad answer as the operation's, unless a better one came before.
void pod_keep_failure_locked(struct pod *pod, struct pod_op *op,
                             struct pod_answer *answer);
// An ALLOCATE's first contents are written, or could not be.
void pod_allocate_filled_locked(struct pod *pod, struct pod_op *op,
                                struct pod_after *after);
// The rest of an operation's work for each kind of answer.
void pod_answer_locked(struct pod *pod, struct pod_call *call,
                       struct pod_answer *answer, struct pod_after *after);

// --------------------------------------------------------------------- owed.c

// Whether the host has it still that was to be freed.
bool pod_owed_refused(const struct pod_answer *answer);
// The answer to a call that frees what `op` was to free, or has made in vain:
// if it is refused the record of `op`, which is to be completed now, is kept.
void pod_owed_note_locked(struct pod *pod, struct pod_op *op,
                          const struct pod_answer *answer);
// The answer when it was asked for again, long after `op` has settled.
void pod_owed_answer_locked(struct pod *pod, struct pod_op *op,
                            const struct pod_answer *answer);
// A sign of life came from the host: it is asked for them again.
void pod_owed_ask_locked(struct pod *pod, struct pod_host *host,
                         struct pod_after *after);
// The host has nothing any more.
void pod_owed_lost_locked(struct pod *pod, struct pod_host *host);

#endif
