// SPDX-License-Identifier: Apache-2.0
// Graphs that the pod engine refuses, and what it says of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/pod_fixture.h"
#include "tests/unit/request_list.h"

// Refused, with these faults in any order; nothing has changed.
static void list_refused(struct fixture *fix, size_t count,
                         const char *const *pointers,
                         const enum pod_reason *reasons)
{
    uint64_t last = pod_last_number(fix->pod);

    assert_int_not_equal(list_submit(fix), POD_OK);
    assert_int_equal(list.faults.total, count);
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < list.faults.count &&
               strcmp(list.items[k].pointer, pointers[i]) != 0)
            k++;
        if (k == list.faults.count)
            fail_msg("no fault at %s", pointers[i]);
        assert_string_equal(pod_reason_name(list.items[k].reason),
                            pod_reason_name(reasons[i]));
    }
    assert_int_equal(pod_last_number(fix->pod), last);
    assert_int_equal(fixture_allocate(fix, 0, 0), last + 1);
}

static void test_all_faults_are_listed(void **state)
{
    struct fixture *fix = *state;
    uint64_t freed = fixture_allocate(fix, 0, 8);
    static const char *const pointers[] = {"/ops/0/core", "/ops/1/from",
                                           "/ops/2/buffer", "/ops/5/buffer"};
    static const enum pod_reason reasons[] = {
        POD_REASON_UNKNOWN_CORE, POD_REASON_UNKNOWN_HANDLE,
        POD_REASON_HANDLE_FREED, POD_REASON_HANDLE_FREED};

    (void)fixture_free(fix, freed);
    list_allocate(99, 8);
    list_copy(fixture_buffer(1000), request_ref(3));
    list_free(fixture_buffer(freed));
    list_allocate(0, 8);
    list_free(request_ref(3));
    list_free(request_ref(3));
    // No fault of its own: it refers to a faulty one.
    list_copy(request_ref(0), request_ref(0));
    list_refused(fix, 4, pointers, reasons);
    assert_string_equal(pod_reason_name(list.err.reason), "INVALID_GRAPH");
    fixture_run(fix);
}

static void test_a_refused_graph_changes_nothing(void **state)
{
    struct fixture *fix = *state;
    uint64_t kept = fixture_allocate(fix, 0, 600);
    static const char *const pointers[] = {"/ops/2/core"};
    static const enum pod_reason reasons[] = {POD_REASON_UNKNOWN_CORE};

    fixture_run(fix);
    list_allocate(0, 400);
    list_free(fixture_buffer(kept));
    list_allocate(7, 8);
    list_refused(fix, 1, pointers, reasons);
    // Memory and handle are as they were.
    uint64_t fits = fixture_allocate(fix, 0, 400);
    assert_state(fix, fits, "READY");
    (void)fixture_free(fix, kept);
    fixture_run(fix);
}

static void test_more_faults_than_fit(void **state)
{
    struct fixture *fix = *state;

    for (size_t i = 0; i < LIST_MAX; i++)
        list_allocate(99, 8);
    assert_int_not_equal(list_submit(fix), POD_OK);
    assert_int_equal(list.faults.count, FAULTS_MAX);
    assert_int_equal(list.faults.total, LIST_MAX);
    assert_string_equal(list.items[99].pointer, "/ops/99/core");
}

static void test_cycles_are_named(void **state)
{
    struct fixture *fix = *state;
    static const char *const names[] = {"u", "v", "w", "free", "self", "on"};
    static const char *const pointers[] = {"/ops/0", "/ops/4"};
    static const enum pod_reason reasons[] = {POD_REASON_CYCLE,
                                              POD_REASON_CYCLE};

    list.graph.names = names;
    list_allocate(0, 8);
    list_after(request_ref(1));
    list_allocate(0, 8);
    list_after(request_ref(2));
    list_allocate(0, 8);
    list_after(request_ref(0));
    list_allocate(0, 8);
    list_allocate(0, 8);
    list_after(request_ref(4));
    list_allocate(0, 8);
    list_after(request_ref(0)); // waits for a cycle, but is on none
    list_refused(fix, 2, pointers, reasons);
    assert_string_equal(list.items[0].text,
                        "each of these waits for the next: u, v, w, u");
    assert_string_equal(list.items[1].text,
                        "each of these waits for the next: self, self");
    fixture_run(fix);
}

