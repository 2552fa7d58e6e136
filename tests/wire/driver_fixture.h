// SPDX-License-Identifier: Apache-2.0
// The gRPC driver of one host, connected to a worker on another gRPC
// implementation.
#ifndef TESTS_WIRE_DRIVER_FIXTURE_H
#define TESTS_WIRE_DRIVER_FIXTURE_H

#include "tests/unit/driver_calls.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "proto/grpc_driver.h"
#include "tests/lib/fake_worker.h"

// On a machine that is busy anything may take long: a worker is given up early
// only in tests of that, which then wait for nothing else.
enum { PATIENCE_S = 30, IMPATIENCE_S = 1 };

struct fixture {
    struct fake_worker worker;
    struct calls_watch watch;
    char why[POD_ERR_TEXT_BYTES]; // of the last loss
    const struct rpc_tls *tls;    // NULL: plain text
    bool impatient;
    struct pod_grpc_hub *hub;
    struct pod_driver *driver;
};

static inline void on_lost(void *arg, const struct pod_err *err)
{
    struct fixture *fixture = POD_CONTAINER(arg, struct fixture, watch);

    pod_mutex_lock(&fixture->watch.lock);
    snprintf(fixture->why, sizeof(fixture->why), "%s", err->text);
    pod_mutex_unlock(&fixture->watch.lock);
    calls_on_lost(arg, err);
}

static inline void open_at(struct fixture *fixture, const char *address)
{
    int64_t patience_ns =
        (fixture->impatient ? IMPATIENCE_S : PATIENCE_S) * POD_NS_PER_S;
    struct pod_grpc_options options = {
        .address = address,
        .connect_ns = patience_ns,
        .heartbeat_ns = POD_NS_PER_S / 10,
        .silence_ns = patience_ns,
        .backoff_min_ns = POD_NS_PER_S / 20,
        .backoff_max_ns = POD_NS_PER_S / 5,
    };
    struct pod_err err;

    calls_watch_init(&fixture->watch);
    struct pod_driver_observer observer = calls_observer(&fixture->watch);
    observer.lost = on_lost;
    assert_int_equal(pod_grpc_hub_new(fixture->tls, &fixture->hub, &err),
                     POD_OK);
    options.hub = fixture->hub;
    assert_int_equal(pod_grpc_driver_new(&options, &fixture->driver, &err),
                     POD_OK);
    fixture->driver->ops->open(fixture->driver, &observer);
}

static inline void start_so(struct fixture *fixture, const char *mode,
                            bool impatient)
{
    memset(fixture, 0, sizeof(*fixture));
    fixture->impatient = impatient;
    assert_true(fake_worker_start(&fixture->worker, mode, 0));
    open_at(fixture, fixture->worker.address);
}

static inline void start(struct fixture *fixture, const char *mode)
{
    start_so(fixture, mode, false);
}

static inline void await_ready(struct fixture *fixture, int times)
{
    calls_await(&fixture->watch, &fixture->watch.ready, times);
}

static inline void start_ready(struct fixture *fixture, const char *mode)
{
    start(fixture, mode);
    await_ready(fixture, 1);
}

static inline void await_lost(struct fixture *fixture, int times)
{
    calls_await(&fixture->watch, &fixture->watch.lost, times);
}

static inline void finish(struct fixture *fixture)
{
    fixture->driver->ops->close(fixture->driver);
    fixture->driver->ops->free(fixture->driver);
    pod_grpc_hub_free(fixture->hub);
    assert_int_equal(fixture->watch.inlined, 0);
    assert_int_equal(fixture->watch.late, 0);
    calls_watch_fini(&fixture->watch);
    fake_worker_signal(&fixture->worker, SIGKILL);
}

// An allocation of 8 bytes, not waited for.
static inline void begin(struct fixture *fixture, struct calls_record *record,
                         uint64_t op)
{
    struct pod_driver_call call = calls_make(&fixture->watch, record, op);

    fixture->driver->ops->allocate(fixture->driver, &call, 0, NULL, 8);
}

// Whether the last loss was told with that word.
static inline bool says(struct fixture *fixture, const char *word)
{
    pod_mutex_lock(&fixture->watch.lock);
    bool has = strstr(fixture->why, word) != NULL;
    pod_mutex_unlock(&fixture->watch.lock);
    return has;
}

// Waits until the host was lost with that word. A worker that is slow may not
// be ready before.
static inline void await_loss(struct fixture *fixture, const char *mode,
                              const char *word)
{
    bool said = false;

    for (int times = 1; !said; times++) {
        await_lost(fixture, times);
        said = says(fixture, word);
        if (!said && !says(fixture, "not ready"))
            fail_msg("mode %s: \"%s\"", mode, fixture->why);
    }
}

static inline void expect_refusal(const char *mode, const char *word)
{
    struct fixture fixture;

    start_so(&fixture, mode, strcmp(mode, "not-ready") == 0);
    await_loss(&fixture, mode, word);
    assert_int_equal(fixture.watch.ready, 0);
    finish(&fixture);
}

// A reset leaves nothing of what was made, and the session as it is.
static inline void expect_reset(const char *mode)
{
    struct fixture fixture;
    struct calls_record record;

    start_ready(&fixture, mode);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 2);
    fixture.driver->ops->reset(fixture.driver, &call);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&fixture.watch, &record, 3);
    fixture.driver->ops->read(fixture.driver, &call, 1, 0, 4);
    assert_int_equal(calls_end(&record), POD_NOT_FOUND);
    calls_allocate(&fixture.watch, fixture.driver, 4, 0, 4);
    assert_int_equal(fixture.watch.ready, 1);
    assert_int_equal(fixture.watch.lost, 0);
    finish(&fixture);
}

// A test that fails leaves a driver behind that writes to its stack, so the
// program ends there.
static inline int run_driver_tests(const struct CMUnitTest *tests, size_t count)
{
    (void)setenv("CMOCKA_TEST_ABORT", "1", 1);
    return _cmocka_run_group_tests("gRPC driver", tests, count, NULL, NULL);
}

#endif
