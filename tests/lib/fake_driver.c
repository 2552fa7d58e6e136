// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/fake_driver.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "core/base/list.h"
#include "core/base/mem.h"

enum { FAKE_MAX_OPEN = 4096 };

struct fake_entry {
    struct fake_call call;
    struct pod_driver_call to;
};

struct fake_driver {
    struct pod_driver base;
    pthread_mutex_t lock;
    pthread_cond_t came; // another call
    struct pod_driver_observer observer;
    uint32_t cores;
    uint64_t memory;
    int32_t x;
    unsigned features;
    bool up;
    struct fake_entry open[FAKE_MAX_OPEN];
    size_t open_count;
    size_t counts[FAKE_KINDS];
    size_t reconnects;
    int surplus;
    bool ends_well;
    struct pod_shape parameter;
    struct pod_shape result;
};

static struct fake_driver *fake_of(struct pod_driver *driver)
{
    return POD_CONTAINER(driver, struct fake_driver, base);
}

static void fake_add(struct pod_driver *driver,
                     const struct pod_driver_call *to, struct fake_call call)
{
    struct fake_driver *fake = fake_of(driver);

    call.op = to->op;
    call.more = to->more;
    assert(to->wait_count <= FAKE_MAX_WAITS);
    call.wait_count = to->wait_count;
    for (size_t i = 0; i < to->wait_count; i++)
        call.waits[i] = to->waits[i];
    assert(to->order_count <= FAKE_MAX_WAITS);
    call.order_count = to->order_count;
    for (size_t i = 0; i < to->order_count; i++)
        call.orders[i] = to->orders[i];
    pthread_mutex_lock(&fake->lock);
    assert(fake->open_count < FAKE_MAX_OPEN);
    fake->counts[call.kind]++;
    fake->open[fake->open_count++] =
        (struct fake_entry){.call = call, .to = *to};
    pthread_cond_broadcast(&fake->came);
    pthread_mutex_unlock(&fake->lock);
}

// ----------------------------------------------------------------- operations

static void fake_op_open(struct pod_driver *driver,
                         const struct pod_driver_observer *observer)
{
    fake_of(driver)->observer = *observer;
}

static bool fake_take(struct fake_driver *fake, uint64_t op, bool any,
                      struct fake_entry *out_entry)
{
    bool found = false;

    pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; !found && i < fake->open_count; i++) {
        if (!any && fake->open[i].call.op != op)
            continue;
        *out_entry = fake->open[i];
        memmove(&fake->open[i], &fake->open[i + 1],
                (fake->open_count - i - 1) * sizeof(fake->open[0]));
        fake->open_count--;
        found = true;
    }
    pthread_mutex_unlock(&fake->lock);
    return found;
}

static void fake_op_close(struct pod_driver *driver)
{
    struct pod_driver_result result = {.err = POD_ERR_NONE};
    struct fake_entry entry;

    if (fake_of(driver)->ends_well)
        fake_run_together(driver);
    pod_err_set_code(&result.err, POD_CANCELLED, POD_REASON_CANCEL_REQUESTED,
                     "the host was closed");
    while (fake_take(fake_of(driver), 0, true, &entry))
        entry.to.done(entry.to.arg, &result);
}

static void fake_op_free(struct pod_driver *driver)
{
    struct fake_driver *fake;

    if (driver == NULL)
        return;
    fake = fake_of(driver);
    pthread_cond_destroy(&fake->came);
    pthread_mutex_destroy(&fake->lock);
    pod_shape_fini(&fake->parameter);
    pod_shape_fini(&fake->result);
    pod_free(fake);
}

static void fake_op_reset(struct pod_driver *driver,
                          const struct pod_driver_call *call)
{
    fake_add(driver, call, (struct fake_call){.kind = FAKE_RESET});
}

static void fake_op_reconnect(struct pod_driver *driver)
{
    struct fake_driver *fake = fake_of(driver);

    pthread_mutex_lock(&fake->lock);
    fake->reconnects++;
    pthread_mutex_unlock(&fake->lock);
}

static void fake_op_allocate(struct pod_driver *driver,
                             const struct pod_driver_call *call, uint32_t core,
                             const struct pod_shape *shape, uint64_t bytes)
{
    (void)shape;
    fake_add(driver, call,
             (struct fake_call){
                 .kind = FAKE_ALLOCATE, .core = core, .bytes = bytes});
}

