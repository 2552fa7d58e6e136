// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/hlo/literal.h"

enum pod_code pod_ref_no_memory(struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                       "no memory to compile the program");
}

enum pod_code pod_ref_refuse(const struct pod_ref_builder *builder,
                             struct pod_err *err, enum pod_reason reason,
                             const char *format, ...)
{
    const struct pod_hlo_instr *instr = builder->instr;
    char text[POD_ERR_TEXT_BYTES];
    enum pod_code code;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    code = pod_err_set(err, reason, "instruction \"%s\": %s",
                       instr->proto->name, text);
    if (err != NULL) {
        err->line = instr->line;
        err->column = instr->column;
    }
    return code;
}

const struct pod_shape *pod_ref_shape(const struct pod_ref_builder *builder,
                                      uint32_t operand)
{
    return pod_hlo_operand(builder->hlo, builder->instr, operand)->shape;
}

const struct pod_ref_value *pod_ref_value(const struct pod_ref_builder *builder,
                                          uint32_t operand)
{
    return &builder->values[builder->instr->operands[operand]];
}

uint32_t pod_ref_in(const struct pod_ref_builder *builder, uint32_t operand)
{
    return pod_ref_value(builder, operand)->slots[0];
}

// ---------------------------------------------------------------------- slots

static enum pod_code builder_grow_slots(struct pod_ref_builder *builder,
                                        struct pod_err *err)
{
    uint32_t capacity = builder->slot_capacity * 2 + 64;
    struct pod_ref_slot *slots;
    struct pod_ref_life *lives;

    if (capacity > POD_REF_MAX_SLOTS)
        return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                           "the program has more than %d arrays",
                           POD_REF_MAX_SLOTS / 2);
    slots = pod_realloc(builder->slots, capacity, sizeof(*slots));
    if (slots == NULL)
        return pod_ref_no_memory(err);
    builder->slots = slots;
    lives = pod_realloc(builder->lives, capacity, sizeof(*lives));
    if (lives == NULL)
        return pod_ref_no_memory(err);
    builder->lives = lives;
    builder->slot_capacity = capacity;
    return POD_OK;
}

static enum pod_code builder_slot(struct pod_ref_builder *builder,
                                  const struct pod_ref_slot *slot,
                                  uint32_t made, uint32_t *out_slot,
                                  struct pod_err *err)
{
    enum pod_code code;

    if (builder->slot_count == builder->slot_capacity) {
        code = builder_grow_slots(builder, err);
        if (code != POD_OK)
            return code;
    }
    builder->slots[builder->slot_count] = *slot;
    builder->lives[builder->slot_count] =
        (struct pod_ref_life){.made = made,
                              .last = POD_REF_NONE,
                              .heirs_of = {POD_REF_NONE, POD_REF_NONE}};
    *out_slot = builder->slot_count++;
    return POD_OK;
}

enum pod_code pod_ref_slot_new(struct pod_ref_builder *builder, uint64_t bytes,
                               uint32_t *out_slot, struct pod_err *err)
{
    struct pod_ref_slot slot = {.bytes = bytes, .in_arena = true};

    return builder_slot(builder, &slot, builder->step_count, out_slot, err);
}

enum pod_code pod_ref_slot_fixed(struct pod_ref_builder *builder,
                                 uint64_t bytes, const void *constant,
                                 uint32_t *out_slot, struct pod_err *err)
{
    struct pod_ref_slot slot = {.bytes = bytes, .constant = constant};

    return builder_slot(builder, &slot, POD_REF_NONE, out_slot, err);
}

void pod_ref_use(struct pod_ref_builder *builder, uint32_t slot)
{
    builder->lives[slot].last = builder->step_count;
}

void pod_ref_inherit(struct pod_ref_builder *builder, uint32_t slot,
                     uint32_t heir_of)
{
    uint32_t *heirs_of = builder->lives[slot].heirs_of;

    heirs_of[heirs_of[0] == POD_REF_NONE ? 0 : 1] = heir_of;
}

