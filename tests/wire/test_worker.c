// SPDX-License-Identifier: Apache-2.0
// podworker, driven by a client on another gRPC implementation. Each test is a
// case of drive_worker.py, which starts workers of its own and says on stderr
// what was wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/lib/script.h"

static void run_case(void **state)
{
    assert_int_equal(test_script_run("tests/wire/drive_worker.py", *state), 0);
}

static void run_pod_case(void **state)
{
    assert_int_equal(test_script_run("tests/wire/drive_pod_worker.py", *state),
                     0);
}

// Of drive_worker.py.
static char cases[][48] = {
    "replay_single_worker",
    "replay_pod_of_two",
    "replay_errors_and_reset",
    "every_operation",
    "refusals",
    "malformed_messages_end_the_stream",
    "forward_references",
    "failures_pass_on",
    "uses_of_a_buffer_keep_their_order",
    "many_entries_in_a_message",
    "large_transfer",
    "staging_is_bounded",
    "what_was_read_is_staged_until_it_has_left",
    "clients_are_bounded_together",
    "frees_are_heard_by_a_full_worker",
    "clients_side_by_side",
    "close_ends_what_is_pending",
    "half_close_waits_for_answers",
    "idle_client_is_given_up",
    "clients_are_bounded",
    "client_ids_differ",
    "wrong_flags",
    "listens_beyond_loopback_if_asked",
    "unix_socket",
    "mutual_tls",
    "circles_are_found",
    "tuples_are_bounded",
    "gang_on_two_cores",
    "slice_in_blocks",
};
// Of drive_pod_worker.py.
static char pod_cases[][48] = {
    "hello",
    "hello_replaces_a_session",
    "chunks",
    "entries_that_cannot_be",
    "order_and_failure",
    "order_across_streams",
    "later_things_hold_nobody",
    "cancel",
    "begin_and_end_in_one",
    "memory_and_reset",
    "session_ends_with_its_control_stream",
    "huge_messages",
    "strange_streams",
    "no_descriptor_left",
    "copy_from_peer",
    "gang_over_three_workers",
    "streams_of_gangs",
};
enum {
    CASE_COUNT = sizeof(cases) / sizeof(cases[0]),
    POD_CASE_COUNT = sizeof(pod_cases) / sizeof(pod_cases[0]),
};

int main(void)
{
    struct CMUnitTest tests[CASE_COUNT + POD_CASE_COUNT] = {{.name = NULL}};
    for (size_t i = 0; i < CASE_COUNT; i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i], .test_func = run_case, .initial_state = cases[i]};
    for (size_t i = 0; i < POD_CASE_COUNT; i++)
        tests[CASE_COUNT + i] =
            (struct CMUnitTest){.name = pod_cases[i],
                                .test_func = run_pod_case,
                                .initial_state = pod_cases[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
