// SPDX-License-Identifier: Apache-2.0
// Byte buffers: messages on their way to gRPC and from it.
#include <string.h>

#include "core/base/mem.h"
#include "proto/rpc_internal.h"
#include "proto/wire_lean.h"

static void bytes_unref_blob(void *blob)
{
    pod_blob_unref(blob);
}

struct bytes_plan {
    size_t head_bytes;
    size_t slices;
};

static struct bytes_plan bytes_plan(struct pod_list *list)
{
    struct bytes_plan plan = {.slices = 1};
    for (struct pod_list *item = list->next; item != list; item = item->next) {
        struct pod_wire_out *out =
            POD_CONTAINER(item, struct pod_wire_out, link);
        plan.head_bytes += out->size;
        if (out->tail != NULL)
            plan.slices += 2;
    }
    return plan;
}

// The heads lie in one slice, of which the pieces between the tails are cut.
static size_t bytes_cut(struct pod_list *list, grpc_slice heads,
                        grpc_slice *slices)
{
    size_t count = 0;
    size_t from = 0;
    size_t at = 0;
    for (struct pod_list *item = list->next; item != list; item = item->next) {
        struct pod_wire_out *out =
            POD_CONTAINER(item, struct pod_wire_out, link);
        memcpy(GRPC_SLICE_START_PTR(heads) + at, out->head, out->size);
        at += out->size;
        if (out->tail == NULL)
            continue;
        slices[count++] = grpc_slice_sub(heads, from, at);
        from = at;
        slices[count++] = grpc_slice_new_with_user_data(
            out->tail->data + out->tail_offset, out->tail_size,
            bytes_unref_blob, pod_blob_ref(out->tail));
    }
    slices[count++] = grpc_slice_sub(heads, from, at);
    return count;
}

grpc_byte_buffer *rpc_bytes_join(struct pod_list *owned_list)
{
    struct bytes_plan plan = bytes_plan(owned_list);
    grpc_slice *slices = pod_calloc(plan.slices, sizeof(slices[0]));
    grpc_byte_buffer *buffer = NULL;
    if (slices != NULL) {
        grpc_slice heads = grpc_slice_malloc(plan.head_bytes);
        size_t count = bytes_cut(owned_list, heads, slices);
        buffer = grpc_raw_byte_buffer_create(slices, count);
        for (size_t i = 0; i < count; i++)
            grpc_slice_unref(slices[i]);
        grpc_slice_unref(heads);
    }
    pod_free(slices);
    struct pod_list *item;
    while ((item = pod_list_pop_front(owned_list)) != NULL)
        pod_wire_out_free(POD_CONTAINER(item, struct pod_wire_out, link));
    return buffer;
}

// One slice is used as it is, several are copied together.
static bool bytes_read(grpc_byte_buffer *buffer, grpc_slice *out_slice)
{
    grpc_byte_buffer_reader reader;
    size_t size = grpc_byte_buffer_length(buffer);
    if (!grpc_byte_buffer_reader_init(&reader, buffer))
        return false;
    if (grpc_byte_buffer_reader_next(&reader, out_slice) == 0)
        *out_slice = grpc_empty_slice();
    grpc_byte_buffer_reader_destroy(&reader);
    if (GRPC_SLICE_LENGTH(*out_slice) == size)
        return true;
    grpc_slice_unref(*out_slice);
    if (!grpc_byte_buffer_reader_init(&reader, buffer))
        return false;
    *out_slice = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    return true;
}

bool rpc_bytes_flatten(grpc_byte_buffer *owned_buffer,
                       struct rpc_flat *out_flat)
{
    bool ok = bytes_read(owned_buffer, &out_flat->slice);
    grpc_byte_buffer_destroy(owned_buffer);
    if (!ok)
        return false;
    // Small slices hold their bytes themselves: point into this copy.
    out_flat->data = GRPC_SLICE_START_PTR(out_flat->slice);
    out_flat->size = GRPC_SLICE_LENGTH(out_flat->slice);
    return true;
}

void rpc_flat_fini(struct rpc_flat *flat)
{
    grpc_slice_unref(flat->slice);
}

static void flat_unref_slice(void *arg, size_t size)
{
    grpc_slice *slice = arg;
    (void)size;
    grpc_slice_unref(*slice);
    pod_free(slice);
}

static bool flat_has(const struct rpc_flat *flat, const void *data, size_t size)
{
    uintptr_t begin = (uintptr_t)flat->data;
    uintptr_t at = (uintptr_t)data;
    return at >= begin && at - begin <= flat->size &&
           size <= flat->size - (at - begin);
}

struct pod_blob *rpc_flat_keep(const struct rpc_flat *flat, const void *data,
                               size_t size)
{
    // A slice that holds its bytes itself cannot be pointed into.
    if (flat->slice.refcount == NULL || !flat_has(flat, data, size))
        return NULL;
    struct pod_blob *blob = pod_blob_new(0);
    grpc_slice *slice = pod_malloc(sizeof(*slice));
    if (blob == NULL || slice == NULL) {
        pod_blob_unref(blob);
        pod_free(slice);
        return NULL;
    }
    *slice = grpc_slice_ref(flat->slice);
    blob->data = GRPC_SLICE_START_PTR(*slice) +
                 ((uintptr_t)data - (uintptr_t)flat->data);
    blob->size = size;
    blob->on_free = flat_unref_slice;
    blob->arg = slice;
    return blob;
}

