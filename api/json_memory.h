// SPDX-License-Identifier: Apache-2.0
// What jansson allocates, taken from memory that is given back all at once: it
// makes some twenty small blocks of an operation's text, and as many calls to
// allocate and free them one by one cost as much as parsing does.
#ifndef POD_API_JSON_MEMORY_H
#define POD_API_JSON_MEMORY_H

#include <jansson.h>

#include "api/memory.h"

// Tells jansson, once for the process; api_json_memory_begin does so too. Not
// while another thread uses jansson.
void api_json_memory_setup(void);

// From here to the end, all that jansson allocates in this thread is of
// `memory`, and nothing that it frees is given back. So what is made meanwhile
// ends with the memory: its last reference must not be dropped later, and
// nothing that was made before may lose its last reference meanwhile. Memory
// that is full or refused is as malloc that fails. Pairs may be nested; the
// end is given what the beginning returned.
struct api_memory *api_json_memory_begin(struct api_memory *memory)
    __attribute__((warn_unused_result));
void api_json_memory_end(struct api_memory *before);

// Dropping references to the value does nothing from now on: it ends with its
// memory. NULL is allowed.
void api_json_memory_last(json_t *json);

#endif
