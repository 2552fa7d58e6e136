// SPDX-License-Identifier: Apache-2.0
// What hosts say about themselves: what is kept, refused, and linked.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/pod/host_info.h"

static int check_no_leak(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

// Two hosts of a slice of four chips; what host 1 says.
static const struct pod_driver_chip slice_chips[] = {
    {.x = 0, .host_id = 0},
    {.x = 1, .host_id = 1},
    {.x = 2, .host_id = 0},
    {.x = 3, .host_id = 1},
};
static const struct pod_driver_core slice_cores[] = {
    {.worker_core = 2, .chip = 1, .memory_bytes = 100},
    {.worker_core = 3, .chip = 1, .memory_bytes = 100},
    {.worker_core = 6, .chip = 3, .memory_bytes = 200},
};
static const struct pod_driver_info slice_info = {
    .platform = "reference",
    .version = "1",
    .accepts = 3,
    .features = POD_DRIVER_CANCEL,
    .host_id = 1,
    .host_count = 2,
    .cores = slice_cores,
    .core_count = 3,
    .chips = slice_chips,
    .chip_count = 4,
};

static struct pod_host_info *copy(const struct pod_driver_info *from)
{
    struct pod_host_info *info = pod_host_info_new(from, NULL);

    assert_non_null(info);
    return info;
}

static void test_keeps_own_chips_alone(void **state)
{
    (void)state;
    struct pod_host_info *info = copy(&slice_info);

    assert_string_equal(info->platform, "reference");
    assert_string_equal(info->version, "1");
    assert_int_equal(info->accepts, 3);
    assert_int_equal(info->features, POD_DRIVER_CANCEL);
    assert_int_equal(info->slice_host, 1);
    assert_int_equal(info->slice_hosts, 2);
    assert_int_equal(info->chip_count, 2);
    assert_int_equal(info->chips[0].x, 1);
    assert_int_equal(info->chips[1].x, 3);
    assert_int_equal(info->core_count, 3);
    assert_int_equal(info->cores[0].chip, 0);
    assert_int_equal(info->cores[1].chip, 0);
    assert_int_equal(info->cores[2].chip, 1);
    assert_int_equal(info->cores[2].worker_core, 6);
    assert_int_equal(info->cores[2].memory_bytes, 200);
    pod_host_info_free(info);
}

static void test_cores_stand_by_chip(void **state)
{
    (void)state;
    static const struct pod_driver_core cores[] = {
        {.worker_core = 0, .chip = 1},
        {.worker_core = 1, .chip = 0},
        {.worker_core = 2, .chip = 1},
        {.worker_core = 3, .chip = 0},
    };
    static const uint32_t expected[] = {1, 3, 0, 2};
    struct pod_driver_info from = slice_info;
    from.host_count = 1;
    from.cores = cores;
    from.core_count = 4;
    struct pod_host_info *info = copy(&from);

    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(info->cores[i].worker_core, expected[i]);
        assert_int_equal(info->cores[i].chip, i / 2);
    }
    pod_host_info_free(info);
}

static void test_alone_owns_all_chips(void **state)
{
    (void)state;
    struct pod_driver_info from = slice_info;
    from.host_id = 7; // means nothing for a host that stands alone
    from.host_count = 1;
    struct pod_host_info *info = copy(&from);

    assert_int_equal(info->chip_count, 4);
    assert_int_equal(info->slice_host, 0);
    assert_int_equal(info->slice_hosts, 1);
    assert_int_equal(info->cores[2].chip, 3);
    pod_host_info_free(info);
}

