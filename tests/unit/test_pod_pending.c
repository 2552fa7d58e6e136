// SPDX-License-Identifier: Apache-2.0
// Why an operation does not run, and its place in the queue: on fake hosts that
// are answered by hand. The expected places are counted by hand as well.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "tests/lib/pod_fixture.h"

enum { NO_PLACE = -1, CAPPED = 250 };

static int setup(void **state)
{
    return fixture_setup(state, 0);
}

static int setup_ahead(void **state)
{
    return fixture_setup(state, POD_DRIVER_WAITS | POD_DRIVER_ORDERS);
}

static void assert_waits_at(struct fixture *fix, uint64_t number,
                            const char *reason, int64_t place)
{
    struct pod_event_view view;
    struct pod_err err;

    assert_int_equal(pod_get_event(fix->pod, number, &view, &err), POD_OK);
    assert_string_equal(pod_pending_name(view.pending), reason);
    assert_int_equal(view.queue_position == POD_NO_ID
                         ? NO_PLACE
                         : (int64_t)view.queue_position,
                     place);
    assert_int_equal(view.queue_capped, place == CAPPED);
    pod_event_view_fini(&view);
}

// A program that is loaded on a core, and buffers for it.
struct work {
    uint64_t load;
    uint64_t input;
    uint64_t output;
};

static struct work work_on(struct fixture *fix, uint32_t core)
{
    struct work work = {
        .load = fixture_load_on(fix, fixture_compile(fix, "sha-256:w"), core),
        .input = fixture_allocate(fix, core, 8),
        .output = fixture_allocate(fix, core, 8),
    };

    fixture_run(fix);
    return work;
}

// An execution that nothing but its core holds up.
static uint64_t execute(struct fixture *fix, const struct work *work,
                        int priority)
{
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_ref in = fixture_buffer(work->input);
    struct pod_launch launch = {
        .load = fixture_load(work->load),
        .inputs = &in,
        .input_count = 1,
        .auto_outputs = true,
    };

    request.priority = priority;
    request.execute.launches = &launch;
    request.execute.launch_count = 1;
    uint64_t number = fixture_submit(fix, &request);
    fake_done(fix->host[0], number - 1); // its output
    return number;
}

static uint64_t after(struct fixture *fix, uint64_t before)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_ref ref = fixture_op(before);

    request.allocate.bytes = 8;
    request.after = &ref;
    request.after_count = 1;
    return fixture_submit(fix, &request);
}

// -------------------------------------------------------------- dependencies

static void test_dependency(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = fixture_allocate(fix, 0, 8);
    uint64_t second = after(fix, first);

    assert_waits_at(fix, second, "DEPENDENCY", NO_PLACE);
    fake_start(fix->host[0], first);
    assert_waits_at(fix, first, "NONE", NO_PLACE); // it runs
    fake_done(fix->host[0], first);
    assert_waits_at(fix, first, "NONE", NO_PLACE); // it is done
    assert_waits_at(fix, second, "HOST_QUEUE", 0);
}

// --------------------------------------------------------------------- hosts

static void test_host_queue(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = fixture_allocate(fix, 0, 8);
    uint64_t beside = fixture_allocate(fix, 1, 8); // another core
    uint64_t second = fixture_allocate(fix, 0, 8);
    uint64_t third = fixture_allocate(fix, 0, 8);
    uint64_t program = fixture_compile(fix, "sha-256:a"); // of no core
    uint64_t same = fixture_compile(fix, "sha-256:a");
    uint64_t far = fixture_allocate(fix, 2, 8);

    assert_waits_at(fix, first, "HOST_QUEUE", 0);
    assert_waits_at(fix, beside, "HOST_QUEUE", 0);
    assert_waits_at(fix, second, "HOST_QUEUE", 1);
    assert_waits_at(fix, third, "HOST_QUEUE", 2);
    assert_waits_at(fix, program, "HOST_QUEUE", 4);
    assert_waits_at(fix, same, "HOST_QUEUE", 4); // waits for the same answer
    assert_waits_at(fix, far, "HOST_QUEUE", 1);  // behind the compile there
    fake_start(fix->host[0], first);
    assert_waits_at(fix, second, "HOST_QUEUE", 0);
    fake_done(fix->host[0], second);
    assert_waits_at(fix, third, "HOST_QUEUE", 0);
}

static void test_pieces_count_once(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 64);

    fixture_run(fix);
    // In pieces of 16 bytes, of which several are under way.
    uint64_t read = fixture_read(fix, buffer);
    uint64_t behind = fixture_allocate(fix, 0, 8);
    assert_true(fake_open(fix->host[0]) > 2);
    assert_waits_at(fix, read, "HOST_QUEUE", 0);
    assert_waits_at(fix, behind, "HOST_QUEUE", 1);
}

