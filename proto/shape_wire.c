// SPDX-License-Identifier: Apache-2.0
#include "proto/shape_wire.h"

#include "core/base/mem.h"
#include "core/hlo/shape_proto.h"
#include "proto/wire.h"

enum {
    SHAPE_FIELD_TUPLE = 4,
    PROGRAM_FIELD_PARAMETER = 1,
    PROGRAM_FIELD_RESULT = 2,
};

// Nothing else in these messages stands in itself.
static bool shape_wire_flat(const unsigned char *data, size_t size,
                            unsigned depth)
{
    struct pod_wire_field field;
    size_t cursor = 0;

    if (depth > POD_SHAPE_MAX_DEPTH)
        return false;
    while (pod_wire_next(data, size, &cursor, &field)) {
        if (field.number == SHAPE_FIELD_TUPLE &&
            field.wire_type == POD_WIRE_BYTES &&
            !shape_wire_flat(field.data, field.size, depth + 1))
            return false;
    }
    return cursor == size;
}

static bool shape_wire_program_flat(const unsigned char *data, size_t size)
{
    struct pod_wire_field field;
    size_t cursor = 0;

    while (pod_wire_next(data, size, &cursor, &field)) {
        bool shape = field.number == PROGRAM_FIELD_PARAMETER ||
                     field.number == PROGRAM_FIELD_RESULT;
        if (shape && field.wire_type == POD_WIRE_BYTES &&
            !shape_wire_flat(field.data, field.size, 1))
            return false;
    }
    return cursor == size;
}

static enum pod_code shape_wire_parse(const void *data, size_t size,
                                      struct pod_shape *out,
                                      struct pod_err *err)
{
    ProtobufCMessage *message = NULL;

    if (!shape_wire_flat(data, size, 1))
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "a shape that is malformed or deeper than %d",
                           POD_SHAPE_MAX_DEPTH);
    enum pod_code code = pod_wire_unpack(&xla__shape_proto__descriptor, data,
                                         size, 0, &message, err);
    if (code != POD_OK)
        return code;
    code = pod_shape_from_proto((const Xla__ShapeProto *)(void *)message, out,
                                err);
    pod_wire_free(message);
    return code;
}

enum pod_code pod_array_wire_parse(const void *data, size_t size,
                                   struct pod_shape *out, struct pod_err *err)
{
    if (size > POD_ARRAY_WIRE_BYTES)
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "a shape of %zu bytes; at most %d are taken", size,
                           POD_ARRAY_WIRE_BYTES);
    enum pod_code code = shape_wire_parse(data, size, out, err);
    if (code != POD_OK || pod_shape_is_array(out))
        return code;
    pod_shape_fini(out);
    return pod_err_set(err, POD_REASON_BAD_SHAPE,
                       "only arrays can be allocated by shape");
}

enum pod_code pod_program_shape_wire_parse(const void *data, size_t size,
                                           struct pod_program_shape *out,
                                           struct pod_err *err)
{
    ProtobufCMessage *message = NULL;

    if (!shape_wire_program_flat(data, size))
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "a signature that is malformed or deeper than %d",
                           POD_SHAPE_MAX_DEPTH);
    enum pod_code code = pod_wire_unpack(&xla__program_shape_proto__descriptor,
                                         data, size, 0, &message, err);
    if (code != POD_OK)
        return code;
    code = pod_program_shape_from_proto(
        (const Xla__ProgramShapeProto *)(void *)message, out, err);
    pod_wire_free(message);
    return code;
}

unsigned char *pod_shape_wire_pack(const struct pod_shape *shape,
                                   size_t *out_size)
{
    Xla__ShapeProto *proto = pod_shape_to_proto(shape, NULL);

    if (proto == NULL)
        return NULL;
    *out_size = protobuf_c_message_get_packed_size(&proto->base);
    unsigned char *bytes = pod_malloc(*out_size);
    if (bytes != NULL)
        protobuf_c_message_pack(&proto->base, bytes);
    xla__shape_proto__free_unpacked(proto, &pod_shape_heap);
    return bytes;
}
