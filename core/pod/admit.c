// SPDX-License-Identifier: Apache-2.0
// The moment at which a batch becomes operations. Nothing here can fail: the
// memory was taken before.
#include "core/pod/submit.h"

#include <assert.h>

#include "core/pod/effect.h"
#include "core/pod/hazard.h"
#include "core/pod/transfer.h"

static void admit_lanes(const struct pod *pod, const struct pod_op *op,
                        uint32_t *lanes)
{
    for (size_t i = 0; i < op->replica_count; i++)
        lanes[i] = pod->cores[op->replicas[i].core]->lane;
}

// The edges of an operation, as they stand now: one of its own batch may have
// ended as soon as it was admitted.
static size_t admit_deps(struct pod_op *op, const struct pod_edge *edges,
                         size_t count, struct pod_sched_dep *out_deps)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        struct pod_op *dep = edges[i].op;
        if (edges[i].carries && op->work->doomed_by == NULL &&
            pod_op_ended(dep) && dep->state != POD_SCHED_SUCCEEDED)
            op->work->doomed_by = dep;
        if (dep->settled)
            continue;
        out_deps[kept++] = (struct pod_sched_dep){
            .node = dep->node,
            .carries = edges[i].carries,
            .ahead = edges[i].ahead && !pod_op_ended(dep),
        };
    }
    return kept;
}

static void admit_handle(struct pod *pod, struct pod_op *op)
{
    struct pod_handle *handle = pod_op_handle(op);
    struct pod_host *host;

    if (op->program != NULL)
        pod_list_push_back(&pod->programs, &handle->host_link);
    if (handle == NULL || op->host == POD_NO_ID)
        return;
    host = pod->hosts[op->host];
    pod_list_push_back(&host->handles, &handle->host_link);
    if (op->buffer == NULL)
        return;
    host->buffers++;
    pod_pin(op); // as its buffer's last writer
    for (size_t i = 0; i < op->buffer->child_count; i++)
        pod_pin(op->buffer->children[i]->handle.maker);
}

static void admit_count(struct pod *pod, struct pod_op *op)
{
    pod->by_state[op->state]++;
    pod->by_kind[op->kind]++;
    pod->metrics.accepted[op->kind]++;
    pod->open_count++;
    op->revision = ++pod->revision;
    pod_host_count_locked(pod, op, true);
    if (op->host != POD_NO_ID)
        pod->hosts[op->host]->kept_operations++;
    if (op->core != POD_NO_ID)
        pod->cores[op->core]->open_operations++;
}

static void admit_record(struct pod *pod, struct pod_op *op)
{
    if (op->number > pod->last_number)
        pod->last_number = op->number;
    pod_table_put(&pod->table, op);
    pod_list_push_back(&pod->open, &op->link);
    admit_count(pod, op);
    admit_handle(pod, op);
    if (op->load != NULL)
        pod_pin(op->load->program->handle.maker); // while it is loaded
    pod_hazard_hold_locked(pod, op, true);
    pod_hazard_commit_locked(pod, op);
    if (op->transfer != NULL && op->transfer->stream != NULL)
        pod_transfer_listen_locked(op->transfer);
    if (op->kind == POD_KIND_FREE && op->target != NULL)
        pod->hosts[op->host]->buffers--;
}

static void admit_submit(struct pod *pod, struct pod_op *op,
                         const struct pod_sched_dep *deps, size_t dep_count,
                         struct pod_sched_effect *out_effect)
{
    uint32_t lanes[POD_MAX_REPLICAS];
    struct pod_sched_event event = {
        .kind = POD_SCHED_SUBMIT,
        .now_ns = pod->now_ns,
        .user = op,
        .deps = deps,
        .dep_count = dep_count,
        .doomed = op->work->doomed_by != NULL,
        .doomed_by = op->work->doomed_by,
        .run_on_failure = op->run_on_failure,
        .certain = pod_op_takes(op),
        .priority = op->priority,
        .deadline_ns = pod_time_add(op->created_ns, op->deadline_ns),
        .lanes = lanes,
        .lane_count = op->replica_count,
    };

    admit_lanes(pod, op, lanes);
    enum pod_code code = pod_sched_step(pod->sched, &event, &op->node, NULL);
    assert(code == POD_OK); // its memory was reserved
    (void)code;
    // A submission touches no other node, so it has one effect at most.
    const struct pod_sched_effects *effects = pod_sched_effects(pod->sched);
    *out_effect = effects->count > 0
                      ? effects->items[0]
                      : (struct pod_sched_effect){.node = op->node};
}

void pod_admit_locked(struct pod *pod, struct pod_op **ops, size_t count,
                      const size_t *edge_starts, struct pod_after *after)
{
    const struct pod_edge *edges = pod->edges.items;

    pod_tell_done_locked(pod, after);
    for (size_t i = 0; i < count; i++) {
        struct pod_sched_effect effect;
        pod_op_expect(ops, count, i);
        size_t dep_count =
            admit_deps(ops[i], edges + edge_starts[i],
                       edge_starts[i + 1] - edge_starts[i], pod->edges.deps);
        admit_record(pod, ops[i]);
        pod_changed_op_locked(pod, ops[i], true);
        admit_submit(pod, ops[i], pod->edges.deps, dep_count, &effect);
        pod_effect_apply_locked(pod, ops[i], &effect, after);
    }
    pod->edges.count = 0;
}
