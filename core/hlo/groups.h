// SPDX-License-Identifier: Apache-2.0
// Who takes part in a collective: the groups of replicas, spelled out.
#ifndef POD_HLO_GROUPS_H
#define POD_HLO_GROUPS_H

#include "core/hlo/module.h"

struct pod_hlo_groups {
    size_t count;
    size_t *starts; // count + 1 of them: group g is ids[starts[g]] ...
    int64_t *ids;   // in the order that numbers the members of a group
};

// The groups of all-reduce, all-gather, reduce-scatter, all-to-all or
// collective-broadcast among `participants` (>= 1), from whichever of the three
// forms the program uses; no groups mean one group of all. INVALID_PROGRAM if
// an id is out of range or in two groups, or a participant is in none;
// UNIMPLEMENTED for groups given by mesh axes; OUT_OF_MEMORY.
enum pod_code
pod_hlo_groups_make(const struct pod_hlo_instr *instr, int64_t participants,
                    struct pod_hlo_groups *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// NULL is allowed.
void pod_hlo_groups_fini(struct pod_hlo_groups *groups);

// The sizes of the smallest and of the largest group that the program names.
// False: it names none, so that they depend on the number of participants.
bool pod_hlo_groups_sizes(const Xla__HloInstructionProto *proto,
                          int64_t *out_least, int64_t *out_most);

#endif
