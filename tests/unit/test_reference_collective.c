// SPDX-License-Identifier: Apache-2.0
// Collectives of the reference device: four replicas that meet for real.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/driver/rendezvous.h"
#include "tests/lib/ref_program.h"

// A computation f of two scalars.
#define REDUCER(type, op)                                                      \
    "HloModule t\nf {\n  x = " type "[] parameter(0)\n  y = " type             \
    "[] parameter(1)\n  ROOT r = " type "[] " op "(x, y)\n}\n"

struct member {
    struct pod_device_launch launch;
    struct pod_gang *gang;
    struct pod_device_buffer *in;
    struct pod_device_buffer *out;
    enum pod_code code;
    struct pod_err err;
};

static void *run_member(void *arg)
{
    struct member *member = arg;

    member->code = pod_gang_arrive(member->gang, member->launch.replica, NULL,
                                   &member->err);
    if (member->code == POD_OK)
        member->code = ref_device()->ops->execute(ref_device(), &member->launch,
                                                  &member->err);
    pod_gang_leave(member->gang, member->launch.replica,
                   member->code == POD_OK ? NULL : &member->err);
    return NULL;
}

static void prepare_member(struct member *member, struct pod_gang_hub *hub,
                           struct pod_device_program *program, uint32_t replica,
                           const int32_t *in, size_t in_count, size_t out_count)
{
    const struct pod_device_ops *ops = ref_device()->ops;
    const uint32_t hosts[REF_CORES] = {0};

    assert_int_equal(
        pod_gang_join(hub, 1, REF_CORES, hosts, &member->gang, NULL), POD_OK);
    assert_int_equal(ops->allocate(ref_device(), replica, NULL, in_count * 4,
                                   &member->in, NULL),
                     POD_OK);
    assert_int_equal(ops->allocate(ref_device(), replica, NULL, out_count * 4,
                                   &member->out, NULL),
                     POD_OK);
    assert_int_equal(
        ops->write(ref_device(), member->in, 0, in, in_count * 4, NULL, NULL),
        POD_OK);
    member->launch =
        (struct pod_device_launch){.program = program,
                                   .core = replica,
                                   .inputs = &member->in,
                                   .input_count = 1,
                                   .outputs = &member->out,
                                   .output_count = 1,
                                   .replica = replica,
                                   .replica_count = REF_CORES,
                                   .exchange = pod_gang_exchange(member->gang)};
}

// Runs text as four replicas of s32 arrays; data of replica r starts at
// in[r * in_count] and wants[r * out_count].
static void check_gang(const char *text, size_t in_count, const int32_t *in,
                       size_t out_count, const int32_t *wants)
{
    struct pod_device_program *program = ref_compile(text, REF_CORES);
    const struct pod_device_ops *ops = ref_device()->ops;
    struct pod_gang_hub *hub = pod_gang_hub_new(1);
    struct member members[REF_CORES];
    pthread_t threads[REF_CORES];

    assert_non_null(hub);
    memset(members, 0, sizeof(members));
    for (uint32_t i = 0; i < REF_CORES; i++)
        prepare_member(&members[i], hub, program, i, in + i * in_count,
                       in_count, out_count);
    for (uint32_t i = 0; i < REF_CORES; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, run_member, &members[i]), 0);
    for (uint32_t i = 0; i < REF_CORES; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < REF_CORES; i++) {
        int32_t got[16];
        struct ref_array have = {POD_TYPE_S32, got, out_count * 4};
        struct ref_array want = {POD_TYPE_S32, wants + i * out_count,
                                 out_count * 4};
        if (members[i].code != POD_OK)
            fail_msg("replica %u: %s", i, members[i].err.text);
        assert_int_equal(ops->read(ref_device(), members[i].out, 0, got,
                                   out_count * 4, NULL, NULL),
                         POD_OK);
        ref_compare(&have, &want, 0, text);
        ops->release(ref_device(), members[i].in);
        ops->release(ref_device(), members[i].out);
        pod_gang_unref(members[i].gang);
    }
    pod_gang_hub_unref(hub);
    ops->program_free(ref_device(), program);
}

