// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference/reference.h"

#include <cblas.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/copy.h"
#include "core/base/lock.h"
#include "core/base/mem.h"
#include "core/device/reference/memory.h"
#include "core/device/reference/program.h"
#include "core/device/reference/run.h"

struct reference_device {
    struct pod_device base;
    // For simulated waits alone; nobody signals.
    struct pod_mutex mutex;
    struct pod_cond cond;
    struct pod_reference_options options;
    struct pod_ref_memory *cores;
    struct pod_ref_loans *loans;
};

static struct reference_device *reference_of(struct pod_device *device)
{
    return (struct reference_device *)(void *)device;
}

static const struct reference_device *
reference_of_const(const struct pod_device *device)
{
    return (const struct reference_device *)(const void *)device;
}

// ------------------------------------------------------------- simulated time

// How late an interrupt is seen: a part of the time that has passed, within
// these bounds. What takes minutes must not cost a wake every moment.
enum { REFERENCE_NAP_NS = 2000000, REFERENCE_LONG_NAP_NS = 40000000 };
enum { REFERENCE_NAP_SHARE = 16 };

// Seconds times 10^9 as a number of nanoseconds, whatever it is.
static int64_t reference_ns(double amount, double rate)
{
    double ns = rate > 0 ? amount / rate * (double)POD_NS_PER_S : 0;

    return ns < 9e18 ? (int64_t)ns : POD_NEVER;
}

static int64_t reference_nap(int64_t start_ns, int64_t now_ns)
{
    int64_t nap = (now_ns - start_ns) / REFERENCE_NAP_SHARE;

    if (nap < REFERENCE_NAP_NS)
        nap = REFERENCE_NAP_NS;
    else if (nap > REFERENCE_LONG_NAP_NS)
        nap = REFERENCE_LONG_NAP_NS;
    return pod_time_add(now_ns, nap);
}

// Waits until `duration_ns` after `start_ns`; false if it was interrupted.
static bool reference_wait(struct reference_device *device, int64_t start_ns,
                           int64_t duration_ns,
                           const struct pod_interrupt *interrupt)
{
    int64_t end = pod_time_add(start_ns, duration_ns);
    int64_t now = pod_clock_mono(&pod_clock_system);
    bool interrupted = false;

    pod_mutex_lock(&device->mutex);
    while (now < end && !interrupted) {
        int64_t nap = reference_nap(start_ns, now);
        pod_cond_wait_until(&device->cond, &device->mutex,
                            nap < end ? nap : end);
        now = pod_clock_mono(&pod_clock_system);
        interrupted = interrupt != NULL && atomic_load(&interrupt->asked);
    }
    pod_mutex_unlock(&device->mutex);
    return !interrupted;
}

static bool reference_simulates(const struct reference_device *device)
{
    const struct pod_reference_options *options = &device->options;

    return options->latency_ns > 0 || options->bandwidth > 0 ||
           options->flops > 0;
}

static enum pod_code reference_interrupted(struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                       "the transfer was interrupted");
}

// Ends a transfer that began at `start_ns`, when its time is over.
static enum pod_code reference_end(struct reference_device *device,
                                   int64_t start_ns, double bytes,
                                   const struct pod_interrupt *interrupt,
                                   struct pod_err *err)
{
    if (!reference_simulates(device))
        return POD_OK;
    int64_t duration =
        pod_time_add(device->options.latency_ns,
                     reference_ns(bytes, device->options.bandwidth));

    return reference_wait(device, start_ns, duration, interrupt)
               ? POD_OK
               : reference_interrupted(err);
}

static int64_t reference_start(const struct reference_device *device)
{
    return reference_simulates(device) ? pod_clock_mono(&pod_clock_system) : 0;
}

// ----------------------------------------------------------------- operations

static void reference_free(struct pod_device *device)
{
    struct reference_device *self;

    if (device == NULL)
        return;
    self = reference_of(device);
    pod_cond_fini(&self->cond);
    pod_mutex_fini(&self->mutex);
    pod_ref_loans_unref(self->loans);
    pod_free(self->cores);
    pod_free(self);
}

static void reference_info(const struct pod_device *device,
                           struct pod_device_info *out_info)
{
    const struct reference_device *self = reference_of_const(device);

    *out_info = (struct pod_device_info){
        .platform = "reference",
        .version = POD_VERSION,
        .accepts = 1U << POD_FORMAT_HLO_TEXT | 1U << POD_FORMAT_HLO_PROTO,
        .core_count = self->options.core_count,
        .memory_bytes = self->options.memory_bytes,
    };
}

static void reference_memory(struct pod_device *device, uint32_t core,
                             struct pod_device_memory *out_memory)
{
    struct pod_ref_memory *memory = &reference_of(device)->cores[core];

    *out_memory = (struct pod_device_memory){
        .total = memory->total, .used = atomic_load(&memory->used)};
}

