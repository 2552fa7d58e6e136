// SPDX-License-Identifier: Apache-2.0
// Lists: filters, and walks while things come and go. Run with POD_SEEDS=n for
// another number of random walks.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tests/lib/hand_pod.h"

static int check_no_leak(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

static const struct pod_event_filter any = {
    .host = POD_NO_ID,
    .core = POD_NO_ID,
    .since_wall_ns = INT64_MIN,
};

// The numbers of one page, as text: "5 4 3 | 3" (and where to go on).
static const char *page(struct hand_pod *hand,
                        const struct pod_event_filter *filter, uint64_t below,
                        size_t capacity)
{
    static char text[256];
    struct pod_event_view views[16];
    size_t count = 99;
    uint64_t next = 99;
    size_t length = 0;

    assert_true(capacity <= 16);
    assert_int_equal(pod_list_events(&hand->pod, filter, below, capacity, views,
                                     &count, &next, NULL),
                     POD_OK);
    assert_true(count <= capacity);
    for (size_t i = 0; i < count; i++) {
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%d ",
                                   (int)views[i].number);
        pod_event_view_fini(&views[i]);
    }
    (void)snprintf(text + length, sizeof(text) - length, "| %d", (int)next);
    return text;
}

static void test_pages(void **state)
{
    (void)state;
    struct hand_pod hand;

    hand_pod_init(&hand);
    assert_string_equal(page(&hand, &any, UINT64_MAX, 4), "| 0");
    for (int i = 0; i < 6; i++)
        (void)hand_op(&hand, POD_KIND_READ, POD_SCHED_SUCCEEDED);
    assert_string_equal(page(&hand, &any, UINT64_MAX, 4), "6 5 4 3 | 3");
    assert_string_equal(page(&hand, &any, 3, 4), "2 1 | 0");
    // A page that is just full at the end is the last one.
    assert_string_equal(page(&hand, &any, 3, 2), "2 1 | 0");
    assert_string_equal(page(&hand, &any, UINT64_MAX, 6), "6 5 4 3 2 1 | 0");
    assert_string_equal(page(&hand, &any, 1, 4), "| 0");
    assert_string_equal(page(&hand, &any, 3, 0), "| 3");
    hand_pod_fini(&hand);
}

// Ten operations that differ in what filters look at.
static void make_ten(struct hand_pod *hand, struct pod_label *labels,
                     struct pod_replica *replicas, struct pod_outcome *outcomes)
{
    for (int i = 1; i <= 10; i++) {
        hand->mono_ns = i * 100;
        struct pod_op *op =
            hand_op(hand, i % 2 == 0 ? POD_KIND_READ : POD_KIND_WRITE,
                    i <= 3 ? POD_SCHED_FAILED : POD_SCHED_SUCCEEDED);
        op->host = (uint32_t)i % 3;
        op->core = (uint32_t)i % 4;
        op->graph = i > 8 ? 8 : 0;
        if (i >= 5 && i <= 7) {
            op->labels = labels;
            op->label_count = (size_t)i - 5;
        }
    }
    struct pod_op *gang = pod_table_get(&hand->pod.table, 9);
    gang->host = gang->core = POD_NO_ID;
    gang->replicas = replicas;
    gang->replica_count = 2;
    struct pod_op *compile = pod_table_get(&hand->pod.table, 10);
    compile->host = compile->core = POD_NO_ID;
    compile->outcomes = outcomes;
    compile->outcome_count = 1;
}

static void test_filters(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_label labels[] = {{"team", "a"}, {"run", "7"}};
    struct pod_replica replicas[] = {{.host = 1, .core = 20},
                                     {.host = 3, .core = 21}};
    struct pod_outcome outcomes[] = {{.host = 3}};
    struct pod_event_filter filter;

    hand_pod_init(&hand);
    make_ten(&hand, labels, replicas, outcomes);

    filter = any;
    filter.states = 1U << POD_SCHED_FAILED | 1U << POD_SCHED_LOST;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "3 2 1 | 0");
    filter.kinds = 1U << POD_KIND_READ;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "2 | 0");
    filter = any;
    filter.host = 1;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "9 7 4 1 | 0");
    filter.host = 3;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "10 9 | 0");
    filter = any;
    filter.core = 0;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "8 4 | 0");
    filter.core = 21;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "9 | 0");
    filter = any;
    filter.graph = 8;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "10 9 | 0");
    filter = any;
    filter.since_number = 8;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 2), "10 9 | 9");
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 3), "10 9 8 | 0");
    filter = any;
    filter.since_wall_ns = 1000700; // the wall clock of hand pods is ahead
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "10 9 8 7 | 0");
    filter = any;
    filter.labels = labels;
    filter.label_count = 1;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "7 6 | 0");
    filter.label_count = 2;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "7 | 0");
    struct pod_label other = {"team", "b"};
    filter.labels = &other;
    filter.label_count = 1;
    assert_string_equal(page(&hand, &filter, UINT64_MAX, 16), "| 0");
    hand_pod_fini(&hand);
}

