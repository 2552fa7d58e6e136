// SPDX-License-Identifier: Apache-2.0
// The line of the log that each request leaves, the event "request".
//
// It is also the audit log: once somebody may be refused at all (not in
// --dev), a request that changes state or is refused (401, 403, 421, 429) is
// marked `audit` and stands at level info. An answer of 500 or above stands at
// warn, but for those that say "not now" (503) or "not yet" (504); all else at
// debug, because readers ask many thousand times a second. Tokens and bodies
// are never in it.
#ifndef POD_API_REQUEST_LOG_H
#define POD_API_REQUEST_LOG_H

#include "api/http.h"

// The request ends; `aborted`: before its answer had left whole.
void api_request_log(struct api_request *req, bool aborted);

#endif
