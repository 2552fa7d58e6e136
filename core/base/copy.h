// SPDX-License-Identifier: Apache-2.0
// Copies of memory that is big.
#ifndef POD_BASE_COPY_H
#define POD_BASE_COPY_H

#include <stddef.h>

// As memcpy: the two do not overlap, and may lie anywhere. What is copied goes
// to memory past the caches, if the processor can do that. So the lines of
// `to` are not read first, and the caches keep what they have, but who reads
// `to` next waits for memory: for data too big to stay in a cache. Other
// threads see the bytes as after memcpy. Any thread.
void pod_copy_past_caches(void *to, const void *from, size_t bytes);

#endif
