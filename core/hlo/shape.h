// SPDX-License-Identifier: Apache-2.0
// Shapes: element type, dimensions and layout of an array, or a tuple of them.
//
// A shape is a plain value: an array's owns nothing, so assigning the struct
// copies it; a tuple's owns its children (pod_shape_copy, pod_shape_fini).
// Whatever the functions below hand out is sound: the rank, the depth and the
// number of nodes are within the limits, no dimension is negative, and the
// bytes of the whole fit int64_t, so that the accessors cannot fail.
// Names, numbers and text form are XLA's (xla_data.proto, HLO text).
// No function keeps state; threads may share a shape nobody changes.
#ifndef POD_HLO_SHAPE_H
#define POD_HLO_SHAPE_H

#include "core/base/err.h"
#include "core/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Element types. Columns: name, XLA's PrimitiveType number, spelling in text,
// bytes an element takes on the host (types narrower than a byte take one).
#define POD_TYPES(X)                                                           \
    X(PRED, 1, "pred", 1)                                                      \
    X(S8, 2, "s8", 1)                                                          \
    X(S16, 3, "s16", 2)                                                        \
    X(S32, 4, "s32", 4)                                                        \
    X(S64, 5, "s64", 8)                                                        \
    X(U8, 6, "u8", 1)                                                          \
    X(U16, 7, "u16", 2)                                                        \
    X(U32, 8, "u32", 4)                                                        \
    X(U64, 9, "u64", 8)                                                        \
    X(F16, 10, "f16", 2)                                                       \
    X(F32, 11, "f32", 4)                                                       \
    X(F64, 12, "f64", 8)                                                       \
    X(TUPLE, 13, "tuple", 0)                                                   \
    X(OPAQUE, 14, "opaque", 0)                                                 \
    X(C64, 15, "c64", 8)                                                       \
    X(BF16, 16, "bf16", 2)                                                     \
    X(TOKEN, 17, "token", 0)                                                   \
    X(C128, 18, "c128", 16)                                                    \
    X(F8E5M2, 19, "f8e5m2", 1)                                                 \
    X(F8E4M3FN, 20, "f8e4m3fn", 1)                                             \
    X(S4, 21, "s4", 1)                                                         \
    X(U4, 22, "u4", 1)                                                         \
    X(F8E4M3B11FNUZ, 23, "f8e4m3b11fnuz", 1)                                   \
    X(F8E5M2FNUZ, 24, "f8e5m2fnuz", 1)                                         \
    X(F8E4M3FNUZ, 25, "f8e4m3fnuz", 1)                                         \
    X(S2, 26, "s2", 1)                                                         \
    X(U2, 27, "u2", 1)                                                         \
    X(F8E4M3, 28, "f8e4m3", 1)                                                 \
    X(F8E3M4, 29, "f8e3m4", 1)                                                 \
    X(S1, 30, "s1", 1)                                                         \
    X(U1, 31, "u1", 1)                                                         \
    X(F4E2M1FN, 32, "f4e2m1fn", 1)                                             \
    X(F8E8M0FNU, 33, "f8e8m0fnu", 1)                                           \
    X(BUFFER, 34, "b", 0)                                                      \
    X(F6E3M2FN, 35, "f6e3m2fn", 1)                                             \
    X(F6E2M3FN, 36, "f6e2m3fn", 1)

enum pod_type {
    POD_TYPE_INVALID = 0,
#define X(name, number, text, bytes) POD_TYPE_##name = (number),
    POD_TYPES(X)
#undef X
        POD_TYPE_COUNT
};

enum {
    POD_SHAPE_MAX_RANK = 32,
    POD_SHAPE_MAX_DEPTH = 32,    // tuples in tuples
    POD_SHAPE_MAX_NODES = 65536, // of one tuple, itself and inner ones included
};

struct pod_shape {
    enum pod_type type;
    uint32_t rank;
    int64_t dims[POD_SHAPE_MAX_RANK];
    uint32_t dynamic; // bit i: dims[i] is only an upper bound ("<=8")
    bool has_layout;  // minor_to_major is set; a scalar may have one too
    uint8_t minor_to_major[POD_SHAPE_MAX_RANK]; // fastest dimension first
    size_t child_count;                         // TUPLE: any; BUFFER: 1; else 0
    struct pod_shape *children;                 // owned; NULL if none
};

// The signature of a program. Owns what it points at.
struct pod_program_shape {
    size_t count;
    struct pod_shape *parameters;
    struct pod_shape result;
};

