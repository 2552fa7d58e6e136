// SPDX-License-Identifier: Apache-2.0
// A set of numbers as intervals, which takes little memory for operations that
// come and end mostly in order. Not thread-safe.
#ifndef POD_PROTO_WORKER_IDS_H
#define POD_PROTO_WORKER_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct worker_interval {
    uint64_t first;
    uint64_t last;
};

// Zero-initialise it.
struct worker_ids {
    struct worker_interval *items; // rising, apart from each other
    size_t count;
    size_t capacity;
};

void worker_ids_fini(struct worker_ids *ids);
// Makes room for `room` adds, which then cannot fail. False: no memory, or
// there could be more than `limit` intervals.
bool worker_ids_reserve(struct worker_ids *ids, size_t room, size_t limit)
    __attribute__((warn_unused_result));
// Adds a number; room was reserved for it.
void worker_ids_add(struct worker_ids *ids, uint64_t number);
bool worker_ids_has(const struct worker_ids *ids, uint64_t number);
// Takes out all numbers below this one.
void worker_ids_drop_below(struct worker_ids *ids, uint64_t number);

#endif
