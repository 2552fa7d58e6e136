// SPDX-License-Identifier: Apache-2.0
// Order by use. Each buffer knows its last writer and the readers since, each
// load its executions, so that a new operation finds what it must wait for in
// time proportional to that.
//
// A batch may fail half-way, so what a new writer displaces is put aside in its
// record until the batch is admitted. Everything else that a hazard adds is a
// link of the new operation's own.
#include "core/pod/hazard.h"

#include <assert.h>

#include "core/base/mem.h"
#include "core/pod/effect.h"
#include "core/pod/op_new.h"

void pod_hazard_begin_locked(struct pod_hazard *hazard, struct pod *pod,
                             struct pod_op *op)
{
    *hazard =
        (struct pod_hazard){.pod = pod, .op = op, .first = pod->edges.count};
    pod->dep_mark++;
}

static bool hazard_room(struct pod_edges *edges)
{
    size_t capacity = edges->capacity == 0 ? 64 : edges->capacity * 2;

    if (edges->count < edges->capacity)
        return true;
    struct pod_edge *items =
        pod_realloc(edges->items, capacity, sizeof(*items));
    if (items == NULL)
        return false;
    edges->items = items;
    struct pod_sched_dep *deps =
        pod_realloc(edges->deps, capacity, sizeof(*deps));
    if (deps == NULL)
        return false;
    edges->deps = deps;
    edges->capacity = capacity;
    return true;
}

bool pod_hazard_after_locked(struct pod_hazard *hazard, struct pod_op *dep,
                             bool carries)
{
    struct pod_edges *edges = &hazard->pod->edges;
    struct pod_op *op = hazard->op;

    if (dep == op)
        return true;
    if (carries && pod_op_ended(dep) && dep->state != POD_SCHED_SUCCEEDED &&
        op->work->doomed_by == NULL)
        op->work->doomed_by = dep;
    if (dep->settled)
        return true;
    if (dep->dep_mark == hazard->pod->dep_mark) {
        edges->items[dep->dep_index].carries |= carries;
        return true;
    }
    if (!hazard_room(edges))
        return false;
    dep->dep_mark = hazard->pod->dep_mark;
    dep->dep_index = edges->count;
    edges->items[edges->count++] =
        (struct pod_edge){.op = dep, .carries = carries};
    return true;
}

void pod_hazard_ahead_locked(struct pod_hazard *hazard)
{
    struct pod_edges *edges = &hazard->pod->edges;

    for (size_t i = hazard->first; i < edges->count; i++)
        edges->items[i].ahead =
            pod_ahead_may(hazard->pod, hazard->op, edges->items[i].op,
                          edges->items[i].carries);
}

// The making of a handle, which must have gone well and still stand.
bool pod_hazard_handle_locked(struct pod_hazard *hazard,
                              struct pod_handle *handle)
{
    if (handle->lost && hazard->op->work->doomed_by == NULL)
        hazard->op->work->doomed_by = handle->maker;
    return pod_hazard_after_locked(hazard, handle->maker, true);
}

static bool hazard_after_readers(struct pod_hazard *hazard,
                                 struct pod_list *readers)
{
    for (struct pod_list *at = readers->next; at != readers; at = at->next) {
        struct pod_use *use = POD_CONTAINER(at, struct pod_use, link);
        if (!pod_hazard_after_locked(hazard, use->op, false))
            return false;
    }
    return true;
}

// ---------------------------------------------------------------------- reads

// Needs pod_work_room_uses before.
static void hazard_add_use(struct pod_op *op, struct pod_buffer *buffer)
{
    struct pod_work *work = op->work;
    struct pod_use *use = &work->uses[work->use_count++];

    use->buffer = buffer;
    use->op = op;
    pod_list_init(&use->link);
    pod_list_push_back(&buffer->readers, &use->link);
}

static bool hazard_read_one(struct pod_hazard *hazard,
                            struct pod_buffer *buffer)
{
    struct pod_op *op = hazard->op;

    if (!pod_hazard_handle_locked(hazard, &buffer->handle))
        return false;
    if (buffer->last_writer != NULL &&
        !pod_hazard_after_locked(hazard, buffer->last_writer, true))
        return false;
    // The request has room for what it names, but not for the leaves of tuples.
    if (!pod_work_room_uses(op->work, 1))
        return false;
    hazard_add_use(op, buffer);
    return true;
}

bool pod_hazard_read_locked(struct pod_hazard *hazard,
                            struct pod_buffer *buffer)
{
    if (!hazard_read_one(hazard, buffer))
        return false;
    for (size_t i = 0; buffer->is_tuple && i < buffer->child_count; i++) {
        if (!pod_hazard_read_locked(hazard, buffer->children[i]))
            return false;
    }
    return true;
}

// Whether the readers of a tuple have room for the leaves it is to have. Those
// of one reader stand next to each other.
static bool hazard_room_leaves(struct pod_list *readers, size_t count)
{
    struct pod_list *at = readers->next;

    while (at != readers) {
        struct pod_use *use = POD_CONTAINER(at, struct pod_use, link);
        struct pod_op *op = use->op;
        size_t index = (size_t)(use - op->work->uses);
        if (!pod_work_room_uses(op->work, count))
            return false;
        at = op->work->uses[index].link.next; // growing moves the records
    }
    return true;
}

bool pod_hazard_spread_locked(struct pod_buffer *tuple,
                              struct pod_op *const *leaves, size_t count)
{
    const struct pod_op *last = NULL;

    if (!hazard_room_leaves(&tuple->readers, count))
        return false;
    for (struct pod_list *at = tuple->readers.next; at != &tuple->readers;
         at = at->next) {
        struct pod_op *op = POD_CONTAINER(at, struct pod_use, link)->op;
        for (size_t i = 0; op != last && i < count; i++)
            hazard_add_use(op, leaves[i]->buffer);
        last = op;
    }
    return true;
}

