// SPDX-License-Identifier: Apache-2.0
// Traces of completions that are told together: what becomes of dependents of
// each kind.
#include "tests/sim/sched_trace.h"

// Nothing is said of what is done, and of a dependent when nothing is left that
// holds it.
static void test_plain(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c\n"
                "[0]   c READY launch\n"
                "[0] submit x needs=a,b\n"
                "[0] submit y needs=b\n"
                "[0] submit z needs=b,c\n"
                "[0] together a,b\n"
                "[0]   y READY launch\n"
                "[0]   x READY launch\n"
                "[0] together c\n"
                "[0]   z READY launch\n"
                "[0] together y,z,x\n");
}

// Several edges to one dependent that say different things of it, one of them
// twice.
static void test_unlike_edges(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c\n"
                "[0]   c READY launch\n"
                "[0] submit d\n"
                "[0]   d READY launch\n"
                "[0] submit e\n"
                "[0]   e READY launch\n"
                "[0] submit x needs=a,b,d,d,e follows=c\n"
                "[0] together a,b,c\n"
                "[0] together d\n"
                "[0] together e\n"
                "[0]   x READY launch\n");
}

static void test_unlike_edges_at_once(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c\n"
                "[0]   c READY launch\n"
                "[0] submit d\n"
                "[0]   d READY launch\n"
                "[0] submit x needs=a,b,d,d follows=c\n"
                "[0] together a,b,c,d\n"
                "[0]   x READY launch\n");
}

// A lane is looked at in the end of a call, when all are queued.
static void test_lane(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=a,b lanes=0\n"
                "[0] submit y needs=b lanes=0 prio=1\n"
                "[0] together a,b\n"
                "[0]   x READY\n"
                "[0]   y READY launch\n"
                "[0] done y SUCCEEDED\n"
                "[0]   y SUCCEEDED released\n"
                "[0]   x launch\n");
}

// All the edges to it are alike.
static void test_lane_of_join(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c\n"
                "[0]   c READY launch\n"
                "[0] submit x needs=a,b,c lanes=0\n"
                "[0] together a,b,c\n"
                "[0]   x READY launch\n");
}

static void test_gang(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] lane 1\n"
                "[0] submit l lanes=1\n"
                "[0]   l READY launch\n"
                "[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=a,b lanes=0,1\n"
                "[0] submit y needs=a lanes=0\n"
                "[0] together b,a\n"
                "[0]   y READY\n"
                "[0]   x READY\n"
                "[0] done l SUCCEEDED\n"
                "[0]   l SUCCEEDED released\n"
                "[0]   x launch\n"
                "[0] done x SUCCEEDED\n"
                "[0]   x SUCCEEDED released\n"
                "[0]   y launch\n");
}

static void test_deadline(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=a,b deadline=5\n"
                "[0] together a,b\n"
                "[0]   x READY launch\n"
                "[5] advance\n"
                "[5]   x FAILED late interrupt\n"
                "[5] done x SUCCEEDED\n"
                "[5]   x released\n");
}

static void test_always_and_certain(void **state)
{
    (void)state;
    trace_check("[0] submit f\n"
                "[0]   f READY launch\n"
                "[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=f,a,b always\n"
                "[0] submit y needs=a,b certain\n"
                "[0] done f FAILED\n"
                "[0]   f FAILED released\n"
                "[0] together a,b\n"
                "[0]   y READY launch\n"
                "[0]   x READY launch\n"
                "[0] together x,y\n");
}

// It ended when its other dependency failed, and is gone now; what came after
// it may begin. One that is certain is launched all the same.
static void test_ended_before(void **state)
{
    (void)state;
    trace_check("[0] submit f\n"
                "[0]   f READY launch\n"
                "[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=f follows=a,b\n"
                "[0] submit y needs=f follows=b certain\n"
                "[0] submit z follows=x\n"
                "[0] done f FAILED\n"
                "[0]   f FAILED released\n"
                "[0]   y SKIPPED by f\n"
                "[0]   x SKIPPED by f\n"
                "[0] together a,b\n"
                "[0]   y launch\n"
                "[0]   z READY launch\n"
                "[0]   x released\n"
                "[0] done y SUCCEEDED\n"
                "[0]   y released\n"
                "[0] together z\n");
}

