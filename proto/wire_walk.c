// SPDX-License-Identifier: Apache-2.0
#include "proto/wire_walk.h"

#include <string.h>

enum { WALK_MAX_VARINT = 10 };

// The piece that `at`, which is before the end, is in.
static const struct pod_blob_piece *walk_piece(struct pod_wire_cursor *cursor)
{
    const struct pod_blob_piece *piece = &cursor->pieces[cursor->piece];

    while (cursor->at >= piece->begin + piece->size)
        piece = &cursor->pieces[++cursor->piece];
    return piece;
}

static unsigned char walk_byte(struct pod_wire_cursor *cursor)
{
    const struct pod_blob_piece *piece = walk_piece(cursor);

    return piece->data[cursor->at++ - piece->begin];
}

static bool walk_varint(struct pod_wire_cursor *cursor, uint64_t *out_value)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < WALK_MAX_VARINT && cursor->at < cursor->end; i++) {
        unsigned char byte = walk_byte(cursor);
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *out_value = value;
            return true;
        }
    }
    return false;
}

static bool walk_fixed(struct pod_wire_cursor *cursor, unsigned width,
                       uint64_t *out_value)
{
    if (cursor->end - cursor->at < width)
        return false;
    *out_value = 0;
    for (unsigned i = 0; i < width; i++)
        *out_value |= (uint64_t)walk_byte(cursor) << (8 * i);
    return true;
}

static bool walk_bytes(struct pod_wire_cursor *cursor, size_t *out_size)
{
    uint64_t size = 0;

    if (!walk_varint(cursor, &size) || size > cursor->end - cursor->at)
        return false;
    cursor->at += (size_t)size;
    *out_size = (size_t)size;
    return true;
}

static bool walk_value(struct pod_wire_cursor *cursor,
                       struct pod_wire_field *field)
{
    switch (field->wire_type) {
    case POD_WIRE_VARINT:
        return walk_varint(cursor, &field->value);
    case POD_WIRE_FIXED64:
        return walk_fixed(cursor, 8, &field->value);
    case POD_WIRE_FIXED32:
        return walk_fixed(cursor, 4, &field->value);
    case POD_WIRE_BYTES:
        return walk_bytes(cursor, &field->size);
    default:
        return false;
    }
}

bool pod_wire_walk(struct pod_wire_cursor *cursor,
                   struct pod_wire_field *out_field)
{
    uint64_t tag = 0;

    if (!walk_varint(cursor, &tag) || tag >> 3 == 0 || tag > UINT32_MAX)
        return false;
    *out_field = (struct pod_wire_field){
        .number = (uint32_t)(tag >> 3),
        .wire_type = (enum pod_wire_type)(tag & 7),
    };
    return walk_value(cursor, out_field);
}

void pod_wire_copy(struct pod_wire_cursor *cursor, size_t to,
                   unsigned char *out)
{
    while (cursor->at < to) {
        const struct pod_blob_piece *piece = walk_piece(cursor);
        size_t within = cursor->at - piece->begin;
        size_t run = piece->size - within;
        if (run > to - cursor->at)
            run = to - cursor->at;
        memcpy(out, piece->data + within, run);
        out += run;
        cursor->at += run;
    }
}

bool pod_wire_next(const void *data, size_t size, size_t *cursor,
                   struct pod_wire_field *out_field)
{
    const struct pod_blob_piece row = {.data = data, .size = size};
    struct pod_wire_cursor walk = {.pieces = &row, .at = *cursor, .end = size};

    if (!pod_wire_walk(&walk, out_field))
        return false;
    *cursor = walk.at;
    if (out_field->wire_type == POD_WIRE_BYTES)
        out_field->data = row.data + walk.at - out_field->size;
    return true;
}
