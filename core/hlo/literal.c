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

#define LITERAL_VIEW(field)                                                    \
    (struct literal_view)                                                      \
    {                                                                          \
        literal->field, literal->n_##field * sizeof(literal->field[0])         \
    }
#define LITERAL_BYTES(field)                                                   \
    (struct literal_view)                                                      \
    {                                                                          \
        literal->field.data, literal->field.len                                \
    }

// False for types whose field podd does not know.
static bool literal_view(const Xla__LiteralProto *literal, enum pod_type type,
                         struct literal_view *out)
{
    switch ((int)type) {
    case POD_TYPE_PRED:
        // protobuf-c's bool is an int.
        *out = (struct literal_view){literal->preds, literal->n_preds};
        return true;
    case POD_TYPE_S8:
        *out = LITERAL_BYTES(s8s);
        return true;
    case POD_TYPE_S16:
        *out = LITERAL_BYTES(s16s);
        return true;
    case POD_TYPE_S32:
        *out = LITERAL_VIEW(s32s);
        return true;
    case POD_TYPE_S64:
        *out = LITERAL_VIEW(s64s);
        return true;
    case POD_TYPE_U8:
        *out = LITERAL_BYTES(u8s);
        return true;
    case POD_TYPE_U16:
        *out = LITERAL_BYTES(u16s);
        return true;
    case POD_TYPE_U32:
        *out = LITERAL_VIEW(u32s);
        return true;
    case POD_TYPE_U64:
        *out = LITERAL_VIEW(u64s);
        return true;
    case POD_TYPE_F16:
        *out = LITERAL_BYTES(f16s);
        return true;
    case POD_TYPE_BF16:
        *out = LITERAL_BYTES(bf16s);
        return true;
    case POD_TYPE_F32:
        *out = LITERAL_VIEW(f32s);
        return true;
    case POD_TYPE_F64:
        *out = LITERAL_VIEW(f64s);
        return true;
    case POD_TYPE_C64:
        *out = LITERAL_VIEW(c64s);
        return true;
    case POD_TYPE_C128:
        *out = LITERAL_VIEW(c128s);
        return true;
    case POD_TYPE_S4:
        *out = LITERAL_BYTES(s4s);
        return true;
    case POD_TYPE_U4:
        *out = LITERAL_BYTES(u4s);
        return true;
    case POD_TYPE_F8E5M2:
        *out = LITERAL_BYTES(f8e5m2s);
        return true;
    case POD_TYPE_F8E4M3FN:
        *out = LITERAL_BYTES(f8e4m3fns);
        return true;
    default:
        return false;
    }
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
    pod_free(bits);
    return POD_OK;
}