// "f32"; "invalid" for a number that is no type.
const char *pod_type_name(enum pod_type type);
// The type spelled so, or POD_TYPE_INVALID. "tuple" and "b" are no element
// types in text and are not found.
enum pod_type pod_type_parse(const char *text, size_t length);
// Bytes of one element on the host; 0 for TUPLE, OPAQUE, TOKEN, BUFFER and
// numbers that are no type.
size_t pod_type_bytes(enum pod_type type);
// Whether arrays of it exist, that is whether pod_type_bytes is not 0.
bool pod_type_is_array(enum pod_type type);
bool pod_type_is_float(enum pod_type type);    // f16, bf16, f32, f64, f8 ... f4
bool pod_type_is_complex(enum pod_type type);  // c64, c128
bool pod_type_is_signed(enum pod_type type);   // s1 ... s64
bool pod_type_is_unsigned(enum pod_type type); // u1 ... u64; not pred

// An array without a layout. BAD_SHAPE if a limit is broken or the type is not
// an array's. `dims` may be NULL when rank is 0.
enum pod_code pod_shape_array(struct pod_shape *out, enum pod_type type,
                              size_t rank, const int64_t *dims,
                              struct pod_err *err)
    __attribute__((warn_unused_result));

// A tuple that takes over the children: on success `*owned_children` is part
// of `out`, on failure it stays with the caller. `owned_children` comes from
// pod_malloc, or is NULL when count is 0.
enum pod_code pod_shape_tuple(struct pod_shape *out, size_t count,
                              struct pod_shape *owned_children,
                              struct pod_err *err)
    __attribute__((warn_unused_result));

// Parses XLA's text, such as "f32[128,256]{1,0}" or "(f32[2], s32[])". Blanks
// and /* comments */ may stand between its parts. In layouts only the order of
// dimensions is kept; tiles, element sizes and the like are the backend's and
// are read over, but a memory space other than the default is refused, as are
// unbounded dimensions ("?"). Errors: BAD_SHAPE, with line 1 and the column
// (line and column of the text if it has line ends); OUT_OF_MEMORY.
enum pod_code pod_shape_parse(const char *text, size_t length,
                              struct pod_shape *out, struct pod_err *err)
    __attribute__((warn_unused_result));

// The same for a shape at the start of a longer text; `*out_used` is set to
// the number of bytes it took and, on failure, to the offset of the fault.
enum pod_code pod_shape_scan(const char *text, size_t length, size_t *out_used,
                             struct pod_shape *out, struct pod_err *err)
    __attribute__((warn_unused_result));

// Appends the text form; `layouts` says whether layouts are printed.
void pod_shape_print(const struct pod_shape *shape, bool layouts,
                     struct pod_str *str);

// Writes the text form with layouts for an error message, cut to `size` bytes
// ("..." at its end then), and returns `buffer`. size >= 8.
const char *pod_shape_brief(const struct pod_shape *shape, char *buffer,
                            size_t size);

// A deep copy. OUT_OF_MEMORY.
enum pod_code pod_shape_copy(const struct pod_shape *from,
                             struct pod_shape *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// Frees the children and makes the shape invalid. NULL is allowed.
void pod_shape_fini(struct pod_shape *shape);

// Same type, dimensions, dynamic marks and children; layouts do not matter.
bool pod_shape_equal(const struct pod_shape *a, const struct pod_shape *b);
// The same and equal layouts, where no layout equals row-major.
bool pod_shape_equal_layout(const struct pod_shape *a,
                            const struct pod_shape *b);

// Elements of an array (1 for a scalar); 0 for what is not an array.
int64_t pod_shape_elements(const struct pod_shape *shape);
// Bytes of the dense data on the host; of a tuple the sum of its leaves.
int64_t pod_shape_bytes(const struct pod_shape *shape);
// Arrays, tokens and opaques in it: 1 for an array, 0 for an empty tuple.
size_t pod_shape_leaves(const struct pod_shape *shape);

static inline bool pod_shape_is_array(const struct pod_shape *shape)
{
    return pod_type_is_array(shape->type);
}

// Whether its data in device order is its data in row-major order: no layout,
// the default one, or one that differs only in dimensions of size 1.
bool pod_shape_is_row_major(const struct pod_shape *shape);
// Gives every array in it that has no layout the row-major one.
void pod_shape_set_default_layout(struct pod_shape *shape);

// Appends "(f32[2], s32[]) -> f32[2]".
void pod_program_shape_print(const struct pod_program_shape *shape,
                             bool layouts, struct pod_str *str);
enum pod_code pod_program_shape_copy(const struct pod_program_shape *from,
                                     struct pod_program_shape *out,
                                     struct pod_err *err)
    __attribute__((warn_unused_result));
// NULL is allowed; zeroes it.
void pod_program_shape_fini(struct pod_program_shape *shape);

#endif
