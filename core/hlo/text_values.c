// SPDX-License-Identifier: Apache-2.0
// Values of attributes that have a syntax of their own.
#include "core/hlo/text_internal.h"

#include <string.h>

// ---------------------------------------------------------- replica groups

static enum pod_code values_group(struct text *t, void *message)
{
    Xla__ReplicaGroup *group = message;
    return pod_text_int_list(t, '{', '}', &group->n_replica_ids,
                             &group->replica_ids);
}

static enum pod_code values_group_list(struct text *t,
                                       Xla__HloInstructionProto *instr)
{
    return pod_text_messages(t, &xla__replica_group__descriptor, values_group,
                             &instr->n_replica_groups, &instr->replica_groups);
}

enum pod_code pod_text_permutation(struct text *t, size_t *count, int32_t **out)
{
    int64_t *wide;
    size_t start;
    enum pod_code code;
    (void)pod_text_peek(t);
    start = t->at;
    if (!pod_text_take_string(t, "T("))
        return POD_OK;
    t->at = start + 1;
    code = pod_text_int_list(t, '(', ')', count, &wide);
    if (code != POD_OK)
        return code;
    *out = pod_hlo_arena_alloc(t->arena, *count, sizeof(**out));
    if (*out == NULL)
        return pod_text_no_memory(t);
    for (size_t i = 0; i < *count; i++) {
        if (wide[i] < 0 || wide[i] >= POD_SHAPE_MAX_RANK)
            return pod_text_fail_at(t, start, "not a permutation");
        (*out)[i] = (int32_t)wide[i];
    }
    return POD_OK;
}

// "[2,4]<=[8]" or "[2,4]<=[4,2]T(1,0)": groups, members of each.
static enum pod_code values_group_iota(struct text *t,
                                       Xla__HloInstructionProto *instr)
{
    Xla__IotaReplicaGroupListProto *iota =
        pod_text_message(t, &xla__iota_replica_group_list_proto__descriptor);
    size_t start = t->at;
    size_t rank;
    int64_t *sizes;
    enum pod_code code = pod_text_int_list(t, '[', ']', &rank, &sizes);
    if (iota == NULL)
        return pod_text_no_memory(t);
    if (code == POD_OK && rank != 2)
        code = pod_text_fail_at(t, start,
                                "expected two sizes: of groups and in "
                                "each");
    if (code == POD_OK && !pod_text_take_string(t, "<="))
        code = pod_text_expected(t, "\"<=\"");
    if (code == POD_OK)
        code = pod_text_int_list(t, '[', ']', &iota->n_iota_reshape_dims,
                                 &iota->iota_reshape_dims);
    if (code == POD_OK)
        code = pod_text_permutation(t, &iota->n_iota_transpose_perm,
                                    &iota->iota_transpose_perm);
    if (code != POD_OK)
        return code;
    iota->num_replica_groups = sizes[0];
    iota->num_devices_per_group = sizes[1];
    instr->iota_collective_device_list = iota;
    instr->replica_group_list_case =
        XLA__HLO_INSTRUCTION_PROTO__REPLICA_GROUP_LIST_IOTA_COLLECTIVE_DEVICE_LIST;
    return POD_OK;
}

enum pod_code pod_text_replica_groups(struct text *t,
                                      Xla__HloInstructionProto *instr)
{
    char c = pod_text_peek(t);
    if (c == '{')
        return values_group_list(t, instr);
    if (c == '[')
        return values_group_iota(t, instr);
    if (c == '@' || c == 'm')
        return pod_text_unsupported_at(t, t->at, "groups by mesh axes are");
    return pod_text_expected(t, "replica groups");
}

// "{0,1}": from, to.
static enum pod_code values_pair(struct text *t, void *message)
{
    Xla__SourceTarget *pair = message;
    enum pod_code code = pod_text_need(t, '{');
    if (code == POD_OK)
        code = pod_text_integer(t, &pair->source);
    if (code == POD_OK)
        code = pod_text_need(t, ',');
    if (code == POD_OK)
        code = pod_text_integer(t, &pair->target);
    return code == POD_OK ? pod_text_need(t, '}') : code;
}

enum pod_code pod_text_source_target_pairs(struct text *t,
                                           Xla__HloInstructionProto *instr)
{
    return pod_text_messages(t, &xla__source_target__descriptor, values_pair,
                             &instr->n_source_target_pairs,
                             &instr->source_target_pairs);
}

// ----------------------------------------------------- slice, padding, window

