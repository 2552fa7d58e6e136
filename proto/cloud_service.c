// SPDX-License-Identifier: Apache-2.0
#include "proto/cloud_service.h"

#include "core/base/mem.h"
#include "proto/cloud_internal.h"

enum {
    CLOUD_ENTRY_FIELD = 30, // of StreamRequest
    CLOUD_BATCH_BYTES = 4 << 20,
    CLOUD_ATTEMPTS = 1000, // at a client id that is free
};

// ---------------------------------------------------------------- open, close

static uint32_t cloud_next_client(struct cloud_service *service)
{
    pod_mutex_lock(&service->lock);
    uint32_t client = service->next_client;
    service->next_client = client == CLOUD_MAX_CLIENT ? 1 : client + 1;
    pod_mutex_unlock(&service->lock);
    return client;
}

// Ids go round, so one comes again after a million clients at the earliest.
static enum pod_code cloud_open_session(struct cloud_service *service,
                                        uint32_t *out_client,
                                        struct pod_err *err)
{
    enum pod_code code = POD_ALREADY_EXISTS;
    for (int i = 0; i < CLOUD_ATTEMPTS && code == POD_ALREADY_EXISTS; i++) {
        *out_client = cloud_next_client(service);
        code = worker_open(service->worker, *out_client,
                           service->idle_seconds * POD_NS_PER_S, err);
    }
    return code;
}

static void cloud_open(void *arg, struct rpc_request *request, const void *data,
                       size_t size)
{
    struct cloud_service *service = arg;
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    TpuDriver__OpenResponse response = TPU_DRIVER__OPEN_RESPONSE__INIT;
    enum pod_code code = pod_wire_unpack(&tpu_driver__open_request__descriptor,
                                         data, size, 0, &message, &err);
    pod_wire_free(message);
    if (code == POD_OK)
        code = cloud_open_session(service, &response.client_id, &err);
    if (code != POD_OK) {
        rpc_request_fail(request, code, err.text);
        return;
    }
    response.has_max_idle_time_seconds = 1;
    response.max_idle_time_seconds = (int32_t)service->idle_seconds;
    worker_log_client(response.client_id, rpc_request_peer(request), "OPENED");
    rpc_request_reply(request, pod_wire_pack(&response.base));
}

// A client that Reset has ended already is closed with success.
static void cloud_close(void *arg, struct rpc_request *request,
                        const void *data, size_t size)
{
    struct cloud_service *service = arg;
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    TpuDriver__CloseResponse response = TPU_DRIVER__CLOSE_RESPONSE__INIT;
    if (pod_wire_unpack(&tpu_driver__close_request__descriptor, data, size, 0,
                        &message, &err) != POD_OK) {
        rpc_request_fail(request, err.code, err.text);
        return;
    }
    uint32_t client = ((TpuDriver__CloseRequest *)message)->client_id;
    pod_wire_free(message);
    struct worker_session *session = worker_find(service->worker, client);
    if (session != NULL) {
        worker_close(session, "the client was closed", NULL, NULL);
        answers_end_session(&service->streams, session);
        worker_session_unref(session);
    }
    rpc_request_reply(request, pod_wire_pack(&response.base));
}

// ---------------------------------------------------------------------- reset

struct cloud_reset {
    struct rpc_request *request;
    atomic_size_t left; // sessions that have not ended, and the caller
};

static void cloud_reset_one(void *arg)
{
    struct cloud_reset *reset = arg;
    TpuDriver__ResetResponse response = TPU_DRIVER__RESET_RESPONSE__INIT;
    if (atomic_fetch_sub(&reset->left, 1) != 1)
        return;
    rpc_request_reply(reset->request, pod_wire_pack(&response.base));
    pod_free(reset);
}

