// SPDX-License-Identifier: Apache-2.0
// Entries of a session: from the message to the request, and the outcome back.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/pod_internal.h"
#include "proto/shape_wire.h"

enum {
    POD_MAX_PRIORITY = 10,
    POD_FIELD_WRITE = 13,     // of Entry
    POD_FIELD_WRITE_DATA = 3, // of Write
};

// An entry on its way to the worker.
struct pod_work {
    struct pod_service *service;
    struct worker_session *session;
    Pod__Worker__V1__Entry *entry;
    struct worker_request request;
    struct pod_shape shape;
    struct pod_driver_launch *launches;
    struct pod_blob *pieces;   // of a write, that the message came without
    struct pod_wire_bulk left; // the same, in the stream's message
    ProtobufCBinaryData bulk;  // what the blob will be made of
    bool has_bulk;
};

// -------------------------------------------------------------------- buffers

static enum pod_code pod_allocate(struct pod_work *work, struct pod_err *err)
{
    const Pod__Worker__V1__Allocate *allocate = work->entry->allocate;
    work->request.kind = WORKER_ALLOCATE;
    work->request.core = allocate->core;
    if (allocate->size_case == POD__WORKER__V1__ALLOCATE__SIZE_SHAPE) {
        work->request.shape = &work->shape;
        return pod_array_wire_parse(allocate->shape.data, allocate->shape.len,
                                    &work->shape, err);
    }
    if (allocate->size_case != POD__WORKER__V1__ALLOCATE__SIZE_RAW_BYTES)
        return pod_err_set(err, POD_REASON_MISSING_MEMBER,
                           "an allocation without a size");
    work->request.bytes = allocate->raw_bytes;
    return POD_OK;
}

static enum pod_code pod_chunk(uint64_t bytes, struct pod_err *err)
{
    if (bytes <= POD_SERVICE_CHUNK_BYTES)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_LENGTH,
                       "%" PRIu64 " bytes in one entry; at most %d are taken",
                       bytes, POD_SERVICE_CHUNK_BYTES);
}

static enum pod_code pod_write(struct pod_work *work, struct pod_err *err)
{
    const Pod__Worker__V1__Write *write = work->entry->write;
    work->request.kind = WORKER_WRITE;
    work->request.target = write->buffer;
    work->request.offset = write->offset;
    work->request.data_count = work->pieces != NULL      ? work->pieces->size
                               : work->left.data != NULL ? work->left.size
                                                         : write->data.len;
    work->bulk = write->data;
    work->has_bulk = true;
    return pod_chunk(work->request.data_count, err);
}

static enum pod_code pod_read(struct pod_work *work, struct pod_err *err)
{
    const Pod__Worker__V1__Read *read = work->entry->read;
    work->request.kind = WORKER_READ;
    work->request.target = read->buffer;
    work->request.offset = read->offset;
    work->request.count = read->count;
    return pod_chunk(read->count, err);
}

static enum pod_code pod_compile(struct pod_work *work, struct pod_err *err)
{
    const Pod__Worker__V1__Compile *compile = work->entry->compile;
    work->request.kind = WORKER_COMPILE;
    if (compile->format >= POD_FORMAT_COUNT)
        return pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                           "unknown program format %" PRIu32, compile->format);
    if (compile->replicas < 1 || compile->replicas > WORKER_MAX_REPLICAS)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "a program for %" PRIu32
                           " replicas; 1 to %d are possible",
                           compile->replicas, WORKER_MAX_REPLICAS);
    work->request.format = (enum pod_program_format)compile->format;
    work->request.replicas = compile->replicas;
    work->bulk = compile->program;
    work->has_bulk = true;
    return POD_OK;
}

// ----------------------------------------------------------------- executions

static enum pod_code pod_launches(struct pod_work *work,
                                  const Pod__Worker__V1__Execute *execute,
                                  struct pod_err *err)
{
    work->launches = pod_calloc(execute->n_launches, sizeof(work->launches[0]));
    if (work->launches == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    for (size_t i = 0; i < execute->n_launches; i++) {
        const Pod__Worker__V1__Launch *launch = execute->launches[i];
        work->launches[i] = (struct pod_driver_launch){
            .load = launch->load,
            .inputs = launch->inputs,
            .input_count = launch->n_inputs,
            .outputs = launch->outputs,
            .output_count = launch->n_outputs,
            .replica = launch->replica,
        };
    }
    work->request.launches = work->launches;
    work->request.launch_count = execute->n_launches;
    return POD_OK;
}

static enum pod_code pod_execute(struct pod_work *work, struct pod_err *err)
{
    const Pod__Worker__V1__Execute *execute = work->entry->execute;
    size_t replicas = execute->n_members == 0 ? 1 : execute->n_members;
    work->request.kind = WORKER_EXECUTE;
    if (execute->n_launches == 0 || execute->n_launches > replicas ||
        replicas > WORKER_MAX_REPLICAS)
        return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                           "%zu launches for a gang of %zu",
                           execute->n_launches, replicas);
    work->request.replica_count = (uint32_t)replicas;
    enum pod_code code = pod_launches(work, execute, err);
    if (code != POD_OK || execute->n_launches == replicas)
        return code;
    if (work->service->gangs == NULL)
        return pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                           "this worker runs no gangs with others");
    return gang_links_plan(work->service->gangs, execute, &work->request.plan,
                           err);
}