static void test_handles_alone_are_listed(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_buffer buffers[3];
    struct pod_loaded load = {.core = 4};
    struct pod_buffer_view views[2];
    struct pod_load_view load_views[2];
    struct pod_program_view program_views[2];
    size_t count;
    uint64_t next;

    hand_pod_init(&hand);
    memset(buffers, 0, sizeof(buffers));
    for (size_t i = 0; i < 3; i++) {
        (void)hand_op(&hand, POD_KIND_FREE, POD_SCHED_SUCCEEDED);
        struct pod_op *op =
            hand_op(&hand, POD_KIND_ALLOCATE, POD_SCHED_SUCCEEDED);
        pod_list_init(&buffers[i].readers);
        buffers[i].handle.maker = op;
        op->buffer = &buffers[i];
    }
    load.handle.maker = hand_op(&hand, POD_KIND_LOAD, POD_SCHED_SUCCEEDED);
    load.handle.maker->load = &load;
    assert_int_equal(
        pod_list_buffers(&hand.pod, UINT64_MAX, 2, views, &count, &next, NULL),
        POD_OK);
    assert_int_equal(count, 2);
    assert_int_equal(views[0].number, 6);
    assert_int_equal(views[1].number, 4);
    assert_int_equal(next, 4);
    pod_buffer_view_fini(&views[0]);
    pod_buffer_view_fini(&views[1]);
    assert_int_equal(
        pod_list_buffers(&hand.pod, next, 2, views, &count, &next, NULL),
        POD_OK);
    assert_int_equal(count, 1);
    assert_int_equal(views[0].number, 2);
    assert_int_equal(next, 0);
    pod_buffer_view_fini(&views[0]);

    assert_int_equal(pod_list_loads(&hand.pod, UINT64_MAX, 2, load_views,
                                    &count, &next, NULL),
                     POD_OK);
    assert_int_equal(count, 1);
    assert_int_equal(load_views[0].core, 4);
    assert_int_equal(next, 0);
    assert_int_equal(pod_list_programs(&hand.pod, UINT64_MAX, 2, program_views,
                                       &count, &next, NULL),
                     POD_OK);
    assert_int_equal(count, 0);
    assert_int_equal(next, 0);
    for (uint64_t number = 1; number <= 7; number++) {
        pod_table_get(&hand.pod.table, number)->buffer = NULL;
        pod_table_get(&hand.pod.table, number)->load = NULL;
    }
    hand_pod_fini(&hand);
}

static void test_no_memory_gives_all_back(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_event_view views[4];
    size_t count = 99;
    uint64_t next = 99;

    hand_pod_init(&hand);
    for (int i = 0; i < 4; i++)
        (void)hand_op(&hand, POD_KIND_READ, POD_SCHED_SUCCEEDED);
    long live = pod_mem_live();
    for (long allowed = 0; allowed < 4; allowed++) {
        pod_mem_fail_after(allowed, 1);
        enum pod_code code = pod_list_events(&hand.pod, &any, UINT64_MAX, 4,
                                             views, &count, &next, NULL);
        pod_mem_fail_after(-1, 0);
        assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
        assert_int_equal(pod_mem_live(), live);
        assert_int_equal(count, 99);
        assert_int_equal(next, 99);
    }
    hand_pod_fini(&hand);
}

