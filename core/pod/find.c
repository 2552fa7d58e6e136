// SPDX-License-Identifier: Apache-2.0
// Looking at operations: by number, and what one waits for.
#include "core/pod/internal.h"

#include "core/pod/pending.h"

enum pod_code pod_find_op_locked(const struct pod *pod, uint64_t number,
                                 struct pod_op **out_op, struct pod_err *err)
{
    struct pod_op *op = pod_table_get(&pod->table, number);

    if (op != NULL) {
        *out_op = op;
        return POD_OK;
    }
    if (number == 0 || number > pod->last_number)
        return pod_err_set(err, POD_REASON_NOT_FOUND, "op-%llu does not exist",
                           (unsigned long long)number);
    return pod_err_set(err, POD_REASON_EXPIRED, "op-%llu is no longer kept",
                       (unsigned long long)number);
}

// A dependency that is not in the table any more has settled long ago.
static bool find_met(const struct pod *pod, uint64_t number)
{
    const struct pod_op *dep = pod_table_get(&pod->table, number);

    return dep == NULL || dep->settled;
}

size_t pod_op_waits_locked(const struct pod *pod, struct pod_op *op,
                           uint64_t *out_numbers, size_t capacity)
{
    size_t count = 0;

    while (op->dep_met < op->dep_count && find_met(pod, op->deps[op->dep_met]))
        op->dep_met++;
    for (uint32_t i = op->dep_met; i < op->dep_count && count < capacity; i++) {
        if (!find_met(pod, op->deps[i]))
            out_numbers[count++] = op->deps[i];
    }
    return count;
}

static enum pod_handle_state find_state(const struct pod_handle *handle)
{
    if (handle->freed_by != 0)
        return POD_HANDLE_FREED;
    if (handle->lost || handle->maker->state == POD_SCHED_LOST)
        return POD_HANDLE_LOST;
    if (handle->failed)
        return POD_HANDLE_FAILED;
    return handle->maker->state == POD_SCHED_SUCCEEDED ? POD_HANDLE_READY
                                                       : POD_HANDLE_PENDING;
}

enum pod_handle_state pod_buffer_state(const struct pod_buffer *buffer)
{
    const struct pod_op *writer = buffer->last_writer;
    enum pod_handle_state state = find_state(&buffer->handle);

    if (state == POD_HANDLE_READY && writer != NULL && pod_op_ended(writer) &&
        writer->state != POD_SCHED_SUCCEEDED)
        return POD_HANDLE_FAILED;
    return state;
}

enum pod_handle_state pod_program_state(const struct pod_program *program)
{
    return find_state(&program->handle);
}

enum pod_handle_state pod_loaded_state(const struct pod_loaded *load)
{
    return find_state(&load->handle);
}
