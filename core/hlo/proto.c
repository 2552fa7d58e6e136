// SPDX-License-Identifier: Apache-2.0
// Unpacking recurses as deep as the bytes say and gives no reason when it
// fails, so the bytes are walked first, along the same descriptors: that bounds
// the depth and finds the place of a fault.
#include "core/hlo/proto.h"

#include "core/base/mem.h"
#include "core/hlo/arena.h"
#include "core/hlo/verify.h"

#include <string.h>

enum { PROTO_MAX_DEPTH = 100 };

enum proto_wire {
    PROTO_VARINT = 0,
    PROTO_FIXED64 = 1,
    PROTO_BYTES = 2,
    PROTO_FIXED32 = 5,
};

struct proto_slice {
    const uint8_t *data;
    size_t length;
};

// One field of a message as it is on the wire.
struct proto_field {
    uint32_t number;
    unsigned wire;
    struct proto_slice value; // of PROTO_BYTES: what the length counts
};

// The walk; `at` counts from the start of the outermost message.
struct proto_walk {
    const uint8_t *data;
    size_t at;
    const char *fault; // what is wrong at `at`, or NULL
};

static bool proto_fault(struct proto_walk *walk, const char *fault)
{
    walk->fault = fault;
    return false;
}

static bool proto_varint(struct proto_walk *walk, size_t end, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (walk->at == end)
            return proto_fault(walk, "message ends inside a field");
        uint8_t byte = walk->data[walk->at++];
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return proto_fault(walk, "number is longer than ten bytes");
}

// Moves past `length` bytes, all of which must be there.
static bool proto_skip(struct proto_walk *walk, size_t end, uint64_t length)
{
    if (length > end - walk->at) {
        walk->at = end;
        return proto_fault(walk, "message ends inside a field");
    }
    walk->at += (size_t)length;
    return true;
}

static bool proto_next(struct proto_walk *walk, size_t end,
                       struct proto_field *out)
{
    uint64_t tag;
    uint64_t length = 0;
    size_t start = walk->at;
    if (!proto_varint(walk, end, &tag))
        return false;
    out->wire = (unsigned)(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) {
        walk->at = start;
        return proto_fault(walk, "field has an impossible number");
    }
    out->number = (uint32_t)(tag >> 3);
    if (out->wire == PROTO_VARINT)
        return proto_varint(walk, end, &length);
    if (out->wire == PROTO_FIXED64)
        return proto_skip(walk, end, 8);
    if (out->wire == PROTO_FIXED32)
        return proto_skip(walk, end, 4);
    if (out->wire != PROTO_BYTES) {
        walk->at = start;
        return proto_fault(walk, "field has an impossible type");
    }
    if (!proto_varint(walk, end, &length))
        return false;
    out->value.data = walk->data + walk->at;
    out->value.length = (size_t)length;
    return proto_skip(walk, end, length);
}

// Walks a message from walk->at to `end` and those inside it. A message in a
// field that is not described is never unpacked, so it is not walked.
static bool proto_check(struct proto_walk *walk, size_t end,
                        const ProtobufCMessageDescriptor *type, unsigned depth)
{
    if (depth > PROTO_MAX_DEPTH)
        return proto_fault(walk, "messages are nested more than 100 deep");
    while (walk->at < end) {
        struct proto_field field;
        const ProtobufCFieldDescriptor *known;
        size_t after;
        if (!proto_next(walk, end, &field))
            return false;
        known = protobuf_c_message_descriptor_get_field(type, field.number);
        if (known == NULL || known->type != PROTOBUF_C_TYPE_MESSAGE ||
            field.wire != PROTO_BYTES)
            continue;
        after = walk->at;
        walk->at = after - field.value.length;
        if (!proto_check(walk, after, known->descriptor, depth + 1))
            return false;
    }
    return true;
}

// Whether the bytes are a sequence of fields, and none is above `limit`.
static bool proto_fields_upto(struct proto_slice bytes, uint32_t limit,
                              struct proto_slice *out_first)
{
    struct proto_walk walk = {.data = bytes.data};
    struct proto_field field;
    while (walk.at < bytes.length) {
        if (!proto_next(&walk, bytes.length, &field) || field.number > limit)
            return false;
        if (field.number == 1 && field.wire == PROTO_BYTES)
            *out_first = field.value;
    }
    return true;
}

// The bytes of the module: those of field 1 if the message is an HloProto. A
// module's field 1 is its name; every module has a field 4.
static struct proto_slice proto_module_bytes(struct proto_slice bytes)
{
    struct proto_slice inner = {.data = NULL};
    struct proto_slice unused;
    if (proto_fields_upto(bytes, 3, &inner) && inner.data != NULL &&
        proto_fields_upto(inner, UINT32_MAX, &unused))
        return inner;
    return bytes;
}

static enum pod_code proto_unpack(struct proto_slice bytes,
                                  struct pod_hlo_module *module,
                                  struct pod_err *err)
{
    module->arena = pod_hlo_arena_new(bytes.length);
    if (module->arena == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory to read the program");
    module->proto = xla__hlo_module_proto__unpack(&module->arena->allocator,
                                                  bytes.length, bytes.data);
    if (module->proto != NULL)
        return POD_OK;
    if (module->arena->failed)
        return pod_hlo_arena_fail(module->arena, err);
    return pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                       "message is malformed: a field has the wrong type");
}

static enum pod_code proto_check_bytes(struct proto_slice bytes, size_t offset,
                                       struct pod_err *err)
{
    struct proto_walk walk = {.data = bytes.data};
    if (proto_check(&walk, bytes.length, &xla__hlo_module_proto__descriptor, 0))
        return POD_OK;
    return pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                       "message is malformed at byte %zu: %s", offset + walk.at,
                       walk.fault);
}

enum pod_code pod_hlo_parse_proto(const void *bytes, size_t length,
                                  struct pod_hlo_module **out,
                                  struct pod_err *err)
{
    struct proto_slice all = {.data = bytes, .length = length};
    struct proto_slice inner;
    struct pod_hlo_module *module;
    enum pod_code code;
    if (length == 0)
        return pod_err_set(err, POD_REASON_INVALID_PROGRAM, "program is empty");
    if (length > POD_HLO_MAX_BYTES)
        return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                           "program has %zu bytes, at most %d are allowed",
                           length, POD_HLO_MAX_BYTES);
    inner = proto_module_bytes(all);
    code = proto_check_bytes(inner, (size_t)(inner.data - all.data), err);
    if (code != POD_OK)
        return code;
    module = pod_calloc(1, sizeof(*module));
    if (module == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory to read the program");
    code = proto_unpack(inner, module, err);
    if (code == POD_OK)
        code = pod_hlo_verify(module, err);
    if (code != POD_OK) {
        pod_hlo_module_free(module);
        return code;
    }
    *out = module;
    return POD_OK;
}
