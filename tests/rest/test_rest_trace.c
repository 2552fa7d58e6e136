// SPDX-License-Identifier: Apache-2.0
// /v1/trace: what ran when, in lanes that do not overlap.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/trace_spans.h"
#include "tests/lib/rest_pod.h"

// -------------------------------------------------------------------- lanes

static const uint32_t hosts_of_cores[] = {0, 0, 1};

static struct pod_event_view view_of(enum pod_kind kind, uint64_t number,
                                     uint32_t core, int64_t start, int64_t end)
{
    return (struct pod_event_view){
        .number = number,
        .kind = kind,
        .state = POD_SCHED_SUCCEEDED,
        .host = hosts_of_cores[core],
        .core = core,
        .created_wall_ns = 1000,
        .running_ns = start,
        .finished_ns = end,
    };
}

static void add(struct trace_spans *spans, struct pod_event_view view)
{
    const struct trace_window window = {.since_ns = 1100, .until_ns = 2000};
    assert_true(trace_spans_add(spans, &view, &window, hosts_of_cores, 3));
}

static void assert_span(const struct trace_span *span, uint64_t number,
                        uint64_t start, uint64_t end, uint32_t lane)
{
    assert_int_equal(span->number, number);
    assert_int_equal(span->start_ns, start);
    assert_int_equal(span->end_ns, end);
    assert_int_equal(span->lane, lane);
}

static void lanes_and_window(void **state)
{
    struct trace_spans spans = {.limit = 100};
    (void)state;
    add(&spans, view_of(POD_KIND_WRITE, 1, 0, 50, 300));    // began before
    add(&spans, view_of(POD_KIND_WRITE, 2, 0, 200, 400));   // beside 1
    add(&spans, view_of(POD_KIND_READ, 3, 0, 300, 350));    // after 1
    add(&spans, view_of(POD_KIND_COPY, 4, 2, 200, 300));    // of host 1
    add(&spans, view_of(POD_KIND_WRITE, 5, 0, 10, 90));     // before all of it
    add(&spans, view_of(POD_KIND_WRITE, 6, 0, 1001, 1100)); // after all of it
    add(&spans, view_of(POD_KIND_WRITE, 7, 0, 900, -1));    // runs now
    add(&spans, view_of(POD_KIND_WRITE, 8, 0, -1, 200));    // never ran
    add(&spans, view_of(POD_KIND_EXECUTE, 9, 1, 200, 300));
    assert_int_equal(spans.count, 6);
    assert_true(trace_spans_arrange(&spans));
    assert_span(&spans.items[0], 9, 100, 200, 0);
    assert_int_equal(spans.items[0].track, TRACE_TRACK_CORE);
    assert_int_equal(spans.items[0].core, 1);
    assert_span(&spans.items[1], 1, 0, 200, 0);
    assert_span(&spans.items[2], 2, 100, 300, 1);
    assert_span(&spans.items[3], 3, 200, 250, 0);
    assert_span(&spans.items[4], 7, 800, 900, 0);
    assert_span(&spans.items[5], 4, 100, 200, 0);
    assert_int_equal(spans.items[5].process, 2);
    assert_false(spans.cut);
    trace_spans_fini(&spans);
}

static void spans_are_limited(void **state)
{
    struct trace_spans spans = {.limit = 2};
    (void)state;
    for (uint64_t i = 1; i <= 3; i++)
        add(&spans, view_of(POD_KIND_FREE, i, 0, 200, 300));
    assert_int_equal(spans.count, 2);
    assert_true(spans.cut);
    trace_spans_fini(&spans);
}

static void a_gang_is_on_all_its_cores(void **state)
{
    const struct pod_event_launch launches[] = {{.core = 0}, {.core = 2}};
    struct trace_spans spans = {.limit = 100};
    struct pod_event_view view = view_of(POD_KIND_EXECUTE, 1, 0, 200, 300);
    (void)state;
    view.launches = launches;
    view.launch_count = 2;
    add(&spans, view);
    assert_int_equal(spans.count, 2);
    assert_int_equal(spans.items[0].process, 1);
    assert_int_equal(spans.items[1].process, 2);
    assert_int_equal(spans.items[1].track, TRACE_TRACK_CORE);
    assert_int_equal(spans.items[1].core, 2);
    trace_spans_fini(&spans);
}