// -------------------------------------------------------------------- entries

static enum pod_code pod_single(struct pod_work *work, enum worker_kind kind,
                                uint64_t target)
{
    work->request.kind = kind;
    work->request.target = target;
    return POD_OK;
}

static enum pod_code pod_request(struct pod_work *work, struct pod_err *err)
{
    const Pod__Worker__V1__Entry *entry = work->entry;
    switch ((int)entry->what_case) {
    case POD__WORKER__V1__ENTRY__WHAT_ALLOCATE:
        return pod_allocate(work, err);
    case POD__WORKER__V1__ENTRY__WHAT_ALLOCATE_TUPLE:
        work->request.kind = WORKER_TUPLE;
        work->request.core = entry->allocate_tuple->core;
        work->request.children = entry->allocate_tuple->children;
        work->request.child_count = entry->allocate_tuple->n_children;
        return POD_OK;
    case POD__WORKER__V1__ENTRY__WHAT_DEALLOCATE:
        return pod_single(work, WORKER_DEALLOCATE, entry->deallocate->buffer);
    case POD__WORKER__V1__ENTRY__WHAT_WRITE:
        return pod_write(work, err);
    case POD__WORKER__V1__ENTRY__WHAT_READ:
        return pod_read(work, err);
    case POD__WORKER__V1__ENTRY__WHAT_COPY:
        work->request.second = entry->copy->to;
        return pod_single(work, WORKER_COPY, entry->copy->from);
    case POD__WORKER__V1__ENTRY__WHAT_COMPILE:
        return pod_compile(work, err);
    case POD__WORKER__V1__ENTRY__WHAT_FREE_PROGRAM:
        return pod_single(work, WORKER_FREE_PROGRAM,
                          entry->free_program->program);
    case POD__WORKER__V1__ENTRY__WHAT_LOAD:
        work->request.core = entry->load->core;
        return pod_single(work, WORKER_LOAD, entry->load->program);
    case POD__WORKER__V1__ENTRY__WHAT_UNLOAD:
        return pod_single(work, WORKER_UNLOAD, entry->unload->load);
    case POD__WORKER__V1__ENTRY__WHAT_EXECUTE:
        return pod_execute(work, err);
    case POD__WORKER__V1__ENTRY__WHAT_COPY_FROM_PEER:
        work->request.task =
            pod_peer_copy(work->service, entry->copy_from_peer);
        if (work->request.task == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
        return pod_single(work, WORKER_TASK, entry->copy_from_peer->to);
    default:
        break;
    }
    return pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                       "the operation is of a kind this worker does not know");
}

static enum pod_code pod_build(struct pod_work *work, struct pod_err *err)
{
    const Pod__Worker__V1__Entry *entry = work->entry;
    struct worker_request *request = &work->request;
    request->waits = entry->waits;
    request->wait_count = entry->n_waits;
    request->orders = entry->orders;
    request->order_count = entry->n_orders;
    request->want_started = entry->want_started != 0;
    request->priority = entry->priority < -POD_MAX_PRIORITY  ? -POD_MAX_PRIORITY
                        : entry->priority > POD_MAX_PRIORITY ? POD_MAX_PRIORITY
                                                             : entry->priority;
    if (entry->op >> POD_SERVICE_NUMBER_BITS != 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "op-%" PRIu64 " is too high a number", entry->op);
    return pod_request(work, err);
}

