// SPDX-License-Identifier: Apache-2.0
// Instructions: name = shape opcode(operands), attributes.
#include "core/hlo/text_internal.h"

#include <stdio.h>
#include <string.h>

// Operands that are instructions themselves, inside each other.
enum { INSTR_MAX_NESTING = 64 };

static enum pod_code instr_read(struct text *t, struct text_span name,
                                unsigned depth, bool attributes);

static struct text_instr *instr_at(struct text *t, uint32_t position)
{
    return (struct text_instr *)t->instrs.items + position;
}

static int instr_shown(struct text_span span)
{
    return (int)(span.length < 64 ? span.length : 64);
}

// ------------------------------------------------------------------ the list

// Gives the instruction its id and puts it at the end of the computation.
static enum pod_code instr_add(struct text *t, struct text_instr *instr)
{
    const char *name = instr->proto->name;
    uint32_t position = (uint32_t)t->instrs.count;
    enum pod_hlo_names_result named =
        pod_hlo_names_add(&t->names, name, strlen(name), position);
    instr->proto->id = t->next_id++;
    if (named == POD_HLO_NAMES_TAKEN)
        return pod_text_fail_at(
            t, instr->at, "instruction \"%.64s\" is already defined", name);
    if (named == POD_HLO_NAMES_NO_MEMORY ||
        !pod_text_push(&t->instrs, instr, sizeof(*instr)))
        return pod_text_no_memory(t);
    return POD_OK;
}

// A name for an instruction that has none in the text.
static char *instr_own_name(struct text *t, const char *opcode)
{
    char name[96];
    int length = snprintf(name, sizeof(name), "%s.nested.%lld", opcode,
                          (long long)t->next_id);
    return pod_hlo_arena_text(t->arena, name, (size_t)length);
}

static enum pod_code instr_start(struct text *t, struct text_instr *instr,
                                 const struct pod_shape *shape)
{
    instr->shape = shape;
    instr->proto = pod_text_message(t, &xla__hlo_instruction_proto__descriptor);
    if (instr->proto == NULL)
        return pod_text_no_memory(t);
    instr->proto->shape = pod_hlo_arena_shape_proto(t->arena, shape);
    return instr->proto->shape == NULL ? pod_text_no_memory(t) : POD_OK;
}

// ------------------------------------------------------------------ operands

// "#i": the part of a tuple, as an instruction of its own.
static enum pod_code instr_element(struct text *t, uint32_t *position)
{
    const struct text_instr *tuple = instr_at(t, *position);
    struct pod_shape part;
    const struct pod_shape *shape;
    struct text_instr instr = {.at = t->at};
    int64_t index;
    size_t at = t->at;
    int64_t *operand;
    enum pod_code code = pod_text_integer(t, &index);
    pod_text_place(t, at, &instr.line, &instr.column);
    if (code != POD_OK)
        return code;
    if (tuple->shape->type != POD_TYPE_TUPLE || index < 0 ||
        (uint64_t)index >= tuple->shape->child_count)
        return pod_text_fail_at(t, at, "there is no such part of the operand");
    code = pod_shape_copy(&tuple->shape->children[index], &part, t->err);
    if (code != POD_OK)
        return code;
    shape = pod_hlo_arena_shape(t->arena, &part);
    if (shape == NULL)
        return pod_text_no_memory(t);
    code = instr_start(t, &instr, shape);
    if (code != POD_OK)
        return code;
    operand = pod_hlo_arena_alloc(t->arena, 1, sizeof(*operand));
    instr.proto->opcode = pod_hlo_arena_text(t->arena, "get-tuple-element", 17);
    instr.proto->name = instr_own_name(t, "get-tuple-element");
    if (operand == NULL || instr.proto->opcode == NULL ||
        instr.proto->name == NULL)
        return pod_text_no_memory(t);
    *operand = tuple->proto->id;
    instr.proto->operand_ids = operand;
    instr.proto->n_operand_ids = 1;
    instr.proto->tuple_index = index;
    *position = (uint32_t)t->instrs.count;
    return instr_add(t, &instr);
}

static enum pod_code instr_operand_shape(struct text *t, size_t at,
                                         const struct pod_shape *declared,
                                         uint32_t position)
{
    char is[96];
    char says[96];
    const struct pod_shape *shape = instr_at(t, position)->shape;
    if (declared == NULL || pod_shape_equal(declared, shape))
        return POD_OK;
    return pod_text_fail_at(t, at, "operand is %s here, %s where it is defined",
                            pod_shape_brief(declared, says, sizeof(says)),
                            pod_shape_brief(shape, is, sizeof(is)));
}

// "name", "shape name", "name#0#1" or "shape opcode(...)".
static enum pod_code instr_operand(struct text *t, unsigned depth)
{
    const struct pod_shape *shape = NULL;
    struct text_span name;
    uint32_t position = 0;
    size_t at;
    enum pod_code code = POD_OK;
    size_t start;
    (void)pod_text_peek(t);
    start = t->at;
    if (pod_text_shape_ahead(t))
        code = pod_text_shape(t, &shape);
    if (code != POD_OK)
        return code;
    (void)pod_text_peek(t);
    at = t->at;
    code = pod_text_name(t, "an operand", &name);
    if (code != POD_OK)
        return code;
    if (pod_text_peek(t) == '(') {
        t->at = start;
        code = instr_read(t, (struct text_span){NULL, 0}, depth + 1, false);
        position = (uint32_t)t->instrs.count - 1;
    } else if (!pod_hlo_names_find(&t->names, name.text, name.length,
                                   &position)) {
        code = pod_text_fail_at(t, at,
                                "no instruction before this one is named "
                                "\"%.*s\"",
                                instr_shown(name), name.text);
    }
    while (code == POD_OK && pod_text_take(t, '#'))
        code = instr_element(t, &position);
    if (code == POD_OK)
        code = instr_operand_shape(t, at, shape, position);
    if (code == POD_OK &&
        !pod_text_push_int(t, instr_at(t, position)->proto->id))
        code = pod_text_no_memory(t);
    return code;
}

