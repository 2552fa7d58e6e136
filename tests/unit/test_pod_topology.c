// SPDX-License-Identifier: Apache-2.0
// How hosts that answer, fail and come back get their cores, and how that is
// shown.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tests/lib/hand_pod.h"

static int check_no_leak(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

enum { SAY_MAX = 4 };

// What a host says: `chips` in a row from x = `x`, one core on each.
struct say {
    struct pod_driver_core cores[SAY_MAX];
    struct pod_driver_chip chips[SAY_MAX];
    struct pod_driver_info info;
};

static struct pod_driver_info *say(struct say *out, uint32_t chips, int32_t x,
                                   int32_t slice_host, int32_t slice_hosts)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < chips; i++) {
        out->cores[i] = (struct pod_driver_core){
            .worker_core = i, .chip = i, .memory_bytes = 1000 + i};
        out->chips[i] = (struct pod_driver_chip){.x = x + (int32_t)i,
                                                 .host_id = slice_host};
    }
    out->info = (struct pod_driver_info){
        .platform = "reference",
        .version = "9",
        .accepts = 1,
        .features = POD_DRIVER_CANCEL,
        .host_id = slice_host,
        .host_count = slice_hosts,
        .cores = out->cores,
        .core_count = chips,
        .chips = out->chips,
        .chip_count = chips,
    };
    return &out->info;
}

static enum pod_code answer(struct hand_pod *hand, uint32_t host,
                            const struct pod_driver_info *said,
                            struct pod_err *err)
{
    struct pod_host_info *info = pod_host_info_new(said, NULL);

    assert_non_null(info);
    pod_mutex_lock(&hand->pod.lock);
    enum pod_code code =
        pod_topology_ready_locked(&hand->pod, &hand->hosts[host], info, err);
    pod_mutex_unlock(&hand->pod.lock);
    return code;
}

static void answer_ok(struct hand_pod *hand, uint32_t host, uint32_t chips)
{
    struct say room;

    assert_int_equal(answer(hand, host, say(&room, chips, 0, 0, 1), NULL),
                     POD_OK);
}

static void fail_host(struct hand_pod *hand, uint32_t host)
{
    pod_mutex_lock(&hand->pod.lock);
    pod_topology_failed_locked(&hand->pod, &hand->hosts[host]);
    pod_mutex_unlock(&hand->pod.lock);
}

static void fini(struct hand_pod *hand)
{
    pod_topology_fini(&hand->pod);
    hand_pod_fini(hand);
}

static void test_cores_number_in_order_of_hosts(void **state)
{
    (void)state;
    struct hand_pod hand;

    hand_pod_init(&hand);
    answer_ok(&hand, 1, 2);
    assert_false(hand.hosts[1].placed);
    answer_ok(&hand, 0, 3);
    // A host is placed as soon as nobody before it is missing.
    assert_true(hand.hosts[0].placed);
    assert_int_equal(hand.hosts[0].first_core, 0);
    assert_true(hand.hosts[1].placed);
    assert_int_equal(hand.hosts[1].first_core, 3);
    assert_int_equal(hand.hosts[1].core_count, 2);
    answer_ok(&hand, 3, 1);
    assert_false(hand.hosts[3].placed);
    answer_ok(&hand, 2, 0);
    assert_int_equal(hand.hosts[2].core_count, 0);
    assert_int_equal(hand.hosts[3].first_core, 5);
    assert_int_equal(hand.pod.core_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(hand.pod.cores[i]->id, i);
        assert_int_equal(hand.pod.cores[i]->lane, i);
        assert_int_equal(hand.pod.cores[i]->chip, i);
    }
    assert_int_equal(hand.pod.cores[4]->host, 1);
    assert_int_equal(hand.pod.cores[4]->worker_core, 1);
    assert_int_equal(hand.pod.cores[4]->memory_total, 1001);
    assert_int_equal(hand.hosts[3].features, POD_DRIVER_CANCEL);
    assert_int_equal(hand.hosts[3].accepts, 1);
    fini(&hand);
}

static void test_a_host_that_fails_holds_up_nobody(void **state)
{
    (void)state;
    struct hand_pod hand;

    hand_pod_init(&hand);
    answer_ok(&hand, 1, 2);
    fail_host(&hand, 0);
    assert_int_equal(hand.hosts[1].first_core, 0);
    assert_true(hand.hosts[1].placed);
    assert_false(hand.hosts[0].placed);
    answer_ok(&hand, 0, 2);
    assert_int_equal(hand.hosts[0].first_core, 2);
    assert_int_equal(hand.hosts[1].first_core, 0);
    fini(&hand);
}

