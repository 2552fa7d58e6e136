// SPDX-License-Identifier: Apache-2.0
// What can be refused at once: a request against limits and the present state.
//
// Checking marks what a request will do to handles (frees them, stands on them,
// takes memory), because later requests of the batch must see it. The marks are
// taken back if the batch fails.
#include "core/pod/submit.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/base/mem.h"

enum pod_code pod_batch_at(const struct pod_batch *batch, size_t item,
                           const char *format, ...)
{
    const char *start = batch->items[item].request->pointer;
    char member[POD_ERR_POINTER_BYTES];
    char place[32];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(member, sizeof(member), format, args);
    va_end(args);
    if (batch->graph != NULL) {
        (void)snprintf(place, sizeof(place), "/ops/%zu", item);
        start = place;
    }
    pod_err_at(batch->err, "%s%s", start == NULL ? "" : start, member);
    return batch->err->code;
}

// --------------------------------------------------------------------- limits

static enum pod_code check_too_many(const struct pod_batch *batch, size_t item,
                                    const char *member, size_t limit)
{
    pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                "there may be at most %zu of these", limit);
    return pod_batch_at(batch, item, "%s", member);
}

static enum pod_code check_execute_limits(const struct pod_batch *batch,
                                          size_t item)
{
    const struct pod_request *request = batch->items[item].request;

    if (request->execute.launch_count == 0) {
        pod_err_set(batch->err, POD_REASON_COUNT_MISMATCH,
                    "an execution needs at least one launch");
        return pod_batch_at(batch, item, "/launches");
    }
    if (request->execute.launch_count > POD_MAX_REPLICAS)
        return check_too_many(batch, item, "/launches", POD_MAX_REPLICAS);
    for (size_t i = 0; i < request->execute.launch_count; i++) {
        const struct pod_launch *launch = &request->execute.launches[i];
        if (launch->input_count > POD_MAX_REFS)
            return check_too_many(batch, item, "/inputs", POD_MAX_REFS);
        if (!launch->auto_outputs && launch->output_count > POD_MAX_REFS)
            return check_too_many(batch, item, "/outputs", POD_MAX_REFS);
    }
    return POD_OK;
}

enum pod_code pod_check_limits(const struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;

    if (request->label_count > POD_MAX_LABELS)
        return check_too_many(batch, item, "/labels", POD_MAX_LABELS);
    if (request->after_count > POD_MAX_REFS)
        return check_too_many(batch, item, "/after", POD_MAX_REFS);
    if (request->priority < -POD_MAX_PRIORITY ||
        request->priority > POD_MAX_PRIORITY) {
        pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                    "the priority is not within -10..10");
        return pod_batch_at(batch, item, "/priority");
    }
    if (request->kind == POD_KIND_EXECUTE)
        return check_execute_limits(batch, item);
    if (request->kind == POD_KIND_ALLOCATE_TUPLE &&
        request->tuple.child_count > POD_MAX_REFS)
        return check_too_many(batch, item, "/tuple", POD_MAX_REFS);
    if (request->kind == POD_KIND_COMPILE &&
        (request->compile.replicas == 0 ||
         request->compile.replicas > POD_MAX_REPLICAS)) {
        pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                    "replicas is not within 1..%d", POD_MAX_REPLICAS);
        return pod_batch_at(batch, item, "/replicas");
    }
    if (request->kind == POD_KIND_RESET &&
        (batch->count != 1 || batch->graph != NULL))
        return pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                           "a reset stands alone");
    if (request->kind >= POD_KIND_COUNT || request->kind == POD_KIND_GRAPH)
        return pod_err_set(batch->err, POD_REASON_UNIMPLEMENTED,
                           "there is no such request");
    return POD_OK;
}

// ----------------------------------------------------------------- references

static const char *check_noun(enum pod_want want)
{
    static const char *const nouns[] = {"operation", "buffer", "program",
                                        "load"};

    return nouns[want];
}

// Of ids, as users write them.
static const char *check_word(enum pod_want want)
{
    static const char *const words[] = {"op", "buf", "prog", "load"};

    return words[want];
}

