// SPDX-License-Identifier: Apache-2.0
// A literal keeps its elements in one of many fields, by type. A view names
// that field as bytes; all fields but `preds` already hold host elements.
#include "core/hlo/literal.h"

#include "core/base/mem.h"
#include "core/hlo/layout.h"
#include "core/hlo/shape_proto.h"

#include <string.h>

struct literal_view {
    const void *data;
    size_t bytes;
};

// Where the elements of a type are.
struct literal_field {
    enum pod_type type;
    size_t data;  // offset of the pointer to them
    size_t count; // offset of how many they are
    size_t bytes; // of one
};

#define LITERAL_LIST(type, field)                                              \
    {                                                                          \
        POD_TYPE_##type, offsetof(Xla__LiteralProto, field),                   \
            offsetof(Xla__LiteralProto, n_##field),                            \
            sizeof(((Xla__LiteralProto *)NULL)->field[0])                      \
    }
#define LITERAL_BYTES(type, field)                                             \
    {                                                                          \
        POD_TYPE_##type, offsetof(Xla__LiteralProto, field.data),              \
            offsetof(Xla__LiteralProto, field.len), 1                          \
    }

static const struct literal_field literal_fields[] = {
    // protobuf-c's bool is an int.
    {POD_TYPE_PRED, offsetof(Xla__LiteralProto, preds),
     offsetof(Xla__LiteralProto, n_preds), 1},
    LITERAL_BYTES(S4, s4s),
    LITERAL_BYTES(S8, s8s),
    LITERAL_BYTES(S16, s16s),
    LITERAL_LIST(S32, s32s),
    LITERAL_LIST(S64, s64s),
    LITERAL_BYTES(U4, u4s),
    LITERAL_BYTES(U8, u8s),
    LITERAL_BYTES(U16, u16s),
    LITERAL_LIST(U32, u32s),
    LITERAL_LIST(U64, u64s),
    LITERAL_BYTES(F8E5M2, f8e5m2s),
    LITERAL_BYTES(F8E4M3FN, f8e4m3fns),
    LITERAL_BYTES(F16, f16s),
    LITERAL_BYTES(BF16, bf16s),
    LITERAL_LIST(F32, f32s),
    LITERAL_LIST(F64, f64s),
    LITERAL_LIST(C64, c64s),
    LITERAL_LIST(C128, c128s),
};

// False for types whose field podd does not know.
static bool literal_view(const Xla__LiteralProto *literal, enum pod_type type,
                         struct literal_view *out)
{
    const unsigned char *base = (const unsigned char *)literal;
    size_t count = 0;
    for (size_t i = 0; i < sizeof(literal_fields) / sizeof(literal_fields[0]);
         i++) {
        const struct literal_field *field = &literal_fields[i];
        if (field->type != type)
            continue;
        memcpy(&out->data, base + field->data, sizeof(out->data));
        memcpy(&count, base + field->count, sizeof(count));
        out->bytes = count * field->bytes;
        return true;
    }
    return false;
}

// The literal's own shape, whose layout is the order of its data.
static enum pod_code literal_shape(const Xla__LiteralProto *literal,
                                   const struct pod_shape *shape,
                                   struct pod_shape *out, struct pod_err *err)
{
    enum pod_code code;
    if (literal->shape == NULL)
        return pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                           "literal has no shape");
    code = pod_shape_from_proto(literal->shape, out, err);
    if (code == POD_INVALID_ARGUMENT) {
        pod_err_wrap(err, "literal");
        err->reason = POD_REASON_INVALID_PROGRAM;
        return code;
    }
    if (code != POD_OK)
        return code;
    if (!pod_shape_equal(out, shape)) {
        char has[96];
        char wants[96];
        code = pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                           "literal is %s where %s is declared",
                           pod_shape_brief(out, has, sizeof(has)),
                           pod_shape_brief(shape, wants, sizeof(wants)));
        pod_shape_fini(out);
    }
    return code;
}

static enum pod_code literal_check_array(const Xla__LiteralProto *literal,
                                         const struct pod_shape *shape,
                                         struct pod_err *err)
{
    struct literal_view view;
    char brief[96];
    int64_t bytes = pod_shape_bytes(shape);
    if (!literal_view(literal, shape->type, &view))
        return pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                           "literals of type %s are not supported",
                           pod_type_name(shape->type));
    if (view.bytes != (uint64_t)bytes)
        return pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                           "literal of %s has %zu bytes of data, not %lld",
                           pod_shape_brief(shape, brief, sizeof(brief)),
                           view.bytes, (long long)bytes);
    return POD_OK;
}

static enum pod_code literal_check_parts(const Xla__LiteralProto *literal,
                                         const struct pod_shape *shape,
                                         struct pod_err *err)
{
    if (pod_shape_is_array(shape))
        return literal_check_array(literal, shape, err);
    if (shape->type != POD_TYPE_TUPLE)
        return pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                           "there are no literals of type %s",
                           pod_type_name(shape->type));
    if (literal->n_tuple_literals != shape->child_count)
        return pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                           "literal has %zu parts, its shape has %zu",
                           literal->n_tuple_literals, shape->child_count);
    for (size_t i = 0; i < shape->child_count; i++) {
        enum pod_code code = pod_literal_check(literal->tuple_literals[i],
                                               &shape->children[i], err);
        if (code != POD_OK)
            return code;
    }
    return POD_OK;
}

enum pod_code pod_literal_check(const Xla__LiteralProto *literal,
                                const struct pod_shape *shape,
                                struct pod_err *err)
{
    struct pod_err why = POD_ERR_NONE;
    struct pod_shape own;
    enum pod_code code = literal_shape(literal, shape, &own, &why);
    if (code == POD_OK) {
        pod_shape_fini(&own);
        code = literal_check_parts(literal, shape, &why);
    }
    if (code != POD_OK && err != NULL)
        *err = why;
    return code;
}

static void literal_write_preds(const Xla__LiteralProto *literal,
                                unsigned char *out)
{
    for (size_t i = 0; i < literal->n_preds; i++)
        out[i] = literal->preds[i] != 0;
}

// XLA keeps four bits of an s4 in a byte, the upper half of which is 0.
static void literal_extend_s4(int8_t *elements, size_t count)
{
    for (size_t i = 0; i < count; i++)
        elements[i] = (int8_t)(((elements[i] & 0xf) ^ 8) - 8);
}

enum pod_code pod_literal_read(const Xla__LiteralProto *literal,
                               const struct pod_shape *shape, void *out,
                               struct pod_err *err)
{
    struct pod_shape own;
    struct literal_view view = {.data = NULL};
    unsigned char *bits = NULL;
    enum pod_code code = pod_shape_from_proto(literal->shape, &own, err);
    if (code != POD_OK)
        return code;
    if (!literal_view(literal, shape->type, &view))
        return pod_err_set(err, POD_REASON_INTERNAL, "literal was not checked");
    if (shape->type == POD_TYPE_PRED) {
        bits = pod_malloc(literal->n_preds);
        if (bits == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for a literal");
        literal_write_preds(literal, bits);
        view.data = bits;
    }
    pod_layout_to_row_major(&own, view.data, out);
    if (shape->type == POD_TYPE_S4)
        literal_extend_s4(out, view.bytes);
    pod_free(bits);
    return POD_OK;
}
