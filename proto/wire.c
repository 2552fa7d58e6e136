// SPDX-License-Identifier: Apache-2.0
#include "proto/wire.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/str.h"

enum {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
    WIRE_MAX_LEVELS = 4,
    WIRE_MAX_VARINT = 10,
    // Bytes that are not copied, and what may stand beside them.
    WIRE_BULK_BYTES = 64 << 10,
    WIRE_REST_BYTES = 1 << 10,
};

// ------------------------------------------------------------------ unpacking

struct wire_budget {
    size_t left;
};

static void *wire_alloc(void *data, size_t bytes)
{
    struct wire_budget *budget = data;
    if (bytes > budget->left)
        return NULL;
    budget->left -= bytes;
    return pod_malloc(bytes);
}

static void wire_release(void *data, void *block)
{
    (void)data;
    pod_free(block);
}

enum pod_code pod_wire_unpack(const ProtobufCMessageDescriptor *type,
                              const void *data, size_t size, size_t budget,
                              ProtobufCMessage **out_message,
                              struct pod_err *err)
{
    struct wire_budget left = {.left = budget};
    ProtobufCAllocator allocator = {
        .alloc = wire_alloc, .free = wire_release, .allocator_data = &left};
    if (budget == 0 &&
        (__builtin_mul_overflow(size, (size_t)POD_WIRE_BUDGET_FACTOR,
                                &left.left) ||
         __builtin_add_overflow(left.left, (size_t)POD_WIRE_BUDGET_EXTRA,
                                &left.left)))
        left.left = SIZE_MAX;
    ProtobufCMessage *message =
        protobuf_c_message_unpack(type, &allocator, size, data);
    if (message == NULL)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "%s of %zu bytes is malformed, or takes too much "
                           "memory",
                           type->name, size);
    *out_message = message;
    return POD_OK;
}

void pod_wire_free(ProtobufCMessage *message)
{
    ProtobufCAllocator allocator = {.alloc = wire_alloc, .free = wire_release};
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, &allocator);
}

static void wire_blob_free(void *arg, size_t size)
{
    (void)size;
    pod_wire_free(arg);
}

struct pod_blob *pod_wire_blob(ProtobufCMessage *owned_message,
                               ProtobufCBinaryData bytes)
{
    struct pod_blob *blob = pod_blob_new(0);
    if (blob == NULL)
        return NULL;
    blob->data = bytes.data;
    blob->size = bytes.len;
    blob->on_free = wire_blob_free;
    blob->arg = owned_message;
    return blob;
}

void pod_wire_clean_text(char *text)
{
    if (pod_utf8_valid(text, strlen(text)))
        return;
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text >= 0x80)
            *text = '?';
    }
}

// -------------------------------------------------------------------- walking

static bool wire_varint(const unsigned char *data, size_t size, size_t *at,
                        uint64_t *out_value)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < WIRE_MAX_VARINT && *at < size; i++) {
        unsigned char byte = data[(*at)++];
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *out_value = value;
            return true;
        }
    }
    return false;
}

static bool wire_fixed(const unsigned char *data, size_t size, size_t *at,
                       size_t width, uint64_t *out_value)
{
    if (size - *at < width)
        return false;
    *out_value = 0;
    for (size_t i = 0; i < width; i++)
        *out_value |= (uint64_t)data[(*at)++] << (8 * i);
    return true;
}

static bool wire_value(const unsigned char *data, size_t size, size_t *at,
                       struct pod_wire_field *field)
{
    switch (field->wire_type) {
    case WIRE_VARINT:
        return wire_varint(data, size, at, &field->value);
    case WIRE_FIXED64:
        return wire_fixed(data, size, at, 8, &field->value);
    case WIRE_FIXED32:
        return wire_fixed(data, size, at, 4, &field->value);
    case WIRE_BYTES:
        if (!wire_varint(data, size, at, &field->value) ||
            field->value > size - *at)
            return false;
        field->data = data + *at;
        field->size = (size_t)field->value;
        *at += field->size;
        return true;
    default:
        return false;
    }
}

bool pod_wire_next(const void *data, size_t size, size_t *cursor,
                   struct pod_wire_field *out_field)
{
    struct pod_wire_field field = {.number = 0};
    size_t at = *cursor;
    uint64_t tag = 0;
    if (at >= size || !wire_varint(data, size, &at, &tag) || tag >> 3 == 0 ||
        tag > UINT32_MAX)
        return false;
    field.number = (uint32_t)(tag >> 3);
    field.wire_type = (unsigned)(tag & 7);
    if (!wire_value(data, size, &at, &field))
        return false;
    *cursor = at;
    *out_field = field;
    return true;
}

// ------------------------------------------------------------- leaving a field

static size_t wire_put_varint(unsigned char *out, uint64_t value)
{
    size_t at = 0;
    for (; value >= 0x80; value >>= 7)
        out[at++] = (unsigned char)(value | 0x80);
    out[at++] = (unsigned char)value;
    return at;
}

static size_t wire_put_head(unsigned char *out, uint32_t number, size_t size)
{
    size_t at = wire_put_varint(out, (uint64_t)number << 3 | WIRE_BYTES);
    return at + wire_put_varint(out + at, size);
}

// A message without one field.
struct wire_rest {
    unsigned char bytes[WIRE_REST_BYTES];
    size_t size;
};

static bool wire_rest_add(struct wire_rest *rest, const unsigned char *data,
                          size_t size)
{
    if (size > WIRE_REST_BYTES - rest->size)
        return false;
    memcpy(rest->bytes + rest->size, data, size);
    rest->size += size;
    return true;
}

