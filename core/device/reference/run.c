// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference/run.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/device/reference/memory.h"
#include "core/device/reference/program.h"

enum { RUN_ARENA_ALIGN = 64 };

static bool run_interrupted(const struct pod_ref_run *run)
{
    return run->interrupt != NULL &&
           atomic_load_explicit(&run->interrupt->asked, memory_order_relaxed);
}

enum pod_code pod_ref_run_comp(struct pod_ref_run *run, uint32_t comp,
                               struct pod_err *err)
{
    const struct pod_ref_comp *what = &run->program->comps[comp];
    const struct pod_ref_step *end = what->steps + what->step_count;

    const struct pod_ref_step *step = what->steps;

    // Once more than there are steps: a loop may have none.
    for (;; step++) {
        enum pod_code code;
        if (run_interrupted(run))
            return pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                               "the execution was stopped");
        if (step == end)
            return POD_OK;
        code = step->run(run, step, err);
        if (code != POD_OK)
            return code;
        run->flops += step->flops;
    }
}

static void *run_home(const struct pod_ref_run *run, uint32_t slot)
{
    return run->arena + run->program->slots[slot].offset;
}

void pod_ref_home_roots(struct pod_ref_run *run, uint32_t comp)
{
    const struct pod_ref_comp *what = &run->program->comps[comp];

    for (uint32_t i = 0; i < what->root_count; i++) {
        if (what->root_direct[i])
            run->slots[what->roots[i]] = run_home(run, what->roots[i]);
    }
}

// --------------------------------------------------------- inputs and outputs

struct run_leaves {
    struct pod_device_buffer **leaves;
    size_t count;
    size_t room;
    struct pod_device_buffer **sorted; // the same by address; NULL: not sorted
};

// Appends the arrays of a buffer. Stops at the room there is and at the depth
// of shapes: a tuple that does not fit the program is found by the count.
static void run_flatten(struct pod_device_buffer *buffer, int depth,
                        struct run_leaves *out)
{
    if (buffer->is_tuple) {
        for (size_t i = 0; i < buffer->child_count && out->count <= out->room &&
                           depth < POD_SHAPE_MAX_DEPTH;
             i++)
            run_flatten(buffer->children[i], depth + 1, out);
        return;
    }
    if (out->count < out->room)
        out->leaves[out->count] = buffer;
    out->count++;
}

static enum pod_code run_gather_leaves(const struct pod_ref_run *run,
                                       const uint32_t *slots, size_t count,
                                       struct pod_device_buffer *const *buffers,
                                       size_t buffer_count,
                                       struct run_leaves *leaves,
                                       struct pod_err *err)
{
    leaves->room = count;
    leaves->leaves = pod_calloc(count, sizeof(struct pod_device_buffer *));
    if (leaves->leaves == NULL)
        return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                           "no memory for an execution");
    for (size_t i = 0; i < buffer_count; i++)
        run_flatten(buffers[i], 0, leaves);
    // The caller has checked shapes; this keeps memory safe if it has not.
    if (leaves->count != count)
        return pod_err_set(err, POD_REASON_COUNT_MISMATCH,
                           "%zu arrays are given, the program takes %zu",
                           leaves->count, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = run->program->slots[slots[i]].bytes;
        if (leaves->leaves[i]->bytes != bytes)
            return pod_err_set(
                err, POD_REASON_SHAPE_MISMATCH,
                "array %zu has %llu bytes, the program needs %llu", i,
                (unsigned long long)leaves->leaves[i]->bytes,
                (unsigned long long)bytes);
    }
    return POD_OK;
}

static int run_compare(const void *left, const void *right)
{
    const struct pod_device_buffer *const *a = left;
    const struct pod_device_buffer *const *b = right;

    return (*a > *b) - (*a < *b);
}

// So that it costs little to find out whether an array is among them.
static enum pod_code run_sort(struct run_leaves *leaves, struct pod_err *err)
{
    size_t size = sizeof(struct pod_device_buffer *);

    leaves->sorted = pod_calloc(leaves->count, size);
    if (leaves->sorted == NULL)
        return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                           "no memory for an execution");
    for (size_t i = 0; i < leaves->count; i++)
        leaves->sorted[i] = leaves->leaves[i];
    qsort(leaves->sorted, leaves->count, size, run_compare);
    return POD_OK;
}

static bool run_has(const struct run_leaves *leaves,
                    const struct pod_device_buffer *buffer)
{
    return bsearch(&buffer, leaves->sorted, leaves->count, sizeof(buffer),
                   run_compare) != NULL;
}

// Memory that is lent to others is not to be written: outputs get their own,
// with what is in it if they are inputs too.
static enum pod_code run_own_outputs(const struct pod_ref_run *run,
                                     const struct run_leaves *inputs,
                                     const struct run_leaves *outputs,
                                     struct pod_err *err)
{
    enum pod_code code = POD_OK;

