// SPDX-License-Identifier: Apache-2.0
// What hangs: operations of which nothing is heard, on fake hosts and simulated
// time. Something is stalled after FIXTURE_STALL_NS, and each step of time here
// is the time between two looks, a quarter of that.
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/pod/internal.h"
#include "core/pod/metrics.h"
#include "core/pod/stall.h"
#include "tests/lib/pod_fixture.h"

#define QUARTER_NS (FIXTURE_STALL_NS / 4)

static int setup(void **state)
{
    return fixture_setup(state, 0);
}

static int setup_ahead(void **state)
{
    return fixture_setup(state, POD_DRIVER_WAITS);
}

static void pass(struct fixture *fix, int quarters)
{
    for (int i = 0; i < quarters; i++) {
        fix->now_ns += QUARTER_NS;
        pod_tick(fix->pod);
    }
}

static uint64_t stalled_count(struct fixture *fix)
{
    struct pod_metrics metrics;

    pod_get_metrics(fix->pod, &metrics);
    return metrics.stalled;
}

static struct pod_event_view look(struct fixture *fix, uint64_t number)
{
    struct pod_event_view view;
    struct pod_err err;

    assert_int_equal(pod_get_event(fix->pod, number, &view, &err), POD_OK);
    return view;
}

static bool is_stalled(struct fixture *fix, uint64_t number)
{
    struct pod_event_view view = look(fix, number);
    bool stalled = view.is_stalled;

    pod_event_view_fini(&view);
    return stalled;
}

static void assert_awaited(const struct pod_event_awaited *awaited,
                           uint32_t host, uint32_t core, const char *state)
{
    assert_int_equal(awaited->host, host);
    assert_int_equal(awaited->core_count, 1);
    assert_int_equal(awaited->cores[0], core);
    assert_string_equal(pod_awaited_state_name(awaited->state), state);
}

// It is stalled on one core of one host since `since` quarters ago.
static void assert_stalled_on(struct fixture *fix, uint64_t number,
                              uint32_t host, uint32_t core, const char *state,
                              int since)
{
    struct pod_event_view view = look(fix, number);

    assert_true(view.is_stalled);
    assert_int_equal(view.awaited_count, 1);
    assert_awaited(&view.awaited[0], host, core, state);
    assert_int_equal(view.created_wall_ns + view.stalled_ns,
                     1000000 + fix->now_ns - since * QUARTER_NS);
    pod_event_view_fini(&view);
}

// ------------------------------------------------------------------ one host

static void test_what_has_begun(void **state)
{
    struct fixture *fix = *state;
    uint64_t hung = fixture_allocate(fix, 0, 8);
    struct pod_waiter change;
    struct pod_list woken;

    pass(fix, 1);
    fake_start(fix->host[0], hung);
    struct pod_event_view before = look(fix, hung);
    pod_list_init(&woken);
    assert_true(pod_wait_add(fix->pod, &change, hung, before.revision));
    pass(fix, 3);
    assert_false(is_stalled(fix, hung));
    assert_int_equal(stalled_count(fix), 0);
    pass(fix, 1);
    assert_stalled_on(fix, hung, 0, 0, "BEGUN", 4);
    assert_int_equal(stalled_count(fix), 1);
    // Whoever watches it is told, once.
    pod_take_woken(fix->pod, &woken);
    assert_ptr_equal(pod_list_pop_front(&woken), &change.link);
    struct pod_event_view after = look(fix, hung);
    assert_int_equal(after.revision, before.revision + 1);
    pass(fix, 8);
    struct pod_event_view later = look(fix, hung);
    assert_int_equal(later.revision, after.revision);
    assert_int_equal(later.stalled_ns, after.stalled_ns);
    fake_done(fix->host[0], hung);
    assert_state(fix, hung, "SUCCEEDED");
    assert_false(is_stalled(fix, hung));
    assert_int_equal(stalled_count(fix), 0);
    pod_event_view_fini(&before);
    pod_event_view_fini(&after);
    pod_event_view_fini(&later);
}

