// SPDX-License-Identifier: Apache-2.0
// In-process hosts around the reference device: a gang over two hosts adds up,
// what is written as a whole is taken over, and what is lent stays as it is.
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

// ------------------------------------------------------- memory taken over

enum { WHOLE = 256 * 1024 };

static struct pod_blob *blob_of(size_t size, int value)
{
    struct pod_blob *blob = pod_blob_new(size);

    assert_non_null(blob);
    memset(blob->data, value, size);
    return blob;
}

static void host_put(struct host *host, uint64_t op, uint64_t offset,
                     struct pod_blob *blob, size_t data_offset, size_t count)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(&host->watch, &record, op);

    host->driver->ops->write(host->driver, &call, 1, offset, blob, data_offset,
                             count);
    assert_int_equal(calls_end(&record), POD_OK);
}

// Whether the buffer is in the blob's memory: a byte that is written to the one
// is seen in the other.
static bool host_has(struct host *host, uint64_t op, struct pod_blob *blob,
                     size_t data_offset)
{
    unsigned char before = blob->data[data_offset];
    struct pod_blob *byte = blob_of(1, before + 1);

    host_put(host, op, 0, byte, 0, 1);
    pod_blob_unref(byte);
    return blob->data[data_offset] != before;
}

static int host_byte(struct host *host, uint64_t op, uint64_t offset)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(&host->watch, &record, op);

    host->driver->ops->read(host->driver, &call, 1, offset, 1);
    assert_int_equal(calls_end(&record), POD_OK);
    return record.data[0];
}

static void test_whole_writes_are_taken_over(void **state)
{
    struct pod_gang_hub *hub = pod_gang_hub_new(HOSTS);
    struct host host;
    struct pod_blob *blob = blob_of(WHOLE, 3);

    (void)state;
    host_open(&host, hub, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, WHOLE);
    // Somebody may still look at it.
    host_put(&host, 10, 0, blob, 0, WHOLE);
    assert_false(host_has(&host, 11, blob, 0));
    pod_blob_give_up(blob);
    host_put(&host, 12, 0, blob, 0, WHOLE);
    assert_true(host_has(&host, 13, blob, 0));
    pod_blob_unref(blob);
    assert_int_equal(host_byte(&host, 14, WHOLE - 1), 3);
    host.driver->ops->close(host.driver);
    host.driver->ops->free(host.driver);
    calls_watch_fini(&host.watch);
    pod_gang_hub_unref(hub);
}

static void test_parts_are_copied(void **state)
{
    struct pod_gang_hub *hub = pod_gang_hub_new(HOSTS);
    struct host host;
    struct pod_blob *part = blob_of(WHOLE - 1, 4);
    struct pod_blob *more = blob_of(WHOLE + 64, 5);

    (void)state;
    host_open(&host, hub, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, WHOLE);
    pod_blob_give_up(part);
    host_put(&host, 10, 1, part, 0, WHOLE - 1);
    assert_int_equal(host_byte(&host, 11, 0), 0); // never written
    assert_int_equal(host_byte(&host, 12, 1), 4);
    assert_false(host_has(&host, 13, part, 0));
    // All of the buffer, but not all of the blob.
    pod_blob_give_up(more);
    host_put(&host, 14, 0, more, 64, WHOLE);
    assert_int_equal(host_byte(&host, 15, WHOLE - 1), 5);
    assert_false(host_has(&host, 16, more, 64));
    pod_blob_unref(part);
    pod_blob_unref(more);
    host.driver->ops->close(host.driver);
    host.driver->ops->free(host.driver);
    calls_watch_fini(&host.watch);
    pod_gang_hub_unref(hub);
}

// -------------------------------------------------------------- memory lent

struct loan {
    struct calls_record record;
    struct pod_blob *blob;
};

static void loan_done(void *arg, const struct pod_driver_result *result)
{
    struct loan *loan = arg;

    if (result->data != NULL)
        loan->blob = pod_blob_ref(result->data);
    calls_on_done(&loan->record, result);
}

static struct pod_blob *host_lend(struct host *host, uint64_t op,
                                  uint64_t offset, size_t count)
{
    struct loan loan = {.blob = NULL};
    struct pod_driver_call call = calls_make(&host->watch, &loan.record, op);

    call.started = NULL;
    call.done = loan_done;
    call.arg = &loan;
    host->driver->ops->lend(host->driver, &call, 1, offset, count);
    assert_int_equal(calls_end(&loan.record), POD_OK);
    assert_non_null(loan.blob);
    assert_int_equal(loan.blob->size, count);
    return loan.blob;
}

static void host_drop(struct host *host, uint64_t op)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(&host->watch, &record, op);

    host->driver->ops->deallocate(host->driver, &call, 1);
    assert_int_equal(calls_end(&record), POD_OK);
}

static void test_loans_stay_as_they_are(void **state)
{
    struct pod_gang_hub *hub = pod_gang_hub_new(HOSTS);
    struct host host;
    struct pod_blob *blob = blob_of(WHOLE, 3);
    struct pod_blob *byte = blob_of(1, 4);

    (void)state;
    host_open(&host, hub, 0);
    assert_true((host.watch.info.features & POD_DRIVER_LENDS) != 0);
    calls_allocate(&host.watch, host.driver, 1, 0, WHOLE);
    host_put(&host, 10, 0, blob, 0, WHOLE);
    struct pod_blob *whole = host_lend(&host, 11, 0, WHOLE);
    struct pod_blob *part = host_lend(&host, 12, WHOLE / 2, WHOLE / 2);
    assert_ptr_equal(part->data, whole->data + WHOLE / 2);
    host_put(&host, 13, WHOLE - 1, byte, 0, 1);
    assert_int_equal(host_byte(&host, 14, WHOLE - 1), 4);
    struct pod_blob *later = host_lend(&host, 15, 0, WHOLE);
    host_drop(&host, 16);
    pod_inproc_kill(host.driver, "the test wants it");
    host.driver->ops->close(host.driver);
    host.driver->ops->free(host.driver);
    assert_memory_equal(whole->data, blob->data, WHOLE);
    assert_memory_equal(part->data, blob->data, WHOLE / 2);
    assert_memory_equal(later->data, blob->data, WHOLE - 1);
    assert_int_equal(later->data[WHOLE - 1], 4);
    pod_blob_unref(whole);
    pod_blob_unref(part);
    pod_blob_unref(later);
    pod_blob_unref(blob);
    pod_blob_unref(byte);
    calls_watch_fini(&host.watch);
    pod_gang_hub_unref(hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_over_hosts),
        cmocka_unit_test(test_whole_writes_are_taken_over),
        cmocka_unit_test(test_parts_are_copied),
        cmocka_unit_test(test_loans_stay_as_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
