// SPDX-License-Identifier: Apache-2.0
// From a program to its steps: computations are lowered callees first, then
// frames are stacked callers first.
#include <string.h>

#include "core/base/mem.h"
#include "core/device/reference/builder.h"
#include "core/hlo/proto.h"
#include "core/hlo/text.h"

// The lowering of each opcode; NULL: not implemented.
static enum pod_code (*const compile_lowerings[POD_OP_COUNT])(
    struct pod_ref_builder *builder, struct pod_err *err) = {
    [POD_OP_PARAMETER] = pod_ref_lower_parameter,
    [POD_OP_CONSTANT] = pod_ref_lower_constant,
    [POD_OP_TUPLE] = pod_ref_lower_tuple,
    [POD_OP_GET_TUPLE_ELEMENT] = pod_ref_lower_get_tuple_element,
    [POD_OP_COPY] = pod_ref_lower_alias,
    [POD_OP_RESHAPE] = pod_ref_lower_alias,
    [POD_OP_ABS] = pod_ref_lower_unary,
    [POD_OP_CEIL] = pod_ref_lower_unary,
    [POD_OP_COUNT_LEADING_ZEROS] = pod_ref_lower_unary,
    [POD_OP_EXPONENTIAL] = pod_ref_lower_unary,
    [POD_OP_FLOOR] = pod_ref_lower_unary,
    [POD_OP_LOG] = pod_ref_lower_unary,
    [POD_OP_LOGISTIC] = pod_ref_lower_unary,
    [POD_OP_NEGATE] = pod_ref_lower_unary,
    [POD_OP_NOT] = pod_ref_lower_unary,
    [POD_OP_POPCNT] = pod_ref_lower_unary,
    [POD_OP_ROUND_NEAREST_AFZ] = pod_ref_lower_unary,
    [POD_OP_ROUND_NEAREST_EVEN] = pod_ref_lower_unary,
    [POD_OP_RSQRT] = pod_ref_lower_unary,
    [POD_OP_SIGN] = pod_ref_lower_unary,
    [POD_OP_SQRT] = pod_ref_lower_unary,
    [POD_OP_TANH] = pod_ref_lower_unary,
    [POD_OP_ADD] = pod_ref_lower_binary,
    [POD_OP_AND] = pod_ref_lower_binary,
    [POD_OP_DIVIDE] = pod_ref_lower_binary,
    [POD_OP_MAXIMUM] = pod_ref_lower_binary,
    [POD_OP_MINIMUM] = pod_ref_lower_binary,
    [POD_OP_MULTIPLY] = pod_ref_lower_binary,
    [POD_OP_OR] = pod_ref_lower_binary,
    [POD_OP_POWER] = pod_ref_lower_binary,
    [POD_OP_REMAINDER] = pod_ref_lower_binary,
    [POD_OP_SHIFT_LEFT] = pod_ref_lower_binary,
    [POD_OP_SHIFT_RIGHT_ARITHMETIC] = pod_ref_lower_binary,
    [POD_OP_SHIFT_RIGHT_LOGICAL] = pod_ref_lower_binary,
    [POD_OP_SUBTRACT] = pod_ref_lower_binary,
    [POD_OP_XOR] = pod_ref_lower_binary,
    [POD_OP_COMPARE] = pod_ref_lower_compare,
    [POD_OP_CONVERT] = pod_ref_lower_convert,
    [POD_OP_SELECT] = pod_ref_lower_select,
    [POD_OP_CLAMP] = pod_ref_lower_clamp,
    [POD_OP_IOTA] = pod_ref_lower_iota,
    [POD_OP_BROADCAST] = pod_ref_lower_broadcast,
    [POD_OP_TRANSPOSE] = pod_ref_lower_transpose,
    [POD_OP_SLICE] = pod_ref_lower_slice,
    [POD_OP_CONCATENATE] = pod_ref_lower_concatenate,
    [POD_OP_PAD] = pod_ref_lower_pad,
    [POD_OP_DYNAMIC_SLICE] = pod_ref_lower_dynamic_slice,
    [POD_OP_DYNAMIC_UPDATE_SLICE] = pod_ref_lower_dynamic_update_slice,
    [POD_OP_DOT] = pod_ref_lower_dot,
    [POD_OP_REDUCE] = pod_ref_lower_reduce,
    [POD_OP_CALL] = pod_ref_lower_call,
    [POD_OP_FUSION] = pod_ref_lower_call,
    [POD_OP_WHILE] = pod_ref_lower_while,
    [POD_OP_CONDITIONAL] = pod_ref_lower_conditional,
    [POD_OP_ALL_REDUCE] = pod_ref_lower_all_reduce,
    [POD_OP_ALL_GATHER] = pod_ref_lower_all_gather,
    [POD_OP_COLLECTIVE_PERMUTE] = pod_ref_lower_collective_permute,
    [POD_OP_REPLICA_ID] = pod_ref_lower_replica_id,
    [POD_OP_PARTITION_ID] = pod_ref_lower_partition_id,
};

