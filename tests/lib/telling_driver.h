// SPDX-License-Identifier: Apache-2.0
// A driver around another that tells together of the calls that went well in
// the same short while, as one for remote hosts tells of those that one message
// answers.
#ifndef POD_TESTS_TELLING_DRIVER_H
#define POD_TESTS_TELLING_DRIVER_H

#include "core/driver/driver.h"

// The driver becomes this one's, and is not to copy between hosts by itself.
// Aborts without memory.
struct pod_driver *telling_driver_new(struct pod_driver *owned_inner);
// The most calls that any of them has told of at once, of all that were made.
size_t telling_driver_most(void);

#endif
