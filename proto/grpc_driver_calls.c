// SPDX-License-Identifier: Apache-2.0
// The driver's calls become requests. Each ends in one of three ways: it is
// sent, and answered by the worker or by a loss; or it is refused here, and the
// control thread says so.
#include <inttypes.h>

#include "core/base/mem.h"
#include "proto/grpc_driver_internal.h"

// ------------------------------------------------------------------- refusals

// A record for a refusal. With no memory there are spare ones, which come back
// as they are answered; the control thread must not wait for itself.
static struct gd_refusal *calls_refusal_locked(struct gd *driver)
{
    struct gd_refusal *refusal = pod_calloc(1, sizeof(*refusal));

    while (refusal == NULL) {
        struct pod_list *item = pod_list_pop_front(&driver->spares);
        if (item != NULL)
            refusal = POD_CONTAINER(item, struct gd_refusal, link);
        else if (pthread_equal(pthread_self(), driver->thread))
            gd_refused_answer_locked(driver);
        else
            pod_cond_wait(&driver->wake, &driver->lock);
    }
    return refusal;
}

static void calls_refuse_locked(struct gd *driver,
                                const struct pod_driver_call *call, bool lost,
                                const struct pod_err *err)
{
    if (!lost) // before the lock is given up
        gd_failed_note_locked(driver, call->op);
    struct gd_refusal *refusal = calls_refusal_locked(driver);

    refusal->call = *call;
    refusal->err = *err;
    refusal->lost = lost;
    pod_list_push_back(&driver->refused, &refusal->link);
    pod_cond_broadcast(&driver->wake);
}

void gd_refused_answer_locked(struct gd *driver)
{
    struct pod_list *item = pod_list_pop_front(&driver->refused);
    struct pod_driver_result result = {.lost = false};

    if (item == NULL)
        return;
    struct gd_refusal *refusal = POD_CONTAINER(item, struct gd_refusal, link);
    struct pod_driver_call call = refusal->call;
    result.lost = refusal->lost;
    result.err = refusal->err;
    if (refusal->spare) {
        pod_list_push_back(&driver->spares, &refusal->link);
        pod_cond_broadcast(&driver->wake);
    } else {
        pod_free(refusal);
    }
    pod_mutex_unlock(&driver->lock);
    call.done(call.arg, &result);
    pod_mutex_lock(&driver->lock);
}

// -------------------------------------------------------------------- handles

uint64_t gd_handle_locked(struct gd *driver, uint64_t handle,
                          struct pod_err *err)
{
    const struct gd_item *item = pod_map_get(&driver->by_op, handle);

    if (item != NULL)
        return item->wire;
    pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                "host %" PRIu32 " does not have what op-%" PRIu64 " made",
                driver->host, handle);
    return 0;
}

uint64_t gd_wait_locked(const struct gd *driver, uint64_t op)
{
    const struct gd_item *item = pod_map_get(&driver->by_op, op);

    return item != NULL && (item->open || item->failed) ? item->wire : 0;
}

uint64_t gd_order_locked(const struct gd *driver, uint64_t op)
{
    const struct gd_item *item = pod_map_get(&driver->by_op, op);

    return item != NULL && item->open ? item->wire : 0;
}

// -------------------------------------------------------------------- sending

static struct gd_item *calls_item_new(const struct pod_driver_call *call,
                                      const struct gd_request *request)
{
    struct gd_item *item = pod_calloc(1, sizeof(*item));

    if (item == NULL)
        return NULL;
    pod_list_init(&item->link);
    item->call = *call;
    item->kind = request->kind;
    item->bytes = request->bytes;
    item->offset = request->offset;
    item->count = request->count;
    if (request->kind == GD_DEALLOCATE || request->kind == GD_UNLOAD ||
        request->kind == GD_FREE_PROGRAM)
        item->ends = request->handle;
    return item;
}

enum gd_stream gd_request_stream(const struct gd_request *request)
{
    size_t bytes = request->data != NULL ? request->data->size : request->count;

    if (request->kind == GD_WRITE)
        bytes = request->count;
    return bytes > GD_SMALL_BYTES ? GD_DATA : GD_CONTROL;
}

static void calls_forget_failed_locked(struct gd *driver, uint64_t op)
{
    struct gd_item *item = pod_map_get(&driver->by_op, op);

    if (item == NULL || !item->failed)
        return;
    (void)pod_map_remove(&driver->by_op, op);
    pod_list_remove(&item->link);
    driver->failed_count--;
    gd_item_free_locked(driver, item);
}

static bool calls_number_locked(struct gd *driver, struct gd_item *item)
{
    uint32_t parts = item->parts == 0 ? 1 : item->parts;

    for (uint32_t i = 0; i < parts; i++) {
        if (!pod_map_put(&driver->by_wire, item->wire + i, item))
            return false;
    }
    driver->last_wire = item->wire + parts - 1;
    return true;
}

