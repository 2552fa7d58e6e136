// SPDX-License-Identifier: Apache-2.0
// Literals: values in row-major order, nested in braces to the rank of the
// array. As for XLA, commas between them are for readers. Elements are
// collected as host bytes as long as there are any, so a huge declared shape
// costs nothing; then they go to the order of the layout.
#include "core/hlo/layout.h"
#include "core/hlo/shape_proto.h"
#include "core/hlo/text_internal.h"

#include <math.h>
#include <string.h>

// ------------------------------------------------------------------ elements

struct element_range {
    int64_t low;
    uint64_t high;
};

// As for XLA, those of 64 bits may be written with or without a sign.
static struct element_range element_range(enum pod_type type)
{
    // The narrow types say their bits in their name.
    unsigned bits = (unsigned)pod_type_bytes(type) * 8;
    if (bits == 8 && pod_type_name(type)[1] != '8')
        bits = (unsigned)(pod_type_name(type)[1] - '0');
    if (bits == 64)
        return (struct element_range){INT64_MIN, UINT64_MAX};
    if (pod_type_is_unsigned(type))
        return (struct element_range){0, UINT64_MAX >> (64 - bits)};
    return (struct element_range){-(INT64_MAX >> (64 - bits)) - 1,
                                  (uint64_t)(INT64_MAX >> (64 - bits))};
}

// Reads sign and magnitude: the whole of both 64-bit ranges.
static enum pod_code element_magnitude(struct text *t, bool *negative,
                                       uint64_t *magnitude)
{
    size_t start;
    (void)pod_text_peek(t);
    start = t->at;
    *negative = pod_text_take(t, '-');
    *magnitude = 0;
    if (t->at == t->length || t->data[t->at] < '0' || t->data[t->at] > '9')
        return pod_text_expected(t, "an integer");
    for (; t->at < t->length && t->data[t->at] >= '0' && t->data[t->at] <= '9';
         t->at++) {
        uint64_t digit = (uint64_t)(t->data[t->at] - '0');
        if (__builtin_mul_overflow(*magnitude, 10, magnitude) ||
            __builtin_add_overflow(*magnitude, digit, magnitude))
            return pod_text_fail_at(t, start, "number does not fit 64 bits");
    }
    if (t->at < t->length && (t->data[t->at] == '.' || t->data[t->at] == 'e'))
        return pod_text_fail_at(t, start,
                                "expected an integer, found a fraction");
    return POD_OK;
}

static enum pod_code element_integer(struct text *t, enum pod_type type,
                                     uint64_t *out)
{
    struct element_range range = element_range(type);
    bool negative;
    uint64_t magnitude;
    size_t start;
    enum pod_code code;
    (void)pod_text_peek(t);
    start = t->at;
    code = element_magnitude(t, &negative, &magnitude);
    if (code != POD_OK)
        return code;
    if (negative ? magnitude > -(uint64_t)range.low : magnitude > range.high)
        return pod_text_fail_at(t, start, "number does not fit %s",
                                pod_type_name(type));
    *out = negative ? -magnitude : magnitude;
    return POD_OK;
}

// Any integer but 0 is true.
static enum pod_code element_pred(struct text *t, uint64_t *out)
{
    char c = pod_text_peek(t);
    enum pod_code code = POD_OK;
    if (pod_text_take_word(t, "true"))
        *out = 1;
    else if (pod_text_take_word(t, "false"))
        *out = 0;
    else if (c == '-' || (c >= '0' && c <= '9'))
        code = element_integer(t, POD_TYPE_S64, out);
    else
        return pod_text_expected(t, "true, false or an integer");
    *out = *out != 0;
    return code;
}

// Rounds to the nearest value of a format with `mantissa` bits behind the
// point and exponents from `lowest` up, ties to even, and packs it below a
// sign bit at `mantissa` + `exponent`. Infinity stands for what is too large.
static uint64_t element_narrow(double value, int mantissa, int exponent,
                               int lowest)
{
    uint64_t sign = signbit(value) ? 1 : 0;
    uint64_t top = (UINT64_C(1) << exponent) - 1;
    uint64_t bits;
    int e;
    sign <<= mantissa + exponent;
    if (isnan(value))
        return sign | top << mantissa | UINT64_C(1) << (mantissa - 1);
    value = fabs(value);
    if (isinf(value))
        return sign | top << mantissa;
    (void)frexp(value, &e);
    e -= 1;
    if (value == 0 || e < lowest)
        e = lowest;
    // A unit in the last place is 2^(e - mantissa).
    bits = (uint64_t)nearbyint(ldexp(value, mantissa - e));
    // Below 2^mantissa: a denormal. The carry of rounding up moves a denormal
    // to the first normal, and a mantissa to the next exponent, by itself.
    if (bits >= UINT64_C(1) << mantissa)
        bits += (uint64_t)(e - lowest) << mantissa;
    if (bits >= top << mantissa)
        bits = top << mantissa;
    return sign | bits;
}