static void test_text_is_clipped_and_printable(void **state)
{
    (void)state;
    char longer[POD_HOST_TEXT_BYTES + 10];
    struct pod_driver_info from = slice_info;

    memset(longer, 'v', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    from.platform = "a\xff\nb";
    from.version = longer;
    struct pod_host_info *info = copy(&from);
    assert_string_equal(info->platform, "a??b");
    assert_int_equal(strlen(info->version), POD_HOST_TEXT_BYTES);
    pod_host_info_free(info);

    from.platform = NULL;
    from.version = "\xc3\xa9";
    info = copy(&from);
    assert_string_equal(info->platform, "");
    assert_string_equal(info->version, "\xc3\xa9");
    pod_host_info_free(info);
}

static void refuse(const struct pod_driver_info *from, const char *text)
{
    struct pod_err err = POD_ERR_NONE;

    assert_null(pod_host_info_new(from, &err));
    assert_int_equal(err.reason, POD_REASON_WORKER_ERROR);
    assert_string_equal(err.text, text);
}

static void test_refuses_what_cannot_be(void **state)
{
    (void)state;
    struct pod_driver_info from = slice_info;
    struct pod_driver_core cores[3];

    from.core_count = POD_HOST_MAX_CORES + 1;
    refuse(&from, "host has 4097 cores, at most 4096 are possible");
    from = slice_info;
    from.chip_count = POD_HOST_MAX_CHIPS + 1;
    refuse(&from, "host lists 65537 chips, at most 65536 are possible");
    from = slice_info;
    from.host_id = 2;
    refuse(&from, "host says it is number 2 of a slice of 2 hosts");
    from.host_id = -1;
    refuse(&from, "host says it is number -1 of a slice of 2 hosts");

    from = slice_info;
    from.cores = cores;
    memcpy(cores, slice_cores, sizeof(cores));
    cores[2].chip = 4;
    refuse(&from, "core 6 is on chip 4, host lists 4 chips");
    cores[2].chip = 2;
    refuse(&from, "core 6 of host 1 is on a chip of host 0 of the slice");
    cores[2].chip = 3;
    cores[1].worker_core = 2;
    refuse(&from, "host lists core 2 after core 2");
}

static void test_survives_no_memory(void **state)
{
    (void)state;
    struct pod_err err = POD_ERR_NONE;

    for (long allowed = 0; allowed < 2; allowed++) {
        pod_mem_fail_after(allowed, 1);
        struct pod_host_info *info = pod_host_info_new(&slice_info, &err);
        pod_mem_fail_after(-1, 0);
        assert_null(info);
        assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
    }
}

static void test_a_host_that_came_back_is_compared(void **state)
{
    (void)state;
    struct pod_driver_info from = slice_info;
    struct pod_driver_core cores[3];
    struct pod_err err = POD_ERR_NONE;

    memcpy(cores, slice_cores, sizeof(cores));
    from.cores = cores;
    cores[0].memory_bytes = 5; // may change
    struct pod_host_info *before = copy(&slice_info);
    struct pod_host_info *now = copy(&from);
    assert_int_equal(pod_host_info_same(before, now, &err), POD_OK);
    pod_host_info_free(now);

    from.core_count = 2;
    now = copy(&from);
    assert_int_not_equal(pod_host_info_same(before, now, &err), POD_OK);
    assert_string_equal(err.text, "host came back with 2 cores, it had 3");
    pod_host_info_free(now);

    from.core_count = 3;
    from.host_count = 1;
    now = copy(&from);
    assert_int_not_equal(pod_host_info_same(before, now, &err), POD_OK);
    assert_string_equal(err.text, "host came back with 4 chips, it had 2");
    pod_host_info_free(now);

    from.host_count = 2;
    cores[2].worker_core = 7;
    now = copy(&from);
    assert_int_not_equal(pod_host_info_same(before, now, &err), POD_OK);
    assert_string_equal(err.text,
                        "host came back with core 7 on its chip 1 where core "
                        "6 was on its chip 1");
    pod_host_info_free(now);
    pod_host_info_free(before);
}

static void test_slices(void **state)
{
    (void)state;
    struct pod_host_info alone = {.slice_hosts = 1};
    struct pod_host_info first = {.slice_host = 0, .slice_hosts = 2};
    struct pod_host_info second = {.slice_host = 1, .slice_hosts = 2};

    // Hosts that stand alone share with nobody.
    assert_false(pod_slice_equal(pod_slice_key(&alone, 0, 2),
                                 pod_slice_key(&alone, 1, 2)));
    // Two slices of two, one after the other.
    assert_true(pod_slice_equal(pod_slice_key(&first, 0, 4),
                                pod_slice_key(&second, 1, 4)));
    assert_true(pod_slice_equal(pod_slice_key(&first, 2, 4),
                                pod_slice_key(&second, 3, 4)));
    assert_false(pod_slice_equal(pod_slice_key(&second, 1, 4),
                                 pod_slice_key(&first, 2, 4)));
    // The whole pod is one slice, listed in another order.
    assert_true(pod_slice_equal(pod_slice_key(&second, 0, 2),
                                pod_slice_key(&first, 1, 2)));
    assert_false(pod_slice_equal(pod_slice_key(&alone, 0, 2),
                                 pod_slice_key(&first, 0, 2)));
}

static void test_links_of_a_box(void **state)
{
    (void)state;
    struct pod_site sites[12];
    struct pod_link_view links[36];
    uint32_t id = 0;

    // 3 x 2 x 2, numbered with x fastest.
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 3; x++, id++)
                sites[id] = (struct pod_site){
                    .slice = {2, 0}, .x = x, .y = y, .z = z, .id = id};
    // 2*2*2 along x, 3*1*2 along y, 3*2*1 along z.
    assert_int_equal(pod_sites_link(sites, 12, links), 8 + 6 + 6);
    const uint32_t first[][2] = {{0, 1}, {0, 3}, {0, 6}, {1, 2}, {1, 4}};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(links[i].from, first[i][0]);
        assert_int_equal(links[i].to, first[i][1]);
    }
    assert_int_equal(links[19].from, 10);
    assert_int_equal(links[19].to, 11);
}