    for (size_t i = 0; i < outputs->count && code == POD_OK; i++) {
        struct pod_device_buffer *buffer = outputs->leaves[i];
        if (pod_ref_buffer_is_lent(buffer))
            code = pod_ref_buffer_own(buffer, run_has(inputs, buffer),
                                      run->interrupt, err);
    }
    return code;
}

// Lends inputs to the parameters, and outputs to the results that may be
// written before the execution ends: those whose buffer is no input.
static void run_lend(struct pod_ref_run *run, const struct pod_ref_comp *entry,
                     const struct run_leaves *inputs,
                     const struct run_leaves *outputs)
{
    for (uint32_t i = 0; i < entry->param_count; i++)
        run->slots[entry->params[i]] = inputs->leaves[i]->data;
    for (uint32_t i = 0; i < entry->root_count; i++) {
        if (entry->root_direct[i] && !run_has(inputs, outputs->leaves[i]))
            run->slots[entry->roots[i]] = outputs->leaves[i]->data;
    }
}

static void run_store(const struct pod_ref_run *run,
                      const struct pod_ref_comp *entry,
                      const struct run_leaves *outputs)
{
    for (uint32_t i = 0; i < entry->root_count; i++) {
        struct pod_device_buffer *buffer = outputs->leaves[i];
        if (run->slots[entry->roots[i]] != buffer->data)
            memcpy(buffer->data, run->slots[entry->roots[i]],
                   (size_t)buffer->bytes);
    }
}

// -------------------------------------------------------------- the whole run

// The table of pointers with the arena behind it, in one block.
static enum pod_code run_place(struct pod_ref_run *run, void **out_block,
                               struct pod_err *err)
{
    const struct pod_device_program *program = run->program;
    size_t table = (size_t)program->slot_count * sizeof(void *);
    char *block = NULL;
    size_t bytes;

    if (!__builtin_add_overflow(table + RUN_ARENA_ALIGN, program->arena_bytes,
                                &bytes))
        block = pod_malloc(bytes);
    if (block == NULL)
        return pod_err_set(
            err, POD_REASON_RESOURCE_EXHAUSTED,
            "the execution needs %llu bytes between its inputs and outputs, "
            "which the machine does not have",
            (unsigned long long)program->arena_bytes);
    *out_block = block;
    run->slots = (void **)(void *)block;
    block += table;
    block += -(uintptr_t)block % RUN_ARENA_ALIGN;
    run->arena = block;
    for (uint32_t i = 0; i < program->slot_count; i++) {
        const struct pod_ref_slot *slot = &program->slots[i];
        union {
            const void *constant;
            void *data;
        } place = {.constant = slot->constant};
        run->slots[i] = slot->in_arena ? run_home(run, i) : place.data;
    }
    return POD_OK;
}

static enum pod_code run_check_replica(const struct pod_device_launch *launch,
                                       struct pod_err *err)
{
    const struct pod_device_program *program = launch->program;

    if (launch->replica_count == program->replicas &&
        launch->replica < program->replicas)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                       "the program is compiled for %u replicas, it is run as "
                       "replica %u of %u",
                       program->replicas, launch->replica,
                       launch->replica_count);
}

enum pod_code pod_ref_run_program(const struct pod_device_launch *launch,
                                  double *out_flops, struct pod_err *err)
{
    const struct pod_device_program *program = launch->program;
    const struct pod_ref_comp *entry = &program->comps[program->entry];
    struct pod_ref_run run = {.program = program,
                              .replica = launch->replica,
                              .exchange = launch->exchange,
                              .interrupt = launch->interrupt};
    struct run_leaves inputs = {.count = 0};
    struct run_leaves outputs = {.count = 0};
    void *block = NULL;
    enum pod_code code = run_check_replica(launch, err);

    if (code == POD_OK)
        code = run_gather_leaves(&run, entry->params, entry->param_count,
                                 launch->inputs, launch->input_count, &inputs,
                                 err);
    if (code == POD_OK)
        code = run_gather_leaves(&run, entry->roots, entry->root_count,
                                 launch->outputs, launch->output_count,
                                 &outputs, err);
    if (code == POD_OK)
        code = run_sort(&inputs, err);
    if (code == POD_OK)
        code = run_own_outputs(&run, &inputs, &outputs, err);
    if (code == POD_OK)
        code = run_place(&run, &block, err);
    if (code == POD_OK) {
        run_lend(&run, entry, &inputs, &outputs);
        code = pod_ref_run_comp(&run, program->entry, err);
    }
    if (code == POD_OK)
        run_store(&run, entry, &outputs);
    *out_flops = run.flops;
    pod_free(block);
    pod_free(outputs.leaves);
    pod_free(inputs.leaves);
    pod_free(inputs.sorted);
    return code;
}
