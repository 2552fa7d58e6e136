// SPDX-License-Identifier: Apache-2.0
// What gRPC must have done once before anything connects.
//
// gRPC 1.51 looks at the errno of a connect() only after it has taken locks,
// and a lock that is waited for may set errno. It does so the first time in a
// process: Abseil then looks for the frequency of the processor, in files that
// most machines do not have. A connection that was well under way is then taken
// for one that failed with "No such file or directory". So that first time is
// had here.
#include <grpc/support/sync.h>
#include <grpc/support/time.h>
#include <pthread.h>

#include "proto/rpc_internal.h"

enum { WARM_THREADS = 2 };

struct warm_meeting {
    gpr_mu lock;
    gpr_cv all_came;
    atomic_int missing; // race detectors do not know the lock
};

// The last one to come wakes the others while it holds the lock. Abseil then
// has them wait for the lock, and does for the second what it does for any that
// waits behind another: the frequency is for that.
static void warm_arrive_locked(struct warm_meeting *meeting)
{
    if (atomic_fetch_sub(&meeting->missing, 1) == 1)
        gpr_cv_broadcast(&meeting->all_came);
    while (atomic_load(&meeting->missing) > 0)
        (void)gpr_cv_wait(&meeting->all_came, &meeting->lock,
                          gpr_inf_future(GPR_CLOCK_MONOTONIC));
}

static void *warm_main(void *arg)
{
    struct warm_meeting *meeting = arg;

    gpr_mu_lock(&meeting->lock);
    warm_arrive_locked(meeting);
    gpr_mu_unlock(&meeting->lock);
    return NULL;
}

void rpc_warm_up(void)
{
    struct warm_meeting meeting = {.missing = 1};
    pthread_t threads[WARM_THREADS];
    int count = 0;

    gpr_mu_init(&meeting.lock);
    gpr_cv_init(&meeting.all_came);
    gpr_mu_lock(&meeting.lock);
    // Where there are no threads for this there is none for a loop.
    while (count < WARM_THREADS &&
           pthread_create(&threads[count], NULL, warm_main, &meeting) == 0)
        count++;
    (void)atomic_fetch_add(&meeting.missing, count);
    warm_arrive_locked(&meeting);
    gpr_mu_unlock(&meeting.lock);
    while (count > 0)
        (void)pthread_join(threads[--count], NULL);
    gpr_cv_destroy(&meeting.all_came);
    gpr_mu_destroy(&meeting.lock);
}
