// SPDX-License-Identifier: Apache-2.0
// Traces of what is launched when: lanes, gangs, sent-ahead dependents.
#include "tests/sim/sched_trace.h"

// A lane launches no more than its window.
static void test_window(void **state)
{
    (void)state;
    trace_check("[0] lane 2\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY launch\n"
                "[0] submit c lanes=0\n"
                "[0]   c READY\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c launch\n");
}

// By priority, then in the order submitted.
static void test_priority(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] submit c lanes=0 prio=5\n"
                "[0]   c READY\n"
                "[0] submit d lanes=0 prio=-5\n"
                "[0]   d READY\n"
                "[0] submit e lanes=0 prio=5\n"
                "[0]   e READY\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   c launch\n"
                "[0] done c SUCCEEDED\n"
                "[0]   c SUCCEEDED released\n"
                "[0]   e launch\n"
                "[0] done e SUCCEEDED\n"
                "[0]   e SUCCEEDED released\n"
                "[0]   b launch\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   d launch\n");
}

// Nodes that become ready together are launched in the lane's order.
static void test_priority_of_released(void **state)
{
    (void)state;
    trace_check("[0] lane 2\n"
                "[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a lanes=0\n"
                "[0] submit c needs=a lanes=0\n"
                "[0] submit d needs=a lanes=0 prio=1\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   c READY\n"
                "[0]   d READY launch\n"
                "[0]   b READY launch\n");
}

// A gang needs room in all lanes; what is behind it waits although there is
// room.
static void test_gang(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit g lanes=0,1\n"
                "[0]   g READY\n"
                "[0] submit b lanes=1\n"
                "[0]   b READY\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   g launch\n"
                "[0] done g SUCCEEDED\n"
                "[0]   g SUCCEEDED released\n"
                "[0]   b launch\n");
}

// Gangs that share lanes launch in one order.
static void test_gangs_one_order(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] lane 1\n"
                "[0] lane 1\n"
                "[0] submit a lanes=1\n"
                "[0]   a READY launch\n"
                "[0] submit g lanes=0,1\n"
                "[0]   g READY\n"
                "[0] submit h lanes=1,2\n"
                "[0]   h READY\n"
                "[0] submit i lanes=2,0\n"
                "[0]   i READY\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   g launch\n"
                "[0] done g SUCCEEDED\n"
                "[0]   g SUCCEEDED released\n"
                "[0]   h launch\n"
                "[0] done h SUCCEEDED\n"
                "[0]   h SUCCEEDED released\n"
                "[0]   i launch\n");
}

// A gang that goes away lets go those behind it.
static void test_gang_cancelled(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit g lanes=0,1\n"
                "[0]   g READY\n"
                "[0] submit b lanes=1\n"
                "[0]   b READY\n"
                "[0] cancel g\n"
                "[0]   g CANCELLED released\n"
                "[0]   b launch\n");
}

// Cancelling a launched member of a lane frees it only when it settles.
static void test_cancel_keeps_lane(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] cancel a\n"
                "[0]   a interrupt\n"
                "[0] done a CANCELLED\n"
                "[0]   a CANCELLED released\n"
                "[0]   b launch\n");
}

// Sent ahead: the dependent is launched as soon as the dependency is.
static void test_ahead(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a!\n"
                "[0]   b launch\n"
                "[0] submit x lanes=0\n"
                "[0]   x READY\n"
                "[0] submit y needs=x!\n"
                "[0] submit z needs=y!\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   b READY\n"
                "[0]   x launch\n"
                "[0]   y launch\n"
                "[0]   z launch\n"
                "[0] started b\n"
                "[0]   b RUNNING\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n");
}

// A sent-ahead node still waits for its other dependencies.
static void test_ahead_and_other(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c needs=a!,b\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c launch\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   c READY\n");
}

// Sent ahead, and the dependency fails: it ends and is interrupted, settles
// later.
static void test_ahead_fails(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a!\n"
                "[0]   b launch\n"
                "[0] submit c needs=b\n"
                "[0] submit d follows=b\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   b SKIPPED by a interrupt\n"
                "[0]   c SKIPPED by b\n"
                "[0] done b CANCELLED\n"
                "[0]   d READY launch\n"
                "[0]   b released\n"
                "[0]   c released\n");
}

// Sent ahead, and it answers before its dependency does.
static void test_ahead_answers_first(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a!\n"
                "[0]   b launch\n"
                "[0] started b\n"
                "[0]   b RUNNING\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   b released\n");
}

// Cancelling the dependency interrupts what was sent ahead.
static void test_ahead_cancel(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a!\n"
                "[0]   b launch\n"
                "[0] cancel b\n"
                "[0]   b interrupt\n"
                "[0] cancel a\n"
                "[0]   a interrupt\n"
                "[0]   b SKIPPED by a\n"
                "[0] done a CANCELLED\n"
                "[0]   a CANCELLED released\n"
                "[0] done b CANCELLED\n"
                "[0]   b released\n");
}

// One step may end, release and launch.
static void test_end_releases_lane(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0 deadline=2\n"
                "[0]   b READY\n"
                "[0] submit c lanes=0\n"
                "[0]   c READY\n"
                "[0] submit d follows=b\n"
                "[2] advance\n"
                "[2]   b FAILED late released\n"
                "[2]   d READY launch\n"
                "[2] done a SUCCEEDED\n"
                "[2]   a SUCCEEDED released\n"
                "[2]   c launch\n");
}

// Sent ahead of a node that is never launched: its end lets the dependent go.
static void test_ahead_of_unlaunched(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] submit c follows=b!\n"
                "[0] cancel b\n"
                "[0]   b CANCELLED released\n"
                "[0]   c READY launch\n");
}

// Sent ahead over an edge that only orders.
static void test_ahead_order_only(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] submit c follows=b!\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   b launch\n"
                "[0]   c launch\n"
                "[0] done b FAILED\n"
                "[0]   b FAILED released\n"
                "[0]   c READY\n");
}

// A worker may begin before we know that the dependency is done.
static void test_ahead_started(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a!\n"
                "[0]   b launch\n"
                "[0] started b\n"
                "[0]   b RUNNING\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_priority),
        cmocka_unit_test(test_priority_of_released),
        cmocka_unit_test(test_gang),
        cmocka_unit_test(test_gangs_one_order),
        cmocka_unit_test(test_gang_cancelled),
        cmocka_unit_test(test_cancel_keeps_lane),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_ahead_and_other),
        cmocka_unit_test(test_ahead_fails),
        cmocka_unit_test(test_ahead_answers_first),
        cmocka_unit_test(test_ahead_cancel),
        cmocka_unit_test(test_end_releases_lane),
        cmocka_unit_test(test_ahead_of_unlaunched),
        cmocka_unit_test(test_ahead_order_only),
        cmocka_unit_test(test_ahead_started),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
