// SPDX-License-Identifier: Apache-2.0
// The pod engine without memory: each allocation of a scenario fails once, from
// the submission to the last answer. Whatever that brings down, every operation
// ends, no host is left with a call or a handle, nothing stays reserved, and
// the pod works on.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "tests/lib/pod_fixture.h"
#include "tests/unit/request_list.h"

enum { MOST_ALLOCATIONS = 1000, PIECE = 16 };

static int refused;  // submissions of a scenario, for want of memory
static long fail_at; // so many allocations succeed before

// ------------------------------------------------------------------- requests

// Other reasons come of what was refused or lost before: what was to let go of
// a program, and a host for whose description there was no memory.
static bool refused_as_it_must(enum pod_reason reason)
{
    return reason == POD_REASON_OUT_OF_MEMORY || reason == POD_REASON_IN_USE ||
           reason == POD_REASON_HOST_LOST;
}

// 0: refused. A request that names one that was is not made.
static uint64_t ask(struct fixture *fix, const struct pod_request *request)
{
    struct pod_err err;
    uint64_t number = 0;

    if (pod_submit(fix->pod, request, 1, &number, NULL, &err) == POD_OK)
        return number;
    if (!refused_as_it_must(err.reason))
        fail_msg("refused: %s", err.text);
    refused += err.reason == POD_REASON_OUT_OF_MEMORY;
    return 0;
}

static uint64_t ask_allocate(struct fixture *fix, uint32_t core)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    const struct pod_shape shape = {
        .type = POD_TYPE_F32, .rank = 1, .dims = {2}};

    request.name = "a buffer";
    request.allocate.core = core;
    request.allocate.shape = &shape;
    request.allocate.fill_size = 4;
    return ask(fix, &request);
}

static uint64_t ask_raw(struct fixture *fix, uint32_t core, uint64_t bytes)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);

    request.allocate.core = core;
    request.allocate.bytes = bytes;
    return ask(fix, &request);
}

static uint64_t ask_tuple(struct fixture *fix, uint64_t first, uint64_t second)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE_TUPLE);
    struct pod_ref children[] = {fixture_buffer(first), fixture_buffer(second)};

    if (first == 0 || second == 0)
        return 0;
    request.tuple.children = children;
    request.tuple.child_count = 2;
    return ask(fix, &request);
}

static uint64_t ask_write(struct fixture *fix, uint64_t buffer, size_t bytes)
{
    struct pod_request request = fixture_request(POD_KIND_WRITE);
    static struct pod_blob *blob;

    if (buffer == 0 || (blob = pod_blob_new(bytes)) == NULL)
        return 0;
    memset(blob->data, 1, bytes);
    request.write.buffer = fixture_buffer(buffer);
    request.write.data = blob;
    uint64_t number = ask(fix, &request);
    pod_blob_unref(blob);
    return number;
}

static uint64_t ask_read(struct fixture *fix, uint64_t buffer)
{
    struct pod_request request = fixture_request(POD_KIND_READ);

    request.read.buffer = fixture_buffer(buffer);
    request.read.length = UINT64_MAX;
    return buffer == 0 ? 0 : ask(fix, &request);
}

static uint64_t ask_copy(struct fixture *fix, uint64_t from, uint64_t to)
{
    struct pod_request request = fixture_request(POD_KIND_COPY);

    request.copy.from = fixture_buffer(from);
    request.copy.to = fixture_buffer(to);
    return from == 0 || to == 0 ? 0 : ask(fix, &request);
}

static uint64_t ask_compile(struct fixture *fix, uint32_t replicas)
{
    struct pod_request request = fixture_request(POD_KIND_COMPILE);
    struct pod_blob *blob = pod_blob_new(8);

    if (blob == NULL)
        return 0;
    memset(blob->data, 'x', 8);
    request.compile.program = blob;
    request.compile.replicas = replicas;
    request.compile.digest = replicas == 1 ? "one" : "two";
    uint64_t number = ask(fix, &request);
    pod_blob_unref(blob);
    return number;
}

static uint64_t ask_load(struct fixture *fix, uint64_t program, uint32_t core)
{
    struct pod_request request = fixture_request(POD_KIND_LOAD);

    request.load.program = fixture_program(program);
    request.load.core = core;
    return program == 0 ? 0 : ask(fix, &request);
}

