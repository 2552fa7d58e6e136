// SPDX-License-Identifier: Apache-2.0
// Programs from serialized messages.
#ifndef POD_HLO_PROTO_H
#define POD_HLO_PROTO_H

#include "core/hlo/module.h"

// Parses and verifies a serialized HloProto or HloModuleProto, told apart by
// their fields: only a module has numbers above 3. Unknown fields are kept and
// packed again. On success `*out` is the caller's. INVALID_PROGRAM for a
// malformed message (with the offset of the fault), messages nested more than
// 100 deep, or an unsound program; OUT_OF_MEMORY; RESOURCE_EXHAUSTED for more
// than POD_HLO_MAX_BYTES, or what unfolds to too much (module.h). Depth and
// sizes are checked on the bytes before anything is unpacked. `bytes` may be
// freed afterwards.
enum pod_code pod_hlo_parse_proto(const void *bytes, size_t length,
                                  struct pod_hlo_module **out,
                                  struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