static bool calls_enter_locked(struct gd *driver, struct gd_item *item)
{
    calls_forget_failed_locked(driver, item->call.op);
    if (!pod_map_put(&driver->by_op, item->call.op, item))
        return false;
    if (!calls_number_locked(driver, item)) {
        (void)pod_map_remove(&driver->by_op, item->call.op);
        return false;
    }
    item->open = true;
    pod_list_push_back(&driver->open, &item->link);
    return true;
}

// One reset at a time is all that the engine asks for.
static bool calls_reopen_locked(struct gd *driver, struct gd_item *item,
                                struct pod_err *err)
{
    if (driver->reset != NULL) {
        pod_err_set(err, POD_REASON_IN_USE, "host %" PRIu32 " is being reset",
                    driver->host);
        return false;
    }
    driver->reset = item;
    pod_cond_broadcast(&driver->wake);
    return true;
}

// What comes next on the stream may refer to this trace.
static void calls_told_locked(struct gd_link *link, enum gd_stream stream,
                              struct pod_trace *trace)
{
    if (trace == NULL || link->told[stream] == trace)
        return;
    pod_trace_unref(link->told[stream]);
    link->told[stream] = pod_trace_ref(trace);
}

static bool calls_send_locked(struct gd *driver, struct gd_item *item,
                              const struct gd_request *request,
                              struct pod_err *err)
{
    struct gd_link *link = driver->link;
    enum gd_stream stream = gd_request_stream(request);

    if (item->kind == GD_RESET && link->dialect->reopens)
        return calls_reopen_locked(driver, item, err);
    if (gd_failed_check_locked(driver, &item->call, err) != POD_OK)
        return false;
    item->wire = driver->last_wire + 1;
    struct pod_wire_out *out =
        link->dialect->encode(driver, item, request, err);
    if (out == NULL)
        return false;
    if (!calls_enter_locked(driver, item)) {
        pod_wire_out_free(out);
        pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
        return false;
    }
    rpc_stream_send(link->streams[stream], out);
    calls_told_locked(link, stream, item->call.trace);
    // What the callers lend to us ends with the call.
    item->call.trace = NULL;
    item->call.waits = NULL;
    item->call.wait_count = 0;
    item->call.orders = NULL;
    item->call.order_count = 0;
    return true;
}

// Why it is not connected, as results of a loss say it.
static void calls_say_lost_locked(const struct gd *driver,
                                  struct pod_err *out_err)
{
    if (driver->state == GD_LOST)
        *out_err = driver->why;
    else if (driver->lost_told)
        *out_err = driver->told;
    else
        pod_err_set(out_err, POD_REASON_HOST_LOST,
                    "it is not connected again yet");
}

static void calls_submit(struct pod_driver *base,
                         const struct pod_driver_call *call,
                         const struct gd_request *request)
{
    struct gd *driver = gd_of(base);
    struct gd_item *item = calls_item_new(call, request);
    struct pod_err err = POD_ERR_NONE;
    bool sent = false;

    pod_mutex_lock(&driver->lock);
    bool lost = driver->state != GD_OPEN;
    if (lost)
        calls_say_lost_locked(driver, &err);
    else if (item == NULL)
        pod_err_set(&err, POD_REASON_OUT_OF_MEMORY, "no memory");
    else
        sent = calls_send_locked(driver, item, request, &err);
    if (!sent) {
        calls_refuse_locked(driver, call, lost, &err);
        gd_item_free_locked(driver, item);
    }
    pod_mutex_unlock(&driver->lock);
}

// ------------------------------------------------------------------ the calls

void gd_call_allocate(struct pod_driver *base,
                      const struct pod_driver_call *call, uint32_t core,
                      const struct pod_shape *shape, uint64_t bytes)
{
    struct gd_request request = {
        .kind = GD_ALLOCATE,
        .core = core,
        .shape = shape,
        .bytes = shape == NULL ? bytes : (uint64_t)pod_shape_bytes(shape),
    };

    calls_submit(base, call, &request);
}

void gd_call_allocate_tuple(struct pod_driver *base,
                            const struct pod_driver_call *call, uint32_t core,
                            const uint64_t *children, size_t child_count)
{
    struct gd_request request = {
        .kind = GD_TUPLE,
        .core = core,
        .children = children,
        .child_count = child_count,
    };

    calls_submit(base, call, &request);
}

static void calls_on_handle(struct pod_driver *base,
                            const struct pod_driver_call *call,
                            enum gd_kind kind, uint64_t handle)
{
    struct gd_request request = {.kind = kind, .handle = handle};

    calls_submit(base, call, &request);
}

void gd_call_deallocate(struct pod_driver *base,
                        const struct pod_driver_call *call, uint64_t buffer)
{
    calls_on_handle(base, call, GD_DEALLOCATE, buffer);
}

void gd_call_free_program(struct pod_driver *base,
                          const struct pod_driver_call *call, uint64_t program)
{
    calls_on_handle(base, call, GD_FREE_PROGRAM, program);
}

