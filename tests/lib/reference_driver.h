// SPDX-License-Identifier: Apache-2.0
// The in-process driver over the reference device, as a test wants it that is
// about something else: a host of its own, one core a chip, chips in a row.
#ifndef POD_TESTS_REFERENCE_DRIVER_H
#define POD_TESTS_REFERENCE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "core/driver/driver.h"
#include "core/driver/rendezvous.h"

enum { REFERENCE_DRIVER_CORES = 2 };

// A driver of one to REFERENCE_DRIVER_CORES cores with so many bytes each.
// `hub`: where its gangs meet, or NULL. Aborts when there is no memory.
struct pod_driver *reference_driver_new(uint32_t cores, uint64_t memory_bytes,
                                        struct pod_gang_hub *hub);

#endif
