// SPDX-License-Identifier: Apache-2.0
// pod.worker.v1, our own protocol, from the client's side.
#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/grpc_driver_internal.h"
#include "proto/shape_wire.h"

#include "pod_worker.pb-c.h"

enum {
    POD_WORKER_VERSION = 1,
    FIELD_OUTCOMES = 1,     // of SessionResponse
    FIELD_OUTCOME_DATA = 4, // of Outcome
};

// -------------------------------------------------------------------- opening

static void pw_take_chips(const Pod__Worker__V1__HelloResponse *hello,
                          struct gd_info *info)
{
    for (size_t i = 0; i < hello->n_chips; i++) {
        const Pod__Worker__V1__Chip *chip = hello->chips[i];
        info->chips[i] = (struct pod_driver_chip){
            .x = chip->x,
            .y = chip->y,
            .z = chip->z,
            .host_id = (int32_t)chip->host_id,
        };
    }
}

static struct gd_info *pw_info(const Pod__Worker__V1__HelloResponse *hello)
{
    char platform[256];
    char version[256];

    gd_clean_text(hello->platform, platform, sizeof(platform));
    gd_clean_text(hello->platform_version, version, sizeof(version));
    struct gd_info *info =
        gd_info_new(hello->n_cores, hello->n_chips, platform, version);
    if (info == NULL)
        return NULL;
    pw_take_chips(hello, info);
    for (size_t i = 0; i < hello->n_cores; i++)
        info->cores[i] = (struct pod_driver_core){
            .worker_core = hello->cores[i]->worker_core,
            .chip = hello->cores[i]->chip,
            .memory_bytes = hello->cores[i]->memory_bytes,
        };
    info->info.accepts = hello->accepts;
    info->info.host_id = (int32_t)hello->host_id;
    info->info.host_count = (int32_t)hello->host_count;
    info->info.worker = hello->incarnation;
    info->info.features = POD_DRIVER_WAITS | POD_DRIVER_ORDERS |
                          POD_DRIVER_CANCEL | POD_DRIVER_FREE_PROGRAM |
                          POD_DRIVER_PEER_COPY;
    return info;
}

static bool pw_numbers_fit(const Pod__Worker__V1__HelloResponse *hello)
{
    bool fit = hello->session != 0 && hello->host_id <= INT32_MAX &&
               hello->host_count <= INT32_MAX;

    for (size_t i = 0; i < hello->n_chips; i++)
        fit = fit && hello->chips[i]->host_id <= INT32_MAX;
    return fit;
}

static enum pod_code pw_hello_check(const Pod__Worker__V1__HelloResponse *hello,
                                    struct pod_err *err)
{
    if (hello->version != POD_WORKER_VERSION)
        return pod_err_set(err, POD_REASON_HOST_NOT_READY,
                           "wrong version: the worker speaks version %" PRIu32
                           " of its protocol, podd speaks %d",
                           hello->version, POD_WORKER_VERSION);
    if (!pw_numbers_fit(hello))
        return pod_err_set(err, POD_REASON_WORKER_ERROR,
                           "its greeting has impossible numbers");
    if (hello->chunk_bytes < GD_CHUNK_BYTES)
        return pod_err_set(err, POD_REASON_WORKER_ERROR,
                           "it takes %" PRIu32
                           " bytes in one piece where %d are needed",
                           hello->chunk_bytes, GD_CHUNK_BYTES);
    return POD_OK;
}

static enum pod_code pw_hello_take(struct gd_link *link,
                                   const struct rpc_reply *reply,
                                   struct pod_err *err)
{
    ProtobufCMessage *message = NULL;
    enum pod_code code =
        pod_wire_unpack(&pod__worker__v1__hello_response__descriptor,
                        reply->data, reply->size, 0, &message, err);

    if (code != POD_OK) {
        pod_err_wrap(err, "its greeting");
        return code;
    }
    const Pod__Worker__V1__HelloResponse *hello = (void *)message;
    code = pw_hello_check(hello, err);
    if (code == POD_OK) {
        link->session = hello->session;
        link->incarnation = hello->incarnation;
        link->info = pw_info(hello);
        if (link->info == NULL)
            code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    }
    pod_wire_free(message);
    return code;
}

static void pw_on_hello(void *arg, const struct rpc_reply *reply)
{
    struct gd_link *link = arg;
    struct gd *driver = link->driver;
    struct pod_err err = POD_ERR_NONE;
    enum pod_code code = POD_OK;

    pod_mutex_lock(&driver->lock);
    if (driver->link == link && driver->state == GD_CONNECTING) {
        if (reply->code == POD_UNIMPLEMENTED) {
            code = gd_cloud_begin_locked(link, &err);
        } else if (reply->code != POD_OK) {
            gd_link_explain(link, reply->code, reply->text, &err);
            code = err.code;
        } else {
            code = pw_hello_take(link, reply, &err);
            if (code == POD_OK)
                gd_arrived_locked(driver, link);
        }
        if (code != POD_OK)
            gd_lose_locked(driver, link, &err);
    }
    gd_link_settle_locked(link);
    pod_mutex_unlock(&driver->lock);
}

