// SPDX-License-Identifier: Apache-2.0
// Reductions by one operation whose order is free.
#ifndef POD_DEVICE_REFERENCE_REDUCER_H
#define POD_DEVICE_REFERENCE_REDUCER_H

#include <stdint.h>

#include "core/hlo/opcode.h"
#include "core/hlo/shape.h"

// Room for one accumulator. Where there are several, each function is given all
// of them.
struct pod_ref_acc {
    uint64_t words[2];
};

// Floats, halves too, are accumulated in double and rounded once. Sums of f64
// are accumulated with what rounding has taken from them, so that they too are
// about as good as if rounded once. Integers are accumulated in their own type,
// where they wrap.
struct pod_ref_reducer {
    // Makes `count` accumulators, all from one element if `step` is 0, or each
    // from one of its own if it is 1.
    void (*begin)(void *accs, const void *init, int64_t step, int64_t count);
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