static bool check_made(const struct pod_op *op, enum pod_want want)
{
    switch (want) {
    case POD_WANT_BUFFER:
        return op->buffer != NULL;
    case POD_WANT_PROGRAM:
        return op->program != NULL;
    case POD_WANT_LOAD:
        return op->load != NULL;
    case POD_WANT_ANY:
        break;
    }
    return true;
}

static bool check_ref_kind(enum pod_ref_kind kind, enum pod_want want)
{
    switch (kind) {
    case POD_REF_BUFFER:
        return want == POD_WANT_BUFFER;
    case POD_REF_PROGRAM:
        return want == POD_WANT_PROGRAM;
    case POD_REF_LOAD:
        return want == POD_WANT_LOAD;
    case POD_REF_OP:
    case POD_REF_GRAPH:
        return want == POD_WANT_ANY;
    case POD_REF_NONE:
    case POD_REF_REQUEST:
        break;
    }
    return false;
}

// An id of a handle means the operation that made it where any will do.
static enum pod_want check_want_of(enum pod_ref_kind kind)
{
    if (kind == POD_REF_BUFFER)
        return POD_WANT_BUFFER;
    if (kind == POD_REF_PROGRAM)
        return POD_WANT_PROGRAM;
    return kind == POD_REF_LOAD ? POD_WANT_LOAD : POD_WANT_ANY;
}

// What made an output of an execution, launch by launch; NULL: there are not so
// many.
static struct pod_op *check_output(const struct pod_op *op, size_t index)
{
    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_replica *replica = &op->replicas[i];
        if (index < replica->output_count)
            return replica->output_buffers[index]->handle.maker;
        index -= replica->output_count;
    }
    return NULL;
}

static enum pod_code check_find_request(const struct pod_batch *batch,
                                        size_t item, const struct pod_ref *ref,
                                        enum pod_want want,
                                        struct pod_op **out_op)
{
    const struct pod_batch_item *named;
    struct pod_op *op;

    if (ref->number >= batch->count || !batch->items[ref->number].passed) {
        batch->items[item].shadowed = ref->number < batch->count;
        return pod_err_set(batch->err, POD_REASON_UNKNOWN_HANDLE,
                           "request %llu does not stand before this one",
                           (unsigned long long)ref->number);
    }
    named = &batch->items[ref->number];
    op = named->op;
    if (ref->has_output) {
        op = check_output(op, ref->output);
        if (op == NULL)
            return pod_err_set(batch->err, POD_REASON_UNKNOWN_HANDLE,
                               "there is no output %u", ref->output);
    }
    if (!check_made(op, want))
        return pod_err_set(batch->err, POD_REASON_UNKNOWN_HANDLE,
                           "request %llu makes no %s",
                           (unsigned long long)ref->number, check_noun(want));
    *out_op = op;
    return POD_OK;
}

static enum pod_code check_find_number(const struct pod_batch *batch,
                                       const struct pod_ref *ref,
                                       enum pod_want want,
                                       struct pod_op **out_op)
{
    const struct pod *pod = batch->pod;
    enum pod_want made = check_want_of(ref->kind);
    unsigned long long number = ref->number;
    struct pod_op *op = pod_table_get(&pod->table, ref->number);

    if (want != POD_WANT_ANY && !check_ref_kind(ref->kind, want))
        return pod_err_set(batch->err, POD_REASON_UNKNOWN_HANDLE,
                           "this must be a %s", check_noun(want));
    if (number == 0 || number > pod->last_number)
        return pod_err_set(batch->err, POD_REASON_UNKNOWN_HANDLE,
                           "%s-%llu does not exist", check_word(made), number);
    if (op == NULL)
        return pod_err_set(batch->err, POD_REASON_DEPENDENCY_EXPIRED,
                           "%s-%llu is not kept any more", check_word(made),
                           number);
    if (!check_made(op, made) ||
        (ref->kind == POD_REF_GRAPH && op->kind != POD_KIND_GRAPH))
        return pod_err_set(batch->err, POD_REASON_UNKNOWN_HANDLE,
                           "op-%llu made no %s", number, check_noun(made));
    *out_op = op;
    return POD_OK;
}

