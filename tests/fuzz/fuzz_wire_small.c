// SPDX-License-Identifier: Apache-2.0
// Any bytes as a small message of numbers: what is taken as one, protobuf-c
// must take, too, and make the same of.
//
// The first byte says which message it is.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pod_worker.pb-c.h"
#include "proto/wire_small.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_FIELD = 3, FUZZ_HEAD_BYTES = 2 };

static const ProtobufCMessageDescriptor *const fuzz_types[] = {
    &pod__worker__v1__entry__descriptor,
    &pod__worker__v1__outcome__descriptor,
    &pod__worker__v1__heartbeat_response__descriptor,
    &pod__worker__v1__exchange_step__descriptor,
};

static uint8_t *fuzz_pack(const ProtobufCMessage *message, size_t *out_size)
{
    *out_size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(*out_size + 1);
    assert(bytes != NULL);
    assert(protobuf_c_message_pack(message, bytes) == *out_size);
    return bytes;
}

// What protobuf-c unpacks is packed as it does, if it is small.
static void fuzz_check_pack(const ProtobufCMessage *message,
                            const uint8_t *bytes, size_t size)
{
    unsigned char small[WIRE_SMALL_BYTES];
    size_t packed = wire_small_pack(FUZZ_FIELD, message, small);

    if (packed == 0)
        return;
    assert(packed == size + FUZZ_HEAD_BYTES);
    assert(small[0] == (FUZZ_FIELD << 3 | 2) && small[1] == size);
    assert(memcmp(small + FUZZ_HEAD_BYTES, bytes, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t types = sizeof fuzz_types / sizeof fuzz_types[0];
    struct wire_small memory;

    if (size == 0)
        return 0;
    const ProtobufCMessageDescriptor *type = fuzz_types[data[0] % types];
    const ProtobufCMessage *small =
        wire_small_unpack(type, data + 1, size - 1, &memory);
    ProtobufCMessage *whole =
        protobuf_c_message_unpack(type, NULL, size - 1, data + 1);
    if (whole == NULL) {
        assert(small == NULL);
        return 0;
    }
    size_t whole_size = 0;
    uint8_t *bytes = fuzz_pack(whole, &whole_size);
    fuzz_check_pack(whole, bytes, whole_size);
    if (small != NULL) {
        size_t small_size = 0;
        uint8_t *same = fuzz_pack(small, &small_size);
        assert(small_size == whole_size);
        assert(memcmp(same, bytes, whole_size) == 0);
        free(same);
    }
    free(bytes);
    protobuf_c_message_free_unpacked(whole, NULL);
    return 0;
}
