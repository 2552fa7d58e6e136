// SPDX-License-Identifier: Apache-2.0
// What can be refused at once: a request against limits and the present state.
//
// Checking marks what a request will do to handles (frees them, stands on them,
// takes memory), because later requests of the batch must see it. The marks are
// taken back if the batch fails.
#include "core/pod/submit.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/pod/check.h"
#include "core/pod/hazard.h"
#include "core/pod/op_new.h"

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
                           "a reset must be submitted alone");
    if (request->kind >= POD_KIND_COUNT || request->kind == POD_KIND_GRAPH)
        return pod_err_set(batch->err, POD_REASON_UNIMPLEMENTED,
                           "there is no such request");
    return POD_OK;
}

// ------------------------------------------------------------------ placement

enum pod_code pod_check_place_locked(const struct pod *pod, uint32_t core,
                                     struct pod_err *err)
{
    bool waiting = false;
    size_t cursor = 0;
    const struct pod_host *next;

    while ((next = pod_host_next(pod, &cursor)) != NULL)
        waiting = waiting || !next->placed;
    if (core >= pod->core_count && waiting)
        return pod_err_set(err, POD_REASON_HOST_NOT_READY,
                           "core %u is not known yet: not all hosts are "
                           "connected",
                           core);
    if (core >= pod->core_count)
        return pod_err_set(err, POD_REASON_UNKNOWN_CORE,
                           "there is no core %u: the pod has %zu", core,
                           pod->core_count);
    const struct pod_host *host =
        pod->cores[core] == NULL ? NULL
                                 : pod_host_at(pod, pod->cores[core]->host);
    if (host == NULL)
        return pod_err_set(err, POD_REASON_UNKNOWN_CORE,
                           "core %u was removed with its host", core);
    if (host->state == POD_HOST_LOST)
        return pod_err_set(err, POD_REASON_HOST_LOST,
                           "host %u of core %u is lost: %s", host->id, core,
                           host->error);
    if (host->cordoned)
        return pod_err_set(err, POD_REASON_HOST_CORDONED,
                           "host %u of core %u is cordoned", host->id, core);
    return POD_OK;
}

// -------------------------------------------------------------- each request

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
        return pod_check_free_program_locked(batch, item, made->program);
    return pod_check_free_buffer_locked(batch, item, made->buffer);
}

enum pod_code pod_check_request_locked(struct pod_batch *batch, size_t item)
{
    switch (batch->items[item].request->kind) {
    case POD_KIND_ALLOCATE:
        return pod_check_allocate_locked(batch, item);
    case POD_KIND_ALLOCATE_TUPLE:
        return pod_check_tuple_locked(batch, item);
    case POD_KIND_FREE:
        return check_free(batch, item);
    case POD_KIND_WRITE:
        return pod_check_write_locked(batch, item);
    case POD_KIND_READ:
        return pod_check_read_locked(batch, item);
    case POD_KIND_COPY:
        return pod_check_copy_locked(batch, item);
    case POD_KIND_COMPILE:
        return pod_check_compile_locked(batch, item);
    case POD_KIND_LOAD:
        return pod_check_load_locked(batch, item);
    case POD_KIND_UNLOAD:
        return pod_check_unload_locked(batch, item);
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
    pod_tuple_hold_locked(buffer);
}

void pod_check_undo_locked(struct pod *pod, struct pod_op *op)
{
    if (op->kind == POD_KIND_ALLOCATE)
        pod_memory_release_locked(pod, op->buffer);
    if (op->kind == POD_KIND_ALLOCATE_TUPLE)
        pod_tuple_let_go_locked(op->buffer);
    if (op->kind == POD_KIND_FREE)
        check_undo_free(op);
    if (op->kind == POD_KIND_LOAD) {
        pod_list_remove(&op->load->program_link);
        op->load->program->load_count--;
    }
    if (op->kind == POD_KIND_UNLOAD)
        pod_check_undo_unload_locked(op->target_load);
    pod_list_remove(&op->work->memory_link);
}