static uint64_t ask_execute(struct fixture *fix, uint64_t load, uint64_t input,
                            uint64_t output) // 0: automatic
{
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_ref in = fixture_buffer(input);
    struct pod_ref out = fixture_buffer(output);
    struct pod_launch launch = {
        .load = fixture_load(load),
        .inputs = &in,
        .input_count = 1,
        .outputs = &out,
        .output_count = 1,
        .auto_outputs = output == 0,
    };

    request.execute.launches = &launch;
    request.execute.launch_count = 1;
    return load == 0 || input == 0 ? 0 : ask(fix, &request);
}

static uint64_t ask_gang(struct fixture *fix, const uint64_t loads[2],
                         const uint64_t inputs[2])
{
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_launch launches[2];
    struct pod_ref in[2];

    for (size_t i = 0; i < 2; i++) {
        if (loads[i] == 0 || inputs[i] == 0)
            return 0;
        in[i] = fixture_buffer(inputs[i]);
        launches[i] = (struct pod_launch){.load = fixture_load(loads[i]),
                                          .inputs = &in[i],
                                          .input_count = 1,
                                          .auto_outputs = true};
    }
    request.execute.launches = launches;
    request.execute.launch_count = 2;
    request.execute.is_gang = true;
    return ask(fix, &request);
}

static uint64_t ask_free(struct fixture *fix, struct pod_ref handle)
{
    struct pod_request request = fixture_request(POD_KIND_FREE);

    request.free.handle = handle;
    return handle.number == 0 ? 0 : ask(fix, &request);
}

static uint64_t ask_unload(struct fixture *fix, uint64_t load)
{
    struct pod_request request = fixture_request(POD_KIND_UNLOAD);

    request.unload.load = fixture_load(load);
    return load == 0 ? 0 : ask(fix, &request);
}

// ------------------------------------------------------------------ scenarios
// Hosts 0 and 1 have the cores 0, 1 and 2, 3.

static void use_buffers(struct fixture *fix)
{
    uint64_t first = ask_allocate(fix, 0);
    uint64_t second = ask_allocate(fix, 0);
    uint64_t far = ask_allocate(fix, 2);
    uint64_t large = ask_raw(fix, 1, (uint64_t)4 * PIECE);

    (void)ask_write(fix, first, 8);
    (void)ask_write(fix, large, (size_t)4 * PIECE);
    uint64_t tuple = ask_tuple(fix, first, second);
    (void)ask_read(fix, large);
    fixture_run(fix);
    (void)ask_copy(fix, first, second);
    (void)ask_copy(fix, second, far);
    (void)ask_read(fix, far);
    (void)ask_free(fix, fixture_buffer(tuple));
    fixture_run(fix);
}

// The shape of the result is known when the first execution is asked for, or
// not before it is launched.
static void use_programs(struct fixture *fix, bool early)
{
    uint64_t input = ask_allocate(fix, 0);
    uint64_t output = ask_allocate(fix, 0);
    uint64_t program = ask_compile(fix, 1);

    if (!early)
        fixture_run(fix);
    uint64_t again = ask_compile(fix, 1);
    uint64_t load = ask_load(fix, program, 0);
    uint64_t other = ask_load(fix, again, 2);
    (void)ask_execute(fix, load, input, output);
    uint64_t made = ask_execute(fix, load, input, 0);
    uint64_t read = made == 0 ? 0 : ask_read(fix, made - 1);
    (void)read;
    fixture_run(fix);
    (void)ask_unload(fix, load);
    (void)ask_unload(fix, other);
    (void)ask_free(fix, fixture_program(program));
    (void)ask_free(fix, fixture_program(again));
    fixture_run(fix);
}

static void use_programs_late(struct fixture *fix)
{
    use_programs(fix, false);
}

static void use_programs_early(struct fixture *fix)
{
    use_programs(fix, true);
}

// What an execution puts out turns out to be a tuple once it was compiled.
static void use_tuples(struct fixture *fix)
{
    uint64_t value = ask_allocate(fix, 0);
    uint64_t program = ask_compile(fix, 1);
    uint64_t load = ask_load(fix, program, 0);
    uint64_t made = ask_execute(fix, load, value, 0);
    uint64_t early = made == 0 ? 0 : made - 1;
    // Who uses it so early will use its parts, but a tuple has no bytes.
    (void)ask_execute(fix, load, early, value);
    (void)ask_read(fix, early);
    (void)ask_free(fix, fixture_buffer(early));
    made = ask_execute(fix, load, value, 0);
    fixture_run(fix);
    if (made != 0)
        (void)ask_tuple(fix, made - 1, value);
    fixture_run(fix);
}