// "[start:limit]" or "[start:limit:stride]".
static enum pod_code values_slice_dimension(struct text *t, void *message)
{
    Xla__HloInstructionProto__SliceDimensions *slice = message;
    enum pod_code code = pod_text_need(t, '[');
    slice->stride = 1;
    if (code == POD_OK)
        code = pod_text_integer(t, &slice->start);
    if (code == POD_OK)
        code = pod_text_need(t, ':');
    if (code == POD_OK)
        code = pod_text_integer(t, &slice->limit);
    if (code == POD_OK && pod_text_take(t, ':'))
        code = pod_text_integer(t, &slice->stride);
    return code == POD_OK ? pod_text_need(t, ']') : code;
}

enum pod_code pod_text_slice(struct text *t, Xla__HloInstructionProto *instr)
{
    return pod_text_messages(
        t, &xla__hlo_instruction_proto__slice_dimensions__descriptor,
        values_slice_dimension, &instr->n_slice_dimensions,
        &instr->slice_dimensions);
}

// "low_high" or "low_high_interior".
static enum pod_code values_pad(struct text *t, int64_t *low, int64_t *high,
                                int64_t *interior)
{
    enum pod_code code = pod_text_integer(t, low);
    if (code == POD_OK)
        code = pod_text_need(t, '_');
    if (code == POD_OK)
        code = pod_text_integer(t, high);
    if (code == POD_OK && interior != NULL && pod_text_take_joint(t, '_'))
        code = pod_text_integer(t, interior);
    return code;
}

enum pod_code pod_text_padding(struct text *t, Xla__HloInstructionProto *instr)
{
    size_t base = t->pointers.count;
    enum pod_code code;
    instr->padding_config =
        pod_text_message(t, &xla__padding_config__descriptor);
    if (instr->padding_config == NULL)
        return pod_text_no_memory(t);
    do {
        Xla__PaddingConfig__PaddingConfigDimension *dimension =
            pod_text_message(
                t, &xla__padding_config__padding_config_dimension__descriptor);
        if (dimension == NULL || !pod_text_push_pointer(t, dimension))
            return pod_text_no_memory(t);
        code = values_pad(t, &dimension->edge_padding_low,
                          &dimension->edge_padding_high,
                          &dimension->interior_padding);
    } while (code == POD_OK && pod_text_take_joint(t, 'x'));
    if (code != POD_OK)
        return code;
    return pod_text_pop_pointers(t, base, &instr->padding_config->n_dimensions,
                                 &instr->padding_config->dimensions);
}

static enum pod_code values_window_size(struct text *t, Xla__Window *window)
{
    size_t base = t->pointers.count;
    enum pod_code code;
    do {
        Xla__WindowDimension *dimension =
            pod_text_message(t, &xla__window_dimension__descriptor);
        if (dimension == NULL || !pod_text_push_pointer(t, dimension))
            return pod_text_no_memory(t);
        dimension->stride = 1;
        dimension->window_dilation = 1;
        dimension->base_dilation = 1;
        code = pod_text_integer(t, &dimension->size);
    } while (code == POD_OK && pod_text_take_joint(t, 'x'));
    if (code != POD_OK)
        return code;
    return pod_text_pop_pointers(t, base, &window->n_dimensions,
                                 &window->dimensions);
}

// One of the fields behind the size, for one dimension.
static enum pod_code values_window_field(struct text *t, struct text_span field,
                                         Xla__WindowDimension *dimension)
{
    int64_t reversal = 0;
    enum pod_code code;
    if (pod_text_span_is(field, "stride"))
        return pod_text_integer(t, &dimension->stride);
    if (pod_text_span_is(field, "pad"))
        return values_pad(t, &dimension->padding_low, &dimension->padding_high,
                          NULL);
    if (pod_text_span_is(field, "lhs_dilate"))
        return pod_text_integer(t, &dimension->base_dilation);
    if (pod_text_span_is(field, "rhs_dilate"))
        return pod_text_integer(t, &dimension->window_dilation);
    if (!pod_text_span_is(field, "rhs_reversal"))
        return pod_text_expected(t, "stride, pad, lhs_dilate, rhs_dilate or "
                                    "rhs_reversal as the field");
    code = pod_text_integer(t, &reversal);
    dimension->window_reversal = reversal != 0;
    return code;
}