// ------------------------------------------------------- what can be compiled

// The first type in a shape that the device lacks, or POD_TYPE_INVALID.
static enum pod_type compile_unknown_type(const struct pod_shape *shape)
{
    enum pod_type unknown = POD_TYPE_INVALID;

    if (shape->type != POD_TYPE_TUPLE)
        return pod_ref_type_known(shape->type) ? POD_TYPE_INVALID : shape->type;
    for (size_t i = 0; i < shape->child_count && unknown == POD_TYPE_INVALID;
         i++)
        unknown = compile_unknown_type(&shape->children[i]);
    return unknown;
}

static enum pod_code compile_check_instr(const struct pod_ref_builder *builder,
                                         struct pod_err *err)
{
    const struct pod_hlo_instr *instr = builder->instr;
    enum pod_type unknown;

    if (compile_lowerings[instr->opcode] == NULL)
        return pod_ref_refuse(builder, err, POD_REASON_UNIMPLEMENTED,
                              "%s is not implemented by the device "
                              "\"reference\"",
                              pod_opcode_name(instr->opcode));
    unknown = compile_unknown_type(instr->shape);
    if (unknown != POD_TYPE_INVALID)
        return pod_ref_refuse(builder, err, POD_REASON_UNIMPLEMENTED,
                              "%s of type %s is not implemented by the device "
                              "\"reference\"",
                              pod_opcode_name(instr->opcode),
                              pod_type_name(unknown));
    return POD_OK;
}

// ------------------------------------------------------------ one computation

// Marks what the result needs; parameters are always there.
static void compile_mark_live(const struct pod_hlo_comp *hlo, bool *live)
{
    live[hlo->root] = true;
    for (uint32_t i = hlo->count; i-- > 0;) {
        const struct pod_hlo_instr *instr = &hlo->instrs[i];
        if (instr->opcode == POD_OP_PARAMETER)
            live[i] = true;
        for (uint32_t j = 0; live[i] && j < instr->operand_count; j++)
            live[instr->operands[j]] = true;
    }
}

static enum pod_code compile_instrs(struct pod_ref_builder *builder,
                                    const bool *live, struct pod_err *err)
{
    for (uint32_t i = 0; i < builder->hlo->count; i++) {
        enum pod_code code;
        builder->instr = &builder->hlo->instrs[i];
        code = compile_check_instr(builder, err);
        if (code == POD_OK && live[i])
            code = compile_lowerings[builder->instr->opcode](builder, err);
        if (code != POD_OK)
            return code;
    }
    return POD_OK;
}

static enum pod_code compile_params(struct pod_ref_builder *builder,
                                    struct pod_err *err)
{
    const struct pod_hlo_comp *hlo = builder->hlo;
    size_t count = 0;
    uint32_t *params;

