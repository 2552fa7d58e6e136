// SPDX-License-Identifier: Apache-2.0
// Arrays as JSON: nested lists of values, to and from dense row-major bytes.
//
// S64 and U64 elements are strings on the way out, strings or integers on the
// way in. NaN and the infinities are the strings "NaN", "Infinity",
// "-Infinity". PRED is true or false. A complex number is a list of its two
// parts. A scalar is its value alone. Locale-proof, thread-safe.
#ifndef POD_API_VALUES_H
#define POD_API_VALUES_H

#include <jansson.h>

#include "core/base/err.h"
#include "core/base/str.h"
#include "core/hlo/shape.h"

enum { API_VALUES_MAX = 200000 };

// Whether an array is small enough for JSON: neither its elements nor the
// lists of any level (an array of size 0 may have many) exceed API_VALUES_MAX.
bool api_values_fit(const struct pod_shape *shape);
// OUT_OF_RANGE at `pointer` if it is not: before memory is taken for it.
enum pod_code api_values_check(const struct pod_shape *shape,
                               const char *pointer, struct pod_err *err)
    __attribute__((warn_unused_result));

// Writes pod_shape_bytes(shape) bytes. The nesting must be the shape's.
// Errors: WRONG_TYPE, SHAPE_MISMATCH, OUT_OF_RANGE, BAD_VALUE; err.pointer is
// `pointer` followed by the place.
enum pod_code
api_values_read(const json_t *values, const struct pod_shape *shape,
                const char *pointer, void *out, struct pod_err *err)
    __attribute__((warn_unused_result));

// One element of pod_type_bytes(type) bytes.
enum pod_code api_values_read_one(const json_t *value, enum pod_type type,
                                  const char *pointer, unsigned char out[16],
                                  struct pod_err *err)
    __attribute__((warn_unused_result));

// Appends the JSON text of an array that fits. It is written here and not by
// jansson, whose one precision for all reals cannot print the shortest digits.
void api_values_print(const struct pod_shape *shape, const void *data,
                      struct pod_str *out);

#endif