// One call looks at a bounded number of records, and a walk gets through.
static void test_rare_things_among_very_many(void **state)
{
    (void)state;
    enum { MANY = 300000 };
    struct hand_pod hand;
    struct pod_event_filter filter = any;
    struct pod_event_view views[4];
    size_t count;
    uint64_t next = UINT64_MAX;
    int calls = 0;
    size_t found = 0;

    hand_pod_init(&hand);
    for (int i = 0; i < MANY; i++)
        (void)hand_op(&hand, i == 0 ? POD_KIND_RESET : POD_KIND_READ,
                      POD_SCHED_SUCCEEDED);
    filter.kinds = 1U << POD_KIND_RESET;
    while (next != 0) {
        assert_int_equal(pod_list_events(&hand.pod, &filter, next, 4, views,
                                         &count, &next, NULL),
                         POD_OK);
        calls++;
        found += count;
        for (size_t i = 0; i < count; i++)
            pod_event_view_fini(&views[i]);
    }
    // 262,144 records a call, to the next hold's end at most.
    assert_int_equal(calls, 2);
    assert_int_equal(found, 1);
    hand_pod_fini(&hand);
}

// --------------------------------------------------------- random walks

static uint64_t random_next(uint64_t *seed)
{
    *seed =
        *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

enum { WALK_MAX = 2000 };

// What a walk must show once: all that was there at its start and still is at
// its end. What went may or may not be shown, what came must not twice.
struct walk_model {
    bool at_start[WALK_MAX];
    bool gone[WALK_MAX];
    int shown[WALK_MAX];
};

static void walk_disturb(struct hand_pod *hand, struct walk_model *model,
                         uint64_t *seed)
{
    for (uint64_t i = random_next(seed) % 6; i > 0; i--) {
        uint64_t last = hand->pod.last_number;
        if (random_next(seed) % 2 == 0 && last + 1 < WALK_MAX) {
            (void)hand_op(hand, POD_KIND_READ, POD_SCHED_SUCCEEDED);
            continue;
        }
        uint64_t number = 1 + random_next(seed) % last;
        struct pod_op *op = pod_table_get(&hand->pod.table, number);
        if (op == NULL)
            continue;
        model->gone[number] = true;
        hand_expire(hand, op);
    }
}

static void walk_once(uint64_t seed)
{
    static struct walk_model model;
    struct hand_pod hand;
    struct pod_event_view views[100];
    uint64_t next = UINT64_MAX;
    uint64_t before = UINT64_MAX;

    memset(&model, 0, sizeof(model));
    hand_pod_init(&hand);
    uint64_t start = 1 + random_next(&seed) % 1200;
    for (uint64_t i = 0; i < start; i++)
        (void)hand_op(&hand, POD_KIND_READ, POD_SCHED_SUCCEEDED);
    for (uint64_t i = 1; i <= start; i++) {
        if (random_next(&seed) % 4 == 0)
            hand_expire(&hand, pod_table_get(&hand.pod.table, i));
        else
            model.at_start[i] = true;
    }
    while (next != 0) {
        size_t count;
        size_t capacity = 1 + random_next(&seed) % 100;
        assert_int_equal(pod_list_events(&hand.pod, &any, next, capacity, views,
                                         &count, &next, NULL),
                         POD_OK);
        for (size_t i = 0; i < count; i++) {
            assert_true(views[i].number < before);
            before = views[i].number;
            model.shown[before]++;
            pod_event_view_fini(&views[i]);
        }
        walk_disturb(&hand, &model, &seed);
    }
    for (size_t i = 1; i < WALK_MAX; i++) {
        assert_true(model.shown[i] <= 1);
        if (model.at_start[i] && !model.gone[i])
            assert_int_equal(model.shown[i], 1);
    }
    hand_pod_fini(&hand);
}

static void test_walks_show_each_thing_once(void **state)
{
    (void)state;
    const char *text = getenv("POD_SEEDS");
    uint64_t seeds = text == NULL ? 300 : strtoull(text, NULL, 10);

    for (uint64_t seed = 1; seed <= seeds; seed++)
        walk_once(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_pages, check_no_leak),
        cmocka_unit_test_teardown(test_filters, check_no_leak),
        cmocka_unit_test_teardown(test_handles_alone_are_listed, check_no_leak),
        cmocka_unit_test_teardown(test_no_memory_gives_all_back, check_no_leak),
        cmocka_unit_test_teardown(test_rare_things_among_very_many,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_walks_show_each_thing_once,
                                  check_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
