// SPDX-License-Identifier: Apache-2.0
#include "core/base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MEM_SMALL_BYTES = 1024 };
// Some hundred bytes each: not worth a pause for less.
enum { MEM_WATCH_BLOCKS = 250000 };

static atomic_long mem_live;

// Fault injection: allocations that may still succeed (-1: all), then those
// that must fail.
static atomic_long mem_successes = -1;
static atomic_long mem_failures;

// Takes one off a counter; false when it is not above zero.
static bool mem_take(atomic_long *counter)
{
    long left = atomic_load_explicit(counter, memory_order_relaxed);

    while (left > 0) {
        if (atomic_compare_exchange_weak(counter, &left, left - 1))
            return true;
    }
    return false;
}

static bool mem_must_fail(void)
{
    if (atomic_load_explicit(&mem_failures, memory_order_relaxed) <= 0)
        return false;
    if (mem_take(&mem_successes))
        return false;
    return mem_take(&mem_failures);
}

static void *mem_counted(void *block)
{
    if (block != NULL)
        atomic_fetch_add_explicit(&mem_live, 1, memory_order_relaxed);
    return block;
}

void *pod_malloc(size_t bytes)
{
    if (mem_must_fail())
        return NULL;
    return mem_counted(malloc(bytes > 0 ? bytes : 1));
}

// calloc of the C library passes the thread's own store of small blocks by.
static void *mem_small_zeros(size_t bytes)
{
    void *block = malloc(bytes > 0 ? bytes : 1);

    if (block != NULL)
        memset(block, 0, bytes);
    return block;
}

void *pod_calloc(size_t count, size_t bytes)
{
    size_t total;

    if (__builtin_mul_overflow(count, bytes, &total) || mem_must_fail())
        return NULL;
    return mem_counted(total <= MEM_SMALL_BYTES ? mem_small_zeros(total)
                                                : calloc(total, 1));
}

void *pod_realloc(void *block, size_t count, size_t bytes)
{
    size_t total;

    if (__builtin_mul_overflow(count, bytes, &total) || mem_must_fail())
        return NULL;
    if (total == 0)
        total = 1;
    if (block == NULL)
        return mem_counted(malloc(total));
    return realloc(block, total);
}

char *pod_strndup(const char *text, size_t length)
{
    size_t bytes;

    if (__builtin_add_overflow(length, 1, &bytes))
        return NULL;
    char *copy = pod_malloc(bytes);
    if (copy == NULL)
        return NULL;
    if (length > 0)
        memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *pod_strdup(const char *text)
{
    return pod_strndup(text, strlen(text));
}

void pod_free(void *block)
{
    if (block == NULL)
        return;
    atomic_fetch_sub_explicit(&mem_live, 1, memory_order_relaxed);
    free(block);
}

void pod_mem_fail_after(long successes, long failures)
{
    atomic_store(&mem_failures, 0);
    atomic_store(&mem_successes, successes);
    atomic_store(&mem_failures, failures);
}

long pod_mem_live(void)
{
    return atomic_load(&mem_live);
}

bool pod_mem_watch_due(struct pod_mem_watch *watch, long live)
{
    bool falls = live < watch->last;

    watch->last = live;
    if (live > watch->most)
        watch->most = live;
    if (falls || watch->most - live < MEM_WATCH_BLOCKS ||
        live > watch->most / 2)
        return false;
    watch->most = live;
    return true;
}
