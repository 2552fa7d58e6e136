// SPDX-License-Identifier: Apache-2.0
// A pod of workers that speak the original protocol alone: fake ones, and the
// core of our own around the reference device.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/device/reference/reference.h"
#include "core/driver/inproc.h"
#include "proto/grpc_driver.h"
#include "tests/lib/fake_worker.h"
#include "tests/lib/near_worker.h"
#include "tests/lib/pod_fixture.h"

enum { HOSTS = 2, CHUNK = 1 << 20 };

struct plain {
    struct fixture fix; // the pod alone
    struct pod_grpc_hub *hub;
    struct near_worker *near[HOSTS];
    struct fake_worker fakes[HOSTS];
};

// ------------------------------------------------------------------------ pods

static void begin(struct plain *plain, bool trusts_order)
{
    struct pod_options options = {
        .clock = pod_clock_system,
        .instance = "test",
        .history_count = 1000,
        .history_age_ns = 3600 * POD_NS_PER_S,
        .first_number = 1,
        .staging_bytes = 1 << 24,
        .chunk_bytes = CHUNK,
    };
    struct pod_err err;

    memset(plain, 0, sizeof(*plain));
    plain->fakes[0].pid = plain->fakes[1].pid = -1;
    plain->fix.pod = pod_new(&options);
    assert_non_null(plain->fix.pod);
    assert_int_equal(pod_grpc_hub_new(NULL, &plain->hub, &err), POD_OK);
    if (trusts_order)
        pod_grpc_hub_trust_order(plain->hub);
}

static void add_host(struct plain *plain, uint32_t host, const char *address)
{
    struct pod_grpc_options options = {
        .hub = plain->hub,
        .host = host,
        .address = address,
        // A busy machine is no reason to give a worker up here.
        .connect_ns = 60 * POD_NS_PER_S,
        .silence_ns = 60 * POD_NS_PER_S,
    };
    struct pod_driver *driver;
    struct pod_err err;

    assert_int_equal(pod_grpc_driver_new(&options, &driver, &err), POD_OK);
    assert_int_equal(pod_add_host(plain->fix.pod, driver, address, &err),
                     POD_OK);
}

static void open_pod(struct plain *plain)
{
    struct pod_err err;

    assert_int_equal(pod_start(plain->fix.pod, &err), POD_OK);
    pod_await_hosts(plain->fix.pod, 60 * POD_NS_PER_S);
}

static void end(struct plain *plain)
{
    pod_stop(plain->fix.pod);
    pod_destroy(plain->fix.pod);
    pod_grpc_hub_free(plain->hub);
    for (int i = 0; i < HOSTS; i++) {
        near_worker_stop(plain->near[i]);
        fake_worker_signal(&plain->fakes[i], SIGKILL);
    }
    assert_int_equal(pod_mem_live(), 0);
}

// Host `host` of a slice of two: two chips of one core each.
static void start_near(struct plain *plain, uint32_t host)
{
    const struct worker_slice slice = {.x = 4,
                                       .y = 1,
                                       .z = 1,
                                       .cores_per_chip = 1,
                                       .host_id = host,
                                       .hosts = HOSTS,
                                       .hbm_bytes = 1 << 24};
    const struct pod_driver_chip chips[] = {
        {.x = 2 * (int32_t)host, .host_id = (int32_t)host},
        {.x = 2 * (int32_t)host + 1, .host_id = (int32_t)host},
    };
    static const uint32_t core_chips[] = {0, 1};
    struct pod_reference_options reference = {.core_count = 2,
                                              .memory_bytes = 1 << 24};
    struct pod_gang_hub *hub = pod_gang_hub_new(2);
    struct pod_inproc_options options = {
        .hub = hub,
        .host_count = HOSTS,
        .chips = chips,
        .chip_count = 2,
        .core_chips = core_chips,
    };
    struct pod_driver *driver;
    struct pod_err err;

    assert_int_equal(
        pod_reference_device_new(&reference, &options.device, &err), POD_OK);
    assert_int_equal(pod_inproc_new(&options, &driver, &err), POD_OK);
    plain->near[host] = near_worker_start_plain(driver, &slice);
    pod_gang_hub_unref(hub);
    add_host(plain, host, near_worker_address(plain->near[host]));
}

