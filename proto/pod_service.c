// SPDX-License-Identifier: Apache-2.0
#include "proto/pod_service.h"

#include <inttypes.h>
#include <sys/random.h>

#include "core/base/mem.h"
#include "proto/pod_internal.h"

enum {
    POD_BATCH_BYTES = 4 << 20,
    POD_BATCH_COUNT = 256,
    // Fields of SessionRequest.
    POD_FIELD_SESSION = 1,
    POD_FIELD_ROLE = 2,
    POD_FIELD_ENTRIES = 3,
    POD_FIELD_FORGET = 4,
    POD_FIELD_JOINS = 5,
    POD_FIELD_WRITE = 13, // of Entry
    POD_FIELD_DATA = 3,   // of Write
};

// ---------------------------------------------------------------------- hello

static enum pod_code pod_open_session(struct pod_service *service,
                                      uint64_t *out_session,
                                      struct pod_err *err)
{
    uint64_t id = 0;
    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
        return pod_err_set(err, POD_REASON_INTERNAL, "no random bytes");
    *out_session = id | POD_SESSION_BIT;
    return worker_open(service->worker, *out_session,
                       POD_SERVICE_IDLE_S * POD_NS_PER_S, err);
}

static void pod_hello_fill(const struct pod_service *service,
                           Pod__Worker__V1__HelloResponse *response,
                           char *version, char *platform,
                           char *platform_version)
{
    const struct pod_driver_info *info = worker_info(service->worker);
    response->version = POD_SERVICE_VERSION;
    response->incarnation = service->incarnation;
    response->worker = version;
    response->platform = platform;
    response->platform_version = platform_version;
    response->accepts = info->accepts;
    response->host_id = service->slice.host_id;
    response->host_count = service->slice.hosts;
    response->chunk_bytes = POD_SERVICE_CHUNK_BYTES;
}

// The chips and cores of the answer, in one block each.
struct pod_hello_parts {
    Pod__Worker__V1__Chip *chips;
    Pod__Worker__V1__Chip **chip_list;
    Pod__Worker__V1__Core *cores;
    Pod__Worker__V1__Core **core_list;
};

static void pod_hello_fini(struct pod_hello_parts *parts)
{
    pod_free(parts->chips);
    pod_free(parts->chip_list);
    pod_free(parts->cores);
    pod_free(parts->core_list);
}

static bool pod_hello_init(const struct pod_driver_info *info,
                           struct pod_hello_parts *parts)
{
    parts->chips = pod_calloc(info->chip_count, sizeof(parts->chips[0]));
    parts->chip_list =
        pod_calloc(info->chip_count, sizeof(parts->chip_list[0]));
    parts->cores = pod_calloc(info->core_count, sizeof(parts->cores[0]));
    parts->core_list =
        pod_calloc(info->core_count, sizeof(parts->core_list[0]));
    if (parts->chips == NULL || parts->chip_list == NULL ||
        parts->cores == NULL || parts->core_list == NULL)
        return false;
    for (size_t i = 0; i < info->chip_count; i++) {
        pod__worker__v1__chip__init(&parts->chips[i]);
        parts->chips[i].x = info->chips[i].x;
        parts->chips[i].y = info->chips[i].y;
        parts->chips[i].z = info->chips[i].z;
        parts->chips[i].host_id = (uint32_t)info->chips[i].host_id;
        parts->chip_list[i] = &parts->chips[i];
    }
    for (size_t i = 0; i < info->core_count; i++) {
        pod__worker__v1__core__init(&parts->cores[i]);
        parts->cores[i].worker_core = info->cores[i].worker_core;
        parts->cores[i].chip = info->cores[i].chip;
        parts->cores[i].memory_bytes = info->cores[i].memory_bytes;
        parts->core_list[i] = &parts->cores[i];
    }
    return true;
}

static struct pod_wire_out *pod_hello_pack(const struct pod_service *service,
                                           uint64_t session)
{
    const struct pod_driver_info *info = worker_info(service->worker);
    Pod__Worker__V1__HelloResponse response;
    char version[] = "podworker " POD_VERSION;
    char *platform = pod_strdup(info->platform);
    char *platform_version = pod_strdup(info->version);
    struct pod_hello_parts parts = {.chips = NULL};
    struct pod_wire_out *out = NULL;
    pod__worker__v1__hello_response__init(&response);
    if (platform != NULL && platform_version != NULL &&
        pod_hello_init(info, &parts)) {
        pod_hello_fill(service, &response, version, platform, platform_version);
        response.session = session;
        response.n_chips = info->chip_count;
        response.chips = parts.chip_list;
        response.n_cores = info->core_count;
        response.cores = parts.core_list;
        out = pod_wire_pack(&response.base);
    }
    pod_hello_fini(&parts);
    pod_free(platform);
    pod_free(platform_version);
    return out;
}

