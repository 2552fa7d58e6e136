// SPDX-License-Identifier: Apache-2.0
// A message that came in pieces, without its bulk: what must be unpacked is put
// together, while the bytes for a device stay where they are.
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

// The bytes field that may be left out, as the numbers of the fields from the
// message inwards. Each must occur once; the outermost may be `repeated` if one
// of them has at least WIRE_LEAN_BULK_BYTES.
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

// False: the message has no such field, is malformed, or has too much besides;
// then all of it must be put together. Any thread.
bool wire_lean(const struct pod_blob_piece *pieces, size_t count,
               const struct wire_lean_path *path, struct wire_lean *out_lean);

#endif
