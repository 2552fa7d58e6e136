// SPDX-License-Identifier: Apache-2.0
// Which attributes there are, how each is read and where its value goes; and
// which opcodes take it.
#include "core/hlo/text_attrs.h"

#include <stddef.h>
#include <string.h>

// ---------------------------------------------------- which opcode takes what

const char *const pod_text_attr_taken[POD_OP_COUNT] = {
    [POD_OP_ALL_GATHER] = "!dimensions replica_groups channel_id "
                          "constrain_layout use_global_device_ids mode",
    [POD_OP_ALL_GATHER_START] = "!dimensions replica_groups channel_id "
                                "constrain_layout use_global_device_ids mode",
    [POD_OP_ALL_REDUCE] = "!to_apply replica_groups channel_id "
                          "constrain_layout use_global_device_ids mode",
    [POD_OP_ALL_REDUCE_START] = "!to_apply replica_groups channel_id "
                                "constrain_layout use_global_device_ids mode",
    [POD_OP_ALL_TO_ALL] = "dimensions replica_groups channel_id "
                          "constrain_layout",
    [POD_OP_ASYNC_DONE] = "calls async_execution_thread",
    [POD_OP_ASYNC_START] = "!calls async_execution_thread "
                           "output_to_operand_aliasing",
    [POD_OP_ASYNC_UPDATE] = "calls async_execution_thread",
    [POD_OP_BATCH_NORM_GRAD] = "!epsilon !feature_index",
    [POD_OP_BATCH_NORM_INFERENCE] = "!epsilon !feature_index",
    [POD_OP_BATCH_NORM_TRAINING] = "!epsilon !feature_index",
    [POD_OP_BITCAST] = "result_accuracy",
    [POD_OP_BROADCAST] = "dimensions",
    [POD_OP_CALL] = "!to_apply is_composite output_to_operand_aliasing",
    [POD_OP_CBRT] = "result_accuracy",
    [POD_OP_CHOLESKY] = "lower",
    [POD_OP_COLLECTIVE_BROADCAST] = "replica_groups channel_id",
    [POD_OP_COLLECTIVE_PERMUTE] = "!source_target_pairs channel_id",
    [POD_OP_COLLECTIVE_PERMUTE_START] = "!source_target_pairs channel_id",
    [POD_OP_COMPARE] = "!direction type",
    [POD_OP_CONCATENATE] = "!dimensions",
    [POD_OP_CONDITIONAL] = "true_computation false_computation "
                           "branch_computations",
    [POD_OP_CONVOLUTION] = "window !dim_labels feature_group_count "
                           "batch_group_count operand_precision algorithm",
    [POD_OP_COSINE] = "result_accuracy",
    [POD_OP_CUSTOM_CALL] =
        "!custom_call_target window dim_labels feature_group_count "
        "batch_group_count operand_layout_constraints "
        "custom_call_has_side_effect to_apply called_computations "
        "output_to_operand_aliasing operand_precision schedule api_version",
    [POD_OP_DOT] = "lhs_contracting_dims rhs_contracting_dims lhs_batch_dims "
                   "rhs_batch_dims operand_precision algorithm",
    [POD_OP_DYNAMIC_SLICE] = "!dynamic_slice_sizes",
    [POD_OP_ERF] = "result_accuracy",
    [POD_OP_EXPONENTIAL] = "result_accuracy",
    [POD_OP_EXPONENTIAL_MINUS_ONE] = "result_accuracy",
    [POD_OP_FFT] = "!fft_type !fft_length",
    [POD_OP_FUSION] = "!kind !calls output_to_operand_aliasing",
    [POD_OP_GATHER] = "!offset_dims !collapsed_slice_dims !start_index_map "
                      "!index_vector_dim !slice_sizes indices_are_sorted "
                      "operand_batching_dims start_indices_batching_dims",
    [POD_OP_GET_DIMENSION_SIZE] = "!dimensions",
    [POD_OP_GET_TUPLE_ELEMENT] = "!index",
    [POD_OP_INFEED] = "infeed_config",
    [POD_OP_IOTA] = "!iota_dimension",
    [POD_OP_LOG] = "result_accuracy",
    [POD_OP_LOG_PLUS_ONE] = "result_accuracy",
    [POD_OP_LOGISTIC] = "result_accuracy",
    [POD_OP_MAP] = "!to_apply dimensions",
    [POD_OP_OUTFEED] = "outfeed_config outfeed_shape",
    [POD_OP_PAD] = "!padding",
    [POD_OP_PARAMETER] = "",
    [POD_OP_RAGGED_ALL_TO_ALL] = "replica_groups channel_id",
    [POD_OP_RECV] = "channel_id is_host_transfer",
    [POD_OP_RECV_DONE] = "channel_id is_host_transfer",
    [POD_OP_REDUCE] = "!dimensions !to_apply",
    [POD_OP_REDUCE_PRECISION] = "!exponent_bits !mantissa_bits",
    [POD_OP_REDUCE_SCATTER] = "!to_apply !dimensions replica_groups "
                              "channel_id constrain_layout "
                              "use_global_device_ids mode",
    [POD_OP_REDUCE_WINDOW] = "window !to_apply",
    [POD_OP_RESHAPE] = "inferred_dimension",
    [POD_OP_REVERSE] = "!dimensions",
    [POD_OP_RNG] = "!distribution",
    [POD_OP_RNG_BIT_GENERATOR] = "!algorithm",
    [POD_OP_RNG_GET_AND_UPDATE_STATE] = "!delta",
    [POD_OP_RSQRT] = "result_accuracy",
    [POD_OP_SCALED_DOT] = "lhs_contracting_dims rhs_contracting_dims "
                          "lhs_batch_dims rhs_batch_dims operand_precision "
                          "algorithm",
    [POD_OP_SCAN] = "!to_apply !dimensions !num_carries is_reverse "
                    "is_associative",
    [POD_OP_SCATTER] =
        "!update_window_dims !inserted_window_dims "
        "!scatter_dims_to_operand_dims !index_vector_dim !to_apply "
        "indices_are_sorted unique_indices input_batching_dims "
        "scatter_indices_batching_dims",
    [POD_OP_SELECT_AND_SCATTER] = "!select !scatter window",
    [POD_OP_SEND] = "channel_id is_host_transfer",
    [POD_OP_SEND_DONE] = "channel_id is_host_transfer",
    [POD_OP_SET_DIMENSION_SIZE] = "!dimensions",
    [POD_OP_SINE] = "result_accuracy",
    [POD_OP_SLICE] = "!slice",
    [POD_OP_SORT] = "!dimensions !to_apply is_stable",
    [POD_OP_SQRT] = "result_accuracy",
    [POD_OP_TAN] = "result_accuracy",
    [POD_OP_TANH] = "result_accuracy",
    [POD_OP_TOPK] = "!k largest is_stable",
    [POD_OP_TRANSPOSE] = "!dimensions",
    [POD_OP_TRIANGULAR_SOLVE] = "left_side lower unit_diagonal transpose_a",
    [POD_OP_WHILE] = "!condition !body",
};