void gd_call_unload(struct pod_driver *base, const struct pod_driver_call *call,
                    uint64_t load)
{
    calls_on_handle(base, call, GD_UNLOAD, load);
}

void gd_call_write(struct pod_driver *base, const struct pod_driver_call *call,
                   uint64_t buffer, uint64_t offset, struct pod_blob *data,
                   size_t data_offset, size_t count)
{
    struct gd_request request = {
        .kind = GD_WRITE,
        .handle = buffer,
        .data = data,
        .data_offset = data_offset,
        .offset = offset,
        .count = count,
    };

    calls_submit(base, call, &request);
}

void gd_call_read(struct pod_driver *base, const struct pod_driver_call *call,
                  uint64_t buffer, uint64_t offset, size_t count)
{
    struct gd_request request = {
        .kind = GD_READ,
        .handle = buffer,
        .offset = offset,
        .count = count,
    };

    calls_submit(base, call, &request);
}

void gd_call_copy(struct pod_driver *base, const struct pod_driver_call *call,
                  uint64_t from, uint64_t to)
{
    struct gd_request request = {.kind = GD_COPY, .handle = to, .from = from};

    calls_submit(base, call, &request);
}

// The number that the source bears in its own session. Drivers' locks are not
// nested: between this and the sending the source may be lost, then the worker
// finds no such session.
static void calls_find_peer(struct gd *driver, uint32_t host, uint64_t from,
                            struct gd_request *request)
{
    struct gd *peer = gd_hub_hold(driver->hub, host);
    struct pod_err err;

    if (peer == NULL)
        return;
    pod_mutex_lock(&peer->lock);
    if (peer->state == GD_OPEN) {
        request->peer_address = gd_hub_address(driver->hub, host);
        request->peer_session = peer->link->session;
        request->peer_wire = gd_handle_locked(peer, from, &err);
    }
    pod_mutex_unlock(&peer->lock);
    gd_hub_let_go(driver->hub, host);
}

void gd_call_copy_from_peer(struct pod_driver *base,
                            const struct pod_driver_call *call, uint32_t host,
                            uint64_t from, uint64_t to)
{
    struct gd_request request = {.kind = GD_PEER_COPY, .handle = to};

    calls_find_peer(gd_of(base), host, from, &request);
    calls_submit(base, call, &request);
}

static void calls_refuse(struct pod_driver *base,
                         const struct pod_driver_call *call,
                         const struct pod_err *err)
{
    struct gd *driver = gd_of(base);

    pod_mutex_lock(&driver->lock);
    calls_refuse_locked(driver, call, false, err);
    pod_mutex_unlock(&driver->lock);
}

static bool calls_wants_proto(struct gd *driver)
{
    pod_mutex_lock(&driver->lock);
    bool wants =
        driver->state == GD_OPEN && driver->link->dialect == &gd_cloud_dialect;
    pod_mutex_unlock(&driver->lock);
    return wants;
}

void gd_call_compile(struct pod_driver *base,
                     const struct pod_driver_call *call,
                     enum pod_program_format format, struct pod_blob *program,
                     uint32_t replicas)
{
    struct gd_request request = {
        .kind = GD_COMPILE,
        .format = format,
        .data = program,
        .replicas = replicas,
    };
    struct pod_blob *proto = NULL;
    struct pod_err err;

    if (calls_wants_proto(gd_of(base))) {
        proto = gd_cloud_program(format, program, &err);
        if (proto == NULL) {
            calls_refuse(base, call, &err);
            return;
        }
        request.format = POD_FORMAT_HLO_PROTO;
        request.data = proto;
    }
    calls_submit(base, call, &request);
    pod_blob_unref(proto);
}

void gd_call_load(struct pod_driver *base, const struct pod_driver_call *call,
                  uint32_t core, uint64_t program)
{
    struct gd_request request = {
        .kind = GD_LOAD, .core = core, .handle = program};

    calls_submit(base, call, &request);
}

void gd_call_execute(struct pod_driver *base,
                     const struct pod_driver_call *call,
                     const struct pod_driver_execute *execute)
{
    struct gd_request request = {.kind = GD_EXECUTE, .execute = execute};

    calls_submit(base, call, &request);
}

void gd_call_reset(struct pod_driver *base, const struct pod_driver_call *call)
{
    struct gd_request request = {.kind = GD_RESET};

    calls_submit(base, call, &request);
}

void gd_call_cancel(struct pod_driver *base, uint64_t op)
{
    struct gd *driver = gd_of(base);

    pod_mutex_lock(&driver->lock);
    const struct gd_item *item = pod_map_get(&driver->by_op, op);
    if (driver->state == GD_OPEN && item != NULL && item->open &&
        driver->link->dialect->cancel != NULL) {
        rpc_stream_send(
            driver->link->streams[GD_CONTROL],
            driver->link->dialect->cancel(item->wire, ++driver->last_wire));
    }
    pod_mutex_unlock(&driver->lock);
}
