// SPDX-License-Identifier: Apache-2.0
// Traces of how nodes end, settle and release others.
#include "tests/sim/sched_trace.h"

// A node without dependencies and lanes is launched at once and passes all
// states.
static void test_single(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] started a\n"
                "[0]   a RUNNING\n"
                "[0] started a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n");
}

// A chain: each is ready when the one before is done.
static void test_chain(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=b\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   b READY launch\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c READY launch\n"
                "[0] done c SUCCEEDED\n"
                "[0]   c SUCCEEDED released\n");
}

// A node waits for all of its dependencies.
static void test_join(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c needs=a follows=b\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c READY launch\n");
}

// Dependents are released newest first.
static void test_fan_out(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   c READY launch\n"
                "[0]   b READY launch\n");
}

// A failure skips what depends on it, through the graph, each with its own
// cause.
static void test_failure_spreads(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=b\n"
                "[0] submit d\n"
                "[0]   d READY launch\n"
                "[0] submit e needs=c,d\n"
                "[0] submit f needs=d\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   b SKIPPED by a released\n"
                "[0]   c SKIPPED by b released\n"
                "[0]   e SKIPPED by c\n"
                "[0] done d SUCCEEDED\n"
                "[0]   d SUCCEEDED released\n"
                "[0]   f READY launch\n"
                "[0]   e released\n");
}

// An edge that only orders is released by a failure too.
static void test_order_only(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b follows=a\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   b READY launch\n");
}

// A node that ended early holds order-only dependents until its worker
// answers.
static void test_order_waits_for_settle(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b follows=a\n"
                "[0] submit c needs=a\n"
                "[0] end a LOST\n"
                "[0]   a LOST\n"
                "[0]   c SKIPPED by a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   b READY launch\n"
                "[0]   a released\n"
                "[0]   c released\n");
}

// So does it hold those that run in spite of failure.
static void test_run_on_failure(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a always\n"
                "[0] submit c needs=b\n"
                "[0] end a CANCELLED\n"
                "[0]   a CANCELLED\n"
                "[0] done a FAILED\n"
                "[0]   b READY launch\n"
                "[0]   a released\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c READY launch\n");
}

// A skipped node lets its clean-up run at once, for no worker ever had it.
static void test_run_on_failure_of_skipped(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=b always\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   b SKIPPED by a released\n"
                "[0]   c READY launch\n");
}

// What is certain is launched whatever became of it, when it stands behind
// nothing any more, and who follows it waits for its worker.
static void test_certain(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c needs=a follows=b certain\n"
                "[0] submit d follows=c\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   c SKIPPED by a\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c launch\n"
                "[0] done c SUCCEEDED\n"
                "[0]   d READY launch\n"
                "[0]   c released\n"
                "[0] submit e doomed=a certain\n"
                "[0]   e SKIPPED by a launch\n");
}

// A cancel ends it for its observers and leaves it to its worker, which is not
// told; so does a deadline.
static void test_certain_is_not_interrupted(void **state)
{
    (void)state;
    trace_check("[0] submit a certain\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c follows=a\n"
                "[0] cancel a\n"
                "[0]   a CANCELLED\n"
                "[0]   b SKIPPED by a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   c READY launch\n"
                "[0]   a released\n"
                "[0]   b released\n"
                "[0] submit d certain\n"
                "[0]   d READY launch\n"
                "[0] started d\n"
                "[0]   d RUNNING\n"
                "[0] cancel d\n"
                "[0] done d SUCCEEDED\n"
                "[0]   d SUCCEEDED released\n"
                "[0] submit e certain deadline=5\n"
                "[0]   e READY launch\n"
                "[5] advance\n"
                "[5]   e FAILED late\n"
                "[5] done e SUCCEEDED\n"
                "[5]   e released\n");
}

// A dependency that failed long ago.
static void test_doomed(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0] submit b doomed=a\n"
                "[0]   b SKIPPED by a released\n"
                "[0] submit c doomed=a always\n"
                "[0]   c READY launch\n");
}

// A dependency that ended badly but is not settled dooms too; order waits.
static void test_dep_ended_not_settled(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] end a LOST\n"
                "[0]   a LOST\n"
                "[0] submit b needs=a\n"
                "[0]   b SKIPPED by a\n"
                "[0] submit c follows=a\n"
                "[0] submit d needs=a always\n"
                "[0] done a LOST\n"
                "[0]   d READY launch\n"
                "[0]   c READY launch\n"
                "[0]   a released\n"
                "[0]   b released\n");
}

// Cancelling what is not launched: it ends, dependents are skipped.
static void test_cancel_waiting(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=b\n"
                "[0] cancel b\n"
                "[0]   b CANCELLED\n"
                "[0]   c SKIPPED by b\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   b released\n"
                "[0]   c released\n");
}

// Cancelling what is launched: interrupted once; existing dependents end now,
// later ones see how it ends.
static void test_cancel_launched(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] cancel a\n"
                "[0]   a interrupt\n"
                "[0]   b SKIPPED by a\n"
                "[0] cancel a\n"
                "[0] submit c needs=a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   c READY launch\n"
                "[0]   b released\n");
}

