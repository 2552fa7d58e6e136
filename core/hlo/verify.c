// SPDX-License-Identifier: Apache-2.0
// Computations are verified in their order, and instructions in theirs, so that
// whatever a rule looks at is verified already. Ids become positions here:
// an id that is not known yet is a use before its definition, which is how
// cycles and recursion show.
#include "core/hlo/verify.h"

#include "core/base/str.h"
#include "core/hlo/names.h"
#include "core/hlo/shape_proto.h"
#include "core/hlo/verify_internal.h"

#include <string.h>

// --------------------------------------------------------------------- memory

static enum pod_code verify_no_memory(const struct verify *v)
{
    return pod_err_set(v->err, POD_REASON_OUT_OF_MEMORY,
                       "no memory to verify the program");
}

static void *verify_alloc(const struct verify *v, size_t count, size_t bytes)
{
    return pod_hlo_arena_alloc(v->module->arena, count, bytes);
}

static enum pod_code verify_alloc_fail(const struct verify *v)
{
    return pod_hlo_arena_fail(v->module->arena, v->err);
}

// --------------------------------------------------------------- instructions

// Ids are keys of a table of names, by their bytes: that table cannot be
// flooded. Of an instruction's id only the low 32 bits count, which is the
// first half of its bytes on the little endian machines podd runs on.
enum { VERIFY_INSTR_KEY = 4, VERIFY_COMP_KEY = 8 };
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ids and literals");

static bool verify_find(const struct pod_hlo_names *ids, const int64_t *id,
                        size_t key, uint32_t *out)
{
    return pod_hlo_names_find(ids, (const char *)id, key, out);
}

// Whatever a name ends up in, JSON and log lines among it, can hold it.
static bool verify_name_ok(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && pod_utf8_valid(name, length) &&
           !pod_text_has_control(name, length);
}

static bool verify_dynamic(const struct pod_shape *shape)
{
    for (size_t i = 0; i < shape->child_count; i++)
        if (verify_dynamic(&shape->children[i]))
            return true;
    return shape->dynamic != 0;
}

static enum pod_code verify_shape(struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    struct pod_shape shape;
    if (proto->shape == NULL)
        return pod_verify_fail(v, "there is no shape");
    if (pod_shape_from_proto(proto->shape, &shape, v->err) != POD_OK)
        return pod_verify_wrap(v);
    v->instr->shape = pod_hlo_arena_shape(v->module->arena, &shape);
    if (v->instr->shape == NULL)
        return verify_alloc_fail(v);
    if (verify_dynamic(v->instr->shape))
        return pod_verify_unsupported(v, "dynamic dimensions are not "
                                         "supported");
    return POD_OK;
}

static enum pod_code verify_operands(struct verify *v,
                                     const struct pod_hlo_names *ids)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    size_t count = proto->n_operand_ids;
    int arity = pod_opcode_operands(v->instr->opcode);
    uint32_t *operands;
    if (arity >= 0 && count != (size_t)arity)
        return pod_verify_fail(v, "%d operands are needed, there are %zu",
                               arity, count);
    operands = verify_alloc(v, count, sizeof(*operands));
    if (operands == NULL || count > UINT32_MAX / 4)
        return verify_alloc_fail(v);
    for (size_t i = 0; i < count; i++)
        if (!verify_find(ids, &proto->operand_ids[i], VERIFY_INSTR_KEY,
                         &operands[i]))
            return pod_verify_fail(
                v,
                "operand %zu (id %lld) is not an instruction before this one",
                i, (long long)proto->operand_ids[i]);
    for (size_t i = 0; i < proto->n_control_predecessor_ids; i++) {
        uint32_t unused;
        int64_t id = proto->control_predecessor_ids[i];
        if (!verify_find(ids, &id, VERIFY_INSTR_KEY, &unused))
            return pod_verify_fail(v,
                                   "control predecessor (id %lld) is not an "
                                   "instruction before this one",
                                   (long long)id);
    }
    v->instr->operands = operands;
    v->instr->operand_count = (uint32_t)count;
    return POD_OK;
}

static enum pod_code verify_called(struct verify *v,
                                   const struct pod_hlo_names *comp_ids)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    size_t count = proto->n_called_computation_ids;
    int calls = pod_opcode_calls(v->instr->opcode);
    uint32_t *called;
    if (calls >= 0 && count != (size_t)calls)
        return pod_verify_fail(v, "%d computations are needed, there are %zu",
                               calls, count);
    called = verify_alloc(v, count, sizeof(*called));
    if (called == NULL || count > UINT32_MAX / 4)
        return verify_alloc_fail(v);
    for (size_t i = 0; i < count; i++) {
        int64_t id = proto->called_computation_ids[i];
        if (!verify_find(comp_ids, &id, VERIFY_COMP_KEY, &called[i]))
            return pod_verify_fail(
                v, "called computation (id %lld) is not one before this one",
                (long long)id);
    }
    v->instr->called = called;
    v->instr->called_count = (uint32_t)count;
    return POD_OK;
}

