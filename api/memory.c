// SPDX-License-Identifier: Apache-2.0
#include "api/memory.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/pod/pod.h"

enum { MEMORY_FIRST = 1024, MEMORY_MOST = 256 * 1024 };

struct api_memory_chunk {
    struct api_memory_chunk *next;
    size_t size; // of `bytes`
    _Alignas(max_align_t) unsigned char bytes[];
};

struct api_memory_cleanup {
    void (*run)(void *arg);
    void *arg;
    struct api_memory_cleanup *next;
};

// What comes next is taken from the newest chunk.
static void memory_open(struct api_memory *memory)
{
    struct api_memory_chunk *chunk = memory->chunks;

    memory->next = chunk != NULL ? chunk->bytes : NULL;
    memory->left = chunk != NULL ? chunk->size : 0;
    api_memory_bar(memory->next, memory->left);
}

// Frees the first chunk of a list.
static void memory_shrink(struct api_memory *memory,
                          struct api_memory_chunk **list)
{
    struct api_memory_chunk *chunk = *list;

    *list = chunk->next;
    memory->bytes -= chunk->size;
    if (memory->budget != NULL)
        pod_staging_give(memory->budget, chunk->size);
    api_memory_bare(chunk->bytes, chunk->size);
    pod_free(chunk);
}

void api_memory_reset(struct api_memory *memory)
{
    for (struct api_memory_cleanup *c = memory->cleanups; c != NULL;
         c = c->next)
        c->run(c->arg);
    memory->cleanups = NULL;
    memory->failed = false;
    while (memory->chunks != NULL && memory->chunks->size > MEMORY_MOST)
        memory_shrink(memory, &memory->chunks);
    while (memory->chunks != NULL && memory->chunks->next != NULL)
        memory_shrink(memory, &memory->chunks->next);
    memory_open(memory);
}

void api_memory_fini(struct api_memory *memory)
{
    api_memory_reset(memory);
    if (memory->chunks != NULL)
        memory_shrink(memory, &memory->chunks);
    memory_open(memory);
}

// A chunk for at least `bytes`; they double up to a limit.
static bool memory_grow(struct api_memory *memory, size_t bytes)
{
    size_t size = memory->bytes < MEMORY_FIRST ? MEMORY_FIRST : memory->bytes;
    struct api_memory_chunk *chunk;

    size = size > MEMORY_MOST ? MEMORY_MOST : size;
    size = size > bytes ? size : bytes;
    if (size > SIZE_MAX - sizeof(*chunk))
        return false;
    if (memory->budget != NULL && !pod_staging_take(memory->budget, size)) {
        memory->refused = size;
        return false;
    }
    chunk = pod_malloc(sizeof(*chunk) + size);
    if (chunk == NULL) {
        if (memory->budget != NULL)
            pod_staging_give(memory->budget, size);
        return false;
    }
    chunk->size = size;
    chunk->next = memory->chunks;
    memory->chunks = chunk;
    memory->bytes += size;
    memory_open(memory);
    return true;
}

void *api_memory_take_more(struct api_memory *memory, size_t bytes)
{
    size_t align = _Alignof(max_align_t);
    size_t room;

    if (!__builtin_add_overflow(bytes, align - 1 + API_MEMORY_GAP, &room) &&
        memory_grow(memory, room & ~(align - 1)))
        return api_memory_take(memory, bytes);
    memory->failed = true;
    return NULL;
}

void *api_memory_alloc(struct api_memory *memory, size_t bytes)
{
    void *block = api_memory_take(memory, bytes);

    return block != NULL ? memset(block, 0, bytes) : NULL;
}

char *api_memory_strdup(struct api_memory *memory, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = api_memory_alloc(memory, bytes);

    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

bool api_memory_defer(struct api_memory *memory, void (*cleanup)(void *arg),
                      void *arg)
{
    struct api_memory_cleanup *entry = api_memory_alloc(memory, sizeof(*entry));

    if (entry == NULL) {
        cleanup(arg);
        return false;
    }
    *entry = (struct api_memory_cleanup){
        .run = cleanup, .arg = arg, .next = memory->cleanups};
    memory->cleanups = entry;
    return true;
}

enum pod_code api_memory_error(const struct api_memory *memory,
                               struct pod_err *err)
{
    if (memory->refused > 0)
        return api_memory_refuse(memory, memory->budget, memory->refused, err);
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
}

enum pod_code api_memory_refuse(const struct api_memory *memory,
                                struct pod *pod, size_t bytes,
                                struct pod_err *err)
{
    uint64_t used = 0;
    uint64_t max = 0;
    uint64_t own = memory->held;

    if (memory->budget != NULL)
        own += memory->bytes;
    pod_staging_usage(pod, &used, &max);
    if (own > max || bytes > max - own)
        return pod_err_set(err, POD_REASON_BODY_TOO_LARGE,
                           "what the body asks for does not fit the whole "
                           "staging budget of %" PRIu64 " bytes: send it in "
                           "parts",
                           max);
    return pod_err_set(err, POD_REASON_STAGING_FULL,
                       "other requests hold %" PRIu64 " of the %" PRIu64
                       " staging bytes, and %zu more are needed",
                       used > own ? used - own : 0, max, bytes);
}

static void memory_end(void *memory)
{
    api_memory_fini(memory);
}

struct api_memory *api_memory_of(struct api_request *req)
{
    struct api_memory *memory = api_alloc(req, sizeof(*memory));

    return memory != NULL && api_defer(req, memory_end, memory) ? memory : NULL;
}
