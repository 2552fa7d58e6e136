// SPDX-License-Identifier: Apache-2.0
// Memory from the heap, with a switch that makes allocations fail in tests.
//
// All of core allocates through these. They return NULL when there is no
// memory (never abort), so that a caller can refuse the request at hand.
#ifndef POD_BASE_MEM_H
#define POD_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

// As malloc, but a request of 0 bytes gives a pointer too.
void *pod_malloc(size_t bytes) __attribute__((malloc, warn_unused_result));
// `count` zeroed elements; NULL also when count * bytes overflows.
void *pod_calloc(size_t count, size_t bytes)
    __attribute__((malloc, warn_unused_result));
// As realloc for `count` elements of `bytes`; on failure the old block stays.
void *pod_realloc(void *block, size_t count, size_t bytes)
    __attribute__((warn_unused_result));
// A copy of `length` bytes with a NUL after them.
char *pod_strndup(const char *text, size_t length)
    __attribute__((malloc, warn_unused_result));
char *pod_strdup(const char *text) __attribute__((malloc, warn_unused_result));
// NULL is allowed.
void pod_free(void *block);

// A hint that some bytes will be looked at soon: they come from memory to the
// processor, meanwhile. For any thread for which they are there.
static inline void pod_mem_expect(const void *place, size_t bytes)
{
    enum { MEM_LINE_BYTES = 64 };

    for (size_t i = 0; i < bytes; i += MEM_LINE_BYTES)
        __builtin_prefetch((const char *)place + i, 1);
}

// The C library keeps freed memory for later allocations. That is fast, but
// after something large has ended it is a lot. This says when to give memory
// back to the system (malloc_trim, for which other threads that allocate may
// have to wait): when far fewer blocks live than before, and their number has
// stopped falling.
struct pod_mem_watch { // zero-initialised
    long most;         // since memory was given back last
    long last;
};

// Call it now and then with pod_mem_live(), from one thread.
bool pod_mem_watch_due(struct pod_mem_watch *watch, long live);

// Tests: let `successes` more allocations of the whole process succeed, then
// fail `failures` of them. (-1, 0) turns it off, the state at start.
void pod_mem_fail_after(long successes, long failures);
// How many blocks are allocated now.
long pod_mem_live(void);

#endif
