// SPDX-License-Identifier: Apache-2.0
// Messages on the wire: bounded unpacking, and packing into what is sent.
//
// protobuf-c copies what it unpacks, and allocates a block for every string and
// every message in it, so a small message can take much memory; here the caller
// limits the sum. None of our message types is recursive, so depth is bounded
// by the schema (types of package xla, which are, travel as bytes and are read
// by core/hlo).
#ifndef POD_PROTO_WIRE_H
#define POD_PROTO_WIRE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "proto/wire_lean.h"
#include "proto/wire_walk.h"

enum {
    // What one message may take unpacked, per byte of it and on top.
    POD_WIRE_BUDGET_FACTOR = 4,
    POD_WIRE_BUDGET_EXTRA = 64 << 10,
    // Longest head of a length-delimited field: tag and length.
    POD_WIRE_HEAD_BYTES = 5 + 10,
};

// Unpacks a message; it may take `budget` bytes of memory in all. 0: the
// budget that follows from `size` and the numbers above. BAD_VALUE when it is
// malformed, lacks a required field, or needs more; OUT_OF_MEMORY. Free the
// message with pod_wire_free. Any thread.
enum pod_code pod_wire_unpack(const ProtobufCMessageDescriptor *type,
                              const void *data, size_t size, size_t budget,
                              ProtobufCMessage **out_message,
                              struct pod_err *err)
    __attribute__((warn_unused_result));
// NULL is allowed. Only for messages of pod_wire_unpack.
void pod_wire_free(ProtobufCMessage *message);

// A bytes field that was not unpacked but left in place.
struct pod_wire_bulk {
    const unsigned char *data; // borrowed from the message; NULL: none was left
    size_t size;
};
// The same, except for the bytes field at `path`: if wire_lean can leave it
// out, it is empty in the unpacked message, and *out_bulk says where its bytes
// are. Else everything is unpacked.
enum pod_code
pod_wire_unpack_but(const ProtobufCMessageDescriptor *type,
                    const struct wire_lean_path *path, const void *data,
                    size_t size, ProtobufCMessage **out_message,
                    struct pod_wire_bulk *out_bulk, struct pod_err *err)
    __attribute__((warn_unused_result));

// A blob over bytes inside an unpacked message, without a copy: the message is
// freed with the blob's last reference. NULL: no memory, the message stays the
// caller's.
struct pod_blob *pod_wire_blob(ProtobufCMessage *owned_message,
                               ProtobufCBinaryData bytes);

// Makes a text valid for a string field: bytes that are not UTF-8 become
// question marks.
void pod_wire_clean_text(char *text);

// What is to be sent: bytes of its own, then, if `tail` is set, a part of a
// blob, which is not copied. Made for one stream or call, which takes it over.
struct pod_wire_out {
    struct pod_list link;  // of whoever owns it
    struct pod_blob *tail; // with a reference, or NULL
    size_t tail_offset;
    size_t tail_size;
    size_t size; // of head
    unsigned char head[];
};

// With room for `size` bytes, no tail. NULL: no memory.
struct pod_wire_out *pod_wire_out_new(size_t size);
// NULL is allowed.
void pod_wire_out_free(struct pod_wire_out *out);

// The message packed whole. NULL: no memory.
struct pod_wire_out *pod_wire_pack(const ProtobufCMessage *message);

// Nested messages, the outer first: each is the field `number` of the one
// before it, the first one of the message that is made.
struct pod_wire_level {
    uint32_t number;
    const ProtobufCMessage *message; // its other fields; NULL: none
};

// Packs the levels, and into the innermost, if `tail` is not NULL, the bytes
// field `number` with `tail_size` bytes of the tail from `tail_offset` on,
// which are not copied (a reference is taken). The message of a level must not
// itself have the field of the next level or of the bytes. NULL: no memory.
struct pod_wire_out *pod_wire_pack_levels(const struct pod_wire_level *levels,
                                          size_t count, uint32_t number,
                                          struct pod_blob *tail,
                                          size_t tail_offset, size_t tail_size);

#endif
