// SPDX-License-Identifier: Apache-2.0
// Any text as a program of the reference device: what compiles runs without a
// fault, twice with the same result, and nothing is lost.
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "core/base/mem.h"
#include "core/device/reference/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_MAX_BUFFERS = 64, FUZZ_MEMORY = 1 << 20, FUZZ_TIME_US = 20000 };

static struct pod_interrupt interrupt;

static void fuzz_on_alarm(int signal)
{
    (void)signal;
    atomic_store(&interrupt.asked, true);
}

// Interrupts what runs for long: a fuzzer finds endless loops soon.
static void fuzz_set_alarm(long microseconds)
{
    const struct itimerval timer = {.it_value = {.tv_usec = microseconds}};

    atomic_store(&interrupt.asked, false);
    signal(SIGVTALRM, fuzz_on_alarm);
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

struct fuzz_buffers {
    struct pod_device_buffer *all[FUZZ_MAX_BUFFERS]; // children before tuples
    size_t count;
};

// A buffer for a shape, or NULL if there are too many or they are too big.
static struct pod_device_buffer *fuzz_buffer(struct pod_device *device,
                                             const struct pod_shape *shape,
                                             struct fuzz_buffers *buffers)
{
    struct pod_device_buffer *children[FUZZ_MAX_BUFFERS];
    struct pod_device_buffer *buffer = NULL;

    if (shape->child_count > FUZZ_MAX_BUFFERS)
        return NULL;
    for (size_t i = 0; i < shape->child_count; i++) {
        children[i] = fuzz_buffer(device, &shape->children[i], buffers);
        if (children[i] == NULL)
            return NULL;
    }
    if (buffers->count == FUZZ_MAX_BUFFERS)
        return NULL;
    if (shape->type == POD_TYPE_TUPLE
            ? device->ops->allocate_tuple(device, 0, children,
                                          shape->child_count, &buffer,
                                          NULL) != POD_OK
            : device->ops->allocate(device, 0, shape, 0, &buffer, NULL) !=
                  POD_OK)
        return NULL;
    buffers->all[buffers->count++] = buffer;
    return buffer;
}

// Writes a pattern to every array among the inputs.
static void fuzz_fill(struct pod_device *device, const struct pod_shape *shape,
                      struct pod_device_buffer *buffer)
{
    size_t bytes = (size_t)pod_shape_bytes(shape);
    unsigned char *pattern;

    if (shape->type == POD_TYPE_TUPLE || bytes == 0)
        return;
    pattern = malloc(bytes);
    if (pattern == NULL)
        abort();
    for (size_t i = 0; i < bytes; i++)
        pattern[i] =
            (unsigned char)(shape->type == POD_TYPE_PRED ? i % 2
                                                         : i * 7 + i / 5);
    if (device->ops->write(device, buffer, 0, pattern, bytes, NULL, NULL) !=
        POD_OK)
        abort();
    free(pattern);
}

// A number that changes with the bytes of the arrays.
static uint64_t fuzz_digest(struct pod_device *device,
                            const struct pod_shape *shape,
                            struct pod_device_buffer *buffer)
{
    size_t bytes = (size_t)pod_shape_bytes(shape);
    unsigned char *got = malloc(bytes + 1);
    uint64_t digest = 14695981039346656037U;

    if (got == NULL ||
        device->ops->read(device, buffer, 0, got, bytes, NULL, NULL) != POD_OK)
        abort();
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ got[i]) * 1099511628211U;
    free(got);
    return digest;
}

static void fuzz_run_twice(struct pod_device *device,
                           const struct pod_device_launch *launch,
                           const struct pod_shape *result)
{
    bool is_array = result->type != POD_TYPE_TUPLE;
    uint64_t digest = 0;

    for (int i = 0; i < 2; i++) {
        struct pod_err err = POD_ERR_NONE;
        fuzz_set_alarm(FUZZ_TIME_US);
        if (device->ops->execute(device, launch, &err) != POD_OK) {
            if (err.text[0] == '\0')
                abort();
            break;
        }
        if (is_array && i == 0)
            digest = fuzz_digest(device, result, launch->outputs[0]);
        else if (is_array &&
                 digest != fuzz_digest(device, result, launch->outputs[0]))
            abort();
    }
    fuzz_set_alarm(0);
}

static void fuzz_program(struct pod_device *device,
                         struct pod_device_program *program)
{
    const struct pod_program_shape *shape = device->ops->program_shape(program);
    struct fuzz_buffers buffers = {.count = 0};
    struct pod_device_buffer *inputs[FUZZ_MAX_BUFFERS];
    struct pod_device_buffer *output = NULL;
    struct pod_device_launch launch = {.program = program,
                                       .inputs = inputs,
                                       .input_count = shape->count,
                                       .outputs = &output,
                                       .output_count = 1,
                                       .replica_count = 1,
                                       .interrupt = &interrupt};
    bool ready = shape->count <= FUZZ_MAX_BUFFERS;

    for (size_t i = 0; ready && i < shape->count; i++) {
        inputs[i] = fuzz_buffer(device, &shape->parameters[i], &buffers);
        ready = inputs[i] != NULL;
        if (ready)
            fuzz_fill(device, &shape->parameters[i], inputs[i]);
    }
    if (ready)
        output = fuzz_buffer(device, &shape->result, &buffers);
    if (output != NULL)
        fuzz_run_twice(device, &launch, &shape->result);
    for (size_t i = buffers.count; i-- > 0;)
        device->ops->release(device, buffers.all[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct pod_reference_options options = {.core_count = 1,
                                                  .memory_bytes = FUZZ_MEMORY,
                                                  .scratch_bytes = FUZZ_MEMORY};
    long live = pod_mem_live();
    struct pod_device *device;
    struct pod_device_program *program;
    struct pod_err err = POD_ERR_NONE;

    if (pod_reference_device_new(&options, &device, NULL) != POD_OK)
        abort();
    if (device->ops->compile(device, POD_FORMAT_HLO_TEXT, data, size, 1,
                             &program, &err) == POD_OK) {
        fuzz_program(device, program);
        device->ops->program_free(device, program);
    } else if (err.text[0] == '\0') {
        abort();
    }
    device->ops->free(device);
    if (pod_mem_live() != live)
        abort();
    return 0;
}