static enum pod_code reference_check_core(const struct reference_device *self,
                                          uint32_t core, struct pod_err *err)
{
    if (core < self->options.core_count)
        return POD_OK;
    return pod_err_set(err, POD_REASON_UNKNOWN_CORE,
                       "the device has %u cores, there is no core %u",
                       self->options.core_count, core);
}

static enum pod_code
reference_allocate(struct pod_device *device, uint32_t core,
                   const struct pod_shape *shape, uint64_t bytes,
                   struct pod_device_buffer **out_buffer, struct pod_err *err)
{
    struct reference_device *self = reference_of(device);
    enum pod_code code = reference_check_core(self, core, err);

    if (code != POD_OK)
        return code;
    if (shape != NULL && !pod_shape_is_array(shape))
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "memory is taken for arrays, not for %s",
                           pod_type_name(shape->type));
    if (shape != NULL)
        bytes = (uint64_t)pod_shape_bytes(shape);
    return pod_ref_buffer_new(&self->cores[core], core, bytes, out_buffer, err);
}

static enum pod_code reference_allocate_tuple(
    struct pod_device *device, uint32_t core,
    struct pod_device_buffer *const *children, size_t child_count,
    struct pod_device_buffer **out_buffer, struct pod_err *err)
{
    struct reference_device *self = reference_of(device);
    enum pod_code code = reference_check_core(self, core, err);

    if (code != POD_OK)
        return code;
    return pod_ref_tuple_new(core, children, child_count, out_buffer, err);
}

static void reference_release(struct pod_device *device,
                              struct pod_device_buffer *buffer)
{
    if (buffer != NULL)
        pod_ref_buffer_free(&reference_of(device)->cores[buffer->core], buffer);
}

// A buffer of so many bytes would push out of the caches what they hold, such
// as the memory in which the next pieces of it come, and not stay there itself.
enum { REFERENCE_PAST_CACHES_BYTES = 4 << 20 };

static void reference_fill(struct pod_device_buffer *buffer, uint64_t offset,
                           const void *bytes, size_t count)
{
    if (buffer->bytes >= REFERENCE_PAST_CACHES_BYTES)
        pod_copy_past_caches(buffer->data + offset, bytes, count);
    else
        memcpy(buffer->data + offset, bytes, count);
}

static enum pod_code
reference_write(struct pod_device *device, struct pod_device_buffer *buffer,
                uint64_t offset, const void *bytes, size_t count,
                const struct pod_interrupt *interrupt, struct pod_err *err)
{
    struct reference_device *self = reference_of(device);
    int64_t start = reference_start(self);
    enum pod_code code = POD_OK;

    if (count > 0)
        code =
            pod_ref_buffer_own(buffer, count < buffer->bytes, interrupt, err);
    if (code != POD_OK)
        return code;
    if (count > 0)
        reference_fill(buffer, offset, bytes, count);
    return reference_end(self, start, (double)count, interrupt, err);
}

static enum pod_code reference_adopt(struct pod_device *device,
                                     struct pod_device_buffer *buffer,
                                     struct pod_blob *blob,
                                     const struct pod_interrupt *interrupt,
                                     bool *out_taken, struct pod_err *err)
{
    struct reference_device *self = reference_of(device);
    int64_t start = reference_start(self);

    *out_taken = pod_ref_buffer_adopt(buffer, blob);
    if (!*out_taken)
        return POD_OK;
    // Simulated memory is no faster for it.
    return reference_end(self, start, (double)buffer->bytes, interrupt, err);
}

static enum pod_code
reference_read(struct pod_device *device, struct pod_device_buffer *buffer,
               uint64_t offset, void *out_bytes, size_t count,
               const struct pod_interrupt *interrupt, struct pod_err *err)
{
    struct reference_device *self = reference_of(device);
    int64_t start = reference_start(self);

    if (count > 0)
        memcpy(out_bytes, buffer->data + offset, count);
    return reference_end(self, start, (double)count, interrupt, err);
}

static enum pod_code reference_lend(struct pod_device *device,
                                    struct pod_device_buffer *buffer,
                                    uint64_t offset, size_t count,
                                    const struct pod_interrupt *interrupt,
                                    struct pod_blob **out_blob,
                                    struct pod_err *err)
{
    struct reference_device *self = reference_of(device);
    int64_t start = reference_start(self);
    struct pod_blob *loan = NULL;
    enum pod_code code = pod_ref_buffer_lend(buffer, offset, count, &loan, err);

    // Simulated memory is no faster for it.
    if (code == POD_OK && loan != NULL)
        code = reference_end(self, start, (double)count, interrupt, err);
    if (code != POD_OK) {
        pod_blob_unref(loan);
        return code;
    }
    *out_blob = loan;
    return POD_OK;
}