static void test_all_reduce(void **state)
{
    const int32_t in[] = {1, 10, 2, 20, 3, 30, 4, 40};
    const int32_t sums[] = {10, 100, 10, 100, 10, 100, 10, 100};
    const int32_t pairs[] = {4, 40, 6, 60, 4, 40, 6, 60};  // {0,2} {1,3}
    const int32_t uneven[] = {8, 80, 2, 20, 8, 80, 8, 80}; // {1} {3,0,2}

    (void)state;
    check_gang(REDUCER("s32", "add") "ENTRY e {\n  a = s32[2] parameter(0)\n"
                                     "  ROOT r = s32[2] all-reduce(a),"
                                     " replica_groups={}, to_apply=f\n}\n",
               2, in, 2, sums);
    check_gang(REDUCER("s32", "add") "ENTRY e {\n  a = s32[2] parameter(0)\n"
                                     "  ROOT r = s32[2] all-reduce(a),"
                                     " replica_groups={{0,2},{1,3}},"
                                     " to_apply=f\n}\n",
               2, in, 2, pairs);
    check_gang(REDUCER("s32", "add") "ENTRY e {\n  a = s32[2] parameter(0)\n"
                                     "  ROOT r = s32[2] all-reduce(a),"
                                     " replica_groups=[2,2]<=[2,2]T(1,0),"
                                     " to_apply=f\n}\n",
               2, in, 2, pairs);
    check_gang(REDUCER("s32", "add") "ENTRY e {\n  a = s32[2] parameter(0)\n"
                                     "  ROOT r = s32[2] all-reduce(a),"
                                     " replica_groups={{1},{3,0,2}},"
                                     " to_apply=f\n}\n",
               2, in, 2, uneven);
}

// Replica 1 is alone at first, but meets one of the others then.
static void test_all_reduce_alone(void **state)
{
    const int32_t in[] = {1, 10, 2, 20, 3, 30, 4, 40};
    // {0,2,3} {1}: 8 2 8 8; then {0,1} {2,3}.
    const int32_t want[] = {10, 100, 10, 100, 16, 160, 16, 160};

    (void)state;
    check_gang(REDUCER("s32", "add") "ENTRY e {\n  a = s32[2] parameter(0)\n"
                                     "  b = s32[2] all-reduce(a),"
                                     " replica_groups={{0,2,3},{1}},"
                                     " to_apply=f\n"
                                     "  ROOT r = s32[2] all-reduce(b),"
                                     " replica_groups={{0,1},{2,3}},"
                                     " to_apply=f\n}\n",
               2, in, 2, want);
}

#define HALVES(type)                                                           \
    REDUCER(type, "add")                                                       \
    "ENTRY e {\n  a = s32[2] parameter(0)\n  b = " type "[2] convert(a)\n"     \
    "  c = " type "[2] all-reduce(b), replica_groups={}, to_apply=f\n"         \
    "  ROOT r = s32[2] convert(c)\n}\n"

// Rounded after each addition, the ones would be lost. The sums are ties, or
// above them.
static void test_all_reduce_halves(void **state)
{
    const int32_t bf16[] = {256, 256, 1, 1, 1, 1, 1, 2};
    const int32_t bf16_sums[] = {260, 260, 260, 260, 260, 260, 260, 260};
    const int32_t f16[] = {2048, 2048, 1, 1, 1, 1, 0, 1};
    const int32_t f16_sums[] = {2050, 2052, 2050, 2052, 2050, 2052, 2050, 2052};

    (void)state;
    check_gang(HALVES("bf16"), 2, bf16, 2, bf16_sums);
    check_gang(HALVES("f16"), 2, f16, 2, f16_sums);
}

// More elements than are taken at a time, and the last of them.
static void test_all_reduce_long(void **state)
{
    const int32_t in[] = {1, 10, 2, 20, 3, 30, 4, 40};
    const int32_t sums[] = {10, 100, 10, 100, 10, 100, 10, 100};

    (void)state;
    check_gang(REDUCER("s32", "add") "ENTRY e {\n  a = s32[2] parameter(0)\n"
                                     "  b = s32[2,700] broadcast(a),"
                                     " dimensions={0}\n"
                                     "  c = s32[2,700] all-reduce(b),"
                                     " replica_groups={}, to_apply=f\n"
                                     "  d = s32[2,1] slice(c),"
                                     " slice={[0:2], [699:700]}\n"
                                     "  ROOT r = s32[2] reshape(d)\n}\n",
               2, in, 2, sums);
}

