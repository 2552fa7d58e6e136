// SPDX-License-Identifier: Apache-2.0
// Records of operations: made before the lock is taken, with room for all that
// their requests need, and freed after it.
#include "core/pod/op_new.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/pod/compile.h"
#include "core/pod/graph.h"
#include "core/pod/staging.h"
#include "core/pod/transfer.h"

// Before it makes a larger block malloc tidies all that were freed.
_Static_assert(sizeof(struct pod_op) <= 1000, "records come fast from malloc");

static struct pod_op *op_calloc(enum pod_kind kind)
{
    struct pod_op *op = pod_calloc(1, sizeof(*op));

    if (op == NULL)
        return NULL;
    op->kind = kind;
    op->state = POD_SCHED_WAITING;
    op->outcome = POD_SCHED_SUCCEEDED;
    op->host = POD_NO_ID;
    op->core = POD_NO_ID;
    op->deadline_ns = POD_NEVER;
    op->ready_ns = -1;
    op->running_ns = -1;
    op->finished_ns = -1;
    pod_list_init(&op->link);
    pod_list_init(&op->change_waiters);
    pod_list_init(&op->end_waiters);
    pod_list_init(&op->doomed);
    return op;
}

// ------------------------------------------------------------ common members

static size_t op_text_bytes(const struct pod_request *request)
{
    size_t bytes = request->name == NULL ? 0 : strlen(request->name) + 1;

    for (size_t i = 0; i < request->label_count; i++)
        bytes += strlen(request->labels[i].key) +
                 strlen(request->labels[i].value) + 2;
    return bytes;
}

static const char *op_put_text(char **place, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *start = *place;

    memcpy(start, text, bytes);
    *place += bytes;
    return start;
}

static bool op_copy_texts(struct pod_op *op, const struct pod_request *request)
{
    size_t text = op_text_bytes(request);
    size_t labels = request->label_count * sizeof(struct pod_label);
    char *place;

    if (text == 0)
        return true;
    op->block = pod_malloc(labels + text);
    if (op->block == NULL)
        return false;
    op->labels = op->block;
    op->label_count = request->label_count;
    place = (char *)op->block + labels;
    for (size_t i = 0; i < request->label_count; i++) {
        op->labels[i].key = op_put_text(&place, request->labels[i].key);
        op->labels[i].value = op_put_text(&place, request->labels[i].value);
    }
    if (request->name != NULL) {
        op->name = place;
        op_put_text(&place, request->name);
    }
    return true;
}

// ------------------------------------------------------------------- by kind

static bool op_new_buffer(struct pod_op *op, bool shaped)
{
    op->buffer = pod_calloc(1, sizeof(*op->buffer));
    if (op->buffer == NULL)
        return false;
    if (shaped)
        op->buffer->shape = pod_malloc(sizeof(*op->buffer->shape));
    if (shaped && op->buffer->shape == NULL)
        return false;
    op->buffer->handle.maker = op;
    op->buffer->nodes = 1;
    pod_list_init(&op->buffer->handle.host_link);
    pod_list_init(&op->buffer->readers);
    pod_list_init(&op->buffer->tuples);
    return true;
}

// The places stand behind the children.
static struct pod_tuple_place *op_places(struct pod_buffer **children,
                                         size_t count)
{
    return (struct pod_tuple_place *)(void *)(children + count);
}

bool pod_tuple_room(struct pod_buffer *tuple, size_t count)
{
    tuple->child_numbers = pod_calloc(count, sizeof(uint64_t));
    tuple->children = pod_calloc(count, sizeof(struct pod_buffer *) +
                                            sizeof(struct pod_tuple_place));
    if (tuple->child_numbers == NULL || tuple->children == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct pod_tuple_place *place = &op_places(tuple->children, count)[i];
        pod_list_init(&place->link);
        place->tuple = tuple;
    }
    return true;
}

