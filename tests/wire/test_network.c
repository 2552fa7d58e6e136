// SPDX-License-Identifier: Apache-2.0
// Pods whose hosts are in network namespaces. Each test is a case of
// drive_network.py, which says what was wrong. They wait more than they work,
// so some run beside each other.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/lib/script.h"

enum { LANES = 3, SKIPPED = 77 };

static char cases[][40] = {
    "narrow",
    "cut_in_a_copy",
    "workers_parted",
    "narrow_between_workers",
    "one_way",
    "link_cut_and_mended",
    "cut_in_a_gang",
    "workers_parted_in_a_gang",
    "far_away",
    "packets_lost",
    "gangs_after_workers_parted",
};
enum { CASE_COUNT = sizeof(cases) / sizeof(cases[0]) };

static pid_t scripts[CASE_COUNT];
static size_t started;

static void start_up_to(size_t count)
{
    for (; started < count && started < CASE_COUNT; started++)
        scripts[started] =
            test_script_start("tests/wire/drive_network.py", cases[started]);
}

static void run_case(void **state)
{
    size_t number = (size_t)((char(*)[40]) * state - cases);

    start_up_to(number + LANES);
    int code = test_script_end(scripts[number]);
    if (code == SKIPPED)
        skip();
    assert_int_equal(code, 0);
}

int main(void)
{
    struct CMUnitTest tests[CASE_COUNT] = {{.name = NULL}};

    for (size_t i = 0; i < CASE_COUNT; i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i], .test_func = run_case, .initial_state = cases[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
