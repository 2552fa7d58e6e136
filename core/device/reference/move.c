// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference/move.h"

#include <stdbool.h>
#include <string.h>

void pod_ref_strides(const struct pod_shape *shape,
                     int64_t out_strides[POD_SHAPE_MAX_RANK])
{
    int64_t stride = (int64_t)pod_type_bytes(shape->type);

    // Without elements nothing moves, and the products need not fit.
    if (pod_shape_elements(shape) == 0)
        stride = 0;
    for (uint32_t i = shape->rank; i-- > 0;) {
        out_strides[i] = stride;
        stride *= stride > 0 ? shape->dims[i] : 1;
    }
}

void pod_ref_move_to(const struct pod_shape *to,
                     struct pod_ref_move_plan *out_plan)
{
    int64_t strides[POD_SHAPE_MAX_RANK];

    pod_ref_strides(to, strides);
    out_plan->size = pod_type_bytes(to->type);
    out_plan->from_offset = 0;
    out_plan->to_offset = 0;
    out_plan->rank = to->rank;
    for (uint32_t i = 0; i < to->rank; i++)
        out_plan->dims[i] = (struct pod_ref_move_dim){
            .count = to->dims[i], .from = 0, .to = strides[i]};
}

// Whether walking `outer` is walking on from the end of `inner`, on both sides.
static bool move_joins(const struct pod_ref_move_dim *outer,
                       const struct pod_ref_move_dim *inner)
{
    int64_t from;
    int64_t to;

    return !__builtin_mul_overflow(inner->from, inner->count, &from) &&
           !__builtin_mul_overflow(inner->to, inner->count, &to) &&
           outer->from == from && outer->to == to;
}

struct pod_ref_move *pod_ref_move_make(const struct pod_ref_move_plan *plan,
                                       struct pod_ref_pool *pool)
{
    struct pod_ref_move_dim dims[POD_SHAPE_MAX_RANK + 1];
    uint32_t rank = 0;
    struct pod_ref_move *move;

    for (uint32_t i = 0; i < plan->rank; i++) {
        struct pod_ref_move_dim dim = plan->dims[i];
        if (dim.count == 1)
            continue;
        if (dim.count <= 0) {
            dims[0] = (struct pod_ref_move_dim){0};
            rank = 1;
            break;
        }
        if (rank > 0 && move_joins(&dims[rank - 1], &dim)) {
            dim.count *= dims[rank - 1].count;
            rank--;
        }
        dims[rank++] = dim;
    }
    move = pod_ref_pool_alloc(pool, 1, sizeof(*move) + rank * sizeof(*dims));
    if (move == NULL)
        return NULL;
    move->size = plan->size;
    move->from_offset = plan->from_offset;
    move->to_offset = plan->to_offset;
    move->rank = rank;
    if (rank > 0)
        memcpy(move->dims, dims, rank * sizeof(*dims));
    return move;
}

#define FILL(type)                                                             \
    static void move_fill_##type(void *to, const void *element, int64_t count) \
    {                                                                          \
        type *o = to;                                                          \
        type value;                                                            \
        memcpy(&value, element, sizeof(value));                                \
        for (int64_t i = 0; i < count; i++)                                    \
            o[i] = value;                                                      \
    }
FILL(uint16_t)
FILL(uint32_t)
FILL(uint64_t)

void pod_ref_fill(void *to, const void *element, size_t size, int64_t count)
{
    if (count <= 0)
        return;
    if (size == 1)
        memset(to, *(const unsigned char *)element, (size_t)count);
    else if (size == 2)
        move_fill_uint16_t(to, element, count);
    else if (size == 4)
        move_fill_uint32_t(to, element, count);
    else
        move_fill_uint64_t(to, element, count);
}

// Strides are whole elements, so every access is aligned.
#define LINE(type)                                                             \
    static void move_line_##type(const struct pod_ref_move_dim *dim,           \
                                 const char *from, char *to)                   \
    {                                                                          \
        const type *a = (const type *)(const void *)from;                      \
        type *o = (type *)(void *)to;                                          \
        const int64_t from_step = dim->from / (int64_t)sizeof(type);           \
        const int64_t to_step = dim->to / (int64_t)sizeof(type);               \
        for (int64_t i = 0; i < dim->count; i++)                               \
            o[i * to_step] = a[i * from_step];                                 \
    }
LINE(uint8_t)
LINE(uint16_t)
LINE(uint32_t)
LINE(uint64_t)

static void move_line(size_t size, const struct pod_ref_move_dim *dim,
                      const char *from, char *to)
{
    if (dim->to == (int64_t)size && dim->from == (int64_t)size) {
        if (to != from)
            memcpy(to, from, (size_t)dim->count * size);
    } else if (dim->to == (int64_t)size && dim->from == 0) {
        pod_ref_fill(to, from, size, dim->count);
    } else if (size == 1) {
        move_line_uint8_t(dim, from, to);
    } else if (size == 2) {
        move_line_uint16_t(dim, from, to);
    } else if (size == 4) {
        move_line_uint32_t(dim, from, to);
    } else {
        move_line_uint64_t(dim, from, to);
    }
}

enum { MOVE_TILE = 32 };

static int64_t move_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// The two innermost dimensions, in squares if one side runs along the outer
// and the other along the inner one, so that both stay in the cache.
static void move_plane(size_t size, const struct pod_ref_move_dim *outer,
                       const struct pod_ref_move_dim *inner, const char *from,
                       char *to)
{
    if (inner->from == (int64_t)size || outer->from != (int64_t)size) {
        for (int64_t i = 0; i < outer->count; i++)
            move_line(size, inner, from + i * outer->from, to + i * outer->to);
        return;
    }
    for (int64_t j = 0; j < inner->count; j += MOVE_TILE) {
        struct pod_ref_move_dim part = *inner;
        part.count = move_min(MOVE_TILE, inner->count - j);
        for (int64_t i = 0; i < outer->count; i++)
            move_line(size, &part, from + i * outer->from + j * inner->from,
                      to + i * outer->to + j * inner->to);
    }
}

// Steps the counters of the dimensions before `rank`; false at the end.
static bool move_next(const struct pod_ref_move *move, uint32_t rank,
                      int64_t *index, const char **from, char **to)
{
    for (uint32_t i = rank; i-- > 0;) {
        const struct pod_ref_move_dim *dim = &move->dims[i];
        if (++index[i] < dim->count) {
            *from += dim->from;
            *to += dim->to;
            return true;
        }
        *from -= (dim->count - 1) * dim->from;
        *to -= (dim->count - 1) * dim->to;
        index[i] = 0;
    }
    return false;
}

void pod_ref_move_run(const struct pod_ref_move *move, const void *from,
                      void *to)
{
    int64_t index[POD_SHAPE_MAX_RANK] = {0};
    const struct pod_ref_move_dim *last = move->dims + move->rank;
    const char *read = (const char *)from + move->from_offset;
    char *write = (char *)to + move->to_offset;

    if (move->rank == 0) {
        if (write != read)
            memcpy(write, read, move->size);
        return;
    }
    if (last[-1].count == 0)
        return;
    if (move->rank == 1) {
        move_line(move->size, &last[-1], read, write);
        return;
    }
    do {
        move_plane(move->size, &last[-2], &last[-1], read, write);
    } while (move_next(move, move->rank - 2, index, &read, &write));
}
