// SPDX-License-Identifier: Apache-2.0
// A FAKE device for the tests of the drivers: real memory, but its "programs"
// are single words and all have the signature (s32[]) -> s32[].
//
//   increment  the output is the input plus one
//   sum        the sum of the inputs of all replicas, by one all_gather
//   gate       as increment, once the gate of the device is open
//   spin       runs until it is interrupted
//   fail       PROGRAM_FAULT
//   gated      is compiled once the gate is open, and runs as increment
#ifndef TESTS_UNIT_FAKE_DEVICE_H
#define TESTS_UNIT_FAKE_DEVICE_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/device/device.h"

enum { FAKE_MAX_REPLICAS = 64, FAKE_MAX_ORDER = 64 };

struct pod_device_buffer {
    uint32_t core;
    uint64_t bytes;
    unsigned char *data;
    struct pod_device_buffer *const *children; // of a tuple
    size_t child_count;
};

struct pod_device_program {
    char word[16];
    struct pod_shape parameter;
    struct pod_program_shape shape;
};

struct fake_device {
    struct pod_device base;
    struct pod_mutex lock;
    struct pod_cond gate_moved;
    bool gate_open;
    long waiting; // at the gate
    uint32_t cores;
    uint64_t total;
    uint64_t used[64];
    long buffers;
    long programs;
    bool freed_early; // a tuple outlived one of its children
    long executions;
    int32_t order[FAKE_MAX_ORDER]; // inputs of the executions, in order
};

static inline struct fake_device *fake_of(struct pod_device *device)
{
    return POD_CONTAINER(device, struct fake_device, base);
}

static inline void fake_gate(struct fake_device *fake, bool open)
{
    pod_mutex_lock(&fake->lock);
    fake->gate_open = open;
    pod_cond_broadcast(&fake->gate_moved);
    pod_mutex_unlock(&fake->lock);
}

// Blocks until `count` calls stand at the gate.
static inline void fake_await_waiting(struct fake_device *fake, long count)
{
    pod_mutex_lock(&fake->lock);
    while (fake->waiting < count)
        pod_cond_wait(&fake->gate_moved, &fake->lock);
    pod_mutex_unlock(&fake->lock);
}

static inline void fake_pass_gate(struct fake_device *fake)
{
    pod_mutex_lock(&fake->lock);
    fake->waiting++;
    pod_cond_broadcast(&fake->gate_moved);
    while (!fake->gate_open)
        pod_cond_wait(&fake->gate_moved, &fake->lock);
    fake->waiting--;
    pod_mutex_unlock(&fake->lock);
}

static inline void fake_free(struct pod_device *device)
{
    struct fake_device *fake = fake_of(device);

    if (fake->buffers != 0 || fake->programs != 0 || fake->freed_early)
        abort(); // the driver lost some
    pod_cond_fini(&fake->gate_moved);
    pod_mutex_fini(&fake->lock);
    free(fake);
}

static inline void fake_info(const struct pod_device *device,
                             struct pod_device_info *out_info)
{
    const struct fake_device *fake =
        (const struct fake_device *)(const void *)device;

    *out_info = (struct pod_device_info){
        .platform = "fake",
        .version = "1",
        .accepts = 1U << POD_FORMAT_HLO_TEXT,
        .core_count = fake->cores,
        .memory_bytes = fake->total,
    };
}

static inline void fake_memory(struct pod_device *device, uint32_t core,
                               struct pod_device_memory *out_memory)
{
    struct fake_device *fake = fake_of(device);

    pod_mutex_lock(&fake->lock);
    *out_memory = (struct pod_device_memory){.total = fake->total,
                                             .used = fake->used[core]};
    pod_mutex_unlock(&fake->lock);
}

static inline enum pod_code
fake_allocate(struct pod_device *device, uint32_t core,
              const struct pod_shape *shape, uint64_t bytes,
              struct pod_device_buffer **out_buffer, struct pod_err *err)
{
    struct fake_device *fake = fake_of(device);

