// SPDX-License-Identifier: Apache-2.0
#include "proto/wire_lean.h"

#include <string.h>

enum {
    LEAN_VARINT = 0,
    LEAN_FIXED64 = 1,
    LEAN_BYTES = 2,
    LEAN_FIXED32 = 5,
    LEAN_MAX_VARINT = 10,
    // A length is written in so many bytes before it is known.
    LEAN_LENGTH_BYTES = 5,
};

// --------------------------------------------------------- reading in pieces

// The message, and a place in it that moves forward.
struct lean_cursor {
    const struct pod_blob_piece *pieces;
    size_t piece; // that `at` is in, or the one before it
    size_t at;
    size_t end; // of what is read now
};

static size_t lean_total(const struct pod_blob_piece *pieces, size_t count)
{
    return count == 0 ? 0 : pieces[count - 1].begin + pieces[count - 1].size;
}

// The piece that `at`, which is before the end, is in.
static const struct pod_blob_piece *lean_piece(struct lean_cursor *cursor)
{
    const struct pod_blob_piece *piece = &cursor->pieces[cursor->piece];

    while (cursor->at >= piece->begin + piece->size)
        piece = &cursor->pieces[++cursor->piece];
    return piece;
}

static bool lean_varint(struct lean_cursor *cursor, uint64_t *out_value)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < LEAN_MAX_VARINT && cursor->at < cursor->end; i++) {
        const struct pod_blob_piece *piece = lean_piece(cursor);
        unsigned char byte = piece->data[cursor->at++ - piece->begin];
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *out_value = value;
            return true;
        }
    }
    return false;
}

static bool lean_skip(struct lean_cursor *cursor, uint64_t bytes)
{
    if (bytes > cursor->end - cursor->at)
        return false;
    cursor->at += (size_t)bytes;
    return true;
}

// Appends what is before `to`, and moves there.
static bool lean_copy(struct lean_cursor *cursor, size_t to,
                      struct wire_lean *out)
{
    if (to - cursor->at > WIRE_LEAN_BYTES - out->size)
        return false;
    while (cursor->at < to) {
        const struct pod_blob_piece *piece = lean_piece(cursor);
        size_t within = cursor->at - piece->begin;
        size_t run = piece->size - within;
        if (run > to - cursor->at)
            run = to - cursor->at;
        memcpy(out->bytes + out->size, piece->data + within, run);
        out->size += run;
        cursor->at += run;
    }
    return true;
}

// ------------------------------------------------------------ finding a field

struct lean_field {
    struct lean_cursor head;  // before its tag
    struct lean_cursor value; // after its length
    size_t size;
};

// Moves over a field; `out_size` of one of bytes, else 0.
static bool lean_next(struct lean_cursor *cursor, uint64_t *out_tag,
                      size_t *out_size)
{
    uint64_t value = 0;

    *out_size = 0;
    if (!lean_varint(cursor, out_tag) || *out_tag >> 3 == 0 ||
        *out_tag > UINT32_MAX)
        return false;
    switch ((unsigned)(*out_tag & 7)) {
    case LEAN_VARINT:
        return lean_varint(cursor, &value);
    case LEAN_FIXED64:
        return lean_skip(cursor, 8);
    case LEAN_FIXED32:
        return lean_skip(cursor, 4);
    case LEAN_BYTES:
        if (!lean_varint(cursor, &value) || !lean_skip(cursor, value))
            return false;
        *out_size = (size_t)value;
        return true;
    default:
        return false;
    }
}

// The field of that number and as many bytes as bulk has, of which there must
// be one; none that is smaller unless there may be `many`.
static bool lean_find(struct lean_cursor cursor, uint32_t number, bool many,
                      struct lean_field *out_field)
{
    bool found = false;
    uint64_t tag = 0;
    size_t size = 0;

    while (cursor.at < cursor.end) {
        struct lean_cursor head = cursor;
        if (!lean_next(&cursor, &tag, &size))
            return false;
        bool big = size >= WIRE_LEAN_BULK_BYTES;
        if (tag >> 3 != number || (many && !big))
            continue;
        if (found || !big)
            return false;
        found = true;
        out_field->head = head;
        out_field->size = size;
        out_field->value = head;
        out_field->value.end = cursor.at;
        out_field->value.at = cursor.at - size;
    }
    return found;
}

// ------------------------------------------------------------- leaving it out

// The same length whatever the value.
static void lean_put_length(unsigned char *out, size_t value)
{
    for (unsigned i = 0; i < LEAN_LENGTH_BYTES; i++) {
        unsigned char more = i + 1 < LEAN_LENGTH_BYTES ? 0x80 : 0;
        out[i] = (unsigned char)((value >> (7 * i) & 0x7f) | more);
    }
}

// Appends the tag of a field and leaves room for a length.
static bool lean_open(const struct lean_field *field, struct wire_lean *out,
                      size_t *out_length_at)
{
    struct lean_cursor cursor = field->head;
    uint64_t tag = 0;

    (void)lean_varint(&cursor, &tag); // it was read before
    size_t tag_end = cursor.at;
    cursor = field->head;
    if (!lean_copy(&cursor, tag_end, out) ||
        LEAN_LENGTH_BYTES > WIRE_LEAN_BYTES - out->size)
        return false;
    *out_length_at = out->size;
    out->size += LEAN_LENGTH_BYTES;
    return true;
}

// Appends what the cursor has, but for the field at the path from `level` on.
// It calls itself as often as the path is deep.
static bool lean_level(struct lean_cursor cursor,
                       const struct wire_lean_path *path, size_t level,
                       struct wire_lean *out)
{
    struct lean_field field;
    size_t length_at = 0;

    if (!lean_find(cursor, path->numbers[level], level == 0 && path->depth > 1,
                   &field) ||
        !lean_copy(&cursor, field.head.at, out))
        return false;
    if (level + 1 == path->depth) {
        out->place = out->size;
        out->bulk_begin = field.value.at;
        out->bulk_size = field.size;
    } else {
        if (!lean_open(&field, out, &length_at) ||
            !lean_level(field.value, path, level + 1, out))
            return false;
        lean_put_length(out->bytes + length_at,
                        out->size - length_at - LEAN_LENGTH_BYTES);
    }
    cursor.at = field.value.end;
    return lean_copy(&cursor, cursor.end, out);
}

bool wire_lean(const struct pod_blob_piece *pieces, size_t count,
               const struct wire_lean_path *path, struct wire_lean *out_lean)
{
    struct lean_cursor cursor = {.pieces = pieces,
                                 .end = lean_total(pieces, count)};

    out_lean->size = 0;
    return path->depth > 0 && lean_level(cursor, path, 0, out_lean);
}
