// SPDX-License-Identifier: Apache-2.0
// Compiling: how the lowerings of instructions make slots and steps.
#ifndef POD_DEVICE_REFERENCE_BUILDER_H
#define POD_DEVICE_REFERENCE_BUILDER_H

#include "core/device/reference/program.h"
#include "core/hlo/module.h"

enum {
    POD_REF_MAX_REPLICAS = 65536,
    // Arrays a program may have, and members of tuples over all instructions.
    POD_REF_MAX_SLOTS = 16 << 20,
    POD_REF_MAX_LEAVES = 64 << 20,
};

// The arrays an instruction's result consists of, depth first.
struct pod_ref_value {
    uint32_t count;
    const uint32_t *slots;
    // Of a tuple whose elements have been asked for: where each one's leaves
    // start.
    uint32_t *starts;
};

// When the data of a slot is needed, in steps of its computation.
struct pod_ref_life {
    uint32_t made; // by this step; POD_REF_NONE: by none, it is lent
    uint32_t last; // read last by this step; POD_REF_NONE: never
    // Slots whose memory it may take over if they end where it begins.
    uint32_t heirs_of[2];
    // The numbers of the last lists it stood in, and stood in twice.
    uint32_t listed;
    uint32_t repeated;
};

struct pod_ref_builder {
    const struct pod_hlo_module *module;
    struct pod_device_program *program;
    uint64_t scratch_bytes;
    uint64_t leaf_count; // so far, of all values

    // The computation at hand.
    uint32_t comp_index;
    const struct pod_hlo_comp *hlo;
    struct pod_ref_comp *comp;
    const struct pod_hlo_instr *instr; // being lowered
    struct pod_ref_value *values;      // of each instruction
    bool is_body;                      // of a loop

    // Growing arrays; the slots are those of the whole program.
    struct pod_ref_step *steps;
    uint32_t step_count;
    uint32_t step_capacity;
    struct pod_ref_slot *slots;
    struct pod_ref_life *lives;
    uint32_t slot_count;
    uint32_t slot_capacity;
    uint32_t first_slot;  // of the computation at hand
    uint32_t list_number; // of the last list whose repetitions were marked
};

// INVALID_PROGRAM or UNIMPLEMENTED about the instruction at hand, with its name
// and place in front.
enum pod_code pod_ref_refuse(const struct pod_ref_builder *builder,
                             struct pod_err *err, enum pod_reason reason,
                             const char *format, ...)
    __attribute__((format(printf, 4, 5)));
enum pod_code pod_ref_no_memory(struct pod_err *err);

// The operand's shape, and the slot of an operand that is an array.
const struct pod_shape *pod_ref_shape(const struct pod_ref_builder *builder,
                                      uint32_t operand);
uint32_t pod_ref_in(const struct pod_ref_builder *builder, uint32_t operand);
const struct pod_ref_value *pod_ref_value(const struct pod_ref_builder *builder,
                                          uint32_t operand);

// A new slot in the arena, made by the step that comes next (temporaries too:
// an array that nobody reads later is given back right after its step).
enum pod_code pod_ref_slot_new(struct pod_ref_builder *builder, uint64_t bytes,
                               uint32_t *out_slot, struct pod_err *err)
    __attribute__((warn_unused_result));
// A slot with the program's own data, or, with NULL, one that is lent.
enum pod_code pod_ref_slot_fixed(struct pod_ref_builder *builder,
                                 uint64_t bytes, const void *constant,
                                 uint32_t *out_slot, struct pod_err *err)
    __attribute__((warn_unused_result));
// Says that the step that comes next reads a slot. Steps added by
// pod_ref_emit read their `in` anyway.
void pod_ref_use(struct pod_ref_builder *builder, uint32_t slot);
// Says that a step may write `slot` where `heir_of` is, if that one is not
// needed afterwards and has as many bytes.
void pod_ref_inherit(struct pod_ref_builder *builder, uint32_t slot,
                     uint32_t heir_of);
// Finds out which slots stand in a list more than once, until the next call.
void pod_ref_mark_repeated(struct pod_ref_builder *builder,
                           const uint32_t *slots, uint32_t count);
bool pod_ref_is_repeated(const struct pod_ref_builder *builder, uint32_t slot);

enum pod_code pod_ref_emit(struct pod_ref_builder *builder,
                           const struct pod_ref_step *step, struct pod_err *err)
    __attribute__((warn_unused_result));

