// SPDX-License-Identifier: Apache-2.0
#include "core/pod/metrics.h"

#include "core/pod/internal.h"

static bool metrics_moves_bytes(enum pod_kind kind)
{
    return kind == POD_KIND_WRITE || kind == POD_KIND_READ ||
           kind == POD_KIND_COPY;
}

void pod_metrics_ended_locked(struct pod *pod, const struct pod_op *op)
{
    struct pod_metrics *metrics = &pod->metrics;

    metrics->ended[op->kind][op->state]++;
    if (op->state == POD_SCHED_SUCCEEDED && metrics_moves_bytes(op->kind))
        metrics->moved_bytes[op->kind] += op->bytes;
    if (op->running_ns < 0)
        return;
    pod_histogram_add(&metrics->waited[op->kind], op->running_ns);
    pod_histogram_add(&metrics->queued[op->kind],
                      op->running_ns - (op->ready_ns < 0 ? 0 : op->ready_ns));
    pod_histogram_add(&metrics->ran[op->kind],
                      op->finished_ns - op->running_ns);
}

void pod_get_metrics(struct pod *pod, struct pod_metrics *out_metrics)
{
    pod_mutex_lock(&pod->lock);
    *out_metrics = pod->metrics;
    for (int i = 0; i <= POD_SCHED_RUNNING; i++)
        out_metrics->open[i] = pod->by_state[i];
    out_metrics->kept = pod->history_count;
    out_metrics->stalled = pod->stalled_operations;
    pod_mutex_unlock(&pod->lock);
}
