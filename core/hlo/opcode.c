// SPDX-License-Identifier: Apache-2.0
#include "core/hlo/opcode.h"

#include <string.h>

struct opcode {
    const char *text;
    size_t length;
    int operands;
    int calls;
};

static const struct opcode opcodes[POD_OP_COUNT] = {
#define X(name, text, operands, calls)                                         \
    {(text), sizeof(text) - 1, (operands), (calls)},
    POD_OPCODES(X)
#undef X
};

const char *pod_opcode_name(enum pod_opcode opcode)
{
    return (unsigned)opcode < POD_OP_COUNT ? opcodes[opcode].text : "unknown";
}

// Byte order, a prefix before what it starts: the order of the table.
static int opcode_compare(const char *text, size_t length,
                          const struct opcode *opcode)
{
    size_t common = length < opcode->length ? length : opcode->length;
    int order = memcmp(text, opcode->text, common);
    if (order != 0 || length == opcode->length)
        return order;
    return length < opcode->length ? -1 : 1;
}

enum pod_opcode pod_opcode_find(const char *text, size_t length)
{
    size_t low = 0;
    size_t high = POD_OP_COUNT;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = opcode_compare(text, length, &opcodes[middle]);
        if (order == 0)
            return (enum pod_opcode)middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return POD_OP_COUNT;
}

int pod_opcode_operands(enum pod_opcode opcode)
{
    return opcodes[opcode].operands;
}

int pod_opcode_calls(enum pod_opcode opcode)
{
    return opcodes[opcode].calls;
}
