// SPDX-License-Identifier: Apache-2.0
// Both directions are one walk: the side that is dense is written or read in
// its own order, the other side by strides. The innermost dimension is a loop
// of its own, specialised for the usual element sizes.
#include "core/hlo/layout.h"

#include <string.h>

// Copies `count` elements from `from`, `stride` bytes apart, to a dense row.
// The sizes are spelled out so that the compiler turns the copy into a move.
static void layout_row(size_t size, int64_t count, int64_t stride,
                       const unsigned char *from, unsigned char *to)
{
#define LAYOUT_LOOP(bytes)                                                     \
    for (int64_t i = 0; i < count; i++)                                        \
    memcpy(to + (size_t)i * (bytes), from + i * stride, (bytes))
    if (stride == (int64_t)size)
        memcpy(to, from, (size_t)count * size);
    else if (size == 4)
        LAYOUT_LOOP(4);
    else if (size == 8)
        LAYOUT_LOOP(8);
    else if (size == 2)
        LAYOUT_LOOP(2);
    else if (size == 1)
        LAYOUT_LOOP(1);
    else
        LAYOUT_LOOP(size);
#undef LAYOUT_LOOP
}

// Steps the index of the outer dimensions and the offset; false at the end.
static bool layout_step(size_t outer, const int64_t *dims,
                        const int64_t *strides, int64_t *index, int64_t *offset)
{
    for (size_t d = outer; d-- > 0;) {
        *offset += strides[d];
        if (++index[d] < dims[d])
            return true;
        *offset -= strides[d] * dims[d];
        index[d] = 0;
    }
    return false;
}

void pod_layout_gather(size_t size, size_t rank, const int64_t *dims,
                       const int64_t *strides, const void *source, void *dense)
{
    int64_t index[POD_SHAPE_MAX_RANK] = {0};
    int64_t offset = 0;
    const unsigned char *from = source;
    unsigned char *to = dense;
    int64_t row = rank == 0 ? 1 : dims[rank - 1];
    int64_t stride =
        rank == 0 ? (int64_t)size : strides[rank - 1] * (int64_t)size;
    size_t outer = rank == 0 ? 0 : rank - 1;
    for (size_t d = 0; d < rank; d++)
        if (dims[d] == 0)
            return;
    do {
        layout_row(size, row, stride, from + offset * (int64_t)size, to);
        to += (size_t)row * size;
    } while (layout_step(outer, dims, strides, index, &offset));
}

void pod_layout_to_row_major(const struct pod_shape *shape, const void *device,
                             void *row_major)
{
    int64_t strides[POD_SHAPE_MAX_RANK];
    int64_t stride = 1;
    if (pod_shape_bytes(shape) == 0)
        return;
    if (pod_shape_is_row_major(shape)) {
        memcpy(row_major, device, (size_t)pod_shape_bytes(shape));
        return;
    }
    for (uint32_t i = 0; i < shape->rank; i++) {
        uint8_t dim = shape->minor_to_major[i];
        strides[dim] = stride;
        stride *= shape->dims[dim];
    }
    pod_layout_gather(pod_type_bytes(shape->type), shape->rank, shape->dims,
                      strides, device, row_major);
}

// The device's array, seen from its slowest dimension to its fastest, is a
// transposed view of the row-major one.
void pod_layout_from_row_major(const struct pod_shape *shape,
                               const void *row_major, void *device)
{
    int64_t normal[POD_SHAPE_MAX_RANK];
    int64_t dims[POD_SHAPE_MAX_RANK];
    int64_t strides[POD_SHAPE_MAX_RANK];
    int64_t stride = 1;
    if (pod_shape_bytes(shape) == 0)
        return;
    if (pod_shape_is_row_major(shape)) {
        memcpy(device, row_major, (size_t)pod_shape_bytes(shape));
        return;
    }
    for (uint32_t d = shape->rank; d-- > 0;) {
        normal[d] = stride;
        stride *= shape->dims[d];
    }
    for (uint32_t i = 0; i < shape->rank; i++) {
        uint8_t dim = shape->minor_to_major[shape->rank - 1 - i];
        dims[i] = shape->dims[dim];
        strides[i] = normal[dim];
    }
    pod_layout_gather(pod_type_bytes(shape->type), shape->rank, dims, strides,
                      row_major, device);
}