const char pod_text_attr_everywhere[] =
    "sharding frontend_attributes statistics parameter_replication "
    "control-predecessors origin metadata backend_config";

// ------------------------------------------------- values with functions here

static enum pod_code attrs_slice(struct attrs_value *v)
{
    return pod_text_slice(v->t, v->instr->proto);
}

static enum pod_code attrs_padding(struct attrs_value *v)
{
    return pod_text_padding(v->t, v->instr->proto);
}

static enum pod_code attrs_window(struct attrs_value *v)
{
    return pod_text_window(v->t, v->instr->proto);
}

static enum pod_code attrs_dim_labels(struct attrs_value *v)
{
    return pod_text_dim_labels(v->t, v->instr->proto);
}

static enum pod_code attrs_replica_groups(struct attrs_value *v)
{
    return pod_text_replica_groups(v->t, v->instr->proto);
}

static enum pod_code attrs_source_target_pairs(struct attrs_value *v)
{
    return pod_text_source_target_pairs(v->t, v->instr->proto);
}

static enum pod_code attrs_sharding(struct attrs_value *v)
{
    return pod_text_sharding(v->t, &v->instr->proto->sharding);
}

static enum pod_code attrs_frontend(struct attrs_value *v)
{
    return pod_text_frontend_attributes(v->t,
                                        &v->instr->proto->frontend_attributes);
}

