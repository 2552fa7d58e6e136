// SPDX-License-Identifier: Apache-2.0
// The meeting point of gangs: each replica is a thread of the test.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/lock.h"
#include "core/base/mem.h"
#include "core/driver/rendezvous.h"

enum { MAX_REPLICAS = 8, MAX_GROUP = 8 };

struct replica;

// What a replica does once all have arrived; its code is its end.
typedef enum pod_code (*replica_body)(struct replica *self,
                                      struct pod_err *err);

struct replica {
    struct pod_gang *gang;
    uint32_t number;
    uint32_t count;
    replica_body body;
    struct pod_interrupt interrupt;
    enum pod_code code;
    struct pod_err err;
    uint64_t out[MAX_GROUP];
    pthread_t thread;
};

static void *replica_main(void *arg)
{
    struct replica *self = arg;

    self->code =
        pod_gang_arrive(self->gang, self->number, &self->interrupt, &self->err);
    if (self->code == POD_OK)
        self->code = self->body(self, &self->err);
    pod_gang_leave(self->gang, self->number,
                   self->code == POD_OK ? NULL : &self->err);
    return NULL;
}

static enum pod_code gather(struct replica *self, const uint32_t *group,
                            size_t group_size, uint64_t sequence,
                            uint64_t value, struct pod_err *err)
{
    struct pod_exchange *exchange = pod_gang_exchange(self->gang);

    return exchange->all_gather(exchange, self->number, group, group_size,
                                sequence, &value, sizeof value, self->out,
                                &self->interrupt, err);
}

struct meeting {
    struct pod_gang_hub *hub;
    struct pod_gang *gang;
    struct replica replicas[MAX_REPLICAS];
    uint32_t count;
};

