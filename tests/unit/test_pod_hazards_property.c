// SPDX-License-Identifier: Apache-2.0
// Random programs of operations on real in-process hosts, around a fake device,
// against a model that runs them one after the other.
//
// The engine runs them in whatever order the hosts come to; what each buffer
// holds, what each read brings, which operations are skipped and because of
// what must be as if they had run in the order of their submission. Run with
// POD_SEEDS=n for another number of programs, POD_SEED=n for just that one.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/driver/inproc.h"
#include "tests/lib/op_model.h"
#include "tests/lib/telling_driver.h"
#include "tests/unit/fake_device.h"

enum { HOSTS_MAX = 3, CORES_OF_HOST = 2, STEPS = 60 };

// ---------------------------------------------------------------- checking

static bool is_root(const struct model *model, const struct model_op *op,
                    uint64_t number)
{
    for (size_t i = 0; i < model->op_count; i++)
        if (op->roots[i] && model->ops[i].number == number)
            return true;
    return false;
}

static void check_data(const struct model *model, const struct model_op *op)
{
    struct pod_data data;
    struct pod_err err = POD_ERR_NONE;
    unsigned char bytes[4];
    size_t size = 0;

    assert_int_equal(pod_take_data(model->pod, op->number, &data, &err),
                     POD_OK);
    assert_int_equal(data.bytes, op->data_size);
    for (size_t i = 0; i < data.chunk_count; i++) {
        assert_true(size + data.chunks[i]->size <= sizeof(bytes));
        memcpy(bytes + size, data.chunks[i]->data, data.chunks[i]->size);
        size += data.chunks[i]->size;
    }
    assert_int_equal(size, op->data_size);
    assert_memory_equal(bytes, op->data, size);
    pod_data_fini(&data);
    assert_int_equal(pod_drop_data(model->pod, op->number, NULL), POD_OK);
}

static void check_op(const struct model *model, const struct model_op *op)
{
    struct pod_event_view view;
    struct pod_err err = POD_ERR_NONE;
    enum pod_sched_state expected = POD_SCHED_SUCCEEDED;

    if (op->bad)
        expected = op->skipped ? POD_SCHED_SKIPPED : POD_SCHED_FAILED;
    assert_int_equal(pod_get_event(model->pod, op->number, &view, &err),
                     POD_OK);
    assert_int_equal(view.kind, op->kind);
    if (view.state != expected)
        print_error("operation %llu (%s): %s\n", (unsigned long long)op->number,
                    pod_kind_name(op->kind),
                    view.has_error ? view.error.detail : "no error");
    assert_string_equal(pod_sched_state_name(view.state),
                        pod_sched_state_name(expected));
    assert_int_equal(view.has_error, op->bad);
    if (op->bad)
        assert_true(is_root(model, op, view.root));
    pod_event_view_fini(&view);
    if (op->kind == POD_KIND_READ && !op->bad)
        check_data(model, op);
}

static void check_buffer(const struct model *model,
                         const struct model_buffer *buffer)
{
    struct pod_buffer_view view;
    enum pod_handle_state expected = POD_HANDLE_READY;

    if (model->ops[buffer->maker].bad || model->ops[buffer->writer].bad)
        expected = POD_HANDLE_FAILED;
    if (buffer->freed)
        expected = POD_HANDLE_FREED;
    assert_int_equal(pod_get_buffer(model->pod,
                                    model->ops[buffer->maker].number, &view,
                                    NULL),
                     POD_OK);
    assert_string_equal(pod_handle_state_name(view.state),
                        pod_handle_state_name(expected));
    assert_int_equal(view.core, buffer->core);
    if (!model->ops[buffer->maker].bad)
        assert_int_equal(view.bytes, 4);
    assert_int_equal(view.last_writer, model->ops[buffer->writer].number);
    assert_int_equal(view.reader_count, 0);
    pod_buffer_view_fini(&view);
}

// The memory of each core is what its buffers take.
static void check_memory(const struct model *model)
{
    struct pod_topology_view view;
    uint64_t used = 0;
    uint64_t expected = 0;

    for (size_t i = 0; i < model->buffer_count; i++) {
        const struct model_buffer *buffer = &model->buffers[i];
        if (!buffer->freed && !model->ops[buffer->maker].bad)
            expected += 4;
    }
    assert_int_equal(pod_get_topology(model->pod, &view, NULL), POD_OK);
    for (size_t i = 0; i < view.core_count; i++) {
        used += view.cores[i].memory_used;
        assert_int_equal(view.cores[i].running_count, 0);
        assert_int_equal(view.cores[i].queue_depth, 0);
    }
    assert_int_equal(used, expected);
    pod_topology_view_fini(&view);
}

static void check_all(struct model *model)
{
    for (size_t i = 0; i < model->op_count; i++)
        check_op(model, &model->ops[i]);
    for (size_t i = 0; i < model->buffer_count; i++)
        check_buffer(model, &model->buffers[i]);
    check_memory(model);
}