// ----------------------------------------------------------------- in pieces

// The pieces of a blob, and what they are in.
struct bytes_pieces {
    grpc_byte_buffer *buffer;
    size_t count;
    struct pod_blob_piece list[];
};

static size_t bytes_count(grpc_byte_buffer *buffer)
{
    grpc_byte_buffer_reader reader;
    grpc_slice *slice;
    size_t count = 0;
    if (!grpc_byte_buffer_reader_init(&reader, buffer))
        return 0;
    while (grpc_byte_buffer_reader_peek(&reader, &slice))
        count++;
    grpc_byte_buffer_reader_destroy(&reader);
    return count;
}

// The buffer stays the caller's until all has gone well. NULL: it cannot be
// read, or no memory.
static struct bytes_pieces *bytes_pieces_new(grpc_byte_buffer *buffer,
                                             size_t room)
{
    struct bytes_pieces *pieces =
        pod_calloc(1, sizeof(*pieces) + room * sizeof(pieces->list[0]));
    grpc_byte_buffer_reader reader;
    grpc_slice *slice;
    size_t at = 0;
    if (pieces == NULL || !grpc_byte_buffer_reader_init(&reader, buffer)) {
        pod_free(pieces);
        return NULL;
    }
    // What is peeked at stays where it is as long as the buffer.
    while (pieces->count < room &&
           grpc_byte_buffer_reader_peek(&reader, &slice)) {
        size_t size = GRPC_SLICE_LENGTH(*slice);
        if (size == 0)
            continue;
        pieces->list[pieces->count++] = (struct pod_blob_piece){
            .data = GRPC_SLICE_START_PTR(*slice), .begin = at, .size = size};
        at += size;
    }
    grpc_byte_buffer_reader_destroy(&reader);
    pieces->buffer = buffer;
    return pieces;
}

// Keeps only so many bytes, from `begin` on.
static void bytes_pieces_cut(struct bytes_pieces *pieces, size_t begin,
                             size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < pieces->count; i++) {
        struct pod_blob_piece piece = pieces->list[i];
        size_t from = piece.begin < begin ? begin : piece.begin;
        size_t to = piece.begin + piece.size;
        if (to > begin + size)
            to = begin + size;
        if (from < to)
            pieces->list[kept++] = (struct pod_blob_piece){
                .data = piece.data + (from - piece.begin),
                .begin = from - begin,
                .size = to - from};
    }
    pieces->count = kept;
}

static void bytes_pieces_free(void *arg, size_t size)
{
    struct bytes_pieces *pieces = arg;
    (void)size;
    grpc_byte_buffer_destroy(pieces->buffer);
    pod_free(pieces);
}

static struct pod_blob *bytes_pieces_blob(struct bytes_pieces *owned_pieces,
                                          size_t size)
{
    struct pod_blob *blob = pod_blob_new(0);
    if (blob == NULL)
        return NULL;
    blob->data = NULL;
    blob->size = size;
    blob->pieces = owned_pieces->list;
    blob->piece_count = owned_pieces->count;
    blob->on_free = bytes_pieces_free;
    blob->arg = owned_pieces;
    return blob;
}

struct rpc_lean *rpc_lean_new(grpc_byte_buffer *buffer,
                              const struct wire_lean_path *path)
{
    size_t room = bytes_count(buffer);
    if (room < 2)
        return NULL; // in one piece it is not copied anyway
    struct rpc_lean *lean = pod_malloc(sizeof(*lean));
    struct bytes_pieces *pieces = bytes_pieces_new(buffer, room);
    if (lean != NULL && pieces != NULL &&
        wire_lean(pieces->list, pieces->count, path, &lean->wire)) {
        bytes_pieces_cut(pieces, lean->wire.bulk_begin, lean->wire.bulk_size);
        lean->bulk = bytes_pieces_blob(pieces, lean->wire.bulk_size);
        if (lean->bulk != NULL)
            return lean;
    }
    pod_free(lean);
    pod_free(pieces);
    return NULL;
}

void rpc_lean_free(struct rpc_lean *lean)
{
    if (lean == NULL)
        return;
    pod_blob_unref(lean->bulk);
    pod_free(lean);
}

struct pod_blob *rpc_lean_take(struct rpc_lean *lean, const void *data,
                               size_t size)
{
    uintptr_t place = (uintptr_t)(lean->wire.bytes + lean->wire.place);
    struct pod_blob *bulk = lean->bulk;
    if (place < (uintptr_t)data || place > (uintptr_t)data + size)
        return NULL;
    lean->bulk = NULL;
    return bulk;
}

char *rpc_text_copy(grpc_slice slice)
{
    return pod_strndup((const char *)GRPC_SLICE_START_PTR(slice),
                       GRPC_SLICE_LENGTH(slice));
}