static bool element_finite(enum pod_type type, uint64_t bits)
{
    if (type == POD_TYPE_F16)
        return (bits & 0x7c00) != 0x7c00;
    return (bits & 0x7f80) != 0x7f80;
}

// Puts the mantissa that the text gives a NaN, if any, in place of the usual
// one, whose `mantissa` bits are the lowest.
static enum pod_code element_nan(struct text *t, size_t start, int mantissa,
                                 uint64_t payload, uint64_t *bits)
{
    uint64_t mask = (UINT64_C(1) << mantissa) - 1;
    if (payload > mask)
        return pod_text_fail_at(t, start, "mantissa of the NaN is too long");
    if (payload > 0)
        *bits = (*bits & ~mask) | payload;
    return POD_OK;
}

static enum pod_code element_half(struct text *t, enum pod_type type,
                                  uint64_t *out)
{
    double value;
    uint64_t payload;
    size_t start;
    enum pod_code code;
    (void)pod_text_peek(t);
    start = t->at;
    code = pod_text_double(t, &value, &payload);
    if (code != POD_OK)
        return code;
    if (type == POD_TYPE_F16)
        *out = element_narrow(value, 10, 5, -14);
    else
        *out = element_narrow(value, 7, 8, -126);
    // Neither written as "inf" nor as "nan", but it became one.
    if ((isfinite(value) || t->data[t->at - 1] != 'f') && !isnan(value) &&
        !element_finite(type, *out))
        return pod_text_fail_at(t, start, "number does not fit %s",
                                pod_type_name(type));
    return element_nan(t, start, type == POD_TYPE_F16 ? 10 : 7, payload, out);
}

// f32 or f64, also as a part of a complex number: `size` bytes to `out`.
static enum pod_code element_float(struct text *t, size_t size,
                                   unsigned char *out)
{
    double value;
    float narrow;
    uint64_t payload;
    uint64_t bits = 0;
    size_t start;
    enum pod_code code;
    (void)pod_text_peek(t);
    start = t->at;
    code = pod_text_double(t, &value, &payload);
    if (code != POD_OK)
        return code;
    narrow = (float)value;
    // An infinity that is not written as one is an overflow.
    if (t->data[t->at - 1] != 'f' && (isinf(value) || isinf(narrow)) &&
        (isinf(value) || size == 4))
        return pod_text_fail_at(t, start, "number does not fit %s",
                                size == 4 ? "f32" : "f64");
    // Little endian, as in literal_element.
    if (size == 4)
        memcpy(&bits, &narrow, sizeof(narrow));
    else
        memcpy(&bits, &value, sizeof(value));
    code = element_nan(t, start, size == 4 ? 23 : 52, payload, &bits);
    memcpy(out, &bits, size);
    return code;
}

static enum pod_code element_complex(struct text *t, size_t size,
                                     unsigned char *out)
{
    enum pod_code code = pod_text_need(t, '(');
    if (code == POD_OK)
        code = element_float(t, size / 2, out);
    if (code == POD_OK)
        code = pod_text_need(t, ',');
    if (code == POD_OK)
        code = element_float(t, size / 2, out + size / 2);
    return code == POD_OK ? pod_text_need(t, ')') : code;
}

// One element of the type, as host bytes.
static enum pod_code literal_element(struct text *t, enum pod_type type,
                                     unsigned char *out)
{
    size_t size = pod_type_bytes(type);
    uint64_t bits = 0;
    enum pod_code code;
    if (pod_type_is_complex(type))
        return element_complex(t, size, out);
    if (type == POD_TYPE_F32 || type == POD_TYPE_F64)
        return element_float(t, size, out);
    if (type == POD_TYPE_F16 || type == POD_TYPE_BF16)
        code = element_half(t, type, &bits);
    else if (type == POD_TYPE_PRED)
        code = element_pred(t, &bits);
    else
        code = element_integer(t, type, &bits);
    // Little endian, as the fields of literals are, and the machines.
    memcpy(out, &bits, size < sizeof(bits) ? size : sizeof(bits));
    return code;
}