enum pod_code pod_batch_find_locked(const struct pod_batch *batch, size_t item,
                                    const struct pod_ref *ref,
                                    enum pod_want want, struct pod_op **out_op)
{
    enum pod_code code =
        ref->kind == POD_REF_REQUEST
            ? check_find_request(batch, item, ref, want, out_op)
            : check_find_number(batch, ref, want, out_op);

    if (code != POD_OK || want == POD_WANT_ANY)
        return code;
    const struct pod_handle *handle = pod_op_handle(*out_op);
    if (handle == NULL || handle->freed_by == 0)
        return POD_OK;
    if (batch->out_existing != NULL)
        *batch->out_existing = handle->freed_by;
    if (handle->freed_by >= batch->first)
        return pod_err_set(batch->err, POD_REASON_HANDLE_FREED,
                           "the %s is freed by an operation before this one",
                           check_noun(want));
    return pod_err_set(batch->err, POD_REASON_HANDLE_FREED,
                       "%s-%llu was freed by op-%llu", check_word(want),
                       (unsigned long long)(*out_op)->number,
                       (unsigned long long)handle->freed_by);
}

enum pod_code pod_batch_find_after_locked(const struct pod_batch *batch,
                                          const struct pod_ref *ref,
                                          struct pod_op **out_op)
{
    return check_find_number(batch, ref, POD_WANT_ANY, out_op);
}

// The buffer that a member names, or NULL with err set.
static struct pod_buffer *check_buffer(const struct pod_batch *batch,
                                       size_t item, const struct pod_ref *ref,
                                       const char *member)
{
    struct pod_op *op;

    if (pod_batch_find_locked(batch, item, ref, POD_WANT_BUFFER, &op) == POD_OK)
        return op->buffer;
    pod_batch_at(batch, item, "%s", member);
    return NULL;
}

// ------------------------------------------------------------------ placement

enum pod_code pod_check_place_locked(const struct pod *pod, uint32_t core,
                                     struct pod_err *err)
{
    bool waiting = false;

    for (size_t i = 0; i < pod->host_count; i++)
        waiting = waiting || !pod->hosts[i]->placed;
    if (core >= pod->core_count && waiting)
        return pod_err_set(err, POD_REASON_HOST_NOT_READY,
                           "core %u is not known yet: not all hosts are "
                           "connected",
                           core);
    if (core >= pod->core_count)
        return pod_err_set(err, POD_REASON_UNKNOWN_CORE,
                           "there is no core %u, the pod has %zu", core,
                           pod->core_count);
    const struct pod_host *host = pod->hosts[pod->cores[core]->host];
    if (host->state == POD_HOST_LOST)
        return pod_err_set(err, POD_REASON_HOST_LOST,
                           "host %u of core %u is lost: %s", host->id, core,
                           host->error);
    if (host->state == POD_HOST_CONNECTING)
        return pod_err_set(err, POD_REASON_HOST_NOT_READY,
                           "host %u of core %u is not connected", host->id,
                           core);
    if (host->cordoned)
        return pod_err_set(err, POD_REASON_HOST_CORDONED,
                           "host %u of core %u is cordoned", host->id, core);
    return POD_OK;
}

static void check_target(struct pod_op *op, struct pod_buffer *buffer)
{
    op->target = buffer;
    op->buffer_number = buffer->handle.maker->number;
    op->host = buffer->host;
    op->core = buffer->core;
}

// ------------------------------------------------------------------- buffers

