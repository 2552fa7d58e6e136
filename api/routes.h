// SPDX-License-Identifier: Apache-2.0
// The REST resources of a pod, wired to the HTTP layer.
#ifndef POD_API_ROUTES_H
#define POD_API_ROUTES_H

#include "api/server.h"
#include "core/pod/pod.h"

// Adds a host to the pod; `address` NULL: none was given. May take its time; is
// not called from the server's loop. Errors name their place in the body.
typedef enum pod_code api_join_fn(void *arg, const char *address,
                                  uint32_t *out_host, struct pod_err *err);

// What handlers work on. Must outlive the server.
struct api_app {
    struct pod *pod;
    // Shown to users as limits; the engine has its own copy. Defaults: 100,000
    // and 24 h.
    uint64_t history_count;
    int64_t history_age_ns;
    api_join_fn *join; // NULL: no hosts can be added
    void *join_arg;
    unsigned traces;       // being made, by the server's loop
    struct api_feed *feed; // of the server's loop; NULL while nobody watches
};

void api_app_init(struct api_app *app, struct pod *pod);
// Sets the members of the options that make a server serve this pod: routes,
// staging budget, app, and on_notify. The pod's options.notify must call
// api_server_notify.
void api_app_setup(struct api_app *app, struct api_server_options *options);

#endif
