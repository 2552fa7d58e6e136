// SPDX-License-Identifier: Apache-2.0
// The end of an operation's use of things, its place in history, its expiry.
//
// An operation is kept while it is open or not settled, while somebody waits
// for it, while the handle it made lives, while its bytes are kept, and while
// it is pinned (it is a buffer's last writer, or another record points at what
// it made). After that it is history, which is bounded by count and by age.
#include "core/pod/settle.h"

#include <assert.h>

#include "core/pod/compile.h"
#include "core/pod/effect.h"
#include "core/pod/graph.h"
#include "core/pod/hazard.h"
#include "core/pod/op_new.h"
#include "core/pod/staging.h"

enum { HISTORY_BATCH = 4 * POD_DONE_MAX };

// ---------------------------------------------------------------------- settle

static void settle_buffer_gone(struct pod *pod, struct pod_buffer *buffer)
{
    if (buffer->handle.free_done)
        return;
    buffer->handle.free_done = true;
    pod_memory_exists_locked(pod, buffer, false);
    pod_memory_release_locked(pod, buffer);
    pod_list_remove(&buffer->handle.host_link);
    pod_hazard_forget_locked(pod, buffer);
    pod_tuple_let_go_locked(buffer);
    for (size_t i = 0; buffer->is_tuple && i < buffer->child_count; i++)
        pod_unpin_locked(pod, buffer->children[i]->handle.maker);
}

// A load does not stand on its program any more.
void pod_load_leave_locked(struct pod *pod, struct pod_loaded *load)
{
    struct pod_program *program = load->program;

    if (program == NULL)
        return;
    if (load->handle.freed_by == 0)
        program->load_count--;
    pod_list_remove(&load->program_link);
    load->program = NULL;
    pod_unpin_locked(pod, program->handle.maker);
}

static void settle_load_gone(struct pod *pod, struct pod_loaded *load)
{
    if (load->handle.free_done)
        return;
    load->handle.free_done = true;
    load->handle.exists = false;
    load->freeing = NULL;
    pod_list_remove(&load->handle.host_link);
    pod_load_leave_locked(pod, load);
}

static void settle_program_gone(struct pod *pod, struct pod_program *program)
{
    struct pod_compiled *compiled = program->compiled;

    program->handle.free_done = true;
    program->compiled = NULL;
    pod_list_remove(&program->handle.host_link);
    if (compiled != NULL)
        pod_compiled_unref_locked(pod, compiled);
}

void pod_handle_gone_locked(struct pod *pod, struct pod_handle *handle,
                            uint64_t number)
{
    struct pod_op *maker = handle->maker;

    if (maker->buffer != NULL && handle->freed_by == 0)
        pod->hosts[maker->buffer->host]->buffers--;
    if (maker->load != NULL)
        pod_load_leave_locked(pod, maker->load);
    if (handle->freed_by == 0)
        handle->freed_by = number;
    if (maker->buffer != NULL)
        settle_buffer_gone(pod, maker->buffer);
    else if (maker->load != NULL)
        settle_load_gone(pod, maker->load);
    else
        settle_program_gone(pod, maker->program);
    pod_changed_handle_locked(pod, handle);
    pod_retire_locked(pod, maker);
}

// What an operation freed is gone, unless its host has it still.
static void settle_freed(struct pod *pod, struct pod_op *op)
{
    if (op->owed)
        return;
    if (op->kind == POD_KIND_UNLOAD) {
        settle_load_gone(pod, op->target_load);
        pod_retire_locked(pod, op->target_load->handle.maker);
    }
    if (op->kind != POD_KIND_FREE)
        return;
    if (op->target != NULL) {
        settle_buffer_gone(pod, op->target);
        pod_retire_locked(pod, op->target->handle.maker);
    }
    if (op->target_program != NULL) {
        settle_program_gone(pod, op->target_program);
        pod_retire_locked(pod, op->target_program->handle.maker);
    }
}

// A handle whose making failed has nothing to keep.
static void settle_failed(struct pod *pod, struct pod_op *op)
{
    if (op->buffer != NULL) {
        if (!op->owed)
            pod_memory_release_locked(pod, op->buffer);
        pod_list_remove(&op->buffer->handle.host_link);
    }
    if (op->program != NULL)
        pod_list_remove(&op->program->handle.host_link);
    if (op->load == NULL)
        return;
    pod_list_remove(&op->load->handle.host_link);
    if (op->load->handle.freed_by == 0)
        pod_load_leave_locked(pod, op->load);
}

// A read that got nothing, or only a part, keeps no bytes.
static void settle_bytes(struct pod *pod, struct pod_op *op)
{
    struct pod_kept *kept = op->kept;

    if (kept == NULL || kept->there || kept->dropped)
        return;
    pod_data_discard(pod, kept->data);
    kept->data = (struct pod_data_chunks){.chunks = NULL};
}

