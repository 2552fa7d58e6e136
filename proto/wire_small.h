// SPDX-License-Identifier: Apache-2.0
// Small messages of numbers, which is what operations and their outcomes mostly
// are: packed and unpacked in one pass, in memory of the caller's. What is no
// such message is left to protobuf-c, which makes the same of these, too.
#ifndef POD_PROTO_WIRE_SMALL_H
#define POD_PROTO_WIRE_SMALL_H

#include <protobuf-c/protobuf-c.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_SMALL_BYTES = 120,  // on the wire; so each length in it is of one byte
    WIRE_SMALL_MEMORY = 1024 // unpacked
};

// What a message is unpacked in. Its bytes need not be set before.
struct wire_small {
    alignas(16) unsigned char memory[WIRE_SMALL_MEMORY];
};

// Writes the message as the field `number` of another; how many bytes that
// took, at most WIRE_SMALL_BYTES. 0: it is no small message of numbers. Any
// thread.
size_t wire_small_pack(uint32_t number, const ProtobufCMessage *message,
                       unsigned char out[WIRE_SMALL_BYTES]);

// The message, within *memory. NULL: it is no small message of numbers, or is
// not written in the plainest way, or is malformed. Any thread.
ProtobufCMessage *wire_small_unpack(const ProtobufCMessageDescriptor *type,
                                    const void *data, size_t size,
                                    struct wire_small *memory);

#endif
