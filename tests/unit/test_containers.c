// SPDX-License-Identifier: Apache-2.0
// core/base: maps, heaps, lists.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/heap.h"
#include "core/base/list.h"
#include "core/base/map.h"
#include "core/base/mem.h"

static uint64_t next_random(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *random >> 33;
}

// Random puts and removes beside a plain array.
static void test_map(void **state)
{
    enum { KEYS = 512, STEPS = 50000 };
    void *model[KEYS] = {NULL};
    struct pod_map map = {.slots = NULL};
    uint64_t random = 1;
    size_t count = 0;

    (void)state;
    assert_null(pod_map_get(&map, 1));
    assert_null(pod_map_remove(&map, 1));
    for (int step = 0; step < STEPS; step++) {
        size_t i = next_random(&random) % KEYS;
        // Neighbours, and keys that differ only in their upper half.
        uint64_t key = i % 2 == 0 ? i + 1 : (uint64_t)i << 40;
        if (next_random(&random) % 2 == 0) {
            void *value = &model[next_random(&random) % KEYS];
            assert_true(pod_map_put(&map, key, value));
            count += model[i] == NULL;
            model[i] = value;
        } else {
            assert_ptr_equal(pod_map_remove(&map, key), model[i]);
            count -= model[i] != NULL;
            model[i] = NULL;
        }
        assert_int_equal(map.count, count);
        assert_true(map.count <= map.capacity / 4 * 3);
        size_t other = next_random(&random) % KEYS;
        key = other % 2 == 0 ? other + 1 : (uint64_t)other << 40;
        assert_ptr_equal(pod_map_get(&map, key), model[other]);
    }
    pod_map_fini(&map);
    assert_int_equal(map.count, 0);
    pod_map_fini(NULL);
}

// An empty map keeps a little, but not what it took to be large.
static void test_map_that_was_large(void **state)
{
    enum { LITTLE = 1000, MANY = 100000 };
    struct pod_map map = {.slots = NULL};
    int value;

    (void)state;
    for (uint64_t key = 1; key <= LITTLE; key++)
        assert_true(pod_map_put(&map, key, &value));
    size_t little = map.capacity;
    for (uint64_t key = 1; key <= LITTLE; key++)
        assert_ptr_equal(pod_map_remove(&map, key), &value);
    assert_int_equal(map.capacity, little);
    for (uint64_t key = 1; key <= MANY; key++)
        assert_true(pod_map_put(&map, key, &value));
    for (uint64_t key = 1; key < MANY; key++)
        assert_ptr_equal(pod_map_remove(&map, key), &value);
    assert_true(map.capacity > MANY);
    assert_ptr_equal(pod_map_remove(&map, MANY), &value);
    assert_int_equal(map.capacity, 0);
    assert_null(pod_map_get(&map, MANY));
    assert_true(pod_map_put(&map, MANY, &value));
    assert_ptr_equal(pod_map_get(&map, MANY), &value);
    pod_map_fini(&map);
}

static void test_map_walk(void **state)
{
    struct pod_map map = {.slots = NULL};
    bool seen[101] = {false};
    size_t cursor = 0;
    size_t count = 0;
    uint64_t key;
    void *value;

    (void)state;
    assert_false(pod_map_next(&map, &cursor, &key, &value));
    for (uint64_t i = 1; i <= 100; i++)
        assert_true(pod_map_put(&map, i, &seen[i]));
    assert_null(pod_map_get(&map, 0));
    for (cursor = 0; pod_map_next(&map, &cursor, &key, &value); count++) {
        assert_ptr_equal(value, &seen[key]);
        assert_false(seen[key]);
        seen[key] = true;
    }
    assert_int_equal(count, 100);
    pod_map_fini(&map);
}

// A place is made for a key once, and kept through what comes later.
static void test_map_at(void **state)
{
    struct pod_map map = {.slots = NULL};
    int values[200];

    (void)state;
    pod_mem_fail_after(0, 1);
    assert_null(pod_map_at(&map, 1));
    pod_mem_fail_after(-1, 0);
    for (uint64_t i = 1; i < 200; i++) {
        void **place = pod_map_at(&map, i << 32);
        assert_non_null(place);
        assert_null(*place);
        assert_int_equal(map.count, i);
        *place = &values[i];
    }
    for (uint64_t i = 1; i < 200; i++) {
        assert_ptr_equal(*pod_map_at(&map, i << 32), &values[i]);
        assert_ptr_equal(pod_map_get(&map, i << 32), &values[i]);
    }
    assert_int_equal(map.count, 199);
    pod_map_fini(&map);
}

