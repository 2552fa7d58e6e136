// SPDX-License-Identifier: Apache-2.0
// The gRPC driver and workers that speak the plain TPU driver protocol.
#include "tests/wire/driver_fixture.h"

static void test_opens_plain_workers(void **state)
{
    struct fixture fixture;

    (void)state;
    start_ready(&fixture, "plain");
    const struct pod_driver_info *info = &fixture.watch.info;
    assert_int_equal(info->core_count, 2);
    assert_int_equal(info->chip_count, 1);
    assert_int_equal(info->host_count, 1);
    assert_int_equal(info->features, POD_DRIVER_WHOLE);
    assert_int_equal(info->accepts,
                     1 << POD_FORMAT_HLO_TEXT | 1 << POD_FORMAT_HLO_PROTO);
    finish(&fixture);
    expect_refusal("plain-big-client", "1048576");
}

// The cores of its own chip, by the numbers they have in the slice. What `info`
// points at is read while the driver is open.
static void test_finds_its_share_of_a_slice(void **state)
{
    struct fixture fixture;

    (void)state;
    start_ready(&fixture, "plain-slice");
    const struct pod_driver_info *info = &fixture.watch.info;
    assert_int_equal(info->host_id, 1);
    assert_int_equal(info->host_count, 2);
    assert_int_equal(info->chip_count, 2);
    assert_int_equal(info->core_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(info->cores[i].worker_core, 2 + i);
        assert_int_equal(info->cores[i].chip, 1);
        assert_int_equal(info->cores[i].memory_bytes, 1 << 20);
    }
    assert_int_equal(info->chips[1].x, 1);
    assert_int_equal(info->chips[1].host_id, 1);
    finish(&fixture);
}

static void test_moves_whole_buffers_of_plain_workers(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start_ready(&fixture, "plain");
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    calls_write_s32(&fixture.watch, fixture.driver, 2, 1, 0x04030201);
    assert_int_equal(calls_read_s32(&fixture.watch, fixture.driver, 3, 1),
                     0x04030201);
    // A part that is read is cut from the whole.
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 4);
    fixture.driver->ops->read(fixture.driver, &call, 1, 1, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.data_size, 2);
    assert_memory_equal(record.data, "\x02\x03", 2);
    // A part cannot be written.
    struct pod_blob *blob = calls_blob("xy", 2);
    call = calls_make(&fixture.watch, &record, 5);
    fixture.driver->ops->write(fixture.driver, &call, 1, 1, blob, 0, 2);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_UNIMPLEMENTED);
    finish(&fixture);
}

static const char add_text[] =
    "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n"
    "  ROOT r = f32[2] add(p, p)\n}\n";

static void test_packs_programs_for_plain_workers(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start_ready(&fixture, "plain");
    calls_program(&fixture.watch, fixture.driver, 1, 0, add_text);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 3);
    struct pod_blob *blob = calls_blob("HloModule m\nnonsense", 20);
    fixture.driver->ops->compile(fixture.driver, &call, POD_FORMAT_HLO_TEXT,
                                 blob, 1);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_INVALID_ARGUMENT);
    assert_int_equal(record.err.line, 2);
    call = calls_make(&fixture.watch, &record, 4);
    fixture.driver->ops->free_program(fixture.driver, &call, 1);
    assert_int_equal(calls_end(&record), POD_UNIMPLEMENTED);
    finish(&fixture);
}

static void load_on(struct fixture *fixture, uint64_t op, uint32_t core)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(&fixture->watch, &record, op);

    fixture->driver->ops->load(fixture->driver, &call, core, 1);
    assert_int_equal(calls_end(&record), POD_OK);
}

// Two replicas are two operations there, and one here. Cores are named by
// their numbers in the slice: the worker checks the assignment.
static void test_runs_gangs_on_plain_workers(void **state)
{
    static const uint64_t in[] = {10, 12};
    static const uint64_t out[] = {11, 13};
    static const uint32_t hosts[] = {0, 0};
    static const uint32_t cores[] = {0, 1};
    static const uint32_t worker_cores[] = {2, 3};
    struct fixture fixture;
    struct calls_record record;
    struct pod_driver_launch launches[2];

    (void)state;
    start_ready(&fixture, "plain-slice");
    calls_program(&fixture.watch, fixture.driver, 1, 2, add_text);
    load_on(&fixture, 3, 3);
    for (uint64_t op = 10; op <= 13; op++)
        calls_allocate(&fixture.watch, fixture.driver, op, op < 12 ? 2 : 3, 4);
    calls_write_s32(&fixture.watch, fixture.driver, 20, 10, 100);
    calls_write_s32(&fixture.watch, fixture.driver, 21, 12, 120);
    for (uint32_t i = 0; i < 2; i++)
        launches[i] = (struct pod_driver_launch){
            .load = 2 + i,
            .inputs = &in[i],
            .input_count = 1,
            .outputs = &out[i],
            .output_count = 1,
            .replica = i,
        };
    struct pod_driver_execute execute = {
        .launches = launches,
        .launch_count = 2,
        .replica_count = 2,
        .replica_hosts = hosts,
        .replica_cores = cores,
        .replica_worker_cores = worker_cores,
    };
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 30);
    fixture.driver->ops->execute(fixture.driver, &call, &execute);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.done, 1);
    assert_int_equal(calls_read_s32(&fixture.watch, fixture.driver, 31, 11),
                     100);
    assert_int_equal(calls_read_s32(&fixture.watch, fixture.driver, 32, 13),
                     120);
    finish(&fixture);
}

static void test_resets_plain_workers_by_a_new_client(void **state)
{
    (void)state;
    expect_reset("plain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens_plain_workers),
        cmocka_unit_test(test_finds_its_share_of_a_slice),
        cmocka_unit_test(test_moves_whole_buffers_of_plain_workers),
        cmocka_unit_test(test_packs_programs_for_plain_workers),
        cmocka_unit_test(test_runs_gangs_on_plain_workers),
        cmocka_unit_test(test_resets_plain_workers_by_a_new_client),
    };

    return run_driver_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