static void fake_op_tuple(struct pod_driver *driver,
                          const struct pod_driver_call *call, uint32_t core,
                          const uint64_t *children, size_t child_count)
{
    (void)children;
    fake_add(driver, call,
             (struct fake_call){
                 .kind = FAKE_TUPLE, .core = core, .count = child_count});
}

static void fake_op_deallocate(struct pod_driver *driver,
                               const struct pod_driver_call *call,
                               uint64_t buffer)
{
    fake_add(driver, call,
             (struct fake_call){.kind = FAKE_DEALLOCATE, .handle = buffer});
}

static void fake_op_write(struct pod_driver *driver,
                          const struct pod_driver_call *call, uint64_t buffer,
                          uint64_t offset, struct pod_blob *data,
                          size_t data_offset, size_t count)
{
    fake_add(driver, call,
             (struct fake_call){.kind = FAKE_WRITE,
                                .handle = buffer,
                                .offset = offset,
                                .count = count,
                                .first = data->data[data_offset]});
}

static void fake_op_read(struct pod_driver *driver,
                         const struct pod_driver_call *call, uint64_t buffer,
                         uint64_t offset, size_t count)
{
    fake_add(driver, call,
             (struct fake_call){.kind = FAKE_READ,
                                .handle = buffer,
                                .offset = offset,
                                .count = count});
}

static void fake_op_copy(struct pod_driver *driver,
                         const struct pod_driver_call *call, uint64_t from,
                         uint64_t to)
{
    fake_add(driver, call,
             (struct fake_call){.kind = FAKE_COPY, .handle = to, .from = from});
}

static void fake_op_peer_copy(struct pod_driver *driver,
                              const struct pod_driver_call *call, uint32_t host,
                              uint64_t from, uint64_t to)
{
    fake_add(
        driver, call,
        (struct fake_call){
            .kind = FAKE_PEER_COPY, .handle = to, .from = from, .peer = host});
}

static void fake_op_compile(struct pod_driver *driver,
                            const struct pod_driver_call *call,
                            enum pod_program_format format,
                            struct pod_blob *program, uint32_t replicas)
{
    (void)format;
    (void)replicas;
    fake_add(driver, call,
             (struct fake_call){.kind = FAKE_COMPILE, .count = program->size});
}

static void fake_op_free_program(struct pod_driver *driver,
                                 const struct pod_driver_call *call,
                                 uint64_t program)
{
    fake_add(driver, call,
             (struct fake_call){.kind = FAKE_FREE_PROGRAM, .handle = program});
}

static void fake_op_load(struct pod_driver *driver,
                         const struct pod_driver_call *call, uint32_t core,
                         uint64_t program)
{
    fake_add(
        driver, call,
        (struct fake_call){.kind = FAKE_LOAD, .core = core, .handle = program});
}

static void fake_op_unload(struct pod_driver *driver,
                           const struct pod_driver_call *call, uint64_t load)
{
    fake_add(driver, call,
             (struct fake_call){.kind = FAKE_UNLOAD, .handle = load});
}

static void fake_op_execute(struct pod_driver *driver,
                            const struct pod_driver_call *call,
                            const struct pod_driver_execute *execute)
{
    fake_add(
        driver, call,
        (struct fake_call){.kind = FAKE_EXECUTE,
                           .handle = execute->launches[0].load,
                           .count = execute->launch_count,
                           .output_count = execute->launches[0].output_count});
}

static void fake_op_cancel(struct pod_driver *driver, uint64_t op)
{
    struct fake_driver *fake = fake_of(driver);

    pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; i < fake->open_count; i++) {
        if (fake->open[i].call.op == op)
            fake->open[i].call.cancelled = true;
    }
    pthread_mutex_unlock(&fake->lock);
}

static const struct pod_driver_ops fake_ops = {
    .open = fake_op_open,
    .close = fake_op_close,
    .free = fake_op_free,
    .reset = fake_op_reset,
    .reconnect = fake_op_reconnect,
    .allocate = fake_op_allocate,
    .allocate_tuple = fake_op_tuple,
    .deallocate = fake_op_deallocate,
    .write = fake_op_write,
    .read = fake_op_read,
    .copy = fake_op_copy,
    .copy_from_peer = fake_op_peer_copy,
    .compile = fake_op_compile,
    .free_program = fake_op_free_program,
    .load = fake_op_load,
    .unload = fake_op_unload,
    .execute = fake_op_execute,
    .cancel = fake_op_cancel,
};

struct pod_driver *fake_driver_new(uint32_t cores, uint64_t memory, int32_t x)
{
    struct fake_driver *fake = pod_calloc(1, sizeof(*fake));