// The same where all the edges that are left are alike.
static void test_join_ended_before(void **state)
{
    (void)state;
    trace_check("[0] submit f\n"
                "[0]   f READY launch\n"
                "[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c\n"
                "[0]   c READY launch\n"
                "[0] submit x needs=f,a,b,c\n"
                "[0] done f FAILED\n"
                "[0]   f FAILED released\n"
                "[0]   x SKIPPED by f\n"
                "[0] together a,b\n"
                "[0] together c\n"
                "[0]   x released\n");
}

// A worker still has it: it goes when the worker has answered.
static void test_ended_at_worker(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=a!,b!\n"
                "[0]   x launch\n"
                "[0] end x LOST\n"
                "[0]   x LOST\n"
                "[0] together a,b\n"
                "[0] done x SUCCEEDED\n"
                "[0]   x released\n");
}

// It was answered before what it followed.
static void test_settled_before(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=a!,b!\n"
                "[0]   x launch\n"
                "[0] done x SUCCEEDED\n"
                "[0]   x SUCCEEDED\n"
                "[0] together a,b\n"
                "[0]   x released\n");
}

// Dependents that were launched when their dependencies were.
static void test_led(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=a!,b!\n"
                "[0]   x launch\n"
                "[0] submit y needs=b!\n"
                "[0]   y launch\n"
                "[0] started y\n"
                "[0]   y RUNNING\n"
                "[0] together a,b\n"
                "[0]   x READY\n"
                "[0] together y,x\n");
}

// One edge holds it back, another leads it: each may go first.
static void test_held_and_led(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=a!,b\n"
                "[0] submit y needs=a!,b\n"
                "[0] together b\n"
                "[0]   y launch\n"
                "[0]   x launch\n"
                "[0] together a\n"
                "[0]   y READY\n"
                "[0]   x READY\n"
                "[0] submit c\n"
                "[0]   c READY launch\n"
                "[0] submit z needs=x!,y,c\n"
                "[0] together x\n"
                "[0] together y\n"
                "[0] together c\n"
                "[0]   z READY launch\n");
}

static void test_held_and_led_at_once(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=a!,b\n"
                "[0] together b,a\n"
                "[0]   x READY launch\n");
}

// Those that may follow the launch of a dependent do.
static void test_followers(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit x needs=a,b\n"
                "[0] submit y needs=x!\n"
                "[0] submit z needs=y! lanes=0\n"
                "[0] together a,b\n"
                "[0]   x READY launch\n"
                "[0]   y launch\n"
                "[0]   z launch\n"
                "[0] together x\n"
                "[0]   y READY\n"
                "[0] together y\n"
                "[0]   z READY\n"
                "[0] done z SUCCEEDED\n"
                "[0]   z SUCCEEDED released\n");
}

// It is seen before each node and each group of edges whether there is room for
// what they may launch. What else comes needs none.
static void test_calls(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit r needs=a lanes=0\n"
                "[0] submit s needs=a\n"
                "[0] submit t needs=a\n"
                "[0] submit u needs=a\n"
                "[0] submit v needs=b lanes=0\n"
                "[0] submit w needs=b\n"
                "[0] together a,b\n"
                "[0]   u READY launch\n"
                "[0]   more\n"
                "[0]   t READY launch\n"
                "[0]   s READY launch\n"
                "[0]   r READY launch\n"
                "[0]   more\n"
                "[0]   w READY launch\n"
                "[0]   v READY\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_unlike_edges),
        cmocka_unit_test(test_unlike_edges_at_once),
        cmocka_unit_test(test_lane),
        cmocka_unit_test(test_lane_of_join),
        cmocka_unit_test(test_gang),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_always_and_certain),
        cmocka_unit_test(test_ended_before),
        cmocka_unit_test(test_join_ended_before),
        cmocka_unit_test(test_ended_at_worker),
        cmocka_unit_test(test_settled_before),
        cmocka_unit_test(test_led),
        cmocka_unit_test(test_held_and_led),
        cmocka_unit_test(test_held_and_led_at_once),
        cmocka_unit_test(test_followers),
        cmocka_unit_test(test_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
