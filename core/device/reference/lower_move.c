// SPDX-License-Identifier: Apache-2.0
// Instructions that move elements and compute nothing.
#include <string.h>

#include "core/device/reference/builder.h"

static int64_t move_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Emits the plan as the result of the instruction at hand.
static enum pod_code move_result(struct pod_ref_builder *builder,
                                 const struct pod_ref_move_plan *plan,
                                 struct pod_err *err)
{
    uint32_t slot;
    enum pod_code code = pod_ref_emit_move(
        builder, plan, pod_ref_in(builder, 0),
        (uint64_t)pod_shape_bytes(builder->instr->shape), &slot, err);

    return code == POD_OK ? pod_ref_result(builder, &slot, 1, err) : code;
}

enum pod_code pod_ref_lower_alias(struct pod_ref_builder *builder,
                                  struct pod_err *err)
{
    const struct pod_ref_value *value = pod_ref_value(builder, 0);

    return pod_ref_result(builder, value->slots, value->count, err);
}

enum pod_code pod_ref_lower_broadcast(struct pod_ref_builder *builder,
                                      struct pod_err *err)
{
    const Xla__HloInstructionProto *proto = builder->instr->proto;
    const struct pod_shape *from = pod_ref_shape(builder, 0);
    struct pod_ref_move_plan plan;
    int64_t strides[POD_SHAPE_MAX_RANK];

    pod_ref_move_to(builder->instr->shape, &plan);
    pod_ref_strides(from, strides);
    for (uint32_t i = 0; i < from->rank; i++)
        plan.dims[proto->dimensions[i]].from = strides[i];
    return move_result(builder, &plan, err);
}

enum pod_code pod_ref_lower_transpose(struct pod_ref_builder *builder,
                                      struct pod_err *err)
{
    const Xla__HloInstructionProto *proto = builder->instr->proto;
    const struct pod_shape *from = pod_ref_shape(builder, 0);
    struct pod_ref_move_plan plan;
    int64_t strides[POD_SHAPE_MAX_RANK];

    pod_ref_move_to(builder->instr->shape, &plan);
    pod_ref_strides(from, strides);
    for (uint32_t i = 0; i < from->rank; i++)
        plan.dims[i].from = strides[proto->dimensions[i]];
    return move_result(builder, &plan, err);
}

enum pod_code pod_ref_lower_slice(struct pod_ref_builder *builder,
                                  struct pod_err *err)
{
    const Xla__HloInstructionProto *proto = builder->instr->proto;
    const struct pod_shape *from = pod_ref_shape(builder, 0);
    struct pod_ref_move_plan plan;
    int64_t strides[POD_SHAPE_MAX_RANK];

    pod_ref_move_to(builder->instr->shape, &plan);
    pod_ref_strides(from, strides);
    for (uint32_t i = 0; i < from->rank; i++) {
        plan.from_offset += proto->slice_dimensions[i]->start * strides[i];
        // The stride of a single element may be anything.
        if (plan.dims[i].count > 1)
            plan.dims[i].from = proto->slice_dimensions[i]->stride * strides[i];
    }
    return move_result(builder, &plan, err);
}

// ---------------------------------------------------------------- concatenate

struct move_parts {
    uint32_t count;
    const uint32_t *slots;
    const struct pod_ref_move **moves;
};

static enum pod_code move_concatenate(struct pod_ref_run *run,
                                      const struct pod_ref_step *step,
                                      struct pod_err *err)
{
    const struct move_parts *parts = step->with.detail;

    (void)err;
    for (uint32_t i = 0; i < parts->count; i++)
        pod_ref_move_run(parts->moves[i], run->slots[parts->slots[i]],
                         run->slots[step->out]);
    return POD_OK;
}

// The moves of all operands into the result, one behind the other.
static enum pod_code move_make_parts(struct pod_ref_builder *builder,
                                     struct move_parts *parts, uint32_t *slots,
                                     struct pod_err *err)
{
    const struct pod_shape *to = builder->instr->shape;
    uint32_t along = (uint32_t)builder->instr->proto->dimensions[0];
    int64_t strides[POD_SHAPE_MAX_RANK];
    int64_t offset = 0;