static void test_a_host_that_comes_back(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct say room;
    struct pod_err err = POD_ERR_NONE;

    hand_pod_init(&hand);
    answer_ok(&hand, 0, 2);
    struct pod_driver_info *said = say(&room, 2, 0, 0, 1);
    room.cores[1].memory_bytes = 5;
    assert_int_equal(answer(&hand, 0, said, NULL), POD_OK);
    assert_int_equal(hand.pod.core_count, 2);
    assert_int_equal(hand.pod.cores[1]->memory_total, 5);
    // Another machine: refused, and what was known stays.
    assert_int_not_equal(answer(&hand, 0, say(&room, 3, 0, 0, 1), &err),
                         POD_OK);
    assert_int_equal(err.reason, POD_REASON_WORKER_ERROR);
    assert_int_equal(hand.hosts[0].core_count, 2);
    assert_int_equal(hand.pod.cores[1]->memory_total, 5);
    fini(&hand);
}

static void test_one_worker_under_two_names(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct say room;
    struct say other_room;
    struct pod_err err = POD_ERR_NONE;
    char address[] = "far:1";

    hand_pod_init(&hand);
    struct pod_driver_info *said = say(&room, 1, 0, 0, 1);
    struct pod_driver_info *other = say(&other_room, 1, 0, 0, 1);
    said->worker = 77;
    other->worker = 78;
    hand.hosts[1].address = address;
    assert_int_equal(answer(&hand, 1, said, NULL), POD_OK);
    hand.hosts[1].state = POD_HOST_CORDONED;
    // The host itself may say so again, another worker is another worker, and
    // two that name none are nothing in particular.
    assert_int_equal(answer(&hand, 1, said, NULL), POD_OK);
    assert_int_equal(answer(&hand, 0, other, NULL), POD_OK);
    hand.hosts[0].state = POD_HOST_READY;
    other->worker = 0;
    assert_int_equal(answer(&hand, 0, other, NULL), POD_OK);
    assert_int_not_equal(answer(&hand, 2, said, &err), POD_OK);
    assert_int_equal(err.reason, POD_REASON_WORKER_ERROR);
    assert_string_equal(
        err.text,
        "this worker already serves host 1, which has the address far:1");
    // A host that is lost does not keep its worker.
    hand.hosts[1].state = POD_HOST_LOST;
    assert_int_equal(answer(&hand, 2, said, NULL), POD_OK);
    hand.hosts[1].address = NULL;
    fini(&hand);
}

static void test_two_hosts_claim_one_place(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct say room;
    struct pod_err err = POD_ERR_NONE;

    hand_pod_init(&hand);
    assert_int_equal(answer(&hand, 0, say(&room, 2, 0, 1, HAND_HOSTS), NULL),
                     POD_OK);
    assert_int_not_equal(
        answer(&hand, 2, say(&room, 2, 0, 1, HAND_HOSTS), &err), POD_OK);
    assert_int_equal(err.reason, POD_REASON_WORKER_ERROR);
    assert_string_equal(
        err.text, "host says it is number 1 of its slice, and so does host 0");
    assert_null(hand.hosts[2].info);
    // It has answered, so it holds up nobody.
    answer_ok(&hand, 1, 1);
    answer_ok(&hand, 3, 1);
    assert_int_equal(hand.hosts[3].first_core, 3);
    // What it should have said.
    assert_int_equal(answer(&hand, 2, say(&room, 2, 0, 2, HAND_HOSTS), NULL),
                     POD_OK);
    assert_int_equal(hand.hosts[2].first_core, 4);
    fini(&hand);
}

// Hosts that are added find their slice by the place they claim in it: the
// first one where that is free, also because its host was removed.
static void test_hosts_that_join_make_slices(void **state)
{
    static const int32_t places[HAND_HOSTS] = {0, 0, 1, 1};

    (void)state;
    for (int removed = 0; removed < 2; removed++) {
        struct hand_pod hand;
        struct say room;
        hand_pod_init(&hand);
        hand.pod.first_hosts = 0;
        for (uint32_t i = 0; i < HAND_HOSTS; i++) {
            hand.hosts[2].removed = i == 3 && removed;
            assert_int_equal(
                answer(&hand, i, say(&room, 2, 0, places[i], 2), NULL), POD_OK);
        }
        hand.hosts[2].removed = false;
        const struct pod_slice_key first = hand.hosts[0].slice;
        const struct pod_slice_key second = hand.hosts[1].slice;
        assert_false(pod_slice_equal(first, second));
        assert_true(pod_slice_equal(hand.hosts[2].slice, first));
        assert_true(
            pod_slice_equal(hand.hosts[3].slice, removed ? first : second));
        fini(&hand);
    }
}

