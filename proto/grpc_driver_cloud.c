// SPDX-License-Identifier: Apache-2.0
// tpu_driver.CloudTpuDriver, the protocol of others' workers, from the client's
// side: how a session is opened, what the worker says of itself, its answers.
//
// It has no word for cancel, for freeing a program, for parts of a buffer or
// for a session's own reset (Reset throws every client out), and what a worker
// does with an operation whose dependency failed is not known. So nothing is
// sent before what it needs has been answered, unless its user trusts it to
// fail that too, and a reset closes the client and opens another.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/hlo/proto.h"
#include "core/hlo/text.h"
#include "proto/grpc_driver_internal.h"
#include "proto/shape_wire.h"

#include "tpu_service.pb-c.h"

enum {
    CLOUD_FIELD_ENTRY = 20,           // of StreamResponse
    CLOUD_MAX_CLIENT = (1 << 20) - 1, // more does not fit an id
    CLOUD_CLOSE_NS = 1000 * 1000 * 1000,
};

// Of a core whose worker does not say; it refuses what it has not.
static const uint64_t cloud_default_memory = UINT64_C(16) << 30;

// ----------------------------------------------------------------------- info

struct cloud_count {
    size_t cores;
    bool sound;
};

// Whether the worker says that it is a slice of its own.
static bool cloud_alone(const TpuDriver__SystemInfo *system)
{
    return !system->has_host_count || system->host_count <= 1 ||
           (system->has_core_count && system->core_count >= 0 &&
            (size_t)system->core_count == system->n_local_core);
}

static bool cloud_owns(const TpuDriver__SystemInfo *system,
                       const TpuDriver__TpuChipInfo *chip)
{
    return cloud_alone(system) || chip->host_id == system->host_id;
}

static struct cloud_count cloud_count(const TpuDriver__SystemInfo *system)
{
    struct cloud_count count = {.sound = system->host_id >= 0 &&
                                         system->host_count >= 0};

    for (size_t i = 0; i < system->n_tpu_chip; i++) {
        const TpuDriver__TpuChipInfo *chip = system->tpu_chip[i];
        for (size_t k = 0; k < chip->n_core; k++)
            count.sound = count.sound && chip->core[k]->id >= 0;
        if (cloud_owns(system, chip))
            count.cores += chip->n_core;
    }
    return count;
}

static uint64_t cloud_memory(const TpuDriver__TpuCoreInfo *core)
{
    if (core->has_hbm_bytes_allocatable && core->hbm_bytes_allocatable > 0)
        return (uint64_t)core->hbm_bytes_allocatable;
    if (core->has_hbm_bytes_available && core->hbm_bytes_available > 0)
        return (uint64_t)core->hbm_bytes_available;
    return cloud_default_memory;
}

static int cloud_by_core(const void *a, const void *b)
{
    const struct pod_driver_core *left = a;
    const struct pod_driver_core *right = b;

    return (left->worker_core > right->worker_core) -
           (left->worker_core < right->worker_core);
}

static void cloud_take_chips(const TpuDriver__SystemInfo *system,
                             struct gd_info *info)
{
    size_t used = 0;

    for (size_t i = 0; i < system->n_tpu_chip; i++) {
        const TpuDriver__TpuChipInfo *chip = system->tpu_chip[i];
        struct pod_driver_chip *to = &info->chips[i];
        bool own = cloud_owns(system, chip);
        if (chip->chip_coord != NULL) {
            to->x = chip->chip_coord->x;
            to->y = chip->chip_coord->y;
            to->z = chip->chip_coord->z;
        }
        to->host_id = own ? info->info.host_id : chip->host_id;
        for (size_t k = 0; own && k < chip->n_core; k++)
            info->cores[used++] = (struct pod_driver_core){
                .worker_core = (uint32_t)chip->core[k]->id,
                .chip = (uint32_t)i,
                .memory_bytes = cloud_memory(chip->core[k]),
            };
    }
    qsort(info->cores, used, sizeof(*info->cores), cloud_by_core);
}

