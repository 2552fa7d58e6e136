// SPDX-License-Identifier: Apache-2.0
// The scheduler without memory: a SUBMIT that fails changes nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/sched/internal.h"
#include "core/sched/sched.h"

enum {
    LANES = 3,
    QUEUE_FIRST_CAPACITY = 64,
    DEADLINES_FIRST_CAPACITY = 16,
    EFFECTS_FIRST_CAPACITY = 16,
    DEADLINE = 50,
};

static const uint32_t all_lanes[LANES] = {0, 1, 2};

// A scheduler with lanes of window 1 and one operation launched in the first.
struct fixture {
    struct pod_sched *sched;
    struct pod_sched_node *first;
};

static struct pod_sched *new_with_lanes(void)
{
    struct pod_sched *sched = pod_sched_new();

    assert_non_null(sched);
    for (uint32_t i = 0; i < LANES; i++)
        assert_int_equal(pod_sched_add_lane(sched, 1), i);
    return sched;
}

static void submit_first(struct fixture *fixture)
{
    struct pod_sched_event event = {
        .kind = POD_SCHED_SUBMIT,
        .deadline_ns = POD_NEVER,
        .lanes = all_lanes,
        .lane_count = 1,
    };

    assert_int_equal(
        pod_sched_step(fixture->sched, &event, &fixture->first, NULL), POD_OK);
}

static void fixture_init(struct fixture *fixture)
{
    fixture->sched = new_with_lanes();
    submit_first(fixture);
}

static uint32_t dependents(const struct pod_sched *sched,
                           const struct pod_sched_node *node)
{
    const void *cursor = NULL;
    uint32_t count = 0;
    void *user;
    bool carries;

    while (pod_sched_next_dependent(sched, node, &cursor, &user, &carries))
        count++;
    return count;
}

// Nothing but the first operation is to be seen.
static void check_untouched(const struct fixture *fixture)
{
    const struct pod_sched *sched = fixture->sched;

    assert_int_equal(pod_sched_effects(sched)->count, 0);
    assert_int_equal(sched->submitted, 1);
    assert_int_equal(sched->nodes.spare, sched->nodes.per_chunk - 1);
    assert_int_equal(sched->deadlines.count, 0);
    assert_int_equal(pod_sched_next_deadline(sched), POD_NEVER);
    assert_int_equal(dependents(fixture->sched, fixture->first), 0);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(pod_sched_lane_depth(sched, i), i == 0);
        assert_int_equal(sched->lanes.items[i].queue.waiting, 0);
    }
}

// A gang with a deadline and three edges to the first operation, so that
// edges, places, a heap for each lane and the heap of deadlines are needed.
static enum pod_code submit_gang(struct fixture *fixture,
                                 struct pod_sched_node **out_node,
                                 struct pod_err *err)
{
    struct pod_sched_dep deps[3];
    struct pod_sched_event event = {
        .kind = POD_SCHED_SUBMIT,
        .deps = deps,
        .dep_count = 3,
        .deadline_ns = DEADLINE,
        .lanes = all_lanes,
        .lane_count = LANES,
    };

    for (size_t i = 0; i < event.dep_count; i++)
        deps[i] = (struct pod_sched_dep){.node = fixture->first};
    return pod_sched_step(fixture->sched, &event, out_node, err);
}

// The gang waits for the first operation, then has its turn.
static void check_gang(struct fixture *fixture, struct pod_sched_node *gang)
{
    struct pod_sched_event done = {
        .kind = POD_SCHED_DONE,
        .node = fixture->first,
        .state = POD_SCHED_SUCCEEDED,
    };

    assert_int_equal(pod_sched_next_deadline(fixture->sched), DEADLINE);
    assert_int_equal(pod_sched_node_unmet(gang), 3);
    assert_int_equal(dependents(fixture->sched, fixture->first), 3);
    assert_false(pod_sched_node_launched(gang));
    assert_int_equal(pod_sched_step(fixture->sched, &done, NULL, NULL), POD_OK);
    assert_true(pod_sched_node_launched(gang));
    done.node = gang;
    assert_int_equal(pod_sched_step(fixture->sched, &done, NULL, NULL), POD_OK);
    assert_int_equal(pod_sched_pool_taken(&fixture->sched->nodes), 0);
}

