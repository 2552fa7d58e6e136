// SPDX-License-Identifier: Apache-2.0
// Hosts that are added to a running pod, drained, and taken away.
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/feed_message.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/pod/changes.h"
#include "core/pod/internal.h"
#include "tests/lib/no_threads.h"
#include "tests/lib/pod_fixture.h"

static enum pod_code make_fake(void *arg, uint32_t host,
                               struct pod_driver **out_driver,
                               struct pod_err *err)
{
    struct fixture *fix = arg;

    (void)err;
    assert_true(host < FIXTURE_MAX_HOSTS);
    fix->host[host] = fake_driver_new(2, FIXTURE_MEMORY, 0);
    *out_driver = fix->host[host];
    return POD_OK;
}

static enum pod_code join(struct fixture *fix, const char *address,
                          uint32_t *out_id, struct pod_err *err)
{
    const struct pod_driver_maker maker = {.make = make_fake, .arg = fix};

    return pod_join_host(fix->pod, address, &maker, out_id, err);
}

static uint32_t must_join(struct fixture *fix, const char *address)
{
    struct pod_err err;
    uint32_t id = POD_NO_ID;

    assert_int_equal(join(fix, address, &id, &err), POD_OK);
    fix->host_count = id + 1;
    return id;
}

// Its driver is freed by a thread of its own: the test lets go of it.
static void must_remove(struct fixture *fix, uint32_t id, bool force)
{
    struct pod_err err;

    assert_int_equal(pod_remove_host(fix->pod, id, force, &err), POD_OK);
}

// Nothing is left of the pod.
static void tear_down(struct fixture *fix)
{
    fixture_fini(fix);
    assert_int_equal(pod_mem_live(), 0);
}

static enum pod_host_state state_of(struct fixture *fix, uint32_t id)
{
    struct pod_topology_view view;
    struct pod_err err;

    assert_int_equal(pod_get_topology(fix->pod, &view, &err), POD_OK);
    const struct pod_host_view *host = pod_topology_host(&view, id);
    assert_non_null(host);
    enum pod_host_state state = host->state;
    pod_topology_view_fini(&view);
    return state;
}

static void await_end(struct fixture *fix, uint64_t number)
{
    while (fixture_state(fix, number) <= POD_SCHED_RUNNING)
        sched_yield();
}

// A thread of its own ends a host that was removed; then nothing knows it.
static void await_forgotten(struct fixture *fix, uint32_t id)
{
    bool there = true;

    while (there) {
        sched_yield();
        pod_mutex_lock(&fix->pod->lock);
        there = fix->pod->hosts[id] != NULL;
        pod_mutex_unlock(&fix->pod->lock);
    }
}

static void test_a_host_is_added(void **unused)
{
    struct fixture fix;
    struct pod_topology_view view;
    struct pod_err err;

    (void)unused;
    fixture_init(&fix, 1);
    assert_int_equal(must_join(&fix, "far:1"), 1);
    assert_int_equal(state_of(&fix, 1), POD_HOST_CONNECTING);
    fake_ready(fix.host[1]);
    assert_int_equal(state_of(&fix, 1), POD_HOST_READY);
    assert_int_equal(pod_get_topology(fix.pod, &view, &err), POD_OK);
    assert_int_equal(view.host_count, 2);
    assert_int_equal(view.core_count, 4);
    assert_int_equal(view.cores[2].id, 2);
    assert_int_equal(view.cores[2].host, 1);
    assert_int_equal(view.ready.reason, POD_CONDITION_REASON_ALL_HOSTS_READY);
    pod_topology_view_fini(&view);
    uint64_t buffer = fixture_allocate(&fix, 3, 8);
    fake_run(fix.host[1]);
    assert_state(&fix, buffer, "SUCCEEDED");
    tear_down(&fix);
}

