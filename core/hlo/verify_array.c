// SPDX-License-Identifier: Apache-2.0
// Rules of the opcodes that make, move or contract arrays and tuples.
#include "core/hlo/literal.h"
#include "core/hlo/verify_internal.h"

#include <string.h>

// --------------------------------------------------------- leaves and tuples

static enum pod_code array_parameter(const struct verify *v)
{
    (void)v; // numbers are checked for the computation as a whole
    return POD_OK;
}

static enum pod_code array_constant(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    if (proto->literal == NULL)
        return pod_verify_fail(v, "constant has no literal");
    if (pod_literal_check(proto->literal, v->instr->shape, v->err) != POD_OK)
        return pod_verify_wrap(v);
    return POD_OK;
}

static enum pod_code array_iota(const struct verify *v)
{
    const struct pod_shape *shape = v->instr->shape;
    const Xla__HloInstructionProto *proto = v->instr->proto;
    if (!pod_shape_is_array(shape) || shape->type == POD_TYPE_PRED ||
        shape->rank == 0)
        return pod_verify_fail(v, "the result must be an array of numbers with "
                                  "at least one dimension");
    if (proto->n_dimensions != 1)
        return pod_verify_fail(v, "exactly one iota dimension is needed");
    return pod_verify_dimensions(v, "iota dimension", 1, proto->dimensions,
                                 shape->rank);
}

static enum pod_code array_replica_id(const struct verify *v)
{
    return pod_verify_result_array(v, POD_TYPE_U32, 0, NULL);
}

static enum pod_code array_same(const struct verify *v)
{
    return pod_verify_result(v, pod_verify_operand(v, 0));
}

static enum pod_code array_tuple(const struct verify *v)
{
    const struct pod_shape *shape = v->instr->shape;
    char is[96];
    char wants[96];
    if (shape->type != POD_TYPE_TUPLE ||
        shape->child_count != v->instr->operand_count)
        return pod_verify_fail(v, "result %s is not a tuple of %u",
                               pod_shape_brief(shape, is, sizeof(is)),
                               (unsigned)v->instr->operand_count);
    for (uint32_t i = 0; i < v->instr->operand_count; i++) {
        const struct pod_shape *part = pod_verify_operand(v, i);
        if (!pod_shape_equal(part, &shape->children[i]))
            return pod_verify_fail(
                v, "operand %u is %s, part %u of the result is %s", (unsigned)i,
                pod_shape_brief(part, wants, sizeof(wants)), (unsigned)i,
                pod_shape_brief(&shape->children[i], is, sizeof(is)));
    }
    return POD_OK;
}

static enum pod_code array_get_tuple_element(const struct verify *v)
{
    const struct pod_shape *tuple = pod_verify_operand(v, 0);
    int64_t index = v->instr->proto->tuple_index;
    char is[96];
    if (tuple->type != POD_TYPE_TUPLE)
        return pod_verify_fail(v, "operand is %s, not a tuple",
                               pod_shape_brief(tuple, is, sizeof(is)));
    if (index < 0 || (uint64_t)index >= tuple->child_count)
        return pod_verify_fail(v,
                               "index %lld is out of range, the tuple has "
                               "%zu parts",
                               (long long)index, tuple->child_count);
    return pod_verify_result(v, &tuple->children[index]);
}

static enum pod_code array_bitcast(const struct verify *v)
{
    enum pod_code code = pod_verify_array(v, 0);
    if (code != POD_OK)
        return code;
    if (!pod_shape_is_array(v->instr->shape) ||
        pod_shape_bytes(v->instr->shape) !=
            pod_shape_bytes(pod_verify_operand(v, 0)))
        return pod_verify_fail(v, "operand and result differ in bytes");
    return POD_OK;
}

// ------------------------------------------------------------ moving elements

// The operand is an array of the result's type.
static enum pod_code array_same_type(const struct verify *v)
{
    enum pod_type type = pod_verify_operand(v, 0)->type;
    enum pod_code code = pod_verify_array(v, 0);
    if (code != POD_OK || v->instr->shape->type == type)
        return code;
    return pod_verify_fail(v, "operand has type %s, the result %s",
                           pod_type_name(type),
                           pod_type_name(v->instr->shape->type));
}

