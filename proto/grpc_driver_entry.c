// SPDX-License-Identifier: Apache-2.0
// Requests as entries of pod.worker.v1.
#include <string.h>

#include "core/base/mem.h"
#include "proto/grpc_driver_internal.h"
#include "proto/shape_wire.h"

#include "pod_worker.pb-c.h"

enum {
    ENTRY_FIELD = 3, // entries of SessionRequest
    ENTRY_WRITE = 13,
    ENTRY_WRITE_DATA = 3,
    ENTRY_COMPILE = 16,
    ENTRY_COMPILE_PROGRAM = 2,
    ENTRY_MAX_BLOCKS = 8,
};

static void entry_no_memory(struct pod_err *err)
{
    pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
}

// The bodies of entries; one is used.
struct entry_body {
    Pod__Worker__V1__Entry entry;
    union {
        Pod__Worker__V1__Allocate allocate;
        Pod__Worker__V1__AllocateTuple tuple;
        Pod__Worker__V1__Deallocate deallocate;
        Pod__Worker__V1__Write write;
        Pod__Worker__V1__Read read;
        Pod__Worker__V1__Copy copy;
        Pod__Worker__V1__CopyFromPeer peer;
        Pod__Worker__V1__Compile compile;
        Pod__Worker__V1__FreeProgram free_program;
        Pod__Worker__V1__Load load;
        Pod__Worker__V1__Unload unload;
        Pod__Worker__V1__Execute execute;
        Pod__Worker__V1__Reset reset;
    } as;
    Pod__Worker__V1__Trace trace;
    char traceparent[POD_TRACEPARENT_BYTES];
    void *blocks[ENTRY_MAX_BLOCKS]; // freed with it
    size_t block_count;
    struct pod_err *err;
};

// Memory that is freed with the body; NULL with the reason set.
static void *entry_body_block(struct entry_body *body, size_t count,
                              size_t bytes)
{
    void *block = pod_calloc(count, bytes);

    if (block == NULL)
        entry_no_memory(body->err);
    else
        body->blocks[body->block_count++] = block;
    return block;
}

static void entry_body_fini(struct entry_body *body)
{
    while (body->block_count > 0)
        pod_free(body->blocks[--body->block_count]);
}

// Handles of a call as numbers of the session; NULL: one is unknown.
static uint64_t *entry_body_handles(struct gd *driver, struct entry_body *body,
                                    const uint64_t *handles, size_t count)
{
    uint64_t *wires = entry_body_block(body, count, sizeof(*wires));

    for (size_t i = 0; wires != NULL && i < count; i++) {
        wires[i] = gd_handle_locked(driver, handles[i], body->err);
        if (wires[i] == 0)
            return NULL;
    }
    return wires;
}

static bool entry_body_allocate(const struct gd_request *request,
                                struct entry_body *body)
{
    Pod__Worker__V1__Allocate *allocate = &body->as.allocate;

    pod__worker__v1__allocate__init(allocate);
    body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_ALLOCATE;
    body->entry.allocate = allocate;
    allocate->core = request->core;
    if (request->shape == NULL) {
        allocate->size_case = POD__WORKER__V1__ALLOCATE__SIZE_RAW_BYTES;
        allocate->raw_bytes = request->bytes;
        return true;
    }
    allocate->size_case = POD__WORKER__V1__ALLOCATE__SIZE_SHAPE;
    allocate->shape.data =
        pod_shape_wire_pack(request->shape, &allocate->shape.len);
    if (allocate->shape.data == NULL) {
        entry_no_memory(body->err);
        return false;
    }
    body->blocks[body->block_count++] = allocate->shape.data;
    return true;
}

static bool entry_body_tuple(struct gd *driver,
                             const struct gd_request *request,
                             struct entry_body *body)
{
    Pod__Worker__V1__AllocateTuple *tuple = &body->as.tuple;

    pod__worker__v1__allocate_tuple__init(tuple);
    body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_ALLOCATE_TUPLE;
    body->entry.allocate_tuple = tuple;
    tuple->core = request->core;
    tuple->n_children = request->child_count;
    tuple->children = entry_body_handles(driver, body, request->children,
                                         request->child_count);
    return tuple->children != NULL;
}

static bool entry_body_copy(struct gd *driver, const struct gd_request *request,
                            uint64_t to, struct entry_body *body)
{
    Pod__Worker__V1__Copy *copy = &body->as.copy;

    pod__worker__v1__copy__init(copy);
    body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_COPY;
    body->entry.copy = copy;
    copy->to = to;
    copy->from = gd_handle_locked(driver, request->from, body->err);
    return copy->from != 0;
}

