// SPDX-License-Identifier: Apache-2.0
#include "proto/wire.h"

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/base/str.h"

enum {
    WIRE_MAX_LEVELS = 4,
    WIRE_BLOCK_BYTES = 512, // enough for an operation or an outcome
};

// ------------------------------------------------------------------ unpacking

// All that one message takes unpacked stands in a few blocks, most often in
// one: it is freed at once, without a walk over its fields.
struct wire_block {
    struct wire_block *next;
    alignas(max_align_t) unsigned char memory[];
};

struct wire_region {
    size_t budget;
    bool starved;             // there was no memory
    struct wire_block *first; // what was asked for first is at its start
    struct wire_block *last;
    size_t used; // of the last one
    size_t size;
};

static void wire_free_blocks(struct wire_block *block)
{
    while (block != NULL) {
        struct wire_block *next = block->next;
        pod_free(block);
        block = next;
    }
}

static bool wire_grow(struct wire_region *region, size_t bytes)
{
    size_t size = bytes > WIRE_BLOCK_BYTES ? bytes : (size_t)WIRE_BLOCK_BYTES;
    struct wire_block *block = NULL;
    if (size <= SIZE_MAX - sizeof(*block))
        block = pod_malloc(sizeof(*block) + size);
    if (block == NULL) {
        region->starved = true;
        return false;
    }
    block->next = NULL;
    if (region->first == NULL)
        region->first = block;
    else
        region->last->next = block;
    region->last = block;
    region->used = 0;
    region->size = size;
    return true;
}

static void *wire_alloc(void *data, size_t bytes)
{
    struct wire_region *region = data;
    size_t align = alignof(max_align_t);
    size_t room = (bytes / align + 1) * align;
    if (bytes > region->budget || bytes > SIZE_MAX - align)
        return NULL;
    if (room > region->size - region->used && !wire_grow(region, room))
        return NULL;
    void *taken = region->last->memory + region->used;
    region->budget -= bytes;
    region->used += room;
    return taken;
}

static void wire_release(void *data, void *block)
{
    (void)data; // with the region
    (void)block;
}

enum pod_code pod_wire_unpack(const ProtobufCMessageDescriptor *type,
                              const void *data, size_t size, size_t budget,
                              ProtobufCMessage **out_message,
                              struct pod_err *err)
{
    struct wire_region region = {.budget = budget};
    ProtobufCAllocator allocator = {
        .alloc = wire_alloc, .free = wire_release, .allocator_data = &region};
    if (budget == 0 &&
        (__builtin_mul_overflow(size, (size_t)POD_WIRE_BUDGET_FACTOR,
                                &region.budget) ||
         __builtin_add_overflow(region.budget, (size_t)POD_WIRE_BUDGET_EXTRA,
                                &region.budget)))
        region.budget = SIZE_MAX;
    ProtobufCMessage *message =
        protobuf_c_message_unpack(type, &allocator, size, data);
    if (message == NULL) {
        wire_free_blocks(region.first);
        if (region.starved)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for %s of %zu bytes", type->name,
                               size);
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "%s of %zu bytes is malformed, or takes too much "
                           "memory",
                           type->name, size);
    }
    assert((void *)message == (void *)region.first->memory);
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
    if (message != NULL)
        wire_free_blocks(POD_CONTAINER(message, struct wire_block, memory));
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
