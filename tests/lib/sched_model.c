// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/sched_model.h"

#include "core/base/clock.h"

bool sched_model_open(const struct sched_model_op *op)
{
    return !pod_sched_terminal(op->state);
}

bool sched_model_bad(const struct sched_model_op *op)
{
    return !sched_model_open(op) && op->state != POD_SCHED_SUCCEEDED;
}

int sched_model_unmet(const struct sched_model *model,
                      const struct sched_model_op *op)
{
    int unmet = 0;

    for (int i = 0; i < op->dep_count; i++)
        unmet += !model->ops[op->deps[i].to].settled;
    return unmet;
}

bool sched_model_free(const struct sched_model *model,
                      const struct sched_model_op *op)
{
    if (op->launched)
        return false;
    if (!sched_model_open(op))
        return op->certain && sched_model_unmet(model, op) == 0;
    for (int i = 0; i < op->dep_count; i++) {
        const struct sched_model_op *to = &model->ops[op->deps[i].to];
        if (!to->settled && !(op->deps[i].ahead && to->launched))
            return false;
    }
    return true;
}

bool sched_model_plain(const struct sched_model *model,
                       const struct sched_model_op *op)
{
    return op->launched && sched_model_open(op) && op->lane_count == 0 &&
           op->deadline == POD_NEVER && sched_model_unmet(model, op) == 0;
}

bool sched_model_uses(const struct sched_model_op *op, uint32_t lane)
{
    for (int i = 0; i < op->lane_count; i++) {
        if (op->lanes[i] == lane)
            return true;
    }
    return false;
}

bool sched_model_strikes(const struct sched_model *model,
                         const struct sched_model_dep *dep)
{
    return dep->carries &&
           (sched_model_bad(&model->ops[dep->to]) || dep->to == model->root);
}

static void sched_model_spread(struct sched_model *model)
{
    bool again = true;

    while (again) {
        again = false;
        for (int i = 0; i < model->count; i++) {
            struct sched_model_op *op = &model->ops[i];
            bool struck = false;
            for (int j = 0; j < op->dep_count; j++)
                struck = struck || sched_model_strikes(model, &op->deps[j]);
            if (!struck || op->run_on_failure || !sched_model_open(op))
                continue;
            op->state = model->spread_state;
            op->spread = true;
            again = true;
        }
    }
}

// Ends what is late, one by one: earliest deadline, then earliest submitted.
static void sched_model_advance(struct sched_model *model)
{
    for (;;) {
        struct sched_model_op *first = NULL;
        for (int i = 0; i < model->count; i++) {
            struct sched_model_op *op = &model->ops[i];
            if (sched_model_open(op) && op->deadline <= model->now &&
                (first == NULL || op->deadline < first->deadline))
                first = op;
        }
        if (first == NULL)
            return;
        first->state = POD_SCHED_FAILED;
        first->late = true;
        sched_model_spread(model);
    }
}

static void sched_model_submit(struct sched_model *model,
                               struct sched_model_op *op)
{
    if (op->doom != NULL && !op->run_on_failure)
        op->state = POD_SCHED_SKIPPED;
    sched_model_spread(model);
    if (sched_model_open(op) && op->deadline <= model->now) {
        op->state = POD_SCHED_FAILED;
        op->late = true;
    }
}

static void sched_model_event(struct sched_model *model,
                              const struct pod_sched_event *event,
                              struct sched_model_op *op)
{
    bool open = op != NULL && sched_model_open(op);

    model->root = -1;
    model->spread_state = POD_SCHED_SKIPPED;
    if (event->kind == POD_SCHED_SUBMIT)
        sched_model_submit(model, op);
    else if (event->kind == POD_SCHED_ADVANCE)
        sched_model_advance(model);
    else if (event->kind == POD_SCHED_STARTED && open)
        op->state = POD_SCHED_RUNNING;
    else if (event->kind == POD_SCHED_CANCEL && open) {
        if (event->cascade)
            model->spread_state = POD_SCHED_CANCELLED;
        if (op->launched && (!op->certain || op->state == POD_SCHED_RUNNING))
            model->root = (int)(op - model->ops);
        else
            op->state = POD_SCHED_CANCELLED;
    } else if ((event->kind == POD_SCHED_DONE ||
                event->kind == POD_SCHED_END) &&
               open)
        op->state = event->state;
    if (event->kind == POD_SCHED_DONE)
        op->answered = true;
    sched_model_spread(model);
}