static enum pod_code reference_copy(struct pod_device *device,
                                    struct pod_device_buffer *from,
                                    struct pod_device_buffer *to,
                                    const struct pod_interrupt *interrupt,
                                    struct pod_err *err)
{
    struct reference_device *self = reference_of(device);
    int64_t start = reference_start(self);

    if (from->is_tuple || to->is_tuple || from->bytes != to->bytes)
        return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                           "a copy needs two arrays of the same size");
    if (from != to) {
        enum pod_code code = pod_ref_buffer_own(to, false, interrupt, err);
        if (code != POD_OK)
            return code;
        if (!pod_ref_move(to->data, from->data, from->bytes, interrupt))
            return reference_interrupted(err);
    }
    return reference_end(self, start, (double)from->bytes, interrupt, err);
}

static enum pod_code
reference_compile(struct pod_device *device, enum pod_program_format format,
                  const void *bytes, size_t count, uint32_t replicas,
                  struct pod_device_program **out_program, struct pod_err *err)
{
    return pod_ref_program_make(format, bytes, count, replicas,
                                reference_of(device)->options.scratch_bytes,
                                out_program, err);
}

static const struct pod_program_shape *
reference_program_shape(const struct pod_device_program *program)
{
    return &program->shape;
}

static void reference_program_free(struct pod_device *device,
                                   struct pod_device_program *program)
{
    (void)device;
    pod_ref_program_free(program);
}

static enum pod_code reference_execute(struct pod_device *device,
                                       const struct pod_device_launch *launch,
                                       struct pod_err *err)
{
    struct reference_device *self = reference_of(device);
    int64_t start = reference_start(self);
    double flops = 0;
    int64_t duration;
    enum pod_code code = pod_ref_run_program(launch, &flops, err);

    if (code != POD_OK || !reference_simulates(self))
        return code;
    duration = pod_time_add(self->options.latency_ns,
                            reference_ns(flops, self->options.flops));
    if (reference_wait(self, start, duration, launch->interrupt))
        return POD_OK;
    return pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                       "the execution was stopped");
}

static const struct pod_device_ops reference_ops = {
    .free = reference_free,
    .info = reference_info,
    .memory = reference_memory,
    .allocate = reference_allocate,
    .allocate_tuple = reference_allocate_tuple,
    .release = reference_release,
    .write = reference_write,
    .adopt = reference_adopt,
    .read = reference_read,
    .lend = reference_lend,
    .copy = reference_copy,
    .compile = reference_compile,
    .program_shape = reference_program_shape,
    .program_free = reference_program_free,
    .execute = reference_execute,
};

static enum pod_code
reference_check_options(const struct pod_reference_options *options,
                        struct pod_err *err)
{
    if (options->core_count == 0 || options->core_count > POD_REF_MAX_CORES)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "a reference device has 1 to %d cores, not %u",
                           POD_REF_MAX_CORES, options->core_count);
    if (options->memory_bytes > INT64_MAX)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "%llu bytes of memory are too many",
                           (unsigned long long)options->memory_bytes);
    if (options->latency_ns < 0 || !(options->bandwidth >= 0) ||
        !(options->flops >= 0))
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "latency, bandwidth and flops may not be negative");
    return POD_OK;
}

enum pod_code
pod_reference_device_new(const struct pod_reference_options *options,
                         struct pod_device **out_device, struct pod_err *err)
{
    const uint64_t least_scratch = UINT64_C(4) << 30;
    struct reference_device *self;
    enum pod_code code = reference_check_options(options, err);

    if (code != POD_OK)
        return code;
    self = pod_calloc(1, sizeof(*self));
    if (self == NULL)
        goto no_memory;
    self->cores = pod_calloc(options->core_count, sizeof(*self->cores));
    self->loans = pod_ref_loans_new();
    if (self->cores == NULL || self->loans == NULL)
        goto no_memory;
    pod_mutex_init(&self->mutex, POD_RANK_DEVICE, "reference device");
    pod_cond_init(&self->cond);
    self->base.ops = &reference_ops;
    self->options = *options;
    if (self->options.scratch_bytes == 0)
        self->options.scratch_bytes = options->memory_bytes > least_scratch
                                          ? options->memory_bytes
                                          : least_scratch;
    // The sum of frames of one chain of calls must not overflow.
    if (self->options.scratch_bytes > INT64_MAX / 256)
        self->options.scratch_bytes = INT64_MAX / 256;
    for (uint32_t i = 0; i < options->core_count; i++)
        self->cores[i] = (struct pod_ref_memory){.total = options->memory_bytes,
                                                 .loans = self->loans};
    openblas_set_num_threads(1);
    *out_device = &self->base;
    return POD_OK;
no_memory:
    if (self != NULL) {
        pod_ref_loans_unref(self->loans);
        pod_free(self->cores);
    }
    pod_free(self);
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                       "no memory for a reference device");
}
