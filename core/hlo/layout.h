// SPDX-License-Identifier: Apache-2.0
// The linearizer: dense row-major data to and from the order of a layout.
#ifndef POD_HLO_LAYOUT_H
#define POD_HLO_LAYOUT_H

#include "core/hlo/shape.h"

// Both copy pod_shape_bytes(shape) bytes between buffers that do not overlap.
// `shape` is an array. Neither allocates nor fails; cost is linear in the
// number of elements, a plain copy if pod_shape_is_row_major(shape).
void pod_layout_from_row_major(const struct pod_shape *shape,
                               const void *row_major, void *device);
void pod_layout_to_row_major(const struct pod_shape *shape, const void *device,
                             void *row_major);

// For any element size from 1 to 16 and any rank up to POD_SHAPE_MAX_RANK:
// gathers a strided array into a dense row-major one. Element (i0, i1, ...) of
// the result is at source + (i0 * strides[0] + i1 * strides[1] + ...) * size;
// strides count elements and may be 0 or negative.
void pod_layout_gather(size_t size, size_t rank, const int64_t *dims,
                       const int64_t *strides, const void *source, void *dense);

#endif