// What is before it at its host is stalled, and what has no turn is not.
static void test_what_has_not_begun(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = fixture_allocate(fix, 0, 8);
    uint64_t behind = fixture_allocate(fix, 0, 8);
    uint64_t beside = fixture_allocate(fix, 1, 8);

    pass(fix, 4);
    assert_stalled_on(fix, first, 0, 0, "SENT", 4);
    assert_stalled_on(fix, beside, 0, 1, "SENT", 4);
    assert_false(is_stalled(fix, behind));
    assert_int_equal(stalled_count(fix), 2);
    fake_done(fix->host[0], first);
    pass(fix, 3);
    assert_false(is_stalled(fix, behind));
    pass(fix, 1);
    // Its turn came after the last look at which it was not its turn.
    assert_stalled_on(fix, behind, 0, 0, "SENT", 4);
    fake_start(fix->host[0], behind); // it gets on
    assert_false(is_stalled(fix, behind));
    pass(fix, 3);
    assert_false(is_stalled(fix, behind));
    pass(fix, 1);
    assert_stalled_on(fix, behind, 0, 0, "BEGUN", 4);
}

// One call is lost while all others are answered.
static void test_others_get_on(void **state)
{
    struct fixture *fix = *state;
    uint64_t lost = fixture_allocate(fix, 0, 8);

    for (int i = 0; i < 4; i++) {
        uint64_t other = fixture_allocate(fix, 0, 8);
        pass(fix, 1);
        fake_done(fix->host[0], other);
    }
    assert_stalled_on(fix, lost, 0, 0, "SENT", 4);
    assert_int_equal(stalled_count(fix), 1);
}

static void test_pieces_get_on(void **state)
{
    struct fixture *fix = *state;
    uint64_t buffer = fixture_allocate(fix, 0, 64);
    struct fake_call call;

    fixture_run(fix);
    uint64_t write = fixture_write(fix, buffer, 0, 64); // four pieces
    fake_start(fix->host[0], write);
    for (int i = 0; i < 3; i++) {
        pass(fix, 3);
        assert_false(is_stalled(fix, write));
        assert_true(fake_find(fix->host[0], FAKE_WRITE, &call));
        fake_done(fix->host[0], call.op);
    }
    assert_state(fix, write, "RUNNING");
    pass(fix, 4);
    assert_stalled_on(fix, write, 0, 0, "SENT", 4);
    fixture_run(fix);
    assert_state(fix, write, "SUCCEEDED");
    assert_int_equal(stalled_count(fix), 0);
}

// What was sent ahead of what it waits for has no turn yet.
static void test_sent_ahead(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = fixture_allocate(fix, 0, 8);
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_ref after = fixture_op(first);

    request.allocate.core = 1; // nothing is before it there
    request.allocate.bytes = 8;
    request.after = &after;
    request.after_count = 1;
    uint64_t second = fixture_submit(fix, &request);
    assert_int_equal(fake_open(fix->host[0]), 2);
    fake_start(fix->host[0], first);
    pass(fix, 5);
    assert_true(is_stalled(fix, first));
    assert_false(is_stalled(fix, second));
}

// A look is at the oldest 1,024 calls: those behind them have a turn of their
// own when the looks come so far.
static void test_many_calls(void **state)
{
    struct fixture *fix = *state;
    uint64_t first = 0;
    uint64_t last = 0;

    for (int i = 0; i < 1500; i++) {
        last = fixture_allocate(fix, 0, 0);
        first = first == 0 ? last : first;
    }
    uint64_t beside = fixture_allocate(fix, 1, 8);
    pass(fix, 6);
    assert_true(is_stalled(fix, first));
    assert_int_equal(stalled_count(fix), 1); // not seen yet: beside
    for (uint64_t i = first; i < last; i++)
        fake_done(fix->host[0], i);
    assert_int_equal(stalled_count(fix), 0);
    pass(fix, 4);
    assert_false(is_stalled(fix, beside));
    pass(fix, 1);
    assert_true(is_stalled(fix, beside));
    assert_true(is_stalled(fix, last));
}

// -------------------------------------------------------------- several hosts