void pod_settle_locked(struct pod *pod, struct pod_op *op)
{
    if (op->settled)
        return;
    op->settled = true;
    pod_list_remove(&op->link);
    pod_list_remove(&op->work->memory_link);
    // A graph that is cancelled is put there by its last member once more.
    pod_list_remove(&op->work->local);
    pod_hazard_settle_locked(op);
    if (op->state != POD_SCHED_SUCCEEDED)
        settle_failed(pod, op);
    settle_freed(pod, op);
    settle_bytes(pod, op);
    pod_hazard_hold_locked(pod, op, false);
    op->target = NULL;
    op->source = NULL;
    op->target_program = NULL;
    op->target_load = NULL;
    if (pod->reset == op)
        pod->reset = NULL;
    if (op->kind == POD_KIND_GRAPH)
        pod_graph_settle_locked(op);
    pod_op_leave_transfer(op);
    if (!op->owed)
        pod_work_free(op);
    pod_retire_locked(pod, op);
}

// --------------------------------------------------------------------- history

static bool retire_handle_lives(const struct pod_op *op)
{
    const struct pod_handle *handle = pod_op_handle(op);

    if (handle == NULL || handle->free_done)
        return false;
    return handle->freed_by != 0 || !(handle->failed || handle->lost);
}

// A buffer that failed or is lost pins its own maker as its last writer.
static uint32_t retire_own_pins(const struct pod_op *op)
{
    return op->buffer != NULL && op->buffer->last_writer == op ? 1 : 0;
}

void pod_retire_locked(struct pod *pod, struct pod_op *op)
{
    if (op->retired || op->link.next != &op->link || !op->settled ||
        op->node != NULL || op->pins > retire_own_pins(op) ||
        pod_op_has_data(op) || retire_handle_lives(op))
        return;
    op->retired = true;
    op->retired_ns = pod->now_ns;
    pod_list_push_back(&pod->history, &op->link);
    pod->history_count++;
}

// A handle that failed or is lost goes with its record: what it held of others
// is let go.
static void history_expire_handle(struct pod *pod, struct pod_op *op)
{
    struct pod_buffer *buffer = op->buffer;

    if (buffer != NULL && !buffer->handle.free_done) {
        struct pod_op *writer = buffer->last_writer;
        buffer->last_writer = NULL;
        if (writer != NULL && writer != op)
            pod_unpin_locked(pod, writer);
        pod->hosts[buffer->host]->buffers--;
        pod_tuple_let_go_locked(buffer);
        for (size_t i = 0; i < buffer->child_count; i++)
            pod_unpin_locked(pod, buffer->children[i]->handle.maker);
    }
    if (op->program != NULL && op->program->compiled != NULL) {
        struct pod_compiled *compiled = op->program->compiled;
        op->program->compiled = NULL;
        pod_compiled_unref_locked(pod, compiled);
    }
}

static void history_leave_host(struct pod *pod, struct pod_host *host)
{
    host->kept_operations--;
    pod_host_release_locked(pod, host);
}

static void history_expire(struct pod *pod, struct pod_op *op)
{
    pod_list_remove(&op->link);
    pod->history_count--;
    op->expired = true;
    pod_table_remove(&pod->table, op->number);
    pod->by_state[op->state]--;
    pod->by_kind[op->kind]--;
    history_expire_handle(pod, op);
    if (op->host != POD_NO_ID)
        history_leave_host(pod, pod->hosts[op->host]);
    pod_list_push_back(&pod->garbage, &op->link);
    pod->garbage_count++;
}

// A failed or lost handle can be named again while its record is history: what
// does that holds the record, which comes back when it is let go.
static bool history_recall(struct pod *pod, struct pod_op *op)
{
    if (op->pins <= retire_own_pins(op))
        return false;
    pod_list_remove(&op->link);
    pod->history_count--;
    op->retired = false;
    return true;
}

static bool history_due(const struct pod *pod, const struct pod_op *oldest)
{
    int64_t due = pod_time_add(oldest->retired_ns, pod->options.history_age_ns);

    return pod->history_count > pod->options.history_count ||
           due <= pod->now_ns;
}

void pod_history_trim_locked(struct pod *pod)
{
    for (int i = 0; i < HISTORY_BATCH && !pod_list_empty(&pod->history); i++) {
        struct pod_op *oldest =
            POD_CONTAINER(pod->history.next, struct pod_op, link);
        if (!history_due(pod, oldest))
            return;
        if (!history_recall(pod, oldest))
            history_expire(pod, oldest);
    }
}

int64_t pod_history_due_locked(const struct pod *pod)
{
    const struct pod_op *oldest;

    if (pod_list_empty(&pod->history))
        return POD_NEVER;
    oldest = POD_CONTAINER(pod->history.next, struct pod_op, link);
    if (history_due(pod, oldest))
        return pod->now_ns;
    return pod_time_add(oldest->retired_ns, pod->options.history_age_ns);
}