// Each allocation that the submit makes fails once.
static void test_submit(void **state)
{
    // A chunk of edges and one of places, each with a table of chunks, and the
    // queues of the two lanes that had none yet.
    enum { ALLOCATIONS = 6 };
    long live = pod_mem_live();
    int failed = 0;
    enum pod_code code;

    (void)state;
    do {
        struct fixture fixture;
        struct pod_sched_node *gang = NULL;
        struct pod_err err = POD_ERR_NONE;
        fixture_init(&fixture);
        pod_mem_fail_after(failed, 1);
        code = submit_gang(&fixture, &gang, &err);
        pod_mem_fail_after(-1, 0);
        if (code != POD_OK) {
            failed++;
            assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
            assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
            assert_null(gang);
            check_untouched(&fixture);
            assert_int_equal(submit_gang(&fixture, &gang, NULL), POD_OK);
        }
        check_gang(&fixture, gang);
        pod_sched_free(fixture.sched);
    } while (code != POD_OK);
    assert_int_equal(failed, ALLOCATIONS);
    assert_int_equal(pod_mem_live(), live);
}

// Waits for nothing, has no lane and no deadline.
static const struct pod_sched_event plain = {
    .kind = POD_SCHED_SUBMIT,
    .deadline_ns = POD_NEVER,
};

// The first allocation of a step fails.
static void step_fails(struct pod_sched *sched,
                       const struct pod_sched_event *event)
{
    pod_mem_fail_after(0, 1);
    assert_int_equal(pod_sched_step(sched, event, NULL, NULL),
                     POD_RESOURCE_EXHAUSTED);
    pod_mem_fail_after(-1, 0);
}

static enum pod_code submit_to_lane(struct pod_sched *sched, void *user,
                                    int64_t deadline_ns)
{
    struct pod_sched_event event = {
        .kind = POD_SCHED_SUBMIT,
        .user = user,
        .deadline_ns = deadline_ns,
        .lanes = all_lanes,
        .lane_count = 1,
    };

    return pod_sched_step(sched, &event, NULL, NULL);
}

// A lane's queue must grow when it is full, and cannot: the lane goes on.
static void test_queue_growth(void **state)
{
    int users[QUEUE_FIRST_CAPACITY + 1];
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture);
    for (int i = 0; i < QUEUE_FIRST_CAPACITY; i++) {
        assert_int_equal(submit_to_lane(fixture.sched, &users[i], POD_NEVER),
                         POD_OK);
    }
    pod_mem_fail_after(0, 1);
    assert_int_equal(submit_to_lane(fixture.sched, NULL, POD_NEVER),
                     POD_RESOURCE_EXHAUSTED);
    pod_mem_fail_after(-1, 0);
    assert_int_equal(pod_sched_effects(fixture.sched)->count, 0);
    assert_int_equal(pod_sched_lane_depth(fixture.sched, 0),
                     QUEUE_FIRST_CAPACITY + 1);
    struct pod_sched_event done = {
        .kind = POD_SCHED_DONE,
        .node = fixture.first,
        .state = POD_SCHED_SUCCEEDED,
    };
    for (int i = 0; i < QUEUE_FIRST_CAPACITY; i++) {
        assert_int_equal(pod_sched_step(fixture.sched, &done, NULL, NULL),
                         POD_OK);
        const struct pod_sched_effects *effects =
            pod_sched_effects(fixture.sched);
        assert_int_equal(effects->count, 2);
        assert_true((effects->items[0].what & POD_SCHED_RELEASED) != 0);
        assert_int_equal(effects->items[1].what, POD_SCHED_LAUNCH);
        assert_ptr_equal(pod_sched_effect_user(&effects->items[1]), &users[i]);
        done.node = effects->items[1].node;
    }
    pod_sched_free(fixture.sched);
}

