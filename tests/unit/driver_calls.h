// SPDX-License-Identifier: Apache-2.0
// Calls of a driver as tests want them: each has a record that says how often
// it was started and done, and how it ended; all waits are for a record.
#ifndef TESTS_UNIT_DRIVER_CALLS_H
#define TESTS_UNIT_DRIVER_CALLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "core/base/lock.h"
#include "core/driver/driver.h"

enum { CALLS_RANK = 85, CALLS_DATA_BYTES = 64 };

// What happened, for all records of a test.
struct calls_watch {
    struct pod_mutex lock;
    struct pod_cond changed;
    pthread_t maker; // completions must not come from it
    int ready;
    int lost;
    int beats;
    int inlined;
    int late; // completions with lost before the observer heard of it
    struct pod_driver_info info;
    uint64_t open_operations; // of the last sign of life that told
    size_t load_cores;
    struct pod_driver_core_load load; // of the first core
};

struct calls_record {
    struct calls_watch *watch;
    uint64_t op;
    int started; // and of these by the completion
    int begun;
    int done;
    int started_late;
    bool lost;
    struct pod_err err;
    size_t data_size;
    unsigned char data[CALLS_DATA_BYTES];
    size_t parameters; // of a compiled program
};

static inline void calls_watch_init(struct calls_watch *watch)
{
    memset(watch, 0, sizeof *watch);
    pod_mutex_init(&watch->lock, CALLS_RANK, "watch");
    pod_cond_init(&watch->changed);
    watch->maker = pthread_self();
}

static inline void calls_watch_fini(struct calls_watch *watch)
{
    pod_cond_fini(&watch->changed);
    pod_mutex_fini(&watch->lock);
}

static inline void calls_on_ready(void *arg, const struct pod_driver_info *info)
{
    struct calls_watch *watch = arg;

    pod_mutex_lock(&watch->lock);
    watch->ready++;
    watch->info = *info;
    pod_cond_broadcast(&watch->changed);
    pod_mutex_unlock(&watch->lock);
}

static inline void calls_on_lost(void *arg, const struct pod_err *err)
{
    struct calls_watch *watch = arg;

    (void)err;
    pod_mutex_lock(&watch->lock);
    watch->lost++;
    pod_cond_broadcast(&watch->changed);
    pod_mutex_unlock(&watch->lock);
}

static inline void calls_on_beat(void *arg, const struct pod_driver_load *load)
{
    struct calls_watch *watch = arg;

    pod_mutex_lock(&watch->lock);
    watch->beats++;
    if (load != NULL) {
        watch->open_operations = load->open_operations;
        watch->load_cores = load->core_count;
        watch->load = load->core_count > 0 ? load->cores[0]
                                           : (struct pod_driver_core_load){0};
    }
    pod_cond_broadcast(&watch->changed);
    pod_mutex_unlock(&watch->lock);
}

static inline struct pod_driver_observer
calls_observer(struct calls_watch *watch)
{
    return (struct pod_driver_observer){
        .ready = calls_on_ready,
        .lost = calls_on_lost,
        .heartbeat = calls_on_beat,
        .arg = watch,
    };
}

static inline void calls_await(struct calls_watch *watch, const int *counter,
                               int value)
{
    pod_mutex_lock(&watch->lock);
    while (*counter < value)
        pod_cond_wait(&watch->changed, &watch->lock);
    pod_mutex_unlock(&watch->lock);
}

static inline void calls_on_started(void *arg)
{
    struct calls_record *record = arg;

    pod_mutex_lock(&record->watch->lock);
    record->started++;
    record->started_late += record->done;
    pod_cond_broadcast(&record->watch->changed);
    pod_mutex_unlock(&record->watch->lock);
}

