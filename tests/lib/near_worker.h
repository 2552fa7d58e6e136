// SPDX-License-Identifier: Apache-2.0
// A worker in the test's own process, on a free port of 127.0.0.1: the core of
// podworker and one of its services, around a driver of the test's choice.
#ifndef POD_TESTS_NEAR_WORKER_H
#define POD_TESTS_NEAR_WORKER_H

#include "core/driver/driver.h"
#include "core/driver/rendezvous.h"
#include "proto/slice.h"

struct near_worker;

// `hub`: where the driver's gangs meet, or NULL; a reference is taken. The
// driver becomes the worker's. Aborts the test when it cannot be made.
struct near_worker *near_worker_start(struct pod_driver *owned_driver,
                                      struct pod_gang_hub *hub, uint32_t chips);
// The same with the original protocol alone.
struct near_worker *near_worker_start_plain(struct pod_driver *owned_driver,
                                            const struct worker_slice *slice);
const char *near_worker_address(const struct near_worker *near);
void near_worker_stop(struct near_worker *near); // NULL is allowed

#endif
