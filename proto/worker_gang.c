// SPDX-License-Identifier: Apache-2.0
// Executions that come one by one and run together.
#include <inttypes.h>

#include "core/base/mem.h"
#include "proto/worker_internal.h"

void worker_gang_unref_locked(struct worker_gang *gang)
{
    if (gang == NULL || --gang->refs > 0)
        return;
    worker_err_free(gang->err);
    pod_free(gang);
}

void worker_gang_leave_list_locked(struct worker_gang *gang)
{
    pod_list_remove(&gang->link);
    worker_gang_unref_locked(gang);
}

static struct worker_gang *gang_find(struct worker_session *session,
                                     uint64_t program, uint64_t key,
                                     uint32_t replica)
{
    for (struct pod_list *item = session->gangs.next; item != &session->gangs;
         item = item->next) {
        struct worker_gang *gang =
            POD_CONTAINER(item, struct worker_gang, link);
        if (gang->program == program && gang->key == key &&
            !gang->came[replica])
            return gang;
    }
    return NULL;
}

static struct worker_gang *gang_new(struct worker_session *session,
                                    uint64_t program, uint64_t key,
                                    size_t count)
{
    size_t bytes = count * (2 * sizeof(struct worker_op *) + sizeof(bool));
    struct worker_gang *gang = pod_calloc(1, sizeof(*gang) + bytes);
    if (gang == NULL)
        return NULL;
    gang->program = program;
    gang->key = key;
    gang->count = count;
    gang->worker = session->worker;
    gang->running = gang->members + count;
    gang->came = (bool *)(gang->running + count);
    gang->refs = 1; // the list's
    pod_list_push_back(&session->gangs, &gang->link);
    return gang;
}

enum pod_code worker_gang_join_locked(struct worker_op *op, uint64_t number,
                                      uint64_t *out_root, struct pod_err *err)
{
    const struct worker_request *request = &op->request;
    const struct worker_object *load =
        pod_map_get(&op->session->objects, number);
    uint32_t replica = request->launches[0].replica;
    if (load == NULL || load->kind != WORKER_LOADED)
        return pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                           "op-%" PRIu64 " made no loaded program", number);
    struct worker_gang *gang =
        gang_find(op->session, load->source, request->gang_key, replica);
    if (gang == NULL)
        gang = gang_new(op->session, load->source, request->gang_key,
                        request->replica_count);
    if (gang == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    gang->refs++;
    gang->came[replica] = true;
    gang->members[replica] = op;
    op->gang = gang;
    op->gang_place = replica;
    if (++gang->joined == gang->count)
        worker_gang_leave_list_locked(gang);
    if (!gang->failed)
        return POD_OK;
    *err = *gang->err;
    *out_root = gang->root;
    return err->code;
}

void worker_gang_detach_locked(struct worker_op *op)
{
    struct worker_gang *gang = op->gang;
    if (gang == NULL)
        return;
    gang->members[op->gang_place] = NULL;
    op->gang = NULL;
    worker_gang_unref_locked(gang);
}

bool worker_gang_ready_locked(struct worker_op *op)
{
    struct worker_gang *gang = op->gang;
    if (++gang->ready < gang->count || gang->failed)
        return false;
    gang->launched = true;
    return true;
}

void worker_gang_begin_locked(struct worker_gang *gang, uint64_t driver_op)
{
    for (size_t i = 0; i < gang->count; i++) {
        gang->running[i] = gang->members[i];
        gang->running[i]->driver_op = driver_op;
    }
    gang->refs++; // the driver's
}

void worker_gang_ended_locked(struct worker_op *op)
{
    struct worker_gang *gang = op->gang;
    gang->members[op->gang_place] = NULL;
    if (op->err == NULL || gang->failed || gang->launched)
        return;
    struct pod_err err = POD_ERR_NONE;
    uint64_t root = op->root != 0 ? op->root : op->request.number;
    (void)pod_err_set(&err, POD_REASON_GANG_ABORTED,
                      "replica %" PRIu32 " of the gang failed: %s",
                      op->gang_place, op->err->text);
    gang->failed = true;
    gang->err = worker_err_copy(&err);
    gang->root = root;
    for (size_t i = 0; i < gang->count; i++) {
        if (gang->members[i] != NULL)
            worker_todo_locked(gang->members[i], WORKER_TODO_ABORT);
    }
}
