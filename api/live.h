// SPDX-License-Identifier: Apache-2.0
// Answers without end, such as a stream of changes: whatever there is to send
// is written as it comes.
//
// Such an answer sleeps while there is nothing to send, and takes no thread. A
// client that hangs up is noticed at once, one that does not read is cut off
// after limits.stall_ns; the request then just ends (its deferred cleanups
// run). All functions are for the loop's thread.
#ifndef POD_API_LIVE_H
#define POD_API_LIVE_H

#include <stddef.h>
#include <stdint.h>

#include "api/http.h"

// Writes at most `max` bytes (at least 1) and returns how many. 0: nothing now;
// it is called again after api_wake, at the time given to api_live_until, or
// when the server drains. API_LIVE_END: the answer is complete. API_LIVE_CUT:
// it cannot go on; the client sees that it is incomplete.
typedef ptrdiff_t api_live_fn(struct api_request *req, char *out, size_t max);
enum { API_LIVE_END = -1, API_LIVE_CUT = -2 };

// Takes one of the places for streams until the request ends. TOO_MANY_STREAMS:
// limits.streams are open, or limits.streams_per_address of this address; the
// handler then replies with that problem.
enum pod_code api_live_admit(struct api_request *req, struct pod_err *err)
    __attribute__((warn_unused_result));

// The reply. HEAD never calls `fill`.
void api_reply_live(struct api_request *req, int status, const char *type,
                    api_live_fn *fill);

// To be called by a `fill` that returns 0: when it is called again at the
// latest. Without it there is no such time.
void api_live_until(struct api_request *req, int64_t deadline_ns);

#endif
