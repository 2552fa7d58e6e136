// SPDX-License-Identifier: Apache-2.0
// Rules of the opcodes that call computations.
#include "core/hlo/verify_internal.h"

#include <string.h>

static const struct pod_hlo_comp *calls_comp(const struct verify *v,
                                             uint32_t index)
{
    return pod_hlo_called(v->module, v->instr, index);
}

static const struct pod_shape *calls_param(const struct pod_hlo_comp *comp,
                                           uint32_t index)
{
    return comp->instrs[comp->params[index]].shape;
}

static const struct pod_shape *calls_root(const struct pod_hlo_comp *comp)
{
    return comp->instrs[comp->root].shape;
}

static enum pod_code calls_differ(const struct verify *v,
                                  const struct pod_hlo_comp *comp,
                                  const char *what, const struct pod_shape *is,
                                  const struct pod_shape *wants)
{
    char has[96];
    char want[96];
    return pod_verify_fail(v, "%s of computation \"%.64s\" is %s, not %s", what,
                           comp->proto->name,
                           pod_shape_brief(is, has, sizeof(has)),
                           pod_shape_brief(wants, want, sizeof(want)));
}

static enum pod_code calls_count(const struct verify *v,
                                 const struct pod_hlo_comp *comp,
                                 uint32_t count)
{
    if (comp->param_count == count)
        return POD_OK;
    return pod_verify_fail(v,
                           "computation \"%.64s\" takes %u parameters, not "
                           "%u",
                           comp->proto->name, (unsigned)comp->param_count,
                           (unsigned)count);
}

static enum pod_code calls_takes(const struct verify *v,
                                 const struct pod_hlo_comp *comp,
                                 uint32_t index, const struct pod_shape *wants)
{
    const struct pod_shape *is = calls_param(comp, index);
    return pod_shape_equal(is, wants)
               ? POD_OK
               : calls_differ(v, comp, "a parameter", is, wants);
}

static enum pod_code calls_gives(const struct verify *v,
                                 const struct pod_hlo_comp *comp,
                                 const struct pod_shape *wants)
{
    const struct pod_shape *is = calls_root(comp);
    return pod_shape_equal(is, wants)
               ? POD_OK
               : calls_differ(v, comp, "the result", is, wants);
}

// --------------------------------------------------------------- control flow

static enum pod_code calls_call(const struct verify *v)
{
    const struct pod_hlo_comp *comp = calls_comp(v, 0);
    enum pod_code code = calls_count(v, comp, v->instr->operand_count);
    for (uint32_t i = 0; i < v->instr->operand_count && code == POD_OK; i++)
        code = calls_takes(v, comp, i, pod_verify_operand(v, i));
    return code == POD_OK ? calls_gives(v, comp, v->instr->shape) : code;
}

static enum pod_code calls_while(const struct verify *v)
{
    const struct pod_hlo_comp *body = calls_comp(v, 0);
    const struct pod_hlo_comp *condition = calls_comp(v, 1);
    const struct pod_shape *state = pod_verify_operand(v, 0);
    const struct pod_shape pred = {.type = POD_TYPE_PRED};
    enum pod_code code = calls_count(v, body, 1);
    if (code == POD_OK)
        code = calls_count(v, condition, 1);
    if (code == POD_OK)
        code = calls_takes(v, body, 0, state);
    if (code == POD_OK)
        code = calls_takes(v, condition, 0, state);
    if (code == POD_OK)
        code = calls_gives(v, body, state);
    if (code == POD_OK)
        code = calls_gives(v, condition, &pred);
    return code == POD_OK ? pod_verify_result(v, state) : code;
}

static enum pod_code calls_conditional(const struct verify *v)
{
    uint32_t branches = v->instr->called_count;
    const struct pod_shape *selector;
    enum pod_code code = POD_OK;
    if (branches == 0 || v->instr->operand_count != branches + 1)
        return pod_verify_fail(v,
                               "%u branches need as many operands and a "
                               "selector, there are %u operands",
                               (unsigned)branches,
                               (unsigned)v->instr->operand_count);
    selector = pod_verify_operand(v, 0);
    if (selector->rank != 0 ||
        !(selector->type == POD_TYPE_S32 ||
          (selector->type == POD_TYPE_PRED && branches == 2)))
        return pod_verify_fail(v, "selector must be s32[], or pred[] with two "
                                  "branches");
    for (uint32_t i = 0; i < branches && code == POD_OK; i++) {
        const struct pod_hlo_comp *branch = calls_comp(v, i);
        code = calls_count(v, branch, 1);
        if (code == POD_OK)
            code = calls_takes(v, branch, 0, pod_verify_operand(v, i + 1));
        if (code == POD_OK)
            code = calls_gives(v, branch, v->instr->shape);
    }
    return code;
}