static void use_gang(struct fixture *fix)
{
    uint64_t program = ask_compile(fix, 2);
    const uint64_t loads[] = {ask_load(fix, program, 0),
                              ask_load(fix, program, 2)};
    const uint64_t inputs[] = {ask_allocate(fix, 0), ask_allocate(fix, 2)};

    (void)ask_gang(fix, loads, inputs);
    fixture_run(fix);
    (void)ask_gang(fix, loads, inputs);
    fixture_run(fix);
}

static void ignore(void *arg)
{
    (void)arg;
}

static void use_stream(struct fixture *fix)
{
    struct pod_request read = fixture_request(POD_KIND_READ);
    struct pod_stream *stream = pod_stream_new(PIECE, ignore, NULL);
    struct pod_err err;

    read.read.buffer = fixture_buffer(ask_raw(fix, 0, (uint64_t)8 * PIECE));
    read.read.length = UINT64_MAX;
    read.read.stream = stream;
    if (stream == NULL)
        return;
    if (read.read.buffer.number == 0 || ask(fix, &read) == 0)
        pod_stream_finish(stream, NULL);
    enum pod_stream_state state = POD_STREAM_CHUNK;
    while (state == POD_STREAM_CHUNK) {
        struct pod_blob *chunk = NULL;
        fixture_run(fix);
        state = pod_stream_pop(stream, &chunk, &err);
        if (state == POD_STREAM_CHUNK)
            pod_blob_unref(chunk);
    }
    assert_true(state == POD_STREAM_END || state == POD_STREAM_FAILED);
    pod_stream_close(stream);
}

// A graph whose list is not in the order of turns.
static void use_graph(struct fixture *fix)
{
    struct pod_request *labelled;
    static const struct pod_label label = {.key = "of", .value = "the graph"};

    memset(&list, 0, sizeof(list));
    list.self = fixture_request(POD_KIND_GRAPH);
    list.self.name = "graph";
    list.graph = (struct pod_graph_request){
        .self = &list.self, .ops = list.ops, .cancel_on_error = true};
    (void)list_copy(request_ref(1), request_ref(2));
    labelled = list_allocate(0, 8);
    labelled->labels = &label;
    labelled->label_count = 1;
    (void)list_allocate(2, 8);
    (void)list_free(request_ref(2));
    list_after(request_ref(0));
    if (list_submit(fix) != POD_OK) {
        assert_int_equal(list.err.reason, POD_REASON_OUT_OF_MEMORY);
        refused++;
    }
    fixture_run(fix);
}

// The driver is there before, so that only the engine asks for memory.
static enum pod_code give_driver(void *arg, uint32_t host,
                                 struct pod_driver **out_driver,
                                 struct pod_err *err)
{
    struct pod_driver **driver = arg;

    (void)host;
    (void)err;
    *out_driver = *driver;
    *driver = NULL;
    return POD_OK;
}

static void use_more_hosts(struct fixture *fix)
{
    pod_mem_fail_after(-1, 0); // not before the driver is there
    struct pod_driver *driver = fake_driver_new(2, FIXTURE_MEMORY, 7);
    struct pod_driver *joined = driver;
    const struct pod_driver_maker maker = {.make = give_driver, .arg = &driver};
    struct pod_err err;
    uint32_t id;

    pod_mem_fail_after(fail_at, 1);
    if (pod_join_host(fix->pod, "more", &maker, &id, &err) != POD_OK) {
        assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
        refused++;
        if (driver != NULL)
            driver->ops->free(driver);
        return;
    }
    fix->host[fix->host_count++] = joined;
    fake_ready(joined);
    uint64_t buffer = ask_raw(fix, 0, PIECE);
    (void)ask_write(fix, buffer, PIECE);
    fixture_run(fix);
    assert_int_equal(pod_remove_host(fix->pod, id, true, &err), POD_OK);
    fix->host_count--;
}

// The hosts answer together what they can.
static void use_together(struct fixture *fix)
{
    uint64_t first = ask_allocate(fix, 0);
    uint64_t second = ask_allocate(fix, 0);
    uint64_t program = ask_compile(fix, 1);
    uint64_t load = ask_load(fix, program, 0);

    (void)ask_write(fix, first, 8);
    (void)ask_write(fix, second, 8);
    (void)ask_execute(fix, load, first, second);
    (void)ask_execute(fix, load, first, 0);
    (void)ask_free(fix, fixture_buffer(second));
    for (size_t turn = 0; turn < 8; turn++)
        fake_run_together(fix->host[turn % 2]);
}