static void test_gang(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_COMPILE);
    struct pod_launch launches[2];
    struct pod_ref buffers[2];

    request.compile.program = pod_blob_new(8);
    assert_non_null(request.compile.program);
    request.compile.replicas = 2;
    request.compile.digest = "sha-256:g";
    uint64_t program = fixture_submit(fix, &request);
    pod_blob_unref(request.compile.program);
    for (uint32_t i = 0; i < 2; i++) { // on the cores 1 and 3
        buffers[i] = fixture_buffer(fixture_allocate(fix, 2 * i + 1, 8));
        launches[i] = (struct pod_launch){
            .load = fixture_load(fixture_load_on(fix, program, 2 * i + 1)),
            .inputs = &buffers[i],
            .input_count = 1,
            .outputs = &buffers[i],
            .output_count = 1,
        };
    }
    fixture_run(fix);
    request = fixture_request(POD_KIND_EXECUTE);
    request.execute.launches = launches;
    request.execute.launch_count = 2;
    request.execute.is_gang = true;
    uint64_t gang = fixture_submit(fix, &request);
    fake_start(fix->host[0], gang);
    pass(fix, 4);
    struct pod_event_view view = look(fix, gang);
    assert_true(view.is_stalled);
    assert_int_equal(view.awaited_count, 2);
    bool turned = view.awaited[0].host == 1;
    assert_awaited(&view.awaited[turned], 0, 1, "BEGUN");
    assert_awaited(&view.awaited[!turned], 1, 3, "SENT");
    pod_event_view_fini(&view);
    assert_int_equal(stalled_count(fix), 1);
    // One has answered: it is the other that is waited for.
    fake_done(fix->host[0], gang);
    assert_stalled_on(fix, gang, 1, 3, "SENT", 4);
    fake_done(fix->host[1], gang);
    assert_state(fix, gang, "SUCCEEDED");
    assert_int_equal(stalled_count(fix), 0);
}

static void test_compile(void **state)
{
    struct fixture *fix = *state;
    uint64_t program = fixture_compile(fix, "sha-256:c");
    struct pod_event_view view;

    fake_done(fix->host[0], program);
    pass(fix, 4);
    view = look(fix, program);
    assert_true(view.is_stalled);
    assert_int_equal(view.awaited_count, 1);
    assert_int_equal(view.awaited[0].host, 1);
    assert_int_equal(view.awaited[0].core_count, 0);
    pod_event_view_fini(&view);
    fake_done(fix->host[1], program);
    assert_int_equal(stalled_count(fix), 0);
}

// ----------------------------------------------------------------- conditions

static void assert_condition(const struct pod_condition *condition,
                             bool stalled, int64_t since_wall_ns)
{
    assert_string_equal(pod_condition_status_name(condition->status),
                        stalled ? "TRUE" : "FALSE");
    assert_string_equal(pod_condition_reason_name(condition->reason),
                        stalled ? "OPERATION_STALLED" : "NOTHING_STALLED");
    assert_int_equal(condition->since_wall_ns, since_wall_ns);
}

static struct pod_topology_view topology(struct fixture *fix)
{
    struct pod_topology_view view;
    struct pod_err err;

    assert_int_equal(pod_get_topology(fix->pod, &view, &err), POD_OK);
    return view;
}

static void test_conditions(void **state)
{
    struct fixture *fix = *state;
    int64_t start_ns = 1000000 + fix->now_ns;
    uint64_t hung = fixture_allocate(fix, 2, 8);
    uint64_t other = fixture_allocate(fix, 3, 8);

    pass(fix, 4);
    int64_t stalled_ns = 1000000 + fix->now_ns;
    struct pod_topology_view view = topology(fix);
    assert_condition(&view.hosts[0].conditions[POD_CONDITION_STALLED], false,
                     start_ns);
    assert_condition(&view.hosts[1].conditions[POD_CONDITION_STALLED], true,
                     stalled_ns);
    assert_condition(&view.stalled, true, stalled_ns);
    assert_int_equal(view.hosts[0].oldest_stall.operation, 0);
    assert_int_equal(view.hosts[1].oldest_stall.operation, hung);
    assert_int_equal(view.oldest_stall.operation, hung);
    assert_int_equal(view.oldest_stall.kind, POD_KIND_ALLOCATE);
    assert_int_equal(view.oldest_stall.host, 1);
    pod_topology_view_fini(&view);
    pass(fix, 1);
    fake_done(fix->host[1], hung); // one is left
    view = topology(fix);
    assert_condition(&view.stalled, true, stalled_ns);
    assert_int_equal(view.hosts[1].oldest_stall.operation, other);
    pod_topology_view_fini(&view);
    fake_done(fix->host[1], other);
    view = topology(fix);
    assert_condition(&view.hosts[1].conditions[POD_CONDITION_STALLED], false,
                     1000000 + fix->now_ns);
    assert_condition(&view.stalled, false, 1000000 + fix->now_ns);
    assert_int_equal(view.oldest_stall.operation, 0);
    pod_topology_view_fini(&view);
}