    if (shape != NULL)
        bytes = (uint64_t)pod_shape_bytes(shape);
    pod_mutex_lock(&fake->lock);
    bool fits = bytes <= fake->total - fake->used[core];
    if (fits) {
        fake->used[core] += bytes;
        fake->buffers++;
    }
    pod_mutex_unlock(&fake->lock);
    if (!fits)
        return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED, "full");
    struct pod_device_buffer *buffer = calloc(1, sizeof *buffer);
    buffer->core = core;
    buffer->bytes = bytes;
    buffer->data = calloc(1, (size_t)bytes + 1);
    *out_buffer = buffer;
    return POD_OK;
}

static inline enum pod_code
fake_allocate_tuple(struct pod_device *device, uint32_t core,
                    struct pod_device_buffer *const *children,
                    size_t child_count, struct pod_device_buffer **out_buffer,
                    struct pod_err *err)
{
    struct fake_device *fake = fake_of(device);
    struct pod_device_buffer *buffer = calloc(1, sizeof *buffer);
    struct pod_device_buffer **copy = calloc(child_count + 1, sizeof copy[0]);

    (void)err;
    if (child_count > 0)
        memcpy(copy, children, child_count * sizeof copy[0]);
    buffer->core = core;
    buffer->children = copy;
    buffer->child_count = child_count;
    pod_mutex_lock(&fake->lock);
    fake->buffers++;
    pod_mutex_unlock(&fake->lock);
    *out_buffer = buffer;
    return POD_OK;
}

static inline void fake_release(struct pod_device *device,
                                struct pod_device_buffer *buffer)
{
    struct fake_device *fake = fake_of(device);
    bool early = false;

    if (buffer == NULL)
        return;
    // Reading a child that is gone is what ASan catches here.
    for (size_t i = 0; i < buffer->child_count; i++)
        early = early || buffer->children[i]->core != buffer->core;
    pod_mutex_lock(&fake->lock);
    fake->used[buffer->core] -= buffer->bytes;
    fake->buffers--;
    fake->freed_early = fake->freed_early || early;
    pod_mutex_unlock(&fake->lock);
    free((void *)(uintptr_t)buffer->children);
    free(buffer->data);
    free(buffer);
}

static inline enum pod_code
fake_write(struct pod_device *device, struct pod_device_buffer *buffer,
           uint64_t offset, const void *bytes, size_t count,
           const struct pod_interrupt *interrupt, struct pod_err *err)
{
    (void)device;
    (void)interrupt;
    (void)err;
    memcpy(buffer->data + offset, bytes, count);
    return POD_OK;
}

static inline enum pod_code
fake_read(struct pod_device *device, struct pod_device_buffer *buffer,
          uint64_t offset, void *out_bytes, size_t count,
          const struct pod_interrupt *interrupt, struct pod_err *err)
{
    (void)device;
    (void)interrupt;
    (void)err;
    memcpy(out_bytes, buffer->data + offset, count);
    return POD_OK;
}

static inline enum pod_code fake_copy(struct pod_device *device,
                                      struct pod_device_buffer *from,
                                      struct pod_device_buffer *to,
                                      const struct pod_interrupt *interrupt,
                                      struct pod_err *err)
{
    (void)device;
    (void)interrupt;
    (void)err;
    memcpy(to->data, from->data, (size_t)from->bytes);
    return POD_OK;
}

static inline enum pod_code
fake_compile(struct pod_device *device, enum pod_program_format format,
             const void *bytes, size_t count, uint32_t replicas,
             struct pod_device_program **out_program, struct pod_err *err)
{
    struct fake_device *fake = fake_of(device);
    struct pod_device_program *program;