// Replica i is on host i.
static void meeting_make(struct meeting *meeting, uint32_t count)
{
    static const uint32_t hosts[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct pod_err err;

    memset(meeting, 0, sizeof *meeting);
    meeting->hub = pod_gang_hub_new(MAX_REPLICAS);
    meeting->count = count;
    assert_int_equal(
        pod_gang_join(meeting->hub, 17, count, hosts, &meeting->gang, &err),
        POD_OK);
}

static void meeting_start(struct meeting *meeting, uint32_t number,
                          replica_body body)
{
    struct replica *replica = &meeting->replicas[number];

    replica->gang = meeting->gang;
    replica->number = number;
    replica->count = meeting->count;
    replica->body = body;
    assert_int_equal(
        pthread_create(&replica->thread, NULL, replica_main, replica), 0);
}

static void meeting_join(struct meeting *meeting, uint32_t number)
{
    assert_int_equal(pthread_join(meeting->replicas[number].thread, NULL), 0);
}

static void meeting_run(struct meeting *meeting, replica_body body)
{
    for (uint32_t i = 0; i < meeting->count; i++)
        meeting_start(meeting, i, body);
    for (uint32_t i = 0; i < meeting->count; i++)
        meeting_join(meeting, i);
}

static void meeting_end(struct meeting *meeting)
{
    pod_gang_unref(meeting->gang);
    pod_gang_hub_unref(meeting->hub);
}

// ------------------------------------------------------------ what goes well

static enum pod_code body_nothing(struct replica *self, struct pod_err *err)
{
    (void)self;
    (void)err;
    return POD_OK;
}

static void test_arrive_and_leave(void **state)
{
    struct meeting meeting;

    (void)state;
    meeting_make(&meeting, 8);
    meeting_run(&meeting, body_nothing);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(meeting.replicas[i].code, POD_OK);
    meeting_end(&meeting);
}

// All in one group, in an order that is not that of their numbers.
static enum pod_code body_gather(struct replica *self, struct pod_err *err)
{
    static const uint32_t group[] = {3, 1, 0, 2};
    enum pod_code code = POD_OK;

    for (uint64_t round = 0; round < 200 && code == POD_OK; round++) {
        code = gather(self, group, 4, round, 100 * round + self->number, err);
        for (size_t i = 0; i < 4 && code == POD_OK; i++) {
            if (self->out[i] != 100 * round + group[i])
                code = POD_DATA_LOSS;
        }
    }
    return code;
}

static void test_gather_in_group_order(void **state)
{
    struct meeting meeting;

    (void)state;
    meeting_make(&meeting, 4);
    meeting_run(&meeting, body_gather);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(meeting.replicas[i].code, POD_OK);
    meeting_end(&meeting);
}

// {0,2} and {1,3} at number 0, then {0,1} and {2,3} at number 1.
static enum pod_code body_groups(struct replica *self, struct pod_err *err)
{
    uint32_t parity = self->number % 2;
    uint32_t half = self->number / 2 * 2;
    uint32_t first[] = {parity, parity + 2};
    uint32_t second[] = {half, half + 1};
    enum pod_code code = gather(self, first, 2, 0, self->number, err);

    if (code == POD_OK && self->out[0] + self->out[1] != 2 * parity + 2)
        return POD_DATA_LOSS;
    if (code == POD_OK)
        code = gather(self, second, 2, 1, self->number, err);
    if (code == POD_OK && self->out[0] + self->out[1] != 2 * half + 1)
        return POD_DATA_LOSS;
    return code;
}

static void test_groups_do_not_mix(void **state)
{
    struct meeting meeting;

    (void)state;
    meeting_make(&meeting, 4);
    meeting_run(&meeting, body_groups);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(meeting.replicas[i].code, POD_OK);
    meeting_end(&meeting);
}

// ------------------------------------------------------------ disagreements

static enum pod_code body_bytes(struct replica *self, struct pod_err *err)
{
    static const uint32_t group[] = {0, 1};
    struct pod_exchange *exchange = pod_gang_exchange(self->gang);
    uint64_t part = 0;

    return exchange->all_gather(exchange, self->number, group, 2, 0, &part,
                                self->number == 0 ? 8 : 4, self->out,
                                &self->interrupt, err);
}

static enum pod_code body_other_groups(struct replica *self,
                                       struct pod_err *err)
{
    static const uint32_t pair[] = {0, 1};
    static const uint32_t alone[] = {1};

    if (self->number == 0)
        return gather(self, pair, 2, 0, 0, err);
    enum pod_code code = gather(self, alone, 1, 0, 0, err);
    return code == POD_OK ? gather(self, pair, 2, 1, 0, err) : code;
}

static enum pod_code body_order(struct replica *self, struct pod_err *err)
{
    uint32_t group[] = {self->number, 1 - self->number};

    return gather(self, group, 2, 0, 0, err);
}

static enum pod_code body_missing(struct replica *self, struct pod_err *err)
{
    static const uint32_t group[] = {0, 1};

    return self->number == 0 ? gather(self, group, 2, 0, 0, err) : POD_OK;
}

static enum pod_code body_not_in_group(struct replica *self,
                                       struct pod_err *err)
{
    static const uint32_t group[] = {0};

    return gather(self, group, 1, 0, 0, err);
}

static enum pod_code body_twice(struct replica *self, struct pod_err *err)
{
    static const uint32_t group[] = {0, 1, 1};

    return gather(self, group, 3, 0, 0, err);
}

static enum pod_code body_beyond(struct replica *self, struct pod_err *err)
{
    static const uint32_t group[] = {0, 1, 2};

    return gather(self, group, 3, 0, 0, err);
}

static enum pod_code body_repeats(struct replica *self, struct pod_err *err)
{
    uint32_t alone[] = {self->number};
    enum pod_code code = gather(self, alone, 1, 3, 0, err);

    return code == POD_OK ? gather(self, alone, 1, 3, 0, err) : code;
}

// Each ends for both replicas: one finds the fault, the other finds it too or
// hears of it (or had nothing to do with it and ended well).
static void test_disagreements_end(void **state)
{
    static const replica_body bodies[] = {
        body_bytes,        body_other_groups, body_order,  body_missing,
        body_not_in_group, body_twice,        body_beyond, body_repeats,
    };

    (void)state;
    // Many times, for who comes first decides who finds it.
    for (size_t i = 0; i < 40 * (sizeof bodies / sizeof bodies[0]); i++) {
        struct meeting meeting;
        meeting_make(&meeting, 2);
        meeting_run(&meeting, bodies[i % (sizeof bodies / sizeof bodies[0])]);
        int faults = 0;
        for (uint32_t j = 0; j < 2; j++) {
            const struct replica *replica = &meeting.replicas[j];
            bool told = replica->err.reason == POD_REASON_GANG_ABORTED;
            bool found = replica->err.reason == POD_REASON_PROGRAM_FAULT;
            faults += replica->code != POD_OK;
            assert_true(replica->code == POD_OK || told || found);
        }
        assert_true(faults >= 1);
        meeting_end(&meeting);
    }
}

// ------------------------------------------------------------------ aborts

static enum pod_code body_fail_third(struct replica *self, struct pod_err *err)
{
    static const uint32_t group[] = {0, 1, 2, 3};

    if (self->number == 2)
        return pod_err_set(err, POD_REASON_PROGRAM_FAULT, "boom");
    return gather(self, group, 4, 0, 0, err);
}

static void test_failure_names_replica_and_cause(void **state)
{
    struct meeting meeting;

    (void)state;
    meeting_make(&meeting, 4);
    meeting_run(&meeting, body_fail_third);
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 2)
            continue;
        assert_int_equal(meeting.replicas[i].code, POD_ABORTED);
        assert_string_equal(meeting.replicas[i].err.text,
                            "gang aborted by replica 2: boom");
    }
    meeting_end(&meeting);
}

