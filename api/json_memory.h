// SPDX-License-Identifier: Apache-2.0
// Lets jansson allocate from memory that is given back all at once: it makes
// some twenty small blocks for the text of one operation, and to allocate and
// free these one by one costs as much as parsing does.
#ifndef POD_API_JSON_MEMORY_H
#define POD_API_JSON_MEMORY_H

#include <jansson.h>

#include "api/memory.h"

// Sets jansson's allocator, once for the process; api_json_memory_begin does so
// too. Not while another thread uses jansson.
void api_json_memory_setup(void);

// From here to the end, all that jansson allocates in this thread comes from
// `memory`, and nothing that it frees is given back. So JSON made meanwhile
// ends with the memory, and its last reference must not be dropped later; nor
// may JSON made before lose its last reference meanwhile. A memory that is full
// or refused acts like a failing malloc. Pairs may be nested; the end takes
// what the beginning returned.
struct api_memory *api_json_memory_begin(struct api_memory *memory)
    __attribute__((warn_unused_result));
void api_json_memory_end(struct api_memory *before);

// Dropping references to the value does nothing from now on: it ends with its
// memory. NULL is allowed.
void api_json_memory_last(json_t *json);

#endif