    for (uint32_t i = 0; i < hlo->param_count; i++)
        count += builder->values[hlo->params[i]].count;
    params =
        pod_ref_pool_alloc(&builder->program->pool, count, sizeof(*params));
    if (params == NULL)
        return pod_ref_no_memory(err);
    builder->comp->params = params;
    builder->comp->param_count = (uint32_t)count;
    for (uint32_t i = 0; i < hlo->param_count; i++) {
        const struct pod_ref_value *value = &builder->values[hlo->params[i]];
        if (value->count > 0)
            memcpy(params, value->slots, value->count * sizeof(*params));
        params += value->count;
    }
    return POD_OK;
}

// Whether a result has to be copied before the computation ends. The results
// of the entry and of a loop's body are stored one after another where
// parameters may lie, so none of them may be a parameter; a body's may be its
// own, which then does not move.
static bool compile_must_copy(const struct pod_ref_builder *builder,
                              uint32_t index, uint32_t root)
{
    const struct pod_ref_slot *slot = &builder->slots[root];

    if (slot->in_arena || slot->constant != NULL)
        return false;
    if (builder->is_body)
        return builder->comp->params[index] != root;
    return builder->comp_index == builder->module->entry;
}

// Whether root i may be written over parameter i.
static bool compile_may_overwrite(const struct pod_ref_builder *builder,
                                  uint32_t root, uint32_t param)
{
    const struct pod_ref_life *life = &builder->lives[root];
    uint32_t last = builder->lives[param].last;

    if (last == POD_REF_NONE || last < life->made)
        return true;
    return last == life->made &&
           (life->heirs_of[0] == param || life->heirs_of[1] == param);
}

static enum pod_code compile_root_marks(struct pod_ref_builder *builder,
                                        const uint32_t *roots, uint32_t count,
                                        struct pod_err *err)
{
    struct pod_ref_pool *pool = &builder->program->pool;
    bool *direct = pod_ref_pool_alloc(pool, count, sizeof(*direct));
    bool *over = pod_ref_pool_alloc(pool, count, sizeof(*over));

    if (direct == NULL || over == NULL)
        return pod_ref_no_memory(err);
    pod_ref_mark_repeated(builder, roots, count);
    for (uint32_t i = 0; i < count; i++) {
        direct[i] = builder->slots[roots[i]].in_arena &&
                    !pod_ref_is_repeated(builder, roots[i]);
        over[i] =
            direct[i] && builder->is_body &&
            compile_may_overwrite(builder, roots[i], builder->comp->params[i]);
    }
    builder->comp->root_direct = direct;
    builder->comp->root_over = over;
    return POD_OK;
}

static enum pod_code compile_roots(struct pod_ref_builder *builder,
                                   struct pod_err *err)
{
    const struct pod_ref_value *value = &builder->values[builder->hlo->root];
    uint32_t *roots = pod_ref_pool_alloc(&builder->program->pool, value->count,
                                         sizeof(*roots));

    if (roots == NULL)
        return pod_ref_no_memory(err);
    for (uint32_t i = 0; i < value->count; i++) {
        roots[i] = value->slots[i];
        if (compile_must_copy(builder, i, roots[i])) {
            enum pod_code code =
                pod_ref_emit_copy(builder, roots[i], &roots[i], err);
            if (code != POD_OK)
                return code;
        }
    }
    for (uint32_t i = 0; i < value->count; i++)
        pod_ref_use(builder, roots[i]); // until after the last step
    builder->comp->roots = roots;
    builder->comp->root_count = value->count;
    return compile_root_marks(builder, roots, value->count, err);
}

static enum pod_code compile_finish(struct pod_ref_builder *builder,
                                    struct pod_err *err)
{
    struct pod_ref_comp *comp = builder->comp;
    struct pod_ref_step *steps = pod_ref_pool_alloc(
        &builder->program->pool, builder->step_count, sizeof(*steps));

