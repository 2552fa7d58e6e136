// SPDX-License-Identifier: Apache-2.0
// A message that came in pieces, without its bulk: what there is to unpack is
// put together, the bytes that a device will take anyway stay where they lie.
#ifndef POD_PROTO_WIRE_LEAN_H
#define POD_PROTO_WIRE_LEAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"

enum {
    WIRE_LEAN_BYTES = 4 << 10,       // that may stand beside the bulk
    WIRE_LEAN_BULK_BYTES = 64 << 10, // at least
    WIRE_LEAN_MAX_DEPTH = 3,
};

// The bytes field that may be left out: the numbers of fields from the message
// inwards. Each must be there once, but the outermost may be `repeated`, with
// one of as many bytes as bulk has.
struct wire_lean_path {
    uint32_t numbers[WIRE_LEAN_MAX_DEPTH];
    size_t depth; // 0: none
    bool repeated;
};

struct wire_lean {
    unsigned char bytes[WIRE_LEAN_BYTES]; // the message without the field
    size_t size;
    size_t place;      // where in these it was left out
    size_t bulk_begin; // where in the message that came its bytes are
    size_t bulk_size;
};

// False: the message has no such field, or is malformed, or has too much
// besides; it is to be put together whole. Any thread.
bool wire_lean(const struct pod_blob_piece *pieces, size_t count,
               const struct wire_lean_path *path, struct wire_lean *out_lean);

#endif
