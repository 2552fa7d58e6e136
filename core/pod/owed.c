// SPDX-License-Identifier: Apache-2.0
// What hosts have still though it was freed: they refused to let go of it, for
// want of memory or because they are broken. The operation ends FAILED and says
// so, but its handle is nobody's, so nobody would ask again. That is done here,
// with a sign of life, less and less often, until the host has let go of it or
// is lost. Till then its memory counts as used.
//
// The operation that was to free it is kept meanwhile, with its call: a FREE or
// an UNLOAD, or what made a thing that could not be used and gives it back. Of
// programs the record of what is compiled is kept (compile.c).
#include "core/pod/complete.h"

#include "core/pod/compile.h"
#include "core/pod/effect.h"
#include "core/pod/hazard.h"
#include "core/pod/op_new.h"
#include "core/pod/outbox.h"
#include "core/pod/settle.h"

// So many are asked for again at once, and that so often.
enum { OWED_TURN = 64 };
#define OWED_FIRST_NS POD_NS_PER_S
#define OWED_MOST_NS  (64 * POD_NS_PER_S)

bool pod_owed_refused(const struct pod_answer *answer)
{
    return answer->state == POD_SCHED_FAILED &&
           (answer->failure == NULL || answer->failure->code != POD_NOT_FOUND);
}

static bool owed_is_load(const struct pod_op *op)
{
    return op->kind == POD_KIND_UNLOAD || op->kind == POD_KIND_LOAD;
}

static uint64_t owed_number(const struct pod_op *op)
{
    return owed_is_load(op) ? op->load_number : op->buffer_number;
}

// What was made in vain is not counted as a handle that exists.
static void owed_count_own(struct pod *pod, const struct pod_op *op, bool owed)
{
    const struct pod_buffer *buffer = op->buffer;

    if (buffer == NULL || buffer->is_tuple)
        return;
    if (owed)
        pod->cores[buffer->core]->memory_used += buffer->bytes;
    else
        pod->cores[buffer->core]->memory_used -= buffer->bytes;
}

void pod_owed_note_locked(struct pod *pod, struct pod_op *op,
                          const struct pod_answer *answer)
{
    if (!pod_owed_refused(answer))
        return;
    op->owed = true;
    pod_pin(op);
    pod_list_push_back(&op->work->call.host->owed, &op->work->joined);
    owed_count_own(pod, op, true);
}

// The host has let go of it, or is gone itself.
static void owed_over(struct pod *pod, struct pod_op *op)
{
    const struct pod_op *maker = pod_table_get(&pod->table, owed_number(op));
    struct pod_handle *handle = maker == NULL ? NULL : pod_op_handle(maker);

    op->owed = false;
    pod_list_remove(&op->work->joined);
    pod_work_free(op);
    owed_count_own(pod, op, false);
    if (op->buffer != NULL)
        pod_memory_release_locked(pod, op->buffer);
    if (pod_op_takes(op) && handle != NULL && !handle->free_done)
        pod_handle_gone_locked(pod, handle, op->number);
    pod_unpin_locked(pod, op);
}

void pod_owed_answer_locked(struct pod *pod, struct pod_op *op,
                            const struct pod_answer *answer)
{
    struct pod_host *host = op->work->call.host;

    if (pod_owed_refused(answer)) {
        pod_list_push_back(&host->owed, &op->work->joined);
        return;
    }
    owed_over(pod, op);
    host->owed_due_ns = 0; // maybe it lets go of the others, too
    host->owed_wait_ns = 0;
}

static void owed_ask(struct pod *pod, struct pod_op *op,
                     struct pod_after *after)
{
    struct pod_call *call = &op->work->call;

    pod_call_init(call, op, call->host,
                  owed_is_load(op) ? POD_CALL_UNLOAD : POD_CALL_DEALLOCATE,
                  pod_call_number_locked(pod));
    call->wait_count = 0; // all that is over
    call->order_count = 0;
    call->handle = owed_number(op);
    pod_call_queue_locked(call, after);
}

static void owed_leave_alone(struct pod_host *host, int64_t now_ns)
{
    host->owed_wait_ns *= 2;
    if (host->owed_wait_ns < OWED_FIRST_NS)
        host->owed_wait_ns = OWED_FIRST_NS;
    if (host->owed_wait_ns > OWED_MOST_NS)
        host->owed_wait_ns = OWED_MOST_NS;
    host->owed_due_ns = pod_time_add(now_ns, host->owed_wait_ns);
}

void pod_owed_ask_locked(struct pod *pod, struct pod_host *host,
                         struct pod_after *after)
{
    int64_t now_ns = pod->now_ns;
    struct pod_list *item;

    if (!pod_host_up(host) || now_ns < host->owed_due_ns)
        return;
    bool asks = pod_compile_free_again_locked(pod, host, after);
    for (int i = 0; i < OWED_TURN; i++) {
        item = pod_list_pop_front(&host->owed);
        if (item == NULL)
            break;
        owed_ask(pod, POD_CONTAINER(item, struct pod_work, joined)->op, after);
        asks = true;
    }
    if (asks)
        owed_leave_alone(host, now_ns);
}

void pod_owed_lost_locked(struct pod *pod, struct pod_host *host)
{
    struct pod_list *item;

    while ((item = pod_list_pop_front(&host->owed)) != NULL)
        owed_over(pod, POD_CONTAINER(item, struct pod_work, joined)->op);
    if (host->owed_programs > 0)
        pod_compiled_let_host_go_locked(pod, host->id);
    host->owed_programs = 0;
    host->owed_due_ns = 0;
    host->owed_wait_ns = 0;
}