static enum pod_code instr_operands(struct text *t, unsigned depth,
                                    Xla__HloInstructionProto *proto)
{
    size_t base = t->ints.count;
    if (pod_text_take(t, ')'))
        return POD_OK;
    do {
        enum pod_code code = instr_operand(t, depth);
        if (code != POD_OK)
            return code;
    } while (pod_text_take(t, ','));
    if (!pod_text_take(t, ')'))
        return pod_text_expected(t, "\",\" or \")\"");
    return pod_text_pop_ints(t, base, &proto->n_operand_ids,
                             &proto->operand_ids);
}

// What stands in the parentheses: operands, a number or a literal.
static enum pod_code instr_arguments(struct text *t, unsigned depth,
                                     enum pod_opcode opcode,
                                     struct text_instr *instr)
{
    enum pod_code code = pod_text_need(t, '(');
    if (code != POD_OK)
        return code;
    if (opcode == POD_OP_PARAMETER)
        code = pod_text_integer(t, &instr->proto->parameter_number);
    else if (opcode == POD_OP_CONSTANT)
        code = pod_text_literal(t, instr->shape, &instr->proto->literal);
    else
        return instr_operands(t, depth, instr->proto);
    return code == POD_OK ? pod_text_need(t, ')') : code;
}

// ---------------------------------------------------------------- instructions

// Opcodes that stand for others with an async wrapper around them.
static bool instr_is_async_sugar(struct text_span word)
{
    static const char *const ends[] = {"-start", "-update", "-done"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t end = strlen(ends[i]);
        if (word.length > end &&
            memcmp(word.text + word.length - end, ends[i], end) == 0 &&
            pod_opcode_find(word.text, word.length - end) != POD_OP_COUNT)
            return true;
    }
    return false;
}

static enum pod_code instr_opcode(struct text *t, enum pod_opcode *out)
{
    struct text_span word;
    size_t at;
    (void)pod_text_peek(t);
    at = t->at;
    word = pod_text_word(t);
    if (word.length == 0)
        return pod_text_expected(t, "an opcode");
    *out = pod_opcode_find(word.text, word.length);
    if (*out == POD_OP_DOMAIN)
        return pod_text_unsupported_at(t, at, "domains are");
    if (*out != POD_OP_COUNT)
        return POD_OK;
    if (instr_is_async_sugar(word))
        return pod_text_unsupported_at(t, at,
                                       "short forms of async operations "
                                       "are");
    return pod_text_fail_at(t, at, "there is no opcode \"%.*s\"",
                            instr_shown(word), word.text);
}

static enum pod_code instr_names(struct text *t, struct text_instr *instr,
                                 struct text_span name, enum pod_opcode opcode)
{
    const char *word = pod_opcode_name(opcode);
    instr->proto->opcode = pod_hlo_arena_text(t->arena, word, strlen(word));
    instr->proto->name =
        name.length > 0 ? pod_hlo_arena_text(t->arena, name.text, name.length)
                        : instr_own_name(t, word);
    if (instr->proto->opcode == NULL || instr->proto->name == NULL)
        return pod_text_no_memory(t);
    return POD_OK;
}

// From the shape on; without a name it is an operand of another.
static enum pod_code instr_read(struct text *t, struct text_span name,
                                unsigned depth, bool attributes)
{
    const struct pod_shape *shape;
    struct text_instr instr = {
        .at = name.length > 0 ? (size_t)(name.text - t->data) : t->at};
    enum pod_opcode opcode = POD_OP_COUNT;
    enum pod_code code;
    pod_text_place(t, instr.at, &instr.line, &instr.column);
    if (depth > INSTR_MAX_NESTING)
        return pod_text_fail_at(t, t->at,
                                "operands are nested more than %d deep",
                                INSTR_MAX_NESTING);
    code = pod_text_shape(t, &shape);
    if (code == POD_OK)
        code = instr_start(t, &instr, shape);
    if (code != POD_OK)
        return code;
    code = instr_opcode(t, &opcode);
    if (code == POD_OK)
        code = instr_arguments(t, depth, opcode, &instr);
    if (code == POD_OK && attributes)
        code = pod_text_attributes(t, &instr, opcode);
    if (code == POD_OK)
        code = instr_names(t, &instr, name, opcode);
    return code == POD_OK ? instr_add(t, &instr) : code;
}

enum pod_code pod_text_instruction(struct text *t)
{
    struct text_span name;
    enum pod_code code = pod_text_name(t, "an instruction or \"}\"", &name);
    if (code == POD_OK)
        code = pod_text_need(t, '=');
    return code == POD_OK ? instr_read(t, name, 0, true) : code;
}
