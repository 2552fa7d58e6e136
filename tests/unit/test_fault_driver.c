// SPDX-License-Identifier: Apache-2.0
// Scripts of the fault driver, and the driver around an in-process host.
#include "tests/unit/fake_host.h"

// ------------------------------------------------------------------ scripts

static struct pod_fault_script parse(const char *text)
{
    struct pod_fault_script script;
    struct pod_err err;

    assert_int_equal(pod_fault_parse(text, strlen(text), &script, &err),
                     POD_OK);
    return script;
}

static void test_script(void **state)
{
    (void)state;
    struct pod_fault_script script =
        parse("host1:execute#3=die:2s;any=delay:5ms;host0:free#2+=fail:ABORTED;"
              "write=drop;read=stall;copy=die");

    assert_int_equal(script.count, 6);
    assert_true(script.rules[0].one_host);
    assert_int_equal(script.rules[0].host, 1);
    assert_int_equal(script.rules[0].kind, POD_FAULT_EXECUTE);
    assert_int_equal(script.rules[0].first, 3);
    assert_int_equal(script.rules[0].last, 3);
    assert_int_equal(script.rules[0].action, POD_FAULT_DIE);
    assert_int_equal(script.rules[0].duration_ns, 2 * POD_NS_PER_S);
    assert_false(script.rules[1].one_host);
    assert_int_equal(script.rules[1].kind, POD_FAULT_ANY);
    assert_int_equal(script.rules[1].last, UINT64_MAX);
    assert_int_equal(script.rules[1].duration_ns, 5000000);
    assert_true(script.rules[2].one_host);
    assert_int_equal(script.rules[2].host, 0);
    assert_int_equal(script.rules[2].first, 2);
    assert_int_equal(script.rules[2].last, UINT64_MAX);
    assert_int_equal(script.rules[2].code, POD_ABORTED);
    assert_int_equal(script.rules[3].action, POD_FAULT_DROP);
    assert_int_equal(script.rules[4].action, POD_FAULT_STALL);
    assert_int_equal(script.rules[4].duration_ns, POD_NEVER);
    assert_int_equal(script.rules[5].duration_ns, POD_NEVER);
}

static void test_bad_scripts(void **state)
{
    static const struct {
        const char *text;
        const char *piece;
        int column;
    } bad[] = {
        {"", "\"\" is not a rule", 1},
        {"any=drop;", "\"\" is not a rule", 10},
        {"any", "\"any\" is not a rule", 1},
        {"exectue#3=die", "\"exectue\" is not a kind", 1},
        {"any=drop;host1:exec=die", "\"exec\" is not a kind", 16},
        {"hots1:any=die", "\"hots1\" is not a host", 1},
        {"host:any=die", "\"host\" is not a host", 1},
        {"host01:any=die", "\"host01\" is not a host", 1},
        {"host4294967296:any=die", "is not a host", 1},
        {"any#0=die", "\"0\" is not a count", 5},
        {"any#=die", "\"\" is not a count", 5},
        {"any#+=die", "\"+\" is not a count", 5},
        {"any#2x=die", "\"2x\" is not a count", 5},
        {"any=explode", "\"explode\" is not an action", 5},
        {"any=", "\"\" is not an action", 5},
        {"any=drop:1s", "\"drop:1s\" takes no value", 5},
        {"any=fail", "\"fail\" needs a code", 5},
        {"any=fail:OK", "\"OK\" is not a code", 10},
        {"any=fail:unavailable", "\"unavailable\" is not a code", 10},
        {"any=delay", "\"delay\" needs a duration", 5},
        {"any=delay:soon", "\"soon\" is not a duration", 11},
        {"any=die:", "\"\" is not a duration", 9},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pod_fault_script script;
        struct pod_err err;
        assert_int_equal(
            pod_fault_parse(bad[i].text, strlen(bad[i].text), &script, &err),
            POD_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, bad[i].piece));
        assert_int_equal(err.column, bad[i].column);
    }
}

static void test_script_limit(void **state)
{
    struct pod_fault_script script;
    struct pod_err err;
    char text[(POD_FAULT_MAX_RULES + 1) * 9];

    (void)state;
    for (size_t i = 0; i <= POD_FAULT_MAX_RULES; i++)
        memcpy(text + i * 9, "any=drop;", 9);
    assert_int_equal(
        pod_fault_parse(text, POD_FAULT_MAX_RULES * 9 - 1, &script, &err),
        POD_OK);
    assert_int_equal(script.count, POD_FAULT_MAX_RULES);
    assert_int_equal(pod_fault_parse(text, sizeof text - 1, &script, &err),
                     POD_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "one rule too many"));
}