static void start_slice(struct plain *plain)
{
    begin(plain, false);
    for (uint32_t i = 0; i < HOSTS; i++)
        start_near(plain, i);
    open_pod(plain);
}

static void await_all(struct plain *plain)
{
    pod_await_idle(plain->fix.pod, 60 * POD_NS_PER_S);
}

// -------------------------------------------------------------------- programs

static uint64_t compile(struct plain *plain, const char *text)
{
    struct pod_request request = fixture_request(POD_KIND_COMPILE);
    struct pod_blob *blob = pod_blob_new(strlen(text));

    assert_non_null(blob);
    memcpy(blob->data, text, blob->size);
    request.compile.format = POD_FORMAT_HLO_TEXT;
    request.compile.program = blob;
    request.compile.replicas = 2;
    request.compile.digest = text;
    uint64_t program = fixture_submit(&plain->fix, &request);
    pod_blob_unref(blob);
    await_all(plain);
    assert_state(&plain->fix, program, "SUCCEEDED");
    return program;
}

static uint64_t buffer_of(struct plain *plain, uint32_t core, float first)
{
    static struct pod_shape shape;
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_blob *blob = pod_blob_new(2 * sizeof(float));
    const float values[] = {first, first + 1};
    struct pod_err err;

    assert_non_null(blob);
    memcpy(blob->data, values, sizeof(values));
    assert_int_equal(pod_shape_parse("f32[2]", 6, &shape, &err), POD_OK);
    request.allocate.core = core;
    request.allocate.shape = &shape;
    request.allocate.data = blob;
    uint64_t buffer = fixture_submit(&plain->fix, &request);
    pod_blob_unref(blob);
    return buffer;
}

static void assert_buffer(struct plain *plain, uint64_t buffer, float first,
                          float second)
{
    uint64_t read = fixture_read(&plain->fix, buffer);
    struct pod_data data;
    struct pod_err err;
    float values[2];

    await_all(plain);
    assert_state(&plain->fix, read, "SUCCEEDED");
    assert_int_equal(pod_take_data(plain->fix.pod, read, &data, &err), POD_OK);
    assert_int_equal(data.bytes, sizeof(values));
    memcpy(values, data.chunks[0]->data, sizeof(values));
    pod_data_fini(&data);
    assert_true(values[0] == first && values[1] == second);
}

// A gang of two: the first core of each host.
struct gang {
    uint64_t in[2];
    uint64_t out[2];
    uint64_t run;
};

static void run_gang(struct plain *plain, uint64_t program,
                     uint32_t second_core, struct gang *gang)
{
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_launch launches[2];
    struct pod_ref refs[4];

    memset(launches, 0, sizeof(launches));
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t core = i == 0 ? 0 : second_core;
        uint64_t load = fixture_load_on(&plain->fix, program, core);
        gang->in[i] = buffer_of(plain, core, 10.0F * (float)(i + 1));
        gang->out[i] = buffer_of(plain, core, 0);
        refs[2 * i] = fixture_buffer(gang->in[i]);
        refs[2 * i + 1] = fixture_buffer(gang->out[i]);
        launches[i].load = fixture_load(load);
        launches[i].inputs = &refs[2 * i];
        launches[i].input_count = 1;
        launches[i].outputs = &refs[2 * i + 1];
        launches[i].output_count = 1;
    }
    request.execute.launches = launches;
    request.execute.launch_count = 2;
    request.execute.is_gang = true;
    gang->run = fixture_submit(&plain->fix, &request);
    await_all(plain);
}

static const char double_text[] =
    "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n"
    "  ROOT r = f32[2] add(p, p)\n}\n";
static const char sum_text[] =
    "HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
    "  ROOT s = f32[] add(a, b)\n}\nENTRY e {\n  p = f32[2] parameter(0)\n"
    "  ROOT r = f32[2] all-reduce(p), replica_groups={}, to_apply=add\n}\n";

// ----------------------------------------------------------------------- tests

static void test_a_gang_runs_on_two_workers_of_a_slice(void **state)
{
    struct plain plain;
    struct gang gang;

    (void)state;
    start_slice(&plain);
    run_gang(&plain, compile(&plain, double_text), 2, &gang);
    assert_state(&plain.fix, gang.run, "SUCCEEDED");
    assert_buffer(&plain, gang.out[0], 20, 22);
    assert_buffer(&plain, gang.out[1], 40, 42);
    end(&plain);
}