// ------------------------------------------------------- scalar computations

static enum pod_code calls_scalar_result(const struct verify *v,
                                         const struct pod_hlo_comp *comp,
                                         uint32_t types)
{
    const struct pod_shape *root = calls_root(comp);
    struct pod_shape scalar = {.type = pod_verify_operand(v, 0)->type};
    if (types == 1)
        return calls_gives(v, comp, &scalar);
    if (root->type != POD_TYPE_TUPLE || root->child_count != types)
        return pod_verify_fail(v,
                               "computation \"%.64s\" must give a tuple of "
                               "%u",
                               comp->proto->name, (unsigned)types);
    for (uint32_t i = 0; i < types; i++) {
        scalar.type = pod_verify_operand(v, i)->type;
        if (!pod_shape_equal(&root->children[i], &scalar))
            return calls_differ(v, comp, "a part of the result",
                                &root->children[i], &scalar);
    }
    return POD_OK;
}

static enum pod_code calls_scalar_params(const struct verify *v,
                                         const struct pod_hlo_comp *comp,
                                         uint32_t types, uint32_t repeat,
                                         bool paired)
{
    enum pod_code code = calls_count(v, comp, types * repeat);
    for (uint32_t i = 0; i < types * repeat && code == POD_OK; i++) {
        uint32_t operand = paired ? i / repeat : i % types;
        const struct pod_shape scalar = {
            .type = pod_verify_operand(v, operand)->type};
        code = calls_takes(v, comp, i, &scalar);
    }
    return code;
}

enum pod_code pod_verify_scalar_computation(const struct verify *v,
                                            uint32_t types, uint32_t repeat,
                                            bool paired)
{
    const struct pod_hlo_comp *comp = calls_comp(v, 0);
    enum pod_code code = calls_scalar_params(v, comp, types, repeat, paired);
    return code == POD_OK ? calls_scalar_result(v, comp, types) : code;
}

// The first `count` operands are arrays with the dimensions of the first.
static enum pod_code calls_same_dims(const struct verify *v, uint32_t count)
{
    const struct pod_shape *first = pod_verify_operand(v, 0);
    for (uint32_t i = 1; i < count; i++) {
        struct pod_shape other = *pod_verify_operand(v, i);
        other.type = first->type;
        if (!pod_shape_equal(&other, first))
            return pod_verify_fail(v, "operands 0 and %u differ in dimensions",
                                   (unsigned)i);
    }
    return POD_OK;
}

// The result: for each of the first `count` operands an array of its type with
// the dimensions of `dims`; a tuple if there is more than one.
static enum pod_code calls_results(const struct verify *v, uint32_t count,
                                   const struct pod_shape *dims)
{
    struct pod_shape want = *dims;
    const struct pod_shape *shape = v->instr->shape;
    char is[96];
    want.type = pod_verify_operand(v, 0)->type;
    if (count == 1)
        return pod_verify_result(v, &want);
    if (shape->type != POD_TYPE_TUPLE || shape->child_count != count)
        return pod_verify_fail(v, "result is %s, not a tuple of %u",
                               pod_shape_brief(shape, is, sizeof(is)),
                               (unsigned)count);
    for (uint32_t i = 0; i < count; i++) {
        char wants[96];
        want.type = pod_verify_operand(v, i)->type;
        if (!pod_shape_equal(&shape->children[i], &want))
            return pod_verify_fail(
                v, "part %u of the result is %s, not %s", (unsigned)i,
                pod_shape_brief(&shape->children[i], is, sizeof(is)),
                pod_shape_brief(&want, wants, sizeof(wants)));
    }
    return POD_OK;
}