// The bytes of a write stay in the stream's message if they are many. Else they
// stay, as a program does, in the unpacked entry, and so does all that the
// request points at; the blob then owns it.
static enum pod_code pod_keep_bulk(struct pod_work *work,
                                   struct rpc_stream *stream,
                                   struct pod_err *err)
{
    if (!work->has_bulk)
        return POD_OK;
    if (work->request.kind == WORKER_WRITE && work->pieces != NULL) {
        work->request.data = pod_blob_ref(work->pieces);
        return POD_OK;
    }
    bool left = work->request.kind == WORKER_WRITE && work->left.data != NULL;
    work->request.data =
        left ? rpc_stream_keep(stream, work->left.data, work->left.size)
             : pod_wire_blob(&work->entry->base, work->bulk);
    if (work->request.data == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (!left)
        work->entry = NULL;
    return POD_OK;
}

static void pod_submit(struct pod_work *work, struct answers *answers)
{
    struct pod_err err = POD_ERR_NONE;
    enum pod_code code = pod_build(work, &err);
    if (code == POD_OK)
        code = pod_keep_bulk(work, answers->stream, &err);
    answers_expect(answers);
    if (code == POD_OK)
        worker_submit(work->session, &work->request, &answers->sink);
    else
        worker_refuse(work->session, &work->request, &err, &answers->sink);
    pod_blob_unref(work->request.data);
}

// --------------------------------------------------------------- reset, cancel

// What answers a reset when it is done.
struct pod_reset {
    struct answers *answers; // with a reference
    uint64_t session;
    uint64_t number;
};

static void pod_reset_done(void *arg)
{
    struct pod_reset *reset = arg;
    struct pod_err none = POD_ERR_NONE;
    struct worker_answer answer = {
        .session = reset->session, .number = reset->number, .err = &none};
    struct worker_sink *sink = &reset->answers->sink;
    sink->answer(sink, &answer);
    sink->unref(sink);
    pod_free(reset);
}

static void pod_reset(struct pod_work *work, struct answers *answers)
{
    struct pod_reset *reset = pod_calloc(1, sizeof(*reset));
    struct pod_err err = POD_ERR_NONE;
    answers_expect(answers);
    if (reset == NULL) {
        (void)pod_err_set(&err, POD_REASON_OUT_OF_MEMORY, "no memory");
        worker_refuse(work->session, &work->request, &err, &answers->sink);
        return;
    }
    answers->sink.ref(&answers->sink);
    *reset = (struct pod_reset){.answers = answers,
                                .session = worker_session_id(work->session),
                                .number = work->entry->op};
    worker_reset(work->session, pod_reset_done, reset);
}

// Text that is no id is left out, as in a request to podd.
static void pod_origin(struct answers *answers,
                       const Pod__Worker__V1__Entry *entry,
                       struct worker_origin *out_origin)
{
    if (entry->trace != NULL) {
        pod_trace_unref(answers->trace);
        answers->trace =
            pod_trace_new(entry->trace->request_id, entry->trace->traceparent);
    }
    if (entry->trace != NULL || entry->same_trace)
        out_origin->trace = answers->trace;
    out_origin->operation = entry->operation;
    out_origin->span = entry->span;
}

enum pod_code pod_entry(struct pod_service *service, struct answers *answers,
                        const void *data, size_t size, struct pod_err *err)
{
    static const struct wire_lean_path path = {
        .numbers = {POD_FIELD_WRITE, POD_FIELD_WRITE_DATA}, .depth = 2};
    struct pod_work work = {.service = service, .session = answers->session};
    ProtobufCMessage *message = NULL;
    enum pod_code code =
        pod_wire_unpack_but(&pod__worker__v1__entry__descriptor, &path, data,
                            size, &message, &work.left, err);
    if (code != POD_OK)
        return code;
    work.entry = (Pod__Worker__V1__Entry *)message;
    work.pieces = rpc_stream_bulk(answers->stream, data, size);
    work.request.number = work.entry->op;
    pod_origin(answers, work.entry, &work.request.origin);
    if (work.entry->what_case == POD__WORKER__V1__ENTRY__WHAT_CANCEL)
        worker_cancel(work.session, work.entry->cancel->op);
    else if (work.entry->what_case == POD__WORKER__V1__ENTRY__WHAT_RESET)
        pod_reset(&work, answers);
    else
        pod_submit(&work, answers);
    pod_blob_unref(work.pieces);
    pod_free(work.launches);
    if (work.entry != NULL)
        pod_wire_free(&work.entry->base);
    return POD_OK;
}

// ------------------------------------------------------------------- outcomes

enum { POD_STATUS_REASON_BYTES = 64 };

// The status borrows the two texts, which are written only for a failure.
static void pod_pack_status(const struct worker_answer *answer,
                            Pod__Worker__V1__Status *status,
                            char reason[POD_STATUS_REASON_BYTES],
                            char text[POD_ERR_TEXT_BYTES])
{
    const struct pod_err *err = answer->err;
    if (err->code == POD_OK)
        return;
    (void)snprintf(reason, POD_STATUS_REASON_BYTES, "%s",
                   pod_reason_name(err->reason));
    memcpy(text, err->text, sizeof(err->text));
    pod_wire_clean_text(text);
    status->code = (uint32_t)err->code;
    status->reason = reason;
    status->message = text;
    status->line = err->line > 0 ? (uint32_t)err->line : 0;
    status->column = err->column > 0 ? (uint32_t)err->column : 0;
    status->root = answer->root;
}

struct pod_wire_out *pod_entry_pack(struct answers *answers,
                                    const struct worker_answer *answer)
{
    Pod__Worker__V1__Outcome outcome = POD__WORKER__V1__OUTCOME__INIT;
    Pod__Worker__V1__Status status;
    char reason[POD_STATUS_REASON_BYTES];
    char text[POD_ERR_TEXT_BYTES];
    const struct pod_wire_level level = {.number = 1, .message = &outcome.base};
    (void)answers;
    pod__worker__v1__status__init(&status);
    outcome.op = answer->number;
    outcome.started = answer->started || answer->begun;
    if (answer->started)
        return pod_wire_pack_levels(&level, 1, 0, NULL, 0, 0);
    pod_pack_status(answer, &status, reason, text);
    outcome.status = &status;
    if (answer->err->code != POD_OK || answer->data == NULL)
        return pod_wire_pack_levels(&level, 1, 0, NULL, 0, 0);
    return pod_wire_pack_levels(&level, 1, answer->compiled ? 5 : 4,
                                answer->data, 0, answer->data->size);
}