// Of many lanes that are free the first is taken, not the one that is free for
// longest.
static void the_first_free_lane_is_taken(void **state)
{
    struct trace_spans spans = {.limit = 100};
    (void)state;
    add(&spans, view_of(POD_KIND_WRITE, 1, 0, 200, 400));
    add(&spans, view_of(POD_KIND_WRITE, 2, 0, 210, 300));
    add(&spans, view_of(POD_KIND_WRITE, 3, 0, 220, 350));
    add(&spans, view_of(POD_KIND_WRITE, 4, 0, 400, 500));
    add(&spans, view_of(POD_KIND_WRITE, 5, 0, 410, 500));
    add(&spans, view_of(POD_KIND_WRITE, 6, 0, 420, 500));
    add(&spans, view_of(POD_KIND_WRITE, 7, 0, 430, 500));
    assert_true(trace_spans_arrange(&spans));
    static const uint32_t lanes[] = {0, 1, 2, 0, 1, 2, 3};
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(spans.items[i].lane, lanes[i]);
    trace_spans_fini(&spans);
}

static void ids_and_the_index(void **state)
{
    struct trace_spans spans = {.limit = 100};
    (void)state;
    add(&spans, view_of(POD_KIND_WRITE, 1, 0, 200, 400));
    add(&spans, view_of(POD_KIND_WRITE, 2, 0, 200, 400)); // beside it
    add(&spans, view_of(POD_KIND_EXECUTE, 3, 1, 200, 300));
    add(&spans, view_of(POD_KIND_COPY, 5, 2, 200, 300));
    assert_true(trace_spans_arrange(&spans));
    // The core, two lanes of transfers; then the other host.
    static const uint32_t threads[] = {1001, 1002, 1003, 1005};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(spans.items[i].thread_id, threads[i]);
        assert_int_equal(spans.items[i].process_id, i < 3 ? 1000 : 1004);
    }
    assert_ptr_equal(trace_spans_find(&spans, 1), &spans.items[1]);
    assert_ptr_equal(trace_spans_find(&spans, 5), &spans.items[3]);
    assert_null(trace_spans_find(&spans, 0));
    assert_null(trace_spans_find(&spans, 4));
    assert_null(trace_spans_find(&spans, 6));
    trace_spans_fini(&spans);
}