static enum pod_code attrs_aliasing(struct attrs_value *v)
{
    return pod_text_operand_aliases(v->t, v->instr->proto);
}

// A word that stands for a number.
struct attrs_word {
    const char *word;
    int32_t number;
};

static enum pod_code attrs_enum(struct attrs_value *v, const char *what,
                                const struct attrs_word *words, size_t count,
                                int32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        if (pod_text_take_word(v->t, words[i].word)) {
            *out = words[i].number;
            return POD_OK;
        }
    }
    return pod_text_expected(v->t, what);
}

#define ATTRS_ENUM(v, what, words, out)                                        \
    attrs_enum((v), (what), (words), sizeof(words) / sizeof((words)[0]), (out))

static enum pod_code attrs_fft_type(struct attrs_value *v)
{
    static const struct attrs_word words[] = {
        {"FFT", 0}, {"IFFT", 1}, {"RFFT", 2}, {"IRFFT", 3}};
    return ATTRS_ENUM(v, "FFT, IFFT, RFFT or IRFFT", words,
                      &v->instr->proto->fft_type);
}

static enum pod_code attrs_distribution(struct attrs_value *v)
{
    static const struct attrs_word words[] = {{"rng_uniform", 1},
                                              {"rng_normal", 2}};
    return ATTRS_ENUM(v, "rng_uniform or rng_normal", words,
                      &v->instr->proto->distribution);
}

static enum pod_code attrs_schedule(struct attrs_value *v)
{
    static const struct attrs_word words[] = {
        {"SCHEDULE_NONE", 0}, {"SCHEDULE_LATEST", 1}, {"SCHEDULE_EARLIEST", 2}};
    return ATTRS_ENUM(v, "a schedule", words,
                      &v->instr->proto->custom_call_schedule);
}

static enum pod_code attrs_api_version(struct attrs_value *v)
{
    static const struct attrs_word words[] = {
        {"API_VERSION_UNSPECIFIED", 0},
        {"API_VERSION_ORIGINAL", 1},
        {"API_VERSION_STATUS_RETURNING", 2},
        {"API_VERSION_STATUS_RETURNING_UNIFIED", 3},
        {"API_VERSION_TYPED_FFI", 4}};
    return ATTRS_ENUM(v, "an API version", words,
                      &v->instr->proto->custom_call_api_version);
}

static enum pod_code attrs_transpose_a(struct attrs_value *v)
{
    static const struct attrs_word words[] = {
        {"NO_TRANSPOSE", 1}, {"TRANSPOSE", 2}, {"ADJOINT", 3}};
    return ATTRS_ENUM(v, "NO_TRANSPOSE, TRANSPOSE or ADJOINT", words,
                      &v->instr->proto->triangular_solve_options->transpose_a);
}

static enum pod_code attrs_associative(struct attrs_value *v)
{
    static const struct attrs_word words[] = {{"true", 1}, {"false", 2}};
    return ATTRS_ENUM(v, "true or false", words,
                      &v->instr->proto->is_associative);
}

static Xla__PrecisionConfig *attrs_precision(struct attrs_value *v)
{
    Xla__HloInstructionProto *proto = v->instr->proto;
    if (proto->precision_config == NULL)
        proto->precision_config =
            pod_text_message(v->t, &xla__precision_config__descriptor);
    return proto->precision_config;
}

