// SPDX-License-Identifier: Apache-2.0
// Any text: no crash, no leak; what is read packs and reads back the same.
#include "core/base/mem.h"
#include "core/hlo/proto.h"
#include "core/hlo/text.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_round_trip(const struct pod_hlo_module *module)
{
    struct pod_hlo_module *again = NULL;
    struct pod_err err = POD_ERR_NONE;
    unsigned char *bytes;
    size_t length;
    if (pod_hlo_module_pack(module, false, &bytes, &length, &err) != POD_OK)
        abort();
    if (pod_hlo_parse_proto(bytes, length, &again, &err) != POD_OK)
        abort();
    if (again->count != module->count || again->entry != module->entry)
        abort();
    pod_hlo_module_free(again);
    pod_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long live = pod_mem_live();
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    enum pod_code code =
        pod_hlo_parse_text((const char *)data, size, &module, &err);
    if (code == POD_OK)
        fuzz_round_trip(module);
    else if (err.text[0] == '\0' || err.code != code)
        abort();
    pod_hlo_module_free(module);
    if (pod_mem_live() != live)
        abort();
    return 0;
}