// --------------------------------------------------------------------- writes

static bool hazard_write_one(struct pod_hazard *hazard,
                             struct pod_buffer *buffer, bool whole)
{
    struct pod_op *op = hazard->op;
    struct pod_work *work = op->work;

    if (!pod_hazard_handle_locked(hazard, &buffer->handle))
        return false;
    if (buffer->last_writer != NULL &&
        !pod_hazard_after_locked(hazard, buffer->last_writer, !whole))
        return false;
    if (!hazard_after_readers(hazard, &buffer->readers) ||
        !pod_work_room_write(work))
        return false;
    struct pod_write *write = &work->writes[work->write_count++];
    write->buffer = buffer;
    write->writer_before = buffer->last_writer;
    write->writer_number_before = buffer->last_writer_number;
    pod_list_init(&write->readers_before);
    pod_list_splice(&write->readers_before, &buffer->readers);
    buffer->last_writer = op;
    buffer->last_writer_number = op->number;
    return true;
}

bool pod_hazard_write_locked(struct pod_hazard *hazard,
                             struct pod_buffer *buffer, bool whole)
{
    if (!hazard_write_one(hazard, buffer, whole))
        return false;
    for (size_t i = 0; buffer->is_tuple && i < buffer->child_count; i++) {
        if (!pod_hazard_write_locked(hazard, buffer->children[i], whole))
            return false;
    }
    return true;
}

// ---------------------------------------------------------------------- frees

bool pod_hazard_free_locked(struct pod_hazard *hazard,
                            struct pod_buffer *buffer)
{
    if (!pod_hazard_after_locked(hazard, buffer->handle.maker, false))
        return false;
    if (buffer->last_writer != NULL &&
        !pod_hazard_after_locked(hazard, buffer->last_writer, false))
        return false;
    return hazard_after_readers(hazard, &buffer->readers);
}

bool pod_hazard_users_locked(struct pod_hazard *hazard, struct pod_loaded *load)
{
    struct pod_list *users = &load->users;

    for (struct pod_list *at = users->next; at != users; at = at->next) {
        struct pod_load_use *use = POD_CONTAINER(at, struct pod_load_use, link);
        if (!pod_hazard_after_locked(hazard, use->op, false))
            return false;
    }
    return true;
}

// ------------------------------------------------------------ undo and commit

void pod_hazard_undo_locked(struct pod_op *op)
{
    struct pod_work *work = op->work;

    for (size_t i = 0; i < work->use_count; i++)
        pod_list_remove(&work->uses[i].link);
    for (size_t i = work->write_count; i > 0; i--) {
        struct pod_write *write = &work->writes[i - 1];
        write->buffer->last_writer = write->writer_before;
        write->buffer->last_writer_number = write->writer_number_before;
        pod_list_splice(&write->buffer->readers, &write->readers_before);
    }
    for (size_t i = 0; work->load_uses != NULL && i < op->replica_count; i++)
        pod_list_remove(&work->load_uses[i].link);
    work->use_count = 0;
    work->write_count = 0;
}

// The readers before a writer need no place in a list any more: whoever comes
// next waits for the writer.
static void hazard_drop_readers(struct pod_list *readers)
{
    while (pod_list_pop_front(readers) != NULL) {
    }
}

void pod_hazard_commit_locked(struct pod *pod, struct pod_op *op)
{
    struct pod_work *work = op->work;

    for (size_t i = 0; i < work->write_count; i++) {
        struct pod_write *write = &work->writes[i];
        hazard_drop_readers(&write->readers_before);
        pod_pin(op);
        if (write->writer_before != NULL)
            pod_unpin_locked(pod, write->writer_before);
    }
    pod_work_drop_writes(work);
}

static void hazard_hold_one(struct pod *pod, struct pod_op *maker, bool hold)
{
    if (hold)
        pod_pin(maker);
    else
        pod_unpin_locked(pod, maker);
}

static void hazard_hold_buffer(struct pod *pod, struct pod_buffer *buffer,
                               bool hold)
{
    if (buffer != NULL)
        hazard_hold_one(pod, buffer->handle.maker, hold);
}

void pod_hazard_hold_locked(struct pod *pod, struct pod_op *op, bool hold)
{
    hazard_hold_buffer(pod, op->target, hold);
    hazard_hold_buffer(pod, op->source, hold);
    if (op->target_program != NULL)
        hazard_hold_one(pod, op->target_program->handle.maker, hold);
    if (op->target_load != NULL)
        hazard_hold_one(pod, op->target_load->handle.maker, hold);
    for (size_t i = 0; i < op->replica_count; i++) {
        const struct pod_replica *replica = &op->replicas[i];
        hazard_hold_one(pod, replica->load->handle.maker, hold);
        for (size_t k = 0; k < replica->input_count; k++)
            hazard_hold_buffer(pod, replica->input_buffers[k], hold);
        for (size_t k = 0; k < replica->output_count; k++)
            hazard_hold_buffer(pod, replica->output_buffers[k], hold);
    }
}

void pod_hazard_forget_locked(struct pod *pod, struct pod_buffer *buffer)
{
    struct pod_op *writer = buffer->last_writer;

    buffer->last_writer = NULL;
    if (writer != NULL)
        pod_unpin_locked(pod, writer);
}

void pod_hazard_settle_locked(struct pod_op *op)
{
    struct pod_work *work = op->work;

    for (size_t i = 0; i < work->use_count; i++)
        pod_list_remove(&work->uses[i].link);
    for (size_t i = 0; work->load_uses != NULL && i < op->replica_count; i++)
        pod_list_remove(&work->load_uses[i].link);
    work->use_count = 0;
}
