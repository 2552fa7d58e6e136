// SPDX-License-Identifier: Apache-2.0
// Memory of one module: allocated piece by piece, freed as a whole, bounded.
//
// Unpacked messages take many small allocations and far more memory than the
// bytes they came from; an arena makes the first cheap and bounds the second.
// For the readers in this folder. Not thread-safe.
#ifndef POD_HLO_ARENA_H
#define POD_HLO_ARENA_H

#include "core/base/err.h"
#include "core/hlo/shape.h"

#include "xla.pb-c.h"

struct pod_hlo_arena_chunk;

struct pod_hlo_arena {
    // For protobuf-c: allocates from the arena, frees nothing.
    ProtobufCAllocator allocator;
    struct pod_hlo_arena_chunk *chunks; // newest first
    size_t left;                        // free bytes of the newest
    size_t budget;                      // bytes that may still be taken
    bool failed;                        // an allocation failed
    bool over_budget;                   // because the budget was spent
    struct pod_hlo_arena_shapes *shapes;
};

// For a program of `length` bytes: module.h says how much it may take. NULL: no
// memory.
struct pod_hlo_arena *pod_hlo_arena_new(size_t length);
// NULL is allowed.
void pod_hlo_arena_free(struct pod_hlo_arena *arena);

// `count` zeroed elements, aligned for anything; NULL when there is no memory,
// the budget is spent or the product overflows.
void *pod_hlo_arena_alloc(struct pod_hlo_arena *arena, size_t count,
                          size_t bytes);
// A copy with a NUL behind it.
char *pod_hlo_arena_text(struct pod_hlo_arena *arena, const char *text,
                         size_t length);
// Sets the error of a failed allocation: OUT_OF_MEMORY or RESOURCE_EXHAUSTED.
enum pod_code pod_hlo_arena_fail(const struct pod_hlo_arena *arena,
                                 struct pod_err *err);

// A shape that lives as long as the arena, one for all that are equal, layouts
// included (here no layout and a row-major one differ). Takes `*owned_shape`
// over, success or not. NULL: as pod_hlo_arena_alloc.
const struct pod_shape *pod_hlo_arena_shape(struct pod_hlo_arena *arena,
                                            struct pod_shape *owned_shape);

// The message of such a shape, made once; it must not be changed. NULL: as
// pod_hlo_arena_alloc.
Xla__ShapeProto *pod_hlo_arena_shape_proto(struct pod_hlo_arena *arena,
                                           const struct pod_shape *shape);

#endif