// Finds the only field of that number, which is of bytes, from *out_begin to
// *out_end of the message; false also when the message is malformed.
static bool wire_find_only(const unsigned char *data, size_t size,
                           uint32_t number, struct pod_wire_field *out_field,
                           size_t *out_begin, size_t *out_end)
{
    struct pod_wire_field field;
    size_t count = 0;
    size_t begin = 0;
    size_t at = 0;
    for (; pod_wire_next(data, size, &at, &field); begin = at) {
        if (field.number != number)
            continue;
        *out_field = field;
        *out_begin = begin;
        *out_end = at;
        count++;
    }
    return count == 1 && at == size && out_field->wire_type == WIRE_BYTES;
}

// The message without the field at the path; false: it stays as it is.
static bool wire_leave(const unsigned char *data, size_t size,
                       const uint32_t *path, size_t path_count,
                       struct wire_rest *out_rest,
                       struct pod_wire_bulk *out_bulk)
{
    struct pod_wire_field field;
    struct wire_rest inner = {.size = 0};
    unsigned char head[POD_WIRE_HEAD_BYTES];
    size_t head_size = 0;
    size_t begin = 0;
    size_t end = 0;
    if (!wire_find_only(data, size, path[0], &field, &begin, &end) ||
        field.size < WIRE_BULK_BYTES)
        return false;
    if (path_count == 1) {
        *out_bulk =
            (struct pod_wire_bulk){.data = field.data, .size = field.size};
    } else {
        if (!wire_leave(field.data, field.size, path + 1, path_count - 1,
                        &inner, out_bulk))
            return false;
        head_size = wire_put_head(head, path[0], inner.size);
    }
    return wire_rest_add(out_rest, data, begin) &&
           wire_rest_add(out_rest, head, head_size) &&
           wire_rest_add(out_rest, inner.bytes, inner.size) &&
           wire_rest_add(out_rest, data + end, size - end);
}

enum pod_code pod_wire_unpack_but(const ProtobufCMessageDescriptor *type,
                                  const uint32_t *path, size_t path_count,
                                  const void *data, size_t size,
                                  ProtobufCMessage **out_message,
                                  struct pod_wire_bulk *out_bulk,
                                  struct pod_err *err)
{
    struct wire_rest rest = {.size = 0};
    bool left = path_count <= POD_WIRE_MAX_PATH &&
                wire_leave(data, size, path, path_count, &rest, out_bulk);
    if (left)
        return pod_wire_unpack(type, rest.bytes, rest.size, 0, out_message,
                               err);
    *out_bulk = (struct pod_wire_bulk){.data = NULL};
    return pod_wire_unpack(type, data, size, 0, out_message, err);
}

// -------------------------------------------------------------------- packing

struct pod_wire_out *pod_wire_out_new(size_t size)
{
    size_t bytes = 0;
    if (__builtin_add_overflow(sizeof(struct pod_wire_out), size, &bytes))
        return NULL;
    struct pod_wire_out *out = pod_malloc(bytes);
    if (out == NULL)
        return NULL;
    memset(out, 0, sizeof(*out));
    pod_list_init(&out->link);
    out->size = size;
    return out;
}

void pod_wire_out_free(struct pod_wire_out *out)
{
    if (out == NULL)
        return;
    pod_blob_unref(out->tail);
    pod_free(out);
}

struct pod_wire_out *pod_wire_pack(const ProtobufCMessage *message)
{
    struct pod_wire_out *out =
        pod_wire_out_new(protobuf_c_message_get_packed_size(message));
    if (out != NULL)
        (void)protobuf_c_message_pack(message, out->head);
    return out;
}

struct pod_wire_out *pod_wire_pack_levels(const struct pod_wire_level *levels,
                                          size_t count, uint32_t number,
                                          struct pod_blob *tail,
                                          size_t tail_offset, size_t tail_size)
{
    unsigned char heads[WIRE_MAX_LEVELS + 1][POD_WIRE_HEAD_BYTES];
    size_t head_sizes[WIRE_MAX_LEVELS + 1] = {0};
    size_t sizes[WIRE_MAX_LEVELS] = {0};
    size_t inner = tail == NULL ? 0 : tail_size;
    if (count > WIRE_MAX_LEVELS)
        return NULL;
    if (tail != NULL) {
        head_sizes[count] = wire_put_head(heads[count], number, tail_size);
        inner += head_sizes[count];
    }
    for (size_t i = count; i-- > 0;) {
        if (levels[i].message != NULL)
            sizes[i] = protobuf_c_message_get_packed_size(levels[i].message);
        inner += sizes[i];
        head_sizes[i] = wire_put_head(heads[i], levels[i].number, inner);
        inner += head_sizes[i];
    }
    struct pod_wire_out *out =
        pod_wire_out_new(inner - (tail == NULL ? 0 : tail_size));
    if (out == NULL)
        return NULL;
    unsigned char *at = out->head;
    for (size_t i = 0; i <= count; i++) {
        memcpy(at, heads[i], head_sizes[i]);
        at += head_sizes[i];
        if (i < count && levels[i].message != NULL)
            at += protobuf_c_message_pack(levels[i].message, at);
    }
    if (tail != NULL) {
        out->tail = pod_blob_ref(tail);
        out->tail_offset = tail_offset;
        out->tail_size = tail_size;
    }
    return out;
}
