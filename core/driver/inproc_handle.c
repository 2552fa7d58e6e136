// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "core/driver/inproc_internal.h"

// ------------------------------------------------------------------- trash

void pod_inproc_trash_init(struct inproc_trash *trash)
{
    trash->handles = NULL;
    trash->handles_end = &trash->handles;
    pod_list_init(&trash->tasks);
}

static void handle_free(struct inproc *driver, struct inproc_handle *handle)
{
    if (handle->buffer != NULL)
        driver->device->ops->release(driver->device, handle->buffer);
    if (handle->program != NULL)
        driver->device->ops->program_free(driver->device, handle->program);
    pod_free(handle->shape);
    pod_free(handle->child_values);
    pod_free(handle->children);
    pod_free(handle);
}

void pod_inproc_trash_empty(struct inproc *driver, struct inproc_trash *trash)
{
    struct pod_list *item;

    while (trash->handles != NULL) {
        struct inproc_handle *handle = trash->handles;
        trash->handles = handle->next_dead;
        handle_free(driver, handle);
    }
    while ((item = pod_list_pop_front(&trash->tasks)) != NULL)
        pod_inproc_task_free(POD_CONTAINER(item, struct inproc_task, link));
}

// ----------------------------------------------------------------- handles

struct inproc_handle *pod_inproc_handle_new(enum inproc_handle_kind kind,
                                            uint64_t op, uint32_t core)
{
    struct inproc_handle *handle = pod_calloc(1, sizeof *handle);

    if (handle == NULL)
        return NULL;
    handle->kind = kind;
    handle->op = op;
    handle->core = core;
    handle->refs = 1;
    handle->nodes = 1;
    return handle;
}

static void trash_add(struct inproc_trash *trash, struct inproc_handle *handle)
{
    handle->next_dead = NULL;
    *trash->handles_end = handle;
    trash->handles_end = &handle->next_dead;
}

static void handle_unref_one(struct inproc_handle *handle,
                             struct inproc_trash *trash)
{
    if (handle != NULL && --handle->refs == 0)
        trash_add(trash, handle);
}

// A tuple comes before its children in the trash, for they must outlive it on
// the device. The trash is also the list of work, so depth costs no stack.
void pod_inproc_handle_unref_locked(struct inproc_handle *handle,
                                    struct inproc_trash *trash)
{
    if (handle == NULL || --handle->refs > 0)
        return;
    trash_add(trash, handle);
    for (; handle != NULL; handle = handle->next_dead) {
        for (size_t i = 0; i < handle->value.child_count; i++)
            handle_unref_one(handle->children[i], trash);
        handle_unref_one(handle->source, trash);
    }
}

enum pod_code pod_inproc_handle_add_locked(struct inproc *driver,
                                           struct inproc_handle *handle,
                                           struct inproc_trash *trash,
                                           struct pod_err *err)
{
    enum pod_code code = POD_OK;

    if (driver->state == INPROC_LOST || driver->state == INPROC_CLOSING)
        code = pod_err_set(err, POD_REASON_HOST_LOST, "the host went away");
    else if (pod_map_get(&driver->handles, handle->op) != NULL)
        code = pod_err_set(err, POD_REASON_INTERNAL,
                           "op-%" PRIu64 " already made a handle", handle->op);
    else if (!pod_map_put(&driver->handles, handle->op, handle))
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the handle");
    if (code != POD_OK)
        pod_inproc_handle_unref_locked(handle, trash);
    return code;
}

static const char *handle_kind_word(enum inproc_handle_kind kind)
{
    if (kind == INPROC_BUFFER)
        return "buf";
    return kind == INPROC_PROGRAM ? "prog" : "load";
}

struct inproc_handle *
pod_inproc_handle_find_locked(struct inproc *driver,
                              enum inproc_handle_kind kind, uint64_t op,
                              struct pod_err *err)
{
    struct inproc_handle *handle = pod_map_get(&driver->handles, op);

    if (handle == NULL) {
        (void)pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                          "%s-%" PRIu64 " is not on its host",
                          handle_kind_word(kind), op);
        return NULL;
    }
    if (handle->kind != kind) {
        (void)pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                          "%s-%" PRIu64 " is not a %s",
                          handle_kind_word(handle->kind), op,
                          kind == INPROC_BUFFER    ? "buffer"
                          : kind == INPROC_PROGRAM ? "program"
                                                   : "loaded program");
        return NULL;
    }
    return handle;
}

enum pod_code pod_inproc_handle_drop_locked(struct inproc *driver,
                                            enum inproc_handle_kind kind,
                                            uint64_t op,
                                            struct inproc_trash *trash,
                                            struct pod_err *err)
{
    struct inproc_handle *handle =
        pod_inproc_handle_find_locked(driver, kind, op, err);

    if (handle == NULL)
        return POD_NOT_FOUND;
    (void)pod_map_remove(&driver->handles, op);
    pod_inproc_handle_unref_locked(handle, trash);
    return POD_OK;
}

void pod_inproc_handles_drop_all_locked(struct inproc *driver,
                                        struct inproc_trash *trash)
{
    size_t cursor = 0;
    uint64_t op;
    void *value;

    while (pod_map_next(&driver->handles, &cursor, &op, &value))
        pod_inproc_handle_unref_locked(value, trash);
    pod_map_fini(&driver->handles);
}

// ------------------------------------------------------------------- holds