    (void)replicas;
    if (format != POD_FORMAT_HLO_TEXT || count >= sizeof program->word)
        return pod_err_set(err, POD_REASON_INVALID_PROGRAM, "not a word");
    program = calloc(1, sizeof *program);
    memcpy(program->word, bytes, count);
    if (strcmp(program->word, "gated") == 0)
        fake_pass_gate(fake);
    (void)!pod_shape_array(&program->parameter, POD_TYPE_S32, 0, NULL, NULL);
    program->shape = (struct pod_program_shape){
        .count = 1,
        .parameters = &program->parameter,
        .result = program->parameter,
    };
    pod_mutex_lock(&fake->lock);
    fake->programs++;
    pod_mutex_unlock(&fake->lock);
    *out_program = program;
    return POD_OK;
}

static inline const struct pod_program_shape *
fake_program_shape(const struct pod_device_program *program)
{
    return &program->shape;
}

static inline void fake_program_free(struct pod_device *device,
                                     struct pod_device_program *program)
{
    struct fake_device *fake = fake_of(device);

    pod_mutex_lock(&fake->lock);
    fake->programs--;
    pod_mutex_unlock(&fake->lock);
    free(program);
}

static inline enum pod_code fake_sum(const struct pod_device_launch *launch,
                                     int32_t input, int32_t *out,
                                     struct pod_err *err)
{
    uint32_t group[FAKE_MAX_REPLICAS];
    int32_t parts[FAKE_MAX_REPLICAS];

    for (uint32_t i = 0; i < launch->replica_count; i++)
        group[i] = i;
    enum pod_code code = launch->exchange->all_gather(
        launch->exchange, launch->replica, group, launch->replica_count, 0,
        &input, sizeof input, parts, launch->interrupt, err);
    *out = 0;
    for (uint32_t i = 0; code == POD_OK && i < launch->replica_count; i++)
        *out += parts[i];
    return code;
}

static inline enum pod_code fake_execute(struct pod_device *device,
                                         const struct pod_device_launch *launch,
                                         struct pod_err *err)
{
    struct fake_device *fake = fake_of(device);
    const char *word = launch->program->word;
    int32_t input, output;
    enum pod_code code = POD_OK;

    memcpy(&input, launch->inputs[0]->data, sizeof input);
    pod_mutex_lock(&fake->lock);
    if (fake->executions < FAKE_MAX_ORDER)
        fake->order[fake->executions] = input;
    fake->executions++;
    pod_mutex_unlock(&fake->lock);
    output = input + 1;
    if (strcmp(word, "gate") == 0)
        fake_pass_gate(fake);
    if (strcmp(word, "fail") == 0)
        return pod_err_set(err, POD_REASON_PROGRAM_FAULT, "the word is fail");
    if (strcmp(word, "spin") == 0) {
        while (!atomic_load(&launch->interrupt->asked))
            sched_yield();
        return pod_err_set(err, POD_REASON_CANCEL_REQUESTED, "interrupted");
    }
    if (strcmp(word, "sum") == 0)
        code = fake_sum(launch, input, &output, err);
    memcpy(launch->outputs[0]->data, &output, sizeof output);
    return code;
}

static const struct pod_device_ops fake_ops = {
    .free = fake_free,
    .info = fake_info,
    .memory = fake_memory,
    .allocate = fake_allocate,
    .allocate_tuple = fake_allocate_tuple,
    .release = fake_release,
    .write = fake_write,
    .read = fake_read,
    .copy = fake_copy,
    .compile = fake_compile,
    .program_shape = fake_program_shape,
    .program_free = fake_program_free,
    .execute = fake_execute,
};

static inline struct fake_device *fake_new(uint32_t cores, uint64_t total)
{
    struct fake_device *fake = calloc(1, sizeof *fake);

    fake->base.ops = &fake_ops;
    pod_mutex_init(&fake->lock, POD_RANK_DEVICE, "fake device");
    pod_cond_init(&fake->gate_moved);
    fake->cores = cores;
    fake->total = total;
    return fake;
}

#endif
