// SPDX-License-Identifier: Apache-2.0
// Waiting for operations of the pod: the pod_waiters of a request.
#ifndef POD_API_WATCH_H
#define POD_API_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/park.h"
#include "core/pod/pod.h"

// Whether something is waited for.
enum api_watch {
    API_WATCH_NOT,     // nothing to wait for: it has changed or ended, or is
                       // unknown: read it
    API_WATCH_WAITING, // registered: read, then park
    API_WATCH_NO_MEMORY,
};

// Registers the request for the end of an operation (revision 0) or for its
// next change after `revision`. Any number of operations may be watched; all
// are let go when the request ends.
enum api_watch api_watch(struct api_request *req, struct pod *pod,
                         uint64_t number, uint64_t revision);
// The same until a host is drained, is no longer cordoned, or is removed.
enum api_watch api_watch_drained(struct api_request *req, struct pod *pod,
                                 uint32_t host);
// How many watched operations have not woken yet.
size_t api_watch_pending(const struct api_request *req);
// With `all` the request is woken only when no watched operation is pending;
// else, the default, by each.
void api_watch_all(struct api_request *req, bool all);

// options.on_notify of the server; `pod` is on_notify_arg.
void api_watch_collect(struct api_server *server, void *pod);

#endif