// Of a dot how to multiply, of a generator how to make bits.
static enum pod_code attrs_algorithm(struct attrs_value *v)
{
    static const struct attrs_word rngs[] = {
        {"rng_default", 0}, {"rng_three_fry", 1}, {"rng_philox", 2}};
    static const struct attrs_word dots[] = {
        {"unset", 0},
        {"dot_any_f8_any_f8_f32", 1},
        {"dot_any_f8_any_f8_f32_fast_accum", 2},
        {"dot_f16_f16_f16", 3},
        {"dot_f16_f16_f32", 4},
        {"dot_bf16_bf16_bf16", 5},
        {"dot_bf16_bf16_f32", 6},
        {"dot_bf16_bf16_f32_x3", 7},
        {"dot_bf16_bf16_f32_x6", 8},
        {"dot_tf32_tf32_f32", 9},
        {"dot_tf32_tf32_f32_x3", 10},
        {"dot_f32_f32_f32", 11},
        {"dot_f64_f64_f64", 12},
        {"dot_bf16_bf16_f32_x9", 13}};
    if (v->opcode == POD_OP_RNG_BIT_GENERATOR)
        return ATTRS_ENUM(v, "a generator", rngs,
                          &v->instr->proto->rng_algorithm);
    if (attrs_precision(v) == NULL)
        return pod_text_no_memory(v->t);
    return ATTRS_ENUM(v, "an algorithm", dots,
                      &v->instr->proto->precision_config->algorithm);
}

static enum pod_code attrs_operand_precision(struct attrs_value *v)
{
    static const struct attrs_word words[] = {
        {"default", 0}, {"highest", 2}, {"high", 1}};
    Xla__PrecisionConfig *config = attrs_precision(v);
    int32_t found[8];
    size_t count = 0;
    enum pod_code code = pod_text_need(v->t, '{');
    if (config == NULL)
        return pod_text_no_memory(v->t);
    do {
        if (count == sizeof(found) / sizeof(found[0]))
            return pod_text_expected(v->t, "\"}\"");
        if (code == POD_OK)
            code =
                ATTRS_ENUM(v, "default, high or highest", words, &found[count]);
        count++;
    } while (code == POD_OK && pod_text_take(v->t, ','));
    if (code == POD_OK)
        code = pod_text_need(v->t, '}');
    if (code != POD_OK)
        return code;
    config->operand_precision =
        pod_hlo_arena_alloc(v->t->arena, count, sizeof(found[0]));
    if (config->operand_precision == NULL)
        return pod_text_no_memory(v->t);
    config->n_operand_precision = count;
    memcpy(config->operand_precision, found, count * sizeof(found[0]));
    return POD_OK;
}

static enum pod_code attrs_epsilon(struct attrs_value *v)
{
    double value;
    uint64_t payload;
    enum pod_code code = pod_text_double(v->t, &value, &payload);
    if (code == POD_OK)
        v->instr->proto->epsilon = (float)value;
    return code;
}

// Two opcodes have one, in messages of their own.
static enum pod_code attrs_lower(struct attrs_value *v)
{
    Xla__HloInstructionProto *proto = v->instr->proto;
    bool lower = false;
    enum pod_code code = pod_text_bool(v->t, &lower);
    if (v->opcode == POD_OP_TRIANGULAR_SOLVE) {
        proto->triangular_solve_options->lower = lower;
        return code;
    }
    proto->cholesky_options =
        pod_text_message(v->t, &xla__cholesky_options__descriptor);
    if (proto->cholesky_options == NULL)
        return pod_text_no_memory(v->t);
    proto->cholesky_options->lower = lower;
    return code;
}

static enum pod_code attrs_index_vector_dim(struct attrs_value *v)
{
    Xla__HloInstructionProto *proto = v->instr->proto;
    if (v->opcode == POD_OP_SCATTER)
        return pod_text_integer(
            v->t, &proto->scatter_dimension_numbers->index_vector_dim);
    return pod_text_integer(v->t,
                            &proto->gather_dimension_numbers->index_vector_dim);
}

