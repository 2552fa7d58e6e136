// SPDX-License-Identifier: Apache-2.0
// Requests as entries of tpu_driver.StreamRequest.
#include "core/base/mem.h"
#include "proto/grpc_driver_internal.h"
#include "proto/shape_wire.h"

#include "tpu_service.pb-c.h"
#include "xla.pb-c.h"

enum {
    CLOUD_ENTRY = 30, // entry of StreamRequest
    CLOUD_TRANSFER_TO = 4,
    CLOUD_TRANSFER_TO_DATA = 2,
};

// What is put together for one request.
struct cloud_body {
    struct gd *driver;
    struct gd_item *item;
    const struct gd_request *request;
    struct pod_err *err;
    int64_t handle; // the request's, as an id
    int64_t *waits; // of the entry, or of each of them
    size_t wait_count;
    TpuDriver__StreamRequest__Entry entry;
};

static struct pod_wire_out *cloud_no_memory(struct cloud_body *body)
{
    pod_err_set(body->err, POD_REASON_OUT_OF_MEMORY, "no memory");
    return NULL;
}

static struct pod_wire_out *cloud_unimplemented(struct cloud_body *body,
                                                const char *what)
{
    pod_err_set(body->err, POD_REASON_UNIMPLEMENTED,
                "the worker speaks the plain TPU driver protocol, which %s",
                what);
    return NULL;
}

// Ids have the client in their upper bits; the fields are signed.
static int64_t cloud_id(const struct gd *driver, uint64_t wire)
{
    return (int64_t)(driver->link->session << GD_WIRE_BITS | wire);
}

// 0: there is none, and the error is set.
static int64_t cloud_handle(const struct cloud_body *body, uint64_t handle)
{
    uint64_t wire = gd_handle_locked(body->driver, handle, body->err);

    return wire == 0 ? 0 : cloud_id(body->driver, wire);
}

// False: one is unknown.
static bool cloud_handles(const struct cloud_body *body,
                          const uint64_t *handles, size_t count, int64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = cloud_handle(body, handles[i]);
        if (out[i] == 0)
            return false;
    }
    return true;
}

// What it waits for that is not over. False: no memory.
static bool cloud_waits(struct cloud_body *body)
{
    const struct pod_driver_call *call = &body->item->call;
    const struct gd *driver = body->driver;

    body->waits = pod_calloc(call->wait_count + 1, sizeof(*body->waits));
    if (body->waits == NULL)
        return false;
    for (size_t i = 0; i < call->wait_count; i++) {
        uint64_t wire = gd_wait_locked(driver, call->waits[i]);
        if (wire != 0)
            body->waits[body->wait_count++] = cloud_id(driver, wire);
    }
    // What works on something that is not made yet waits for that too.
    uint64_t handle = body->request->handle;
    uint64_t making = handle == 0 ? 0 : gd_order_locked(driver, handle);
    if (making != 0)
        body->waits[body->wait_count++] = cloud_id(driver, making);
    return true;
}

static struct pod_wire_out *cloud_pack(struct cloud_body *body)
{
    const struct pod_wire_level level = {.number = CLOUD_ENTRY,
                                         .message = &body->entry.base};
    struct pod_wire_out *out = pod_wire_pack_levels(&level, 1, 0, NULL, 0, 0);

    return out != NULL ? out : cloud_no_memory(body);
}

// -------------------------------------------------------------------- buffers

static struct pod_wire_out *cloud_allocate(struct cloud_body *body)
{
    TpuDriver__AllocateRequest allocate = TPU_DRIVER__ALLOCATE_REQUEST__INIT;
    const struct gd_request *request = body->request;
    unsigned char *shape = NULL;

    body->entry.request_case = TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_ALLOC;
    body->entry.alloc = &allocate;
    allocate.core_id = (int32_t)request->core;
    if (request->shape == NULL) {
        allocate.size_case = TPU_DRIVER__ALLOCATE_REQUEST__SIZE_NUM_BYTES;
        allocate.num_bytes = (int64_t)request->bytes;
    } else {
        allocate.size_case = TPU_DRIVER__ALLOCATE_REQUEST__SIZE_SHAPE;
        shape = pod_shape_wire_pack(request->shape, &allocate.shape.len);
        if (shape == NULL)
            return cloud_no_memory(body);
        allocate.shape.data = shape;
    }
    struct pod_wire_out *out = cloud_pack(body);
    pod_free(shape);
    return out;
}

