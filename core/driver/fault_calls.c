// SPDX-License-Identifier: Apache-2.0
// Calls on their way to the driver below, and what the rules do to them.

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/driver/fault_internal.h"

// ---------------------------------------------------------------- the rules

static const struct pod_fault_rule *fault_match_locked(struct fault *fault,
                                                       enum pod_fault_kind kind)
{
    fault->counts[kind]++;
    fault->counts[POD_FAULT_ANY]++;
    for (size_t i = 0; i < fault->script.count; i++) {
        const struct pod_fault_rule *rule = &fault->script.rules[i];
        uint64_t nth = fault->counts[rule->kind];
        if (rule->one_host && rule->host != fault->host)
            continue;
        if (rule->kind != kind && rule->kind != POD_FAULT_ANY)
            continue;
        if (nth >= rule->first && nth <= rule->last)
            return rule;
    }
    return NULL;
}

static int64_t fault_after(int64_t duration_ns)
{
    return duration_ns == POD_NEVER
               ? POD_NEVER
               : pod_time_add(pod_clock_mono(&pod_clock_system), duration_ns);
}

// Does to a call what its rule says.
static void fault_apply_locked(struct fault *fault, struct fault_call *call,
                               const struct pod_fault_rule *rule)
{
    switch (rule->action) {
    case POD_FAULT_NONE:
        break;
    case POD_FAULT_DELAY:
        call->delay_ns = rule->duration_ns;
        break;
    case POD_FAULT_FAIL:
        (void)pod_err_set_code(&call->err, rule->code, POD_REASON_WORKER_ERROR,
                               "the operation was made to fail");
        call->from_worker = true;
        pod_fault_due_locked(fault, call);
        break;
    case POD_FAULT_DROP:
        call->place = FAULT_DROPPED;
        pod_list_push_back(&fault->dropped, &call->link);
        break;
    case POD_FAULT_DIE:
        pod_fault_kill_locked(fault, "it was made to die",
                              fault_after(rule->duration_ns));
        pod_fault_set_lost(call, &fault->why);
        pod_fault_due_locked(fault, call);
        break;
    case POD_FAULT_STALL:
        fault->stalled = true;
        fault->stall_until_ns = fault_after(rule->duration_ns);
        pod_cond_signal(&fault->wake);
        break;
    }
}

// NULL: no memory, or the number is in use.
static struct fault_call *fault_call_new(struct fault *fault,
                                         const struct pod_driver_call *call)
{
    struct fault_call *own = pod_calloc(1, sizeof *own);

    if (own == NULL)
        return NULL;
    own->fault = fault;
    own->call = *call;
    own->place = FAULT_BELOW;
    pod_list_init(&own->link);
    return own;
}

// Takes a call: says in `through` how it goes on, or returns false when it does
// not. `out_failed`, if given, tells of a call that a rule failed.
static bool fault_take(struct fault *fault, enum pod_fault_kind kind,
                       const struct pod_driver_call *call,
                       struct pod_driver_call *through, bool *out_failed)
{
    struct fault_call *own = fault_call_new(fault, call);
    bool below = true;

    *through = *call;
    through->more = false; // what follows may go no further than here
    pod_mutex_lock(&fault->lock);
    if (own == NULL || pod_map_get(&fault->open, call->op) != NULL ||
        !pod_map_put(&fault->open, call->op, own)) {
        pod_mutex_unlock(&fault->lock);
        pod_free(own);
        return true;
    }
    own->reset = kind == POD_FAULT_KIND_COUNT;
    if (fault->state == FAULT_LOSING || fault->state == FAULT_LOST) {
        pod_fault_set_lost(own, &fault->why);
        pod_fault_due_locked(fault, own);
    } else if (!own->reset && fault->state != FAULT_CLOSING) {
        const struct pod_fault_rule *rule = fault_match_locked(fault, kind);
        if (rule != NULL)
            fault_apply_locked(fault, own, rule);
    }
    below = own->place == FAULT_BELOW;
    if (out_failed != NULL)
        *out_failed = !below && own->from_worker;
    pod_mutex_unlock(&fault->lock);
    // Once it is not below our thread may have ended it: it is not ours.
    if (!below)
        return false;
    through->started = call->started == NULL ? NULL : pod_fault_on_started;
    through->done = pod_fault_on_done;
    through->arg = own;
    through->here = false;
    return true;
}

// ------------------------------------------------------- calls that go on

void pod_fault_allocate(struct pod_driver *base,
                        const struct pod_driver_call *call, uint32_t core,
                        const struct pod_shape *shape, uint64_t bytes)
{
    struct fault *fault = fault_of(base);
    struct pod_driver *inner = fault->inner;
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_ALLOCATE, call, &through, NULL))
        inner->ops->allocate(inner, &through, core, shape, bytes);
}

void pod_fault_allocate_tuple(struct pod_driver *base,
                              const struct pod_driver_call *call, uint32_t core,
                              const uint64_t *children, size_t child_count)
{
    struct fault *fault = fault_of(base);
    struct pod_driver *inner = fault->inner;
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_ALLOCATE, call, &through, NULL))
        inner->ops->allocate_tuple(inner, &through, core, children,
                                   child_count);
}