// What follows from the ends: who settles, is ready, must be interrupted, is
// gone; and so which effects must come.
static void sched_model_conclude(struct sched_model *model)
{
    // Dependencies stand before their dependents, so one pass will do.
    for (int i = 0; i < model->count; i++) {
        struct sched_model_op *op = &model->ops[i];
        if (!sched_model_open(op) &&
            (op->launched || op->certain ? op->answered
                                         : sched_model_unmet(model, op) == 0))
            op->settled = true;
    }
    for (int i = 0; i < model->count; i++) {
        struct sched_model_op *op = &model->ops[i];
        bool met = sched_model_unmet(model, op) == 0;
        if (op->state == POD_SCHED_WAITING && met)
            op->state = POD_SCHED_READY;
        if (op->state != op->before)
            op->expected |= POD_SCHED_CHANGED;
        if (op->launched && !op->interrupted && !op->certain &&
            (op->spread || op->late || i == model->root)) {
            op->expected |= POD_SCHED_INTERRUPT;
            op->interrupted = true;
        }
        if (op->settled && met && !op->released) {
            op->expected |= POD_SCHED_RELEASED;
            op->released = true;
        }
    }
}

// Whether it stands before all others in a lane.
static bool sched_model_turn_in(const struct sched_model *model,
                                const struct sched_model_op *op, uint32_t lane)
{
    for (int i = 0; i < model->count; i++) {
        const struct sched_model_op *other = &model->ops[i];
        if (other == op || !sched_model_uses(other, lane) ||
            !sched_model_free(model, other))
            continue;
        if (other->priority > op->priority ||
            (other->priority == op->priority && other < op))
            return false;
    }
    return true;
}

static bool sched_model_room_in(const struct sched_model *model, uint32_t lane)
{
    uint32_t busy = 0;

    for (int i = 0; i < model->count; i++) {
        const struct sched_model_op *op = &model->ops[i];
        busy +=
            op->launched && !op->settled && sched_model_uses(op, lane) ? 1 : 0;
    }
    return busy < model->windows[lane];
}

bool sched_model_has_room(const struct sched_model *model,
                          const struct sched_model_op *op)
{
    for (int i = 0; i < op->lane_count; i++) {
        if (!sched_model_room_in(model, op->lanes[i]))
            return false;
    }
    return true;
}

bool sched_model_may_launch(const struct sched_model *model,
                            const struct sched_model_op *op)
{
    if (!sched_model_free(model, op) || !sched_model_has_room(model, op))
        return false;
    for (int i = 0; i < op->lane_count; i++) {
        if (!sched_model_turn_in(model, op, op->lanes[i]))
            return false;
    }
    return true;
}

void sched_model_begin(struct sched_model *model)
{
    for (int i = 0; i < model->count; i++) {
        struct sched_model_op *each = &model->ops[i];
        each->before = each->state;
        each->expected = 0;
        each->spread = false;
        each->late = false;
        each->position = -1;
        each->said = 0;
        each->told = false;
    }
}

void sched_model_step(struct sched_model *model,
                      const struct pod_sched_event *event,
                      struct sched_model_op *op)
{
    sched_model_begin(model);
    sched_model_event(model, event, op);
    sched_model_conclude(model);
}

void sched_model_done_well(struct sched_model *model,
                           struct sched_model_op *const *ops, size_t count)
{
    const struct pod_sched_event event = {
        .kind = POD_SCHED_DONE,
        .state = POD_SCHED_SUCCEEDED,
    };

    for (size_t i = 0; i < count; i++)
        sched_model_event(model, &event, ops[i]);
    sched_model_conclude(model);
}
