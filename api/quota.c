// SPDX-License-Identifier: Apache-2.0
#include "api/quota.h"

#include <inttypes.h>

#include "api/http_internal.h"
#include "core/base/clock.h"
#include "core/base/mem.h"

// A caller with requests in flight.
struct api_caller {
    uint64_t key;
    unsigned requests;
};

static unsigned quota_seconds(int64_t ns)
{
    return (unsigned)((ns + POD_NS_PER_S - 1) / POD_NS_PER_S);
}

static void quota_refuse(struct api_request *req, const char *limit,
                         uint64_t used, uint64_t max, unsigned retry_s,
                         struct pod_err *err)
{
    struct api_problem more = {.retry_after_s = retry_s};

    (void)pod_err_limit(err, POD_REASON_TOO_MANY_REQUESTS, limit, used, max);
    api_problem_with(req, err, &more);
}

static uint64_t quota_key(const struct api_request *req)
{
    return req->caller_key != 0 ? req->caller_key : req->conn->address->key;
}

static bool quota_rate(struct api_request *req, struct pod_err *err)
{
    struct api_rate *rate = &req->server->rate;
    struct api_rate_state state;

    if (rate->limit == 0)
        return true;
    bool taken =
        api_rate_take(rate, quota_key(req), req->server->now_ns, &state);
    api_header(req, "RateLimit-Policy", "\"default\";q=%" PRIu32 ";w=1",
               rate->limit);
    api_header(req, "RateLimit", "\"default\";r=%" PRIu32 ";t=%u",
               state.remaining, quota_seconds(state.full_ns));
    if (!taken)
        quota_refuse(req, "rate-limit", rate->limit, rate->limit,
                     quota_seconds(state.retry_ns), err);
    return taken;
}

// The caller's entry; NULL: no memory.
static struct api_caller *quota_caller(struct api_server *server, uint64_t key)
{
    struct api_caller *caller = pod_map_get(&server->callers, key);

    if (caller != NULL)
        return caller;
    caller = pod_calloc(1, sizeof(*caller));
    if (caller == NULL)
        return NULL;
    caller->key = key;
    if (pod_map_put(&server->callers, key, caller))
        return caller;
    pod_free(caller);
    return NULL;
}

static bool quota_in_flight(struct api_request *req, struct pod_err *err)
{
    unsigned max = req->server->limits.requests_per_token;

    if (max == 0 || req->caller_key == 0)
        return true;
    struct api_caller *caller = quota_caller(req->server, req->caller_key);
    if (caller == NULL) {
        (void)pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
        api_problem(req, err);
        return false;
    }
    if (caller->requests >= max) {
        quota_refuse(req, "requests-per-token", caller->requests, max, 1, err);
        return false;
    }
    caller->requests++;
    req->caller = caller;
    return true;
}

bool api_quota_admit(struct api_request *req, struct pod_err *err)
{
    const struct api_route *route = req->match.route;

    if (route != NULL && route->scope == API_SCOPE_NONE &&
        route->method == API_GET)
        return true;
    return quota_rate(req, err) && quota_in_flight(req, err);
}

void api_quota_leave(struct api_request *req)
{
    struct api_caller *caller = req->caller;

    if (caller == NULL || --caller->requests > 0)
        return;
    (void)pod_map_remove(&req->server->callers, caller->key);
    pod_free(caller);
}
