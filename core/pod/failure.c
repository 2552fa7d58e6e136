// SPDX-License-Identifier: Apache-2.0
// Failures and the chains of causes. Whatever happens here when there is no
// memory, an operation that ended badly has a failure to show: the pod keeps
// one for that.
#include "core/pod/failure.h"

#include <string.h>
#include <time.h>

#include "core/base/mem.h"

struct pod_failure *pod_failure_new(const struct pod *pod,
                                    const struct pod_op *op,
                                    const struct pod_err *err, bool from_worker)
{
    size_t length = strnlen(err->text, sizeof(err->text));
    struct pod_failure *failure = pod_malloc(sizeof(*failure) + length + 1);

    if (failure == NULL)
        return NULL;
    *failure = (struct pod_failure){
        .refs = 1,
        .root = op == NULL ? 0 : op->number,
        .kind = op == NULL ? POD_KIND_RESET : op->kind,
        .host = op == NULL ? POD_NO_ID : op->host,
        .core = op == NULL ? POD_NO_ID : op->core,
        .code = err->code,
        .reason = err->reason,
        .line = err->line,
        .column = err->column,
        .from_worker = from_worker,
        .at_wall_ns = pod_clock_wall(&pod->options.clock),
    };
    memcpy(failure->text, err->text, length);
    failure->text[length] = '\0';
    return failure;
}

struct pod_failure *pod_failure_ref(struct pod_failure *failure)
{
    atomic_fetch_add(&failure->refs, 1);
    return failure;
}

void pod_failure_unref(struct pod_failure *failure)
{
    if (failure != NULL && atomic_fetch_sub(&failure->refs, 1) == 1)
        pod_free(failure);
}

void pod_fail_with_locked(struct pod *pod, struct pod_op *op,
                          struct pod_failure *owned_failure)
{
    pod_failure_unref(op->failure);
    op->failure =
        owned_failure != NULL ? owned_failure : pod_failure_ref(pod->fallback);
    op->root = op->number;
}

void pod_fail_locked(struct pod *pod, struct pod_op *op, enum pod_reason reason,
                     const char *text)
{
    struct pod_err err;

    pod_err_set(&err, reason, "%s", text);
    pod_fail_with_locked(pod, op, pod_failure_new(pod, op, &err, false));
}

void pod_fail_err_locked(struct pod *pod, struct pod_op *op,
                         const struct pod_err *err)
{
    pod_fail_with_locked(pod, op, pod_failure_new(pod, op, err, false));
}

void pod_unfail_locked(struct pod_op *op)
{
    pod_failure_unref(op->failure);
    op->failure = NULL;
    op->root = 0;
}

// The chain of a dependent: its cause, then the cause's own chain.
static void failure_chain(struct pod_op *op, const struct pod_op *cause)
{
    const struct pod_causes *more = cause->causes;
    uint32_t count = more == NULL ? 0 : more->count;
    uint32_t kept = count < POD_CAUSES_MAX ? count : POD_CAUSES_MAX - 1;
    struct pod_causes *causes = pod_malloc(
        sizeof(*causes) + (kept + 1) * sizeof(struct pod_event_cause));

    if (causes == NULL)
        return;
    causes->count = kept + 1;
    causes->omitted = count - kept + (more == NULL ? 0 : more->omitted);
    causes->items[0] = (struct pod_event_cause){
        .number = cause->number,
        .kind = cause->kind,
        .state = cause->state,
        .code = cause->failure == NULL ? POD_DATA_LOSS : cause->failure->code,
    };
    if (kept > 0)
        memcpy(&causes->items[1], more->items,
               kept * sizeof(struct pod_event_cause));
    pod_free(op->causes);
    op->causes = causes;
}

enum { FAILURE_TIME_BYTES = 32 };

// In UTC, to the second.
static const char *failure_time(int64_t wall_ns, char text[FAILURE_TIME_BYTES])
{
    time_t seconds = (time_t)(wall_ns / POD_NS_PER_S);
    struct tm utc;

    text[0] = '\0';
    if (gmtime_r(&seconds, &utc) != NULL)
        (void)strftime(text, FAILURE_TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

// "buf-17 was lost with host 2 at 2026-01-31T12:00:00Z: refused: ..."
static void failure_say_lost(const struct pod_handle *handle,
                             struct pod_err *out_err)
{
    const struct pod_failure *loss = handle->loss;
    unsigned long long number = handle->maker->number;
    const char *word = handle->maker->load != NULL ? "load" : "buf";
    char time[FAILURE_TIME_BYTES];

    if (loss == NULL) // there was no memory for it
        pod_err_set(out_err, POD_REASON_BUFFER_LOST,
                    "%s-%llu was lost with its host", word, number);
    else
        pod_err_set(out_err, POD_REASON_BUFFER_LOST,
                    "%s-%llu was lost with host %u at %s: %s", word, number,
                    loss->host, failure_time(loss->at_wall_ns, time),
                    loss->text);
}

static struct pod_failure *failure_of_loss(struct pod *pod,
                                           const struct pod_op *maker)
{
    const struct pod_handle *handle = pod_op_handle(maker);
    struct pod_err err;

    if (handle == NULL)
        return NULL;
    failure_say_lost(handle, &err);
    return pod_failure_new(pod, maker, &err, false);
}

void pod_fail_host_locked(struct pod *pod, struct pod_op *op,
                          const struct pod_host *host)
{
    struct pod_err err;

    pod_err_set(&err, POD_REASON_HOST_UNAVAILABLE, "host %u is not connected",
                host->id);
    if (host->error[0] != '\0')
        pod_err_set(&err, POD_REASON_HOST_UNAVAILABLE,
                    "host %u is not connected: %s", host->id, host->error);
    pod_fail_err_locked(pod, op, &err);
}

void pod_inherit_locked(struct pod *pod, struct pod_op *op,
                        const struct pod_op *cause)
{
    if (cause->failure != NULL) {
        pod_fail_with_locked(pod, op, pod_failure_ref(cause->failure));
        op->root = cause->root;
    } else {
        pod_fail_with_locked(pod, op, failure_of_loss(pod, cause));
        op->root = cause->number;
    }
    failure_chain(op, cause);
}

void pod_fail_missing_locked(struct pod *pod, struct pod_op *op,
                             const struct pod_handle *handle)
{
    struct pod_err err;

    if (handle->lost) {
        failure_say_lost(handle, &err);
        pod_fail_err_locked(pod, op, &err);
    } else if (handle->maker->failure != NULL) {
        pod_inherit_locked(pod, op, handle->maker);
    } else {
        pod_err_set(&err, POD_REASON_INTERNAL,
                    "what op-%llu was to make is not there",
                    (unsigned long long)handle->maker->number);
        pod_fail_err_locked(pod, op, &err);
    }
}