static enum pod_code verify_rules(const struct verify *v)
{
    const Xla__DotDimensionNumbers *dot =
        v->instr->proto->dot_dimension_numbers;
    enum pod_code code = POD_OK;
    if (dot != NULL && v->instr->opcode != POD_OP_DOT &&
        v->instr->opcode != POD_OP_SCALED_DOT &&
        dot->n_lhs_contracting_dimensions + dot->n_rhs_contracting_dimensions >
            0)
        return pod_verify_fail(v, "dot dimension numbers are out of place");
    if (pod_verify_elementwise(v, &code) || pod_verify_array_op(v, &code) ||
        pod_verify_call(v, &code) || pod_verify_collective(v, &code))
        return code;
    return POD_OK; // its shape is taken as the program says
}

// What is known of ids and names while a computation is verified.
struct verify_tables {
    struct pod_hlo_names ids;
    struct pod_hlo_names names;
    const struct pod_hlo_names *comp_ids;
};

static enum pod_code verify_identity(struct verify *v,
                                     struct verify_tables *tables,
                                     uint32_t position)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    uint32_t other;
    enum pod_hlo_names_result named;
    if (!verify_name_ok(proto->name))
        return pod_verify_fail(v, "name is empty or has characters that names "
                                  "cannot have");
    if (proto->id < 0)
        return pod_verify_fail(v, "id %lld is negative", (long long)proto->id);
    if (verify_find(&tables->ids, &proto->id, VERIFY_INSTR_KEY, &other))
        return pod_verify_fail(v, "id %lld is used twice",
                               (long long)proto->id);
    named = pod_hlo_names_add(&tables->names, proto->name, strlen(proto->name),
                              position);
    if (named == POD_HLO_NAMES_TAKEN)
        return pod_verify_fail(v, "name is used twice");
    if (named == POD_HLO_NAMES_NO_MEMORY)
        return verify_no_memory(v);
    return POD_OK;
}

static enum pod_code
verify_instr(struct verify *v, struct verify_tables *tables, uint32_t position)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    enum pod_code code;
    v->instr->opcode = pod_opcode_find(proto->opcode, strlen(proto->opcode));
    code = verify_identity(v, tables, position);
    if (code != POD_OK)
        return code;
    if (v->instr->opcode == POD_OP_COUNT)
        return pod_verify_fail(v, "there is no opcode \"%.64s\"",
                               proto->opcode);
    code = verify_operands(v, &tables->ids);
    if (code == POD_OK)
        code = verify_called(v, tables->comp_ids);
    if (code == POD_OK)
        code = verify_shape(v);
    if (code == POD_OK)
        code = verify_rules(v);
    // Its id is known only now: an instruction cannot use itself.
    if (code == POD_OK &&
        pod_hlo_names_add(&tables->ids, (const char *)&proto->id,
                          VERIFY_INSTR_KEY,
                          position) == POD_HLO_NAMES_NO_MEMORY)
        code = verify_no_memory(v);
    return code;
}

// --------------------------------------------------------------- computations

// Parameter numbers must be 0 .. n-1, each once: n of them, all below n.
static enum pod_code verify_parameters(struct verify *v)
{
    struct pod_hlo_comp *comp = v->comp;
    uint32_t count = 0;
    uint32_t *params;
    for (uint32_t i = 0; i < comp->count; i++)
        count += comp->instrs[i].opcode == POD_OP_PARAMETER;
    params = verify_alloc(v, count, sizeof(*params));
    if (params == NULL)
        return verify_alloc_fail(v);
    memset(params, 0xff, count * sizeof(*params));
    for (uint32_t i = 0; i < comp->count; i++) {
        int64_t number = comp->instrs[i].proto->parameter_number;
        if (comp->instrs[i].opcode != POD_OP_PARAMETER)
            continue;
        v->instr = &comp->instrs[i];
        if (number < 0 || number >= count)
            return pod_verify_fail(v,
                                   "parameter number %lld is out of range: "
                                   "there are %u, numbered from 0",
                                   (long long)number, (unsigned)count);
        if (params[number] != UINT32_MAX)
            return pod_verify_fail(v, "parameter number %lld is used twice",
                                   (long long)number);
        params[number] = i;
    }
    v->instr = NULL;
    comp->params = params;
    comp->param_count = count;
    return POD_OK;
}