// When all threads are gone nobody holds any bytes.
static void stop_pod(struct pod *pod)
{
    uint64_t used, max;

    pod_stop(pod);
    pod_staging_usage(pod, &used, &max);
    assert_int_equal(used, 0);
    pod_destroy(pod);
    assert_int_equal(pod_mem_live(), 0);
}

// -------------------------------------------------------------------- pods

static void add_host(struct pod *pod, struct pod_gang_hub *hub, uint32_t host,
                     uint32_t host_count, bool together)
{
    // One row of chips, two a host.
    const struct pod_driver_chip chips[] = {
        {.x = 2 * (int32_t)host, .host_id = (int32_t)host},
        {.x = 2 * (int32_t)host + 1, .host_id = (int32_t)host},
    };
    static const uint32_t core_chips[CORES_OF_HOST] = {0, 1};
    struct fake_device *fake = fake_new(CORES_OF_HOST, 1 << 20);
    struct pod_inproc_options options = {
        .device = &fake->base,
        .hub = hub,
        .host = host,
        .host_count = host_count,
        .chips = chips,
        .chip_count = 2,
        .core_chips = core_chips,
    };
    struct pod_driver *driver;

    assert_int_equal(pod_inproc_new(&options, &driver, NULL), POD_OK);
    if (together)
        driver = telling_driver_new(driver);
    assert_int_equal(pod_add_host(pod, driver, "in-process", NULL), POD_OK);
}

static struct pod *start_pod(uint32_t hosts, size_t chunk_bytes, bool together)
{
    struct pod_options options = {
        .clock = pod_clock_system,
        .instance = "test",
        .history_count = 100000,
        .history_age_ns = 3600 * POD_NS_PER_S,
        .first_number = 1,
        .staging_bytes = 1 << 20,
        .chunk_bytes = chunk_bytes,
    };
    struct pod *pod = pod_new(&options);
    struct pod_gang_hub *hub = pod_gang_hub_new(hosts);

    assert_non_null(pod);
    assert_non_null(hub);
    for (uint32_t i = 0; i < hosts; i++)
        add_host(pod, hub, i, hosts, together);
    pod_gang_hub_unref(hub);
    assert_int_equal(pod_start(pod, NULL), POD_OK);
    pod_await_hosts(pod, 60 * POD_NS_PER_S);
    return pod;
}

// --------------------------------------------------------------- onlookers

// Somebody who looks at everything while it moves, in a thread of its own.
struct onlooker {
    struct pod *pod;
    pthread_t thread;
    atomic_bool stop;
    atomic_int faults; // answers that cannot be
};

static void look_at_events(struct onlooker *onlooker)
{
    const struct pod_event_filter filter = {
        .host = POD_NO_ID,
        .core = POD_NO_ID,
        .since_wall_ns = INT64_MIN,
    };
    struct pod_event_view views[20];
    uint64_t next = UINT64_MAX;
    uint64_t before = UINT64_MAX;

    while (next != 0) {
        size_t count;
        if (pod_list_events(onlooker->pod, &filter, next, 20, views, &count,
                            &next, NULL) != POD_OK) {
            onlooker->faults++;
            return;
        }
        for (size_t i = 0; i < count; i++) {
            onlooker->faults += views[i].number >= before;
            before = views[i].number;
            pod_event_view_fini(&views[i]);
        }
    }
}

static void look_at_handles(struct onlooker *onlooker)
{
    struct pod_buffer_view buffers[8];
    struct pod_program_view programs[4];
    struct pod_load_view loads[8];
    struct pod_dependency *items;
    uint64_t next;
    size_t count;
    bool more;

    if (pod_list_buffers(onlooker->pod, UINT64_MAX, 8, buffers, &count, &next,
                         NULL) == POD_OK)
        for (size_t i = 0; i < count; i++)
            pod_buffer_view_fini(&buffers[i]);
    if (pod_list_programs(onlooker->pod, UINT64_MAX, 4, programs, &count, &next,
                          NULL) == POD_OK)
        for (size_t i = 0; i < count; i++)
            pod_program_view_fini(&programs[i]);
    if (pod_list_loads(onlooker->pod, UINT64_MAX, 8, loads, &count, &next,
                       NULL) != POD_OK)
        onlooker->faults++;
    uint64_t last = pod_last_number(onlooker->pod);
    for (int down = 0; last > 0 && down < 2; down++) {
        if (pod_dependencies(onlooker->pod, last, down == 1, 5, 50, &items,
                             &count, &more, NULL) == POD_OK)
            pod_dependencies_free(items);
        else
            onlooker->faults++;
    }
}

static void *look(void *arg)
{
    struct onlooker *onlooker = arg;
    struct pod_topology_view topology;
    struct pod_summary summary;

    while (!onlooker->stop) {
        look_at_events(onlooker);
        look_at_handles(onlooker);
        if (pod_get_topology(onlooker->pod, &topology, NULL) == POD_OK)
            pod_topology_view_fini(&topology);
        else
            onlooker->faults++;
        if (pod_get_summary(onlooker->pod, &summary, NULL) == POD_OK)
            pod_summary_fini(&summary);
        else
            onlooker->faults++;
    }
    return NULL;
}

