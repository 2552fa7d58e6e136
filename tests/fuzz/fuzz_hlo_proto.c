// SPDX-License-Identifier: Apache-2.0
// Any bytes: no crash, no leak; what is read packs and reads back the same.
#include "core/base/mem.h"
#include "core/hlo/groups.h"
#include "core/hlo/literal.h"
#include "core/hlo/proto.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What an evaluator does with an instruction, without evaluating it.
static void fuzz_use(const struct pod_hlo_instr *instr)
{
    struct pod_hlo_groups groups;
    const struct pod_shape *shape = instr->shape;
    if (pod_hlo_groups_make(instr, 4, &groups, NULL) == POD_OK)
        pod_hlo_groups_fini(&groups);
    if (instr->opcode == POD_OP_CONSTANT && pod_shape_is_array(shape)) {
        void *bytes = malloc((size_t)pod_shape_bytes(shape) + 1);
        if (bytes != NULL && pod_literal_read(instr->proto->literal, shape,
                                              bytes, NULL) != POD_OK)
            abort();
        free(bytes);
    }
}

static void fuzz_walk(const struct pod_hlo_module *module)
{
    for (uint32_t c = 0; c < module->count; c++) {
        const struct pod_hlo_comp *comp = &module->comps[c];
        for (uint32_t i = 0; i < comp->count; i++) {
            const struct pod_hlo_instr *instr = &comp->instrs[i];
            for (uint32_t o = 0; o < instr->operand_count; o++)
                if (instr->operands[o] >= i)
                    abort();
            for (uint32_t o = 0; o < instr->called_count; o++)
                if (instr->called[o] >= c)
                    abort();
            fuzz_use(instr);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long live = pod_mem_live();
    struct pod_hlo_module *module = NULL;
    struct pod_hlo_module *again = NULL;
    struct pod_err err = POD_ERR_NONE;
    unsigned char *bytes = NULL;
    size_t length;
    enum pod_code code = pod_hlo_parse_proto(data, size, &module, &err);
    if (code == POD_OK) {
        fuzz_walk(module);
        if (pod_hlo_module_pack(module, true, &bytes, &length, &err) !=
                POD_OK ||
            pod_hlo_parse_proto(bytes, length, &again, &err) != POD_OK)
            abort();
    } else if (err.text[0] == '\0' || err.code != code) {
        abort();
    }
    pod_free(bytes);
    pod_hlo_module_free(again);
    pod_hlo_module_free(module);
    if (pod_mem_live() != live)
        abort();
    return 0;
}
