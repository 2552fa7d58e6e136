// SPDX-License-Identifier: Apache-2.0
// Whether buffers fit a program: the check before every execution.
//
// It works on shapes alone, so that whoever schedules an execution can refuse
// it before any device is asked, with the same words.
#ifndef POD_HLO_LAUNCH_H
#define POD_HLO_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/hlo/shape.h"

// What is known of one buffer.
struct pod_launch_value {
    // Of an array buffer. NULL for a buffer made by bytes: it fits any array
    // of its size. Not looked at for a tuple buffer.
    const struct pod_shape *shape;
    uint64_t bytes; // of an array buffer, raw or not
    // A tuple buffer, which may have no children.
    bool is_tuple;
    const struct pod_launch_value *children;
    size_t child_count;
};

// Checks one buffer a parameter, and for the result one array buffer, one tuple
// buffer, or one array buffer for each leaf of a tuple result, depth first.
// Element types and dimensions must agree, layouts need not. COUNT_MISMATCH or
// SHAPE_MISMATCH, at "/inputs", "/outputs", "/inputs/2" or "/outputs/0". Keeps
// nothing. The depth of recursion is that of the program's shapes.
enum pod_code pod_check_launch(const struct pod_program_shape *shape,
                               const struct pod_launch_value *inputs,
                               size_t input_count,
                               const struct pod_launch_value *outputs,
                               size_t output_count, struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
