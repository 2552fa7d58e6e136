// SPDX-License-Identifier: Apache-2.0
// Calling computations: call, fusion, conditional and while.
//
// Parameters are lent: their slots point at the arguments. Results are lent
// too where a root lies in the arena once: it is written straight to where the
// caller wants it. A loop's state lies in the caller's frame, and the body
// writes its results over it where it has read the old value by then.
#include <string.h>

#include "core/device/reference/builder.h"

struct control_call {
    uint32_t comp;
    uint32_t arg_count;
    const uint32_t *args;
};

struct control_branches {
    enum pod_type type; // of the index
    const uint32_t *outs;
    uint32_t count; // of branches; a call has one
    struct control_call calls[];
};

struct control_loop {
    uint32_t body;
    uint32_t condition;
    uint32_t count; // arrays of the state
    const uint32_t *inits;
    const uint32_t
        *outs; // where the state lies; the init's if it never changes
};

static void control_copy(struct pod_ref_run *run, uint32_t from, uint32_t to)
{
    if (run->slots[from] != run->slots[to])
        memcpy(run->slots[to], run->slots[from],
               (size_t)run->program->slots[to].bytes);
}

// ----------------------------------------------------- calls and conditionals

static enum pod_code control_run_call(struct pod_ref_run *run,
                                      const struct control_branches *branches,
                                      const struct control_call *call,
                                      struct pod_err *err)
{
    const struct pod_ref_comp *comp = &run->program->comps[call->comp];
    enum pod_code code;

    for (uint32_t i = 0; i < call->arg_count; i++)
        run->slots[comp->params[i]] = run->slots[call->args[i]];
    for (uint32_t i = 0; i < comp->root_count; i++) {
        if (comp->root_direct[i])
            run->slots[comp->roots[i]] = run->slots[branches->outs[i]];
    }
    code = pod_ref_run_comp(run, call->comp, err);
    if (code != POD_OK)
        return code;
    for (uint32_t i = 0; i < comp->root_count; i++)
        control_copy(run, comp->roots[i], branches->outs[i]);
    return POD_OK;
}

static enum pod_code control_call(struct pod_ref_run *run,
                                  const struct pod_ref_step *step,
                                  struct pod_err *err)
{
    const struct control_branches *branches = step->with.detail;

    return control_run_call(run, branches, &branches->calls[0], err);
}

static enum pod_code control_conditional(struct pod_ref_run *run,
                                         const struct pod_ref_step *step,
                                         struct pod_err *err)
{
    const struct control_branches *branches = step->with.detail;
    const void *data = run->slots[step->in[0]];
    uint32_t last = branches->count - 1;
    uint32_t index;

    if (branches->type == POD_TYPE_PRED) {
        index = *(const unsigned char *)data != 0 ? 0 : 1;
    } else {
        memcpy(&index, data, sizeof(index));
        index = index > last ? last : index; // negative ones are great here
    }
    return control_run_call(run, branches, &branches->calls[index], err);
}

// The arguments of a call: the leaves of operands `first` to `end`.
static enum pod_code control_args(struct pod_ref_builder *builder,
                                  uint32_t first, uint32_t end,
                                  struct control_call *call,
                                  struct pod_err *err)
{
    size_t count = 0;
    uint32_t *args;

    for (uint32_t i = first; i < end; i++)
        count += pod_ref_value(builder, i)->count;
    args = pod_ref_pool_alloc(&builder->program->pool, count, sizeof(*args));
    if (args == NULL)
        return pod_ref_no_memory(err);
    call->arg_count = (uint32_t)count;
    call->args = args;
    for (uint32_t i = first; i < end; i++) {
        const struct pod_ref_value *value = pod_ref_value(builder, i);
        for (uint32_t j = 0; j < value->count; j++)
            *args++ = value->slots[j];
    }
    return POD_OK;
}

// Slots for the result, and the step.
static enum pod_code control_emit(struct pod_ref_builder *builder,
                                  struct control_branches *branches,
                                  struct pod_ref_step *step,
                                  struct pod_err *err)
{
    const struct pod_ref_comp *comp =
        &builder->program->comps[branches->calls[0].comp];
    uint32_t *outs;
    enum pod_code code =
        pod_ref_result_room(builder, comp->root_count, &outs, err);

    for (uint32_t i = 0; code == POD_OK && i < comp->root_count; i++)
        code = pod_ref_slot_new(builder, builder->slots[comp->roots[i]].bytes,
                                &outs[i], err);
    if (code != POD_OK)
        return code;
    branches->outs = outs;
    for (uint32_t i = 0; i < branches->count; i++) {
        for (uint32_t j = 0; j < branches->calls[i].arg_count; j++)
            pod_ref_use(builder, branches->calls[i].args[j]);
    }
    step->with.detail = branches;
    return pod_ref_emit(builder, step, err);
}

static struct control_branches *
control_branches_new(struct pod_ref_builder *builder, uint32_t count)
{
    struct control_branches *branches = pod_ref_pool_alloc(
        &builder->program->pool, 1,
        sizeof(*branches) + count * sizeof(*branches->calls));

    if (branches != NULL)
        branches->count = count;
    return branches;
}

