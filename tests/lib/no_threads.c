// SPDX-License-Identifier: Apache-2.0
// The usual stack becomes larger than the address space.
#include "tests/lib/no_threads.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static size_t no_threads_usual; // bytes of a stack

static void no_threads_set(size_t bytes)
{
    pthread_attr_t attr;

    assert_int_equal(pthread_getattr_default_np(&attr), 0);
    assert_int_equal(pthread_attr_getstacksize(&attr, &no_threads_usual), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, bytes), 0);
    assert_int_equal(pthread_setattr_default_np(&attr), 0);
    assert_int_equal(pthread_attr_destroy(&attr), 0);
}

void no_threads_begin(void)
{
    no_threads_set((size_t)1 << 50);
}

void no_threads_end(void)
{
    no_threads_set(no_threads_usual);
}
