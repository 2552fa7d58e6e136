// SPDX-License-Identifier: Apache-2.0
// The verifier's rules for what calls computations, and for collectives: for
// each opcode programs that pass, and one for each thing that can be wrong with
// it, made from a sound one by a small change.
#include "tests/unit/hlo_verify.h"

static void test_reduce(void **state)
{
    (void)state;
    assert_sound("f32[2] reduce(m, s), dimensions={1}, to_apply=addf");
    assert_sound("f32[] reduce(m, s), dimensions={0,1}, to_apply=addf");
    assert_sound("(f32[], s32[]) reduce(f, i, s, j), dimensions={0}, "
                 "to_apply=both");
    assert_wrong("f32[3] reduce(m, s), dimensions={1}, to_apply=addf",
                 "is f32[2]");
    assert_wrong("f32[2] reduce(m, s), dimensions={2}, to_apply=addf",
                 "out of range");
    assert_wrong("f32[2] reduce(m, s), dimensions={1}, to_apply=addi",
                 "a parameter of computation \"addi\" is s32[], not f32[]");
    assert_wrong("f32[2] reduce(m, s), dimensions={1}, to_apply=less",
                 "the result of computation \"less\" is pred[]");
    assert_wrong("f32[2] reduce(m, s), dimensions={1}, to_apply=inc",
                 "takes 1 parameters, not 2");
    assert_wrong("f32[2] reduce(m, f), dimensions={1}, to_apply=addf",
                 "operand 1 must be a scalar");
    assert_wrong("f32[2] reduce(m, m, s), dimensions={1}, to_apply=addf",
                 "as many");
    assert_wrong("f32[] reduce(f, i, s, j), dimensions={0}, to_apply=both",
                 "not a tuple of 2");
    assert_wrong("(f32[], f32[]) reduce(f, i, s, j), dimensions={0}, "
                 "to_apply=both",
                 "part 1 of the result is f32[], not s32[]");
    assert_wrong("(f32[], s32[]) reduce(f, i, s, j), dimensions={0}, "
                 "to_apply=less2",
                 "a parameter of computation \"less2\" is f32[], not s32[]");
    assert_wrong("(f32[], f32[]) reduce(f, m, s, s), dimensions={0}, "
                 "to_apply=both",
                 "differ in dimensions");
    assert_unsupported("f32[] reduce(h, s), dimensions={0}, to_apply=addf",
                       "f16 into f32");
}

static void test_map_and_sort(void **state)
{
    (void)state;
    assert_sound("f32[4] map(f, g), dimensions={0}, to_apply=addf");
    assert_sound("pred[4] map(f, g), to_apply=less");
    assert_sound("f32[4] sort(f), dimensions={0}, to_apply=less");
    assert_sound("(f32[4], s32[4]) sort(f, i), dimensions={0}, "
                 "to_apply=less2");
    assert_wrong("f32[4] map(f, i), to_apply=addf", "is f32[], not s32[]");
    assert_wrong("f32[4] map(f, m), to_apply=addf", "differ in dimensions");
    assert_wrong("f32[4] map(f, g), to_apply=less", "is pred[4]");
    assert_wrong("f32[4] map(f), to_apply=negv", "is f32[4]{0}, not f32[]");
    assert_wrong("f32[4] sort(f), dimensions={}, to_apply=less", "exactly one");
    assert_wrong("f32[4] sort(f), dimensions={1}, to_apply=less",
                 "out of range");
    assert_wrong("f32[4] sort(f), dimensions={0}, to_apply=addf",
                 "is f32[], not pred[]");
    assert_wrong("f32[4] sort(f, i), dimensions={0}, to_apply=less2",
                 "not a tuple of 2");
    assert_wrong("(f32[4], s32[4]) sort(f, i), dimensions={0}, to_apply=less",
                 "takes 2 parameters, not 4");
}

static void test_calls(void **state)
{
    (void)state;
    assert_sound("f32[4] call(f), to_apply=negv");
    assert_sound("f32[4] fusion(f), kind=kLoop, calls=negv");
    assert_sound("s32[] while(j), condition=small, body=inc");
    assert_sound("f32[4] conditional(q, f, g), true_computation=negv, "
                 "false_computation=negv");
    assert_sound("f32[4] conditional(j, f, g, f), "
                 "branch_computations={negv, negv, negv}");
    assert_wrong("f32[4] call(f, g), to_apply=negv", "takes 1 parameters");
    assert_wrong("f32[4] call(i), to_apply=negv", "is f32[4]{0}, not s32");
    assert_wrong("s32[4] call(f), to_apply=negv", "the result of computation");
    assert_wrong("s32[] while(j), condition=inc, body=inc",
                 "\"inc\" is s32[], not pred[]");
    assert_wrong("s32[] while(j), condition=small, body=small",
                 "\"small\" is pred[], not s32[]");
    assert_wrong("f32[] while(s), condition=small, body=inc", "a parameter");
    assert_wrong("s32[] while(j), condition=less, body=inc",
                 "takes 2 parameters");
    assert_wrong("s32[4] while(j), condition=small, body=inc", "is s32[]");
    assert_wrong("f32[4] conditional(q, f), true_computation=negv, "
                 "false_computation=negv",
                 "2 branches need");
    assert_wrong("f32[4] conditional(q, f, g, f), "
                 "branch_computations={negv, negv, negv}",
                 "selector must be");
    assert_wrong("f32[4] conditional(k, f, g), "
                 "branch_computations={negv, negv}",
                 "selector must be");
    assert_wrong("f32[4] conditional(p, f, g), true_computation=negv, "
                 "false_computation=negv",
                 "selector must be");
    assert_wrong("f32[4] conditional(q, f, i), true_computation=negv, "
                 "false_computation=negv",
                 "a parameter");
    assert_wrong("f32[4] conditional(q)", "0 branches");
}