enum pod_code pod_ref_lower_call(struct pod_ref_builder *builder,
                                 struct pod_err *err)
{
    struct control_branches *branches = control_branches_new(builder, 1);
    struct pod_ref_step step = {
        .run = control_call,
        .in = {POD_REF_NONE, POD_REF_NONE, POD_REF_NONE},
        .out = POD_REF_NONE};
    enum pod_code code;

    if (branches == NULL)
        return pod_ref_no_memory(err);
    branches->calls[0].comp = builder->instr->called[0];
    code = control_args(builder, 0, builder->instr->operand_count,
                        &branches->calls[0], err);
    return code == POD_OK ? control_emit(builder, branches, &step, err) : code;
}

enum pod_code pod_ref_lower_conditional(struct pod_ref_builder *builder,
                                        struct pod_err *err)
{
    uint32_t count = builder->instr->called_count;
    struct control_branches *branches = control_branches_new(builder, count);
    struct pod_ref_step step = {
        .run = control_conditional,
        .in = {pod_ref_in(builder, 0), POD_REF_NONE, POD_REF_NONE},
        .out = POD_REF_NONE};

    if (branches == NULL)
        return pod_ref_no_memory(err);
    branches->type = pod_ref_shape(builder, 0)->type;
    for (uint32_t i = 0; i < count; i++) {
        enum pod_code code;
        branches->calls[i].comp = builder->instr->called[i];
        code = control_args(builder, i + 1, i + 2, &branches->calls[i], err);
        if (code != POD_OK)
            return code;
    }
    return control_emit(builder, branches, &step, err);
}

// ---------------------------------------------------------------------- while

static void control_enter_loop(struct pod_ref_run *run,
                               const struct control_loop *loop)
{
    const struct pod_ref_comp *body = &run->program->comps[loop->body];
    const struct pod_ref_comp *condition =
        &run->program->comps[loop->condition];

    pod_ref_home_roots(run, loop->body);
    pod_ref_home_roots(run, loop->condition);
    for (uint32_t i = 0; i < loop->count; i++) {
        void *state = run->slots[loop->outs[i]];
        control_copy(run, loop->inits[i], loop->outs[i]);
        run->slots[body->params[i]] = state;
        run->slots[condition->params[i]] = state;
        if (body->root_over[i])
            run->slots[body->roots[i]] = state;
    }
}

static enum pod_code control_while(struct pod_ref_run *run,
                                   const struct pod_ref_step *step,
                                   struct pod_err *err)
{
    const struct control_loop *loop = step->with.detail;
    const struct pod_ref_comp *body = &run->program->comps[loop->body];
    const struct pod_ref_comp *condition =
        &run->program->comps[loop->condition];
    enum pod_code code;

    control_enter_loop(run, loop);
    for (;;) {
        code = pod_ref_run_comp(run, loop->condition, err);
        if (code != POD_OK)
            return code;
        if (*(const unsigned char *)run->slots[condition->roots[0]] == 0)
            return POD_OK;
        code = pod_ref_run_comp(run, loop->body, err);
        if (code != POD_OK)
            return code;
        for (uint32_t i = 0; i < loop->count; i++)
            control_copy(run, body->roots[i], loop->outs[i]);
    }
}

// The state lies in slots of its own, except what never changes. It may take
// over the memory of an init that nothing else comes from.
static enum pod_code control_state(struct pod_ref_builder *builder,
                                   const struct pod_ref_comp *body,
                                   const struct pod_ref_value *init,
                                   uint32_t *outs, struct pod_err *err)
{
    pod_ref_mark_repeated(builder, init->slots, init->count);
    for (uint32_t i = 0; i < init->count; i++) {
        uint32_t from = init->slots[i];
        enum pod_code code;
        outs[i] = from;
        if (body->roots[i] == body->params[i])
            continue;
        code = pod_ref_slot_new(builder, builder->slots[from].bytes, &outs[i],
                                err);
        if (code != POD_OK)
            return code;
        if (!pod_ref_is_repeated(builder, from))
            pod_ref_inherit(builder, outs[i], from);
    }
    return POD_OK;
}

enum pod_code pod_ref_lower_while(struct pod_ref_builder *builder,
                                  struct pod_err *err)
{
    const struct pod_ref_value *init = pod_ref_value(builder, 0);
    struct control_loop *loop =
        pod_ref_pool_alloc(&builder->program->pool, 1, sizeof(*loop));
    struct pod_ref_step step = {
        .run = control_while,
        .in = {POD_REF_NONE, POD_REF_NONE, POD_REF_NONE},
        .out = POD_REF_NONE,
        .with.detail = loop};
    uint32_t *outs = NULL;
    enum pod_code code;

    if (loop == NULL)
        return pod_ref_no_memory(err);
    code = pod_ref_result_room(builder, init->count, &outs, err);
    if (code != POD_OK)
        return code;
    loop->body = builder->instr->called[0];
    loop->condition = builder->instr->called[1];
    loop->count = init->count;
    loop->inits = init->slots;
    loop->outs = outs;
    code = control_state(builder, &builder->program->comps[loop->body], init,
                         outs, err);
    if (code != POD_OK)
        return code;
    for (uint32_t i = 0; i < init->count; i++)
        pod_ref_use(builder, init->slots[i]);
    return pod_ref_emit(builder, &step, err);
}
