// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/telling_driver.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/mem.h"

enum { TELLING_MAX = 16, TELLING_WHILE_NS = 100000 };

struct telling {
    struct pod_driver base;
    struct pod_driver *inner;
    struct pod_driver_observer observer;
    pthread_t thread;
    struct pod_mutex lock; // guards the rest
    struct pod_cond changed;
    struct pod_driver_well calls[TELLING_MAX];
    size_t count;
    bool tells; // the thread does, of some that are not in `calls` any more
    bool hurry; // somebody waits until all are told
    bool stops;
};

// A call that the inner driver has.
struct telling_call {
    struct telling *telling;
    struct pod_driver_call to;
    bool plain; // may be told with others
};

static atomic_size_t telling_most;

size_t telling_driver_most(void)
{
    return telling_most;
}

static struct telling *telling_of(struct pod_driver *driver)
{
    return POD_CONTAINER(driver, struct telling, base);
}

// --------------------------------------------------------------------- telling

static void telling_tell_locked(struct telling *telling)
{
    struct pod_driver_well calls[TELLING_MAX];
    size_t count = telling->count;

    for (size_t i = 0; i < count; i++)
        calls[i] = telling->calls[i];
    telling->count = 0;
    telling->tells = true;
    pod_cond_broadcast(&telling->changed);
    pod_mutex_unlock(&telling->lock);
    telling->observer.done_well(telling->observer.arg, calls, count);
    size_t most = telling_most;
    while (count > most &&
           !atomic_compare_exchange_weak(&telling_most, &most, count)) {
    }
    pod_mutex_lock(&telling->lock);
    telling->tells = false;
    pod_cond_broadcast(&telling->changed);
}

static void *telling_run(void *arg)
{
    struct telling *telling = arg;

    pod_mutex_lock(&telling->lock);
    while (!telling->stops || telling->count > 0) {
        if (telling->count == 0) {
            pod_cond_wait(&telling->changed, &telling->lock);
            continue;
        }
        // Who waits for these may bring no more, so this cannot be for long.
        int64_t until =
            pod_clock_system.mono_ns(pod_clock_system.arg) + TELLING_WHILE_NS;
        bool early = true;
        while (early && telling->count < TELLING_MAX && !telling->hurry)
            early =
                pod_cond_wait_until(&telling->changed, &telling->lock, until);
        telling_tell_locked(telling);
    }
    pod_mutex_unlock(&telling->lock);
    return NULL;
}

// Returns when all that went well is told. Not for the thread that tells.
static void telling_flush(struct telling *telling)
{
    pod_mutex_lock(&telling->lock);
    while (telling->count > 0 || telling->tells) {
        telling->hurry = true;
        pod_cond_broadcast(&telling->changed);
        pod_cond_wait(&telling->changed, &telling->lock);
    }
    telling->hurry = false;
    pod_mutex_unlock(&telling->lock);
}

static void telling_add(struct telling *telling,
                        const struct pod_driver_well *well)
{
    pod_mutex_lock(&telling->lock);
    while (telling->count == TELLING_MAX)
        pod_cond_wait(&telling->changed, &telling->lock);
    telling->calls[telling->count++] = *well;
    pod_cond_broadcast(&telling->changed);
    pod_mutex_unlock(&telling->lock);
}

static void telling_on_started(void *arg)
{
    const struct telling_call *call = arg;

    call->to.started(call->to.arg);
}

static void telling_on_done(void *arg, const struct pod_driver_result *result)
{
    struct telling_call *call = arg;

    if (call->plain && !result->lost && result->err.code == POD_OK) {
        telling_add(call->telling,
                    &(struct pod_driver_well){.arg = call->to.arg,
                                              .begun = result->begun});
    } else {
        telling_flush(call->telling); // what came before is told before
        call->to.done(call->to.arg, result);
    }
    pod_free(call);
}

static void telling_on_lost(void *arg, const struct pod_err *err)
{
    struct telling *telling = arg;

    telling_flush(telling);
    telling->observer.lost(telling->observer.arg, err);
}

static void telling_on_ready(void *arg, const struct pod_driver_info *info)
{
    const struct telling *telling = arg;

    telling->observer.ready(telling->observer.arg, info);
}

static void telling_on_beat(void *arg, const struct pod_driver_load *load)
{
    const struct telling *telling = arg;

    telling->observer.heartbeat(telling->observer.arg, load);
}

// ----------------------------------------------------------------------- calls

// What the inner driver is to be called with. Never inline: the thread that
// tells may be the one that calls.
static struct pod_driver_call telling_call(struct pod_driver *driver,
                                           const struct pod_driver_call *to,
                                           bool plain)
{
    struct telling_call *call = pod_malloc(sizeof(*call));
    struct pod_driver_call inner = *to;

    if (call == NULL)
        abort();
    *call = (struct telling_call){
        .telling = telling_of(driver), .to = *to, .plain = plain};
    inner.here = false;
    inner.started = to->started == NULL ? NULL : telling_on_started;
    inner.done = telling_on_done;
    inner.arg = call;
    return inner;
}

// Calls of the inner driver, whose answers may be told together, or may not.
#define TELLING(plain, name, ...)                                              \
    const struct pod_driver_call inner = telling_call(driver, call, plain);    \
    struct pod_driver *to = telling_of(driver)->inner;                         \
    to->ops->name(to, &inner, __VA_ARGS__)

