// SPDX-License-Identifier: Apache-2.0
// The module and its computations. What is read becomes the message that a
// binary program is, and goes through the same verifier.
#include "core/hlo/text.h"

#include "core/base/mem.h"
#include "core/hlo/shape_proto.h"
#include "core/hlo/text_internal.h"
#include "core/hlo/verify.h"

#include <string.h>

// ------------------------------------------------------------------- module

enum pod_code pod_text_computation_id(struct text *t, int64_t *out)
{
    struct text_span name;
    uint32_t position;
    size_t at;
    enum pod_code code;
    (void)pod_text_peek(t);
    at = t->at;
    code = pod_text_name(t, "a computation", &name);
    if (code != POD_OK)
        return code;
    if (!pod_hlo_names_find(&t->comp_names, name.text, name.length, &position))
        return pod_text_fail_at(
            t, at, "no computation before this one is named \"%.*s\"",
            (int)(name.length < 64 ? name.length : 64), name.text);
    *out = (int64_t)position + 1;
    return POD_OK;
}

// "{(f32[2]{0}, s32[])->f32[2]{0}}".
static enum pod_code text_entry_layout(struct text *t)
{
    Xla__ProgramShapeProto *proto =
        pod_text_message(t, &xla__program_shape_proto__descriptor);
    const struct pod_shape *parameters;
    const struct pod_shape *result;
    enum pod_code code = pod_text_need(t, '{');
    if (proto == NULL)
        return pod_text_no_memory(t);
    if (code == POD_OK && pod_text_peek(t) != '(')
        code = pod_text_expected(t, "\"(\"");
    if (code == POD_OK)
        code = pod_text_shape(t, &parameters);
    if (code == POD_OK && !pod_text_take_string(t, "->"))
        code = pod_text_expected(t, "\"->\"");
    if (code == POD_OK)
        code = pod_text_shape(t, &result);
    if (code == POD_OK)
        code = pod_text_need(t, '}');
    if (code != POD_OK)
        return code;
    proto->result = pod_hlo_arena_shape_proto(t->arena, result);
    Xla__ShapeProto *all = pod_hlo_arena_shape_proto(t->arena, parameters);
    if (proto->result == NULL || all == NULL)
        return pod_text_no_memory(t);
    proto->n_parameters = all->n_tuple_shapes;
    proto->parameters = all->tuple_shapes;
    t->proto->host_program_shape = proto;
    return POD_OK;
}

// "(1, {0})".
static enum pod_code text_donor(struct text *t, void *message)
{
    Xla__HloBufferDonorProto__BufferDonorEntryProto *entry = message;
    enum pod_code code = pod_text_need(t, '(');
    if (code == POD_OK)
        code = pod_text_integer(t, &entry->parameter_number);
    if (code == POD_OK)
        code = pod_text_need(t, ',');
    if (code == POD_OK)
        code = pod_text_int_list(t, '{', '}', &entry->n_parameter_shape_index,
                                 &entry->parameter_shape_index);
    return code == POD_OK ? pod_text_need(t, ')') : code;
}

// "{ (0, {}), (1, {0}) }".
static enum pod_code text_buffer_donor(struct text *t)
{
    Xla__HloBufferDonorProto *list =
        pod_text_message(t, &xla__hlo_buffer_donor_proto__descriptor);
    if (list == NULL)
        return pod_text_no_memory(t);
    t->proto->buffer_donor = list;
    return pod_text_messages(
        t, &xla__hlo_buffer_donor_proto__buffer_donor_entry_proto__descriptor,
        text_donor, &list->n_entries, &list->entries);
}

static enum pod_code text_module_value(struct text *t, struct text_span name,
                                       size_t at)
{
    static const char *const skipped[] = {
        "is_scheduled",
        "alias_passthrough_params",
        "allow_spmd_sharding_propagation_to_parameters",
        "allow_spmd_sharding_propagation_to_output",
        "origin_recovery_table",
        "debug_attributes"};
    if (pod_text_span_is(name, "entry_computation_layout"))
        return text_entry_layout(t);
    if (pod_text_span_is(name, "replica_count"))
        return pod_text_integer(t, &t->module->replica_count);
    if (pod_text_span_is(name, "num_partitions"))
        return pod_text_integer(t, &t->module->num_partitions);
    if (pod_text_span_is(name, "input_output_alias"))
        return pod_text_module_aliases(t, &t->proto->input_output_alias);
    if (pod_text_span_is(name, "buffer_donor"))
        return text_buffer_donor(t);
    if (pod_text_span_is(name, "frontend_attributes"))
        return pod_text_frontend_attributes(t, &t->proto->frontend_attributes);
    for (size_t i = 0; i < sizeof(skipped) / sizeof(skipped[0]); i++)
        if (pod_text_span_is(name, skipped[i]))
            return pod_text_skip_value(t);
    return pod_text_fail_at(t, at, "a module has no attribute \"%.*s\"",
                            (int)(name.length < 64 ? name.length : 64),
                            name.text);
}

