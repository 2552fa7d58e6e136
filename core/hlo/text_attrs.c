// SPDX-License-Identifier: Apache-2.0
// Attributes of instructions, read as the table says.
#include "core/hlo/text_attrs.h"

#include <string.h>

// Finds the next name in a list; `*required` says whether it has the mark.
static bool attrs_list_next(const char **list, struct text_span *out,
                            bool *required)
{
    const char *at = *list + strspn(*list, " ");
    *required = *at == '!';
    at += *required;
    out->text = at;
    out->length = strcspn(at, " ");
    *list = at + out->length;
    return out->length > 0;
}

static bool attrs_listed(const char *list, struct text_span name)
{
    struct text_span entry;
    bool required;
    if (list == NULL)
        return false;
    while (attrs_list_next(&list, &entry, &required))
        if (entry.length == name.length &&
            memcmp(entry.text, name.text, name.length) == 0)
            return true;
    return false;
}

// ------------------------------------------------------------------- reading

static enum pod_code attrs_one_int(struct attrs_value *v, size_t *count,
                                   int64_t **items)
{
    int64_t value;
    enum pod_code code = pod_text_integer(v->t, &value);
    if (code != POD_OK)
        return code;
    *items = pod_hlo_arena_alloc(v->t->arena, 1, sizeof(**items));
    if (*items == NULL)
        return pod_text_no_memory(v->t);
    (*items)[0] = value;
    *count = 1;
    return POD_OK;
}

static enum pod_code attrs_ints(struct attrs_value *v,
                                const struct attrs_rule *rule, char *base)
{
    size_t count = 0;
    int64_t *items = NULL;
    enum pod_code code = rule->kind == ATTRS_INTS
                             ? pod_text_int_list(v->t, '{', '}', &count, &items)
                             : attrs_one_int(v, &count, &items);
    memcpy(base + rule->count, &count, sizeof(count));
    memcpy(base + rule->offset, &items, sizeof(items));
    return code;
}

static enum pod_code attrs_number(struct attrs_value *v,
                                  const struct attrs_rule *rule, char *base)
{
    int64_t value = 0;
    int32_t narrow;
    bool truth = false;
    protobuf_c_boolean boolean;
    enum pod_code code;
    if (rule->kind == ATTRS_BOOL) {
        code = pod_text_bool(v->t, &truth);
        boolean = truth;
        memcpy(base + rule->offset, &boolean, sizeof(boolean));
        return code;
    }
    code = pod_text_integer(v->t, &value);
    if (rule->kind == ATTRS_INT) {
        memcpy(base + rule->offset, &value, sizeof(value));
        return code;
    }
    if (code == POD_OK && (value < INT32_MIN || value > INT32_MAX))
        return pod_text_fail_at(v->t, v->t->at, "number does not fit 32 bits");
    narrow = (int32_t)value;
    memcpy(base + rule->offset, &narrow, sizeof(narrow));
    return code;
}

static enum pod_code attrs_text(struct attrs_value *v,
                                const struct attrs_rule *rule, char *base)
{
    ProtobufCBinaryData bytes = {0, NULL};
    enum pod_code code = POD_OK;
    if (rule->kind == ATTRS_WORD) {
        struct text_span word = pod_text_word(v->t);
        bytes.data =
            (uint8_t *)pod_hlo_arena_text(v->t->arena, word.text, word.length);
        if (bytes.data == NULL)
            return pod_text_no_memory(v->t);
        if (word.length == 0)
            return pod_text_expected(v->t, "a word");
    } else {
        code = pod_text_string(v->t, &bytes);
    }
    if (code != POD_OK)
        return code;
    if (rule->kind == ATTRS_BYTES)
        memcpy(base + rule->offset, &bytes, sizeof(bytes));
    else
        memcpy(base + rule->offset, &bytes.data, sizeof(bytes.data));
    return POD_OK;
}

// The struct a rule's offsets count from.
static char *attrs_base(struct attrs_value *v, const struct attrs_rule *rule)
{
    char *proto = (char *)v->instr->proto;
    void *message;
    if (rule->type == NULL)
        return proto;
    memcpy(&message, proto + rule->message, sizeof(message));
    if (message == NULL) {
        message = pod_text_message(v->t, rule->type);
        memcpy(proto + rule->message, &message, sizeof(message));
    }
    return message;
}

static enum pod_code attrs_read(struct attrs_value *v,
                                const struct attrs_rule *rule)
{
    char *base = attrs_base(v, rule);
    if (base == NULL)
        return pod_text_no_memory(v->t);
    switch (rule->kind) {
    case ATTRS_INT:
    case ATTRS_INT32:
    case ATTRS_BOOL:
        return attrs_number(v, rule, base);
    case ATTRS_INTS:
    case ATTRS_ONE_INT:
        return attrs_ints(v, rule, base);
    case ATTRS_WORD:
    case ATTRS_STRING:
    case ATTRS_BYTES:
        return attrs_text(v, rule, base);
    case ATTRS_COMPUTATION:
        return pod_text_computation_id(v->t, &v->called[rule->offset]);
    case ATTRS_SKIP:
        return pod_text_skip_value(v->t);
    case ATTRS_OWN:
        return rule->own(v);
    }
    return pod_text_expected(v->t, "an attribute");
}

