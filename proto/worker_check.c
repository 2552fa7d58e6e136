// SPDX-License-Identifier: Apache-2.0
// What a driver is not asked: whether the things that an operation names exist
// and are of the right kind, which is known only when it begins.
#include <inttypes.h>

#include "proto/worker_internal.h"

static const char *check_kind_word(enum worker_object_kind kind)
{
    if (kind == WORKER_PROGRAM)
        return "prog";
    return kind == WORKER_LOADED ? "load" : "buf";
}

static const char *check_kind_name(enum worker_object_kind kind)
{
    if (kind == WORKER_PROGRAM)
        return "program";
    return kind == WORKER_LOADED ? "loaded program" : "buffer";
}

static enum pod_code check_object(const struct worker_object *object,
                                  enum worker_object_kind kind,
                                  struct pod_err *err)
{
    enum worker_object_kind is =
        object->kind == WORKER_TUPLE_OBJECT ? WORKER_BUFFER : object->kind;
    if (!object->made)
        return pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                           "what op-%" PRIu64 " made does not exist",
                           object->number);
    if (is == kind)
        return POD_OK;
    return pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                       "%s-%" PRIu64 " is not a %s", check_kind_word(is),
                       object->number, check_kind_name(kind));
}

static enum pod_code check_execute(const struct worker_op *op,
                                   struct pod_err *err)
{
    const struct worker_request *request = &op->request;
    enum pod_code code = POD_OK;
    size_t at = 0;
    for (size_t i = 0; i < request->launch_count && code == POD_OK; i++) {
        size_t buffers = request->launches[i].input_count +
                         request->launches[i].output_count;
        code = check_object(op->named[at++], WORKER_LOADED, err);
        for (size_t k = 0; k < buffers && code == POD_OK; k++)
            code = check_object(op->named[at++], WORKER_BUFFER, err);
    }
    return code;
}

static enum worker_object_kind check_wants(enum worker_kind kind)
{
    switch (kind) {
    case WORKER_FREE_PROGRAM:
    case WORKER_LOAD:
        return WORKER_PROGRAM;
    case WORKER_UNLOAD:
        return WORKER_LOADED;
    case WORKER_ALLOCATE:
    case WORKER_TUPLE:
    case WORKER_DEALLOCATE:
    case WORKER_WRITE:
    case WORKER_READ:
    case WORKER_COPY:
    case WORKER_COMPILE:
    case WORKER_EXECUTE:
    case WORKER_TASK:
        break;
    }
    return WORKER_BUFFER;
}

static enum pod_code check_length(const struct worker_op *op,
                                  struct pod_err *err)
{
    const struct worker_request *request = &op->request;
    if (!request->whole || request->kind != WORKER_WRITE)
        return POD_OK;
    const struct worker_object *object = op->named[0];
    uint64_t bytes = object->kind == WORKER_BUFFER ? object->bytes : 0;
    if (request->data_count == bytes)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_LENGTH,
                       "buf-%" PRIu64 " takes %" PRIu64 " bytes, not %zu",
                       object->number, bytes, request->data_count);
}

enum pod_code worker_check(const struct worker_op *op, struct pod_err *err)
{
    enum pod_code code = POD_OK;
    if (op->request.kind == WORKER_EXECUTE)
        code = check_execute(op, err);
    if (code == POD_OK && op->request.scattered && !op->named[0]->independent)
        code = pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                           "replicas of this program exchange data, and some "
                           "are on other workers: that needs podd");
    if (op->request.kind == WORKER_EXECUTE)
        return code;
    for (size_t i = 0; i < op->named_count && code == POD_OK; i++)
        code = check_object(op->named[i], check_wants(op->request.kind), err);
    return code == POD_OK ? check_length(op, err) : code;
}