static enum pod_code check_contents(const struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    const struct pod_buffer *buffer = batch->items[item].op->buffer;
    size_t fill = request->allocate.fill_size;

    if (request->allocate.data != NULL &&
        request->allocate.data->size != buffer->bytes) {
        pod_err_set(batch->err, POD_REASON_BAD_LENGTH,
                    "the buffer has %llu bytes, the data %zu",
                    (unsigned long long)buffer->bytes,
                    request->allocate.data->size);
        return pod_batch_at(batch, item, "/values");
    }
    if (fill > 0 &&
        (fill > sizeof(request->allocate.fill) || buffer->bytes % fill != 0)) {
        pod_err_set(batch->err, POD_REASON_SHAPE_MISMATCH,
                    "an element of %zu bytes does not fill the buffer", fill);
        return pod_batch_at(batch, item, "/fill");
    }
    return POD_OK;
}

static enum pod_code check_allocate(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    struct pod *pod = batch->pod;
    const struct pod_core *core;

    if (pod_check_place_locked(pod, request->allocate.core, batch->err) !=
        POD_OK)
        return pod_batch_at(batch, item, "/core");
    if (request->allocate.shape != NULL &&
        !pod_shape_is_array(request->allocate.shape)) {
        pod_err_set(batch->err, POD_REASON_BAD_SHAPE,
                    "a buffer is allocated for an array");
        return pod_batch_at(batch, item, "/shape");
    }
    core = pod->cores[request->allocate.core];
    if (op->buffer->bytes > core->memory_total) {
        pod_err_set(batch->err, POD_REASON_RESOURCE_EXHAUSTED,
                    "core %u has %llu bytes in all, the buffer needs %llu",
                    core->id, (unsigned long long)core->memory_total,
                    (unsigned long long)op->buffer->bytes);
        return pod_batch_at(
            batch, item, request->allocate.shape != NULL ? "/shape" : "/bytes");
    }
    if (check_contents(batch, item) != POD_OK)
        return batch->err->code;
    op->host = op->buffer->host = core->host;
    op->core = op->buffer->core = core->id;
    op->buffer_number = op->number;
    op->waits_for_memory = !pod_memory_fits(core, op->buffer->bytes);
    pod_memory_reserve_locked(pod, op->buffer);
    return POD_OK;
}

static enum pod_code check_tuple_child(const struct pod_batch *batch,
                                       size_t item, size_t index)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_buffer *tuple = batch->items[item].op->buffer;
    struct pod_buffer *child;
    struct pod_op *op;

    if (pod_batch_find_locked(batch, item, &request->tuple.children[index],
                              POD_WANT_BUFFER, &op) != POD_OK)
        return pod_batch_at(batch, item, "/tuple/%zu", index);
    child = op->buffer;
    if (index > 0 && child->core != tuple->core) {
        pod_err_set(batch->err, POD_REASON_CORE_MISMATCH,
                    "the buffer is on core %u, the first one on core %u",
                    child->core, tuple->core);
        return pod_batch_at(batch, item, "/tuple/%zu", index);
    }
    tuple->core = child->core;
    tuple->host = child->host;
    tuple->nodes += child->nodes;
    if (tuple->depth <= child->depth)
        tuple->depth = child->depth + 1;
    if (tuple->nodes > POD_SHAPE_MAX_NODES ||
        tuple->depth > POD_SHAPE_MAX_DEPTH) {
        pod_err_set(batch->err, POD_REASON_BAD_SHAPE,
                    "the tuple has more than %d buffers or is deeper than %d",
                    POD_SHAPE_MAX_NODES, POD_SHAPE_MAX_DEPTH);
        return pod_batch_at(batch, item, "/tuple/%zu", index);
    }
    tuple->children[index] = child;
    tuple->child_numbers[index] = op->number;
    tuple->bytes += child->bytes;
    return POD_OK;
}

static enum pod_code check_tuple(struct pod_batch *batch, size_t item)
{
    struct pod_op *op = batch->items[item].op;
    struct pod_buffer *tuple = op->buffer;

    if (tuple->child_count == 0) {
        pod_err_set(batch->err, POD_REASON_COUNT_MISMATCH,
                    "a tuple of nothing has no core");
        return pod_batch_at(batch, item, "/tuple");
    }
    tuple->depth = 1;
    for (size_t i = 0; i < tuple->child_count; i++) {
        if (check_tuple_child(batch, item, i) != POD_OK)
            return batch->err->code;
    }
    if (pod_check_place_locked(batch->pod, tuple->core, batch->err) != POD_OK)
        return pod_batch_at(batch, item, "/tuple");
    for (size_t i = 0; i < tuple->child_count; i++)
        tuple->children[i]->tuple_uses++;
    op->host = tuple->host;
    op->core = tuple->core;
    op->bytes = tuple->bytes;
    op->buffer_number = op->number;
    return POD_OK;
}

