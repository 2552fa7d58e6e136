// SPDX-License-Identifier: Apache-2.0
// A compiled program: per computation a list of steps that name their operands
// by slot.
//
// Every array of the program has one slot; tuples exist only while compiling.
// A slot's data is a constant of the program, a place in the arena of the
// execution, or lent by the caller of the computation (a parameter). As no
// computation calls itself, each is at work at most once at a time, so that all
// slots of a program have one table of pointers and each computation one fixed
// frame in the arena, behind those of all its callers. Arrays that are never
// alive together share memory.
#ifndef POD_DEVICE_REFERENCE_PROGRAM_H
#define POD_DEVICE_REFERENCE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/device/device.h"
#include "core/device/reference/kernel.h"
#include "core/device/reference/move.h"
#include "core/device/reference/pool.h"

#define POD_REF_NONE UINT32_MAX

struct pod_ref_run;
struct pod_ref_step;

struct pod_ref_step {
    // Does the step. Fails only for what is outside the program: an interrupt,
    // a gang that broke.
    enum pod_code (*run)(struct pod_ref_run *run,
                         const struct pod_ref_step *step, struct pod_err *err);
    uint32_t in[3]; // slots, POD_REF_NONE if there are fewer
    uint32_t out;   // slot, POD_REF_NONE if the detail lists them
    int64_t count;  // elements of the result, where the step wants it
    double flops;   // what it costs a simulated device, called steps apart
    union {
        pod_ref_unary_fn *unary;
        pod_ref_binary_fn *binary;
        const struct pod_ref_move *move;
        const void *detail; // a struct of the module that made the step
    } with;
};

struct pod_ref_slot {
    uint64_t bytes;
    uint64_t offset;      // in the arena
    const void *constant; // NULL: in the arena, or lent
    bool in_arena;
};

struct pod_ref_comp {
    struct pod_ref_step *steps;
    uint32_t step_count;
    uint32_t param_count; // leaves of all parameters, in order
    const uint32_t *params;
    uint32_t root_count;
    const uint32_t *roots; // leaves of the result
    // root_direct[i]: a caller may point root i at its own memory, because it
    // is in the arena and no other root.
    const bool *root_direct;
    // Of a loop's body: root_over[i]: root i may be written over parameter i,
    // which nothing reads any more when it is made.
    const bool *root_over;
    uint32_t first_slot; // its slots stand together in the program's table
    uint32_t end_slot;
    uint64_t frame_bytes;
};

struct pod_device_program {
    struct pod_ref_pool pool; // owns everything below but `shape`
    struct pod_program_shape shape;
    struct pod_ref_comp *comps; // those the entry never reaches stay zero
    uint32_t comp_count;
    uint32_t entry;
    struct pod_ref_slot *slots;
    uint32_t slot_count;
    uint32_t replicas;
    uint64_t arena_bytes;
};

// One execution.
struct pod_ref_run {
    const struct pod_device_program *program;
    void **slots; // data of each
    char *arena;
    uint32_t replica;
    struct pod_exchange *exchange;
    uint64_t sequence; // collectives so far
    struct pod_interrupt *interrupt;
    double flops; // so far
};

// Runs a computation whose parameters' slots are set. The depth of recursion is
// that of the program's calls, at most POD_HLO_MAX_CALL_DEPTH.
enum pod_code pod_ref_run_comp(struct pod_ref_run *run, uint32_t comp,
                               struct pod_err *err)
    __attribute__((warn_unused_result));

// Points the roots of a computation at their places in the arena again, for
// callers that do not lend memory for them.
void pod_ref_home_roots(struct pod_ref_run *run, uint32_t comp);

// Compiles for `replicas`; no execution may need more than `scratch_bytes` of
// arena. `*out_program` is freed with pod_ref_program_free.
enum pod_code pod_ref_program_make(enum pod_program_format format,
                                   const void *bytes, size_t count,
                                   uint32_t replicas, uint64_t scratch_bytes,
                                   struct pod_device_program **out_program,
                                   struct pod_err *err)
    __attribute__((warn_unused_result));
// NULL is allowed.
void pod_ref_program_free(struct pod_device_program *program);

#endif
