// SPDX-License-Identifier: Apache-2.0
#include "core/pod/changes.h"

#include "core/base/mem.h"

bool pod_changes_init(struct pod_changes *changes, size_t capacity)
{
    *changes = (struct pod_changes){.capacity = capacity,
                                    .armed = POD_CHANGES_UNARMED};
    // Never read before it is written, so not cleared: pages that are not
    // used cost nothing.
    size_t bytes = 0;
    if (__builtin_mul_overflow(capacity, sizeof(struct pod_change), &bytes))
        return false;
    changes->ring = pod_malloc(bytes);
    return changes->ring != NULL;
}

void pod_changes_fini(struct pod_changes *changes)
{
    pod_free(changes->ring);
    changes->ring = NULL;
}

uint64_t pod_changes_oldest(const struct pod_changes *changes)
{
    return changes->last > changes->capacity ? changes->last - changes->capacity
                                             : 0;
}

static struct pod_change *changes_at(const struct pod_changes *changes,
                                     uint64_t sequence)
{
    return &changes->ring[(sequence - 1) % changes->capacity];
}

void pod_changes_append(struct pod_changes *changes,
                        const struct pod_change *change, uint64_t *in_out_chain)
{
    uint64_t sequence = changes->last + 1;

    if (*in_out_chain > pod_changes_oldest(changes))
        changes_at(changes, *in_out_chain)->next = sequence;
    *changes_at(changes, sequence) = *change;
    changes_at(changes, sequence)->next = 0;
    changes->last = sequence;
    *in_out_chain = sequence;
}

bool pod_changes_disarm(struct pod_changes *changes)
{
    if (changes->last <= changes->armed)
        return false;
    changes->armed = POD_CHANGES_UNARMED;
    return true;
}

bool pod_changes_copy(const struct pod_changes *changes, uint64_t after,
                      size_t capacity, struct pod_change *out_items,
                      size_t *out_count)
{
    size_t count = 0;

    if (after < pod_changes_oldest(changes))
        return false;
    while (count < capacity && after + count < changes->last) {
        out_items[count] = *changes_at(changes, after + count + 1);
        count++;
    }
    *out_count = count;
    return true;
}