// What stands against the use of a buffer by the part, or NULL. An output may
// be an input of the same part, for it is read first.
static const char *handle_conflict(const struct inproc_handle *handle,
                                   const struct inproc_part *part, bool write)
{
    for (size_t i = 0; i < handle->value.child_count; i++) {
        const char *conflict =
            handle_conflict(handle->children[i], part, write);
        if (conflict != NULL)
            return conflict;
    }
    if (handle->value.is_tuple)
        return NULL;
    if (handle->writer == part && !write)
        return NULL;
    if (handle->writer == part)
        return "is an output twice";
    if (handle->writer != NULL)
        return "is being written by another operation";
    if (write && handle->readers > 0)
        return "is being read by another operation";
    return NULL;
}

static void handle_mark(struct inproc_handle *handle,
                        const struct inproc_part *part, bool write)
{
    for (size_t i = 0; i < handle->value.child_count; i++)
        handle_mark(handle->children[i], part, write);
    if (handle->value.is_tuple)
        return;
    if (write)
        handle->writer = part;
    else
        handle->readers++;
}

static void handle_unmark(struct inproc_handle *handle, bool write)
{
    for (size_t i = 0; i < handle->value.child_count; i++)
        handle_unmark(handle->children[i], write);
    if (handle->value.is_tuple)
        return;
    if (write)
        handle->writer = NULL;
    else
        handle->readers--;
}

enum pod_code pod_inproc_hold_locked(struct inproc *driver,
                                     struct inproc_part *part, uint64_t op,
                                     bool write, struct pod_err *err)
{
    struct inproc_handle *handle =
        pod_inproc_handle_find_locked(driver, INPROC_BUFFER, op, err);

    if (handle == NULL)
        return POD_NOT_FOUND;
    const char *conflict = handle_conflict(handle, part, write);
    if (conflict != NULL)
        return pod_err_set(err, POD_REASON_IN_USE, "buf-%" PRIu64 " %s", op,
                           conflict);
    handle->refs++;
    handle_mark(handle, part, write);
    part->holds[part->hold_count++] =
        (struct inproc_hold){.handle = handle, .write = write};
    return POD_OK;
}

void pod_inproc_unhold_locked(struct inproc_part *part,
                              struct inproc_trash *trash)
{
    while (part->hold_count > 0) {
        struct inproc_hold *hold = &part->holds[--part->hold_count];
        handle_unmark(hold->handle, hold->write);
        pod_inproc_handle_unref_locked(hold->handle, trash);
    }
}

// ----------------------------------------------------------------- no room

enum { INPROC_LARGEST = 3, INPROC_SIZE_TEXT = 32 };

static const char *size_text(uint64_t bytes, char text[INPROC_SIZE_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    uint64_t scale = 1;

    while (unit + 1 < sizeof units / sizeof units[0] && bytes / scale >= 1024) {
        scale *= 1024;
        unit++;
    }
    if (bytes % scale == 0)
        (void)snprintf(text, INPROC_SIZE_TEXT, "%" PRIu64 " %s", bytes / scale,
                       units[unit]);
    else
        (void)snprintf(text, INPROC_SIZE_TEXT, "%.1f %s",
                       (double)bytes / (double)scale, units[unit]);
    return text;
}

struct inproc_largest {
    uint64_t op;
    uint64_t bytes;
};

// The largest buffers of a core, largest first, lower numbers before higher.
static size_t find_largest_locked(const struct inproc *driver, uint32_t core,
                                  struct inproc_largest out[INPROC_LARGEST])
{
    size_t count = 0;
    size_t cursor = 0;
    uint64_t op;
    void *value;

    while (pod_map_next(&driver->handles, &cursor, &op, &value)) {
        const struct inproc_handle *handle = value;
        uint64_t bytes = handle->value.bytes;
        if (handle->kind != INPROC_BUFFER || handle->core != core || bytes == 0)
            continue;
        size_t at = count;
        while (at > 0 && (out[at - 1].bytes < bytes ||
                          (out[at - 1].bytes == bytes && out[at - 1].op > op)))
            at--;
        if (at == INPROC_LARGEST)
            continue;
        if (count < INPROC_LARGEST)
            count++;
        for (size_t i = count - 1; i > at; i--)
            out[i] = out[i - 1];
        out[at] = (struct inproc_largest){.op = op, .bytes = bytes};
    }
    return count;
}

enum pod_code pod_inproc_no_room(struct inproc *driver, uint32_t core,
                                 uint64_t asked, struct pod_err *err)
{
    struct inproc_largest largest[INPROC_LARGEST];
    struct pod_device_memory memory = {.total = 0};
    char list[INPROC_LARGEST * (INPROC_SIZE_TEXT + 40)] = "";
    char sizes[3][INPROC_SIZE_TEXT];
    size_t length = 0;

    driver->device->ops->memory(driver->device, core, &memory);
    pod_mutex_lock(&driver->lock);
    size_t count = find_largest_locked(driver, core, largest);
    pod_mutex_unlock(&driver->lock);
    for (size_t i = 0; i < count; i++) {
        int more =
            snprintf(list + length, sizeof list - length,
                     "%sbuf-%" PRIu64 " (%s)", i == 0 ? "; largest: " : ", ",
                     largest[i].op, size_text(largest[i].bytes, sizes[0]));
        length += more > 0 ? (size_t)more : 0;
    }
    uint64_t free_bytes =
        memory.total > memory.used ? memory.total - memory.used : 0;
    return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                       "the core has no room for %s: %s of %s are free%s",
                       size_text(asked, sizes[0]),
                       size_text(free_bytes, sizes[1]),
                       size_text(memory.total, sizes[2]), list);
}
