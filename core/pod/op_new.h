// SPDX-License-Identifier: Apache-2.0
// Records are made for requests, with room for all they will need, and freed:
// op_new.c, and work.c for what they have only until they settle. For core/pod
// alone.
#ifndef POD_POD_OP_NEW_H
#define POD_POD_OP_NEW_H

#include "core/pod/internal.h"

// --------------------------------------------------------------------- work.c

// How long the lists are that a request needs.
struct pod_work_room {
    size_t calls;
    size_t reads; // of buffers
    size_t writes;
    size_t replicas;
};

// Makes the work of operations that are made together. Zero but for `expected`
// at first.
struct pod_work_maker {
    size_t expected; // how many more will be made, as a guess
    struct pod_work_block *block;
    char *next; // in the block, and the bytes that are left there
    size_t left;
};
// What it has made stays.
void pod_work_maker_fini(struct pod_work_maker *maker);

// A record that has none gets its work; false: no memory.
bool pod_work_new(struct pod_work_maker *maker, struct pod_op *op,
                  struct pod_work_room room)
    __attribute__((warn_unused_result));
// Room for so many calls in all, which are idle; for `count` more uses, whose
// links are made again; and for one more write. False: no memory, and nothing
// has changed.
bool pod_work_room_calls(struct pod_work *work, size_t count)
    __attribute__((warn_unused_result));
bool pod_work_room_uses(struct pod_work *work, size_t count)
    __attribute__((warn_unused_result));
bool pod_work_room_write(struct pod_work *work)
    __attribute__((warn_unused_result));
// The writes were for taking them back, which will not be done any more.
void pod_work_drop_writes(struct pod_work *work);
// Nothing to a record that has none.
void pod_work_free(struct pod_op *op);

// ------------------------------------------------------------------- op_new.c

// A record for a request, with room for all it will need, but for the transfer
// of a COPY between hosts; not in the table.
// `auto_counts`: EXECUTE: outputs that it allocates itself, by launch. NULL: no
// memory.
struct pod_op *pod_op_new(struct pod *pod, struct pod_work_maker *maker,
                          const struct pod_request *request,
                          const size_t *auto_counts);
// A record of an ALLOCATE for an automatic output.
struct pod_op *pod_op_new_output(struct pod *pod, struct pod_work_maker *maker);
// Room for a tuple's children; false: no memory.
bool pod_tuple_room(struct pod_buffer *tuple, size_t count)
    __attribute__((warn_unused_result));
// A buffer stands, or stands no more, in the way of freeing its children. Does
// nothing to one that is no tuple, or lets go a second time.
void pod_tuple_hold_locked(struct pod_buffer *buffer);
void pod_tuple_let_go_locked(struct pod_buffer *buffer);
// Any record, whatever it has. NULL is allowed.
void pod_op_free(struct pod *pod, struct pod_op *op);
// A record that is settled has no transfer any more; that may live on. Without
// the lock or with it.
void pod_op_leave_transfer(struct pod_op *op);

#endif