enum pod_code gd_pod_begin_locked(struct gd_link *link, struct pod_err *err)
{
    static char client[] = "podd " POD_VERSION;
    Pod__Worker__V1__HelloRequest hello;
    struct gd_link_unary unary = {
        .method = "/pod.worker.v1.PodWorker/Hello",
        .timeout_ns = link->driver->times.connect_ns,
        .opens = true,
        .done = pw_on_hello,
    };

    link->dialect = &gd_pod_dialect;
    pod__worker__v1__hello_request__init(&hello);
    hello.min_version = POD_WORKER_VERSION;
    hello.max_version = POD_WORKER_VERSION;
    hello.client = client;
    hello.replaces = link->driver->left_session;
    return gd_link_call_locked(link, &unary, pod_wire_pack(&hello.base), err);
}

static struct pod_wire_out *pw_greet(const struct gd_link *link,
                                     enum gd_stream stream)
{
    Pod__Worker__V1__SessionRequest request =
        POD__WORKER__V1__SESSION_REQUEST__INIT;

    request.session = link->session;
    request.role = stream == GD_CONTROL ? POD__WORKER__V1__ROLE__CONTROL
                                        : POD__WORKER__V1__ROLE__DATA;
    request.joins = true;
    return pod_wire_pack(&request.base);
}

// ----------------------------------------------------------------- heartbeats

// What its cores do, by our numbers; NULL: no memory.
static struct pod_driver_load *
pw_load_locked(const struct gd *driver,
               const Pod__Worker__V1__HeartbeatResponse *beat)
{
    struct pod_driver_core_load *cores = NULL;
    size_t bytes = beat->n_cores * sizeof(*cores);
    struct pod_driver_load *load = pod_calloc(1, sizeof(*load) + bytes);

    if (load == NULL)
        return NULL;
    cores = (struct pod_driver_core_load *)(load + 1);
    for (size_t i = 0; i < beat->n_cores; i++) {
        const Pod__Worker__V1__CoreLoad *from = beat->cores[i];
        const struct gd_item *item =
            from->running == 0 ? NULL
                               : pod_map_get(&driver->by_wire, from->running);
        cores[i] = (struct pod_driver_core_load){
            .memory_used = from->memory_used,
            .queued = from->queued,
            .busy = from->busy,
            .running = item == NULL ? 0 : item->call.op,
        };
    }
    load->open_operations = beat->open_operations;
    load->cores = cores;
    load->core_count = beat->n_cores;
    return load;
}

// A worker tells of as many cores as it has.
static void pw_take_load_locked(struct gd_link *link,
                                const Pod__Worker__V1__HeartbeatResponse *beat)
{
    struct gd *driver = link->driver;

    if (driver->link != link || link->info == NULL ||
        beat->n_cores != link->info->info.core_count)
        return;
    pod_free(driver->load);
    driver->load = pw_load_locked(driver, beat);
}

static void pw_on_beat(void *arg, const struct rpc_reply *reply)
{
    struct gd_link *link = arg;
    struct gd *driver = link->driver;
    struct rpc_reply seen = *reply;
    ProtobufCMessage *message = NULL;
    struct pod_err err;

    if (reply->code == POD_OK &&
        pod_wire_unpack(&pod__worker__v1__heartbeat_response__descriptor,
                        reply->data, reply->size, 0, &message,
                        &err) != POD_OK) {
        seen.code = err.code;
        seen.text = err.text;
    }
    const Pod__Worker__V1__HeartbeatResponse *beat = (void *)message;
    if (beat != NULL && beat->incarnation != link->incarnation) {
        seen.code = POD_ABORTED;
        seen.text = "the worker was started anew";
    }
    pod_mutex_lock(&driver->lock);
    if (beat != NULL && seen.code == POD_OK)
        pw_take_load_locked(link, beat);
    gd_link_beaten_locked(link, &seen);
    gd_link_settle_locked(link);
    pod_mutex_unlock(&driver->lock);
    pod_wire_free(message);
}

static enum pod_code pw_beat(struct gd_link *link, struct pod_err *err)
{
    Pod__Worker__V1__HeartbeatRequest request =
        POD__WORKER__V1__HEARTBEAT_REQUEST__INIT;
    struct gd_link_unary unary = {
        .method = "/pod.worker.v1.PodWorker/Heartbeat",
        .timeout_ns = link->driver->times.silence_ns,
        .done = pw_on_beat,
    };