    for (uint32_t i = 0; i < parts->count; i++) {
        const struct pod_shape *from = pod_ref_shape(builder, i);
        struct pod_ref_move_plan plan;
        pod_ref_move_to(to, &plan);
        pod_ref_strides(from, strides);
        for (uint32_t j = 0; j < to->rank; j++) {
            plan.dims[j].from = strides[j];
            plan.dims[j].count = from->dims[j];
        }
        plan.to_offset = offset;
        offset += from->dims[along] * plan.dims[along].to;
        slots[i] = pod_ref_in(builder, i);
        parts->moves[i] = pod_ref_move_make(&plan, &builder->program->pool);
        if (parts->moves[i] == NULL)
            return pod_ref_no_memory(err);
    }
    return POD_OK;
}

enum pod_code pod_ref_lower_concatenate(struct pod_ref_builder *builder,
                                        struct pod_err *err)
{
    struct pod_ref_pool *pool = &builder->program->pool;
    uint32_t count = builder->instr->operand_count;
    struct move_parts *parts = pod_ref_pool_alloc(pool, 1, sizeof(*parts));
    uint32_t *slots = pod_ref_pool_alloc(pool, count, sizeof(*slots));
    struct pod_ref_step step = {
        .run = move_concatenate,
        .in = {POD_REF_NONE, POD_REF_NONE, POD_REF_NONE},
        .flops = (double)pod_shape_elements(builder->instr->shape)};
    enum pod_code code;

    if (parts == NULL || slots == NULL)
        return pod_ref_no_memory(err);
    parts->moves = pod_ref_pool_alloc(pool, count, sizeof(*parts->moves));
    if (parts->moves == NULL)
        return pod_ref_no_memory(err);
    parts->count = count;
    parts->slots = slots;
    code = move_make_parts(builder, parts, slots, err);
    if (code != POD_OK)
        return code;
    for (uint32_t i = 0; i < count; i++)
        pod_ref_use(builder, slots[i]);
    step.with.detail = parts;
    return pod_ref_emit_result(builder, &step, err);
}

// ------------------------------------------------------------------------ pad

struct move_pad {
    const struct pod_ref_move *move;
    size_t size;
};

static enum pod_code move_pad(struct pod_ref_run *run,
                              const struct pod_ref_step *step,
                              struct pod_err *err)
{
    const struct move_pad *pad = step->with.detail;

    (void)err;
    pod_ref_fill(run->slots[step->out], run->slots[step->in[1]], pad->size,
                 step->count);
    pod_ref_move_run(pad->move, run->slots[step->in[0]], run->slots[step->out]);
    return POD_OK;
}

// One dimension: element i of `count` lands at low + i * (interior + 1), or
// nowhere if that is outside the result. Narrows the plan to those that land.
static void
move_pad_dim(const Xla__PaddingConfig__PaddingConfigDimension *config,
             int64_t count, int64_t stride, struct pod_ref_move_plan *plan,
             struct pod_ref_move_dim *dim)
{
    int64_t low = config->edge_padding_low;
    // With one element there is no interior; otherwise it fits the result.
    int64_t step = count > 1 ? config->interior_padding + 1 : 1;
    uint64_t first = 0;
    uint64_t last;

    if (count == 0 || dim->count == 0 || low > dim->count - 1) {
        dim->count = 0;
        return;
    }
    if (low < 0)
        first = (0 - (uint64_t)low + (uint64_t)step - 1) / (uint64_t)step;
    last = ((uint64_t)(dim->count - 1) - (uint64_t)low) / (uint64_t)step;
    last = last < (uint64_t)count - 1 ? last : (uint64_t)count - 1;
    if (first > last) {
        dim->count = 0;
        return;
    }
    plan->from_offset += (int64_t)first * stride;
    plan->to_offset += (low + (int64_t)first * step) * dim->to;
    dim->count = (int64_t)(last - first + 1);
    dim->from = stride;
    dim->to = dim->count > 1 ? step * dim->to : 0;
}