static void telling_reset(struct pod_driver *driver,
                          const struct pod_driver_call *call)
{
    const struct pod_driver_call inner = telling_call(driver, call, false);
    struct pod_driver *to = telling_of(driver)->inner;

    to->ops->reset(to, &inner);
}

static void telling_allocate(struct pod_driver *driver,
                             const struct pod_driver_call *call, uint32_t core,
                             const struct pod_shape *shape, uint64_t bytes)
{
    TELLING(true, allocate, core, shape, bytes);
}

static void telling_tuple(struct pod_driver *driver,
                          const struct pod_driver_call *call, uint32_t core,
                          const uint64_t *children, size_t child_count)
{
    TELLING(true, allocate_tuple, core, children, child_count);
}

static void telling_deallocate(struct pod_driver *driver,
                               const struct pod_driver_call *call,
                               uint64_t buffer)
{
    TELLING(true, deallocate, buffer);
}

static void telling_write(struct pod_driver *driver,
                          const struct pod_driver_call *call, uint64_t buffer,
                          uint64_t offset, struct pod_blob *data,
                          size_t data_offset, size_t count)
{
    TELLING(true, write, buffer, offset, data, data_offset, count);
}

static void telling_read(struct pod_driver *driver,
                         const struct pod_driver_call *call, uint64_t buffer,
                         uint64_t offset, size_t count)
{
    TELLING(false, read, buffer, offset, count);
}

static void telling_lend(struct pod_driver *driver,
                         const struct pod_driver_call *call, uint64_t buffer,
                         uint64_t offset, size_t count)
{
    TELLING(false, lend, buffer, offset, count);
}

static void telling_copy(struct pod_driver *driver,
                         const struct pod_driver_call *call, uint64_t from,
                         uint64_t target)
{
    TELLING(true, copy, from, target);
}

static void telling_compile(struct pod_driver *driver,
                            const struct pod_driver_call *call,
                            enum pod_program_format format,
                            struct pod_blob *program, uint32_t replicas)
{
    TELLING(false, compile, format, program, replicas);
}

static void telling_free_program(struct pod_driver *driver,
                                 const struct pod_driver_call *call,
                                 uint64_t program)
{
    TELLING(true, free_program, program);
}

static void telling_load(struct pod_driver *driver,
                         const struct pod_driver_call *call, uint32_t core,
                         uint64_t program)
{
    TELLING(true, load, core, program);
}

static void telling_unload(struct pod_driver *driver,
                           const struct pod_driver_call *call, uint64_t load)
{
    TELLING(true, unload, load);
}

static void telling_execute(struct pod_driver *driver,
                            const struct pod_driver_call *call,
                            const struct pod_driver_execute *execute)
{
    TELLING(true, execute, execute);
}

static void telling_cancel(struct pod_driver *driver, uint64_t op)
{
    struct pod_driver *inner = telling_of(driver)->inner;

    inner->ops->cancel(inner, op);
}

static void telling_reconnect(struct pod_driver *driver)
{
    struct pod_driver *inner = telling_of(driver)->inner;

    inner->ops->reconnect(inner);
}

// ---------------------------------------------------------------------- driver

static void telling_open(struct pod_driver *driver,
                         const struct pod_driver_observer *observer)
{
    struct telling *telling = telling_of(driver);
    const struct pod_driver_observer own = {
        .ready = telling_on_ready,
        .lost = telling_on_lost,
        .heartbeat = telling_on_beat,
        .arg = telling,
    };

    telling->observer = *observer;
    if (pthread_create(&telling->thread, NULL, telling_run, telling) != 0)
        abort();
    telling->inner->ops->open(telling->inner, &own);
}

static void telling_close(struct pod_driver *driver)
{
    struct telling *telling = telling_of(driver);

    telling->inner->ops->close(telling->inner);
    pod_mutex_lock(&telling->lock);
    telling->stops = true;
    pod_cond_broadcast(&telling->changed);
    pod_mutex_unlock(&telling->lock);
    pthread_join(telling->thread, NULL);
}

static void telling_free(struct pod_driver *driver)
{
    struct telling *telling;

    if (driver == NULL)
        return;
    telling = telling_of(driver);
    telling->inner->ops->free(telling->inner);
    pod_cond_fini(&telling->changed);
    pod_mutex_fini(&telling->lock);
    pod_free(telling);
}

static const struct pod_driver_ops telling_ops = {
    .open = telling_open,
    .close = telling_close,
    .free = telling_free,
    .reset = telling_reset,
    .reconnect = telling_reconnect,
    .allocate = telling_allocate,
    .allocate_tuple = telling_tuple,
    .deallocate = telling_deallocate,
    .write = telling_write,
    .read = telling_read,
    .lend = telling_lend,
    .copy = telling_copy,
    .compile = telling_compile,
    .free_program = telling_free_program,
    .load = telling_load,
    .unload = telling_unload,
    .execute = telling_execute,
    .cancel = telling_cancel,
};

struct pod_driver *telling_driver_new(struct pod_driver *owned_inner)
{
    struct telling *telling = pod_calloc(1, sizeof(*telling));

    if (telling == NULL)
        abort();
    telling->base.ops = &telling_ops;
    telling->inner = owned_inner;
    // It is taken with no lock held, and none is taken under it.
    pod_mutex_init(&telling->lock, POD_RANK_RPC, "telling driver");
    pod_cond_init(&telling->changed);
    return &telling->base;
}