static enum pod_code verify_instrs(struct verify *v,
                                   struct verify_tables *tables)
{
    struct pod_hlo_comp *comp = v->comp;
    enum pod_code code = POD_OK;
    for (uint32_t i = 0; i < comp->count && code == POD_OK; i++) {
        v->instr = &comp->instrs[i];
        v->instr->proto = comp->proto->instructions[i];
        code = verify_instr(v, tables, i);
    }
    if (code != POD_OK)
        return code;
    v->instr = NULL;
    if (!verify_find(&tables->ids, &comp->proto->root_id, VERIFY_INSTR_KEY,
                     &comp->root))
        return pod_verify_fail(v,
                               "root (id %lld) is not one of its instructions",
                               (long long)comp->proto->root_id);
    return verify_parameters(v);
}

// Sets *depth to one more than the deepest computation that is called.
static enum pod_code verify_depth(const struct verify *v,
                                  const unsigned char *depths,
                                  unsigned char *depth)
{
    unsigned deepest = 0;
    for (uint32_t i = 0; i < v->comp->count; i++) {
        const struct pod_hlo_instr *instr = &v->comp->instrs[i];
        for (uint32_t c = 0; c < instr->called_count; c++)
            if (depths[instr->called[c]] + 1U > deepest)
                deepest = depths[instr->called[c]] + 1U;
    }
    if (deepest > POD_HLO_MAX_CALL_DEPTH)
        return pod_verify_fail(v, "calls are nested more than %d deep",
                               POD_HLO_MAX_CALL_DEPTH);
    *depth = (unsigned char)deepest;
    return POD_OK;
}

static enum pod_code verify_comp(struct verify *v, uint32_t position,
                                 const struct pod_hlo_names *comp_ids,
                                 unsigned char *depths)
{
    struct verify_tables tables = {.comp_ids = comp_ids};
    const Xla__HloComputationProto *proto =
        v->module->proto->computations[position];
    enum pod_code code;
    v->comp = &v->module->comps[position];
    v->comp->proto = proto;
    v->instr = NULL;
    if (!verify_name_ok(proto->name))
        return pod_verify_fail(v, "name is empty or has characters that names "
                                  "cannot have");
    if (proto->n_instructions == 0)
        return pod_verify_fail(v, "there are no instructions");
    if (proto->n_instructions > UINT32_MAX / 4)
        return pod_verify_fail(v, "there are too many instructions");
    v->comp->count = (uint32_t)proto->n_instructions;
    // A text reader has set the places already.
    if (v->comp->instrs == NULL)
        v->comp->instrs =
            verify_alloc(v, v->comp->count, sizeof(*v->comp->instrs));
    if (v->comp->instrs == NULL)
        return verify_alloc_fail(v);
    code = verify_instrs(v, &tables);
    pod_hlo_names_fini(&tables.ids);
    pod_hlo_names_fini(&tables.names);
    return code == POD_OK ? verify_depth(v, depths, &depths[position]) : code;
}

// ------------------------------------------------------------------ signature

static bool verify_has_layouts(const struct pod_shape *shape)
{
    for (size_t i = 0; i < shape->child_count; i++)
        if (!verify_has_layouts(&shape->children[i]))
            return false;
    return !pod_shape_is_array(shape) || shape->has_layout;
}

static enum pod_code verify_signature_part(const struct verify *v,
                                           struct pod_shape *declared,
                                           const struct pod_shape *is,
                                           bool *complete)
{
    char has[96];
    char wants[96];
    if (!pod_shape_equal(declared, is))
        return pod_verify_fail(
            v, "the program's signature says %s, the computation has %s",
            pod_shape_brief(declared, wants, sizeof(wants)),
            pod_shape_brief(is, has, sizeof(has)));
    *complete = *complete && verify_has_layouts(declared);
    pod_shape_set_default_layout(declared);
    return POD_OK;
}

// Puts a signature with all layouts into the message if its own lacks some.
static enum pod_code verify_complete_signature(const struct verify *v)
{
    Xla__ProgramShapeProto *proto = v->module->proto->host_program_shape;
    Xla__ProgramShapeProto *whole = pod_program_shape_to_proto(
        &v->module->shape, &v->module->arena->allocator);
    if (whole == NULL)
        return verify_alloc_fail(v);
    whole->n_parameter_names = proto->n_parameter_names;
    whole->parameter_names = proto->parameter_names;
    *proto = *whole;
    return POD_OK;
}

