// SPDX-License-Identifier: Apache-2.0
// Events as they are shown.
#include "core/pod/view.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/pod/pending.h"
#include "core/pod/stall.h"

enum { EVENT_WAITS_SHOWN = 100 };

static void event_lay_origin(const struct pod *pod, const struct pod_op *op,
                             struct pod_carver *carver,
                             struct pod_event_view *view)
{
    const struct pod_trace *trace = op->trace;

    view->request_id =
        pod_carve_text(carver, trace == NULL ? "" : trace->request_id);
    view->trace_id =
        pod_carve_text(carver, trace == NULL ? "" : trace->trace_id);
    view->span = pod_span(pod, op->number);
}

static void event_lay_waits(const struct pod *pod, struct pod_op *op,
                            struct pod_carver *carver,
                            struct pod_event_view *view)
{
    uint64_t numbers[EVENT_WAITS_SHOWN];

    if (op->state != POD_SCHED_WAITING)
        return;
    size_t count = pod_op_waits_locked(pod, op, numbers, EVENT_WAITS_SHOWN);
    size_t shown = count < EVENT_WAITS_SHOWN ? count : EVENT_WAITS_SHOWN;
    view->waits_for =
        pod_carve_copy(carver, numbers, shown, sizeof(numbers[0]));
    view->waits_for_shown = shown;
    view->waits_for_count = (uint32_t)count;
    if (count < EVENT_WAITS_SHOWN || op->node == NULL)
        return;
    uint32_t unmet = pod_sched_node_unmet(op->node);
    if (unmet > view->waits_for_count)
        view->waits_for_count = unmet;
}

static void event_lay_launches(const struct pod_op *op,
                               struct pod_carver *carver,
                               struct pod_event_view *view)
{
    struct pod_event_launch *launches =
        pod_carve(carver, op->replica_count, sizeof(*launches));

    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_replica *replica = &op->replicas[i];
        const uint64_t *outputs = pod_carve_copy(
            carver, replica->outputs, replica->output_count, sizeof(uint64_t));
        if (launches != NULL)
            launches[i] = (struct pod_event_launch){
                .load = replica->load_number,
                .core = replica->core,
                .outputs = outputs,
                .output_count = replica->output_count,
            };
    }
    view->launches = launches;
    view->launch_count = op->replica_count;
}

// All outputs of an execution, replica by replica.
static void event_lay_outputs(const struct pod_op *op,
                              struct pod_carver *carver,
                              struct pod_event_view *view)
{
    size_t count = 0;

    for (size_t i = 0; i < op->replica_count; i++)
        count += op->replicas[i].output_count;
    uint64_t *outputs = pod_carve(carver, count, sizeof(*outputs));
    view->outputs = outputs;
    view->output_count = count;
    for (size_t i = 0; outputs != NULL && i < op->replica_count; i++) {
        const struct pod_replica *replica = &op->replicas[i];
        if (replica->output_count == 0)
            continue;
        memcpy(outputs, replica->outputs,
               replica->output_count * sizeof(*outputs));
        outputs += replica->output_count;
    }
}

static void event_lay_work(const struct pod_op *op, struct pod_carver *carver,
                           struct pod_event_view *view)
{
    view->buffer = op->buffer_number;
    view->program = op->program_number;
    view->load = op->load_number;
    view->bytes = op->bytes;
    view->has_data = pod_op_has_data(op);
    view->loads = pod_carve_copy(carver, op->load_numbers,
                                 op->load_number_count, sizeof(uint64_t));
    view->load_count = op->load_number_count;
    if (op->kind == POD_KIND_COPY) {
        view->inputs =
            pod_carve_copy(carver, &op->from_number, 1, sizeof(uint64_t));
        view->input_count = 1;
    }
    if (op->kind != POD_KIND_EXECUTE)
        return;
    event_lay_outputs(op, carver, view);
    if (op->is_gang) {
        event_lay_launches(op, carver, view);
    } else if (op->replica_count > 0) {
        view->load = op->replicas[0].load_number;
        view->inputs =
            pod_carve_copy(carver, op->replicas[0].inputs,
                           op->replicas[0].input_count, sizeof(uint64_t));
        view->input_count = op->replicas[0].input_count;
    }
}

// The text of an inherited failure, which names the root.
static const char *event_lay_inherited(const struct pod_failure *failure,
                                       uint64_t root, struct pod_carver *carver)
{
    char prefix[64];
    int prefix_length =
        snprintf(prefix, sizeof(prefix),
                 "op-%llu did not succeed: ", (unsigned long long)root);
    size_t text_bytes = strlen(failure->text) + 1;
    char *text = pod_carve(carver, (size_t)prefix_length + text_bytes, 1);

    if (text != NULL) {
        memcpy(text, prefix, (size_t)prefix_length);
        memcpy(text + prefix_length, failure->text, text_bytes);
    }
    return text;
}

static void event_lay_error(const struct pod_op *op, struct pod_carver *carver,
                            struct pod_event_view *view)
{
    const struct pod_failure *failure = op->failure;

