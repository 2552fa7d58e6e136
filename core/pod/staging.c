// SPDX-License-Identifier: Apache-2.0
// The budget of bytes that podd holds for its clients. Its lock is a leaf, so
// that blobs can be let go of anywhere.
#include <assert.h>

#include "core/pod/internal.h"

// Takes bytes if as many as `reserve` are left after it.
static bool staging_take(struct pod *pod, uint64_t bytes, uint64_t reserve)
{
    pod_mutex_lock(&pod->staging_lock);
    uint64_t left = pod->options.staging_bytes - pod->staging_used;
    bool fits = left >= reserve && bytes <= left - reserve;
    if (fits)
        pod->staging_used += bytes;
    pod_mutex_unlock(&pod->staging_lock);
    return fits;
}

bool pod_staging_take(struct pod *pod, uint64_t bytes)
{
    return staging_take(pod, bytes, 0);
}

bool pod_staging_lend(struct pod *pod, uint64_t bytes)
{
    return staging_take(pod, bytes, pod->options.staging_bytes / 2);
}

void pod_staging_give(struct pod *pod, uint64_t bytes)
{
    pod_mutex_lock(&pod->staging_lock);
    assert(bytes <= pod->staging_used);
    pod->staging_used -= bytes;
    pod_mutex_unlock(&pod->staging_lock);
}

void pod_staging_on_free(void *pod, size_t size)
{
    pod_staging_give(pod, size);
}

void pod_staging_usage(struct pod *pod, uint64_t *out_used, uint64_t *out_max)
{
    pod_mutex_lock(&pod->staging_lock);
    *out_used = pod->staging_used;
    *out_max = pod->options.staging_bytes;
    pod_mutex_unlock(&pod->staging_lock);
}