// A chain of calls is as deep as it may be, and one deeper.
static void test_call_depth(void **state)
{
    struct pod_str text = {.data = NULL};
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    size_t allowed = 0;
    (void)state;
    pod_str_puts(&text, "HloModule m\nc0 { a = f32[] parameter(0) }\n");
    for (int i = 1; i <= POD_HLO_MAX_CALL_DEPTH + 1; i++) {
        allowed = text.length;
        pod_str_printf(&text,
                       "c%d { a = f32[] parameter(0) "
                       "b = f32[] call(a), to_apply=c%d }\n",
                       i, i - 1);
    }
    assert_int_equal(pod_hlo_parse_text(text.data, allowed, &module, &err),
                     POD_OK);
    pod_hlo_module_free(module);
    assert_int_equal(pod_hlo_parse_text(text.data, text.length, &module, &err),
                     POD_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "nested more than 128 deep"));
    pod_str_fini(&text);
}

static void test_all_reduce_family(void **state)
{
    (void)state;
    assert_sound("f32[4] all-reduce(f), to_apply=addf");
    assert_sound("(f32[4], f32[2,3]) all-reduce(f, m), to_apply=addf, "
                 "replica_groups={{0,1},{2,3}}");
    assert_sound("f32[8] all-gather(f), dimensions={0}, "
                 "replica_groups={{0,1}}");
    assert_sound("f32[12] all-gather(f), dimensions={0}");
    assert_sound("f32[2] reduce-scatter(f), dimensions={0}, to_apply=addf, "
                 "replica_groups=[1,2]<=[2]");
    assert_wrong("f32[4] all-reduce(f), to_apply=addi", "a parameter");
    assert_wrong("f32[5] all-reduce(f), to_apply=addf", "does not fit");
    assert_wrong("f32[4] all-reduce(f, g), to_apply=addf", "does not fit");
    assert_wrong("(f32[4], s32[4]) all-reduce(f, i), to_apply=addf",
                 "differ in type");
    assert_wrong("f32[4] all-reduce(), to_apply=addf", "at least 1");
    // Only what all-reduce does means the same in groups of any size.
    assert_sound("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups={{0,1},{2}}");
    assert_wrong("f32[8] all-gather(f), dimensions={0}, "
                 "replica_groups={{0,1},{2}}",
                 "differ in size");
    assert_wrong("f32[2] reduce-scatter(f), dimensions={0}, to_apply=addf, "
                 "replica_groups={{2},{0,1}}",
                 "differ in size");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, replica_groups={{},{}}",
                 "group is empty");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups={{0,1},{},{2}}",
                 "group is empty");
    assert_wrong("f32[9] all-gather(f), dimensions={0}", "does not fit");
    assert_wrong("f32[8] all-gather(f), dimensions={}", "exactly one");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups=[2,2]<=[4]T(0,1)",
                 "1 dimensions and 2 permuted");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups=[2,2]<=[-4]",
                 "impossible sizes");
    assert_wrong("f32[12] all-gather(f), dimensions={0}, "
                 "replica_groups={{0,1}}",
                 "does not fit");
    assert_wrong("f32[8] all-gather(f), dimensions={1}", "out of range");
    assert_wrong("f32[4,2] all-gather(f), dimensions={0}", "does not fit");
    assert_wrong("f32[3] reduce-scatter(f), dimensions={0}, to_apply=addf",
                 "does not fit");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups=[2,2]<=[5]",
                 "take 4 ids from 5");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups=[2,2]<=[2,2]T(0,0)",
                 "occurs twice");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, "
                 "replica_groups=[0,2]<=[0]",
                 "impossible sizes");
    assert_wrong("f32[4] all-reduce(f), to_apply=addf, replica_groups="
                 "[4294967296,4294967296]<=[4294967296,4294967296]",
                 "impossible sizes");
}

static void test_permute_family(void **state)
{
    (void)state;
    assert_sound("f32[4] collective-permute(f), "
                 "source_target_pairs={{0,1},{1,0}}");
    assert_sound("f32[4] collective-permute(f), source_target_pairs={}");
    assert_sound("f32[4] all-to-all(f), dimensions={0}, "
                 "replica_groups={{0,1}}");
    assert_sound("(f32[4], f32[4]) all-to-all(f, g), replica_groups={{0,1}}");
    assert_sound("f32[4] collective-broadcast(f), replica_groups={{0,1}}");
    assert_wrong("f32[4] collective-permute(f), "
                 "source_target_pairs={{0,1},{0,2}}",
                 "source 0 occurs twice");
    assert_wrong("f32[4] collective-permute(f), "
                 "source_target_pairs={{0,1},{2,1}}",
                 "target 1 occurs twice");
    assert_wrong("f32[4] collective-permute(f), source_target_pairs={{-1,1}}",
                 "source -1 is negative");
    assert_wrong("f32[5] collective-permute(f), source_target_pairs={}",
                 "does not fit");
    assert_wrong("f32[4] all-to-all(f), dimensions={0}, "
                 "replica_groups={{0,1,2}}",
                 "does not split into 3 parts");
    assert_wrong("(f32[4], f32[4]) all-to-all(f, g), dimensions={0}",
                 "one operand");
    assert_wrong("(f32[4], f32[4]) all-to-all(f, g), "
                 "replica_groups={{0,1,2}}",
                 "2 operands for groups of 3");
    assert_wrong("(f32[4], s32[4]) all-to-all(f, i)", "differ in shape");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_map_and_sort),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_call_depth),
        cmocka_unit_test(test_all_reduce_family),
        cmocka_unit_test(test_permute_family),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
