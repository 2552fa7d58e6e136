// SPDX-License-Identifier: Apache-2.0
// Mutexes with ranks, and condition variables on the monotonic clock.
//
// A thread may take a mutex only while every mutex it holds has a lower rank.
// Debug builds (POD_CHECK_LOCKS) check that and abort with both names.
// The mutex is the first field of the struct it guards; functions that need
// it held end in _locked.
#ifndef POD_BASE_LOCK_H
#define POD_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

// Ranks, outer first. Leaf locks of one kind are never nested.
enum pod_lock_rank {
    POD_RANK_WORK = 5,     // one piece of work of the HTTP server's own thread
    POD_RANK_JOIN = 8,     // hosts are added one at a time
    POD_RANK_ENGINE = 10,  // struct pod: all pod state
    POD_RANK_OUTBOX = 20,  // one host's outbox
    POD_RANK_DRIVER = 30,  // a driver's own state
    POD_RANK_DEVICE = 40,  // a device's own state
    POD_RANK_GANG = 50,    // the meeting point of a collective
    POD_RANK_STREAM = 60,  // chunks between a transfer and its consumer
    POD_RANK_PARKED = 70,  // the HTTP server's list of parked requests
    POD_RANK_RPC = 75,     // one gRPC stream: its write queue
    POD_RANK_STAGING = 80, // the byte budget
    POD_RANK_LOG = 90,
};

struct pod_mutex {
    pthread_mutex_t os;
    int rank;
    const char *name;
};

// `name` must live as long as the mutex.
void pod_mutex_init(struct pod_mutex *mutex, int rank, const char *name);
void pod_mutex_fini(struct pod_mutex *mutex);
void pod_mutex_lock(struct pod_mutex *mutex);
void pod_mutex_unlock(struct pod_mutex *mutex);

struct pod_cond {
    pthread_cond_t os;
};

void pod_cond_init(struct pod_cond *cond);
void pod_cond_fini(struct pod_cond *cond);
void pod_cond_signal(struct pod_cond *cond);
void pod_cond_broadcast(struct pod_cond *cond);
void pod_cond_wait(struct pod_cond *cond, struct pod_mutex *mutex);
// Waits until an absolute time of CLOCK_MONOTONIC; false: the time came first.
bool pod_cond_wait_until(struct pod_cond *cond, struct pod_mutex *mutex,
                         int64_t mono_ns);

#endif