// Ends the session that a client has lost with its connection. What it ran
// would hold cores and memory until the worker sees that, too.
static void pod_replace_session(struct pod_service *service, uint64_t id)
{
    struct worker_session *session =
        (id & POD_SESSION_BIT) != 0 ? worker_find(service->worker, id) : NULL;
    if (session == NULL)
        return;
    worker_close(session, "its client has connected anew", NULL, NULL);
    answers_end_session(&service->streams, session);
    worker_session_unref(session);
}

static void pod_hello(void *arg, struct rpc_request *request, const void *data,
                      size_t size)
{
    struct pod_service *service = arg;
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    uint64_t session = 0;
    enum pod_code code =
        pod_wire_unpack(&pod__worker__v1__hello_request__descriptor, data, size,
                        0, &message, &err);
    if (code == POD_OK) {
        const Pod__Worker__V1__HelloRequest *hello =
            (const Pod__Worker__V1__HelloRequest *)message;
        if (hello->min_version > POD_SERVICE_VERSION ||
            hello->max_version < POD_SERVICE_VERSION)
            code = pod_err_set_code(
                &err, POD_FAILED_PRECONDITION, POD_REASON_BAD_VALUE,
                "this worker speaks version %d, the client %" PRIu32
                " to %" PRIu32,
                POD_SERVICE_VERSION, hello->min_version, hello->max_version);
        else
            pod_replace_session(service, hello->replaces);
    }
    pod_wire_free(message);
    if (code == POD_OK)
        code = pod_open_session(service, &session, &err);
    if (code != POD_OK) {
        rpc_request_fail(request, code, err.text);
        return;
    }
    worker_log_client(session, rpc_request_peer(request), "OPENED");
    rpc_request_reply(request, pod_hello_pack(service, session));
}

// ------------------------------------------------------------------ heartbeat

static struct pod_wire_out *pod_beat_pack(struct pod_service *service,
                                          uint64_t session)
{
    const struct pod_driver_info *info = worker_info(service->worker);
    Pod__Worker__V1__HeartbeatResponse response =
        POD__WORKER__V1__HEARTBEAT_RESPONSE__INIT;
    struct worker_load load = {.open = 0};
    struct worker_core_load *loads =
        pod_calloc(info->core_count, sizeof(loads[0]));
    Pod__Worker__V1__CoreLoad *cores =
        pod_calloc(info->core_count, sizeof(cores[0]));
    Pod__Worker__V1__CoreLoad **list =
        pod_calloc(info->core_count, sizeof(list[0]));
    struct pod_wire_out *out = NULL;
    if (loads != NULL && cores != NULL && list != NULL) {
        worker_load_get(service->worker, &load, loads);
        for (size_t i = 0; i < info->core_count; i++) {
            pod__worker__v1__core_load__init(&cores[i]);
            cores[i].memory_used = loads[i].memory_used;
            cores[i].queued = loads[i].queued;
            cores[i].busy = loads[i].running != 0;
            if (loads[i].session == session)
                cores[i].running = loads[i].running;
            list[i] = &cores[i];
        }
        response.incarnation = service->incarnation;
        response.open_operations = load.open;
        response.n_cores = info->core_count;
        response.cores = list;
        out = pod_wire_pack(&response.base);
    }
    pod_free(loads);
    pod_free(cores);
    pod_free(list);
    return out;
}

static void pod_heartbeat(void *arg, struct rpc_request *request,
                          const void *data, size_t size)
{
    struct pod_service *service = arg;
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    if (pod_wire_unpack(&pod__worker__v1__heartbeat_request__descriptor, data,
                        size, 0, &message, &err) != POD_OK) {
        rpc_request_fail(request, err.code, err.text);
        return;
    }
    uint64_t id = ((Pod__Worker__V1__HeartbeatRequest *)message)->session;
    pod_wire_free(message);
    struct worker_session *session = worker_find(service->worker, id);
    if (session == NULL)
        rpc_request_fail(request, POD_NOT_FOUND, "no such session");
    else
        rpc_request_reply(request, pod_beat_pack(service, id));
    worker_session_unref(session);
}

// -------------------------------------------------------------------- streams

// The first message says whose stream it is.
static enum pod_code pod_bind(struct pod_service *service,
                              struct answers *answers, uint64_t id,
                              struct pod_err *err)
{
    if (answers->session != NULL)
        return worker_session_id(answers->session) == id
                   ? POD_OK
                   : pod_err_set(err, POD_REASON_BAD_VALUE,
                                 "a stream belongs to one session");
    struct worker_session *session =
        (id & POD_SESSION_BIT) != 0 ? worker_find(service->worker, id) : NULL;
    if (session == NULL)
        return pod_err_set(err, POD_REASON_NOT_FOUND, "no session %016" PRIx64,
                           id);
    answers_bind(answers, session);
    worker_session_unref(session);
    return POD_OK;
}