    request.session = link->session;
    return gd_link_call_locked(link, &unary, pod_wire_pack(&request.base), err);
}

static struct pod_wire_out *pw_forget(uint64_t below)
{
    Pod__Worker__V1__SessionRequest request =
        POD__WORKER__V1__SESSION_REQUEST__INIT;

    request.forget_below = below;
    return pod_wire_pack(&request.base);
}

// -------------------------------------------------------------------- answers

static enum pod_reason pw_reason_of(const char *name)
{
    for (int i = POD_REASON_NONE + 1; i < POD_REASON_COUNT; i++) {
        if (strcmp(pod_reason_name((enum pod_reason)i), name) == 0)
            return (enum pod_reason)i;
    }
    return POD_REASON_WORKER_ERROR;
}

static void pw_status(const Pod__Worker__V1__Status *status,
                      struct pod_err *out_err)
{
    char text[POD_ERR_TEXT_BYTES];

    *out_err = POD_ERR_NONE;
    if (status == NULL || status->code == 0)
        return;
    gd_clean_text(status->message, text, sizeof(text));
    enum pod_code code = status->code <= POD_UNAUTHENTICATED
                             ? (enum pod_code)status->code
                             : POD_UNKNOWN;
    pod_err_set_code(out_err, code, pw_reason_of(status->reason), "%s", text);
    if (status->line > INT32_MAX || status->column > INT32_MAX)
        return;
    out_err->line = (int)status->line;
    out_err->column = (int)status->column;
}

// The bytes of a read; much of it stays in the stream's message.
static struct pod_blob *pw_take_data(struct gd_link *link,
                                     const Pod__Worker__V1__Outcome *from,
                                     const struct pod_wire_bulk *left)
{
    if (left->data != NULL)
        return rpc_stream_keep(link->streams[GD_DATA], left->data, left->size);
    struct pod_blob *blob = pod_blob_new(from->data.len);
    if (blob != NULL)
        memcpy(blob->data, from->data.data, from->data.len);
    return blob;
}

static void pw_take_outcome(struct gd_link *link,
                            const Pod__Worker__V1__Outcome *from,
                            const struct pod_wire_bulk *left,
                            struct gd_together *together)
{
    struct gd_outcome outcome = {.wire = from->op,
                                 .started = from->started,
                                 .done =
                                     !from->started || from->status != NULL};
    struct pod_program_shape shape;

    pw_status(from->status, &outcome.err);
    if (from->program_shape.len > 0) {
        if (pod_program_shape_wire_parse(from->program_shape.data,
                                         from->program_shape.len, &shape,
                                         &outcome.err) == POD_OK)
            outcome.shape = &shape;
    }
    if (left->data != NULL || from->data.len > 0) {
        outcome.data = pw_take_data(link, from, left);
        if (outcome.data == NULL)
            pod_err_set(&outcome.err, POD_REASON_OUT_OF_MEMORY, "no memory");
    }
    gd_outcome(link, &outcome, together);
    if (outcome.shape != NULL)
        pod_program_shape_fini(&shape);
    pod_blob_unref(outcome.data);
}

static bool pw_receive(struct gd_link *link, const void *data, size_t size,
                       struct gd_together *together, struct pod_err *err)
{
    static const struct wire_lean_path path = {.numbers = {FIELD_OUTCOME_DATA},
                                               .depth = 1};
    struct pod_wire_field field;
    struct pod_wire_bulk left;
    ProtobufCMessage *message;
    size_t cursor = 0;

    while (pod_wire_next(data, size, &cursor, &field)) {
        if (field.number != FIELD_OUTCOMES || field.wire_type != POD_WIRE_BYTES)
            continue;
        if (pod_wire_unpack_but(&pod__worker__v1__outcome__descriptor, &path,
                                field.data, field.size, &message, &left,
                                err) != POD_OK)
            return false;
        pw_take_outcome(link, (const Pod__Worker__V1__Outcome *)message, &left,
                        together);
        pod_wire_free(message);
    }
    if (cursor == size)
        return true;
    pod_err_set(
        err, POD_REASON_WORKER_ERROR,
        "the worker sent something that is not a message of its protocol");
    return false;
}

const struct gd_dialect gd_pod_dialect = {
    .name = "pod.worker.v1",
    .stream_method = "/pod.worker.v1.PodWorker/Session",
    .says_ids = true,
    .data_apart = true,
    .encode = gd_entry_encode,
    .greet = pw_greet,
    .beat = pw_beat,
    .receive = pw_receive,
    .cancel = gd_entry_cancel,
    .forget = pw_forget,
};