static enum pod_code values_window_fields(struct text *t, Xla__Window *window)
{
    while (pod_text_peek(t) != '}') {
        struct text_span field = pod_text_word(t);
        enum pod_code code = pod_text_need(t, '=');
        for (size_t i = 0; i < window->n_dimensions && code == POD_OK; i++) {
            if (i > 0)
                code = pod_text_need(t, 'x');
            if (code == POD_OK)
                code = values_window_field(t, field, window->dimensions[i]);
        }
        if (code != POD_OK)
            return code;
    }
    t->at++;
    return POD_OK;
}

enum pod_code pod_text_window(struct text *t, Xla__HloInstructionProto *instr)
{
    enum pod_code code = pod_text_need(t, '{');
    instr->window = pod_text_message(t, &xla__window__descriptor);
    if (instr->window == NULL)
        return pod_text_no_memory(t);
    if (code != POD_OK || pod_text_take(t, '}'))
        return code;
    if (!pod_text_take_word(t, "size") || !pod_text_take(t, '='))
        return pod_text_expected(t, "\"size=\"");
    code = values_window_size(t, instr->window);
    return code == POD_OK ? values_window_fields(t, instr->window) : code;
}

// ----------------------------------------------------------------- dim_labels

// One of the three parts of "b01f_01io->b01f": where its two letters stand, and
// where each spatial dimension does. "?" is a dimension without a use.
static enum pod_code values_labels(struct text *t, const char *letters,
                                   int64_t *first, int64_t *second,
                                   size_t *count, int64_t **spatial)
{
    int64_t places[10];
    size_t start;
    int64_t at = 0;
    size_t seen = 0;
    size_t highest = 0;
    bool letter[2] = {false, false};
    memset(places, 0xff, sizeof(places));
    (void)pod_text_peek(t);
    start = t->at;
    for (; t->at < t->length; t->at++, at++) {
        char c = t->data[t->at];
        if (c == letters[0] || c == letters[1]) {
            *(c == letters[0] ? first : second) = at;
            letter[c == letters[1]] = true;
        } else if (c >= '0' && c <= '9' && places[c - '0'] < 0) {
            places[c - '0'] = at;
            seen++;
            highest = (size_t)(c - '0') + 1 > highest ? (size_t)(c - '0') + 1
                                                      : highest;
        } else if (c != '?') {
            break;
        }
    }
    if (!letter[0] || !letter[1] || highest != seen)
        return pod_text_fail_at(t, start, "dimension labels are incomplete");
    *spatial = pod_hlo_arena_alloc(t->arena, seen, sizeof(**spatial));
    if (*spatial == NULL)
        return pod_text_no_memory(t);
    memcpy(*spatial, places, seen * sizeof(places[0]));
    *count = seen;
    return POD_OK;
}

enum pod_code pod_text_dim_labels(struct text *t,
                                  Xla__HloInstructionProto *instr)
{
    Xla__ConvolutionDimensionNumbers *numbers =
        pod_text_message(t, &xla__convolution_dimension_numbers__descriptor);
    enum pod_code code;
    if (numbers == NULL)
        return pod_text_no_memory(t);
    instr->convolution_dimension_numbers = numbers;
    code = values_labels(t, "bf", &numbers->input_batch_dimension,
                         &numbers->input_feature_dimension,
                         &numbers->n_input_spatial_dimensions,
                         &numbers->input_spatial_dimensions);
    if (code == POD_OK)
        code = pod_text_need(t, '_');
    if (code == POD_OK)
        code = values_labels(t, "io", &numbers->kernel_input_feature_dimension,
                             &numbers->kernel_output_feature_dimension,
                             &numbers->n_kernel_spatial_dimensions,
                             &numbers->kernel_spatial_dimensions);
    if (code == POD_OK && !pod_text_take_string(t, "->"))
        code = pod_text_expected(t, "\"->\"");
    if (code != POD_OK)
        return code;
    return values_labels(t, "bf", &numbers->output_batch_dimension,
                         &numbers->output_feature_dimension,
                         &numbers->n_output_spatial_dimensions,
                         &numbers->output_spatial_dimensions);
}

// ---------------------------------------------------------------- string maps

