// SPDX-License-Identifier: Apache-2.0
// A program: an HLO module that has been read and verified.
//
// Made by pod_hlo_parse_text (text.h) or pod_hlo_parse_proto (proto.h). Both
// end in the verifier (verify.h), so every module is valid: whatever verify.h
// promises needs no second check. A module is immutable; threads may share it.
// Everything it points at lives until pod_hlo_module_free.
//
// The message holds the attributes (`proto->dimensions` and so on); the side
// tables hold what would need a search: opcodes, shapes, and operands and
// called computations as positions in the arrays here.
#ifndef POD_HLO_MODULE_H
#define POD_HLO_MODULE_H

#include "core/hlo/opcode.h"
#include "core/hlo/shape.h"

#include "xla.pb-c.h"

enum {
    // Of one program, text or message. In memory it may take 1 MiB and 128
    // bytes for each of its bytes, and at most POD_HLO_MAX_MEMORY: a typical
    // instruction of 60 to 100 bytes takes about 1,000.
    POD_HLO_MAX_BYTES = 64 << 20,
    POD_HLO_MAX_MEMORY = 1 << 30,
    // Computations calling computations calling ... from the entry; what
    // evaluates a module may recurse along it.
    POD_HLO_MAX_CALL_DEPTH = 128,
};

struct pod_hlo_instr {
    const Xla__HloInstructionProto *proto;
    enum pod_opcode opcode;
    uint32_t operand_count;
    const uint32_t *operands; // positions in the computation, below its own
    uint32_t called_count;
    const uint32_t *called; // positions in the module, below its computation's
    const struct pod_shape *shape; // of the result, layouts included
    int line; // place in the text, 1-based; 0: from a proto
    int column;
};

struct pod_hlo_comp {
    const Xla__HloComputationProto *proto;
    uint32_t count;
    uint32_t root;                // position of the result
    struct pod_hlo_instr *instrs; // operands before their users
    uint32_t param_count;
    const uint32_t *params; // position of parameter i
};

struct pod_hlo_arena;

struct pod_hlo_module {
    const Xla__HloModuleProto *proto; // host_program_shape is always there
    uint32_t count;
    uint32_t entry;             // position of the entry computation
    struct pod_hlo_comp *comps; // callees before callers
    // The signature with the layouts of the boundary, row-major where the
    // program says nothing.
    struct pod_program_shape shape;
    // What the text's header says, or 0; a message cannot say it.
    int64_t replica_count;
    int64_t num_partitions;
    struct pod_hlo_arena *arena; // owns all but `shape`
};

// NULL is allowed.
void pod_hlo_module_free(struct pod_hlo_module *module);

// The module as a serialized HloProto ("HloModuleProto" if `bare`), in memory
// the caller frees with pod_free. OUT_OF_MEMORY.
enum pod_code pod_hlo_module_pack(const struct pod_hlo_module *module,
                                  bool bare, unsigned char **out_bytes,
                                  size_t *out_length, struct pod_err *err)
    __attribute__((warn_unused_result));

// Shorthands for those who walk a module.
static inline const struct pod_hlo_instr *
pod_hlo_operand(const struct pod_hlo_comp *comp,
                const struct pod_hlo_instr *instr, uint32_t index)
{
    return &comp->instrs[instr->operands[index]];
}

static inline const struct pod_hlo_comp *
pod_hlo_called(const struct pod_hlo_module *module,
               const struct pod_hlo_instr *instr, uint32_t index)
{
    return &module->comps[instr->called[index]];
}

#endif
