// SPDX-License-Identifier: Apache-2.0
#include "proto/wire.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "proto/wire_small.h"

enum { WIRE_MAX_LEVELS = 4 };

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

enum pod_code pod_wire_unpack_but(const ProtobufCMessageDescriptor *type,
                                  const struct wire_lean_path *path,
                                  const void *data, size_t size,
                                  ProtobufCMessage **out_message,
                                  struct pod_wire_bulk *out_bulk,
                                  struct pod_err *err)
{
    const struct pod_blob_piece row = {.data = data, .size = size};
    struct wire_lean lean;
    *out_bulk = (struct pod_wire_bulk){.data = NULL};
    if (size < WIRE_LEAN_BULK_BYTES || !wire_lean(&row, 1, path, &lean))
        return pod_wire_unpack(type, data, size, 0, out_message, err);
    *out_bulk = (struct pod_wire_bulk){.data = row.data + lean.bulk_begin,
                                       .size = lean.bulk_size};
    return pod_wire_unpack(type, lean.bytes, lean.size, 0, out_message, err);
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

// -------------------------------------------------------------------- packing

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
    size_t at = wire_put_varint(out, (uint64_t)number << 3 | POD_WIRE_BYTES);
    return at + wire_put_varint(out + at, size);
}

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

// NULL also: it is no small message of numbers.
static struct pod_wire_out *wire_pack_small(const struct pod_wire_level *level)
{
    unsigned char bytes[WIRE_SMALL_BYTES];
    size_t size = level->message == NULL
                      ? 0
                      : wire_small_pack(level->number, level->message, bytes);
    struct pod_wire_out *out = size == 0 ? NULL : pod_wire_out_new(size);
    if (out != NULL)
        memcpy(out->head, bytes, size);
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
    struct pod_wire_out *out = NULL;
    if (count > WIRE_MAX_LEVELS)
        return NULL;
    if (count == 1 && tail == NULL)
        out = wire_pack_small(&levels[0]);
    if (out != NULL)
        return out;
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
    out = pod_wire_out_new(inner - (tail == NULL ? 0 : tail_size));
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
