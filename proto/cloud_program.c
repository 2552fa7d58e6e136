// SPDX-License-Identifier: Apache-2.0
// Whether the replicas of a program have nothing to do with each other.
//
// Clients of the original protocol compile for several replicas and then run
// one alone, or run them on workers that do not know of each other. That is
// sound as long as no instruction looks at the other replicas.
#include "core/hlo/proto.h"
#include "proto/cloud_internal.h"

static bool cloud_looks_at_others(enum pod_opcode opcode)
{
    static const enum pod_opcode list[] = {
        POD_OP_ALL_GATHER,
        POD_OP_ALL_GATHER_START,
        POD_OP_ALL_REDUCE,
        POD_OP_ALL_REDUCE_START,
        POD_OP_ALL_TO_ALL,
        POD_OP_ASYNC_START,
        POD_OP_COLLECTIVE_BROADCAST,
        POD_OP_COLLECTIVE_PERMUTE,
        POD_OP_COLLECTIVE_PERMUTE_START,
        POD_OP_CUSTOM_CALL,
        POD_OP_PARTITION_ID,
        POD_OP_RAGGED_ALL_TO_ALL,
        POD_OP_RECV,
        POD_OP_REDUCE_SCATTER,
        POD_OP_REPLICA_ID,
        POD_OP_SEND,
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        if (opcode == list[i])
            return true;
    }
    return false;
}

bool cloud_program_independent(const void *data, size_t size)
{
    struct pod_hlo_module *module = NULL;
    bool independent = true;
    if (pod_hlo_parse_proto(data, size, &module, NULL) != POD_OK)
        return false; // the device will say what is wrong with it
    for (uint32_t i = 0; i < module->count && independent; i++) {
        const struct pod_hlo_comp *comp = &module->comps[i];
        for (uint32_t k = 0; k < comp->count && independent; k++)
            independent = !cloud_looks_at_others(comp->instrs[k].opcode);
    }
    pod_hlo_module_free(module);
    return independent;
}
