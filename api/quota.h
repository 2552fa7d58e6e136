// SPDX-License-Identifier: Apache-2.0
// What one caller may ask for: requests a second, and requests at once.
//
// A caller is a token or a local user, and where there is neither a client
// address. Routes of scope NONE that are read (health, static files) are free.
// With a rate limit every answer says how much is left (RateLimit-Policy and
// RateLimit, as in the IETF's draft-ietf-httpapi-ratelimit-headers-10), and a
// refusal says with Retry-After when the next request will be taken.
#ifndef POD_API_QUOTA_H
#define POD_API_QUOTA_H

#include <stdbool.h>

#include "api/http.h"

// False: the request was answered 429, *err says why.
bool api_quota_admit(struct api_request *req, struct pod_err *err);
// The request ends.
void api_quota_leave(struct api_request *req);

#endif
