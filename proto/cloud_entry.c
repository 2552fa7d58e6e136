// SPDX-License-Identifier: Apache-2.0
// Entries of StreamExecute: from the message to the request, and the answer
// back.
#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/hlo/shape_proto.h"
#include "proto/cloud_internal.h"
#include "proto/shape_wire.h"

// An entry on its way to the worker.
struct cloud_work {
    struct cloud_service *service;
    struct worker_session *session;
    TpuDriver__StreamRequest__Entry *entry;
    uint64_t client;
    struct worker_request request;
    uint64_t *numbers; // waits, then the handles in lists
    size_t number_count;
    struct pod_shape shape;
    struct pod_driver_launch launch;
    ProtobufCBinaryData bulk; // what the blob will be made of
    bool has_bulk;
};

// ------------------------------------------------------------------------- ids

static enum pod_code cloud_number(const struct cloud_work *work, int64_t id,
                                  const char *what, uint64_t *out_number,
                                  struct pod_err *err)
{
    uint64_t bits = (uint64_t)id;
    if (bits >> CLOUD_NUMBER_BITS != work->client)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "the %s %" PRIu64 ":%" PRIu64
                           " is another client's; this is client %" PRIu64,
                           what, bits >> CLOUD_NUMBER_BITS,
                           bits & ((UINT64_C(1) << CLOUD_NUMBER_BITS) - 1),
                           work->client);
    *out_number = bits & ((UINT64_C(1) << CLOUD_NUMBER_BITS) - 1);
    return POD_OK;
}

// Numbers of a list of ids, put behind those that are there already.
static enum pod_code cloud_numbers(struct cloud_work *work, const int64_t *ids,
                                   size_t count, const char *what,
                                   const uint64_t **out_numbers,
                                   struct pod_err *err)
{
    uint64_t *numbers = work->numbers + work->number_count;
    for (size_t i = 0; i < count; i++) {
        enum pod_code code = cloud_number(work, ids[i], what, &numbers[i], err);
        if (code != POD_OK)
            return code;
    }
    work->number_count += count;
    *out_numbers = numbers;
    return POD_OK;
}

static size_t cloud_count_numbers(const TpuDriver__StreamRequest__Entry *entry)
{
    size_t count = entry->n_wait_for_id;
    if (entry->request_case ==
        TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_ALLOC_TUPLE)
        count += entry->alloc_tuple->n_children;
    if (entry->request_case ==
        TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_EXECUTE)
        count +=
            entry->execute->n_input_handle + entry->execute->n_output_handle;
    return count;
}

static enum pod_code cloud_core(struct cloud_work *work, int32_t core,
                                struct pod_err *err)
{
    const struct worker_slice *slice = &work->service->slice;
    if (core >= 0 &&
        worker_slice_own_core(slice, (uint32_t)core, &work->request.core))
        return POD_OK;
    if (core >= 0 && (uint32_t)core < worker_slice_cores(slice))
        return pod_err_set(
            err, POD_REASON_UNKNOWN_CORE,
            "core %" PRId32 " belongs to host %" PRIu32
            "; this is host %" PRIu32,
            core,
            worker_slice_host(slice, (uint32_t)core / slice->cores_per_chip),
            slice->host_id);
    return pod_err_set(err, POD_REASON_UNKNOWN_CORE,
                       "there is no core %" PRId32 " in a slice of %" PRIu32,
                       core, worker_slice_cores(slice));
}

static enum pod_code cloud_region(TpuDriver__MemoryRegion region,
                                  struct pod_err *err)
{
    if (region == TPU_DRIVER__MEMORY_REGION__HBM)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_VALUE,
                       "memory region %d: there is only HBM (1)", (int)region);
}

// -------------------------------------------------------------------- buffers

static enum pod_code cloud_alloc(struct cloud_work *work, struct pod_err *err)
{
    const TpuDriver__AllocateRequest *alloc = work->entry->alloc;
    work->request.kind = WORKER_ALLOCATE;
    enum pod_code code = cloud_region(alloc->region, err);
    if (code == POD_OK)
        code = cloud_core(work, alloc->core_id, err);
    if (code != POD_OK)
        return code;
    if (alloc->size_case == TPU_DRIVER__ALLOCATE_REQUEST__SIZE_SHAPE) {
        work->request.shape = &work->shape;
        return pod_array_wire_parse(alloc->shape.data, alloc->shape.len,
                                    &work->shape, err);
    }
    if (alloc->size_case != TPU_DRIVER__ALLOCATE_REQUEST__SIZE_NUM_BYTES)
        return pod_err_set(err, POD_REASON_MISSING_MEMBER,
                           "an allocation without a size");
    if (alloc->num_bytes < 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "an allocation of %" PRId64 " bytes is impossible",
                           alloc->num_bytes);
    work->request.bytes = (uint64_t)alloc->num_bytes;
    return POD_OK;
}

