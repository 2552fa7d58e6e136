// SPDX-License-Identifier: Apache-2.0
#include "proto/wire_small.h"

#include <stdbool.h>
#include <string.h>

#include "proto/wire_walk.h"

enum {
    SMALL_MAX_DEPTH = 2, // messages in the message
    SMALL_ALIGN = 16,
};

// A number in a field of proto3, or one of the numbers of a repeated field.
static enum pod_wire_type small_wire_type(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_FIXED64 ? POD_WIRE_FIXED64
                                                  : POD_WIRE_VARINT;
}

static bool small_of_oneof(const ProtobufCFieldDescriptor *field)
{
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

// -------------------------------------------------------------------- packing

struct small_out {
    unsigned char *bytes;
    size_t size;
};

static bool small_put_varint(struct small_out *out, uint64_t value)
{
    for (; out->size < WIRE_SMALL_BYTES; value >>= 7) {
        if (value < 0x80) {
            out->bytes[out->size++] = (unsigned char)value;
            return true;
        }
        out->bytes[out->size++] = (unsigned char)(value | 0x80);
    }
    return false;
}

static bool small_put_fixed64(struct small_out *out, uint64_t value)
{
    if (WIRE_SMALL_BYTES - out->size < sizeof(value))
        return false;
    for (unsigned i = 0; i < sizeof(value); i++)
        out->bytes[out->size++] = (unsigned char)(value >> (8 * i));
    return true;
}

static bool small_put_tag(struct small_out *out, uint32_t number,
                          enum pod_wire_type type)
{
    return small_put_varint(out, (uint64_t)number << 3 | type);
}

// Leaves a byte for the length of what follows.
static bool small_open(struct small_out *out, uint32_t number,
                       size_t *out_length_at)
{
    if (!small_put_tag(out, number, POD_WIRE_BYTES) ||
        out->size == WIRE_SMALL_BYTES)
        return false;
    *out_length_at = out->size++;
    return true;
}

static void small_close(struct small_out *out, size_t length_at)
{
    out->bytes[length_at] = (unsigned char)(out->size - length_at - 1);
}

// The value of a member; false: it is no number.
static bool small_number(const ProtobufCFieldDescriptor *field,
                         const void *member, uint64_t *out_value)
{
    int32_t number = 0;
    switch ((int)field->type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        *out_value = *(const uint64_t *)member;
        return true;
    case PROTOBUF_C_TYPE_UINT32:
        *out_value = *(const uint32_t *)member;
        return true;
    case PROTOBUF_C_TYPE_BOOL:
        *out_value = *(const protobuf_c_boolean *)member != 0;
        return true;
    case PROTOBUF_C_TYPE_SINT32:
        number = *(const int32_t *)member;
        *out_value = (uint32_t)number << 1 ^ (number < 0 ? UINT32_MAX : 0);
        return true;
    default:
        return false;
    }
}

static bool small_put_number(struct small_out *out,
                             const ProtobufCFieldDescriptor *field,
                             uint64_t value)
{
    enum pod_wire_type type = small_wire_type(field);
    return small_put_tag(out, field->id, type) &&
           (type == POD_WIRE_FIXED64 ? small_put_fixed64(out, value)
                                     : small_put_varint(out, value));
}

static bool small_pack_list(struct small_out *out,
                            const ProtobufCFieldDescriptor *field,
                            const void *member, size_t count)
{
    const uint64_t *values = *(const uint64_t *const *)member;
    size_t length_at = 0;
    if (field->type != PROTOBUF_C_TYPE_UINT64 ||
        !small_open(out, field->id, &length_at))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!small_put_varint(out, values[i]))
            return false;
    }
    small_close(out, length_at);
    return true;
}

// Nothing is written of a text or of bytes that are empty; any that are not end
// it.
static bool small_is_empty(const ProtobufCFieldDescriptor *field,
                           const void *member)
{
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)member)->len == 0;
    if (field->type != PROTOBUF_C_TYPE_STRING)
        return false;
    const char *text = *(const char *const *)member;
    return text == NULL || text[0] == '\0';
}

static bool small_pack_message(struct small_out *out, uint32_t number,
                               const ProtobufCMessage *message, unsigned depth);

// One that is not repeated. It and the next call each other as often as
// messages are in one another.
static bool small_pack_one(struct small_out *out,
                           const ProtobufCFieldDescriptor *field,
                           const void *member, unsigned depth)
{
    uint64_t value = 0;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessage *inner = *(const void *const *)member;
        return inner == NULL ||
               small_pack_message(out, field->id, inner, depth + 1);
    }
    if (small_number(field, member, &value))
        return (value == 0 && !small_of_oneof(field)) ||
               small_put_number(out, field, value);
    return !small_of_oneof(field) && small_is_empty(field, member);
}

static bool small_pack_field(struct small_out *out,
                             const ProtobufCFieldDescriptor *field,
                             const unsigned char *base, unsigned depth)
{
    const void *member = base + field->offset;
    const void *quantifier = base + field->quantifier_offset;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t count = *(const size_t *)quantifier;
        return count == 0 || small_pack_list(out, field, member, count);
    }
    if (field->label != PROTOBUF_C_LABEL_NONE)
        return false;
    if (small_of_oneof(field) && *(const uint32_t *)quantifier != field->id)
        return true;
    return small_pack_one(out, field, member, depth);
}