static bool entry_body_peer(const struct gd_request *request, uint64_t to,
                            struct entry_body *body)
{
    Pod__Worker__V1__CopyFromPeer *peer = &body->as.peer;

    if (request->peer_address == NULL || request->peer_wire == 0) {
        pod_err_set(body->err, POD_REASON_HOST_UNAVAILABLE,
                    "the host that has the data is not connected");
        return false;
    }
    pod__worker__v1__copy_from_peer__init(peer);
    body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_COPY_FROM_PEER;
    body->entry.copy_from_peer = peer;
    memcpy(&peer->address, &request->peer_address, sizeof(peer->address));
    peer->peer_session = request->peer_session;
    peer->from = request->peer_wire;
    peer->to = to;
    return true;
}

static bool entry_body_read(const struct gd_request *request, uint64_t buffer,
                            struct entry_body *body)
{
    Pod__Worker__V1__Read *read = &body->as.read;

    pod__worker__v1__read__init(read);
    body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_READ;
    body->entry.read = read;
    read->buffer = buffer;
    read->offset = request->offset;
    read->count = request->count;
    return true;
}

static bool entry_body_load(const struct gd_request *request, uint64_t program,
                            struct entry_body *body)
{
    Pod__Worker__V1__Load *load = &body->as.load;

    pod__worker__v1__load__init(load);
    body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_LOAD;
    body->entry.load = load;
    load->core = request->core;
    load->program = program;
    return true;
}

// What only names a handle.
static bool body_on_handle(enum gd_kind kind, uint64_t handle,
                           struct entry_body *body)
{
    if (kind == GD_DEALLOCATE) {
        pod__worker__v1__deallocate__init(&body->as.deallocate);
        body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_DEALLOCATE;
        body->entry.deallocate = &body->as.deallocate;
        body->as.deallocate.buffer = handle;
    } else if (kind == GD_UNLOAD) {
        pod__worker__v1__unload__init(&body->as.unload);
        body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_UNLOAD;
        body->entry.unload = &body->as.unload;
        body->as.unload.load = handle;
    } else {
        pod__worker__v1__free_program__init(&body->as.free_program);
        body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_FREE_PROGRAM;
        body->entry.free_program = &body->as.free_program;
        body->as.free_program.program = handle;
    }
    return true;
}

// ------------------------------------------------------------------ executions

static bool entry_execute_launches(struct gd *driver,
                                   const struct pod_driver_execute *execute,
                                   struct entry_body *body)
{
    size_t count = execute->launch_count;
    size_t handles = 0;
    size_t used = 0;

    for (size_t i = 0; i < count; i++)
        handles += execute->launches[i].input_count +
                   execute->launches[i].output_count;
    Pod__Worker__V1__Launch *launches =
        entry_body_block(body, count, sizeof(*launches));
    Pod__Worker__V1__Launch **pointers =
        entry_body_block(body, count, sizeof(*pointers));
    uint64_t *wires = entry_body_block(body, handles, sizeof(*wires));
    if (launches == NULL || pointers == NULL || wires == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct pod_driver_launch *from = &execute->launches[i];
        pod__worker__v1__launch__init(&launches[i]);
        pointers[i] = &launches[i];
        launches[i].replica = from->replica;
        launches[i].load = gd_handle_locked(driver, from->load, body->err);
        launches[i].n_inputs = from->input_count;
        launches[i].inputs = &wires[used];
        launches[i].n_outputs = from->output_count;
        launches[i].outputs = &wires[used + from->input_count];
        for (size_t k = 0; k < from->input_count; k++)
            wires[used++] =
                gd_handle_locked(driver, from->inputs[k], body->err);
        for (size_t k = 0; k < from->output_count; k++)
            wires[used++] =
                gd_handle_locked(driver, from->outputs[k], body->err);
    }
    body->as.execute.launches = pointers;
    body->as.execute.n_launches = count;
    return body->err->code == POD_OK;
}

static bool entry_execute_members(const struct pod_driver_execute *execute,
                                  struct entry_body *body)
{
    size_t count = execute->replica_count;
    Pod__Worker__V1__Member *members =
        entry_body_block(body, count, sizeof(*members));
    Pod__Worker__V1__Member **pointers =
        entry_body_block(body, count, sizeof(*pointers));

