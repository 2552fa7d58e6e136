// SPDX-License-Identifier: Apache-2.0
// Attributes in text: where each value goes, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/hlo/groups.h"
#include "core/hlo/text.h"
#include "tests/lib/hlo_module.h"

static void test_attribute_errors(void **state)
{
    const char *p = "a = f32[2] parameter(0)\n";
    char body[256];
    (void)state;
    static const struct {
        const char *line;
        int column;
        const char *part;
    } cases[] = {
        {"b = f32[2] negate(a), index=1", 23, "negate has no attribute"},
        {"b = f32[2] negate(a), colour=1", 23, "no attribute \"colour\""},
        {"b = f32[2] negate(a),", 1, "expected an attribute"},
        {"b = f32[2] reverse(a)", 1, "needs the attribute \"dimensions\""},
        {"b = f32[2] reverse(a), dimensions={0}, dimensions={0}", 40,
         "given twice"},
        {"b = f32[2] reverse(a), dimensions=0", 35, "expected \"{\""},
        {"b = f32[2] call(a), to_apply=f", 30, "named \"f\""},
        {"b = f32[1] slice(a), slice={[0:x]}", 32, "expected a number"},
        {"b = f32[4] pad(a, a), padding=1", 1, "expected \"_\""},
        {"b = f32[2] negate(a), control-predecessors={c}", 45, "named \"c\""},
        {"b = f32[2] cholesky(a), lower=1", 31, "true or false"},
        {"b = f32[2] reduce-precision(a), exponent_bits=9999999999, "
         "mantissa_bits=1",
         57, "32 bits"},
        {"b = f32[2] fft(a), fft_type=DFT, fft_length={2}", 29, "FFT, IFFT"},
        {"b = f32[2] custom-call(a), custom_call_target=\"x", 47,
         "does not end"},
        {"b = f32[2] custom-call(a), custom_call_target=\"\\q\"", 49, "escape"},
        {"b = f32[2] custom-call(a), custom_call_target=x", 47, "a string"},
        {"b = f32[2] negate(a), metadata={{op_name=\"x\"", 32, "not closed"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int line =
            cases[i].column == 1 && strstr(cases[i].part, "needs") == NULL ? 3
                                                                           : 2;
        (void)snprintf(body, sizeof(body), "%s%s", p, cases[i].line);
        assert_body_refused(body, line, cases[i].column, cases[i].part);
    }
}

static void test_common_attributes(void **state)
{
    struct pod_hlo_module *module = parse_body(
        "a = f32[2] parameter(0), sharding={replicated}\n"
        "b = f32[2] negate(a), metadata={op_name=\"x}\" source_line=3},\n"
        "  frontend_attributes={k=\"v\"}, backend_config={\"s\": \"}\"},\n"
        "  sharding={devices=[2,1]<=[2]T(0) last_tile_dim_replicate}\n"
        "c = f32[2] negate(b), control-predecessors={a, %b},\n"
        "  sharding={maximal device=1}, backend_config=\"\\x41\\n\\102\"\n"
        "ROOT d = (f32[2], f32[2]) tuple(b, c),\n"
        "  sharding={{devices=[2]1,0}, {manual}}");
    const struct pod_hlo_comp *entry = &module->comps[0];
    const Xla__HloInstructionProto *b = entry->instrs[1].proto;
    const Xla__HloInstructionProto *c = entry->instrs[2].proto;
    const Xla__HloInstructionProto *d = entry->instrs[3].proto;
    (void)state;
    assert_int_equal(entry->instrs[0].proto->sharding->type, 0);
    assert_string_equal(b->frontend_attributes->map[0]->key, "k");
    assert_int_equal(b->backend_config.len, strlen("{\"s\": \"}\"}"));
    assert_int_equal(b->sharding->type, 3);
    assert_int_equal(b->sharding->iota_reshape_dims[0], 2);
    assert_int_equal(b->sharding->n_iota_transpose_perm, 1);
    assert_true(b->sharding->replicate_on_last_tile_dim);
    assert_int_equal(c->n_control_predecessor_ids, 2);
    assert_int_equal(c->control_predecessor_ids[1], b->id);
    assert_memory_equal(c->backend_config.data, "A\nB", 3);
    assert_int_equal(c->sharding->tile_assignment_devices[0], 1);
    assert_int_equal(d->sharding->n_tuple_shardings, 2);
    assert_int_equal(
        d->sharding->tuple_shardings[0]->tile_assignment_devices[0], 1);
    assert_int_equal(d->sharding->tuple_shardings[1]->type, 4);
    pod_hlo_module_free(module);
}

static void test_window_and_labels(void **state)
{
    struct pod_hlo_module *module = parse_body(
        "a = f32[1,8,8,3] parameter(0)\nw = f32[3,3,3,16] parameter(1)\n"
        "ROOT c = f32[1,4,3,16] convolution(a, w),\n"
        "  window={size=3x3 stride=2x3 pad=0_1x-1_2 lhs_dilate=1x2\n"
        "  rhs_dilate=2x1 rhs_reversal=0x1}, dim_labels=b01f_01io->b01f,\n"
        "  feature_group_count=1, operand_precision={high,highest}");
    const Xla__HloInstructionProto *proto = module_root(module)->proto;
    const Xla__WindowDimension *second = proto->window->dimensions[1];
    const Xla__ConvolutionDimensionNumbers *labels =
        proto->convolution_dimension_numbers;
    (void)state;
    assert_int_equal(proto->window->n_dimensions, 2);
    assert_int_equal(proto->window->dimensions[0]->stride, 2);
    assert_int_equal(second->size, 3);
    assert_int_equal(second->stride, 3);
    assert_int_equal(second->padding_low, -1);
    assert_int_equal(second->padding_high, 2);
    assert_int_equal(second->base_dilation, 2);
    assert_int_equal(second->window_dilation, 1);
    assert_true(second->window_reversal);
    assert_int_equal(labels->input_batch_dimension, 0);
    assert_int_equal(labels->input_feature_dimension, 3);
    assert_int_equal(labels->input_spatial_dimensions[1], 2);
    assert_int_equal(labels->kernel_input_feature_dimension, 2);
    assert_int_equal(labels->kernel_output_feature_dimension, 3);
    assert_int_equal(labels->kernel_spatial_dimensions[0], 0);
    assert_int_equal(proto->precision_config->operand_precision[0], 1);
    assert_int_equal(proto->precision_config->operand_precision[1], 2);
    pod_hlo_module_free(module);
}

static void test_padding_and_slice(void **state)
{
    struct pod_hlo_module *module =
        parse_body("a = f32[4,5] parameter(0)\nz = f32[] constant(0)\n"
                   "s = f32[2,5] slice(a), slice={[1:4:2], [0:5]}\n"
                   "p = f32[3,12] pad(s, z), padding=-1_2x1_2_1");
    const Xla__HloInstructionProto *pad = module_root(module)->proto;
    const Xla__HloInstructionProto *slice = module->comps[0].instrs[2].proto;
    (void)state;
    assert_int_equal(slice->slice_dimensions[0]->stride, 2);
    assert_int_equal(slice->slice_dimensions[1]->stride, 1);
    assert_int_equal(pad->padding_config->dimensions[0]->edge_padding_low, -1);
    assert_int_equal(pad->padding_config->dimensions[1]->interior_padding, 1);
    pod_hlo_module_free(module);
}

// A name on the next line is no part of the numbers before it.
static void test_a_name_may_follow_padding(void **state)
{
    struct pod_hlo_module *module =
        parse_body("a = f32[4] parameter(0)\nz = f32[] constant(0)\n"
                   "p = f32[6] pad(a, z), padding=1_1\n"
                   "x1 = f32[6] add(p, p)\n"
                   "q = f32[8] pad(x1, z), padding=1_1\n"
                   "_y = f32[8] add(q, q)");
    (void)state;
    assert_string_equal(module_root(module)->proto->name, "_y");
    pod_hlo_module_free(module);
}

static const char *const add_computation =
    "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] "
    "add(x, y) }\n";

static struct pod_hlo_module *parse_all_reduce(const char *groups)
{
    char text[1024];
    (void)snprintf(text, sizeof(text),
                   "HloModule m\n%sENTRY e { a = f32[2] parameter(0)\n"
                   "b = f32[2] all-reduce(a), to_apply=add, %s }",
                   add_computation, groups);
    return parse_module(text);
}

static void assert_groups(const char *text, int64_t participants, size_t count,
                          const int64_t *ids)
{
    struct pod_hlo_module *module = parse_all_reduce(text);
    struct pod_hlo_groups groups;
    struct pod_err err = POD_ERR_NONE;
    if (pod_hlo_groups_make(module_root(module), participants, &groups, &err) !=
        POD_OK)
        fail_msg("%s", err.text);
    assert_int_equal(groups.count, count);
    assert_int_equal(groups.starts[count], participants);
    assert_memory_equal(groups.ids, ids,
                        (size_t)participants * sizeof(int64_t));
    pod_hlo_groups_fini(&groups);
    pod_hlo_module_free(module);
}

static void test_replica_groups(void **state)
{
    (void)state;
    assert_groups("replica_groups={{0,2},{3,1}}", 4, 2,
                  (int64_t[]){0, 2, 3, 1});
    assert_groups("replica_groups={}", 3, 1, (int64_t[]){0, 1, 2});
    assert_groups("channel_id=1", 2, 1, (int64_t[]){0, 1});
    assert_groups("replica_groups=[2,2]<=[4]", 4, 2, (int64_t[]){0, 1, 2, 3});
    // iota(2,3) is {0 1 2; 3 4 5}; transposed {0 3; 1 4; 2 5}.
    assert_groups("replica_groups=[3,2]<=[2,3]T(1,0)", 6, 3,
                  (int64_t[]){0, 3, 1, 4, 2, 5});
}

static void assert_groups_refused(const char *text, int64_t participants,
                                  const char *part)
{
    struct pod_hlo_module *module = parse_all_reduce(text);
    struct pod_hlo_groups groups;
    struct pod_err err = POD_ERR_NONE;
    assert_int_equal(
        pod_hlo_groups_make(module_root(module), participants, &groups, &err),
        POD_INVALID_ARGUMENT);
    if (strstr(err.text, part) == NULL)
        fail_msg("%s", err.text);
    pod_hlo_module_free(module);
}

static void test_replica_groups_refused(void **state)
{
    (void)state;
    assert_groups_refused("replica_groups={{0,1}}", 4, "2 replicas");
    assert_groups_refused("replica_groups={{0,0}}", 2, "replica 0 twice");
    assert_groups_refused("replica_groups={{0,2}}", 2, "replica 2 of 2");
    assert_groups_refused("replica_groups={{0,-1}}", 2, "replica -1");
    assert_groups_refused("replica_groups=[2,2]<=[4]", 8, "4 replicas");
}

// ------------------------------------------------ opcodes podd only passes on

static void test_generators(void **state)
{
    struct pod_hlo_module *module = parse_body(
        "a = f32[] parameter(0)\nk = u64[2] parameter(1)\n"
        "n = f32[8] rng(a, a), distribution=rng_normal\n"
        "s = u64[2] rng-get-and-update-state(), delta=7\n"
        "r = (u64[2], u32[4]) rng-bit-generator(k), algorithm=rng_philox");
    const struct pod_hlo_comp *entry = &module->comps[0];
    (void)state;
    assert_int_equal(entry->instrs[2].proto->distribution, 2);
    assert_int_equal(entry->instrs[3].proto->delta, 7);
    assert_int_equal(entry->instrs[4].proto->rng_algorithm, 2);
    pod_hlo_module_free(module);
}

static void test_custom_call(void **state)
{
    struct pod_hlo_module *module = parse_body(
        "a = f32[2,2] parameter(0)\n"
        "c = (f32[2,2], s32[]) custom-call(a), custom_call_target=\"my.fn\",\n"
        "  custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI,"
        "\n  schedule=SCHEDULE_EARLIEST, backend_config='x',\n"
        "  operand_layout_constraints={f32[2,2]{0,1}},\n"
        "  output_to_operand_aliasing={{0}: (0, {}), {1}: (3, {2}, may-alias)}"
        "\n");
    const Xla__HloInstructionProto *proto = module_root(module)->proto;
    (void)state;
    assert_string_equal(proto->custom_call_target, "my.fn");
    assert_true(proto->custom_call_has_side_effect);
    assert_int_equal(proto->custom_call_api_version, 4);
    assert_int_equal(proto->custom_call_schedule, 2);
    assert_true(proto->constrain_layout);
    assert_int_equal(
        proto->operand_shapes_with_layout[0]->layout->minor_to_major[0], 0);
    assert_int_equal(proto->n_output_operand_aliasing, 2);
    assert_int_equal(proto->output_operand_aliasing[1]->output_shape_index[0],
                     1);
    assert_int_equal(proto->output_operand_aliasing[1]->operand_index, 3);
    assert_int_equal(proto->output_operand_aliasing[1]->operand_shape_index[0],
                     2);
    assert_int_equal(proto->feature_group_count, 1);
    pod_hlo_module_free(module);
}

static void test_gather_and_scatter(void **state)
{
    char text[1024];
    struct pod_hlo_module *module;
    const Xla__HloInstructionProto *gather;
    const Xla__HloInstructionProto *scatter;
    (void)state;
    (void)snprintf(
        text, sizeof(text),
        "HloModule m\n%sENTRY e { a = f32[5,2] parameter(0)\n"
        "i = s32[3,1] parameter(1)\n"
        "g = f32[3,2] gather(a, i), offset_dims={1}, collapsed_slice_dims={0},"
        " start_index_map={0}, index_vector_dim=1, slice_sizes={1,2},"
        " indices_are_sorted=true, operand_batching_dims={},"
        " start_indices_batching_dims={}\n"
        "ROOT s = f32[5,2] scatter(a, i, g), update_window_dims={1},"
        " inserted_window_dims={0}, scatter_dims_to_operand_dims={0},"
        " index_vector_dim=1, to_apply=add, unique_indices=true }",
        add_computation);
    module = parse_module(text);
    gather = module->comps[1].instrs[2].proto;
    scatter = module_root(module)->proto;
    assert_int_equal(gather->gather_dimension_numbers->offset_dims[0], 1);
    assert_int_equal(gather->gather_dimension_numbers->collapsed_slice_dims[0],
                     0);
    assert_int_equal(gather->gather_dimension_numbers->index_vector_dim, 1);
    assert_int_equal(gather->gather_slice_sizes[1], 2);
    assert_true(gather->indices_are_sorted);
    assert_int_equal(scatter->scatter_dimension_numbers->index_vector_dim, 1);
    assert_int_equal(scatter->scatter_dimension_numbers->update_window_dims[0],
                     1);
    assert_true(scatter->unique_indices);
    assert_int_equal(module_root(module)->called[0], 0);
    pod_hlo_module_free(module);
}

static void test_linear_algebra(void **state)
{
    struct pod_hlo_module *module = parse_body(
        "a = f32[4,4] parameter(0)\n"
        "t = f32[4,4] triangular-solve(a, a), left_side=true, lower=false,"
        " unit_diagonal=true, transpose_a=ADJOINT\n"
        "c = f32[4,4] cholesky(t), lower=true\n"
        "d = f32[4,4] dot(c, a), lhs_contracting_dims={1},"
        " rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32_x3,"
        " operand_precision={highest,default}\n"
        "f = c64[4,3] fft(d), fft_type=RFFT, fft_length={4}\n"
        "p = f32[4,4] reduce-precision(a), exponent_bits=5, mantissa_bits=10\n"
        "v = f32[4] parameter(1)\n"
        "b = (f32[4,4], f32[4], f32[4]) batch-norm-training(p, v, v),"
        " epsilon=0.25, feature_index=1\n"
        "k = (f32[4,2], s32[4,2]) topk(a), k=2, largest=true");
    const struct pod_hlo_comp *entry = &module->comps[0];
    const Xla__TriangularSolveOptions *solve =
        entry->instrs[1].proto->triangular_solve_options;
    const Xla__PrecisionConfig *precision =
        entry->instrs[3].proto->precision_config;
    (void)state;
    assert_true(solve->left_side);
    assert_false(solve->lower);
    assert_true(solve->unit_diagonal);
    assert_int_equal(solve->transpose_a, 3);
    assert_true(entry->instrs[2].proto->cholesky_options->lower);
    assert_int_equal(precision->algorithm, 7);
    assert_int_equal(precision->operand_precision[0], 2);
    assert_int_equal(precision->operand_precision[1], 0);
    assert_int_equal(entry->instrs[4].proto->fft_type, 2);
    assert_int_equal(entry->instrs[5].proto->exponent_bits, 5);
    assert_int_equal(entry->instrs[5].proto->mantissa_bits, 10);
    assert_true(entry->instrs[7].proto->epsilon == 0.25F);
    assert_int_equal(entry->instrs[7].proto->feature_index, 1);
    assert_int_equal(module_root(module)->proto->k, 2);
    assert_true(module_root(module)->proto->largest);
    pod_hlo_module_free(module);
}

static void test_called_computations(void **state)
{
    struct pod_hlo_module *module = parse_module(
        "HloModule m\n"
        "cond { s = s32[] parameter(0) ROOT t = pred[] constant(false) }\n"
        "body { s = s32[] parameter(0) }\n"
        "ENTRY e { s = s32[] parameter(0)\n"
        "w = s32[] while(s), condition=cond, body=body\n"
        "b = s32[] conditional(w, s, s), "
        "branch_computations={%body, body} }\n");
    const struct pod_hlo_comp *entry = &module->comps[2];
    (void)state;
    // The order of the message, not of the text: body, condition.
    assert_int_equal(entry->instrs[1].called[0], 1);
    assert_int_equal(entry->instrs[1].called[1], 0);
    assert_int_equal(module_root(module)->called_count, 2);
    assert_int_equal(module_root(module)->called[1], 1);
    pod_hlo_module_free(module);
}

static void test_infeed(void **state)
{
    struct pod_hlo_module *module =
        parse_body("t = token[] after-all()\n"
                   "i = (f32[2], token[]) infeed(t), infeed_config=\"in\"\n"
                   "d = f32[2] get-tuple-element(i), index=0\n"
                   "o = token[] outfeed(d, t), outfeed_config=\"out\", "
                   "outfeed_shape=f32[2]{0}");
    const Xla__HloInstructionProto *out = module_root(module)->proto;
    (void)state;
    assert_memory_equal(module->comps[0].instrs[1].proto->infeed_config.data,
                        "in", 2);
    assert_int_equal(out->outfeed_config.len, 3);
    assert_int_equal(out->outfeed_shape->dimensions[0], 2);
    pod_hlo_module_free(module);
}

static void test_value_errors(void **state)
{
    static const struct {
        const char *line;
        const char *part;
    } cases[] = {
        {"all-gather(a), dimensions={0}, replica_groups=[2]<=[2]", "two sizes"},
        {"all-gather(a), dimensions={0}, replica_groups=[1,2][2]", "\"<=\""},
        {"all-gather(a), dimensions={0}, replica_groups=[1,2]<=[2]T(-1)",
         "not a permutation"},
        {"all-gather(a), dimensions={0}, replica_groups=3", "replica groups"},
        {"convolution(a, a), dim_labels=b01f_01io", "\"->\""},
        {"convolution(a, a), dim_labels=b02f_01io->b01f", "incomplete"},
        {"convolution(a, a), dim_labels=b01_01io->b01f", "incomplete"},
        {"convolution(a, a), window={stride=1}, dim_labels=bf_io->bf",
         "\"size=\""},
        {"convolution(a, a), window={size=1x1 stride=1}, dim_labels=bf_io->bf",
         "expected \"x\""},
        {"convolution(a, a), window={size=1 hop=1}, dim_labels=bf_io->bf",
         "stride, pad"},
        {"dot(a, a), operand_precision={low}", "default, high or highest"},
        {"dot(a, a), operand_precision={high,high,high,high,high,high,high,"
         "high,high}",
         "expected \"}\""},
        {"dot(a, a), algorithm=fast", "an algorithm"},
        {"fusion(a), kind=, calls=f", "a word"},
        {"compare(a, a), direction=", "a word"},
        {"negate(a), frontend_attributes={=\"x\"}", "a key"},
        {"negate(a), frontend_attributes={k=x}", "a string"},
        {"negate(a), sharding={maximal}", "\"device=\""},
        {"custom-call(a), custom_call_target=\"f\", "
         "output_to_operand_aliasing={{}: (0, {}, never)}",
         "may-alias or must-alias"},
        {"conditional(a), branch_computations={f}", "named \"f\""},
        {"negate(a), metadata={op=\"x", "string does not end"},
        {"negate(a), metadata=\"x", "string does not end"},
        {"negate(a), metadata=", "a value"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        struct pod_hlo_module *module = NULL;
        struct pod_err err = POD_ERR_NONE;
        (void)snprintf(text, sizeof(text),
                       "HloModule m\ne { a = f32[2] parameter(0)\n"
                       "b = f32[2] %s }",
                       cases[i].line);
        assert_int_equal(pod_hlo_parse_text(text, strlen(text), &module, &err),
                         POD_INVALID_ARGUMENT);
        if (err.line != 3 || strstr(err.text, cases[i].part) == NULL)
            fail_msg("%s: %d: %s", cases[i].line, err.line, err.text);
    }
}

static void test_unsupported_values(void **state)
{
    (void)state;
    assert_body_unsupported("a = f32[2] parameter(0)\nb = f32[4] "
                            "all-gather(a), dimensions={0}, "
                            "replica_groups=@mesh",
                            "mesh axes");
    assert_body_unsupported("a = f32[2] parameter(0), "
                            "sharding={replicated metadata={}}",
                            "part of a sharding");
}

static int nothing_left(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attribute_errors),
        cmocka_unit_test(test_common_attributes),
        cmocka_unit_test(test_window_and_labels),
        cmocka_unit_test(test_padding_and_slice),
        cmocka_unit_test(test_a_name_may_follow_padding),
        cmocka_unit_test(test_replica_groups),
        cmocka_unit_test(test_replica_groups_refused),
        cmocka_unit_test(test_generators),
        cmocka_unit_test(test_custom_call),
        cmocka_unit_test(test_gather_and_scatter),
        cmocka_unit_test(test_linear_algebra),
        cmocka_unit_test(test_called_computations),
        cmocka_unit_test(test_infeed),
        cmocka_unit_test(test_value_errors),
        cmocka_unit_test(test_unsupported_values),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
