// SPDX-License-Identifier: Apache-2.0
// Gangs over in-process hosts: two hosts with two cores each.
//
// On each host buffers 1 and 2 (core 0) and 3 and 4 (core 1) are an input and
// an output; "sum" is loaded as 11 and 13, other programs from 20 on.
#include "tests/unit/fake_host.h"

enum { HOSTS = 2, CORES = 2, REPLICAS = 4 };

struct pair {
    struct pod_gang_hub *hub;
    struct host hosts[HOSTS];
};

static void program_on_both(struct host *host, uint64_t op, const char *word)
{
    calls_program(&host->watch, host->driver, op, 0, word);
    calls_program(&host->watch, host->driver, op + 2, 1, word);
}

static void pair_open(struct pair *pair)
{
    pair->hub = pod_gang_hub_new(HOSTS);
    for (uint32_t i = 0; i < HOSTS; i++) {
        struct host *host = &pair->hosts[i];
        host_open(host, CORES, pair->hub, i);
        for (uint64_t op = 1; op <= 4; op++)
            calls_allocate(&host->watch, host->driver, op, op > 2, 4);
        calls_write_s32(&host->watch, host->driver, 5, 1, i == 0 ? 1 : 100);
        calls_write_s32(&host->watch, host->driver, 6, 3, i == 0 ? 10 : 1000);
        program_on_both(host, 10, "sum");
    }
}

static void pair_close(struct pair *pair)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        host_close(&pair->hosts[i]);
    pod_gang_hub_unref(pair->hub);
}

// The part of a gang of all four cores on one host, with a program of its own
// for each core.
static void run_part(struct pair *pair, uint32_t host,
                     struct calls_record *record, uint64_t op, int priority,
                     uint64_t first_load, uint64_t second_load)
{
    static const uint32_t hosts[REPLICAS] = {0, 0, 1, 1};
    static const uint32_t cores[REPLICAS] = {0, 1, 2, 3};
    static const uint64_t inputs[CORES] = {1, 3};
    static const uint64_t outputs[CORES] = {2, 4};
    struct pod_driver_launch launches[CORES];
    struct pod_driver_call call =
        calls_make(&pair->hosts[host].watch, record, op);

    call.priority = priority;
    for (uint32_t i = 0; i < CORES; i++)
        launches[i] = (struct pod_driver_launch){
            .load = i == 0 ? first_load : second_load,
            .inputs = &inputs[i],
            .input_count = 1,
            .outputs = &outputs[i],
            .output_count = 1,
            .replica = host * CORES + i,
        };
    struct pod_driver_execute execute = {
        .launches = launches,
        .launch_count = CORES,
        .replica_count = REPLICAS,
        .replica_hosts = hosts,
        .replica_cores = cores,
    };
    struct pod_driver *driver = pair->hosts[host].driver;
    driver->ops->execute(driver, &call, &execute);
}

static void test_sum_over_hosts(void **state)
{
    struct pair pair;
    struct calls_record records[HOSTS];

    (void)state;
    pair_open(&pair);
    for (uint32_t i = 0; i < HOSTS; i++)
        run_part(&pair, i, &records[i], 30, 0, 11, 13);
    for (uint32_t i = 0; i < HOSTS; i++) {
        struct host *host = &pair.hosts[i];
        assert_int_equal(calls_end(&records[i]), POD_OK);
        assert_int_equal(records[i].started, 1);
        for (uint64_t op = 2; op <= 4; op += 2)
            assert_int_equal(
                calls_read_s32(&host->watch, host->driver, 30 + op, op), 1111);
    }
    pair_close(&pair);
}

static void test_failure_aborts_all(void **state)
{
    struct pair pair;
    struct calls_record records[HOSTS];

    (void)state;
    pair_open(&pair);
    program_on_both(&pair.hosts[1], 20, "fail");
    run_part(&pair, 0, &records[0], 30, 0, 11, 13);
    run_part(&pair, 1, &records[1], 30, 0, 11, 23);
    assert_int_equal(calls_end(&records[0]), POD_ABORTED);
    assert_string_equal(records[0].err.text,
                        "gang aborted by replica 3: the word is fail");
    // Of its own two replicas the one that failed by itself counts.
    assert_int_equal(calls_end(&records[1]), POD_INVALID_ARGUMENT);
    assert_string_equal(records[1].err.text, "the word is fail");
    pair_close(&pair);
}

static void test_refused_part_aborts_all(void **state)
{
    struct pair pair;
    struct calls_record records[HOSTS];

    (void)state;
    pair_open(&pair);
    run_part(&pair, 0, &records[0], 30, 0, 11, 13);
    run_part(&pair, 1, &records[1], 30, 0, 11, 99);
    assert_int_equal(calls_end(&records[1]), POD_NOT_FOUND);
    assert_int_equal(calls_end(&records[0]), POD_ABORTED);
    assert_int_equal(records[0].started, 0);
    run_part(&pair, 1, &records[1], 31, 0, 11, 11);
    assert_int_equal(calls_end(&records[1]), POD_INVALID_ARGUMENT);
    assert_string_equal(pod_reason_name(records[1].err.reason),
                        "BAD_ASSIGNMENT");
    run_part(&pair, 0, &records[0], 31, 0, 11, 13);
    assert_int_equal(calls_end(&records[0]), POD_ABORTED);
    pair_close(&pair);
}