void pod_ref_mark_repeated(struct pod_ref_builder *builder,
                           const uint32_t *slots, uint32_t count)
{
    uint32_t number = ++builder->list_number;

    for (uint32_t i = 0; i < count; i++) {
        struct pod_ref_life *life = &builder->lives[slots[i]];
        if (life->listed == number)
            life->repeated = number;
        life->listed = number;
    }
}

bool pod_ref_is_repeated(const struct pod_ref_builder *builder, uint32_t slot)
{
    return builder->lives[slot].repeated == builder->list_number;
}

// ---------------------------------------------------------------------- steps

enum pod_code pod_ref_emit(struct pod_ref_builder *builder,
                           const struct pod_ref_step *step, struct pod_err *err)
{
    if (builder->step_count == builder->step_capacity) {
        uint32_t capacity = builder->step_capacity * 2 + 64;
        struct pod_ref_step *steps =
            pod_realloc(builder->steps, capacity, sizeof(*steps));
        if (steps == NULL)
            return pod_ref_no_memory(err);
        builder->steps = steps;
        builder->step_capacity = capacity;
    }
    for (int i = 0; i < 3; i++) {
        if (step->in[i] != POD_REF_NONE)
            pod_ref_use(builder, step->in[i]);
    }
    builder->steps[builder->step_count++] = *step;
    return POD_OK;
}

enum pod_code pod_ref_emit_new(struct pod_ref_builder *builder,
                               struct pod_ref_step *step, uint64_t bytes,
                               uint32_t *out_slot, struct pod_err *err)
{
    enum pod_code code = pod_ref_slot_new(builder, bytes, &step->out, err);

    if (code == POD_OK)
        code = pod_ref_emit(builder, step, err);
    if (code == POD_OK)
        *out_slot = step->out;
    return code;
}

enum pod_code pod_ref_emit_result(struct pod_ref_builder *builder,
                                  struct pod_ref_step *step,
                                  struct pod_err *err)
{
    uint64_t bytes = (uint64_t)pod_shape_bytes(builder->instr->shape);
    uint32_t out = POD_REF_NONE;
    enum pod_code code = pod_ref_emit_new(builder, step, bytes, &out, err);

    return code == POD_OK ? pod_ref_result(builder, &out, 1, err) : code;
}

enum pod_code pod_ref_result_room(struct pod_ref_builder *builder,
                                  uint32_t count, uint32_t **out_slots,
                                  struct pod_err *err)
{
    size_t index = (size_t)(builder->instr - builder->hlo->instrs);
    uint32_t *slots;

    builder->leaf_count += count;
    if (builder->leaf_count > POD_REF_MAX_LEAVES)
        return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                           "the tuples of the program have more than %d "
                           "members in all",
                           POD_REF_MAX_LEAVES);
    slots = pod_ref_pool_alloc(&builder->program->pool, count, sizeof(*slots));
    if (slots == NULL)
        return pod_ref_no_memory(err);
    builder->values[index] =
        (struct pod_ref_value){.count = count, .slots = slots};
    *out_slots = slots;
    return POD_OK;
}

enum pod_code pod_ref_result(struct pod_ref_builder *builder,
                             const uint32_t *slots, uint32_t count,
                             struct pod_err *err)
{
    uint32_t *room = NULL;
    enum pod_code code = pod_ref_result_room(builder, count, &room, err);

    if (room != NULL && count > 0)
        memcpy(room, slots, count * sizeof(*slots));
    return code;
}

static enum pod_code builder_move(struct pod_ref_run *run,
                                  const struct pod_ref_step *step,
                                  struct pod_err *err)
{
    (void)err;
    pod_ref_move_run(step->with.move, run->slots[step->in[0]],
                     run->slots[step->out]);
    return POD_OK;
}