// The node may end cancelled.
static void test_cancel_launched_ends(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b follows=a\n"
                "[0] submit c needs=a\n"
                "[0] cancel a\n"
                "[0]   a interrupt\n"
                "[0]   c SKIPPED by a\n"
                "[0] done a CANCELLED\n"
                "[0]   a CANCELLED released\n"
                "[0]   b READY launch\n"
                "[0]   c released\n");
}

// With cascade the dependents are cancelled as well, but for clean-up.
static void test_cascade(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=b\n"
                "[0] submit d needs=b always\n"
                "[0] submit e needs=d\n"
                "[0] cascade a\n"
                "[0]   a interrupt\n"
                "[0]   b CANCELLED by a\n"
                "[0]   c CANCELLED by b\n"
                "[0] done a CANCELLED\n"
                "[0]   a CANCELLED released\n"
                "[0]   d READY launch\n"
                "[0]   b released\n"
                "[0]   c released\n");
}

// Cancelling an ended node does nothing.
static void test_cancel_ended(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] end a FAILED\n"
                "[0]   a FAILED\n"
                "[0] submit b follows=a\n"
                "[0] cancel a\n"
                "[0] cascade a\n"
                "[0] done a FAILED\n"
                "[0]   b READY launch\n"
                "[0]   a released\n");
}

// A deadline ends a node that waits.
static void test_deadline_waiting(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a deadline=10\n"
                "[0] submit c needs=b\n"
                "[9] advance\n"
                "[10] advance\n"
                "[10]   b FAILED late\n"
                "[10]   c SKIPPED by b\n"
                "[10] done a SUCCEEDED\n"
                "[10]   a SUCCEEDED released\n"
                "[10]   b released\n"
                "[10]   c released\n");
}

// A deadline ends a launched node for its observers; the lane stays taken
// until the worker answers.
static void test_deadline_launched(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0 deadline=5\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] started a\n"
                "[0]   a RUNNING\n"
                "[7] advance\n"
                "[7]   a FAILED late interrupt\n"
                "[8] done a SUCCEEDED\n"
                "[8]   a released\n"
                "[8]   b launch\n");
}

// Deadlines pass in their order: a cause may take a node away before its own
// deadline.
static void test_deadline_order(void **state)
{
    (void)state;
    trace_check("[0] submit x\n"
                "[0]   x READY launch\n"
                "[0] submit a follows=x deadline=3\n"
                "[0] submit b needs=a deadline=4\n"
                "[0] submit c follows=x deadline=4\n"
                "[5] advance\n"
                "[5]   a FAILED late\n"
                "[5]   b SKIPPED by a\n"
                "[5]   c FAILED late\n");
}

// A deadline that has passed at submit.
static void test_deadline_past(void **state)
{
    (void)state;
    trace_check("[5] submit a deadline=5\n"
                "[5]   a FAILED late released\n"
                "[5] submit b deadline=6\n"
                "[5]   b READY launch\n"
                "[6] advance\n"
                "[6]   b FAILED late interrupt\n");
}

// Done in time: the deadline is forgotten.
static void test_deadline_met(void **state)
{
    (void)state;
    trace_check("[0] submit a deadline=5\n"
                "[0]   a READY launch\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[9] advance\n");
}

// A skipped node stays until its last edge is gone.
static void test_skipped_drains(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c needs=a,b\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   c SKIPPED by a\n"
                "[0] done b FAILED\n"
                "[0]   b FAILED released\n"
                "[0]   c released\n");
}

// Ended from outside: the host was lost; its answer, if any, settles.
static void test_end_launched(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] submit c needs=a\n"
                "[0] started a\n"
                "[0]   a RUNNING\n"
                "[0] end a LOST\n"
                "[0]   a LOST\n"
                "[0]   c SKIPPED by a\n"
                "[0] end a FAILED\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a released\n"
                "[0]   c released\n"
                "[0]   b launch\n");
}

// What a worker says of an ended node changes nothing but that it settles.
static void test_started_after_end(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] end a LOST\n"
                "[0]   a LOST\n"
                "[0] started a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a released\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_fan_out),
        cmocka_unit_test(test_failure_spreads),
        cmocka_unit_test(test_order_only),
        cmocka_unit_test(test_order_waits_for_settle),
        cmocka_unit_test(test_run_on_failure),
        cmocka_unit_test(test_run_on_failure_of_skipped),
        cmocka_unit_test(test_certain),
        cmocka_unit_test(test_certain_is_not_interrupted),
        cmocka_unit_test(test_doomed),
        cmocka_unit_test(test_dep_ended_not_settled),
        cmocka_unit_test(test_cancel_waiting),
        cmocka_unit_test(test_cancel_launched),
        cmocka_unit_test(test_cancel_launched_ends),
        cmocka_unit_test(test_cascade),
        cmocka_unit_test(test_cancel_ended),
        cmocka_unit_test(test_deadline_waiting),
        cmocka_unit_test(test_deadline_launched),
        cmocka_unit_test(test_deadline_order),
        cmocka_unit_test(test_deadline_past),
        cmocka_unit_test(test_deadline_met),
        cmocka_unit_test(test_skipped_drains),
        cmocka_unit_test(test_end_launched),
        cmocka_unit_test(test_started_after_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