// The other host never gets its part until the first has given up.
static void test_cancel_while_it_meets(void **state)
{
    struct pair pair;
    struct calls_record records[HOSTS];

    (void)state;
    pair_open(&pair);
    run_part(&pair, 0, &records[0], 30, 0, 11, 13);
    pair.hosts[0].driver->ops->cancel(pair.hosts[0].driver, 30);
    assert_int_equal(calls_end(&records[0]), POD_CANCELLED);
    run_part(&pair, 1, &records[1], 30, 0, 11, 13);
    assert_int_equal(calls_end(&records[1]), POD_ABORTED);
    pair_close(&pair);
}

// One core of host 0 is busy: a part waits in the queue, the other at the
// meeting point.
static void test_cancel_half_begun(void **state)
{
    struct pair pair;
    struct calls_record busy, records[HOSTS];

    (void)state;
    pair_open(&pair);
    program_on_both(&pair.hosts[0], 20, "gate");
    struct pod_driver_call call = calls_make(&pair.hosts[0].watch, &busy, 29);
    calls_execute(pair.hosts[0].driver, &call, 21, 1, 2);
    fake_await_waiting(pair.hosts[0].fake, 1);
    for (uint32_t i = 0; i < HOSTS; i++)
        run_part(&pair, i, &records[i], 30, 0, 11, 13);
    pair.hosts[0].driver->ops->cancel(pair.hosts[0].driver, 30);
    assert_int_equal(calls_end(&records[0]), POD_CANCELLED);
    assert_int_equal(calls_end(&records[1]), POD_ABORTED);
    fake_gate(pair.hosts[0].fake, true);
    assert_int_equal(calls_end(&busy), POD_OK);
    pair_close(&pair);
}

static void test_loss_aborts_the_others(void **state)
{
    struct pair pair;
    struct calls_record records[HOSTS];

    (void)state;
    pair_open(&pair);
    program_on_both(&pair.hosts[1], 20, "spin");
    run_part(&pair, 0, &records[0], 30, 0, 11, 13);
    run_part(&pair, 1, &records[1], 30, 0, 21, 23);
    calls_await(&pair.hosts[0].watch, &records[0].started, 1);
    pod_inproc_kill(pair.hosts[1].driver, "fire");
    assert_int_equal(calls_end(&records[0]), POD_ABORTED);
    assert_non_null(strstr(records[0].err.text, "host 1 was lost: fire"));
    (void)calls_end(&records[1]);
    assert_true(records[1].lost);
    // A part that comes to the dead host ends the gang too.
    run_part(&pair, 0, &records[0], 31, 0, 11, 13);
    run_part(&pair, 1, &records[1], 31, 0, 11, 13);
    assert_int_equal(calls_end(&records[0]), POD_ABORTED);
    (void)calls_end(&records[1]);
    pair_close(&pair);
}

// Both hosts get the gangs in one order, with priorities all over: they must
// not wait for each other, and all come to their sums.
static void test_priorities_cannot_lock_gangs(void **state)
{
    enum { GANGS = 100 };
    static struct calls_record records[HOSTS][GANGS];
    struct pair pair;

    (void)state;
    pair_open(&pair);
    for (uint32_t i = 0; i < GANGS; i++) {
        for (uint32_t j = 0; j < HOSTS; j++)
            run_part(&pair, (i + j) % HOSTS, &records[(i + j) % HOSTS][i],
                     100 + i, (int)((i * 7) % 21) - 10, 11, 13);
    }
    for (uint32_t i = 0; i < GANGS; i++) {
        assert_int_equal(calls_end(&records[0][i]), POD_OK);
        assert_int_equal(calls_end(&records[1][i]), POD_OK);
    }
    pair_close(&pair);
}

// A reset of one host while gangs run takes them down on both.
static void test_reset_aborts_gangs(void **state)
{
    struct pair pair;
    struct calls_record records[HOSTS], reset;

    (void)state;
    pair_open(&pair);
    program_on_both(&pair.hosts[1], 20, "spin");
    run_part(&pair, 0, &records[0], 30, 0, 11, 13);
    run_part(&pair, 1, &records[1], 30, 0, 21, 23);
    calls_await(&pair.hosts[0].watch, &records[0].started, 1);
    struct pod_driver_call call = calls_make(&pair.hosts[1].watch, &reset, 40);
    pair.hosts[1].driver->ops->reset(pair.hosts[1].driver, &call);
    assert_int_equal(calls_end(&reset), POD_OK);
    assert_string_equal(pod_reason_name(records[1].err.reason), "POD_RESET");
    assert_int_equal(calls_end(&records[0]), POD_ABORTED);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_over_hosts),
        cmocka_unit_test(test_failure_aborts_all),
        cmocka_unit_test(test_refused_part_aborts_all),
        cmocka_unit_test(test_cancel_while_it_meets),
        cmocka_unit_test(test_cancel_half_begun),
        cmocka_unit_test(test_loss_aborts_the_others),
        cmocka_unit_test(test_priorities_cannot_lock_gangs),
        cmocka_unit_test(test_reset_aborts_gangs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