static enum pod_code array_broadcast(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    const struct pod_shape *shape = v->instr->shape;
    const struct pod_shape *from = pod_verify_operand(v, 0);
    enum pod_code code = array_same_type(v);
    if (code != POD_OK)
        return code;
    if (proto->n_dimensions != from->rank)
        return pod_verify_fail(v,
                               "%zu dimensions are named, the operand has "
                               "%u",
                               proto->n_dimensions, (unsigned)from->rank);
    code = pod_verify_dimensions(v, "dimension", from->rank, proto->dimensions,
                                 shape->rank);
    if (code != POD_OK)
        return code;
    for (uint32_t i = 0; i < from->rank; i++)
        if (from->dims[i] != shape->dims[proto->dimensions[i]])
            return pod_verify_fail(
                v,
                "dimension %u of the operand has size %lld, dimension %lld "
                "of the result %lld",
                (unsigned)i, (long long)from->dims[i],
                (long long)proto->dimensions[i],
                (long long)shape->dims[proto->dimensions[i]]);
    return POD_OK;
}

static enum pod_code array_reshape(const struct verify *v)
{
    const struct pod_shape *shape = v->instr->shape;
    const struct pod_shape *from = pod_verify_operand(v, 0);
    enum pod_code code = array_same_type(v);
    if (code != POD_OK)
        return code;
    if (pod_shape_elements(shape) != pod_shape_elements(from))
        return pod_verify_fail(v, "operand has %lld elements, the result %lld",
                               (long long)pod_shape_elements(from),
                               (long long)pod_shape_elements(shape));
    return POD_OK;
}

static enum pod_code array_transpose(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    const struct pod_shape *from = pod_verify_operand(v, 0);
    int64_t dims[POD_SHAPE_MAX_RANK];
    enum pod_code code = pod_verify_array(v, 0);
    if (code != POD_OK)
        return code;
    if (proto->n_dimensions != from->rank)
        return pod_verify_fail(v,
                               "permutation has %zu dimensions, the operand "
                               "%u",
                               proto->n_dimensions, (unsigned)from->rank);
    code = pod_verify_dimensions(v, "dimension", from->rank, proto->dimensions,
                                 from->rank);
    if (code != POD_OK)
        return code;
    for (uint32_t i = 0; i < from->rank; i++)
        dims[i] = from->dims[proto->dimensions[i]];
    return pod_verify_result_array(v, from->type, from->rank, dims);
}

static enum pod_code array_reverse(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    enum pod_code code = pod_verify_array(v, 0);
    if (code == POD_OK)
        code = pod_verify_dimensions(v, "dimension", proto->n_dimensions,
                                     proto->dimensions,
                                     pod_verify_operand(v, 0)->rank);
    return code == POD_OK ? array_same(v) : code;
}

static enum pod_code array_slice(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    const struct pod_shape *from = pod_verify_operand(v, 0);
    int64_t dims[POD_SHAPE_MAX_RANK];
    enum pod_code code = pod_verify_array(v, 0);
    if (code != POD_OK)
        return code;
    if (proto->n_slice_dimensions != from->rank)
        return pod_verify_fail(v, "slice has %zu dimensions, the operand %u",
                               proto->n_slice_dimensions, (unsigned)from->rank);
    for (uint32_t i = 0; i < from->rank; i++) {
        const Xla__HloInstructionProto__SliceDimensions *slice =
            proto->slice_dimensions[i];
        if (slice->start < 0 || slice->limit < slice->start ||
            slice->limit > from->dims[i] || slice->stride < 1)
            return pod_verify_fail(
                v,
                "slice [%lld:%lld:%lld] of dimension %u is not within its "
                "size %lld",
                (long long)slice->start, (long long)slice->limit,
                (long long)slice->stride, (unsigned)i,
                (long long)from->dims[i]);
        int64_t span = slice->limit - slice->start;
        dims[i] = span / slice->stride + (span % slice->stride != 0);
    }
    return pod_verify_result_array(v, from->type, from->rank, dims);
}

// low + high + size + interior * (size - 1), or false if that is below 0 or
// overflows.
static bool
array_padded(const Xla__PaddingConfig__PaddingConfigDimension *padding,
             int64_t size, int64_t *out)
{
    int64_t inside;
    return padding->interior_padding >= 0 &&
           !__builtin_mul_overflow(padding->interior_padding,
                                   size > 0 ? size - 1 : 0, &inside) &&
           !__builtin_add_overflow(inside, size, &inside) &&
           !__builtin_add_overflow(inside, padding->edge_padding_low,
                                   &inside) &&
           !__builtin_add_overflow(inside, padding->edge_padding_high,
                                   &inside) &&
           (*out = inside) >= 0;
}