// All that is open ends early: by a cancel, by the loss of a host, by a reset.
static void end_early(struct fixture *fix)
{
    struct pod_request reset = fixture_request(POD_KIND_RESET);
    struct pod_err err;
    bool again;
    uint64_t near = ask_allocate(fix, 0);
    uint64_t far = ask_allocate(fix, 2);

    fixture_run(fix);
    uint64_t write = ask_write(fix, near, 8);
    (void)ask_copy(fix, near, far);
    (void)ask_read(fix, far);
    if (write != 0 && pod_cancel(fix->pod, write, POD_CASCADE_DEPENDENTS,
                                 "no more", &again, &err) != POD_OK)
        assert_true(err.reason == POD_REASON_OUT_OF_MEMORY ||
                    err.reason == POD_REASON_ALREADY_FINISHED);
    fixture_run(fix);
    (void)ask_read(fix, near);
    (void)ask_copy(fix, far, near);
    fake_lose(fix->host[1], "gone");
    fixture_run(fix);
    fake_ready(fix->host[1]);
    far = ask_allocate(fix, 2);
    (void)ask_read(fix, far);
    (void)ask(fix, &reset);
    fixture_run(fix);
}

// ------------------------------------------------------------- what must hold

static void assert_all_ended(struct fixture *fix)
{
    uint64_t last = pod_last_number(fix->pod);

    for (uint64_t i = 1; i <= last; i++) {
        enum pod_sched_state state = fixture_state(fix, i);
        if (!pod_sched_terminal(state))
            fail_msg("op-%llu is %s", (unsigned long long)i,
                     pod_sched_state_name(state));
    }
}

// What a number names is found out by trying: all but one of these are refused.
static int give_back(struct fixture *fix, uint64_t number)
{
    struct pod_request requests[] = {fixture_request(POD_KIND_UNLOAD),
                                     fixture_request(POD_KIND_FREE),
                                     fixture_request(POD_KIND_FREE)};
    struct pod_err err;
    uint64_t freed;

    requests[0].unload.load = fixture_load(number);
    requests[1].free.handle = fixture_program(number);
    requests[2].free.handle = fixture_buffer(number);
    int taken = pod_drop_data(fix->pod, number, &err) == POD_OK;
    for (size_t i = 0; i < 3; i++)
        taken +=
            pod_submit(fix->pod, &requests[i], 1, &freed, NULL, &err) == POD_OK;
    assert_true(taken <= 1);
    return taken;
}

// Frees what is left and drops what was read. A buffer that is in a tuple can
// be freed only once the tuple was.
static void give_all_back(struct fixture *fix)
{
    int taken = 1;

    while (taken > 0) {
        taken = 0;
        for (uint64_t i = pod_last_number(fix->pod); i > 0; i--)
            taken += give_back(fix, i);
        fixture_run(fix);
    }
}

static void assert_all_is_free(struct fixture *fix)
{
    struct pod_topology_view view;
    struct pod_err err;
    uint64_t used;
    uint64_t max;

    pod_staging_usage(fix->pod, &used, &max);
    assert_int_equal(used, 0);
    assert_int_equal(pod_get_topology(fix->pod, &view, &err), POD_OK);
    assert_int_equal(view.open_operations, 0);
    for (size_t i = 0; i < view.host_count; i++) {
        assert_int_equal(view.hosts[i].open_operations, 0);
        assert_int_equal(view.hosts[i].buffers, 0);
    }
    for (size_t i = 0; i < view.core_count; i++)
        assert_int_equal(view.cores[i].memory_used, 0);
    pod_topology_view_fini(&view);
    // Nothing is reserved either: the whole of a core is to be had.
    for (uint32_t core = 0; core < 4; core++) {
        uint64_t whole = fixture_allocate(fix, core, FIXTURE_MEMORY);
        fixture_run(fix);
        assert_state(fix, whole, "SUCCEEDED");
        (void)fixture_free(fix, whole);
        fixture_run(fix);
    }
}