static enum pod_code check_not_tuple(const struct pod_batch *batch, size_t item,
                                     const struct pod_buffer *buffer,
                                     const char *member)
{
    if (!buffer->is_tuple)
        return POD_OK;
    pod_err_set(
        batch->err, POD_REASON_IS_A_TUPLE, "buf-%llu is a tuple of %zu buffers",
        (unsigned long long)buffer->handle.maker->number, buffer->child_count);
    return pod_batch_at(batch, item, "%s", member);
}

static enum pod_code check_range(const struct pod_batch *batch, size_t item,
                                 const struct pod_buffer *buffer,
                                 uint64_t offset, uint64_t length)
{
    if (buffer->shape_unknown ||
        (offset <= buffer->bytes && length <= buffer->bytes - offset))
        return POD_OK;
    pod_err_set(batch->err, POD_REASON_OUT_OF_RANGE,
                "%llu bytes at %llu are not within the buffer's %llu",
                (unsigned long long)length, (unsigned long long)offset,
                (unsigned long long)buffer->bytes);
    return pod_batch_at(batch, item, "/buffer");
}

static enum pod_code check_write(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    struct pod_buffer *buffer =
        check_buffer(batch, item, &request->write.buffer, "/buffer");

    if (buffer == NULL ||
        check_not_tuple(batch, item, buffer, "/buffer") != POD_OK ||
        check_range(batch, item, buffer, request->write.offset,
                    request->write.data->size) != POD_OK)
        return batch->err->code;
    check_target(op, buffer);
    return POD_OK;
}

// Takes the room for the bytes that a read is to keep.
static enum pod_code check_kept(const struct pod_batch *batch, uint64_t length)
{
    unsigned long long bytes = length;

    if (length > batch->pod->options.staging_bytes)
        return pod_err_set(
            batch->err, POD_REASON_RESOURCE_EXHAUSTED,
            "%llu bytes are more than the whole staging budget "
            "of %llu: read parts, or without keeping them",
            bytes, (unsigned long long)batch->pod->options.staging_bytes);
    if (!pod_staging_take(batch->pod, length))
        return pod_err_set(batch->err, POD_REASON_STAGING_FULL,
                           "%llu bytes do not fit the staging budget now",
                           bytes);
    return POD_OK;
}

static enum pod_code check_read(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    uint64_t offset = request->read.offset;
    uint64_t length = request->read.length;
    struct pod_buffer *buffer =
        check_buffer(batch, item, &request->read.buffer, "/buffer");

    if (buffer == NULL ||
        check_not_tuple(batch, item, buffer, "/buffer") != POD_OK)
        return batch->err->code;
    if (check_range(batch, item, buffer, offset,
                    length == UINT64_MAX ? 0 : length) != POD_OK)
        return batch->err->code;
    if (length == UINT64_MAX && !buffer->shape_unknown)
        length = buffer->bytes - offset;
    if (op->keeps_data && length != UINT64_MAX) {
        if (check_kept(batch, length) != POD_OK)
            return pod_batch_at(batch, item, "/buffer");
        op->kept_bytes = length;
    }
    op->transfer->total = length;
    op->bytes = length == UINT64_MAX ? 0 : length;
    check_target(op, buffer);
    return POD_OK;
}

