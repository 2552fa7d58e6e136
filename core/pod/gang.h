// SPDX-License-Identifier: Apache-2.0
// Executions, whose replicas start together or not at all (gang.c), and what
// they put out (output.c). For core/pod alone.
#ifndef POD_POD_GANG_H
#define POD_POD_GANG_H

#include "core/pod/internal.h"

struct pod_answer;

// --------------------------------------------------------------------- gang.c

void pod_execute_launch_locked(struct pod *pod, struct pod_op *op,
                               struct pod_after *after);
void pod_execute_answer_locked(struct pod *pod, struct pod_call *call,
                               struct pod_answer *answer,
                               struct pod_after *after);
// Checks the buffers of one replica against its program's shape.
enum pod_code pod_execute_check_locked(const struct pod_replica *replica,
                                       struct pod_err *err);

// ------------------------------------------------------------------- output.c

// The leaf of a result, depth first from 0.
const struct pod_shape *pod_shape_leaf(const struct pod_shape *shape,
                                       size_t index);
// An automatic output: its shape is known now. True: go on as usual.
bool pod_output_launch_locked(struct pod *pod, struct pod_op *op);
// An operation has settled: perhaps it was the last leaf of a tuple.
void pod_output_leaf_done_locked(struct pod *pod, struct pod_op *op,
                                 struct pod_after *after);
// Outside of a step: makes the leaves of an automatic tuple.
void pod_output_expand_locked(struct pod *pod, struct pod_op *op,
                              struct pod_after *after);

#endif
