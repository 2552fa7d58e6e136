// SPDX-License-Identifier: Apache-2.0
// Bytes in the budget of memory: what is lent to readers (staging.c), and what
// reads keep until it is taken (data.c). For core/pod alone.
#ifndef POD_POD_STAGING_H
#define POD_POD_STAGING_H

#include "core/pod/internal.h"

// ------------------------------------------------------------------ staging.c

// Memory that is lent to a reader, in the budget until it is over.
struct pod_loan {
    struct pod *pod;
    uint64_t bytes;
};

// A loan that keeps so many bytes of memory. NULL: no room; at most half of the
// budget is lent, so that readers leave room to those who write.
struct pod_loan *pod_loan_new(struct pod *pod, uint64_t bytes);
void pod_loan_free(struct pod_loan *loan); // it is over; NULL is allowed
// Makes what was lent end the loan, however little of the memory that is.
void pod_loan_follow(struct pod_loan *owned_loan, struct pod_blob *blob);
// The on_free of bytes that were taken.
void pod_staging_on_free(void *pod, size_t size);

// --------------------------------------------------------------------- data.c

// A record of a READ gets the place of its bytes; false: no memory.
bool pod_kept_new(struct pod_op *op) __attribute__((warn_unused_result));
// A read has brought all its bytes (they stand in op->kept): they may be taken
// until the 10 minutes are over.
void pod_data_keep_locked(struct pod *pod, struct pod_op *op);
// Takes the bytes away from the record, for the caller to free with
// pod_data_discard after the lock; the operation may now expire.
struct pod_data_chunks pod_data_drop_locked(struct pod *pod, struct pod_op *op);
void pod_data_discard(struct pod *pod, struct pod_data_chunks chunks);
// Drops what is too old, one at a time: true and *out_chunks to discard; false
// when nothing is due. Called by the timer.
bool pod_data_expire_locked(struct pod *pod, int64_t now_ns,
                            struct pod_data_chunks *out_chunks);
// When the oldest kept bytes are due, or POD_NEVER.
int64_t pod_data_due_locked(const struct pod *pod);

#endif
