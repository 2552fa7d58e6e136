// SPDX-License-Identifier: Apache-2.0
#include "api/live.h"

#include "api/http_internal.h"
#include "core/base/clock.h"

// Only clients of HTTP/1.0 are served from it; for the others libmicrohttpd
// has `fill` write into the connection's own memory.
enum { LIVE_BLOCK_BYTES = 2048 };

static void live_leave(void *arg)
{
    struct api_request *req = arg;

    req->conn->address->streams--;
    atomic_fetch_sub(&req->server->streams, 1);
}

enum pod_code api_live_admit(struct api_request *req, struct pod_err *err)
{
    struct api_server *server = req->server;
    struct api_address *address = req->conn->address;
    uint64_t streams = atomic_load(&server->streams);

    if (streams >= server->limits.streams)
        return pod_err_limit(err, POD_REASON_TOO_MANY_STREAMS, "streams",
                             streams, server->limits.streams);
    if (address->streams >= server->limits.streams_per_address)
        return pod_err_limit(err, POD_REASON_TOO_MANY_STREAMS,
                             "streams-per-address", address->streams,
                             server->limits.streams_per_address);
    atomic_fetch_add(&server->streams, 1);
    address->streams++;
    if (api_defer(req, live_leave, req))
        return POD_OK;
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory for a stream");
}

void api_live_until(struct api_request *req, int64_t deadline_ns)
{
    req->live_until_ns = deadline_ns;
}

static ssize_t live_sleep(struct api_request *req)
{
    if (!api_park_alarm(req, req->live_until_ns))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    req->stream_starved = true;
    req->woken = false;
    api_suspend(req);
    if (req->live_until_ns <= req->server->now_ns)
        api_wake_soon(req, API_WAKE_TIMEOUT);
    return 0;
}

static ssize_t live_read(void *arg, uint64_t at, char *out, size_t max)
{
    struct api_request *req = arg;

    api_park_unlist(req);
    if (req->abandoned || req->conn->hung_up || req->server->abandon_done)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    req->live_until_ns = POD_NEVER;
    ptrdiff_t size = req->live(req, out, max);
    if (size > 0) {
        req->body_bytes = at + (uint64_t)size;
        return (ssize_t)size;
    }
    if (size == 0)
        return live_sleep(req);
    return size == API_LIVE_END ? MHD_CONTENT_READER_END_OF_STREAM
                                : MHD_CONTENT_READER_END_WITH_ERROR;
}

void api_reply_live(struct api_request *req, int status, const char *type,
                    api_live_fn *fill)
{
    req->live = fill;
    api_reply_reader(req, status, type, MHD_SIZE_UNKNOWN, LIVE_BLOCK_BYTES,
                     live_read);
}
