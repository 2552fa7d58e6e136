// SPDX-License-Identifier: Apache-2.0
// Reductions by one operation whose order is free.
#ifndef POD_DEVICE_REFERENCE_REDUCER_H
#define POD_DEVICE_REFERENCE_REDUCER_H

#include <stdint.h>

#include "core/hlo/opcode.h"
#include "core/hlo/shape.h"

// Floats, halves too, are accumulated in double and rounded once; integers in
// their own type, where they wrap.
struct pod_ref_reducer {
    // Makes `count` accumulators from one element.
    void (*begin)(void *accs, const void *init, int64_t count);
    // Takes `count` elements into one accumulator.
    void (*line)(void *acc, const void *in, int64_t count);
    // Takes one element into each of `count` accumulators.
    void (*rows)(void *accs, const void *in, int64_t count);
    // Makes elements of `count` accumulators.
    void (*end)(void *out, const void *accs, int64_t count);
};

// ADD, MULTIPLY, MINIMUM, MAXIMUM, AND, OR or XOR; NULL: not implemented.
const struct pod_ref_reducer *pod_ref_reducer_find(enum pod_opcode opcode,
                                                   enum pod_type type);

#endif