static enum pod_code check_copy(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    struct pod_buffer *from =
        check_buffer(batch, item, &request->copy.from, "/from");
    struct pod_buffer *to =
        from == NULL ? NULL
                     : check_buffer(batch, item, &request->copy.to, "/to");

    if (to == NULL || check_not_tuple(batch, item, from, "/from") != POD_OK ||
        check_not_tuple(batch, item, to, "/to") != POD_OK)
        return batch->err->code;
    if (!from->shape_unknown && !to->shape_unknown &&
        (from->bytes != to->bytes ||
         (from->has_shape && to->has_shape &&
          !pod_shape_equal(&from->shape, &to->shape)))) {
        pod_err_set(batch->err, POD_REASON_SHAPE_MISMATCH,
                    "the buffers differ in shape or size (%llu and %llu bytes)",
                    (unsigned long long)from->bytes,
                    (unsigned long long)to->bytes);
        return pod_batch_at(batch, item, "/to");
    }
    check_target(op, to);
    if (from->host != to->host)
        op->host = POD_NO_ID;
    if (from->core != to->core)
        op->core = POD_NO_ID;
    op->source = from;
    op->from_number = from->handle.maker->number;
    op->bytes = to->bytes;
    return POD_OK;
}

// ---------------------------------------------------------------------- frees

static enum pod_code check_free_buffer(struct pod_batch *batch, size_t item,
                                       struct pod_buffer *buffer)
{
    struct pod_op *op = batch->items[item].op;

    if (buffer->tuple_uses > 0) {
        pod_err_set(batch->err, POD_REASON_IN_USE,
                    "buf-%llu stands in a tuple that is not freed",
                    (unsigned long long)buffer->handle.maker->number);
        return pod_batch_at(batch, item, "/buffer");
    }
    check_target(op, buffer);
    buffer->handle.freed_by = op->number;
    for (size_t i = 0; buffer->is_tuple && i < buffer->child_count; i++)
        buffer->children[i]->tuple_uses--;
    return POD_OK;
}

static enum pod_code check_free_program(struct pod_batch *batch, size_t item,
                                        struct pod_program *program)
{
    struct pod_op *op = batch->items[item].op;
    struct pod_str text = {0};

    if (program->load_count == 0) {
        op->target_program = program;
        op->program_number = program->handle.maker->number;
        program->handle.freed_by = op->number;
        return POD_OK;
    }
    for (struct pod_list *at = program->loads.next; at != &program->loads;
         at = at->next) {
        const struct pod_loaded *load =
            POD_CONTAINER(at, struct pod_loaded, program_link);
        if (text.length < POD_ERR_TEXT_BYTES)
            pod_str_printf(&text, " load-%llu",
                           (unsigned long long)load->handle.maker->number);
    }
    pod_err_set(batch->err, POD_REASON_IN_USE, "the program has %zu loads:%s",
                program->load_count, text.data == NULL ? "" : text.data);
    pod_str_fini(&text);
    return pod_batch_at(batch, item, "/program");
}

static enum pod_code check_free(struct pod_batch *batch, size_t item)
{
    const struct pod_ref *ref = &batch->items[item].request->free.handle;
    bool program = ref->kind == POD_REF_PROGRAM;
    struct pod_op *made;

    if (ref->kind == POD_REF_REQUEST && ref->number < batch->count &&
        batch->items[ref->number].passed)
        program = batch->items[ref->number].op->program != NULL;
    if (pod_batch_find_locked(batch, item, ref,
                              program ? POD_WANT_PROGRAM : POD_WANT_BUFFER,
                              &made) != POD_OK)
        return pod_batch_at(batch, item, program ? "/program" : "/buffer");
    if (program)
        return check_free_program(batch, item, made->program);
    return check_free_buffer(batch, item, made->buffer);
}

// ----------------------------------------------------------- programs, loads

static enum pod_code check_load(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    struct pod_op *made;

    if (pod_batch_find_locked(batch, item, &request->load.program,
                              POD_WANT_PROGRAM, &made) != POD_OK)
        return pod_batch_at(batch, item, "/program");
    if (pod_check_place_locked(batch->pod, request->load.core, batch->err) !=
        POD_OK)
        return pod_batch_at(batch, item, "/core");
    op->core = op->load->core = request->load.core;
    op->host = op->load->host = batch->pod->cores[op->core]->host;
    op->target_program = op->load->program = made->program;
    op->program_number = op->load->program_number = made->number;
    op->load_number = op->number;
    pod_list_push_back(&made->program->loads, &op->load->program_link);
    made->program->load_count++;
    return POD_OK;
}

