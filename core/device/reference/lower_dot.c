// SPDX-License-Identifier: Apache-2.0
// dot: its operands are brought into the order batch, rows, inner (or batch,
// inner, columns), which often is the order they have, and multiplied.
//
// Halves are multiplied in float and the result is rounded once. Integers are
// multiplied in the type of the result.
#include "core/device/reference/builder.h"
#include "core/device/reference/gemm.h"

// The dimensions of one operand, in the order that is wanted.
struct dot_side {
    uint32_t batch_count;
    uint32_t inner_count;
    uint32_t free_count;
    uint32_t batch[POD_SHAPE_MAX_RANK];
    uint32_t inner[POD_SHAPE_MAX_RANK];
    uint32_t free[POD_SHAPE_MAX_RANK];
};

static void dot_sort_dims(const struct pod_shape *shape, size_t batch_count,
                          const int64_t *batch, size_t inner_count,
                          const int64_t *inner, struct dot_side *out_side)
{
    bool used[POD_SHAPE_MAX_RANK] = {false};

    *out_side = (struct dot_side){.batch_count = (uint32_t)batch_count,
                                  .inner_count = (uint32_t)inner_count};
    for (size_t i = 0; i < batch_count; i++) {
        out_side->batch[i] = (uint32_t)batch[i];
        used[batch[i]] = true;
    }
    for (size_t i = 0; i < inner_count; i++) {
        out_side->inner[i] = (uint32_t)inner[i];
        used[inner[i]] = true;
    }
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (!used[i])
            out_side->free[out_side->free_count++] = i;
    }
}

// Fits if the result has elements at all: it or an operand has these
// dimensions.
static int64_t dot_product(const struct pod_shape *shape, const uint32_t *dims,
                           uint32_t count)
{
    int64_t product = 1;

    for (uint32_t i = 0; i < count; i++)
        product *= shape->dims[dims[i]];
    return product;
}

static uint32_t dot_append(uint32_t *order, uint32_t at, const uint32_t *dims,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        order[at++] = dims[i];
    return at;
}

// Whether the dimensions come in this order in memory as it is; those of size 1
// are nowhere in particular.
static bool dot_in_order(const struct pod_shape *shape, const uint32_t *order)
{
    int64_t before = -1;

    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[order[i]] == 1)
            continue;
        if ((int64_t)order[i] < before)
            return false;
        before = order[i];
    }
    return true;
}

// The slot with the operand in an order that the multiplication takes: batch,
// then inner and free dimensions in the order that `inner_first` says, or the
// other way round if `*out_flipped`.
static enum pod_code dot_arrange(struct pod_ref_builder *builder,
                                 uint32_t operand, const struct dot_side *side,
                                 bool inner_first, uint32_t *out_slot,
                                 bool *out_flipped, struct pod_err *err)
{
    const struct pod_shape *shape = pod_ref_shape(builder, operand);
    uint32_t orders[2][POD_SHAPE_MAX_RANK]; // [inner before free]
    struct pod_ref_move_plan plan = {.size = pod_type_bytes(shape->type),
                                     .rank = shape->rank};
    int64_t strides[POD_SHAPE_MAX_RANK];
    int64_t to = (int64_t)plan.size;

    for (int i = 0; i < 2; i++) {
        uint32_t at = dot_append(orders[i], 0, side->batch, side->batch_count);
        if (i == 1)
            at = dot_append(orders[i], at, side->inner, side->inner_count);
        at = dot_append(orders[i], at, side->free, side->free_count);
        if (i == 0)
            dot_append(orders[i], at, side->inner, side->inner_count);
    }
    *out_slot = pod_ref_in(builder, operand);
    *out_flipped = !dot_in_order(shape, orders[inner_first]) &&
                   dot_in_order(shape, orders[!inner_first]);
    if (*out_flipped || dot_in_order(shape, orders[inner_first]) ||
        pod_shape_elements(shape) == 0)
        return POD_OK;
    pod_ref_strides(shape, strides);
    for (uint32_t i = shape->rank; i-- > 0;) {
        uint32_t dim = orders[inner_first][i];
        plan.dims[i] = (struct pod_ref_move_dim){
            .count = shape->dims[dim], .from = strides[dim], .to = to};
        to *= shape->dims[dim];
    }
    return pod_ref_emit_move(builder, &plan, *out_slot, (uint64_t)to, out_slot,
                             err);
}