// Makes a slot for the array result of the instruction at hand, emits the step
// with it as `out`, and lets the result be it.
// The same with a new slot of `bytes` for what it writes.
enum pod_code pod_ref_emit_new(struct pod_ref_builder *builder,
                               struct pod_ref_step *step, uint64_t bytes,
                               uint32_t *out_slot, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_ref_emit_result(struct pod_ref_builder *builder,
                                  struct pod_ref_step *step,
                                  struct pod_err *err)
    __attribute__((warn_unused_result));
// Makes the result of the instruction at hand consist of `count` slots; the
// array is copied. A single slot's memory may be shared with an operand's
// value: arrays are never changed once made.
enum pod_code pod_ref_result(struct pod_ref_builder *builder,
                             const uint32_t *slots, uint32_t count,
                             struct pod_err *err)
    __attribute__((warn_unused_result));
// Room for the result's slots, to be filled in by the caller.
enum pod_code pod_ref_result_room(struct pod_ref_builder *builder,
                                  uint32_t count, uint32_t **out_slots,
                                  struct pod_err *err)
    __attribute__((warn_unused_result));

// Emits a move from one slot to a new one of `bytes`.
enum pod_code pod_ref_emit_move(struct pod_ref_builder *builder,
                                const struct pod_ref_move_plan *plan,
                                uint32_t from, uint64_t bytes,
                                uint32_t *out_slot, struct pod_err *err)
    __attribute__((warn_unused_result));
// What a step with a unary kernel does (step->with.unary).
enum pod_code pod_ref_run_unary(struct pod_ref_run *run,
                                const struct pod_ref_step *step,
                                struct pod_err *err)
    __attribute__((warn_unused_result));
// Emits a conversion of `count` elements to a new slot; the same slot if the
// types are the same.
enum pod_code pod_ref_emit_convert(struct pod_ref_builder *builder,
                                   uint32_t from, enum pod_type from_type,
                                   enum pod_type to_type, int64_t count,
                                   uint32_t *out_slot, struct pod_err *err)
    __attribute__((warn_unused_result));

// Emits a plain copy to a new slot.
enum pod_code pod_ref_emit_copy(struct pod_ref_builder *builder, uint32_t from,
                                uint32_t *out_slot, struct pod_err *err)
    __attribute__((warn_unused_result));

// The opcode if a computation of two scalars applies just one operation to them
// whose order of operands does not matter; else POD_OP_COUNT.
enum pod_opcode pod_ref_simple_op(const struct pod_hlo_comp *comp);

// Places the slots of the computation at hand in its frame.
enum pod_code pod_ref_frame(struct pod_ref_builder *builder,
                            struct pod_err *err)
    __attribute__((warn_unused_result));

// The lowerings: each turns the instruction at hand into slots and steps, and
// sets its result.
#define POD_REF_LOWERINGS(X)                                                   \
    /* builder.c */                                                            \
    X(parameter)                                                               \
    X(constant)                                                                \
    X(tuple)                                                                   \
    X(get_tuple_element)                                                       \
    /* lower_element.c */                                                      \
    X(unary)                                                                   \
    X(binary)                                                                  \
    X(compare)                                                                 \
    X(convert)                                                                 \
    X(select)                                                                  \
    X(clamp)                                                                   \
    X(iota)                                                                    \
    /* lower_move.c */                                                         \
    X(alias)                                                                   \
    X(broadcast)                                                               \
    X(transpose)                                                               \
    X(slice)                                                                   \
    X(concatenate)                                                             \
    X(pad)                                                                     \
    X(dynamic_slice)                                                           \
    X(dynamic_update_slice)                                                    \
    /* lower_dot.c, lower_reduce.c */                                          \
    X(dot)                                                                     \
    X(reduce)                                                                  \
    /* lower_control.c */                                                      \
    X(call)                                                                    \
    X(while)                                                                   \
    X(conditional)                                                             \
    /* lower_collective.c */                                                   \
    X(all_reduce)                                                              \
    X(all_gather)                                                              \
    X(collective_permute)                                                      \
    X(replica_id)                                                              \
    X(partition_id)

#define X(name)                                                                \
    enum pod_code pod_ref_lower_##name(struct pod_ref_builder *builder,        \
                                       struct pod_err *err);
POD_REF_LOWERINGS(X)
#undef X

#endif