// `freeing` unloads it; NULL: nobody does any more.
static void check_load_gone(struct pod_loaded *load, struct pod_op *freeing)
{
    struct pod_program *program = load->program;
    bool gone = freeing != NULL;

    load->handle.freed_by = gone ? freeing->number : 0;
    load->freeing = freeing;
    if (program == NULL) // its loading failed
        return;
    pod_list_remove(&load->program_link);
    pod_list_push_back(gone ? &program->closing : &program->loads,
                       &load->program_link);
    if (gone)
        program->load_count--;
    else
        program->load_count++;
}

static enum pod_code check_unload(struct pod_batch *batch, size_t item)
{
    struct pod_op *op = batch->items[item].op;
    struct pod_op *made;

    if (pod_batch_find_locked(batch, item,
                              &batch->items[item].request->unload.load,
                              POD_WANT_LOAD, &made) != POD_OK)
        return pod_batch_at(batch, item, "/load");
    op->target_load = made->load;
    op->load_number = made->number;
    op->host = made->load->host;
    op->core = made->load->core;
    check_load_gone(made->load, op);
    return POD_OK;
}

static enum pod_code check_compile(struct pod_batch *batch, size_t item)
{
    struct pod_op *op = batch->items[item].op;

    op->program_number = op->number;
    for (size_t i = 0; i < batch->pod->host_count; i++) {
        if (pod_host_up(batch->pod->hosts[i]))
            return POD_OK;
    }
    pod_err_set(batch->err, POD_REASON_HOST_NOT_READY, "no host is ready");
    return pod_batch_at(batch, item, "%s", "");
}

enum pod_code pod_check_request_locked(struct pod_batch *batch, size_t item)
{
    switch (batch->items[item].request->kind) {
    case POD_KIND_ALLOCATE:
        return check_allocate(batch, item);
    case POD_KIND_ALLOCATE_TUPLE:
        return check_tuple(batch, item);
    case POD_KIND_FREE:
        return check_free(batch, item);
    case POD_KIND_WRITE:
        return check_write(batch, item);
    case POD_KIND_READ:
        return check_read(batch, item);
    case POD_KIND_COPY:
        return check_copy(batch, item);
    case POD_KIND_COMPILE:
        return check_compile(batch, item);
    case POD_KIND_LOAD:
        return check_load(batch, item);
    case POD_KIND_UNLOAD:
        return check_unload(batch, item);
    case POD_KIND_EXECUTE:
        return pod_check_execute_locked(batch, item);
    case POD_KIND_RESET:
    case POD_KIND_GRAPH:
    case POD_KIND_COUNT:
        break;
    }
    return POD_OK;
}

// ----------------------------------------------------------------------- undo

static void check_undo_free(struct pod_op *op)
{
    struct pod_buffer *buffer = op->target;

    if (op->target_program != NULL)
        op->target_program->handle.freed_by = 0;
    if (buffer == NULL)
        return;
    buffer->handle.freed_by = 0;
    for (size_t i = 0; buffer->is_tuple && i < buffer->child_count; i++)
        buffer->children[i]->tuple_uses++;
}

void pod_check_undo_locked(struct pod *pod, struct pod_op *op)
{
    if (op->kind == POD_KIND_ALLOCATE)
        pod_memory_release_locked(pod, op->buffer);
    if (op->kind == POD_KIND_ALLOCATE_TUPLE) {
        for (size_t i = 0; i < op->buffer->child_count; i++)
            op->buffer->children[i]->tuple_uses--;
    }
    if (op->kind == POD_KIND_FREE)
        check_undo_free(op);
    if (op->kind == POD_KIND_LOAD) {
        pod_list_remove(&op->load->program_link);
        op->load->program->load_count--;
    }
    if (op->kind == POD_KIND_UNLOAD)
        check_load_gone(op->target_load, NULL);
    pod_list_remove(&op->memory_link);
}