// The type to multiply in.
static enum pod_type dot_type(enum pod_type operand, enum pod_type result)
{
    if (operand == POD_TYPE_F64 || result == POD_TYPE_F64)
        return POD_TYPE_F64;
    if (pod_type_is_float(operand) || pod_type_is_float(result))
        return POD_TYPE_F32;
    return result;
}

static enum pod_code dot_run(struct pod_ref_run *run,
                             const struct pod_ref_step *step,
                             struct pod_err *err)
{
    (void)err;
    pod_ref_gemm_run(step->with.detail, run->slots[step->in[0]],
                     run->slots[step->in[1]], run->slots[step->out]);
    return POD_OK;
}

// The multiplication itself, from arranged operands of the type, and the
// result.
static enum pod_code dot_multiply(struct pod_ref_builder *builder,
                                  const struct pod_ref_gemm *gemm,
                                  const uint32_t *slots, struct pod_err *err)
{
    const struct pod_shape *to = builder->instr->shape;
    int64_t count = pod_shape_elements(to);
    struct pod_ref_step step = {.run = dot_run,
                                .in = {slots[0], slots[1], POD_REF_NONE},
                                .with.detail = gemm};
    uint32_t result;
    enum pod_code code;

    step.flops = 2.0 * (double)count * (double)gemm->inner;
    code = pod_ref_emit_new(builder, &step,
                            (uint64_t)count * pod_type_bytes(gemm->type),
                            &result, err);
    if (code == POD_OK)
        code = pod_ref_emit_convert(builder, result, gemm->type, to->type,
                                    count, &result, err);
    if (code == POD_OK)
        code = pod_ref_result(builder, &result, 1, err);
    return code;
}

enum pod_code pod_ref_lower_dot(struct pod_ref_builder *builder,
                                struct pod_err *err)
{
    const Xla__DotDimensionNumbers *dims =
        builder->instr->proto->dot_dimension_numbers;
    const struct pod_shape *shapes[2] = {pod_ref_shape(builder, 0),
                                         pod_ref_shape(builder, 1)};
    struct dot_side sides[2];
    bool flipped[2];
    uint32_t slots[2];
    struct pod_ref_gemm *gemm =
        pod_ref_pool_alloc(&builder->program->pool, 1, sizeof(*gemm));

    if (gemm == NULL)
        return pod_ref_no_memory(err);
    dot_sort_dims(shapes[0], dims->n_lhs_batch_dimensions,
                  dims->lhs_batch_dimensions,
                  dims->n_lhs_contracting_dimensions,
                  dims->lhs_contracting_dimensions, &sides[0]);
    dot_sort_dims(shapes[1], dims->n_rhs_batch_dimensions,
                  dims->rhs_batch_dimensions,
                  dims->n_rhs_contracting_dimensions,
                  dims->rhs_contracting_dimensions, &sides[1]);
    gemm->type = dot_type(shapes[0]->type, builder->instr->shape->type);
    if (pod_shape_elements(builder->instr->shape) > 0) {
        gemm->batch =
            dot_product(shapes[0], sides[0].batch, sides[0].batch_count);
        gemm->rows = dot_product(shapes[0], sides[0].free, sides[0].free_count);
        gemm->inner =
            dot_product(shapes[0], sides[0].inner, sides[0].inner_count);
        gemm->columns =
            dot_product(shapes[1], sides[1].free, sides[1].free_count);
    }
    for (uint32_t i = 0; i < 2; i++) {
        enum pod_code code = dot_arrange(builder, i, &sides[i], i == 1,
                                         &slots[i], &flipped[i], err);
        if (code == POD_OK)
            code = pod_ref_emit_convert(
                builder, slots[i], shapes[i]->type, gemm->type,
                pod_shape_elements(shapes[i]), &slots[i], err);
        if (code != POD_OK)
            return code;
    }
    gemm->left_flipped = flipped[0];
    gemm->right_flipped = flipped[1];
    return dot_multiply(builder, gemm, slots, err);
}
