// SPDX-License-Identifier: Apache-2.0
#include "api/rate.h"

#include "core/base/clock.h"
#include "core/base/mem.h"

#define RATE_SHARED_KEY UINT64_MAX

struct rate_bucket {
    struct pod_list link;
    uint64_t key;
    int64_t full_ns; // when it is full again
    int64_t used_ns; // last
};

void api_rate_init(struct api_rate *rate, uint32_t limit)
{
    *rate = (struct api_rate){.limit = limit};
    pod_list_init(&rate->order);
}

static void rate_drop(struct api_rate *rate, struct rate_bucket *bucket)
{
    (void)pod_map_remove(&rate->buckets, bucket->key);
    pod_list_remove(&bucket->link);
    pod_free(bucket);
}

void api_rate_fini(struct api_rate *rate)
{
    while (rate->order.next != NULL && !pod_list_empty(&rate->order))
        rate_drop(rate,
                  POD_CONTAINER(rate->order.next, struct rate_bucket, link));
    pod_map_fini(&rate->buckets);
}

// A bucket that was not used for a second is full, and full is no entry.
static void rate_sweep(struct api_rate *rate, int64_t now_ns)
{
    while (!pod_list_empty(&rate->order)) {
        struct rate_bucket *oldest =
            POD_CONTAINER(rate->order.next, struct rate_bucket, link);
        if (now_ns - oldest->used_ns < POD_NS_PER_S)
            return;
        rate_drop(rate, oldest);
    }
}

static struct rate_bucket *rate_bucket(struct api_rate *rate, uint64_t key)
{
    struct rate_bucket *bucket = pod_map_get(&rate->buckets, key);

    if (bucket == NULL && rate->buckets.count >= API_RATE_KEYS) {
        key = RATE_SHARED_KEY;
        bucket = pod_map_get(&rate->buckets, key);
    }
    if (bucket != NULL)
        return bucket;
    bucket = pod_calloc(1, sizeof(*bucket));
    if (bucket == NULL)
        return NULL;
    bucket->key = key;
    pod_list_init(&bucket->link);
    if (pod_map_put(&rate->buckets, key, bucket))
        return bucket;
    pod_free(bucket);
    return NULL;
}

bool api_rate_take(struct api_rate *rate, uint64_t key, int64_t now_ns,
                   struct api_rate_state *out_state)
{
    int64_t interval = POD_NS_PER_S / rate->limit;
    int64_t whole = interval * rate->limit;

    rate_sweep(rate, now_ns);
    *out_state = (struct api_rate_state){.remaining = rate->limit};
    struct rate_bucket *bucket = rate_bucket(rate, key);
    if (bucket == NULL)
        return true;
    int64_t missing = bucket->full_ns > now_ns ? bucket->full_ns - now_ns : 0;
    bool taken = missing + interval <= whole;
    if (taken)
        missing += interval;
    bucket->full_ns = now_ns + missing;
    bucket->used_ns = now_ns;
    pod_list_remove(&bucket->link);
    pod_list_push_back(&rate->order, &bucket->link);
    out_state->remaining = (uint32_t)((whole - missing) / interval);
    out_state->full_ns = missing;
    if (out_state->remaining == 0)
        out_state->retry_ns = missing + interval - whole;
    return taken;
}
