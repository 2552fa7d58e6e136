// SPDX-License-Identifier: Apache-2.0
#include "core/pod/internal.h"

#include <string.h>

#include "core/base/mem.h"

// More hosts than there is room for: by_host is NULL.
static void summary_fill(const struct pod *pod, struct pod_summary *summary,
                         struct pod_host_sum *sums, size_t capacity)
{
    size_t cursor = 0;
    const struct pod_host *host;

    memcpy(summary->by_state, pod->by_state, sizeof(summary->by_state));
    memcpy(summary->by_kind, pod->by_kind, sizeof(summary->by_kind));
    summary->revision = pod->revision;
    summary->last_number = pod->last_number;
    while ((host = pod_host_next(pod, &cursor)) != NULL) {
        if (summary->host_count < capacity)
            sums[summary->host_count] = (struct pod_host_sum){
                .host = host->id, .operations = host->kept_operations};
        summary->host_count++;
    }
    summary->by_host = summary->host_count <= capacity ? sums : NULL;
}

enum pod_code pod_get_summary(struct pod *pod, struct pod_summary *out_summary,
                              struct pod_err *err)
{
    struct pod_summary summary;

    size_t capacity = atomic_load(&pod->live_hosts);
    struct pod_host_sum *sums = NULL;

    do {
        summary.host_count = 0;
        pod_free(sums);
        sums = pod_calloc(capacity, sizeof(*sums));
        if (sums == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for the counts of %zu hosts",
                               capacity);
        pod_mutex_lock(&pod->lock);
        summary_fill(pod, &summary, sums, capacity);
        pod_mutex_unlock(&pod->lock);
        capacity = summary.host_count;
    } while (summary.by_host == NULL);
    summary.memory = sums;
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