static enum pod_code attrs_outfeed_shape(struct attrs_value *v)
{
    const struct pod_shape *shape;
    enum pod_code code = pod_text_shape(v->t, &shape);
    if (code != POD_OK)
        return code;
    v->instr->proto->outfeed_shape =
        pod_hlo_arena_shape_proto(v->t->arena, shape);
    return v->instr->proto->outfeed_shape == NULL ? pod_text_no_memory(v->t)
                                                  : POD_OK;
}

// "{f32[2]{0}, s32[]}": the layouts a custom call wants for its operands.
static enum pod_code attrs_layout_constraints(struct attrs_value *v)
{
    size_t base = v->t->pointers.count;
    enum pod_code code = pod_text_need(v->t, '{');
    v->instr->proto->constrain_layout = true;
    if (code != POD_OK || pod_text_take(v->t, '}'))
        return code;
    do {
        const struct pod_shape *shape;
        Xla__ShapeProto *proto;
        code = pod_text_shape(v->t, &shape);
        if (code != POD_OK)
            return code;
        proto = pod_hlo_arena_shape_proto(v->t->arena, shape);
        if (proto == NULL || !pod_text_push_pointer(v->t, proto))
            return pod_text_no_memory(v->t);
    } while (pod_text_take(v->t, ','));
    code = pod_text_need(v->t, '}');
    if (code != POD_OK)
        return code;
    return pod_text_pop_pointers(v->t, base,
                                 &v->instr->proto->n_operand_shapes_with_layout,
                                 &v->instr->proto->operand_shapes_with_layout);
}

static enum pod_code attrs_predecessors(struct attrs_value *v)
{
    struct text *t = v->t;
    const struct text_instr *instrs = t->instrs.items;
    size_t base = t->ints.count;
    enum pod_code code = pod_text_need(t, '{');
    if (code != POD_OK || pod_text_take(t, '}'))
        return code;
    do {
        struct text_span name;
        uint32_t position;
        size_t at;
        (void)pod_text_peek(t);
        at = t->at;
        code = pod_text_name(t, "an instruction", &name);
        if (code != POD_OK)
            return code;
        if (!pod_hlo_names_find(&t->names, name.text, name.length, &position))
            return pod_text_fail_at(t, at,
                                    "no instruction before this one is "
                                    "named \"%.*s\"",
                                    (int)(name.length < 64 ? name.length : 64),
                                    name.text);
        if (!pod_text_push_int(t, instrs[position].proto->id))
            return pod_text_no_memory(t);
    } while (pod_text_take(t, ','));
    code = pod_text_need(t, '}');
    if (code != POD_OK)
        return code;
    return pod_text_pop_ints(t, base,
                             &v->instr->proto->n_control_predecessor_ids,
                             &v->instr->proto->control_predecessor_ids);
}

// A string, or a dictionary that is kept as it is written.
static enum pod_code attrs_backend_config(struct attrs_value *v)
{
    struct text *t = v->t;
    ProtobufCBinaryData *config = &v->instr->proto->backend_config;
    size_t start;
    enum pod_code code;
    if (pod_text_peek(t) != '{')
        return pod_text_string(t, config);
    start = t->at;
    code = pod_text_skip_value(t);
    if (code != POD_OK)
        return code;
    config->len = t->at - start;
    config->data =
        (uint8_t *)pod_hlo_arena_text(t->arena, t->data + start, config->len);
    return config->data == NULL ? pod_text_no_memory(t) : POD_OK;
}

// "{%a, %b}": all the computations an instruction calls.
static enum pod_code attrs_computations(struct attrs_value *v)
{
    size_t base = v->t->ints.count;
    enum pod_code code = pod_text_need(v->t, '{');
    if (code != POD_OK || pod_text_take(v->t, '}'))
        return code;
    do {
        int64_t id;
        code = pod_text_computation_id(v->t, &id);
        if (code != POD_OK)
            return code;
        if (!pod_text_push_int(v->t, id))
            return pod_text_no_memory(v->t);
    } while (pod_text_take(v->t, ','));
    code = pod_text_need(v->t, '}');
    if (code != POD_OK)
        return code;
    return pod_text_pop_ints(v->t, base, &v->n_called, &v->called_list);
}

