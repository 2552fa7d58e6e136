// SPDX-License-Identifier: Apache-2.0
// The verifier: what a module must be, whoever made it.
//
// It turns the message of a module into its side tables and checks, in one
// pass that is linear in the module. What evaluates a module may rely on:
//
// * Structure. Each opcode is known and has the right number of operands and
//   called computations. Operands come before their users and called
//   computations before their callers, so nothing is cyclic or recursive.
//   Calls nest at most POD_HLO_MAX_CALL_DEPTH deep. Parameter numbers are
//   0 .. n-1, each once. Names are not empty, and unique in their computation.
//   There is a root and an entry. No array is dynamic.
// * Shapes of the following opcodes are exactly what their operands and
//   attributes imply, layouts aside, and the attributes are in range:
//   - parameter, constant (with sound data), iota, tuple, get-tuple-element,
//     copy, bitcast, opt-barrier, replica-id, partition-id
//   - all elementwise ones: unary (result as the operand; is-finite gives pred;
//     real, imag, abs of complex give the part's type), binary (operands and
//     result alike), compare (pred), select, clamp (bounds may be scalars),
//     convert, reduce-precision, complex. Types fit the opcode: no `and` of
//     floats, no `sqrt` of integers.
//   - broadcast, reshape, transpose, reverse, slice, pad, concatenate,
//     dynamic-slice, dynamic-update-slice (one scalar index a dimension),
//     bitcast-convert, dot (types of the operands alike; the result's may be
//     wider), reduce, map, sort
//   - call, fusion, while, conditional (s32 index, or pred with two branches)
//   - all-reduce, all-gather, reduce-scatter, all-to-all, collective-permute,
//     collective-broadcast: attributes within the ranges; groups of one size
//     where they are given. Whether ids are in range depends on the number of
//     replicas: see groups.h.
//   Shapes of the other opcodes are taken as the program says.
// * The computation of reduce, all-reduce, reduce-scatter, map and sort takes
//   and gives scalars of the right types. If n operands are reduced at once,
//   it takes n accumulators, then n values, and gives a tuple of n.
// * Called computations' parameters and results equal the shapes at the call.
// * The program's signature has the types and dimensions of the entry
//   computation's, and a layout for every array.
//
// Errors: INVALID_PROGRAM naming computation and instruction, with line and
// column for a text; UNIMPLEMENTED for bounded dynamic dimensions and the
// legacy form of dynamic-slice with one index vector.
#ifndef POD_HLO_VERIFY_H
#define POD_HLO_VERIFY_H

#include "core/hlo/module.h"

// Fills in all tables of a module whose `proto` and `arena` are set, and
// verifies it; `proto` may be completed (program shapes). After a failure the
// module can only be freed (pod_hlo_module_free). For the readers in this
// folder; what they hand out is verified already.
enum pod_code pod_hlo_verify(struct pod_hlo_module *module, struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