static enum pod_code cloud_tuple(struct cloud_work *work, struct pod_err *err)
{
    const TpuDriver__AllocateTupleRequest *tuple = work->entry->alloc_tuple;
    work->request.kind = WORKER_TUPLE;
    work->request.child_count = tuple->n_children;
    enum pod_code code = cloud_region(tuple->region, err);
    if (code == POD_OK)
        code = cloud_core(work, tuple->core_id, err);
    if (code != POD_OK)
        return code;
    return cloud_numbers(work, tuple->children, tuple->n_children, "child",
                         &work->request.children, err);
}

static enum pod_code cloud_target(struct cloud_work *work,
                                  enum worker_kind kind, int64_t handle,
                                  struct pod_err *err)
{
    work->request.kind = kind;
    return cloud_number(work, handle, "handle", &work->request.target, err);
}

static enum pod_code cloud_transfer_to(struct cloud_work *work,
                                       struct pod_err *err)
{
    const TpuDriver__TransferToDeviceRequest *to = work->entry->transfer_to;
    work->request.whole = true;
    work->request.data_count = to->data.len;
    work->bulk = to->data;
    work->has_bulk = true;
    return cloud_target(work, WORKER_WRITE, to->target_handle, err);
}

static enum pod_code cloud_copy(struct cloud_work *work, struct pod_err *err)
{
    const TpuDriver__TransferFromDeviceToDeviceRequest *copy =
        work->entry->transfer_from_to;
    enum pod_code code =
        cloud_target(work, WORKER_COPY, copy->source_handle, err);
    if (code != POD_OK)
        return code;
    return cloud_number(work, copy->target_handle, "handle",
                        &work->request.second, err);
}

// ------------------------------------------------------------------- programs

static enum pod_code cloud_compile(struct cloud_work *work, struct pod_err *err)
{
    const TpuDriver__CompileRequest *compile = work->entry->compile;
    int64_t replicas = compile->has_num_replicas ? compile->num_replicas : 1;
    work->request.kind = WORKER_COMPILE;
    if (replicas < 1 || replicas > WORKER_MAX_REPLICAS)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "a program for %" PRId64
                           " replicas; 1 to %d are possible",
                           replicas, WORKER_MAX_REPLICAS);
    work->request.format = POD_FORMAT_HLO_PROTO;
    work->bulk = compile->hlo_program;
    work->request.independent =
        replicas > 1 &&
        cloud_program_independent(work->bulk.data, work->bulk.len);
    work->request.replicas = work->request.independent ? 1 : (uint32_t)replicas;
    work->has_bulk = true;
    return POD_OK;
}

static enum pod_code cloud_load(struct cloud_work *work, struct pod_err *err)
{
    const TpuDriver__LoadProgramRequest *load = work->entry->load;
    enum pod_code code = cloud_core(work, load->core_id, err);
    if (code != POD_OK)
        return code;
    return cloud_target(work, WORKER_LOAD, load->compiled_program_handle, err);
}

// The replica of a gang that runs on the program's core, and whether all others
// run on this host too.
static enum pod_code
cloud_place(struct cloud_work *work,
            const Xla__DeviceAssignmentProto__ComputationDevice *devices,
            struct pod_err *err)
{
    uint32_t own = 0;
    uint32_t core = 0;
    bool found = false;
    if (!worker_loaded_core(work->session, work->launch.load, &own))
        return pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                           "op-%" PRIu64 " made no loaded program",
                           work->launch.load);
    for (size_t i = 0; i < devices->n_replica_device_ids; i++) {
        int64_t id = devices->replica_device_ids[i];
        if (id < 0 || id > INT32_MAX ||
            !worker_slice_own_core(&work->service->slice, (uint32_t)id,
                                   &core)) {
            work->request.scattered = true;
            continue;
        }
        if (core != own)
            continue;
        if (found)
            return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                               "core %" PRId64 " has two replicas", id);
        work->launch.replica = (uint32_t)i;
        found = true;
    }
    if (found)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                       "the program's core is not in the assignment");
}

