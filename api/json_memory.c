// SPDX-License-Identifier: Apache-2.0
#include "api/json_memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

static pthread_once_t json_memory_once = PTHREAD_ONCE_INIT;
static _Thread_local struct api_memory *json_memory; // NULL: the heap

static void *json_memory_take(size_t bytes)
{
    return json_memory != NULL ? api_memory_take(json_memory, bytes)
                               : malloc(bytes);
}

static void json_memory_drop(void *block)
{
    if (json_memory == NULL)
        free(block);
}

static void json_memory_install(void)
{
    json_set_alloc_funcs(json_memory_take, json_memory_drop);
}

void api_json_memory_setup(void)
{
    (void)pthread_once(&json_memory_once, json_memory_install);
}

struct api_memory *api_json_memory_begin(struct api_memory *memory)
{
    struct api_memory *before = json_memory;

    api_json_memory_setup();
    json_memory = memory;
    return before;
}

void api_json_memory_end(struct api_memory *before)
{
    json_memory = before;
}

// Those of true, false and null are like that already, and shared by threads.
void api_json_memory_last(json_t *json)
{
    if (json != NULL && json->refcount != SIZE_MAX)
        json->refcount = SIZE_MAX;
}