void pod_tuple_hold_locked(struct pod_buffer *buffer)
{
    for (size_t i = 0; buffer->is_tuple && i < buffer->child_count; i++)
        pod_list_push_back(
            &buffer->children[i]->tuples,
            &op_places(buffer->children, buffer->child_count)[i].link);
}

void pod_tuple_let_go_locked(struct pod_buffer *buffer)
{
    for (size_t i = 0; buffer->is_tuple && i < buffer->child_count; i++)
        pod_list_remove(
            &op_places(buffer->children, buffer->child_count)[i].link);
}

// One element, repeated: as much as one piece of the transfer needs.
static struct pod_blob *op_new_pattern(const struct pod *pod,
                                       const unsigned char *fill, size_t size,
                                       uint64_t bytes)
{
    size_t chunk = pod->options.chunk_bytes;
    size_t length = bytes < chunk ? (size_t)bytes : chunk;
    struct pod_blob *blob = pod_blob_new(length + size);

    for (size_t i = 0; blob != NULL && i < length + size; i++)
        blob->data[i] = fill[i % size];
    return blob;
}

static bool op_new_allocate(struct pod *pod, struct pod_op *op,
                            const struct pod_request *request)
{
    const struct pod_shape *shape = request->allocate.shape;
    uint64_t bytes = request->allocate.bytes;

    if (!op_new_buffer(op, shape != NULL))
        return false;
    if (shape != NULL) {
        op->buffer->has_shape = true;
        *op->buffer->shape = *shape;
        bytes = (uint64_t)pod_shape_bytes(shape);
    }
    op->buffer->bytes = bytes;
    op->bytes = bytes;
    if (request->allocate.data == NULL && request->allocate.fill_size == 0)
        return true;
    op->transfer = pod_transfer_new(pod, op);
    if (op->transfer == NULL)
        return false;
    op->transfer->total = bytes;
    if (request->allocate.data != NULL) {
        op->transfer->blob = pod_blob_ref(request->allocate.data);
        return true;
    }
    op->transfer->period = request->allocate.fill_size;
    op->transfer->blob = op_new_pattern(pod, request->allocate.fill,
                                        request->allocate.fill_size, bytes);
    return op->transfer->blob != NULL;
}

static bool op_new_tuple(struct pod_op *op, const struct pod_request *request)
{
    size_t count = request->tuple.child_count;

    if (!op_new_buffer(op, false))
        return false;
    op->buffer->is_tuple = true;
    op->buffer->child_count = count;
    return pod_tuple_room(op->buffer, count);
}

static bool op_new_write(struct pod *pod, struct pod_op *op,
                         const struct pod_request *request)
{
    op->transfer = pod_transfer_new(pod, op);
    if (op->transfer == NULL)
        return false;
    op->transfer->blob = pod_blob_ref(request->write.data);
    op->transfer->total = request->write.data->size;
    op->transfer->to_offset = request->write.offset;
    op->bytes = request->write.data->size;
    return true;
}

static bool op_new_read(struct pod *pod, struct pod_op *op,
                        const struct pod_request *request)
{
    op->transfer = pod_transfer_new(pod, op);
    if (op->transfer == NULL)
        return false;
    op->transfer->from_offset = request->read.offset;
    op->transfer->total = request->read.length;
    op->shape = pod_calloc(1, sizeof(*op->shape));
    if (request->read.stream == NULL && !pod_kept_new(op))
        return false;
    return op->shape != NULL;
}

static bool op_new_compile(struct pod *pod, struct pod_op *op,
                           const struct pod_request *request)
{
    op->program = pod_calloc(1, sizeof(*op->program));
    if (op->program == NULL)
        return false;
    op->program->handle.maker = op;
    pod_list_init(&op->program->handle.host_link);
    pod_list_init(&op->program->loads);
    pod_list_init(&op->program->closing);
    op->program->format = request->compile.format;
    op->program->replicas = request->compile.replicas;
    op->program->bytes = request->compile.program->size;
    strncpy(op->program->digest, request->compile.digest,
            sizeof(op->program->digest) - 1);
    op->outcome_room = atomic_load(&pod->live_hosts);
    op->outcomes = pod_calloc(op->outcome_room, sizeof(*op->outcomes));
    op->compiled = pod_compiled_new(pod, request->compile.program, op->program);
    return op->outcomes != NULL && op->compiled != NULL;
}

