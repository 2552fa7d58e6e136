// SPDX-License-Identifier: Apache-2.0
// Hosts that move whole buffers only, on fake hosts answered by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "tests/lib/pod_fixture.h"

static int setup_whole(void **state)
{
    return fixture_setup(state, POD_DRIVER_WHOLE);
}

static void test_some_hosts_move_whole_buffers(void **state)
{
    struct fixture *fix = *state; // pieces have 16 bytes elsewhere
    uint64_t buffer = fixture_allocate(fix, 0, 40);
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 0, 40);
    struct fake_call call;

    assert_true(fake_find(fix->host[0], FAKE_WRITE, &call));
    assert_int_equal(call.count, 40);
    fixture_run(fix);
    assert_state(fix, write, "SUCCEEDED");
    uint64_t read = fixture_read(fix, buffer);
    assert_true(fake_find(fix->host[0], FAKE_READ, &call));
    assert_int_equal(call.count, 40);
    fixture_run(fix);
    assert_state(fix, read, "SUCCEEDED");
    struct pod_data data;
    struct pod_err err;
    assert_int_equal(pod_take_data(fix->pod, read, &data, &err), POD_OK);
    assert_int_equal(data.bytes, 40);
    pod_data_fini(&data);
}

// ------------------------------------------- parts of buffers that move whole

// The first host moves whole buffers, the second pieces of 16 bytes.
static int setup_mixed(void **state)
{
    struct fixture *fix = malloc(sizeof(*fix));

    fixture_init_options(fix, 2, 1000, POD_NEVER, 16, 100);
    fake_set_features(fix->host[0], POD_DRIVER_WHOLE);
    for (size_t i = 0; i < fix->host_count; i++)
        fake_ready(fix->host[i]);
    *state = fix;
    return 0;
}

static void assert_staging(struct fixture *fix, uint64_t bytes)
{
    uint64_t used, max;

    pod_staging_usage(fix->pod, &used, &max);
    assert_int_equal(used, bytes);
}

static void test_a_part_is_written_with_what_is_there(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 40);
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 7, 20);
    struct fake_call call;

    assert_int_equal(fake_open(fix->host[0]), 1);
    assert_true(fake_peek(fix->host[0], 0, &call));
    assert_int_equal(call.kind, FAKE_READ);
    assert_int_equal(call.op, write);
    assert_int_equal(call.offset, 0);
    assert_int_equal(call.count, 40);
    fake_done(fix->host[0], write);
    assert_true(fake_peek(fix->host[0], 0, &call));
    assert_int_equal(call.kind, FAKE_WRITE);
    assert_true(call.op != write); // a number is used once
    assert_int_equal(call.offset, 0);
    assert_int_equal(call.count, 40);
    assert_state(fix, write, "READY");
    fake_done(fix->host[0], call.op);
    assert_state(fix, write, "SUCCEEDED");
    assert_staging(fix, 0);
}

static void test_a_part_that_cannot_be_read_is_not_written(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 40);
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 7, 20);

    fake_fail(fix->host[0], write, POD_REASON_WORKER_ERROR, "no");
    assert_state(fix, write, "FAILED");
    assert_int_equal(fake_count(fix->host[0], FAKE_WRITE), 0);
    assert_staging(fix, 0);
}

static void test_a_cancel_between_reading_and_writing(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 40);
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 7, 20);
    bool again;
    struct pod_err err;

    assert_int_equal(
        pod_cancel(fix->pod, write, POD_CASCADE_NONE, NULL, &again, &err),
        POD_OK);
    fake_done(fix->host[0], write); // too late for the host to stop it
    assert_state(fix, write, "CANCELLED");
    assert_int_equal(fake_count(fix->host[0], FAKE_WRITE), 0);
    assert_staging(fix, 0);
}

// The error names the limit.
static void test_a_buffer_beyond_the_budget_is_refused(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 101);
    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 1, 2);

    assert_state(fix, write, "FAILED");
    fixture_assert_reason(fix, write, "STAGING_FULL");
    fixture_assert_detail(fix, write,
                          "host 0 moves whole buffers only, and the 101 bytes",
                          "budget of 100 bytes");
    assert_int_equal(fake_open(fix->host[0]), 0);
    assert_staging(fix, 0);
}

static void test_a_pattern_is_written_whole(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct fake_call call;

    request.allocate.core = 0;
    request.allocate.bytes = 100;
    request.allocate.fill_size = 1;
    request.allocate.fill[0] = 77;
    uint64_t buffer = fixture_submit(fix, &request);
    fake_done(fix->host[0], buffer);
    assert_int_equal(fake_open(fix->host[0]), 1);
    assert_true(fake_find(fix->host[0], FAKE_WRITE, &call));
    assert_int_equal(call.count, 100);
    assert_int_equal(call.first, 77);
    fixture_run(fix);
    assert_state(fix, buffer, "SUCCEEDED");
    assert_staging(fix, 0);
}

static void test_copies_from_and_to_whole_buffers(void **state)
{
    struct fixture *fix = *state;
    uint64_t whole = fixture_allocate(fix, 0, 40);
    uint64_t pieces = fixture_allocate(fix, 2, 40);
    struct fake_call call;

    fixture_run(fix);
    uint64_t copy = fixture_copy(fix, whole, pieces);
    assert_true(fake_find(fix->host[0], FAKE_READ, &call));
    assert_int_equal(call.count, 40);
    for (int i = 0; i < 4; i++)
        fixture_run(fix);
    assert_state(fix, copy, "SUCCEEDED");
    assert_int_equal(fake_count(fix->host[1], FAKE_WRITE), 3);
    assert_staging(fix, 0);
    copy = fixture_copy(fix, pieces, whole);
    assert_int_equal(fake_open(fix->host[1]), 3); // 16, 16 and 8
    fixture_run(fix);
    assert_state(fix, copy, "SUCCEEDED");
    assert_int_equal(fake_count(fix->host[0], FAKE_WRITE), 1);
    assert_int_equal(fake_count(fix->host[1], FAKE_READ), 3);
    assert_staging(fix, 0);
}

int main(void)
{
#define WHOLE(test)                                                            \
    cmocka_unit_test_setup_teardown(test, setup_whole, fixture_teardown)
#define MIXED(test)                                                            \
    cmocka_unit_test_setup_teardown(test, setup_mixed, fixture_teardown)
    const struct CMUnitTest tests[] = {
        WHOLE(test_some_hosts_move_whole_buffers),
        MIXED(test_a_part_is_written_with_what_is_there),
        MIXED(test_a_part_that_cannot_be_read_is_not_written),
        MIXED(test_a_cancel_between_reading_and_writing),
        MIXED(test_a_buffer_beyond_the_budget_is_refused),
        MIXED(test_a_pattern_is_written_whole),
        MIXED(test_copies_from_and_to_whole_buffers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