static enum pod_code verify_signature(struct verify *v)
{
    struct pod_hlo_module *module = v->module;
    const struct pod_hlo_comp *entry = &module->comps[module->entry];
    bool complete = true;
    enum pod_code code;
    v->comp = &module->comps[module->entry];
    v->instr = NULL;
    if (module->proto->host_program_shape == NULL)
        return pod_verify_fail(v, "the program has no signature "
                                  "(host_program_shape)");
    if (pod_program_shape_from_proto(module->proto->host_program_shape,
                                     &module->shape, v->err) != POD_OK)
        return pod_verify_wrap(v);
    if (module->shape.count != entry->param_count)
        return pod_verify_fail(v,
                               "the program's signature has %zu parameters, "
                               "the computation %u",
                               module->shape.count,
                               (unsigned)entry->param_count);
    code = verify_signature_part(v, &module->shape.result,
                                 entry->instrs[entry->root].shape, &complete);
    for (uint32_t i = 0; i < entry->param_count && code == POD_OK; i++) {
        v->instr = &entry->instrs[entry->params[i]];
        code = verify_signature_part(v, &module->shape.parameters[i],
                                     v->instr->shape, &complete);
    }
    return code == POD_OK && !complete ? verify_complete_signature(v) : code;
}

// ---------------------------------------------------------------------- module

static enum pod_code verify_comps(struct verify *v,
                                  struct pod_hlo_names *comp_ids,
                                  struct pod_hlo_names *names,
                                  unsigned char *depths)
{
    for (uint32_t i = 0; i < v->module->count; i++) {
        const Xla__HloComputationProto *proto =
            v->module->proto->computations[i];
        uint32_t other;
        enum pod_hlo_names_result named;
        enum pod_code code = verify_comp(v, i, comp_ids, depths);
        if (code != POD_OK)
            return code;
        v->instr = NULL;
        if (proto->id == -1 ||
            verify_find(comp_ids, &proto->id, VERIFY_COMP_KEY, &other))
            return pod_verify_fail(v, "id %lld is invalid or used twice",
                                   (long long)proto->id);
        named = pod_hlo_names_add(names, proto->name, strlen(proto->name), i);
        if (named == POD_HLO_NAMES_TAKEN)
            return pod_verify_fail(v, "name is used twice");
        if (named == POD_HLO_NAMES_NO_MEMORY ||
            pod_hlo_names_add(comp_ids, (const char *)&proto->id,
                              VERIFY_COMP_KEY, i) == POD_HLO_NAMES_NO_MEMORY)
            return verify_no_memory(v);
    }
    return POD_OK;
}

static enum pod_code verify_module(struct verify *v,
                                   struct pod_hlo_names *comp_ids,
                                   struct pod_hlo_names *names)
{
    struct pod_hlo_module *module = v->module;
    unsigned char *depths = verify_alloc(v, module->count, sizeof(*depths));
    enum pod_code code;
    if (module->comps == NULL)
        module->comps = verify_alloc(v, module->count, sizeof(*module->comps));
    if (depths == NULL || module->comps == NULL)
        return verify_alloc_fail(v);
    code = verify_comps(v, comp_ids, names, depths);
    if (code != POD_OK)
        return code;
    v->comp = NULL;
    v->instr = NULL;
    if (!verify_find(comp_ids, &module->proto->entry_computation_id,
                     VERIFY_COMP_KEY, &module->entry))
        return pod_verify_fail(v, "entry computation (id %lld) does not exist",
                               (long long)module->proto->entry_computation_id);
    return verify_signature(v);
}

enum pod_code pod_hlo_verify(struct pod_hlo_module *module, struct pod_err *err)
{
    struct pod_err unwanted;
    struct verify v = {.module = module, .err = err == NULL ? &unwanted : err};
    struct pod_hlo_names comp_ids = {.slots = NULL};
    struct pod_hlo_names names = {.slots = NULL};
    enum pod_code code;
    *v.err = POD_ERR_NONE;
    if (!verify_name_ok(module->proto->name))
        return pod_verify_fail(&v, "the program's name is empty or has "
                                   "characters that names cannot have");
    if (module->proto->n_computations == 0 ||
        module->proto->n_computations > UINT32_MAX / 4)
        return pod_verify_fail(&v, "the program has %zu computations",
                               module->proto->n_computations);
    module->count = (uint32_t)module->proto->n_computations;
    code = verify_module(&v, &comp_ids, &names);
    pod_hlo_names_fini(&comp_ids);
    pod_hlo_names_fini(&names);
    return code;
}