// ------------------------------------------------------------------ the table

#define FIELD(field) offsetof(Xla__HloInstructionProto, field)
#define PLAIN(name, kind, field)                                               \
    {                                                                          \
        name, kind, FIELD(field), 0, 0, NULL, NULL                             \
    }
#define INTS(name, kind, field)                                                \
    {                                                                          \
        name, kind, FIELD(field), FIELD(n_##field), 0, NULL, NULL              \
    }
#define NESTED(name, kind, struct, field, message, type)                       \
    {                                                                          \
        name, kind, offsetof(struct, field), 0, FIELD(message), &type, NULL    \
    }
#define NESTED_INTS(name, struct, field, message, type)                        \
    {                                                                          \
        name, ATTRS_INTS, offsetof(struct, field),                             \
            offsetof(struct, n_##field), FIELD(message), &type, NULL           \
    }
#define DOT_INTS(name, field)                                                  \
    NESTED_INTS(name, Xla__DotDimensionNumbers, field, dot_dimension_numbers,  \
                xla__dot_dimension_numbers__descriptor)
#define GATHER_INTS(field)                                                     \
    NESTED_INTS(#field, Xla__GatherDimensionNumbers, field,                    \
                gather_dimension_numbers,                                      \
                xla__gather_dimension_numbers__descriptor)
#define SCATTER_INTS(field)                                                    \
    NESTED_INTS(#field, Xla__ScatterDimensionNumbers, field,                   \
                scatter_dimension_numbers,                                     \
                xla__scatter_dimension_numbers__descriptor)
#define SOLVE_BOOL(field)                                                      \
    NESTED(#field, ATTRS_BOOL, Xla__TriangularSolveOptions, field,             \
           triangular_solve_options,                                           \
           xla__triangular_solve_options__descriptor)
#define CALLS(name, position)                                                  \
    {                                                                          \
        name, ATTRS_COMPUTATION, position, 0, 0, NULL, NULL                    \
    }
#define SKIP(name)                                                             \
    {                                                                          \
        name, ATTRS_SKIP, 0, 0, 0, NULL, NULL                                  \
    }
#define OWN(name, function)                                                    \
    {                                                                          \
        name, ATTRS_OWN, 0, 0, 0, NULL, function                               \
    }

// Positions of called computations are XLA's: while has body, condition.
const struct attrs_rule pod_text_attr_rules[TEXT_ATTR_COUNT] = {
    INTS("dimensions", ATTRS_INTS, dimensions),
    CALLS("to_apply", 0),
    PLAIN("index", ATTRS_INT, tuple_index),
    PLAIN("direction", ATTRS_WORD, comparison_direction),
    SKIP("metadata"),
    OWN("slice", attrs_slice),
    DOT_INTS("lhs_contracting_dims", lhs_contracting_dimensions),
    DOT_INTS("rhs_contracting_dims", rhs_contracting_dimensions),
    DOT_INTS("lhs_batch_dims", lhs_batch_dimensions),
    DOT_INTS("rhs_batch_dims", rhs_batch_dimensions),
    INTS("iota_dimension", ATTRS_ONE_INT, dimensions),
    INTS("inferred_dimension", ATTRS_ONE_INT, dimensions),
    CALLS("body", 0),
    CALLS("condition", 1),
    CALLS("select", 0),
    CALLS("scatter", 1),
    CALLS("true_computation", 0),
    CALLS("false_computation", 1),
    CALLS("calls", 0),
    OWN("branch_computations", attrs_computations),
    OWN("called_computations", attrs_computations),
    OWN("padding", attrs_padding),
    OWN("window", attrs_window),
    OWN("dim_labels", attrs_dim_labels),
    OWN("replica_groups", attrs_replica_groups),
    OWN("source_target_pairs", attrs_source_target_pairs),
    PLAIN("channel_id", ATTRS_INT, channel_id),
    PLAIN("use_global_device_ids", ATTRS_BOOL, use_global_device_ids),
    PLAIN("constrain_layout", ATTRS_BOOL, constrain_layout),
    SKIP("mode"),
    PLAIN("type", ATTRS_WORD, comparison_type),
    PLAIN("kind", ATTRS_WORD, fusion_kind),
    INTS("dynamic_slice_sizes", ATTRS_INTS, dynamic_slice_sizes),
    PLAIN("is_stable", ATTRS_BOOL, is_stable),
    PLAIN("indices_are_sorted", ATTRS_BOOL, indices_are_sorted),
    PLAIN("unique_indices", ATTRS_BOOL, unique_indices),
    GATHER_INTS(offset_dims),
    GATHER_INTS(collapsed_slice_dims),
    GATHER_INTS(start_index_map),
    GATHER_INTS(operand_batching_dims),
    GATHER_INTS(start_indices_batching_dims),
    INTS("slice_sizes", ATTRS_INTS, gather_slice_sizes),
    SCATTER_INTS(update_window_dims),
    SCATTER_INTS(inserted_window_dims),
    SCATTER_INTS(scatter_dims_to_operand_dims),
    SCATTER_INTS(input_batching_dims),
    SCATTER_INTS(scatter_indices_batching_dims),
    OWN("index_vector_dim", attrs_index_vector_dim),
    OWN("fft_type", attrs_fft_type),
    INTS("fft_length", ATTRS_INTS, fft_length),
    SOLVE_BOOL(left_side),
    SOLVE_BOOL(unit_diagonal),
    OWN("transpose_a", attrs_transpose_a),
    OWN("lower", attrs_lower),
    PLAIN("exponent_bits", ATTRS_INT32, exponent_bits),
    PLAIN("mantissa_bits", ATTRS_INT32, mantissa_bits),
    OWN("epsilon", attrs_epsilon),
    PLAIN("feature_index", ATTRS_INT, feature_index),
    OWN("distribution", attrs_distribution),
    OWN("algorithm", attrs_algorithm),
    OWN("operand_precision", attrs_operand_precision),
    SKIP("result_accuracy"),
    PLAIN("delta", ATTRS_INT, delta),
    PLAIN("k", ATTRS_INT, k),
    PLAIN("largest", ATTRS_BOOL, largest),
    PLAIN("num_carries", ATTRS_INT, num_carries),
    PLAIN("is_reverse", ATTRS_BOOL, is_reverse),
    OWN("is_associative", attrs_associative),
    PLAIN("is_composite", ATTRS_BOOL, is_composite),
    PLAIN("is_host_transfer", ATTRS_BOOL, is_host_transfer),
    PLAIN("infeed_config", ATTRS_BYTES, infeed_config),
    PLAIN("outfeed_config", ATTRS_BYTES, outfeed_config),
    OWN("outfeed_shape", attrs_outfeed_shape),
    PLAIN("custom_call_target", ATTRS_STRING, custom_call_target),
    PLAIN("custom_call_has_side_effect", ATTRS_BOOL,
          custom_call_has_side_effect),
    OWN("schedule", attrs_schedule),
    OWN("api_version", attrs_api_version),
    OWN("operand_layout_constraints", attrs_layout_constraints),
    OWN("output_to_operand_aliasing", attrs_aliasing),
    PLAIN("feature_group_count", ATTRS_INT, feature_group_count),
    PLAIN("batch_group_count", ATTRS_INT, batch_group_count),
    PLAIN("async_execution_thread", ATTRS_STRING, async_execution_thread),
    OWN("sharding", attrs_sharding),
    OWN("frontend_attributes", attrs_frontend),
    OWN("control-predecessors", attrs_predecessors),
    OWN("backend_config", attrs_backend_config),
    SKIP("statistics"),
    SKIP("parameter_replication"),
    SKIP("origin"),
};