// ------------------------------------------------------------------ executions

static void test_core_busy(void **state)
{
    struct fixture *fix = *state;
    struct work work = work_on(fix, 0);
    uint64_t sent = execute(fix, &work, 0);
    uint64_t second = execute(fix, &work, 0);
    uint64_t third = execute(fix, &work, 0);
    uint64_t urgent = execute(fix, &work, 5);

    assert_waits_at(fix, sent, "HOST_QUEUE", 0);
    assert_waits_at(fix, urgent, "CORE_BUSY", 1);
    assert_waits_at(fix, second, "CORE_BUSY", 2);
    assert_waits_at(fix, third, "CORE_BUSY", 3);
    fake_start(fix->host[0], sent);
    assert_waits_at(fix, urgent, "CORE_BUSY", 0);
    assert_waits_at(fix, third, "CORE_BUSY", 2);
    fake_done(fix->host[0], sent);
    assert_waits_at(fix, urgent, "HOST_QUEUE", 0);
    assert_waits_at(fix, third, "CORE_BUSY", 2);
}

// A host that keeps the order has 16 executions of a core at a time.
static void test_core_busy_behind_what_was_sent(void **state)
{
    struct fixture *fix = *state;
    struct work work = work_on(fix, 0);
    uint64_t run[20];

    for (size_t i = 0; i < 20; i++)
        run[i] = execute(fix, &work, 0);
    assert_waits_at(fix, run[15], "HOST_QUEUE", 15);
    assert_waits_at(fix, run[16], "CORE_BUSY", 16);
    assert_waits_at(fix, run[19], "CORE_BUSY", 19);
    fake_start(fix->host[0], run[0]);
    assert_waits_at(fix, run[15], "HOST_QUEUE", 14);
    assert_waits_at(fix, run[16], "CORE_BUSY", 15);
    fake_done(fix->host[0], run[0]);
    assert_waits_at(fix, run[16], "HOST_QUEUE", 15);
    assert_waits_at(fix, run[19], "CORE_BUSY", 18);
}

// Hosts begin by priority what they have.
static void test_priority_at_the_host(void **state)
{
    struct fixture *fix = *state;
    struct work work = work_on(fix, 0);
    uint64_t first = execute(fix, &work, 0);
    uint64_t second = execute(fix, &work, 0);
    uint64_t urgent = execute(fix, &work, 1);
    uint64_t late = execute(fix, &work, -1);

    assert_waits_at(fix, first, "HOST_QUEUE", 0);
    assert_waits_at(fix, second, "HOST_QUEUE", 1);
    assert_waits_at(fix, urgent, "HOST_QUEUE", 0);
    assert_waits_at(fix, late, "HOST_QUEUE", 3);
}

static void test_places_are_counted_to_a_limit(void **state)
{
    struct fixture *fix = *state;
    struct work work = work_on(fix, 0);
    uint64_t run[260];

    for (size_t i = 0; i < 260; i++)
        run[i] = execute(fix, &work, 0);
    fake_start(fix->host[0], run[0]);
    assert_waits_at(fix, run[250], "CORE_BUSY", 249);
    assert_waits_at(fix, run[251], "CORE_BUSY", CAPPED);
    assert_waits_at(fix, run[259], "CORE_BUSY", CAPPED);
}

static uint64_t gang(struct fixture *fix, const struct work works[2])
{
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_launch launches[2];
    struct pod_ref inputs[2];
    struct pod_ref outputs[2];

    for (int i = 0; i < 2; i++) {
        inputs[i] = fixture_buffer(works[i].input);
        outputs[i] = fixture_buffer(works[i].output);
        launches[i] = (struct pod_launch){
            .load = fixture_load(works[i].load),
            .inputs = &inputs[i],
            .input_count = 1,
            .outputs = &outputs[i],
            .output_count = 1,
        };
    }
    request.execute.launches = launches;
    request.execute.launch_count = 2;
    request.execute.is_gang = true;
    return fixture_submit(fix, &request);
}

static struct work gang_work(struct fixture *fix, uint64_t program,
                             uint32_t core)
{
    struct work work = {
        .load = fixture_load_on(fix, program, core),
        .input = fixture_allocate(fix, core, 8),
        .output = fixture_allocate(fix, core, 8),
    };

    return work;
}

static uint64_t compile_for_two(struct fixture *fix)
{
    struct pod_request request = fixture_request(POD_KIND_COMPILE);

    request.compile.program = pod_blob_new(8);
    assert_non_null(request.compile.program);
    request.compile.replicas = 2;
    request.compile.digest = "sha-256:g";
    uint64_t number = fixture_submit(fix, &request);
    pod_blob_unref(request.compile.program);
    return number;
}