    assert(fake != NULL && cores <= 64);
    fake->base.ops = &fake_ops;
    fake->cores = cores;
    fake->memory = memory;
    fake->x = x;
    pthread_mutex_init(&fake->lock, NULL);
    pthread_cond_init(&fake->came, NULL);
    fake_set_shape(&fake->base, "f32[2]", "f32[2]");
    return &fake->base;
}

// ----------------------------------------------------------------- the script

void fake_set_shape(struct pod_driver *driver, const char *parameter,
                    const char *result)
{
    struct fake_driver *fake = fake_of(driver);
    enum pod_code code;

    pod_shape_fini(&fake->parameter);
    pod_shape_fini(&fake->result);
    code =
        pod_shape_parse(parameter, strlen(parameter), &fake->parameter, NULL);
    assert(code == POD_OK);
    code = pod_shape_parse(result, strlen(result), &fake->result, NULL);
    assert(code == POD_OK);
    (void)code;
}

void fake_set_surplus(struct pod_driver *driver, int bytes)
{
    fake_of(driver)->surplus = bytes;
}

void fake_set_ends_well(struct pod_driver *driver)
{
    fake_of(driver)->ends_well = true;
}

void fake_set_features(struct pod_driver *driver, unsigned features)
{
    fake_of(driver)->features = features;
}

void fake_ready(struct pod_driver *driver)
{
    struct fake_driver *fake = fake_of(driver);
    struct pod_driver_core cores[64];
    struct pod_driver_chip chip = {.x = fake->x};
    struct pod_driver_info info = {
        .platform = "fake",
        .version = "1",
        .accepts = (1U << POD_FORMAT_COUNT) - 1,
        .features =
            POD_DRIVER_CANCEL | POD_DRIVER_FREE_PROGRAM | fake->features,
        .host_count = 1,
        .cores = cores,
        .core_count = fake->cores,
        .chips = &chip,
        .chip_count = 1,
    };

    for (uint32_t i = 0; i < fake->cores; i++)
        cores[i] = (struct pod_driver_core){.worker_core = i,
                                            .memory_bytes = fake->memory};
    fake->up = true;
    fake->observer.ready(fake->observer.arg, &info);
}

void fake_lose(struct pod_driver *driver, const char *why)
{
    struct fake_driver *fake = fake_of(driver);
    struct pod_driver_result result = {.lost = true};
    struct fake_entry entry;

    pod_err_set(&result.err, POD_REASON_HOST_LOST, "%s", why);
    fake->up = false;
    fake->observer.lost(fake->observer.arg, &result.err);
    while (fake_take(fake, 0, true, &entry))
        entry.to.done(entry.to.arg, &result);
}

void fake_beat(struct pod_driver *driver)
{
    const struct fake_driver *fake = fake_of(driver);

    fake->observer.heartbeat(fake->observer.arg, NULL);
}

size_t fake_open(struct pod_driver *driver)
{
    struct fake_driver *fake = fake_of(driver);

    pthread_mutex_lock(&fake->lock);
    size_t count = fake->open_count;
    pthread_mutex_unlock(&fake->lock);
    return count;
}

void fake_await_open(struct pod_driver *driver, size_t count)
{
    struct fake_driver *fake = fake_of(driver);

    pthread_mutex_lock(&fake->lock);
    while (fake->open_count < count)
        pthread_cond_wait(&fake->came, &fake->lock);
    assert(fake->open_count == count);
    pthread_mutex_unlock(&fake->lock);
}

bool fake_peek(struct pod_driver *driver, size_t index,
               struct fake_call *out_call)
{
    struct fake_driver *fake = fake_of(driver);

    pthread_mutex_lock(&fake->lock);
    bool found = index < fake->open_count;
    if (found)
        *out_call = fake->open[index].call;
    pthread_mutex_unlock(&fake->lock);
    return found;
}

bool fake_find(struct pod_driver *driver, enum fake_kind kind,
               struct fake_call *out_call)
{
    for (size_t i = 0; fake_peek(driver, i, out_call); i++) {
        if (out_call->kind == kind)
            return true;
    }
    return false;
}

size_t fake_count(struct pod_driver *driver, enum fake_kind kind)
{
    struct fake_driver *fake = fake_of(driver);

    pthread_mutex_lock(&fake->lock);
    size_t count = fake->counts[kind];
    pthread_mutex_unlock(&fake->lock);
    return count;
}

