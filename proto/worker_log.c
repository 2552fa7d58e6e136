// SPDX-License-Identifier: Apache-2.0
// Lines of a worker's log about operations: at debug each that ends, at warn
// those that fail by themselves. The ids are podd's, so that its log, its
// events and this log can be compared. Clients of the original protocol send no
// ids, so their operations are logged with their own numbers only.
#include <inttypes.h>
#include <stdio.h>

#include "core/base/log.h"
#include "proto/worker_internal.h"

enum { WORKER_LOG_NAME_BYTES = 24 }; // of a session's name

static const char *worker_log_kind(enum worker_kind kind)
{
    static const char *const names[] = {
        [WORKER_ALLOCATE] = "ALLOCATE",
        [WORKER_TUPLE] = "ALLOCATE_TUPLE",
        [WORKER_DEALLOCATE] = "DEALLOCATE",
        [WORKER_WRITE] = "WRITE",
        [WORKER_READ] = "READ",
        [WORKER_COPY] = "COPY",
        [WORKER_COMPILE] = "COMPILE",
        [WORKER_FREE_PROGRAM] = "FREE_PROGRAM",
        [WORKER_LOAD] = "LOAD",
        [WORKER_UNLOAD] = "UNLOAD",
        [WORKER_EXECUTE] = "EXECUTE",
        [WORKER_TASK] = "COPY_FROM_PEER",
    };

    return names[kind];
}

// A warning only for what failed by itself, not for what that brought down or
// what was cancelled.
static enum pod_log_level worker_log_level(const struct pod_err *err,
                                           uint64_t root)
{
    return err->code != POD_OK && err->code != POD_CANCELLED && root == 0
               ? POD_LOG_WARN
               : POD_LOG_DEBUG;
}

static const char *worker_log_state(const struct pod_err *err, uint64_t root)
{
    if (err->code == POD_OK)
        return "SUCCEEDED";
    if (err->code == POD_CANCELLED)
        return "CANCELLED";
    return root == 0 ? "FAILED" : "SKIPPED";
}

static void worker_log_session(uint64_t session,
                               char out_text[WORKER_LOG_NAME_BYTES])
{
    out_text[0] = '\0';
    if (session != 0)
        (void)snprintf(out_text, WORKER_LOG_NAME_BYTES, "%016" PRIx64, session);
}

void worker_log_client(uint64_t session, const char *peer, const char *state)
{
    char name[WORKER_LOG_NAME_BYTES];

    worker_log_session(session, name);
    const struct pod_log_field fields[] = {
        pod_log_text(POD_LOG_KEY_SESSION, name),
        pod_log_text(POD_LOG_KEY_PEER, peer),
        pod_log_text(POD_LOG_KEY_STATE, state),
    };
    pod_log_event(POD_LOG_INFO, POD_LOG_EVENT_CLIENT, fields, 3);
}

static void worker_log_write(enum pod_log_level level, uint64_t session,
                             const struct worker_request *request,
                             const struct pod_err *err, uint64_t root)
{
    const struct pod_trace *trace = request->origin.trace;
    bool traced = trace != NULL && trace->trace_id[0] != '\0';
    bool failed = err->code != POD_OK;
    char span[POD_SPAN_ID_BYTES];
    char name[WORKER_LOG_NAME_BYTES];

    pod_span_id_print(request->origin.span, span);
    worker_log_session(session, name);
    const struct pod_log_field fields[] = {
        pod_log_id(POD_LOG_KEY_OPERATION, "op", request->origin.operation),
        pod_log_text(POD_LOG_KEY_KIND, worker_log_kind(request->kind)),
        pod_log_text(POD_LOG_KEY_STATE, worker_log_state(err, root)),
        pod_log_text(POD_LOG_KEY_REQUEST_ID,
                     trace == NULL ? NULL : trace->request_id),
        pod_log_text(POD_LOG_KEY_TRACE_ID, traced ? trace->trace_id : NULL),
        pod_log_text(POD_LOG_KEY_SPAN_ID, traced ? span : NULL),
        pod_log_text(POD_LOG_KEY_SESSION, name),
        pod_log_number(POD_LOG_KEY_NUMBER, (int64_t)request->number),
        pod_log_text(POD_LOG_KEY_CODE, failed ? pod_code_name(err->code) : ""),
        pod_log_text(POD_LOG_KEY_REASON,
                     failed ? pod_reason_name(err->reason) : ""),
        pod_log_text(POD_LOG_KEY_DETAIL, failed ? err->text : ""),
    };

    pod_log_event(level, POD_LOG_EVENT_OPERATION, fields,
                  sizeof(fields) / sizeof(fields[0]));
}

void worker_log_ended(uint64_t session, const struct worker_request *request,
                      const struct pod_err *err, uint64_t root)
{
    enum pod_log_level level = worker_log_level(err, root);

    if (pod_log_wants(level))
        worker_log_write(level, session, request, err, root);
}