// Replica 1 never comes; its absence ends by an interrupt of replica 0.
static void test_interrupt_wakes(void **state)
{
    struct meeting meeting;
    struct pod_err err;

    (void)state;
    meeting_make(&meeting, 2);
    meeting_start(&meeting, 0, body_nothing);
    atomic_store(&meeting.replicas[0].interrupt.asked, true);
    pod_gang_wake(meeting.gang);
    meeting_join(&meeting, 0);
    assert_int_equal(meeting.replicas[0].code, POD_CANCELLED);
    assert_int_equal(pod_gang_arrive(meeting.gang, 1, NULL, &err), POD_ABORTED);
    pod_gang_leave(meeting.gang, 1, &err);
    meeting_end(&meeting);
}

static enum pod_code body_wait_for_ever(struct replica *self,
                                        struct pod_err *err)
{
    static const uint32_t group[] = {0, 1};

    if (self->number == 0)
        return gather(self, group, 2, 0, 0, err);
    while (!atomic_load(&self->interrupt.asked))
        sched_yield();
    return pod_err_set(err, POD_REASON_CANCEL_REQUESTED, "interrupted");
}

static void test_interrupt_wakes_a_collective(void **state)
{
    struct meeting meeting;

    (void)state;
    meeting_make(&meeting, 2);
    meeting_start(&meeting, 0, body_wait_for_ever);
    meeting_start(&meeting, 1, body_wait_for_ever);
    atomic_store(&meeting.replicas[0].interrupt.asked, true);
    pod_gang_wake(meeting.gang);
    meeting_join(&meeting, 0);
    assert_int_equal(meeting.replicas[0].code, POD_CANCELLED);
    atomic_store(&meeting.replicas[1].interrupt.asked, true);
    pod_gang_wake(meeting.gang);
    meeting_join(&meeting, 1);
    assert_true(meeting.replicas[1].code != POD_OK);
    meeting_end(&meeting);
}

static void test_lost_host_aborts(void **state)
{
    struct meeting meeting;
    struct pod_gang *later;
    struct pod_err err;
    static const uint32_t hosts[] = {0, 1};

    (void)state;
    meeting_make(&meeting, 2);
    meeting_start(&meeting, 0, body_nothing);
    pod_gang_host_lost(meeting.hub, 1, "fire");
    meeting_join(&meeting, 0);
    assert_int_equal(meeting.replicas[0].code, POD_ABORTED);
    assert_string_equal(meeting.replicas[0].err.text,
                        "gang aborted by replica 1: host 1 was lost: fire");
    // One made while the host is away is aborted from the start.
    assert_int_equal(pod_gang_join(meeting.hub, 18, 2, hosts, &later, &err),
                     POD_OK);
    assert_int_equal(pod_gang_arrive(later, 0, NULL, &err), POD_ABORTED);
    pod_gang_leave(later, 0, &err);
    pod_gang_unref(later);
    pod_gang_host_present(meeting.hub, 1);
    assert_int_equal(pod_gang_join(meeting.hub, 19, 2, hosts, &later, &err),
                     POD_OK);
    // Its first failure is the one below, not the host.
    (void)pod_err_set(&err, POD_REASON_PROGRAM_FAULT, "boom");
    pod_gang_leave(later, 0, &err);
    assert_int_equal(pod_gang_arrive(later, 1, NULL, &err), POD_ABORTED);
    assert_string_equal(err.text, "gang aborted by replica 0: boom");
    pod_gang_leave(later, 1, &err);
    pod_gang_unref(later);
    meeting_end(&meeting);
}

// ------------------------------------------------------------ joins, limits

