// SPDX-License-Identifier: Apache-2.0
// Moving elements between two strided arrays: broadcast, transpose, slice,
// concatenate, pad and all their kin are one such move.
#ifndef POD_DEVICE_REFERENCE_MOVE_H
#define POD_DEVICE_REFERENCE_MOVE_H

#include <stddef.h>
#include <stdint.h>

#include "core/device/reference/pool.h"
#include "core/hlo/shape.h"

// One dimension of a move; strides are bytes.
struct pod_ref_move_dim {
    int64_t count;
    int64_t from;
    int64_t to;
};

struct pod_ref_move {
    size_t size; // bytes of an element: 1, 2, 4 or 8
    int64_t from_offset;
    int64_t to_offset;
    uint32_t rank;
    struct pod_ref_move_dim dims[]; // the last one is the innermost
};

// A move under construction.
struct pod_ref_move_plan {
    size_t size;
    int64_t from_offset;
    int64_t to_offset;
    uint32_t rank;
    struct pod_ref_move_dim dims[POD_SHAPE_MAX_RANK];
};

// The strides in bytes of a dense row-major array.
void pod_ref_strides(const struct pod_shape *shape,
                     int64_t out_strides[POD_SHAPE_MAX_RANK]);

// A plan that visits all of `to` in order, reading nothing yet (every
// from-stride is 0).
void pod_ref_move_to(const struct pod_shape *to,
                     struct pod_ref_move_plan *out_plan);

// The finished move, with dimensions joined where both sides allow it, in
// memory of the pool; NULL: no memory. Nothing is moved if a count is not
// positive.
struct pod_ref_move *pod_ref_move_make(const struct pod_ref_move_plan *plan,
                                       struct pod_ref_pool *pool);

// The arrays do not overlap, unless the move maps every byte to itself.
void pod_ref_move_run(const struct pod_ref_move *move, const void *from,
                      void *to);

// Fills with one element of 1, 2, 4 or 8 bytes.
void pod_ref_fill(void *to, const void *element, size_t size, int64_t count);

#endif