    if (members == NULL || pointers == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        pod__worker__v1__member__init(&members[i]);
        members[i].host = execute->replica_hosts[i];
        members[i].core = execute->replica_cores[i];
        pointers[i] = &members[i];
    }
    body->as.execute.members = pointers;
    body->as.execute.n_members = count;
    return true;
}

static bool entry_execute_knows(const Pod__Worker__V1__Peer *peers,
                                size_t count, uint32_t host)
{
    for (size_t i = 0; i < count; i++) {
        if (peers[i].host == host)
            return true;
    }
    return false;
}

// Where the other hosts of the gang are. One that is not connected any more
// has session 0: its worker will refuse, and the gang is aborted.
static bool entry_execute_peers(struct gd *driver,
                                const struct pod_driver_execute *execute,
                                struct entry_body *body)
{
    size_t most = execute->replica_count;
    size_t count = 0;
    Pod__Worker__V1__Peer *peers = entry_body_block(body, most, sizeof(*peers));
    Pod__Worker__V1__Peer **pointers =
        entry_body_block(body, most, sizeof(*pointers));

    if (peers == NULL || pointers == NULL)
        return false;
    for (size_t i = 0; i < most; i++) {
        uint32_t host = execute->replica_hosts[i];
        const char *address = gd_hub_address(driver->hub, host);
        if (address == NULL || entry_execute_knows(peers, count, host))
            continue;
        pod__worker__v1__peer__init(&peers[count]);
        peers[count].host = host;
        memcpy(&peers[count].address, &address, sizeof(address));
        peers[count].session = gd_hub_session(driver->hub, host);
        pointers[count] = &peers[count];
        count++;
    }
    body->as.execute.peers = pointers;
    body->as.execute.n_peers = count;
    return true;
}

static bool entry_body_execute(struct gd *driver, const struct gd_item *item,
                               const struct pod_driver_execute *execute,
                               struct entry_body *body)
{
    pod__worker__v1__execute__init(&body->as.execute);
    body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_EXECUTE;
    body->entry.execute = &body->as.execute;
    if (!entry_execute_launches(driver, execute, body))
        return false;
    if (execute->replica_count <= 1)
        return true;
    body->as.execute.gang = gd_hub_salt(driver->hub) + item->call.op;
    return entry_execute_members(execute, body) &&
           entry_execute_peers(driver, execute, body);
}

// ------------------------------------------------------------------ the entry

// Numbers of the session of those that are not over; false: no memory.
static bool entry_body_numbers(const struct gd *driver, struct entry_body *body,
                               uint64_t (*number)(const struct gd *driver,
                                                  uint64_t op),
                               const uint64_t *ops, size_t count,
                               uint64_t **out_numbers, size_t *out_count)
{
    if (count == 0)
        return true;
    *out_numbers = entry_body_block(body, count, sizeof(**out_numbers));
    if (*out_numbers == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t wire = number(driver, ops[i]);
        if (wire != 0)
            (*out_numbers)[(*out_count)++] = wire;
    }
    return true;
}

static bool entry_body_waits(const struct gd *driver,
                             const struct gd_item *item,
                             struct entry_body *body)
{
    const struct pod_driver_call *call = &item->call;
    Pod__Worker__V1__Entry *entry = &body->entry;

    return entry_body_numbers(driver, body, gd_wait_locked, call->waits,
                              call->wait_count, &entry->waits,
                              &entry->n_waits) &&
           entry_body_numbers(driver, body, gd_order_locked, call->orders,
                              call->order_count, &entry->orders,
                              &entry->n_orders);
}

static bool entry_body_fill(struct gd *driver, const struct gd_item *item,
                            const struct gd_request *request, uint64_t handle,
                            struct entry_body *body)
{
    switch (request->kind) {
    case GD_ALLOCATE:
        return entry_body_allocate(request, body);
    case GD_TUPLE:
        return entry_body_tuple(driver, request, body);
    case GD_DEALLOCATE:
    case GD_UNLOAD:
    case GD_FREE_PROGRAM:
        return body_on_handle(request->kind, handle, body);
    case GD_READ:
        return entry_body_read(request, handle, body);
    case GD_COPY:
        return entry_body_copy(driver, request, handle, body);
    case GD_PEER_COPY:
        return entry_body_peer(request, handle, body);
    case GD_LOAD:
        return entry_body_load(request, handle, body);
    case GD_EXECUTE:
        return entry_body_execute(driver, item, request->execute, body);
    case GD_RESET:
        pod__worker__v1__reset__init(&body->as.reset);
        body->entry.what_case = POD__WORKER__V1__ENTRY__WHAT_RESET;
        body->entry.reset = &body->as.reset;
        return true;
    case GD_WRITE: // these two have a tail
    case GD_COMPILE:
        break;
    }
    return true;
}

