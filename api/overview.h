// SPDX-License-Identifier: Apache-2.0
// The pod in a page of text, for people.
#ifndef POD_API_OVERVIEW_H
#define POD_API_OVERVIEW_H

#include "api/http.h"
#include "core/base/str.h"

// Appends the overview: what there is, how it is, and what to try next.
enum pod_code api_overview_print(struct api_request *req, struct pod_str *out,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