static struct pod_wire_out *cloud_tuple(struct cloud_body *body)
{
    TpuDriver__AllocateTupleRequest tuple =
        TPU_DRIVER__ALLOCATE_TUPLE_REQUEST__INIT;
    const struct gd_request *request = body->request;
    struct pod_wire_out *out = NULL;

    tuple.core_id = (int32_t)request->core;
    tuple.n_children = request->child_count;
    tuple.children = pod_calloc(request->child_count, sizeof(int64_t));
    if (tuple.children == NULL)
        return cloud_no_memory(body);
    body->entry.request_case =
        TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_ALLOC_TUPLE;
    body->entry.alloc_tuple = &tuple;
    if (cloud_handles(body, request->children, request->child_count,
                      tuple.children))
        out = cloud_pack(body);
    pod_free(tuple.children);
    return out;
}

static struct pod_wire_out *cloud_deallocate(struct cloud_body *body)
{
    TpuDriver__DeallocateRequest dealloc = TPU_DRIVER__DEALLOCATE_REQUEST__INIT;

    dealloc.handle = body->handle;
    body->entry.request_case =
        TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_DEALLOC;
    body->entry.dealloc = &dealloc;
    return cloud_pack(body);
}

static uint64_t cloud_bytes(const struct cloud_body *body)
{
    const struct gd_item *buffer =
        pod_map_get(&body->driver->by_op, body->request->handle);

    return buffer == NULL ? 0 : buffer->bytes;
}

// The bytes are not copied: they follow the part of the message before them,
// which is what a DeallocateRequest is too, a handle in field 1.
static struct pod_wire_out *cloud_write(struct cloud_body *body)
{
    TpuDriver__DeallocateRequest target = TPU_DRIVER__DEALLOCATE_REQUEST__INIT;
    const struct gd_request *request = body->request;
    const struct pod_wire_level levels[] = {
        {.number = CLOUD_ENTRY, .message = &body->entry.base},
        {.number = CLOUD_TRANSFER_TO, .message = &target.base},
    };

    if (request->offset != 0 || request->count != cloud_bytes(body))
        return cloud_unimplemented(body, "writes whole buffers only");
    if (request->count > GD_CLOUD_BYTES)
        return cloud_unimplemented(body, "moves 1 GiB at most");
    target.handle = body->handle;
    struct pod_wire_out *out =
        pod_wire_pack_levels(levels, 2, CLOUD_TRANSFER_TO_DATA, request->data,
                             request->data_offset, request->count);
    return out != NULL ? out : cloud_no_memory(body);
}

static struct pod_wire_out *cloud_read(struct cloud_body *body)
{
    TpuDriver__TransferFromDeviceRequest transfer =
        TPU_DRIVER__TRANSFER_FROM_DEVICE_REQUEST__INIT;

    body->item->bytes = cloud_bytes(body);
    if (body->item->bytes > GD_CLOUD_BYTES)
        return cloud_unimplemented(body, "moves 1 GiB at most");
    transfer.source_handle = body->handle;
    body->entry.request_case =
        TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_TRANSFER_FROM;
    body->entry.transfer_from = &transfer;
    return cloud_pack(body);
}

static struct pod_wire_out *cloud_copy(struct cloud_body *body)
{
    TpuDriver__TransferFromDeviceToDeviceRequest transfer =
        TPU_DRIVER__TRANSFER_FROM_DEVICE_TO_DEVICE_REQUEST__INIT;

    transfer.source_handle = cloud_handle(body, body->request->from);
    if (transfer.source_handle == 0)
        return NULL;
    transfer.target_handle = body->handle;
    body->entry.request_case =
        TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_TRANSFER_FROM_TO;
    body->entry.transfer_from_to = &transfer;
    return cloud_pack(body);
}

// ------------------------------------------------------------------- programs

static struct pod_wire_out *cloud_compile(struct cloud_body *body)
{
    TpuDriver__CompileRequest compile = TPU_DRIVER__COMPILE_REQUEST__INIT;
    const struct gd_request *request = body->request;

    compile.hlo_program.data = request->data->data;
    compile.hlo_program.len = request->data->size;
    compile.has_num_replicas = 1;
    compile.num_replicas = request->replicas;
    body->entry.request_case =
        TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_COMPILE;
    body->entry.compile = &compile;
    return cloud_pack(body);
}