enum pod_code pod_ref_lower_pad(struct pod_ref_builder *builder,
                                struct pod_err *err)
{
    const Xla__PaddingConfig *config = builder->instr->proto->padding_config;
    const struct pod_shape *from = pod_ref_shape(builder, 0);
    const struct pod_shape *to = builder->instr->shape;
    struct pod_ref_pool *pool = &builder->program->pool;
    struct move_pad *pad = pod_ref_pool_alloc(pool, 1, sizeof(*pad));
    struct pod_ref_step step = {
        .run = move_pad,
        .in = {pod_ref_in(builder, 0), pod_ref_in(builder, 1), POD_REF_NONE},
        .count = pod_shape_elements(to),
        .flops = (double)pod_shape_elements(to)};
    struct pod_ref_move_plan plan;
    int64_t strides[POD_SHAPE_MAX_RANK];

    pod_ref_move_to(to, &plan);
    pod_ref_strides(from, strides);
    for (uint32_t i = 0; i < from->rank; i++)
        move_pad_dim(config->dimensions[i], from->dims[i], strides[i], &plan,
                     &plan.dims[i]);
    if (pad == NULL)
        return pod_ref_no_memory(err);
    pad->size = plan.size;
    pad->move = pod_ref_move_make(&plan, pool);
    if (pad->move == NULL)
        return pod_ref_no_memory(err);
    step.with.detail = pad;
    return pod_ref_emit_result(builder, &step, err);
}

// ------------------------------------------------------------- moving windows

struct move_window_dim {
    uint32_t slot; // of the index
    enum pod_type type;
    int64_t most; // greatest start
    int64_t stride;
};

// A window into the bigger array, whose place is known when it runs.
struct move_window {
    const struct pod_ref_move *move;
    uint32_t rank;
    struct move_window_dim dims[];
};

static int64_t move_index(const void *data, enum pod_type type)
{
    int32_t s32;
    uint32_t u32;
    int64_t s64;

    if (type == POD_TYPE_S64) {
        memcpy(&s64, data, sizeof(s64));
        return s64;
    }
    if (type == POD_TYPE_S32) {
        memcpy(&s32, data, sizeof(s32));
        return s32;
    }
    if (type == POD_TYPE_U32) {
        memcpy(&u32, data, sizeof(u32));
        return u32;
    }
    return *(const unsigned char *)data;
}

// Where the window starts, in bytes; indices are clamped so that it fits.
static int64_t move_window_offset(const struct pod_ref_run *run,
                                  const struct move_window *window)
{
    int64_t offset = 0;

    for (uint32_t i = 0; i < window->rank; i++) {
        const struct move_window_dim *dim = &window->dims[i];
        int64_t index = move_index(run->slots[dim->slot], dim->type);
        index = index < 0 ? 0 : move_min(index, dim->most);
        offset += index * dim->stride;
    }
    return offset;
}

static enum pod_code move_dynamic_slice(struct pod_ref_run *run,
                                        const struct pod_ref_step *step,
                                        struct pod_err *err)
{
    const struct move_window *window = step->with.detail;
    const char *from = run->slots[step->in[0]];

    (void)err;
    pod_ref_move_run(window->move, from + move_window_offset(run, window),
                     run->slots[step->out]);
    return POD_OK;
}

static enum pod_code move_dynamic_update(struct pod_ref_run *run,
                                         const struct pod_ref_step *step,
                                         struct pod_err *err)
{
    const struct move_window *window = step->with.detail;
    char *out = run->slots[step->out];
    // Before anything is written: an index may lie where the result goes.
    int64_t offset = move_window_offset(run, window);

    (void)err;
    if (out != run->slots[step->in[0]])
        memcpy(out, run->slots[step->in[0]], (size_t)step->count);
    pod_ref_move_run(window->move, run->slots[step->in[1]], out + offset);
    return POD_OK;
}