static void test_late_part_hears_of_the_abort(void **state)
{
    struct pod_gang_hub *hub = pod_gang_hub_new(2);
    static const uint32_t hosts[] = {0, 1};
    struct pod_gang *gang;
    struct pod_err err, why;

    (void)state;
    assert_int_equal(pod_gang_join(hub, 5, 2, hosts, &gang, &err), POD_OK);
    (void)pod_err_set(&why, POD_REASON_PROGRAM_FAULT, "boom");
    pod_gang_leave(gang, 0, &why);
    pod_gang_leave(gang, 0, NULL);
    pod_gang_unref(gang);
    assert_int_equal(pod_gang_join(hub, 5, 2, hosts, &gang, &err), POD_OK);
    assert_int_equal(pod_gang_arrive(gang, 1, NULL, &err), POD_ABORTED);
    assert_non_null(strstr(err.text, "boom"));
    pod_gang_leave(gang, 1, &err);
    pod_gang_unref(gang);
    pod_gang_hub_unref(hub);
}

static void test_remembers_a_limited_number(void **state)
{
    struct pod_gang_hub *hub = pod_gang_hub_new(2);
    static const uint32_t hosts[] = {0, 1};
    struct pod_gang *gang;
    struct pod_err err;
    long full = 0;

    (void)state;
    for (uint64_t op = 1; op <= POD_GANG_MAX_REMEMBERED + 5; op++) {
        assert_int_equal(pod_gang_join(hub, op, 2, hosts, &gang, &err), POD_OK);
        pod_gang_leave(gang, 0, NULL);
        pod_gang_unref(gang);
        if (op == POD_GANG_MAX_REMEMBERED)
            full = pod_mem_live();
    }
    assert_int_equal(pod_mem_live(), full);
    // The loss of the host that was awaited clears them all: the hub and its
    // map are left.
    pod_gang_host_lost(hub, 1, "gone");
    assert_int_equal(full - pod_mem_live(), POD_GANG_MAX_REMEMBERED);
    pod_gang_hub_unref(hub);
}

// What is remembered goes with the hub.
static void test_a_hub_forgets_at_its_end(void **state)
{
    static const uint32_t hosts[] = {0, 1};
    struct pod_gang *gang;
    struct pod_err err;

    (void)state;
    long before = pod_mem_live();
    struct pod_gang_hub *hub = pod_gang_hub_new(2);
    for (uint64_t op = 1; op <= 3; op++) {
        assert_int_equal(pod_gang_join(hub, op, 2, hosts, &gang, &err), POD_OK);
        pod_gang_leave(gang, 0, NULL);
        pod_gang_unref(gang);
    }
    pod_gang_hub_unref(hub);
    assert_int_equal(pod_mem_live(), before);
}

// A join without memory is refused, and leaves the hub as it was.
static void test_joins_without_memory(void **state)
{
    static const uint32_t hosts[] = {0, 1};
    enum pod_code code = POD_RESOURCE_EXHAUSTED;
    struct pod_gang_hub *hub = pod_gang_hub_new(2);
    struct pod_gang *gang = NULL;
    struct pod_err err;
    long places = 0;

    (void)state;
    while (code != POD_OK) {
        long before = pod_mem_live();
        pod_mem_fail_after(places, 1);
        code = pod_gang_join(hub, 1, 2, hosts, &gang, &err);
        pod_mem_fail_after(-1, 0);
        if (code == POD_OK)
            break;
        assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
        assert_true(pod_mem_live() <= before + 1); // the map may have grown
        places++;
    }
    assert_true(places > 0);
    pod_gang_leave(gang, 0, NULL);
    pod_gang_leave(gang, 1, NULL);
    pod_gang_unref(gang);
    pod_gang_hub_unref(hub);
}

