// SPDX-License-Identifier: Apache-2.0
// The conditions of hosts and of the pod, by table.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/pod/conditions.h"

struct row {
    struct pod_host_facts facts;
    const char *ready;
    const char *schedulable;
    const char *drained;
    const char *stalled;
};

static const struct row rows[] = {
    {{POD_HOST_CONNECTING, false, false, false, 0, false},
     "UNKNOWN CONNECTING",
     "FALSE NOT_READY",
     "FALSE NOT_CORDONED",
     "FALSE NOTHING_STALLED"},
    {{POD_HOST_CONNECTING, true, false, false, 0, false},
     "UNKNOWN CONNECTING",
     "FALSE CORDONED",
     "TRUE IDLE",
     "FALSE NOTHING_STALLED"},
    {{POD_HOST_READY, false, true, false, 0, false},
     "TRUE HEARTBEATS",
     "TRUE ACCEPTS_WORK",
     "FALSE NOT_CORDONED",
     "FALSE NOTHING_STALLED"},
    {{POD_HOST_READY, false, true, false, 7, true},
     "TRUE HEARTBEATS",
     "TRUE ACCEPTS_WORK",
     "FALSE NOT_CORDONED",
     "TRUE OPERATION_STALLED"},
    {{POD_HOST_CORDONED, true, true, false, 1, true},
     "TRUE HEARTBEATS",
     "FALSE CORDONED",
     "FALSE OPERATIONS_OPEN",
     "TRUE OPERATION_STALLED"},
    {{POD_HOST_CORDONED, true, true, false, 0, false},
     "TRUE HEARTBEATS",
     "FALSE CORDONED",
     "TRUE IDLE",
     "FALSE NOTHING_STALLED"},
    {{POD_HOST_LOST, false, false, false, 0, false},
     "FALSE UNREACHABLE",
     "FALSE NOT_READY",
     "FALSE NOT_CORDONED",
     "FALSE NOTHING_STALLED"},
    {{POD_HOST_LOST, false, true, false, 2, false},
     "FALSE HOST_LOST",
     "FALSE NOT_READY",
     "FALSE NOT_CORDONED",
     "FALSE NOTHING_STALLED"},
    {{POD_HOST_LOST, true, true, true, 0, false},
     "FALSE CONTRADICTORY",
     "FALSE CORDONED",
     "TRUE IDLE",
     "FALSE NOTHING_STALLED"},
};

static void check(const struct pod_condition *condition, const char *expected)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "%s %s",
                   pod_condition_status_name(condition->status),
                   pod_condition_reason_name(condition->reason));
    assert_string_equal(text, expected);
    assert_int_not_equal(pod_condition_reason_text(condition->reason)[0], '\0');
}

static void test_hosts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pod_condition judged[POD_CONDITION_COUNT];
        pod_host_judge(&rows[i].facts, judged);
        check(&judged[POD_CONDITION_READY], rows[i].ready);
        check(&judged[POD_CONDITION_SCHEDULABLE], rows[i].schedulable);
        check(&judged[POD_CONDITION_DRAINED], rows[i].drained);
        check(&judged[POD_CONDITION_STALLED], rows[i].stalled);
    }
}

static void test_pod(void **state)
{
    static const struct {
        struct pod_facts facts;
        const char *ready;
    } pods[] = {
        {{2, 2, false}, "TRUE ALL_HOSTS_READY"},
        {{2, 1, false}, "FALSE HOSTS_MISSING"},
        {{2, 0, false}, "FALSE HOSTS_MISSING"},
        {{0, 0, false}, "FALSE NO_HOSTS"},
        {{2, 2, true}, "FALSE DRAINING"},
        {{0, 0, true}, "FALSE DRAINING"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
        struct pod_condition judged;
        pod_judge(&pods[i].facts, &judged);
        check(&judged, pods[i].ready);
    }
}

static void test_time_moves_with_the_status_alone(void **state)
{
    struct pod_condition condition = {.since_wall_ns = 0};
    const struct pod_condition lost = {POD_CONDITION_FALSE,
                                       POD_CONDITION_REASON_HOST_LOST, 0};
    const struct pod_condition refused = {
        POD_CONDITION_FALSE, POD_CONDITION_REASON_CONTRADICTORY, 0};
    const struct pod_condition good = {POD_CONDITION_TRUE,
                                       POD_CONDITION_REASON_HEARTBEATS, 0};

    (void)state;
    assert_true(pod_condition_take(&condition, &lost, 10));
    assert_int_equal(condition.since_wall_ns, 10);
    assert_false(pod_condition_take(&condition, &lost, 20));
    assert_true(pod_condition_take(&condition, &refused, 30));
    assert_int_equal(condition.since_wall_ns, 10);
    check(&condition, "FALSE CONTRADICTORY");
    assert_true(pod_condition_take(&condition, &good, 40));
    assert_int_equal(condition.since_wall_ns, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_pod),
        cmocka_unit_test(test_time_moves_with_the_status_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