enum pod_code pod_ref_emit_move(struct pod_ref_builder *builder,
                                const struct pod_ref_move_plan *plan,
                                uint32_t from, uint64_t bytes,
                                uint32_t *out_slot, struct pod_err *err)
{
    struct pod_ref_step step = {.run = builder_move,
                                .in = {from, POD_REF_NONE, POD_REF_NONE},
                                .flops = (double)bytes / (double)plan->size};
    const struct pod_ref_move *move =
        pod_ref_move_make(plan, &builder->program->pool);
    int64_t size = (int64_t)plan->size;

    if (move == NULL)
        return pod_ref_no_memory(err);
    if (bytes == builder->slots[from].bytes &&
        (move->rank == 0 || (move->rank == 1 && move->dims[0].from == size &&
                             move->dims[0].to == size))) {
        *out_slot = from; // the same bytes in the same order
        return POD_OK;
    }
    step.with.move = move;
    return pod_ref_emit_new(builder, &step, bytes, out_slot, err);
}

enum pod_code pod_ref_run_unary(struct pod_ref_run *run,
                                const struct pod_ref_step *step,
                                struct pod_err *err)
{
    (void)err;
    step->with.unary(run->slots[step->out], run->slots[step->in[0]],
                     step->count);
    return POD_OK;
}

enum pod_code pod_ref_emit_convert(struct pod_ref_builder *builder,
                                   uint32_t from, enum pod_type from_type,
                                   enum pod_type to_type, int64_t count,
                                   uint32_t *out_slot, struct pod_err *err)
{
    struct pod_ref_step step = {.run = pod_ref_run_unary,
                                .in = {from, POD_REF_NONE, POD_REF_NONE},
                                .count = count,
                                .flops = (double)count,
                                .with.unary =
                                    pod_ref_convert_find(from_type, to_type)};
    uint64_t bytes = (uint64_t)count * pod_type_bytes(to_type);
    enum pod_code code;

    if (from_type == to_type) {
        *out_slot = from;
        return POD_OK;
    }
    code = pod_ref_slot_new(builder, bytes, &step.out, err);
    if (code != POD_OK)
        return code;
    pod_ref_inherit(builder, step.out, from);
    code = pod_ref_emit(builder, &step, err);
    if (code == POD_OK)
        *out_slot = step.out;
    return code;
}

static enum pod_code builder_copy(struct pod_ref_run *run,
                                  const struct pod_ref_step *step,
                                  struct pod_err *err)
{
    (void)err;
    if (run->slots[step->out] != run->slots[step->in[0]])
        memcpy(run->slots[step->out], run->slots[step->in[0]],
               (size_t)step->count);
    return POD_OK;
}

enum pod_code pod_ref_emit_copy(struct pod_ref_builder *builder, uint32_t from,
                                uint32_t *out_slot, struct pod_err *err)
{
    uint64_t bytes = builder->slots[from].bytes;
    struct pod_ref_step step = {.run = builder_copy,
                                .in = {from, POD_REF_NONE, POD_REF_NONE},
                                .count = (int64_t)bytes};

    return pod_ref_emit_new(builder, &step, bytes, out_slot, err);
}

// -------------------------------------------------- values that need no steps

// Makes slots for all arrays of a shape that somebody lends.
static enum pod_code builder_lend(struct pod_ref_builder *builder,
                                  const struct pod_shape *shape,
                                  uint32_t **next, struct pod_err *err)
{
    enum pod_code code = POD_OK;

    if (shape->type != POD_TYPE_TUPLE)
        return pod_ref_slot_fixed(builder, (uint64_t)pod_shape_bytes(shape),
                                  NULL, (*next)++, err);
    for (size_t i = 0; code == POD_OK && i < shape->child_count; i++)
        code = builder_lend(builder, &shape->children[i], next, err);
    return code;
}

enum pod_code pod_ref_lower_parameter(struct pod_ref_builder *builder,
                                      struct pod_err *err)
{
    const struct pod_shape *shape = builder->instr->shape;
    uint32_t *slots;
    enum pod_code code = pod_ref_result_room(
        builder, (uint32_t)pod_shape_leaves(shape), &slots, err);

    if (code != POD_OK)
        return code;
    return builder_lend(builder, shape, &slots, err);
}