static enum pod_code array_pad(const struct verify *v)
{
    const Xla__PaddingConfig *config = v->instr->proto->padding_config;
    const struct pod_shape *from = pod_verify_operand(v, 0);
    const struct pod_shape *value = pod_verify_operand(v, 1);
    size_t rank = config == NULL ? 0 : config->n_dimensions;
    int64_t dims[POD_SHAPE_MAX_RANK];
    enum pod_code code = pod_verify_array(v, 0);
    if (code != POD_OK)
        return code;
    if (value->rank != 0 || value->type != from->type)
        return pod_verify_fail(v, "padding value must be %s[]",
                               pod_type_name(from->type));
    if (rank != from->rank)
        return pod_verify_fail(v, "padding has %zu dimensions, the operand %u",
                               rank, (unsigned)from->rank);
    for (uint32_t i = 0; i < rank; i++)
        if (!array_padded(config->dimensions[i], from->dims[i], &dims[i]))
            return pod_verify_fail(v, "padding of dimension %u is impossible",
                                   (unsigned)i);
    return pod_verify_result_array(v, from->type, from->rank, dims);
}

static enum pod_code array_concatenate(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    const struct pod_shape *first;
    struct pod_shape sum;
    enum pod_code code = pod_verify_arrays(v, 1);
    if (code != POD_OK)
        return code;
    first = pod_verify_operand(v, 0);
    if (proto->n_dimensions != 1)
        return pod_verify_fail(v, "exactly one dimension is needed");
    code = pod_verify_dimensions(v, "dimension", 1, proto->dimensions,
                                 first->rank);
    if (code != POD_OK)
        return code;
    sum = *first;
    for (uint32_t i = 1; i < v->instr->operand_count; i++) {
        struct pod_shape other = *pod_verify_operand(v, i);
        int64_t *along = &other.dims[proto->dimensions[0]];
        int64_t size = *along;
        if (other.rank == first->rank)
            *along = first->dims[proto->dimensions[0]];
        if (!pod_shape_equal(&other, first))
            return pod_verify_fail(v, "operand %u does not fit operand 0",
                                   (unsigned)i);
        if (__builtin_add_overflow(sum.dims[proto->dimensions[0]], size,
                                   &sum.dims[proto->dimensions[0]]))
            return pod_verify_fail(v, "result is too large");
    }
    return pod_verify_result_array(v, sum.type, sum.rank, sum.dims);
}

// ------------------------------------------------------------- dynamic slices

// Operands `first` and on are one integer scalar a dimension, all of one type.
static enum pod_code array_indices(const struct verify *v, uint32_t first,
                                   uint32_t rank)
{
    const struct pod_shape *type;
    uint32_t count = v->instr->operand_count - first;
    if (count == 1 && pod_verify_operand(v, first)->rank == 1)
        return pod_verify_unsupported(v, "indices in one vector are not "
                                         "supported");
    if (count != rank)
        return pod_verify_fail(v, "there are %u indices for %u dimensions",
                               (unsigned)count, (unsigned)rank);
    for (uint32_t i = first; i < v->instr->operand_count; i++) {
        type = pod_verify_operand(v, i);
        if (type->rank != 0 || (!pod_type_is_signed(type->type) &&
                                !pod_type_is_unsigned(type->type)))
            return pod_verify_fail(v, "operand %u is not a scalar integer",
                                   (unsigned)i);
        if (type->type != pod_verify_operand(v, first)->type)
            return pod_verify_fail(v, "indices differ in type");
    }
    return POD_OK;
}

static enum pod_code array_dynamic_slice(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    const struct pod_shape *from;
    enum pod_code code;
    if (v->instr->operand_count < 1)
        return pod_verify_fail(v, "an operand is needed");
    from = pod_verify_operand(v, 0);
    code = pod_verify_arrays(v, 1);
    if (code == POD_OK)
        code = array_indices(v, 1, from->rank);
    if (code != POD_OK)
        return code;
    if (proto->n_dynamic_slice_sizes != from->rank)
        return pod_verify_fail(v, "there are %zu sizes for %u dimensions",
                               proto->n_dynamic_slice_sizes,
                               (unsigned)from->rank);
    for (uint32_t i = 0; i < from->rank; i++)
        if (proto->dynamic_slice_sizes[i] < 0 ||
            proto->dynamic_slice_sizes[i] > from->dims[i])
            return pod_verify_fail(v,
                                   "slice of %lld does not fit dimension %u "
                                   "of size %lld",
                                   (long long)proto->dynamic_slice_sizes[i],
                                   (unsigned)i, (long long)from->dims[i]);
    return pod_verify_result_array(v, from->type, from->rank,
                                   proto->dynamic_slice_sizes);
}

