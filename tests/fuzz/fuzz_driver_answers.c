// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a worker answers podd: every call is completed exactly
// once, and nothing is left.
//
// The first byte says what the rest is: bit 0: the worker knows the plain
// protocol only; bit 1: its greeting (plain: what it says of itself); bit 2:
// its sign of life; else what comes on the streams, with bit 3 on the second.
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/base/mem.h"
#include "core/pod/host_info.h"
#include "proto/grpc_driver.h"
#include "tests/fuzz/lib/fake_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_PLAIN = 1,
    FUZZ_GREETING = 2,
    FUZZ_LIFE = 4,
    FUZZ_SECOND = 8,
    FUZZ_APART = 16,
    FUZZ_CALLS = 9,
    FUZZ_RANK = 85,
};

struct fuzz {
    const uint8_t *data;
    size_t size;
    uint8_t mode;
    struct pod_mutex lock; // guards the rest
    struct pod_cond changed;
    struct rpc_stream *streams[2];
    int stream_count;
    bool told;  // ready or lost
    bool ready; // at some time
    bool beaten;
    int begun; // calls of the driver
    int done[FUZZ_CALLS + 1];
};

static void fuzz_check(bool good)
{
    if (!good)
        abort();
}

// ------------------------------------------------------------------ the worker

static bool fuzz_is(const char *method, const char *name)
{
    return strcmp(strrchr(method, '/') + 1, name) == 0;
}

static void fuzz_called(void *arg, const char *method,
                        struct rpc_call *owned_call)
{
    struct fuzz *fuzz = arg;
    bool plain = (fuzz->mode & FUZZ_PLAIN) != 0;
    bool greeting =
        plain ? fuzz_is(method, "QuerySystemInfo") : fuzz_is(method, "Hello");
    bool life = fuzz_is(method, "Heartbeat");

    if (((fuzz->mode & FUZZ_GREETING) != 0 && greeting) ||
        ((fuzz->mode & FUZZ_LIFE) != 0 && life))
        fake_rpc_answer(owned_call, POD_OK, fuzz->data, fuzz->size);
    else
        fake_host_called(plain, method, owned_call);
}

static void fuzz_opened(void *arg, const char *method,
                        struct rpc_stream *owned_stream)
{
    struct fuzz *fuzz = arg;

    (void)method;
    pod_mutex_lock(&fuzz->lock);
    if (fuzz->stream_count < 2)
        fuzz->streams[fuzz->stream_count++] = owned_stream;
    else
        rpc_stream_unref(owned_stream); // of a later connection
    pod_mutex_unlock(&fuzz->lock);
}

// ------------------------------------------------------------------ the calls

static void fuzz_tell(struct fuzz *fuzz, bool ready, bool beaten)
{
    pod_mutex_lock(&fuzz->lock);
    fuzz->told = true;
    fuzz->ready = fuzz->ready || ready;
    fuzz->beaten = fuzz->beaten || beaten;
    pod_cond_broadcast(&fuzz->changed);
    pod_mutex_unlock(&fuzz->lock);
}

static void fuzz_on_ready(void *arg, const struct pod_driver_info *info)
{
    // What it says of itself is for the engine to doubt.
    struct pod_err err;
    struct pod_host_info *checked = pod_host_info_new(info, &err);

    for (size_t i = 0; checked != NULL && i < checked->core_count; i++)
        fuzz_check(checked->cores[i].chip < checked->chip_count);
    pod_host_info_free(checked);
    fuzz_tell(arg, true, false);
}

static void fuzz_on_lost(void *arg, const struct pod_err *err)
{
    fuzz_check(err->code != POD_OK);
    fuzz_tell(arg, false, true);
}

static void fuzz_on_beat(void *arg, const struct pod_driver_load *load)
{
    (void)load;
    fuzz_tell(arg, false, true);
}

struct fuzz_call {
    struct fuzz *fuzz;
    int number;
};

static void fuzz_count(const struct fuzz_call *call)
{
    struct fuzz *fuzz = call->fuzz;

    pod_mutex_lock(&fuzz->lock);
    fuzz_check(++fuzz->done[call->number] == 1);
    pod_mutex_unlock(&fuzz->lock);
}

static void fuzz_on_done(void *arg, const struct pod_driver_result *result)
{
    fuzz_check(!result->lost || result->err.code != POD_OK);
    fuzz_count(arg);
}

static void fuzz_on_done_well(void *arg, const struct pod_driver_well *calls,
                              size_t count)
{
    (void)arg;
    fuzz_check(count > 0);
    for (size_t i = 0; i < count; i++)
        fuzz_count(calls[i].arg);
}