// -------------------------------------------------------------------- arrays

static enum pod_code literal_push_element(struct text *t, enum pod_type type)
{
    unsigned char element[16];
    enum pod_code code;
    if (pod_text_peek(t) == '.' && pod_text_take_string(t, "..."))
        return pod_text_fail_at(t, t->at - 3,
                                "literal is elided: its values are not in the "
                                "text");
    code = literal_element(t, type, element);
    if (code == POD_OK &&
        !pod_text_push(&t->bytes, element, pod_type_bytes(type)))
        code = pod_text_no_memory(t);
    return code;
}

static enum pod_code literal_wrong_count(struct text *t, uint32_t depth,
                                         const struct pod_shape *shape)
{
    return pod_text_fail_at(t, t->at,
                            "literal does not have %lld values in dimension %u",
                            (long long)shape->dims[depth], (unsigned)depth);
}

static void literal_commas(struct text *t)
{
    while (pod_text_take(t, ',')) {
    }
}

// Closes braces as long as they end full rows.
static enum pod_code literal_close(struct text *t,
                                   const struct pod_shape *shape,
                                   uint32_t *depth, int64_t *counts)
{
    while (*depth > 0 && pod_text_peek(t) == '}') {
        if (counts[*depth - 1] != shape->dims[*depth - 1])
            return literal_wrong_count(t, *depth - 1, shape);
        t->at++;
        --*depth;
        if (*depth > 0) {
            counts[*depth - 1]++;
            literal_commas(t);
        }
    }
    return POD_OK;
}

// Opens braces up to the innermost dimension, or to an empty one.
static enum pod_code literal_open(struct text *t, const struct pod_shape *shape,
                                  uint32_t *depth, int64_t *counts)
{
    while (*depth < shape->rank) {
        enum pod_code code = pod_text_need(t, '{');
        if (code != POD_OK)
            return code;
        counts[(*depth)++] = 0;
        literal_commas(t);
        if (pod_text_peek(t) == '}')
            break;
    }
    return POD_OK;
}

// The nesting is walked with a count for each open dimension, no recursion.
static enum pod_code literal_values(struct text *t,
                                    const struct pod_shape *shape)
{
    int64_t counts[POD_SHAPE_MAX_RANK];
    uint32_t depth = 0;
    enum pod_code code;
    if (shape->rank == 0)
        return literal_push_element(t, shape->type);
    do {
        if (depth > 0 && counts[depth - 1] == shape->dims[depth - 1])
            return literal_wrong_count(t, depth - 1, shape);
        code = literal_open(t, shape, &depth, counts);
        if (code == POD_OK && pod_text_peek(t) != '}') {
            code = literal_push_element(t, shape->type);
            counts[depth - 1]++;
            literal_commas(t);
        }
        if (code == POD_OK)
            code = literal_close(t, shape, &depth, counts);
    } while (code == POD_OK && depth > 0);
    return code;
}

// Hands the elements to the field of the type; false: it has none.
static bool literal_set_field(Xla__LiteralProto *literal, enum pod_type type,
                              size_t elements, void *data)
{
    ProtobufCBinaryData bytes = {elements * pod_type_bytes(type), data};
#define LITERAL_FIELD(name, field, count)                                      \
    case POD_TYPE_##name:                                                      \
        literal->n_##field = elements * (count);                               \
        literal->field = data;                                                 \
        return true
#define LITERAL_BYTES(name, field)                                             \
    case POD_TYPE_##name:                                                      \
        literal->field = bytes;                                                \
        return true
    switch ((int)type) {
        LITERAL_FIELD(PRED, preds, 1);
        LITERAL_FIELD(S32, s32s, 1);
        LITERAL_FIELD(S64, s64s, 1);
        LITERAL_FIELD(U32, u32s, 1);
        LITERAL_FIELD(U64, u64s, 1);
        LITERAL_FIELD(F32, f32s, 1);
        LITERAL_FIELD(F64, f64s, 1);
        LITERAL_FIELD(C64, c64s, 2);
        LITERAL_FIELD(C128, c128s, 2);
        LITERAL_BYTES(S8, s8s);
        LITERAL_BYTES(U8, u8s);
        LITERAL_BYTES(S16, s16s);
        LITERAL_BYTES(U16, u16s);
        LITERAL_BYTES(F16, f16s);
        LITERAL_BYTES(BF16, bf16s);
        LITERAL_BYTES(S4, s4s);
        LITERAL_BYTES(U4, u4s);
    default:
        return false;
    }
#undef LITERAL_FIELD
#undef LITERAL_BYTES
}