static inline void calls_on_done(void *arg,
                                 const struct pod_driver_result *result)
{
    struct calls_record *record = arg;
    struct calls_watch *watch = record->watch;

    pod_mutex_lock(&watch->lock);
    if (pthread_equal(pthread_self(), watch->maker))
        watch->inlined++;
    if (result->lost && watch->lost == 0)
        watch->late++;
    record->begun += result->begun;
    record->started += result->begun;
    record->done++;
    record->err = result->err;
    record->lost = result->lost;
    if (result->shape != NULL)
        record->parameters = result->shape->count;
    if (result->data != NULL) {
        record->data_size = result->data->size;
        memcpy(record->data, result->data->data,
               result->data->size < CALLS_DATA_BYTES ? result->data->size
                                                     : CALLS_DATA_BYTES);
    }
    pod_cond_broadcast(&watch->changed);
    pod_mutex_unlock(&watch->lock);
}

// A fresh record and the call that tells it.
static inline struct pod_driver_call
calls_make(struct calls_watch *watch, struct calls_record *record, uint64_t op)
{
    memset(record, 0, sizeof *record);
    record->watch = watch;
    record->op = op;
    return (struct pod_driver_call){
        .op = op,
        .started = calls_on_started,
        .done = calls_on_done,
        .arg = record,
    };
}

static inline enum pod_code calls_end(struct calls_record *record)
{
    calls_await(record->watch, &record->done, 1);
    return record->err.code;
}

// ------------------------------------------------- calls that must go well

static inline void calls_allocate(struct calls_watch *watch,
                                  struct pod_driver *driver, uint64_t op,
                                  uint32_t core, uint64_t bytes)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(watch, &record, op);

    driver->ops->allocate(driver, &call, core, NULL, bytes);
    assert_int_equal(calls_end(&record), POD_OK);
}

static inline struct pod_blob *calls_blob(const void *bytes, size_t size)
{
    struct pod_blob *blob = pod_blob_new(size);

    assert_non_null(blob);
    if (size > 0)
        memcpy(blob->data, bytes, size);
    return blob;
}

static inline void calls_write_s32(struct calls_watch *watch,
                                   struct pod_driver *driver, uint64_t op,
                                   uint64_t buffer, int32_t value)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(watch, &record, op);
    struct pod_blob *blob = calls_blob(&value, sizeof value);

    driver->ops->write(driver, &call, buffer, 0, blob, 0, sizeof value);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_OK);
}

static inline int32_t calls_read_s32(struct calls_watch *watch,
                                     struct pod_driver *driver, uint64_t op,
                                     uint64_t buffer)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(watch, &record, op);
    int32_t value;

    driver->ops->read(driver, &call, buffer, 0, sizeof value);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.data_size, sizeof value);
    memcpy(&value, record.data, sizeof value);
    return value;
}

// Compiles a word as program `op` and loads it on a core as `op + 1`.
static inline void calls_program(struct calls_watch *watch,
                                 struct pod_driver *driver, uint64_t op,
                                 uint32_t core, const char *word)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(watch, &record, op);
    struct pod_blob *blob = calls_blob(word, strlen(word));

    driver->ops->compile(driver, &call, POD_FORMAT_HLO_TEXT, blob, 1);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.parameters, 1);
    call = calls_make(watch, &record, op + 1);
    driver->ops->load(driver, &call, core, op);
    assert_int_equal(calls_end(&record), POD_OK);
}

// One replica alone, one input, one output.
static inline void calls_execute(struct pod_driver *driver,
                                 const struct pod_driver_call *call,
                                 uint64_t load, uint64_t input, uint64_t output)
{
    uint32_t zero = 0;
    struct pod_driver_launch launch = {
        .load = load,
        .inputs = &input,
        .input_count = 1,
        .outputs = &output,
        .output_count = 1,
    };
    struct pod_driver_execute execute = {
        .launches = &launch,
        .launch_count = 1,
        .replica_count = 1,
        .replica_hosts = &zero,
        .replica_cores = &zero,
        .replica_worker_cores = &zero,
    };

    driver->ops->execute(driver, call, &execute);
}

#endif