// The hosts answer all calls well. So what they hold is what they made and were
// not told to free.
static void assert_hosts_hold_nothing(struct fixture *fix)
{
    for (size_t i = 0; i < fix->host_count; i++) {
        struct pod_driver *host = fix->host[i];
        assert_int_equal(fake_open(host), 0);
        assert_int_equal(fake_count(host, FAKE_ALLOCATE) +
                             fake_count(host, FAKE_TUPLE),
                         fake_count(host, FAKE_DEALLOCATE));
        assert_int_equal(fake_count(host, FAKE_LOAD),
                         fake_count(host, FAKE_UNLOAD));
        assert_int_equal(fake_count(host, FAKE_COMPILE),
                         fake_count(host, FAKE_FREE_PROGRAM));
    }
}

// Whether the failure that was to come after `place` allocations has not come.
static bool failure_is_left(long place)
{
    bool left = false;

    for (long i = 0; i <= place && !left; i++) {
        void *block = pod_malloc(1);
        left = block == NULL;
        pod_free(block);
    }
    pod_mem_fail_after(-1, 0);
    return left;
}

struct scenario {
    void (*play)(struct fixture *fix);
    unsigned features;  // of the hosts
    bool forgets;       // hosts lose what they hold
    const char *result; // of programs; NULL: f32[2]
};

// False: the scenario needs no more than `place` allocations.
static bool scenario_fails_at(const struct scenario *scenario, long place)
{
    struct fixture fix;

    fixture_init_options(&fix, 2, 10000, POD_NEVER, PIECE, 1 << 20);
    for (size_t i = 0; i < fix.host_count; i++) {
        fake_set_features(fix.host[i], scenario->features);
        if (scenario->result != NULL)
            fake_set_shape(fix.host[i], "f32[2]", scenario->result);
        fake_ready(fix.host[i]);
    }
    fail_at = place;
    pod_mem_fail_after(place, 1);
    scenario->play(&fix);
    bool left = failure_is_left(place);
    fixture_run(&fix);
    assert_all_ended(&fix);
    if (scenario->forgets) {
        fake_lose(fix.host[1], "gone");
        fake_ready(fix.host[1]);
    }
    give_all_back(&fix);
    assert_all_ended(&fix);
    assert_all_is_free(&fix);
    if (!scenario->forgets)
        assert_hosts_hold_nothing(&fix);
    fixture_fini(&fix);
    return !left;
}

static void test_scenario(void **state)
{
    const struct scenario *scenario = *state;
    long live = pod_mem_live();
    long step = getenv("POD_SLOW") != NULL ? 7 : 1;
    long place = 0;

    refused = 0;
    while (scenario_fails_at(scenario, place)) {
        assert_int_equal(pod_mem_live(), live);
        place += step;
        assert_true(place < MOST_ALLOCATIONS);
    }
    assert_int_equal(pod_mem_live(), live);
    assert_true(refused > 0);
}

int main(void)
{
    static struct scenario scenarios[] = {
        {.play = use_buffers},
        {.play = use_buffers, .features = POD_DRIVER_WAITS},
        {.play = use_buffers,
         .features = POD_DRIVER_WAITS | POD_DRIVER_PEER_COPY},
        {.play = use_buffers, .features = POD_DRIVER_WHOLE},
        {.play = use_programs_late, .features = POD_DRIVER_WAITS},
        {.play = use_programs_early},
        {.play = use_tuples, .result = "(f32[2], (f32[2], f32[2]))"},
        {.play = use_gang},
        {.play = use_stream},
        {.play = use_graph},
        {.play = use_more_hosts},
        {.play = end_early, .forgets = true},
        {.play = use_together, .result = "(f32[2], f32[2])"},
        {.play = use_together, .features = POD_DRIVER_WAITS},
    };
#define S(i, name)                                                             \
    {                                                                          \
        name, test_scenario, NULL, NULL, &scenarios[i]                         \
    }
    const struct CMUnitTest tests[] = {
        S(0, "buffers"),
        S(1, "buffers, calls sent ahead"),
        S(2, "buffers, copies between hosts"),
        S(3, "buffers that move as a whole"),
        S(4, "programs"),
        S(5, "programs not compiled yet"),
        S(6, "tuples of executions"),
        S(7, "gangs"),
        S(8, "a stream"),
        S(9, "a graph"),
        S(10, "a host that comes and goes"),
        S(11, "early ends"),
        S(12, "calls answered together"),
        S(13, "calls sent ahead, answered together"),
    };

    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