// One of each kind, numbered 1 to FUZZ_CALLS as on the wire.
static void fuzz_begin_calls(struct fuzz *fuzz, struct pod_driver *driver,
                             struct fuzz_call *records)
{
    struct pod_driver_call calls[FUZZ_CALLS + 1];
    struct pod_blob *blob = pod_blob_new(8);
    const uint64_t buffer = 1;
    const uint32_t zero = 0;
    struct pod_driver_launch launch = {.load = 5,
                                       .inputs = &buffer,
                                       .input_count = 1,
                                       .outputs = &buffer,
                                       .output_count = 1};
    struct pod_driver_execute execute = {.launches = &launch,
                                         .launch_count = 1,
                                         .replica_count = 1,
                                         .replica_hosts = &zero,
                                         .replica_cores = &zero,
                                         .replica_worker_cores = &zero};

    memset(blob->data, 0, 8);
    for (int i = 1; i <= FUZZ_CALLS; i++) {
        records[i] = (struct fuzz_call){.fuzz = fuzz, .number = i};
        calls[i] = (struct pod_driver_call){
            .op = (uint64_t)i, .done = fuzz_on_done, .arg = &records[i]};
    }
    driver->ops->allocate(driver, &calls[1], 0, NULL, 8);
    driver->ops->write(driver, &calls[2], 1, 0, blob, 0, 8);
    driver->ops->read(driver, &calls[3], 1, 0, 8);
    driver->ops->compile(driver, &calls[4], POD_FORMAT_HLO_TEXT, blob, 1);
    driver->ops->load(driver, &calls[5], 0, 4);
    driver->ops->execute(driver, &calls[6], &execute);
    driver->ops->copy(driver, &calls[7], 1, 1);
    driver->ops->allocate_tuple(driver, &calls[8], 0, &buffer, 1);
    driver->ops->deallocate(driver, &calls[9], 1);
    driver->ops->cancel(driver, 3);
    pod_blob_unref(blob);
    fuzz->begun = FUZZ_CALLS;
}

// What came has been looked at when this returns, in all likelihood.
static void fuzz_deliver(struct fuzz *fuzz)
{
    struct rpc_stream *stream = fuzz->streams[(fuzz->mode & FUZZ_SECOND) != 0];

    if ((fuzz->mode & (FUZZ_GREETING | FUZZ_LIFE)) != 0)
        return;
    fake_rpc_deliver(stream, fuzz->data, fuzz->size);
    fake_rpc_end(stream, POD_OK);
    fake_rpc_await_end(stream);
}

static void fuzz_await(struct fuzz *fuzz, const bool *what)
{
    pod_mutex_lock(&fuzz->lock);
    while (!*what)
        pod_cond_wait(&fuzz->changed, &fuzz->lock);
    pod_mutex_unlock(&fuzz->lock);
}

static void fuzz_run(struct fuzz *fuzz, struct pod_driver *driver)
{
    struct pod_driver_observer observer = {.ready = fuzz_on_ready,
                                           .lost = fuzz_on_lost,
                                           .heartbeat = fuzz_on_beat,
                                           .arg = fuzz};
    struct fuzz_call records[FUZZ_CALLS + 1];

    if ((fuzz->mode & FUZZ_APART) == 0)
        observer.done_well = fuzz_on_done_well;
    driver->ops->open(driver, &observer);
    fuzz_await(fuzz, &fuzz->told);
    if (fuzz->ready) {
        fuzz_begin_calls(fuzz, driver, records);
        fuzz_deliver(fuzz);
        if ((fuzz->mode & FUZZ_LIFE) != 0)
            fuzz_await(fuzz, &fuzz->beaten);
    }
    driver->ops->close(driver);
    for (int i = 1; i <= fuzz->begun; i++)
        fuzz_check(fuzz->done[i] == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz fuzz = {.data = data + 1, .size = size - 1};
    struct fake_rpc_peer peer = {
        .opened = fuzz_opened, .called = fuzz_called, .arg = &fuzz};
    struct pod_grpc_options options = {.address = "fuzz:1",
                                       .heartbeat_ns = POD_NS_PER_S / 1000};
    struct pod_driver *driver = NULL;

    if (size == 0)
        return 0;
    fuzz.mode = data[0];
    pod_mutex_init(&fuzz.lock, FUZZ_RANK, "fuzz");
    pod_cond_init(&fuzz.changed);
    fake_rpc_set_peer(&peer);
    fuzz_check(pod_grpc_hub_new(NULL, &options.hub, NULL) == POD_OK);
    fuzz_check(pod_grpc_driver_new(&options, &driver, NULL) == POD_OK);
    fuzz_run(&fuzz, driver);
    driver->ops->free(driver);
    pod_grpc_hub_free(options.hub);
    rpc_stream_unref(fuzz.streams[0]);
    rpc_stream_unref(fuzz.streams[1]);
    pod_cond_fini(&fuzz.changed);
    pod_mutex_fini(&fuzz.lock);
    fuzz_check(pod_mem_live() == 0);
    return 0;
}