static bool literal_readable(enum pod_type type)
{
    Xla__LiteralProto probe = XLA__LITERAL_PROTO__INIT;

    return literal_set_field(&probe, type, 0, NULL);
}

// The collected elements in the order of the layout, in the arena.
static enum pod_code literal_store(struct text *t,
                                   const struct pod_shape *shape,
                                   Xla__LiteralProto *literal)
{
    size_t elements = t->bytes.count;
    size_t size = pod_type_bytes(shape->type);
    unsigned char *data = pod_hlo_arena_alloc(t->arena, elements, size);
    protobuf_c_boolean *preds;
    if (data == NULL)
        return pod_text_no_memory(t);
    if (elements > 0)
        pod_layout_from_row_major(shape, t->bytes.items, data);
    if (shape->type != POD_TYPE_PRED) {
        (void)literal_set_field(literal, shape->type, elements, data);
        return POD_OK;
    }
    preds = pod_hlo_arena_alloc(t->arena, elements, sizeof(*preds));
    if (preds == NULL)
        return pod_text_no_memory(t);
    for (size_t i = 0; i < elements; i++)
        preds[i] = data[i];
    (void)literal_set_field(literal, shape->type, elements, preds);
    return POD_OK;
}

static enum pod_code literal_array(struct text *t,
                                   const struct pod_shape *shape,
                                   Xla__LiteralProto *literal)
{
    enum pod_code code;
    if (!literal_readable(shape->type))
        return pod_text_unsupported_at(t, t->at, "literals of this type are");
    // The stack's items are of another size each time.
    t->bytes.capacity =
        t->bytes.capacity * t->bytes.item / pod_type_bytes(shape->type);
    t->bytes.item = pod_type_bytes(shape->type);
    t->bytes.count = 0;
    code = literal_values(t, shape);
    return code == POD_OK ? literal_store(t, shape, literal) : code;
}

// -------------------------------------------------------------------- tuples

static enum pod_code literal_tuple(struct text *t,
                                   const struct pod_shape *shape,
                                   Xla__LiteralProto *literal)
{
    enum pod_code code = pod_text_need(t, '(');
    if (code != POD_OK)
        return code;
    literal->tuple_literals = pod_hlo_arena_alloc(
        t->arena, shape->child_count, sizeof(literal->tuple_literals[0]));
    if (literal->tuple_literals == NULL)
        return pod_text_no_memory(t);
    for (size_t i = 0; i < shape->child_count && code == POD_OK; i++) {
        if (i > 0)
            (void)pod_text_take(t, ',');
        code = pod_text_literal(t, &shape->children[i],
                                &literal->tuple_literals[i]);
        if (code == POD_OK)
            literal->n_tuple_literals++;
    }
    return code == POD_OK ? pod_text_need(t, ')') : code;
}

// Recurses as deep as the shape, which is bounded.
enum pod_code pod_text_literal(struct text *t, const struct pod_shape *shape,
                               Xla__LiteralProto **out)
{
    Xla__LiteralProto *literal =
        pod_text_message(t, &xla__literal_proto__descriptor);
    enum pod_code code;
    if (literal == NULL)
        return pod_text_no_memory(t);
    literal->shape = pod_shape_to_proto(shape, &t->arena->allocator);
    if (literal->shape == NULL)
        return pod_text_no_memory(t);
    (void)pod_text_peek(t);
    if (pod_shape_is_array(shape))
        code = literal_array(t, shape, literal);
    else if (shape->type == POD_TYPE_TUPLE)
        code = literal_tuple(t, shape, literal);
    else
        code = pod_text_fail_at(t, t->at, "there are no literals of type %s",
                                pod_type_name(shape->type));
    if (code == POD_OK)
        *out = literal;
    return code;
}