// x * 10 + y depends on the order: that of the replicas.
static void test_all_reduce_any(void **state)
{
    const int32_t in[] = {1, 5, 2, 6, 3, 7, 4, 8};
    const int32_t want[] = {1234, 5678, 1234, 5678, 1234, 5678, 1234, 5678};

    (void)state;
    check_gang("HloModule t\nf {\n  x = s32[] parameter(0)\n"
               "  y = s32[] parameter(1)\n  k = s32[] constant(10)\n"
               "  z = s32[] multiply(x, k)\n  ROOT r = s32[] add(z, y)\n}\n"
               "ENTRY e {\n  a = s32[2] parameter(0)\n"
               "  ROOT r = s32[2] all-reduce(a), replica_groups={},"
               " to_apply=f\n}\n",
               2, in, 2, want);
}

static void test_all_gather(void **state)
{
    const int32_t in[] = {1, 2, 3, 4, 5, 6, 7, 8};
    // Of s32[2,1] along dimension 1, in groups {0,1} and {3,2}.
    const int32_t want[] = {1, 3, 2, 4, 1, 3, 2, 4, 7, 5, 8, 6, 7, 5, 8, 6};

    (void)state;
    check_gang("HloModule t\nENTRY e {\n  a = s32[2,1] parameter(0)\n"
               "  ROOT r = s32[2,2] all-gather(a), dimensions={1},"
               " replica_groups={{0,1},{3,2}}\n}\n",
               2, in, 4, want);
}

static void test_collective_permute(void **state)
{
    const int32_t in[] = {1, 2, 3, 4};
    const int32_t want[] = {0, 1, 4, 3};

    (void)state;
    check_gang("HloModule t\nENTRY e {\n  a = s32[1] parameter(0)\n"
               "  ROOT r = s32[1] collective-permute(a),"
               " source_target_pairs={{0,1},{2,3},{3,2}}\n}\n",
               1, in, 1, want);
}

static void test_ids(void **state)
{
    const int32_t in[] = {100, 100, 100, 100};
    const int32_t want[] = {100, 101, 102, 103};

    (void)state;
    check_gang("HloModule t\nENTRY e {\n  a = s32[] parameter(0)\n"
               "  i = u32[] replica-id()\n  p = u32[] partition-id()\n"
               "  s = u32[] add(i, p)\n  t = s32[] convert(s)\n"
               "  ROOT r = s32[] add(a, t)\n}\n",
               1, in, 1, want);
}

// Alone, collectives need nobody.
static void test_collectives_alone(void **state)
{
    const int32_t in[] = {1, 2};
    const int32_t zeros[] = {0, 0};
    const struct ref_array inputs[] = {REF(S32, in)};
    const struct ref_array wants[] = {REF(S32, in), REF(S32, in), REF(S32, in),
                                      REF(S32, zeros)};

    (void)state;
    ref_check(
        REDUCER("s32", "add") "ENTRY e {\n  a = s32[2] parameter(0)\n"
                              "  b = s32[2] all-reduce(a), to_apply=f\n"
                              "  c = s32[2] all-gather(a), dimensions={0}\n"
                              "  d = s32[2] collective-permute(a),"
                              " source_target_pairs={{0,0}}\n"
                              "  g = s32[2] collective-permute(a), "
                              "source_target_pairs={}\n"
                              "  ROOT r = (s32[2], s32[2], s32[2], s32[2])"
                              " tuple(b, c, d, g)\n}\n",
        inputs, 1, wants, 4);
}

static void test_bad_groups(void **state)
{
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    assert_int_equal(
        ref_refused(
            REDUCER("s32",
                    "add") "ENTRY e {\n"
                           "  a = s32[2] parameter(0)\n"
                           "  ROOT r = s32[2] all-reduce(a),"
                           " replica_groups={{0,1},{2,9}}, to_apply=f\n}\n",
            REF_CORES, &err),
        POD_INVALID_ARGUMENT);
    assert_int_equal(ref_refused("HloModule t\nENTRY e {\n"
                                 "  a = s32[2] parameter(0)\n"
                                 "  ROOT r = s32[2] collective-permute(a),"
                                 " source_target_pairs={{0,4}}\n}\n",
                                 REF_CORES, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.line, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_all_reduce_alone),
        cmocka_unit_test(test_all_reduce_halves),
        cmocka_unit_test(test_all_reduce_long),
        cmocka_unit_test(test_all_reduce_any),
        cmocka_unit_test(test_all_gather),
        cmocka_unit_test(test_collective_permute),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_collectives_alone),
        cmocka_unit_test(test_bad_groups),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
