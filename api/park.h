// SPDX-License-Identifier: Apache-2.0
// Parking: a request that waits without holding a thread.
//
// A handler registers what it waits for (watch.h, or its stream), reads the
// present state, and parks if there is no news: in this order no change in
// between is missed. When it is woken its `resume` runs, which must look again
// (wakes may be spurious) and reply or park again. A client that hangs up while
// it is parked is noticed at once: the request then just ends (its deferred
// cleanups run). Closing only the sending half counts as hanging up.
#ifndef POD_API_PARK_H
#define POD_API_PARK_H

#include <stdint.h>

#include "api/http.h"

enum api_wake {
    API_WAKE_EVENT,   // something that was waited for
    API_WAKE_TIMEOUT, // the deadline
    API_WAKE_DRAIN,   // the server drains: answer with the present state; comes
                      // once for each request, which may park again
};

typedef void api_resume_fn(struct api_request *req, enum api_wake why);

// The monotonic time that deadlines are on.
int64_t api_now(const struct api_request *req);

// Parks until woken, or until `deadline_ns` (capped by limits.wait_ns from
// now, for the first park of the request; a deadline that has passed wakes at
// once with TIMEOUT). Error: TOO_MANY_WAITS, then nothing happened and the
// handler replies (api_problem gives 429 with Retry-After). A request that
// was parked before is not refused.
enum pod_code api_park(struct api_request *req, int64_t deadline_ns,
                       api_resume_fn *resume, struct pod_err *err)
    __attribute__((warn_unused_result));

// Wakes a parked request with API_WAKE_EVENT at this turn's end; several wakes
// of a turn are one. Not parked: remembered, the next park returns at once.
void api_wake(struct api_request *req);

// The same from any thread. The request must be alive: the caller stops
// calling before the request's deferred cleanup returns.
void api_wake_from_thread(struct api_request *req);

#endif
