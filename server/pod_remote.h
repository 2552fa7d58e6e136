// SPDX-License-Identifier: Apache-2.0
// A pod of workers elsewhere: --pod grpc+pod://h1:8470,h2:8470
//
// The addresses, in the order of the hosts' numbers, are "host", "host:port",
// "[::1]:port" or "unix:PATH"; without a port it is 8470.
#ifndef POD_SERVER_POD_REMOTE_H
#define POD_SERVER_POD_REMOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "core/pod/pod.h"
#include "proto/grpc_driver.h"

enum {
    POD_REMOTE_MAX_HOSTS = 1024,
    POD_REMOTE_MAX_ADDRESS = 300,
    POD_REMOTE_ADDRESS_BYTES = 320, // with a port and its end
};

struct pod_remote {
    char **addresses; // as given to the drivers
    size_t count;
    bool trusts_order; // of plain workers; set after parsing
};

// Whether --pod names workers elsewhere.
bool pod_remote_is(const char *text);
// An error names the faulty address. On success free with pod_remote_fini.
enum pod_code pod_remote_parse(const char *text, struct pod_remote *out_remote,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_remote_fini(struct pod_remote *remote);
// The first address that is not on this machine, or NULL.
const char *pod_remote_beyond_loopback(const struct pod_remote *remote);

// PEM files; all NULL: plain text.
struct pod_remote_tls {
    const char *ca;
    const char *cert;
    const char *key;
    bool insecure; // plain text may leave this machine
};

// What the hosts of a pod of workers share; outlives the pod.
struct pod_workers;

// Makes the hosts and adds them to the pod. *out_workers, which may be set when
// it fails, is freed with pod_workers_free, after the pod. BAD_PARAMETER: a
// file cannot be read, or certificates that make no sense.
enum pod_code pod_workers_new(const struct pod_remote *remote,
                              const struct pod_remote_tls *tls, struct pod *pod,
                              struct pod_workers **out_workers,
                              struct pod_err *err)
    __attribute__((warn_unused_result));
// Adds a worker to the running pod (an api_join_fn of `arg`, the struct
// pod_workers). Errors: MISSING_MEMBER (no address), BAD_TEXT (it is malformed,
// or beyond loopback without TLS), those of pod_join_host.
enum pod_code pod_workers_join(void *arg, const char *address,
                               uint32_t *out_host, struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_workers_free(struct pod_workers *workers); // NULL is allowed

#endif