static enum pod_code cloud_take_info(struct gd_link *link,
                                     const TpuDriver__SystemInfo *system,
                                     struct pod_err *err)
{
    struct cloud_count count = cloud_count(system);

    if (!count.sound || system->n_tpu_chip > UINT32_MAX)
        return pod_err_set(err, POD_REASON_WORKER_ERROR,
                           "its system info has impossible numbers");
    link->info = gd_info_new(count.cores, system->n_tpu_chip, "tpu_driver",
                             "CloudTpuDriver");
    if (link->info == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    struct pod_driver_info *info = &link->info->info;
    info->accepts = 1U << POD_FORMAT_HLO_TEXT | 1U << POD_FORMAT_HLO_PROTO;
    info->features = POD_DRIVER_WHOLE;
    if (gd_hub_trusts_order(link->driver->hub))
        info->features |= POD_DRIVER_WAITS;
    info->host_id = cloud_alone(system) ? 0 : system->host_id;
    info->host_count = cloud_alone(system) ? 1 : system->host_count;
    cloud_take_chips(system, link->info);
    return POD_OK;
}

// -------------------------------------------------------------------- opening

// A reply taken apart, or why not.
static enum pod_code cloud_reply(const struct gd_link *link,
                                 const ProtobufCMessageDescriptor *type,
                                 const struct rpc_reply *reply,
                                 ProtobufCMessage **out_message,
                                 struct pod_err *err)
{
    if (reply->code == POD_OK)
        return pod_wire_unpack(type, reply->data, reply->size, 0, out_message,
                               err);
    gd_link_explain(link, reply->code, reply->text, err);
    return err->code;
}

static bool cloud_is_present(const struct gd_link *link)
{
    return link->driver->link == link && link->driver->state == GD_CONNECTING;
}

static void cloud_on_info(void *arg, const struct rpc_reply *reply)
{
    struct gd_link *link = arg;
    struct gd *driver = link->driver;
    ProtobufCMessage *message = NULL;
    struct pod_err err;

    pod_mutex_lock(&driver->lock);
    if (cloud_is_present(link)) {
        enum pod_code code = cloud_reply(
            link, &tpu_driver__query_system_info_response__descriptor, reply,
            &message, &err);
        const TpuDriver__QuerySystemInfoResponse *response = (void *)message;
        if (code == POD_OK)
            code = cloud_take_info(link, response->system_info, &err);
        if (code == POD_OK)
            gd_arrived_locked(driver, link);
        else
            gd_lose_locked(driver, link, &err);
    }
    gd_link_settle_locked(link);
    pod_mutex_unlock(&driver->lock);
    pod_wire_free(message);
}

static enum pod_code
cloud_query(struct gd_link *link, int64_t timeout_ns, bool opens,
            void (*done)(void *arg, const struct rpc_reply *reply),
            struct pod_err *err)
{
    TpuDriver__QuerySystemInfoRequest request =
        TPU_DRIVER__QUERY_SYSTEM_INFO_REQUEST__INIT;
    struct gd_link_unary unary = {
        .method = "/tpu_driver.CloudTpuDriver/QuerySystemInfo",
        .timeout_ns = timeout_ns,
        .opens = opens,
        .done = done,
    };