static struct pod_wire_out *cloud_load(struct cloud_body *body)
{
    TpuDriver__LoadProgramRequest load = TPU_DRIVER__LOAD_PROGRAM_REQUEST__INIT;

    load.core_id = (int32_t)body->request->core;
    load.compiled_program_handle = body->handle;
    body->entry.request_case = TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_LOAD;
    body->entry.load = &load;
    return cloud_pack(body);
}

static struct pod_wire_out *cloud_unload(struct cloud_body *body)
{
    TpuDriver__UnloadProgramRequest unload =
        TPU_DRIVER__UNLOAD_PROGRAM_REQUEST__INIT;

    unload.loaded_program_handle = body->handle;
    body->entry.request_case =
        TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_UNLOAD;
    body->entry.unload = &unload;
    return cloud_pack(body);
}

// ----------------------------------------------------------------- executions

// Which core of the slice runs each replica, serialized; NULL: no memory.
static unsigned char *cloud_assignment(const struct pod_driver_execute *execute,
                                       size_t *out_size)
{
    Xla__DeviceAssignmentProto assignment = XLA__DEVICE_ASSIGNMENT_PROTO__INIT;
    Xla__DeviceAssignmentProto__ComputationDevice devices =
        XLA__DEVICE_ASSIGNMENT_PROTO__COMPUTATION_DEVICE__INIT;
    Xla__DeviceAssignmentProto__ComputationDevice *pointer = &devices;
    unsigned char *bytes = NULL;

    devices.n_replica_device_ids = execute->replica_count;
    devices.replica_device_ids =
        pod_calloc(execute->replica_count, sizeof(int64_t));
    if (devices.replica_device_ids == NULL)
        return NULL;
    for (uint32_t i = 0; i < execute->replica_count; i++)
        devices.replica_device_ids[i] = execute->replica_worker_cores[i];
    assignment.replica_count = (int32_t)execute->replica_count;
    assignment.computation_count = 1;
    assignment.n_computation_devices = 1;
    assignment.computation_devices = &pointer;
    *out_size = protobuf_c_message_get_packed_size(&assignment.base);
    bytes = pod_malloc(*out_size);
    if (bytes != NULL)
        protobuf_c_message_pack(&assignment.base, bytes);
    pod_free(devices.replica_device_ids);
    return bytes;
}

static bool cloud_launch(const struct cloud_body *body,
                         const struct pod_driver_launch *launch,
                         TpuDriver__ExecuteRequest *execute)
{
    size_t count = launch->input_count + launch->output_count;
    int64_t *ids = pod_calloc(count, sizeof(*ids));

    if (ids == NULL) {
        pod_err_set(body->err, POD_REASON_OUT_OF_MEMORY, "no memory");
        return false;
    }
    execute->input_handle = ids;
    execute->n_input_handle = launch->input_count;
    execute->output_handle = ids + launch->input_count;
    execute->n_output_handle = launch->output_count;
    execute->loaded_program_handle = cloud_handle(body, launch->load);
    return execute->loaded_program_handle != 0 &&
           cloud_handles(body, launch->inputs, launch->input_count,
                         execute->input_handle) &&
           cloud_handles(body, launch->outputs, launch->output_count,
                         execute->output_handle);
}

// One entry for each replica of this host, in one message; they have numbers
// one after another.
static struct pod_wire_out *
cloud_execute_pack(struct cloud_body *body,
                   TpuDriver__StreamRequest__Entry *entries,
                   TpuDriver__ExecuteRequest *executes,
                   TpuDriver__StreamRequest__Entry **pointers)
{
    const struct pod_driver_execute *execute = body->request->execute;
    TpuDriver__StreamRequest message = TPU_DRIVER__STREAM_REQUEST__INIT;
    ProtobufCBinaryData assignment = {.data = NULL};
    struct pod_wire_out *out = NULL;
    bool sound = true;

    assignment.data = cloud_assignment(execute, &assignment.len);
    if (assignment.data == NULL)
        return cloud_no_memory(body);
    for (size_t i = 0; i < execute->launch_count; i++) {
        tpu_driver__execute_request__init(&executes[i]);
        tpu_driver__stream_request__entry__init(&entries[i]);
        executes[i].has_device_assignment = 1;
        executes[i].device_assignment = assignment;
        sound =
            sound && cloud_launch(body, &execute->launches[i], &executes[i]);
        entries[i].request_case =
            TPU_DRIVER__STREAM_REQUEST__ENTRY__REQUEST_EXECUTE;
        entries[i].execute = &executes[i];
        entries[i].operation_id = cloud_id(body->driver, body->item->wire + i);
        entries[i].wait_for_id = body->waits;
        entries[i].n_wait_for_id = body->wait_count;
        pointers[i] = &entries[i];
    }
    message.entry = pointers;
    message.n_entry = execute->launch_count;
    if (sound) {
        out = pod_wire_pack(&message.base);
        if (out == NULL)
            out = cloud_no_memory(body);
    }
    for (size_t i = 0; i < execute->launch_count; i++)
        pod_free(executes[i].input_handle);
    pod_free(assignment.data);
    return out;
}