static void onlooker_start(struct onlooker *onlooker, struct pod *pod,
                           void *(*what)(void *arg))
{
    memset(onlooker, 0, sizeof(*onlooker));
    onlooker->pod = pod;
    assert_int_equal(pthread_create(&onlooker->thread, NULL, what, onlooker),
                     0);
}

static void onlooker_stop(struct onlooker *onlooker)
{
    onlooker->stop = true;
    pthread_join(onlooker->thread, NULL);
    assert_int_equal(onlooker->faults, 0);
}

static void begin(struct model *model, uint64_t seed)
{
    memset(model, 0, sizeof(*model));
    model->seed = seed;
    uint32_t hosts = 1 + (uint32_t)model_pick(model, HOSTS_MAX);
    // Some pieces are smaller than a buffer.
    size_t chunk_bytes = model_pick(model, 2) == 0 ? 3 : 0;
    // Some hosts tell of much that they have done together.
    model->pod = start_pod(hosts, chunk_bytes, seed % 3 == 0);
    model->cores = hosts * CORES_OF_HOST;
    model->graphs = seed % 2 == 1;
}

static void run_program(uint64_t seed)
{
    static struct model model;
    struct onlooker onlooker;
    bool watched = seed % 8 == 0;

    begin(&model, seed);
    if (watched)
        onlooker_start(&onlooker, model.pod, look);
    model_run(&model, STEPS);
    pod_await_idle(model.pod, 60 * POD_NS_PER_S);
    if (watched)
        onlooker_stop(&onlooker);
    check_all(&model);
    stop_pod(model.pod);
}

// ----------------------------------------------------------------- cancels

// Somebody who cancels whatever comes.
static void *cancel(void *arg)
{
    struct onlooker *onlooker = arg;
    uint64_t last = 0;

    while (!onlooker->stop) {
        uint64_t now = pod_last_number(onlooker->pod);
        // Spared are the compiles and loads at the start, and most others.
        for (uint64_t number = last + 1; number <= now; number++) {
            bool again;
            if (number > 20 && number % 7 == 0)
                (void)!pod_cancel(onlooker->pod, number,
                                  number % 2 == 0 ? POD_CASCADE_DEPENDENTS
                                                  : POD_CASCADE_NONE,
                                  "random", &again, NULL);
        }
        last = now;
    }
    return NULL;
}

// What ends badly says why, and nothing fails but what the program made fail
// (or reads in spite of it what was never made): no operation met another on
// the same buffer.
static void check_cancelled(const struct model *model,
                            const struct model_op *op)
{
    struct pod_event_view view;

    assert_int_equal(pod_get_event(model->pod, op->number, &view, NULL),
                     POD_OK);
    assert_true(pod_sched_terminal(view.state));
    assert_int_not_equal(view.cancel, POD_CANCEL_PENDING);
    assert_int_equal(view.has_error, view.state != POD_SCHED_SUCCEEDED);
    if (view.state == POD_SCHED_FAILED && !op->runs_anyway &&
        strcmp(view.error.reason, "PROGRAM_FAULT") != 0 &&
        strcmp(view.error.reason, "INVALID_PROGRAM") != 0)
        fail_msg("operation %llu (%s) failed: %s",
                 (unsigned long long)op->number, pod_kind_name(op->kind),
                 view.error.detail);
    if (view.has_error)
        assert_true(view.root <= view.number);
    if (view.state == POD_SCHED_SKIPPED) {
        assert_int_not_equal(view.root, view.number);
        assert_true(view.cause_count > 0);
    }
    pod_event_view_fini(&view);
    if (op->kind == POD_KIND_READ)
        (void)!pod_drop_data(model->pod, op->number, NULL);
}

static void run_cancelled(uint64_t seed)
{
    static struct model model;
    struct onlooker canceller;

    begin(&model, seed);
    onlooker_start(&canceller, model.pod, cancel);
    model_run(&model, STEPS);
    pod_await_idle(model.pod, 60 * POD_NS_PER_S);
    onlooker_stop(&canceller);
    for (size_t i = 0; i < model.op_count; i++)
        check_cancelled(&model, &model.ops[i]);
    stop_pod(model.pod);
}

// --------------------------------------------------------------------- main

static void run_seeds(void (*run)(uint64_t seed), uint64_t usual)
{
    const char *one = getenv("POD_SEED");
    const char *text = getenv("POD_SEEDS");
    uint64_t seeds = text == NULL ? usual : strtoull(text, NULL, 10);

    if (one != NULL) {
        run(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        // Shown with the output of a test that fails.
        if (seed % 100 == 1)
            print_message("seeds from %llu\n", (unsigned long long)seed);
        run(seed);
    }
}

static void test_random_programs(void **state)
{
    (void)state;
    run_seeds(run_program, 1000);
    if (getenv("POD_SEED") == NULL && getenv("POD_SEEDS") == NULL)
        assert_true(telling_driver_most() > 1); // else nothing was together
}

static void test_random_programs_with_cancels(void **state)
{
    (void)state;
    run_seeds(run_cancelled, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_random_programs_with_cancels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