    if (!pod_op_ended(op) || op->state == POD_SCHED_SUCCEEDED ||
        failure == NULL)
        return;
    view->has_error = true;
    view->root = op->root != 0 ? op->root : op->number;
    view->root_kind = failure->kind;
    view->root_host = failure->host;
    view->root_core = failure->core;
    view->root_at_wall_ns = failure->at_wall_ns;
    view->root_error = pod_carve_error(carver, failure);
    view->error = view->root_error;
    if (view->root != op->number)
        view->error.detail = event_lay_inherited(failure, view->root, carver);
    if (op->causes == NULL)
        return;
    view->causes = pod_carve_copy(carver, op->causes->items, op->causes->count,
                                  sizeof(struct pod_event_cause));
    view->cause_count = op->causes->count;
    view->causes_omitted = op->causes->omitted;
}

static bool event_has_label(const struct pod_op *op,
                            const struct pod_label *label)
{
    for (size_t i = 0; i < op->label_count; i++)
        if (strcmp(op->labels[i].key, label->key) == 0)
            return strcmp(op->labels[i].value, label->value) == 0;
    return false;
}

// Whether it works on a host: the one it is placed on, a gang's, or one of
// those that compile it.
static bool event_on_host(const struct pod_op *op, uint32_t host)
{
    if (op->host == host)
        return true;
    for (size_t i = 0; i < op->replica_count; i++)
        if (op->replicas[i].host == host)
            return true;
    for (size_t i = 0; i < op->outcome_count; i++)
        if (op->outcomes[i].host == host)
            return true;
    return false;
}

static bool event_on_core(const struct pod_op *op, uint32_t core)
{
    if (op->core == core)
        return true;
    for (size_t i = 0; i < op->replica_count; i++)
        if (op->replicas[i].core == core)
            return true;
    return false;
}

static bool event_match(const struct pod_op *op,
                        const struct pod_event_filter *filter)
{
    if (filter->states != 0 && (filter->states >> op->state & 1) == 0)
        return false;
    if (filter->kinds != 0 && (filter->kinds >> op->kind & 1) == 0)
        return false;
    if (filter->stalled != POD_STALLED_ANY &&
        (filter->stalled == POD_STALLED_ONLY) != (op->stalls != NULL))
        return false;
    if (filter->graph != 0 && op->graph != filter->graph)
        return false;
    if (op->created_wall_ns < filter->since_wall_ns)
        return false;
    if (filter->host != POD_NO_ID && !event_on_host(op, filter->host))
        return false;
    if (filter->core != POD_NO_ID && !event_on_core(op, filter->core))
        return false;
    for (size_t i = 0; i < filter->label_count; i++)
        if (!event_has_label(op, &filter->labels[i]))
            return false;
    return true;
}

static enum pod_code event_lay(struct pod *pod, struct pod_op *op,
                               const struct pod_event_filter *filter,
                               struct pod_carver *carver, void *out_view,
                               struct pod_err *err)
{
    struct pod_event_view *view = out_view;
    struct pod_standing standing = {.position = POD_NO_ID};

    if (filter != NULL && !event_match(op, filter))
        return pod_err_set(err, POD_REASON_NOT_FOUND, "op-%llu has changed",
                           (unsigned long long)op->number);
    if (!pod_op_ended(op))
        standing = pod_op_standing_locked(pod, op);
    *view = (struct pod_event_view){
        .number = op->number,
        .kind = op->kind,
        .state = op->state,
        .revision = op->revision,
        .host = op->host,
        .core = op->core,
        .created_wall_ns = op->created_wall_ns,
        .ready_ns = op->ready_ns,
        .running_ns = op->running_ns,
        .finished_ns = op->finished_ns,
        .pending = standing.reason,
        .queue_position = standing.position,
        .queue_capped = standing.capped,
        .graph = op->graph,
        .priority = op->priority,
        .deadline_ns = op->deadline_ns,
        .name = pod_carve_text(carver, op->name),
        .labels = pod_carve_labels(carver, op),
        .label_count = op->label_count,
        .cancel = op->cancel,
        .cancel_reason = pod_carve_text(carver, op->cancel_reason),
        .hosts = pod_carve_hosts(carver, op),
        .host_count = op->outcome_count,
        .root_host = POD_NO_ID,
        .root_core = POD_NO_ID,
        .memory = carver->base,
    };
    event_lay_origin(pod, op, carver, view);
    event_lay_waits(pod, op, carver, view);
    event_lay_work(op, carver, view);
    pod_stall_lay_locked(op, carver, view);
    event_lay_error(op, carver, view);
    return POD_OK;
}

static void event_fini(void *view)
{
    pod_event_view_fini(view);
}

const struct pod_view_kind pod_view_event = {
    .lay_locked = event_lay,
    .match_locked = event_match,
    .word = "op",
    .bytes = sizeof(struct pod_event_view),
    .fini = event_fini,
};

enum pod_code pod_get_event(struct pod *pod, uint64_t number,
                            struct pod_event_view *out_view,
                            struct pod_err *err)
{
    struct pod_event_view view;
    enum pod_code code =
        pod_view_build(pod, &pod_view_event, number, NULL, &view, err);

    if (code == POD_OK)
        *out_view = view;
    return code;
}

void pod_event_view_fini(struct pod_event_view *view)
{
    if (view == NULL)
        return;
    pod_free(view->memory);
    view->memory = NULL;
}