static void test_links_stay_in_a_slice(void **state)
{
    (void)state;
    struct pod_link_view links[12];
    struct pod_site sites[] = {
        {.slice = {1, 0}, .x = 0, .id = 0},
        {.slice = {1, 0}, .x = 1, .id = 1},
        {.slice = {1, 1}, .x = 0, .id = 2},
        {.slice = {1, 1}, .x = 2, .id = 3},
    };

    assert_int_equal(pod_sites_link(sites, 0, links), 0);
    assert_int_equal(pod_sites_link(sites, 4, links), 1);
    assert_int_equal(links[0].from, 0);
    assert_int_equal(links[0].to, 1);
}

static void test_links_of_odd_places(void **state)
{
    (void)state;
    struct pod_link_view links[12];
    // The end of the numbers has no neighbour at their start; of two that
    // claim one place the first is linked, its id being above its neighbour's.
    struct pod_site sites[] = {
        {.slice = {1, 0}, .x = INT32_MAX, .id = 0},
        {.slice = {1, 0}, .x = INT32_MIN, .id = 1},
        {.slice = {1, 0}, .x = 4, .id = 3},
        {.slice = {1, 0}, .x = 4, .id = 5},
        {.slice = {1, 0}, .x = 5, .id = 2},
    };

    assert_int_equal(pod_sites_link(sites, 5, links), 1);
    assert_int_equal(links[0].from, 2);
    assert_int_equal(links[0].to, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_keeps_own_chips_alone, check_no_leak),
        cmocka_unit_test_teardown(test_cores_stand_by_chip, check_no_leak),
        cmocka_unit_test_teardown(test_alone_owns_all_chips, check_no_leak),
        cmocka_unit_test_teardown(test_text_is_clipped_and_printable,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_refuses_what_cannot_be, check_no_leak),
        cmocka_unit_test_teardown(test_survives_no_memory, check_no_leak),
        cmocka_unit_test_teardown(test_a_host_that_came_back_is_compared,
                                  check_no_leak),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_links_of_a_box),
        cmocka_unit_test(test_links_stay_in_a_slice),
        cmocka_unit_test(test_links_of_odd_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
