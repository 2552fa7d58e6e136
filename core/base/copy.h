// SPDX-License-Identifier: Apache-2.0
// Copying large blocks of memory.
#ifndef POD_BASE_COPY_H
#define POD_BASE_COPY_H

#include <stddef.h>

// As memcpy, for data too big to stay in a cache. The bytes bypass the caches
// where the processor can do that: the lines of `to` are not read first and the
// caches keep what they have, but the next reader of `to` has to wait for
// memory. Other threads see the bytes as after memcpy. Any thread.
void pod_copy_past_caches(void *to, const void *from, size_t bytes);

#endif