// FNV-1a: equal assignments of one client belong to one gang.
static uint64_t cloud_hash(ProtobufCBinaryData bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ bytes.data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static enum pod_code
cloud_assign_message(struct cloud_work *work,
                     const Xla__DeviceAssignmentProto *assignment,
                     struct pod_err *err)
{
    int32_t replicas = assignment->replica_count;
    if (assignment->computation_count != 1)
        return pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                           "%" PRId32 " computations; one is possible",
                           assignment->computation_count);
    if (replicas < 1 || replicas > WORKER_MAX_REPLICAS ||
        assignment->n_computation_devices != 1 ||
        assignment->computation_devices[0]->n_replica_device_ids !=
            (size_t)replicas)
        return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                           "the assignment's counts do not fit");
    if (replicas == 1)
        return POD_OK;
    work->request.replica_count = (uint32_t)replicas;
    enum pod_code code =
        cloud_place(work, assignment->computation_devices[0], err);
    work->request.gathered = !work->request.scattered;
    return code;
}

static enum pod_code cloud_assign(struct cloud_work *work,
                                  const TpuDriver__ExecuteRequest *execute,
                                  struct pod_err *err)
{
    ProtobufCMessage *message = NULL;
    work->request.replica_count = 1;
    if (!execute->has_device_assignment)
        return POD_OK;
    enum pod_code code =
        pod_wire_unpack(&xla__device_assignment_proto__descriptor,
                        execute->device_assignment.data,
                        execute->device_assignment.len, 0, &message, err);
    if (code != POD_OK)
        return code;
    work->request.gang_key = cloud_hash(execute->device_assignment);
    code = cloud_assign_message(
        work, (const Xla__DeviceAssignmentProto *)message, err);
    pod_wire_free(message);
    return code;
}

static enum pod_code cloud_execute(struct cloud_work *work, struct pod_err *err)
{
    const TpuDriver__ExecuteRequest *execute = work->entry->execute;
    struct pod_driver_launch *launch = &work->launch;
    work->request.kind = WORKER_EXECUTE;
    work->request.launches = launch;
    work->request.launch_count = 1;
    launch->input_count = execute->n_input_handle;
    launch->output_count = execute->n_output_handle;
    enum pod_code code = cloud_number(work, execute->loaded_program_handle,
                                      "program", &launch->load, err);
    if (code == POD_OK)
        code =
            cloud_numbers(work, execute->input_handle, execute->n_input_handle,
                          "input", &launch->inputs, err);
    if (code == POD_OK)
        code = cloud_numbers(work, execute->output_handle,
                             execute->n_output_handle, "output",
                             &launch->outputs, err);
    return code == POD_OK ? cloud_assign(work, execute, err) : code;
}

// -------------------------------------------------------------------- entries

static enum pod_code cloud_request(struct cloud_work *work, struct pod_err *err)
{
    const TpuDriver__StreamRequest__Entry *entry = work->entry;
    switch ((int)entry->request_case) {
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_ALLOC:
        return cloud_alloc(work, err);
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_ALLOC_TUPLE:
        return cloud_tuple(work, err);
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_DEALLOC:
        return cloud_target(work, WORKER_DEALLOCATE, entry->dealloc->handle,
                            err);
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_TRANSFER_TO:
        return cloud_transfer_to(work, err);
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_TRANSFER_FROM:
        work->request.whole = true;
        return cloud_target(work, WORKER_READ,
                            entry->transfer_from->source_handle, err);
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_COMPILE:
        return cloud_compile(work, err);
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_LOAD:
        return cloud_load(work, err);
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_UNLOAD:
        return cloud_target(work, WORKER_UNLOAD,
                            entry->unload->loaded_program_handle, err);
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_EXECUTE:
        return cloud_execute(work, err);
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_TRANSFER_FROM_TO:
        return cloud_copy(work, err);
    case TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST__NOT_SET:
    default:
        break;
    }
    return pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                       "the operation is of a kind this worker does not know");
}