    return gd_link_call_locked(link, &unary, pod_wire_pack(&request.base), err);
}

static enum pod_code cloud_take_client(struct gd_link *link,
                                       const TpuDriver__OpenResponse *response,
                                       struct pod_err *err)
{
    if (response->client_id == 0 || response->client_id > CLOUD_MAX_CLIENT)
        return pod_err_set(err, POD_REASON_WORKER_ERROR,
                           "it gave the client id %u, which does not fit "
                           "the protocol's operation ids",
                           response->client_id);
    link->session = response->client_id;
    return cloud_query(link, link->driver->times.connect_ns, true,
                       cloud_on_info, err);
}

static void cloud_on_open(void *arg, const struct rpc_reply *reply)
{
    struct gd_link *link = arg;
    struct gd *driver = link->driver;
    ProtobufCMessage *message = NULL;
    struct pod_err err;

    pod_mutex_lock(&driver->lock);
    if (cloud_is_present(link)) {
        enum pod_code code =
            cloud_reply(link, &tpu_driver__open_response__descriptor, reply,
                        &message, &err);
        if (code == POD_OK)
            code = cloud_take_client(link, (void *)message, &err);
        if (code != POD_OK)
            gd_lose_locked(driver, link, &err);
    }
    gd_link_settle_locked(link);
    pod_mutex_unlock(&driver->lock);
    pod_wire_free(message);
}

enum pod_code gd_cloud_begin_locked(struct gd_link *link, struct pod_err *err)
{
    TpuDriver__OpenRequest request = TPU_DRIVER__OPEN_REQUEST__INIT;
    struct gd_link_unary unary = {
        .method = "/tpu_driver.CloudTpuDriver/Open",
        .timeout_ns = link->driver->times.connect_ns,
        .opens = true,
        .done = cloud_on_open,
    };

    link->dialect = &gd_cloud_dialect;
    enum pod_code code = gd_link_channel_locked(link, GD_CLOUD_MESSAGE, err);
    if (code != POD_OK)
        return code;
    return gd_link_call_locked(link, &unary, pod_wire_pack(&request.base), err);
}

// --------------------------------------------------------- alive, and the end

static void cloud_on_beat(void *arg, const struct rpc_reply *reply)
{
    struct gd_link *link = arg;

    pod_mutex_lock(&link->driver->lock);
    gd_link_beaten_locked(link, reply);
    gd_link_settle_locked(link);
    pod_mutex_unlock(&link->driver->lock);
}

static enum pod_code cloud_beat(struct gd_link *link, struct pod_err *err)
{
    return cloud_query(link, link->driver->times.silence_ns, false,
                       cloud_on_beat, err);
}

static void cloud_on_closed(void *arg, const struct rpc_reply *reply)
{
    struct gd_link *link = arg;

    (void)reply;
    pod_mutex_lock(&link->driver->lock);
    gd_link_settle_locked(link);
    pod_mutex_unlock(&link->driver->lock);
}

// Asks the worker to free what the client has there. If the worker does not get
// this, it will free it when the client has been idle for long.
static void cloud_leave(struct gd_link *link)
{
    TpuDriver__CloseRequest request = TPU_DRIVER__CLOSE_REQUEST__INIT;
    struct gd_link_unary unary = {
        .method = "/tpu_driver.CloudTpuDriver/Close",
        .timeout_ns = CLOUD_CLOSE_NS,
        .done = cloud_on_closed,
    };
    struct pod_err err;

    if (link->session == 0)
        return;
    request.client_id = (uint32_t)link->session;
    if (gd_link_call_locked(link, &unary, pod_wire_pack(&request.base), &err) !=
        POD_OK)
        link->session = 0;
}

// -------------------------------------------------------------------- answers

static void cloud_status(const TpuDriver__StatusMessage *status,
                         struct pod_err *out_err)
{
    char text[POD_ERR_TEXT_BYTES];
    enum pod_reason reason = POD_REASON_WORKER_ERROR;

