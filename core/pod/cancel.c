// SPDX-License-Identifier: Apache-2.0
// Cancelling an operation, and waiting for one.
#include "core/pod/cancel.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/pod/effect.h"
#include "core/pod/failure.h"

enum { CANCEL_REASON_BYTES = 256 };

void pod_cancel_locked(struct pod *pod, struct pod_op *op,
                       enum pod_cancel_cascade cascade, enum pod_reason reason,
                       const char *text, struct pod_after *after)
{
    op->cancel = POD_CANCEL_PENDING;
    // The dependents that end now need its failure; if it goes well in spite of
    // the cancel that is taken back.
    if (op->outcome == POD_SCHED_SUCCEEDED)
        pod_fail_locked(pod, op, reason, text);
    pod_step_locked(pod, op, POD_SCHED_CANCEL, POD_SCHED_CANCELLED,
                    cascade == POD_CASCADE_DEPENDENTS, after);
    if (!pod_op_ended(op))
        pod_touch_locked(pod, op, after);
}

static enum pod_code cancel_locked(struct pod *pod, uint64_t number,
                                   enum pod_cancel_cascade cascade,
                                   char **reason, bool *out_again,
                                   struct pod_after *after, struct pod_err *err)
{
    struct pod_op *op;
    enum pod_code code = pod_find_op_locked(pod, number, &op, err);

    if (code != POD_OK)
        return code;
    *out_again = op->cancel != POD_CANCEL_NONE;
    if (*out_again)
        return POD_OK;
    if (pod_op_ended(op))
        return pod_err_set(err, POD_REASON_ALREADY_FINISHED,
                           "op-%llu has ended %s", (unsigned long long)number,
                           pod_sched_state_name(op->state));
    op->cancel_reason = *reason;
    *reason = NULL;
    pod_cancel_locked(pod, op, cascade, POD_REASON_CANCEL_REQUESTED,
                      op->cancel_reason != NULL ? op->cancel_reason
                                                : "it was cancelled",
                      after);
    return POD_OK;
}

enum pod_code pod_cancel(struct pod *pod, uint64_t number,
                         enum pod_cancel_cascade cascade, const char *reason,
                         bool *out_again, struct pod_err *err)
{
    struct pod_after after;
    char *copy = NULL;

    if (reason != NULL && reason[0] != '\0') {
        size_t length =
            pod_utf8_clip(reason, strlen(reason), CANCEL_REASON_BYTES);
        copy = pod_strndup(reason, length);
        if (copy == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for the reason");
    }
    pod_enter(pod, &after);
    enum pod_code code =
        cancel_locked(pod, number, cascade, &copy, out_again, &after, err);
    pod_leave(pod, &after);
    pod_free(copy);
    return code;
}

// --------------------------------------------------------------------- waiting

bool pod_wait_add(struct pod *pod, struct pod_waiter *waiter, uint64_t number,
                  uint64_t revision)
{
    struct pod_op *op;

    pod_mutex_lock(&pod->lock);
    op = pod_table_get(&pod->table, number);
    waiter->number = number;
    waiter->registered = op != NULL && !pod_op_ended(op) &&
                         pod->phase == POD_PHASE_RUNNING &&
                         (revision == 0 || op->revision == revision);
    waiter->held = waiter->registered ? op : NULL;
    if (waiter->registered) {
        pod_pin(op);
        pod_list_push_back(revision == 0 ? &op->end_waiters
                                         : &op->change_waiters,
                           &waiter->link);
    }
    pod_mutex_unlock(&pod->lock);
    return waiter->registered;
}

void pod_wait_remove(struct pod *pod, struct pod_waiter *waiter)
{
    struct pod_after after;

    pod_enter(pod, &after);
    if (waiter->registered)
        pod_list_remove(&waiter->link);
    waiter->registered = false;
    if (waiter->held != NULL)
        pod_unpin_locked(pod, waiter->held);
    waiter->held = NULL;
    pod_leave(pod, &after);
}

void pod_take_woken(struct pod *pod, struct pod_list *out_list)
{
    pod_mutex_lock(&pod->lock);
    for (struct pod_list *at = pod->woken.next; at != &pod->woken;
         at = at->next)
        POD_CONTAINER(at, struct pod_waiter, link)->registered = false;
    pod_list_splice(out_list, &pod->woken);
    pod_mutex_unlock(&pod->lock);
}

void pod_wake_all_locked(struct pod *pod, struct pod_after *after)
{
    for (struct pod_list *at = pod->open.next; at != &pod->open;
         at = at->next) {
        struct pod_op *op = POD_CONTAINER(at, struct pod_op, link);
        pod_list_splice(&pod->woken, &op->change_waiters);
        pod_list_splice(&pod->woken, &op->end_waiters);
    }
    pod_host_wake_all_locked(pod);
    after->notify = !pod_list_empty(&pod->woken);
}