// Tables of debug information between the header and the computations.
static enum pod_code text_skip_tables(struct text *t)
{
    static const char *const names[] = {"FileNames", "FunctionNames",
                                        "FileLocations", "StackFrames"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!pod_text_take_word(t, names[i]))
            continue;
        while (pod_text_peek(t) >= '0' && pod_text_peek(t) <= '9') {
            int64_t number;
            enum pod_code code = pod_text_integer(t, &number);
            if (code == POD_OK)
                code = pod_text_skip_value(t);
            if (code != POD_OK)
                return code;
        }
    }
    return POD_OK;
}

static enum pod_code text_header(struct text *t)
{
    struct text_span name;
    size_t start;
    enum pod_code code;
    if (!pod_text_take_word(t, "HloModule"))
        return pod_text_expected(t, "\"HloModule\"");
    code = pod_text_name(t, "the name of the module", &name);
    if (code != POD_OK)
        return code;
    t->proto->name = pod_hlo_arena_text(t->arena, name.text, name.length);
    if (t->proto->name == NULL)
        return pod_text_no_memory(t);
    while (pod_text_take(t, ',')) {
        (void)pod_text_peek(t);
        start = t->at;
        name = pod_text_word(t);
        code = name.length > 0 ? pod_text_need(t, '=')
                               : pod_text_expected(t, "an attribute");
        if (code == POD_OK)
            code = text_module_value(t, name, start);
        if (code != POD_OK)
            return code;
    }
    if (t->module->replica_count < 0 || t->module->num_partitions < 0)
        return pod_text_fail_at(t, t->at, "counts cannot be negative");
    return text_skip_tables(t);
}

// --------------------------------------------------------------- computations

// The signature a computation may have in front of its braces; NULL: none. Only
// the result is of interest, and only to be compared.
static enum pod_code text_signature(struct text *t,
                                    const struct pod_shape **result, size_t *at)
{
    enum pod_code code = POD_OK;
    *result = NULL;
    if (!pod_text_take(t, '('))
        return POD_OK;
    while (code == POD_OK && !pod_text_take(t, ')')) {
        struct text_span name;
        const struct pod_shape *shape;
        code = pod_text_name(t, "a parameter or \")\"", &name);
        if (code == POD_OK)
            code = pod_text_need(t, ':');
        if (code == POD_OK)
            code = pod_text_shape(t, &shape);
        if (code == POD_OK && !pod_text_take(t, ',') && pod_text_peek(t) != ')')
            code = pod_text_expected(t, "\",\" or \")\"");
    }
    if (code == POD_OK && !pod_text_take_string(t, "->"))
        code = pod_text_expected(t, "\"->\"");
    if (code != POD_OK)
        return code;
    (void)pod_text_peek(t);
    *at = t->at;
    return pod_text_shape(t, result);
}

// The instructions up to the closing brace; *root is the marked one's position,
// or the last one's.
static enum pod_code text_body(struct text *t, size_t *root)
{
    bool marked = false;
    enum pod_code code = pod_text_need(t, '{');
    if (code != POD_OK)
        return code;
    while (pod_text_peek(t) != '}') {
        size_t at = t->at;
        bool mark = pod_text_take_word(t, "ROOT");
        if (mark && marked)
            return pod_text_fail_at(t, at, "a second ROOT in one computation");
        code = pod_text_instruction(t);
        if (code != POD_OK)
            return code;
        if (mark || !marked)
            *root = t->instrs.count - 1;
        marked = marked || mark;
    }
    if (t->instrs.count == 0)
        return pod_text_expected(t, "an instruction");
    t->at++;
    return POD_OK;
}