static enum pod_code builder_literal(struct pod_ref_builder *builder,
                                     const Xla__LiteralProto *literal,
                                     const struct pod_shape *shape,
                                     uint32_t **next, struct pod_err *err)
{
    enum pod_code code = POD_OK;

    if (shape->type != POD_TYPE_TUPLE) {
        uint64_t bytes = (uint64_t)pod_shape_bytes(shape);
        void *data = pod_ref_pool_alloc(&builder->program->pool, 1, bytes);
        if (data == NULL)
            return pod_ref_no_memory(err);
        code = pod_literal_read(literal, shape, data, err);
        if (code != POD_OK)
            return code;
        return pod_ref_slot_fixed(builder, bytes, data, (*next)++, err);
    }
    for (size_t i = 0; code == POD_OK && i < shape->child_count; i++)
        code = builder_literal(builder, literal->tuple_literals[i],
                               &shape->children[i], next, err);
    return code;
}

enum pod_code pod_ref_lower_constant(struct pod_ref_builder *builder,
                                     struct pod_err *err)
{
    const struct pod_shape *shape = builder->instr->shape;
    uint32_t *slots;
    enum pod_code code = pod_ref_result_room(
        builder, (uint32_t)pod_shape_leaves(shape), &slots, err);

    if (code != POD_OK)
        return code;
    return builder_literal(builder, builder->instr->proto->literal, shape,
                           &slots, err);
}

enum pod_code pod_ref_lower_tuple(struct pod_ref_builder *builder,
                                  struct pod_err *err)
{
    uint32_t operands = builder->instr->operand_count;
    uint64_t leaves = 0;
    uint32_t *slots = NULL;
    enum pod_code code;

    for (uint32_t i = 0; i < operands; i++)
        leaves += pod_ref_value(builder, i)->count;
    code = pod_ref_result_room(builder, (uint32_t)leaves, &slots, err);
    if (code != POD_OK)
        return code;
    for (uint32_t i = 0; i < operands; i++) {
        const struct pod_ref_value *value = pod_ref_value(builder, i);
        if (value->count > 0)
            memcpy(slots, value->slots, value->count * sizeof(*slots));
        slots += value->count;
    }
    return POD_OK;
}

enum pod_code pod_ref_lower_get_tuple_element(struct pod_ref_builder *builder,
                                              struct pod_err *err)
{
    struct pod_ref_value *value = &builder->values[builder->instr->operands[0]];
    const struct pod_shape *shape = pod_ref_shape(builder, 0);
    size_t index = (size_t)builder->instr->proto->tuple_index;
    struct pod_ref_value *result =
        &builder->values[builder->instr - builder->hlo->instrs];

    // Counted once a tuple, so that taking all elements of one is linear.
    if (value->starts == NULL) {
        uint32_t *starts = pod_ref_pool_alloc(
            &builder->program->pool, shape->child_count + 1, sizeof(*starts));
        if (starts == NULL)
            return pod_ref_no_memory(err);
        for (size_t i = 0; i < shape->child_count; i++)
            starts[i + 1] =
                starts[i] + (uint32_t)pod_shape_leaves(&shape->children[i]);
        value->starts = starts;
    }
    *result = (struct pod_ref_value){
        .count = value->starts[index + 1] - value->starts[index],
        .slots = value->slots + value->starts[index]};
    return POD_OK;
}

// ------------------------------------------------------------------- reducers

static bool builder_commutes(enum pod_opcode opcode)
{
    return opcode == POD_OP_ADD || opcode == POD_OP_MULTIPLY ||
           opcode == POD_OP_MINIMUM || opcode == POD_OP_MAXIMUM ||
           opcode == POD_OP_AND || opcode == POD_OP_OR || opcode == POD_OP_XOR;
}

enum pod_opcode pod_ref_simple_op(const struct pod_hlo_comp *comp)
{
    const struct pod_hlo_instr *root = &comp->instrs[comp->root];
    uint32_t first;
    uint32_t second;

    if (comp->param_count != 2 || !builder_commutes(root->opcode))
        return POD_OP_COUNT;
    first = comp->params[0];
    second = comp->params[1];
    if ((root->operands[0] == first && root->operands[1] == second) ||
        (root->operands[0] == second && root->operands[1] == first))
        return root->opcode;
    return POD_OP_COUNT;
}