static enum pod_code array_dynamic_update_slice(const struct verify *v)
{
    const struct pod_shape *into;
    const struct pod_shape *update;
    enum pod_code code = pod_verify_arrays(v, 2);
    if (code != POD_OK)
        return code;
    into = pod_verify_operand(v, 0);
    update = pod_verify_operand(v, 1);
    code = array_indices(v, 2, into->rank);
    if (code != POD_OK)
        return code;
    if (update->type != into->type || update->rank != into->rank)
        return pod_verify_fail(v, "update does not have the type and rank of "
                                  "the operand");
    for (uint32_t i = 0; i < into->rank; i++)
        if (update->dims[i] > into->dims[i])
            return pod_verify_fail(v,
                                   "update of %lld does not fit dimension "
                                   "%u of size %lld",
                                   (long long)update->dims[i], (unsigned)i,
                                   (long long)into->dims[i]);
    return array_same(v);
}

// ------------------------------------------------------- bitcast-convert, dot

// Types of one width keep the dimensions; else the last dimension of the
// narrower side spans one element of the wider.
static enum pod_code array_bitcast_convert(const struct verify *v)
{
    const struct pod_shape *from = pod_verify_operand(v, 0);
    const struct pod_shape *to = v->instr->shape;
    const struct pod_shape *narrow = to;
    const struct pod_shape *wide = from;
    size_t ratio;
    enum pod_code code = pod_verify_array(v, 0);
    if (code != POD_OK)
        return code;
    if (!pod_shape_is_array(to))
        return pod_verify_fail(v, "result must be an array");
    if (pod_type_bytes(to->type) > pod_type_bytes(from->type)) {
        narrow = from;
        wide = to;
    }
    ratio = pod_type_bytes(wide->type) / pod_type_bytes(narrow->type);
    if (ratio > 1 && (narrow->rank != wide->rank + 1 ||
                      narrow->dims[wide->rank] != (int64_t)ratio))
        return pod_verify_fail(v,
                               "the narrower side needs one more dimension, "
                               "of size %zu",
                               ratio);
    if ((ratio == 1 && narrow->rank != wide->rank) ||
        memcmp(narrow->dims, wide->dims, wide->rank * sizeof(int64_t)) != 0)
        return pod_verify_fail(v, "operand and result differ in dimensions");
    return POD_OK;
}

// Checks one side's dimension numbers; appends its free dimensions to `dims`.
static enum pod_code array_dot_side(const struct verify *v, uint32_t operand,
                                    size_t batch_count, const int64_t *batch,
                                    size_t contract_count,
                                    const int64_t *contract, size_t *rank,
                                    int64_t *dims)
{
    const struct pod_shape *shape = pod_verify_operand(v, operand);
    int64_t used[2 * POD_SHAPE_MAX_RANK];
    uint32_t taken = 0;
    size_t count = batch_count + contract_count;
    enum pod_code code;
    if (batch_count > shape->rank || contract_count > shape->rank)
        return pod_verify_fail(v, "operand %u has no %zu dimensions",
                               (unsigned)operand, count);
    for (size_t i = 0; i < count; i++)
        used[i] = i < batch_count ? batch[i] : contract[i - batch_count];
    code = pod_verify_dimensions(v, "dimension", count, used, shape->rank);
    if (code != POD_OK)
        return code;
    for (size_t i = 0; i < count; i++)
        taken |= UINT32_C(1) << used[i];
    for (uint32_t i = 0; i < shape->rank; i++) {
        if ((taken >> i & 1) != 0)
            continue;
        if (*rank == POD_SHAPE_MAX_RANK)
            return pod_verify_fail(v, "result has too many dimensions");
        dims[(*rank)++] = shape->dims[i];
    }
    return POD_OK;
}

static enum pod_code array_dot_pair(const struct verify *v, const char *what,
                                    size_t lhs_count, const int64_t *lhs,
                                    size_t rhs_count, const int64_t *rhs)
{
    const struct pod_shape *a = pod_verify_operand(v, 0);
    const struct pod_shape *b = pod_verify_operand(v, 1);
    if (lhs_count != rhs_count)
        return pod_verify_fail(v, "operands have %zu and %zu %s dimensions",
                               lhs_count, rhs_count, what);
    for (size_t i = 0; i < lhs_count; i++)
        if (a->dims[lhs[i]] != b->dims[rhs[i]])
            return pod_verify_fail(v,
                                   "%s dimensions %lld and %lld have sizes "
                                   "%lld and %lld",
                                   what, (long long)lhs[i], (long long)rhs[i],
                                   (long long)a->dims[lhs[i]],
                                   (long long)b->dims[rhs[i]]);
    return POD_OK;
}