static bool op_new_load(struct pod_op *op)
{
    op->load = pod_calloc(1, sizeof(*op->load));
    if (op->load == NULL)
        return false;
    op->load->handle.maker = op;
    pod_list_init(&op->load->handle.host_link);
    pod_list_init(&op->load->program_link);
    pod_list_init(&op->load->users);
    return true;
}

static bool op_new_reset(struct pod_op *op)
{
    op->outcomes = pod_calloc(op->work->call_count, sizeof(*op->outcomes));
    return op->outcomes != NULL;
}

// ---------------------------------------------------------------- executions

static size_t op_outputs(const struct pod_launch *launch,
                         const size_t *auto_counts, size_t index)
{
    return launch->auto_outputs ? auto_counts[index] : launch->output_count;
}

// Deals the lists of the replicas out of one block: numbers, then records.
static bool op_deal_arrays(struct pod_op *op)
{
    size_t buffers = op->work->use_capacity + op->work->write_capacity;
    uint64_t *numbers;
    struct pod_buffer **records;

    op->arrays =
        pod_calloc(buffers, sizeof(uint64_t) + sizeof(struct pod_buffer *));
    if (op->arrays == NULL)
        return false;
    numbers = op->arrays;
    records = (struct pod_buffer **)(void *)(numbers + buffers);
    for (size_t i = 0; i < op->replica_count; i++) {
        struct pod_replica *replica = &op->replicas[i];
        replica->inputs = numbers;
        replica->outputs = numbers + replica->input_count;
        replica->input_buffers = records;
        replica->output_buffers = records + replica->input_count;
        numbers += replica->input_count + replica->output_count;
        records += replica->input_count + replica->output_count;
    }
    return true;
}

static bool op_new_execute(struct pod_op *op, const struct pod_request *request,
                           const size_t *auto_counts)
{
    op->replica_count = request->execute.launch_count;
    op->replicas = pod_calloc(op->replica_count, sizeof(*op->replicas));
    if (op->replicas == NULL)
        return false;
    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_launch *launch = &request->execute.launches[i];
        struct pod_replica *replica = &op->replicas[i];
        replica->input_count = launch->input_count;
        replica->output_count = op_outputs(launch, auto_counts, i);
    }
    op->is_gang = request->execute.is_gang;
    return op_deal_arrays(op);
}

// ----------------------------------------------------------------- all kinds

// What the work on a request takes.
static struct pod_work_room op_room(const struct pod *pod,
                                    const struct pod_request *request,
                                    const size_t *auto_counts)
{
    struct pod_work_room room = {.calls = 0};

    if (request->kind == POD_KIND_RESET)
        room.calls = atomic_load(&pod->live_hosts);
    room.reads =
        request->kind == POD_KIND_READ || request->kind == POD_KIND_COPY;
    room.writes =
        request->kind == POD_KIND_WRITE || request->kind == POD_KIND_COPY;
    if (request->kind != POD_KIND_EXECUTE)
        return room;
    room.calls = room.replicas = request->execute.launch_count;
    for (size_t i = 0; i < room.replicas; i++) {
        const struct pod_launch *launch = &request->execute.launches[i];
        room.reads += launch->input_count;
        room.writes += op_outputs(launch, auto_counts, i);
    }
    return room;
}

