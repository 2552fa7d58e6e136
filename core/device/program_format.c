// SPDX-License-Identifier: Apache-2.0
#include "core/device/device.h"

const char *pod_program_format_type(enum pod_program_format format)
{
    static const char *const types[POD_FORMAT_COUNT] = {
        [POD_FORMAT_HLO_TEXT] = "text/x-hlo",
        [POD_FORMAT_HLO_PROTO] = "application/x-hlo-proto",
        [POD_FORMAT_MLIR_TEXT] = "text/x-mlir",
        [POD_FORMAT_MLIR_BYTECODE] = "application/x-mlir",
    };

    return (unsigned)format < POD_FORMAT_COUNT ? types[format] : "unknown";
}