// ----------------------------------------------------------------------- log

// What is written to stderr meanwhile. `text` has room for `size` bytes.
static void capture(void (*call)(struct fixture *fix), struct fixture *fix,
                    char *text, size_t size)
{
    int saved = dup(STDERR_FILENO);
    int ends[2];

    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    call(fix);
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    (void)close(ends[1]);
    ssize_t got = read(ends[0], text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    (void)close(ends[0]);
}

static void pass_all(struct fixture *fix)
{
    pass(fix, 8);
}

static void answer_it(struct fixture *fix)
{
    fake_done(fix->host[1], 1);
}

// One line when it begins, and one when it is over.
static void test_log(void **state)
{
    struct fixture *fix = *state;
    char text[2048];

    assert_int_equal(fixture_allocate(fix, 3, 8), 1);
    capture(pass_all, fix, text, sizeof(text));
    const char *end = strchr(text, '\n');
    assert_non_null(end);
    assert_string_equal(end, "\n");
    assert_non_null(strstr(
        text, " level=warn event=stalled operation=op-1 kind=\"ALLOCATE\" "
              "state=\"READY\" duration_us=1000000000 host=1 core=3 "
              "detail=\"the host has not begun it\"\n"));
    capture(answer_it, fix, text, sizeof(text));
    assert_non_null(strstr(
        text, " level=warn event=stall_over operation=op-1 kind=\"ALLOCATE\" "
              "state=\"READY\" duration_us=2000000000 host=1 core=3\n"));
}

// --------------------------------------------------------------------- ends

// The operation ends before its host answers: then the host alone is stuck.
static void test_deadline_of_what_hangs(void **state)
{
    struct fixture *fix = *state;
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);

    request.allocate.bytes = 8;
    request.deadline_ns = 6 * QUARTER_NS;
    uint64_t hung = fixture_submit(fix, &request);
    pass(fix, 4);
    assert_true(is_stalled(fix, hung));
    assert_int_equal(fix->pod->hosts[0]->stalled_calls, 1);
    pass(fix, 2);
    assert_state(fix, hung, "FAILED");
    assert_false(is_stalled(fix, hung));
    assert_int_equal(stalled_count(fix), 0);
    assert_int_equal(fix->pod->hosts[0]->stalled_calls, 1);
    pass(fix, 2);
    fake_done(fix->host[0], hung);
    assert_int_equal(fix->pod->hosts[0]->stalled_calls, 0);
    fixture_run(fix);
}

static void test_loss_of_the_host(void **state)
{
    struct fixture *fix = *state;
    uint64_t hung = fixture_allocate(fix, 2, 8);

    fake_start(fix->host[1], hung);
    pass(fix, 4);
    assert_true(is_stalled(fix, hung));
    fake_lose(fix->host[1], "cable cut");
    assert_state(fix, hung, "LOST");
    assert_int_equal(stalled_count(fix), 0);
    assert_int_equal(fix->pod->hosts[1]->stalled_calls, 0);
}

// The pod stops being stalled, though the host does not change any more.
static void test_removal_of_the_host(void **state)
{
    struct fixture *fix = *state;
    uint64_t hung = fixture_allocate(fix, 2, 8);
    struct pod_err err;

    fake_start(fix->host[1], hung);
    pass(fix, 4);
    assert_true(is_stalled(fix, hung));
    assert_int_equal(pod_remove_host(fix->pod, 1, true, &err), POD_OK);
    fix->host_count = 1; // its driver goes, by a thread of its own
    while (stalled_count(fix) > 0)
        sched_yield();
    struct pod_topology_view view = topology(fix);
    assert_condition(&view.stalled, false, 1000000 + fix->now_ns);
    assert_int_equal(view.oldest_stall.operation, 0);
    pod_topology_view_fini(&view);
}

