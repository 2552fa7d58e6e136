// SPDX-License-Identifier: Apache-2.0
// What the references of a request name.
#include "core/pod/submit.h"

#include "core/pod/check.h"

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
                           "request %llu does not come before this one",
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
                           "%s-%llu is no longer kept", check_word(made),
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