void pod_fault_deallocate(struct pod_driver *base,
                          const struct pod_driver_call *call, uint64_t buffer)
{
    struct fault *fault = fault_of(base);
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_FREE, call, &through, NULL))
        fault->inner->ops->deallocate(fault->inner, &through, buffer);
}

void pod_fault_write(struct pod_driver *base,
                     const struct pod_driver_call *call, uint64_t buffer,
                     uint64_t offset, struct pod_blob *data, size_t data_offset,
                     size_t count)
{
    struct fault *fault = fault_of(base);
    struct pod_driver *inner = fault->inner;
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_WRITE, call, &through, NULL))
        inner->ops->write(inner, &through, buffer, offset, data, data_offset,
                          count);
}

void pod_fault_read(struct pod_driver *base, const struct pod_driver_call *call,
                    uint64_t buffer, uint64_t offset, size_t count)
{
    struct fault *fault = fault_of(base);
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_READ, call, &through, NULL))
        fault->inner->ops->read(fault->inner, &through, buffer, offset, count);
}

void pod_fault_lend(struct pod_driver *base, const struct pod_driver_call *call,
                    uint64_t buffer, uint64_t offset, size_t count)
{
    struct fault *fault = fault_of(base);
    struct pod_driver *inner = fault->inner;
    struct pod_driver_call through;

    if (!fault_take(fault, POD_FAULT_READ, call, &through, NULL))
        return;
    if (inner->ops->lend != NULL)
        inner->ops->lend(inner, &through, buffer, offset, count);
    else
        inner->ops->read(inner, &through, buffer, offset, count);
}

void pod_fault_copy(struct pod_driver *base, const struct pod_driver_call *call,
                    uint64_t from, uint64_t to)
{
    struct fault *fault = fault_of(base);
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_COPY, call, &through, NULL))
        fault->inner->ops->copy(fault->inner, &through, from, to);
}

void pod_fault_compile(struct pod_driver *base,
                       const struct pod_driver_call *call,
                       enum pod_program_format format, struct pod_blob *program,
                       uint32_t replicas)
{
    struct fault *fault = fault_of(base);
    struct pod_driver *inner = fault->inner;
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_COMPILE, call, &through, NULL))
        inner->ops->compile(inner, &through, format, program, replicas);
}

void pod_fault_free_program(struct pod_driver *base,
                            const struct pod_driver_call *call,
                            uint64_t program)
{
    struct fault *fault = fault_of(base);
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_FREE, call, &through, NULL))
        fault->inner->ops->free_program(fault->inner, &through, program);
}

void pod_fault_load(struct pod_driver *base, const struct pod_driver_call *call,
                    uint32_t core, uint64_t program)
{
    struct fault *fault = fault_of(base);
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_LOAD, call, &through, NULL))
        fault->inner->ops->load(fault->inner, &through, core, program);
}

void pod_fault_unload(struct pod_driver *base,
                      const struct pod_driver_call *call, uint64_t load)
{
    struct fault *fault = fault_of(base);
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_UNLOAD, call, &through, NULL))
        fault->inner->ops->unload(fault->inner, &through, load);
}

// The gang of an execution that was made to fail shall not wait for it.
static void fault_fail_gang(struct fault *fault,
                            const struct pod_driver_call *call,
                            const struct pod_driver_execute *execute)
{
    struct pod_gang *gang;
    struct pod_err why;

    if (fault->hub == NULL || execute->replica_count < 2 ||
        pod_gang_join(fault->hub, call->op, execute->replica_count,
                      execute->replica_hosts, &gang, &why) != POD_OK)
        return;
    (void)pod_err_set(&why, POD_REASON_WORKER_ERROR,
                      "the operation was made to fail");
    for (size_t i = 0; i < execute->launch_count; i++)
        pod_gang_leave(gang, execute->launches[i].replica, &why);
    pod_gang_unref(gang);
}

void pod_fault_execute(struct pod_driver *base,
                       const struct pod_driver_call *call,
                       const struct pod_driver_execute *execute)
{
    struct fault *fault = fault_of(base);
    struct pod_driver_call through;
    bool failed = false;

    if (fault_take(fault, POD_FAULT_EXECUTE, call, &through, &failed))
        fault->inner->ops->execute(fault->inner, &through, execute);
    else if (failed)
        fault_fail_gang(fault, call, execute);
}

void pod_fault_reset(struct pod_driver *base,
                     const struct pod_driver_call *call)
{
    struct fault *fault = fault_of(base);
    struct pod_driver_call through;

    if (fault_take(fault, POD_FAULT_KIND_COUNT, call, &through, NULL))
        fault->inner->ops->reset(fault->inner, &through);
}

void pod_fault_cancel(struct pod_driver *base, uint64_t op)
{
    struct fault *fault = fault_of(base);

    pod_mutex_lock(&fault->lock);
    struct fault_call *call = pod_map_get(&fault->open, op);
    bool dropped = call != NULL && call->place == FAULT_DROPPED;
    if (dropped) {
        (void)pod_err_set(&call->err, POD_REASON_CANCEL_REQUESTED,
                          "the operation was cancelled");
        pod_fault_due_locked(fault, call);
    }
    pod_mutex_unlock(&fault->lock);
    if (!dropped)
        fault->inner->ops->cancel(fault->inner, op);
}