static enum pod_code calls_reduce_inits(const struct verify *v, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct pod_shape *init = pod_verify_operand(v, count + i);
        enum pod_type type = pod_verify_operand(v, i)->type;
        if (init->rank != 0)
            return pod_verify_fail(v, "operand %u must be a scalar",
                                   (unsigned)(count + i));
        if (init->type != type)
            return pod_verify_unsupported(
                v, "reducing %s into %s is not supported", pod_type_name(type),
                pod_type_name(init->type));
    }
    return POD_OK;
}

static enum pod_code calls_reduce(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    uint32_t count = v->instr->operand_count / 2;
    const struct pod_shape *first;
    struct pod_shape left = {.type = POD_TYPE_PRED};
    uint32_t gone = 0;
    enum pod_code code = pod_verify_arrays(v, 2);
    if (code == POD_OK && v->instr->operand_count % 2 != 0)
        code = pod_verify_fail(
            v, "there must be as many initial values as inputs");
    if (code == POD_OK)
        code = calls_same_dims(v, count);
    if (code == POD_OK)
        code = calls_reduce_inits(v, count);
    if (code != POD_OK)
        return code;
    first = pod_verify_operand(v, 0);
    code = pod_verify_dimensions(v, "dimension", proto->n_dimensions,
                                 proto->dimensions, first->rank);
    if (code == POD_OK)
        code = pod_verify_scalar_computation(v, count, 2, false);
    if (code != POD_OK)
        return code;
    for (size_t i = 0; i < proto->n_dimensions; i++)
        gone |= UINT32_C(1) << proto->dimensions[i];
    for (uint32_t i = 0; i < first->rank; i++)
        if ((gone >> i & 1) == 0)
            left.dims[left.rank++] = first->dims[i];
    return calls_results(v, count, &left);
}

static enum pod_code calls_map(const struct verify *v)
{
    const struct pod_hlo_comp *comp = calls_comp(v, 0);
    const struct pod_shape *root = calls_root(comp);
    const struct pod_shape *first;
    uint32_t count = v->instr->operand_count;
    enum pod_code code = pod_verify_arrays(v, 1);
    if (code == POD_OK)
        code = calls_same_dims(v, count);
    if (code == POD_OK)
        code = calls_scalar_params(v, comp, count, 1, false);
    if (code != POD_OK)
        return code;
    if (!pod_shape_is_array(root) || root->rank != 0)
        return pod_verify_fail(v, "computation \"%.64s\" must give a scalar",
                               comp->proto->name);
    first = pod_verify_operand(v, 0);
    return pod_verify_result_array(v, root->type, first->rank, first->dims);
}

static enum pod_code calls_sort(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    const struct pod_hlo_comp *comp = calls_comp(v, 0);
    const struct pod_shape pred = {.type = POD_TYPE_PRED};
    uint32_t count = v->instr->operand_count;
    enum pod_code code = pod_verify_arrays(v, 1);
    if (code == POD_OK)
        code = calls_same_dims(v, count);
    if (code == POD_OK && proto->n_dimensions != 1)
        code = pod_verify_fail(v, "exactly one dimension is needed");
    if (code == POD_OK)
        code = pod_verify_dimensions(v, "dimension", 1, proto->dimensions,
                                     pod_verify_operand(v, 0)->rank);
    if (code == POD_OK)
        code = calls_scalar_params(v, comp, count, 2, true);
    if (code == POD_OK)
        code = calls_gives(v, comp, &pred);
    return code == POD_OK ? calls_results(v, count, pod_verify_operand(v, 0))
                          : code;
}

static enum pod_code (*const calls_rules[POD_OP_COUNT])(
    const struct verify *) = {
    [POD_OP_CALL] = calls_call,     [POD_OP_FUSION] = calls_call,
    [POD_OP_WHILE] = calls_while,   [POD_OP_CONDITIONAL] = calls_conditional,
    [POD_OP_REDUCE] = calls_reduce, [POD_OP_MAP] = calls_map,
    [POD_OP_SORT] = calls_sort,
};

bool pod_verify_call(const struct verify *v, enum pod_code *out)
{
    if (calls_rules[v->instr->opcode] == NULL)
        return false;
    *out = calls_rules[v->instr->opcode](v);
    return true;
}