static bool op_new_kind(struct pod *pod, struct pod_op *op,
                        const struct pod_request *request,
                        const size_t *auto_counts)
{
    switch (request->kind) {
    case POD_KIND_ALLOCATE:
        return op_new_allocate(pod, op, request);
    case POD_KIND_ALLOCATE_TUPLE:
        return op_new_tuple(op, request);
    case POD_KIND_WRITE:
        return op_new_write(pod, op, request);
    case POD_KIND_READ:
        return op_new_read(pod, op, request);
    case POD_KIND_COMPILE:
        return op_new_compile(pod, op, request);
    case POD_KIND_LOAD:
        return op_new_load(op);
    case POD_KIND_EXECUTE:
        return op_new_execute(op, request, auto_counts);
    case POD_KIND_RESET:
        return op_new_reset(op);
    case POD_KIND_GRAPH:
        op->members = pod_graph_new();
        return op->members != NULL;
    case POD_KIND_COPY:
    case POD_KIND_FREE:
    case POD_KIND_UNLOAD:
    case POD_KIND_COUNT:
        break;
    }
    return true;
}

struct pod_op *pod_op_new(struct pod *pod, struct pod_work_maker *maker,
                          const struct pod_request *request,
                          const size_t *auto_counts)
{
    struct pod_op *op = op_calloc(request->kind);

    if (op == NULL)
        return NULL;
    op->priority = (int8_t)request->priority;
    op->run_on_failure = request->run_on_failure;
    op->deadline_ns = request->deadline_ns;
    if (pod_work_new(maker, op, op_room(pod, request, auto_counts)) &&
        op_copy_texts(op, request) &&
        op_new_kind(pod, op, request, auto_counts))
        return op;
    pod_op_free(pod, op);
    return NULL;
}

struct pod_op *pod_op_new_output(struct pod *pod, struct pod_work_maker *maker)
{
    struct pod_op *op = op_calloc(POD_KIND_ALLOCATE);

    if (op != NULL &&
        pod_work_new(maker, op, (struct pod_work_room){.calls = 0}) &&
        op_new_buffer(op, true)) {
        op->auto_output = true;
        return op;
    }
    pod_op_free(pod, op);
    return NULL;
}

// -------------------------------------------------------------------- freeing

void pod_op_leave_transfer(struct pod_op *op)
{
    if (op->transfer != NULL)
        op->transfer->op = NULL;
    pod_transfer_unref(op->transfer);
    op->transfer = NULL;
}

static void op_free_buffer(struct pod_buffer *buffer)
{
    if (buffer == NULL)
        return;
    pod_failure_unref(buffer->handle.loss);
    pod_free(buffer->shape);
    pod_free(buffer->child_numbers);
    pod_free(buffer->children);
    pod_free(buffer);
}

static void op_free_program(struct pod_program *program)
{
    if (program == NULL)
        return;
    pod_failure_unref(program->handle.loss);
    if (program->has_shape)
        pod_program_shape_fini(&program->shape);
    pod_free(program);
}

static void op_free_load(struct pod_loaded *load)
{
    if (load == NULL)
        return;
    pod_failure_unref(load->handle.loss);
    pod_free(load);
}

void pod_op_free(struct pod *pod, struct pod_op *op)
{
    if (op == NULL)
        return;
    pod_op_leave_transfer(op);
    pod_work_free(op);
    if (op->kind == POD_KIND_COMPILE)
        pod_compiled_free(op->compiled);
    op_free_buffer(op->buffer);
    op_free_program(op->program);
    op_free_load(op->load);
    pod_graph_free(op->members);
    for (size_t i = 0; i < op->outcome_count; i++)
        pod_failure_unref(op->outcomes[i].failure);
    pod_free(op->outcomes);
    pod_free(op->replicas);
    pod_free(op->arrays);
    pod_free(op->load_numbers);
    pod_free(op->deps);
    pod_failure_unref(op->failure);
    pod_free(op->causes);
    pod_free(op->cancel_reason);
    if (op->kept != NULL)
        pod_data_discard(pod, op->kept->data);
    pod_free(op->kept);
    pod_free(op->shape);
    pod_free(op->block);
    pod_trace_unref(op->trace);
    pod_free(op);
}
