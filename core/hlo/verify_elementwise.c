// SPDX-License-Identifier: Apache-2.0
// Rules of the opcodes that go element by element.
#include "core/hlo/verify_internal.h"

#include <string.h>

// Kinds of element types an opcode takes, as a set.
enum elementwise_kind {
    KIND_PRED = 1,
    KIND_SIGNED = 2,
    KIND_UNSIGNED = 4,
    KIND_FLOAT = 8,
    KIND_COMPLEX = 16,
    KIND_INTEGER = KIND_SIGNED | KIND_UNSIGNED,
    KIND_BITS = KIND_PRED | KIND_INTEGER,
    KIND_REAL = KIND_INTEGER | KIND_FLOAT,
    KIND_INEXACT = KIND_FLOAT | KIND_COMPLEX,
    KIND_NUMBER = KIND_REAL | KIND_COMPLEX,
    KIND_ANY = KIND_NUMBER | KIND_PRED,
};

// What each opcode takes. Those with a rule of their own stand there too.
static const unsigned char elementwise_kinds[POD_OP_COUNT] = {
    [POD_OP_ABS] = KIND_NUMBER,
    [POD_OP_ACOS] = KIND_INEXACT,
    [POD_OP_ACOSH] = KIND_INEXACT,
    [POD_OP_ADD] = KIND_ANY,
    [POD_OP_AND] = KIND_BITS,
    [POD_OP_ASIN] = KIND_INEXACT,
    [POD_OP_ASINH] = KIND_INEXACT,
    [POD_OP_ATAN2] = KIND_INEXACT,
    [POD_OP_ATANH] = KIND_INEXACT,
    [POD_OP_CBRT] = KIND_INEXACT,
    [POD_OP_CEIL] = KIND_FLOAT,
    [POD_OP_CLAMP] = KIND_REAL | KIND_PRED,
    [POD_OP_COMPARE] = KIND_ANY,
    [POD_OP_COMPLEX] = KIND_FLOAT,
    [POD_OP_CONVERT] = KIND_ANY,
    [POD_OP_COSH] = KIND_INEXACT,
    [POD_OP_COSINE] = KIND_INEXACT,
    [POD_OP_COUNT_LEADING_ZEROS] = KIND_INTEGER,
    [POD_OP_DIVIDE] = KIND_NUMBER,
    [POD_OP_ERF] = KIND_FLOAT,
    [POD_OP_EXPONENTIAL] = KIND_INEXACT,
    [POD_OP_EXPONENTIAL_MINUS_ONE] = KIND_INEXACT,
    [POD_OP_FLOOR] = KIND_FLOAT,
    [POD_OP_IMAG] = KIND_INEXACT,
    [POD_OP_IS_FINITE] = KIND_FLOAT,
    [POD_OP_LOG] = KIND_INEXACT,
    [POD_OP_LOG_PLUS_ONE] = KIND_INEXACT,
    [POD_OP_LOGISTIC] = KIND_INEXACT,
    [POD_OP_MAXIMUM] = KIND_REAL | KIND_PRED,
    [POD_OP_MINIMUM] = KIND_REAL | KIND_PRED,
    [POD_OP_MULHI] = KIND_INTEGER,
    [POD_OP_MULTIPLY] = KIND_ANY,
    [POD_OP_NEGATE] = KIND_NUMBER,
    [POD_OP_NOT] = KIND_BITS,
    [POD_OP_OR] = KIND_BITS,
    [POD_OP_POPCNT] = KIND_INTEGER,
    [POD_OP_POWER] = KIND_NUMBER,
    [POD_OP_REAL] = KIND_INEXACT,
    [POD_OP_REDUCE_PRECISION] = KIND_FLOAT,
    [POD_OP_REMAINDER] = KIND_REAL,
    [POD_OP_ROUND_NEAREST_AFZ] = KIND_FLOAT,
    [POD_OP_ROUND_NEAREST_EVEN] = KIND_FLOAT,
    [POD_OP_RSQRT] = KIND_INEXACT,
    [POD_OP_SELECT] = KIND_ANY,
    [POD_OP_SHIFT_LEFT] = KIND_INTEGER,
    [POD_OP_SHIFT_RIGHT_ARITHMETIC] = KIND_INTEGER,
    [POD_OP_SHIFT_RIGHT_LOGICAL] = KIND_INTEGER,
    [POD_OP_SIGN] = KIND_SIGNED | KIND_INEXACT,
    [POD_OP_SINE] = KIND_INEXACT,
    [POD_OP_SINH] = KIND_INEXACT,
    [POD_OP_SQRT] = KIND_INEXACT,
    [POD_OP_SUBTRACT] = KIND_NUMBER,
    [POD_OP_TAN] = KIND_INEXACT,
    [POD_OP_TANH] = KIND_INEXACT,
    [POD_OP_XOR] = KIND_BITS,
};