static bool small_pack_message(struct small_out *out, uint32_t number,
                               const ProtobufCMessage *message, unsigned depth)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    const void *base = message;
    size_t length_at = 0;
    if (depth > SMALL_MAX_DEPTH || message->n_unknown_fields > 0 ||
        !small_open(out, number, &length_at))
        return false;
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (!small_pack_field(out, &type->fields[i], base, depth))
            return false;
    }
    small_close(out, length_at);
    return true;
}

size_t wire_small_pack(uint32_t number, const ProtobufCMessage *message,
                       unsigned char out[WIRE_SMALL_BYTES])
{
    struct small_out small = {.bytes = out};
    return small_pack_message(&small, number, message, 0) ? small.size : 0;
}

// ------------------------------------------------------------------ unpacking

struct small_memory {
    unsigned char *at;
    size_t left;
};

static void *small_alloc(struct small_memory *memory, size_t bytes)
{
    void *block = memory->at;
    if (bytes > WIRE_SMALL_MEMORY)
        return NULL;
    bytes = (bytes + SMALL_ALIGN - 1) / SMALL_ALIGN * SMALL_ALIGN;
    if (bytes > memory->left)
        return NULL;
    memory->at += bytes;
    memory->left -= bytes;
    return block;
}

// False: it is no number, or more than the member takes.
static bool small_set_number(const ProtobufCFieldDescriptor *field,
                             const struct pod_wire_field *from, void *member)
{
    uint64_t value = from->value;
    if (from->wire_type != small_wire_type(field))
        return false;
    switch ((int)field->type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        *(uint64_t *)member = value;
        return true;
    case PROTOBUF_C_TYPE_UINT32:
        *(uint32_t *)member = (uint32_t)value;
        return value <= UINT32_MAX;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)member = value != 0;
        return value <= 1;
    case PROTOBUF_C_TYPE_SINT32:
        *(int32_t *)member = (int32_t)((uint32_t)value >> 1 ^
                                       ((value & 1) != 0 ? UINT32_MAX : 0));
        return value <= UINT32_MAX;
    default:
        return false;
    }
}

// The numbers in so many bytes: as many as bytes that end one.
static size_t small_count(const unsigned char *data, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += data[i] < 0x80 ? 1 : 0;
    return count;
}

static bool small_set_list(const ProtobufCFieldDescriptor *field,
                           const struct pod_wire_field *from,
                           struct small_memory *memory, void *member,
                           size_t *count)
{
    const struct pod_blob_piece row = {.data = from->data, .size = from->size};
    struct pod_wire_cursor cursor = {.pieces = &row, .end = from->size};
    size_t room = small_count(from->data, from->size);
    uint64_t *values = small_alloc(memory, room * sizeof(values[0]));
    if (field->type != PROTOBUF_C_TYPE_UINT64 || *count != 0 ||
        values == NULL || room == 0)
        return false;
    while (*count < room && pod_wire_varint(&cursor, &values[*count]))
        ++*count;
    *(uint64_t **)member = values;
    return cursor.at == cursor.end;
}

static ProtobufCMessage *small_take(const ProtobufCMessageDescriptor *type,
                                    const void *data, size_t size,
                                    struct small_memory *memory,
                                    unsigned depth);

static bool small_set_message(const ProtobufCFieldDescriptor *field,
                              const struct pod_wire_field *from,
                              struct small_memory *memory, void *member,
                              unsigned depth)
{
    ProtobufCMessage **inner = member;
    if (from->wire_type != POD_WIRE_BYTES || *inner != NULL)
        return false;
    *inner = small_take(field->descriptor, from->data, from->size, memory,
                        depth + 1);
    return *inner != NULL;
}

// What comes twice, where that means more than that the last one counts, ends
// it.
static bool small_set(const ProtobufCFieldDescriptor *field,
                      const struct pod_wire_field *from, unsigned char *base,
                      struct small_memory *memory, unsigned depth)
{
    void *member = base + field->offset;
    void *quantifier = base + field->quantifier_offset;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return from->wire_type == POD_WIRE_BYTES &&
               small_set_list(field, from, memory, member, quantifier);
    if (field->label != PROTOBUF_C_LABEL_NONE)
        return false;
    if (small_of_oneof(field)) {
        uint32_t *which = quantifier;
        if (*which != 0)
            return false;
        *which = field->id;
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return small_set_message(field, from, memory, member, depth);
    return small_set_number(field, from, member);
}

// It calls itself as often as messages are in one another.
static ProtobufCMessage *small_take(const ProtobufCMessageDescriptor *type,
                                    const void *data, size_t size,
                                    struct small_memory *memory, unsigned depth)
{
    struct pod_wire_field from;
    size_t at = 0;
    void *message = depth > SMALL_MAX_DEPTH
                        ? NULL
                        : small_alloc(memory, type->sizeof_message);
    if (message == NULL)
        return NULL;
    protobuf_c_message_init(type, message);
    while (pod_wire_next(data, size, &at, &from)) {
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(type, from.number);
        if (field == NULL || !small_set(field, &from, message, memory, depth))
            return NULL;
    }
    return at == size ? message : NULL;
}

ProtobufCMessage *wire_small_unpack(const ProtobufCMessageDescriptor *type,
                                    const void *data, size_t size,
                                    struct wire_small *memory)
{
    struct small_memory all = {.at = memory->memory, .left = WIRE_SMALL_MEMORY};
    return small_take(type, data, size, &all, 0);
}