static Xla__ProgramShapeProto *text_program_shape(struct text *t, size_t root)
{
    const struct text_instr *instrs = t->instrs.items;
    Xla__ProgramShapeProto *shape =
        pod_text_message(t, &xla__program_shape_proto__descriptor);
    size_t count = 0;
    for (size_t i = 0; i < t->instrs.count; i++)
        count += strcmp(instrs[i].proto->opcode, "parameter") == 0;
    if (shape == NULL)
        return NULL;
    shape->result = instrs[root].proto->shape;
    shape->parameters =
        pod_hlo_arena_alloc(t->arena, count, sizeof(shape->parameters[0]));
    shape->parameter_names =
        pod_hlo_arena_alloc(t->arena, count, sizeof(shape->parameter_names[0]));
    if (shape->parameters == NULL || shape->parameter_names == NULL)
        return NULL;
    for (size_t i = 0; i < t->instrs.count; i++) {
        int64_t number = instrs[i].proto->parameter_number;
        // Gaps and doubles are the verifier's to find; here they only must
        // not leave a hole, for then the message could not be packed.
        if (strcmp(instrs[i].proto->opcode, "parameter") != 0)
            continue;
        if (number < 0 || (uint64_t)number >= count)
            number = (int64_t)shape->n_parameters;
        shape->parameters[number] = instrs[i].proto->shape;
        shape->parameter_names[number] = instrs[i].proto->name;
        shape->n_parameters++;
        shape->n_parameter_names++;
    }
    return shape;
}

// Moves the instructions that were read into the message and the side table.
static enum pod_code text_finish_computation(struct text *t,
                                             Xla__HloComputationProto *proto,
                                             size_t root)
{
    const struct text_instr *instrs = t->instrs.items;
    size_t count = t->instrs.count;
    struct pod_hlo_comp comp = {.proto = proto};
    proto->program_shape = text_program_shape(t, root);
    proto->instructions =
        pod_hlo_arena_alloc(t->arena, count, sizeof(proto->instructions[0]));
    comp.instrs = pod_hlo_arena_alloc(t->arena, count, sizeof(*comp.instrs));
    if (proto->program_shape == NULL || proto->instructions == NULL ||
        comp.instrs == NULL || !pod_text_push(&t->comps, &comp, sizeof(comp)))
        return pod_text_no_memory(t);
    proto->n_instructions = count;
    proto->root_id = instrs[root].proto->id;
    for (size_t i = 0; i < count; i++) {
        proto->instructions[i] = instrs[i].proto;
        comp.instrs[i].line = instrs[i].line;
        comp.instrs[i].column = instrs[i].column;
    }
    t->instrs.count = 0;
    pod_hlo_names_fini(&t->names);
    return POD_OK;
}

static enum pod_code text_add_computation(struct text *t,
                                          Xla__HloComputationProto *proto,
                                          struct text_span name)
{
    enum pod_hlo_names_result named = pod_hlo_names_add(
        &t->comp_names, name.text, name.length, (uint32_t)(proto->id - 1));
    if (named == POD_HLO_NAMES_TAKEN)
        return pod_text_fail_at(t, (size_t)(name.text - t->data),
                                "computation \"%.64s\" is already defined",
                                proto->name);
    if (named == POD_HLO_NAMES_NO_MEMORY || !pod_text_push_pointer(t, proto))
        return pod_text_no_memory(t);
    return POD_OK;
}

static enum pod_code text_computation_end(struct text *t,
                                          Xla__HloComputationProto *proto)
{
    ProtobufCBinaryData thread;
    enum pod_code code;
    if (!pod_text_take(t, ','))
        return POD_OK;
    if (!pod_text_take_word(t, "execution_thread"))
        return pod_text_expected(t, "\"execution_thread\"");
    code = pod_text_need(t, '=');
    if (code == POD_OK)
        code = pod_text_string(t, &thread);
    if (code == POD_OK)
        proto->execution_thread = (char *)thread.data;
    return code;
}

