// SPDX-License-Identifier: Apache-2.0
// The budget of bytes that podd holds for its clients. Its lock is a leaf, so
// that blobs can be let go of anywhere.
#include "core/pod/staging.h"

#include <assert.h>

#include "core/base/mem.h"
#include "core/pod/internal.h"

static bool staging_take_locked(struct pod *pod, uint64_t bytes)
{
    if (bytes > pod->options.staging_bytes - pod->staging_used)
        return false;
    pod->staging_used += bytes;
    return true;
}

bool pod_staging_take(struct pod *pod, uint64_t bytes)
{
    pod_mutex_lock(&pod->staging_lock);
    bool fits = staging_take_locked(pod, bytes);
    pod_mutex_unlock(&pod->staging_lock);
    return fits;
}

static bool staging_lend(struct pod *pod, uint64_t bytes)
{
    pod_mutex_lock(&pod->staging_lock);
    uint64_t most = pod->options.staging_bytes / 2;
    bool fits =
        bytes <= most - pod->staging_lent && staging_take_locked(pod, bytes);
    if (fits)
        pod->staging_lent += bytes;
    pod_mutex_unlock(&pod->staging_lock);
    return fits;
}

static void staging_loan_over(struct pod *pod, uint64_t bytes)
{
    pod_mutex_lock(&pod->staging_lock);
    assert(bytes <= pod->staging_lent && bytes <= pod->staging_used);
    pod->staging_lent -= bytes;
    pod->staging_used -= bytes;
    pod_mutex_unlock(&pod->staging_lock);
}

struct pod_loan *pod_loan_new(struct pod *pod, uint64_t bytes)
{
    struct pod_loan *loan = pod_malloc(sizeof(*loan));

    if (loan == NULL || !staging_lend(pod, bytes)) {
        pod_free(loan);
        return NULL;
    }
    *loan = (struct pod_loan){.pod = pod, .bytes = bytes};
    return loan;
}

void pod_loan_free(struct pod_loan *loan)
{
    if (loan == NULL)
        return;
    staging_loan_over(loan->pod, loan->bytes);
    pod_free(loan);
}

// A blob's on_free.
static void staging_loan_ends(void *loan, size_t size)
{
    (void)size;
    pod_loan_free(loan);
}

void pod_loan_follow(struct pod_loan *owned_loan, struct pod_blob *blob)
{
    blob->on_free = staging_loan_ends;
    blob->arg = owned_loan;
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

bool pod_staging_has(const struct pod_blob *blob)
{
    return blob->on_free == staging_loan_ends ||
           blob->on_free == pod_staging_on_free;
}

void pod_staging_usage(struct pod *pod, uint64_t *out_used, uint64_t *out_max)
{
    pod_mutex_lock(&pod->staging_lock);
    *out_used = pod->staging_used;
    *out_max = pod->options.staging_bytes;
    pod_mutex_unlock(&pod->staging_lock);
}
