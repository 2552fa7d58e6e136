// SPDX-License-Identifier: Apache-2.0
// In-process hosts around the reference device: a gang over two hosts adds up.
#include "tests/unit/driver_calls.h"

#include "core/device/reference/reference.h"
#include "core/driver/inproc.h"

enum { HOSTS = 2, CORES = 2, REPLICAS = 4 };

static const char sum_text[] =
    "HloModule sum, replica_count=4\n"
    "add {\n"
    "  a = f32[] parameter(0)\n"
    "  b = f32[] parameter(1)\n"
    "  ROOT c = f32[] add(a, b)\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[2] parameter(0)\n"
    "  ROOT y = f32[2] all-reduce(x), replica_groups={{0,1,2,3}}, "
    "to_apply=add\n"
    "}\n";

struct host {
    struct calls_watch watch;
    struct pod_driver *driver;
};

static void host_open(struct host *host, struct pod_gang_hub *hub,
                      uint32_t index)
{
    static const uint32_t core_chips[CORES] = {0, 0};
    static const struct pod_driver_chip chip = {.x = 0};
    struct pod_reference_options device = {
        .core_count = CORES,
        .memory_bytes = 1 << 20,
    };
    struct pod_inproc_options options = {
        .hub = hub,
        .host = index,
        .host_count = HOSTS,
        .chips = &chip,
        .chip_count = 1,
        .core_chips = core_chips,
    };
    struct pod_driver_observer observer = calls_observer(&host->watch);
    struct pod_err err;

    calls_watch_init(&host->watch);
    assert_int_equal(pod_reference_device_new(&device, &options.device, &err),
                     POD_OK);
    assert_int_equal(pod_inproc_new(&options, &host->driver, &err), POD_OK);
    host->driver->ops->open(host->driver, &observer);
    calls_await(&host->watch, &host->watch.ready, 1);
    assert_string_equal(host->watch.info.platform, "reference");
}

static void host_write(struct host *host, uint64_t op, uint64_t buffer,
                       float value)
{
    float pair[2] = {value, -value};
    struct pod_blob *blob = calls_blob(pair, sizeof pair);
    struct calls_record record;
    struct pod_driver_call call = calls_make(&host->watch, &record, op);

    host->driver->ops->write(host->driver, &call, buffer, 0, blob, 0,
                             sizeof pair);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_OK);
}

// Core i has input 1 + 2 * i, output 2 + 2 * i, load 11 + i; the program is 10.
static void host_prepare(struct host *host, uint32_t index)
{
    struct calls_record record;
    struct pod_blob *blob = calls_blob(sum_text, sizeof sum_text - 1);
    struct pod_driver_call call = calls_make(&host->watch, &record, 10);

    host->driver->ops->compile(host->driver, &call, POD_FORMAT_HLO_TEXT, blob,
                               REPLICAS);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_OK);
    for (uint32_t i = 0; i < CORES; i++) {
        uint64_t input = 1 + 2 * i;
        calls_allocate(&host->watch, host->driver, input, i, 8);
        calls_allocate(&host->watch, host->driver, input + 1, i, 8);
        host_write(host, 20 + i, input, (float)(1 << (CORES * index + i)));
        call = calls_make(&host->watch, &record, 11 + i);
        host->driver->ops->load(host->driver, &call, i, 10);
        assert_int_equal(calls_end(&record), POD_OK);
    }
}

static void host_execute(struct host *host, struct calls_record *record,
                         uint32_t index)
{
    static const uint32_t hosts[REPLICAS] = {0, 0, 1, 1};
    static const uint32_t cores[REPLICAS] = {0, 1, 2, 3};
    static const uint64_t inputs[CORES] = {1, 3};
    static const uint64_t outputs[CORES] = {2, 4};
    struct pod_driver_launch launches[CORES];
    struct pod_driver_call call = calls_make(&host->watch, record, 30);

    for (uint32_t i = 0; i < CORES; i++)
        launches[i] = (struct pod_driver_launch){
            .load = 11 + i,
            .inputs = &inputs[i],
            .input_count = 1,
            .outputs = &outputs[i],
            .output_count = 1,
            .replica = index * CORES + i,
        };
    struct pod_driver_execute execute = {
        .launches = launches,
        .launch_count = CORES,
        .replica_count = REPLICAS,
        .replica_hosts = hosts,
        .replica_cores = cores,
    };
    host->driver->ops->execute(host->driver, &call, &execute);
}

static void host_expect(struct host *host, uint64_t op, uint64_t buffer,
                        float first, float second)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(&host->watch, &record, op);
    float pair[2];

    host->driver->ops->read(host->driver, &call, buffer, 0, sizeof pair);
    assert_int_equal(calls_end(&record), POD_OK);
    memcpy(pair, record.data, sizeof pair);
    assert_true(pair[0] == first && pair[1] == second);
}

// 1 + 2 + 4 + 8 on all four cores.
static void test_sum_over_hosts(void **state)
{
    struct pod_gang_hub *hub = pod_gang_hub_new(HOSTS);
    struct host hosts[HOSTS];
    struct calls_record records[HOSTS];

    (void)state;
    for (uint32_t i = 0; i < HOSTS; i++) {
        host_open(&hosts[i], hub, i);
        host_prepare(&hosts[i], i);
    }
    for (uint32_t i = 0; i < HOSTS; i++)
        host_execute(&hosts[i], &records[i], i);
    for (uint32_t i = 0; i < HOSTS; i++) {
        assert_int_equal(calls_end(&records[i]), POD_OK);
        host_expect(&hosts[i], 40, 2, 15, -15);
        host_expect(&hosts[i], 41, 4, 15, -15);
    }
    for (uint32_t i = 0; i < HOSTS; i++) {
        hosts[i].driver->ops->close(hosts[i].driver);
        hosts[i].driver->ops->free(hosts[i].driver);
        calls_watch_fini(&hosts[i].watch);
    }
    pod_gang_hub_unref(hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_over_hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