static void test_what_the_caller_refused_is_left_out(void **state)
{
    struct fixture *fix = *state;
    static const char *const pointers[] = {"/ops/2/core"};
    static const enum pod_reason reasons[] = {POD_REASON_UNKNOWN_CORE};

    list_allocate(99, 8);
    list_free(request_ref(0));
    list_allocate(98, 8);
    list.refused[0] = true;
    list.graph.refused = list.refused;
    list_refused(fix, 1, pointers, reasons);
    fixture_run(fix);
}

static void test_limits_of_a_graph(void **state)
{
    struct fixture *fix = *state;
    struct pod_ref after[POD_GRAPH_AFTER_MAX + 1];

    assert_int_equal(list_submit(fix), POD_OUT_OF_RANGE);
    assert_string_equal(list.err.pointer, "/ops");
    list.graph.count = POD_GRAPH_MAX + 1;
    assert_int_equal(list_submit(fix), POD_OUT_OF_RANGE);
    list.graph.count = 0;
    list_allocate(0, 8);
    uint64_t first = fixture_allocate(fix, 0, 8);
    for (size_t i = 0; i <= POD_GRAPH_AFTER_MAX; i++)
        after[i] = fixture_op(first);
    list.self.after = after;
    list.self.after_count = POD_GRAPH_AFTER_MAX + 1;
    assert_int_equal(list_submit(fix), POD_OUT_OF_RANGE);
    assert_string_equal(list.err.pointer, "/after");
    list.self.after_count = POD_GRAPH_AFTER_MAX;
    after[7] = fixture_op(1000);
    assert_int_not_equal(list_submit(fix), POD_OK);
    assert_string_equal(list.items[0].pointer, "/after/7");
    after[7] = after[0];
    list_accepted(fix);
    fixture_run(fix);
}

static void test_a_reset_is_no_member(void **state)
{
    struct fixture *fix = *state;

    list_add(POD_KIND_RESET);
    assert_int_not_equal(list_submit(fix), POD_OK);
    assert_int_equal(list.faults.total, 1);
}

static void test_what_may_go_away_is_told(void **state)
{
    struct fixture *fix = *state;

    fake_lose(fix->host[1], "gone");
    list_allocate(2, 8);
    assert_int_equal(list_submit(fix), POD_UNAVAILABLE);
    assert_string_equal(list.err.pointer, "/ops/0/core");
    list_allocate(99, 8);
    assert_int_equal(list_submit(fix), POD_INVALID_ARGUMENT);
}

static void test_validating_admits_nothing(void **state)
{
    struct fixture *fix = *state;
    uint64_t last = pod_last_number(fix->pod);

    list.graph.validate_only = true;
    list_allocate(0, FIXTURE_MEMORY);
    list_free(request_ref(0));
    list_accepted(fix);
    assert_int_equal(pod_last_number(fix->pod), last);
    assert_int_equal(fake_open(fix->host[0]), 0);
    uint64_t whole = fixture_allocate(fix, 0, FIXTURE_MEMORY);
    assert_int_equal(whole, last + 1);
    assert_state(fix, whole, "READY");
    fixture_run(fix);
}

int main(void)
{
#define T(name)                                                                \
    cmocka_unit_test_setup_teardown(name, list_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(test_all_faults_are_listed),
        T(test_a_refused_graph_changes_nothing),
        T(test_more_faults_than_fit),
        T(test_cycles_are_named),
        T(test_what_the_caller_refused_is_left_out),
        T(test_limits_of_a_graph),
        T(test_a_reset_is_no_member),
        T(test_what_may_go_away_is_told),
        T(test_validating_admits_nothing),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