static enum pod_code text_computation(struct text *t, int64_t id)
{
    Xla__HloComputationProto *proto =
        pod_text_message(t, &xla__hlo_computation_proto__descriptor);
    const struct pod_shape *result;
    size_t result_at = 0;
    struct text_span name;
    size_t at = t->at;
    size_t root = 0;
    bool entry = pod_text_take_word(t, "ENTRY");
    enum pod_code code;
    if (entry && t->entry_id != 0)
        return pod_text_fail_at(t, at, "a second ENTRY in one module");
    code = pod_text_name(t, "a computation", &name);
    if (code != POD_OK)
        return code;
    if (proto == NULL)
        return pod_text_no_memory(t);
    proto->name = pod_hlo_arena_text(t->arena, name.text, name.length);
    if (proto->name == NULL)
        return pod_text_no_memory(t);
    proto->id = id;
    code = text_signature(t, &result, &result_at);
    if (code == POD_OK)
        code = text_body(t, &root);
    if (code == POD_OK && result != NULL &&
        !pod_shape_equal(result,
                         ((struct text_instr *)t->instrs.items)[root].shape))
        code = pod_text_fail_at(t, result_at,
                                "the result is declared to be "
                                "another shape than the root has");
    if (code == POD_OK)
        code = text_finish_computation(t, proto, root);
    if (code == POD_OK)
        code = text_computation_end(t, proto);
    if (entry)
        t->entry_id = id;
    return code == POD_OK ? text_add_computation(t, proto, name) : code;
}

// --------------------------------------------------------------------- whole

static enum pod_code text_finish_module(struct text *t)
{
    size_t count = t->comps.count;
    struct pod_hlo_comp *comps;
    const Xla__HloComputationProto *entry;
    enum pod_code code = pod_text_pop_pointers(t, 0, &t->proto->n_computations,
                                               &t->proto->computations);
    if (code != POD_OK)
        return code;
    comps = pod_hlo_arena_alloc(t->arena, count, sizeof(*comps));
    if (comps == NULL)
        return pod_text_no_memory(t);
    memcpy(comps, t->comps.items, count * sizeof(*comps));
    t->module->comps = comps;
    t->module->proto = t->proto;
    if (t->entry_id == 0)
        t->entry_id = (int64_t)count;
    entry = t->proto->computations[t->entry_id - 1];
    t->proto->entry_computation_id = t->entry_id;
    t->proto->entry_computation_name = entry->name;
    if (t->proto->host_program_shape == NULL)
        t->proto->host_program_shape = entry->program_shape;
    return POD_OK;
}

static enum pod_code text_module(struct text *t)
{
    int64_t id = 1;
    enum pod_code code = text_header(t);
    while (code == POD_OK && (pod_text_peek(t), t->at < t->length))
        code = text_computation(t, id++);
    if (code == POD_OK && id == 1)
        code = pod_text_expected(t, "a computation");
    return code == POD_OK ? text_finish_module(t) : code;
}

static void text_fini(struct text *t)
{
    pod_free(t->ints.items);
    pod_free(t->pointers.items);
    pod_free(t->bytes.items);
    pod_free(t->comps.items);
    pod_free(t->instrs.items);
    pod_hlo_names_fini(&t->names);
    pod_hlo_names_fini(&t->comp_names);
}

static enum pod_code text_parse(struct text *t)
{
    enum pod_code code;
    t->arena = pod_hlo_arena_new(t->length);
    if (t->arena == NULL)
        return pod_text_no_memory(t);
    t->module->arena = t->arena;
    t->proto = pod_text_message(t, &xla__hlo_module_proto__descriptor);
    if (t->proto == NULL)
        return pod_text_no_memory(t);
    code = text_module(t);
    return code == POD_OK ? pod_hlo_verify(t->module, t->err) : code;
}

enum pod_code pod_hlo_parse_text(const char *text, size_t length,
                                 struct pod_hlo_module **out,
                                 struct pod_err *err)
{
    struct pod_err unwanted = POD_ERR_NONE;
    struct text t = {.data = length > 0 ? text : "", // not NULL
                     .length = length,
                     .err = err == NULL ? &unwanted : err,
                     .mark_line = 1,
                     .next_id = 1};
    enum pod_code code;
    if (length > POD_HLO_MAX_BYTES)
        return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                           "program has %zu bytes, at most %d are allowed",
                           length, POD_HLO_MAX_BYTES);
    t.module = pod_calloc(1, sizeof(*t.module));
    if (t.module == NULL)
        return pod_text_no_memory(&t);
    code = text_parse(&t);
    text_fini(&t);
    if (code != POD_OK) {
        pod_hlo_module_free(t.module);
        return code;
    }
    *out = t.module;
    return POD_OK;
}
