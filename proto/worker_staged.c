// SPDX-License-Identifier: Apache-2.0
// Data that the worker holds for its clients, all together: what operations
// wait with, and what was read until it has left.
#include <inttypes.h>

#include "core/base/mem.h"
#include "proto/worker_internal.h"

void worker_staged_unref(struct worker_staged *staged)
{
    if (atomic_fetch_sub(&staged->refs, 1) == 1)
        pod_free(staged);
}

enum pod_code worker_staged_check(const struct worker *worker, uint64_t bytes,
                                  struct pod_err *err)
{
    uint64_t staged = atomic_load(&worker->staged->bytes);
    if (worker->staging_bytes == 0 || (staged <= worker->staging_bytes &&
                                       bytes <= worker->staging_bytes - staged))
        return POD_OK;
    return pod_err_set(err, POD_REASON_STAGING_FULL,
                       "%" PRIu64 " bytes beside the %" PRIu64
                       " that are held already; the limit is %" PRIu64,
                       bytes, staged, worker->staging_bytes);
}

enum pod_code worker_staged_read_locked(struct worker_op *op,
                                        struct pod_err *err)
{
    struct worker *worker = op->session->worker;
    const struct worker_request *request = &op->request;
    if (request->kind != WORKER_READ)
        return POD_OK;
    // One that reads beyond the end is refused by the device.
    uint64_t bytes = op->named[0]->bytes;
    if (!request->whole && request->count < bytes)
        bytes = request->count;
    enum pod_code code = worker_staged_check(worker, bytes, err);
    if (code != POD_OK)
        return code;
    op->staged = bytes;
    (void)atomic_fetch_add(&worker->staged->bytes, bytes);
    return POD_OK;
}

// The client has taken what was read, or never will.
static void staged_taken(void *arg, size_t size)
{
    struct worker_staged *staged = arg;
    (void)atomic_fetch_sub(&staged->bytes, size);
    worker_staged_unref(staged);
}

struct pod_blob *worker_staged_keep(struct worker_op *op, struct pod_blob *data)
{
    struct worker_staged *staged = op->session->worker->staged;
    struct pod_blob *kept = pod_blob_slice(data, 0, data->size);
    if (kept == NULL)
        return NULL;
    (void)atomic_fetch_add(&staged->bytes, kept->size - op->staged);
    op->staged = 0;
    (void)atomic_fetch_add(&staged->refs, 1);
    kept->on_free = staged_taken;
    kept->arg = staged;
    return kept;
}