static unsigned elementwise_kind(enum pod_type type)
{
    if (pod_type_is_signed(type))
        return KIND_SIGNED;
    if (pod_type_is_unsigned(type))
        return KIND_UNSIGNED;
    if (pod_type_is_float(type))
        return KIND_FLOAT;
    if (pod_type_is_complex(type))
        return KIND_COMPLEX;
    return type == POD_TYPE_PRED ? KIND_PRED : 0;
}

// Operand `index` must be an array of a type the opcode takes.
static enum pod_code elementwise_type(const struct verify *v, uint32_t index)
{
    const struct pod_shape *shape = pod_verify_operand(v, index);
    if ((elementwise_kinds[v->instr->opcode] & elementwise_kind(shape->type)) !=
        0)
        return POD_OK;
    return pod_verify_fail(v, "operand %u has type %s, which %s does not take",
                           (unsigned)index, pod_type_name(shape->type),
                           pod_opcode_name(v->instr->opcode));
}

// Operand `index` must have the shape of operand `like`.
static enum pod_code elementwise_alike(const struct verify *v, uint32_t index,
                                       uint32_t like)
{
    char is[96];
    char wants[96];
    const struct pod_shape *a = pod_verify_operand(v, index);
    const struct pod_shape *b = pod_verify_operand(v, like);
    if (pod_shape_equal(a, b))
        return POD_OK;
    return pod_verify_fail(v, "operand %u is %s, operand %u is %s",
                           (unsigned)index, pod_shape_brief(a, is, sizeof(is)),
                           (unsigned)like,
                           pod_shape_brief(b, wants, sizeof(wants)));
}

// The result must have operand 0's dimensions, with elements of this type.
static enum pod_code elementwise_result(const struct verify *v,
                                        enum pod_type type)
{
    const struct pod_shape *shape = pod_verify_operand(v, 0);
    return pod_verify_result_array(v, type, shape->rank, shape->dims);
}

static enum pod_code elementwise_unary(const struct verify *v)
{
    enum pod_code code = elementwise_type(v, 0);
    return code == POD_OK ? pod_verify_result(v, pod_verify_operand(v, 0))
                          : code;
}

static enum pod_code elementwise_binary(const struct verify *v)
{
    enum pod_code code = elementwise_type(v, 0);
    if (code == POD_OK)
        code = elementwise_alike(v, 1, 0);
    if (code == POD_OK)
        code = pod_verify_result(v, pod_verify_operand(v, 0));
    return code;
}

static enum pod_type elementwise_part(enum pod_type type)
{
    if (type == POD_TYPE_C64)
        return POD_TYPE_F32;
    return type == POD_TYPE_C128 ? POD_TYPE_F64 : type;
}

// abs, real, imag: of complex numbers they give the type of the parts.
static enum pod_code elementwise_parts(const struct verify *v)
{
    enum pod_code code = elementwise_type(v, 0);
    enum pod_type type = pod_verify_operand(v, 0)->type;
    return code == POD_OK ? elementwise_result(v, elementwise_part(type))
                          : code;
}

static enum pod_code elementwise_complex(const struct verify *v)
{
    enum pod_code code = elementwise_type(v, 0);
    enum pod_type part = pod_verify_operand(v, 0)->type;
    if (code == POD_OK && part != POD_TYPE_F32 && part != POD_TYPE_F64)
        return pod_verify_fail(v, "complex numbers are of f32 or f64, not %s",
                               pod_type_name(part));
    if (code == POD_OK)
        code = elementwise_alike(v, 1, 0);
    if (code != POD_OK)
        return code;
    return elementwise_result(v, part == POD_TYPE_F32 ? POD_TYPE_C64
                                                      : POD_TYPE_C128);
}

static enum pod_code elementwise_is_finite(const struct verify *v)
{
    enum pod_code code = elementwise_type(v, 0);
    return code == POD_OK ? elementwise_result(v, POD_TYPE_PRED) : code;
}