static void test_a_gang_that_exchanges_runs_on_one(void **state)
{
    struct plain plain;
    struct gang gang;

    (void)state;
    start_slice(&plain);
    run_gang(&plain, compile(&plain, sum_text), 1, &gang);
    assert_state(&plain.fix, gang.run, "SUCCEEDED");
    assert_buffer(&plain, gang.out[0], 30, 32);
    assert_buffer(&plain, gang.out[1], 30, 32);
    end(&plain);
}

// Workers have no way to each other in this protocol.
static void test_a_gang_that_exchanges_is_refused_over_two(void **state)
{
    struct plain plain;
    struct gang gang;

    (void)state;
    start_slice(&plain);
    run_gang(&plain, compile(&plain, sum_text), 2, &gang);
    assert_state(&plain.fix, gang.run, "FAILED");
    fixture_assert_reason(&plain.fix, gang.run, "UNIMPLEMENTED");
    fixture_assert_detail(&plain.fix, gang.run,
                          "replicas of this program exchange data", "podd");
    assert_buffer(&plain, gang.in[0], 10, 11);
    end(&plain);
}

// Each is told the cores of both; they check that.
static void test_a_gang_runs_on_two_fake_workers(void **state)
{
    static const char *const modes[] = {"plain-slice-0", "plain-slice"};
    struct plain plain;
    struct gang gang;

    (void)state;
    begin(&plain, false);
    for (uint32_t i = 0; i < HOSTS; i++) {
        assert_true(fake_worker_start(&plain.fakes[i], modes[i], 0));
        add_host(&plain, i, plain.fakes[i].address);
    }
    open_pod(&plain);
    run_gang(&plain, compile(&plain, double_text), 2, &gang);
    assert_state(&plain.fix, gang.run, "SUCCEEDED");
    assert_buffer(&plain, gang.out[0], 10, 11); // fakes copy
    assert_buffer(&plain, gang.out[1], 20, 21);
    end(&plain);
}

// The worker answers when it has all three.
static void test_a_trusted_worker_gets_a_chain_at_once(void **state)
{
    struct plain plain;

    (void)state;
    begin(&plain, true);
    assert_true(fake_worker_start(&plain.fakes[0], "plain-held", 0));
    add_host(&plain, 0, plain.fakes[0].address);
    open_pod(&plain);
    uint64_t buffer = fixture_allocate(&plain.fix, 0, 8);
    uint64_t first = fixture_read(&plain.fix, buffer);
    uint64_t second = fixture_read(&plain.fix, buffer);
    await_all(&plain);
    assert_state(&plain.fix, first, "SUCCEEDED");
    assert_state(&plain.fix, second, "SUCCEEDED");
    end(&plain);
}

// A part of a buffer is written with the rest of it.
static void test_parts_are_written(void **state)
{
    struct plain plain;

    (void)state;
    begin(&plain, false);
    assert_true(fake_worker_start(&plain.fakes[0], "plain", 0));
    add_host(&plain, 0, plain.fakes[0].address);
    open_pod(&plain);
    uint64_t buffer = buffer_of(&plain, 0, 5);
    struct pod_request request = fixture_request(POD_KIND_WRITE);
    const float nine = 9;
    request.write.buffer = fixture_buffer(buffer);
    request.write.offset = sizeof(nine);
    request.write.data = pod_blob_new(sizeof(nine));
    assert_non_null(request.write.data);
    memcpy(request.write.data->data, &nine, sizeof(nine));
    uint64_t write = fixture_submit(&plain.fix, &request);
    pod_blob_unref(request.write.data);
    assert_buffer(&plain, buffer, 5, 9);
    assert_state(&plain.fix, write, "SUCCEEDED");
    end(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gang_runs_on_two_workers_of_a_slice),
        cmocka_unit_test(test_a_gang_that_exchanges_runs_on_one),
        cmocka_unit_test(test_a_gang_that_exchanges_is_refused_over_two),
        cmocka_unit_test(test_a_gang_runs_on_two_fake_workers),
        cmocka_unit_test(test_a_trusted_worker_gets_a_chain_at_once),
        cmocka_unit_test(test_parts_are_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