static void test_no_memory_places_nothing(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct say room;
    struct pod_err err = POD_ERR_NONE;
    long allowed = 0;

    hand_pod_init(&hand);
    for (;; allowed++) {
        struct pod_host_info *info =
            pod_host_info_new(say(&room, 3, 0, 0, 1), NULL);
        assert_non_null(info);
        pod_mutex_lock(&hand.pod.lock);
        pod_mem_fail_after(allowed, 1);
        enum pod_code code =
            pod_topology_ready_locked(&hand.pod, &hand.hosts[0], info, &err);
        pod_mem_fail_after(-1, 0);
        pod_mutex_unlock(&hand.pod.lock);
        if (code == POD_OK)
            break;
        assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
        assert_false(hand.hosts[0].placed);
        assert_int_equal(hand.pod.core_count, 0);
        assert_int_equal(hand.pod.chip_count, 0);
    }
    // Two tables, three cores, and what lanes take.
    assert_true(allowed >= 5);
    assert_int_equal(hand.pod.core_count, 3);
    fini(&hand);
}

static void test_view(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_topology_view view;
    char address[] = "h0:8470";

    hand_pod_init(&hand);
    hand.hosts[0].address = address;
    hand.hosts[0].state = POD_HOST_READY;
    hand.hosts[0].incarnation = 2;
    hand.hosts[0].heartbeat_wall_ns = 44;
    hand.hosts[0].open_operations = 5;
    hand.hosts[0].finished_operations = 6;
    hand.hosts[0].buffers = 7;
    hand.hosts[1].address = address;
    hand.hosts[1].state = POD_HOST_LOST;
    strcpy(hand.hosts[1].error, "connection refused");
    answer_ok(&hand, 0, 3);
    fail_host(&hand, 1);
    answer_ok(&hand, 2, 2);
    hand.pod.cores[1]->memory_used = 10;
    hand.pod.cores[1]->running[0] = 99;
    hand.pod.cores[1]->running_count = 1;

    assert_int_equal(pod_get_topology(&hand.pod, &view, NULL), POD_OK);
    assert_int_equal(view.host_count, HAND_HOSTS);
    const struct pod_host_view *host = &view.hosts[0];
    assert_int_equal(host->id, 0);
    assert_string_equal(host->address, "h0:8470");
    assert_int_equal(host->state, POD_HOST_READY);
    assert_int_equal(host->incarnation, 2);
    assert_int_equal(host->heartbeat_wall_ns, 44);
    assert_null(host->error);
    assert_string_equal(host->platform, "reference");
    assert_string_equal(host->version, "9");
    assert_int_equal(host->chip_count, 3);
    assert_int_equal(host->core_count, 3);
    assert_int_equal(host->open_operations, 5);
    assert_int_equal(host->finished_operations, 6);
    assert_int_equal(host->buffers, 7);
    assert_int_equal(view.hosts[1].state, POD_HOST_LOST);
    assert_string_equal(view.hosts[1].error, "connection refused");
    assert_null(view.hosts[1].platform);
    assert_int_equal(view.core_count, 5);
    assert_int_equal(view.cores[1].memory_total, 1001);
    assert_int_equal(view.cores[1].memory_used, 10);
    assert_int_equal(view.cores[1].running_count, 1);
    assert_int_equal(view.cores[1].running[0], 99);
    assert_int_equal(view.cores[1].queue_depth, 0);
    assert_int_equal(view.cores[3].host, 2);
    assert_int_equal(view.cores[3].chip, 3);
    assert_int_equal(view.chip_count, 5);
    assert_int_equal(view.chips[4].host, 2);
    // Host 0 stands at x 0..2, so host 2 does not stand at 0..1 but beside it.
    assert_int_equal(view.chips[2].x, 2);
    assert_int_equal(view.chips[3].x, 3);
    assert_int_equal(view.chips[4].x, 4);
    assert_int_equal(view.chips[4].first_core, 4);
    assert_int_equal(view.chips[4].core_count, 1);
    // Within each host that stands alone; not between them.
    assert_int_equal(view.link_count, 3);
    assert_int_equal(view.links[0].from, 0);
    assert_int_equal(view.links[0].to, 1);
    assert_int_equal(view.links[1].from, 1);
    assert_int_equal(view.links[2].from, 3);
    assert_int_equal(view.links[2].to, 4);
    pod_topology_view_fini(&view);
    pod_topology_view_fini(&view);
    fini(&hand);
}