static void test_bad_joins(void **state)
{
    struct pod_gang_hub *hub = pod_gang_hub_new(2);
    static const uint32_t hosts[] = {0, 1, 1}, other[] = {1, 0}, bad[] = {0, 2};
    struct pod_gang *gang, *second;
    struct pod_err err;

    (void)state;
    assert_int_equal(pod_gang_join(hub, 1, 0, hosts, &gang, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(
        pod_gang_join(hub, 1, POD_GANG_MAX_REPLICAS + 1, hosts, &gang, &err),
        POD_INVALID_ARGUMENT);
    assert_int_equal(pod_gang_join(hub, 1, 2, bad, &gang, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(pod_gang_join(hub, 1, 2, hosts, &gang, &err), POD_OK);
    assert_int_equal(pod_gang_join(hub, 1, 3, hosts, &second, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(pod_gang_join(hub, 1, 2, other, &second, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(pod_gang_arrive(gang, 2, NULL, &err),
                     POD_INVALID_ARGUMENT);
    pod_gang_leave(gang, 2, NULL);
    pod_gang_leave(gang, 0, NULL);
    pod_gang_leave(gang, 1, NULL);
    pod_gang_unref(gang);
    pod_gang_hub_unref(hub);
}

// Whatever fails, nobody waits for ever and nothing is left.
static void test_abort_races(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct meeting meeting;
        meeting_make(&meeting, 4);
        for (uint32_t i = 0; i < 4; i++)
            meeting_start(&meeting, i, body_gather);
        if (round % 3 == 0) {
            pod_gang_host_lost(meeting.hub, 3, "fire");
        } else if (round % 3 == 1) {
            atomic_store(&meeting.replicas[1].interrupt.asked, true);
            pod_gang_wake(meeting.gang);
        }
        for (uint32_t i = 0; i < 4; i++)
            meeting_join(&meeting, i);
        for (uint32_t i = 0; i < 4; i++) {
            enum pod_code code = meeting.replicas[i].code;
            assert_true(code == POD_OK || code == POD_ABORTED ||
                        (code == POD_CANCELLED && round % 3 == 1));
            assert_true(code == POD_OK || round % 3 != 2);
        }
        meeting_end(&meeting);
    }
}

// ------------------------------------------------- gangs over several programs

static void tap_step(void *arg, uint64_t op, uint32_t replica)
{
    (void)arg;
    (void)op;
    (void)replica;
}

static void tap_left(void *arg, uint64_t op, uint32_t replica,
                     const struct pod_err *cause)
{
    (void)cause;
    tap_step(arg, op, replica);
}

// Host 0 is this program.
static void meeting_make_remote(struct meeting *meeting, uint32_t count)
{
    const struct pod_gang_tap tap = {.arrived = tap_step, .left = tap_left};

    meeting_make(meeting, count);
    pod_gang_hub_tap(meeting->hub, 0, &tap);
}

// Replicas 1 and 2 run elsewhere. Of the two threads there that of 2 is faster:
// it has seen 1 arrive, and ends, before 1 has told so.
static void test_end_overtakes_arrival(void **state)
{
    struct meeting meeting;

    (void)state;
    meeting_make_remote(&meeting, 3);
    pod_gang_arrive_elsewhere(meeting.gang, 2);
    pod_gang_leave(meeting.gang, 2, NULL);
    pod_gang_arrive_elsewhere(meeting.gang, 1);
    meeting_start(&meeting, 0, body_nothing);
    meeting_join(&meeting, 0);
    pod_gang_leave(meeting.gang, 1, NULL);
    assert_int_equal(meeting.replicas[0].code, POD_OK);
    meeting_end(&meeting);
}

static void test_end_without_arrival(void **state)
{
    struct meeting meeting;

    (void)state;
    meeting_make_remote(&meeting, 3);
    pod_gang_leave(meeting.gang, 2, NULL);
    pod_gang_arrive_elsewhere(meeting.gang, 1);
    meeting_start(&meeting, 0, body_nothing);
    meeting_join(&meeting, 0);
    pod_gang_leave(meeting.gang, 1, NULL);
    assert_int_equal(meeting.replicas[0].code, POD_ABORTED);
    assert_string_equal(meeting.replicas[0].err.text,
                        "gang aborted by replica 2: it ended before the others "
                        "had arrived");
    meeting_end(&meeting);
}

static int nothing_left(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrive_and_leave),
        cmocka_unit_test(test_gather_in_group_order),
        cmocka_unit_test(test_groups_do_not_mix),
        cmocka_unit_test(test_disagreements_end),
        cmocka_unit_test(test_failure_names_replica_and_cause),
        cmocka_unit_test(test_interrupt_wakes),
        cmocka_unit_test(test_interrupt_wakes_a_collective),
        cmocka_unit_test(test_lost_host_aborts),
        cmocka_unit_test(test_late_part_hears_of_the_abort),
        cmocka_unit_test(test_remembers_a_limited_number),
        cmocka_unit_test(test_a_hub_forgets_at_its_end),
        cmocka_unit_test(test_joins_without_memory),
        cmocka_unit_test(test_bad_joins),
        cmocka_unit_test(test_abort_races),
        cmocka_unit_test(test_end_overtakes_arrival),
        cmocka_unit_test(test_end_without_arrival),
    };

    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