static void cloud_reset_all(struct cloud_service *service,
                            struct cloud_reset *reset, const uint64_t *ids,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct worker_session *session =
            ids[i] <= CLOUD_MAX_CLIENT ? worker_find(service->worker, ids[i])
                                       : NULL;
        if (session == NULL)
            continue;
        atomic_fetch_add(&reset->left, 1);
        worker_close(session, "the driver was reset", cloud_reset_one, reset);
        answers_end_session(&service->streams, session);
        worker_session_unref(session);
    }
}

static void cloud_reset(void *arg, struct rpc_request *request,
                        const void *data, size_t size)
{
    struct cloud_service *service = arg;
    struct pod_err err = POD_ERR_NONE;
    struct cloud_reset *reset = pod_calloc(1, sizeof(*reset));
    uint64_t *ids = NULL;
    size_t count = 0;
    (void)data; // the request has no fields
    (void)size;
    if (reset == NULL ||
        worker_list(service->worker, &ids, &count, &err) != POD_OK) {
        pod_free(reset);
        rpc_request_fail(request, POD_RESOURCE_EXHAUSTED, "no memory");
        return;
    }
    worker_log_client(0, rpc_request_peer(request), "RESET");
    reset->request = request;
    atomic_init(&reset->left, 1);
    cloud_reset_all(service, reset, ids, count);
    pod_free(ids);
    cloud_reset_one(reset);
}

static void cloud_query(void *arg, struct rpc_request *request,
                        const void *data, size_t size)
{
    (void)data; // the request has no fields
    (void)size;
    rpc_request_reply(request, cloud_pack_info(arg));
}

// -------------------------------------------------------------------- streams

static enum pod_code cloud_field(struct answers *answers,
                                 const struct pod_wire_field *field,
                                 struct pod_err *err)
{
    if (field->number != CLOUD_ENTRY_FIELD ||
        field->wire_type != POD_WIRE_BYTES)
        return POD_OK;
    return cloud_entry(answers->service, answers, field->data, field->size,
                       err);
}

static void cloud_stream(void *arg, struct rpc_stream *owned_stream,
                         struct rpc_stream_events *out_events, void **out_arg)
{
    static const struct answers_ways ways = {.field = cloud_field,
                                             .pack = cloud_pack};
    struct cloud_service *service = arg;
    answers_open(&service->streams, &ways, service, owned_stream, out_events,
                 out_arg);
}

// --------------------------------------------------------------------- making

struct cloud_service *cloud_service_new(const struct cloud_options *options)
{
    struct cloud_service *service = pod_calloc(1, sizeof(*service));
    if (service == NULL)
        return NULL;
    service->worker = options->worker;
    service->slice = options->slice;
    service->next_client = options->first_client;
    service->idle_seconds =
        options->idle_seconds != 0 ? options->idle_seconds : CLOUD_IDLE_SECONDS;
    pod_mutex_init(&service->lock, POD_RANK_DRIVER, "cloud service");
    answers_list_init(&service->streams);
    return service;
}

void cloud_service_free(struct cloud_service *service)
{
    if (service == NULL)
        return;
    answers_list_fini(&service->streams);
    pod_mutex_fini(&service->lock);
    pod_free(service);
}

void cloud_service_methods(struct cloud_service *service,
                           struct rpc_method *out_methods)
{
    const struct rpc_method methods[CLOUD_METHODS] = {
        {.path = "/tpu_driver.CloudTpuDriver/Open", .unary = cloud_open},
        {.path = "/tpu_driver.CloudTpuDriver/Close", .unary = cloud_close},
        {.path = "/tpu_driver.CloudTpuDriver/Reset", .unary = cloud_reset},
        {.path = "/tpu_driver.CloudTpuDriver/QuerySystemInfo",
         .unary = cloud_query},
        {.path = "/tpu_driver.CloudTpuDriver/StreamExecute",
         .opened = cloud_stream,
         .settings = {.batch_bytes = CLOUD_BATCH_BYTES,
                      .hold_bytes = ANSWERS_HOLD_BYTES}},
    };
    for (size_t i = 0; i < CLOUD_METHODS; i++) {
        out_methods[i] = methods[i];
        out_methods[i].arg = service;
    }
}
