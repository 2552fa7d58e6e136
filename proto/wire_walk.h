// SPDX-License-Identifier: Apache-2.0
// Walks the fields of a message in place, without unpacking it, whether it is
// contiguous or in the pieces in which it came.
#ifndef POD_PROTO_WIRE_WALK_H
#define POD_PROTO_WIRE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"

enum pod_wire_type {
    POD_WIRE_VARINT = 0,
    POD_WIRE_FIXED64 = 1,
    POD_WIRE_BYTES = 2,
    POD_WIRE_FIXED32 = 5,
};

struct pod_wire_field {
    uint32_t number;
    enum pod_wire_type wire_type;
    uint64_t value;            // of a number
    const unsigned char *data; // of bytes, borrowed; NULL in pieces
    size_t size;               // of bytes, else 0
};

// A message in pieces, and a place in it that moves forward.
struct pod_wire_cursor {
    const struct pod_blob_piece *pieces; // borrowed
    size_t piece;                        // that `at` is in, or one before it
    size_t at;
    size_t end; // of what is read now
};

// Takes the field at the cursor and moves on; false at the end or at a fault.
// `at` is `end` exactly when the message ended well.
bool pod_wire_walk(struct pod_wire_cursor *cursor,
                   struct pod_wire_field *out_field);
// Copies the bytes from the cursor up to `to`, which is not behind its end, and
// moves there.
void pod_wire_copy(struct pod_wire_cursor *cursor, size_t to,
                   unsigned char *out);

// Takes the field at *cursor (start with 0) of a contiguous message and moves
// on; false at the end or at a fault. *cursor is `size` exactly when the
// message ended well.
bool pod_wire_next(const void *data, size_t size, size_t *cursor,
                   struct pod_wire_field *out_field);

#endif
