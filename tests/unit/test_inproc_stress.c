// SPDX-License-Identifier: Apache-2.0
// Many threads at one in-process host: each call gets exactly one completion,
// whatever races with it, and nothing is left.
#include "tests/unit/fake_host.h"

#include <stdlib.h>

#include "core/base/mem.h"

enum { THREADS = 4, CALLS_EACH = 2500, BUFFERS = 8, LOADS = 2 };

struct storm {
    struct host host;
    atomic_ulong next_op;
    atomic_int disorder; // a start after the end, or two of either
    atomic_int done;
    atomic_int outcomes[17]; // by code
    atomic_int lost;
};

// One call of the storm; freed by the test at the end.
struct shot {
    struct storm *storm;
    atomic_int started;
    atomic_int done;
};

struct gunner {
    struct storm *storm;
    pthread_t thread;
    uint32_t seed;
    struct shot shots[CALLS_EACH];
};

static void shot_on_started(void *arg)
{
    struct shot *shot = arg;

    if (atomic_fetch_add(&shot->started, 1) != 0 || atomic_load(&shot->done))
        atomic_fetch_add(&shot->storm->disorder, 1);
}

static void shot_on_done(void *arg, const struct pod_driver_result *result)
{
    struct shot *shot = arg;
    struct storm *storm = shot->storm;

    if (atomic_fetch_add(&shot->done, 1) != 0)
        atomic_fetch_add(&storm->disorder, 1);
    atomic_fetch_add(&storm->outcomes[result->err.code], 1);
    if (result->lost)
        atomic_fetch_add(&storm->lost, 1);
    atomic_fetch_add(&storm->done, 1);
}

static uint32_t gunner_random(struct gunner *gunner)
{
    gunner->seed = gunner->seed * 1664525U + 1013904223U;
    return gunner->seed >> 8;
}

static void shot_write(struct pod_driver *driver,
                       const struct pod_driver_call *call, uint64_t buffer)
{
    struct pod_blob *blob = calls_blob("1234", 4);

    driver->ops->write(driver, call, buffer, 0, blob, 0, 4);
    pod_blob_unref(blob);
}

static void shot_fire(struct gunner *gunner, struct shot *shot)
{
    struct pod_driver *driver = gunner->storm->host.driver;
    uint64_t op = atomic_fetch_add(&gunner->storm->next_op, 1);
    uint64_t a = 1 + gunner_random(gunner) % BUFFERS;
    uint64_t b = 1 + gunner_random(gunner) % BUFFERS;
    struct pod_driver_call call = {
        .op = op,
        .priority = (int)(gunner_random(gunner) % 21) - 10,
        .started = shot_on_started,
        .done = shot_on_done,
        .arg = shot,
    };

    shot->storm = gunner->storm;
    switch (gunner_random(gunner) % 8) {
    case 0:
        driver->ops->allocate(driver, &call, 0, NULL, 64);
        break;
    case 1:
        driver->ops->deallocate(driver, &call, op - 1);
        break;
    case 2:
        shot_write(driver, &call, a);
        break;
    case 3:
        driver->ops->read(driver, &call, a, 0, 4);
        break;
    case 4:
        driver->ops->copy(driver, &call, a, b);
        break;
    case 5:
        driver->ops->load(driver, &call, (uint32_t)(a % 2), 100);
        break;
    default:
        calls_execute(driver, &call, a % 2 == 0 ? 101 : 103, a, b);
        break;
    }
    if (gunner_random(gunner) % 4 == 0)
        driver->ops->cancel(driver, op - gunner_random(gunner) % 3);
}

static void *gunner_main(void *arg)
{
    struct gunner *gunner = arg;

    for (int i = 0; i < CALLS_EACH; i++)
        shot_fire(gunner, &gunner->shots[i]);
    return NULL;
}

static void storm_provide(struct storm *storm)
{
    struct host *host = &storm->host;

    for (uint64_t op = 1; op <= BUFFERS; op++)
        calls_allocate(&host->watch, host->driver, op, 0, 4);
    calls_program(&host->watch, host->driver, 100, 0, "increment");
    calls_program(&host->watch, host->driver, 102, 1, "increment");
}