    *out_err = POD_ERR_NONE;
    if (status->code == 0)
        return;
    enum pod_code code = status->code > 0 && status->code <= POD_UNAUTHENTICATED
                             ? (enum pod_code)status->code
                             : POD_UNKNOWN;
    if (code == POD_RESOURCE_EXHAUSTED)
        reason = POD_REASON_RESOURCE_EXHAUSTED;
    if (code == POD_UNIMPLEMENTED)
        reason = POD_REASON_UNIMPLEMENTED;
    gd_clean_text(status->message == NULL ? "" : status->message, text,
                  sizeof(text));
    pod_err_set_code(out_err, code, reason, "%s", text);
}

// One entry; takes the message over.
static void cloud_take_entry(struct gd_link *link, ProtobufCMessage *message,
                             struct gd_together *together)
{
    const TpuDriver__StreamResponse__Entry *from = (void *)message;
    uint64_t id = (uint64_t)from->operation_id;
    struct gd_outcome outcome = {
        .wire = id & GD_WIRE_MASK, .done = true, .whole = true};
    struct pod_program_shape shape;

    if (id >> GD_WIRE_BITS != link->session) {
        pod_wire_free(message);
        return;
    }
    cloud_status(from->status, &outcome.err);
    if (from->response_case ==
        TPU_DRIVER__STREAM_RESPONSE__ENTRY__RESPONSE_COMPILE) {
        const ProtobufCBinaryData *bytes =
            &from->compile->metadata->program_shape;
        if (pod_program_shape_wire_parse(bytes->data, bytes->len, &shape,
                                         &outcome.err) == POD_OK)
            outcome.shape = &shape;
    }
    if (from->response_case ==
        TPU_DRIVER__STREAM_RESPONSE__ENTRY__RESPONSE_TRANSFER_FROM) {
        outcome.data = pod_wire_blob(message, from->transfer_from->data);
        if (outcome.data == NULL)
            pod_err_set(&outcome.err, POD_REASON_OUT_OF_MEMORY, "no memory");
    }
    if (outcome.data == NULL)
        pod_wire_free(message);
    gd_outcome(link, &outcome, together);
    if (outcome.shape != NULL)
        pod_program_shape_fini(&shape);
    pod_blob_unref(outcome.data);
}

static bool cloud_receive(struct gd_link *link, const void *data, size_t size,
                          struct gd_together *together, struct pod_err *err)
{
    struct pod_wire_field field;
    ProtobufCMessage *message;
    size_t cursor = 0;

    while (pod_wire_next(data, size, &cursor, &field)) {
        if (field.number != CLOUD_FIELD_ENTRY ||
            field.wire_type != POD_WIRE_BYTES)
            continue;
        if (pod_wire_unpack(&tpu_driver__stream_response__entry__descriptor,
                            field.data, field.size, 0, &message, err) != POD_OK)
            return false;
        cloud_take_entry(link, message, together);
    }
    if (cursor == size)
        return true;
    pod_err_set(
        err, POD_REASON_WORKER_ERROR,
        "the worker sent something that is not a message of its protocol");
    return false;
}

// ------------------------------------------------------------------- programs

struct pod_blob *gd_cloud_program(enum pod_program_format format,
                                  const struct pod_blob *program,
                                  struct pod_err *err)
{
    struct pod_hlo_module *module = NULL;
    unsigned char *bytes = NULL;
    size_t size = 0;
    enum pod_code code =
        format == POD_FORMAT_HLO_TEXT
            ? pod_hlo_parse_text((const char *)program->data, program->size,
                                 &module, err)
            : pod_hlo_parse_proto(program->data, program->size, &module, err);

    if (code != POD_OK)
        return NULL;
    code = pod_hlo_module_pack(module, false, &bytes, &size, err);
    pod_hlo_module_free(module);
    if (code != POD_OK)
        return NULL;
    struct pod_blob *blob = pod_blob_new(size);
    if (blob == NULL)
        pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    else
        memcpy(blob->data, bytes, size);
    pod_free(bytes);
    return blob;
}

const struct gd_dialect gd_cloud_dialect = {
    .name = "tpu_driver",
    .stream_method = "/tpu_driver.CloudTpuDriver/StreamExecute",
    .reopens = true,
    .encode = gd_cloud_encode,
    .beat = cloud_beat,
    .receive = cloud_receive,
    .leave = cloud_leave,
};
