// SPDX-License-Identifier: Apache-2.0
// The numbers of operations that failed. A call that waits for one may be on
// its way here, and must fail without effect. The worker knows that of those it
// was told of, for as long as it is not told to forget them; but not of what
// was refused here, nor of what it was told to forget.
#include <inttypes.h>

#include "proto/grpc_driver_internal.h"

// So many stretches of numbers. Few failures stand alone, and who waits for one
// came soon after it: if there are more, the oldest are forgotten.
enum { FAILED_STRETCHES = 4096 };

void gd_failed_note_locked(struct gd *driver, uint64_t op)
{
    struct worker_ids *numbers = &driver->failed_numbers;

    while (!worker_ids_reserve(numbers, 1, FAILED_STRETCHES)) {
        if (numbers->count == 0)
            return; // no memory at all
        worker_ids_drop_below(numbers, numbers->items[0].last + 1);
    }
    worker_ids_add(numbers, op);
}

enum pod_code gd_failed_check_locked(const struct gd *driver,
                                     const struct pod_driver_call *call,
                                     struct pod_err *err)
{
    const struct worker_ids *numbers = &driver->failed_numbers;

    for (size_t i = 0; i < call->wait_count && numbers->count > 0; i++) {
        uint64_t op = call->waits[i];
        if (gd_wait_locked(driver, op) == 0 && worker_ids_has(numbers, op))
            return pod_err_set(err, POD_REASON_DEPENDENCY_EXPIRED,
                               "op-%" PRIu64 ", which it waits for, has failed",
                               op);
    }
    return POD_OK;
}