static enum pod_code pod_field(struct answers *answers,
                               const struct pod_wire_field *field,
                               struct pod_err *err)
{
    struct pod_service *service = answers->service;
    if (field->number == POD_FIELD_SESSION &&
        field->wire_type == POD_WIRE_VARINT)
        return pod_bind(service, answers, field->value, err);
    if (answers->session == NULL)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "the stream does not begin with its session");
    if (field->number == POD_FIELD_ROLE && field->wire_type == POD_WIRE_VARINT)
        answers->control = field->value == POD__WORKER__V1__ROLE__CONTROL;
    else if (field->number == POD_FIELD_JOINS &&
             field->wire_type == POD_WIRE_VARINT)
        atomic_store(&answers->joins, field->value != 0);
    else if (field->number == POD_FIELD_ENTRIES &&
             field->wire_type == POD_WIRE_BYTES)
        return pod_entry(service, answers, field->data, field->size, err);
    else if (field->number == POD_FIELD_FORGET &&
             field->wire_type == POD_WIRE_VARINT)
        worker_forget(answers->session, field->value);
    return POD_OK;
}

// A session ends with its control stream.
static void pod_ended(struct answers *answers)
{
    struct pod_service *service = answers->service;
    if (answers->session == NULL || !answers->control)
        return;
    worker_close(answers->session, "the control stream ended", NULL, NULL);
    answers_end_session(&service->streams, answers->session);
}

static void pod_stream(void *arg, struct rpc_stream *owned_stream,
                       struct rpc_stream_events *out_events, void **out_arg)
{
    static const struct answers_ways ways = {
        .field = pod_field, .pack = pod_entry_pack, .ended = pod_ended};
    struct pod_service *service = arg;
    answers_open(&service->streams, &ways, service, owned_stream, out_events,
                 out_arg);
}

static void pod_no_gangs(void *arg, struct rpc_stream *owned_stream,
                         struct rpc_stream_events *out_events, void **out_arg)
{
    (void)arg;
    rpc_stream_finish(owned_stream, POD_UNIMPLEMENTED,
                      "this worker runs no gangs with others");
    answers_refuse(owned_stream, out_events, out_arg);
}

// --------------------------------------------------------------------- making

struct pod_service *pod_service_new(const struct pod_service_options *options)
{
    struct pod_service *service = pod_calloc(1, sizeof(*service));
    if (service == NULL)
        return NULL;
    service->worker = options->worker;
    service->slice = options->slice;
    service->incarnation = options->incarnation;
    service->peers = options->peers;
    service->gangs = options->gangs;
    answers_list_init(&service->streams);
    return service;
}

void pod_service_free(struct pod_service *service)
{
    if (service == NULL)
        return;
    answers_list_fini(&service->streams);
    pod_free(service);
}

void pod_service_methods(struct pod_service *service,
                         struct rpc_method *out_methods)
{
    const struct wire_lean_path write_data = {
        .numbers = {POD_FIELD_ENTRIES, POD_FIELD_WRITE, POD_FIELD_DATA},
        .depth = 3,
        .repeated = true};
    const struct rpc_method methods[POD_SERVICE_METHODS] = {
        {.path = "/pod.worker.v1.PodWorker/Hello", .unary = pod_hello},
        {.path = "/pod.worker.v1.PodWorker/Heartbeat", .unary = pod_heartbeat},
        {.path = "/pod.worker.v1.PodWorker/Session",
         .opened = pod_stream,
         .settings = {.batch_bytes = POD_BATCH_BYTES,
                      .batch_count = POD_BATCH_COUNT,
                      .hold_bytes = ANSWERS_HOLD_BYTES,
                      .bulk = write_data}},
        {.path = "/pod.worker.v1.PodWorker/Fetch",
         .opened = pod_fetch_opened,
         .settings = {.high_water = POD_FETCH_HIGH_WATER,
                      .low_water = POD_FETCH_HIGH_WATER / 2}},
        {.path = "/pod.worker.v1.PodWorker/Exchange",
         .opened = service->gangs != NULL ? gang_links_opened : pod_no_gangs},
    };
    for (size_t i = 0; i < POD_SERVICE_METHODS; i++) {
        out_methods[i] = methods[i];
        out_methods[i].arg = service;
    }
    if (service->gangs != NULL)
        out_methods[POD_SERVICE_METHODS - 1].arg = service->gangs;
}