static enum pod_code cloud_build(struct cloud_work *work, struct pod_err *err)
{
    const TpuDriver__StreamRequest__Entry *entry = work->entry;
    work->numbers =
        pod_calloc(cloud_count_numbers(entry), sizeof(work->numbers[0]));
    if (work->numbers == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    work->request.wait_count = entry->n_wait_for_id;
    enum pod_code code =
        cloud_numbers(work, entry->wait_for_id, entry->n_wait_for_id,
                      "operation", &work->request.waits, err);
    return code == POD_OK ? cloud_request(work, err) : code;
}

// The bytes of a transfer or a program stay in the unpacked entry.
static enum pod_code cloud_keep_bulk(struct cloud_work *work,
                                     struct pod_err *err)
{
    if (!work->has_bulk)
        return POD_OK;
    work->request.data = pod_wire_blob(&work->entry->base, work->bulk);
    if (work->request.data == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    work->entry = NULL;
    return POD_OK;
}

static void cloud_submit(struct cloud_work *work, struct answers *answers)
{
    struct pod_err err = POD_ERR_NONE;
    enum pod_code code = cloud_build(work, &err);
    if (code == POD_OK)
        code = cloud_keep_bulk(work, &err);
    if (code == POD_OK)
        worker_submit(work->session, &work->request, &answers->sink);
    else
        worker_refuse(work->session, &work->request, &err, &answers->sink);
    pod_blob_unref(work->request.data);
}

static void cloud_unknown_client(struct answers *answers, uint64_t client,
                                 uint64_t number)
{
    struct pod_err err = POD_ERR_NONE;
    struct worker_answer answer = {
        .session = client, .number = number, .err = &err};
    (void)pod_err_set_code(&err, POD_FAILED_PRECONDITION,
                           POD_REASON_UNKNOWN_HANDLE,
                           "client %" PRIu64 " is not open: it was closed or "
                           "reset, or the worker was restarted",
                           client);
    answers->sink.answer(&answers->sink, &answer);
}

enum pod_code cloud_entry(struct cloud_service *service,
                          struct answers *answers, const void *data,
                          size_t size, struct pod_err *err)
{
    struct cloud_work work = {.service = service};
    ProtobufCMessage *message = NULL;
    enum pod_code code =
        pod_wire_unpack(&tpu_driver__stream_request__entry__descriptor, data,
                        size, 0, &message, err);
    if (code != POD_OK)
        return code;
    work.entry = (TpuDriver__StreamRequest__Entry *)message;
    uint64_t id = (uint64_t)work.entry->operation_id;
    work.client = id >> CLOUD_NUMBER_BITS;
    work.request.number = id & ((UINT64_C(1) << CLOUD_NUMBER_BITS) - 1);
    answers_expect(answers);
    work.session = worker_find(service->worker, work.client);
    if (work.session != NULL) {
        answers_bind(answers, work.session);
        cloud_submit(&work, answers);
        worker_session_unref(work.session);
    } else {
        cloud_unknown_client(answers, work.client, work.request.number);
    }
    pod_free(work.numbers);
    if (work.entry != NULL)
        pod_wire_free(&work.entry->base);
    return POD_OK;
}

// -------------------------------------------------------------------- answers

struct pod_wire_out *cloud_pack(struct answers *answers,
                                const struct worker_answer *answer)
{
    TpuDriver__StreamResponse__Entry entry =
        TPU_DRIVER__STREAM_RESPONSE__ENTRY__INIT;
    TpuDriver__StatusMessage status = TPU_DRIVER__STATUS_MESSAGE__INIT;
    char text[POD_ERR_TEXT_BYTES];
    const struct pod_err *err = answer->err;
    (void)answers;
    status.code = (int32_t)err->code;
    if (err->code != POD_OK) {
        memcpy(text, err->text, sizeof(text));
        pod_wire_clean_text(text);
        status.message = text;
    }
    entry.status = &status;
    entry.operation_id =
        (int64_t)(answer->session << CLOUD_NUMBER_BITS | answer->number);
    struct pod_wire_level levels[3] = {
        {.number = 20, .message = &entry.base},
    };
    if (err->code != POD_OK || answer->data == NULL)
        return pod_wire_pack_levels(levels, 1, 0, NULL, 0, 0);
    size_t count = 1;
    uint32_t field = 2; // TransferFromDeviceResponse.data
    levels[count++].number = answer->compiled ? 4 : 3;
    if (answer->compiled) {
        levels[count++].number = 1; // CompileResponse.metadata
        field = 1;                  // CompiledProgramMetadata.program_shape
    }
    return pod_wire_pack_levels(levels, count, field, answer->data, 0,
                                answer->data->size);
}