enum pod_code pod_text_frontend_attributes(struct text *t,
                                           Xla__FrontendAttributes **out)
{
    Xla__FrontendAttributes *map =
        pod_text_message(t, &xla__frontend_attributes__descriptor);
    size_t base = t->pointers.count;
    enum pod_code code = pod_text_need(t, '{');
    if (map == NULL)
        return pod_text_no_memory(t);
    *out = map;
    if (code != POD_OK || pod_text_take(t, '}'))
        return code;
    do {
        Xla__FrontendAttributes__MapEntry *entry = pod_text_message(
            t, &xla__frontend_attributes__map_entry__descriptor);
        struct text_span key = pod_text_word(t);
        ProtobufCBinaryData value = {0, NULL};
        size_t start;
        if (entry == NULL || !pod_text_push_pointer(t, entry))
            return pod_text_no_memory(t);
        entry->key = pod_hlo_arena_text(t->arena, key.text, key.length);
        if (entry->key == NULL)
            return pod_text_no_memory(t);
        code = key.length > 0 ? pod_text_need(t, '=')
                              : pod_text_expected(t, "a key");
        if (code != POD_OK)
            return code;
        start = pod_text_peek(t) == '{' ? t->at : t->length;
        code = start == t->length ? pod_text_string(t, &value)
                                  : pod_text_skip_value(t);
        if (code != POD_OK)
            return code;
        // A dictionary is kept as it is written.
        entry->value =
            start == t->length
                ? (char *)value.data
                : pod_hlo_arena_text(t->arena, t->data + start, t->at - start);
        if (entry->value == NULL)
            return pod_text_no_memory(t);
    } while (pod_text_take(t, ','));
    code = pod_text_need(t, '}');
    if (code != POD_OK)
        return code;
    return pod_text_pop_pointers(t, base, &map->n_map, &map->map);
}

// -------------------------------------------------------------------- aliases

struct values_alias {
    size_t n_output;
    int64_t *output;
    int64_t number;
    size_t n_index;
    int64_t *index;
    int32_t kind;
};

// "{0}: (1, {}, may-alias)"; the kind is optional.
static enum pod_code values_alias(struct text *t, struct values_alias *alias)
{
    enum pod_code code =
        pod_text_int_list(t, '{', '}', &alias->n_output, &alias->output);
    alias->kind = 1;
    if (code == POD_OK)
        code = pod_text_need(t, ':');
    if (code == POD_OK)
        code = pod_text_need(t, '(');
    if (code == POD_OK)
        code = pod_text_integer(t, &alias->number);
    if (code == POD_OK)
        code = pod_text_need(t, ',');
    if (code == POD_OK)
        code = pod_text_int_list(t, '{', '}', &alias->n_index, &alias->index);
    if (code == POD_OK && pod_text_take(t, ',')) {
        if (pod_text_take_word(t, "must-alias"))
            alias->kind = 2;
        else if (!pod_text_take_word(t, "may-alias"))
            return pod_text_expected(t, "may-alias or must-alias");
    }
    return code == POD_OK ? pod_text_need(t, ')') : code;
}

static enum pod_code values_module_alias(struct text *t, void *message)
{
    Xla__HloInputOutputAliasProto__AliasEntryProto *entry = message;
    struct values_alias alias = {.kind = 1};
    enum pod_code code = values_alias(t, &alias);
    entry->n_output_shape_index = alias.n_output;
    entry->output_shape_index = alias.output;
    entry->parameter_number = alias.number;
    entry->n_parameter_shape_index = alias.n_index;
    entry->parameter_shape_index = alias.index;
    entry->kind = alias.kind;
    return code;
}

enum pod_code pod_text_module_aliases(struct text *t,
                                      Xla__HloInputOutputAliasProto **out)
{
    Xla__HloInputOutputAliasProto *list =
        pod_text_message(t, &xla__hlo_input_output_alias_proto__descriptor);
    if (list == NULL)
        return pod_text_no_memory(t);
    *out = list;
    return pod_text_messages(
        t, &xla__hlo_input_output_alias_proto__alias_entry_proto__descriptor,
        values_module_alias, &list->n_entries, &list->entries);
}

static enum pod_code values_operand_alias(struct text *t, void *message)
{
    Xla__OutputOperandAliasing *entry = message;
    struct values_alias alias = {.kind = 1};
    enum pod_code code = values_alias(t, &alias);
    entry->n_output_shape_index = alias.n_output;
    entry->output_shape_index = alias.output;
    entry->operand_index = alias.number;
    entry->n_operand_shape_index = alias.n_index;
    entry->operand_shape_index = alias.index;
    return code;
}

enum pod_code pod_text_operand_aliases(struct text *t,
                                       Xla__HloInstructionProto *instr)
{
    return pod_text_messages(
        t, &xla__output_operand_aliasing__descriptor, values_operand_alias,
        &instr->n_output_operand_aliasing, &instr->output_operand_aliasing);
}
