// SPDX-License-Identifier: Apache-2.0
// Memory that is given back all at once. What is read from a body lives in such
// a memory, so that reading needs no request and can be done by another thread.
#ifndef POD_API_MEMORY_H
#define POD_API_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "api/http.h"

struct pod;
struct api_memory_chunk;
struct api_memory_cleanup;

// Zero-initialise it. One thread at a time.
struct api_memory {
    struct pod *budget; // chunks are counted as staging bytes of it; NULL: not
    bool failed;        // there was none left once
    size_t refused;     // bytes the budget had no room for; 0: none
    size_t held;        // of the budget by blobs that end with this memory
    struct api_memory_chunk *chunks;
    struct api_memory_cleanup *cleanups;
    unsigned char *next; // the rest of the newest chunk
    size_t left;
    size_t bytes; // of all chunks
};

// Runs what was deferred, the last one first, and frees everything.
void api_memory_fini(struct api_memory *memory);
// The same, but a chunk is kept for what comes next.
void api_memory_reset(struct api_memory *memory);
// Zeroed; NULL: no memory, or no room in the budget.
void *api_memory_alloc(struct api_memory *memory, size_t bytes);
// The same, not zeroed.
static inline void *api_memory_take(struct api_memory *memory, size_t bytes);
char *api_memory_strdup(struct api_memory *memory, const char *text);
// Registers `cleanup(arg)` to be called at the end. False: no memory; then it
// has already been called.
bool api_memory_defer(struct api_memory *memory, void (*cleanup)(void *arg),
                      void *arg);

// The error to report when a function above returned NULL: that of
// api_memory_refuse, or OUT_OF_MEMORY.
enum pod_code api_memory_error(const struct api_memory *memory,
                               struct pod_err *err);
// Reports that the pod's staging budget has no room for so many bytes:
// STAGING_FULL, or BODY_TOO_LARGE if they exceed the whole budget.
enum pod_code api_memory_refuse(const struct api_memory *memory,
                                struct pod *pod, size_t bytes,
                                struct pod_err *err);

// A new memory that ends with the request; NULL: no memory.
struct api_memory *api_memory_of(struct api_request *req);

// ------------------------------------------------------------ how it is done

// The address sanitizer is told what must not be touched: the rest of a chunk,
// and a gap behind each block.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define API_MEMORY_WATCHED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define API_MEMORY_WATCHED
#endif

#ifdef API_MEMORY_WATCHED
#include <sanitizer/asan_interface.h>
enum { API_MEMORY_GAP = 16 };
#define api_memory_bar(start, bytes)  ASAN_POISON_MEMORY_REGION(start, bytes)
#define api_memory_bare(start, bytes) ASAN_UNPOISON_MEMORY_REGION(start, bytes)
#else
enum { API_MEMORY_GAP = 0 };
#define api_memory_bar(start, bytes)  ((void)0)
#define api_memory_bare(start, bytes) ((void)0)
#endif

void *api_memory_take_more(struct api_memory *memory, size_t bytes);

static inline void *api_memory_take(struct api_memory *memory, size_t bytes)
{
    const size_t align = _Alignof(max_align_t);
    unsigned char *block = memory->next;

    // What is left is a multiple of the alignment.
    if (bytes > memory->left || block == NULL)
        return api_memory_take_more(memory, bytes);
    size_t whole = ((bytes + align - 1) & ~(align - 1)) + API_MEMORY_GAP;
    if (API_MEMORY_GAP > 0 && whole > memory->left)
        return api_memory_take_more(memory, bytes);
    memory->next = block + whole;
    memory->left -= whole;
    api_memory_bare(block, bytes);
    return block;
}

#endif
