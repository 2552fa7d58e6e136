// SPDX-License-Identifier: Apache-2.0
// What an operation needs until it is settled, in one piece with its lists. The
// pieces of operations that are made together stand next to each other in
// blocks, which go with the last of them: a graph of many operations would keep
// malloc busy otherwise.
#include "core/pod/op_new.h"

#include <stdalign.h>

#include "core/base/mem.h"

enum {
    WORK_BLOCK_BYTES = 16384,
    WORK_NUMBERS = 4, // lists of numbers by replica
};

struct pod_work_block {
    alignas(max_align_t) atomic_uint refs; // pieces, and who still adds some
};

static void work_block_unref(struct pod_work_block *block)
{
    if (block != NULL && atomic_fetch_sub(&block->refs, 1) == 1)
        pod_free(block);
}

// Begins a block with a piece of so many bytes, and room for the same of those
// that follow.
static bool work_block_begin(struct pod_work_maker *maker, size_t bytes)
{
    size_t pieces = WORK_BLOCK_BYTES / bytes;

    if (pieces > maker->expected)
        pieces = maker->expected;
    size_t room = bytes * (pieces > 0 ? pieces : 1);
    struct pod_work_block *block = pod_calloc(1, sizeof(*block) + room);

    if (block == NULL)
        return false;
    work_block_unref(maker->block);
    atomic_init(&block->refs, 1);
    maker->block = block;
    maker->next = (char *)(block + 1);
    maker->left = room;
    return true;
}

// Zeros; NULL: no memory.
static struct pod_work *work_take(struct pod_work_maker *maker, size_t bytes)
{
    size_t align = alignof(struct pod_work);
    size_t whole = (bytes + align - 1) / align * align;

    if (maker->left < whole && !work_block_begin(maker, whole))
        return NULL;
    struct pod_work *work = (struct pod_work *)(void *)maker->next;
    maker->next += whole;
    maker->left -= whole;
    maker->expected -= maker->expected > 0;
    atomic_fetch_add(&maker->block->refs, 1);
    work->block = maker->block;
    return work;
}

void pod_work_maker_fini(struct pod_work_maker *maker)
{
    work_block_unref(maker->block);
    *maker = (struct pod_work_maker){.block = NULL};
}

// The next `count` items of a block that is dealt out, or NULL if that is none.
static void *work_deal(char **place, size_t count, size_t bytes)
{
    void *items = count == 0 ? NULL : *place;

    *place += count * bytes;
    return items;
}

// What is largest comes first, so that each list is aligned.
static void work_deal_lists(struct pod_work *work, struct pod_work_room room)
{
    char *place = (char *)(work + 1);
    size_t starts = room.replicas == 0 ? 0 : room.replicas + 1;

    work->calls = work_deal(&place, room.calls, sizeof(*work->calls));
    work->uses = work_deal(&place, room.reads, sizeof(*work->uses));
    work->writes = work_deal(&place, room.writes, sizeof(*work->writes));
    work->load_uses =
        work_deal(&place, room.replicas, sizeof(*work->load_uses));
    work->driver_launches =
        work_deal(&place, room.replicas, sizeof(*work->driver_launches));
    work->group_starts = work_deal(&place, starts, sizeof(uint32_t));
    work->replica_hosts = work_deal(&place, room.replicas, sizeof(uint32_t));
    work->replica_cores = work_deal(&place, room.replicas, sizeof(uint32_t));
    work->replica_worker_cores =
        work_deal(&place, room.replicas, sizeof(uint32_t));
}

// No overflow: each number is limited (submit.h), as each is in memory already.
static size_t work_bytes(struct pod_work_room room)
{
    return room.calls * sizeof(struct pod_call) +
           room.reads * sizeof(struct pod_use) +
           room.writes * sizeof(struct pod_write) +
           room.replicas *
               (sizeof(struct pod_load_use) + sizeof(struct pod_driver_launch) +
                WORK_NUMBERS * sizeof(uint32_t)) +
           (room.replicas == 0 ? 0 : sizeof(uint32_t));
}

bool pod_work_new(struct pod_work_maker *maker, struct pod_op *op,
                  struct pod_work_room room)
{
    struct pod_work *work = work_take(maker, sizeof(*work) + work_bytes(room));

    if (work == NULL)
        return false;
    work->op = op;
    work_deal_lists(work, room);
    work->call_count = room.calls;
    work->use_capacity = room.reads;
    work->write_capacity = room.writes;
    pod_list_init(&work->joined);
    pod_list_init(&work->local);
    pod_list_init(&work->memory_link);
    pod_list_init(&work->call.link);
    pod_list_init(&work->call.cancel_link);
    for (size_t i = 0; i < room.replicas; i++)
        pod_list_init(&work->load_uses[i].link);
    op->work = work;
    return true;
}

bool pod_work_room_calls(struct pod_work *work, size_t count)
{
    if (count <= work->call_count)
        return true;
    struct pod_call *grown = pod_calloc(count, sizeof(*grown));
    if (grown == NULL)
        return false;
    pod_free(work->grown_calls);
    work->grown_calls = work->calls = grown;
    work->call_count = count;
    return true;
}

bool pod_work_room_uses(struct pod_work *work, size_t count)
{
    size_t capacity = work->use_capacity * 2 + count;

    if (count <= work->use_capacity - work->use_count)
        return true;
    struct pod_use *grown = pod_calloc(capacity, sizeof(*grown));
    if (grown == NULL)
        return false;
    for (size_t i = 0; i < work->use_count; i++) {
        grown[i] = work->uses[i];
        pod_list_init(&grown[i].link);
        pod_list_push_back(&work->uses[i].link, &grown[i].link);
        pod_list_remove(&work->uses[i].link);
    }
    pod_free(work->grown_uses);
    work->grown_uses = work->uses = grown;
    work->use_capacity = capacity;
    return true;
}

bool pod_work_room_write(struct pod_work *work)
{
    size_t capacity = work->write_capacity * 2 + 4;

    if (work->write_count < work->write_capacity)
        return true;
    struct pod_write *grown = pod_calloc(capacity, sizeof(*grown));
    if (grown == NULL)
        return false;
    for (size_t i = 0; i < work->write_count; i++) {
        grown[i] = work->writes[i];
        pod_list_init(&grown[i].readers_before);
        pod_list_splice(&grown[i].readers_before,
                        &work->writes[i].readers_before);
    }
    pod_free(work->grown_writes);
    work->grown_writes = work->writes = grown;
    work->write_capacity = capacity;
    return true;
}

void pod_work_drop_writes(struct pod_work *work)
{
    pod_free(work->grown_writes);
    work->grown_writes = work->writes = NULL;
    work->write_count = work->write_capacity = 0;
}

void pod_work_free(struct pod_op *op)
{
    struct pod_work *work = op->work;

    if (work == NULL)
        return;
    pod_free(work->grown_calls);
    pod_free(work->grown_uses);
    pod_free(work->grown_writes);
    work_block_unref(work->block);
    op->work = NULL;
}
