// SPDX-License-Identifier: Apache-2.0
#include "proto/wire_lean.h"

#include "proto/wire_walk.h"

static size_t lean_total(const struct pod_blob_piece *pieces, size_t count)
{
    return count == 0 ? 0 : pieces[count - 1].begin + pieces[count - 1].size;
}

// Appends what is before `to`, and moves there.
static bool lean_copy(struct pod_wire_cursor *cursor, size_t to,
                      struct wire_lean *out)
{
    size_t bytes = to - cursor->at;

    if (bytes > WIRE_LEAN_BYTES - out->size)
        return false;
    pod_wire_copy(cursor, to, out->bytes + out->size);
    out->size += bytes;
    return true;
}

// ------------------------------------------------------------ finding a field

struct lean_field {
    struct pod_wire_cursor head;  // before its tag
    struct pod_wire_cursor value; // after its length
    size_t size;
};

_Static_assert(WIRE_LEAN_BULK_BYTES > WIRE_LEAN_BYTES,
               "two bulks cannot be left: one has no room beside the other");

// The last field of that number and as many bytes as bulk has; none may be
// smaller, unless there may be `many`.
static bool lean_find(struct pod_wire_cursor cursor, uint32_t number, bool many,
                      struct lean_field *out_field)
{
    struct pod_wire_field field;
    bool found = false;

    while (cursor.at < cursor.end) {
        struct pod_wire_cursor head = cursor;
        if (!pod_wire_walk(&cursor, &field))
            return false;
        bool big = field.size >= WIRE_LEAN_BULK_BYTES;
        if (field.number != number || (many && !big))
            continue;
        if (!big)
            return false;
        found = true;
        out_field->head = head;
        out_field->size = field.size;
        out_field->value = head;
        out_field->value.end = cursor.at;
        out_field->value.at = cursor.at - field.size;
    }
    return found;
}

// ------------------------------------------------------------- leaving it out

// Appends the tag and the length of a field; where the length stands, which
// will be less.
static bool lean_open(const struct lean_field *field, struct wire_lean *out,
                      size_t *out_length_at)
{
    struct pod_wire_cursor cursor = field->head;
    size_t at = out->size;

    if (!lean_copy(&cursor, field->value.at, out))
        return false;
    while (out->bytes[at++] >= 0x80)
        ; // the tag
    *out_length_at = at;
    return true;
}

// Writes the length of what was appended behind it in as many bytes as it had.
static void lean_close(struct wire_lean *out, size_t length_at, size_t begin)
{
    size_t length = out->size - begin;

    for (size_t i = length_at; i < begin; i++) {
        unsigned char more = i + 1 < begin ? 0x80 : 0;
        out->bytes[i] = (unsigned char)((length & 0x7f) | more);
        length >>= 7;
    }
}

// Appends what the cursor has, but for the field at the path from `level` on.
// It calls itself as often as the path is deep.
static bool lean_level(struct pod_wire_cursor cursor,
                       const struct wire_lean_path *path, size_t level,
                       struct wire_lean *out)
{
    struct lean_field field;
    size_t length_at = 0;

    if (!lean_find(cursor, path->numbers[level], level == 0 && path->repeated,
                   &field) ||
        !lean_copy(&cursor, field.head.at, out))
        return false;
    if (level + 1 == path->depth) {
        out->place = out->size;
        out->bulk_begin = field.value.at;
        out->bulk_size = field.size;
    } else {
        if (!lean_open(&field, out, &length_at))
            return false;
        size_t begin = out->size;
        if (!lean_level(field.value, path, level + 1, out))
            return false;
        lean_close(out, length_at, begin);
    }
    cursor.at = field.value.end;
    return lean_copy(&cursor, cursor.end, out);
}

bool wire_lean(const struct pod_blob_piece *pieces, size_t count,
               const struct wire_lean_path *path, struct wire_lean *out_lean)
{
    struct pod_wire_cursor cursor = {.pieces = pieces,
                                     .end = lean_total(pieces, count)};

    out_lean->size = 0;
    return path->depth > 0 && lean_level(cursor, path, 0, out_lean);
}
