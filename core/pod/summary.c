// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "core/base/mem.h"
#include "core/pod/internal.h"

enum pod_code pod_get_summary(struct pod *pod, struct pod_summary *out_summary,
                              struct pod_err *err)
{
    struct pod_summary summary;

    pod_mutex_lock(&pod->lock);
    size_t host_count = pod->host_count; // fixed after the start
    pod_mutex_unlock(&pod->lock);
    uint64_t *by_host = pod_calloc(host_count, sizeof(*by_host));
    if (by_host == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the counts of %zu hosts", host_count);

    summary.by_host = by_host;
    summary.host_count = host_count;
    summary.memory = by_host;
    pod_mutex_lock(&pod->lock);
    memcpy(summary.by_state, pod->by_state, sizeof(summary.by_state));
    memcpy(summary.by_kind, pod->by_kind, sizeof(summary.by_kind));
    summary.revision = pod->revision;
    summary.last_number = pod->last_number;
    for (size_t i = 0; i < host_count; i++)
        by_host[i] = pod->hosts[i]->kept_operations;
    pod_mutex_unlock(&pod->lock);
    *out_summary = summary;
    return POD_OK;
}

void pod_summary_fini(struct pod_summary *summary)
{
    if (summary == NULL)
        return;
    pod_free(summary->memory);
    summary->memory = NULL;
}