    if (steps == NULL)
        return pod_ref_no_memory(err);
    if (builder->step_count > 0)
        memcpy(steps, builder->steps, builder->step_count * sizeof(*steps));
    comp->steps = steps;
    comp->step_count = builder->step_count;
    comp->first_slot = builder->first_slot;
    comp->end_slot = builder->slot_count;
    return pod_ref_frame(builder, err);
}

static enum pod_code compile_comp(struct pod_ref_builder *builder,
                                  uint32_t index, bool is_body,
                                  struct pod_err *err)
{
    const struct pod_hlo_comp *hlo = &builder->module->comps[index];
    bool *live = pod_calloc(hlo->count, sizeof(*live));
    enum pod_code code = POD_OK;

    builder->comp_index = index;
    builder->hlo = hlo;
    builder->comp = &builder->program->comps[index];
    builder->is_body = is_body;
    builder->step_count = 0;
    builder->first_slot = builder->slot_count;
    builder->values = pod_calloc(hlo->count, sizeof(*builder->values));
    if (live == NULL || builder->values == NULL) {
        code = pod_ref_no_memory(err);
        goto out;
    }
    compile_mark_live(hlo, live);
    code = compile_instrs(builder, live, err);
    if (code == POD_OK)
        code = compile_params(builder, err);
    if (code == POD_OK)
        code = compile_roots(builder, err);
    if (code == POD_OK)
        code = compile_finish(builder, err);
out:
    pod_free(builder->values);
    builder->values = NULL;
    pod_free(live);
    return code;
}

// ---------------------------------------------------------- the whole program

enum { COMPILE_REACHED = 1, COMPILE_BODY = 2 };

// What each computation is to the entry; callees stand before callers.
static void compile_mark_comps(const struct pod_hlo_module *module,
                               unsigned char *marks)
{
    marks[module->entry] = COMPILE_REACHED;
    for (uint32_t c = module->count; c-- > 0;) {
        const struct pod_hlo_comp *comp = &module->comps[c];
        for (uint32_t i = 0; marks[c] != 0 && i < comp->count; i++) {
            const struct pod_hlo_instr *instr = &comp->instrs[i];
            for (uint32_t j = 0; j < instr->called_count; j++)
                marks[instr->called[j]] |= COMPILE_REACHED;
            if (instr->opcode == POD_OP_WHILE)
                marks[instr->called[0]] |= COMPILE_BODY;
        }
    }
}

// Puts each frame behind those of all callers and moves its slots there.
static enum pod_code compile_stack_frames(struct pod_ref_builder *builder,
                                          const unsigned char *marks,
                                          struct pod_err *err)
{
    struct pod_device_program *program = builder->program;
    const struct pod_hlo_module *module = builder->module;
    uint64_t *starts = pod_calloc(module->count, sizeof(*starts));

    if (starts == NULL)
        return pod_ref_no_memory(err);
    for (uint32_t c = module->count; c-- > 0;) {
        const struct pod_ref_comp *comp = &program->comps[c];
        const struct pod_hlo_comp *hlo = &module->comps[c];
        uint64_t end = starts[c] + comp->frame_bytes;
        if (marks[c] == 0)
            continue;
        for (uint32_t s = comp->first_slot; s < comp->end_slot; s++)
            builder->slots[s].offset += starts[c];
        for (uint32_t i = 0; i < hlo->count; i++) {
            for (uint32_t j = 0; j < hlo->instrs[i].called_count; j++) {
                uint64_t *start = &starts[hlo->instrs[i].called[j]];
                *start = *start > end ? *start : end;
            }
        }
        if (end > program->arena_bytes)
            program->arena_bytes = end;
    }
    pod_free(starts);
    // Each frame is within the limit and calls are at most 128 deep, so the
    // sums above did not overflow.
    if (program->arena_bytes > builder->scratch_bytes)
        return pod_err_set(
            err, POD_REASON_RESOURCE_EXHAUSTED,
            "the program needs %llu bytes of memory for values between its "
            "inputs and outputs; an execution may take %llu",
            (unsigned long long)program->arena_bytes,
            (unsigned long long)builder->scratch_bytes);
    return POD_OK;
}

