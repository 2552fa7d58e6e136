// SPDX-License-Identifier: Apache-2.0
// Shapes in requests: text, or an object of their parts.
#ifndef POD_API_SHAPE_JSON_H
#define POD_API_SHAPE_JSON_H

#include "api/json.h"
#include "core/hlo/shape.h"

// The member `name`: "f32[2,2]{1,0}" or {"element_type":"F32",
// "dimensions":[2,2],"layout":[1,0]} (layout: minor to major, optional).
// *out_given: it was there. Errors have the member's pointer.
enum pod_code api_read_shape(struct api_reader *reader, const char *name,
                             struct pod_shape *out, bool *out_given,
                             struct pod_err *err)
    __attribute__((warn_unused_result));

// An element type by its name in any case ("BF16"), or POD_TYPE_INVALID.
enum pod_type api_type_parse(const char *text);

#endif