static void test_map_failure(void **state)
{
    struct pod_map map = {.slots = NULL};
    int value;

    (void)state;
    pod_mem_fail_after(0, 1);
    assert_false(pod_map_put(&map, 1, &value));
    pod_mem_fail_after(-1, 0);
    uint64_t last = 0;
    pod_mem_fail_after(1, 1);
    while (pod_map_put(&map, last + 1, &value))
        last++;
    pod_mem_fail_after(-1, 0);
    assert_true(last > 0);
    assert_int_equal(map.count, last);
    assert_null(pod_map_get(&map, last + 1));
    for (uint64_t key = 1; key <= last; key++)
        assert_ptr_equal(pod_map_get(&map, key), &value);
    // Replacing needs no memory, even when the map is full.
    pod_mem_fail_after(0, 1);
    assert_true(pod_map_put(&map, 1, &last));
    pod_mem_fail_after(-1, 0);
    assert_ptr_equal(pod_map_get(&map, 1), &last);
    pod_map_fini(&map);
}

struct heap_item {
    uint64_t key;
    uint64_t order;
    uint32_t slot;
};

static bool heap_item_before(const struct heap_item *a,
                             const struct heap_item *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

// Random pushes and removals beside a search of the least.
static void test_heap(void **state)
{
    enum { ITEMS = 200, STEPS = 20000 };
    struct heap_item items[ITEMS];
    struct pod_heap heap = {.entries = NULL};
    uint64_t random = 2;

    (void)state;
    assert_null(pod_heap_top(&heap));
    assert_true(pod_heap_reserve(&heap, ITEMS));
    for (size_t i = 0; i < ITEMS; i++)
        items[i].slot = POD_HEAP_NONE;
    for (int step = 0; step < STEPS; step++) {
        struct heap_item *item = &items[next_random(&random) % ITEMS];
        if (item->slot != POD_HEAP_NONE) {
            pod_heap_remove(&heap, &item->slot);
            assert_int_equal(item->slot, POD_HEAP_NONE);
        } else {
            item->key = next_random(&random) % 50;
            item->order = (uint64_t)step;
            pod_heap_push(&heap, (struct pod_heap_entry){item->key, item->order,
                                                         &item->slot});
        }
        const struct heap_item *least = NULL;
        for (size_t i = 0; i < ITEMS; i++) {
            const struct heap_item *each = &items[i];
            if (each->slot == POD_HEAP_NONE)
                continue;
            if (least == NULL || heap_item_before(each, least))
                least = each;
        }
        const struct pod_heap_entry *top = pod_heap_top(&heap);
        assert_ptr_equal(top != NULL ? top->slot : NULL,
                         least != NULL ? &least->slot : NULL);
    }
    pod_heap_fini(&heap);
    pod_heap_fini(NULL);
}

static void test_heap_limits(void **state)
{
    struct pod_heap heap = {.entries = NULL};

    (void)state;
    pod_mem_fail_after(0, 1);
    assert_false(pod_heap_reserve(&heap, 1));
    pod_mem_fail_after(-1, 0);
    assert_int_equal(heap.capacity, 0);
    assert_false(pod_heap_reserve(&heap, POD_HEAP_NONE));
    assert_true(pod_heap_reserve(&heap, 17));
    assert_true(heap.capacity >= 17);
    pod_heap_fini(&heap);
}

static void test_list(void **state)
{
    struct pod_list a;
    struct pod_list b;
    struct pod_list items[4];

    (void)state;
    pod_list_init(&a);
    pod_list_init(&b);
    assert_null(pod_list_pop_front(&a));
    pod_list_push_back(&a, &items[0]);
    pod_list_push_back(&a, &items[1]);
    pod_list_push_back(&b, &items[2]);
    pod_list_push_back(&b, &items[3]);
    pod_list_remove(&items[1]);
    pod_list_remove(&items[1]);
    pod_list_splice(&a, &b);
    assert_true(pod_list_empty(&b));
    pod_list_splice(&a, &b);
    assert_ptr_equal(pod_list_pop_front(&a), &items[0]);
    assert_ptr_equal(pod_list_pop_front(&a), &items[2]);
    assert_ptr_equal(pod_list_pop_front(&a), &items[3]);
    assert_null(pod_list_pop_front(&a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_walk),
        cmocka_unit_test(test_map_at),
        cmocka_unit_test(test_map_failure),
        cmocka_unit_test(test_heap),
        cmocka_unit_test(test_heap_limits),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_map_that_was_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
