// SPDX-License-Identifier: Apache-2.0
#include "core/hlo/module.h"

#include "core/base/mem.h"
#include "core/hlo/arena.h"

void pod_hlo_module_free(struct pod_hlo_module *module)
{
    if (module == NULL)
        return;
    pod_program_shape_fini(&module->shape);
    pod_hlo_arena_free(module->arena);
    pod_free(module);
}

// The generated functions take messages that are not const but change nothing.
static ProtobufCMessage *module_message(const Xla__HloModuleProto *proto)
{
    union {
        const Xla__HloModuleProto *in;
        Xla__HloModuleProto *out;
    } cast = {.in = proto};
    return &cast.out->base;
}

enum pod_code pod_hlo_module_pack(const struct pod_hlo_module *module,
                                  bool bare, unsigned char **out_bytes,
                                  size_t *out_length, struct pod_err *err)
{
    Xla__HloProto outer = XLA__HLO_PROTO__INIT;
    const ProtobufCMessage *message = module_message(module->proto);
    unsigned char *bytes;
    size_t length;
    outer.hlo_module =
        (Xla__HloModuleProto *)(void *)module_message(module->proto);
    if (!bare)
        message = &outer.base;
    length = protobuf_c_message_get_packed_size(message);
    bytes = pod_malloc(length);
    if (bytes == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory to pack a program");
    *out_length = protobuf_c_message_pack(message, bytes);
    *out_bytes = bytes;
    return POD_OK;
}