// ------------------------------------------------------------------- driver

static void faulty_open(struct host *host, const char *text,
                        struct pod_gang_hub *hub, uint32_t index)
{
    struct pod_driver_observer observer = calls_observer(&host->watch);
    struct pod_fault_script script = parse(text);
    struct pod_driver *inner;
    struct pod_err err;

    host_make(host, 1, hub, index);
    inner = host->driver;
    assert_int_equal(
        pod_fault_new(inner, hub, index, &script, &host->driver, &err), POD_OK);
    host->driver->ops->open(host->driver, &observer);
    calls_await(&host->watch, &host->watch.ready, 1);
}

static void test_passes_on(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    faulty_open(&host, "host1:any=drop", NULL, 0);
    assert_int_equal(host.watch.info.core_count, 1);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    calls_allocate(&host.watch, host.driver, 2, 0, 4);
    calls_write_s32(&host.watch, host.driver, 3, 1, 41);
    calls_program(&host.watch, host.driver, 4, 0, "increment");
    struct pod_driver_call call = calls_make(&host.watch, &record, 6);
    calls_execute(host.driver, &call, 5, 1, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.started, 1);
    assert_int_equal(calls_read_s32(&host.watch, host.driver, 7, 2), 42);
    calls_await(&host.watch, &host.watch.beats, 2);
    host_close(&host);
}

// A call that was to wait for the next one goes on when that one is lost here.
static void test_more_calls_follow(void **state)
{
    struct host host;
    struct calls_record first, next;

    (void)state;
    faulty_open(&host, "copy#2=fail:ABORTED", NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    calls_allocate(&host.watch, host.driver, 2, 0, 4);
    struct pod_driver_call call = calls_make(&host.watch, &first, 3);
    call.more = true;
    host.driver->ops->copy(host.driver, &call, 1, 2);
    call = calls_make(&host.watch, &next, 4);
    host.driver->ops->copy(host.driver, &call, 2, 1);
    assert_int_equal(calls_end(&next), POD_ABORTED);
    assert_int_equal(calls_end(&first), POD_OK);
    host_close(&host);
}

static void test_delay_lets_others_go(void **state)
{
    struct host host;
    struct calls_record slow;

    (void)state;
    faulty_open(&host, "allocate#1=delay:30ms", NULL, 0);
    struct pod_driver_call call = calls_make(&host.watch, &slow, 1);
    int64_t before = pod_clock_mono(&pod_clock_system);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, 4);
    calls_allocate(&host.watch, host.driver, 2, 0, 4);
    assert_int_equal(calls_end(&slow), POD_OK);
    // Never earlier; how much later is the machine's business.
    assert_true(pod_clock_mono(&pod_clock_system) - before >= 30000000);
    assert_int_equal(calls_read_s32(&host.watch, host.driver, 3, 1), 0);
    host_close(&host);
}