static void test_gang(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = compile_for_two(fix);
    const struct work works[] = {gang_work(fix, program, 0),
                                 gang_work(fix, program, 2)};
    struct work alone = work_on(fix, 0);
    uint64_t busy = execute(fix, &alone, 0);
    uint64_t first = gang(fix, works);
    uint64_t queued = execute(fix, &alone, 0);

    fake_start(fix->host[0], busy);
    // Core 2 is free, core 0 is not.
    assert_waits_at(fix, first, "GANG", 0);
    assert_waits_at(fix, queued, "CORE_BUSY", 1);
    uint64_t urgent = execute(fix, &alone, 1);
    assert_waits_at(fix, first, "GANG", 1);
    fake_done(fix->host[0], busy);
    assert_waits_at(fix, urgent, "HOST_QUEUE", 0);
    assert_waits_at(fix, first, "GANG", 1);
    fake_done(fix->host[0], urgent);
    assert_waits_at(fix, first, "HOST_QUEUE", 0);
    assert_waits_at(fix, queued, "CORE_BUSY", 1);
    fixture_run(fix);
    assert_state(fix, queued, "SUCCEEDED");
}

// -------------------------------------------------------------------- memory

static void test_memory(void **state)
{
    struct fixture *fix = *state;
    uint64_t big = fixture_allocate(fix, 0, FIXTURE_MEMORY);
    fixture_run(fix);
    uint64_t freeing = fixture_free(fix, big);
    uint64_t first = fixture_allocate(fix, 0, 600);
    uint64_t first_free = fixture_free(fix, first);
    uint64_t second = fixture_allocate(fix, 0, 900);
    uint64_t elsewhere = fixture_allocate(fix, 1, 900);

    assert_waits_at(fix, freeing, "HOST_QUEUE", 0);
    assert_waits_at(fix, first, "MEMORY", 0);
    assert_waits_at(fix, second, "MEMORY", 1);
    assert_waits_at(fix, elsewhere, "HOST_QUEUE", 0);
    fake_done(fix->host[0], freeing);
    assert_waits_at(fix, first, "HOST_QUEUE", 0);
    fake_done(fix->host[0], first);
    assert_waits_at(fix, second, "MEMORY", 0);
    fake_done(fix->host[0], first_free);
    assert_waits_at(fix, second, "HOST_QUEUE", 0);
    fixture_run(fix);
    assert_state(fix, second, "SUCCEEDED");
}

// It waits for memory no more once the frees are done, but for what it names.
static void test_memory_and_a_dependency(void **state)
{
    struct fixture *fix = *state;
    uint64_t big = fixture_allocate(fix, 0, FIXTURE_MEMORY);
    fixture_run(fix);
    uint64_t named = fixture_allocate(fix, 1, 8);
    uint64_t freeing = fixture_free(fix, big);
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_ref ref = fixture_op(named);

    request.allocate.bytes = 900;
    request.after = &ref;
    request.after_count = 1;
    uint64_t waiting = fixture_submit(fix, &request);
    assert_waits_at(fix, waiting, "MEMORY", 0);
    fake_done(fix->host[0], freeing);
    assert_waits_at(fix, waiting, "DEPENDENCY", NO_PLACE);
    fake_done(fix->host[0], named);
    assert_waits_at(fix, waiting, "HOST_QUEUE", 0);
}

// --------------------------------------------------------------------- cordons

// What was accepted goes on as if the host were not cordoned.
static void test_a_cordon_holds_nothing_up(void **state)
{
    struct fixture *fix = *state;
    struct work work = work_on(fix, 0);
    uint64_t first = execute(fix, &work, 0);
    uint64_t second = execute(fix, &work, 0);
    uint64_t read = fixture_read(fix, work.output);
    struct pod_err err;

    assert_int_equal(pod_cordon(fix->pod, 0, true, &err), POD_OK);
    assert_waits_at(fix, first, "HOST_QUEUE", 0);
    assert_waits_at(fix, second, "CORE_BUSY", 1);
    assert_waits_at(fix, read, "HOST_QUEUE", 1);
    fixture_run(fix);
    assert_state(fix, second, "SUCCEEDED");
    assert_state(fix, read, "SUCCEEDED");
}

int main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
#define TEST_AHEAD(name)                                                       \
    cmocka_unit_test_setup_teardown(name, setup_ahead, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_dependency),
        TEST(test_host_queue),
        TEST(test_pieces_count_once),
        TEST(test_core_busy),
        TEST_AHEAD(test_core_busy_behind_what_was_sent),
        TEST_AHEAD(test_priority_at_the_host),
        TEST(test_places_are_counted_to_a_limit),
        TEST(test_gang),
        TEST(test_memory),
        TEST(test_memory_and_a_dependency),
        TEST(test_a_cordon_holds_nothing_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
