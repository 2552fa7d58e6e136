// SPDX-License-Identifier: Apache-2.0
// Elementwise instructions and iota.
#include <string.h>

#include "core/device/reference/builder.h"

static enum pod_code element_unsupported(const struct pod_ref_builder *builder,
                                         struct pod_err *err)
{
    return pod_ref_refuse(
        builder, err, POD_REASON_UNIMPLEMENTED,
        "%s of %s is not implemented by the device \"reference\"",
        pod_opcode_name(builder->instr->opcode),
        pod_type_name(pod_ref_shape(builder, 0)->type));
}

// A step of the instruction at hand with up to three operands.
static struct pod_ref_step element_step(const struct pod_ref_builder *builder)
{
    int64_t count = pod_shape_elements(builder->instr->shape);
    struct pod_ref_step step = {
        .in = {POD_REF_NONE, POD_REF_NONE, POD_REF_NONE},
        .count = count,
        .flops = (double)count};

    for (uint32_t i = 0; i < builder->instr->operand_count && i < 3; i++)
        step.in[i] = pod_ref_in(builder, i);
    return step;
}

// Emits a step whose result may lie where operands `first` and, if it is not
// negative, `second` were.
static enum pod_code element_emit(struct pod_ref_builder *builder,
                                  struct pod_ref_step *step, int first,
                                  int second, struct pod_err *err)
{
    uint64_t bytes = (uint64_t)pod_shape_bytes(builder->instr->shape);
    enum pod_code code = pod_ref_slot_new(builder, bytes, &step->out, err);

    if (code != POD_OK)
        return code;
    pod_ref_inherit(builder, step->out, step->in[first]);
    if (second >= 0)
        pod_ref_inherit(builder, step->out, step->in[second]);
    code = pod_ref_emit(builder, step, err);
    if (code == POD_OK)
        code = pod_ref_result(builder, &step->out, 1, err);
    return code;
}

static enum pod_code element_binary(struct pod_ref_run *run,
                                    const struct pod_ref_step *step,
                                    struct pod_err *err)
{
    (void)err;
    step->with.binary(run->slots[step->out], run->slots[step->in[0]],
                      run->slots[step->in[1]], step->count);
    return POD_OK;
}

enum pod_code pod_ref_lower_unary(struct pod_ref_builder *builder,
                                  struct pod_err *err)
{
    struct pod_ref_step step = element_step(builder);

    step.run = pod_ref_run_unary;
    step.with.unary =
        pod_ref_unary_find(builder->instr->opcode, builder->instr->shape->type);
    if (step.with.unary == NULL)
        return element_unsupported(builder, err);
    return element_emit(builder, &step, 0, -1, err);
}

enum pod_code pod_ref_lower_binary(struct pod_ref_builder *builder,
                                   struct pod_err *err)
{
    struct pod_ref_step step = element_step(builder);

    step.run = element_binary;
    step.with.binary = pod_ref_binary_find(builder->instr->opcode,
                                           builder->instr->shape->type);
    if (step.with.binary == NULL)
        return element_unsupported(builder, err);
    return element_emit(builder, &step, 0, 1, err);
}

enum pod_code pod_ref_lower_compare(struct pod_ref_builder *builder,
                                    struct pod_err *err)
{
    struct pod_ref_step step = element_step(builder);
    const Xla__HloInstructionProto *proto = builder->instr->proto;
    enum pod_type type = pod_ref_shape(builder, 0)->type;
    bool total = strcmp(proto->comparison_type, "TOTALORDER") == 0 &&
                 pod_type_is_float(type);

    step.run = element_binary;
    step.with.binary =
        pod_ref_compare_find(proto->comparison_direction, total, type);
    if (step.with.binary == NULL)
        return element_unsupported(builder, err);
    return element_emit(builder, &step, 0, 1, err);
}

enum pod_code pod_ref_lower_convert(struct pod_ref_builder *builder,
                                    struct pod_err *err)
{
    const struct pod_shape *to = builder->instr->shape;
    uint32_t slot;
    enum pod_code code = pod_ref_emit_convert(
        builder, pod_ref_in(builder, 0), pod_ref_shape(builder, 0)->type,
        to->type, pod_shape_elements(to), &slot, err);

    return code == POD_OK ? pod_ref_result(builder, &slot, 1, err) : code;
}

// ----------------------------------------------------------- select and clamp

struct element_choice {
    pod_ref_select_fn *select;
    int64_t step;
};

static enum pod_code element_select(struct pod_ref_run *run,
                                    const struct pod_ref_step *step,
                                    struct pod_err *err)
{
    const struct element_choice *choice = step->with.detail;

    (void)err;
    choice->select(run->slots[step->out], run->slots[step->in[0]], choice->step,
                   run->slots[step->in[1]], run->slots[step->in[2]],
                   step->count);
    return POD_OK;
}

enum pod_code pod_ref_lower_select(struct pod_ref_builder *builder,
                                   struct pod_err *err)
{
    struct pod_ref_step step = element_step(builder);
    const struct pod_ref_value *yes = pod_ref_value(builder, 1);
    struct element_choice *choice =
        pod_ref_pool_alloc(&builder->program->pool, 1, sizeof(*choice));