static void test_links_between_hosts_of_a_slice(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct say room;
    struct pod_topology_view view;

    hand_pod_init(&hand);
    for (int32_t i = 0; i < HAND_HOSTS; i++)
        assert_int_equal(answer(&hand, (uint32_t)i,
                                say(&room, 2, 2 * i, i, HAND_HOSTS), NULL),
                         POD_OK);
    assert_int_equal(pod_get_topology(&hand.pod, &view, NULL), POD_OK);
    // Eight chips in a row.
    assert_int_equal(view.link_count, 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(view.links[i].from, i);
        assert_int_equal(view.links[i].to, i + 1);
    }
    pod_topology_view_fini(&view);
    fini(&hand);
}

static void test_large_view_and_no_memory(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_topology_view view;
    struct pod_err err = POD_ERR_NONE;

    hand_pod_init(&hand);
    // More text than the first block holds.
    char *address = pod_malloc(5000);
    assert_non_null(address);
    memset(address, 'h', 4999);
    address[4999] = '\0';
    hand.hosts[1].address = address;
    for (long allowed = 0; allowed < 2; allowed++) {
        long live = pod_mem_live();
        pod_mem_fail_after(allowed, 1);
        enum pod_code code = pod_get_topology(&hand.pod, &view, &err);
        pod_mem_fail_after(-1, 0);
        assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
        assert_int_equal(pod_mem_live(), live);
    }
    assert_int_equal(pod_get_topology(&hand.pod, &view, NULL), POD_OK);
    assert_string_equal(view.hosts[1].address, address);
    assert_int_equal(view.link_count, 0);
    pod_topology_view_fini(&view);
    pod_free(address);
    fini(&hand);
}

static int reconnects;

static void count_reconnect(struct pod_driver *driver)
{
    (void)driver;
    reconnects++;
}

static void test_cordon_and_reconnect(void **state)
{
    (void)state;
    static const struct pod_driver_ops ops = {.reconnect = count_reconnect};
    struct pod_driver driver = {.ops = &ops};
    struct hand_pod hand;
    struct pod_err err = POD_ERR_NONE;

    hand_pod_init(&hand);
    struct pod_host *host = &hand.hosts[1];
    host->driver = &driver;
    host->state = POD_HOST_READY;
    assert_int_equal(pod_cordon(&hand.pod, 1, true, NULL), POD_OK);
    assert_int_equal(host->state, POD_HOST_CORDONED);
    assert_int_equal(pod_cordon(&hand.pod, 1, true, NULL), POD_OK);
    assert_int_equal(pod_cordon(&hand.pod, 1, false, NULL), POD_OK);
    assert_int_equal(host->state, POD_HOST_READY);
    // It is remembered while the host is away.
    host->state = POD_HOST_LOST;
    assert_int_equal(pod_cordon(&hand.pod, 1, true, NULL), POD_OK);
    assert_int_equal(host->state, POD_HOST_LOST);
    assert_true(host->cordoned);
    assert_int_equal(pod_cordon(&hand.pod, HAND_HOSTS, true, &err),
                     POD_NOT_FOUND);
    assert_string_equal(err.text, "there is no host 4: the pod has 4");

    assert_int_equal(pod_reconnect(&hand.pod, 1, NULL), POD_OK);
    assert_int_equal(reconnects, 1);
    assert_int_equal(pod_reconnect(&hand.pod, HAND_HOSTS, &err), POD_NOT_FOUND);
    hand.pod.phase = POD_PHASE_NEW; // its driver is not open
    assert_int_equal(pod_reconnect(&hand.pod, 1, NULL), POD_OK);
    assert_int_equal(reconnects, 1);
    fini(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_cores_number_in_order_of_hosts,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_a_host_that_fails_holds_up_nobody,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_a_host_that_comes_back, check_no_leak),
        cmocka_unit_test_teardown(test_one_worker_under_two_names,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_hosts_that_join_make_slices,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_two_hosts_claim_one_place,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_no_memory_places_nothing, check_no_leak),
        cmocka_unit_test_teardown(test_view, check_no_leak),
        cmocka_unit_test_teardown(test_links_between_hosts_of_a_slice,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_large_view_and_no_memory, check_no_leak),
        cmocka_unit_test_teardown(test_cordon_and_reconnect, check_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
