// SPDX-License-Identifier: Apache-2.0
#include "core/base/lock.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"

// A call of pthread fails here only through a bug of ours (or memory that is
// overwritten): going on would lose the exclusion, so the program ends.
static void lock_must(int result, const char *call, const char *name)
{
    if (result == 0)
        return;
    (void)fprintf(stderr, "%s \"%s\": %s\n", call, name, strerror(result));
    abort();
}

#ifdef POD_CHECK_LOCKS

enum { LOCK_HELD_MAX = 16 };

// The mutexes this thread holds, in the order taken: ranks only rise.
static _Thread_local struct {
    const struct pod_mutex *items[LOCK_HELD_MAX];
    size_t count;
} lock_held;

static void lock_check(const struct pod_mutex *mutex)
{
    if (lock_held.count == LOCK_HELD_MAX) {
        fprintf(stderr, "lock \"%s\": more than %d are held\n", mutex->name,
                LOCK_HELD_MAX);
        abort();
    }
    if (lock_held.count == 0)
        return;
    const struct pod_mutex *top = lock_held.items[lock_held.count - 1];
    if (top->rank < mutex->rank)
        return;
    fprintf(stderr, "lock \"%s\" (rank %d) taken while \"%s\" (rank %d) held\n",
            mutex->name, mutex->rank, top->name, top->rank);
    abort();
}

static void lock_push(const struct pod_mutex *mutex)
{
    lock_held.items[lock_held.count++] = mutex;
}

// Locks need not be given back in reverse order.
static void lock_drop(const struct pod_mutex *mutex)
{
    size_t i = lock_held.count;

    while (i > 0 && lock_held.items[i - 1] != mutex)
        i--;
    if (i == 0) {
        fprintf(stderr, "lock \"%s\" is not held by this thread\n",
                mutex->name);
        abort();
    }
    size_t above = lock_held.count - i;
    memmove(&lock_held.items[i - 1], &lock_held.items[i],
            above * sizeof(lock_held.items[0]));
    lock_held.count--;
}

#else

static void lock_check(const struct pod_mutex *mutex)
{
    (void)mutex;
}

static void lock_push(const struct pod_mutex *mutex)
{
    (void)mutex;
}

static void lock_drop(const struct pod_mutex *mutex)
{
    (void)mutex;
}

#endif

void pod_mutex_init(struct pod_mutex *mutex, int rank, const char *name)
{
    pthread_mutexattr_t attr;

    mutex->rank = rank;
    mutex->name = name;
    // Locks are held briefly: a moment of spinning is cheaper than sleeping.
    lock_must(pthread_mutexattr_init(&attr), "mutex attr", name);
    lock_must(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP),
              "mutex attr", name);
    lock_must(pthread_mutex_init(&mutex->os, &attr), "mutex init", name);
    (void)pthread_mutexattr_destroy(&attr);
}

void pod_mutex_fini(struct pod_mutex *mutex)
{
    lock_must(pthread_mutex_destroy(&mutex->os), "mutex fini", mutex->name);
}

void pod_mutex_lock(struct pod_mutex *mutex)
{
    // Before the wait: a wrong order shall be named, not hang.
    lock_check(mutex);
    lock_must(pthread_mutex_lock(&mutex->os), "lock", mutex->name);
    lock_push(mutex);
}

void pod_mutex_unlock(struct pod_mutex *mutex)
{
    lock_drop(mutex);
    lock_must(pthread_mutex_unlock(&mutex->os), "unlock", mutex->name);
}

void pod_cond_init(struct pod_cond *cond)
{
    pthread_condattr_t attr;

    lock_must(pthread_condattr_init(&attr), "cond init", "attr");
    lock_must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), "cond init",
              "clock");
    lock_must(pthread_cond_init(&cond->os, &attr), "cond init", "cond");
    (void)pthread_condattr_destroy(&attr);
}

void pod_cond_fini(struct pod_cond *cond)
{
    lock_must(pthread_cond_destroy(&cond->os), "cond fini", "cond");
}

void pod_cond_signal(struct pod_cond *cond)
{
    lock_must(pthread_cond_signal(&cond->os), "cond signal", "cond");
}

void pod_cond_broadcast(struct pod_cond *cond)
{
    lock_must(pthread_cond_broadcast(&cond->os), "cond broadcast", "cond");
}

void pod_cond_wait(struct pod_cond *cond, struct pod_mutex *mutex)
{
    // The wait gives the mutex back and takes it again.
    lock_drop(mutex);
    lock_check(mutex);
    lock_must(pthread_cond_wait(&cond->os, &mutex->os), "wait", mutex->name);
    lock_push(mutex);
}

bool pod_cond_wait_until(struct pod_cond *cond, struct pod_mutex *mutex,
                         int64_t mono_ns)
{
    if (mono_ns == POD_NEVER) {
        pod_cond_wait(cond, mutex);
        return true;
    }
    if (mono_ns < 0)
        mono_ns = 0;
    struct timespec until = {
        .tv_sec = (time_t)(mono_ns / POD_NS_PER_S),
        .tv_nsec = (long)(mono_ns % POD_NS_PER_S),
    };
    lock_drop(mutex);
    lock_check(mutex);
    int result = pthread_cond_timedwait(&cond->os, &mutex->os, &until);
    lock_push(mutex);
    if (result == ETIMEDOUT)
        return false;
    lock_must(result, "wait", mutex->name);
    return true;
}