    step.run = element_select;
    if (choice == NULL)
        return pod_ref_no_memory(err);
    if (builder->instr->shape->type == POD_TYPE_TUPLE || yes->count != 1)
        return pod_ref_refuse(builder, err, POD_REASON_UNIMPLEMENTED,
                              "select of tuples is not implemented by the "
                              "device \"reference\"");
    choice->select = pod_ref_select_find(builder->instr->shape->type);
    choice->step = pod_ref_shape(builder, 0)->rank == 0 ? 0 : 1;
    step.with.detail = choice;
    return element_emit(builder, &step, 1, 2, err);
}

struct element_bounds {
    pod_ref_clamp_fn *clamp;
    int64_t low_step;
    int64_t high_step;
};

static enum pod_code element_clamp(struct pod_ref_run *run,
                                   const struct pod_ref_step *step,
                                   struct pod_err *err)
{
    const struct element_bounds *bounds = step->with.detail;

    (void)err;
    bounds->clamp(run->slots[step->out], run->slots[step->in[0]],
                  bounds->low_step, run->slots[step->in[1]],
                  run->slots[step->in[2]], bounds->high_step, step->count);
    return POD_OK;
}

enum pod_code pod_ref_lower_clamp(struct pod_ref_builder *builder,
                                  struct pod_err *err)
{
    struct pod_ref_step step = element_step(builder);
    struct element_bounds *bounds =
        pod_ref_pool_alloc(&builder->program->pool, 1, sizeof(*bounds));

    step.run = element_clamp;
    if (bounds == NULL)
        return pod_ref_no_memory(err);
    bounds->clamp = pod_ref_clamp_find(builder->instr->shape->type);
    bounds->low_step = pod_ref_shape(builder, 0)->rank == 0 ? 0 : 1;
    bounds->high_step = pod_ref_shape(builder, 2)->rank == 0 ? 0 : 1;
    step.with.detail = bounds;
    return element_emit(builder, &step, 1, -1, err);
}

// ----------------------------------------------------------------------- iota

struct element_iota {
    pod_ref_unary_fn *convert; // from s64
    size_t size;
    int64_t outer; // products of the dimensions before and behind
    int64_t count;
    int64_t inner;
};

enum { ELEMENT_IOTA_PIECE = 256 };

// Writes 0, 1, ... count-1, each `inner` times.
static void element_iota_once(const struct element_iota *iota, char *out)
{
    int64_t numbers[ELEMENT_IOTA_PIECE];
    uint64_t values[ELEMENT_IOTA_PIECE];
    int64_t line = iota->inner * (int64_t)iota->size;

    for (int64_t start = 0; start < iota->count; start += ELEMENT_IOTA_PIECE) {
        int64_t n = iota->count - start;
        n = n < ELEMENT_IOTA_PIECE ? n : ELEMENT_IOTA_PIECE;
        for (int64_t i = 0; i < n; i++)
            numbers[i] = start + i;
        if (iota->inner == 1) {
            iota->convert(out + start * line, numbers, n);
            continue;
        }
        iota->convert(values, numbers, n);
        for (int64_t i = 0; i < n; i++)
            pod_ref_fill(out + (start + i) * line,
                         (const char *)values + (size_t)i * iota->size,
                         iota->size, iota->inner);
    }
}

static enum pod_code element_iota(struct pod_ref_run *run,
                                  const struct pod_ref_step *step,
                                  struct pod_err *err)
{
    const struct element_iota *iota = step->with.detail;
    char *out = run->slots[step->out];
    size_t plane = (size_t)(iota->count * iota->inner) * iota->size;

    (void)err;
    if (step->count == 0)
        return POD_OK;
    element_iota_once(iota, out);
    for (int64_t i = 1; i < iota->outer; i++)
        memcpy(out + (size_t)i * plane, out, plane);
    return POD_OK;
}

enum pod_code pod_ref_lower_iota(struct pod_ref_builder *builder,
                                 struct pod_err *err)
{
    struct pod_ref_step step = element_step(builder);
    const struct pod_shape *shape = builder->instr->shape;
    uint32_t along = (uint32_t)builder->instr->proto->dimensions[0];
    struct element_iota *iota =
        pod_ref_pool_alloc(&builder->program->pool, 1, sizeof(*iota));

    step.run = element_iota;
    if (iota == NULL)
        return pod_ref_no_memory(err);
    iota->convert = pod_ref_convert_find(POD_TYPE_S64, shape->type);
    iota->size = pod_type_bytes(shape->type);
    iota->outer = 1;
    iota->inner = 1;
    if (step.count > 0) {
        iota->count = shape->dims[along];
        for (uint32_t i = 0; i < shape->rank; i++) {
            int64_t *product = i < along ? &iota->outer : &iota->inner;
            *product *= i == along ? 1 : shape->dims[i];
        }
    }
    step.with.detail = iota;
    return pod_ref_emit_result(builder, &step, err);
}
