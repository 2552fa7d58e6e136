// SPDX-License-Identifier: Apache-2.0
// Ids in the texts of drivers.
//
// A driver names operations and handles as users do, "op-17", "buf-17",
// "prog-17", "load-17", by the numbers of its calls. Who gives it other numbers
// than its own clients know puts theirs in before it hands a text on.
#ifndef POD_DRIVER_TEXT_IDS_H
#define POD_DRIVER_TEXT_IDS_H

#include <stdint.h>

#include "core/base/err.h"

// Replaces each id in the text by that of `number(arg, id)`, or by words
// ("another buffer") where it gives 0. What does not fit is cut. At most
// POD_TEXT_IDS_MAX are looked at, the others become words.
enum { POD_TEXT_IDS_MAX = 8 };
void pod_text_ids_replace(struct pod_err *err,
                          uint64_t (*number)(void *arg, uint64_t number),
                          void *arg);

#endif