static void where_arrows_leave(void **state)
{
    const struct trace_span from = {.start_ns = 100, .end_ns = 200};
    static const struct {
        uint64_t start_ns;
        uint64_t end_ns;
        bool there;
        uint64_t leave_ns;
    } cases[] = {
        {300, 400, true, 199},                        // after it
        {200, 400, true, 199}, {150, 400, true, 150}, // while it ran
        {100, 400, true, 100}, {99, 400, false, 0},   {300, 300, false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct trace_span to = {.start_ns = cases[i].start_ns,
                                      .end_ns = cases[i].end_ns};
        uint64_t leave_ns = 0;
        assert_int_equal(trace_span_leave(&from, &to, &leave_ns),
                         cases[i].there);
        assert_int_equal(leave_ns, cases[i].leave_ns);
    }
    const struct trace_span point = {.start_ns = 100, .end_ns = 100};
    uint64_t leave_ns = 0;
    assert_false(trace_span_leave(&point, &from, &leave_ns));
}

// --------------------------------------------------------------- the resource

// Runs the checker on a trace; its output is what it printed.
static void check(const struct rest_answer *answer, char *output, size_t size)
{
    char path[] = "/tmp/podd-trace-XXXXXX";
    char command[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, answer->body, answer->size), answer->size);
    assert_int_equal(close(fd), 0);
    (void)snprintf(command, sizeof(command),
                   "python3 tests/rest/trace_check.py %s 2>&1", path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = fread(output, 1, size - 1, pipe);
    output[length] = '\0';
    int code = pclose(pipe);
    if (code != 0)
        print_error("%s\n", output);
    assert_int_equal(code, 0);
    assert_int_equal(unlink(path), 0);
}

static void a_trace_of_much(void **state)
{
    struct rest *rest = *state;
    struct rest_spin spin = rest_spin_make(rest, 0);
    char running[32];
    char output[4096];
    for (int i = 0; i < 300; i++) {
        char body[128];
        (void)snprintf(body, sizeof(body),
                       "{\"core\":%d,\"shape\":\"f32[64]\",\"fill\":0,"
                       "\"name\":\"b \\\"%d\\\"\"}",
                       i % 2, i);
        json_decref(rest_submit(rest, "/v1/buffers", body));
    }
    rest_spin_start(rest, &spin, running);
    struct rest_answer answer = rest_get(rest, "/v1/trace?window=1h");
    assert_int_equal(answer.status, 200);
    check(&answer, output, sizeof(output));
    rest_answer_free(&answer);
    rest_spin_stop(rest, running);
    assert_non_null(strstr(output, "host 0/core 0:1\n"));
    assert_non_null(strstr(output, "host 0/memory"));
    assert_non_null(strstr(output, "host 1/memory"));
    assert_non_null(strstr(output, "host 0/programs"));
}

// Arrows from what an operation waited for, on one host and across two.
static void dependencies_are_flows(void **state)
{
    struct rest *rest = *state;
    char output[4096];
    json_t *graph = rest_submit(
        rest, "/v1/graphs",
        "{\"ops\":["
        "{\"ref\":\"a\",\"op\":\"allocate\",\"core\":0,\"shape\":\"f32[4]\","
        "\"values\":[1,2,3,4]},"
        "{\"ref\":\"b\",\"op\":\"allocate\",\"core\":1,\"shape\":\"f32[4]\"},"
        "{\"ref\":\"c\",\"op\":\"copy\",\"from\":\"$a\",\"to\":\"$b\"},"
        "{\"ref\":\"f\",\"op\":\"free\",\"buffer\":\"$a\"}]}");
    json_decref(rest_await(rest, "op-1"));
    struct rest_answer answer = rest_get(rest, "/v1/trace?window=1h");
    assert_int_equal(answer.status, 200);
    check(&answer, output, sizeof(output));
    rest_answer_free(&answer);
    assert_non_null(strstr(output, "op-2 > op-4\n"));
    assert_non_null(strstr(output, "op-3 > op-4\n"));
    assert_non_null(strstr(output, "op-4 > op-5\n"));
    assert_null(strstr(output, "> op-2\n"));
    json_decref(graph);
}

static void a_window_without_anything(void **state)
{
    struct rest_answer answer =
        rest_get(*state, "/v1/trace?since=2001-01-01T00:00:00Z"
                         "&until=2001-01-01T00:01:00Z");
    assert_int_equal(answer.status, 200);
    assert_int_equal(
        json_array_size(json_object_get(answer.json, "traceEvents")), 0);
    const json_t *other = json_object_get(answer.json, "otherData");
    assert_string_equal(rest_text(other, "until"),
                        "2001-01-01T00:01:00.000000Z");
    rest_answer_free(&answer);
}

static void what_a_trace_takes(void **state)
{
    static const char *const bad[] = {
        "?since=yesterday",
        "?window=-1s",
        "?window=1h&since=2001-01-01T00:00:00Z",
        "?since=2001-01-01T00:00:00Z&until=2000-01-01T00:00:00Z",
        "?colour=red",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char target[128];
        char reason[64];
        (void)snprintf(target, sizeof(target), "/v1/trace%s", bad[i]);
        assert_int_equal(rest_status(rest_get(*state, target), reason), 400);
        assert_non_null(strstr(reason, "PARAMETER"));
    }
}

static int setup(void **state)
{
    *state = rest_start(&(struct rest_options){.history_count = 0});
    return 0;
}

#define REST_TEST(test)                                                        \
    cmocka_unit_test_setup_teardown(test, setup, rest_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_and_window),
        cmocka_unit_test(spans_are_limited),
        cmocka_unit_test(a_gang_is_on_all_its_cores),
        cmocka_unit_test(the_first_free_lane_is_taken),
        cmocka_unit_test(ids_and_the_index),
        cmocka_unit_test(where_arrows_leave),
        REST_TEST(a_trace_of_much),
        REST_TEST(dependencies_are_flows),
        REST_TEST(a_window_without_anything),
        REST_TEST(what_a_trace_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