static bool elementwise_among(const char *word, const char *const *words,
                              size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

// The kind of comparison must suit the type; left out, it is the type's own.
static enum pod_code elementwise_comparison(const struct verify *v)
{
    static const char *const directions[] = {"EQ", "NE", "GE",
                                             "GT", "LE", "LT"};
    const Xla__HloInstructionProto *proto = v->instr->proto;
    const char *how = proto->comparison_type;
    unsigned kind = elementwise_kind(pod_verify_operand(v, 0)->type);
    bool fits;
    if (!elementwise_among(proto->comparison_direction, directions, 6))
        return pod_verify_fail(v,
                               "direction \"%.32s\" is not one of EQ, NE, "
                               "GE, GT, LE, LT",
                               proto->comparison_direction);
    if (kind == KIND_COMPLEX &&
        !elementwise_among(proto->comparison_direction, directions, 2))
        return pod_verify_fail(v, "complex numbers compare by EQ or NE only");
    if (kind == KIND_FLOAT)
        fits = strcmp(how, "FLOAT") == 0 || strcmp(how, "TOTALORDER") == 0;
    else if (kind == KIND_COMPLEX)
        fits = strcmp(how, "FLOAT") == 0;
    else if (kind == KIND_SIGNED)
        fits = strcmp(how, "SIGNED") == 0;
    else
        fits = strcmp(how, "UNSIGNED") == 0;
    if (how[0] != '\0' && !fits)
        return pod_verify_fail(v, "comparison type \"%.32s\" does not suit %s",
                               how,
                               pod_type_name(pod_verify_operand(v, 0)->type));
    return POD_OK;
}

static enum pod_code elementwise_compare(const struct verify *v)
{
    enum pod_code code = elementwise_type(v, 0);
    if (code == POD_OK)
        code = elementwise_alike(v, 1, 0);
    if (code == POD_OK)
        code = elementwise_comparison(v);
    return code == POD_OK ? elementwise_result(v, POD_TYPE_PRED) : code;
}

// The predicate is a scalar or has the dimensions of the others.
static enum pod_code elementwise_select(const struct verify *v)
{
    const struct pod_shape *pred = pod_verify_operand(v, 0);
    const struct pod_shape *value = pod_verify_operand(v, 1);
    enum pod_code code = elementwise_type(v, 1);
    if (code == POD_OK)
        code = elementwise_alike(v, 2, 1);
    if (code != POD_OK)
        return code;
    if (pred->type != POD_TYPE_PRED)
        return pod_verify_fail(v, "operand 0 has type %s, not pred",
                               pod_type_name(pred->type));
    if (pred->rank != 0 && (pred->rank != value->rank ||
                            memcmp(pred->dims, value->dims,
                                   value->rank * sizeof(value->dims[0])) != 0))
        return pod_verify_fail(v, "operands 0 and 1 differ in dimensions");
    return pod_verify_result(v, value);
}

// The bounds are scalars or have the shape of the value.
static enum pod_code elementwise_clamp(const struct verify *v)
{
    const struct pod_shape *value = pod_verify_operand(v, 1);
    enum pod_code code = elementwise_type(v, 1);
    for (uint32_t i = 0; i <= 2 && code == POD_OK; i += 2) {
        const struct pod_shape *bound = pod_verify_operand(v, i);
        if (bound->rank != 0 || bound->type != value->type)
            code = elementwise_alike(v, i, 1);
    }
    return code == POD_OK ? pod_verify_result(v, value) : code;
}

static enum pod_code elementwise_convert(const struct verify *v)
{
    enum pod_code code = elementwise_type(v, 0);
    return code == POD_OK ? elementwise_result(v, v->instr->shape->type) : code;
}

static enum pod_code elementwise_reduce_precision(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    if (proto->exponent_bits < 1 || proto->mantissa_bits < 0)
        return pod_verify_fail(v,
                               "there are no floats with %d exponent and %d "
                               "mantissa bits",
                               (int)proto->exponent_bits,
                               (int)proto->mantissa_bits);
    return elementwise_unary(v);
}

static enum pod_code (*const elementwise_special[POD_OP_COUNT])(
    const struct verify *) = {
    [POD_OP_ABS] = elementwise_parts,
    [POD_OP_REAL] = elementwise_parts,
    [POD_OP_IMAG] = elementwise_parts,
    [POD_OP_COMPLEX] = elementwise_complex,
    [POD_OP_IS_FINITE] = elementwise_is_finite,
    [POD_OP_COMPARE] = elementwise_compare,
    [POD_OP_SELECT] = elementwise_select,
    [POD_OP_CLAMP] = elementwise_clamp,
    [POD_OP_CONVERT] = elementwise_convert,
    [POD_OP_REDUCE_PRECISION] = elementwise_reduce_precision,
};

bool pod_verify_elementwise(const struct verify *v, enum pod_code *out)
{
    enum pod_opcode opcode = v->instr->opcode;
    if (elementwise_kinds[opcode] == 0)
        return false;
    if (elementwise_special[opcode] != NULL)
        *out = elementwise_special[opcode](v);
    else if (pod_opcode_operands(opcode) == 1)
        *out = elementwise_unary(v);
    else
        *out = elementwise_binary(v);
    return true;
}