static struct pod_wire_out *entry_pack_write(const struct gd_request *request,
                                             uint64_t buffer,
                                             struct entry_body *body)
{
    Pod__Worker__V1__Write *write = &body->as.write;

    pod__worker__v1__write__init(write);
    write->buffer = buffer;
    write->offset = request->offset;
    const struct pod_wire_level levels[] = {
        {.number = ENTRY_FIELD, .message = &body->entry.base},
        {.number = ENTRY_WRITE, .message = &write->base},
    };
    return pod_wire_pack_levels(levels, 2, ENTRY_WRITE_DATA, request->data,
                                request->data_offset, request->count);
}

static struct pod_wire_out *entry_pack_compile(const struct gd_request *request,
                                               struct entry_body *body)
{
    Pod__Worker__V1__Compile *compile = &body->as.compile;

    pod__worker__v1__compile__init(compile);
    compile->format = (uint32_t)request->format;
    compile->replicas = request->replicas;
    const struct pod_wire_level levels[] = {
        {.number = ENTRY_FIELD, .message = &body->entry.base},
        {.number = ENTRY_COMPILE, .message = &compile->base},
    };
    return pod_wire_pack_levels(levels, 2, ENTRY_COMPILE_PROGRAM, request->data,
                                0, request->data->size);
}

static struct pod_wire_out *entry_pack(const struct gd_request *request,
                                       uint64_t handle, struct entry_body *body)
{
    const struct pod_wire_level level = {.number = ENTRY_FIELD,
                                         .message = &body->entry.base};
    struct pod_wire_out *out;

    if (request->kind == GD_WRITE)
        out = entry_pack_write(request, handle, body);
    else if (request->kind == GD_COMPILE)
        out = entry_pack_compile(request, body);
    else
        out = pod_wire_pack_levels(&level, 1, 0, NULL, 0, 0);
    if (out == NULL)
        entry_no_memory(body->err);
    return out;
}

// Says where it comes from, unless the entry before it on its stream did.
static void entry_body_trace(const struct gd *driver,
                             const struct gd_item *item,
                             const struct gd_request *request,
                             struct entry_body *body)
{
    struct pod_trace *trace = item->call.trace;
    enum gd_stream stream = gd_request_stream(request);

    body->entry.operation = item->call.operation;
    if (trace == NULL)
        return;
    if (trace->trace_id[0] != '\0')
        body->entry.span = item->call.span;
    if (driver->link->told[stream] == trace) {
        body->entry.same_trace = true;
        return;
    }
    pod__worker__v1__trace__init(&body->trace);
    pod_trace_print(trace, body->traceparent);
    body->trace.request_id = trace->request_id;
    body->trace.traceparent = body->traceparent;
    body->entry.trace = &body->trace;
}

struct pod_wire_out *gd_entry_encode(struct gd *driver, struct gd_item *item,
                                     const struct gd_request *request,
                                     struct pod_err *err)
{
    struct entry_body body = {.entry = POD__WORKER__V1__ENTRY__INIT,
                              .err = err};
    struct pod_wire_out *out = NULL;
    uint64_t handle = 0;

    if (request->handle != 0) {
        handle = gd_handle_locked(driver, request->handle, err);
        if (handle == 0)
            return NULL;
    }
    body.entry.op = item->wire;
    body.entry.priority = item->call.priority;
    body.entry.want_started = item->call.started != NULL;
    entry_body_trace(driver, item, request, &body);
    if (entry_body_waits(driver, item, &body) &&
        entry_body_fill(driver, item, request, handle, &body))
        out = entry_pack(request, handle, &body);
    entry_body_fini(&body);
    return out;
}

struct pod_wire_out *gd_entry_cancel(uint64_t wire, uint64_t own_wire)
{
    Pod__Worker__V1__Entry entry = POD__WORKER__V1__ENTRY__INIT;
    Pod__Worker__V1__Cancel cancel = POD__WORKER__V1__CANCEL__INIT;
    const struct pod_wire_level level = {.number = ENTRY_FIELD,
                                         .message = &entry.base};

    entry.op = own_wire;
    entry.what_case = POD__WORKER__V1__ENTRY__WHAT_CANCEL;
    entry.cancel = &cancel;
    cancel.op = wire;
    return pod_wire_pack_levels(&level, 1, 0, NULL, 0, 0);
}