// Nothing is looked at while nothing is open.
static void test_looks(void **state)
{
    struct fixture *fix = *state;

    assert_true(fix->pod->stall_due_ns == POD_NEVER);
    fixture_allocate(fix, 0, 8);
    assert_int_equal(fix->pod->stall_due_ns, fix->now_ns + QUARTER_NS);
    fixture_run(fix);
    pass(fix, 1);
    assert_true(fix->pod->stall_due_ns == POD_NEVER);
}

static void test_without_memory(void **state)
{
    struct fixture *fix = *state;
    uint64_t hung = fixture_allocate(fix, 0, 8);

    pass(fix, 3);
    fix->now_ns += QUARTER_NS;
    pod_mem_fail_after(0, 1);
    pod_tick(fix->pod);
    pod_mem_fail_after(-1, 0);
    assert_false(is_stalled(fix, hung));
    pass(fix, 1);
    assert_stalled_on(fix, hung, 0, 0, "SENT", 5);
}

static void test_turned_off(void **state)
{
    struct fixture *fix = *state;

    fix->pod->options.stall_after_ns = 0;
    fix->pod->stall_period_ns = pod_stall_period(0);
    fixture_allocate(fix, 0, 8);
    assert_true(fix->pod->stall_due_ns == POD_NEVER);
    pass(fix, 20);
    assert_int_equal(stalled_count(fix), 0);
}

// ----------------------------------------------------------------------- lists

static size_t list(struct fixture *fix, enum pod_stalled_filter stalled,
                   uint64_t below, size_t capacity, uint64_t *out_numbers,
                   uint64_t *out_next)
{
    const struct pod_event_filter filter = {.host = POD_NO_ID,
                                            .core = POD_NO_ID,
                                            .since_wall_ns = INT64_MIN,
                                            .stalled = stalled};
    struct pod_event_view views[8];
    struct pod_err err;
    size_t count = 0;

    assert_int_equal(pod_list_events(fix->pod, &filter, below, capacity, views,
                                     &count, out_next, &err),
                     POD_OK);
    for (size_t i = 0; i < count; i++) {
        out_numbers[i] = views[i].number;
        pod_event_view_fini(&views[i]);
    }
    return count;
}

static void test_lists(void **state)
{
    struct fixture *fix = *state;
    uint64_t done = fixture_allocate(fix, 0, 8);
    fixture_run(fix);
    uint64_t hung[3];
    for (uint32_t i = 0; i < 3; i++)
        hung[i] = fixture_allocate(fix, i, 8);
    uint64_t behind = fixture_allocate(fix, 0, 8);
    uint64_t numbers[8];
    uint64_t next = 0;

    pass(fix, 4);
    assert_int_equal(list(fix, POD_STALLED_ONLY, UINT64_MAX, 2, numbers, &next),
                     2);
    assert_int_equal(numbers[0], hung[2]);
    assert_int_equal(numbers[1], hung[1]);
    assert_int_not_equal(next, 0);
    assert_int_equal(list(fix, POD_STALLED_ONLY, next, 2, numbers, &next), 1);
    assert_int_equal(numbers[0], hung[0]);
    assert_int_equal(next, 0);
    assert_int_equal(list(fix, POD_STALLED_NOT, UINT64_MAX, 8, numbers, &next),
                     2);
    assert_int_equal(numbers[0], behind);
    assert_int_equal(numbers[1], done);
    assert_int_equal(list(fix, POD_STALLED_ANY, UINT64_MAX, 8, numbers, &next),
                     5);
}

int main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_has_begun),
        TEST(test_what_has_not_begun),
        TEST(test_others_get_on),
        TEST(test_pieces_get_on),
        cmocka_unit_test_setup_teardown(test_sent_ahead, setup_ahead,
                                        fixture_teardown),
        TEST(test_many_calls),
        TEST(test_gang),
        TEST(test_compile),
        TEST(test_conditions),
        TEST(test_log),
        TEST(test_deadline_of_what_hangs),
        TEST(test_loss_of_the_host),
        TEST(test_removal_of_the_host),
        TEST(test_looks),
        TEST(test_without_memory),
        TEST(test_turned_off),
        TEST(test_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