static enum pod_code array_dot_types(const struct verify *v)
{
    enum pod_type type = pod_verify_operand(v, 0)->type;
    enum pod_type result = v->instr->shape->type;
    if (type != pod_verify_operand(v, 1)->type)
        return pod_verify_unsupported(
            v,
            "operands of types %s and %s are not "
            "supported",
            pod_type_name(type), pod_type_name(pod_verify_operand(v, 1)->type));
    if (result == type ||
        (pod_type_is_float(result) && pod_type_is_float(type)) ||
        ((pod_type_is_signed(result) || pod_type_is_unsigned(result)) &&
         (pod_type_is_signed(type) || pod_type_is_unsigned(type))))
        return POD_OK;
    return pod_verify_fail(v, "a dot of %s does not give %s",
                           pod_type_name(type), pod_type_name(result));
}

static enum pod_code array_dot(const struct verify *v)
{
    const Xla__DotDimensionNumbers *dot =
        v->instr->proto->dot_dimension_numbers;
    const struct pod_shape *a = pod_verify_operand(v, 0);
    int64_t dims[POD_SHAPE_MAX_RANK];
    size_t rank = 0;
    enum pod_code code = pod_verify_arrays(v, 2);
    if (code == POD_OK && dot == NULL)
        code = pod_verify_fail(v, "dot has no dimension numbers");
    if (code == POD_OK)
        code = array_dot_types(v);
    if (code != POD_OK)
        return code;
    for (size_t i = 0; i < dot->n_lhs_batch_dimensions; i++) {
        int64_t dim = dot->lhs_batch_dimensions[i];
        if (dim < 0 || dim >= a->rank || rank == POD_SHAPE_MAX_RANK)
            return pod_verify_fail(v, "batch dimension %lld is out of range",
                                   (long long)dim);
        dims[rank++] = a->dims[dim];
    }
    code = array_dot_side(v, 0, dot->n_lhs_batch_dimensions,
                          dot->lhs_batch_dimensions,
                          dot->n_lhs_contracting_dimensions,
                          dot->lhs_contracting_dimensions, &rank, dims);
    if (code == POD_OK)
        code = array_dot_side(v, 1, dot->n_rhs_batch_dimensions,
                              dot->rhs_batch_dimensions,
                              dot->n_rhs_contracting_dimensions,
                              dot->rhs_contracting_dimensions, &rank, dims);
    if (code == POD_OK)
        code = array_dot_pair(
            v, "batch", dot->n_lhs_batch_dimensions, dot->lhs_batch_dimensions,
            dot->n_rhs_batch_dimensions, dot->rhs_batch_dimensions);
    if (code == POD_OK)
        code = array_dot_pair(
            v, "contracted", dot->n_lhs_contracting_dimensions,
            dot->lhs_contracting_dimensions, dot->n_rhs_contracting_dimensions,
            dot->rhs_contracting_dimensions);
    if (code != POD_OK)
        return code;
    return pod_verify_result_array(v, v->instr->shape->type, rank, dims);
}

static enum pod_code (*const array_rules[POD_OP_COUNT])(
    const struct verify *) = {
    [POD_OP_PARAMETER] = array_parameter,
    [POD_OP_CONSTANT] = array_constant,
    [POD_OP_IOTA] = array_iota,
    [POD_OP_REPLICA_ID] = array_replica_id,
    [POD_OP_PARTITION_ID] = array_replica_id,
    [POD_OP_COPY] = array_same,
    [POD_OP_OPT_BARRIER] = array_same,
    [POD_OP_TUPLE] = array_tuple,
    [POD_OP_GET_TUPLE_ELEMENT] = array_get_tuple_element,
    [POD_OP_BITCAST] = array_bitcast,
    [POD_OP_BITCAST_CONVERT] = array_bitcast_convert,
    [POD_OP_BROADCAST] = array_broadcast,
    [POD_OP_RESHAPE] = array_reshape,
    [POD_OP_TRANSPOSE] = array_transpose,
    [POD_OP_REVERSE] = array_reverse,
    [POD_OP_SLICE] = array_slice,
    [POD_OP_PAD] = array_pad,
    [POD_OP_CONCATENATE] = array_concatenate,
    [POD_OP_DYNAMIC_SLICE] = array_dynamic_slice,
    [POD_OP_DYNAMIC_UPDATE_SLICE] = array_dynamic_update_slice,
    [POD_OP_DOT] = array_dot,
};

bool pod_verify_array_op(const struct verify *v, enum pod_code *out)
{
    if (array_rules[v->instr->opcode] == NULL)
        return false;
    *out = array_rules[v->instr->opcode](v);
    return true;
}