// What attributes of an opcode share, and what they are if they are not given.
static bool attrs_prepare(struct attrs_value *v)
{
    Xla__HloInstructionProto *proto = v->instr->proto;
    if (v->opcode == POD_OP_CONVOLUTION || v->opcode == POD_OP_CUSTOM_CALL) {
        proto->feature_group_count = 1;
        proto->batch_group_count = 1;
    }
    if (v->opcode == POD_OP_DOT)
        return (proto->dot_dimension_numbers = pod_text_message(
                    v->t, &xla__dot_dimension_numbers__descriptor)) != NULL;
    if (v->opcode == POD_OP_GATHER)
        return (proto->gather_dimension_numbers = pod_text_message(
                    v->t, &xla__gather_dimension_numbers__descriptor)) != NULL;
    if (v->opcode == POD_OP_SCATTER)
        return (proto->scatter_dimension_numbers = pod_text_message(
                    v->t, &xla__scatter_dimension_numbers__descriptor)) != NULL;
    if (v->opcode == POD_OP_TRIANGULAR_SOLVE)
        return (proto->triangular_solve_options = pod_text_message(
                    v->t, &xla__triangular_solve_options__descriptor)) != NULL;
    return true;
}

static enum pod_code attrs_finish(struct attrs_value *v)
{
    Xla__HloInstructionProto *proto = v->instr->proto;
    size_t count = v->called[1] != 0 ? 2 : v->called[0] != 0 ? 1 : 0;
    if (v->n_called == 0 && count > 0) {
        v->called_list =
            pod_hlo_arena_alloc(v->t->arena, count, sizeof(int64_t));
        if (v->called_list == NULL)
            return pod_text_no_memory(v->t);
        memcpy(v->called_list, v->called, count * sizeof(int64_t));
        v->n_called = count;
    }
    proto->n_called_computation_ids = v->n_called;
    proto->called_computation_ids = v->called_list;
    return POD_OK;
}

// Which rule a name has, if the opcode takes it and it has not come before.
static enum pod_code attrs_find(struct attrs_value *v, struct text_span name,
                                size_t at, bool *seen, size_t *out)
{
    int shown = (int)(name.length < 64 ? name.length : 64);
    size_t i = 0;
    while (i < TEXT_ATTR_COUNT &&
           !pod_text_span_is(name, pod_text_attr_rules[i].name))
        i++;
    if (i == TEXT_ATTR_COUNT ||
        (!attrs_listed(pod_text_attr_taken[v->opcode], name) &&
         !attrs_listed(pod_text_attr_everywhere, name)))
        return pod_text_fail_at(v->t, at, "%s has no attribute \"%.*s\"",
                                pod_opcode_name(v->opcode), shown, name.text);
    if (seen[i])
        return pod_text_fail_at(v->t, at, "attribute \"%.*s\" is given twice",
                                shown, name.text);
    seen[i] = true;
    *out = i;
    return POD_OK;
}

static enum pod_code attrs_required(struct attrs_value *v, const bool *seen)
{
    const char *list = pod_text_attr_taken[v->opcode];
    struct text_span name;
    bool required;
    while (list != NULL && attrs_list_next(&list, &name, &required)) {
        for (size_t i = 0; i < TEXT_ATTR_COUNT && required; i++)
            if (pod_text_span_is(name, pod_text_attr_rules[i].name) && !seen[i])
                return pod_text_fail_at(
                    v->t, v->instr->at, "%s needs the attribute \"%s\"",
                    pod_opcode_name(v->opcode), pod_text_attr_rules[i].name);
    }
    return POD_OK;
}

enum pod_code pod_text_attributes(struct text *t, struct text_instr *instr,
                                  enum pod_opcode opcode)
{
    struct attrs_value v = {.t = t, .instr = instr, .opcode = opcode};
    bool seen[TEXT_ATTR_COUNT] = {false};
    enum pod_code code;
    if (!attrs_prepare(&v))
        return pod_text_no_memory(t);
    while (pod_text_take(t, ',')) {
        struct text_span name;
        size_t rule = 0;
        size_t at;
        (void)pod_text_peek(t);
        at = t->at;
        name = pod_text_word(t);
        if (name.length == 0)
            return pod_text_expected(t, "an attribute");
        code = attrs_find(&v, name, at, seen, &rule);
        if (code == POD_OK)
            code = pod_text_need(t, '=');
        if (code == POD_OK)
            code = attrs_read(&v, &pod_text_attr_rules[rule]);
        if (code != POD_OK)
            return code;
    }
    code = attrs_required(&v, seen);
    return code == POD_OK ? attrs_finish(&v) : code;
}