// The results of a delayed call are kept: data and shape.
static void test_delay_keeps_results(void **state)
{
    struct host host;

    (void)state;
    faulty_open(&host, "any=delay:1ms", NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    calls_write_s32(&host.watch, host.driver, 2, 1, -5);
    assert_int_equal(calls_read_s32(&host.watch, host.driver, 3, 1), -5);
    calls_program(&host.watch, host.driver, 4, 0, "increment");
    host_close(&host);
}

static void test_fail_and_count(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    faulty_open(&host,
                "any#7=fail:UNKNOWN;allocate#2=fail:DATA_LOSS;"
                "read#2+=fail:ABORTED",
                NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    struct pod_driver_call call = calls_make(&host.watch, &record, 2);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, 4);
    assert_int_equal(calls_end(&record), POD_DATA_LOSS);
    assert_string_equal(pod_reason_name(record.err.reason), "WORKER_ERROR");
    assert_int_equal(host.fake->buffers, 1);
    calls_allocate(&host.watch, host.driver, 3, 0, 4);
    assert_int_equal(calls_read_s32(&host.watch, host.driver, 4, 1), 0);
    for (uint64_t op = 5; op < 8; op++) {
        call = calls_make(&host.watch, &record, op);
        // A loan is a read, too.
        if (op == 6)
            host.driver->ops->lend(host.driver, &call, 1, 0, 4);
        else
            host.driver->ops->read(host.driver, &call, 1, 0, 4);
        // The read with number 7 is the seventh call of all.
        assert_int_equal(calls_end(&record),
                         op == 7 ? POD_UNKNOWN : POD_ABORTED);
    }
    host_close(&host);
}

static void test_drop(void **state)
{
    struct host host;
    struct calls_record records[4];
    struct pod_driver_call call;

    (void)state;
    faulty_open(&host, "read=drop", NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    for (uint64_t i = 0; i < 3; i++) {
        call = calls_make(&host.watch, &records[i], 10 + i);
        host.driver->ops->read(host.driver, &call, 1, 0, 4);
    }
    calls_write_s32(&host.watch, host.driver, 2, 1, 1);
    assert_int_equal(records[0].done, 0);
    host.driver->ops->cancel(host.driver, 10);
    assert_int_equal(calls_end(&records[0]), POD_CANCELLED);
    call = calls_make(&host.watch, &records[3], 13);
    host.driver->ops->reset(host.driver, &call);
    assert_int_equal(calls_end(&records[3]), POD_OK);
    assert_int_equal(records[1].done, 1);
    assert_string_equal(pod_reason_name(records[1].err.reason), "POD_RESET");
    assert_int_equal(host.fake->buffers, 0);
    call = calls_make(&host.watch, &records[3], 14);
    host.driver->ops->read(host.driver, &call, 1, 0, 4);
    host_close(&host);
    assert_int_equal(records[3].done, 1);
    assert_int_equal(records[3].err.code, POD_CANCELLED);
}

static void test_die_and_come_back(void **state)
{
    struct host host;
    struct calls_record dropped, spin, fatal, after;

    (void)state;
    faulty_open(&host, "write=die:1ms;read=drop", NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    struct pod_driver_call call = calls_make(&host.watch, &dropped, 2);
    host.driver->ops->read(host.driver, &call, 1, 0, 4);
    calls_allocate(&host.watch, host.driver, 5, 0, 4);
    calls_program(&host.watch, host.driver, 6, 0, "spin");
    call = calls_make(&host.watch, &spin, 8);
    calls_execute(host.driver, &call, 7, 1, 5);
    calls_await(&host.watch, &spin.started, 1);
    struct pod_blob *blob = calls_blob("1234", 4);
    call = calls_make(&host.watch, &fatal, 3);
    host.driver->ops->write(host.driver, &call, 1, 0, blob, 0, 4);
    pod_blob_unref(blob);
    (void)calls_end(&dropped);
    (void)calls_end(&fatal);
    (void)calls_end(&spin);
    assert_true(dropped.lost && fatal.lost && spin.lost);
    assert_non_null(strstr(spin.err.text, "it was made to die"));
    assert_int_equal(host.watch.lost, 1);
    calls_await(&host.watch, &host.watch.ready, 2);
    assert_int_equal(host.fake->buffers, 0);
    call = calls_make(&host.watch, &after, 4);
    host.driver->ops->deallocate(host.driver, &call, 1);
    assert_int_equal(calls_end(&after), POD_NOT_FOUND);
    host_close(&host);
}

static void test_die_until_reconnected(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    faulty_open(&host, "allocate#2=die", NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    for (uint64_t op = 2; op < 5; op++) {
        struct pod_driver_call call = calls_make(&host.watch, &record, op);
        host.driver->ops->allocate(host.driver, &call, 0, NULL, 4);
        (void)calls_end(&record);
        assert_true(record.lost);
    }
    assert_int_equal(host.watch.ready, 1);
    host.driver->ops->reconnect(host.driver);
    calls_await(&host.watch, &host.watch.ready, 2);
    calls_allocate(&host.watch, host.driver, 10, 0, 4);
    host.driver->ops->reconnect(host.driver);
    calls_await(&host.watch, &host.watch.ready, 3);
    assert_int_equal(host.watch.lost, 2);
    host_close(&host);
}

static void test_stall(void **state)
{
    struct host host;
    struct calls_record first, second;

    (void)state;
    faulty_open(&host, "allocate#2=stall:20ms;allocate#4=stall", NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    struct pod_driver_call call = calls_make(&host.watch, &first, 2);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, 4);
    call = calls_make(&host.watch, &second, 3);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, 4);
    assert_int_equal(calls_end(&first), POD_OK);
    assert_int_equal(calls_end(&second), POD_OK);
    call = calls_make(&host.watch, &first, 4);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, 4);
    call = calls_make(&host.watch, &second, 5);
    host.driver->ops->read(host.driver, &call, 1, 0, 4);
    host.driver->ops->reconnect(host.driver);
    calls_await(&host.watch, &host.watch.ready, 2);
    assert_true(first.lost && second.lost);
    host_close(&host);
}

// A loss of the driver below passes through, and its return.
static void test_inner_loss(void **state)
{
    struct host host;
    struct calls_record record;
    struct pod_fault_script script = parse("read=drop");
    struct pod_driver_observer observer;
    struct pod_driver *inner;
    struct pod_err err;

    (void)state;
    host_make(&host, 1, NULL, 0);
    observer = calls_observer(&host.watch);
    inner = host.driver;
    assert_int_equal(pod_fault_new(inner, NULL, 0, &script, &host.driver, &err),
                     POD_OK);
    host.driver->ops->open(host.driver, &observer);
    calls_await(&host.watch, &host.watch.ready, 1);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    struct pod_driver_call call = calls_make(&host.watch, &record, 2);
    host.driver->ops->read(host.driver, &call, 1, 0, 4);
    pod_inproc_kill(inner, "power");
    (void)calls_end(&record);
    assert_true(record.lost);
    assert_non_null(strstr(record.err.text, "power"));
    pod_inproc_revive(inner);
    calls_await(&host.watch, &host.watch.ready, 2);
    host_close(&host);
}

static void gang_execute(struct host *host, struct calls_record *record,
                         uint32_t replica, uint64_t op)
{
    static const uint32_t hosts[] = {0, 1};
    static const uint32_t cores[] = {0, 1};
    uint64_t input = 1, output = 2;
    struct pod_driver_launch launch = {
        .load = 11,
        .inputs = &input,
        .input_count = 1,
        .outputs = &output,
        .output_count = 1,
        .replica = replica,
    };
    struct pod_driver_execute execute = {
        .launches = &launch,
        .launch_count = 1,
        .replica_count = 2,
        .replica_hosts = hosts,
        .replica_cores = cores,
    };
    struct pod_driver_call call = calls_make(&host->watch, record, op);

    host->driver->ops->execute(host->driver, &call, &execute);
}

// One host is well, the other fails the first gang and dies in the second.
static void test_gang_hears_of_faults(void **state)
{
    struct pod_gang_hub *hub = pod_gang_hub_new(2);
    struct host hosts[2];
    struct calls_record records[2];

    (void)state;
    faulty_open(&hosts[0], "host1:execute#1=fail:INTERNAL;host1:execute=die",
                hub, 0);
    faulty_open(&hosts[1], "host1:execute#1=fail:INTERNAL;host1:execute=die",
                hub, 1);
    calls_allocate(&hosts[0].watch, hosts[0].driver, 1, 0, 4);
    calls_allocate(&hosts[0].watch, hosts[0].driver, 2, 0, 4);
    calls_program(&hosts[0].watch, hosts[0].driver, 10, 0, "sum");
    for (uint64_t op = 20; op < 22; op++) {
        gang_execute(&hosts[0], &records[0], 0, op);
        gang_execute(&hosts[1], &records[1], 1, op);
        assert_int_equal(calls_end(&records[0]), POD_ABORTED);
        (void)calls_end(&records[1]);
    }
    assert_true(records[1].lost);
    assert_non_null(strstr(records[0].err.text, "host 1 was lost"));
    host_close(&hosts[0]);
    host_close(&hosts[1]);
    pod_gang_hub_unref(hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_script),
        cmocka_unit_test(test_bad_scripts),
        cmocka_unit_test(test_script_limit),
        cmocka_unit_test(test_passes_on),
        cmocka_unit_test(test_more_calls_follow),
        cmocka_unit_test(test_delay_lets_others_go),
        cmocka_unit_test(test_delay_keeps_results),
        cmocka_unit_test(test_fail_and_count),
        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_die_and_come_back),
        cmocka_unit_test(test_die_until_reconnected),
        cmocka_unit_test(test_stall),
        cmocka_unit_test(test_inner_loss),
        cmocka_unit_test(test_gang_hears_of_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