static bool cloud_reaches(const struct cloud_body *body)
{
    const struct pod_driver_execute *execute = body->request->execute;
    const struct gd *driver = body->driver;

    if (driver->link->info->info.host_count > 1)
        return true;
    for (uint32_t i = 0; i < execute->replica_count; i++) {
        if (execute->replica_hosts[i] != driver->host)
            return false;
    }
    return true;
}

static struct pod_wire_out *cloud_execute(struct cloud_body *body)
{
    size_t count = body->request->execute->launch_count;
    TpuDriver__StreamRequest__Entry *entries =
        pod_calloc(count, sizeof(*entries));
    TpuDriver__StreamRequest__Entry **pointers =
        pod_calloc(count, sizeof(*pointers));
    TpuDriver__ExecuteRequest *executes = pod_calloc(count, sizeof(*executes));
    struct pod_wire_out *out = NULL;

    if (!cloud_reaches(body))
        out = cloud_unimplemented(body, "runs no gang with hosts that are not "
                                        "of its slice");
    else if (entries == NULL || pointers == NULL || executes == NULL)
        out = cloud_no_memory(body);
    else
        out = cloud_execute_pack(body, entries, executes, pointers);
    body->item->parts = (uint32_t)count;
    pod_free(entries);
    pod_free(pointers);
    pod_free(executes);
    return out;
}

// ----------------------------------------------------------------------- all

static struct pod_wire_out *cloud_fill(struct cloud_body *body)
{
    switch (body->request->kind) {
    case GD_ALLOCATE:
        return cloud_allocate(body);
    case GD_TUPLE:
        return cloud_tuple(body);
    case GD_DEALLOCATE:
        return cloud_deallocate(body);
    case GD_WRITE:
        return cloud_write(body);
    case GD_READ:
        return cloud_read(body);
    case GD_COPY:
        return cloud_copy(body);
    case GD_COMPILE:
        return cloud_compile(body);
    case GD_LOAD:
        return cloud_load(body);
    case GD_UNLOAD:
        return cloud_unload(body);
    case GD_EXECUTE:
        return cloud_execute(body);
    case GD_PEER_COPY:
        return cloud_unimplemented(body, "cannot fetch from other workers");
    case GD_FREE_PROGRAM:
        return cloud_unimplemented(body, "cannot free a compiled program");
    case GD_RESET: // carried out by connecting anew
        break;
    }
    return NULL;
}

struct pod_wire_out *gd_cloud_encode(struct gd *driver, struct gd_item *item,
                                     const struct gd_request *request,
                                     struct pod_err *err)
{
    struct cloud_body body = {
        .driver = driver,
        .item = item,
        .request = request,
        .err = err,
        .entry = TPU_DRIVER__STREAM_REQUEST__ENTRY__INIT,
    };

    if (request->core > INT32_MAX || request->bytes > INT64_MAX) {
        pod_err_set(err, POD_REASON_OUT_OF_RANGE,
                    "a number that the worker's protocol cannot express");
        return NULL;
    }
    if (request->handle != 0) {
        body.handle = cloud_handle(&body, request->handle);
        if (body.handle == 0)
            return NULL;
    }
    if (!cloud_waits(&body))
        return cloud_no_memory(&body);
    body.entry.operation_id = cloud_id(driver, item->wire);
    body.entry.wait_for_id = body.waits;
    body.entry.n_wait_for_id = body.wait_count;
    struct pod_wire_out *out = cloud_fill(&body);
    pod_free(body.waits);
    return out;
}