size_t fake_reconnects(struct pod_driver *driver)
{
    struct fake_driver *fake = fake_of(driver);

    pthread_mutex_lock(&fake->lock);
    size_t count = fake->reconnects;
    pthread_mutex_unlock(&fake->lock);
    return count;
}

void fake_start(struct pod_driver *driver, uint64_t op)
{
    struct fake_driver *fake = fake_of(driver);
    struct pod_driver_call to = {0};

    pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; i < fake->open_count; i++) {
        if (fake->open[i].call.op == op)
            to = fake->open[i].to;
    }
    pthread_mutex_unlock(&fake->lock);
    assert(to.started != NULL);
    to.started(to.arg);
}

static void fake_answer(struct fake_driver *fake, struct fake_entry *entry,
                        bool begun)
{
    struct pod_driver_result result = {.err = POD_ERR_NONE, .begun = begun};
    struct pod_program_shape shape = {
        .count = 1, .parameters = &fake->parameter, .result = fake->result};

    if (entry->call.kind == FAKE_COMPILE)
        result.shape = &shape;
    if (entry->call.kind == FAKE_READ) {
        entry->call.count += (size_t)fake->surplus; // may be less than 0
        result.data = pod_blob_new(entry->call.count);
        if (result.data == NULL)
            pod_err_set(&result.err, POD_REASON_OUT_OF_MEMORY, "no memory");
        // Each byte tells where it came from.
        for (size_t i = 0; result.data != NULL && i < entry->call.count; i++)
            result.data->data[i] =
                (unsigned char)(entry->call.offset + i + entry->call.handle);
    }
    entry->to.done(entry->to.arg, &result);
    pod_blob_unref(result.data);
}

static void fake_end(struct fake_driver *fake, uint64_t op, bool begun)
{
    struct fake_entry entry;
    bool found = fake_take(fake, op, false, &entry);

    assert(found);
    if (found)
        fake_answer(fake, &entry, begun);
}

void fake_done(struct pod_driver *driver, uint64_t op)
{
    fake_end(fake_of(driver), op, false);
}

void fake_start_done(struct pod_driver *driver, uint64_t op)
{
    fake_end(fake_of(driver), op, true);
}

static bool fake_is_plain(const struct fake_call *call)
{
    return call->kind != FAKE_READ && call->kind != FAKE_COMPILE;
}

static void fake_end_together(struct fake_driver *fake, const uint64_t *ops,
                              size_t count, bool begun)
{
    struct pod_driver_well calls[FAKE_MAX_TOGETHER];
    struct fake_entry entry;

    assert(count <= FAKE_MAX_TOGETHER);
    for (size_t i = 0; i < count; i++) {
        bool found = fake_take(fake, ops[i], false, &entry);
        assert(found && fake_is_plain(&entry.call));
        (void)found;
        calls[i] =
            (struct pod_driver_well){.arg = entry.to.arg, .begun = begun};
    }
    if (count > 0)
        fake->observer.done_well(fake->observer.arg, calls, count);
}

void fake_done_together(struct pod_driver *driver, const uint64_t *ops,
                        size_t count)
{
    fake_end_together(fake_of(driver), ops, count, false);
}

void fake_start_done_together(struct pod_driver *driver, const uint64_t *ops,
                              size_t count)
{
    fake_end_together(fake_of(driver), ops, count, true);
}

void fake_fail(struct pod_driver *driver, uint64_t op, enum pod_reason reason,
               const char *text)
{
    struct pod_driver_result result = {.from_worker = true};
    struct fake_entry entry;
    bool found = fake_take(fake_of(driver), op, false, &entry);

    assert(found);
    pod_err_set(&result.err, reason, "%s", text);
    if (found)
        entry.to.done(entry.to.arg, &result);
}

void fake_run(struct pod_driver *driver)
{
    struct fake_entry entry;

    while (fake_take(fake_of(driver), 0, true, &entry))
        fake_answer(fake_of(driver), &entry, false);
}

void fake_run_together(struct pod_driver *driver)
{
    struct fake_driver *fake = fake_of(driver);
    uint64_t ops[FAKE_MAX_TOGETHER];
    struct fake_call call;

    while (fake_peek(driver, 0, &call)) {
        size_t count = 0;
        while (count < FAKE_MAX_TOGETHER && fake_peek(driver, count, &call) &&
               fake_is_plain(&call))
            ops[count++] = call.op;
        if (count > 0)
            fake_end_together(fake, ops, count, true);
        else
            fake_end(fake, call.op, false);
    }
}