static void test_an_address_is_there_once(void **unused)
{
    struct fixture fix;
    struct pod_err err;
    uint32_t id;

    (void)unused;
    fixture_init(&fix, 1);
    must_join(&fix, "far:1");
    assert_int_equal(join(&fix, "far:1", &id, &err), POD_ALREADY_EXISTS);
    assert_int_equal(err.reason, POD_REASON_HOST_EXISTS);
    must_remove(&fix, 1, false);
    fix.host_count = 1;
    assert_int_equal(must_join(&fix, "far:1"), 2);
    pod_drain(fix.pod);
    assert_int_equal(join(&fix, "far:2", &id, &err), POD_UNAVAILABLE);
    assert_int_equal(err.reason, POD_REASON_DRAINING);
    tear_down(&fix);
}

static enum pod_code make_none(void *arg, uint32_t host,
                               struct pod_driver **out_driver,
                               struct pod_err *err)
{
    (void)arg;
    (void)host;
    (void)out_driver;
    return pod_err_set(err, POD_REASON_BAD_TEXT, "there is none");
}

static void test_what_cannot_be_made_takes_no_id(void **unused)
{
    const struct pod_driver_maker maker = {.make = make_none};
    struct fixture fix;
    struct pod_err err;
    uint32_t id;

    (void)unused;
    fixture_init(&fix, 1);
    assert_int_equal(pod_join_host(fix.pod, "x", &maker, &id, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(must_join(&fix, "x"), 1);
    tear_down(&fix);
}

// Nor does one for which there is no thread.
static void test_no_thread_for_a_host(void **unused)
{
    struct fixture fix;
    struct pod_err err;
    uint32_t id = 9;

    (void)unused;
    fixture_init(&fix, 1);
    no_threads_begin();
    enum pod_code code = join(&fix, "x", &id, &err);
    no_threads_end();
    assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
    assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
    assert_non_null(strstr(err.text, "no thread for the calls to host 1"));
    assert_int_equal(must_join(&fix, "x"), 1);
    tear_down(&fix);
}

static enum pod_code make_one(void *arg, uint32_t host,
                              struct pod_driver **out_driver,
                              struct pod_err *err)
{
    (void)host;
    (void)err;
    *out_driver = *(struct pod_driver **)arg =
        fake_driver_new(2, FIXTURE_MEMORY, 0);
    return POD_OK;
}

static enum pod_code make_plain(void *arg, uint32_t host,
                                struct pod_driver **out_driver,
                                struct pod_err *err)
{
    (void)arg;
    (void)host;
    (void)err;
    *out_driver = fake_driver_new(1, FIXTURE_MEMORY, 0);
    return POD_OK;
}

static void test_there_are_only_so_many(void **unused)
{
    const struct pod_driver_maker maker = {.make = make_plain};
    struct fixture fix;
    struct pod_err err;
    uint32_t id;

    (void)unused;
    fixture_init(&fix, 1);
    for (uint32_t i = 1; i < POD_MAX_HOSTS; i++)
        assert_int_equal(pod_join_host(fix.pod, NULL, &maker, &id, &err),
                         POD_OK);
    assert_int_equal(id, POD_MAX_HOSTS - 1);
    assert_int_equal(pod_join_host(fix.pod, NULL, &maker, &id, &err),
                     POD_RESOURCE_EXHAUSTED);
    assert_int_equal(err.reason, POD_REASON_TOO_MANY_HOSTS);
    assert_string_equal(err.limit, "hosts");
    assert_int_equal(err.used, POD_MAX_HOSTS);
    assert_int_equal(err.max, POD_MAX_HOSTS);
    assert_non_null(strstr(err.text, "1024"));
    // One that was removed makes room, and its id is not used again.
    must_remove(&fix, 7, false);
    assert_int_equal(pod_join_host(fix.pod, NULL, &maker, &id, &err), POD_OK);
    assert_int_equal(id, POD_MAX_HOSTS);
    tear_down(&fix);
}

static void test_a_host_in_use_stays(void **unused)
{
    struct fixture fix;
    struct pod_err err;

    (void)unused;
    fixture_init(&fix, 2);
    uint64_t buffer = fixture_allocate(&fix, 2, 8);
    assert_int_equal(pod_remove_host(fix.pod, 1, false, &err),
                     POD_FAILED_PRECONDITION);
    assert_int_equal(err.reason, POD_REASON_IN_USE);
    assert_non_null(strstr(err.text, "open operations: 1"));
    fake_run(fix.host[1]);
    assert_int_equal(pod_remove_host(fix.pod, 1, false, &err),
                     POD_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "live buffers: 1"));
    fixture_free(&fix, buffer);
    fake_run(fix.host[1]);
    must_remove(&fix, 1, false);
    tear_down(&fix);
}

static void test_ids_are_used_once(void **unused)
{
    struct fixture fix;
    struct pod_topology_view view;
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);
    struct pod_err err;

    (void)unused;
    fixture_init(&fix, 2);
    must_remove(&fix, 1, false);
    assert_int_equal(pod_cordon(fix.pod, 1, true, &err), POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    assert_int_equal(pod_remove_host(fix.pod, 1, true, &err), POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    assert_int_equal(pod_reconnect(fix.pod, 7, &err), POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_NOT_FOUND);
    assert_int_equal(must_join(&fix, "new"), 2);
    fake_ready(fix.host[2]);
    assert_int_equal(pod_get_topology(fix.pod, &view, &err), POD_OK);
    assert_int_equal(view.host_count, 2);
    assert_int_equal(view.hosts[1].id, 2);
    assert_int_equal(view.host_ids, 3);
    assert_int_equal(view.core_count, 4);
    assert_int_equal(view.cores[2].id, 4);
    assert_int_equal(view.chips[1].id, 2);
    assert_null(pod_topology_core(&view, 3));
    pod_topology_view_fini(&view);
    request.allocate.core = 3;
    request.allocate.bytes = 8;
    fixture_refused(&fix, &request, POD_REASON_UNKNOWN_CORE);
    must_remove(&fix, 0, false);
    must_remove(&fix, 2, false);
    assert_int_equal(pod_get_topology(fix.pod, &view, &err), POD_OK);
    assert_int_equal(view.host_count, 0);
    assert_int_equal(view.ready.reason, POD_CONDITION_REASON_NO_HOSTS);
    pod_topology_view_fini(&view);
    tear_down(&fix);
}

static void test_force_loses_what_is_there(void **unused)
{
    struct fixture fix;
    struct pod_buffer_view view;
    struct pod_err err;

    (void)unused;
    fixture_init(&fix, 2);
    uint64_t here = fixture_allocate(&fix, 0, 8);
    uint64_t there = fixture_allocate(&fix, 2, 8);
    fixture_run(&fix);
    uint64_t writing = fixture_write(&fix, there, 0, 8);
    uint64_t copying = fixture_copy(&fix, there, here);
    uint64_t placing = fixture_allocate(&fix, 3, 8);
    must_remove(&fix, 1, true);
    fix.host_count = 1;
    await_end(&fix, writing);
    await_end(&fix, placing);
    fixture_run(&fix);
    assert_state(&fix, writing, "LOST");
    assert_state(&fix, copying, "SKIPPED");
    assert_state(&fix, placing, "LOST");
    assert_int_equal(fixture_root(&fix, copying), there);
    assert_int_equal(pod_get_buffer(fix.pod, there, &view, &err), POD_OK);
    assert_int_equal(view.state, POD_HANDLE_LOST);
    pod_buffer_view_fini(&view);
    // Its own handle can still be freed, and its neighbours live.
    uint64_t freeing = fixture_free(&fix, there);
    assert_state(&fix, freeing, "SUCCEEDED");
    uint64_t again = fixture_write(&fix, here, 0, 8);
    fixture_run(&fix);
    assert_state(&fix, again, "SUCCEEDED");
    tear_down(&fix);
}

// The same content again is compiled nowhere: so many hosts have it, which are
// told in order.
static void assert_compiled_once(struct fixture *fix, uint32_t hosts)
{
    struct pod_program_view view;
    struct pod_err err;
    uint64_t same = fixture_compile(fix, "sha-256:1");

    fixture_run(fix);
    assert_int_equal(pod_get_program(fix->pod, same, &view, &err), POD_OK);
    assert_int_equal(view.host_count, hosts);
    for (uint32_t i = 0; i < hosts; i++) {
        assert_int_equal(view.hosts[i].host, i);
        assert_int_equal(fake_count(fix->host[i], FAKE_COMPILE), 1);
    }
    pod_program_view_fini(&view);
}

static void test_programs_are_compiled_where_they_are_loaded(void **unused)
{
    struct fixture fix;

    (void)unused;
    fixture_init(&fix, 1);
    uint64_t program = fixture_compile(&fix, "sha-256:1");
    fixture_run(&fix);
    assert_int_equal(fake_count(fix.host[0], FAKE_COMPILE), 1);
    must_join(&fix, "new");
    fake_ready(fix.host[1]);
    uint64_t load = fixture_load_on(&fix, program, 2);
    assert_int_equal(fake_count(fix.host[1], FAKE_COMPILE), 1);
    fixture_run(&fix);
    assert_state(&fix, load, "SUCCEEDED");
    assert_int_equal(fake_count(fix.host[1], FAKE_LOAD), 1);
    assert_int_equal(fake_count(fix.host[0], FAKE_COMPILE), 1);
    assert_compiled_once(&fix, 2);
    must_remove(&fix, 1, true);
    tear_down(&fix);
}

// Hosts that come later need a program in any order.
static void test_compiled_hosts_stay_in_order(void **unused)
{
    static const uint32_t cores[] = {4, 2, 4, 0};
    struct fixture fix;

    (void)unused;
    fixture_init(&fix, 1);
    uint64_t program = fixture_compile(&fix, "sha-256:1");
    for (int i = 1; i <= 2; i++) {
        must_join(&fix, i == 1 ? "one" : "two");
        fake_ready(fix.host[i]);
    }
    for (size_t i = 0; i < sizeof(cores) / sizeof(cores[0]); i++) {
        uint64_t load = fixture_load_on(&fix, program, cores[i]);
        fixture_run(&fix);
        assert_state(&fix, load, "SUCCEEDED");
    }
    assert_compiled_once(&fix, 3);
    for (uint32_t i = 0; i < 3; i++)
        must_remove(&fix, i, true);
    tear_down(&fix);
}

// A host that is forgotten leaves the others what they have, and room for the
// next.
static void test_compiled_hosts_are_forgotten(void **unused)
{
    struct fixture fix;

    (void)unused;
    fixture_init(&fix, 2);
    uint64_t program = fixture_compile(&fix, "sha-256:1");
    fixture_run(&fix);
    must_remove(&fix, 0, false);
    await_forgotten(&fix, 0);
    assert_int_equal(must_join(&fix, "new"), 2);
    fake_ready(fix.host[2]);
    uint64_t stays = fixture_load_on(&fix, program, 2);
    uint64_t comes = fixture_load_on(&fix, program, 4);
    for (uint32_t i = 1; i <= 2; i++)
        fake_run(fix.host[i]);
    assert_state(&fix, stays, "SUCCEEDED");
    assert_state(&fix, comes, "SUCCEEDED");
    for (uint32_t i = 1; i <= 2; i++) {
        assert_int_equal(fake_count(fix.host[i], FAKE_COMPILE), 1);
        must_remove(&fix, i, true);
    }
    tear_down(&fix);
}

static void test_a_drain_ends_with_the_last_operation(void **unused)
{
    struct fixture fix;
    struct pod_waiter waiter = {.owner = NULL};
    struct pod_waiter other = {.owner = NULL};
    struct pod_topology_view view;
    struct pod_list woken;
    struct pod_err err;

    (void)unused;
    fixture_init(&fix, 2);
    uint64_t buffer = fixture_allocate(&fix, 2, 8);
    assert_int_equal(pod_cordon(fix.pod, 1, true, &err), POD_OK);
    assert_true(pod_wait_drained(fix.pod, &waiter, 1));
    assert_int_equal(pod_get_topology(fix.pod, &view, &err), POD_OK);
    assert_int_equal(view.hosts[1].conditions[POD_CONDITION_DRAINED].reason,
                     POD_CONDITION_REASON_OPERATIONS_OPEN);
    pod_topology_view_fini(&view);
    pod_list_init(&woken);
    pod_take_woken(fix.pod, &woken);
    assert_true(pod_list_empty(&woken));
    fixture_run(&fix);
    assert_state(&fix, buffer, "SUCCEEDED");
    pod_take_woken(fix.pod, &woken);
    assert_ptr_equal(pod_list_pop_front(&woken), &waiter.link);
    assert_false(pod_wait_drained(fix.pod, &waiter, 1));
    assert_int_equal(pod_get_topology(fix.pod, &view, &err), POD_OK);
    assert_int_equal(view.hosts[1].conditions[POD_CONDITION_DRAINED].status,
                     POD_CONDITION_TRUE);
    pod_topology_view_fini(&view);
    // Who calls it off, and who takes the host away, ends the waiting, too.
    fixture_free(&fix, buffer);
    assert_true(pod_wait_drained(fix.pod, &waiter, 1));
    assert_int_equal(pod_cordon(fix.pod, 1, false, &err), POD_OK);
    pod_take_woken(fix.pod, &woken);
    assert_ptr_equal(pod_list_pop_front(&woken), &waiter.link);
    assert_true(pod_wait_drained(fix.pod, &other, 1));
    must_remove(&fix, 1, true);
    pod_take_woken(fix.pod, &woken);
    assert_ptr_equal(pod_list_pop_front(&woken), &other.link);
    tear_down(&fix);
}

// Whether a reader of the change is told now that the host was removed.
static bool tells_of_removal(struct fixture *fix, uint64_t sequence,
                             const struct pod_change *change)
{
    const struct api_cursor cursor = {.sequence = sequence};
    struct feed_message *message =
        feed_message_of_change(fix->pod, &cursor, change);

    assert_non_null(message);
    bool tells =
        !message->needless && strstr(message->text, "\"removed\":true") != NULL;
    feed_message_unref(message);
    return tells;
}

// A reader that knows of no later change encodes one after the host has gone.
static void test_one_change_tells_of_a_removal(void **unused)
{
    enum { CHANGES = 8 };
    struct fixture fix;
    struct pod_change items[CHANGES];
    struct pod_err err;
    size_t count = 0;
    size_t told = 0;

    (void)unused;
    fixture_init(&fix, 2);
    uint64_t start = pod_last_change(fix.pod, false);
    assert_int_equal(pod_cordon(fix.pod, 1, true, &err), POD_OK);
    assert_int_equal(pod_last_change(fix.pod, false), start + 1);
    must_remove(&fix, 1, false);
    assert_int_equal(
        pod_read_changes(fix.pod, start, CHANGES, items, &count, &err), POD_OK);
    assert_true(count >= 2);
    assert_int_equal(items[0].number, 1);
    for (size_t i = 0; i < count; i++)
        told += tells_of_removal(&fix, start + 1 + i, &items[i]);
    assert_int_equal(told, 1);
    assert_true(tells_of_removal(&fix, start + count, &items[count - 1]));
    tear_down(&fix);
}

// More hosts than one thread makes calls to: their own threads make the rest.
static void test_calls_to_many_hosts(void **unused)
{
    enum { HOSTS = 40 };
    static struct pod_driver *drivers[HOSTS];
    struct pod_request request = fixture_request(POD_KIND_RESET);
    struct fixture fix;
    struct pod_err err;

    (void)unused;
    fixture_init_options(&fix, 0, 1000, POD_NEVER, 0, 1 << 20);
    for (size_t i = 0; i < HOSTS; i++) {
        struct pod_driver_maker maker = {.make = make_one, .arg = &drivers[i]};
        uint32_t id;
        assert_int_equal(pod_join_host(fix.pod, NULL, &maker, &id, &err),
                         POD_OK);
        fake_ready(drivers[i]);
    }
    uint64_t reset = fixture_submit(&fix, &request);
    for (size_t i = 0; i < HOSTS; i++) {
        while (fake_open(drivers[i]) == 0)
            sched_yield();
        assert_int_equal(fake_count(drivers[i], FAKE_RESET), 1);
        assert_state(&fix, reset, "READY");
        fake_run(drivers[i]);
    }
    assert_state(&fix, reset, "SUCCEEDED");
    tear_down(&fix);
}

// A reset whose turn comes later is of the hosts that are there then.
static void test_a_reset_finds_all_hosts(void **unused)
{
    struct pod_request request = fixture_request(POD_KIND_RESET);
    struct fixture fix;
    struct pod_event_view view;
    struct pod_err err;

    (void)unused;
    fixture_init(&fix, 1);
    uint64_t write = fixture_write(&fix, fixture_allocate(&fix, 0, 8), 0, 8);
    fake_done(fix.host[0], write - 1);
    struct pod_ref before = fixture_op(write);
    request.after = &before;
    request.after_count = 1;
    request.run_on_failure = true;
    uint64_t reset = fixture_submit(&fix, &request);
    assert_state(&fix, write, "CANCELLED");
    assert_state(&fix, reset, "WAITING");
    for (uint32_t id = 1; id <= 2; id++) {
        assert_int_equal(must_join(&fix, id == 1 ? "far:1" : "far:2"), id);
        fake_ready(fix.host[id]);
    }
    fake_run(fix.host[0]); // the write is over at last
    for (size_t i = 1; i <= 2; i++)
        assert_int_equal(fake_count(fix.host[i], FAKE_RESET), 1);
    fake_fail(fix.host[2], reset, POD_REASON_WORKER_ERROR, "no");
    fixture_run(&fix);
    assert_state(&fix, reset, "FAILED");
    assert_int_equal(pod_get_event(fix.pod, reset, &view, &err), POD_OK);
    assert_int_equal(view.host_count, 3);
    assert_int_equal(view.hosts[1].state, POD_SCHED_SUCCEEDED);
    assert_int_equal(view.hosts[2].host, 2);
    assert_int_equal(view.hosts[2].state, POD_SCHED_FAILED);
    pod_event_view_fini(&view);
    tear_down(&fix);
}

// There was no memory for what it says of itself: it is asked again, once for
// each time, until there is.
static void test_a_host_without_a_record_is_asked_again(void **unused)
{
    struct fixture fix;
    int refused = 0;

    (void)unused;
    fixture_init(&fix, 1);
    (void)must_join(&fix, "far:1");
    fake_beat(fix.host[1]);
    assert_int_equal(fake_reconnects(fix.host[1]), 0);
    while (state_of(&fix, 1) != POD_HOST_READY) {
        pod_mem_fail_after(refused, 1);
        fake_ready(fix.host[1]);
        pod_mem_fail_after(-1, 0);
        if (state_of(&fix, 1) == POD_HOST_READY)
            break;
        assert_int_equal(state_of(&fix, 1), POD_HOST_LOST);
        refused++;
        fake_beat(fix.host[1]);
        fake_beat(fix.host[1]);
        assert_int_equal(fake_reconnects(fix.host[1]), refused);
    }
    assert_true(refused > 1);
    fake_beat(fix.host[1]);
    assert_int_equal(fake_reconnects(fix.host[1]), refused);
    uint64_t buffer = fixture_allocate(&fix, 3, 8);
    fake_run(fix.host[1]);
    assert_state(&fix, buffer, "SUCCEEDED");
    tear_down(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_host_is_added),
        cmocka_unit_test(test_an_address_is_there_once),
        cmocka_unit_test(test_a_host_without_a_record_is_asked_again),
        cmocka_unit_test(test_what_cannot_be_made_takes_no_id),
        cmocka_unit_test(test_no_thread_for_a_host),
        cmocka_unit_test(test_there_are_only_so_many),
        cmocka_unit_test(test_a_host_in_use_stays),
        cmocka_unit_test(test_calls_to_many_hosts),
        cmocka_unit_test(test_a_reset_finds_all_hosts),
        cmocka_unit_test(test_ids_are_used_once),
        cmocka_unit_test(test_force_loses_what_is_there),
        cmocka_unit_test(test_programs_are_compiled_where_they_are_loaded),
        cmocka_unit_test(test_compiled_hosts_stay_in_order),
        cmocka_unit_test(test_compiled_hosts_are_forgotten),
        cmocka_unit_test(test_a_drain_ends_with_the_last_operation),
        cmocka_unit_test(test_one_change_tells_of_a_removal),
    };

    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT); // losses are meant here
    return cmocka_run_group_tests(tests, NULL, NULL);
}