// Puts the fault driver around the host.
static void storm_wrap(struct storm *storm, const char *text)
{
    struct pod_driver *inner = storm->host.driver;
    struct pod_fault_script script;
    struct pod_err err;

    assert_int_equal(pod_fault_parse(text, strlen(text), &script, &err),
                     POD_OK);
    assert_int_equal(
        pod_fault_new(inner, NULL, 0, &script, &storm->host.driver, &err),
        POD_OK);
}

// `faults` may be NULL.
static struct gunner *storm_start(struct storm *storm, const char *faults)
{
    struct gunner *gunners = calloc(THREADS, sizeof gunners[0]);
    struct host *host = &storm->host;
    struct pod_driver_observer observer;

    assert_non_null(gunners);
    memset(storm, 0, sizeof *storm);
    atomic_store(&storm->next_op, 1000);
    host_make(host, 2, NULL, 0);
    if (faults != NULL)
        storm_wrap(storm, faults);
    observer = calls_observer(&host->watch);
    host->driver->ops->open(host->driver, &observer);
    calls_await(&host->watch, &host->watch.ready, 1);
    storm_provide(storm);
    for (uint32_t i = 0; i < THREADS; i++) {
        gunners[i].storm = storm;
        gunners[i].seed = 77 + i;
        assert_int_equal(
            pthread_create(&gunners[i].thread, NULL, gunner_main, &gunners[i]),
            0);
    }
    return gunners;
}

static void storm_end(struct storm *storm, struct gunner *gunners)
{
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(gunners[i].thread, NULL), 0);
    // With what is still open: the close ends it.
    host_close(&storm->host);
    for (uint32_t i = 0; i < THREADS * CALLS_EACH; i++)
        assert_int_equal(gunners[i / CALLS_EACH].shots[i % CALLS_EACH].done, 1);
    assert_int_equal(storm->done, THREADS * CALLS_EACH);
    assert_int_equal(storm->disorder, 0);
    assert_int_equal(storm->outcomes[POD_INTERNAL], 0);
    assert_int_equal(pod_mem_live(), 0);
    free(gunners);
}

static void test_calls_and_cancels(void **state)
{
    struct storm storm;

    (void)state;
    struct gunner *gunners = storm_start(&storm, NULL);
    storm_end(&storm, gunners);
    assert_true(storm.outcomes[POD_OK] > 0);
    assert_int_equal(storm.lost, 0);
}

static void test_resets_under_load(void **state)
{
    struct storm storm;
    struct calls_record record;

    (void)state;
    struct gunner *gunners = storm_start(&storm, NULL);
    for (uint64_t i = 0; i < 20; i++) {
        struct pod_driver_call call =
            calls_make(&storm.host.watch, &record, 500 + i);
        storm.host.driver->ops->reset(storm.host.driver, &call);
        assert_int_equal(calls_end(&record), POD_OK);
        assert_int_equal(record.started, 1);
    }
    storm_end(&storm, gunners);
}

static void test_losses_under_load(void **state)
{
    struct storm storm;

    (void)state;
    struct gunner *gunners = storm_start(&storm, NULL);
    for (int i = 0; i < 20; i++) {
        pod_inproc_kill(storm.host.driver, "storm");
        pod_inproc_revive(storm.host.driver);
        calls_await(&storm.host.watch, &storm.host.watch.ready, 2 + i);
    }
    assert_int_equal(storm.host.watch.lost, 20);
    storm_end(&storm, gunners);
}

// The fault driver in between: late and dropped calls, deaths.
static void test_faults_under_load(void **state)
{
    struct storm storm;

    (void)state;
    struct gunner *gunners =
        storm_start(&storm, "read#3+=delay:100us;write#5=drop;"
                            "copy#50=die:1ms;copy#200=die:1ms;"
                            "load#7=fail:ABORTED;execute#300=stall:1ms");
    calls_await(&storm.host.watch, &storm.host.watch.lost, 1);
    storm_end(&storm, gunners);
    assert_true(storm.lost > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_and_cancels),
        cmocka_unit_test(test_resets_under_load),
        cmocka_unit_test(test_losses_under_load),
        cmocka_unit_test(test_faults_under_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