// The same for the heap of deadlines.
static void test_deadline_growth(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture);
    // Without lanes they are launched at once; their deadlines stay.
    for (int i = 0; i < DEADLINES_FIRST_CAPACITY; i++) {
        struct pod_sched_event event = {
            .kind = POD_SCHED_SUBMIT,
            .deadline_ns = DEADLINE + i,
        };
        assert_int_equal(pod_sched_step(fixture.sched, &event, NULL, NULL),
                         POD_OK);
    }
    pod_mem_fail_after(0, 1);
    assert_int_equal(submit_to_lane(fixture.sched, NULL, DEADLINE - 1),
                     POD_RESOURCE_EXHAUSTED);
    pod_mem_fail_after(-1, 0);
    assert_int_equal(pod_sched_next_deadline(fixture.sched), DEADLINE);
    assert_int_equal(submit_to_lane(fixture.sched, NULL, DEADLINE - 1), POD_OK);
    assert_int_equal(pod_sched_next_deadline(fixture.sched), DEADLINE - 1);
    pod_sched_free(fixture.sched);
}

// The same for the list of effects, in which a node that the lane launches may
// stand twice.
static void test_effects_growth(void **state)
{
    struct pod_sched_event event = plain;
    struct pod_sched *sched = pod_sched_new();

    (void)state;
    assert_non_null(sched);
    assert_int_equal(pod_sched_add_lane(sched, 1), 0);
    for (int i = 0; i < EFFECTS_FIRST_CAPACITY - 1; i++)
        assert_int_equal(pod_sched_step(sched, &event, NULL, NULL), POD_OK);
    step_fails(sched, &event);
    assert_int_equal(pod_sched_pool_taken(&sched->nodes),
                     EFFECTS_FIRST_CAPACITY - 1);
    assert_int_equal(pod_sched_step(sched, &event, NULL, NULL), POD_OK);
    pod_sched_free(sched);
}

static void test_new(void **state)
{
    struct pod_sched *sched;

    (void)state;
    pod_mem_fail_after(0, 1);
    sched = pod_sched_new();
    pod_mem_fail_after(-1, 0);
    assert_null(sched);
    pod_sched_free(NULL);
}

// A scheduler whose nodes have no chunk yet, and no lane.
static void test_first_submit(void **state)
{
    struct pod_sched_event event = plain;
    struct pod_sched *sched = pod_sched_new();

    (void)state;
    assert_non_null(sched);
    pod_mem_fail_after(0, 1);
    assert_int_equal(pod_sched_add_lane(sched, 1), UINT32_MAX);
    step_fails(sched, &event);
    assert_int_equal(pod_sched_add_lane(sched, 1), 0);
    assert_int_equal(pod_sched_step(sched, &event, NULL, NULL), POD_OK);
    // The count of edges is 32 bits wide; no list is read to find that out.
    event.dep_count = UINT32_MAX;
    assert_int_equal(pod_sched_step(sched, &event, NULL, NULL),
                     POD_RESOURCE_EXHAUSTED);
    pod_sched_free(sched);
}

// What nodes took is given back when there is none, and taken anew.
static void test_trim(void **state)
{
    struct fixture fixture = {.sched = new_with_lanes()};
    long least = pod_mem_live();

    (void)state;
    for (int round = 0; round < 2; round++) {
        struct pod_sched_node *gang = NULL;
        submit_first(&fixture);
        assert_int_equal(submit_gang(&fixture, &gang, NULL), POD_OK);
        size_t chunk = fixture.sched->nodes.per_chunk;
        assert_int_equal(
            pod_sched_reserve(fixture.sched, 2 * chunk, 0, NULL, 0, NULL),
            POD_OK);
        assert_int_equal(fixture.sched->nodes.chunk_count, 3);
        long most = pod_mem_live();
        assert_false(pod_sched_trim(fixture.sched));
        assert_int_equal(pod_mem_live(), most);
        check_gang(&fixture, gang);
        assert_true(pod_sched_trim(fixture.sched));
        assert_int_equal(pod_mem_live(), least);
        assert_int_equal(pod_sched_effects(fixture.sched)->count, 0);
        assert_int_equal(pod_sched_next_deadline(fixture.sched), POD_NEVER);
    }
    pod_sched_free(fixture.sched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submit),
        cmocka_unit_test(test_queue_growth),
        cmocka_unit_test(test_deadline_growth),
        cmocka_unit_test(test_effects_growth),
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_new),
        cmocka_unit_test(test_first_submit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