static enum pod_code compile_comps(struct pod_ref_builder *builder,
                                   const unsigned char *marks,
                                   struct pod_err *err)
{
    for (uint32_t c = 0; c < builder->module->count; c++) {
        enum pod_code code;
        if (marks[c] == 0)
            continue;
        code = compile_comp(builder, c, (marks[c] & COMPILE_BODY) != 0, err);
        if (code != POD_OK)
            return code;
    }
    return compile_stack_frames(builder, marks, err);
}

static enum pod_code compile_module(const struct pod_hlo_module *module,
                                    uint64_t scratch_bytes,
                                    struct pod_device_program *program,
                                    struct pod_err *err)
{
    struct pod_ref_builder builder = {
        .module = module, .program = program, .scratch_bytes = scratch_bytes};
    unsigned char *marks = pod_calloc(module->count, sizeof(*marks));
    enum pod_code code =
        pod_program_shape_copy(&module->shape, &program->shape, err);

    program->comp_count = module->count;
    program->entry = module->entry;
    program->comps = pod_ref_pool_alloc(&program->pool, module->count,
                                        sizeof(*program->comps));
    if (code == POD_OK && (marks == NULL || program->comps == NULL))
        code = pod_ref_no_memory(err);
    if (code != POD_OK)
        goto out;
    compile_mark_comps(module, marks);
    code = compile_comps(&builder, marks, err);
    if (code != POD_OK)
        goto out;
    program->slots = pod_ref_pool_alloc(&program->pool, builder.slot_count,
                                        sizeof(*program->slots));
    if (program->slots == NULL) {
        code = pod_ref_no_memory(err);
        goto out;
    }
    program->slot_count = builder.slot_count;
    if (builder.slot_count > 0)
        memcpy(program->slots, builder.slots,
               builder.slot_count * sizeof(*program->slots));
out:
    pod_free(builder.steps);
    pod_free(builder.slots);
    pod_free(builder.lives);
    pod_free(marks);
    return code;
}

static enum pod_code compile_parse(enum pod_program_format format,
                                   const void *bytes, size_t count,
                                   struct pod_hlo_module **out_module,
                                   struct pod_err *err)
{
    if (format == POD_FORMAT_HLO_TEXT)
        return pod_hlo_parse_text(bytes, count, out_module, err);
    if (format == POD_FORMAT_HLO_PROTO)
        return pod_hlo_parse_proto(bytes, count, out_module, err);
    return pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                       "programs as %s are not implemented by the device "
                       "\"reference\"",
                       pod_program_format_type(format));
}

enum pod_code pod_ref_program_make(enum pod_program_format format,
                                   const void *bytes, size_t count,
                                   uint32_t replicas, uint64_t scratch_bytes,
                                   struct pod_device_program **out_program,
                                   struct pod_err *err)
{
    struct pod_hlo_module *module;
    struct pod_device_program *program;
    enum pod_code code;

    if (replicas == 0 || replicas > POD_REF_MAX_REPLICAS)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "a program has 1 to %d replicas, not %u",
                           POD_REF_MAX_REPLICAS, replicas);
    code = compile_parse(format, bytes, count, &module, err);
    if (code != POD_OK)
        return code;
    program = pod_calloc(1, sizeof(*program));
    if (program == NULL) {
        pod_hlo_module_free(module);
        return pod_ref_no_memory(err);
    }
    program->replicas = replicas;
    code = compile_module(module, scratch_bytes, program, err);
    pod_hlo_module_free(module);
    if (code != POD_OK) {
        pod_ref_program_free(program);
        return code;
    }
    *out_program = program;
    return POD_OK;
}

void pod_ref_program_free(struct pod_device_program *program)
{
    if (program == NULL)
        return;
    pod_program_shape_fini(&program->shape);
    pod_ref_pool_fini(&program->pool);
    pod_free(program);
}
