// SPDX-License-Identifier: Apache-2.0
// The drivers' priority queue against a search of all that is in it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/driver/queue.h"

enum { ITEMS = 64, STEPS = 20000 };

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 8) % below;
}

// The item that must come first, found by looking at each.
static struct pod_queue_item *first_of(struct pod_queue_item *items)
{
    struct pod_queue_item *best = NULL;

    for (size_t i = 0; i < ITEMS; i++) {
        struct pod_queue_item *item = &items[i];
        if (item->queue == NULL)
            continue;
        if (best == NULL || item->priority > best->priority ||
            (item->priority == best->priority && item->order < best->order))
            best = item;
    }
    return best;
}

static void test_random_steps(void **state)
{
    struct pod_queue_item items[ITEMS];
    struct pod_queue queue = {.root = NULL};
    int pops = 0;

    (void)state;
    memset(items, 0, sizeof items);
    for (uint64_t step = 0; step < STEPS; step++) {
        struct pod_queue_item *item = &items[draw(ITEMS)];
        uint32_t what = draw(4);
        if (what < 2 && item->queue == NULL) {
            item->priority = (int)draw(5) - 2;
            item->order = step;
            pod_queue_push(&queue, item);
            assert_ptr_equal(item->queue, &queue);
        } else if (what == 2) {
            pod_queue_remove(item);
            assert_null(item->queue);
        } else if (what == 3) {
            struct pod_queue_item *first = first_of(items);
            assert_ptr_equal(pod_queue_pop(&queue), first);
            pops += first != NULL;
        }
        assert_ptr_equal(queue.root, first_of(items));
    }
    assert_true(pops > STEPS / 8);
}

static void test_first_come_first_served(void **state)
{
    struct pod_queue_item items[ITEMS];
    struct pod_queue queue = {.root = NULL};

    (void)state;
    memset(items, 0, sizeof items);
    for (size_t i = 0; i < ITEMS; i++) {
        items[i].order = i;
        pod_queue_push(&queue, &items[i]);
    }
    for (size_t i = 0; i < ITEMS; i++)
        assert_ptr_equal(pod_queue_pop(&queue), &items[i]);
    assert_null(pod_queue_pop(&queue));
    pod_queue_remove(&items[0]);
    assert_null(queue.root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_steps),
        cmocka_unit_test(test_first_come_first_served),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