// The window of `small` in `big` at the indices from operand `first` on. Says
// that the next step reads the indices.
static enum pod_code
move_make_window(struct pod_ref_builder *builder, const struct pod_shape *big,
                 const struct pod_shape *small, uint32_t first,
                 const struct pod_ref_move_plan *plan,
                 struct move_window **out_window, struct pod_err *err)
{
    struct pod_ref_pool *pool = &builder->program->pool;
    int64_t strides[POD_SHAPE_MAX_RANK];
    struct move_window *window = pod_ref_pool_alloc(
        pool, 1, sizeof(*window) + big->rank * sizeof(*window->dims));

    if (window == NULL)
        return pod_ref_no_memory(err);
    window->rank = big->rank;
    window->move = pod_ref_move_make(plan, pool);
    if (window->move == NULL)
        return pod_ref_no_memory(err);
    pod_ref_strides(big, strides);
    for (uint32_t i = 0; i < big->rank; i++) {
        window->dims[i] = (struct move_window_dim){
            .slot = pod_ref_in(builder, first + i),
            .type = pod_ref_shape(builder, first + i)->type,
            .most = big->dims[i] - small->dims[i],
            .stride = strides[i]};
        pod_ref_use(builder, window->dims[i].slot);
    }
    *out_window = window;
    return POD_OK;
}

enum pod_code pod_ref_lower_dynamic_slice(struct pod_ref_builder *builder,
                                          struct pod_err *err)
{
    const struct pod_shape *big = pod_ref_shape(builder, 0);
    const struct pod_shape *small = builder->instr->shape;
    struct pod_ref_step step = {
        .run = move_dynamic_slice,
        .in = {pod_ref_in(builder, 0), POD_REF_NONE, POD_REF_NONE},
        .flops = (double)pod_shape_elements(small)};
    struct pod_ref_move_plan plan;
    struct move_window *window;
    int64_t strides[POD_SHAPE_MAX_RANK];
    enum pod_code code;

    pod_ref_move_to(small, &plan);
    pod_ref_strides(big, strides);
    for (uint32_t i = 0; i < big->rank; i++)
        plan.dims[i].from = strides[i];
    code = move_make_window(builder, big, small, 1, &plan, &window, err);
    if (code != POD_OK)
        return code;
    step.with.detail = window;
    return pod_ref_emit_result(builder, &step, err);
}

enum pod_code
pod_ref_lower_dynamic_update_slice(struct pod_ref_builder *builder,
                                   struct pod_err *err)
{
    const struct pod_shape *big = builder->instr->shape;
    const struct pod_shape *small = pod_ref_shape(builder, 1);
    uint64_t bytes = (uint64_t)pod_shape_bytes(big);
    struct pod_ref_step step = {
        .run = move_dynamic_update,
        .in = {pod_ref_in(builder, 0), pod_ref_in(builder, 1), POD_REF_NONE},
        .count = (int64_t)bytes,
        .flops = (double)pod_shape_elements(small)};
    struct pod_ref_move_plan plan;
    struct move_window *window;
    int64_t strides[POD_SHAPE_MAX_RANK];
    enum pod_code code;

    pod_ref_move_to(small, &plan);
    for (uint32_t i = 0; i < big->rank; i++)
        plan.dims[i].from = plan.dims[i].to;
    pod_ref_strides(big, strides);
    for (uint32_t i = 0; i < big->rank; i++)
        plan.dims[i].to = strides[i];
    code = move_make_window(builder, big, small, 2, &plan, &window, err);
    if (code != POD_OK)
        return code;
    step.with.detail = window;
    code = pod_ref_slot_new(builder, bytes, &step.out, err);
    if (code != POD_OK)
        return code;
    if (step.in[0] != step.in[1])
        pod_ref_inherit(builder, step.out, step.in[0]);
    code = pod_ref_emit(builder, &step, err);
    if (code == POD_OK)
        code = pod_ref_result(builder, &step.out, 1, err);
    return code;
}
